#include "h2_raw.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/alloc.h"

enum { FRAME_HEAD = 9, MAX_FIELDS = 64, MAX_BLOCK = 200 * 1024 };

static const char magic[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

static void put(box_buf *b, const void *data, size_t len)
{
    box_error err;
    assert_int_equal(box_buf_add(b, data, len, &err), 0);
}

void raw_init(h2_raw *r, bool client)
{
    memset(r, 0, sizeof *r);
    assert_int_equal(nghttp2_hd_deflate_new(&r->deflater, 4096), 0);
    assert_int_equal(nghttp2_hd_inflate_new(&r->inflater), 0);
    r->streams = box_alloc_array(RAW_MAX_STREAMS, sizeof *r->streams);
    if (client)
        put(&r->out, magic, sizeof magic - 1);
    raw_frame(r, NGHTTP2_SETTINGS, 0, 0, "", 0);
}

void raw_done(h2_raw *r)
{
    nghttp2_hd_deflate_del(r->deflater);
    nghttp2_hd_inflate_del(r->inflater);
    for (int i = 0; i < RAW_MAX_STREAMS; i++)
        box_buf_done(&r->streams[i].data);
    free(r->streams);
    box_buf_done(&r->out);
    box_buf_done(&r->in);
}

void raw_frame(h2_raw *r, uint8_t type, uint8_t flags, uint32_t id, const void *payload, size_t len)
{
    const uint8_t head[FRAME_HEAD] = {
        (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len,       type,       flags,
        (uint8_t)(id >> 24),  (uint8_t)(id >> 16), (uint8_t)(id >> 8), (uint8_t)id};
    put(&r->out, head, sizeof head);
    put(&r->out, payload, len);
}

void raw_headers(h2_raw *r, uint32_t id, uint8_t flags, const raw_field *fields)
{
    nghttp2_nv nv[MAX_FIELDS];
    size_t n = 0;
    for (; fields[n].name != NULL; n++) {
        assert_true(n < MAX_FIELDS);
        nv[n] = (nghttp2_nv){
            .name = (uint8_t *)(uintptr_t)fields[n].name,
            .namelen = strlen(fields[n].name),
            .value = (uint8_t *)(uintptr_t)fields[n].value,
            .valuelen = strlen(fields[n].value),
        };
    }
    BOX_AUTO(box_freep) uint8_t *block = box_alloc(MAX_BLOCK);
    ssize_t len = nghttp2_hd_deflate_hd(r->deflater, block, MAX_BLOCK, nv, n);
    assert_true(len >= 0);
    enum { PIECE = 16000 };
    size_t left = (size_t)len;
    size_t first = left < PIECE ? left : PIECE;
    raw_frame(r, NGHTTP2_HEADERS, (uint8_t)(flags | (first == left ? NGHTTP2_FLAG_END_HEADERS : 0)),
              id, block, first);
    for (size_t at = first; at < (size_t)len; at += PIECE) {
        left = (size_t)len - at;
        size_t piece = left < PIECE ? left : PIECE;
        raw_frame(r, NGHTTP2_CONTINUATION, piece == left ? NGHTTP2_FLAG_END_HEADERS : 0, id,
                  block + at, piece);
    }
}

void raw_request(h2_raw *r, uint32_t id, const char *path)
{
    const raw_field fields[] = {
        {":method", "POST"},
        {":scheme", "http"},
        {":path", path},
        {":authority", "box.test"},
        {"te", "trailers"},
        {"content-type", "application/grpc"},
        {0},
    };
    raw_headers(r, id, 0, fields);
}

raw_stream *raw_get(h2_raw *r, uint32_t id)
{
    assert_true(id / 2 < RAW_MAX_STREAMS);
    return &r->streams[id / 2];
}

bool raw_has(h2_raw *r, uint32_t id, const char *line)
{
    char text[512];
    (void)snprintf(text, sizeof text, "%s\n", line);
    return strstr(raw_get(r, id)->head, text) != NULL;
}

static void take_headers(h2_raw *r, raw_stream *s, const uint8_t *block, size_t len)
{
    for (;;) {
        nghttp2_nv nv;
        int flags = 0;
        ssize_t n = nghttp2_hd_inflate_hd2(r->inflater, &nv, &flags, block, len, 1);
        assert_true(n >= 0);
        block += n;
        len -= (size_t)n;
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0)
            s->head_len +=
                (size_t)snprintf(s->head + s->head_len, sizeof s->head - s->head_len, "%s: %s\n",
                                 (const char *)nv.name, (const char *)nv.value);
        assert_true(s->head_len < sizeof s->head);
        if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0)
            break;
    }
    assert_int_equal(nghttp2_hd_inflate_end_headers(r->inflater), 0);
    s->head_len += (size_t)snprintf(s->head + s->head_len, sizeof s->head - s->head_len, "\n");
}

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void take_frame(h2_raw *r, const uint8_t *head, const uint8_t *payload, size_t len)
{
    uint8_t type = head[3], flags = head[4];
    uint32_t id = get32(head + 5);
    if (id / 2 >= RAW_MAX_STREAMS)
        return; /* the reset of a stream whose number was damaged */
    raw_stream *s = raw_get(r, id);
    switch (type) {
    case NGHTTP2_HEADERS:
        assert_true((flags & NGHTTP2_FLAG_END_HEADERS) != 0);
        assert_int_equal(flags & NGHTTP2_FLAG_PADDED, 0); /* never (grpc-conformance.md, 42) */
        assert_false(s->ended || s->was_reset);
        take_headers(r, s, payload, len);
        s->ended = (flags & NGHTTP2_FLAG_END_STREAM) != 0;
        break;
    case NGHTTP2_DATA:
        assert_int_equal(flags & NGHTTP2_FLAG_PADDED, 0);
        assert_false(s->ended || s->was_reset);
        put(&s->data, payload, len);
        s->ended = (flags & NGHTTP2_FLAG_END_STREAM) != 0;
        break;
    case NGHTTP2_RST_STREAM:
        s->was_reset = true;
        s->rst_last = s->ended;
        s->rst = get32(payload);
        break;
    case NGHTTP2_GOAWAY:
        r->n_goaway++;
        r->goaway_code = get32(payload + 4);
        (void)snprintf(r->goaway_text, sizeof r->goaway_text, "%.*s", (int)(len - 8),
                       (const char *)payload + 8);
        break;
    case NGHTTP2_PING:
        r->n_ping_acks += (flags & NGHTTP2_FLAG_ACK) != 0;
        break;
    case NGHTTP2_SETTINGS:
        r->n_settings_acks += (flags & NGHTTP2_FLAG_ACK) != 0;
        break;
    default:
        break;
    }
}

