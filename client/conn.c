#include "conn.h"

#include <assert.h>
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/fd.h"

/* What is read or written in one go: a TLS record's worth, times a few. */
enum { IO_STEP = BOX_CLIENT_INPUT_BYTES, READS_PER_ROUND = 16 };

/* --- events of the HTTP/2 core -----------------------------------------------------------------
 */

/* A server that answers may be asked sooner than one that does not: the channel has to know. */
static void answered(box_conn *conn)
{
    conn->has_answered = true;
    if (conn->is_answering)
        return;
    conn->is_answering = true;
    box_channel_note_expiry(conn->channel, box_conn_alive_by(conn));
}

static void on_headers(void *owner, box_h2_stream *s, const box_metadata *metadata)
{
    answered(owner);
    box_attempt_commit(box_h2_stream_owner(s));
    box_client_call_headers(box_h2_stream_owner(s), metadata);
}

static void on_message(void *owner, box_h2_stream *s, const uint8_t *data, size_t len)
{
    answered(owner);
    box_client_call_message(box_h2_stream_owner(s), data, len, box_h2_was_compressed(s));
}

static void on_writable(void *owner, box_h2_stream *s)
{
    (void)owner;
    box_client_call_writable(box_h2_stream_owner(s));
}

/* A server may notice the deadline first, by its own clock (grpc-conformance.md, 84). */
static bool is_late(const box_client_call *call, const box_error *why)
{
    return call->deadline != 0 && why->reason == BOX_CANCELLED && call->deadline <= box_now();
}

/* A lost connection is explained by what happened to the socket; but a status that came before
 * counts. */
static void on_closed(void *owner, box_h2_stream *s, const box_error *why,
                      const box_metadata *trailers)
{
    box_conn *conn = owner;
    box_client_call *call = box_h2_stream_owner(s);
    box_error late;
    bool lost = conn->failure.reason != BOX_NONE && why->reason == BOX_RUNTIME_UNAVAILABLE &&
                trailers == NULL;
    if (!lost && !box_h2_was_refused(s) && !call->is_cancelled)
        answered(conn);
    if (lost)
        why = &conn->failure;
    if (is_late(call, why)) {
        (void)box_fail(&late, BOX_DEADLINE, "the deadline passed before the server answered");
        why = &late;
    }
    if (!box_attempt_again(call, s, why, trailers))
        box_client_call_done(call, why, trailers);
}

/* No further calls; what runs goes on. */
static void leave_lane(box_conn *conn, const box_error *why)
{
    box_lane *lane = conn->lane;
    conn->lane = NULL;
    if (lane != NULL)
        box_lane_lost(lane, conn->has_answered, why);
}

static void on_goaway(void *owner)
{
    box_conn *conn = owner;
    if (box_h2_pinged_too_often(conn->h2) && conn->lane != NULL)
        box_conn_ask_less(conn);
    leave_lane(conn, NULL);
}

static const box_h2_events h2_events = {
    .headers = on_headers,
    .message = on_message,
    .writable = on_writable,
    .closed = on_closed,
    .goaway = on_goaway,
};

void box_conn_start_h2(box_conn *conn)
{
    const box_channel *c = conn->channel;
    const box_h2_config config = {
        .scheme = c->tls != NULL ? "https" : "http",
        .authority = c->server_name != NULL ? c->server_name : c->target.authority,
        .user_agent = c->user_agent,
        .max_message_bytes = c->max_message_bytes,
    };
    conn->h2 = box_h2_new(&config, &h2_events, conn);
}

/* Bytes that wait for the socket. */
static box_bytes unsent(const box_conn *conn)
{
    if (conn->tls != NULL)
        return box_tls_pending(conn->tls);
    size_t len = box_buf_len(&conn->out);
    return (box_bytes){len > 0 ? box_buf_data(&conn->out) : NULL, len};
}

/* Asks HTTP/2 for more to send once the last is gone. */
static int fill(box_conn *conn, box_error *err)
{
    if (conn->state < BOX_CONN_SILENT || unsent(conn).len > 0 || !box_h2_wants_send(conn->h2))
        return 0;
    conn->is_busy = true;
    int rc = box_h2_send(conn->h2, &conn->out, IO_STEP, err);
    conn->is_busy = false;
    if (conn->tls == NULL || box_buf_len(&conn->out) == 0)
        return rc;
    box_error failure;
    int written =
        box_tls_write(conn->tls, box_buf_data(&conn->out), box_buf_len(&conn->out), &failure);
    box_buf_clear(&conn->out);
    if (rc == 0 && written < 0)
        *err = failure;
    return rc < 0 ? rc : written;
}

/* --- life --------------------------------------------------------------------------------------
 */

/* What can go at once of what explains the end: a GOAWAY, an alert, TLS's own end (without it the
 * server could not tell the end from an attack; grpc-conformance.md, 138). */
