#include "echo_service.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "echo.box.h"

struct echo_service {
    const box_net *net;
    atomic_uint_fast64_t finished, cancelled, deadline_exceeded, otherwise;
};

/* One call's own. */
typedef struct echo_state {
    echo_service *service;
    box_call *call;
    box_timer *timer;
    uint8_t *payload;
    size_t payload_len;
    int64_t time_left_ms;
    uint64_t count, index;    /* Expand */
    uint64_t messages, bytes; /* Collect */
} echo_state;

void echo_service_count_end(void *service, box_reason reason)
{
    echo_service *e = service;
    atomic_uint_fast64_t *counter = reason == BOX_NONE        ? &e->finished
                                    : reason == BOX_CANCELLED ? &e->cancelled
                                    : reason == BOX_DEADLINE  ? &e->deadline_exceeded
                                                              : &e->otherwise;
    atomic_fetch_add(counter, 1);
}

static void on_end(box_call *call, void *arg, const box_error *why)
{
    (void)call;
    echo_state *s = arg;
    echo_service_count_end(s->service, why->reason);
    box_timer_free(s->timer);
    free(s->payload);
    free(s);
}

static echo_state *state_new(box_call *call)
{
    echo_state *s = box_alloc(sizeof *s);
    s->service = box_call_context(call);
    s->call = call;
    if (box_call_deadline(call) != 0)
        s->time_left_ms = (int64_t)(box_time_left(box_call_deadline(call), box_now()) / BOX_MS) + 1;
    box_call_set_state(call, s);
    box_call_on_end(call, on_end, s);
    return s;
}

/* As in gRPC's own interoperability tests: x-echo-initial comes back in the headers,
 * x-echo-trailing-bin in the trailers; and so does whatever starts like them. */
static int echo_metadata(box_call *call, box_error *err)
{
    const box_metadata *md = box_call_metadata(call);
    for (size_t i = 0; i < md->count; i++) {
        const box_metadata_entry *e = &md->entries[i];
        box_metadata *to = strncmp(e->key, "x-echo-initial", 14) == 0    ? &call->headers
                           : strncmp(e->key, "x-echo-trailing", 15) == 0 ? &call->trailers
                                                                         : NULL;
        if (to != NULL && box_metadata_add(to, e->key, e->value, e->value_len, err) < 0)
            return -1;
    }
    return 0;
}

static int fail_as_told(const Box__Test__V1__Failure *f, box_error *err)
{
    (void)box_fail(err, box_reason_from_name(f->reason), "%s", f->message);
    err->code = (uint16_t)f->code;
    err->retry_ms = f->retry_ms;
    for (size_t i = 0; i < f->n_metadata; i++)
        box_error_add(err, f->metadata[i]->key, f->metadata[i]->value);
    for (size_t i = 0; i < f->n_violations; i++)
        (void)box_violation(err, f->violations[i]->key, "%s", f->violations[i]->value);
    return -1;
}

/* --- Echo --------------------------------------------------------------------------------------
 */

static void echo_answer(void *arg)
{
    echo_state *s = arg;
    Box__Test__V1__EchoResponse response = BOX__TEST__V1__ECHO_RESPONSE__INIT;
    const char *identity = box_call_identity(s->call);
    response.payload = (ProtobufCBinaryData){s->payload_len, s->payload};
    response.time_left_ms = s->time_left_ms;
    if (identity != NULL)
        response.identity = (char *)(uintptr_t)identity; /* packing only reads it */
    box_test_v1_echo_service_echo_answer(s->call, &response);
}

static int echo(box_call *call, const Box__Test__V1__EchoRequest *request, box_error *err)
{
    echo_state *s = state_new(call);
    if (echo_metadata(call, err) < 0)
        return -1;
    if (request->failure != NULL)
        return fail_as_told(request->failure, err);
    if (request->fail_silently)
        return -1;
    s->payload_len = request->answer_bytes > 0 ? request->answer_bytes : request->payload.len;
    s->payload = box_alloc(s->payload_len + 1);
    if (request->answer_bytes == 0 && s->payload_len > 0)
        memcpy(s->payload, request->payload.data, s->payload_len);
    if (request->sleep_ms == 0) {
        echo_answer(s);
        return 0;
    }
    s->timer = box_timer_new(box_loop_current(), echo_answer, s);
    box_timer_set(s->timer, box_now() + request->sleep_ms * BOX_MS);
    return 0;
}

/* --- Expand ------------------------------------------------------------------------------------
 */

static void expand_more(box_call *call, void *arg)
{
    echo_state *s = arg;
    while (s->index < s->count && box_call_is_writable(call)) {
        Box__Test__V1__ExpandResponse response = BOX__TEST__V1__EXPAND_RESPONSE__INIT;
        response.index = s->index++;
        response.payload = (ProtobufCBinaryData){s->payload_len, s->payload};
        box_test_v1_echo_service_expand_reply(call, &response);
    }
    if (s->index == s->count && box_call_is_open(call))
        box_call_finish(call, NULL);
}

