#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "conn.h"

enum {
    /* An address that does not answer must not use up the time of the one after it. */
    ATTEMPT_MS = 2000,
    /* A machine that vanished without a word is noticed, also where nobody waits for an answer. */
    KEEPALIVE_IDLE_SECONDS = 60,
    KEEPALIVE_EVERY_SECONDS = 15,
    KEEPALIVE_PROBES = 4,
};

int box_conn_fail_connect(const box_conn *conn, int sys_errno, box_error *err)
{
    const box_target *t = &conn->channel->target;
    const char *where = t->kind == BOX_TARGET_UNIX ? t->path : t->authority;
    if (conn->state == BOX_CONN_CONNECTING)
        (void)box_fail(err, BOX_RUNTIME_UNAVAILABLE, "cannot connect to %s: %s", where,
                       strerror(sys_errno));
    else
        (void)box_fail(err, BOX_RUNTIME_UNAVAILABLE, "%s takes connections and does not answer",
                       where);
    err->sys_errno = sys_errno;
    return -1;
}

int box_conn_watch(box_conn *conn, uint32_t events, box_error *err)
{
    struct epoll_event e = {.events = events, .data.u64 = conn->id};
    if (conn->asked == events)
        return 0;
    int op = conn->asked == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    if (epoll_ctl(conn->channel->epoll, op, conn->fd, &e) < 0)
        return box_fail_errno(err, "watch a connection");
    conn->asked = events;
    return 0;
}

/* Only slower, or later to notice a lost peer, without these. Data that nobody acknowledges ends
 * the connection as a PING without answer does (gRFC A18). */
static void tune(const box_conn *conn)
{
    const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_SECONDS},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_EVERY_SECONDS},
        {IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, (int)(conn->channel->keepalive_timeout_ns / BOX_MS)},
    };
    for (size_t i = 0; i < BOX_COUNT(options); i++)
        (void)setsockopt(conn->fd, options[i].level, options[i].name, &options[i].value,
                         sizeof options[i].value);
}

static int open_socket(box_conn *conn, const box_address *a, box_error *err)
{
    conn->fd = socket(a->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (conn->fd < 0)
        return box_fail_errno(err, "open a socket");
    if (a->at.ss_family != AF_UNIX)
        tune(conn);
    conn->asked = 0;
    if (connect(conn->fd, (const struct sockaddr *)(const void *)&a->at, a->len) < 0 &&
        errno != EINPROGRESS)
        return box_conn_fail_connect(conn, errno, err);
    return box_conn_watch(conn, EPOLLIN | EPOLLOUT, err);
}

static void set_attempt(box_conn *conn)
{
    conn->attempt_by = conn->next < conn->addresses.count
                           ? box_time_add(box_now(), ATTEMPT_MS * BOX_MS)
                           : BOX_TIME_NEVER;
    box_channel_note_expiry(conn->channel, conn->attempt_by);
}

int box_conn_try_next(box_conn *conn, box_error *err)
{
    box_closep(&conn->fd);
    while (conn->next < conn->addresses.count) {
        if (open_socket(conn, &conn->addresses.items[conn->next++], &conn->last) == 0) {
            set_attempt(conn);
            return 0;
        }
        box_closep(&conn->fd);
    }
    *err = conn->last;
    return -1;
}

int box_conn_connected(box_conn *conn, uint32_t events, box_error *err)
{
    int problem = 0;
    socklen_t size = sizeof problem;
    if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) == 0)
        return 0;
    if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &problem, &size) < 0)
        problem = errno;
    if (problem != 0) {
        (void)box_conn_fail_connect(conn, problem, &conn->last);
        return box_conn_try_next(conn, err);
    }
    conn->attempt_by = BOX_TIME_NEVER;
    conn->state = BOX_CONN_HANDSHAKE;
    if (conn->tls == NULL)
        box_conn_open(conn);
    return 0;
}

static int connect_spawned(box_conn *conn, box_error *err)
{
    conn->fd = box_take_fd(&conn->channel->spawned);
    if (conn->fd < 0)
        return box_fail(err, BOX_RUNTIME_UNAVAILABLE, "the private boxd has ended");
    return box_conn_watch(conn, EPOLLIN | EPOLLOUT, err);
}

static int start_tls(box_conn *conn, box_error *err)
{
    const box_channel *c = conn->channel;
    if (c->tls == NULL)
        return 0;
    const char *name = c->server_name != NULL ? c->server_name : c->target.host;
    return box_tls_new(c->tls, name, &conn->tls, err);
}

static int start_connecting(box_conn *conn, box_error *err)
{
    if (conn->channel->target.kind == BOX_TARGET_SPAWN)
        return connect_spawned(conn, err);
    return box_conn_try_next(conn, err);
}

int box_conn_new(box_lane *lane, box_conn **out, box_error *err)
{
    box_channel *c = lane->channel;
    box_conn *conn = box_alloc(sizeof *conn);
    conn->channel = c;
    conn->id = ++c->last_conn_id;
    conn->fd = -1;
    for (size_t i = 0; i < lane->addresses.count; i++)
        box_addresses_add(&conn->addresses, &lane->addresses.items[i].at,
                          lane->addresses.items[i].len);
    conn->attempt_by = BOX_TIME_NEVER;
    conn->connect_by = box_time_add(box_now(), c->connect_timeout_ms * BOX_MS);
    (void)box_fail(&conn->last, BOX_RUNTIME_UNAVAILABLE, "%s has no address", c->target.authority);
    box_list_append(&c->conns, &conn->link);
    if (start_tls(conn, err) < 0 || start_connecting(conn, err) < 0) {
        box_conn_free(conn, err);
        return -1;
    }
    conn->lane = lane;
    box_channel_note_expiry(c, conn->connect_by);
    box_conn_start_h2(conn);
    *out = conn;
    return 0;
}
