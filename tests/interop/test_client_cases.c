/* The standard cases (grpc/grpc doc/interop-test-descriptions.md), with boxtest.v1.TestService. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "test_client.h"
#include "testing.box.h"

enum { LARGE_REQUEST = 271828, LARGE_RESPONSE = 314159, TIMEOUT_S = 30 };
enum { UNARY_CALL = 1 /* among boxtest_v1_test_service's methods */ };

typedef struct test_case {
    box_channel *channel;
    const char *name;
    char why[512]; /* of the failure; "" = none */
} test_case;

static const box_client_options in_time = {.timeout_ns = TIMEOUT_S * BOX_SECOND};
static const size_t request_sizes[] = {27182, 8, 1828, 45904};
static const int32_t response_sizes[] = {31415, 9, 2653, 58979};
static uint8_t zeros[LARGE_REQUEST];

static void failed(test_case *t, const char *fmt, ...) BOX_PRINTF(2, 3);
static void failed(test_case *t, const char *fmt, ...)
{
    va_list args;
    if (t->why[0] != '\0')
        return; /* the first counts */
    va_start(args, fmt);
    (void)vsnprintf(t->why, sizeof t->why, fmt, args);
    va_end(args);
}

static void expect_ok(test_case *t, int rc, const box_error *err)
{
    if (rc < 0)
        failed(t, "%s: %s", box_code_name(box_error_code(err)), err->msg);
}

/* The call ended with that status, and not well. */
static void expect_status(test_case *t, int rc, const box_error *err, box_code code,
                          const char *text)
{
    if (rc >= 0)
        failed(t, "the call did not fail");
    else if (box_error_code(err) != code)
        failed(t, "the call ended with %s (%s), not %s", box_code_name(box_error_code(err)),
               err->msg, box_code_name(code));
    else if (text != NULL && strcmp(err->msg, text) != 0)
        failed(t, "the message is '%s', not '%s'", err->msg, text);
}

static void payload_init(Boxtest__V1__Payload *p, size_t len)
{
    boxtest__v1__payload__init(p);
    p->body = (ProtobufCBinaryData){.len = len, .data = zeros};
}

static void expect_size(test_case *t, const Boxtest__V1__Payload *p, size_t wanted)
{
    size_t len = p != NULL ? p->body.len : 0;
    if (len != wanted)
        failed(t, "the payload has %zu bytes, not %zu", len, wanted);
}

/* --- unary ------------------------------------------------------------------------------------ */

static void empty_unary(test_case *t)
{
    Boxtest__V1__Empty request;
    Boxtest__V1__Empty *response = NULL;
    box_error err;
    boxtest__v1__empty__init(&request);
    expect_ok(t,
              boxtest_v1_test_service_empty_call(t->channel, &in_time, &request, &response, &err),
              &err);
    boxtest__v1__empty__free_unpacked(response, NULL);
}

/* The call's own options, and what the request says beside its payload. */
static void large(test_case *t, const box_client_options *o, Boxtest__V1__SimpleRequest *request)
{
    Boxtest__V1__Payload payload;
    Boxtest__V1__SimpleResponse *response = NULL;
    box_error err;
    payload_init(&payload, LARGE_REQUEST);
    request->payload = &payload;
    request->response_size = LARGE_RESPONSE;
    int rc = boxtest_v1_test_service_unary_call(t->channel, o, request, &response, &err);
    expect_ok(t, rc, &err);
    if (rc == 0)
        expect_size(t, response->payload, LARGE_RESPONSE);
    boxtest__v1__simple_response__free_unpacked(response, NULL);
}

static void large_unary(test_case *t)
{
    Boxtest__V1__SimpleRequest request;
    boxtest__v1__simple_request__init(&request);
    large(t, &in_time, &request);
}

static void unimplemented_method(test_case *t)
{
    Boxtest__V1__Empty request;
    Boxtest__V1__Empty *response = NULL;
    box_error err;
    boxtest__v1__empty__init(&request);
    int rc =
        boxtest_v1_test_service_unimplemented_call(t->channel, &in_time, &request, &response, &err);
    expect_status(t, rc, &err, BOX_CODE_UNIMPLEMENTED, NULL);
}

