#include "net/life.h"

#include "base/limits.h"

static box_time after(box_time from, uint64_t ns)
{
    return ns == 0 || from == BOX_TIME_NEVER ? BOX_TIME_NEVER : box_time_add(from, ns);
}

static box_time keepalive_at(const box_life *l, const box_net_life *rules)
{
    if (rules->keepalive_time_ns == 0)
        return BOX_TIME_NEVER;
    return l->pinged_at != 0 ? after(l->pinged_at, rules->keepalive_timeout_ns)
                             : after(l->heard_at, rules->keepalive_time_ns);
}

static box_time idle_at(const box_life *l, const box_net_life *rules)
{
    return l->leaving > 0 ? BOX_TIME_NEVER : after(l->idle_since, rules->max_idle_ns);
}

void box_life_start(box_life *l, const box_net_life *rules, box_time now, uint64_t random)
{
    enum { PERMILLE = 1000, LEAST = 900, SPREAD = 201 };
    *l = (box_life){
        .heard_at = now,
        .idle_since = now,
        .age_at = after(now, rules->max_age_ns / PERMILLE * (LEAST + random % SPREAD)),
        .stall_at = BOX_TIME_NEVER,
        .stranger_at = BOX_TIME_NEVER,
        .sweep_at = BOX_TIME_NEVER,
        .leave_at = BOX_TIME_NEVER,
    };
}

void box_life_heard(box_life *l, box_time now)
{
    l->heard_at = now;
    l->pinged_at = 0;
}

static box_time least(box_time a, box_time b)
{
    return a < b ? a : b;
}

box_time box_life_next(const box_life *l, const box_net_life *rules)
{
    box_time at = least(keepalive_at(l, rules), idle_at(l, rules));
    at = least(at, least(l->age_at, l->stall_at));
    at = least(at, least(l->stranger_at, l->sweep_at));
    return least(at, l->leave_at);
}

static box_life_action begin_leaving(box_life *l, box_time now, box_life_action why)
{
    l->age_at = BOX_TIME_NEVER;
    l->leaving = 1;
    l->leave_at = now + BOX_GOAWAY_WAIT_MS * BOX_MS;
    return why;
}

static box_life_action leave(box_life *l, const box_net_life *rules, box_time now)
{
    switch (l->leaving++) {
    case 1:
        l->leave_at = after(now, rules->max_age_grace_ns);
        return BOX_LIFE_LEAVE;
    case 2:
        l->leave_at = now + BOX_CANCEL_WAIT_MS * BOX_MS;
        return BOX_LIFE_CANCEL;
    default:
        return BOX_LIFE_DEAD;
    }
}

static box_life_action keepalive(box_life *l, const box_net_life *rules, box_time now)
{
    if (now < keepalive_at(l, rules))
        return BOX_LIFE_NONE;
    if (l->pinged_at != 0)
        return BOX_LIFE_DEAD;
    l->pinged_at = now;
    return BOX_LIFE_PING;
}

box_life_action box_life_due(box_life *l, const box_net_life *rules, box_time now)
{
    if (now >= l->stall_at)
        return BOX_LIFE_DEAD;
    if (now >= l->leave_at)
        return leave(l, rules, now);
    if (now >= l->age_at)
        return begin_leaving(l, now, BOX_LIFE_AGE);
    if (now >= idle_at(l, rules))
        return begin_leaving(l, now, BOX_LIFE_IDLE);
    if (now >= l->stranger_at) {
        l->stranger_at = now + BOX_STRANGER_SECONDS * BOX_SECOND;
        return BOX_LIFE_STRANGER;
    }
    if (now >= l->sweep_at) {
        l->sweep_at = BOX_TIME_NEVER; /* the connection sets it again while it has streams */
        return BOX_LIFE_SWEEP;
    }
    return keepalive(l, rules, now);
}
