/* The agent: PID 1 of a sandbox. Starts commands through its zygote, reaps everything, owns
 * deadlines, kills trees, tells boxd (agent/protocol.h). One thread, one loop, a fixed amount of
 * memory; nothing a command does makes it wait. */
#pragma once

#include <linux/filter.h>
#include <stddef.h>

#include "agent/protocol.h"

typedef struct box_agent_config {
    box_agent_setup setup;
    int listen;    /* non-blocking */
    int cgroup;    /* S/box/x; -1 = none */
    int workspace; /* O_PATH; -1 = not private */
    int files;     /* the program box-files; -1 = none */
    int box_procs[BOX_AGENT_MAX_BOX_PROCS];
    int limit_dirs[BOX_AGENT_LIMIT_DIRS]; /* -1 = none */
    const struct sock_filter *filter;     /* borrowed; NULL: none */
    size_t filter_count;
} box_agent_config;

/* Runs until SHUTDOWN, SIGTERM or no boxd for orphan_seconds; then everything in the pid namespace
 * has been killed. -1 when it could not start. Signals are blocked from here on. */
int box_agent_run(const box_agent_config *config, box_error *err) BOX_MUST_USE;
