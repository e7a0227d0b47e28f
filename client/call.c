#include "internal.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "wire/validate.h"

/* --- news from a carrier
 * ---------------------------------------------------------------------------- */

static void mark_ready(box_client_call *call)
{
    if (call->events != NULL && !call->freed && !box_list_linked(&call->ready))
        box_list_append(&call->channel->ready, &call->ready);
}

void box_metadata_copy(const box_metadata *from, box_metadata *to)
{
    *to = (box_metadata){0};
    if (from == NULL || from->count == 0)
        return;
    to->entries = box_alloc_array(from->count, sizeof *to->entries);
    to->count = from->count;
    for (size_t i = 0; i < from->count; i++) {
        const box_metadata_entry *e = &from->entries[i];
        box_metadata_entry *copy = &to->entries[i];
        copy->key = box_strdup(e->key);
        copy->value = box_alloc(e->value_len + 1);
        memcpy(copy->value, e->value, e->value_len);
        copy->value_len = e->value_len;
    }
}

void box_client_call_headers(box_client_call *call, const box_metadata *metadata)
{
    if (call->has_headers)
        return;
    call->has_headers = true;
    box_metadata_copy(metadata, &call->headers);
    mark_ready(call);
}

/* A stream is paused while we pause it or the user does. */
static void apply_pause(box_client_call *call, bool ours, bool users)
{
    bool before = call->paused || call->user_paused;
    call->paused = ours;
    call->user_paused = users;
    if (before != (ours || users))
        call->channel->carrier->pause(call, ours || users);
}

void box_client_call_message(box_client_call *call, const uint8_t *data, size_t len)
{
    box_received *m = box_alloc(sizeof *m + len);
    m->len = len;
    if (len > 0)
        memcpy(m->data, data, len);
    *call->last = m;
    call->last = &m->next;
    call->unread_bytes += sizeof *m + len;
    if (call->unread_bytes > BOX_CLIENT_UNREAD_BYTES)
        apply_pause(call, true, call->user_paused);
    mark_ready(call);
}

void box_client_call_writable(box_client_call *call)
{
    call->writable_news = true;
    mark_ready(call);
}

void box_client_call_done(box_client_call *call, const box_error *status,
                          const box_metadata *trailers)
{
    if (call->done)
        return;
    call->done = true;
    call->status = *status;
    call->has_trailers = trailers != NULL;
    box_metadata_copy(trailers, &call->trailers);
    mark_ready(call);
}

box_time box_client_expire(box_channel *c, box_time now)
{
    box_time first = BOX_TIME_NEVER;
    for (box_list *at = c->calls.next; at != &c->calls; at = at->next) {
        box_client_call *call = BOX_CONTAINER(at, box_client_call, link);
        if (call->done || call->deadline == 0)
            continue;
        if (call->deadline > now) {
            first = call->deadline < first ? call->deadline : first;
            continue;
        }
        box_error late;
        (void)box_fail(&late, BOX_DEADLINE, "the deadline passed before the server answered");
        call->channel->carrier->cancel(call, &late);
        box_client_call_done(call, &late, NULL);
    }
    return first;
}

/* --- life
 * ------------------------------------------------------------------------------------------- */

static void drop_messages(box_client_call *call)
{
    for (box_received *m = call->first; m != NULL;) {
        box_received *next = m->next;
        free(m);
        m = next;
    }
    call->first = NULL;
    call->last = &call->first;
}

static void unref(box_client_call *call)
{
    if (--call->refs > 0)
        return;
    drop_messages(call);
    box_metadata_done(&call->headers);
    box_metadata_done(&call->trailers);
    if (call->events != NULL && call->events->release != NULL)
        call->events->release(call->arg);
    free(call);
}

