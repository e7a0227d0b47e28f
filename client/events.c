#include "internal.h"

#include <poll.h>

#include "base/alloc.h"

int box_client_start_events(box_channel *channel, const box_method *method,
                            const box_client_options *options, const ProtobufCMessage *request,
                            const box_client_events *events, const void *typed, void *arg,
                            box_client_call **out, box_error *err)
{
    const box_client_start_args args = {.method = method,
                                        .options = options,
                                        .request = request,
                                        .events = events,
                                        .typed = typed,
                                        .arg = arg};
    return box_client_call_start(channel, &args, out, err) != NULL ? 0 : -1;
}

const void *box_client_typed(const box_client_call *call)
{
    return call->typed;
}

bool box_client_is_writable(const box_client_call *call)
{
    box_channel *c = call->channel;
    (void)pthread_mutex_lock(&c->lock);
    bool writable = call->done || c->carrier->is_writable(call);
    box_channel_unlock(c);
    return writable;
}

void box_client_pause(box_client_call *call, bool paused)
{
    box_channel *c = call->channel;
    (void)pthread_mutex_lock(&c->lock);
    box_client_call_pause(call, paused);
    if (!paused && call->first != NULL)
        box_client_call_mark_ready(call);
    c->carrier->flush(c);
    box_channel_unlock(c);
}

/* --- delivering --------------------------------------------------------------------------------
 * Lock held, except during the callbacks, and the call referenced: a callback may free it. */

static void tell_headers(box_client_call *call)
{
    if (!call->has_headers || call->headers_told)
        return;
    call->headers_told = true;
    if (call->events->headers == NULL)
        return;
    (void)pthread_mutex_unlock(&call->channel->lock);
    call->events->headers(call->arg, call, &call->headers);
    (void)pthread_mutex_lock(&call->channel->lock);
}

static void tell_message(box_client_call *call)
{
    box_channel *c = call->channel;
    BOX_AUTO(box_freep)
    box_received *m = box_client_call_pop(call);
    ProtobufCMessage *message = NULL;
    box_error bad;
    if (box_client_call_unpack(call, m, &message, &bad) < 0) {
        box_client_call_drop_messages(call);
        box_client_call_fail(call, &bad);
        call->status = bad;
        return;
    }
    (void)pthread_mutex_unlock(&c->lock);
    call->events->message(call->arg, call, message);
    protobuf_c_message_free_unpacked(message, NULL);
    (void)pthread_mutex_lock(&c->lock);
}

static bool has_message(const box_client_call *call)
{
    return !call->freed && !call->user_paused && call->first != NULL;
}

static void tell_writable(box_client_call *call)
{
    if (call->freed || !call->writable_news)
        return;
    call->writable_news = false;
    if (call->events->writable == NULL || call->done)
        return;
    (void)pthread_mutex_unlock(&call->channel->lock);
    call->events->writable(call->arg, call);
    (void)pthread_mutex_lock(&call->channel->lock);
}

static void tell_done(box_client_call *call)
{
    if (call->freed || !call->done || call->first != NULL || call->done_told)
        return;
    call->done_told = true;
    (void)pthread_mutex_unlock(&call->channel->lock);
    call->events->done(call->arg, call, &call->status, call->has_trailers ? &call->trailers : NULL);
    (void)pthread_mutex_lock(&call->channel->lock);
}

static void tell(box_client_call *call)
{
    tell_headers(call);
    for (int n = 0; n < BOX_CLIENT_MESSAGES_PER_TURN && has_message(call); n++)
        tell_message(call);
    tell_writable(call);
    tell_done(call);
    if (has_message(call))
        box_client_call_mark_ready(call);
}

/* What is ready now: what the callbacks make ready waits for the next dispatch, so that two ends
 * which answer each other in one process do not keep the program's loop from turning. */
static void tell_all(box_channel *c)
{
    box_list now;
    box_list_init(&now);
    while (!box_list_empty(&c->ready)) {
        box_list *link = c->ready.next;
        box_list_remove(link);
        box_list_append(&now, link);
    }
    while (!box_list_empty(&now)) {
        box_client_call *call = BOX_CONTAINER(now.next, box_client_call, ready);
        box_list_remove(&call->ready);
        call->refs++;
        tell(call);
        box_client_call_unref(call);
    }
}

void box_channel_dispatch(box_channel *channel)
{
    box_channel *c = channel;
    (void)pthread_mutex_lock(&c->lock);
    c->dispatching = true;
    box_channel_loop_quiet(c);
    box_channel_round(c);
    tell_all(c);
    c->carrier->flush(c);
    c->dispatching = false;
    if (!box_list_empty(&c->ready))
        box_channel_loop_wake(c);
    box_channel_unlock(c);
}

static int timeout_ms(const box_channel *c, box_time now)
{
    enum { HOUR_MS = 3600 * 1000 };
    if (!box_list_empty(&c->ready))
        return 0;
    if (c->pump != NULL && !box_list_empty(&c->calls))
        return 1; /* nobody but the pump knows when its handlers go on */
    if (c->soonest == BOX_TIME_NEVER)
        return -1;
    uint64_t left = box_time_left(c->soonest, now);
    return left >= HOUR_MS * BOX_MS ? HOUR_MS : (int)((left + BOX_MS - 1) / BOX_MS);
}

void box_channel_poll(box_channel *channel, int *fd, short *events, int *timeout)
{
    box_channel *c = channel;
    (void)pthread_mutex_lock(&c->lock);
    box_time now = box_now();
    if (c->soonest <= now) {
        c->soonest = BOX_TIME_NEVER; /* what follows may note a sooner one */
        box_time next = c->carrier->expire(c, now);
        c->soonest = next < c->soonest ? next : c->soonest;
        c->carrier->flush(c);
    }
    c->loop_until = c->soonest;
    *fd = c->loop_epoll;
    *events = POLLIN;
    *timeout = timeout_ms(c, now);
    box_channel_unlock(c);
}
