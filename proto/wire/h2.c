#include <assert.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "wire/h2_internal.h"

/* What our drain PING carries, so that its answer is known. */
static const uint8_t drain_ping[8] = {'b', 'o', 'x', 'd', 'r', 'a', 'i', 'n'};

static void break_connection(box_h2 *h, const char *text)
{
    h->is_broken = true;
    if (h->why.reason == BOX_NONE)
        (void)box_fail(&h->why, BOX_RUNTIME_UNAVAILABLE, "the connection is broken: %s", text);
}

static void kill_connection(box_h2 *h, const char *text)
{
    break_connection(h, text);
    h->is_dead = true;
}

void h2_check(box_h2 *h, int rv)
{
    if (rv < 0 && nghttp2_is_fatal(rv))
        kill_connection(h, nghttp2_strerror(rv));
}

/* NULL for a stream we let go of, or one that nghttp2 refuses by itself. */
static box_h2_stream *stream_of(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

/* --- frames that come --------------------------------------------------------------------------
 */

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    box_h2 *h = arg;
    int32_t id = frame->hd.stream_id;
    box_h2_stream *s = stream_of(session, id);
    bool is_request = h->config.server && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
    if (is_request) {
        s = h2_stream_new(h, id);
        (void)nghttp2_session_set_stream_user_data(session, id, s); /* it was just opened */
    } else if (h->config.server) {
        s = NULL; /* trailers of a request: nothing in them is for us */
    }
    h->receiving = s;
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *name,
                     nghttp2_rcbuf *value, uint8_t flags, void *arg)
{
    (void)session, (void)frame, (void)flags;
    box_h2 *h = arg;
    if (h->receiving != NULL)
        h2_head_field(&h->receiving->head, name, value);
    return 0;
}

/* A field name or value that HTTP/2 does not allow makes the message malformed (RFC 9113, 8.2.1);
 * nghttp2 would only leave it out. */
static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame,
                             nghttp2_rcbuf *name, nghttp2_rcbuf *value, uint8_t flags, void *arg)
{
    (void)name, (void)value, (void)flags;
    h2_check(arg, nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                            NGHTTP2_PROTOCOL_ERROR));
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

/* One slow download must not hold up small answers on the same connection: streams take turns
 * (RFC 9218, incremental), whatever the peer says about priority. */
static void take_turns(box_h2 *h, int32_t id)
{
    nghttp2_extpri pri = {.urgency = NGHTTP2_EXTPRI_DEFAULT_URGENCY, .inc = 1};
    h2_check(h, nghttp2_session_change_extpri_stream_priority(h->session, id, &pri, 1));
}

static void headers_came(box_h2 *h, box_h2_stream *s, const nghttp2_frame *frame)
{
    bool is_end = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (!h->config.server) {
        h2_head_response(s, is_end);
        return;
    }
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        s->remote_end = is_end;
        take_turns(h, s->id);
        h2_head_request(s);
    }
    s->remote_end |= is_end;
    if (is_end)
        h2_input_run(s);
}

static void data_ended(box_h2 *h, box_h2_stream *s)
{
    if (!h->config.server) {
        h2_head_missing(s);
        return;
    }
    s->remote_end = true;
    h2_input_run(s);
}

static void goaway_came(box_h2 *h, const nghttp2_goaway *frame)
{
    if (!h->config.server && h->why.reason == BOX_NONE)
        (void)box_fail(
            &h->why, BOX_RUNTIME_UNAVAILABLE, "the server closes the connection (%s%s%.*s)",
            nghttp2_http2_strerror(frame->error_code), frame->opaque_data_len > 0 ? ": " : "",
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
        s = stream_of(session, frame->hd.stream_id);
        if (s != NULL)
            headers_came(h, s, frame);
        break;
    case NGHTTP2_DATA:
        s = stream_of(session, frame->hd.stream_id);
        if (s != NULL && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
            data_ended(h, s);
        break;
    case NGHTTP2_GOAWAY:
        goaway_came(h, &frame->goaway);
        break;
    case NGHTTP2_PING:
        if ((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0 && h->is_draining &&
            memcmp(frame->ping.opaque_data, drain_ping, sizeof drain_ping) == 0)
            box_h2_drain_finish(h);
        break;
    default:
        break;
    }
    return 0;
}

/* The connection's window is given back as data comes, so that one unread stream does not stop the
 * rest (grpc-conformance.md, 97); the stream's when its owner took the message. */
static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                         size_t len, void *arg)
{
    (void)flags;
    box_h2_stream *s = stream_of(session, id);
    if (s == NULL) {
        h2_check(arg, nghttp2_session_consume(session, id, len));
        return 0;
    }
    h2_check(arg, nghttp2_session_consume_connection(session, len));
    h2_input_data(s, data, len);
    return 0;
}

static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int error,
                            void *arg)
{
    (void)session, (void)frame;
    box_h2 *h = arg;
    if (h->why.reason == BOX_NONE && error != NGHTTP2_ERR_REFUSED_STREAM &&
        error != NGHTTP2_ERR_STREAM_CLOSED && frame->hd.stream_id == 0)
        (void)box_fail(&h->why, BOX_RUNTIME_UNAVAILABLE, "the peer breaks HTTP/2: %s",
                       nghttp2_strerror(error));
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
    box_h2 *h = arg;
    box_h2_stream *s = stream_of(session, id);
    if (s == NULL)
        return 0;
    if (h->receiving == s)
        h->receiving = NULL;
    h2_stream_gone(s, code);
    return 0;
}

