/* The client over a channel in this process: all four kinds of call against small handlers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "box/inproc.h"
#include "echo.box.h"
#include "echo.client.h"

enum { PAYLOAD = 64 * 1024 };

/* --- the service ------------------------------------------------------------------------------ */

typedef struct service {
    int live;          /* states not freed yet */
    box_reason last;   /* why the last call ended */
    box_call *waiting; /* an Echo that answers later, a reference */
    int pumped;
    int answer_at;        /* the pump answers `waiting` in that round; 0 = never */
    bool pause_first;     /* Collect pauses at its first message */
    box_call *to_resume;  /* by the pump, borrowed */
    size_t while_paused;  /* messages that came although paused: none */
    size_t expand_unread; /* most messages Expand sent before it was not writable */
} service;

typedef struct call_state {
    service *service;
    uint64_t count, index, size, messages, bytes;
    bool paused;
} call_state;

static void on_end(box_call *call, void *arg, const box_error *why)
{
    call_state *s = arg;
    s->service->live--;
    s->service->last = why->reason;
    if (s->service->to_resume == call)
        s->service->to_resume = NULL;
    free(s);
}

static call_state *state_new(box_call *call)
{
    call_state *s = box_alloc(sizeof *s);
    s->service = box_call_context(call);
    s->service->live++;
    box_call_set_state(call, s);
    box_call_on_end(call, on_end, s);
    return s;
}

static void answer(box_call *call, const Box__Test__V1__EchoRequest *request)
{
    Box__Test__V1__EchoResponse response;
    box__test__v1__echo_response__init(&response);
    if (request != NULL)
        response.payload = request->payload;
    response.time_left_ms = box_call_deadline(call) != 0;
    box_test_v1_echo_service_echo_answer(call, &response);
}

static int echo(box_call *call, const Box__Test__V1__EchoRequest *request, box_error *err)
{
    call_state *s = state_new(call);
    const char *hello = box_metadata_get(box_call_metadata(call), "x-hello");
    if (hello != NULL && (box_call_add_header(call, "x-head", hello, err) < 0 ||
                          box_call_add_trailer(call, "x-tail", hello, err) < 0))
        return -1;
    if (request->failure != NULL) {
        (void)box_fail(err, BOX_SESSION_NOT_FOUND, "no session %s", "s1");
        box_error_add(err, "id", "s1");
        return -1;
    }
    if (request->sleep_ms != 0)
        s->service->waiting = box_call_ref(call);
    else
        answer(call, request);
    return 0;
}

static void expand_more(box_call *call, void *arg)
{
    call_state *s = arg;
    uint8_t payload[PAYLOAD] = {0};
    Box__Test__V1__ExpandResponse response;
    box__test__v1__expand_response__init(&response);
    response.payload = (ProtobufCBinaryData){s->size, payload};
    while (s->index < s->count && box_call_is_writable(call)) {
        response.index = s->index++;
        box_test_v1_echo_service_expand_reply(call, &response);
    }
    if (s->service->expand_unread == 0)
        s->service->expand_unread = s->index;
    if (s->index == s->count)
        box_call_finish(call, NULL);
}

static int expand(box_call *call, const Box__Test__V1__ExpandRequest *request, box_error *err)
{
    (void)err;
    call_state *s = state_new(call);
    s->count = request->count;
    s->size = request->size;
    box_call_on_writable(call, expand_more, s);
    expand_more(call, s);
    return 0;
}

static int collect(box_call *call, box_error *err)
{
    (void)err;
    (void)state_new(call);
    return 0;
}

static int collect_message(box_call *call, const Box__Test__V1__CollectRequest *message,
                           box_error *err)
{
    call_state *s = box_call_state(call);
    s->messages++;
    s->bytes += message->payload.len;
    s->service->while_paused += s->paused;
    if (message->finish)
        return box_fail(err, BOX_QUOTA, "enough");
    if (s->service->pause_first && s->messages == 1) {
        s->paused = true;
        s->service->to_resume = call;
        box_call_pause(call);
    }
    return 0;
}

