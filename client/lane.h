/* A lane: one way to the server, with at most one connection for new calls and a pause after tries
 * that failed. A channel that picks the first address has one lane for all of them; round-robin has
 * one for each. Lock of the channel held in all of it. */
#pragma once

#include "address.h"
#include "internal.h"

struct box_lane {
    box_channel *channel;
    box_addresses addresses;
    box_conn *conn;      /* NULL: none */
    unsigned failures;   /* tries in a row */
    bool is_failed;      /* the last try; no new one has begun */
    uint64_t failed_at;  /* channel->n_failures then */
    box_time not_before; /* the next try; 0 = at once */
    box_error why;       /* of is_failed */
};

/* The lanes of a new channel. */
void box_lanes_init(box_channel *c);
void box_lanes_done(box_channel *c);
/* Where the call can go now, or NULL. In turns. */
box_lane *box_lanes_pick(box_channel *c, const box_client_call *call);
/* Begins to connect whatever may, as a call has nowhere to go. */
void box_lanes_connect(box_channel *c, box_time now);
/* The resolver has answered. */
void box_lanes_resolved(box_channel *c);
/* Every lane has failed, just now or while the call was waiting: why. NULL: wait. */
const box_error *box_lanes_failure(const box_channel *c, const box_client_call *call);
/* The end of the first pause that a call may be waiting for. */
box_time box_lanes_next_try(const box_channel *c, box_time now);
/* Connections nobody has been reading are looked at, before they are used. */
void box_lanes_probe(box_channel *c);
box_channel_state box_lanes_state(const box_channel *c);

/* --- what a connection tells its lane */

void box_lane_ready(box_lane *lane);
/* It takes no more calls. why NULL: it worked (the next one is made as soon as it is wanted), or
 * the try failed. answered: some call had an answer. */
void box_lane_lost(box_lane *lane, bool answered, const box_error *why);