static void unimplemented_service(test_case *t)
{
    Boxtest__V1__Empty request;
    Boxtest__V1__Empty *response = NULL;
    box_error err;
    boxtest__v1__empty__init(&request);
    int rc = boxtest_v1_unimplemented_service_unimplemented_call(t->channel, &in_time, &request,
                                                                 &response, &err);
    expect_status(t, rc, &err, BOX_CODE_UNIMPLEMENTED, NULL);
}

static void status_of_unary(test_case *t, const char *text)
{
    Boxtest__V1__SimpleRequest request;
    Boxtest__V1__EchoStatus status;
    Boxtest__V1__SimpleResponse *response = NULL;
    box_error err;
    boxtest__v1__simple_request__init(&request);
    boxtest__v1__echo_status__init(&status);
    status.code = BOX_CODE_UNKNOWN;
    status.message = (char *)(uintptr_t)text;
    request.response_status = &status;
    int rc = boxtest_v1_test_service_unary_call(t->channel, &in_time, &request, &response, &err);
    expect_status(t, rc, &err, BOX_CODE_UNKNOWN, text);
}

static void status_of_stream(test_case *t, const char *text)
{
    Boxtest__V1__StreamingOutputCallRequest request;
    Boxtest__V1__EchoStatus status;
    Boxtest__V1__StreamingOutputCallResponse *response = NULL;
    box_client_call *call = NULL;
    box_error err;
    boxtest__v1__streaming_output_call_request__init(&request);
    boxtest__v1__echo_status__init(&status);
    status.code = BOX_CODE_UNKNOWN;
    status.message = (char *)(uintptr_t)text;
    request.response_status = &status;
    int rc = boxtest_v1_test_service_full_duplex_call(t->channel, &in_time, &call, &err);
    if (rc == 0)
        rc = boxtest_v1_test_service_full_duplex_call_send(call, &request, &err);
    if (rc == 0)
        rc = box_client_half_close(call, &err);
    expect_ok(t, rc, &err);
    rc = boxtest_v1_test_service_full_duplex_call_receive(call, &response, &err);
    expect_status(t, rc, &err, BOX_CODE_UNKNOWN, text);
    box_client_free(call);
}

static void status_code_and_message(test_case *t)
{
    status_of_unary(t, "test status message");
    status_of_stream(t, "test status message");
}

static void special_status_message(test_case *t)
{
    status_of_unary(t, "\t\ntest with whitespace\r\nand Unicode BMP \xE2\x98\xBA and non-BMP "
                       "\xF0\x9F\x98\x88\t\n");
}

/* --- streams ---------------------------------------------------------------------------------- */

static void send_inputs(test_case *t, box_client_call *call)
{
    box_error err;
    for (size_t i = 0; i < BOX_COUNT(request_sizes); i++) {
        Boxtest__V1__StreamingInputCallRequest request;
        Boxtest__V1__Payload payload;
        boxtest__v1__streaming_input_call_request__init(&request);
        payload_init(&payload, request_sizes[i]);
        request.payload = &payload;
        expect_ok(t, boxtest_v1_test_service_streaming_input_call_send(call, &request, &err), &err);
    }
}

/* NULL on failure. */
static box_client_call *open_input(test_case *t)
{
    box_client_call *call = NULL;
    box_error err;
    int rc = boxtest_v1_test_service_streaming_input_call(t->channel, &in_time, &call, &err);
    expect_ok(t, rc, &err);
    return call;
}

static void client_streaming(test_case *t)
{
    box_client_call *call = open_input(t);
    Boxtest__V1__StreamingInputCallResponse *response = NULL;
    box_error err;
    if (call == NULL)
        return;
    send_inputs(t, call);
    int rc = boxtest_v1_test_service_streaming_input_call_finish(call, &response, &err);
    expect_ok(t, rc, &err);
    if (rc == 0 && response->aggregated_payload_size != 74922)
        failed(t, "the sum is %d, not 74922", response->aggregated_payload_size);
    boxtest__v1__streaming_input_call_response__free_unpacked(response, NULL);
    box_client_free(call);
}

