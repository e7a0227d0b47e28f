/* The control groups of a bare sandbox: what Box's own have, made and removed by the shortest way.
 *
 * In each hierarchy that holds memory, pids or cpu: S, S/agent, S/box; in the cgroup2 tree also
 * S/box/x and S/box/x/1, the command's, in which the sandbox is born. S is POINT/boxbench.PID/s. */
#pragma once

#include "base/error.h"

enum { FLOOR_MAX_TREES = 8 };

/* One hierarchy. */
typedef struct floor_tree {
    bool unified;    /* cgroup2 */
    bool hands_down; /* it has controllers for its children */
    uint32_t limits; /* bits of those that it has */
    char owner[256];
    int dir; /* of the owner; -1 = closed */
} floor_tree;

typedef struct floor_groups {
    size_t count;
    floor_tree trees[FLOOR_MAX_TREES];
} floor_groups;

/* What one sandbox needs of them; -1 = there is none. */
typedef struct floor_entries {
    int birth; /* directory for CLONE_INTO_CGROUP */
    size_t n_tasks;
    int tasks[FLOOR_MAX_TREES]; /* "0" written there moves the writer */
} floor_entries;

/* Hierarchies in which no group can be made are left out, as Box leaves them out. What boxbench
 * runs left that were killed is removed. */
int floor_groups_open(floor_groups *out, box_error *err) BOX_MUST_USE;
/* Removes everything; so it is once no process is in them. */
void floor_groups_close(floor_groups *g);
/* One sandbox's groups with their limits; the descriptors are the caller's. On failure something
 * may be left, which close removes. */
int floor_groups_make(const floor_groups *g, floor_entries *out, box_error *err) BOX_MUST_USE;
void floor_entries_done(floor_entries *e);
/* Its processes have ended. */
int floor_groups_remove(const floor_groups *g, box_error *err) BOX_MUST_USE;
