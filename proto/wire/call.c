#include "wire/call.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "wire/service.h"

/* Messages up to this size are packed on the stack. */
enum { SMALL_MESSAGE = 4096 };

static bool is_streaming_request(const box_call *call)
{
    return call->method->kind == BOX_CLIENT_STREAM || call->method->kind == BOX_BIDI;
}

void box_call_init(box_call *call, const box_call_ops *ops, const struct box_service *service,
                   const struct box_method *method, const void *identity, box_metadata *metadata,
                   box_time deadline)
{
    call->ops = ops;
    call->service = service;
    call->method = method;
    call->identity = identity;
    call->metadata = *metadata;
    *metadata = (box_metadata){0};
    call->headers = call->trailers = (box_metadata){0};
    call->deadline = deadline;
    call->refs = 1;
    call->started = call->finished = call->ended = call->was_compressed = false;
    call->why = BOX_NONE;
    call->session_id = NULL;
    call->state = NULL;
    call->arena = (box_arena){0};
    call->request = NULL;
    call->writable = NULL;
    call->end = NULL;
}

box_call *box_call_ref(box_call *call)
{
    call->refs++;
    return call;
}

static void drop_request(box_call *call)
{
    if (call->request == NULL)
        return;
    call->request = NULL;
    box_arena_done(&call->arena);
}

void box_call_unref(box_call *call)
{
    if (call == NULL)
        return;
    assert(call->refs > 0);
    if (--call->refs > 0)
        return;
    drop_request(call);
    box_metadata_done(&call->metadata);
    box_metadata_done(&call->headers);
    box_metadata_done(&call->trailers);
    free(call->session_id);
    call->ops->destroy(call);
}

void *box_call_context(const box_call *call)
{
    return call->service->context;
}

const void *box_call_identity(const box_call *call)
{
    return call->identity;
}

const box_metadata *box_call_metadata(const box_call *call)
{
    return &call->metadata;
}

box_time box_call_deadline(const box_call *call)
{
    return call->deadline;
}

bool box_call_is_open(const box_call *call)
{
    return !call->finished;
}

void box_call_set_state(box_call *call, void *state)
{
    call->state = state;
}

void *box_call_state(const box_call *call)
{
    return call->state;
}

/* --- answers ---------------------------------------------------------------------------------- */

void box_call_send(box_call *call, const ProtobufCMessage *message)
{
    if (call->finished)
        return;
    size_t len = protobuf_c_message_get_packed_size(message);
    if (len <= SMALL_MESSAGE) {
        uint8_t packed[SMALL_MESSAGE];
        protobuf_c_message_pack(message, packed);
        call->ops->send(call, packed, len);
        return;
    }
    BOX_AUTO(box_freep) uint8_t *packed = box_alloc(len);
    protobuf_c_message_pack(message, packed);
    call->ops->send(call, packed, len);
}

/* The one place where a call ends: on_end and the request's memory, once. */
static void end(box_call *call, const box_error *why)
{
    if (call->ended)
        return;
    call->finished = call->ended = true;
    call->why = why->reason;
    drop_request(call);
    if (call->end != NULL)
        call->end(call, call->end_arg, why);
}

void box_call_finish(box_call *call, const box_error *err)
{
    if (call->finished)
        return;
    call->finished = true;
    box_call_ref(call); /* the transport may let go of it in finish */
    call->ops->finish(call, err);
    end(call, &(box_error){0});
    box_call_unref(call);
}

int box_call_add_header(box_call *call, const char *key, const char *value, box_error *err)
{
    return box_metadata_add_text(&call->headers, key, value, err);
}

int box_call_add_trailer(box_call *call, const char *key, const char *value, box_error *err)
{
    return box_metadata_add_text(&call->trailers, key, value, err);
}

void box_call_set_compress(box_call *call, box_compress_mode mode)
{
    if (!call->finished && call->ops->set_compress != NULL)
        call->ops->set_compress(call, mode);
}

bool box_call_was_compressed(const box_call *call)
{
    return call->was_compressed;
}

bool box_call_is_writable(const box_call *call)
{
    return !call->finished && call->ops->is_writable(call);
}

void box_call_on_writable(box_call *call, void (*fn)(box_call *call, void *arg), void *arg)
{
    call->writable = fn;
    call->writable_arg = arg;
}

void box_call_pause(box_call *call)
{
    if (!call->finished)
        call->ops->pause(call, true);
}

void box_call_resume(box_call *call)
{
    if (!call->finished)
        call->ops->pause(call, false);
}

void box_call_on_end(box_call *call, void (*fn)(box_call *call, void *arg, const box_error *why),
                     void *arg)
{
    assert(call->end == NULL);
    call->end = fn;
    call->end_arg = arg;
    if (call->ended)
        fn(call, arg, &(box_error){.reason = call->why});
}

/* --- what the transport received -------------------------------------------------------------- */

/* Ends the call for what the request or its handler did; on_end hears the reason. */
static void fail(box_call *call, const box_error *why)
{
    if (call->finished)
        return;
    call->finished = true;
    call->ops->finish(call, why);
    end(call, why);
}

