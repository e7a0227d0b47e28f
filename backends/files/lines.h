/* The lines of a file, one after another, with a bounded amount of memory. */
#pragma once

#include "files/worker.h"

enum { BOX_LINES_BYTES = 512 * 1024 /* of a line that are seen; what follows is skipped */ };

typedef struct box_lines {
    int fd;         /* borrowed */
    uint8_t *room;  /* BOX_LINES_BYTES, borrowed */
    size_t have;    /* bytes in it */
    size_t at;      /* first one not given yet */
    int64_t offset; /* of room[0] in the file */
    int64_t number; /* of the line given last */
    bool ended;
    bool skip; /* the line given last goes on */
} box_lines;

typedef struct box_lines_line {
    const uint8_t *data; /* borrowed until the next call; without its end, CR LF or LF */
    size_t len;
    bool cut; /* it is longer than what is seen */
    int64_t number;
    int64_t offset;
} box_lines_line;

/* 1, 0 at the end, -1 with errno. */
int box_lines_next(box_lines *l, box_lines_line *out);