static void say_goodbye(box_conn *conn)
{
    box_error ignored;
    if (conn->state <= BOX_CONN_CONNECTING)
        return;
    BOX_IGNORE(fill(conn, &ignored));
    if (conn->tls != NULL)
        box_tls_close(conn->tls);
    box_bytes bytes = unsent(conn);
    ssize_t n = bytes.len > 0 ? send(conn->fd, bytes.data, bytes.len, MSG_NOSIGNAL) : 0;
    (void)n;
}

void box_conn_free(box_conn *conn, const box_error *why)
{
    assert(!conn->is_busy);
    conn->failure = *why; /* why may be the lane's */
    leave_lane(conn, conn->state < BOX_CONN_READY ? &conn->failure : NULL);
    say_goodbye(conn);
    box_h2_free(conn->h2);
    box_tls_free(conn->tls);
    box_buf_done(&conn->out);
    box_addresses_done(&conn->addresses);
    box_closep(&conn->fd); /* also leaves the epoll set: nobody else has the socket */
    box_list_remove(&conn->link);
    free(conn);
}

box_h2 *box_conn_h2(box_conn *conn)
{
    return conn->h2;
}

void box_conn_retire(box_conn *conn)
{
    box_error why;
    leave_lane(conn, NULL);
    if (box_h2_stream_count(conn->h2) > 0)
        return;
    (void)box_fail(&why, BOX_RUNTIME_UNAVAILABLE, "the connection is not used any more");
    box_conn_free(conn, &why);
}

bool box_conn_is_ready(const box_conn *conn)
{
    return conn->state == BOX_CONN_READY;
}

bool box_conn_takes(const box_conn *conn, bool only_ready)
{
    return conn->state >= (only_ready ? BOX_CONN_READY : BOX_CONN_SILENT) &&
           box_h2_can_start(conn->h2);
}

/* sys_errno 0: the peer closed it. A private boxd has said why it ended on its stderr, ours. */
static int lost(const box_conn *conn, int sys_errno, box_error *err)
{
    if (conn->channel->target.kind == BOX_TARGET_SPAWN)
        return box_fail(err, BOX_RUNTIME_UNAVAILABLE, "the private boxd has ended%s",
                        conn->state < BOX_CONN_READY ? " before it answered" : "");
    if (sys_errno == 0)
        return box_fail(err, BOX_RUNTIME_UNAVAILABLE, "the server closed the connection");
    return box_fail(err, BOX_RUNTIME_UNAVAILABLE, "the connection broke: %s", strerror(sys_errno));
}

/* --- output ------------------------------------------------------------------------------------
 */

static int read_in(box_conn *conn, bool all, box_error *err);

/* What the peer said before it hung up explains more than that it did. */
static int lost_writing(box_conn *conn, int sys_errno, box_error *err)
{
    return read_in(conn, true, err) < 0 ? -1 : lost(conn, sys_errno, err);
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
            return lost_writing(conn, errno, err);
        if (conn->tls != NULL)
            box_tls_consume(conn->tls, (size_t)n);
        else
            box_buf_consume(&conn->out, (size_t)n);
    }
}

static bool is_over(const box_conn *conn)
{
    return box_h2_is_done(conn->h2) || (conn->lane == NULL && box_h2_stream_count(conn->h2) == 0);
}

static int flush(box_conn *conn, box_error *err)
{
    if (conn->state > BOX_CONN_CONNECTING && write_out(conn, err) < 0)
        return -1;
    if (is_over(conn))
        return box_fail(err, BOX_RUNTIME_UNAVAILABLE, "the server closed the connection");
    bool more = conn->state == BOX_CONN_CONNECTING || unsent(conn).len > 0;
    return box_conn_watch(conn, more ? EPOLLIN | EPOLLOUT : EPOLLIN, err);
}

/* Sends what can be sent now, asks epoll for the rest. May free it. */
static void send_or_end(box_conn *conn)
{
    box_error err;
    if (flush(conn, &err) < 0)
        box_conn_free(conn, &err);
}

/* --- input -------------------------------------------------------------------------------------
 */

static int take_plain(box_conn *conn, const uint8_t *data, size_t len, box_error *err)
{
    if (len == 0)
        return 0;
    conn->is_busy = true;
    int rc = box_h2_receive(conn->h2, data, len, err);
    conn->is_busy = false;
    conn->channel->look_again = true;
    if (rc == 0 && conn->state == BOX_CONN_SILENT && box_h2_is_established(conn->h2)) {
        conn->state = BOX_CONN_READY;
        box_channel_note_expiry(conn->channel, box_conn_alive_by(conn));
        if (conn->lane != NULL)
            box_lane_ready(conn->lane);
    }
    return rc;
}

