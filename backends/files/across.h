/* MOVE between file systems of the sandbox: a copy beside the target, which takes its place in one
 * step; then the source goes. */
#pragma once

#include "files/place.h"

/* Regular files and links; FILE_CONFLICT for directories and the rest, which is not copied. */
int box_files_move_across(box_files_worker *w, const box_place *from, const struct stat *st,
                          const box_place *to, box_error *err) BOX_MUST_USE;
