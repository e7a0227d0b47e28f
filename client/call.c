#include "internal.h"

#include <assert.h>

#include "base/alloc.h"

enum { MAX_TOKEN_BYTES = 4096 };

/* --- life --------------------------------------------------------------------------------------
 */

void box_client_call_unref(box_client_call *call)
{
    if (--call->refs > 0)
        return;
    box_client_call_drop_messages(call);
    box_attempt_commit(call);
    box_metadata_done(&call->headers);
    box_metadata_done(&call->trailers);
    free(call);
}

static int add_token(const char *token, box_metadata *out, box_error *err)
{
    char value[MAX_TOKEN_BYTES + 16];
    int n = snprintf(value, sizeof value, "Bearer %s", token);
    if (n < 0 || (size_t)n >= sizeof value)
        return box_fail(err, BOX_VALIDATION, "the token is longer than %d bytes", MAX_TOKEN_BYTES);
    return box_metadata_add_text(out, "authorization", value, err);
}

static int add_metadata(const box_metadata *from, box_metadata *out, box_error *err)
{
    for (size_t i = 0; from != NULL && i < from->count; i++) {
        const box_metadata_entry *e = &from->entries[i];
        if (box_metadata_add(out, e->key, e->value, e->value_len, err) < 0)
            return -1;
    }
    return 0;
}

static int call_metadata(const box_channel *c, const box_client_options *o, box_metadata *out,
                         box_error *err)
{
    const char *token = o->token != NULL ? o->token : c->token;
    if (token != NULL && add_token(token, out, err) < 0)
        return -1;
    if (add_metadata(o->metadata, out, err) < 0)
        return -1;
    if (!c->may_send_tokens && box_metadata_get(out, "authorization") != NULL)
        return box_fail(err, BOX_VALIDATION, "a token is not sent to %s without TLS",
                        c->target.host);
    return 0;
}

/* Codes that mean something to the program are not for the library's own troubles
 * (grpc-conformance.md, 40). */
static int add_credentials(const box_channel *c, const box_client_options *o, const char *path,
                           box_metadata *out, box_error *err)
{
    if (o->credentials == NULL)
        return 0;
    if (!c->is_private)
        return box_fail(err, BOX_UNAUTHENTICATED, "credentials are not sent to %s without TLS",
                        c->target.host);
    if (o->credentials(o->credentials_arg, path, out, err) == 0)
        return 0;
    box_code code = box_error_code(err);
    if (code == BOX_CODE_UNAUTHENTICATED || code == BOX_CODE_UNAVAILABLE)
        return -1;
    err->reason = BOX_UNAUTHENTICATED;
    err->code = 0;
    return -1;
}

/* Lock held. */
static int open_call(box_client_call *call, box_error *err)
{
    box_channel *c = call->channel;
    if (c->closed)
        return box_fail(err, BOX_CANCELLED, "the channel was closed");
    if (c->carrier->start(call, err) < 0)
        return -1;
    c->refs++;
    box_list_append(&c->calls, &call->link);
    if (call->deadline != 0)
        box_channel_note_expiry(c, call->deadline);
    return 0;
}

static int pack(const box_channel *c, const ProtobufCMessage *message, box_outgoing **out,
                box_error *err)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    if (len > c->max_send_bytes) {
        (void)box_fail(err, BOX_MESSAGE_SIZE,
                       "a message of %zu bytes is larger than the limit of %zu", len,
                       c->max_send_bytes);
        box_error_add_int(err, "max", (int64_t)c->max_send_bytes);
        box_error_add_int(err, "size", (int64_t)len);
        return -1;
    }
    *out = box_alloc(sizeof **out + len);
    (*out)->len = len;
    (void)protobuf_c_message_pack(message, (*out)->data);
    return 0;
}

/* The sooner of both, absolute; 0 = none. */
static box_time deadline_of(const box_client_options *o)
{
    box_time timeout = o->timeout_ns != 0 ? box_time_add(box_now(), o->timeout_ns) : 0;
    if (timeout == 0 || (o->deadline_ns != 0 && o->deadline_ns < timeout))
        return o->deadline_ns;
    return timeout;
}

