/* All four kinds of call, blocking and with an event loop, over every transport. */
#include "echo.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* --- blocking --------------------------------------------------------------------------------- */

static void unary_calls_work(void **state)
{
    echo_over over = echo_over_of(state);
    box_channel *c = echo_channel(&echo_shared, over, NULL);
    box_error err;
    for (int i = 0; i < 20; i++)
        assert_int_equal(echo_once(c, NULL, "hello", 5, &err), 0);
    assert_int_equal(echo_once(c, NULL, NULL, 0, &err), 0);
    box_channel_free(c);
}

static void server_streams_work(void **state)
{
    echo_over over = echo_over_of(state);
    box_channel *c = echo_channel(&echo_shared, over, NULL);
    Box__Test__V1__ExpandRequest request;
    Box__Test__V1__ExpandResponse *m = NULL;
    box_client_call *call;
    box_error err;
    box__test__v1__expand_request__init(&request);
    request.count = 500;
    request.size = 3000;
    assert_int_equal(box_test_v1_echo_service_expand(c, NULL, &request, &call, &err), 0);
    for (uint64_t i = 0; i < request.count; i++) {
        assert_int_equal(box_test_v1_echo_service_expand_receive(call, &m, &err), 1);
        assert_int_equal(m->index, i);
        assert_int_equal(m->payload.len, request.size);
        box__test__v1__expand_response__free_unpacked(m, NULL);
    }
    assert_int_equal(box_test_v1_echo_service_expand_receive(call, &m, &err), 0);
    assert_int_equal(box_test_v1_echo_service_expand_receive(call, &m, &err), 0);
    box_client_free(call);
    box_channel_free(c);
}

static void client_streams_work(void **state)
{
    echo_over over = echo_over_of(state);
    box_channel *c = echo_channel(&echo_shared, over, NULL);
    uint8_t payload[1000] = {7};
    Box__Test__V1__CollectRequest request;
    Box__Test__V1__CollectResponse *response = NULL;
    box_client_call *call;
    box_error err;
    box__test__v1__collect_request__init(&request);
    request.payload = (ProtobufCBinaryData){sizeof payload, payload};
    assert_int_equal(box_test_v1_echo_service_collect(c, NULL, &call, &err), 0);
    for (int i = 0; i < 300; i++)
        assert_int_equal(box_test_v1_echo_service_collect_send(call, &request, &err), 0);
    assert_int_equal(box_test_v1_echo_service_collect_finish(call, &response, &err), 0);
    assert_int_equal(response->messages, 300);
    assert_int_equal(response->bytes, 300000);
    box__test__v1__collect_response__free_unpacked(response, NULL);
    assert_int_equal(box_test_v1_echo_service_collect_send(call, &request, &err), -1);
    box_client_free(call);
    box_channel_free(c);
}

static void say(box_client_call *call, const char *text)
{
    Box__Test__V1__ChatRequest request;
    box_error err;
    box__test__v1__chat_request__init(&request);
    request.payload = (ProtobufCBinaryData){strlen(text), (uint8_t *)(uintptr_t)text};
    assert_int_equal(box_test_v1_echo_service_chat_send(call, &request, &err), 0);
}

static void bidi_streams_work(void **state)
{
    echo_over over = echo_over_of(state);
    box_channel *c = echo_channel(&echo_shared, over, NULL);
    Box__Test__V1__ChatResponse *m = NULL;
    box_client_call *call;
    box_error err;
    assert_int_equal(box_test_v1_echo_service_chat(c, NULL, &call, &err), 0);
    for (int i = 0; i < 50; i++) {
        say(call, "ping");
        assert_int_equal(box_test_v1_echo_service_chat_receive(call, &m, &err), 1);
        assert_memory_equal(m->payload.data, "ping", 4);
        box__test__v1__chat_response__free_unpacked(m, NULL);
    }
    assert_int_equal(box_client_half_close(call, &err), 0);
    assert_int_equal(box_client_half_close(call, &err), -1);
    assert_int_equal(box_test_v1_echo_service_chat_receive(call, &m, &err), 0);
    box_client_free(call);
    box_channel_free(c);
}

/* --- with an event loop ----------------------------------------------------------------------- */

typedef struct seen {
    size_t headers, messages, bytes, wanted;
    bool done;
    box_error status;
} seen;

static void on_headers(void *arg, box_client_call *call, const box_metadata *metadata)
{
    (void)call, (void)metadata;
    seen *s = arg;
    assert_int_equal(s->messages, 0);
    s->headers++;
}

static void on_done(void *arg, box_client_call *call, const box_error *status,
                    const box_metadata *trailers)
{
    (void)trailers;
    seen *s = arg;
    assert_false(s->done);
    s->done = true;
    s->status = *status;
    box_client_free(call);
}

