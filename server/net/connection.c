/* One connection: bytes between its socket, TLS and HTTP/2, and the states of its life. */
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "net/internal.h"

/* HTTP/2 begins with 24 bytes of preface and a SETTINGS frame, whose header has 9 (RFC 9113, 3.4).
 */
enum { PREFACE_BYTES = 24 + 9, ADDRESS_MAX = 64 };

typedef enum connection_state {
    STATE_HANDSHAKE, /* until TLS and the HTTP/2 preface are through */
    STATE_OPEN,
    STATE_CLOSING,   /* HTTP/2 is over: its last bytes are sent */
    STATE_LINGERING, /* all is sent: the peer's last bytes are read and dropped */
    STATE_CLOSED,    /* freed at the end of the turn */
    STATE_COUNT,
} connection_state;

struct connection {
    box_list link; /* net_loop.connections until closed */
    net_loop *nl;
    connection_state state;
    int fd;
    box_watch *watch;
    int watched;             /* events asked of watch */
    box_timer *timer;        /* handshake, stalled write, closing: whichever the state has */
    box_tls *tls;            /* NULL = clear text */
    box_rpc_connection *rpc; /* NULL once CLOSING */
    box_peer peer;
    char address[ADDRESS_MAX];
    char *certificate;
    box_buf out;             /* taken from HTTP/2: to be sent, or to be encrypted */
    size_t received;         /* plain bytes, while in handshake */
    size_t blocked_received; /* bytes read since the socket took no more */
    bool blocked;            /* the socket took no more */
    box_later flush;
    void (*closed)(void *arg);
    void *closed_arg;
};

static void handle(connection *c, connection_event event);

/* --- out ---------------------------------------------------------------------------------------
 */

static void want_flush(connection *c)
{
    if (c->state != STATE_CLOSED)
        box_loop_later(c->nl->loop, &c->flush);
}

static void watch(connection *c, int events)
{
    if (events != c->watched)
        box_watch_set(c->watch, events);
    c->watched = events;
}

static void update_watch(connection *c)
{
    bool read = !c->blocked || c->blocked_received < BOX_BLOCKED_READ_BYTES;
    watch(c, (read ? BOX_READABLE : 0) | (c->blocked ? BOX_WRITABLE : 0));
}

/* What can be sent now; more is taken from HTTP/2 only when nothing waits, so that at most one
 * piece of each connection lies here. */
static int next_bytes(connection *c, box_bytes *out, box_error *err)
{
    *out = (box_bytes){0};
    if (c->tls != NULL) {
        *out = box_tls_pending(c->tls);
        if (out->len > 0 || !box_tls_is_ready(c->tls))
            return 0;
    }
    if (box_buf_len(&c->out) == 0 && c->rpc != NULL &&
        box_h2_send(box_rpc_connection_h2(c->rpc), &c->out, BOX_SEND_BYTES, err) < 0)
        return -1;
    *out = (box_bytes){box_buf_data(&c->out), box_buf_len(&c->out)};
    if (c->tls == NULL || out->len == 0)
        return 0;
    if (box_tls_write(c->tls, out->data, out->len, err) < 0)
        return -1;
    box_buf_clear(&c->out);
    *out = box_tls_pending(c->tls);
    return 0;
}

static void consume(connection *c, size_t len)
{
    if (c->tls != NULL)
        box_tls_consume(c->tls, len);
    else
        box_buf_consume(&c->out, len);
}

static void set_blocked(connection *c, bool blocked)
{
    if (blocked && c->state == STATE_OPEN)
        box_timer_set(c->timer, box_now() + BOX_WRITE_STALL_SECONDS * BOX_SECOND);
    else if (!blocked && c->blocked && c->state == STATE_OPEN)
        box_timer_set(c->timer, BOX_TIME_NEVER);
    if (!blocked)
        c->blocked_received = 0;
    c->blocked = blocked;
    update_watch(c);
}

typedef enum sent { SENT_ALL, SENT_SOME, SENT_FAILED } sent;

