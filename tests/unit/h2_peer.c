#include "h2_peer.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/alloc.h"

static seen *seen_new(h2_peer *p, box_h2_stream *s)
{
    assert_true(p->n_seen < H2_MAX_SEEN);
    seen *call = &p->seen[p->n_seen++];
    call->peer = p;
    call->s = s;
    if (s != NULL)
        box_h2_stream_set_owner(s, call);
    return call;
}

static void copy_metadata(box_metadata *to, const box_metadata *from)
{
    box_error err;
    box_metadata_done(to);
    assert_int_equal(box_metadata_add_all(to, from, &err), 0);
}

static void on_request(void *owner, box_h2_stream *s, const box_h2_request *request)
{
    h2_peer *p = owner;
    seen *call = seen_new(p, s);
    (void)snprintf(call->path, sizeof call->path, "%s", request->path);
    (void)snprintf(call->authority, sizeof call->authority, "%s", request->authority);
    call->timeout_ns = request->timeout_ns;
    copy_metadata(&call->metadata, request->metadata);
    if (p->on_request != NULL)
        p->on_request(call);
}

static void on_headers(void *owner, box_h2_stream *s, const box_metadata *metadata)
{
    (void)owner;
    seen *call = box_h2_stream_owner(s);
    call->n_headers++;
    copy_metadata(&call->metadata, metadata);
}

static void on_message(void *owner, box_h2_stream *s, const uint8_t *data, size_t len)
{
    h2_peer *p = owner;
    seen *call = box_h2_stream_owner(s);
    box_error err;
    assert_int_equal(call->n_closed, 0);
    call->n_messages++;
    call->last_len = len;
    assert_int_equal(box_buf_add(&call->bytes, data, len, &err), 0);
    if (p->on_message != NULL)
        p->on_message(call, data, len);
}

static void on_half_close(void *owner, box_h2_stream *s)
{
    h2_peer *p = owner;
    seen *call = box_h2_stream_owner(s);
    call->n_half_close++;
    if (p->on_half_close != NULL)
        p->on_half_close(call);
}

static void on_writable(void *owner, box_h2_stream *s)
{
    h2_peer *p = owner;
    seen *call = box_h2_stream_owner(s);
    call->n_writable++;
    if (p->on_writable != NULL)
        p->on_writable(call);
}

static void on_closed(void *owner, box_h2_stream *s, const box_error *why,
                      const box_metadata *trailers)
{
    (void)owner;
    seen *call = box_h2_stream_owner(s);
    call->n_closed++;
    call->why = *why;
    call->was_refused = box_h2_was_refused(s);
    call->was_sent = box_h2_was_sent(s);
    if (trailers != NULL)
        copy_metadata(&call->trailers, trailers);
    call->s = NULL;
}

static void on_goaway(void *owner)
{
    h2_peer *p = owner;
    p->n_goaway++;
}

static int on_page(void *owner, const box_h2_request *request, box_buf *out)
{
    const h2_peer *p = owner;
    return p->on_page != NULL ? p->on_page(request, out) : 0;
}

h2_peer *h2_peer_new(bool server, const box_h2_config *config)
{
    static const box_h2_events events = {
        .request = on_request,
        .page = on_page,
        .headers = on_headers,
        .message = on_message,
        .half_close = on_half_close,
        .writable = on_writable,
        .closed = on_closed,
        .goaway = on_goaway,
    };
    box_h2_config c = config != NULL ? *config : (box_h2_config){0};
    c.server = server;
    c.scheme = "https";
    c.authority = "box.test:5410";
    c.user_agent = "grpc-c-box/test";
    h2_peer *p = box_alloc(sizeof *p);
    p->h = box_h2_new(&c, &events, p);
    return p;
}

void h2_peer_lose(h2_peer *p)
{
    box_h2_free(p->h);
    p->h = NULL;
}

void h2_peer_free(h2_peer *p)
{
    box_h2_free(p->h);
    for (unsigned i = 0; i < p->n_seen; i++) {
        box_metadata_done(&p->seen[i].metadata);
        box_metadata_done(&p->seen[i].trailers);
        box_buf_done(&p->seen[i].bytes);
    }
    free(p);
}

seen *h2_peer_call(h2_peer *client, const char *path, const box_metadata *metadata,
                   uint64_t timeout_ns)
{
    box_error err;
    box_h2_stream *s;
    seen *call = seen_new(client, NULL);
    if (box_h2_request_start(client->h, path, metadata, timeout_ns, client->encoding, call, &s,
                             &err) < 0)
        fail_msg("%s", err.msg);
    call->s = s;
    return call;
}

void h2_peer_text(seen *call, const char *text)
{
    box_h2_message(call->s, (const uint8_t *)text, strlen(text));
}

void assert_bytes(const seen *call, const char *text)
{
    assert_int_equal(box_buf_len(&call->bytes), strlen(text));
    if (text[0] != '\0')
        assert_memory_equal(box_buf_data(&call->bytes), text, strlen(text));
}

void assert_ok(const seen *call)
{
    assert_int_equal(call->n_closed, 1);
    if (call->why.reason != BOX_NONE)
        fail_msg("%s: %s", box_reason_name(call->why.reason), call->why.msg);
}

int h2_feed(h2_peer *to, const void *data, size_t len, size_t chunk)
{
    const uint8_t *at = data;
    int rc = 0;
    while (len > 0 && rc == 0) {
        size_t n = len < chunk ? len : chunk;
        box_error err;
        /* A copy of exactly that size: reading past it is seen by the sanitizer. */
        BOX_AUTO(box_freep) uint8_t *piece = box_alloc(n);
        memcpy(piece, at, n);
        rc = box_h2_receive(to->h, piece, n, &err);
        at += n;
        len -= n;
    }
    return rc;
}

size_t h2_move(h2_peer *from, h2_peer *to, size_t chunk, size_t max_bytes)
{
    BOX_AUTO(box_buf_done) box_buf out = {0};
    box_error err;
    if (box_h2_send(from->h, &out, max_bytes, &err) < 0)
        fail_msg("%s", err.msg);
    size_t len = box_buf_len(&out);
    if (len > 0)
        assert_int_equal(h2_feed(to, box_buf_data(&out), len, chunk), 0);
    return len;
}

void h2_run(h2_peer *a, h2_peer *b, size_t chunk)
{
    size_t moved;
    do {
        moved = h2_move(a, b, chunk, 16 * 1024);
        moved += h2_move(b, a, chunk, 16 * 1024);
    } while (moved > 0 || box_h2_wants_send(a->h) || box_h2_wants_send(b->h));
}

h2_pair h2_pair_new(void)
{
    return (h2_pair){h2_peer_new(false, NULL), h2_peer_new(true, NULL)};
}

void h2_pair_done(h2_pair *p)
{
    h2_peer_free(p->client);
    h2_peer_free(p->server);
}

uint64_t h2_next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}
