/* Empty ext4 file systems, as mke2fs makes them, to copy from. */
#pragma once

#include <sys/types.h>

#include "base/error.h"

/* The size of the image in which a workspace of `bytes` has room; ext4's own tables are about a
 * sixteenth of it. */
int64_t box_image_file_bytes(int64_t bytes);

/* A memfd with an image of that size. BACKEND_UNAVAILABLE when there is no mke2fs. */
int box_image_template(int64_t file_bytes, int *out, box_error *err) BOX_MUST_USE;

/* Writes it into an empty file; what is not written there stays a hole. */
int box_image_copy(int from, int to, box_error *err) BOX_MUST_USE;