static sent send_bytes(connection *c, box_error *err)
{
    for (size_t total = 0; total < BOX_FLUSH_BYTES;) {
        box_bytes b;
        if (next_bytes(c, &b, err) < 0)
            return SENT_FAILED;
        if (b.len == 0)
            return SENT_ALL;
        ssize_t n = send(c->fd, b.data, b.len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return SENT_SOME;
        if (n < 0) {
            (void)box_fail_errno(err, "send");
            return SENT_FAILED;
        }
        consume(c, (size_t)n);
        total += (size_t)n;
    }
    return SENT_SOME; /* the others' turn */
}

static void flush(connection *c)
{
    box_error err = {0};
    switch (send_bytes(c, &err)) {
    case SENT_FAILED:
        handle(c, EVENT_BROKEN);
        return;
    case SENT_SOME:
        set_blocked(c, true);
        return;
    case SENT_ALL:
        set_blocked(c, false);
        if (c->rpc != NULL && box_h2_is_done(box_rpc_connection_h2(c->rpc)))
            handle(c, EVENT_DONE);
        else
            handle(c, EVENT_FLUSHED);
    }
}

static void on_flush(box_later *later)
{
    flush(BOX_CONTAINER(later, connection, flush));
}

static void on_output(void *arg)
{
    want_flush(arg);
}

/* --- in ----------------------------------------------------------------------------------------
 */

static void feed_h2(connection *c, const uint8_t *data, size_t len)
{
    box_error err = {0};
    if (len == 0 || c->rpc == NULL)
        return;
    want_flush(c);
    if (box_h2_receive(box_rpc_connection_h2(c->rpc), data, len, &err) < 0) {
        box_log(BOX_DEBUG, "net.broken", BOX_STR("peer", c->address), BOX_ERR(&err));
        handle(c, EVENT_BROKEN);
        return;
    }
    c->received += len;
    if (c->state == STATE_HANDSHAKE && c->received >= PREFACE_BYTES)
        handle(c, EVENT_PREFACE);
}

static void note_certificate(connection *c)
{
    if (c->certificate != NULL || !box_tls_is_ready(c->tls))
        return;
    c->certificate = box_strdup_null(box_tls_peer_name(c->tls));
    c->peer.certificate = c->certificate;
}

static void feed_tls(connection *c, const uint8_t *data, size_t len)
{
    box_buf *plain = &c->nl->plain;
    box_error err = {0};
    bool closed = false;
    box_buf_clear(plain);
    want_flush(c); /* handshake messages, alerts */
    int rc = box_tls_receive(c->tls, data, len, plain, &closed, &err);
    note_certificate(c);
    feed_h2(c, box_buf_data(plain), box_buf_len(plain));
    if (rc < 0) {
        box_log(BOX_DEBUG, "net.tls_failed", BOX_STR("peer", c->address), BOX_ERR(&err));
        handle(c, EVENT_BROKEN);
    } else if (closed) {
        handle(c, EVENT_PEER_END);
    }
}

static void receive(connection *c)
{
    uint8_t *data = c->nl->read_bytes;
    ssize_t n = recv(c->fd, data, BOX_READ_BYTES, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        handle(c, EVENT_PEER_END);
        return;
    }
    if (c->blocked) {
        c->blocked_received += (size_t)n;
        update_watch(c);
    }
    if (c->state == STATE_CLOSING || c->state == STATE_LINGERING)
        return; /* dropped */
    if (c->tls != NULL)
        feed_tls(c, data, (size_t)n);
    else
        feed_h2(c, data, (size_t)n);
}

static void on_ready(void *arg, int events)
{
    connection *c = arg;
    if (events & BOX_READABLE)
        receive(c);
    if ((events & BOX_WRITABLE) && c->state != STATE_CLOSED)
        flush(c);
}

static void on_timer(void *arg)
{
    handle(arg, EVENT_TIMEOUT);
}

/* --- states ------------------------------------------------------------------------------------
 */

static void ignore(connection *c)
{
    (void)c;
}

static void drain(connection *c)
{
    box_h2_drain(box_rpc_connection_h2(c->rpc));
    want_flush(c);
}

static void opened(connection *c)
{
    c->state = STATE_OPEN;
    box_timer_set(c->timer, BOX_TIME_NEVER);
    if (c->blocked)
        set_blocked(c, true); /* now its own limit counts */
    if (c->nl->draining)
        drain(c);
}

static void connection_free(void *arg)
{
    connection *c = arg;
    box_tls_free(c->tls);
    box_buf_done(&c->out);
    free(c->certificate);
    free(c);
}

static void reap(void *arg)
{
    connection *c = arg;
    net_loop *nl = c->nl;
    box_list_remove(&c->link);
    connection_free(c);
    net_loop_check_drained(nl);
}

/* The connection stays in its loop's list, so that a drain waits for it, until the end of the turn:
 * callers up the stack still hold it. */
static void close_now(connection *c)
{
    c->state = STATE_CLOSED;
    box_later_cancel(&c->flush);
    box_watch_free(box_take(c->watch));
    box_timer_free(box_take(c->timer));
    box_closep(&c->fd);
    box_rpc_connection_end(box_take(c->rpc));
    atomic_fetch_sub(&c->nl->net->connections_open, 1);
    if (c->closed != NULL)
        c->closed(c->closed_arg);
    box_loop_post(c->nl->loop, reap, c);
}

/* HTTP/2 is over, for good or ill: takes its last bytes (a GOAWAY comes first), ends the calls. */
static void begin_closing(connection *c)
{
    box_error err = {0};
    c->state = STATE_CLOSING;
    box_timer_set(c->timer, box_now() + BOX_LINGER_SECONDS * BOX_SECOND);
    if (c->tls == NULL || box_tls_is_ready(c->tls)) {
        if (box_h2_send(box_rpc_connection_h2(c->rpc), &c->out, BOX_SEND_BYTES, &err) < 0)
            box_log(BOX_DEBUG, "net.goaway_lost", BOX_STR("peer", c->address), BOX_ERR(&err));
    }
    box_rpc_connection_end(box_take(c->rpc));
    want_flush(c);
}

static void say_goodbye(connection *c)
{
    if (c->tls != NULL) {
        box_tls_close(c->tls);
        box_bytes alert = box_tls_pending(c->tls);
        ssize_t n = send(c->fd, alert.data, alert.len, MSG_NOSIGNAL);
        box_tls_consume(c->tls, n > 0 ? (size_t)n : 0); /* else the peer sees an end without it */
    }
    c->state = STATE_LINGERING;
    box_timer_set(c->timer, box_now() + BOX_LINGER_SECONDS * BOX_SECOND);
    if (shutdown(c->fd, SHUT_WR) < 0)
        close_now(c); /* the peer has gone */
}

static void drain_finish(connection *c)
{
    box_h2_drain_finish(box_rpc_connection_h2(c->rpc));
    want_flush(c);
}

static void cancel_calls(connection *c)
{
    box_error why = {0};
    (void)box_fail(&why, BOX_SHUTTING_DOWN, "the server is stopping");
    box_rpc_connection_end_calls(c->rpc, &why);
    want_flush(c);
}

typedef void (*event_handler)(connection *c);

static const event_handler transitions[STATE_COUNT][EVENT_COUNT] = {
    [STATE_HANDSHAKE] =
        {
            [EVENT_PREFACE] = opened,
            [EVENT_BROKEN] = begin_closing,
            [EVENT_PEER_END] = close_now,
            [EVENT_TIMEOUT] = close_now,
            [EVENT_FLUSHED] = ignore,
            [EVENT_DONE] = begin_closing,
            [EVENT_DRAIN] = ignore, /* once it is open */
            [EVENT_DRAIN_FINISH] = close_now,
            [EVENT_CANCEL] = close_now,
            [EVENT_FORCE] = close_now,
        },
    [STATE_OPEN] =
        {
            [EVENT_PREFACE] = ignore,
            [EVENT_BROKEN] = begin_closing,
            [EVENT_PEER_END] = close_now,
            [EVENT_TIMEOUT] = close_now, /* the peer takes nothing */
            [EVENT_FLUSHED] = ignore,
            [EVENT_DONE] = begin_closing,
            [EVENT_DRAIN] = drain,
            [EVENT_DRAIN_FINISH] = drain_finish,
            [EVENT_CANCEL] = cancel_calls,
            [EVENT_FORCE] = close_now,
        },
    [STATE_CLOSING] =
        {
            [EVENT_PREFACE] = ignore,
            [EVENT_BROKEN] = close_now,
            [EVENT_PEER_END] = close_now,
            [EVENT_TIMEOUT] = close_now,
            [EVENT_FLUSHED] = say_goodbye,
            [EVENT_DONE] = ignore,
            [EVENT_DRAIN] = ignore,
            [EVENT_DRAIN_FINISH] = ignore,
            [EVENT_CANCEL] = ignore,
            [EVENT_FORCE] = close_now,
        },
    [STATE_LINGERING] =
        {
            [EVENT_PREFACE] = ignore,
            [EVENT_BROKEN] = close_now,
            [EVENT_PEER_END] = close_now,
            [EVENT_TIMEOUT] = close_now,
            [EVENT_FLUSHED] = ignore,
            [EVENT_DONE] = ignore,
            [EVENT_DRAIN] = ignore,
            [EVENT_DRAIN_FINISH] = ignore,
            [EVENT_CANCEL] = ignore,
            [EVENT_FORCE] = close_now,
        },
    [STATE_CLOSED] =
        {
            [EVENT_PREFACE] = ignore,
            [EVENT_BROKEN] = ignore,
            [EVENT_PEER_END] = ignore,
            [EVENT_TIMEOUT] = ignore,
            [EVENT_FLUSHED] = ignore,
            [EVENT_DONE] = ignore,
            [EVENT_DRAIN] = ignore,
            [EVENT_DRAIN_FINISH] = ignore,
            [EVENT_CANCEL] = ignore,
            [EVENT_FORCE] = ignore,
        },
};

static void handle(connection *c, connection_event event)
{
    transitions[c->state][event](c);
}

void connection_reap_all(net_loop *nl)
{
    while (!box_list_empty(&nl->connections))
        reap(BOX_CONTAINER(nl->connections.next, connection, link));
}

void connection_event_all(net_loop *nl, connection_event event)
{
    /* Closing one leaves it in the list until the end of the turn. */
    for (box_list *at = nl->connections.next; at != &nl->connections; at = at->next)
        handle(BOX_CONTAINER(at, connection, link), event);
}

void connection_recheck_all(net_loop *nl)
{
    for (box_list *at = nl->connections.next; at != &nl->connections; at = at->next) {
        connection *c = BOX_CONTAINER(at, connection, link);
        if (c->rpc != NULL)
            box_rpc_connection_recheck(c->rpc);
    }
}

/* --- start -------------------------------------------------------------------------------------
 */

static void set_socket_options(int fd, bool is_unix)
{
    if (is_unix)
        return;
    /* None of these decides whether the connection works, so their failure is no failure. */
    const int on = 1;
    const unsigned stall_ms = BOX_WRITE_STALL_SECONDS * 1000;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &(int){BOX_WRITE_STALL_SECONDS}, sizeof(int));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &stall_ms, sizeof stall_ms);
}