/* What asks for answers of these sizes. */
typedef struct output_request {
    Boxtest__V1__StreamingOutputCallRequest message;
    Boxtest__V1__ResponseParameters parameters[4];
    Boxtest__V1__ResponseParameters *pointers[4];
    Boxtest__V1__Payload payload;
} output_request;

static void output_request_init(output_request *r, const int32_t *sizes, size_t n)
{
    boxtest__v1__streaming_output_call_request__init(&r->message);
    for (size_t i = 0; i < n; i++) {
        boxtest__v1__response_parameters__init(&r->parameters[i]);
        r->parameters[i].size = sizes[i];
        r->pointers[i] = &r->parameters[i];
    }
    r->message.n_response_parameters = n;
    r->message.response_parameters = r->pointers;
}

/* 1, and the answer has that size; anything else fails the case. */
static bool expect_answer(test_case *t, box_client_call *call, size_t size)
{
    Boxtest__V1__StreamingOutputCallResponse *response = NULL;
    box_error err;
    int rc = boxtest_v1_test_service_full_duplex_call_receive(call, &response, &err);
    expect_ok(t, rc, &err);
    if (rc == 0)
        failed(t, "the stream ended early");
    if (rc == 1)
        expect_size(t, response->payload, size);
    boxtest__v1__streaming_output_call_response__free_unpacked(response, NULL);
    return rc == 1;
}

static void expect_end(test_case *t, box_client_call *call)
{
    Boxtest__V1__StreamingOutputCallResponse *response = NULL;
    box_error err;
    int rc = boxtest_v1_test_service_full_duplex_call_receive(call, &response, &err);
    expect_ok(t, rc, &err);
    if (rc == 1)
        failed(t, "one message too many");
    boxtest__v1__streaming_output_call_response__free_unpacked(response, NULL);
}

static void server_streaming(test_case *t)
{
    output_request r;
    box_client_call *call = NULL;
    box_error err;
    output_request_init(&r, response_sizes, BOX_COUNT(response_sizes));
    int rc = boxtest_v1_test_service_streaming_output_call(t->channel, &in_time, &r.message, &call,
                                                           &err);
    expect_ok(t, rc, &err);
    if (rc < 0)
        return;
    for (size_t i = 0; i < BOX_COUNT(response_sizes); i++) {
        if (!expect_answer(t, call, (size_t)response_sizes[i]))
            break;
    }
    if (t->why[0] == '\0')
        expect_end(t, call);
    box_client_free(call);
}

static box_client_call *open_duplex(test_case *t, const box_client_options *o)
{
    box_client_call *call = NULL;
    box_error err;
    expect_ok(t, boxtest_v1_test_service_full_duplex_call(t->channel, o, &call, &err), &err);
    return call;
}

static void ask(test_case *t, box_client_call *call, size_t i)
{
    output_request r;
    box_error err;
    output_request_init(&r, &response_sizes[i], 1);
    payload_init(&r.payload, request_sizes[i]);
    r.message.payload = &r.payload;
    expect_ok(t, boxtest_v1_test_service_full_duplex_call_send(call, &r.message, &err), &err);
}

static void half_close(test_case *t, box_client_call *call)
{
    box_error err;
    expect_ok(t, box_client_half_close(call, &err), &err);
}

static void ping_pong(test_case *t)
{
    box_client_call *call = open_duplex(t, &in_time);
    if (call == NULL)
        return;
    for (size_t i = 0; i < BOX_COUNT(response_sizes) && t->why[0] == '\0'; i++) {
        ask(t, call, i);
        (void)expect_answer(t, call, (size_t)response_sizes[i]);
    }
    half_close(t, call);
    if (t->why[0] == '\0')
        expect_end(t, call);
    box_client_free(call);
}

