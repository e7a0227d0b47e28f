#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

/* Length of the sequence at p (1-4), or 0 when it is not valid within len bytes. */
static size_t sequence(const unsigned char *p, size_t len)
{
    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    size_t need = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (len < need)
        return 0;
    /* The second byte's range depends on the first (RFC 3629, section 4). */
    unsigned low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
    unsigned high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
    if (p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < need; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    }
    return need;
}

/* Most text is ASCII: eight bytes at once, as long as they are. */
static size_t ascii_prefix(const unsigned char *p, size_t len)
{
    uint64_t eight;
    size_t at = 0;
    for (; len - at >= sizeof eight; at += sizeof eight) {
        memcpy(&eight, p + at, sizeof eight);
        if ((eight & UINT64_C(0x8080808080808080)) != 0)
            break;
    }
    return at;
}

size_t box_utf8_valid_prefix(const char *data, size_t len)
{
    const unsigned char *p = (const unsigned char *)data;
    size_t at = 0;
    while (at < len) {
        if (p[at] < 0x80)
            at += ascii_prefix(p + at, len - at);
        if (at == len)
            break;
        size_t n = sequence(p + at, len - at);
        if (n == 0)
            break;
        at += n;
    }
    return at;
}

bool box_utf8_valid(const char *data, size_t len)
{
    return box_utf8_valid_prefix(data, len) == len;
}

size_t box_utf8_control(const char *p)
{
    const unsigned char *at = (const unsigned char *)p;
    if (at[0] == 0xc2 && at[1] >= 0x80 && at[1] <= 0x9f)
        return 2;
    return (at[0] < 0x20 && at[0] != '\0') || at[0] == 0x7f ? 1 : 0;
}

void box_utf8_hide_controls(char *text, const char *kept)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; to++) {
        size_t n = strchr(kept, *from) == NULL ? box_utf8_control(from) : 0;
        if (n > 0)
            *to = '?';
        else if (to != from)
            *to = *from;
        from += n > 0 ? n : 1;
    }
    if (*to != '\0')
        *to = '\0';
}

void box_utf8_scrub(char *text)
{
    size_t len = strlen(text);
    size_t at = 0;
    for (;;) {
        at += box_utf8_valid_prefix(text + at, len - at);
        if (at >= len)
            return;
        text[at++] = '?';
    }
}