/* Who is at the other end of a Unix socket (SO_PEERCRED, unix(7)): as of connect or socketpair. */
static int note_peer(connection *c, bool is_unix, box_error *err)
{
    c->peer = (box_peer){.is_unix = is_unix, .address = c->address};
    if (!is_unix)
        return 0;
    struct ucred cred;
    socklen_t len = sizeof cred;
    if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
        return box_fail_errno(err, "no credentials of the peer");
    c->peer.uid = cred.uid;
    return 0;
}

static int set_up(connection *c, bool is_unix, box_tls_context *tls, box_error *err)
{
    if (note_peer(c, is_unix, err) < 0)
        return -1;
    if (tls != NULL && box_tls_new(tls, NULL, &c->tls, err) < 0)
        return -1;
    return box_watch_new(c->nl->loop, c->fd, on_ready, c, &c->watch, err);
}

void connection_start(net_loop *nl, int fd, bool is_unix, const char *address, box_tls_context *tls,
                      void (*closed)(void *arg), void *arg)
{
    box_error err = {0};
    connection *c = box_alloc(sizeof *c);
    *c = (connection){.nl = nl, .fd = fd, .closed = closed, .closed_arg = arg};
    c->flush.fn = on_flush;
    snprintf(c->address, sizeof c->address, "%s", address);
    box_buf_init(&c->out, 2 * BOX_SEND_BYTES);
    if (set_up(c, is_unix, tls, &err) < 0) {
        box_log(BOX_WARN, "net.connection_failed", BOX_STR("peer", address), BOX_ERR(&err));
        box_closep(&c->fd);
        connection_free(c);
        if (closed != NULL)
            closed(arg);
        return;
    }
    set_socket_options(fd, is_unix);
    c->rpc = box_rpc_connection_new(&nl->net->rpc, nl->loop, &c->peer, on_output, c);
    c->timer = box_timer_new(nl->loop, on_timer, c);
    box_timer_set(c->timer, box_now() + BOX_HANDSHAKE_TIMEOUT_SECONDS * BOX_SECOND);
    box_list_append(&nl->connections, &c->link);
    atomic_fetch_add(&nl->net->connections_open, 1);
    atomic_fetch_add(&nl->net->connections_total, 1);
    watch(c, BOX_READABLE);
    want_flush(c); /* clear text: SETTINGS */
    if (nl->draining)
        handle(c, EVENT_FORCE);
}
