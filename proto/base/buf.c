#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <unistd.h>

enum { DEFAULT_MAX = 64 * 1024 * 1024, FIRST_CAPACITY = 512, READ_STEP = 16 * 1024 };

void box_buf_init(box_buf *b, size_t max_bytes)
{
    *b = (box_buf){.max_bytes = max_bytes};
}

void box_buf_done(box_buf *b)
{
    free(b->data);
    box_share_give(b->share, b->capacity);
    *b = (box_buf){.max_bytes = b->max_bytes, .share = b->share};
}

static void compact(box_buf *b)
{
    size_t len = box_buf_len(b);
    if (len > 0)
        memmove(b->data, b->data + b->start, len);
    b->start = 0;
    b->end = len;
}

static int grow(box_buf *b, size_t capacity, box_error *err)
{
    size_t more = capacity - b->capacity;
    if (box_share_take(b->share, more, err) < 0)
        return -1;
    uint8_t *data = realloc(b->data, capacity);
    if (data == NULL) {
        box_share_give(b->share, more);
        return box_fail(err, BOX_MEMORY_BUDGET, "out of memory for %zu bytes", capacity);
    }
    b->data = data;
    b->capacity = capacity;
    return 0;
}

int box_buf_reserve(box_buf *b, size_t len, uint8_t **out, box_error *err)
{
    size_t max = b->max_bytes != 0 ? b->max_bytes : DEFAULT_MAX;
    size_t used = box_buf_len(b);
    if (len > max || used > max - len) {
        (void)box_fail(err, BOX_MEMORY_BUDGET, "a buffer would pass its limit of %zu bytes", max);
        return -1; /* what box_fail returns too; clang's analyzer does not see that */
    }
    if (b->capacity - b->end < len && b->start > 0)
        compact(b);
    if (b->capacity - b->end < len) {
        size_t capacity = b->capacity != 0 ? b->capacity : FIRST_CAPACITY;
        while (capacity - b->end < len)
            capacity *= 2;
        if (grow(b, capacity, err) < 0)
            return -1;
    }
    *out = b->data + b->end;
    return 0;
}

void box_buf_commit(box_buf *b, size_t len)
{
    b->end += len;
}

int box_buf_add(box_buf *b, const void *data, size_t len, box_error *err)
{
    uint8_t *room;
    if (len == 0)
        return 0;
    if (box_buf_reserve(b, len, &room, err) < 0)
        return -1;
    memcpy(room, data, len);
    box_buf_commit(b, len);
    return 0;
}

int box_buf_printf(box_buf *b, box_error *err, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    uint8_t *room;
    if (len < 0)
        return box_fail(err, BOX_INTERNAL, "cannot format text");
    if (box_buf_reserve(b, (size_t)len + 1, &room, err) < 0)
        return -1;
    va_start(args, fmt);
    (void)vsnprintf((char *)room, (size_t)len + 1, fmt, args);
    va_end(args);
    box_buf_commit(b, (size_t)len);
    return 0;
}

void box_buf_consume(box_buf *b, size_t len)
{
    size_t have = box_buf_len(b);
    b->start += len < have ? len : have;
    if (b->start == b->end)
        b->start = b->end = 0;
}

void box_buf_clear(box_buf *b)
{
    b->start = b->end = 0;
}

int box_buf_read_fd(box_buf *b, int fd, box_error *err)
{
    size_t max = b->max_bytes != 0 ? b->max_bytes : DEFAULT_MAX;
    for (;;) {
        uint8_t *room;
        uint8_t past; /* at the ceiling: is there more, or is this the end? */
        size_t left = max - box_buf_len(b);
        size_t step = left < READ_STEP ? left : READ_STEP;
        if (box_buf_reserve(b, step, &room, err) < 0)
            return -1;
        ssize_t n = read(fd, step > 0 ? room : &past, step > 0 ? step : 1);
        if (n == 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return box_fail_errno(err, "read");
        if (n > 0 && step == 0)
            return box_fail(err, BOX_MEMORY_BUDGET, "more than %zu bytes", max);
        if (n > 0)
            box_buf_commit(b, (size_t)n);
    }
}

int box_buf_text(box_buf *b, const char **out, box_error *err)
{
    if (box_buf_add(b, "", 1, err) < 0)
        return -1;
    b->end--; /* the NUL is not counted */
    *out = (const char *)box_buf_data(b);
    return 0;
}
