/* The floor: what the kernel alone takes on this machine, in the same run, for what Box is measured
 * at. */
#pragma once

#include <sys/types.h>

#include "base/error.h"
#include "stats.h"

/* posix_spawn and wait of that static program, one at a time. */
int bench_floor_spawn(const char *program, size_t rounds, bench_case *out, box_error *err)
    BOX_MUST_USE;

/* The same from one process a core at once: what all cores can do. `rounds` in all. */
int bench_floor_spawn_all(const char *program, size_t rounds, bench_case *out, box_error *err)
    BOX_MUST_USE;

/* A bare sandbox, made, used for the program and removed: clone3 with seven new namespaces (user,
 * mount, pid, net, ipc, uts, cgroup), an id map, the mounts and control groups with limits that one
 * of Box's has, no capabilities, no_new_privs, a seccomp filter of the same size; exec, and wait.
 * Needs root. */
int bench_floor_clone(const char *program, size_t rounds, bench_case *out, box_error *err)
    BOX_MUST_USE;

/* Waits for its end by exit 0. */
int bench_wait_zero(pid_t pid, const char *what, box_error *err) BOX_MUST_USE;
