#include <assert.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "wire/h2_internal.h"

box_h2_stream *box_h2_stream_new(box_h2 *h, int32_t id)
{
    box_h2_stream *s = box_alloc(sizeof *s);
    s->h = h;
    s->id = id;
    s->head.grpc_status = -1;
    s->expected_bytes = -1;
    s->max_message_bytes = h->config.max_message_bytes;
    s->heard_at = h->guard.now;
    box_buf_init(&s->partial, h->config.max_message_bytes);
    box_buf_init(&s->held, h->config.stream_window_bytes);
    box_buf_init(&s->out, BOX_STREAM_UNSENT_BYTES);
    s->partial.share = s->held.share = s->out.share = &h->memory;
    box_list_append(&h->streams, &s->link);
    h->n_streams++;
    return s;
}

static void stream_free(box_h2_stream *s)
{
    box_h2_head_reset(&s->head);
    box_buf_done(&s->partial);
    box_buf_done(&s->held);
    box_buf_done(&s->out);
    free(s->headers);
    free(s->tail);
    free(s->status);
    free(s);
}

/* Client: it does not count against the server's limit any more. */
static void uncount(box_h2_stream *s)
{
    s->h->n_running -= s->counts;
    s->counts = false;
}

void box_h2_stream_release(box_h2_stream *s)
{
    if (!s->released) {
        s->released = true;
        uncount(s);
        s->reads = false;
        box_list_remove(&s->link);
        box_list_remove(&s->work);
        s->h->n_streams--;
        if (!s->gone) /* -1 when nghttp2 has no such stream any more: then it cannot tell us either
                       */
            (void)nghttp2_session_set_stream_user_data(s->h->session, s->id, NULL);
    }
    if (!s->busy)
        stream_free(s);
}

void box_h2_stream_closed(box_h2_stream *s, const box_error *why, const box_metadata *trailers)
{
    if (!s->is_open)
        return;
    s->is_open = false;
    if (trailers != NULL && trailers->count == 0)
        trailers = NULL;
    s->h->events.closed(s->h->owner, s, why, trailers);
}

void box_h2_stream_reset(box_h2_stream *s, uint32_t code)
{
    if (!s->gone)
        box_h2_check(s->h,
                     nghttp2_submit_rst_stream(s->h->session, NGHTTP2_FLAG_NONE, s->id, code));
}

void box_h2_stream_fail(box_h2_stream *s, const box_error *err)
{
    box_h2_input_drop(s);
    if (s->h->config.server) {
        box_h2_stream_finish(s, err, NULL);
        box_h2_stream_closed(s, err, NULL);
        return;
    }
    box_h2_stream_reset(s, NGHTTP2_CANCEL);
    box_h2_stream_closed(s, err, NULL);
    box_h2_stream_release(s);
}

void box_h2_stream_queue_work(box_h2_stream *s)
{
    if (!box_list_linked(&s->work) && !s->released)
        box_list_append(&s->h->work, &s->work);
}

void box_h2_stream_gone(box_h2_stream *s, uint32_t code)
{
    s->gone = true;
    uncount(s);
    box_error why = {0};
    if (s->h->config.server) {
        if (s->status != NULL)
            why = *s->status;
        else if (!s->end_sent)
            (void)box_fail(&why, BOX_CANCELLED, "the caller went away");
        box_h2_stream_closed(s, &why, NULL);
        box_h2_stream_release(s);
        return;
    }
    if (s->remote_end)
        return; /* its status is here and waits for held messages to be taken */
    /* One that began to answer has looked at it, whatever it says then. */
    s->is_refused = (code == NGHTTP2_REFUSED_STREAM && !s->head_seen) || !s->head_sent;
    box_h2_status_from_reset(s->is_refused ? NGHTTP2_REFUSED_STREAM : code, &why);
    if (s->is_refused && s->h->why != NULL)
        why = *s->h->why;
    box_h2_stream_closed(s, &why, NULL);
    box_h2_stream_release(s);
}

/* --- output ----------------------------------------------------------------------------------- */

/* nghttp2 asks for DATA: as much as it may send. Nothing is copied yet (send_data in h2.c does it),
 * and the trailers follow once all is taken. */
