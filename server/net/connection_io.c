#include <errno.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/log.h"
#include "net/connection.h"

/* HTTP/2 begins with 24 bytes of preface and a SETTINGS frame, whose header has 9 (RFC 9113, 3.4).
 */
enum { PREFACE_BYTES = 24 + 9 };

/* --- out -------------------------------------------------------------------------------------- */

void box_connection_want_flush(connection *c)
{
    if (c->state != STATE_CLOSED)
        box_loop_later(c->nl->loop, &c->flush);
}

void box_connection_watch(connection *c, int events)
{
    if (events != c->watched)
        box_watch_set(c->watch, events);
    c->watched = events;
}

void box_connection_look_again(connection *c)
{
    bool away = c->step != NULL;
    bool read = !away && !box_list_linked(&c->turn.link) &&
                (!c->blocked || c->blocked_received < BOX_BLOCKED_READ_BYTES);
    bool write = !away && c->blocked;
    box_connection_watch(c, (read ? BOX_READABLE : 0) | (write ? BOX_WRITABLE : 0));
}

/* Encrypts what c->out or, when that is empty, HTTP/2 has. The plain bytes stay nowhere, so an idle
 * connection needs no buffer for them. */
static int seal(connection *c, box_error *err)
{
    box_buf *plain = box_buf_len(&c->out) > 0 ? &c->out : &c->nl->to_seal;
    box_error unused;
    if (plain != &c->out && c->rpc != NULL &&
        box_h2_send(box_rpc_connection_h2(c->rpc), plain, BOX_SEND_BYTES, err) < 0) {
        /* Its last words, for who closes the connection. */
        BOX_IGNORE(box_buf_add(&c->out, box_buf_data(plain), box_buf_len(plain), &unused));
        box_buf_clear(plain);
        return -1;
    }
    int rc = box_buf_len(plain) > 0
                 ? box_tls_write(c->tls, box_buf_data(plain), box_buf_len(plain), err)
                 : 0;
    box_buf_clear(plain);
    return rc;
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
        if (seal(c, err) < 0)
            return -1;
        *out = box_tls_pending(c->tls);
        return 0;
    }
    if (box_buf_len(&c->out) == 0 && c->rpc != NULL &&
        box_h2_send(box_rpc_connection_h2(c->rpc), &c->out, BOX_SEND_BYTES, err) < 0)
        return -1;
    *out = (box_bytes){box_buf_data(&c->out), box_buf_len(&c->out)};
    return 0;
}

static void consume(connection *c, size_t len)
{
    if (c->tls != NULL)
        box_tls_consume(c->tls, len);
    else
        box_buf_consume(&c->out, len);
}

void box_connection_set_blocked(connection *c, bool blocked, bool progress)
{
    bool restart = progress || !c->blocked; /* the limits of a blocked peer begin anew */
    bool changed = blocked != c->blocked || (blocked && restart);
    if (blocked && restart)
        c->life.stall_at = box_now() + BOX_WRITE_STALL_SECONDS * BOX_SECOND;
    else if (!blocked)
        c->life.stall_at = BOX_TIME_NEVER;
    if (restart || !blocked)
        c->blocked_received = 0;
    c->blocked = blocked;
    if (changed && c->state == STATE_OPEN)
        box_connection_set_timer(c);
    box_connection_look_again(c);
}

typedef enum sent { SENT_ALL, SENT_SOME, SENT_FAILED } sent;

static sent send_bytes(connection *c, size_t *total, box_error *err)
{
    for (*total = 0; *total < BOX_FLUSH_BYTES;) {
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
        *total += (size_t)n;
    }
    return SENT_SOME; /* the others' turn */
}

