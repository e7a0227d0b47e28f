/* grpc-timeout, percent-encoding and base64: both directions agree. The first byte picks one. */
#include <assert.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "fuzz.h"
#include "wire/codec.h"

static void timeout(box_bytes in)
{
    uint64_t ns;
    box_error err;
    BOX_AUTO(box_freep)
    uint8_t *exact = fuzz_copy(in);
    if (box_timeout_parse((const char *)exact, in.len, &ns, &err) < 0) {
        assert(err.reason == BOX_VALIDATION);
        return;
    }
    assert(ns < BOX_TIME_NEVER);
    char text[BOX_TIMEOUT_TEXT];
    uint64_t again;
    box_timeout_format(ns, text);
    int rc = box_timeout_parse(text, strlen(text), &again, &err);
    assert(rc == 0 && again >= ns);
    /* Rounded up, by 1000 of the unit below 10^8 of it at most. */
    assert(again - ns <= ns / 50000);
}

/* Any number has a text that says at least as much. */
static void timeout_text(box_bytes in)
{
    uint64_t ns = (uint64_t)fuzz_u32(&in) << 32 | fuzz_u32(&in), again;
    char text[BOX_TIMEOUT_TEXT];
    box_error err;
    box_timeout_format(ns, text);
    int rc = box_timeout_parse(text, strlen(text), &again, &err);
    assert(rc == 0);
    assert((ns == 0) == (again == 0));
    assert(again >= ns || again == BOX_TIME_NEVER - 1);
}

static void percent_decode(box_bytes in)
{
    BOX_AUTO(box_freep)
    uint8_t *exact = fuzz_copy(in);
    for (size_t size = 1; size <= in.len + 2; size += 1 + size / 2) {
        BOX_AUTO(box_freep)
        char *out = malloc(size);
        if (out == NULL)
            abort();
        box_percent_decode((const char *)exact, in.len, out, size);
        assert(strnlen(out, size) < size);
        assert(box_utf8_valid(out, strlen(out)));
    }
}

/* Valid text comes back as it was. */
static void percent_round_trip(box_bytes in)
{
    BOX_AUTO(box_freep)
    char *text = fuzz_text(in);
    BOX_AUTO(box_buf_done)
    box_buf wire = {0};
    box_error err;
    int rc = box_percent_encode(text, &wire, &err);
    assert(rc == 0);
    for (size_t i = 0; i < box_buf_len(&wire); i++)
        assert(box_buf_data(&wire)[i] >= 0x20 && box_buf_data(&wire)[i] <= 0x7e);
    size_t size = strlen(text) + 1;
    BOX_AUTO(box_freep)
    char *back = box_alloc(size);
    box_percent_decode((const char *)box_buf_data(&wire), box_buf_len(&wire), back, size);
    box_utf8_scrub(text);
    assert(strcmp(text, back) == 0);
}

static void base64_decode(box_bytes in)
{
    BOX_AUTO(box_freep)
    uint8_t *exact = fuzz_copy(in);
    BOX_AUTO(box_freep)
    uint8_t *raw = malloc(in.len / 4 * 3 + 2);
    if (raw == NULL)
        abort();
    BOX_AUTO(box_buf_done)
    box_buf out = {0};
    box_error err;
    size_t len = 0;
    bool fits = box_base64_decode_raw((const char *)exact, in.len, raw, &len);
    int rc = box_base64_decode((const char *)exact, in.len, &out, &err);
    assert(fits == (rc == 0));
    if (!fits)
        return;
    assert(len <= in.len / 4 * 3 + 2 && box_buf_len(&out) == len);
    assert(len == 0 || memcmp(raw, box_buf_data(&out), len) == 0);
}

static void base64_round_trip(box_bytes in)
{
    BOX_AUTO(box_buf_done)
    box_buf text = {0};
    BOX_AUTO(box_buf_done)
    box_buf back = {0};
    box_error err;
    int rc = box_base64_encode(in.data, in.len, &text, &err);
    assert(rc == 0);
    rc = box_base64_decode((const char *)box_buf_data(&text), box_buf_len(&text), &back, &err);
    assert(rc == 0 && box_buf_len(&back) == in.len);
    assert(in.len == 0 || memcmp(box_buf_data(&back), in.data, in.len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const parts[])(box_bytes) = {timeout,        timeout_text,
                                               percent_decode, percent_round_trip,
                                               base64_decode,  base64_round_trip};
    box_bytes in = {data, size};
    uint8_t part = fuzz_u8(&in);
    parts[part % BOX_COUNT(parts)](in);
    return 0;
}
