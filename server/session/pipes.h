/* The descriptors of a command on boxd's side. */
#pragma once

#include <stdbool.h>

#include "base/error.h"

/* ours: nonblocking; theirs: 0666, because the inode is boxd's and /dev/stdout is opened by others
 * (sandbox-facts.md, section 6). last_fd: the highest number a command may take. QUOTA {limit
 * open_files}: none is left. */
int box_pipe_make(int last_fd, int *ours, int *theirs, bool ours_writes, box_error *err)
    BOX_MUST_USE;
/* For descriptors that an agent is about to send: the same QUOTA when there is no room for them. */
int box_pipe_room(int last_fd, box_error *err) BOX_MUST_USE;