static void on_echo(void *arg, box_client_call *call, const Box__Test__V1__EchoResponse *m)
{
    (void)call;
    seen *s = arg;
    s->messages++;
    s->bytes += m->payload.len;
}

static void unary_events_come(void **state)
{
    echo_over over = echo_over_of(state);
    static const box_test_v1_echo_service_echo_events events = {
        .headers = on_headers, .message = on_echo, .done = on_done};
    box_channel *c = echo_channel(&echo_shared, over, NULL);
    Box__Test__V1__EchoRequest request;
    seen s = {0};
    box_client_call *call;
    box_error err;
    box__test__v1__echo_request__init(&request);
    request.answer_bytes = 100;
    assert_int_equal(
        box_test_v1_echo_service_echo_start(c, NULL, &request, &events, &s, &call, &err), 0);
    assert_false(s.done);
    echo_loop(c, &s.done);
    assert_int_equal(s.status.reason, BOX_NONE);
    assert_int_equal(s.headers, 1);
    assert_int_equal(s.messages, 1);
    assert_int_equal(s.bytes, 100);
    box_channel_free(c);
}

static void on_expand(void *arg, box_client_call *call, const Box__Test__V1__ExpandResponse *m)
{
    (void)call;
    seen *s = arg;
    assert_int_equal(m->index, s->messages);
    s->messages++;
    s->bytes += m->payload.len;
}

static void server_stream_events_come(void **state)
{
    echo_over over = echo_over_of(state);
    static const box_test_v1_echo_service_expand_events events = {
        .headers = on_headers, .message = on_expand, .done = on_done};
    box_channel *c = echo_channel(&echo_shared, over, NULL);
    Box__Test__V1__ExpandRequest request;
    seen s = {0};
    box_client_call *call;
    box_error err;
    box__test__v1__expand_request__init(&request);
    request.count = 3000;
    request.size = 1000;
    assert_int_equal(
        box_test_v1_echo_service_expand_start(c, NULL, &request, &events, &s, &call, &err), 0);
    echo_loop(c, &s.done);
    assert_int_equal(s.status.reason, BOX_NONE);
    assert_int_equal(s.messages, 3000);
    assert_int_equal(s.bytes, 3000000);
    box_channel_free(c);
}

static void collect_more(void *arg, box_client_call *call)
{
    seen *s = arg;
    uint8_t payload[4096] = {1};
    Box__Test__V1__CollectRequest request;
    box_error err;
    box__test__v1__collect_request__init(&request);
    request.payload = (ProtobufCBinaryData){sizeof payload, payload};
    while (s->wanted > 0 && box_client_is_writable(call)) {
        assert_int_equal(box_test_v1_echo_service_collect_send(call, &request, &err), 0);
        s->wanted--;
    }
    if (s->wanted == 0)
        assert_int_equal(box_client_half_close(call, &err), 0);
}

static void on_collected(void *arg, box_client_call *call, const Box__Test__V1__CollectResponse *m)
{
    (void)call;
    seen *s = arg;
    s->messages = m->messages;
    s->bytes = m->bytes;
}

static void client_stream_events_come(void **state)
{
    echo_over over = echo_over_of(state);
    static const box_test_v1_echo_service_collect_events events = {
        .message = on_collected, .writable = collect_more, .done = on_done};
    box_channel *c = echo_channel(&echo_shared, over, NULL);
    seen s = {.wanted = 2000};
    box_client_call *call;
    box_error err;
    assert_int_equal(box_test_v1_echo_service_collect_start(c, NULL, &events, &s, &call, &err), 0);
    collect_more(&s, call);
    assert_true(s.wanted > 0); /* the queue is full long before */
    echo_loop(c, &s.done);
    assert_int_equal(s.status.reason, BOX_NONE);
    assert_int_equal(s.messages, 2000);
    assert_int_equal(s.bytes, 2000 * 4096);
    box_channel_free(c);
}

/* Answers each message with the next. */
static void on_chat(void *arg, box_client_call *call, const Box__Test__V1__ChatResponse *m)
{
    seen *s = arg;
    box_error err;
    s->messages++;
    s->bytes += m->payload.len;
    if (s->messages < s->wanted)
        say(call, "pong");
    else
        assert_int_equal(box_client_half_close(call, &err), 0);
}

static void bidi_events_come(void **state)
{
    echo_over over = echo_over_of(state);
    static const box_test_v1_echo_service_chat_events events = {.message = on_chat,
                                                                .done = on_done};
    box_channel *c = echo_channel(&echo_shared, over, NULL);
    seen s = {.wanted = 100};
    box_client_call *call;
    box_error err;
    assert_int_equal(box_test_v1_echo_service_chat_start(c, NULL, &events, &s, &call, &err), 0);
    say(call, "ping");
    echo_loop(c, &s.done);
    assert_int_equal(s.status.reason, BOX_NONE);
    assert_int_equal(s.messages, 100);
    assert_int_equal(s.bytes, 400);
    box_channel_free(c);
}

