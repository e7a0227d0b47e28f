#include "internal.h"

#include <sys/epoll.h>
#include <unistd.h>

#include "lane.h"
#include "wire/service.h"

enum { EVENTS_PER_ROUND = 16 };

/* --- calls -------------------------------------------------------------------------------------
 */

static void carry_half_close(box_client_call *call)
{
    if (call->stream != NULL)
        box_h2_half_close(call->stream);
}

static void carry_cancel(box_client_call *call, const box_error *why)
{
    box_attempt_stop(call);
    if (call->stream != NULL)
        box_h2_cancel(call->stream, why);
}

static void carry_pause(box_client_call *call, bool paused)
{
    if (call->stream != NULL)
        box_h2_pause(call->stream, paused);
}

/* --- progress ----------------------------------------------------------------------------------
 */

/* A call that gets a place, or loses it, changes what others find. */
static void carry_flush(box_channel *c)
{
    do {
        if (c->look_again)
            box_attempts_place(c);
        box_conns_flush(c);
    } while (c->look_again && !box_list_empty(&c->waiting));
}

static box_time sooner(box_time a, box_time b)
{
    return a < b ? a : b;
}

static box_time carry_expire(box_channel *c, box_time now)
{
    box_time calls = box_client_calls_expire(c, now);
    box_time conns = box_conns_expire(c, now);
    return sooner(sooner(calls, conns), box_attempts_expire(c, now));
}

/* Milliseconds for epoll_wait: rounded up, an hour at most. */
static int timeout_ms(box_time until, box_time now)
{
    uint64_t left = box_time_left(until, now);
    if (until == BOX_TIME_NEVER)
        return -1;
    return left > 3600 * BOX_SECOND ? 3600000 : (int)((left + BOX_MS - 1) / BOX_MS);
}

/* Without the lock, after the program has heard of the state. A connection may be gone afterwards:
 * events carry its number, not a pointer. */
static int wait_for_events(box_channel *c, int timeout, struct epoll_event *events)
{
    box_channel_unlock(c);
    int n = epoll_wait(c->epoll, events, EVENTS_PER_ROUND, timeout);
    (void)pthread_mutex_lock(&c->lock);
    return n;
}

static void hush(int eventfd)
{
    uint64_t count;
    ssize_t n = read(eventfd, &count, sizeof count);
    (void)n; /* another thread may have done it */
}

static void look_at(box_channel *c, const struct epoll_event *event)
{
    switch (event->data.u64) {
    case BOX_EVENT_WAKE:
        hush(c->wake);
        break;
    case BOX_EVENT_RESOLVED:
        hush(c->resolved);
        box_lanes_resolved(c);
        break;
    default:
        box_conns_ready(c, event->data.u64, event->events);
        break;
    }
}

static void carry_round(box_channel *c, box_client_call *call, box_time until)
{
    (void)call;
    box_time now = box_now();
    if (c->soonest <= now) {
        c->soonest = BOX_TIME_NEVER; /* what follows may note a sooner one */
        c->soonest = sooner(carry_expire(c, now), c->soonest);
        carry_flush(c);
        return; /* what has ended may be what the caller waits for */
    }
    c->polling_until = sooner(c->soonest, until);
    c->polling = true;
    struct epoll_event events[EVENTS_PER_ROUND];
    int n = wait_for_events(c, timeout_ms(c->polling_until, now), events);
    c->polling = false;
    for (int i = 0; i < n; i++)
        look_at(c, &events[i]);
    if (c->look_again)
        carry_flush(c);
}

static void carry_close(box_channel *c)
{
    box_error gone;
    (void)box_fail(&gone, BOX_CANCELLED, "the channel was closed");
    box_attempts_close(c, &gone);
    box_conns_close(c, &gone);
    box_lanes_done(c);
}

const box_carrier box_carrier_connections = {
    .start = box_attempt_start,
    .send = box_attempt_send,
    .half_close = carry_half_close,
    .cancel = carry_cancel,
    .pause = carry_pause,
    .is_writable = box_attempt_is_writable,
    .flush = carry_flush,
    .round = carry_round,
    .expire = carry_expire,
    .close = carry_close,
};
