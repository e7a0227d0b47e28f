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

static void update_watch(connection *c)
{
    bool read = !box_list_linked(&c->handshake) &&
                (!c->blocked || c->blocked_received < BOX_BLOCKED_READ_BYTES);
    box_connection_watch(c, (read ? BOX_READABLE : 0) | (c->blocked ? BOX_WRITABLE : 0));
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
    update_watch(c);
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
    box_connection_want_flush(c); /* handshake messages, alerts */
    int rc = box_tls_receive(c->tls, data, len, plain, &closed, &err);
    note_certificate(c);
    feed_h2(c, box_buf_data(plain), box_buf_len(plain));
    if (rc < 0) {
        box_log(BOX_DEBUG, "net.tls_failed", BOX_STR("peer", c->from.address), BOX_ERR(&err));
        box_connection_handle(c, EVENT_BROKEN);
    } else if (closed) {
        box_connection_handle(c, EVENT_PEER_END);
    }
}

static size_t read_size(const connection *c)
{
    bool small = box_connection_is_stranger(c) ||
                 (c->rpc != NULL && box_h2_is_costly(box_rpc_connection_h2(c->rpc)));
    return small ? BOX_SMALL_READ_BYTES : BOX_READ_BYTES;
}

static void receive(connection *c)
{
    uint8_t *data = c->nl->read_bytes;
    ssize_t n = recv(c->fd, data, read_size(c), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        box_connection_handle(c, EVENT_PEER_END);
        return;
    }
    box_life_heard(&c->life, box_loop_now(c->nl->loop));
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

/* A handshake costs as much as a thousand frames: those that come at once wait for each other, not
 * the calls of others for all of them. */
static void queue_handshake(connection *c)
{
    net_loop *nl = c->nl;
    box_list_append(&nl->handshakes, &c->handshake);
    update_watch(c);
    if (!nl->handshake_posted)
        box_loop_post(nl->loop, box_connection_run_handshakes, nl);
    nl->handshake_posted = true;
}

void box_connection_run_handshakes(void *arg)
{
    net_loop *nl = arg;
    for (int i = 0; i < BOX_HANDSHAKES_PER_TURN && !box_list_empty(&nl->handshakes); i++) {
        connection *c = BOX_CONTAINER(nl->handshakes.next, connection, handshake);
        box_list_remove(&c->handshake);
        update_watch(c);
        receive(c);
    }
    nl->handshake_posted = !box_list_empty(&nl->handshakes);
    if (nl->handshake_posted)
        box_loop_post(nl->loop, box_connection_run_handshakes, nl);
}

static bool shakes_hands(const connection *c)
{
    return c->state == STATE_HANDSHAKE && c->tls != NULL && !box_tls_is_ready(c->tls);
}

void box_connection_on_ready(void *arg, int events)
{
    connection *c = arg;
    if ((events & BOX_READABLE) && shakes_hands(c))
        queue_handshake(c);
    else if (events & BOX_READABLE)
        receive(c);
    if ((events & BOX_WRITABLE) && c->state != STATE_CLOSED)
        flush(c);
}
