#include "lane.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "conn.h"
#include "resolve.h"

static box_lane *lane_new(box_channel *c)
{
    box_lane *lane = box_alloc(sizeof *lane);
    lane->channel = c;
    return lane;
}

static void lane_free(box_lane *lane)
{
    assert(lane->conn == NULL);
    box_addresses_done(&lane->addresses);
    free(lane);
}

static bool must_ask(const box_channel *c)
{
    return c->target.kind == BOX_TARGET_DNS && c->target.addresses.count == 0;
}

/* The lane of that address among those left over, taken from them, or a new one. */
static box_lane *lane_of(box_channel *c, box_lane **old, size_t n_old, const box_address *a)
{
    for (size_t i = 0; i < n_old; i++) {
        if (old[i] != NULL && old[i]->addresses.count == 1 &&
            box_address_same(&old[i]->addresses.items[0], a))
            return box_take(old[i]);
    }
    box_lane *lane = lane_new(c);
    box_addresses_add(&lane->addresses, &a->at, a->len);
    return lane;
}

/* One for each address; those of addresses that stay, stay. */
static void spread(box_channel *c, const box_addresses *addresses)
{
    box_lane *old[BOX_CLIENT_ADDRESSES];
    size_t n_old = c->n_lanes;
    memcpy(old, c->lanes, sizeof old);
    c->n_lanes = 0;
    for (size_t i = 0; i < addresses->count; i++)
        c->lanes[c->n_lanes++] = lane_of(c, old, n_old, &addresses->items[i]);
    for (size_t i = 0; i < n_old; i++) {
        if (old[i] != NULL && old[i]->conn != NULL)
            box_conn_retire(old[i]->conn);
        if (old[i] != NULL)
            lane_free(old[i]);
    }
}

static void set_addresses(box_channel *c, const box_addresses *addresses)
{
    if (addresses->count == 0)
        return; /* nothing is known that would be better */
    if (c->balance == BOX_ROUND_ROBIN) {
        spread(c, addresses);
        return;
    }
    box_addresses *all = &c->lanes[0]->addresses;
    box_addresses_done(all);
    for (size_t i = 0; i < addresses->count; i++)
        box_addresses_add(all, &addresses->items[i].at, addresses->items[i].len);
}

void box_lanes_init(box_channel *c)
{
    c->lanes[0] = lane_new(c);
    c->n_lanes = 1;
    set_addresses(c, &c->target.addresses);
    c->must_resolve = must_ask(c);
}

void box_lanes_done(box_channel *c)
{
    box_resolution_free(c->resolution);
    c->resolution = NULL;
    for (size_t i = 0; i < c->n_lanes; i++)
        lane_free(c->lanes[i]);
    c->n_lanes = 0;
}

/* --- picking -----------------------------------------------------------------------------------
 */

box_lane *box_lanes_pick(box_channel *c, const box_client_call *call)
{
    for (size_t i = 0; i < c->n_lanes; i++) {
        box_lane *lane = c->lanes[(c->next_lane + i) % c->n_lanes];
        if (lane->conn == NULL || !box_conn_takes(lane->conn, call->wait_for_ready))
            continue;
        c->next_lane = (c->next_lane + i + 1) % c->n_lanes;
        return lane;
    }
    return NULL;
}

void box_lanes_probe(box_channel *c)
{
    for (size_t i = 0; i < c->n_lanes; i++) {
        if (c->lanes[i]->conn != NULL)
            box_conn_probe(c->lanes[i]->conn);
    }
}

const box_error *box_lanes_failure(const box_channel *c, const box_client_call *call)
{
    const box_lane *last = c->lanes[0];
    for (size_t i = 0; i < c->n_lanes; i++) {
        const box_lane *lane = c->lanes[i];
        bool is_ready = lane->conn != NULL && box_conn_is_ready(lane->conn);
        if (is_ready || (!lane->is_failed && lane->failed_at <= call->born_at))
            return NULL;
        last = lane->failed_at > last->failed_at ? lane : last;
    }
    return &last->why;
}

box_time box_lanes_next_try(const box_channel *c, box_time now)
{
    box_time first = BOX_TIME_NEVER;
    for (size_t i = 0; i < c->n_lanes; i++) {
        const box_lane *lane = c->lanes[i];
        if (lane->conn == NULL && lane->not_before > now && lane->not_before < first)
            first = lane->not_before;
    }
    return first;
}

