#include "internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"

/* What is read or written in one go: a TLS record's worth, times a few. */
enum { IO_STEP = 64 * 1024, READS_PER_ROUND = 16, DEFAULT_CONNECT_MS = 20000 };

typedef enum conn_state {
    CONNECTING, /* the TCP connection is being made */
    HANDSHAKE,  /* TLS */
    READY,
} conn_state;

struct box_conn {
    box_list link; /* channel->conns */
    box_channel *channel;
    conn_state state;
    int fd;
    uint32_t asked; /* epoll events asked for */
    box_tls *tls;   /* NULL: clear */
    box_h2 *h2;
    box_buf out; /* clear: to be sent; TLS: plaintext on its way into tls */
    struct addrinfo *addresses, *next;
    box_time connect_by;
    box_error last; /* why the last address did not work */
    box_error failure;
    bool busy; /* inside box_h2, which must not be entered again */
};

static int fail_connect(box_conn *conn, int sys_errno, box_error *err)
{
    const box_target *t = &conn->channel->target;
    (void)box_fail(err, BOX_RUNTIME_UNAVAILABLE, "cannot connect to %s: %s",
                   t->kind == BOX_TARGET_UNIX ? t->path : t->authority, strerror(sys_errno));
    err->sys_errno = sys_errno;
    return -1;
}

/* --- events of the HTTP/2 core -------------------------------------------------------------------
 */

static void on_headers(void *owner, box_h2_stream *s, const box_metadata *metadata)
{
    (void)owner;
    box_client_call_headers(box_h2_stream_owner(s), metadata);
}

static void on_message(void *owner, box_h2_stream *s, const uint8_t *data, size_t len)
{
    (void)owner;
    box_client_call_message(box_h2_stream_owner(s), data, len);
}

static void on_writable(void *owner, box_h2_stream *s)
{
    (void)owner;
    box_client_call_writable(box_h2_stream_owner(s));
}

static void on_closed(void *owner, box_h2_stream *s, const box_error *why,
                      const box_metadata *trailers)
{
    box_conn *conn = owner;
    box_client_call *call = box_h2_stream_owner(s);
    if (call == NULL)
        return;
    call->stream = NULL;
    call->conn = NULL;
    bool lost = conn->failure.reason != BOX_NONE && trailers == NULL;
    box_client_call_done(call, lost ? &conn->failure : why, trailers);
}

static void on_goaway(void *owner)
{
    box_conn *conn = owner;
    if (conn->channel->current == conn)
        conn->channel->current = NULL;
}

static const box_h2_events h2_events = {
    .headers = on_headers,
    .message = on_message,
    .writable = on_writable,
    .closed = on_closed,
    .goaway = on_goaway,
};

/* --- life ----------------------------------------------------------------------------------------
 */

static void watch(box_conn *conn, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = conn};
    if (conn->fd < 0 || conn->asked == events)
        return;
    int op = conn->asked == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    if (epoll_ctl(conn->channel->epoll, op, conn->fd, &e) == 0)
        conn->asked = events;
}

static int open_socket(box_conn *conn, int family, const struct sockaddr *address, socklen_t len,
                       box_error *err)
{
    conn->fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (conn->fd < 0)
        return box_fail_errno(err, "open a socket");
    int one = 1;
    if (family != AF_UNIX)
        (void)setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &one,
                         sizeof one); /* only slower without */
    conn->asked = 0;
    if (connect(conn->fd, address, len) == 0 || errno == EINPROGRESS) {
        watch(conn, EPOLLIN | EPOLLOUT);
        return 0;
    }
    int saved = errno;
    box_closep(&conn->fd);
    return fail_connect(conn, saved, err);
}

/* The next address that at least begins to connect. */
static int try_next(box_conn *conn, box_error *err)
{
    box_closep(&conn->fd);
    while (conn->next != NULL) {
        const struct addrinfo *a = conn->next;
        conn->next = a->ai_next;
        if (open_socket(conn, a->ai_family, a->ai_addr, a->ai_addrlen, &conn->last) == 0)
            return 0;
    }
    *err = conn->last;
    return -1;
}

static int connect_dns(box_conn *conn, box_error *err)
{
    const box_target *t = &conn->channel->target;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    int rc = getaddrinfo(t->host, t->port, &hints, &conn->addresses);
    if (rc != 0)
        return box_fail(err, BOX_RUNTIME_UNAVAILABLE, "cannot resolve %s: %s", t->host,
                        gai_strerror(rc));
    conn->next = conn->addresses;
    return try_next(conn, err);
}