static int call_metadata(const box_channel *c, const box_client_options *o, box_metadata *out,
                         box_error *err)
{
    *out = (box_metadata){0};
    const char *token = o->token != NULL ? o->token : c->token;
    if (token != NULL) {
        char value[4200];
        int n = snprintf(value, sizeof value, "Bearer %s", token);
        if (n < 0 || (size_t)n >= sizeof value)
            return box_fail(err, BOX_VALIDATION, "the token is longer than 4 KiB");
        if (box_metadata_add_text(out, "authorization", value, err) < 0)
            return -1;
    }
    for (size_t i = 0; o->metadata != NULL && i < o->metadata->count; i++) {
        const box_metadata_entry *e = &o->metadata->entries[i];
        if (box_metadata_add(out, e->key, e->value, e->value_len, err) < 0)
            return -1;
    }
    return 0;
}

static int start(box_channel *c, const box_method *method, const box_client_options *options,
                 const box_client_events *events, void *arg, box_client_call **out, box_error *err)
{
    static const box_client_options none = {0};
    const box_client_options *o = options != NULL ? options : &none;
    box_metadata metadata;
    if (call_metadata(c, o, &metadata, err) < 0) {
        box_metadata_done(&metadata);
        return -1;
    }
    box_client_call *call = box_alloc(sizeof *call);
    *call =
        (box_client_call){.channel = c, .method = method, .refs = 1, .events = events, .arg = arg};
    call->last = &call->first;
    if (o->timeout_ns != 0)
        call->deadline = box_time_add(box_now(), o->timeout_ns);
    (void)pthread_mutex_lock(&c->lock);
    int rc = c->carrier->start(call, &metadata, o->timeout_ns, err);
    if (rc == 0)
        box_list_append(&c->calls, &call->link);
    (void)pthread_mutex_unlock(&c->lock);
    box_metadata_done(&metadata);
    if (rc < 0) {
        call->events = NULL; /* never started: arg stays the caller's */
        unref(call);
        return -1;
    }
    *out = call;
    return 0;
}

int box_client_start(box_channel *c, const box_method *method, const box_client_options *options,
                     box_client_call **out, box_error *err)
{
    return start(c, method, options, NULL, NULL, out, err);
}

int box_client_start_events(box_channel *c, const box_method *method,
                            const box_client_options *options, const box_client_events *events,
                            void *arg, box_client_call **out, box_error *err)
{
    return start(c, method, options, events, arg, out, err);
}

void box_client_free(box_client_call *call)
{
    if (call == NULL)
        return;
    box_channel *c = call->channel;
    (void)pthread_mutex_lock(&c->lock);
    call->freed = true;
    if (!call->done) {
        box_error why;
        (void)box_fail(&why, BOX_CANCELLED, "the call was dropped");
        c->carrier->cancel(call, &why);
    }
    box_list_remove(&call->link);
    box_list_remove(&call->ready);
    unref(call);
    (void)pthread_mutex_unlock(&c->lock);
}

void box_client_cancel(box_client_call *call)
{
    box_channel *c = call->channel;
    box_error why;
    (void)box_fail(&why, BOX_CANCELLED, "the call was cancelled");
    (void)pthread_mutex_lock(&c->lock);
    if (!call->done) {
        c->carrier->cancel(call, &why);
        box_client_call_done(call, &why, NULL);
        (void)pthread_cond_broadcast(&c->news);
    }
    (void)pthread_mutex_unlock(&c->lock);
}

/* --- sending
 * ---------------------------------------------------------------------------------------- */

static int over(const box_client_call *call, box_error *err)
{
    if (call->done && call->status.reason != BOX_NONE)
        *err = call->status;
    else
        (void)box_fail(err, BOX_CANCELLED, "the call has ended");
    return -1;
}

int box_client_send(box_client_call *call, const ProtobufCMessage *message, box_error *err)
{
    box_channel *c = call->channel;
    size_t len = protobuf_c_message_get_packed_size(message);
    uint8_t *data = box_alloc(len + 1);
    (void)protobuf_c_message_pack(message, data);
    (void)pthread_mutex_lock(&c->lock);
    while (call->events == NULL && !call->done && !c->carrier->is_writable(call))
        c->carrier->wait(c, BOX_TIME_NEVER);
    bool open = !call->done && !call->half_closed;
    if (open)
        c->carrier->send(call, data, len);
    int rc = open ? 0 : over(call, err);
    (void)pthread_mutex_unlock(&c->lock);
    free(data);
    return rc;
}

