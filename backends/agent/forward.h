/* Connections to ports inside that boxd asked for and that do not stand yet: the socket goes to
 * boxd, which reads and writes it itself. */
#pragma once

#include <poll.h>

#include "agent/protocol.h"
#include "base/clock.h"

typedef struct box_agent_forward {
    uint64_t id;
    int fd; /* -1: none (yet) */
    uint16_t port;
    bool v6;
    bool due; /* boxd is to be told */
    box_time give_up_at;
    box_error error;
} box_agent_forward;

/* The first `count` of the list are in use: untouched memory costs nothing. */
typedef struct box_agent_forwards {
    size_t count;
    box_agent_forward list[BOX_MAX_FORWARDS];
} box_agent_forwards;

/* -1: boxd breaks the protocol (the id is in use, or one more than there may be). */
int box_agent_forward_begin(box_agent_forwards *all, uint64_t id, const box_agent_connect *c,
                            box_time now);
/* Boxd went away. */
void box_agent_forwards_drop(box_agent_forwards *all);
/* Those under way; polls has room for BOX_MAX_FORWARDS. */
nfds_t box_agent_forward_polls(const box_agent_forwards *all, struct pollfd *polls);
/* What has become of them, and of those that are late. */
void box_agent_forward_tick(box_agent_forwards *all, box_time now);
box_time box_agent_forward_next(const box_agent_forwards *all);
/* One that boxd is to be told of, or NULL; told, it is forgotten, and its socket closed here. */
box_agent_forward *box_agent_forward_due(box_agent_forwards *all);
void box_agent_forward_told(box_agent_forwards *all, box_agent_forward *f);