static int connect_unix(box_conn *conn, box_error *err)
{
    const char *path = conn->channel->target.path;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return box_fail(err, BOX_VALIDATION, "the socket's path is longer than %zu bytes",
                        sizeof address.sun_path - 1);
    memcpy(address.sun_path, path, strlen(path));
    return open_socket(conn, AF_UNIX, (struct sockaddr *)&address, sizeof address, err);
}

static int connect_spawned(box_conn *conn, box_error *err)
{
    conn->fd = box_take_fd(&conn->channel->spawned);
    if (conn->fd < 0)
        return box_fail(err, BOX_RUNTIME_UNAVAILABLE, "the private boxd has ended");
    watch(conn, EPOLLIN | EPOLLOUT);
    return 0;
}

static int start_protocols(box_conn *conn, box_error *err)
{
    box_channel *c = conn->channel;
    if (c->tls != NULL) {
        const char *name = c->server_name != NULL ? c->server_name : c->target.host;
        if (box_tls_new(c->tls, name, &conn->tls, err) < 0)
            return -1;
    }
    box_h2_config config = {
        .scheme = c->tls != NULL ? "https" : "http",
        .authority = c->server_name != NULL ? c->server_name : c->target.authority,
        .user_agent = "grpc-c-box/0.1.0",
        .max_message_bytes = c->max_message_bytes,
    };
    conn->h2 = box_h2_new(&config, &h2_events, conn);
    return 0;
}

int box_conn_new(box_channel *c, box_conn **out, box_error *err)
{
    box_conn *conn = box_alloc(sizeof *conn);
    conn->channel = c;
    conn->fd = -1;
    uint32_t ms = c->connect_timeout_ms != 0 ? c->connect_timeout_ms : DEFAULT_CONNECT_MS;
    conn->connect_by = box_time_add(box_now(), ms * BOX_MS);
    (void)box_fail(&conn->last, BOX_RUNTIME_UNAVAILABLE, "%s has no address", c->target.authority);
    box_list_append(&c->conns, &conn->link);
    int rc = c->target.kind == BOX_TARGET_DNS    ? connect_dns(conn, err)
             : c->target.kind == BOX_TARGET_UNIX ? connect_unix(conn, err)
                                                 : connect_spawned(conn, err);
    if (rc == 0)
        rc = start_protocols(conn, err);
    if (rc < 0) {
        box_conn_free(conn, err);
        return -1;
    }
    *out = conn;
    return 0;
}

void box_conn_free(box_conn *conn, const box_error *why)
{
    box_channel *c = conn->channel;
    if (c->current == conn)
        c->current = NULL;
    assert(!conn->busy);
    conn->failure = *why;
    if (conn->h2 != NULL)
        box_h2_free(conn->h2);
    box_tls_free(conn->tls);
    box_buf_done(&conn->out);
    if (conn->addresses != NULL)
        freeaddrinfo(conn->addresses);
    box_closep(&conn->fd); /* also leaves the epoll set: nobody else has the socket */
    box_list_remove(&conn->link);
    free(conn);
}

void box_conn_free_all(box_channel *c, const box_error *why)
{
    while (!box_list_empty(&c->conns))
        box_conn_free(BOX_CONTAINER(c->conns.next, box_conn, link), why);
}

box_h2 *box_conn_h2(box_conn *conn)
{
    return conn->h2;
}

/* --- input and output ----------------------------------------------------------------------------
 */

/* Bytes that wait for the socket. */
static box_bytes unsent(const box_conn *conn)
{
    if (conn->tls != NULL)
        return box_tls_pending(conn->tls);
    return (box_bytes){box_buf_len(&conn->out) > 0 ? box_buf_data(&conn->out) : NULL,
                       box_buf_len(&conn->out)};
}

/* Asks HTTP/2 for more to send once the last is gone. */
static int fill(box_conn *conn, box_error *err)
{
    if (conn->state != READY || unsent(conn).len > 0 || !box_h2_wants_send(conn->h2))
        return 0;
    conn->busy = true;
    int rc = box_h2_send(conn->h2, &conn->out, IO_STEP, err);
    conn->busy = false;
    if (rc < 0 || conn->tls == NULL)
        return rc;
    rc = box_tls_write(conn->tls, box_buf_data(&conn->out), box_buf_len(&conn->out), err);
    box_buf_clear(&conn->out);
    return rc;
}

