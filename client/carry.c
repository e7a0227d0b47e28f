#include "internal.h"

#include <sys/epoll.h>
#include <unistd.h>

#include "wire/service.h"

enum { EVENTS_PER_ROUND = 16 };

/* --- a connection for a new call ---------------------------------------------------------------
 */

/* The resolver may take seconds: the channel goes on meanwhile. */
static int resolve(box_channel *c, struct addrinfo **out, box_error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    c->resolving = true;
    (void)pthread_mutex_unlock(&c->lock);
    int rc = getaddrinfo(c->target.host, c->target.port, &hints, out);
    (void)pthread_mutex_lock(&c->lock);
    c->resolving = false;
    (void)pthread_cond_broadcast(&c->resolved);
    if (rc != 0)
        return box_fail(err, BOX_RUNTIME_UNAVAILABLE, "cannot resolve %s: %s", c->target.host,
                        gai_strerror(rc));
    if (c->closed) {
        freeaddrinfo(*out);
        return box_fail(err, BOX_CANCELLED, "the channel was closed");
    }
    return 0;
}

/* c->current, made when there is none. */
static int find_connection(box_channel *c, box_error *err)
{
    struct addrinfo *addresses = NULL;
    if (c->current != NULL)
        box_conn_probe(c->current);
    while (c->current == NULL && c->resolving)
        (void)pthread_cond_wait(&c->resolved, &c->lock);
    if (c->current != NULL)
        return 0;
    if (c->closed)
        return box_fail(err, BOX_CANCELLED, "the channel was closed");
    if (c->target.kind == BOX_TARGET_DNS && resolve(c, &addresses, err) < 0)
        return -1;
    return box_conn_new(c, addresses, &c->current, err);
}

static int carry_start(box_client_call *call, box_metadata *metadata, uint64_t timeout_ns,
                       box_error *err)
{
    box_channel *c = call->channel;
    for (bool again = false;; again = true) {
        if (find_connection(c, err) < 0)
            return -1;
        if (box_h2_request_start(box_conn_h2(c->current), call->method->path, metadata, timeout_ns,
                                 BOX_IDENTITY, call, &call->stream, err) == 0)
            return 0;
        if (again || err->reason == BOX_MESSAGE_SIZE) /* too much metadata: for any connection */
            return -1;
        box_conn_retire(c->current);
    }
}

/* --- calls -------------------------------------------------------------------------------------
 */

static void carry_send(box_client_call *call, const uint8_t *data, size_t len)
{
    if (call->stream != NULL)
        box_h2_message(call->stream, data, len);
}

static void carry_half_close(box_client_call *call)
{
    if (call->stream != NULL)
        box_h2_half_close(call->stream);
}

static void carry_cancel(box_client_call *call, const box_error *why)
{
    if (call->stream != NULL)
        box_h2_cancel(call->stream, why);
}

static void carry_pause(box_client_call *call, bool paused)
{
    if (call->stream != NULL)
        box_h2_pause(call->stream, paused);
}

static bool carry_is_writable(const box_client_call *call)
{
    return call->stream == NULL || box_h2_is_writable(call->stream);
}

/* --- progress ----------------------------------------------------------------------------------
 */

static box_time carry_expire(box_channel *c, box_time now)
{
    box_time calls = box_client_calls_expire(c, now);
    box_time connects = box_conns_expire(c, now);
    return connects < calls ? connects : calls;
}

/* Milliseconds for epoll_wait: rounded up, an hour at most. */
static int timeout_ms(box_time until, box_time now)
{
    uint64_t left = box_time_left(until, now);
    if (until == BOX_TIME_NEVER)
        return -1;
    return left > 3600 * BOX_SECOND ? 3600000 : (int)((left + BOX_MS - 1) / BOX_MS);
}

/* Without the lock. A connection may be gone afterwards: events carry its number, not a pointer. */
static int wait_for_events(box_channel *c, int timeout, struct epoll_event *events)
{
    (void)pthread_mutex_unlock(&c->lock);
    int n = epoll_wait(c->epoll, events, EVENTS_PER_ROUND, timeout);
    (void)pthread_mutex_lock(&c->lock);
    return n;
}

static void hush(const box_channel *c)
{
    uint64_t count;
    ssize_t n = read(c->wake, &count, sizeof count);
    (void)n; /* another thread may have done it */
}

static void carry_round(box_channel *c, box_client_call *call, box_time until)
{
    (void)call;
    box_time now = box_now();
    if (c->soonest <= now) {
        c->soonest = carry_expire(c, now);
        box_conns_flush(c);
        return; /* what has ended may be what the caller waits for */
    }
    c->polling_until = c->soonest < until ? c->soonest : until;
    c->polling = true;
    struct epoll_event events[EVENTS_PER_ROUND];
    int n = wait_for_events(c, timeout_ms(c->polling_until, now), events);
    c->polling = false;
    for (int i = 0; i < n; i++) {
        if (events[i].data.u64 == 0)
            hush(c);
        else
            box_conns_ready(c, events[i].data.u64, events[i].events);
    }
}

static void carry_close(box_channel *c)
{
    box_error gone;
    (void)box_fail(&gone, BOX_CANCELLED, "the channel was closed");
    box_conns_close(c, &gone);
}

const box_carrier box_carrier_connections = {
    .start = carry_start,
    .send = carry_send,
    .half_close = carry_half_close,
    .cancel = carry_cancel,
    .pause = carry_pause,
    .is_writable = carry_is_writable,
    .flush = box_conns_flush,
    .round = carry_round,
    .expire = carry_expire,
    .close = carry_close,
};
