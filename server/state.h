/* The state directory: database, keys, admin token, and below it `run` with the sockets of agents.
 */
#pragma once

#include "base/error.h"

typedef struct box_state_dir {
    char *path;     /* owned; NULL: not open */
    char *run_path; /* owned: PATH/run, 0700 */
    bool temporary; /* removed with all that is in it when closed */
} box_state_dir;

/* Makes PATH/run, and the directory itself where it is missing, both 0700; temporary: a fresh
 * directory below TMPDIR (or /tmp) instead. */
int box_state_dir_open(box_state_dir *d, const char *path, bool temporary, box_error *err)
    BOX_MUST_USE;
void box_state_dir_close(box_state_dir *d);
/* PATH/name, owned by the caller. */
char *box_state_dir_file(const box_state_dir *d, const char *name);
