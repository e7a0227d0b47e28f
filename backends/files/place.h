/* Names in the sandbox: opened by openat2 within its root, never by comparing strings. Descriptors
 * are close-on-exec, non-blocking (a FIFO or device stops nobody), and no controlling terminal. */
#pragma once

#include <sys/stat.h>

#include "files/worker.h"

/* Fills *err from errno for the file at `path` and returns -1: FILE_NOT_FOUND {kind, id},
 * PERMISSION, FILE_CONFLICT (another type, a mount point, busy), QUOTA {limit}, FILE_EXISTS, ... */
int box_place_fail(box_error *err, const char *what, const char *path);

/* Opens an absolute path, following links inside the root. -1 with errno. */
int box_place_open(const box_files_worker *w, const char *path, int flags);
/* Opens one name below a directory; a link there is ELOOP. -1 with errno. */
int box_place_open_below(int dir, const char *name, int flags);

/* A name in a directory that is open: what it names is not a link that is to be followed. */
typedef struct box_place {
    int dir; /* O_PATH */
    char name[256];
} box_place;

enum {
    BOX_PLACE_FOLLOW = 1,  /* a last link is followed, also where nothing is yet */
    BOX_PLACE_PARENTS = 2, /* missing directories are made, 0755 */
};

/* place->dir is the caller's to close. `path` ends in a name, not "/", "." or "..". */
int box_place_find(const box_files_worker *w, const char *path, unsigned flags, box_place *place,
                   box_error *err) BOX_MUST_USE;

/* What fstat says, for boxd; target (BOX_FILES_MAX_PATH + 1) is filled for links and borrowed. */
void box_place_info(const struct stat *st, const char *path, box_files_info *out);
/* Stats what is at place and sends it. */
int box_place_send_info(box_files_worker *w, const box_place *place, const char *path,
                        box_error *err) BOX_MUST_USE;