/* What costs too much is worth a line, though not one for each of a thousand. */
static void note_broken(connection *c, const box_error *err)
{
    net_loop *nl = c->nl;
    box_time now = box_loop_now(nl->loop);
    if (err->sys_errno == 0) /* else it has just gone */
        box_connection_end_badly(c);
    if (err->reason != BOX_RATE_LIMIT) {
        box_log(BOX_DEBUG, "net.broken", BOX_STR("peer", c->from.address), BOX_ERR(err));
    } else if (now < nl->abuse_at) {
        nl->abuse_unsaid++;
    } else {
        box_log(BOX_WARN, "net.abuse", BOX_STR("peer", c->from.address), BOX_ERR(err),
                BOX_INT("others", nl->abuse_unsaid));
        nl->abuse_unsaid = 0;
        nl->abuse_at = now + BOX_SECOND;
    }
}

static void flush(connection *c)
{
    box_error err = {0};
    if (c->step != NULL)
        return; /* its end wants another */
    size_t total;
    switch (send_bytes(c, &total, &err)) {
    case SENT_FAILED:
        note_broken(c, &err);
        box_connection_handle(c, EVENT_BROKEN);
        return;
    case SENT_SOME:
        box_connection_set_blocked(c, true, total > 0);
        return;
    case SENT_ALL:
        box_connection_set_blocked(c, false, true);
        if (total > 0 && c->rpc != NULL && box_rpc_connection_is_quick(c->rpc))
            box_loop_expect(c->nl->loop); /* the next call of who makes one after another */
        if (c->rpc != NULL && box_h2_is_done(box_rpc_connection_h2(c->rpc)))
            box_connection_handle(c, EVENT_DONE);
        else
            box_connection_handle(c, EVENT_FLUSHED);
    }
}

void box_connection_on_flush(box_later *later)
{
    flush(BOX_CONTAINER(later, connection, flush));
}

void box_connection_on_output(void *arg)
{
    box_connection_want_flush(arg);
}

/* --- in --------------------------------------------------------------------------------------- */

static void feed_h2(connection *c, const uint8_t *data, size_t len)
{
    box_error err = {0};
    if (len == 0 || c->rpc == NULL)
        return;
    box_connection_want_flush(c);
    box_h2_set_time(box_rpc_connection_h2(c->rpc), box_loop_now(c->nl->loop));
    if (box_h2_receive(box_rpc_connection_h2(c->rpc), data, len, &err) < 0) {
        note_broken(c, &err);
        box_connection_handle(c, EVENT_BROKEN);
        return;
    }
    c->received += len;
    if (c->state == STATE_HANDSHAKE && c->received >= PREFACE_BYTES)
        box_connection_handle(c, EVENT_PREFACE);
    box_connection_want_sweep(c);
}

/* Of a peer that is new and nobody knows, or that costs much, little at a time. */
static bool is_suspect(const connection *c)
{
    return (c->received < BOX_STRANGER_BYTES && box_connection_is_stranger(c)) ||
           (c->rpc != NULL && box_h2_is_costly(box_rpc_connection_h2(c->rpc)));
}

static bool is_shaking_hands(const connection *c)
{
    return c->state == STATE_HANDSHAKE && c->tls != NULL && !box_tls_is_ready(c->tls);
}

static void want_turn(connection *c)
{
    if (box_list_linked(&c->turn.link))
        return;
    if (is_shaking_hands(c) && atomic_load(&c->nl->waiting) >= BOX_HANDSHAKES_ON_LOOP) {
        box_handshake_wait(c);
        return;
    }
    atomic_fetch_add(&c->nl->waiting, 1);
    box_loop_spare(c->nl->loop, &c->turn);
    box_connection_look_again(c);
}

/* Feeds as much as others may wait for; returns how much that was. */
static size_t feed_piece(connection *c, const uint8_t *data, size_t len)
{
    box_time end = box_now() + BOX_PIECE_US * BOX_US;
    size_t at = 0;
    do {
        size_t n = len - at;
        size_t max = is_suspect(c) ? BOX_PIECE_BYTES : BOX_SMALL_READ_BYTES;
        if (n > max)
            n = max;
        feed_h2(c, data + at, n);
        at += n;
    } while (at < len && (!is_suspect(c) || box_now() < end));
    return at;
}

static void feed(connection *c, const uint8_t *data, size_t len)
{
    box_error err = {0};
    size_t n = feed_piece(c, data, len);
    if (n == len || c->rpc == NULL)
        return;
    if (box_buf_add(&c->rest, data + n, len - n, &err) < 0)
        box_connection_handle(c, EVENT_BROKEN);
    else
        want_turn(c);
}