static int expand(box_call *call, const Box__Test__V1__ExpandRequest *request, box_error *err)
{
    echo_state *s = state_new(call);
    if (echo_metadata(call, err) < 0)
        return -1;
    s->count = request->count;
    s->payload_len = request->size;
    s->payload = box_alloc(s->payload_len + 1);
    if (request->failure != NULL) { /* after the messages, which fit the window then */
        for (; s->index < s->count; s->index++) {
            Box__Test__V1__ExpandResponse response = BOX__TEST__V1__EXPAND_RESPONSE__INIT;
            response.index = s->index;
            box_test_v1_echo_service_expand_reply(call, &response);
        }
        return fail_as_told(request->failure, err);
    }
    box_call_on_writable(call, expand_more, s);
    expand_more(call, s);
    return 0;
}

/* --- Collect -----------------------------------------------------------------------------------
 */

static int collect(box_call *call, box_error *err)
{
    (void)state_new(call);
    return echo_metadata(call, err);
}

static int collect_finish(box_call *call, box_error *err)
{
    (void)err;
    const echo_state *s = box_call_state(call);
    Box__Test__V1__CollectResponse response = BOX__TEST__V1__COLLECT_RESPONSE__INIT;
    response.messages = s->messages;
    response.bytes = s->bytes;
    box_test_v1_echo_service_collect_answer(call, &response);
    return 0;
}

static void collect_resume(void *arg)
{
    echo_state *s = arg;
    box_call_resume(s->call);
}

static int collect_message(box_call *call, const Box__Test__V1__CollectRequest *message,
                           box_error *err)
{
    echo_state *s = box_call_state(call);
    s->messages++;
    s->bytes += message->payload.len;
    if (message->finish)
        return collect_finish(call, err);
    if (message->pause_ms == 0)
        return 0;
    box_call_pause(call);
    if (s->timer == NULL)
        s->timer = box_timer_new(box_loop_current(), collect_resume, s);
    box_timer_set(s->timer, box_now() + message->pause_ms * BOX_MS);
    return 0;
}

/* --- Chat --------------------------------------------------------------------------------------
 */

static void chat_writable(box_call *call, void *arg)
{
    (void)arg;
    box_call_resume(call);
}

static int chat(box_call *call, box_error *err)
{
    echo_state *s = state_new(call);
    box_call_on_writable(call, chat_writable, s);
    return echo_metadata(call, err);
}

static int chat_message(box_call *call, const Box__Test__V1__ChatRequest *message, box_error *err)
{
    if (message->failure != NULL)
        return fail_as_told(message->failure, err);
    Box__Test__V1__ChatResponse response = BOX__TEST__V1__CHAT_RESPONSE__INIT;
    response.payload = message->payload;
    box_test_v1_echo_service_chat_reply(call, &response);
    if (message->finish)
        box_call_finish(call, NULL);
    else if (!box_call_is_writable(call))
        box_call_pause(call);
    return 0;
}

static int chat_half_close(box_call *call, box_error *err)
{
    (void)err;
    box_call_finish(call, NULL);
    return 0;
}

/* --- counters ----------------------------------------------------------------------------------
 */

static int get_counters(box_call *call, const Box__Test__V1__GetCountersRequest *request,
                        box_error *err)
{
    (void)request;
    (void)err;
    echo_service *e = box_call_context(call);
    box_net_stats stats;
    box_net_stats_get(e->net, &stats);
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage); /* cannot fail for RUSAGE_SELF */
    Box__Test__V1__GetCountersResponse response = BOX__TEST__V1__GET_COUNTERS_RESPONSE__INIT;
    response.finished = atomic_load(&e->finished);
    response.cancelled = atomic_load(&e->cancelled);
    response.deadline_exceeded = atomic_load(&e->deadline_exceeded);
    response.ended_otherwise = atomic_load(&e->otherwise);
    response.calls_open = stats.calls_open;
    response.connections_open = stats.connections_open;
    response.handshakes_queued = stats.handshakes_queued;
    response.handshakes_waiting = stats.handshakes_waiting;
    response.max_rss_kib = (uint64_t)usage.ru_maxrss;
    box_test_v1_echo_service_get_counters_answer(call, &response);
    return 0;
}

/* Missing stays NULL: UNIMPLEMENTED. */
static const box_test_v1_echo_service_handlers handlers = {
    .echo = echo,
    .expand = expand,
    .collect = collect,
    .collect_message = collect_message,
    .collect_half_close = collect_finish,
    .chat = chat,
    .chat_message = chat_message,
    .chat_half_close = chat_half_close,
    .get_counters = get_counters,
};

echo_service *echo_service_new(void)
{
    return box_alloc(sizeof(echo_service));
}

void echo_service_free(echo_service *e)
{
    free(e);
}

void echo_service_set_net(echo_service *e, const box_net *net)
{
    e->net = net;
}

box_service echo_service_of(echo_service *e)
{
    return (box_service){.type = &box_test_v1_echo_service, .handlers = &handlers, .context = e};
}