static void empty_stream(test_case *t)
{
    box_client_call *call = open_duplex(t, &in_time);
    if (call == NULL)
        return;
    half_close(t, call);
    expect_end(t, call);
    box_client_free(call);
}

/* --- compression ------------------------------------------------------------------------------ */

/* A probe says whether the server looks: with the flag the other way it must refuse. */
static void probe_compression(test_case *t)
{
    Boxtest__V1__SimpleRequest request;
    Boxtest__V1__BoolValue expected;
    Boxtest__V1__Payload payload;
    Boxtest__V1__SimpleResponse *response = NULL;
    box_error err;
    boxtest__v1__simple_request__init(&request);
    boxtest__v1__bool_value__init(&expected);
    payload_init(&payload, LARGE_REQUEST);
    expected.value = true;
    request.expect_compressed = &expected;
    request.payload = &payload;
    int rc = boxtest_v1_test_service_unary_call(t->channel, &in_time, &request, &response, &err);
    expect_status(t, rc, &err, BOX_CODE_INVALID_ARGUMENT, NULL);
    if (rc == 0)
        protobuf_c_message_free_unpacked(&response->base, NULL);
}

static void client_compressed_unary(test_case *t)
{
    static const box_encoding encodings[] = {BOX_IDENTITY, BOX_GZIP, BOX_DEFLATE};
    probe_compression(t);
    for (size_t i = 0; i < BOX_COUNT(encodings); i++) {
        const box_client_options o = {.timeout_ns = in_time.timeout_ns, .encoding = encodings[i]};
        Boxtest__V1__SimpleRequest request;
        Boxtest__V1__BoolValue expected;
        boxtest__v1__simple_request__init(&request);
        boxtest__v1__bool_value__init(&expected);
        expected.value = encodings[i] != BOX_IDENTITY;
        request.expect_compressed = &expected;
        large(t, &o, &request);
    }
}

static void expect_compressed(test_case *t, const box_client_call *call, bool wanted)
{
    if (box_client_was_compressed(call) != wanted)
        failed(t, "the answer came %scompressed", wanted ? "un" : "");
}

static void server_compressed(test_case *t, bool compressed)
{
    output_request r;
    Boxtest__V1__BoolValue value;
    box_client_call *call = NULL;
    box_error err;
    output_request_init(&r, response_sizes, 1);
    boxtest__v1__bool_value__init(&value);
    value.value = compressed;
    r.parameters[0].compressed = &value;
    int rc = boxtest_v1_test_service_streaming_output_call(t->channel, &in_time, &r.message, &call,
                                                           &err);
    expect_ok(t, rc, &err);
    if (rc < 0)
        return;
    if (expect_answer(t, call, (size_t)response_sizes[0])) {
        expect_compressed(t, call, compressed);
        expect_end(t, call);
    }
    box_client_free(call);
}

static void server_compressed_streaming(test_case *t)
{
    server_compressed(t, true);
    server_compressed(t, false);
}

/* In steps: unary in one does not show how the answer came. */
static void server_compressed_once(test_case *t, bool compressed)
{
    Boxtest__V1__SimpleRequest request;
    Boxtest__V1__BoolValue value;
    ProtobufCMessage *response = NULL;
    box_client_call *call = NULL;
    box_error err;
    boxtest__v1__simple_request__init(&request);
    boxtest__v1__bool_value__init(&value);
    value.value = compressed;
    request.response_compressed = &value;
    request.response_size = LARGE_RESPONSE;
    int rc = box_client_start(t->channel, &boxtest_v1_test_service.methods[UNARY_CALL], &in_time,
                              &request.base, &call, &err);
    expect_ok(t, rc, &err);
    if (rc < 0)
        return;
    rc = box_client_finish(call, &response, &err);
    expect_ok(t, rc, &err);
    expect_compressed(t, call, compressed);
    if (rc == 0)
        expect_size(t, ((Boxtest__V1__SimpleResponse *)(void *)response)->payload, LARGE_RESPONSE);
    protobuf_c_message_free_unpacked(response, NULL);
    box_client_free(call);
}

