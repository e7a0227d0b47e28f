#include "rpc/call_h2_impl.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/limits.h"

typedef struct call_h2 {
    box_call base; /* first */
    box_list link; /* in connection->calls while the stream lives */
    box_rpc_connection *connection;
    box_h2_stream *stream; /* NULL once closed */
    box_timer *deadline;
    bool headers_set;
    bool whole;          /* the request came to its end */
    box_time started_at; /* at the start of the loop's turn */
} call_h2;

/* --- the call's side -------------------------------------------------------------------------- */

static call_h2 *of_call(box_call *call)
{
    return BOX_CONTAINER(call, call_h2, base);
}

static void note_output(const call_h2 *c)
{
    c->connection->has_output(c->connection->has_output_arg);
}

static void set_headers(call_h2 *c)
{
    if (c->headers_set)
        return;
    c->headers_set = true;
    if (c->base.headers.count > 0)
        box_h2_set_headers(c->stream, &c->base.headers);
}

static void op_send(box_call *call, const uint8_t *message, size_t len)
{
    call_h2 *c = of_call(call);
    if (c->stream == NULL)
        return;
    set_headers(c);
    box_h2_message(c->stream, message, len);
    note_output(c);
}

static void stop_deadline(call_h2 *c)
{
    box_timer_free(box_take(c->deadline));
}

/* Whoever keeps errors hears of it. */
static void tell_failed(const call_h2 *c, const box_error *why)
{
    const box_admit *a = &c->connection->rpc->admit;
    if (a->failed != NULL && c->base.identity != NULL && why != NULL)
        a->failed(a->arg, c->base.identity, c->base.method->path, c->base.session_id,
                  &c->base.metadata, why);
}

static void count(const call_h2 *c, const box_error *err)
{
    box_call_counts_add(c->connection->rpc->counts, c->base.method, err);
}

static void op_finish(box_call *call, const box_error *err)
{
    call_h2 *c = of_call(call);
    if (c->stream == NULL)
        return;
    set_headers(c);
    note_output(c);
    tell_failed(c, err);
    count(c, err);
    c->connection->quick = c->connection->delivering;
    box_h2_finish(c->stream, err, &call->trailers);
}

static bool op_is_writable(const box_call *call)
{
    const call_h2 *c = (const call_h2 *)call;
    return c->stream != NULL && box_h2_is_writable(c->stream);
}

static void op_pause(box_call *call, bool paused)
{
    call_h2 *c = of_call(call);
    if (c->stream == NULL)
        return;
    box_h2_pause(c->stream, paused);
    if (!paused)
        note_output(c); /* the window that opens */
}

static void op_set_compress(box_call *call, box_compress_mode mode)
{
    const call_h2 *c = of_call(call);
    if (c->stream != NULL)
        box_h2_set_compress(c->stream, mode);
}

static void connection_free_when_unused(box_rpc_connection *n)
{
    if (n->h2 == NULL && n->n_calls == 0)
        free(n);
}

static void op_destroy(box_call *call)
{
    call_h2 *c = of_call(call);
    assert(c->stream == NULL);
    box_rpc_connection *n = c->connection;
    if (call->identity != NULL && n->rpc->admit.release != NULL)
        n->rpc->admit.release(n->rpc->admit.arg, call->identity);
    free(c);
    n->n_calls--;
    connection_free_when_unused(n);
}

static const box_call_ops call_ops = {
    .send = op_send,
    .finish = op_finish,
    .is_writable = op_is_writable,
    .pause = op_pause,
    .set_compress = op_set_compress,
    .destroy = op_destroy,
};

/* The stream and the call part. What remains is the transport's reference. */
static void detach(call_h2 *c)
{
    stop_deadline(c);
    box_h2_stream_set_owner(c->stream, NULL);
    c->stream = NULL;
    box_list_remove(&c->link);
    if (box_list_empty(&c->connection->calls))
        c->connection->idle_since = box_loop_now(c->connection->loop);
    atomic_fetch_sub(&c->connection->rpc->calls_open, 1);
}

/* Over before the handler said so: the peer gets `why` as the status, or, when it has stopped
 * reading so that no status could reach it, a reset (grpc-conformance.md, 82). */