static int collect_half_close(box_call *call, box_error *err)
{
    (void)err;
    const call_state *s = box_call_state(call);
    Box__Test__V1__CollectResponse response;
    box__test__v1__collect_response__init(&response);
    response.messages = s->messages;
    response.bytes = s->bytes;
    box_test_v1_echo_service_collect_answer(call, &response);
    return 0;
}

static int chat(box_call *call, box_error *err)
{
    (void)err;
    (void)state_new(call);
    return 0;
}

static int chat_message(box_call *call, const Box__Test__V1__ChatRequest *message, box_error *err)
{
    (void)err;
    Box__Test__V1__ChatResponse response;
    box__test__v1__chat_response__init(&response);
    response.payload = message->payload;
    box_test_v1_echo_service_chat_reply(call, &response);
    if (message->finish)
        box_call_finish(call, NULL);
    return 0;
}

static int chat_half_close(box_call *call, box_error *err)
{
    (void)err;
    box_call_finish(call, NULL);
    return 0;
}

static const box_test_v1_echo_service_handlers handlers = {
    .echo = echo,
    .expand = expand,
    .collect = collect,
    .collect_message = collect_message,
    .collect_half_close = collect_half_close,
    .chat = chat,
    .chat_message = chat_message,
    .chat_half_close = chat_half_close,
};

static void pump(void *arg)
{
    service *s = arg;
    s->pumped++;
    if (s->to_resume != NULL && s->pumped >= s->answer_at) {
        call_state *state = box_call_state(s->to_resume);
        state->paused = false;
        box_call_resume(box_take(s->to_resume));
    }
    if (s->waiting != NULL && s->answer_at > 0 && s->pumped >= s->answer_at) {
        box_call *call = box_take(s->waiting);
        answer(call, NULL);
        box_call_unref(call);
    }
}

/* --- fixture ---------------------------------------------------------------------------------- */

typedef struct fixture {
    service service;
    box_service offered;
    box_channel *channel;
    box_error err;
} fixture;

static fixture *fixture_new(bool has_pump)
{
    fixture *f = box_alloc(sizeof *f);
    f->offered = (box_service){&box_test_v1_echo_service, &handlers, &f->service};
    assert_int_equal(box_channel_inproc(&f->offered, 1, has_pump ? pump : NULL, &f->service,
                                        &f->channel, &f->err),
                     0);
    return f;
}

static int set_up(void **state)
{
    *state = fixture_new(false);
    return 0;
}

static int set_up_pump(void **state)
{
    *state = fixture_new(true);
    return 0;
}

/* Whatever a test did: no call of the service is left. */
static int tear_down(void **state)
{
    fixture *f = *state;
    box_channel_free(f->channel);
    box_call_unref(f->service.waiting);
    int live = f->service.live;
    free(f);
    return live == 0 ? 0 : -1;
}

static int echo_once(fixture *f, const box_client_options *o, uint32_t sleep_ms)
{
    Box__Test__V1__EchoRequest request;
    Box__Test__V1__EchoResponse *response = NULL;
    uint8_t text[] = "hello";
    box__test__v1__echo_request__init(&request);
    request.payload = (ProtobufCBinaryData){5, text};
    request.sleep_ms = sleep_ms;
    int rc = box_test_v1_echo_service_echo(f->channel, o, &request, &response, &f->err);
    if (rc == 0 && sleep_ms == 0) {
        assert_int_equal(response->payload.len, 5);
        assert_memory_equal(response->payload.data, text, 5);
        assert_int_equal(response->time_left_ms, o != NULL && o->timeout_ns != 0);
    }
    if (rc == 0)
        box__test__v1__echo_response__free_unpacked(response, NULL);
    return rc;
}

/* --- blocking --------------------------------------------------------------------------------- */

static void a_unary_call_gets_its_answer(void **state)
{
    fixture *f = *state;
    const box_client_options o = {.timeout_ns = 10 * BOX_SECOND};
    assert_int_equal(echo_once(f, NULL, 0), 0);
    assert_int_equal(echo_once(f, &o, 0), 0);
    assert_int_equal(f->service.live, 0);
    assert_int_equal(f->service.last, BOX_NONE);
}

