/* The agent's program, copied once into a sealed memory file: no path and no writable inode of the
 * host can be reached through /proc/PID/exe (CVE-2019-5736). */
#pragma once

#include "base/error.h"

/* path NULL = box-agent in the directory of this program. VALIDATION unless it is a static ELF
 * program: a sandbox has no loader to trust for uid 0. */
int box_program_open(const char *path, int *out, box_error *err) BOX_MUST_USE;
