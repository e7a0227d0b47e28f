/* A file that is written beside its place and put there in one step: until box_put_commit nothing
 * of it is seen, and box_put_done without it leaves nothing (a file without a name, or one that is
 * unlinked). */
#pragma once

#include "files/place.h"

enum { BOX_PUT_NAME = 32, BOX_PUT_NAMES = 16 /* tries for one that is free */ };

typedef struct box_put {
    box_place place; /* dir is owned */
    int fd;
    char temporary[BOX_PUT_NAME]; /* its name meanwhile; "" = none */
    bool exists;                  /* there was a file at the place */
    struct stat old;              /* then */
    mode_t mode;                  /* it will have */
} box_put;

enum {
    BOX_PUT_PARENTS = 1,
    BOX_PUT_REPLACE = 2,
    BOX_PUT_HERE = 4, /* a link at the place is not followed but FILE_CONFLICT */
};

/* permissions -1: those of the file that is there, 0644 without one. FILE_EXISTS without
 * BOX_PUT_REPLACE, FILE_CONFLICT for what is no regular file. `digest` (NULL: any) is what the file
 * that is there must have: DIGEST_MISMATCH. */
int box_put_begin(box_files_worker *w, const char *path, unsigned flags, int32_t permissions,
                  const uint8_t *digest, box_put *put, box_error *err) BOX_MUST_USE;
int box_put_write(box_files_worker *w, box_put *put, const void *data, size_t len, box_error *err)
    BOX_MUST_USE;
/* FILE_CONFLICT when what is at the place is not what was there at the begin. */
int box_put_commit(box_files_worker *w, box_put *put, box_error *err) BOX_MUST_USE;
void box_put_done(box_put *put);

/* A name for what gets its own by a rename; it may be taken. */
void box_put_name(char out[BOX_PUT_NAME]);

/* Writes all of it. */
int box_put_all(const box_files_worker *w, int fd, const void *data, size_t len, box_error *err)
    BOX_MUST_USE;
/* SHA-256 of a file that is open, from its beginning. */
int box_put_digest(box_files_worker *w, int fd, uint8_t out[BOX_FILES_SHA256], box_error *err)
    BOX_MUST_USE;