static void an_error_keeps_reason_text_and_details(void **state)
{
    fixture *f = *state;
    Box__Test__V1__Failure failure;
    Box__Test__V1__EchoRequest request;
    Box__Test__V1__EchoResponse *response = NULL;
    box__test__v1__failure__init(&failure);
    box__test__v1__echo_request__init(&request);
    request.failure = &failure;
    assert_int_equal(box_test_v1_echo_service_echo(f->channel, NULL, &request, &response, &f->err),
                     -1);
    assert_null(response);
    assert_int_equal(f->err.reason, BOX_SESSION_NOT_FOUND);
    assert_string_equal(f->err.msg, "no session s1");
    assert_string_equal(box_error_get(&f->err, "id"), "s1");
    assert_int_equal(f->service.last, BOX_SESSION_NOT_FOUND);
}

static void headers_and_trailers_are_handed_over(void **state)
{
    fixture *f = *state;
    box_metadata sent = {0};
    box_metadata headers = {0};
    box_metadata trailers = {0};
    assert_int_equal(box_metadata_add_text(&sent, "x-hello", "you", &f->err), 0);
    const box_client_options o = {.metadata = &sent, .headers = &headers, .trailers = &trailers};
    assert_int_equal(echo_once(f, &o, 0), 0);
    assert_string_equal(box_metadata_get(&headers, "x-head"), "you");
    assert_string_equal(box_metadata_get(&trailers, "x-tail"), "you");
    box_metadata_done(&headers);
    box_metadata_done(&trailers);
    box_metadata_done(&sent);
}

static void metadata_that_cannot_be_sent_is_refused_at_once(void **state)
{
    fixture *f = *state;
    box_metadata_entry entry = {.key = (char[]){"grpc-status"}, .value = (uint8_t[]){"0"}, 1};
    const box_metadata reserved = {&entry, 1};
    const box_client_options o = {.metadata = &reserved};
    assert_int_equal(echo_once(f, &o, 0), -1);
    assert_int_equal(f->err.reason, BOX_VALIDATION);
    char many[5000] = "";
    memset(many, 'x', sizeof many - 1);
    const box_client_options long_token = {.token = many};
    assert_int_equal(echo_once(f, &long_token, 0), -1);
    assert_int_equal(f->err.reason, BOX_VALIDATION);
}

static box_client_call *start_expand(fixture *f, uint64_t count, uint32_t size)
{
    Box__Test__V1__ExpandRequest request;
    box_client_call *call = NULL;
    box__test__v1__expand_request__init(&request);
    request.count = count;
    request.size = size;
    assert_int_equal(box_test_v1_echo_service_expand(f->channel, NULL, &request, &call, &f->err),
                     0);
    return call;
}

static void a_server_stream_is_produced_as_it_is_read(void **state)
{
    fixture *f = *state;
    Box__Test__V1__ExpandResponse *m = NULL;
    box_client_call *call = start_expand(f, 100, PAYLOAD);
    assert_true(f->service.expand_unread < 10);
    for (uint64_t i = 0; i < 100; i++) {
        assert_int_equal(box_test_v1_echo_service_expand_receive(call, &m, &f->err), 1);
        assert_int_equal(m->index, i);
        box__test__v1__expand_response__free_unpacked(m, NULL);
    }
    assert_int_equal(box_test_v1_echo_service_expand_receive(call, &m, &f->err), 0);
    box_client_free(call);
}

static box_client_call *start_collect(fixture *f)
{
    box_client_call *call = NULL;
    assert_int_equal(box_test_v1_echo_service_collect(f->channel, NULL, &call, &f->err), 0);
    return call;
}

static int send_collect(fixture *f, box_client_call *call, size_t len, bool finish)
{
    uint8_t payload[PAYLOAD] = {0};
    Box__Test__V1__CollectRequest request;
    box__test__v1__collect_request__init(&request);
    request.payload = (ProtobufCBinaryData){len, payload};
    request.finish = finish;
    return box_test_v1_echo_service_collect_send(call, &request, &f->err);
}

