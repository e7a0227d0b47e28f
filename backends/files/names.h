/* The names in a directory in byte order, with a bounded amount of memory whatever is in it: a
 * directory that holds more than fits is read again for each further piece. What is added or
 * removed meanwhile is seen or not. */
#pragma once

#include "files/worker.h"

typedef struct box_name {
    uint8_t type;  /* DT_* of readdir(3), never DT_UNKNOWN */
    uint8_t slash; /* 1: not the directory itself but the place of what is in it: orders as if "/"
                    * followed */
    uint16_t len;
    char text[]; /* ended by NUL */
} box_name;

typedef struct box_names {
    int dir;          /* borrowed, readable */
    bool tree;        /* each directory comes once more, with slash */
    size_t max_bytes; /* of names held at once */
    box_name **list;
    size_t count, capacity, bytes;
    size_t next;
    bool more; /* another piece follows */
    box_name *after;
} box_names;

/* dir is readable and stays the caller's. `after`: only what orders behind it (NULL: all). */
void box_names_init(box_names *n, int dir, bool tree, size_t max_bytes, const box_name *after);
void box_names_done(box_names *n);

/* The next one, borrowed until the next call. 0 at the end; -1 CANCELLED or DEADLINE, or what
 * reading said. */
int box_names_next(box_files_worker *w, box_names *n, const box_name **out, box_error *err)
    BOX_MUST_USE;

/* Owned by the caller (free). */
box_name *box_name_new(const char *text, size_t len, uint8_t type, bool slash);
