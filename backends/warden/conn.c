/* Connections of boxd instances: greeting, packets in, answers out. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/fd_room.h"
#include "base/limits.h"
#include "base/log.h"
#include "warden/internal.h"
#include "warden/request.h"

/* Packets taken from one connection before others get their turn. */
enum { READS_AT_ONCE = 16 };

static void conn_ready(box_warden *w, warden_watch *watch, uint32_t events);

int box_warden_conn_add(box_warden *w, int fd, bool private, box_error *err)
{
    warden_conn *c = box_alloc(sizeof *c);
    c->watch = (warden_watch){.fd = -1, .ready = conn_ready};
    c->serial = ++w->next_serial;
    c->private = private;
    box_list_init(&c->unsent);
    if (box_warden_watch_add(w, &c->watch, fd, EPOLLIN, err) < 0) {
        free(c);
        return -1;
    }
    box_list_append(&w->conns, &c->link);
    w->n_conns++;
    return 0;
}

static void packet_free(warden_packet *p)
{
    for (size_t i = 0; i < p->n_fds; i++)
        box_closep(&p->fds[i]);
    free(p);
}

void box_warden_conn_free(box_warden *w, warden_conn *c)
{
    box_warden_watch_close(w, &c->watch);
    for (box_list *at = c->unsent.next; at != &c->unsent;) {
        warden_packet *p = BOX_CONTAINER(at, warden_packet, link);
        at = at->next;
        packet_free(p);
    }
    box_list_remove(&c->link);
    w->n_conns--;
    free(c);
}

void box_warden_conns_tidy(box_warden *w)
{
    for (box_list *at = w->conns.next; at != &w->conns;) {
        warden_conn *c = BOX_CONTAINER(at, warden_conn, link);
        at = at->next;
        if (!c->broken)
            continue;
        box_log(BOX_INFO, "boxd.gone", BOX_INT("connection", c->serial));
        box_warden_jobs_forget(w, c->serial);
        if (c->private && !w->removing) {
            w->removing = true;
            w->remove_by = box_time_add(box_now(), BOX_WARDEN_REMOVE_SECONDS * BOX_SECOND);
            box_warden_sandboxes_end_all(w);
            box_warden_standbys_end(w);
        }
        box_warden_standbys_forget(w, c->serial);
        box_warden_conn_free(w, c);
    }
}

/* The listener stays readable while nobody can be accepted: watched, it would wake the loop again
 * and again. */
static void rest(box_warden *w)
{
    box_log(BOX_WARN, "boxd.accept_rests", BOX_STR("reason", "out of descriptors"));
    w->accept_rests = true;
    box_warden_watch_events(w, &w->listener, 0);
}

void box_warden_conns_accept_again(box_warden *w)
{
    if (w->accept_rests)
        box_warden_watch_events(w, &w->listener, EPOLLIN);
    w->accept_rests = false;
}

void box_warden_conn_accept(box_warden *w, warden_watch *watch, uint32_t events)
{
    (void)events;
    BOX_AUTO(box_closep) int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            rest(w);
        return; /* else it is gone again */
    }
    struct ucred peer = {0};
    socklen_t len = sizeof peer;
    box_error err = {0};
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 ||
        (peer.uid != w->peer_uid && peer.uid != 0)) {
        box_log(BOX_WARN, "boxd.refused", BOX_INT("uid", peer.uid));
        return;
    }
    if (w->n_conns >= BOX_WARDEN_MAX_CONNECTIONS) {
        box_log(BOX_WARN, "boxd.too_many", BOX_INT("max", BOX_WARDEN_MAX_CONNECTIONS));
        return;
    }
    if (box_warden_conn_add(w, fd, false, &err) < 0)
        box_log(BOX_WARN, "boxd.refused", BOX_ERR(&err));
    else
        (void)box_take_fd(&fd);
}

static warden_conn *conn_by_serial(const box_warden *w, uint64_t serial)
{
    for (box_list *at = w->conns.next; at != &w->conns; at = at->next) {
        warden_conn *c = BOX_CONTAINER(at, warden_conn, link);
        if (c->serial == serial && !c->broken)
            return c;
    }
    return NULL;
}