void box_conn_open(box_conn *conn)
{
    conn->state = BOX_CONN_SILENT;
    conn->attempt_by = BOX_TIME_NEVER;
    conn->channel->look_again = true;
}

static int take_bytes(box_conn *conn, const uint8_t *data, size_t len, box_error *err)
{
    if (conn->tls == NULL)
        return take_plain(conn, data, len, err);
    BOX_AUTO(box_buf_done)
    box_buf plain = {.max_bytes = 2 * IO_STEP};
    bool closed = false;
    if (box_tls_receive(conn->tls, data, len, &plain, &closed, err) < 0)
        return -1;
    if (conn->state == BOX_CONN_HANDSHAKE && box_tls_is_ready(conn->tls))
        box_conn_open(conn);
    size_t plain_len = box_buf_len(&plain);
    if (take_plain(conn, plain_len > 0 ? box_buf_data(&plain) : NULL, plain_len, err) < 0)
        return -1;
    return closed ? box_fail(err, BOX_RUNTIME_UNAVAILABLE, "the server closed the connection") : 0;
}

/* all: until nothing is there, also when that costs one more system call. */
static int read_in(box_conn *conn, bool all, box_error *err)
{
    uint8_t *data = conn->channel->input;
    for (int i = 0; i < READS_PER_ROUND; i++) {
        ssize_t n = recv(conn->fd, data, BOX_CLIENT_INPUT_BYTES, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n < 0)
            return lost(conn, errno, err);
        if (n == 0)
            return lost(conn, 0, err);
        box_conn_heard(conn);
        if (take_bytes(conn, data, (size_t)n, err) < 0)
            return -1;
        if (!all && n < BOX_CLIENT_INPUT_BYTES)
            return 0; /* most likely all; epoll says when there is more */
    }
    return 0;
}

/* Both directions, as far as they go now. */
static int progress(box_conn *conn, uint32_t events, box_error *err)
{
    if (conn->state == BOX_CONN_CONNECTING && box_conn_connected(conn, events, err) < 0)
        return -1;
    if (conn->state != BOX_CONN_CONNECTING && (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0 &&
        read_in(conn, false, err) < 0)
        return -1;
    return flush(conn, err);
}

void box_conns_ready(box_channel *c, uint64_t id, uint32_t events)
{
    for (box_list *at = c->conns.next; at != &c->conns; at = at->next) {
        box_conn *conn = BOX_CONTAINER(at, box_conn, link);
        if (conn->id != id)
            continue;
        box_error err;
        if (progress(conn, events, &err) < 0)
            box_conn_free(conn, &err);
        return;
    }
}

/* --- all of a channel's ------------------------------------------------------------------------
 */

void box_conns_flush(box_channel *c)
{
    for (box_list *at = c->conns.next; at != &c->conns;) {
        box_conn *conn = BOX_CONTAINER(at, box_conn, link);
        at = at->next; /* freeing one leaves the others where they are */
        send_or_end(conn);
    }
}

void box_conns_close(box_channel *c, const box_error *why)
{
    for (box_list *at = c->conns.next; at != &c->conns;) {
        box_conn *conn = BOX_CONTAINER(at, box_conn, link);
        at = at->next;
        box_conn_free(conn, why);
    }
}

/* Only where nothing runs: else somebody reads, or will. */
void box_conn_probe(box_conn *conn)
{
    box_error err;
    if (conn->state != BOX_CONN_READY || box_h2_stream_count(conn->h2) > 0)
        return;
    if (read_in(conn, true, &err) < 0 || flush(conn, &err) < 0)
        box_conn_free(conn, &err);
}

/* The next address has its turn, or the connection ends: false. */
static bool expire(box_conn *conn, box_time now)
{
    box_error late;
    if (conn->state == BOX_CONN_READY) {
        if (box_conn_check_alive(conn, now, &late) == 0)
            return true;
        box_conn_free(conn, &late);
        return false;
    }
    if (conn->connect_by > now && box_conn_try_next(conn, &late) == 0)
        return true;
    if (conn->connect_by <= now)
        (void)box_conn_fail_connect(conn, ETIMEDOUT, &late);
    box_conn_free(conn, &late);
    return false;
}

static box_time conn_expiry(const box_conn *conn)
{
    if (conn->state == BOX_CONN_READY)
        return box_conn_alive_by(conn);
    return conn->attempt_by < conn->connect_by ? conn->attempt_by : conn->connect_by;
}

box_time box_conns_expire(box_channel *c, box_time now)
{
    box_time first = BOX_TIME_NEVER;
    for (box_list *at = c->conns.next; at != &c->conns;) {
        box_conn *conn = BOX_CONTAINER(at, box_conn, link);
        at = at->next;
        if (conn_expiry(conn) <= now && !expire(conn, now))
            continue;
        if (conn_expiry(conn) < first)
            first = conn_expiry(conn);
    }
    return first;
}