static void server_compressed_unary(test_case *t)
{
    server_compressed_once(t, true);
    server_compressed_once(t, false);
}

static void send_expected(test_case *t, box_client_call *call, size_t len, bool compressed)
{
    Boxtest__V1__StreamingInputCallRequest request;
    Boxtest__V1__BoolValue expected;
    Boxtest__V1__Payload payload;
    box_error err;
    boxtest__v1__streaming_input_call_request__init(&request);
    boxtest__v1__bool_value__init(&expected);
    payload_init(&payload, len);
    expected.value = compressed;
    request.payload = &payload;
    request.expect_compressed = &expected;
    box_client_set_compress(call, compressed ? BOX_COMPRESS_AUTO : BOX_COMPRESS_NEVER);
    expect_ok(t, boxtest_v1_test_service_streaming_input_call_send(call, &request, &err), &err);
}

static void client_compressed_streaming(test_case *t)
{
    const box_client_options o = {.timeout_ns = in_time.timeout_ns, .encoding = BOX_GZIP};
    box_client_call *call = NULL;
    Boxtest__V1__StreamingInputCallResponse *response = NULL;
    box_error err;
    int rc = boxtest_v1_test_service_streaming_input_call(t->channel, &o, &call, &err);
    expect_ok(t, rc, &err);
    if (rc < 0)
        return;
    send_expected(t, call, 27182, true);
    send_expected(t, call, 45904, false);
    rc = boxtest_v1_test_service_streaming_input_call_finish(call, &response, &err);
    expect_ok(t, rc, &err);
    if (rc == 0 && response->aggregated_payload_size != 73086)
        failed(t, "the sum is %d, not 73086", response->aggregated_payload_size);
    boxtest__v1__streaming_input_call_response__free_unpacked(response, NULL);
    box_client_free(call);
}

/* --- metadata --------------------------------------------------------------------------------- */

static const char initial_key[] = "x-grpc-test-echo-initial";
static const char trailing_key[] = "x-grpc-test-echo-trailing-bin";
static const char initial_value[] = "test_initial_metadata_value";
static const uint8_t trailing_value[] = {0xab, 0xab, 0xab};

static void expect_metadata(test_case *t, const box_metadata *headers, const box_metadata *trailers)
{
    const char *first = headers != NULL ? box_metadata_get(headers, initial_key) : NULL;
    const char *last = trailers != NULL ? box_metadata_get(trailers, trailing_key) : NULL;
    if (first == NULL || strcmp(first, initial_value) != 0)
        failed(t, "the initial metadata is '%s'", first != NULL ? first : "absent");
    if (last == NULL || memcmp(last, trailing_value, sizeof trailing_value) != 0)
        failed(t, "the trailing metadata is %s", last != NULL ? "another" : "absent");
}

static void custom_metadata_of_unary(test_case *t, const box_metadata *sent)
{
    BOX_AUTO(box_metadata_done) box_metadata headers = {0};
    BOX_AUTO(box_metadata_done) box_metadata trailers = {0};
    const box_client_options o = {.timeout_ns = in_time.timeout_ns,
                                  .metadata = sent,
                                  .headers = &headers,
                                  .trailers = &trailers};
    Boxtest__V1__SimpleRequest request;
    boxtest__v1__simple_request__init(&request);
    large(t, &o, &request);
    expect_metadata(t, &headers, &trailers);
}

static void custom_metadata(test_case *t)
{
    BOX_AUTO(box_metadata_done) box_metadata sent = {0};
    box_error err;
    int rc = box_metadata_add_text(&sent, initial_key, initial_value, &err);
    if (rc == 0)
        rc = box_metadata_add(&sent, trailing_key, trailing_value, sizeof trailing_value, &err);
    expect_ok(t, rc, &err);
    custom_metadata_of_unary(t, &sent);
    const box_client_options o = {.timeout_ns = in_time.timeout_ns, .metadata = &sent};
    box_client_call *call = open_duplex(t, &o);
    if (call == NULL)
        return;
    ask(t, call, 0);
    half_close(t, call);
    if (expect_answer(t, call, (size_t)response_sizes[0]))
        expect_end(t, call);
    expect_metadata(t, box_client_headers(call), box_client_trailers(call));
    box_client_free(call);
}

