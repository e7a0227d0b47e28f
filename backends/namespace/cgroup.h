/* Control groups of sandboxes on cgroup v1, v2 and hybrid hosts.
 *
 * In each hierarchy that is used, S = BASE/box-OWNER/UID holds S/agent (PID 1, a small limit) and
 * S/box (zygote, box-files and commands: the session's limits). BASE is the configured group, else
 * the warden's own on v1 and the top on v2; OWNER stands for the warden's instance_dir. In the
 * cgroup2 tree S/box/x belongs to the sandbox's root: the agent makes a group per command there.
 * v1, where a group with children may have processes, has no S/agent: PID 1 is in S, whose limits
 * are S/box's and the agent's together. A memory group costs far more than itself: 16 bytes for
 * each file system that the machine ever had at once (mm/shrinker.c).
 * sandbox-facts.md, section 2. */
#pragma once

#include <sys/types.h>

#include "backend.h"

typedef struct box_cgroups box_cgroups;

/* Finds the hierarchies and tries each controller by a real write. `parent` NULL = see BASE above;
 * on v2 the warden may move to a leaf (a group with processes can have no limited children). Never
 * fails for missing controllers: box_cgroups_guarantees tells. */
int box_cgroups_open(const char *parent, box_cgroups **out, box_error *err) BOX_MUST_USE;
void box_cgroups_close(box_cgroups *c);

/* Of BOX_G_MEMORY, PIDS, CPU, COMMAND_CGROUP and LIVE_LIMITS. */
uint32_t box_cgroups_guarantees(const box_cgroups *c);
/* "v1", "v2", "v1 hybrid" or "none". */
const char *box_cgroups_kind(const box_cgroups *c);
/* 1 or 2: whose files limit memory; 0 = none. */
uint32_t box_cgroups_memory_version(const box_cgroups *c);

/* The text that finds S again after the warden moved. VALIDATION when it does not fit. */
int box_cgroups_place(const box_cgroups *c, const char *owner, const box_uid *uid,
                      char out[BOX_SANDBOX_PLACE_BYTES], box_error *err) BOX_MUST_USE;

/* Makes S with all that is in it, without limits and processes. What is delegated is owner's. */
int box_cgroups_make(const box_sandbox_record *record, uid_t owner, box_error *err) BOX_MUST_USE;

/* Directory S (below "") or S/agent ("/agent") of the cgroup2 tree, to be born in; -1 = none. */
int box_cgroups_birthplace(const box_sandbox_record *record, const char *below);
/* Controllers are to be switched on in the cgroup2 tree. */
bool box_cgroups_limit_on_v2(const box_sandbox_record *record);
/* Moves the caller, a process of one thread, to S or S/agent; in the cgroup2 tree only
 * `everywhere`: there that waits for all forks of the machine, and others wait for it. */
int box_cgroups_join(const box_sandbox_record *record, const char *below, bool everywhere,
                     box_error *err) BOX_MUST_USE;
/* Limits of S/agent, and controllers for both, when nobody is in S itself (any more). The latter
 * waits as a move does if somebody is in S/agent already. */
int box_cgroups_settle(const box_sandbox_record *record, box_error *err) BOX_MUST_USE;

/* Open files of S/box, one for each hierarchy, cgroup2's first ("0" written moves the writer, a
 * process of one thread); the count, at most `room`, or -1. */
int box_cgroups_entries(const box_sandbox_record *record, int *fds, size_t room, box_error *err)
    BOX_MUST_USE;

/* Whose files limit a process that the agent keeps alive: 2: cgroup2's of its group below S/box/x;
 * 1: v1's, and fds are directories S/box of memory, pids and cpu, where the agent makes one; 0:
 * none. -1 with *err. */
int box_cgroups_process_dirs(const box_sandbox_record *record, int fds[3], box_error *err)
    BOX_MUST_USE;

/* Directory S/box/x, or -1 when there is no cgroup2 tree; directory S/box of the memory
 * or pids controller, or -1. */
int box_cgroups_command_dir(const box_sandbox_record *record);
int box_cgroups_memory_dir(const box_sandbox_record *record);
int box_cgroups_pids_dir(const box_sandbox_record *record);

/* Fields that are 0 stay as they are. */
int box_cgroups_limit(const box_sandbox_record *record, const box_warden_limits *limits,
                      box_error *err) BOX_MUST_USE;
/* Fills what the host can tell; the rest is -1. */
void box_cgroups_usage(const box_sandbox_record *record, box_warden_answer *out);
/* The kernel killed something in S/agent for memory: v1 counts where the victim was, too. */
bool box_cgroups_agent_oom(const box_sandbox_record *record);

/* A quota makes a killed process wait for its turn to die: 216 against 9 ms for 200 spinners. */
void box_cgroups_lift_cpu(const box_sandbox_record *record);
/* Kills what is left in S, but not the caller, and removes S and, when empty, box-OWNER. Retries
 * for BOX_SANDBOX_KILL_SECONDS. */
int box_cgroups_remove(const box_sandbox_record *record, box_error *err) BOX_MUST_USE;
