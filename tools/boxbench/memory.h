/* Memory of processes, and of the machine's kernel. */
#pragma once

#include <sys/types.h>

#include "base/error.h"

/* Proportional set size of a process. */
int bench_pss_bytes(pid_t pid, double *out, box_error *err) BOX_MUST_USE;
/* The same of a process and all below it. Who ends meanwhile counts nothing. */
int bench_tree_pss_bytes(pid_t root, double *out, box_error *err) BOX_MUST_USE;
/* Who looks after the sandbox of a session with that uid on this machine: the parent of its first
 * process. 0: none is seen, it has no control groups or is elsewhere. */
pid_t bench_warden_of(const char *uid);

/* What the kernel itself has taken: all that is neither free, nor page cache (files of a tmpfs are
 * in it), nor private memory of processes (/proc/meminfo, proc(5)). */
int bench_kernel_bytes(double *out, box_error *err) BOX_MUST_USE;