static void a_client_stream_is_counted_and_answered(void **state)
{
    fixture *f = *state;
    Box__Test__V1__CollectResponse *response = NULL;
    box_client_call *call = start_collect(f);
    for (int i = 0; i < 10; i++)
        assert_int_equal(send_collect(f, call, 100, false), 0);
    assert_int_equal(box_test_v1_echo_service_collect_finish(call, &response, &f->err), 0);
    assert_int_equal(response->messages, 10);
    assert_int_equal(response->bytes, 1000);
    box__test__v1__collect_response__free_unpacked(response, NULL);
    assert_int_equal(box_test_v1_echo_service_collect_finish(call, &response, &f->err), -1);
    box_client_free(call);
}

static void a_client_stream_that_was_ended_says_why(void **state)
{
    fixture *f = *state;
    Box__Test__V1__CollectResponse *response = NULL;
    box_client_call *call = start_collect(f);
    assert_int_equal(send_collect(f, call, 1, true), 0);
    assert_int_equal(send_collect(f, call, 1, false), -1);
    assert_int_equal(f->err.reason, BOX_QUOTA);
    assert_int_equal(box_test_v1_echo_service_collect_finish(call, &response, &f->err), -1);
    assert_int_equal(f->err.reason, BOX_QUOTA);
    box_client_free(call);
}

static void a_chat_goes_back_and_forth(void **state)
{
    fixture *f = *state;
    Box__Test__V1__ChatRequest request;
    Box__Test__V1__ChatResponse *m = NULL;
    box_client_call *call = NULL;
    box__test__v1__chat_request__init(&request);
    assert_int_equal(box_test_v1_echo_service_chat(f->channel, NULL, &call, &f->err), 0);
    assert_null(box_client_headers(call));
    for (int i = 0; i < 5; i++) {
        assert_int_equal(box_test_v1_echo_service_chat_send(call, &request, &f->err), 0);
        assert_int_equal(box_test_v1_echo_service_chat_receive(call, &m, &f->err), 1);
        box__test__v1__chat_response__free_unpacked(m, NULL);
    }
    assert_non_null(box_client_headers(call));
    assert_int_equal(box_client_half_close(call, &f->err), 0);
    assert_int_equal(box_test_v1_echo_service_chat_send(call, &request, &f->err), -1);
    assert_int_equal(box_test_v1_echo_service_chat_receive(call, &m, &f->err), 0);
    box_client_free(call);
}

static void an_unknown_method_is_unimplemented(void **state)
{
    fixture *f = *state;
    static const box_method elsewhere = {
        .path = "/box.test.v1.Nothing/Echo",
        .name = "Echo",
        .kind = BOX_UNARY,
        .request = &box__test__v1__echo_request__descriptor,
        .response = &box__test__v1__echo_response__descriptor,
    };
    Box__Test__V1__EchoRequest request;
    ProtobufCMessage *response = NULL;
    box__test__v1__echo_request__init(&request);
    assert_int_equal(
        box_client_unary(f->channel, &elsewhere, NULL, &request.base, &response, &f->err), -1);
    assert_int_equal(f->err.reason, BOX_UNIMPLEMENTED);
}

/* --- one answer (grpc-conformance.md, 54) ----------------------------------------------------- */

/* A client that thinks Expand answers once. */
static int unary_expand(fixture *f, uint64_t count)
{
    box_method method = box_test_v1_echo_service.methods[1];
    Box__Test__V1__ExpandRequest request;
    ProtobufCMessage *response = NULL;
    method.kind = BOX_UNARY;
    box__test__v1__expand_request__init(&request);
    request.count = count;
    int rc = box_client_unary(f->channel, &method, NULL, &request.base, &response, &f->err);
    if (rc == 0)
        protobuf_c_message_free_unpacked(response, NULL);
    return rc;
}

static void a_unary_call_has_exactly_one_answer(void **state)
{
    fixture *f = *state;
    assert_int_equal(unary_expand(f, 1), 0);
    assert_int_equal(unary_expand(f, 0), -1);
    assert_int_equal(f->err.reason, BOX_UNIMPLEMENTED);
    assert_int_equal(unary_expand(f, 2), -1);
    assert_int_equal(f->err.reason, BOX_UNIMPLEMENTED);
}

