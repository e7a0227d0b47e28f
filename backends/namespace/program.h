/* The programs of a sandbox, copied once into sealed memory files: no path and no writable inode of
 * the host can be reached through /proc/PID/exe (CVE-2019-5736). */
#pragma once

#include "base/error.h"

/* `path` NULL: `name` in the directory of this program. VALIDATION unless it is a static ELF
 * program: a sandbox has no loader to trust for uid 0. */
int box_program_open(const char *path, const char *name, int *out, box_error *err) BOX_MUST_USE;
/* box-files, which is beside the agent. Its file can be executed by everybody and read by nobody
 * inside: a process of it is from its exec on not the commands' to look into (execve(2), dumpable),
 * though it is of their user. */
int box_program_open_files(const char *agent_path, int *out, box_error *err) BOX_MUST_USE;