static box_client_call *call_new(box_channel *c, const box_client_start_args *a,
                                 const box_client_options *o, box_metadata *metadata)
{
    box_client_call *call = box_alloc(sizeof *call);
    *call = (box_client_call){.channel = c,
                              .method = a->method,
                              .refs = 1,
                              .deadline = deadline_of(o),
                              .metadata = *metadata,
                              .max_message_bytes = o->max_message_bytes != 0 ? o->max_message_bytes
                                                                             : c->max_message_bytes,
                              .encoding = o->encoding,
                              .wait_for_ready = o->wait_for_ready,
                              .idempotent = o->idempotent,
                              .events = a->events,
                              .typed = a->typed,
                              .arg = a->arg};
    *metadata = (box_metadata){0};
    call->last = &call->first;
    call->sent_end = &call->sent;
    return call;
}

static void send_request(box_client_call *call, box_outgoing **request)
{
    if (*request == NULL)
        return;
    call->half_closed = true;
    call->channel->carrier->send(call, box_take(*request));
    call->channel->carrier->half_close(call);
}

box_client_call *box_client_call_start(box_channel *c, const box_client_start_args *a,
                                       box_client_call **out, box_error *err)
{
    static const box_client_options none = {0};
    const box_client_options *o = a->options != NULL ? a->options : &none;
    BOX_AUTO(box_metadata_done)
    box_metadata metadata = {0};
    BOX_AUTO(box_freep)
    box_outgoing *request = NULL;
    if (o->encoding > BOX_DEFLATE) {
        (void)box_fail(err, BOX_VALIDATION, "encoding %d is not known", (int)o->encoding);
        return NULL;
    }
    if (call_metadata(c, o, &metadata, err) < 0 ||
        add_credentials(c, o, a->method->path, &metadata, err) < 0)
        return NULL;
    if (a->request != NULL && pack(c, a->request, &request, err) < 0)
        return NULL;
    box_client_call *call = call_new(c, a, o, &metadata);
    (void)pthread_mutex_lock(&c->lock);
    if (open_call(call, err) == 0) {
        if (out != NULL)
            *out = call; /* before any other thread can deliver its events */
        send_request(call, &request);
        c->carrier->flush(c);
    } else {
        box_client_call_unref(call);
        call = NULL;
    }
    box_channel_unlock(c);
    return call;
}

int box_client_start(box_channel *channel, const box_method *method,
                     const box_client_options *options, const ProtobufCMessage *request,
                     box_client_call **out, box_error *err)
{
    const box_client_start_args args = {.method = method, .options = options, .request = request};
    return box_client_call_start(channel, &args, out, err) != NULL ? 0 : -1;
}

void box_client_free(box_client_call *call)
{
    if (call == NULL)
        return;
    box_channel *c = call->channel;
    box_error why;
    (void)box_fail(&why, BOX_CANCELLED, "the call was dropped");
    (void)pthread_mutex_lock(&c->lock);
    call->freed = true;
    box_client_call_fail(call, &why);
    box_list_remove(&call->link);
    box_list_remove(&call->ready);
    box_client_call_unref(call);
    c->carrier->flush(c);
    box_channel_unref_unlock(c);
}

void box_client_cancel(box_client_call *call)
{
    box_channel *c = call->channel;
    box_error why;
    (void)box_fail(&why, BOX_CANCELLED, "the call was cancelled");
    (void)pthread_mutex_lock(&c->lock);
    box_client_call_fail(call, &why);
    c->carrier->flush(c);
    box_channel_unlock(c);
}

/* --- sending -----------------------------------------------------------------------------------
 */

static int over(const box_client_call *call, box_error *err)
{
    if (!call->done)
        return box_fail(err, BOX_VALIDATION, "the call was half-closed already");
    if (call->status.reason == BOX_NONE)
        return box_fail(err, BOX_CANCELLED, "the call has ended");
    *err = call->status;
    return -1;
}

static bool can_send(const box_client_call *call)
{
    return call->done || call->half_closed || call->channel->carrier->is_writable(call);
}

int box_client_send(box_client_call *call, const ProtobufCMessage *message, box_error *err)
{
    box_channel *c = call->channel;
    BOX_AUTO(box_freep)
    box_outgoing *m = NULL;
    if (pack(c, message, &m, err) < 0)
        return -1;
    (void)pthread_mutex_lock(&c->lock);
    if (call->events == NULL)
        box_channel_await(call, can_send);
    int rc = call->done || call->half_closed ? over(call, err) : 0;
    if (rc == 0) {
        m->compress = call->compress;
        c->carrier->send(call, box_take(m));
        c->carrier->flush(c);
    }
    box_channel_unlock(c);
    return rc;
}

void box_client_set_compress(box_client_call *call, box_compress_mode mode)
{
    (void)pthread_mutex_lock(&call->channel->lock);
    call->compress = mode;
    (void)pthread_mutex_unlock(&call->channel->lock);
}

