#include <assert.h>
#include <stdio.h>

#include "base/limits.h"
#include "wire/h2_internal.h"

const uint8_t box_h2_drain_ping[8] = {'b', 'o', 'x', 'd', 'r', 'a', 'i', 'n'};

/* NULL for a stream we let go of, or one that nghttp2 refuses by itself. */
static box_h2_stream *stream_of(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

/* --- frames that come ------------------------------------------------------------------------- */

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *arg)
{
    (void)session;
    box_h2 *h = arg;
    box_h2_guard_frame(h, hd);
    return h->is_broken ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    box_h2 *h = arg;
    int32_t id = frame->hd.stream_id;
    box_h2_stream *s = stream_of(session, id);
    bool is_request = h->config.server && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
    if (is_request) {
        s = box_h2_stream_new(h, id);
        (void)nghttp2_session_set_stream_user_data(session, id, s); /* it was just opened */
    } else if (h->config.server) {
        s = NULL; /* trailers of a request: nothing in them is for us */
    }
    h->receiving = s;
    box_h2_guard_block(h);
    box_h2_rules_begin(&h->rules, is_request);
    return 0;
}

static void reset_malformed(box_h2 *h, int32_t id)
{
    box_h2_check(
        h, nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, id, NGHTTP2_PROTOCOL_ERROR));
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *name,
                     nghttp2_rcbuf *value, uint8_t flags, void *arg)
{
    (void)session, (void)flags;
    box_h2 *h = arg;
    nghttp2_vec n = nghttp2_rcbuf_get_buf(name), v = nghttp2_rcbuf_get_buf(value);
    if (!box_h2_guard_field(h, n.len + v.len + H2_FIELD_OVERHEAD))
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    if (h->config.server && !box_h2_rules_field(&h->rules, n, v)) {
        reset_malformed(h, frame->hd.stream_id);
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    if (h->receiving != NULL)
        box_h2_head_field(&h->receiving->head, name, value);
    return 0;
}

/* Client: a field name or value that HTTP/2 does not allow makes the message malformed (RFC 9113,
 * 8.2.1); nghttp2 would only leave it out. */
static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame,
                             nghttp2_rcbuf *name, nghttp2_rcbuf *value, uint8_t flags, void *arg)
{
    (void)session, (void)name, (void)value, (void)flags;
    reset_malformed(arg, frame->hd.stream_id);
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

/* One slow download must not hold up small answers on the same connection: streams take turns
 * (RFC 9218, incremental), whatever the peer says about priority. */
static void take_turns(box_h2 *h, int32_t id)
{
    nghttp2_extpri pri = {.urgency = NGHTTP2_EXTPRI_DEFAULT_URGENCY, .inc = 1};
    box_h2_check(h, nghttp2_session_change_extpri_stream_priority(h->session, id, &pri, 1));
}

static void headers_came(box_h2 *h, box_h2_stream *s, const nghttp2_frame *frame)
{
    bool is_end = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (!h->config.server) {
        box_h2_head_response(s, is_end);
        return;
    }
    if (!box_h2_rules_end(&h->rules, is_end) || (s->expected_bytes > 0 && is_end)) {
        reset_malformed(h, s->id);
        return;
    }
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        s->remote_end = is_end;
        s->expected_bytes = h->rules.content_length;
        take_turns(h, s->id);
        box_h2_head_request(s);
    }
    s->remote_end |= is_end;
    if (is_end)
        box_h2_input_run(s);
}

static void data_ended(box_h2 *h, box_h2_stream *s)
{
    if (!h->config.server) {
        box_h2_head_missing(s);
        return;
    }
    if (s->expected_bytes > 0) {
        reset_malformed(h, s->id);
        return;
    }
    s->remote_end = true;
    box_h2_input_run(s);
}