/* --- frames that go ----------------------------------------------------------------------------
 */

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
        h2_stream_queue_work(s);
    }
    return 0;
}

static void end_went(box_h2 *h, box_h2_stream *s)
{
    s->end_sent = true;
    /* Trailers before the caller's end: it need not send the rest (grpc-conformance.md, 89). */
    if (h->config.server && !s->remote_end)
        h2_stream_reset(s, NGHTTP2_NO_ERROR);
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    box_h2 *h = arg;
    if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR) {
        kill_connection(h, nghttp2_http2_strerror(frame->goaway.error_code));
        return 0;
    }
    if (frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    box_h2_stream *s = stream_of(session, frame->hd.stream_id);
    if (s == NULL)
        return 0;
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
        end_went(h, s);
    else if (h->config.server && s->local_end && !s->is_plain && box_buf_len(&s->out) == 0)
        h2_stream_send_tail(s); /* finished between nghttp2's asking for this DATA and sending it */
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
        h2_check(h, nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                              NGHTTP2_INTERNAL_ERROR));
    return 0;
}

/* --- the connection ----------------------------------------------------------------------------
 */

static nghttp2_session_callbacks *callbacks_new(void)
{
    nghttp2_session_callbacks *cb;
    int rv = nghttp2_session_callbacks_new(&cb);
    assert(rv == 0); /* out of memory for a small object */
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

static void session_new(box_h2 *h)
{
    nghttp2_option *option;
    int rv = nghttp2_option_new(&option);
    assert(rv == 0);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    /* Peers pad values with spaces; we strip them (grpc-conformance.md, 27). */
    nghttp2_option_set_no_rfc9113_leading_and_trailing_ws_validation(option, 1);
    nghttp2_session_callbacks *cb = callbacks_new();
    rv = h->config.server ? nghttp2_session_server_new2(&h->session, cb, h, option)
                          : nghttp2_session_client_new2(&h->session, cb, h, option);
    assert(rv == 0);
    nghttp2_session_callbacks_del(cb);
    nghttp2_option_del(option);
}

static void submit_settings(box_h2 *h)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, h->config.stream_window_bytes},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, BOX_MAX_HEADER_LIST_BYTES},
        h->config.server ? (nghttp2_settings_entry){NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
                                                    h->config.max_streams}
                         : (nghttp2_settings_entry){NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
    };
    h2_check(h,
             nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, settings, BOX_COUNT(settings)));
    h2_check(h, nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, 0,
                                                      (int32_t)h->config.connection_window_bytes));
}

static const char *copy_text(const char *text)
{
    return box_strdup(text != NULL ? text : "");
}

box_h2 *box_h2_new(const box_h2_config *config, const box_h2_events *events, void *owner)
{
    box_h2 *h = box_alloc(sizeof *h);
    h->config = *config;
    h->config.scheme = copy_text(config->scheme);
    h->config.authority = copy_text(config->authority);
    h->config.user_agent = copy_text(config->user_agent);
    if (config->max_message_bytes == 0)
        h->config.max_message_bytes = BOX_MAX_MESSAGE_BYTES;
    if (config->max_streams == 0)
        h->config.max_streams = BOX_MAX_STREAMS_PER_CONNECTION;
    if (config->stream_window_bytes == 0)
        h->config.stream_window_bytes = BOX_STREAM_WINDOW_BYTES;
    if (config->connection_window_bytes == 0)
        h->config.connection_window_bytes = BOX_CONNECTION_WINDOW_BYTES;
    h->events = *events;
    h->owner = owner;
    box_list_init(&h->streams);
    box_list_init(&h->work);
    session_new(h);
    submit_settings(h);
    return h;
}

static void lose_stream(box_h2_stream *s)
{
    box_error why = s->h->why;
    if (s->h->config.server)
        (void)box_fail(&why, BOX_CANCELLED, "the connection was lost");
    else if (why.reason == BOX_NONE)
        (void)box_fail(&why, BOX_RUNTIME_UNAVAILABLE, "the connection was lost");
    h2_stream_closed(s, &why, NULL);
    h2_stream_release(s);
}