/* --- cancel and deadline ---------------------------------------------------------------------- */

static void cancel_after_begin(test_case *t)
{
    box_client_call *call = open_input(t);
    Boxtest__V1__StreamingInputCallResponse *response = NULL;
    box_error err;
    if (call == NULL)
        return;
    box_client_cancel(call);
    int rc = boxtest_v1_test_service_streaming_input_call_finish(call, &response, &err);
    expect_status(t, rc, &err, BOX_CODE_CANCELLED, NULL);
    box_client_free(call);
}

static void cancel_after_first_response(test_case *t)
{
    box_client_call *call = open_duplex(t, &in_time);
    Boxtest__V1__StreamingOutputCallResponse *response = NULL;
    box_error err;
    if (call == NULL)
        return;
    ask(t, call, 0);
    (void)expect_answer(t, call, (size_t)response_sizes[0]);
    box_client_cancel(call);
    int rc = boxtest_v1_test_service_full_duplex_call_receive(call, &response, &err);
    expect_status(t, rc, &err, BOX_CODE_CANCELLED, NULL);
    box_client_free(call);
}

static void timeout_on_sleeping_server(test_case *t)
{
    const box_client_options o = {.timeout_ns = BOX_MS};
    box_client_call *call = open_duplex(t, &o);
    Boxtest__V1__StreamingOutputCallResponse *response = NULL;
    output_request r;
    box_error err;
    if (call == NULL)
        return;
    output_request_init(&r, NULL, 0);
    payload_init(&r.payload, request_sizes[0]);
    r.message.payload = &r.payload;
    /* It may have ended already. */
    BOX_IGNORE(boxtest_v1_test_service_full_duplex_call_send(call, &r.message, &err));
    int rc = boxtest_v1_test_service_full_duplex_call_receive(call, &response, &err);
    expect_status(t, rc, &err, BOX_CODE_DEADLINE_EXCEEDED, NULL);
    box_client_free(call);
}

/* --- running them ----------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*run)(test_case *t);
} cases[] = {
    {"empty_unary", empty_unary},
    {"large_unary", large_unary},
    {"client_streaming", client_streaming},
    {"server_streaming", server_streaming},
    {"ping_pong", ping_pong},
    {"empty_stream", empty_stream},
    {"custom_metadata", custom_metadata},
    {"status_code_and_message", status_code_and_message},
    {"special_status_message", special_status_message},
    {"unimplemented_method", unimplemented_method},
    {"unimplemented_service", unimplemented_service},
    {"client_compressed_unary", client_compressed_unary},
    {"server_compressed_unary", server_compressed_unary},
    {"client_compressed_streaming", client_compressed_streaming},
    {"server_compressed_streaming", server_compressed_streaming},
    {"cancel_after_begin", cancel_after_begin},
    {"cancel_after_first_response", cancel_after_first_response},
    {"timeout_on_sleeping_server", timeout_on_sleeping_server},
};

void tc_list_cases(void)
{
    for (size_t i = 0; i < BOX_COUNT(cases); i++)
        (void)puts(cases[i].name);
}

bool tc_run_case(box_channel *channel, const char *name)
{
    test_case t = {.channel = channel, .name = name, .why = "there is no such case"};
    for (size_t i = 0; i < BOX_COUNT(cases); i++) {
        if (strcmp(cases[i].name, name) != 0)
            continue;
        t.why[0] = '\0';
        cases[i].run(&t);
    }
    json_t *result = json_pack("{sssb}", "case", name, "ok", t.why[0] == '\0');
    if (t.why[0] != '\0')
        (void)json_object_set_new(result, "why", json_string(t.why));
    tc_say(result);
    return t.why[0] == '\0';
}