/* --- handlers that answer later, or never ----------------------------------------------------- */

static void without_a_pump_a_handler_that_never_answers_is_an_error(void **state)
{
    fixture *f = *state;
    assert_int_equal(echo_once(f, NULL, 1), -1);
    assert_int_equal(f->err.reason, BOX_INTERNAL);
    assert_int_equal(f->service.live, 0);
}

/* Only the call that waits is given up. */
static void other_calls_go_on_when_one_is_stuck(void **state)
{
    fixture *f = *state;
    Box__Test__V1__CollectResponse *response = NULL;
    box_client_call *call = start_collect(f);
    assert_int_equal(echo_once(f, NULL, 1), -1);
    assert_int_equal(send_collect(f, call, 1, false), 0);
    assert_int_equal(box_test_v1_echo_service_collect_finish(call, &response, &f->err), 0);
    box__test__v1__collect_response__free_unpacked(response, NULL);
    box_client_free(call);
}

static void a_pump_lets_a_handler_answer_later(void **state)
{
    fixture *f = *state;
    f->service.answer_at = 5;
    assert_int_equal(echo_once(f, NULL, 1), 0);
    assert_int_equal(f->service.pumped, 5);
    assert_int_equal(f->service.last, BOX_NONE);
}

static void a_deadline_ends_a_handler_that_never_answers(void **state)
{
    fixture *f = *state;
    const box_client_options o = {.timeout_ns = BOX_MS};
    assert_int_equal(echo_once(f, &o, 1), -1);
    assert_int_equal(f->err.reason, BOX_DEADLINE);
    assert_int_equal(f->service.last, BOX_DEADLINE);
    assert_int_equal(f->service.live, 0);
    assert_false(box_call_is_open(f->service.waiting));
    answer(f->service.waiting, NULL); /* too late, and harmless */
}

static void a_handler_that_pauses_gets_nothing_until_it_resumes(void **state)
{
    fixture *f = *state;
    Box__Test__V1__CollectResponse *response = NULL;
    f->service.pause_first = true;
    f->service.answer_at = 3;
    box_client_call *call = start_collect(f);
    for (int i = 0; i < 20; i++) /* more than the high-water mark: the pump has to come */
        assert_int_equal(send_collect(f, call, PAYLOAD, false), 0);
    assert_true(f->service.pumped >= 3);
    assert_int_equal(box_test_v1_echo_service_collect_finish(call, &response, &f->err), 0);
    assert_int_equal(response->messages, 20);
    assert_int_equal(f->service.while_paused, 0);
    box__test__v1__collect_response__free_unpacked(response, NULL);
    box_client_free(call);
}

static void a_half_close_waits_for_a_paused_handler_too(void **state)
{
    fixture *f = *state;
    Box__Test__V1__CollectResponse *response = NULL;
    f->service.pause_first = true;
    f->service.answer_at = 3;
    box_client_call *call = start_collect(f);
    assert_int_equal(send_collect(f, call, 1, false), 0);
    assert_int_equal(box_client_half_close(call, &f->err), 0);
    assert_int_equal(f->service.live, 1);
    assert_int_equal(box_test_v1_echo_service_collect_finish(call, &response, &f->err), 0);
    assert_true(f->service.pumped >= 3);
    box__test__v1__collect_response__free_unpacked(response, NULL);
    box_client_free(call);
}

/* --- cancel and free -------------------------------------------------------------------------- */

static void a_cancelled_call_ends_at_both_sides(void **state)
{
    fixture *f = *state;
    Box__Test__V1__CollectResponse *response = NULL;
    box_client_call *call = start_collect(f);
    box_client_cancel(call);
    assert_int_equal(f->service.live, 0);
    assert_int_equal(f->service.last, BOX_CANCELLED);
    box_client_cancel(call);
    assert_int_equal(send_collect(f, call, 1, false), -1);
    assert_int_equal(f->err.reason, BOX_CANCELLED);
    assert_int_equal(box_test_v1_echo_service_collect_finish(call, &response, &f->err), -1);
    assert_int_equal(f->err.reason, BOX_CANCELLED);
    box_client_free(call);
}

