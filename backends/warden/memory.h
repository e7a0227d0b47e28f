/* What all sandboxes of a warden may have together: each counts with its limit (that of its
 * commands and its tmpfs sizes), used or not, from CREATE until it is dead. */
#pragma once

#include "warden/internal.h"

/* A new one is to be made so. MEMORY_BUDGET {limit, max, used} above maxima.total_memory. */
int box_warden_memory_admit(box_warden *w, warden_sandbox *s, const box_warden_create *request,
                            box_error *err) BOX_MUST_USE;
/* Its commands are to have that much from now on. Less counts once it is in force. */
int box_warden_memory_raise(box_warden *w, warden_sandbox *s, int64_t memory_bytes, box_error *err)
    BOX_MUST_USE;
/* Its record says what it has, and no change of that waits. */
void box_warden_memory_settle(box_warden *w, warden_sandbox *s);
void box_warden_memory_give(box_warden *w, warden_sandbox *s);
