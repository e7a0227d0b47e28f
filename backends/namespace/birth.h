/* How the first process of a sandbox comes into its control groups and namespaces. */
#pragma once

#include "backend.h"
#include "namespace/first.h"

/* Starts the child of box_first_run(plan), as the warden's. It is born in S/agent of the record's
 * groups, with a cgroup namespace whose root is S; nobody is in S itself afterwards, and the limits
 * of S/agent are set. Where the cgroup2 tree limits, they are so before anybody is in S/agent:
 * later the kernel would make all forks of the machine wait. `ours` is closed in what is started.
 * *pidfd must be -1, and is the caller's on failure too. */
int box_birth(box_first_plan *plan, const box_sandbox_record *record, uint32_t uid_base, int ours,
              pid_t *pid, int *pidfd, box_error *err) BOX_MUST_USE;