static void end_call(call_h2 *c, const box_error *why)
{
    box_h2_stream *stream = c->stream;
    if (c->base.finished)
        return; /* the answer is on its way */
    set_headers(c);
    note_output(c);
    tell_failed(c, why);
    count(c, why);
    bool reads = box_h2_is_writable(stream);
    detach(c);
    if (reads)
        box_h2_finish(stream, why, &c->base.trailers);
    else
        box_h2_cancel(stream, why);
    box_call_deliver_end(&c->base, why);
}

static void on_deadline(void *arg)
{
    call_h2 *c = arg;
    box_error why = {0};
    (void)box_fail(&why, BOX_DEADLINE, "the call's deadline passed");
    if (!c->base.finished) {
        end_call(c, &why);
        return;
    }
    note_output(c);
    box_h2_cancel(c->stream, &why); /* its answer waits for a window that did not open in time */
}

/* --- the stream's side ------------------------------------------------------------------------ */

static void refuse(box_rpc_connection *n, box_h2_stream *s, const box_error *err)
{
    box_h2_finish(s, err, NULL);
    n->has_output(n->has_output_arg);
}

static void start_deadline(call_h2 *c)
{
    if (c->base.deadline == 0)
        return;
    c->deadline = box_timer_new(c->connection->loop, on_deadline, c);
    box_timer_set(c->deadline, c->base.deadline);
}

static void on_request(void *owner, box_h2_stream *s, const box_h2_request *request)
{
    box_rpc_connection *n = owner;
    const box_service *service = NULL;
    const box_method *method = NULL;
    const void *identity = NULL;
    box_error err = {0};
    if (box_rpc_admit_request(n, request, &service, &method, &identity, &err) < 0) {
        box_call_counts_add(n->rpc->counts, method, &err);
        refuse(n, s, &err);
        return;
    }
    box_time deadline = request->timeout_ns == 0 ? 0 : box_time_add(box_now(), request->timeout_ns);
    n->known |= identity != NULL;
    call_h2 *c = box_alloc(sizeof *c);
    c->connection = n;
    c->stream = s;
    c->started_at = box_loop_now(n->loop);
    box_call_init(&c->base, &call_ops, service, method, identity, request->metadata, deadline);
    box_h2_stream_set_owner(s, c);
    box_list_append(&n->calls, &c->link);
    n->n_calls++;
    atomic_fetch_add(&n->rpc->calls_open, 1);
    atomic_fetch_add(&n->rpc->calls_total, 1);
    start_deadline(c);
    box_call_deliver_start(&c->base);
}

static void on_message(void *owner, box_h2_stream *s, const uint8_t *data, size_t len)
{
    (void)owner;
    call_h2 *c = box_h2_stream_owner(s);
    if (c == NULL)
        return;
    c->base.was_compressed = box_h2_was_compressed(s);
    box_call_deliver_message(&c->base, data, len);
}

static void on_half_close(void *owner, box_h2_stream *s)
{
    box_rpc_connection *n = owner;
    call_h2 *c = box_h2_stream_owner(s);
    if (c == NULL)
        return;
    c->whole = true;
    n->delivering = true;
    box_call_deliver_half_close(&c->base);
    n->delivering = false;
}

static void on_writable(void *owner, box_h2_stream *s)
{
    (void)owner;
    call_h2 *c = box_h2_stream_owner(s);
    if (c != NULL)
        box_call_deliver_writable(&c->base);
}

static void on_closed(void *owner, box_h2_stream *s, const box_error *why,
                      const box_metadata *trailers)
{
    (void)owner;
    (void)trailers;
    call_h2 *c = box_h2_stream_owner(s);
    if (c == NULL)
        return; /* refused, or ended by us */
    if (!c->base.finished)
        count(c, why);
    detach(c);
    box_call_deliver_end(&c->base, why); /* the reason counts only if the handler gave none */
}

static const box_h2_events h2_events = {
    .request = on_request,
    .page = box_rpc_answer_page,
    .message = on_message,
    .half_close = on_half_close,
    .writable = on_writable,
    .closed = on_closed,
};

/* --- the connection --------------------------------------------------------------------------- */