static void a_freed_call_is_a_cancelled_one(void **state)
{
    fixture *f = *state;
    box_client_free(start_collect(f));
    assert_int_equal(f->service.live, 0);
    assert_int_equal(f->service.last, BOX_CANCELLED);
    box_client_free(start_expand(f, 1000, PAYLOAD)); /* with messages nobody read */
    assert_int_equal(f->service.live, 0);
    box_client_free(NULL);
}

static void a_channel_that_is_freed_first_ends_its_calls(void **state)
{
    fixture *f = *state;
    box_client_call *call = start_collect(f);
    box_channel_free(box_take(f->channel));
    assert_int_equal(f->service.last, BOX_CANCELLED);
    assert_int_equal(send_collect(f, call, 1, false), -1);
    assert_int_equal(f->err.reason, BOX_CANCELLED);
    box_client_free(call);
}

/* --- events ----------------------------------------------------------------------------------- */

typedef struct seen {
    size_t headers, messages, writables, dones;
    bool is_writable_told;
    bool free_in_message, pause_in_message;
    box_error status;
    char trailer[16];
} seen;

static void on_headers(void *arg, box_client_call *call, const box_metadata *metadata)
{
    (void)call, (void)metadata;
    seen *s = arg;
    assert_int_equal(s->messages, 0);
    s->headers++;
}

static void on_message(seen *s, box_client_call *call)
{
    assert_int_equal(s->dones, 0);
    s->messages++;
    if (s->pause_in_message)
        box_client_pause(call, true);
    if (s->free_in_message)
        box_client_free(call);
}

static void on_echo(void *arg, box_client_call *call, const Box__Test__V1__EchoResponse *m)
{
    (void)m;
    on_message(arg, call);
}

static void on_expand(void *arg, box_client_call *call, const Box__Test__V1__ExpandResponse *m)
{
    seen *s = arg;
    assert_int_equal(m->index, s->messages);
    on_message(s, call);
}

static void on_collected(void *arg, box_client_call *call, const Box__Test__V1__CollectResponse *m)
{
    (void)m;
    on_message(arg, call);
}

/* A chat whose ends answer each other for ever. */
static void on_chat(void *arg, box_client_call *call, const Box__Test__V1__ChatResponse *m)
{
    (void)m;
    seen *s = arg;
    Box__Test__V1__ChatRequest request;
    box_error err;
    box__test__v1__chat_request__init(&request);
    s->messages++;
    assert_int_equal(box_test_v1_echo_service_chat_send(call, &request, &err), 0);
}

static void on_writable(void *arg, box_client_call *call)
{
    seen *s = arg;
    s->writables++;
    s->is_writable_told = box_client_is_writable(call);
}

static void on_done(void *arg, box_client_call *call, const box_error *status,
                    const box_metadata *trailers)
{
    seen *s = arg;
    s->dones++;
    s->status = *status;
    const char *tail = trailers != NULL ? box_metadata_get(trailers, "x-tail") : NULL;
    (void)snprintf(s->trailer, sizeof s->trailer, "%s", tail != NULL ? tail : "");
    box_client_free(call);
}

static const box_test_v1_echo_service_echo_events echo_events = {
    .headers = on_headers, .message = on_echo, .done = on_done};
static const box_test_v1_echo_service_expand_events expand_events = {
    .headers = on_headers, .message = on_expand, .done = on_done};
static const box_test_v1_echo_service_collect_events collect_events = {
    .message = on_collected, .writable = on_writable, .done = on_done};
static const box_test_v1_echo_service_chat_events chat_events = {.message = on_chat,
                                                                 .done = on_done};

static box_client_call *start_echo(fixture *f, const box_client_options *o, uint32_t sleep_ms,
                                   seen *s)
{
    Box__Test__V1__EchoRequest request;
    box_client_call *call = NULL;
    box__test__v1__echo_request__init(&request);
    request.sleep_ms = sleep_ms;
    assert_int_equal(box_test_v1_echo_service_echo_start(f->channel, o, &request, &echo_events, s,
                                                         &call, &f->err),
                     0);
    return call;
}