/* What waited; nothing new was read meanwhile. */
static void feed_rest(connection *c)
{
    size_t n = feed_piece(c, box_buf_data(&c->rest), box_buf_len(&c->rest));
    if (c->rpc == NULL)
        return;
    box_buf_consume(&c->rest, n);
    if (box_buf_len(&c->rest) == 0)
        box_buf_done(&c->rest);
    else
        want_turn(c);
}

static void note_certificate(connection *c)
{
    if (c->certificate != NULL || !box_tls_is_ready(c->tls))
        return;
    c->certificate = box_strdup_null(box_tls_peer_name(c->tls));
    c->peer.certificate = c->certificate;
}

void box_connection_took(connection *c, int rc, bool closed, const box_buf *plain,
                         const box_error *err)
{
    box_connection_want_flush(c); /* handshake messages, alerts */
    note_certificate(c);
    feed(c, box_buf_data(plain), box_buf_len(plain));
    if (rc < 0) {
        box_connection_end_badly(c);
        box_log(BOX_DEBUG, "net.tls_failed", BOX_STR("peer", c->from.address), BOX_ERR(err));
        box_connection_handle(c, EVENT_BROKEN);
    } else if (closed) {
        box_connection_handle(c, EVENT_PEER_END);
    }
}

static void feed_tls(connection *c, const uint8_t *data, size_t len)
{
    box_buf *plain = &c->nl->plain;
    box_error err = {0};
    bool closed = false;
    box_buf_clear(plain);
    int rc = box_tls_receive(c->tls, data, len, plain, &closed, &err);
    box_connection_took(c, rc, closed, plain, &err);
}

ssize_t box_connection_read(connection *c, uint8_t *data, size_t size)
{
    ssize_t n = recv(c->fd, data, size, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return -1;
    if (n <= 0) {
        box_connection_handle(c, EVENT_PEER_END);
        return n;
    }
    c->spoke = true;
    box_life_heard(&c->life, box_loop_now(c->nl->loop));
    return n;
}

static void receive(connection *c)
{
    uint8_t *data = c->nl->read_bytes;
    ssize_t n = box_connection_read(c, data, is_suspect(c) ? BOX_SMALL_READ_BYTES : BOX_READ_BYTES);
    if (n <= 0)
        return;
    if (c->blocked) {
        c->blocked_received += (size_t)n;
        box_connection_look_again(c);
    }
    if (c->state == STATE_CLOSING || c->state == STATE_LINGERING)
        return; /* dropped */
    if (c->tls != NULL)
        feed_tls(c, data, (size_t)n);
    else
        feed(c, data, (size_t)n);
}

void box_connection_cancel_turn(connection *c)
{
    if (box_list_linked(&c->turn.link))
        atomic_fetch_sub(&c->nl->waiting, 1);
    box_later_cancel(&c->turn);
}

void box_connection_on_turn(box_later *later)
{
    connection *c = BOX_CONTAINER(later, connection, turn);
    atomic_fetch_sub(&c->nl->waiting, 1);
    if (box_buf_len(&c->rest) > 0)
        feed_rest(c);
    else
        receive(c);
    if (c->state != STATE_CLOSED)
        box_connection_look_again(c);
}

/* A step of a handshake costs as much as a hundred frames: those that come at once wait for each
 * other, not the calls of others for all of them. So do floods. */
static bool is_costly(const connection *c)
{
    if (is_shaking_hands(c))
        return true;
    return c->rpc != NULL && box_h2_is_costly(box_rpc_connection_h2(c->rpc));
}

void box_connection_on_ready(void *arg, int events)
{
    connection *c = arg;
    if (c->step != NULL)
        return;
    if ((events & BOX_READABLE) && is_costly(c))
        want_turn(c);
    else if (events & BOX_READABLE)
        receive(c);
    if ((events & BOX_WRITABLE) && c->state != STATE_CLOSED)
        flush(c);
}