static warden_conn *conn_by_instance(const box_warden *w, const box_uid *instance)
{
    for (box_list *at = w->conns.next; at != &w->conns; at = at->next) {
        warden_conn *c = BOX_CONTAINER(at, warden_conn, link);
        if (c->greeted && !c->broken && box_uid_equal(&c->instance, instance))
            return c;
    }
    return NULL;
}

/* --- sending ---------------------------------------------------------------------------------- */

static warden_packet *packet_new(const void *data, size_t len, int *fds, size_t n_fds)
{
    warden_packet *p = box_alloc(sizeof *p);
    memcpy(p->data, data, len);
    p->len = len;
    while (p->n_fds < n_fds) {
        p->fds[p->n_fds] = box_take_fd(&fds[p->n_fds]);
        p->n_fds++;
    }
    return p;
}

/* Sends, or keeps it until boxd reads; a boxd that reads nothing is dropped. */
static void conn_send(box_warden *w, warden_conn *c, box_warden_type type, uint64_t id,
                      const void *body, size_t size, int *fds, size_t n_fds)
{
    uint8_t packet[BOX_WARDEN_PACKET_BYTES];
    const box_warden_header header = {
        .type = type, .size = (uint32_t)(sizeof header + size), .id = id};
    memcpy(packet, &header, sizeof header);
    memcpy(packet + sizeof header, body, size);
    box_error err;
    if (c->broken)
        return;
    if (box_list_empty(&c->unsent)) {
        if (box_fd_send(c->watch.fd, packet, header.size, fds, n_fds, &err) == 0)
            return;
        c->broken = err.sys_errno != EAGAIN && err.sys_errno != ETOOMANYREFS;
    }
    c->broken = c->broken || c->n_unsent >= BOX_WARDEN_MAX_UNSENT;
    if (c->broken)
        return;
    warden_packet *kept = packet_new(packet, header.size, fds, n_fds);
    box_list_append(&c->unsent, &kept->link);
    c->n_unsent++;
    box_warden_watch_events(w, &c->watch, EPOLLIN | EPOLLOUT);
}

static void conn_flush(box_warden *w, warden_conn *c)
{
    while (!box_list_empty(&c->unsent)) {
        warden_packet *p = BOX_CONTAINER(c->unsent.next, warden_packet, link);
        box_error err;
        if (box_fd_send(c->watch.fd, p->data, p->len, p->fds, p->n_fds, &err) < 0) {
            c->broken = err.sys_errno != EAGAIN && err.sys_errno != ETOOMANYREFS;
            if (err.sys_errno == ETOOMANYREFS) { /* it could be written to all the while */
                box_warden_watch_events(w, &c->watch, EPOLLIN);
                w->flush_at = box_time_add(box_now(), BOX_FLIGHT_RETRY_MS * BOX_MS);
            }
            return;
        }
        box_list_remove(&p->link);
        assert(c->unsent.next != &p->link);
        c->n_unsent--;
        packet_free(p);
    }
    box_warden_watch_events(w, &c->watch, EPOLLIN);
}

void box_warden_conns_flush_again(box_warden *w)
{
    if (w->flush_at == 0 || box_now() < w->flush_at)
        return;
    w->flush_at = 0;
    for (box_list *at = w->conns.next; at != &w->conns; at = at->next) {
        warden_conn *c = BOX_CONTAINER(at, warden_conn, link);
        if (!c->broken && !box_list_empty(&c->unsent))
            conn_flush(w, c);
    }
}

void box_warden_conn_answer(box_warden *w, uint64_t serial, uint64_t id,
                            const box_warden_answer *answer, int *fds, size_t n_fds)
{
    warden_conn *c = conn_by_serial(w, serial);
    if (c != NULL)
        conn_send(w, c, BOX_WARDEN_ANSWER, id, answer, sizeof *answer, fds, n_fds);
}

void box_warden_conn_answer_error(box_warden *w, uint64_t serial, uint64_t id,
                                  const box_error *error)
{
    const box_warden_answer answer = {.error = *error};
    box_warden_conn_answer(w, serial, id, &answer, NULL, 0);
}

void box_warden_conn_exited(box_warden *w, const box_uid *instance, const box_warden_exited *exited)
{
    warden_conn *c = conn_by_instance(w, instance);
    if (c != NULL)
        conn_send(w, c, BOX_WARDEN_EXITED, 0, exited, sizeof *exited, NULL, 0);
}