/* The answer to what a handler returned; one that gives no reason is UNKNOWN (grpc-conformance.md,
 * 78). */
static void check(box_call *call, int rc, box_error *err)
{
    if (rc == 0)
        return;
    if (rc == BOX_NOT_IMPLEMENTED)
        (void)box_fail(err, BOX_UNIMPLEMENTED, "%s is not implemented", call->method->path);
    else if (err->reason == BOX_NONE)
        (void)box_fail(err, BOX_UNKNOWN, "%s failed", call->method->name);
    fail(call, err);
}

static void start(box_call *call, const ProtobufCMessage *request)
{
    box_error err = {0};
    const void *handlers = call->service->handlers;
    call->started = true;
    int rc = handlers != NULL ? call->method->start(handlers, call, request, &err)
                              : BOX_NOT_IMPLEMENTED; /* a service that is declared only */
    check(call, rc, &err);
}

void box_call_deliver_start(box_call *call)
{
    if (call->finished || !is_streaming_request(call))
        return;
    box_call_ref(call);
    start(call, NULL);
    box_call_unref(call);
}

/* The field of that name when it is set and of that type, else NULL. */
static const void *field(const ProtobufCMessage *m, const char *name, ProtobufCType type)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field_by_name(m->descriptor, name);
    if (f == NULL || f->type != type || f->label == PROTOBUF_C_LABEL_REPEATED)
        return NULL;
    const char *base = (const char *)m;
    if ((f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0 &&
        *(const uint32_t *)(const void *)(base + f->quantifier_offset) != f->id)
        return NULL;
    return *(void *const *)(const void *)(base + f->offset);
}

/* Streams name it in their first message, `start`. */
static void note_session(box_call *call, const ProtobufCMessage *m)
{
    const ProtobufCMessage *start = field(m, "start", PROTOBUF_C_TYPE_MESSAGE);
    const char *id = field(start != NULL ? start : m, "session_id", PROTOBUF_C_TYPE_STRING);
    if (id != NULL && id[0] != '\0' && strlen(id) <= BOX_MAX_ID_BYTES)
        call->session_id = box_strdup(id);
}

static int unpack(box_call *call, box_arena *arena, const uint8_t *data, size_t len,
                  ProtobufCMessage **out, box_error *err)
{
    box_arena_init(arena, BOX_CALL_BUDGET_FACTOR * len + BOX_CALL_BUDGET_BYTES);
    if (box_message_unpack(call->method->request, data, len, arena, out, err) < 0)
        return -1;
    if (call->session_id == NULL)
        note_session(call, *out);
    return 0;
}

static void deliver_stream_message(box_call *call, const uint8_t *data, size_t len)
{
    box_arena arena = {0};
    ProtobufCMessage *message;
    box_error err = {0};
    if (unpack(call, &arena, data, len, &message, &err) < 0)
        fail(call, &err);
    else
        check(call, call->method->message(call->service->handlers, call, message, &err), &err);
    box_arena_done(&arena);
}

static void deliver_request(box_call *call, const uint8_t *data, size_t len)
{
    box_error err = {0};
    if (call->request != NULL || call->started)
        (void)box_fail(&err, BOX_UNIMPLEMENTED, "%s takes one request message, a second one came",
                       call->method->path);
    else if (unpack(call, &call->arena, data, len, &call->request, &err) == 0)
        return;
    else
        box_arena_done(&call->arena);
    fail(call, &err);
}

void box_call_deliver_message(box_call *call, const uint8_t *data, size_t len)
{
    if (call->finished)
        return;
    box_call_ref(call);
    if (is_streaming_request(call))
        deliver_stream_message(call, data, len);
    else
        deliver_request(call, data, len);
    box_call_unref(call);
}

/* The request outlives its handler only here: an end() inside the handler must not free it. */
static void run_unary(box_call *call)
{
    box_error err = {0};
    if (call->started)
        return;
    if (call->request == NULL) {
        (void)box_fail(&err, BOX_UNIMPLEMENTED, "%s takes one request message, none came",
                       call->method->path);
        fail(call, &err);
        return;
    }
    box_arena arena = call->arena;
    const ProtobufCMessage *request = call->request;
    call->request = NULL;
    call->arena = (box_arena){0};
    start(call, request);
    box_arena_done(&arena);
}

void box_call_deliver_half_close(box_call *call)
{
    if (call->finished)
        return;
    box_call_ref(call);
    box_error err = {0};
    if (is_streaming_request(call))
        check(call, call->method->half_close(call->service->handlers, call, &err), &err);
    else
        run_unary(call);
    box_call_unref(call);
}

void box_call_deliver_writable(box_call *call)
{
    if (call->finished || call->writable == NULL)
        return;
    box_call_ref(call);
    call->writable(call, call->writable_arg);
    box_call_unref(call);
}

void box_call_deliver_end(box_call *call, const box_error *why)
{
    end(call, why);
    box_call_unref(call);
}
