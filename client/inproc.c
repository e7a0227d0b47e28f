#include "internal.h"

#include "base/alloc.h"
#include "base/limits.h"

/* The server's side of a call that never leaves the process. Its handler runs inside the client's
 * functions, with the channel's (recursive) lock held. As over a connection, what the client does
 * reaches a handler that paused or is running only afterwards: it waits in channel->served until
 * the carrier's flush. */
typedef struct box_served {
    box_call base; /* first: box_call_ops get it */
    box_list link; /* channel->served */
    box_channel *channel;
    box_client_call *client;     /* NULL once the client has its status */
    box_received *first, **last; /* messages that came while it was paused */
    size_t held_bytes;
    bool paused;
    bool half_close_held;
    bool over; /* the transport's reference is to be dropped, with why */
    box_error why;
    bool is_running; /* inside its handlers, called by serve */
    bool again;      /* and something was queued meanwhile */
} box_served;

static box_served *served(box_call *call)
{
    return BOX_CONTAINER(call, box_served, base);
}

static void queue(box_served *s)
{
    if (s->is_running)
        s->again = true;
    else if (!box_list_linked(&s->link))
        box_list_append(&s->channel->served, &s->link);
}

/* The client's half is known to be over: the two no longer know each other. */
static void detach(box_served *s)
{
    s->client->served = NULL;
    s->client = NULL;
}

/* --- what the handler does ---------------------------------------------------------------------
 */

static void served_send(box_call *call, const uint8_t *message, size_t len)
{
    box_served *s = served(call);
    if (s->client == NULL)
        return;
    box_client_call_headers(s->client, &call->headers);
    box_client_call_message(s->client, message, len, false);
}

static void served_finish(box_call *call, const box_error *err)
{
    static const box_error ok = {0};
    box_served *s = served(call);
    box_client_call *client = s->client;
    if (client == NULL)
        return;
    if (call->headers.count > 0)
        box_client_call_headers(client, &call->headers);
    detach(s);
    s->over = true; /* call.c is still busy with the call, and calls on_end itself */
    queue(s);
    box_client_call_done(client, err != NULL ? err : &ok,
                         call->trailers.count > 0 ? &call->trailers : NULL);
}

/* The client's memory is the buffer: writable until it is paused for holding too much. */
static bool served_is_writable(const box_call *call)
{
    const box_client_call *client = served((box_call *)(uintptr_t)call)->client;
    return client == NULL || !(client->paused || client->user_paused);
}

static void served_pause(box_call *call, bool paused)
{
    box_served *s = served(call);
    s->paused = paused;
    if (!paused)
        queue(s);
}

static void drop_held(box_served *s)
{
    for (box_received *m = s->first; m != NULL;) {
        box_received *next = m->next;
        free(m);
        m = next;
    }
    s->first = NULL;
    s->last = &s->first;
    s->held_bytes = 0;
}

static void served_destroy(box_call *call)
{
    box_served *s = served(call);
    drop_held(s);
    free(s);
}

static const box_call_ops served_ops = {
    .send = served_send,
    .finish = served_finish,
    .is_writable = served_is_writable,
    .pause = served_pause,
    .destroy = served_destroy,
};

/* --- what waits --------------------------------------------------------------------------------
 */

static box_received *take_held(box_served *s)
{
    box_received *m = s->first;
    s->first = m->next;
    if (s->first == NULL)
        s->last = &s->first;
    bool was_full = s->held_bytes > BOX_STREAM_HIGH_WATER_BYTES;
    s->held_bytes -= m->len;
    if (was_full && s->held_bytes <= BOX_STREAM_HIGH_WATER_BYTES && s->client != NULL)
        box_client_call_writable(s->client);
    return m;
}

static void deliver_held(box_served *s)
{
    while (s->first != NULL && !s->paused && !s->over) {
        box_received *m = take_held(s);
        box_call_deliver_message(&s->base, m->data, m->len);
        free(m);
    }
    if (s->half_close_held && s->first == NULL && !s->paused && !s->over) {
        s->half_close_held = false;
        box_call_deliver_half_close(&s->base);
    }
}

static void run(box_served *s)
{
    s->is_running = true;
    s->again = false;
    if (!s->over)
        deliver_held(s);
    s->is_running = false;
    if (s->over)
        box_call_deliver_end(&s->base, &s->why); /* may free it */
    else if (s->again)
        queue(s);
}

