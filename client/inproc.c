#include "internal.h"

#include "base/alloc.h"

/* The server's side of a call that never leaves the process. Its handler runs inside the client's
 * functions, with the channel's (recursive) lock held. */
typedef struct served_call {
    box_call base;           /* first: box_call_ops get it */
    box_client_call *client; /* NULL once the client has its status */
} served_call;

static served_call *served(const box_call *call)
{
    return (served_call *)(uintptr_t)call;
}

static void tell_headers(served_call *s)
{
    if (s->client != NULL)
        box_client_call_headers(s->client, &s->base.headers);
}

static void served_send(box_call *call, const uint8_t *message, size_t len)
{
    served_call *s = served(call);
    tell_headers(s);
    if (s->client != NULL)
        box_client_call_message(s->client, message, len);
}

/* The client's half: its status is known, the two no longer know each other. */
static void detach(served_call *s, const box_error *status, const box_metadata *trailers)
{
    box_client_call *client = s->client;
    if (client == NULL)
        return;
    s->client = NULL;
    client->served = NULL;
    box_client_call_done(client, status, trailers);
}

static void served_finish(box_call *call, const box_error *err)
{
    static const box_error ok = {0};
    served_call *s = served(call);
    if (s->base.headers.count > 0)
        tell_headers(s);
    detach(s, err != NULL ? err : &ok, &s->base.trailers);
    box_call_unref(call); /* the transport's */
}

/* The client's memory is the buffer: writable until it is paused for holding too much. */
static bool served_is_writable(const box_call *call)
{
    const served_call *s = served(call);
    return s->client == NULL || !(s->client->paused || s->client->user_paused);
}

static void served_pause(box_call *call, bool paused)
{
    (void)call; /* messages are delivered by the client's own sends */
    (void)paused;
}

static void served_destroy(box_call *call)
{
    free(served(call));
}

static const box_call_ops served_ops = {
    .send = served_send,
    .finish = served_finish,
    .is_writable = served_is_writable,
    .pause = served_pause,
    .destroy = served_destroy,
};

/* --- the carrier
 * ------------------------------------------------------------------------------------ */

static int inproc_start(box_client_call *call, box_metadata *metadata, uint64_t timeout_ns,
                        box_error *err)
{
    box_channel *c = call->channel;
    const box_service *service;
    const box_method *method;
    if (!box_service_find(c->services, c->n_services, call->method->path, &service, &method))
        return box_fail(err, BOX_UNIMPLEMENTED, "unknown method %s", call->method->path);
    served_call *s = box_alloc(sizeof *s);
    s->client = call;
    call->served = &s->base;
    box_time deadline = timeout_ns != 0 ? box_time_add(box_now(), timeout_ns) : 0;
    box_call_init(&s->base, &served_ops, service, method, NULL, metadata, deadline);
    box_call_deliver_start(&s->base);
    return 0;
}

static void inproc_send(box_client_call *call, const uint8_t *data, size_t len)
{
    if (call->served != NULL)
        box_call_deliver_message(call->served, data, len);
}

static void inproc_half_close(box_client_call *call)
{
    if (call->served != NULL)
        box_call_deliver_half_close(call->served);
}

static void inproc_cancel(box_client_call *call, const box_error *why)
{
    box_call *s = call->served;
    if (s == NULL)
        return;
    detach(served(s), why, NULL);
    box_call_deliver_end(s, why);
}

static void inproc_pause(box_client_call *call, bool paused)
{
    if (!paused && call->served != NULL)
        box_call_deliver_writable(call->served);
}

static bool inproc_is_writable(const box_client_call *call)
{
    (void)call;
    return true;
}

/* A handler that answers later needs the pump; without one, waiting would be for ever. */
static void inproc_wait(box_channel *c, box_time until)
{
    (void)until;
    (void)box_client_expire(c, box_now());
    if (c->pump != NULL) {
        c->pump(c->pump_arg);
        return;
    }
    box_error stuck;
    (void)box_fail(&stuck, BOX_INTERNAL, "the handler did not answer, and the channel has no pump");
    for (box_list *at = c->calls.next; at != &c->calls; at = at->next) {
        box_client_call *call = BOX_CONTAINER(at, box_client_call, link);
        if (!call->done && call->events == NULL)
            inproc_cancel(call, &stuck);
    }
}

static void inproc_close(box_channel *c)
{
    box_error gone;
    (void)box_fail(&gone, BOX_CANCELLED, "the channel was closed");
    for (box_list *at = c->calls.next; at != &c->calls; at = at->next)
        inproc_cancel(BOX_CONTAINER(at, box_client_call, link), &gone);
}

static const box_carrier carrier_inproc = {
    .start = inproc_start,
    .send = inproc_send,
    .half_close = inproc_half_close,
    .cancel = inproc_cancel,
    .pause = inproc_pause,
    .is_writable = inproc_is_writable,
    .wait = inproc_wait,
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