uint64_t box_warden_conn_ready(box_warden *w, const box_uid *uid)
{
    const box_warden_target target = {.uid = *uid};
    for (box_list *at = w->conns.prev; at != &w->conns; at = at->prev) {
        warden_conn *c = BOX_CONTAINER(at, warden_conn, link);
        if (!c->greeted || c->broken)
            continue;
        conn_send(w, c, BOX_WARDEN_PREPARED, 0, &target, sizeof target, NULL, 0);
        return c->serial;
    }
    return 0;
}

/* --- receiving -------------------------------------------------------------------------------- */

static int greet(box_warden *w, warden_conn *c, const box_warden_hello *hello, box_error *err)
{
    box_warden_hello reply = {.version = BOX_WARDEN_VERSION,
                              .instance = hello->instance,
                              .guarantees = w->guarantees,
                              .isolation = w->ops->isolation};
    (void)snprintf(reply.backend, sizeof reply.backend, "%s", w->ops->name);
    memcpy(reply.detail, w->detail, sizeof reply.detail);
    if (c->greeted)
        return box_fail(err, BOX_PROTOCOL, "a second HELLO");
    if (box_warden_hello_check(hello, w->ops->name, &reply.error) == 0 && w->backend == NULL)
        reply.error = w->open_error;
    bool refused = reply.error.reason != BOX_NONE;
    warden_conn *older = conn_by_instance(w, &hello->instance);
    if (!refused && older != NULL)
        older->broken = true; /* boxd came back before its old socket was seen to close */
    conn_send(w, c, BOX_WARDEN_HELLO, 0, &reply, sizeof reply, NULL, 0);
    if (refused) {
        *err = reply.error;
        return -1;
    }
    c->greeted = w->to_announce = true;
    c->instance = hello->instance;
    box_log(BOX_INFO, "boxd.connected", BOX_INT("connection", c->serial));
    return 0;
}

/* -1 ends the connection: the packet broke the protocol, or the greeting was refused. `lost`: it
 * came with a descriptor that the warden could not have. */
static int handle(box_warden *w, warden_conn *c, const void *packet, size_t len, int *fd, bool lost,
                  box_error *err)
{
    box_warden_header header;
    const void *body;
    if (box_warden_packet_parse(packet, len, &header, &body, err) < 0)
        return -1;
    if (header.type == BOX_WARDEN_HELLO) {
        box_warden_hello hello;
        memcpy(&hello, body, sizeof hello);
        return greet(w, c, &hello, err);
    }
    if (!c->greeted || ((*fd >= 0 || lost) && header.type != BOX_WARDEN_CREATE))
        return box_fail(err, BOX_PROTOCOL, "a request before HELLO, or a descriptor too many");
    box_error refused = {0};
    if ((lost ? box_warden_out_of_descriptors(w, &refused)
              : box_warden_conn_ask(w, c, &header, body, fd, &refused)) < 0)
        box_warden_conn_answer_error(w, c->serial, header.id, &refused);
    return 0;
}

/* False when there is nothing more to read now. */
static bool read_one(box_warden *w, warden_conn *c)
{
    uint8_t packet[BOX_WARDEN_PACKET_BYTES];
    int fds[1] = {-1};
    size_t n_fds = 1;
    bool lost;
    box_error err;
    ssize_t n =
        box_fd_receive_or_lose(c->watch.fd, packet, sizeof packet, fds, &n_fds, &lost, &err);
    if (n < 0 && err.sys_errno == EAGAIN)
        return false;
    BOX_AUTO(box_closep) int fd = n > 0 && n_fds > 0 ? fds[0] : -1;
    if (n > 0 && handle(w, c, packet, (size_t)n, &fd, lost, &err) == 0)
        return true;
    c->broken = true;
    if (n != 0)
        box_log(BOX_WARN, "boxd.dropped", BOX_INT("connection", c->serial), BOX_ERR(&err));
    return false;
}

static void conn_ready(box_warden *w, warden_watch *watch, uint32_t events)
{
    warden_conn *c = BOX_CONTAINER(watch, warden_conn, watch);
    if ((events & EPOLLOUT) != 0)
        conn_flush(w, c);
    for (int i = 0; i < READS_AT_ONCE && !c->broken && read_one(w, c); i++)
        continue;
}