static void inproc_flush(box_channel *c)
{
    while (!box_list_empty(&c->served)) {
        box_served *s = BOX_CONTAINER(c->served.next, box_served, link);
        box_list_remove(&s->link);
        run(s);
    }
}

/* --- the carrier -------------------------------------------------------------------------------
 */

static int inproc_start(box_client_call *call, box_error *err)
{
    box_channel *c = call->channel;
    const box_service *service;
    const box_method *method;
    if (!box_service_find(c->services, c->n_services, call->method->path, &service, &method)) {
        (void)box_fail(err, BOX_UNIMPLEMENTED, "unknown method %s", call->method->path);
        box_client_call_done(call, err, NULL);
        return 0;
    }
    box_served *s = box_alloc(sizeof *s);
    s->channel = c;
    s->client = call;
    s->last = &s->first;
    call->served = s;
    box_call_init(&s->base, &served_ops, service, method, NULL, &call->metadata, call->deadline);
    box_call_deliver_start(&s->base);
    return 0;
}

static void hold(box_served *s, const uint8_t *data, size_t len)
{
    box_received *m = box_alloc(sizeof *m + len);
    m->len = len;
    if (len > 0)
        memcpy(m->data, data, len);
    *s->last = m;
    s->last = &m->next;
    s->held_bytes += len;
}

static void inproc_send(box_client_call *call, box_outgoing *message)
{
    box_served *s = call->served;
    BOX_AUTO(box_freep)
    box_outgoing *m = message;
    box_error err;
    if (s == NULL)
        return;
    if (!s->paused && s->first == NULL) {
        box_call_deliver_message(&s->base, m->data, m->len);
        return;
    }
    if (s->held_bytes + m->len <= BOX_STREAM_UNSENT_BYTES) {
        hold(s, m->data, m->len);
        return;
    }
    (void)box_fail(&err, BOX_MEMORY_BUDGET, "messages are produced faster than they are read");
    box_client_call_fail(call, &err);
}

static void inproc_half_close(box_client_call *call)
{
    box_served *s = call->served;
    if (s == NULL)
        return;
    s->half_close_held = true;
    queue(s);
}

static void inproc_cancel(box_client_call *call, const box_error *why)
{
    box_served *s = call->served;
    if (s == NULL)
        return;
    detach(s);
    s->over = true;
    s->why = *why;
    queue(s);
}

static void inproc_pause(box_client_call *call, bool paused)
{
    if (!paused && call->served != NULL)
        box_call_deliver_writable(&call->served->base);
}

static bool inproc_is_writable(const box_client_call *call)
{
    return call->served == NULL || call->served->held_bytes <= BOX_STREAM_HIGH_WATER_BYTES;
}

/* A handler that answers later needs the pump; without one, waiting would be for ever. */
static void inproc_round(box_channel *c, box_client_call *call, box_time until)
{
    (void)until;
    box_error stuck;
    box_time now = box_now();
    if (c->soonest <= now)
        c->soonest = box_client_calls_expire(c, now);
    else if (c->pump != NULL)
        c->pump(c->pump_arg);
    else if (call != NULL && box_list_empty(&c->served)) {
        (void)box_fail(&stuck, BOX_INTERNAL, "the handler of %s waits, and the channel has no pump",
                       call->method->path);
        box_client_call_fail(call, &stuck);
    }
    inproc_flush(c);
}

static void inproc_close(box_channel *c)
{
    box_error gone;
    (void)box_fail(&gone, BOX_CANCELLED, "the channel was closed");
    for (box_list *at = c->calls.next; at != &c->calls; at = at->next)
        box_client_call_fail(BOX_CONTAINER(at, box_client_call, link), &gone);
    inproc_flush(c);
}

static const box_carrier carrier_inproc = {
    .start = inproc_start,
    .send = inproc_send,
    .half_close = inproc_half_close,
    .cancel = inproc_cancel,
    .pause = inproc_pause,
    .is_writable = inproc_is_writable,
    .flush = inproc_flush,
    .round = inproc_round,
    .expire = box_client_calls_expire,
    .close = inproc_close,
};

int box_channel_inproc(const box_service *services, size_t n_services, void (*pump)(void *arg),
                       void *arg, box_channel **out, box_error *err)
{
    if (n_services == 0)
        return box_fail(err, BOX_VALIDATION, "an inproc channel needs a service");
    box_channel *c = box_channel_alloc(&carrier_inproc, true);
    c->services = services;
    c->n_services = n_services;
    c->pump = pump;
    c->pump_arg = arg;
    *out = c;
    return 0;
}
