#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "net/internal.h"

static void note_origin(const struct sockaddr_storage *from, bool is_unix, net_origin *out)
{
    enum { PREFIX_BYTES = 8 /* one customer's IPv6 network */ };
    *out = (net_origin){.is_unix = is_unix};
    char host[INET6_ADDRSTRLEN] = "?";
    if (from->ss_family == AF_INET) {
        const struct sockaddr_in *a = (const struct sockaddr_in *)from;
        inet_ntop(AF_INET, &a->sin_addr, host, sizeof host);
        (void)snprintf(out->address, sizeof out->address, "%s:%u", host, ntohs(a->sin_port));
        memcpy(out->key, &a->sin_addr, sizeof a->sin_addr);
        out->key_len = sizeof a->sin_addr;
    } else if (from->ss_family == AF_INET6) {
        const struct sockaddr_in6 *a = (const struct sockaddr_in6 *)from;
        inet_ntop(AF_INET6, &a->sin6_addr, host, sizeof host);
        (void)snprintf(out->address, sizeof out->address, "[%s]:%u", host, ntohs(a->sin6_port));
        memcpy(out->key, &a->sin6_addr, PREFIX_BYTES);
        out->key_len = PREFIX_BYTES;
    } else {
        (void)snprintf(out->address, sizeof out->address, "unix");
    }
}

static void set_accepting(net_loop *nl, bool on)
{
    for (unsigned i = 0; i < nl->net->n_listeners; i++) {
        if (nl->accepts[i].watch != NULL)
            box_watch_set(nl->accepts[i].watch, on ? BOX_READABLE : 0);
    }
}

/* Out of descriptors or connections: waiting clients stay in the kernel's queue meanwhile. */
static void rest(net_loop *nl, const char *reason)
{
    if (!nl->accept_rested)
        box_log(BOX_WARN, "net.accept_rests", BOX_STR("reason", reason));
    nl->accept_rested = true;
    set_accepting(nl, false);
    box_timer_set(nl->accept_retry, box_now() + BOX_ACCEPT_RETRY_MS * BOX_MS);
}

static void on_accept_retry(void *arg)
{
    set_accepting(arg, true);
}

static bool is_held(net_loop *nl, const net_origin *from)
{
    return from->key_len > 0 &&
           box_penalty_holds(nl->net->penalty, from->key, from->key_len, box_now());
}

/* Unread, and without a word: that is what makes it cheap. */
static void refuse(int fd, atomic_uint_fast64_t *count)
{
    const struct linger at_once = {.l_onoff = 1};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once); /* only cheaper */
    close(fd);
    atomic_fetch_add(count, 1);
}

/* A place among those of its address, if need be one of a stranger's from there. */
static bool take_place(net_loop *nl, const net_origin *from)
{
    box_tally *peers = nl->net->peers;
    if (from->key_len == 0 || box_tally_add(peers, from->key, from->key_len))
        return true;
    return box_connection_evict_stranger(nl, from) &&
           box_tally_add(peers, from->key, from->key_len);
}

static bool accept_one(net_loop *nl, const box_listener *l)
{
    if (atomic_load(&nl->net->connections_open) >= nl->net->config.limits.connections &&
        !box_connection_evict_stranger(nl, NULL)) {
        rest(nl, "too many connections");
        return false;
    }
    struct sockaddr_storage from = {0};
    socklen_t len = sizeof from;
    int fd = accept4(l->fd, (struct sockaddr *)&from, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            rest(nl, "out of descriptors");
        /* EAGAIN: another loop was faster. What else there is concerns that connection only
         * (accept(2), Error handling). */
        return errno == ECONNABORTED || errno == EINTR;
    }
    nl->accept_rested = false;
    net_origin origin;
    note_origin(&from, l->unix_path != NULL, &origin);
    if (is_held(nl, &origin)) {
        refuse(fd, &nl->net->refused_held);
    } else if (take_place(nl, &origin)) {
        box_connection_start(nl, fd, &origin, l->tls, NULL, NULL);
    } else {
        box_log(BOX_DEBUG, "net.peer_full", BOX_STR("peer", origin.address));
        refuse(fd, &nl->net->refused_peer);
    }
    return true;
}

static void on_acceptable(void *arg, int events)
{
    (void)events;
    const net_accept *a = arg;
    for (int i = 0; i < BOX_ACCEPT_BATCH && accept_one(a->nl, a->listener); i++)
        ;
}

void box_accept_start(net_loop *nl)
{
    nl->accept_retry = box_timer_new(nl->loop, on_accept_retry, nl);
    for (unsigned i = 0; i < nl->net->n_listeners; i++) {
        net_accept *a = &nl->accepts[i];
        *a = (net_accept){.nl = nl, .listener = &nl->net->listeners[i]};
        box_error err = {0};
        if (box_watch_new(nl->loop, a->listener->fd, on_acceptable, a, &a->watch, &err) < 0)
            box_log(BOX_ERROR, "net.listen_failed", BOX_ERR(&err));
    }
    set_accepting(nl, true);
}

void box_accept_stop(net_loop *nl)
{
    for (unsigned i = 0; i < nl->net->n_listeners; i++)
        box_watch_free(box_take(nl->accepts[i].watch));
    box_timer_free(box_take(nl->accept_retry));
}