static void unary_events_come_from_dispatch_alone(void **state)
{
    fixture *f = *state;
    box_metadata sent = {0};
    seen s = {0};
    assert_int_equal(box_metadata_add_text(&sent, "x-hello", "you", &f->err), 0);
    const box_client_options o = {.metadata = &sent};
    (void)start_echo(f, &o, 0, &s);
    assert_int_equal(s.headers + s.messages + s.dones, 0);
    box_channel_dispatch(f->channel);
    assert_int_equal(s.headers, 1);
    assert_int_equal(s.messages, 1);
    assert_int_equal(s.dones, 1);
    assert_int_equal(s.status.reason, BOX_NONE);
    assert_string_equal(s.trailer, "you");
    box_metadata_done(&sent);
}

static void start_expand_events(fixture *f, uint64_t count, uint32_t size, seen *s,
                                box_client_call **call)
{
    Box__Test__V1__ExpandRequest request;
    box__test__v1__expand_request__init(&request);
    request.count = count;
    request.size = size;
    assert_int_equal(box_test_v1_echo_service_expand_start(f->channel, NULL, &request,
                                                           &expand_events, s, call, &f->err),
                     0);
}

static void stream_events_come_in_order_and_in_turns(void **state)
{
    fixture *f = *state;
    seen s = {0};
    box_client_call *call;
    start_expand_events(f, 1000, 10, &s, &call);
    box_channel_dispatch(f->channel);
    assert_true(s.messages < 1000); /* others have their turn */
    for (int i = 0; i < 100 && s.dones == 0; i++) {
        int fd, timeout;
        short events;
        box_channel_poll(f->channel, &fd, &events, &timeout);
        assert_int_equal(timeout, 0);
        box_channel_dispatch(f->channel);
    }
    assert_int_equal(s.messages, 1000);
    assert_int_equal(s.dones, 1);
}

static void a_paused_call_is_told_nothing_until_resumed(void **state)
{
    fixture *f = *state;
    seen s = {.pause_in_message = true};
    box_client_call *call;
    start_expand_events(f, 50, 10, &s, &call);
    for (int i = 0; i < 5; i++)
        box_channel_dispatch(f->channel);
    assert_int_equal(s.messages, 1);
    assert_int_equal(s.dones, 0);
    s.pause_in_message = false;
    box_client_pause(call, false);
    box_channel_dispatch(f->channel);
    assert_int_equal(s.messages, 50);
    assert_int_equal(s.dones, 1);
}

static void a_call_freed_in_its_message_hears_no_more(void **state)
{
    fixture *f = *state;
    seen s = {.free_in_message = true};
    box_client_call *call;
    start_expand_events(f, 50, 10, &s, &call);
    for (int i = 0; i < 5; i++)
        box_channel_dispatch(f->channel);
    assert_int_equal(s.messages, 1);
    assert_int_equal(s.dones, 0);
}

static void a_cancel_is_told_as_done(void **state)
{
    fixture *f = *state;
    seen s = {0};
    box_client_call *call = start_echo(f, NULL, 1, &s);
    box_client_cancel(call);
    assert_int_equal(f->service.last, BOX_CANCELLED);
    box_channel_dispatch(f->channel);
    assert_int_equal(s.dones, 1);
    assert_int_equal(s.messages, 0);
    assert_int_equal(s.status.reason, BOX_CANCELLED);
}

static void a_deadline_is_told_as_done(void **state)
{
    fixture *f = *state;
    seen s = {0};
    const box_client_options o = {.timeout_ns = 1};
    (void)start_echo(f, &o, 1, &s);
    box_channel_dispatch(f->channel);
    assert_int_equal(s.dones, 1);
    assert_int_equal(s.status.reason, BOX_DEADLINE);
}

static void an_event_call_waits_for_the_pump_without_being_given_up(void **state)
{
    fixture *f = *state;
    seen s = {0};
    f->service.answer_at = 3;
    (void)start_echo(f, NULL, 1, &s);
    for (int i = 0; i < 10 && s.dones == 0; i++) {
        int fd, timeout;
        short events;
        box_channel_poll(f->channel, &fd, &events, &timeout);
        assert_in_range(timeout, 0, 10);
        box_channel_dispatch(f->channel);
    }
    assert_int_equal(f->service.pumped, 3);
    assert_int_equal(s.dones, 1);
    assert_int_equal(s.status.reason, BOX_NONE);
}

