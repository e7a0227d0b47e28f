#include "wire/codec.h"

#include <assert.h>

#include "base/clock.h"
#include "base/utf8.h"

typedef struct timeout_unit {
    char letter;
    uint64_t ns;
} timeout_unit;

/* Finest first. */
static const timeout_unit units[] = {
    {'n', 1},          {'u', BOX_US},          {'m', BOX_MS},
    {'S', BOX_SECOND}, {'M', 60 * BOX_SECOND}, {'H', 3600 * BOX_SECOND},
};

enum { MAX_TIMEOUT_DIGITS = 8, MAX_TIMEOUT_VALUE = 99999999 };

int box_timeout_parse(const char *s, size_t len, uint64_t *out_ns, box_error *err)
{
    if (len < 2 || len > MAX_TIMEOUT_DIGITS + 1)
        return box_fail(err, BOX_VALIDATION, "a timeout is 1 to 8 digits and a unit");
    uint64_t value = 0;
    for (size_t i = 0; i < len - 1; i++) {
        if (s[i] < '0' || s[i] > '9')
            return box_fail(err, BOX_VALIDATION, "a timeout is 1 to 8 digits and a unit");
        value = value * 10 + (uint64_t)(s[i] - '0');
    }
    for (size_t i = 0; i < BOX_COUNT(units); i++) {
        if (units[i].letter != s[len - 1])
            continue;
        bool fits = value <= (BOX_TIME_NEVER - 1) / units[i].ns;
        *out_ns = fits ? value * units[i].ns : BOX_TIME_NEVER - 1;
        return 0;
    }
    return box_fail(err, BOX_VALIDATION, "a timeout's unit is one of H M S m u n");
}

void box_timeout_format(uint64_t ns, char out[BOX_TIMEOUT_TEXT])
{
    for (size_t i = 0; i < BOX_COUNT(units); i++) {
        uint64_t value = ns / units[i].ns + (ns % units[i].ns != 0);
        if (value > MAX_TIMEOUT_VALUE)
            continue;
        (void)snprintf(out, BOX_TIMEOUT_TEXT, "%u%c", (unsigned)value, units[i].letter);
        return;
    }
    assert(!"2^64 ns is less than 99999999 hours");
}

int box_percent_encode(const char *text, box_buf *out, box_error *err)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t len = strlen(text);
    uint8_t *room;
    if (box_buf_reserve(out, 3 * len, &room, err) < 0)
        return -1;
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        bool edge = c == ' ' && (i == 0 || i == len - 1); /* HTTP strips it */
        if (c >= 0x20 && c <= 0x7e && c != '%' && !edge) {
            room[n++] = c;
            continue;
        }
        room[n++] = '%';
        room[n++] = (uint8_t)digits[c >> 4];
        room[n++] = (uint8_t)digits[c & 15];
    }
    box_buf_commit(out, n);
    return 0;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void box_percent_decode(const char *text, size_t len, char *out, size_t out_size)
{
    size_t n = 0;
    for (size_t i = 0; i < len && n + 1 < out_size; i++) {
        char c = text[i];
        if (c == '%' && len - i > 2 && hex_value(text[i + 1]) >= 0 && hex_value(text[i + 2]) >= 0) {
            c = (char)(hex_value(text[i + 1]) << 4 | hex_value(text[i + 2]));
            i += 2;
        }
        out[n++] = c != '\0' ? c : '?';
    }
    out[n] = '\0';
    box_utf8_scrub(out);
}

static const char alphabet[64] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void box_base64_encode_raw(const void *data, size_t len, char *out)
{
    const uint8_t *in = data;
    uint32_t bits = 0;
    unsigned n_bits = 0;
    for (size_t i = 0; i < len; i++) {
        bits = bits << 8 | in[i];
        for (n_bits += 8; n_bits >= 6; n_bits -= 6)
            *out++ = alphabet[bits >> (n_bits - 6) & 63];
    }
    if (n_bits > 0)
        *out++ = alphabet[bits << (6 - n_bits) & 63];
}

int box_base64_encode(const void *data, size_t len, box_buf *out, box_error *err)
{
    uint8_t *room;
    if (box_buf_reserve(out, box_base64_size(len), &room, err) < 0)
        return -1;
    box_base64_encode_raw(data, len, (char *)room);
    box_buf_commit(out, box_base64_size(len));
    return 0;
}

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool box_base64_decode_raw(const char *text, size_t len, uint8_t *out, size_t *out_len)
{
    if (len % 4 == 0 && len > 0 && text[len - 1] == '=')
        len -= text[len - 2] == '=' ? 2 : 1;
    if (len % 4 == 1)
        return false;
    uint32_t bits = 0;
    unsigned n_bits = 0;
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        int value = base64_value(text[i]);
        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            out[n++] = (uint8_t)(bits >> n_bits);
        }
    }
    *out_len = n;
    return true;
}

int box_base64_decode(const char *text, size_t len, box_buf *out, box_error *err)
{
    uint8_t *room;
    size_t decoded;
    if (box_buf_reserve(out, len / 4 * 3 + 3, &room, err) < 0)
        return -1;
    if (!box_base64_decode_raw(text, len, room, &decoded))
        return box_fail(err, BOX_VALIDATION, "not base64");
    box_buf_commit(out, decoded);
    return 0;
}