/* NOLINTNEXTLINE(readability-non-const-parameter): the type is nghttp2's */
static ssize_t read_out(nghttp2_session *session, int32_t id, uint8_t *buf, size_t length,
                        uint32_t *flags, nghttp2_data_source *source, void *user_data)
{
    (void)buf, (void)source, (void)user_data;
    box_h2_stream *s = nghttp2_session_get_stream_user_data(session, id);
    if (s == NULL)
        return NGHTTP2_ERR_DEFERRED;
    size_t have = box_buf_len(&s->out);
    if (have == 0 && !s->local_end) {
        s->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (have > length)
        return (ssize_t)length;
    if (!s->local_end)
        return (ssize_t)have;
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (s->h->config.server && !s->is_plain) {
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        box_h2_stream_send_tail(s);
    }
    return (ssize_t)have;
}

static nghttp2_data_provider provider(void)
{
    return (nghttp2_data_provider){.read_callback = read_out};
}

static void resume(box_h2_stream *s)
{
    if (!s->deferred || s->gone)
        return;
    s->deferred = false;
    box_h2_check(s->h, nghttp2_session_resume_data(s->h->session, s->id));
}

void box_h2_stream_send_tail(box_h2_stream *s)
{
    if (s->tail == NULL || s->gone)
        return;
    box_h2_check(s->h,
                 nghttp2_submit_trailer(s->h->session, s->id, s->tail->fields, s->tail->count));
    free(s->tail);
    s->tail = NULL;
}

static void submit_response(box_h2_stream *s, const h2_block *block, bool with_data)
{
    nghttp2_data_provider data = provider();
    s->head_sent = true;
    box_h2_check(s->h, nghttp2_submit_response(s->h->session, s->id, block->fields, block->count,
                                               with_data ? &data : NULL));
}

static void send_headers(box_h2_stream *s)
{
    assert(s->headers != NULL); /* box_h2_message made them */
    submit_response(s, s->headers, true);
    free(s->headers);
    s->headers = NULL;
}

static size_t header_limit(const box_h2 *h)
{
    return nghttp2_session_get_remote_settings(h->session, NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE);
}

void box_h2_stream_finish(box_h2_stream *s, const box_error *err, const box_metadata *trailers)
{
    if (s->local_end || s->gone)
        return;
    s->local_end = true;
    box_h2_input_drop(s);
    if (s->head_sent) {
        s->tail = box_h2_block_status(err, NULL, trailers, header_limit(s->h));
        if (box_buf_len(&s->out) == 0) /* needs no window, unlike asking for DATA once more */
            box_h2_stream_send_tail(s);
        return;
    }
    h2_block *head = s->headers != NULL ? s->headers : box_h2_block_headers(NULL, BOX_IDENTITY);
    h2_block *all = box_h2_block_status(err, head, trailers, header_limit(s->h));
    submit_response(s, all, false);
    free(all);
    free(head);
    s->headers = NULL;
}

void box_h2_stream_plain(box_h2_stream *s, int status, const void *text, size_t len)
{
    box_error err;
    h2_block *block = box_h2_block_plain(status, len);
    s->local_end = s->is_plain = true;
    if (!s->head.is_head && box_buf_add(&s->out, text, len, &err) < 0)
        box_h2_stream_reset(s, NGHTTP2_INTERNAL_ERROR);
    submit_response(s, block, !s->head.is_head);
    free(block);
}

/* --- for owners ------------------------------------------------------------------------------- */

void box_h2_stream_set_owner(box_h2_stream *s, void *owner)
{
    s->owner = owner;
}

void *box_h2_stream_owner(const box_h2_stream *s)
{
    return s->owner;
}

/* nghttp2 would queue a header block it can never send. */
static int check_request_size(const box_h2 *h, const h2_block *block, box_error *err)
{
    size_t limit = header_limit(h);
    if (limit > BOX_MAX_SENT_HEADER_BYTES)
        limit = BOX_MAX_SENT_HEADER_BYTES;
    if (block->list_bytes <= limit)
        return 0;
    return box_fail(err, BOX_MESSAGE_SIZE, "metadata of %zu bytes is larger than the peer's %zu",
                    block->list_bytes, limit);
}

int box_h2_request_start(box_h2 *h, const char *path, const box_metadata *metadata,
                         uint64_t timeout_ns, box_encoding encoding, void *stream_owner,
                         box_h2_stream **out, box_error *err)
{
    assert(!h->config.server);
    if (h->is_broken || h->is_closing) {
        box_h2_why(h, err);
        return -1;
    }
    BOX_AUTO(box_freep) h2_block *block =
        box_h2_block_request(h, path, metadata, timeout_ns, encoding);
    if (check_request_size(h, block, err) < 0)
        return -1;
    nghttp2_data_provider data = provider();
    box_h2_stream *s = box_h2_stream_new(h, 0);
    int32_t id = nghttp2_submit_request(h->session, NULL, block->fields, block->count, &data, s);
    if (id < 0) {
        s->gone = true;
        box_h2_stream_release(s);
        return box_fail(err, BOX_RUNTIME_UNAVAILABLE, "the connection takes no more calls: %s",
                        nghttp2_strerror(id));
    }
    s->id = id;
    s->owner = stream_owner;
    s->out_encoding = encoding;
    s->is_open = s->counts = true;
    h->n_running++;
    *out = s;
    return 0;
}

bool box_h2_was_refused(const box_h2_stream *s)
{
    return s->is_refused;
}

bool box_h2_was_sent(const box_h2_stream *s)
{
    return s->head_sent;
}

void box_h2_limit_messages(box_h2_stream *s, size_t max_bytes)
{
    s->max_message_bytes = max_bytes;
    s->partial.max_bytes = max_bytes;
}

void box_h2_half_close(box_h2_stream *s)
{
    if (!s->is_open || s->local_end)
        return;
    s->local_end = true;
    resume(s);
}

void box_h2_cancel(box_h2_stream *s, const box_error *why)
{
    if (!s->is_open)
        return;
    s->local_end = true;
    box_h2_input_drop(s);
    box_h2_stream_reset(s, NGHTTP2_CANCEL);
    box_h2_stream_closed(s, why, NULL);
    if (!s->h->config.server)
        box_h2_stream_release(s);
}

static void set_status(box_h2_stream *s, const box_error *status)
{
    if (s->status == NULL)
        s->status = box_alloc(sizeof *s->status);
    *s->status = *status;
}

/* The closed event must not come inside box_h2_message, where its caller is in the middle of
 * something: the server hears of it when the reset went out, the client in the next box_h2_send. */
static void lose_writer(box_h2_stream *s, box_error *err)
{
    (void)box_wrap(err, "messages are produced faster than they are read");
    set_status(s, err);
    s->local_end = true;
    box_h2_input_drop(s);
    box_h2_stream_reset(s, s->h->config.server ? NGHTTP2_INTERNAL_ERROR : NGHTTP2_CANCEL);
    if (s->h->config.server)
        return;
    s->remote_end = true;
    box_h2_stream_queue_work(s);
}

/* The message with its prefix into out. */
static int queue_message(box_h2_stream *s, const uint8_t *data, size_t len, box_error *err)
{
    BOX_AUTO(box_buf_done) box_buf packed = {0};
    bool is_compressed = box_h2_compress(s, data, len, &packed);
    if (is_compressed) {
        data = box_buf_data(&packed);
        len = box_buf_len(&packed);
    }
    uint8_t *room;
    if (box_buf_reserve(&s->out, H2_PREFIX + len, &room, err) < 0)
        return -1;
    const uint8_t prefix[H2_PREFIX] = {is_compressed ? 1 : 0, (uint8_t)(len >> 24),
                                       (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len};
    memcpy(room, prefix, sizeof prefix);
    if (len > 0)
        memcpy(room + H2_PREFIX, data, len);
    box_buf_commit(&s->out, H2_PREFIX + len);
    return 0;
}

void box_h2_message(box_h2_stream *s, const uint8_t *data, size_t len)
{
    if (!s->is_open || s->local_end || s->gone)
        return;
    box_error err;
    if (s->h->config.server && !s->head_sent && s->headers == NULL)
        box_h2_set_headers(s, NULL);
    if (queue_message(s, data, len, &err) < 0) {
        if (s->h->config.server && !s->head_sent)
            box_h2_stream_finish(s, &err, NULL); /* nothing was said yet: it can be told */
        else
            lose_writer(s, &err);
        return;
    }
    s->was_full |= box_buf_len(&s->out) > BOX_STREAM_HIGH_WATER_BYTES;
    if (s->h->config.server && !s->head_sent)
        send_headers(s);
    else
        resume(s);
}

void box_h2_set_headers(box_h2_stream *s, const box_metadata *headers)
{
    if (!s->is_open || s->head_sent)
        return;
    free(s->headers);
    box_h2_choose_encoding(s);
    s->headers = box_h2_block_headers(headers, s->out_encoding);
}

void box_h2_finish(box_h2_stream *s, const box_error *err, const box_metadata *trailers)
{
    if (s->is_open)
        box_h2_stream_finish(s, err, trailers);
}

size_t box_h2_unsent_bytes(const box_h2_stream *s)
{
    return box_buf_len(&s->out);
}

bool box_h2_is_writable(const box_h2_stream *s)
{
    return s->is_open && !s->local_end && box_buf_len(&s->out) <= BOX_STREAM_HIGH_WATER_BYTES;
}

void box_h2_pause(box_h2_stream *s, bool paused)
{
    if (!s->is_open || s->paused == paused)
        return;
    s->paused = paused;
    if (!paused)
        box_h2_stream_queue_work(s);
}