int box_client_half_close(box_client_call *call, box_error *err)
{
    box_channel *c = call->channel;
    (void)pthread_mutex_lock(&c->lock);
    bool open = !call->done && !call->half_closed;
    call->half_closed = true;
    if (open)
        c->carrier->half_close(call);
    int rc = open ? 0 : over(call, err);
    (void)pthread_mutex_unlock(&c->lock);
    return rc;
}

bool box_client_is_writable(const box_client_call *call)
{
    box_channel *c = call->channel;
    (void)pthread_mutex_lock(&c->lock);
    bool writable = call->done || c->carrier->is_writable(call);
    (void)pthread_mutex_unlock(&c->lock);
    return writable;
}

void box_client_pause(box_client_call *call, bool paused)
{
    box_channel *c = call->channel;
    (void)pthread_mutex_lock(&c->lock);
    apply_pause(call, call->paused, paused);
    if (!paused && call->first != NULL)
        mark_ready(call);
    (void)pthread_mutex_unlock(&c->lock);
}

/* --- receiving
 * -------------------------------------------------------------------------------------- */

/* Lock held. */
static box_received *pop(box_client_call *call)
{
    box_received *m = call->first;
    if (m == NULL)
        return NULL;
    call->first = m->next;
    if (call->first == NULL)
        call->last = &call->first;
    call->unread_bytes -= sizeof *m + m->len;
    if (call->paused && call->unread_bytes <= BOX_CLIENT_UNREAD_BYTES / 2)
        apply_pause(call, false, call->user_paused);
    return m;
}

/* To the heap, so that callers free it with ...__free_unpacked(m, NULL). */
static int unpack(const box_client_call *call, const box_received *m, ProtobufCMessage **out,
                  box_error *err)
{
    const ProtobufCMessageDescriptor *type = call->method->response;
    size_t budget = m->len * BOX_CALL_BUDGET_FACTOR + BOX_CALL_BUDGET_BYTES;
    ProtobufCMessage *message = NULL;
    if (box_message_validate(type, m->data, m->len, budget, err) == 0)
        message = protobuf_c_message_unpack(type, NULL, m->len, m->data);
    if (message == NULL)
        return box_fail(err, BOX_PROTOCOL, "the server sent bytes that are no %s", type->name);
    *out = message;
    return 0;
}

int box_client_receive(box_client_call *call, ProtobufCMessage **out, box_error *err)
{
    box_channel *c = call->channel;
    (void)pthread_mutex_lock(&c->lock);
    while (call->first == NULL && !call->done)
        c->carrier->wait(c, BOX_TIME_NEVER);
    box_received *m = pop(call);
    (void)pthread_mutex_unlock(&c->lock);
    if (m == NULL) {
        *err = call->status;
        return call->status.reason == BOX_NONE ? 0 : -1;
    }
    int rc = unpack(call, m, out, err);
    free(m);
    if (rc < 0)
        box_client_cancel(call);
    return rc < 0 ? -1 : 1;
}

const box_metadata *box_client_headers(const box_client_call *call)
{
    return call->has_headers ? &call->headers : NULL;
}

const box_metadata *box_client_trailers(const box_client_call *call)
{
    return call->has_trailers ? &call->trailers : NULL;
}