void box_h2_free(box_h2 *h)
{
    if (h == NULL)
        return;
    h->is_closing = true;
    if (h->why.reason == BOX_NONE)
        (void)box_fail(&h->why, BOX_RUNTIME_UNAVAILABLE, "the connection is closed");
    while (!box_list_empty(&h->streams)) {
        box_h2_stream *s = BOX_CONTAINER(h->streams.next, box_h2_stream, link);
        if (!h->config.server && s->remote_end) {
            s->paused = false; /* all of the answer is here: it is not lost with the connection */
            h2_input_run(s);
            if (h->streams.next != &s->link)
                continue;
            s->paused = true;
        }
        lose_stream(s);
    }
    nghttp2_session_del(h->session);
    free((char *)(uintptr_t)h->config.scheme);
    free((char *)(uintptr_t)h->config.authority);
    free((char *)(uintptr_t)h->config.user_agent);
    free(h);
}

/* What nghttp2 gives up on without a word: the peer is told why, if it still listens. */
static void refuse(box_h2 *h, int rv)
{
    break_connection(h, nghttp2_strerror(rv));
    uint32_t code = rv == NGHTTP2_ERR_FLOODED            ? NGHTTP2_ENHANCE_YOUR_CALM
                    : rv == NGHTTP2_ERR_BAD_CLIENT_MAGIC ? NGHTTP2_PROTOCOL_ERROR
                                                         : NGHTTP2_INTERNAL_ERROR;
    h2_check(h, nghttp2_session_terminate_session(h->session, code));
}

int box_h2_receive(box_h2 *h, const uint8_t *data, size_t len, box_error *err)
{
    if (!h->is_broken) {
        ssize_t n = nghttp2_session_mem_recv(h->session, data, len);
        if (n < 0)
            refuse(h, (int)n);
    }
    if (!h->is_broken)
        return 0;
    *err = h->why;
    return -1;
}

/* Delivers what waited. Owners may queue more of it meanwhile, for streams that still hold input:
 * those come after the next bytes were sent. */
static void run_work(box_h2 *h)
{
    box_list waiting;
    box_list_init(&waiting);
    while (!box_list_empty(&h->work)) {
        box_list *link = h->work.next;
        box_list_remove(link);
        box_list_append(&waiting, link);
    }
    while (!box_list_empty(&waiting)) {
        box_h2_stream *s = BOX_CONTAINER(waiting.next, box_h2_stream, work);
        box_list_remove(&s->work);
        if (s->wake && s->is_open && !s->local_end) {
            s->wake = false;
            s->busy = true;
            h->events.writable(h->owner, s);
            s->busy = false;
        }
        if (s->released)
            h2_stream_release(s);
        else
            h2_input_run(s);
    }
}

static void pump(box_h2 *h, box_buf *out)
{
    while (box_buf_len(out) < h->sink_limit && !h->is_dead) {
        const uint8_t *data;
        ssize_t n = nghttp2_session_mem_send(h->session, &data);
        box_error err;
        if (n < 0)
            kill_connection(h, nghttp2_strerror((int)n));
        else if (n > 0 && box_buf_add(out, data, (size_t)n, &err) < 0)
            kill_connection(h, err.msg);
        if (n <= 0)
            return;
    }
}

int box_h2_send(box_h2 *h, box_buf *out, size_t max_bytes, box_error *err)
{
    h->sink = out;
    h->sink_limit = box_buf_len(out) + max_bytes;
    run_work(h);
    pump(h, out);
    run_work(h);
    h->sink = NULL;
    if (!h->is_dead)
        return 0;
    *err = h->why;
    return -1;
}

bool box_h2_wants_send(const box_h2 *h)
{
    return !h->is_dead &&
           (!box_list_empty(&h->work) || nghttp2_session_want_write(h->session) != 0);
}

bool box_h2_is_done(const box_h2 *h)
{
    return h->is_dead ||
           (!box_h2_wants_send(h) && (h->is_broken || nghttp2_session_want_read(h->session) == 0));
}

size_t box_h2_stream_count(const box_h2 *h)
{
    return h->n_streams;
}

void box_h2_drain(box_h2 *h)
{
    if (h->is_draining || !h->config.server)
        return;
    h->is_draining = true;
    h2_check(h, nghttp2_submit_shutdown_notice(h->session));
    h2_check(h, nghttp2_submit_ping(h->session, NGHTTP2_FLAG_NONE, drain_ping));
}

void box_h2_drain_finish(box_h2 *h)
{
    if (!h->is_draining || h->drain_done)
        return;
    h->drain_done = true;
    h2_check(h, nghttp2_submit_goaway(h->session, NGHTTP2_FLAG_NONE,
                                      nghttp2_session_get_last_proc_stream_id(h->session),
                                      NGHTTP2_NO_ERROR, NULL, 0));
}
