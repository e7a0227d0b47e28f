#include "tool/excerpt.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPLACEMENT = 0xfffd, MAX_NOTICE = 64 };

/* --- UTF-8 ------------------------------------------------------------------------------------ */

typedef void put_character(void *arg, uint32_t code);

static void begin(box_utf8_decoder *d, uint8_t byte, put_character *put, void *arg)
{
    if (byte < 0x80) {
        put(arg, byte != 0 ? byte : REPLACEMENT);
    } else if (byte >= 0xc2 && byte < 0xe0) {
        *d = (box_utf8_decoder){.code = byte & 0x1f, .least = 0x80, .left = 1};
    } else if (byte >= 0xe0 && byte < 0xf0) {
        *d = (box_utf8_decoder){.code = byte & 0x0f, .least = 0x800, .left = 2};
    } else if (byte >= 0xf0 && byte < 0xf5) {
        *d = (box_utf8_decoder){.code = byte & 0x07, .least = 0x10000, .left = 3};
    } else {
        put(arg, REPLACEMENT);
    }
}

/* May a sequence go on with this byte? After the second one it may always; before it, overlong
 * forms, surrogates and what is above U+10FFFF end here (RFC 3629, section 4). */
static bool continues(const box_utf8_decoder *d, uint8_t byte)
{
    if ((byte & 0xc0) != 0x80)
        return false;
    uint32_t low = (d->code << 6 | (byte & 0x3f)) << (6 * (d->left - 1));
    uint32_t high = low | ((UINT32_C(1) << (6 * (d->left - 1))) - 1);
    return high >= d->least && low <= 0x10ffff && !(low >= 0xd800 && high <= 0xdfff);
}

static void decode(box_utf8_decoder *d, uint8_t byte, put_character *put, void *arg)
{
    if (d->left > 0 && continues(d, byte)) {
        d->code = d->code << 6 | (byte & 0x3f);
        if (--d->left == 0)
            put(arg, d->code);
        return;
    }
    if (d->left > 0) {
        d->left = 0;
        put(arg, REPLACEMENT);
    }
    begin(d, byte, put, arg);
}

static void end(box_utf8_decoder *d, put_character *put, void *arg)
{
    if (d->left > 0)
        put(arg, REPLACEMENT);
    d->left = 0;
}

static size_t encode(uint32_t code, uint8_t out[4])
{
    static const uint8_t first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t len = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = len; i-- > 1; code >>= 6)
        out[i] = (uint8_t)(0x80 | (code & 0x3f));
    out[0] = (uint8_t)(first[len] | code);
    return len;
}

/* Only without memory can adding fail: a text of a stream is bounded here, one of a message by its
 * size. */
static void add(box_buf *out, const void *data, size_t len)
{
    box_error err;
    if (box_buf_add(out, data, len, &err) < 0)
        abort();
}

static void put_text(void *out, uint32_t code)
{
    uint8_t bytes[4];
    add(out, bytes, encode(code, bytes));
}

void box_text_scrub(const void *data, size_t len, box_buf *out)
{
    const uint8_t *bytes = data;
    box_utf8_decoder d = {0};
    for (size_t i = 0; i < len; i++)
        decode(&d, bytes[i], put_text, out);
    end(&d, put_text, out);
}

/* --- the excerpt ------------------------------------------------------------------------------ */

static void put_excerpt(void *arg, uint32_t code)
{
    box_excerpt *e = arg;
    if (e->total < BOX_EXCERPT_CHARS)
        e->head[e->total] = code;
    e->tail[e->total % BOX_EXCERPT_TAIL] = code;
    e->total++;
}

void box_excerpt_add(box_excerpt *e, const void *data, size_t len)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < len; i++)
        decode(&e->decoder, bytes[i], put_excerpt, e);
}

void box_excerpt_end(box_excerpt *e)
{
    end(&e->decoder, put_excerpt, e);
}

/* What stands between head and tail when `total` characters become `limit`. Its number counts what
 * its own length displaces too: with d digits it is one more than with d - 1, so there is always a
 * d that fits. */
static size_t notice(uint64_t total, size_t limit, char out[MAX_NOTICE])
{
    const size_t fixed = strlen("\n\n... [ characters truncated] ...\n\n");
    for (size_t digits = 1;; digits++) {
        uint64_t missing = total - limit + fixed + digits;
        int len = snprintf(out, MAX_NOTICE, "\n\n... [%" PRIu64 " characters truncated] ...\n\n",
                           missing);
        if ((size_t)len == fixed + digits)
            return (size_t)len;
    }
}

static void add_codes(box_buf *out, const uint32_t *codes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put_text(out, codes[i]);
}

bool box_excerpt_text(const box_excerpt *e, size_t limit, box_buf *out)
{
    char between[MAX_NOTICE];
    assert(limit <= BOX_EXCERPT_CHARS && e->decoder.left == 0);
    if (e->total <= limit) {
        add_codes(out, e->head, (size_t)e->total);
        return false;
    }
    size_t len = notice(e->total, limit, between);
    if (len > limit) { /* no room for anything but a part of it */
        add(out, between, limit);
        return true;
    }
    size_t head = (limit - len) * 60 / 100;
    size_t tail = limit - len - head;
    add_codes(out, e->head, head);
    add(out, between, len);
    for (uint64_t i = e->total - tail; i < e->total; i++)
        put_text(out, e->tail[i % BOX_EXCERPT_TAIL]);
    return true;
}
