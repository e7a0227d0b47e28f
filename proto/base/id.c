#include "base/id.h"

#include <errno.h>
#include <sys/random.h>

void box_random(void *out, size_t len)
{
    uint8_t *at = out;
    while (len > 0) {
        ssize_t n = getrandom(at, len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            abort();
        at += n;
        len -= (size_t)n;
    }
}

box_uid box_uid_new(void)
{
    box_uid uid;
    box_random(uid.bytes, sizeof uid.bytes);
    return uid;
}

void box_uid_text(const box_uid *uid, char out[BOX_UID_TEXT])
{
    box_hex(uid->bytes, sizeof uid->bytes, out);
}

bool box_uid_parse(const char *text, box_uid *out)
{
    return box_unhex(text, out->bytes, sizeof out->bytes);
}

bool box_uid_equal(const box_uid *a, const box_uid *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

void box_hex(const void *data, size_t len, char *out)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *p = data;
    for (size_t i = 0; i < len; i++) {
        out[2 * i] = digits[p[i] >> 4];
        out[2 * i + 1] = digits[p[i] & 15];
    }
    out[2 * len] = '\0';
}

static int nibble(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool box_unhex(const char *text, void *out, size_t len)
{
    uint8_t *p = out;
    if (strlen(text) != 2 * len)
        return false;
    for (size_t i = 0; i < len; i++) {
        int high = nibble(text[2 * i]);
        int low = nibble(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        p[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}
