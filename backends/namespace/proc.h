/* What /proc says about a process. */
#pragma once

#include <sys/types.h>

#include "base/error.h"

/* Field 22 of /proc/PID/stat: with the boot id it names a process for ever. FILE_NOT_FOUND when
 * there is none. */
int box_proc_start_time(pid_t pid, uint64_t *out, box_error *err) BOX_MUST_USE;

/* A pidfd of that very process: *out is -1 when it is gone or the pid is another's now. */
int box_proc_open(pid_t pid, uint64_t start_time, int *out, box_error *err) BOX_MUST_USE;

/* Waits until a pidfd has ended (or another descriptor can be read); false when that takes longer.
 */
bool box_proc_wait(int pidfd, int timeout_ms);

/* The whole of a small text file, NUL-ended; its length, or -1 with errno set. */
ssize_t box_proc_read(int dirfd, const char *path, char *out, size_t size);
/* The first number of such a file; with `key`, the one after "key ". False when there is none. */
bool box_proc_number(int dirfd, const char *path, const char *key, int64_t *out);
