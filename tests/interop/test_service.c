#include "test_service.h"

#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "loop/loop.h"
#include "testing.box.h"

typedef Boxtest__V1__ResponseParameters parameters;

/* Answers of one stream that wait, and the largest one. */
enum { MAX_QUEUE = 1024, MAX_ANSWER_BYTES = 64 * 1024 * 1024 };

typedef struct planned {
    size_t bytes;
    box_compress_mode compress;
    box_time wait_ns;
} planned;

/* A call that answers more than once, or later. */
typedef struct test_state {
    test_service *service;
    box_call *call;
    box_timer *timer;
    bool waits;       /* for the timer */
    bool half_closed; /* ends when the queue is empty */
    bool held;        /* HalfDuplexCall: until the half-close */
    int64_t received_bytes;
    size_t first, n_planned;
    planned queue[MAX_QUEUE];
} test_state;

static void on_end(box_call *call, void *arg, const box_error *why)
{
    (void)call;
    (void)why;
    test_state *s = arg;
    box_timer_free(s->timer);
    free(s);
}

static test_state *state_new(box_call *call)
{
    test_state *s = box_alloc(sizeof *s);
    s->service = box_call_context(call);
    s->call = call;
    box_call_set_state(call, s);
    box_call_on_end(call, on_end, s);
    return s;
}

/* x-grpc-test-echo-initial and x-test-initial come back in the headers,
 * x-grpc-test-echo-trailing-bin and x-test-trailing-bin in the trailers. */
static int echo_metadata(box_call *call, box_error *err)
{
    static const struct {
        const char *key;
        bool is_trailer;
    } rows[] = {{"x-grpc-test-echo-initial", false},
                {"x-test-initial", false},
                {"x-grpc-test-echo-trailing-bin", true},
                {"x-test-trailing-bin", true}};
    const box_metadata *md = box_call_metadata(call);
    for (size_t i = 0; i < md->count; i++) {
        const box_metadata_entry *e = &md->entries[i];
        for (size_t r = 0; r < BOX_COUNT(rows); r++) {
            box_metadata *to = rows[r].is_trailer ? &call->trailers : &call->headers;
            if (strcmp(e->key, rows[r].key) == 0 &&
                box_metadata_add(to, e->key, e->value, e->value_len, err) < 0)
                return -1;
        }
    }
    return 0;
}

/* -1 when the call is to end so. */
static int check_status(const Boxtest__V1__EchoStatus *status, box_error *err)
{
    if (status == NULL || status->code == 0)
        return 0;
    *err = (box_error){.reason = BOX_UNKNOWN};
    box_error_set_text(err, status->message);
    err->code = (uint16_t)status->code;
    return -1;
}

static int check_size(int64_t bytes, box_error *err)
{
    if (bytes >= 0 && bytes <= MAX_ANSWER_BYTES)
        return 0;
    return box_fail(err, BOX_VALIDATION, "an answer has 0 to %d bytes", MAX_ANSWER_BYTES);
}

static box_compress_mode mode_of(const Boxtest__V1__BoolValue *compressed)
{
    if (compressed == NULL)
        return BOX_COMPRESS_AUTO;
    return compressed->value ? BOX_COMPRESS_ALWAYS : BOX_COMPRESS_NEVER;
}

static int check_compressed(const box_call *call, const Boxtest__V1__BoolValue *expected,
                            box_error *err)
{
    if (expected == NULL || (bool)expected->value == box_call_was_compressed(call))
        return 0;
    return box_fail(err, BOX_VALIDATION, "the request was%s compressed",
                    expected->value ? " not" : "");
}

/* --- unary ------------------------------------------------------------------------------------ */

static int empty_call(box_call *call, const Boxtest__V1__Empty *request, box_error *err)
{
    (void)request;
    if (echo_metadata(call, err) < 0)
        return -1;
    Boxtest__V1__Empty response = BOXTEST__V1__EMPTY__INIT;
    boxtest_v1_test_service_empty_call_answer(call, &response);
    return 0;
}