static void goaway_came(box_h2 *h, const nghttp2_goaway *frame)
{
    static const char pings[] = "too_many_pings";
    h->pinged_too_often = frame->error_code == NGHTTP2_ENHANCE_YOUR_CALM &&
                          frame->opaque_data_len == sizeof pings - 1 &&
                          memcmp(frame->opaque_data, pings, sizeof pings - 1) == 0;
    if (!h->config.server)
        box_h2_blame(h, BOX_RUNTIME_UNAVAILABLE, "the server closes the connection (%s%s%.*s)",
                     nghttp2_http2_strerror(frame->error_code),
                     frame->opaque_data_len > 0 ? ": " : "",
                     (int)(frame->opaque_data_len < 80 ? frame->opaque_data_len : 80),
                     frame->opaque_data_len > 0 ? (const char *)frame->opaque_data : "");
    h->is_closing = true;
    if (h->events.goaway != NULL)
        h->events.goaway(h->owner);
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    box_h2 *h = arg;
    box_h2_stream *s = NULL;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        h->receiving = NULL;
        box_h2_guard_block_end(h);
        s = stream_of(session, frame->hd.stream_id);
        if (s != NULL)
            headers_came(h, s, frame);
        break;
    case NGHTTP2_DATA:
        s = stream_of(session, frame->hd.stream_id);
        if (s != NULL && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
            data_ended(h, s);
        break;
    case NGHTTP2_SETTINGS:
        h->is_established = true;
        break;
    case NGHTTP2_GOAWAY:
        goaway_came(h, &frame->goaway);
        break;
    case NGHTTP2_RST_STREAM:
        box_h2_guard_reset(h, 1);
        box_h2_scan_closed(h, frame->hd.stream_id, true);
        break;
    case NGHTTP2_PING:
        if ((frame->hd.flags & NGHTTP2_FLAG_ACK) == 0)
            box_h2_guard_ping(h);
        else if (h->is_draining &&
                 memcmp(frame->ping.opaque_data, box_h2_drain_ping, sizeof box_h2_drain_ping) == 0)
            box_h2_drain_finish(h);
        break;
    default:
        break;
    }
    return h->is_broken ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

/* The connection's window is given back as data comes, so that one unread stream does not stop the
 * rest (grpc-conformance.md, 97); the stream's when its owner took the message. */
static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                         size_t len, void *arg)
{
    (void)flags;
    box_h2_stream *s = stream_of(session, id);
    if (s == NULL) {
        box_h2_check(arg, nghttp2_session_consume(session, id, len));
        return 0;
    }
    box_h2_check(arg, nghttp2_session_consume_connection(session, len));
    if (s->expected_bytes >= 0) {
        s->expected_bytes -= (int64_t)len;
        if (s->expected_bytes < 0) {
            reset_malformed(arg, id);
            box_h2_input_drop(s); /* more of the frame may follow */
        }
    }
    box_h2_input_data(s, data, len);
    return 0;
}

static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int error,
                            void *arg)
{
    (void)session, (void)frame;
    box_h2 *h = arg;
    if (error != NGHTTP2_ERR_REFUSED_STREAM && error != NGHTTP2_ERR_STREAM_CLOSED &&
        frame->hd.stream_id == 0)
        box_h2_blame(h, BOX_RUNTIME_UNAVAILABLE, "the peer breaks HTTP/2: %s",
                     nghttp2_strerror(error));
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
    box_h2 *h = arg;
    box_h2_stream *s = stream_of(session, id);
    if (s == NULL)
        return 0;
    if (h->receiving == s) {
        h->receiving = NULL;
        box_h2_guard_block_end(h);
    }
    if (h->config.server && s->remote_end && s->end_sent)
        box_h2_scan_closed(h, id, false);
    box_h2_stream_gone(s, code);
    return 0;
}

/* --- frames that go --------------------------------------------------------------------------- */