/* --- several threads -------------------------------------------------------------------------- */

enum { THREADS = 8, CALLS_EACH = 1000 };

typedef struct worker {
    box_channel *channel;
    unsigned number;
    unsigned failed;
    box_error err;
} worker;

static void *call_many(void *arg)
{
    worker *w = arg;
    for (unsigned i = 0; i < CALLS_EACH; i++) {
        char text[32];
        int len = snprintf(text, sizeof text, "%u:%u", w->number, i);
        if (echo_once(w->channel, NULL, text, (size_t)len, &w->err) < 0)
            w->failed++;
    }
    return NULL;
}

static void eight_threads_share_a_channel(void **state)
{
    echo_over over = echo_over_of(state);
    box_channel *c = echo_channel(&echo_shared, over, NULL);
    pthread_t ids[THREADS];
    worker workers[THREADS] = {0};
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (worker){.channel = c, .number = i};
        assert_int_equal(pthread_create(&ids[i], NULL, call_many, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(ids[i], NULL), 0);
        if (workers[i].failed > 0)
            fail_msg("thread %u: %u calls failed: %s", i, workers[i].failed, workers[i].err.msg);
    }
    box_channel_free(c);
}

/* A loop that sleeps in poll must hear of events that a blocking thread's I/O brought. */
static void a_loop_and_blocking_threads_share_a_channel(void **state)
{
    (void)state;
    static const box_test_v1_echo_service_chat_events events = {.message = on_chat,
                                                                .done = on_done};
    box_channel *c = echo_channel(&echo_shared, ECHO_TLS, NULL);
    seen s = {.wanted = 2000};
    worker w = {.channel = c};
    pthread_t id;
    box_client_call *call;
    box_error err;
    assert_int_equal(pthread_create(&id, NULL, call_many, &w), 0);
    assert_int_equal(box_test_v1_echo_service_chat_start(c, NULL, &events, &s, &call, &err), 0);
    say(call, "ping");
    echo_loop(c, &s.done);
    assert_int_equal(pthread_join(id, NULL), 0);
    assert_int_equal(w.failed, 0);
    assert_int_equal(s.status.reason, BOX_NONE);
    assert_int_equal(s.messages, 2000);
    box_channel_free(c);
}

static void *say_many(void *arg)
{
    box_client_call *call = arg;
    box_error err;
    for (int i = 0; i < 5000; i++)
        say(call, "ping");
    assert_int_equal(box_client_half_close(call, &err), 0);
    return NULL;
}

static void one_thread_sends_while_another_receives(void **state)
{
    (void)state;
    box_channel *c = echo_channel(&echo_shared, ECHO_TLS, NULL);
    Box__Test__V1__ChatResponse *m = NULL;
    box_client_call *call;
    pthread_t id;
    box_error err;
    int n = 0;
    assert_int_equal(box_test_v1_echo_service_chat(c, NULL, &call, &err), 0);
    assert_int_equal(pthread_create(&id, NULL, say_many, call), 0);
    while (box_test_v1_echo_service_chat_receive(call, &m, &err) == 1) {
        box__test__v1__chat_response__free_unpacked(m, NULL);
        n++;
    }
    assert_int_equal(pthread_join(id, NULL), 0);
    assert_int_equal(n, 5000);
    box_client_free(call);
    box_channel_free(c);
}

/* --- metadata --------------------------------------------------------------------------------- */

static void metadata_travels_both_ways(void **state)
{
    (void)state;
    box_channel *c = echo_channel(&echo_shared, ECHO_TLS, NULL);
    box_metadata sent = {0};
    box_metadata headers = {0};
    box_metadata trailers = {0};
    const uint8_t bytes[] = {0, 255, 1, 254};
    box_error err;
    assert_int_equal(box_metadata_add_text(&sent, "x-echo-initial", "hello", &err), 0);
    assert_int_equal(box_metadata_add(&sent, "x-echo-trailing-bin", bytes, sizeof bytes, &err), 0);
    const box_client_options o = {.metadata = &sent, .headers = &headers, .trailers = &trailers};
    assert_int_equal(echo_once(c, &o, "x", 1, &err), 0);
    assert_string_equal(box_metadata_get(&headers, "x-echo-initial"), "hello");
    assert_int_equal(trailers.count, 1);
    assert_int_equal(trailers.entries[0].value_len, sizeof bytes);
    assert_memory_equal(trailers.entries[0].value, bytes, sizeof bytes);
    box_metadata_done(&headers);
    box_metadata_done(&trailers);
    const box_client_options bare = {.headers = &headers, .trailers = &trailers};
    assert_int_equal(echo_once(c, &bare, "x", 1, &err), 0);
    assert_int_equal(headers.count, 0);
    assert_int_equal(trailers.count, 0);
    box_metadata_done(&sent);
    box_channel_free(c);
}

