#include <assert.h>

#include "base/limits.h"
#include "wire/h2_internal.h"

/* A buffer that held a large message is given back, a small one is used again. */
enum { KEEP_BYTES = 16 * 1024 };

static uint32_t prefix_length(const uint8_t *prefix)
{
    return (uint32_t)prefix[1] << 24 | (uint32_t)prefix[2] << 16 | (uint32_t)prefix[3] << 8 |
           prefix[4];
}

/* Flag 1 needs an encoding that was named and that we know (grpc-conformance.md, 44, 57 to 59). */
static int check_flag(const box_h2_stream *s, box_error *err)
{
    uint8_t flag = s->prefix[0];
    if (flag == 0)
        return 0;
    if (flag != 1)
        return box_fail(err, BOX_PROTOCOL, "a message begins with flag %u, not 0 or 1", flag);
    if (s->in_encoding == BOX_IDENTITY)
        return box_fail(err, BOX_PROTOCOL,
                        "the message has the compressed flag, but no encoding was named");
    if (s->in_encoding != BOX_ENCODING_OTHER)
        return 0;
    return box_fail(
        err, s->h->config.server ? BOX_UNIMPLEMENTED : BOX_PROTOCOL,
        "the message is compressed with a grpc-encoding other than " BOX_ACCEPT_ENCODING);
}

static int check_prefix(box_h2_stream *s, box_error *err)
{
    if (check_flag(s, err) < 0)
        return -1;
    s->message_len = prefix_length(s->prefix);
    size_t max = s->max_message_bytes;
    if (s->message_len <= max)
        return 0;
    (void)box_fail(err, BOX_MESSAGE_SIZE, "a message of %u bytes is larger than the limit of %zu",
                   (unsigned)s->message_len, max);
    box_error_add_int(err, "max", (int64_t)max);
    box_error_add_int(err, "size", s->message_len);
    return -1;
}

static void deliver(box_h2_stream *s, const uint8_t *data, size_t len)
{
    s->prefix_len = 0;
    s->message_seen = true;
    s->was_compressed = s->prefix[0] == 1;
    if (!s->was_compressed) {
        s->h->events.message(s->h->owner, s, data, len);
        return;
    }
    BOX_AUTO(box_buf_done) box_buf plain = {0};
    box_buf_init(&plain, s->max_message_bytes < SIZE_MAX ? s->max_message_bytes + 1 : SIZE_MAX);
    plain.share = &s->h->memory;
    box_error err;
    if (box_decompress(s->in_encoding, data, len, s->max_message_bytes, &plain, &err) < 0)
        box_h2_stream_fail(s, &err);
    else
        s->h->events.message(s->h->owner, s, box_buf_data(&plain), box_buf_len(&plain));
}

static size_t take_prefix(box_h2_stream *s, const uint8_t *data, size_t len)
{
    size_t n = H2_PREFIX - (size_t)s->prefix_len;
    n = n < len ? n : len;
    memcpy(s->prefix + s->prefix_len, data, n);
    s->prefix_len = (uint8_t)(s->prefix_len + n);
    if (s->prefix_len < H2_PREFIX)
        return n;
    box_error err;
    if (check_prefix(s, &err) < 0)
        box_h2_stream_fail(s, &err);
    else if (s->message_len == 0)
        deliver(s, data, 0);
    return n;
}

static size_t take_body(box_h2_stream *s, const uint8_t *data, size_t len)
{
    size_t have = box_buf_len(&s->partial);
    size_t need = s->message_len - have;
    if (have == 0 && len >= need) {
        deliver(s, data, need);
        return need;
    }
    size_t n = need < len ? need : len;
    box_error err;
    if (box_buf_add(&s->partial, data, n, &err) < 0) {
        box_h2_stream_fail(s, &err);
        return n;
    }
    if (n < need)
        return n;
    deliver(s, box_buf_data(&s->partial), s->message_len);
    box_buf_clear(&s->partial);
    if (s->partial.capacity > KEEP_BYTES)
        box_buf_done(&s->partial);
    return n;
}

