/* The subreaper of one command, for hosts without cgroup2: uid 0 of the sandbox, parent of the
 * command's main process and of everything of it that loses its parent, so that nothing the command
 * starts escapes being counted and killed. It ends when nothing is left. A process of its own,
 * between the agent (its parent) and the command. Killing is the agent's, which has processor time
 * when the command leaves none to others in its control group. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/slot.h"
#include "agent/spawn.h"

/* Agent -> reaper: */
typedef struct box_reaper_order {
    uint32_t signo; /* for the main process */
} box_reaper_order;

/* Reaper -> agent, when the main process ended (gone = 0), and when all are gone (gone = 1). */
typedef struct box_reaper_report {
    uint32_t gone;
    int32_t exit_code; /* -1: by a signal */
    int32_t signal;    /* 0: by exit */
    uint32_t core;
    uint32_t leftovers; /* alive when the main process ended */
    uint32_t reserved;
    uint64_t cpu_ns;        /* of all that were reaped so far */
    uint64_t max_rss_bytes; /* largest of them */
} box_reaper_report;

/* In the fresh process: become subreaper and start the command. The slot says how it went. */
void box_reaper_begin(const box_spawn *spawn, void *stack, box_slot *slot);
/* Serves until nothing is left, or the agent is gone; ends the process. */
_Noreturn void box_reaper_run(int socket, int32_t main_pid);
