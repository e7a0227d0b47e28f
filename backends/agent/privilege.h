/* What agent and zygote may still do, and giving the rest up. Every function fails loudly: a
 * sandbox that cannot be closed is not started. */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Agent, once: no_new_privs, non-dumpable, bounding set emptied (as far as SETPCAP is held),
 * capabilities exactly KILL, SETUID, SETGID, nothing inheritable or ambient. PERMISSION when one of
 * the three is missing. */
int box_privilege_keep_three(box_error *err) BOX_MUST_USE;
/* The same for an agent that is the commands' user: no capability at all. */
int box_privilege_keep_none(box_error *err) BOX_MUST_USE;
/* Zygote: no supplementary groups, unless one_user (they are the caller's own, and cannot be
 * changed); limits of the commands (no core, 1,024 descriptors, max_processes unless 0). */
int box_privilege_prepare_commands(bool one_user, uint32_t max_processes, box_error *err)
    BOX_MUST_USE;
/* Zygote: loads the program for itself and everything it starts. */
int box_privilege_load_filter(const struct sock_filter *program, size_t count, box_error *err)
    BOX_MUST_USE;
/* Soft descriptor limit up to the hard one. */
void box_privilege_raise_descriptors(void);
/* Closes everything from `first` on. */
void box_privilege_close_from(unsigned first);
