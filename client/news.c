#include "internal.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "wire/service.h"
#include "wire/validate.h"

/* Unary and client streaming: exactly one answer (grpc-conformance.md, 54). */
static bool has_one_answer(const box_client_call *call)
{
    return call->method->kind == BOX_UNARY || call->method->kind == BOX_CLIENT_STREAM;
}

void box_client_call_mark_ready(box_client_call *call)
{
    box_channel *c = call->channel;
    if (call->events == NULL || call->freed || box_list_linked(&call->ready))
        return;
    box_list_append(&c->ready, &call->ready);
    if (!c->dispatching)
        box_channel_loop_wake(c);
}

static void tell(box_client_call *call)
{
    box_client_call_mark_ready(call);
    box_channel_notify(call);
}

/* What was received once fits again. */
static void copy_metadata(const box_metadata *from, box_metadata *to)
{
    box_error err;
    if (from != NULL)
        BOX_IGNORE(box_metadata_add_all(to, from, &err));
}

void box_client_call_headers(box_client_call *call, const box_metadata *metadata)
{
    if (call->has_headers || call->done)
        return;
    call->has_headers = true;
    copy_metadata(metadata, &call->headers);
    tell(call);
}

/* A stream is paused while we pause it or the program does. */
static void apply_pause(box_client_call *call, bool ours, bool users)
{
    bool before = call->paused || call->user_paused;
    call->paused = ours;
    call->user_paused = users;
    if (before != (ours || users))
        call->channel->carrier->pause(call, ours || users);
}

void box_client_call_pause(box_client_call *call, bool users)
{
    apply_pause(call, call->paused, users);
}

static int check_count(const box_client_call *call, box_error *err)
{
    if (!has_one_answer(call) || call->n_messages <= 1)
        return 0;
    return box_fail(err, BOX_UNIMPLEMENTED, "the server answered %s with several messages",
                    call->method->path);
}

void box_client_call_message(box_client_call *call, const uint8_t *data, size_t len,
                             bool was_compressed)
{
    box_error err;
    if (call->done)
        return;
    call->n_messages++;
    if (check_count(call, &err) < 0) {
        box_client_call_fail(call, &err);
        return;
    }
    box_received *m = box_alloc(sizeof *m + len);
    m->len = len;
    m->was_compressed = was_compressed;
    if (len > 0)
        memcpy(m->data, data, len);
    *call->last = m;
    call->last = &m->next;
    call->unread_bytes += sizeof *m + len;
    if (call->unread_bytes > BOX_CLIENT_UNREAD_BYTES)
        apply_pause(call, true, call->user_paused);
    tell(call);
}

void box_client_call_writable(box_client_call *call)
{
    call->writable_news = true;
    tell(call);
}

void box_client_call_done(box_client_call *call, const box_error *status,
                          const box_metadata *trailers)
{
    if (call->done)
        return;
    call->done = true;
    call->status = *status;
    if (status->reason == BOX_NONE && has_one_answer(call) && call->n_messages == 0)
        (void)box_fail(&call->status, BOX_UNIMPLEMENTED, "the server answered %s with no message",
                       call->method->path);
    call->has_trailers = trailers != NULL;
    copy_metadata(trailers, &call->trailers);
    tell(call);
}

void box_client_call_fail(box_client_call *call, const box_error *why)
{
    if (call->done)
        return;
    call->channel->carrier->cancel(call, why);
    box_client_call_done(call, why, NULL);
}

box_received *box_client_call_pop(box_client_call *call)
{
    box_received *m = call->first;
    if (m == NULL)
        return NULL;
    call->was_compressed = m->was_compressed;
    call->first = m->next;
    if (call->first == NULL)
        call->last = &call->first;
    call->unread_bytes -= sizeof *m + m->len;
    if (call->paused && call->unread_bytes <= BOX_CLIENT_UNREAD_BYTES / 2)
        apply_pause(call, false, call->user_paused);
    return m;
}

void box_client_call_drop_messages(box_client_call *call)
{
    for (box_received *m = call->first; m != NULL;) {
        box_received *next = m->next;
        free(m);
        m = next;
    }
    call->first = NULL;
    call->last = &call->first;
    call->unread_bytes = 0;
}

/* Whatever is wrong with an answer is the server's fault: VALIDATION would blame the request. */
int box_client_call_unpack(const box_client_call *call, const box_received *m,
                           ProtobufCMessage **out, box_error *err)
{
    const ProtobufCMessageDescriptor *type = call->method->response;
    size_t budget = m->len * BOX_CALL_BUDGET_FACTOR + BOX_CALL_BUDGET_BYTES;
    ProtobufCMessage *message = NULL;
    if (box_message_validate(type, m->data, m->len, budget, err) == 0)
        message = protobuf_c_message_unpack(type, NULL, m->len, m->data);
    else if (err->reason == BOX_MEMORY_BUDGET)
        return -1;
    if (message == NULL)
        return box_fail(err, BOX_PROTOCOL, "the server sent bytes that are no %s", type->name);
    *out = message;
    return 0;
}

box_time box_client_calls_expire(box_channel *c, box_time now)
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
        box_client_call_fail(call, &late);
    }
    return first;
}
