#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "wire/h2_internal.h"

void box_h2_blame(box_h2 *h, box_reason reason, const char *fmt, ...)
{
    if (h->why != NULL)
        return;
    char text[BOX_ERROR_MSG];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args); /* a cut text is still a text */
    va_end(args);
    h->why = box_alloc(sizeof *h->why);
    (void)box_fail(h->why, reason, "%s", text);
}

void box_h2_why(const box_h2 *h, box_error *out)
{
    *out = h->why != NULL ? *h->why : (box_error){0};
}

void box_h2_break(box_h2 *h, const char *text)
{
    h->is_broken = true;
    box_h2_blame(h, BOX_RUNTIME_UNAVAILABLE, "the connection is broken: %s", text);
}

void box_h2_kill(box_h2 *h, const char *text)
{
    box_h2_break(h, text);
    h->is_dead = true;
}

void box_h2_check(box_h2 *h, int rv)
{
    if (rv < 0 && nghttp2_is_fatal(rv))
        box_h2_kill(h, nghttp2_strerror(rv));
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
    /* Counted by h2_guard.c, with a clock that is passed in. */
    nghttp2_option_set_stream_reset_rate_limit(option, UINT32_MAX, UINT32_MAX);
    if (h->config.server)
        nghttp2_option_set_max_deflate_dynamic_table_size(option, BOX_HPACK_TABLE_BYTES);
    nghttp2_option_set_no_http_messaging(option, h->config.server); /* h2_rules.c */
    nghttp2_session_callbacks *cb = box_h2_callbacks_new();
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
    box_h2_check(
        h, nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, settings, BOX_COUNT(settings)));
    box_h2_check(h,
                 nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, 0,
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
    h->memory = (box_share){.budget = config->budget, .free_bytes = BOX_CONNECTION_FREE_BYTES};
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
    box_error why;
    box_h2_why(s->h, &why);
    if (s->h->config.server)
        (void)box_fail(&why, BOX_CANCELLED, "the connection was lost");
    else if (why.reason == BOX_NONE)
        (void)box_fail(&why, BOX_RUNTIME_UNAVAILABLE, "the connection was lost");
    s->is_refused = !s->head_sent;
    box_h2_stream_closed(s, &why, NULL);
    box_h2_stream_release(s);
}

void box_h2_free(box_h2 *h)
{
    if (h == NULL)
        return;
    h->is_closing = true;
    box_h2_blame(h, BOX_RUNTIME_UNAVAILABLE, "the connection is closed");
    while (!box_list_empty(&h->streams)) {
        box_h2_stream *s = BOX_CONTAINER(h->streams.next, box_h2_stream, link);
        if (!h->config.server && s->remote_end) {
            s->paused = false; /* all of the answer is here: it is not lost with the connection */
            box_h2_input_run(s);
            if (h->streams.next != &s->link)
                continue;
            s->paused = true;
        }
        lose_stream(s);
    }
    assert(atomic_load(&h->memory.used) == 0);
    nghttp2_session_del(h->session);
    free((char *)(uintptr_t)h->config.scheme);
    free((char *)(uintptr_t)h->config.authority);
    free((char *)(uintptr_t)h->config.user_agent);
    free(h->why);
    free(h);
}

/* What nghttp2 gives up on without a word: the peer is told why, if it still listens. */
static void refuse(box_h2 *h, int rv)
{
    if (h->is_broken)
        return; /* by h2_guard.c, whose GOAWAY waits */
    box_h2_break(h, nghttp2_strerror(rv));
    uint32_t code = rv == NGHTTP2_ERR_FLOODED            ? NGHTTP2_ENHANCE_YOUR_CALM
                    : rv == NGHTTP2_ERR_BAD_CLIENT_MAGIC ? NGHTTP2_PROTOCOL_ERROR
                                                         : NGHTTP2_INTERNAL_ERROR;
    box_h2_check(h, nghttp2_session_terminate_session(h->session, code));
}

int box_h2_receive(box_h2 *h, const uint8_t *data, size_t len, box_error *err)
{
    while (len > 0 && !h->is_broken) {
        h2_piece piece = box_h2_scan_next(h, data, len);
        if (h->is_broken)
            break;
        ssize_t n = piece.len > 0 ? nghttp2_session_mem_recv(h->session, piece.data, piece.len) : 0;
        if (n < 0)
            refuse(h, (int)n);
        box_h2_guard_queue(h);
        data += piece.used;
        len -= piece.used;
    }
    if (!h->is_broken)
        return 0;
    box_h2_why(h, err);
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
            box_h2_stream_release(s);
        else
            box_h2_input_run(s);
    }
}

static void pump(box_h2 *h, box_buf *out)
{
    while (box_buf_len(out) < h->sink_limit && !h->is_dead) {
        const uint8_t *data;
        ssize_t n = nghttp2_session_mem_send(h->session, &data);
        box_error err;
        if (n < 0)
            box_h2_kill(h, nghttp2_strerror((int)n));
        else if (n > 0 && box_buf_add(out, data, (size_t)n, &err) < 0)
            box_h2_kill(h, err.msg);
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
    box_h2_why(h, err);
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

void box_h2_set_time(box_h2 *h, box_time now)
{
    h->guard.now = now;
}

box_time box_h2_header_since(const box_h2 *h)
{
    return h->guard.block_since;
}

bool box_h2_is_established(const box_h2 *h)
{
    return h->is_established;
}

void box_h2_ping(box_h2 *h)
{
    static const uint8_t payload[8] = {'b', 'o', 'x', 'a', 'l', 'i', 'v', 'e'};
    box_h2_check(h, nghttp2_submit_ping(h->session, NGHTTP2_FLAG_NONE, payload));
}

bool box_h2_pinged_too_often(const box_h2 *h)
{
    return h->pinged_too_often;
}

bool box_h2_can_start(const box_h2 *h)
{
    enum { BEFORE_SETTINGS = 100 };
    uint32_t max = BEFORE_SETTINGS;
    if (h->is_established)
        max = nghttp2_session_get_remote_settings(h->session,
                                                  NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    return !h->is_broken && !h->is_closing && h->n_running < max;
}

void box_h2_drain(box_h2 *h, const char *text)
{
    if (h->is_draining || !h->config.server)
        return;
    h->is_draining = true;
    h->drain_text = text;
    box_h2_check(h, nghttp2_submit_shutdown_notice(h->session));
    box_h2_check(h, nghttp2_submit_ping(h->session, NGHTTP2_FLAG_NONE, box_h2_drain_ping));
}

void box_h2_drain_finish(box_h2 *h)
{
    if (!h->is_draining || h->drain_done)
        return;
    h->drain_done = true;
    size_t len = h->drain_text != NULL ? strlen(h->drain_text) : 0;
    box_h2_check(h, nghttp2_submit_goaway(h->session, NGHTTP2_FLAG_NONE,
                                          nghttp2_session_get_last_proc_stream_id(h->session),
                                          NGHTTP2_NO_ERROR, (const uint8_t *)h->drain_text, len));
}