static void a_sender_is_told_when_the_queue_has_drained(void **state)
{
    fixture *f = *state;
    seen s = {0};
    box_client_call *call;
    f->service.pause_first = true;
    f->service.answer_at = 2;
    assert_int_equal(box_test_v1_echo_service_collect_start(f->channel, NULL, &collect_events, &s,
                                                            &call, &f->err),
                     0);
    int sent = 0;
    while (box_client_is_writable(call)) {
        assert_int_equal(send_collect(f, call, PAYLOAD, false), 0);
        sent++;
        assert_true(sent < 100);
    }
    for (int i = 0; i < 5; i++)
        box_channel_dispatch(f->channel);
    assert_int_equal(s.writables, 1);
    assert_true(s.is_writable_told);
    assert_int_equal(box_client_half_close(call, &f->err), 0);
    box_channel_dispatch(f->channel);
    assert_int_equal(s.messages, 1);
    assert_int_equal(s.dones, 1);
}

static void ends_that_answer_each_other_do_not_hold_a_dispatch(void **state)
{
    fixture *f = *state;
    seen s = {0};
    box_client_call *call;
    Box__Test__V1__ChatRequest request;
    box__test__v1__chat_request__init(&request);
    assert_int_equal(
        box_test_v1_echo_service_chat_start(f->channel, NULL, &chat_events, &s, &call, &f->err), 0);
    assert_int_equal(box_test_v1_echo_service_chat_send(call, &request, &f->err), 0);
    for (int i = 0; i < 3; i++)
        box_channel_dispatch(f->channel);
    assert_in_range(s.messages, 3, 3 * 64);
    box_client_free(call);
    box_channel_dispatch(f->channel);
    assert_int_equal(s.dones, 0);
}

#define PLAIN(test)  cmocka_unit_test_setup_teardown(test, set_up, tear_down)
#define PUMPED(test) cmocka_unit_test_setup_teardown(test, set_up_pump, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLAIN(a_unary_call_gets_its_answer),
        PLAIN(an_error_keeps_reason_text_and_details),
        PLAIN(headers_and_trailers_are_handed_over),
        PLAIN(metadata_that_cannot_be_sent_is_refused_at_once),
        PLAIN(a_server_stream_is_produced_as_it_is_read),
        PLAIN(a_client_stream_is_counted_and_answered),
        PLAIN(a_client_stream_that_was_ended_says_why),
        PLAIN(a_chat_goes_back_and_forth),
        PLAIN(an_unknown_method_is_unimplemented),
        PLAIN(a_unary_call_has_exactly_one_answer),
        PLAIN(without_a_pump_a_handler_that_never_answers_is_an_error),
        PLAIN(other_calls_go_on_when_one_is_stuck),
        PUMPED(a_pump_lets_a_handler_answer_later),
        PUMPED(a_deadline_ends_a_handler_that_never_answers),
        PUMPED(a_handler_that_pauses_gets_nothing_until_it_resumes),
        PUMPED(a_half_close_waits_for_a_paused_handler_too),
        PLAIN(a_cancelled_call_ends_at_both_sides),
        PLAIN(a_freed_call_is_a_cancelled_one),
        PLAIN(a_channel_that_is_freed_first_ends_its_calls),
        PLAIN(unary_events_come_from_dispatch_alone),
        PLAIN(stream_events_come_in_order_and_in_turns),
        PLAIN(a_paused_call_is_told_nothing_until_resumed),
        PLAIN(a_call_freed_in_its_message_hears_no_more),
        PLAIN(a_cancel_is_told_as_done),
        PLAIN(a_deadline_is_told_as_done),
        PUMPED(an_event_call_waits_for_the_pump_without_being_given_up),
        PUMPED(a_sender_is_told_when_the_queue_has_drained),
        PLAIN(ends_that_answer_each_other_do_not_hold_a_dispatch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
