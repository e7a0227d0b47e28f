/* The zygote: a process per sandbox that starts commands, so that PID 1 never vforks (a stopped
 * vfork child would freeze it: sandbox-facts.md, section 1). It is uid 0 of the user namespace,
 * inside S/box and its limits, under the commands' seccomp. Forked from the agent without CLONE_VM.
 *
 * Agent -> zygote: START's packet with its descriptors and one more (the command's cgroup, or the
 * socket of its subreaper); start.reserved[0] is the slot, start.reserved[1] how many journals
 * stand before that last one: their pages are made here, so that they are the sandbox's. Zygote (or
 * subreaper) -> agent: box_zygote_note, one when it is ready, then one per start, when slot says
 * how it went. */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/packet.h"
#include "agent/slot.h"

enum { BOX_ZYGOTE_READY = 0xffffffff };

typedef struct box_zygote_note {
    uint32_t slot; /* BOX_ZYGOTE_READY: it can take starts */
} box_zygote_note;

/* What it needs; all borrowed, copied by fork. */
typedef struct box_zygote_config {
    uint32_t uid;
    uint32_t gid;
    bool one_user;          /* BOX_AGENT_SETUP_ONE_USER */
    uint32_t max_processes; /* of the commands' user; 0 = no limit */
    bool reapers;           /* no cgroup2: a subreaper per command */
    int cgroup;             /* S/box/x; -1 with reapers */
    const int *box_procs;
    size_t n_box_procs;
    const struct sock_filter *filter;
    size_t filter_count;
    box_slot *slots; /* shared; BOX_AGENT_MAX_STARTING of them */
} box_zygote_config;

/* Forks it. *socket is the agent's end. */
int box_zygote_fork(const box_zygote_config *config, int *pid, int *socket, box_error *err)
    BOX_MUST_USE;

/* fork(2), for file workers too: born in S/box of the cgroup2 tree where that works. Moving a
 * process there later stops all forks of the machine, and waits milliseconds for them
 * (cgroup_threadgroup_rwsem). *entered counts the groups that it needs not enter any more. */
pid_t box_zygote_fork_inside(int cgroup, size_t n_box_procs, size_t *entered);