bool box_client_was_compressed(const box_client_call *call)
{
    (void)pthread_mutex_lock(&call->channel->lock);
    bool was = call->was_compressed;
    (void)pthread_mutex_unlock(&call->channel->lock);
    return was;
}

int box_client_half_close(box_client_call *call, box_error *err)
{
    box_channel *c = call->channel;
    (void)pthread_mutex_lock(&c->lock);
    int rc = call->done || call->half_closed ? over(call, err) : 0;
    if (rc == 0) {
        call->half_closed = true;
        c->carrier->half_close(call);
        c->carrier->flush(c);
    }
    box_channel_unlock(c);
    return rc;
}

/* --- receiving ---------------------------------------------------------------------------------
 */

static bool can_receive(const box_client_call *call)
{
    return call->first != NULL || call->done;
}

/* The call's own status from now on says what was wrong with the message. */
static void refuse_message(box_client_call *call, const box_error *why)
{
    box_channel *c = call->channel;
    (void)pthread_mutex_lock(&c->lock);
    box_client_call_drop_messages(call);
    box_client_call_fail(call, why);
    call->status = *why;
    c->carrier->flush(c);
    box_channel_unlock(c);
}

int box_client_receive(box_client_call *call, ProtobufCMessage **out, box_error *err)
{
    box_channel *c = call->channel;
    assert(call->events == NULL); /* its messages go to its callbacks */
    (void)pthread_mutex_lock(&c->lock);
    box_channel_await(call, can_receive);
    box_received *m = box_client_call_pop(call);
    int rc = m != NULL ? 1 : call->status.reason == BOX_NONE ? 0 : -1;
    if (rc < 0)
        *err = call->status;
    c->carrier->flush(c);
    box_channel_unlock(c);
    if (m == NULL)
        return rc;
    if (box_client_call_unpack(call, m, out, err) < 0) {
        refuse_message(call, err);
        rc = -1;
    }
    free(m);
    return rc;
}

const box_metadata *box_client_headers(const box_client_call *call)
{
    box_channel *c = call->channel;
    (void)pthread_mutex_lock(&c->lock);
    const box_metadata *headers = call->has_headers ? &call->headers : NULL;
    box_channel_unlock(c);
    return headers;
}

const box_metadata *box_client_trailers(const box_client_call *call)
{
    box_channel *c = call->channel;
    (void)pthread_mutex_lock(&c->lock);
    const box_metadata *trailers = call->has_trailers ? &call->trailers : NULL;
    box_channel_unlock(c);
    return trailers;
}

/* The one answer and the status; an error beside an answer wins (grpc-conformance.md, 54). That
 * there is exactly one was seen to when it came (news.c). */
static int receive_one(box_client_call *call, ProtobufCMessage **out, box_error *err)
{
    ProtobufCMessage *first = NULL;
    ProtobufCMessage *none = NULL;
    int rc = box_client_receive(call, &first, err);
    if (rc == 0)
        return box_fail(err, BOX_VALIDATION, "the answer was taken already");
    if (rc < 0)
        return -1;
    rc = box_client_receive(call, &none, err);
    assert(rc <= 0);
    if (rc == 0)
        *out = first;
    else
        protobuf_c_message_free_unpacked(first, NULL);
    return rc;
}

/* Gives the call's to the caller. */
static void hand_over(box_metadata *from, box_metadata *to)
{
    if (to == NULL)
        return;
    *to = *from;
    *from = (box_metadata){0};
}

int box_client_unary(box_channel *channel, const box_method *method,
                     const box_client_options *options, const ProtobufCMessage *request,
                     ProtobufCMessage **response, box_error *err)
{
    const box_client_start_args args = {.method = method, .options = options, .request = request};
    box_metadata *headers = options != NULL ? options->headers : NULL;
    box_metadata *trailers = options != NULL ? options->trailers : NULL;
    hand_over(&(box_metadata){0}, headers);
    hand_over(&(box_metadata){0}, trailers);
    box_client_call *call = box_client_call_start(channel, &args, NULL, err);
    if (call == NULL)
        return -1;
    int rc = receive_one(call, response, err);
    hand_over(&call->headers, headers); /* the call is over: nobody else writes there */
    hand_over(&call->trailers, trailers);
    box_client_free(call);
    return rc;
}

int box_client_finish(box_client_call *call, ProtobufCMessage **response, box_error *err)
{
    box_error ended;
    BOX_IGNORE(box_client_half_close(call, &ended)); /* the status comes from receive */
    return receive_one(call, response, err);
}
