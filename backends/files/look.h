/* What LIST, GLOB and GREP share. */
#pragma once

#include <sys/stat.h>

#include "files/walk.h"

/* w->path, readable; the caller's. */
int box_look_open(box_files_worker *w, struct stat *st, box_error *err) BOX_MUST_USE;
/* The same, and FILE_CONFLICT when it is no directory. */
int box_look_open_directory(box_files_worker *w, box_error *err) BOX_MUST_USE;
/* w->path and a path below it; false when that is too long. */
bool box_look_join(const box_files_worker *w, const char *relative,
                   char out[BOX_FILES_MAX_PATH + 1]);
