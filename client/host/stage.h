/* What scanning and copying share. */
#pragma once

#include "box/stage.h"

typedef struct box_stage_entry {
    char *path; /* below the root, no slash in front; owned */
    bool is_directory;
    bool is_empty; /* a directory nothing of which is taken */
    bool is_executable;
    int64_t size_bytes;
    uint8_t sha256[32];
} box_stage_entry;

struct box_stage {
    char *root;
    int root_fd;
    box_stage_entry *entries; /* sorted by path */
    size_t n_entries, capacity;
    size_t files;
    int64_t bytes;
    size_t left_out;
    char *example; /* NULL: nothing was */
    char hash[BOX_STAGE_HASH_TEXT];
};

/* A file of the project, also behind links that stay in it; -1 with *err. Never waits for a FIFO's
 * writer. */
int box_stage_open(const box_stage *stage, const char *path, int *fd, box_error *err) BOX_MUST_USE;
