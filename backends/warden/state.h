/* State files: one per sandbox in instance_dir, written before the sandbox's first process is
 * cloned, so a warden that was killed finds everything again. They are worth nothing after a reboot
 * (the boot id inside says so), so there is no fsync. What is prepared for a sandbox that nobody
 * has asked for yet has a name of another kind until somebody does. */
#pragma once

#include "backend.h"

/* Opens (makes, mode 0700, with its parents) a directory that must be the warden's own. */
int box_state_dir(const char *path, int *out, box_error *err) BOX_MUST_USE;
/* The lock goes with the last copy of the descriptor; helpers of a warden that was killed hold it
 * for the moment it takes them to die, hence the patience. PERMISSION when it stays taken. */
int box_state_lock(int dir, uint64_t patience_ns, box_error *err) BOX_MUST_USE;

/* Opens instance_dir so and locks it for this warden. The descriptor holds the
 * lock: PERMISSION when another warden lives there. */
int box_state_open(const char *instance_dir, int *out_dir, box_error *err) BOX_MUST_USE;

/* Makes or replaces the sandbox's file; *file, when not NULL, is open for box_state_update. */
int box_state_write(int dir, const box_sandbox_record *record, bool prepared, int *file,
                    box_error *err) BOX_MUST_USE;
/* One write of less than a page: a process that is killed has made it or not. */
int box_state_update(int file, const box_sandbox_record *record, box_error *err) BOX_MUST_USE;
/* What was prepared for nobody is a sandbox from now on. */
int box_state_claim(int dir, const box_uid *uid, box_error *err) BOX_MUST_USE;

/* FILE_NOT_FOUND when there is none, PROTOCOL when it is not ours or damaged. A file of an earlier
 * boot comes back with pid 0. */
int box_state_read(int dir, const box_uid *uid, bool prepared, box_sandbox_record *out,
                   box_error *err) BOX_MUST_USE;
/* Of either kind: 1, or 0 when there is none that is whole. -1: it cannot be read now, and may be
 * there. */
int box_state_find(int dir, const box_uid *uid, box_sandbox_record *out, box_error *err)
    BOX_MUST_USE;
/* Of either kind, and what a write that was interrupted left. Idempotent. */
int box_state_remove(int dir, const box_uid *uid, box_error *err) BOX_MUST_USE;

/* `to_end`: it was prepared for nobody, or its file is damaged or another version's: then the
 * record is zero but for uid, and pid, start_time and uid_base where they could be read. */
typedef void box_state_each(void *owner, const box_sandbox_record *record, bool to_end);

/* Calls `each` for every state file; what a write left that was interrupted is removed. The number
 * of files that were not whole, or -1: also when one cannot be read now. */
int box_state_scan(int dir, box_state_each *each, void *owner, box_error *err) BOX_MUST_USE;
