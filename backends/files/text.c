#include "files/text.h"

#include <string.h>

#include "base/utf8.h"

enum { LOOK_BYTES = 8192, SEQUENCE = 4 /* longest of UTF-8 */ };

static const char unknown[] = "\xef\xbf\xbd"; /* U+FFFD */

/* Length of the longest prefix of valid text, at most `room`, that ends with a character. */
static size_t fitting(const uint8_t *data, size_t len, size_t room)
{
    if (len <= room)
        return len;
    while (room > 0 && (data[room] & 0xc0) == 0x80)
        room--;
    return room;
}

/* How long a sequence beginning with this byte is; 1 for what begins none. */
static size_t announced(uint8_t first)
{
    return first >= 0xf0 && first <= 0xf4 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 1;
}

/* Is data the beginning of a sequence that could still become valid? */
static bool is_cut(const uint8_t *data, size_t len)
{
    if (len >= SEQUENCE || data[0] < 0xc2 || data[0] > 0xf4 || len >= announced(data[0]))
        return false;
    for (size_t i = 1; i < len; i++) {
        if ((data[i] & 0xc0) != 0x80)
            return false;
    }
    return true;
}

size_t box_text_clean(const uint8_t *data, size_t len, bool more, char *out, size_t room,
                      size_t *used, bool *replaced)
{
    size_t at = 0;
    size_t written = 0;
    while (at < len) {
        const uint8_t *nul = memchr(data + at, '\0', len - at);
        size_t span = nul != NULL ? (size_t)(nul - (data + at)) : len - at;
        size_t valid = box_utf8_valid_prefix((const char *)data + at, span);
        size_t fit = fitting(data + at, valid, room - written);
        memcpy(out + written, data + at, fit);
        written += fit;
        at += fit;
        if (fit < valid || at == len)
            break;
        if (more && at + (span - valid) == len && is_cut(data + at, len - at))
            break;
        if (room - written < sizeof unknown - 1)
            break;
        memcpy(out + written, unknown, sizeof unknown - 1);
        written += sizeof unknown - 1;
        at++;
        *replaced = true;
    }
    *used = at;
    return written;
}

bool box_text_is_binary(const uint8_t *data, size_t len)
{
    return len > 0 && memchr(data, '\0', len < LOOK_BYTES ? len : LOOK_BYTES) != NULL;
}