/* Exactly one answer, then the status (grpc-conformance.md, 54). An error beside a message wins. */
static int receive_one(box_client_call *call, ProtobufCMessage **out, box_error *err)
{
    ProtobufCMessage *first = NULL;
    ProtobufCMessage *second = NULL;
    int rc = box_client_receive(call, &first, err);
    if (rc == 0)
        return box_fail(err, BOX_UNIMPLEMENTED, "the server answered %s with no message",
                        call->method->path);
    if (rc < 0)
        return -1;
    rc = box_client_receive(call, &second, err);
    if (rc == 0) {
        *out = first;
        return 0;
    }
    if (rc == 1) {
        protobuf_c_message_free_unpacked(second, NULL);
        (void)box_fail(err, BOX_UNIMPLEMENTED, "the server answered %s with several messages",
                       call->method->path);
    }
    protobuf_c_message_free_unpacked(first, NULL);
    return -1;
}

int box_client_unary(box_channel *c, const box_method *method, const box_client_options *options,
                     const ProtobufCMessage *request, ProtobufCMessage **response, box_error *err)
{
    box_client_call *call;
    box_error ended;
    if (box_client_start(c, method, options, &call, err) < 0)
        return -1;
    /* A call that ended meanwhile says why in receive. */
    if (box_client_send(call, request, &ended) == 0)
        BOX_IGNORE(box_client_half_close(call, &ended));
    int rc = receive_one(call, response, err);
    if (options != NULL && options->headers != NULL)
        box_metadata_copy(box_client_headers(call), options->headers);
    if (options != NULL && options->trailers != NULL)
        box_metadata_copy(box_client_trailers(call), options->trailers);
    box_client_free(call);
    return rc;
}

int box_client_finish(box_client_call *call, ProtobufCMessage **response, box_error *err)
{
    box_error ended;
    BOX_IGNORE(box_client_half_close(call, &ended)); /* the status comes from receive */
    return receive_one(call, response, err);
}

/* --- events
 * ----------------------------------------------------------------------------------------- */

/* One message to its callback. False: nothing more of this call may be touched. */
static bool tell_message(box_client_call *call, box_received *m)
{
    box_channel *c = call->channel;
    ProtobufCMessage *message = NULL;
    box_error bad;
    int rc = unpack(call, m, &message, &bad);
    free(m);
    if (rc == 0) {
        (void)pthread_mutex_unlock(&c->lock);
        call->events->message(call->arg, call, message);
        protobuf_c_message_free_unpacked(message, NULL);
        (void)pthread_mutex_lock(&c->lock);
    } else if (!call->done) {
        c->carrier->cancel(call, &bad);
        box_client_call_done(call, &bad, NULL);
    }
    return !call->freed;
}

/* Everything that is there, callbacks without the lock. The caller holds a reference. */
static void tell(box_client_call *call)
{
    box_channel *c = call->channel;
    const box_client_events *e = call->events;
    if (call->has_headers && !call->headers_told) {
        call->headers_told = true;
        if (e->headers != NULL) {
            (void)pthread_mutex_unlock(&c->lock);
            e->headers(call->arg, call, &call->headers);
            (void)pthread_mutex_lock(&c->lock);
        }
    }
    while (!call->freed && !call->user_paused && call->first != NULL) {
        if (!tell_message(call, pop(call)))
            return;
    }
    if (!call->freed && call->writable_news) {
        call->writable_news = false;
        if (e->writable != NULL) {
            (void)pthread_mutex_unlock(&c->lock);
            e->writable(call->arg, call);
            (void)pthread_mutex_lock(&c->lock);
        }
    }
    if (!call->freed && call->done && call->first == NULL && !call->done_told) {
        call->done_told = true;
        (void)pthread_mutex_unlock(&c->lock);
        e->done(call->arg, call, &call->status, call->has_trailers ? &call->trailers : NULL);
        (void)pthread_mutex_lock(&c->lock);
    }
}

void box_channel_dispatch(box_channel *c)
{
    (void)pthread_mutex_lock(&c->lock);
    c->carrier->wait(c, box_now());
    while (!box_list_empty(&c->ready)) {
        box_client_call *call = BOX_CONTAINER(c->ready.next, box_client_call, ready);
        box_list_remove(&call->ready);
        call->refs++;
        tell(call);
        unref(call);
    }
    (void)pthread_mutex_unlock(&c->lock);
}
