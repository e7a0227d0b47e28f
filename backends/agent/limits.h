/* Limits of one managed process, in control groups that the agent makes. Of v1's controllers each
 * process gets a group below S/box, for all its runs, which its main process enters before it
 * becomes the program; of cgroup2 it is the run's own group below S/box/x (tree.h). That the groups
 * there have controllers costs every later command of the sandbox, so it begins with the first
 * process that asks. */
#pragma once

#include <stddef.h>

#include "agent/agent.h"
#include "agent/tree.h"

typedef struct box_limits {
    uint32_t version; /* 0: it has none of its own */
    uint64_t id;
    int dirs[BOX_AGENT_LIMIT_DIRS];    /* v1: its groups; -1 */
    int entries[BOX_AGENT_LIMIT_DIRS]; /* v1: their `tasks`, once each; -1 */
    uint64_t oom_before;               /* v1: counters when the run began */
    uint64_t refused_before;
} box_limits;

/* What the groups say about a run. */
typedef struct box_limits_counts {
    uint64_t oom_kills;
    uint64_t pids_refused;
    uint64_t peak_bytes; /* 0 = not known */
} box_limits_counts;

/* cgroup2: where zygote and file workers live from the first limited process on, so that S/box has
 * groups with controllers and no process of its own. */
typedef struct box_limits_place {
    int inner; /* S/box/z; -1 = not yet */
} box_limits_place;

static inline bool box_limits_wanted(const box_agent_limits *l)
{
    return l->memory_bytes != 0 || l->pids != 0 || l->cpu_millis != 0;
}

/* Makes what a process with that id needs before its first run. GUARANTEE_UNSUPPORTED where the
 * sandbox has no such groups. */
int box_limits_make(const box_agent_config *config, box_limits_place *place, uint64_t id,
                    const box_agent_limits *limits, box_limits *out, box_error *err) BOX_MUST_USE;
/* A run is to begin. */
void box_limits_begin(box_limits *l);
/* cgroup2: the run's group; before anything of it can have grown. */
int box_limits_set_tree(const box_tree *tree, const box_agent_limits *limits, box_error *err)
    BOX_MUST_USE;
/* The run has ended; its group is still there. version: whose files count it; 0: nobody's. */
void box_limits_count(const box_limits *l, uint32_t version, const box_tree *tree,
                      box_limits_counts *out);
/* Removes the groups (v1). What still lives in one goes with the sandbox. */
void box_limits_done(const box_agent_config *config, box_limits *l);
