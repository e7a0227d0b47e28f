/* The zygote: a process per sandbox that starts commands, so that PID 1 never vforks (a stopped
 * vfork child would freeze it: sandbox-facts.md, section 1). It is uid 0 of the user namespace,
 * inside S/box and its limits, under the commands' seccomp. Forked from the agent without CLONE_VM.
 *
 * With cgroup2 it keeps one child ready that waits for a START, still as uid 0 (nothing a command
 * does reaches it), in the command's cgroup and a session of its own: what is left to do when START
 * comes is to become the user and the program. Agent -> zygote, `orders`: box_zygote_order with the
 * cgroup, when the last child waits no more. Agent -> child, `starts`: START's packet with its
 * descriptors; start.reserved[0] is the slot, start.reserved[1] how many files of control groups it
 * enters, and journals, stand behind the text: their pages are made inside, so that they are the
 * sandbox's, not the process's. Whoever waits next takes the
 * oldest, so a START may be sent before its child is there. Instead of one, box_zygote_note REST:
 * the child that takes it ends with BOX_STANDBY_RESTED, what came behind it is for the next one.
 * Zygote -> agent, `orders`: box_zygote_note, READY once, and when an order could not be followed:
 * the slot of the START that failed for it, or UNBORN when none was there yet.
 *
 * Without cgroup2 START comes through `orders`, with the socket of the command's subreaper behind
 * its descriptors, and each is answered with its slot, by the zygote or the subreaper. */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/packet.h"
#include "agent/slot.h"

enum {
    BOX_ZYGOTE_READY = 0xffffffff,
    BOX_ZYGOTE_UNBORN = 0xfffffffe,
    BOX_ZYGOTE_REST = 0xfffffffd,
};

typedef struct box_zygote_note {
    uint32_t slot; /* or READY, UNBORN, REST */
} box_zygote_note;

typedef struct box_zygote_order {
    uint32_t place; /* of its box_standby */
} box_zygote_order;

/* What it needs; all borrowed, copied by fork. */
typedef struct box_zygote_config {
    uint32_t uid;
    uint32_t gid;
    bool one_user;          /* BOX_AGENT_SETUP_ONE_USER */
    uint32_t max_processes; /* of the commands' user; 0 = no limit */
    bool reapers;           /* no cgroup2: a subreaper per command */
    int cgroup;             /* S/box/x; -1 with reapers */
    int inner;              /* limits.h; -1 = none */
    const int *box_procs;
    size_t n_box_procs;
    const struct sock_filter *filter;
    size_t filter_count;
    box_slot *slots;       /* shared; BOX_AGENT_MAX_STARTING of them */
    box_standby *standbys; /* shared; BOX_STANDBYS of them */
} box_zygote_config;

/* The agent's side. */
typedef struct box_zygote {
    int pid; /* 0 = none */
    int orders;
    int starts; /* -1 without cgroup2 */
    bool ready;
} box_zygote;

/* Forks it. */
int box_zygote_fork(const box_zygote_config *config, box_zygote *out, box_error *err) BOX_MUST_USE;

/* fork(2), for file workers too: born in S/box of the cgroup2 tree where that works. Moving a
 * process there later stops all forks of the machine, and waits milliseconds for them
 * (cgroup_threadgroup_rwsem). inner: S/box/z, where it is born instead; -1 = none. *entered counts
 * the groups that it needs not enter any more. */
pid_t box_zygote_fork_inside(int cgroup, int inner, size_t n_box_procs, size_t *entered);
