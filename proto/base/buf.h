/* box_buf: a growing byte buffer with a ceiling; box_bytes: borrowed bytes. */
#pragma once

#include <stdint.h>

#include "base/budget.h"

/* Borrowed; valid as long as its owner says. */
typedef struct box_bytes {
    const uint8_t *data;
    size_t len;
} box_bytes;

/* All zero is valid and empty with no ceiling set: call box_buf_init or set max_bytes before adding
 * what a peer sent. Consumed bytes in front are dropped lazily. */
typedef struct box_buf {
    uint8_t *data; /* allocation */
    size_t start;  /* first unread byte */
    size_t end;    /* one past the last */
    size_t capacity;
    size_t max_bytes; /* ceiling for end - start; 0 = 64 MiB */
    box_share *share; /* charged for capacity, may be set while empty; NULL = nobody */
} box_buf;

void box_buf_init(box_buf *b, size_t max_bytes);
void box_buf_done(box_buf *b);

/* Appends; -1 with MEMORY_BUDGET when the ceiling would be passed or the share has no more, nothing
 * added. */
int box_buf_add(box_buf *b, const void *data, size_t len, box_error *err) BOX_MUST_USE;
int box_buf_printf(box_buf *b, box_error *err, const char *fmt, ...) BOX_PRINTF(3, 4) BOX_MUST_USE;

/* Room for len more bytes at *out, to be filled and then claimed with box_buf_commit. */
int box_buf_reserve(box_buf *b, size_t len, uint8_t **out, box_error *err) BOX_MUST_USE;
void box_buf_commit(box_buf *b, size_t len);

static inline size_t box_buf_len(const box_buf *b)
{
    return b->end - b->start;
}

static inline const uint8_t *box_buf_data(const box_buf *b)
{
    return b->data + b->start;
}

/* Drops len bytes from the front (at most all). */
void box_buf_consume(box_buf *b, size_t len);
void box_buf_clear(box_buf *b);

/* Reads fd to its end. The ceiling holds. */
int box_buf_read_fd(box_buf *b, int fd, box_error *err) BOX_MUST_USE;
/* Ends the content with a NUL that is not counted and returns it as text; b keeps it. */
int box_buf_text(box_buf *b, const char **out, box_error *err) BOX_MUST_USE;
