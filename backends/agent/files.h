/* The file workers of a sandbox: box-files processes that boxd asks for, each with a socket of
 * boxd's (files/protocol.h). Forked from the agent, without CLONE_VM; the commands' user, in S/box
 * with its limits, or in S/agent for the one call that has to work when S/box has no memory left.
 * Boxd is told of every end. */
#pragma once

#include <signal.h>
#include <stdbool.h>

#include "agent/protocol.h"
#include "base/clock.h"

enum { BOX_AGENT_MAX_WORKERS = BOX_FILES_MAX_WORKERS + 1 /* in S/agent */ };

typedef struct box_agent_worker {
    uint64_t id; /* 0: free */
    int pid;     /* 0: ended, or never began */
    bool in_agent;
    bool due; /* boxd is to be told */
    box_time kill_at;
    box_agent_files_ended ended;
} box_agent_worker;

typedef struct box_agent_workers {
    box_agent_worker list[BOX_AGENT_MAX_WORKERS];
} box_agent_workers;

/* What a worker is started from; all borrowed. */
typedef struct box_agent_files_config {
    int program; /* -1: this sandbox has none */
    uint32_t uid;
    uint32_t gid;
    bool one_user; /* BOX_AGENT_SETUP_ONE_USER */
    int cgroup;    /* S/box/x; -1 = none */
    int inner;     /* limits.h; -1 = none */
    const int *box_procs;
    size_t n_box_procs;
} box_agent_files_config;

/* Starts one; the socket stays the caller's. Its end is due at once when that fails. -1: boxd
 * breaks the protocol (the id is in use, or one more than there may be). */
int box_agent_files_start(box_agent_workers *all, const box_agent_files_config *config, uint64_t id,
                          const box_agent_files *how, int socket);
/* It has until kill_at to end by itself; unknown ids are ignored. */
void box_agent_files_stop(box_agent_workers *all, uint64_t id, box_time kill_at);
/* Boxd went away: all end, and nobody is told. */
void box_agent_files_forget(box_agent_workers *all, box_time kill_at);
/* A child was reaped; false when it is none of these. */
bool box_agent_files_reaped(box_agent_workers *all, const siginfo_t *info);
/* A child was stopped: it goes on. */
void box_agent_files_stopped(const box_agent_workers *all, int pid);
bool box_agent_files_has(const box_agent_workers *all, int pid);
/* Kills what is late. Returns when to come again. */
box_time box_agent_files_tick(box_agent_workers *all, box_time now);
box_time box_agent_files_next(const box_agent_workers *all);
/* One whose end is due, or NULL; told, it is forgotten. */
box_agent_worker *box_agent_files_due(box_agent_workers *all);
void box_agent_files_told(box_agent_worker *w);
