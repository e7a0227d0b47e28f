#include "net/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"

/* --- states ----------------------------------------------------------------------------------- */

static void on_timer(void *arg)
{
    box_connection_handle(arg, EVENT_TIMEOUT);
}

static void ignore(connection *c)
{
    (void)c;
}

/* Over TCP, and no call of it came with a token that is good. */
bool box_connection_is_stranger(const connection *c)
{
    if (c->peer.is_unix || c->rpc == NULL)
        return false;
    return c->state == STATE_HANDSHAKE || !box_rpc_connection_is_known(c->rpc);
}

static void drain(connection *c)
{
    box_h2_drain(box_rpc_connection_h2(c->rpc), NULL);
    box_connection_want_flush(c);
}

static void opened(connection *c)
{
    c->state = STATE_OPEN;
    box_connection_opened(c);
    if (c->nl->draining)
        drain(c);
}

static void connection_free(void *arg)
{
    connection *c = arg;
    box_tls_free(c->tls);
    box_buf_done(&c->out);
    box_buf_done(&c->rest);
    free(c->certificate);
    free(c);
}

static void reap(void *arg)
{
    connection *c = arg;
    net_loop *nl = c->nl;
    box_list_remove(&c->link);
    connection_free(c);
    box_net_loop_check_drained(nl);
}

/* The connection stays in its loop's list, so that a drain waits for it, until the end of the turn:
 * callers up the stack still hold it. */