static void parse(h2_raw *r)
{
    const uint8_t *data = r->in.data != NULL ? box_buf_data(&r->in) : NULL;
    size_t have = box_buf_len(&r->in), at = 0;
    if (have >= sizeof magic - 1 && memcmp(data, magic, sizeof magic - 1) == 0)
        at = sizeof magic - 1;
    while (have - at >= FRAME_HEAD) {
        size_t len = (size_t)data[at] << 16 | (size_t)data[at + 1] << 8 | data[at + 2];
        if (have - at - FRAME_HEAD < len)
            break;
        take_frame(r, data + at, data + at + FRAME_HEAD, len);
        at += FRAME_HEAD + len;
    }
    box_buf_consume(&r->in, at);
}

int raw_exchange(h2_raw *r, h2_peer *core, size_t chunk)
{
    int rc = 0;
    box_error err;
    if (box_buf_len(&r->out) > 0)
        rc = h2_feed(core, box_buf_data(&r->out), box_buf_len(&r->out), chunk);
    box_buf_clear(&r->out);
    size_t before;
    do {
        before = box_buf_len(&r->in);
        if (box_h2_send(core->h, &r->in, 4096, &err) < 0)
            rc = -1;
    } while (box_buf_len(&r->in) > before);
    parse(r);
    return rc;
}

static void answer(seen *call)
{
    box_h2_finish(call->s, NULL, NULL);
}

raw_pair raw_pair_new(void)
{
    raw_pair p = {.server = h2_peer_new(true, NULL)};
    raw_init(&p.raw, true);
    p.server->on_half_close = answer;
    return p;
}

void raw_pair_done(raw_pair *p)
{
    raw_done(&p->raw);
    h2_peer_free(p->server);
}