static int nothing(box_call *call, const Boxtest__V1__Empty *request, box_error *err)
{
    (void)request;
    (void)err;
    Boxtest__V1__Empty response = BOXTEST__V1__EMPTY__INIT;
    boxtest_v1_test_service_nothing_answer(call, &response);
    return 0;
}

static int unary_call(box_call *call, const Boxtest__V1__SimpleRequest *request, box_error *err)
{
    if (echo_metadata(call, err) < 0 || check_status(request->response_status, err) < 0 ||
        check_size(request->response_size, err) < 0 ||
        check_compressed(call, request->expect_compressed, err) < 0)
        return -1;
    box_call_set_compress(call, mode_of(request->response_compressed));
    size_t len = (size_t)request->response_size;
    BOX_AUTO(box_freep) uint8_t *body = box_alloc(len + 1);
    Boxtest__V1__Payload payload = BOXTEST__V1__PAYLOAD__INIT;
    payload.body = (ProtobufCBinaryData){len, body};
    Boxtest__V1__SimpleResponse response = BOXTEST__V1__SIMPLE_RESPONSE__INIT;
    response.payload = &payload;
    boxtest_v1_test_service_unary_call_answer(call, &response);
    return 0;
}

static void on_sleep_end(box_call *call, void *arg, const box_error *why)
{
    test_state *s = arg;
    s->service->ended(s->service->ended_arg, why->reason);
    on_end(call, arg, why);
}

static void on_awake(void *arg)
{
    const test_state *s = arg;
    Boxtest__V1__Empty response = BOXTEST__V1__EMPTY__INIT;
    boxtest_v1_test_service_sleep_answer(s->call, &response);
}

static int sleep_call(box_call *call, const Boxtest__V1__SleepRequest *request, box_error *err)
{
    (void)err;
    test_state *s = box_alloc(sizeof *s);
    s->service = box_call_context(call);
    s->call = call;
    s->timer = box_timer_new(box_loop_current(), on_awake, s);
    box_timer_set(s->timer, box_now() + request->sleep_ms * BOX_MS);
    box_call_on_end(call, on_sleep_end, s);
    return 0;
}

static int set_health(box_call *call, const Boxtest__V1__SetHealthRequest *request, box_error *err)
{
    (void)err;
    const test_service *t = box_call_context(call);
    box_health_set(t->health, request->service, (box_health_status)request->status);
    Boxtest__V1__Empty response = BOXTEST__V1__EMPTY__INIT;
    boxtest_v1_test_service_set_health_answer(call, &response);
    return 0;
}

/* --- answers in a stream ---------------------------------------------------------------------- */

static void send_one(const test_state *s, const planned *p)
{
    BOX_AUTO(box_freep) uint8_t *body = box_alloc(p->bytes + 1);
    Boxtest__V1__Payload payload = BOXTEST__V1__PAYLOAD__INIT;
    payload.body = (ProtobufCBinaryData){p->bytes, body};
    Boxtest__V1__StreamingOutputCallResponse response =
        BOXTEST__V1__STREAMING_OUTPUT_CALL_RESPONSE__INIT;
    response.payload = &payload;
    box_call_set_compress(s->call, p->compress);
    boxtest_v1_test_service_streaming_output_call_reply(s->call, &response);
}

static void go_on(test_state *s);

static void on_time(void *arg)
{
    test_state *s = arg;
    s->waits = false;
    go_on(s);
}

static void wait_for(test_state *s, planned *p)
{
    if (s->timer == NULL)
        s->timer = box_timer_new(box_loop_current(), on_time, s);
    box_timer_set(s->timer, box_now() + p->wait_ns);
    p->wait_ns = 0;
    s->waits = true;
}

/* As many answers as the caller reads; may end the call, which frees s. */
static void go_on(test_state *s)
{
    while (s->first < s->n_planned && !s->waits && !s->held && box_call_is_writable(s->call)) {
        planned *p = &s->queue[s->first];
        if (p->wait_ns > 0) {
            wait_for(s, p);
            return;
        }
        s->first++;
        send_one(s, p);
    }
    if (s->first < s->n_planned)
        return;
    s->first = s->n_planned = 0;
    if (s->half_closed)
        box_call_finish(s->call, NULL);
}

static void on_writable(box_call *call, void *arg)
{
    (void)call;
    go_on(arg);
}