static void close_now(connection *c)
{
    c->state = STATE_CLOSED;
    if (c->from.key_len > 0)
        box_tally_remove(c->nl->net->peers, c->from.key, c->from.key_len);
    box_later_cancel(&c->flush);
    box_connection_cancel_turn(c);
    box_handshake_leave(c);
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
void box_connection_begin_closing(connection *c)
{
    box_error err = {0};
    c->state = STATE_CLOSING;
    box_timer_set(c->timer, box_now() + BOX_LINGER_SECONDS * BOX_SECOND);
    if (c->tls == NULL || box_tls_is_ready(c->tls)) {
        /* -1 also when GOAWAY was its last word. */
        BOX_IGNORE(box_h2_send(box_rpc_connection_h2(c->rpc), &c->out, BOX_SEND_BYTES, &err));
    }
    box_rpc_connection_end(box_take(c->rpc));
    box_buf_done(&c->rest);
    box_connection_want_flush(c);
}

void box_connection_end_badly(connection *c)
{
    box_net *n = c->nl->net;
    if (c->ended_badly || c->from.key_len == 0)
        return;
    c->ended_badly = true;
    atomic_fetch_add(&n->ended_badly, 1);
    uint64_t hold_ns = box_penalty_add(n->penalty, c->from.key, c->from.key_len, box_now());
    if (hold_ns == 0)
        return;
    if (atomic_fetch_add(&n->holds, 1) == 0 || hold_ns == BOX_HOLD_SECONDS * BOX_SECOND)
        box_log(BOX_WARN, "net.held_back", BOX_STR("peer", c->from.address),
                BOX_STR("reason", "too many of its connections ended badly"));
}

/* TLS has begun: that cost us more than it cost the peer. */
static void abandon(connection *c)
{
    if (c->tls != NULL && c->spoke)
        box_connection_end_badly(c);
    close_now(c);
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
    box_connection_want_flush(c);
}

typedef void (*event_handler)(connection *c);

static const event_handler transitions[STATE_COUNT][EVENT_COUNT] = {
    [STATE_HANDSHAKE] =
        {
            [EVENT_PREFACE] = opened,
            [EVENT_BROKEN] = box_connection_begin_closing,
            [EVENT_PEER_END] = abandon,
            [EVENT_TIMEOUT] = abandon,
            [EVENT_FLUSHED] = ignore,
            [EVENT_DONE] = box_connection_begin_closing,
            [EVENT_DRAIN] = ignore, /* once it is open */
            [EVENT_DRAIN_FINISH] = close_now,
            [EVENT_CANCEL] = close_now,
            [EVENT_FORCE] = close_now,
        },
    [STATE_OPEN] =
        {
            [EVENT_PREFACE] = ignore,
            [EVENT_BROKEN] = box_connection_begin_closing,
            [EVENT_PEER_END] = close_now,
            [EVENT_TIMEOUT] = box_connection_time_passed,
            [EVENT_FLUSHED] = ignore,
            [EVENT_DONE] = box_connection_begin_closing,
            [EVENT_DRAIN] = drain,
            [EVENT_DRAIN_FINISH] = drain_finish,
            [EVENT_CANCEL] = box_connection_cancel_calls,
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

void box_connection_handle(connection *c, connection_event event)
{
    transitions[c->state][event](c);
}

void box_connection_reap_all(net_loop *nl)
{
    for (box_list *at = nl->connections.next, *next; at != &nl->connections; at = next) {
        next = at->next;
        reap(BOX_CONTAINER(at, connection, link));
    }
}

void box_connection_event_all(net_loop *nl, connection_event event)
{
    /* Closing one leaves it in the list until the end of the turn. */
    for (box_list *at = nl->connections.next; at != &nl->connections; at = at->next)
        box_connection_handle(BOX_CONTAINER(at, connection, link), event);
}

static bool is_from(const connection *c, const net_origin *from)
{
    return c->from.key_len == from->key_len && memcmp(c->from.key, from->key, from->key_len) == 0;
}

bool box_connection_evict_stranger(net_loop *nl, const net_origin *from)
{
    /* The oldest comes first: who has only just connected is left the time to say who it is. */
    for (box_list *at = nl->connections.next; at != &nl->connections; at = at->next) {
        connection *c = BOX_CONTAINER(at, connection, link);
        if (!box_connection_is_stranger(c) || (from != NULL && !is_from(c, from)))
            continue;
        box_connection_handle(c, EVENT_FORCE);
        return true;
    }
    return false;
}

void box_connection_recheck_all(net_loop *nl)
{
    for (box_list *at = nl->connections.next; at != &nl->connections; at = at->next) {
        connection *c = BOX_CONTAINER(at, connection, link);
        if (c->rpc != NULL)
            box_rpc_connection_recheck(c->rpc);
    }
}

/* --- start ------------------------------------------------------------------------------------ */

static void set_socket_options(const connection *c)
{
    int fd = c->fd;
    if (c->from.is_unix)
        return;
    /* None of these decides whether the connection works, so their failure is no failure. */
    const int on = 1;
    const uint64_t timeout_ns = c->nl->net->config.life.keepalive_timeout_ns; /* proposal A18 */
    const unsigned stall_ms =
        timeout_ns > 0 ? (unsigned)(timeout_ns / BOX_MS) : BOX_WRITE_STALL_SECONDS * 1000;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &(int){BOX_WRITE_STALL_SECONDS}, sizeof(int));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &stall_ms, sizeof stall_ms);
}

/* Who is at the other end of a Unix socket (SO_PEERCRED, unix(7)): as of connect or socketpair. */
static int note_peer(connection *c, box_error *err)
{
    bool is_unix = c->from.is_unix;
    c->peer = (box_peer){.is_unix = is_unix, .address = c->from.address};
    if (!is_unix)
        return 0;
    struct ucred cred;
    socklen_t len = sizeof cred;
    if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
        return box_fail_errno(err, "no credentials of the peer");
    c->peer.uid = cred.uid;
    return 0;
}

static int set_up(connection *c, box_tls_context *tls, box_error *err)
{
    if (note_peer(c, err) < 0)
        return -1;
    if (tls != NULL && box_tls_new(tls, NULL, &c->tls, err) < 0)
        return -1;
    return box_watch_new(c->nl->loop, c->fd, box_connection_on_ready, c, &c->watch, err);
}

void box_connection_start(net_loop *nl, int fd, const net_origin *from, box_tls_context *tls,
                          void (*closed)(void *arg), void *arg)
{
    box_error err = {0};
    connection *c = box_alloc(sizeof *c);
    *c = (connection){.nl = nl, .fd = fd, .from = *from, .closed = closed, .closed_arg = arg};
    c->flush.fn = box_connection_on_flush;
    c->turn.fn = box_connection_on_turn;
    box_buf_init(&c->out, 2 * BOX_SEND_BYTES);
    box_buf_init(&c->rest, 2 * BOX_READ_BYTES);
    if (set_up(c, tls, &err) < 0) {
        box_log(BOX_WARN, "net.connection_failed", BOX_STR("peer", from->address), BOX_ERR(&err));
        if (from->key_len > 0)
            box_tally_remove(nl->net->peers, from->key, from->key_len);
        box_closep(&c->fd);
        connection_free(c);
        if (closed != NULL)
            closed(arg);
        return;
    }
    set_socket_options(c);
    c->rpc = box_rpc_connection_new(&nl->net->rpc, nl->loop, &c->peer, box_connection_on_output, c);
    c->timer = box_timer_new(nl->loop, on_timer, c);
    box_timer_set(c->timer, box_now() + BOX_HANDSHAKE_TIMEOUT_SECONDS * BOX_SECOND);
    box_list_append(&nl->connections, &c->link);
    atomic_fetch_add(&nl->net->connections_open, 1);
    atomic_fetch_add(&nl->net->connections_total, 1);
    box_connection_watch(c, BOX_READABLE);
    box_connection_want_flush(c); /* clear text: SETTINGS */
    if (nl->draining)
        box_connection_handle(c, EVENT_FORCE);
}
