/* Descendants of a process by /proc, for hosts without cgroup2: who is whose child, and STOP and
 * KILL to a fixpoint (sandbox-facts.md, section 2). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* One process, as /proc/PID/stat tells. */
typedef struct box_walk_process {
    int32_t pid;
    int32_t parent;
    char state; /* 'R', 'S', 'T', 'Z', ... */
    bool below; /* set by box_walk_mark */
} box_walk_process;

/* Bound of one look at /proc, twice the process numbers of a usual host (pid_max); more than that
 * are found by the next look. Only what is filled takes memory. */
enum { BOX_WALK_MAX = 65536 };

typedef struct box_walk {
    uint32_t count;
    box_walk_process list[BOX_WALK_MAX];
} box_walk;

/* Reads "PID (COMM) STATE PPID ..."; comm may hold spaces and parentheses. false: not that. */
bool box_walk_parse(const char *text, box_walk_process *out);
/* Does a /proc/PID/stat line say "forked and did not exec yet"? */
bool box_walk_parse_before_exec(const char *text);
/* The same of a living process; true when /proc does not tell. */
bool box_walk_is_before_exec(int32_t pid);
/* Fills w from /proc; false when there is no /proc. */
bool box_walk_look(box_walk *w);
/* Marks all descendants of pid, which is not one itself. Returns how many of them live (are no
 * zombies). Sorts the list by pid. */
uint32_t box_walk_mark(box_walk *w, int32_t pid);

/* How many live below pid, `except` (0: nobody) left out. */
uint32_t box_walk_count(box_walk *w, int32_t pid, int32_t except);

/* One round: every living descendant of pid is stopped, looks until all are (or a few times), then
 * killed. A stopped process keeps its place under the pids limit, so a fork bomb runs dry; a killed
 * one would free it. Returns how many were killed: 0 = none is left. */
uint32_t box_walk_kill(box_walk *w, int32_t pid);
