#include "files/lines.h"

#include <errno.h>
#include <unistd.h>

/* More behind what there is; false at the end or on an error (*failed). */
static bool fill(box_lines *l, bool *failed)
{
    if (l->ended)
        return false;
    if (l->at > 0) {
        memmove(l->room, l->room + l->at, l->have - l->at);
        l->offset += (int64_t)l->at;
        l->have -= l->at;
        l->at = 0;
    }
    ssize_t n;
    do {
        n = read(l->fd, l->room + l->have, BOX_LINES_BYTES - l->have);
    } while (n < 0 && errno == EINTR);
    *failed = n < 0;
    l->ended = n == 0;
    if (n > 0)
        l->have += (size_t)n;
    return n > 0;
}

/* The rest of a line that is too long. */
static int skip_rest(box_lines *l)
{
    bool failed = false;
    for (;;) {
        l->at = l->have;
        if (!fill(l, &failed))
            return failed ? -1 : 0;
        const uint8_t *nl = memchr(l->room, '\n', l->have);
        if (nl != NULL) {
            l->at = (size_t)(nl - l->room) + 1;
            return 0;
        }
    }
}

static void give(const box_lines *l, size_t len, box_lines_line *out)
{
    *out = (box_lines_line){.data = l->room + l->at,
                            .len = len,
                            .number = l->number,
                            .offset = l->offset + (int64_t)l->at};
    if (len > 0 && out->data[len - 1] == '\r')
        out->len--;
}

int box_lines_next(box_lines *l, box_lines_line *out)
{
    bool failed = false;
    /* What was given last may still be borrowed; now it is not. */
    if (l->skip && skip_rest(l) < 0)
        return -1;
    l->skip = false;
    for (size_t seen = 0;;) {
        const uint8_t *from = l->room + l->at;
        size_t left = l->have - l->at;
        const uint8_t *nl = left > seen ? memchr(from + seen, '\n', left - seen) : NULL;
        if (nl != NULL || left == BOX_LINES_BYTES || (l->ended && left > 0)) {
            size_t len = nl != NULL ? (size_t)(nl - from) : left;
            l->number++;
            give(l, len, out);
            out->cut = nl == NULL && !l->ended;
            l->skip = out->cut;
            l->at += len + (nl != NULL ? 1 : 0);
            return 1;
        }
        seen = left;
        if (!fill(l, &failed) && (failed || left == 0))
            return failed ? -1 : 0;
    }
}