/* One prefix or one body, as far as it goes; returns how many bytes that took, at least 1. The
 * owner may end the stream meanwhile: s->busy keeps the memory. */
static size_t step(box_h2_stream *s, const uint8_t *data, size_t len)
{
    size_t n = s->prefix_len < H2_PREFIX ? take_prefix(s, data, len) : take_body(s, data, len);
    s->debt += n;
    return n;
}

/* Gives window back for what the owner took. What is dropped never fills the window either. */
static void give_back(box_h2_stream *s)
{
    if (s->gone || s->debt == 0 || (s->paused && s->reads))
        return;
    box_h2_check(s->h, nghttp2_session_consume_stream(s->h->session, s->id, s->debt));
    s->debt = 0;
}

void box_h2_input_drop(box_h2_stream *s)
{
    s->reads = false;
    if (s->busy) /* the owner may be looking at a message in held or partial; run does it later */
        return;
    s->debt += box_buf_len(&s->held);
    box_buf_done(&s->held);
    box_buf_done(&s->partial);
    give_back(s);
}

/* The end of a delivery: what the owner did meanwhile takes effect. True: s is gone. */
static bool settle(box_h2_stream *s)
{
    s->busy = false;
    if (s->released) {
        box_h2_stream_release(s);
        return true;
    }
    if (!s->reads)
        box_h2_input_drop(s);
    else
        give_back(s);
    return false;
}

/* The body of a request that is no gRPC: read on for a while, so that the answer is seen. */
static void drop_plain(box_h2_stream *s, size_t len)
{
    bool was_enough = s->plain_bytes > BOX_PLAIN_BODY_BYTES;
    s->plain_bytes += len;
    s->debt += len;
    give_back(s);
    if (!was_enough && s->plain_bytes > BOX_PLAIN_BODY_BYTES)
        box_h2_stream_reset(s, NGHTTP2_NO_ERROR);
}

void box_h2_input_data(box_h2_stream *s, const uint8_t *data, size_t len)
{
    size_t at = 0;
    s->heard_at = s->h->guard.now;
    if (s->is_plain) {
        drop_plain(s, len);
        return;
    }
    s->busy = true;
    if (box_buf_len(&s->held) == 0) {
        while (at < len && s->reads && !s->paused)
            at += step(s, data + at, len - at);
    }
    box_error err;
    if (at < len && s->reads) {
        if (box_buf_add(&s->held, data + at, len - at, &err) < 0)
            box_h2_stream_fail(s, &err);
    } else {
        s->debt += len - at;
    }
    (void)settle(s);
}

/* Client: the status waits for the messages before it. */
static void run_client_end(box_h2_stream *s)
{
    if (!s->remote_end || (s->reads && box_buf_len(&s->held) > 0))
        return;
    box_error status = s->status != NULL ? *s->status : (box_error){0};
    if (s->reads && s->prefix_len > 0 && (s->status == NULL || s->is_cut))
        (void)box_fail(&status, BOX_PROTOCOL, "the answer ended inside a message");
    box_h2_stream_closed(s, &status, &s->head.metadata);
    box_h2_stream_release(s);
}

static void run_server_end(box_h2_stream *s)
{
    if (!s->remote_end || !s->reads || s->paused || s->end_told || box_buf_len(&s->held) > 0)
        return;
    s->end_told = true;
    box_error err;
    if (s->prefix_len > 0) {
        (void)box_fail(&err, BOX_PROTOCOL, "the request ended inside a message");
        box_h2_stream_fail(s, &err);
        return;
    }
    s->h->events.half_close(s->h->owner, s);
}

void box_h2_input_run(box_h2_stream *s)
{
    if (s->busy)
        return; /* the delivery that runs goes on with it */
    s->busy = true;
    while (box_buf_len(&s->held) > 0 && s->reads && !s->paused) {
        size_t n = step(s, box_buf_data(&s->held), box_buf_len(&s->held));
        box_buf_consume(&s->held, n);
    }
    if (settle(s))
        return;
    if (box_buf_len(&s->held) == 0)
        box_buf_done(&s->held);
    if (s->h->config.server)
        run_server_end(s);
    else
        run_client_end(s);
}
