#include "h2_script.h"

#include <assert.h>

#include "base/alloc.h"
#include "wire/compress.h"

enum {
    FRAME_HEAD = 9,
    MAX_FIELDS = 24,
    MAX_REPEAT = 1200, /* more than nghttp2 lets wait (1000), so that floods are seen */
    MAX_OUT = 1024 * 1024,
    MAX_FRAME = 16384,
    MAX_MESSAGE = 2048,
    MAX_TIMES = 100, /* beyond the targets' largest message */
};

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

static void put(h2_script *s, const void *data, size_t len)
{
    box_error err;
    if (box_buf_add(&s->out, data, len, &err) < 0)
        return; /* the script asks for too much */
}

static void put_frame(h2_script *s, uint8_t type, uint8_t flags, uint32_t id, const void *payload,
                      size_t len)
{
    const uint8_t head[FRAME_HEAD] = {
        (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len,       type,       flags,
        (uint8_t)(id >> 24),  (uint8_t)(id >> 16), (uint8_t)(id >> 8), (uint8_t)id};
    if (box_buf_len(&s->out) + sizeof head + len > MAX_OUT)
        return;
    put(s, head, sizeof head);
    put(s, payload, len);
}

void h2_script_init(h2_script *s, const h2_words *words, bool client, size_t chunk)
{
    *s = (h2_script){.words = words, .chunk = chunk > 0 ? chunk : MAX_OUT};
    box_buf_init(&s->out, MAX_OUT);
    if (nghttp2_hd_deflate_new(&s->deflater, 4096) != 0)
        abort();
    if (client)
        put(s, preface, sizeof preface - 1);
    put_frame(s, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
}

void h2_script_done(h2_script *s)
{
    nghttp2_hd_deflate_del(s->deflater);
    box_buf_done(&s->out);
}

void h2_script_bytes(h2_script *s, box_bytes bytes)
{
    put(s, bytes.data, bytes.len);
}

/* --- steps -------------------------------------------------------------------------------------
 */

/* Small odd ids mostly. */
static uint32_t read_id(box_bytes *in)
{
    uint8_t b = fuzz_u8(in);
    return b < 0x80 ? 2 * (b & 15u) + 1 : b & 0x7fu;
}

static box_bytes read_payload(box_bytes *in)
{
    return fuzz_take(in, fuzz_u8(in));
}

static nghttp2_nv field(const char *name, size_t name_len, const char *value, size_t value_len)
{
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
                        .namelen = name_len,
                        .value = (uint8_t *)(uintptr_t)value,
                        .valuelen = value_len};
}

static nghttp2_nv known_field(const h2_field *f)
{
    return field(f->name, strlen(f->name), f->value, strlen(f->value));
}

/* One of the words, or one with a value of the input's, or with both. */
static nghttp2_nv read_field(const h2_words *words, box_bytes *in)
{
    uint8_t b = fuzz_u8(in);
    const h2_field *known = &words->fields[(b & 0x3f) % words->n_fields];
    if (b < 0x80)
        return known_field(known);
    if (b < 0xc0) {
        box_bytes value = read_payload(in);
        return field(known->name, strlen(known->name), (const char *)value.data, value.len);
    }
    box_bytes name = fuzz_take(in, fuzz_u8(in) & 31);
    box_bytes value = read_payload(in);
    return field((const char *)name.data, name.len, (const char *)value.data, value.len);
}

static size_t read_fields(const h2_words *words, box_bytes *in, nghttp2_nv *out)
{
    size_t n = 0;
    uint8_t head = fuzz_u8(in);
    if (head % (words->n_heads + 1) < words->n_heads) {
        const h2_field *f = words->heads[head % (words->n_heads + 1)];
        for (; f->name != NULL; f++)
            out[n++] = known_field(f);
    }
    for (unsigned more = fuzz_u8(in) & 7; more > 0 && n < MAX_FIELDS; more--)
        out[n++] = read_field(words, in);
    return n;
}

/* HEADERS, perhaps with a CONTINUATION. Flags: 1 END_STREAM, 2 cut in two, 4 never ended. */
static void step_headers(h2_script *s, box_bytes *in)
{
    nghttp2_nv fields[MAX_FIELDS];
    uint8_t block[8192];
    uint32_t id = read_id(in);
    uint8_t flags = fuzz_u8(in);
    size_t n = read_fields(s->words, in, fields);
    ssize_t len = nghttp2_hd_deflate_hd(s->deflater, block, sizeof block, fields, n);
    if (len < 0)
        return; /* larger than block: nothing the input can make */
    size_t first = (flags & 2) != 0 ? (size_t)len / 2 : (size_t)len;
    uint8_t end = (flags & 4) != 0 ? 0 : NGHTTP2_FLAG_END_HEADERS;
    uint8_t end_stream = (flags & 1) != 0 ? NGHTTP2_FLAG_END_STREAM : 0;
    bool cut = first < (size_t)len;
    put_frame(s, NGHTTP2_HEADERS, (uint8_t)(end_stream | (cut ? 0 : end)), id, block, first);
    if (cut)
        put_frame(s, NGHTTP2_CONTINUATION, end, id, block + first, (size_t)len - first);
}

/* The payload as gzip or deflate make it, once or (4) many times over. */
static box_bytes squeeze(uint8_t how, box_bytes payload, box_buf *plain, box_buf *squeezed)
{
    box_error err;
    for (int i = 0; i < ((how & 4) != 0 ? MAX_TIMES : 1); i++) {
        if (box_buf_add(plain, payload.data, payload.len, &err) < 0)
            return payload;
    }
    box_encoding e = (how & 2) != 0 ? BOX_DEFLATE : BOX_GZIP;
    if (box_compress(e, box_buf_data(plain), box_buf_len(plain), squeezed, &err) < 0)
        return payload;
    return (box_bytes){box_buf_data(squeezed), box_buf_len(squeezed)};
}

/* A gRPC message in DATA. Flags: 1 END_STREAM, 2 cut into two frames, 4 it says to be longer than
 * it is, 8 it has the compressed flag, 16 padded, from 32 on it is compressed indeed (squeeze). */
static void step_message(h2_script *s, box_bytes *in)
{
    enum { PREFIX = 5, PAD = 3 };
    uint32_t id = read_id(in);
    uint8_t flags = fuzz_u8(in);
    box_bytes payload = read_payload(in);
    BOX_AUTO(box_buf_done)
    box_buf plain = {0};
    BOX_AUTO(box_buf_done)
    box_buf squeezed = {0};
    if ((flags & 32) != 0)
        payload = squeeze(flags >> 5, payload, &plain, &squeezed);
    uint8_t data[1 + PREFIX + MAX_MESSAGE + PAD] = {PAD};
    if (payload.len > MAX_MESSAGE)
        return;
    size_t says = payload.len + ((flags & 4) != 0 ? 1 : 0);
    uint8_t *message = data + 1;
    message[0] = (flags & 8) != 0;
    message[3] = (uint8_t)(says >> 8);
    message[4] = (uint8_t)says;
    if (payload.len > 0)
        memcpy(message + PREFIX, payload.data, payload.len);
    size_t len = PREFIX + payload.len;
    uint8_t end = (flags & 1) != 0 ? NGHTTP2_FLAG_END_STREAM : 0;
    if ((flags & 16) != 0) {
        put_frame(s, NGHTTP2_DATA, end | NGHTTP2_FLAG_PADDED, id, data, 1 + len + PAD);
        return;
    }
    size_t first = (flags & 2) != 0 ? len / 2 : len;
    put_frame(s, NGHTTP2_DATA, first == len ? end : 0, id, message, first);
    if (first < len)
        put_frame(s, NGHTTP2_DATA, end, id, message + first, len - first);
}

static void step_any_frame(h2_script *s, box_bytes *in)
{
    uint8_t type = fuzz_u8(in);
    uint8_t flags = fuzz_u8(in);
    uint32_t id = read_id(in);
    box_bytes payload = read_payload(in);
    put_frame(s, type, flags, id, payload.data, payload.len);
}

/* HEADERS whose block is the input's: HPACK. */
static void step_block(h2_script *s, box_bytes *in)
{
    uint32_t id = read_id(in);
    uint8_t flags = fuzz_u8(in);
    box_bytes block = read_payload(in);
    put_frame(s, NGHTTP2_HEADERS, flags, id, block.data, block.len);
}

static void step_data(h2_script *s, box_bytes *in)
{
    uint32_t id = read_id(in);
    uint8_t flags = fuzz_u8(in) & NGHTTP2_FLAG_END_STREAM;
    box_bytes payload = read_payload(in);
    put_frame(s, NGHTTP2_DATA, flags, id, payload.data, payload.len);
}

static void put32(uint8_t *out, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(value >> (24 - 8 * i));
}

static void step_settings(h2_script *s, box_bytes *in)
{
    uint8_t payload[6 * 4];
    size_t n = fuzz_u8(in) % 5;
    for (size_t i = 0; i < n; i++) {
        payload[6 * i] = 0;
        payload[6 * i + 1] = fuzz_u8(in) & 15;
        put32(payload + 6 * i + 2, fuzz_u32(in));
    }
    put_frame(s, NGHTTP2_SETTINGS, n == 0 ? NGHTTP2_FLAG_ACK : 0, 0, payload, 6 * n);
}

static void step_window(h2_script *s, box_bytes *in)
{
    uint8_t payload[4];
    uint8_t b = fuzz_u8(in);
    put32(payload, fuzz_u32(in));
    put_frame(s, NGHTTP2_WINDOW_UPDATE, 0, b < 0x80 ? 2 * (b & 15u) + 1 : 0, payload, 4);
}

static void step_reset(h2_script *s, box_bytes *in)
{
    uint8_t payload[4];
    uint32_t id = read_id(in);
    put32(payload, fuzz_u8(in) & 15);
    put_frame(s, NGHTTP2_RST_STREAM, 0, id, payload, 4);
}

/* The answer to a draining server's PING, when it asks for that. */
static void step_ping(h2_script *s, box_bytes *in)
{
    uint8_t b = fuzz_u8(in);
    put_frame(s, NGHTTP2_PING, (b & 1) != 0 ? NGHTTP2_FLAG_ACK : 0, 0,
              (b & 2) != 0 ? "boxdrain" : "12345678", 8);
}

static void step_goaway(h2_script *s, box_bytes *in)
{
    uint8_t payload[8 + 255];
    put32(payload, read_id(in));
    put32(payload + 4, fuzz_u8(in) & 15);
    box_bytes text = read_payload(in);
    if (text.len > 0)
        memcpy(payload + 8, text.data, text.len);
    put_frame(s, NGHTTP2_GOAWAY, 0, 0, payload, 8 + text.len);
}

static void step_bytes(h2_script *s, box_bytes *in)
{
    h2_script_bytes(s, read_payload(in));
}

static void step_again(h2_script *s, box_bytes *in);

typedef void step(h2_script *s, box_bytes *in);

static step *const steps[] = {
    step_headers,  step_message,   step_headers, step_message, step_data,
    step_settings, step_window,    step_reset,   step_ping,    step_goaway,
    step_block,    step_any_frame, step_bytes,   step_again,
};

/* The next step's frames many times: floods. */
static void step_again(h2_script *s, box_bytes *in)
{
    size_t start = box_buf_len(&s->out);
    size_t times = 5 * (size_t)fuzz_u8(in);
    uint8_t kind = fuzz_u8(in) % (BOX_COUNT(steps) - 1); /* not this one */
    steps[kind](s, in);
    size_t len = box_buf_len(&s->out) - start;
    if (len == 0)
        return;
    BOX_AUTO(box_freep)
    uint8_t *once = box_alloc(len);
    memcpy(once, box_buf_data(&s->out) + start, len);
    times = times < MAX_REPEAT ? times : MAX_REPEAT;
    while (times-- > 0 && box_buf_len(&s->out) + len <= MAX_OUT / 8)
        put(s, once, len);
}

void h2_script_step(h2_script *s, uint8_t kind, box_bytes *in)
{
    steps[kind % BOX_COUNT(steps)](s, in);
}

/* --- both ways ---------------------------------------------------------------------------------
 */

bool h2_script_feed(h2_script *s, box_h2 *core)
{
    bool whole = true;
    box_error err;
    while (whole && box_buf_len(&s->out) > 0) {
        size_t len = box_buf_len(&s->out);
        box_bytes piece = {box_buf_data(&s->out), len < s->chunk ? len : s->chunk};
        BOX_AUTO(box_freep)
        uint8_t *exact = fuzz_copy(piece);
        whole = box_h2_receive(core, exact, piece.len, &err) == 0;
        if (!whole)
            assert(err.reason != BOX_NONE);
        box_buf_consume(&s->out, piece.len);
    }
    box_buf_clear(&s->out);
    return whole;
}

static void check_frame(h2_script *s, const uint8_t *head, size_t len)
{
    uint8_t type = head[3], flags = head[4];
    uint32_t id =
        (uint32_t)head[5] << 24 | (uint32_t)head[6] << 16 | (uint32_t)head[7] << 8 | head[8];
    bool is_content = type == NGHTTP2_DATA || type == NGHTTP2_HEADERS;
    assert(len <= MAX_FRAME);
    assert(type <= NGHTTP2_CONTINUATION && type != NGHTTP2_PUSH_PROMISE);
    assert(type == NGHTTP2_DATA || type == NGHTTP2_HEADERS || type == NGHTTP2_CONTINUATION ||
           type == NGHTTP2_RST_STREAM || type == NGHTTP2_WINDOW_UPDATE || id == 0);
    if (id == 0 || id / 2 >= H2_SCRIPT_STREAMS)
        return;
    if (is_content) {
        assert(!s->ended[id / 2]);
        assert((flags & NGHTTP2_FLAG_PADDED) == 0);
    }
    if ((is_content && (flags & NGHTTP2_FLAG_END_STREAM) != 0) || type == NGHTTP2_RST_STREAM)
        s->ended[id / 2] = true;
}

static void check_frames(h2_script *s, const uint8_t *data, size_t len)
{
    if (len >= sizeof preface - 1 && memcmp(data, preface, sizeof preface - 1) == 0) {
        data += sizeof preface - 1;
        len -= sizeof preface - 1;
    }
    while (len > 0) {
        assert(len >= FRAME_HEAD); /* the core sends whole frames */
        size_t payload = (size_t)data[0] << 16 | (size_t)data[1] << 8 | data[2];
        assert(len - FRAME_HEAD >= payload);
        check_frame(s, data, payload);
        data += FRAME_HEAD + payload;
        len -= FRAME_HEAD + payload;
    }
}

size_t h2_script_drain(h2_script *s, box_h2 *core, size_t max_bytes)
{
    BOX_AUTO(box_buf_done)
    box_buf out = {0};
    box_error err;
    if (box_h2_send(core, &out, max_bytes, &err) < 0)
        assert(err.reason != BOX_NONE && box_h2_is_done(core));
    size_t len = box_buf_len(&out);
    if (len > 0)
        check_frames(s, box_buf_data(&out), len);
    s->sent_bytes += len;
    return len;
}
