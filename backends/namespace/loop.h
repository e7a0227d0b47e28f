/* Loop devices: files as disks. */
#pragma once

#include "base/error.h"

/* Attaches `file` (open for reading and writing) to a free loop device that lets go of it with its
 * last user: killed at any moment, nothing of it stays. *out: the device, open for reading only,
 * since a kernel may forbid to mount what others can write. Needs root. */
int box_loop_attach(int file, int *out, box_error *err) BOX_MUST_USE;