static uint64_t connections_open(box_channel *c)
{
    Box__Test__V1__GetCountersResponse *counters = echo_counters(c);
    uint64_t open = counters->connections_open;
    box__test__v1__get_counters_response__free_unpacked(counters, NULL);
    return open;
}

static void too_much_metadata_fails_its_call_and_no_other(void **state)
{
    (void)state;
    box_channel *c = echo_channel(&echo_shared, ECHO_TLS, NULL);
    box_metadata sent = {0};
    char value[1000];
    box_error err;
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    for (int i = 0; i < 100; i++)
        assert_int_equal(box_metadata_add_text(&sent, "x-large", value, &err), 0);
    const box_client_options o = {.metadata = &sent};
    while (connections_open(c) > 1) /* those of tests before are on their way out */
        continue;
    assert_int_equal(echo_once(c, &o, "x", 1, &err), -1);
    assert_int_equal(err.reason, BOX_MESSAGE_SIZE);
    assert_int_equal(echo_once(c, NULL, "x", 1, &err), 0);
    assert_int_equal(connections_open(c), 1);
    box_metadata_done(&sent);
    box_channel_free(c);
}

/* --- errors ----------------------------------------------------------------------------------- */

static void a_status_comes_with_its_details(void **state)
{
    (void)state;
    box_channel *c = echo_channel(&echo_shared, ECHO_TLS, NULL);
    Box__Test__V1__Failure__MetadataEntry entry;
    Box__Test__V1__Failure__MetadataEntry *entries[] = {&entry};
    Box__Test__V1__Failure failure;
    Box__Test__V1__EchoRequest request;
    Box__Test__V1__EchoResponse *response = NULL;
    char key[] = "backend", value[] = "docker", reason[] = "BACKEND_UNAVAILABLE", text[] = "gone";
    box_error err;
    box__test__v1__failure__metadata_entry__init(&entry);
    box__test__v1__failure__init(&failure);
    box__test__v1__echo_request__init(&request);
    entry.key = key;
    entry.value = value;
    failure.code = BOX_CODE_UNAVAILABLE;
    failure.reason = reason;
    failure.message = text;
    failure.metadata = entries;
    failure.n_metadata = 1;
    failure.retry_ms = 1500;
    request.failure = &failure;
    assert_int_equal(box_test_v1_echo_service_echo(c, NULL, &request, &response, &err), -1);
    assert_null(response);
    assert_int_equal(err.reason, BOX_BACKEND_UNAVAILABLE);
    assert_string_equal(err.msg, "gone");
    assert_string_equal(box_error_get(&err, "backend"), "docker");
    assert_int_equal(err.retry_ms, 1500);
    box_channel_free(c);
}

static void a_method_that_is_not_there_is_unimplemented(void **state)
{
    (void)state;
    box_channel *c = echo_channel(&echo_shared, ECHO_TLS, NULL);
    Box__Test__V1__MissingRequest request;
    Box__Test__V1__MissingResponse *response = NULL;
    box_error err;
    box__test__v1__missing_request__init(&request);
    assert_int_equal(box_test_v1_echo_service_missing(c, NULL, &request, &response, &err), -1);
    assert_int_equal(err.reason, BOX_UNIMPLEMENTED);
    box_channel_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ECHO_TEST_EACH(unary_calls_work),
        ECHO_TEST_EACH(server_streams_work),
        ECHO_TEST_EACH(client_streams_work),
        ECHO_TEST_EACH(bidi_streams_work),
        ECHO_TEST_EACH(unary_events_come),
        ECHO_TEST_EACH(server_stream_events_come),
        ECHO_TEST_EACH(client_stream_events_come),
        ECHO_TEST_EACH(bidi_events_come),
        ECHO_TEST_EACH(eight_threads_share_a_channel),
        cmocka_unit_test(a_loop_and_blocking_threads_share_a_channel),
        cmocka_unit_test(one_thread_sends_while_another_receives),
        cmocka_unit_test(metadata_travels_both_ways),
        cmocka_unit_test(too_much_metadata_fails_its_call_and_no_other),
        cmocka_unit_test(a_status_comes_with_its_details),
        cmocka_unit_test(a_method_that_is_not_there_is_unimplemented),
    };
    return cmocka_run_group_tests(tests, echo_shared_start, echo_shared_stop);
}
