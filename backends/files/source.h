/* A file that is being read, as large as it was when it was opened: what it grows by meanwhile is
 * not seen, so that its end is known without asking for it. Its first bytes are read once. */
#pragma once

#include "files/place.h"

enum { BOX_SOURCE_HEAD_BYTES = 8192 };

typedef struct box_source {
    int fd; /* the caller's */
    const char *path;
    int64_t end; /* INT64_MAX: its size says nothing, as in /proc */
    size_t head_len;
    uint8_t head[BOX_SOURCE_HEAD_BYTES];
} box_source;

/* Reads the first bytes; st is what fstat said of a regular file. Borrows the path, for errors. */
int box_source_init(box_source *s, int fd, const struct stat *st, const char *path, box_error *err)
    BOX_MUST_USE;
/* Some bytes of what is at the offset; 0 at the end. */
ssize_t box_source_read(const box_source *s, void *out, size_t len, int64_t offset, box_error *err)
    BOX_MUST_USE;
/* How much there is from the offset on, at most `most`. */
size_t box_source_left(const box_source *s, int64_t offset, size_t most);