static int write_out(box_conn *conn, box_error *err)
{
    for (;;) {
        if (fill(conn, err) < 0)
            return -1;
        box_bytes bytes = unsent(conn);
        if (bytes.len == 0)
            return 0;
        ssize_t n = send(conn->fd, bytes.data, bytes.len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n < 0)
            return box_fail(err, BOX_RUNTIME_UNAVAILABLE, "the connection broke: %s",
                            strerror(errno));
        if (conn->tls != NULL)
            box_tls_consume(conn->tls, (size_t)n);
        else
            box_buf_consume(&conn->out, (size_t)n);
    }
}

static int take_plain(box_conn *conn, const uint8_t *data, size_t len, box_error *err)
{
    if (len == 0)
        return 0;
    conn->busy = true;
    int rc = box_h2_receive(conn->h2, data, len, err);
    conn->busy = false;
    return rc;
}

static int take_bytes(box_conn *conn, const uint8_t *data, size_t len, box_error *err)
{
    if (conn->tls == NULL)
        return take_plain(conn, data, len, err);
    box_buf plain = {.max_bytes = 2 * IO_STEP};
    bool closed = false;
    int rc = box_tls_receive(conn->tls, data, len, &plain, &closed, err);
    if (rc == 0 && conn->state == HANDSHAKE && box_tls_is_ready(conn->tls))
        conn->state = READY;
    if (rc == 0)
        rc = take_plain(conn, box_buf_len(&plain) > 0 ? box_buf_data(&plain) : NULL,
                        box_buf_len(&plain), err);
    box_buf_done(&plain);
    if (rc == 0 && closed)
        rc = box_fail(err, BOX_RUNTIME_UNAVAILABLE, "the server closed the connection");
    return rc;
}

static int read_in(box_conn *conn, box_error *err)
{
    uint8_t data[IO_STEP];
    for (int i = 0; i < READS_PER_ROUND; i++) {
        ssize_t n = recv(conn->fd, data, sizeof data, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n < 0)
            return box_fail(err, BOX_RUNTIME_UNAVAILABLE, "the connection broke: %s",
                            strerror(errno));
        if (n == 0)
            return box_fail(err, BOX_RUNTIME_UNAVAILABLE, "the server closed the connection");
        if (take_bytes(conn, data, (size_t)n, err) < 0)
            return -1;
    }
    return 0;
}

static int finish_connect(box_conn *conn, uint32_t events, box_error *err)
{
    int problem = 0;
    socklen_t size = sizeof problem;
    if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) == 0)
        return 0;
    if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &problem, &size) < 0)
        problem = errno;
    if (problem != 0) {
        (void)fail_connect(conn, problem, &conn->last);
        return try_next(conn, err);
    }
    conn->state = conn->tls != NULL ? HANDSHAKE : READY;
    return 0;
}

void box_conn_flush(box_conn *conn)
{
    box_error err;
    if (conn->busy)
        return; /* whoever is inside flushes afterwards */
    if (conn->state != CONNECTING && write_out(conn, &err) < 0) {
        box_conn_free(conn, &err);
        return;
    }
    bool more = conn->state == CONNECTING || unsent(conn).len > 0;
    watch(conn, more ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void box_conn_ready(box_conn *conn, uint32_t events)
{
    box_error err;
    int rc = 0;
    if (conn->state == CONNECTING)
        rc = finish_connect(conn, events, &err);
    if (rc == 0 && conn->state != CONNECTING && (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0)
        rc = read_in(conn, &err);
    if (rc < 0) {
        box_error ignored;
        if (conn->state == READY && conn->fd >= 0)
            (void)write_out(conn, &ignored); /* a GOAWAY or alert that explains it, if it can go */
        box_conn_free(conn, &err);
        return;
    }
    if (box_h2_is_done(conn->h2)) {
        (void)box_fail(&err, BOX_RUNTIME_UNAVAILABLE, "the server closed the connection");
        box_conn_free(conn, &err);
        return;
    }
    box_conn_flush(conn);
}

box_time box_conn_expire(box_channel *c, box_time now)
{
    box_time first = BOX_TIME_NEVER;
    for (box_list *at = c->conns.next; at != &c->conns;) {
        box_conn *conn = BOX_CONTAINER(at, box_conn, link);
        at = at->next;
        if (conn->state == READY)
            continue;
        if (conn->connect_by <= now) {
            box_error late;
            (void)fail_connect(conn, ETIMEDOUT, &late);
            box_conn_free(conn, &late);
        } else if (conn->connect_by < first) {
            first = conn->connect_by;
        }
    }
    return first;
}
