/* What agent_sandbox.c (the sandbox) and agent_peer.c (boxd's end) share. */
#pragma once

#include "agent_sandbox.h"

enum { EVENTS = 4096, EVENT_FDS = 4 };

typedef struct sandbox_event {
    box_agent_packet packet;
    int fds[EVENT_FDS];
    size_t n_fds;
} sandbox_event;

typedef struct sandbox_cgroup {
    char root[256]; /* this sandbox's directory S; "" = none */
} sandbox_cgroup;

struct sandbox {
    sandbox_options options;
    char dir[64];
    char path[96];
    int listen;
    int conn;
    pid_t init;
    pid_t helper;
    bool ended;
    sandbox_cgroup v2;   /* cgroup2: agent, box, box/x */
    sandbox_cgroup pids; /* v1 pids controller; v2 hosts use v2 */
    bool pids_limited;
    uint64_t next_id;
    size_t n_events;
    sandbox_event events[EVENTS];
};