box_channel_state box_lanes_state(const box_channel *c)
{
    bool is_connecting = c->resolution != NULL;
    bool is_failed = true;
    for (size_t i = 0; i < c->n_lanes; i++) {
        const box_lane *lane = c->lanes[i];
        if (lane->conn != NULL && box_conn_is_ready(lane->conn))
            return BOX_CHANNEL_READY;
        is_connecting |= lane->conn != NULL;
        is_failed &= lane->is_failed;
    }
    if (is_connecting)
        return BOX_CHANNEL_CONNECTING;
    return is_failed ? BOX_CHANNEL_FAILED : BOX_CHANNEL_IDLE;
}

/* --- connecting --------------------------------------------------------------------------------
 */

/* xorshift64: spreads pauses, and guards nothing. */
uint32_t box_channel_random(box_channel *c)
{
    c->random ^= c->random << 13;
    c->random ^= c->random >> 7;
    c->random ^= c->random << 17;
    return (uint32_t)(c->random >> 32);
}

static void failed(box_lane *lane, const box_error *why)
{
    box_channel *c = lane->channel;
    uint64_t pause = box_pause_ns(&c->reconnect, ++lane->failures, box_channel_random(c));
    lane->is_failed = true;
    lane->failed_at = ++c->n_failures;
    lane->why = *why;
    lane->not_before = box_time_add(box_now(), pause);
    box_channel_note_expiry(c, lane->not_before);
}

void box_lane_ready(box_lane *lane)
{
    lane->failures = 0;
    lane->channel->look_again = true;
}

void box_lane_lost(box_lane *lane, bool answered, const box_error *why)
{
    box_channel *c = lane->channel;
    lane->conn = NULL;
    c->must_resolve = must_ask(c);
    c->look_again = true;
    if (why != NULL)
        failed(lane, why);
    else if (!answered) /* a server that hangs up again and again is not called in a loop */
        lane->not_before = box_time_add(box_now(), BOX_CLIENT_PACE_MS * BOX_MS);
    if (why == NULL && lane->not_before != 0)
        box_channel_note_expiry(c, lane->not_before);
}

/* Is there anything to connect, now that a call waits? */
static bool wants(const box_lane *lane, box_time now)
{
    return lane->conn == NULL && lane->not_before <= now;
}

static void start_resolving(box_channel *c, box_time now)
{
    box_error err;
    if (c->resolution != NULL)
        return;
    if (box_resolve(c->target.host, c->target.port, c->resolved, &c->resolution, &err) == 0) {
        for (size_t i = 0; i < c->n_lanes; i++)
            c->lanes[i]->is_failed &= !wants(c->lanes[i], now);
        return;
    }
    for (size_t i = 0; i < c->n_lanes; i++) {
        if (wants(c->lanes[i], now))
            failed(c->lanes[i], &err);
    }
}

static void connect_lane(box_lane *lane)
{
    box_error err;
    lane->is_failed = false;
    lane->not_before = 0;
    if (box_conn_new(lane, &lane->conn, &err) < 0)
        failed(lane, &err);
}

void box_lanes_connect(box_channel *c, box_time now)
{
    for (size_t i = 0; i < c->n_lanes; i++) {
        if (!wants(c->lanes[i], now))
            continue;
        if (c->must_resolve) {
            start_resolving(c, now);
            return;
        }
        connect_lane(c->lanes[i]);
    }
}

void box_lanes_resolved(box_channel *c)
{
    BOX_AUTO(box_addresses_done)
    box_addresses found = {0};
    box_error err;
    int rc;
    if (c->resolution == NULL || !box_resolution_take(c->resolution, &found, &rc, &err))
        return;
    box_resolution_free(c->resolution);
    c->resolution = NULL;
    c->look_again = true;
    if (rc == 0) {
        set_addresses(c, &found); /* a lane that goes asks for names again: they are new already */
        c->must_resolve = false;
        return;
    }
    box_time now = box_now();
    for (size_t i = 0; i < c->n_lanes; i++) {
        if (wants(c->lanes[i], now))
            failed(c->lanes[i], &err);
    }
}
