/* When time alone makes an open connection act: its peer is silent, old, idle, unknown or takes
 * nothing. Plain state without a clock: times are passed in, and the connection does what it is
 * told. */
#pragma once

#include <stdbool.h>

#include "base/clock.h"
#include "net/server.h"

typedef enum box_life_action {
    BOX_LIFE_NONE,
    BOX_LIFE_PING,     /* ask whether the peer is there */
    BOX_LIFE_DEAD,     /* it is not, or takes nothing: close now */
    BOX_LIFE_AGE,      /* first GOAWAY: max_age */
    BOX_LIFE_IDLE,     /* first GOAWAY: max_idle */
    BOX_LIFE_LEAVE,    /* second GOAWAY */
    BOX_LIFE_CANCEL,   /* the grace is over: end the calls */
    BOX_LIFE_STRANGER, /* a peer nobody knows has had its time */
    BOX_LIFE_SWEEP,    /* look for calls that do not come to their end */
} box_life_action;

typedef struct box_life {
    box_time heard_at;    /* the last byte came */
    box_time pinged_at;   /* our PING went and nothing came since; 0 = none */
    box_time idle_since;  /* no call is open; BOX_TIME_NEVER while one is */
    box_time age_at;      /* each of these: BOX_TIME_NEVER when it does not count */
    box_time stall_at;    /* the peer took nothing for too long */
    box_time stranger_at; /* when one that nobody knows has to go */
    box_time sweep_at;
    box_time leave_at; /* next step of leaving */
    unsigned leaving;  /* steps done */
} box_life;

/* random: any number; spreads the ages of connections made together by 10 % either way. */
void box_life_start(box_life *l, const box_net_life *rules, box_time now, uint64_t random);
/* A byte came: that answers a PING as well. */
void box_life_heard(box_life *l, box_time now);
/* When box_life_due has something to say, unless a byte comes before: call it again then. */
box_time box_life_next(const box_life *l, const box_net_life *rules);
/* What to do now, one thing at a time until NONE. */
box_life_action box_life_due(box_life *l, const box_net_life *rules, box_time now);