static int send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head,
                     size_t length, nghttp2_data_source *source, void *arg)
{
    (void)source;
    enum { FRAME_HEAD = 9 };
    box_h2 *h = arg;
    box_h2_stream *s = stream_of(session, frame->hd.stream_id);
    if (s == NULL)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* cancelled; its reset is queued */
    if (box_buf_len(h->sink) >= h->sink_limit)
        return NGHTTP2_ERR_WOULDBLOCK;
    uint8_t *room;
    box_error err;
    if (box_buf_reserve(h->sink, FRAME_HEAD + length, &room, &err) < 0)
        return NGHTTP2_ERR_WOULDBLOCK;
    assert(length <= box_buf_len(&s->out));
    memcpy(room, head, FRAME_HEAD);
    if (length > 0)
        memcpy(room + FRAME_HEAD, box_buf_data(&s->out), length);
    box_buf_commit(h->sink, FRAME_HEAD + length);
    box_buf_consume(&s->out, length);
    if (s->was_full && box_buf_len(&s->out) < BOX_STREAM_LOW_WATER_BYTES) {
        s->was_full = false;
        s->wake = true;
        box_h2_stream_queue_work(s);
    }
    return 0;
}

static void end_went(box_h2 *h, box_h2_stream *s)
{
    s->end_sent = true;
    /* Trailers before the caller's end: it need not send the rest (grpc-conformance.md, 89). */
    if (h->config.server && !s->remote_end && !s->is_plain)
        box_h2_stream_reset(s, NGHTTP2_NO_ERROR);
}

/* Resets that say what the peer did wrong cost as much as its own (CVE-2025-8671). */
static bool is_provoked(uint32_t code)
{
    return code != NGHTTP2_NO_ERROR && code != NGHTTP2_CANCEL;
}

/* By nghttp2, whose word for it is our own text, or by us, and then the reason is known. */
static void end_was_said(box_h2 *h, const nghttp2_goaway *frame)
{
    char text[128];
    (void)snprintf(text, sizeof text, "%s: %.*s", nghttp2_http2_strerror(frame->error_code),
                   (int)frame->opaque_data_len, (const char *)frame->opaque_data);
    box_h2_kill(h, text);
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    box_h2 *h = arg;
    if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR) {
        end_was_said(h, &frame->goaway);
        return 0;
    }
    if (frame->hd.type == NGHTTP2_RST_STREAM && is_provoked(frame->rst_stream.error_code))
        box_h2_guard_reset(h, 1);
    if (frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    box_h2_guard_sent(h);
    box_h2_stream *s = stream_of(session, frame->hd.stream_id);
    if (s == NULL)
        return 0;
    if (!h->config.server)
        s->head_sent = true;
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
        end_went(h, s);
    else if (h->config.server && s->local_end && !s->is_plain && box_buf_len(&s->out) == 0)
        box_h2_stream_send_tail(
            s); /* finished between nghttp2's asking for this DATA and sending it */
    return 0;
}

/* An answer that cannot be sent must not leave its stream open for ever. */
static int on_frame_not_send(nghttp2_session *session, const nghttp2_frame *frame, int error,
                             void *arg)
{
    (void)error;
    box_h2 *h = arg;
    if (h->config.server && frame->hd.type == NGHTTP2_HEADERS &&
        stream_of(session, frame->hd.stream_id) != NULL)
        box_h2_check(h, nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                                  NGHTTP2_INTERNAL_ERROR));
    return 0;
}

/* --- the connection --------------------------------------------------------------------------- */

nghttp2_session_callbacks *box_h2_callbacks_new(void)
{
    nghttp2_session_callbacks *cb;
    int rv = nghttp2_session_callbacks_new(&cb);
    assert(rv == 0); /* out of memory for a small object */
    nghttp2_session_callbacks_set_on_begin_frame_callback(cb, on_begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback2(cb, on_header);
    nghttp2_session_callbacks_set_on_invalid_header_callback2(cb, on_invalid_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data_chunk);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(cb, on_invalid_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
    nghttp2_session_callbacks_set_send_data_callback(cb, send_data);
    nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_send);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(cb, on_frame_not_send);
    return cb;
}
