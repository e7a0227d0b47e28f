/* A tree in the order of its paths, byte by byte, with bounded memory. Links are not followed and
 * mount points are entered; directories that cannot be opened, or are swapped for something else
 * meanwhile, are left out. */
#pragma once

#include "files/names.h"

typedef struct box_walk_options {
    unsigned depth; /* levels below the start's own entries */
    bool no_hidden;
    const box_bytes *skip; /* names of directories not to enter, nor to give */
    size_t n_skip;
    const char *after; /* only paths behind this one, relative; NULL: all */
} box_walk_options;

typedef struct box_walk_level {
    int fd;
    box_names names;
    size_t path_len; /* of the directory, in the walk's path */
} box_walk_level;

typedef struct box_walk {
    const box_walk_options *options;
    box_walk_level levels[BOX_FILES_MAX_DEPTH];
    size_t depth;                      /* levels open */
    bool cut;                          /* something was too deep or has too long a path */
    char path[BOX_FILES_MAX_PATH + 1]; /* relative */
} box_walk;

typedef struct box_walk_entry {
    int dir; /* of the directory it is in */
    const char *name;
    const char *path; /* relative to the start */
    uint8_t type;     /* DT_* */
} box_walk_entry;

/* Large: allocate it. dir (readable) is taken. options are borrowed. */
void box_walk_begin(box_walk *walk, int dir, const box_walk_options *options);
void box_walk_done(box_walk *walk);
/* 1, and 0 at the end; -1 CANCELLED or DEADLINE. */
int box_walk_next(box_files_worker *w, box_walk *walk, box_walk_entry *out, box_error *err)
    BOX_MUST_USE;