static int plan(test_state *s, const Boxtest__V1__StreamingOutputCallRequest *request,
                box_error *err)
{
    if (check_status(request->response_status, err) < 0)
        return -1;
    for (size_t i = 0; i < request->n_response_parameters; i++) {
        const parameters *p = request->response_parameters[i];
        if (check_size(p->size, err) < 0)
            return -1;
        if (s->n_planned == MAX_QUEUE)
            return box_error_limit(err, "answers", MAX_QUEUE, MAX_QUEUE);
        box_time wait_ns = p->interval_us > 0 ? (box_time)p->interval_us * BOX_US : 0;
        planned *next = &s->queue[s->n_planned++];
        *next = (planned){
            .bytes = (size_t)p->size, .compress = mode_of(p->compressed), .wait_ns = wait_ns};
        box_call_set_compress(s->call, next->compress); /* the headers have to name it */
    }
    return 0;
}

static int streaming_output_call(box_call *call,
                                 const Boxtest__V1__StreamingOutputCallRequest *request,
                                 box_error *err)
{
    test_state *s = state_new(call);
    if (echo_metadata(call, err) < 0 || plan(s, request, err) < 0)
        return -1;
    s->half_closed = true;
    box_call_on_writable(call, on_writable, s);
    go_on(s);
    return 0;
}

static int full_duplex_call(box_call *call, box_error *err)
{
    box_call_on_writable(call, on_writable, state_new(call));
    return echo_metadata(call, err);
}

static int half_duplex_call(box_call *call, box_error *err)
{
    test_state *s = state_new(call);
    s->held = true;
    box_call_on_writable(call, on_writable, s);
    return echo_metadata(call, err);
}

static int duplex_message(box_call *call, const Boxtest__V1__StreamingOutputCallRequest *message,
                          box_error *err)
{
    test_state *s = box_call_state(call);
    if (plan(s, message, err) < 0)
        return -1;
    go_on(s);
    return 0;
}

static int duplex_half_close(box_call *call, box_error *err)
{
    (void)err;
    test_state *s = box_call_state(call);
    s->half_closed = true;
    s->held = false;
    go_on(s);
    return 0;
}

/* --- StreamingInputCall ----------------------------------------------------------------------- */

static int streaming_input_call(box_call *call, box_error *err)
{
    (void)state_new(call);
    return echo_metadata(call, err);
}

static int streaming_input_message(box_call *call,
                                   const Boxtest__V1__StreamingInputCallRequest *message,
                                   box_error *err)
{
    if (check_compressed(call, message->expect_compressed, err) < 0)
        return -1;
    test_state *s = box_call_state(call);
    s->received_bytes += message->payload != NULL ? (int64_t)message->payload->body.len : 0;
    return 0;
}

static int streaming_input_half_close(box_call *call, box_error *err)
{
    (void)err;
    const test_state *s = box_call_state(call);
    Boxtest__V1__StreamingInputCallResponse response =
        BOXTEST__V1__STREAMING_INPUT_CALL_RESPONSE__INIT;
    response.aggregated_payload_size = (int32_t)s->received_bytes;
    boxtest_v1_test_service_streaming_input_call_answer(call, &response);
    return 0;
}

/* UnimplementedCall stays NULL. */
static const boxtest_v1_test_service_handlers handlers = {
    .empty_call = empty_call,
    .unary_call = unary_call,
    .streaming_output_call = streaming_output_call,
    .streaming_input_call = streaming_input_call,
    .streaming_input_call_message = streaming_input_message,
    .streaming_input_call_half_close = streaming_input_half_close,
    .full_duplex_call = full_duplex_call,
    .full_duplex_call_message = duplex_message,
    .full_duplex_call_half_close = duplex_half_close,
    .half_duplex_call = half_duplex_call,
    .half_duplex_call_message = duplex_message,
    .half_duplex_call_half_close = duplex_half_close,
    .nothing = nothing,
    .sleep = sleep_call,
    .set_health = set_health,
};

box_service test_service_of(test_service *t)
{
    return (box_service){.type = &boxtest_v1_test_service, .handlers = &handlers, .context = t};
}