box_rpc_connection *box_rpc_connection_new(box_rpc *rpc, box_loop *loop, const box_peer *peer,
                                           void (*has_output)(void *arg), void *arg)
{
    box_rpc_connection *n = box_alloc(sizeof *n);
    n->rpc = rpc;
    n->loop = loop;
    n->peer = peer;
    n->has_output = has_output;
    n->has_output_arg = arg;
    n->max_calls = rpc->max_calls != 0 ? rpc->max_calls : BOX_MAX_STREAMS_PER_CONNECTION;
    n->idle_since = box_loop_now(loop);
    box_list_init(&n->calls);
    const box_h2_config config = {
        .server = true,
        .max_message_bytes = rpc->max_message_bytes,
        .max_streams = n->max_calls,
        .budget = rpc->budget,
        .test_page = rpc->test_page,
        .ping_min_interval_ns = rpc->ping_min_interval_ns,
        .permit_ping_without_calls = rpc->permit_ping_without_calls,
    };
    n->h2 = box_h2_new(&config, &h2_events, n);
    return n;
}

box_h2 *box_rpc_connection_h2(const box_rpc_connection *c)
{
    return c->h2;
}

bool box_rpc_connection_is_known(const box_rpc_connection *n)
{
    return n->known || n->rpc->admit.admit == NULL;
}

bool box_rpc_connection_has_calls(const box_rpc_connection *n)
{
    return !box_list_empty(&n->calls);
}

bool box_rpc_connection_is_quick(const box_rpc_connection *n)
{
    return n->quick && atomic_load(&n->rpc->calls_open) == 0;
}

box_time box_rpc_connection_idle_since(const box_rpc_connection *n)
{
    return box_list_empty(&n->calls) ? n->idle_since : BOX_TIME_NEVER;
}

/* A request that must be whole before its handler runs is also bounded as a whole. */
static bool is_stuck(const call_h2 *c, box_time now)
{
    if (c->base.finished || c->whole)
        return false;
    box_method_kind kind = c->base.method->kind;
    bool waits = kind == BOX_UNARY || kind == BOX_SERVER_STREAM;
    if (waits && now >= c->started_at + BOX_REQUEST_SECONDS * BOX_SECOND)
        return true;
    box_time since = waits ? box_h2_heard_at(c->stream) : box_h2_owed_since(c->stream);
    return since != 0 && now >= since + BOX_REQUEST_PAUSE_SECONDS * BOX_SECOND;
}

bool box_rpc_connection_sweep(box_rpc_connection *n, box_time now)
{
    box_error why = {0};
    box_list *at = n->calls.next;
    while (at != &n->calls) {
        call_h2 *c = BOX_CONTAINER(at, call_h2, link);
        at = at->next;
        if (!is_stuck(c, now))
            continue;
        (void)box_fail(&why, BOX_DEADLINE, "the request did not come to its end in time");
        end_call(c, &why);
        at = n->calls.next; /* its handler may have ended others */
    }
    box_h2_set_time(n->h2, now);
    box_h2_sweep(n->h2);
    n->has_output(n->has_output_arg);
    box_time header = box_h2_header_since(n->h2);
    return header == 0 || now < header + BOX_HEADER_SECONDS * BOX_SECOND;
}

void box_rpc_connection_end_calls(box_rpc_connection *n, const box_error *why)
{
    /* A handler that is told may end other calls, so always start again from the front; those that
     * have answered already stay where they are. */
    box_list *at = n->calls.next;
    while (at != &n->calls) {
        call_h2 *c = BOX_CONTAINER(at, call_h2, link);
        if (c->base.finished) {
            at = at->next;
            continue;
        }
        end_call(c, why);
        at = n->calls.next;
    }
}

void box_rpc_connection_recheck(box_rpc_connection *n)
{
    const box_admit *admit = &n->rpc->admit;
    box_error why;
    box_list *at = n->calls.next;
    while (admit->check != NULL && at != &n->calls) {
        call_h2 *c = BOX_CONTAINER(at, call_h2, link);
        if (c->base.finished || admit->check(admit->arg, c->base.identity, &why) == 0) {
            at = at->next;
            continue;
        }
        end_call(c, &why);
        at = n->calls.next; /* its handler may have ended others */
    }
}

void box_rpc_connection_end(box_rpc_connection *n)
{
    if (n == NULL)
        return;
    box_h2_free(n->h2); /* closed events for what is open */
    assert(box_list_empty(&n->calls));
    n->h2 = NULL;
    n->peer = NULL;
    if (n->tenant != NULL)
        box_tally_remove(n->rpc->tenants, n->tenant, strlen(n->tenant));
    free(box_take(n->tenant));
    connection_free_when_unused(n);
}
