/* Large messages and back-pressure: what one side does not read costs the other bounded memory. */
#include "echo.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MIB = 1024 * 1024, ROOM_KIB = 24 * 1024 };

static void messages_of_8_mib_pass(void **state)
{
    echo_over over = echo_over_of(state);
    const box_channel_options o = {.max_message_bytes = 9 * MIB};
    box_channel *c = echo_channel(&echo_shared, over, &o);
    uint8_t *payload = malloc(8 * MIB);
    box_error err;
    assert_non_null(payload);
    for (size_t i = 0; i < 8 * MIB; i++)
        payload[i] = (uint8_t)(i * 31 >> 5);
    for (int i = 0; i < 3; i++)
        assert_int_equal(echo_once(c, NULL, payload, 8 * MIB, &err), 0);
    free(payload);
    box_channel_free(c);
}

static void an_answer_over_max_message_bytes_is_refused(void **state)
{
    (void)state;
    box_channel *c = echo_channel(&echo_shared, ECHO_TLS, NULL);
    Box__Test__V1__EchoRequest request;
    Box__Test__V1__EchoResponse *response = NULL;
    box_error err;
    box__test__v1__echo_request__init(&request);
    request.answer_bytes = 5 * MIB;
    assert_int_equal(box_test_v1_echo_service_echo(c, NULL, &request, &response, &err), -1);
    assert_int_equal(err.reason, BOX_MESSAGE_SIZE);
    assert_int_equal(echo_once(c, NULL, "x", 1, &err), 0);
    box_channel_free(c);
}

static void check_growth(uint64_t before_kib, uint64_t after_kib)
{
    if (!ECHO_SANITIZED && after_kib - before_kib > ROOM_KIB)
        fail_msg("memory grew from %lu to %lu KiB", (unsigned long)before_kib,
                 (unsigned long)after_kib);
}

static box_client_call *expand(box_channel *c, uint64_t count, uint32_t size)
{
    Box__Test__V1__ExpandRequest request;
    box_client_call *call;
    box_error err;
    box__test__v1__expand_request__init(&request);
    request.count = count;
    request.size = size;
    assert_int_equal(box_test_v1_echo_service_expand(c, NULL, &request, &call, &err), 0);
    return call;
}

static uint64_t server_rss_kib(box_channel *c)
{
    Box__Test__V1__GetCountersResponse *counters = echo_counters(c);
    uint64_t rss = counters->max_rss_kib;
    box__test__v1__get_counters_response__free_unpacked(counters, NULL);
    return rss;
}

/* The connection is read all the time, for other calls. */
static void a_stream_nobody_reads_costs_little_and_stops_nobody(void **state)
{
    (void)state;
    box_channel *c = echo_channel(&echo_shared, ECHO_TLS, NULL);
    Box__Test__V1__ExpandResponse *m = NULL;
    box_error err;
    assert_int_equal(echo_once(c, NULL, "x", 1, &err), 0);
    uint64_t own = echo_own_rss_kib();
    uint64_t theirs = server_rss_kib(c);
    box_client_call *call = expand(c, 1600, 64 * 1024);
    for (int i = 0; i < 500; i++)
        assert_int_equal(echo_once(c, NULL, "x", 1, &err), 0);
    check_growth(own, echo_own_rss_kib());
    for (uint64_t i = 0; i < 1600; i++) {
        assert_int_equal(box_test_v1_echo_service_expand_receive(call, &m, &err), 1);
        assert_int_equal(m->index, i);
        box__test__v1__expand_response__free_unpacked(m, NULL);
    }
    assert_int_equal(box_test_v1_echo_service_expand_receive(call, &m, &err), 0);
    check_growth(own, echo_own_rss_kib());
    check_growth(theirs, server_rss_kib(c));
    box_client_free(call);
    box_channel_free(c);
}

static void a_blocking_sender_waits_for_a_server_that_does_not_read(void **state)
{
    (void)state;
    enum { MESSAGES = 1000 };
    box_channel *c = echo_channel(&echo_shared, ECHO_TLS, NULL);
    Box__Test__V1__CollectRequest request;
    Box__Test__V1__CollectResponse *response = NULL;
    box_client_call *call;
    box_error err;
    uint8_t *payload = calloc(1, 64 * 1024);
    assert_int_equal(echo_once(c, NULL, "x", 1, &err), 0);
    uint64_t own = echo_own_rss_kib();
    uint64_t theirs = server_rss_kib(c);
    box__test__v1__collect_request__init(&request);
    assert_int_equal(box_test_v1_echo_service_collect(c, NULL, &call, &err), 0);
    request.pause_ms = 300;
    box_time paused = box_now();
    assert_int_equal(box_test_v1_echo_service_collect_send(call, &request, &err), 0);
    request.pause_ms = 0;
    request.payload = (ProtobufCBinaryData){64 * 1024, payload};
    for (int i = 0; i < MESSAGES; i++)
        assert_int_equal(box_test_v1_echo_service_collect_send(call, &request, &err), 0);
    assert_true(box_now() - paused >= 290 * BOX_MS); /* 64 MiB fit nowhere on the way */
    check_growth(own, echo_own_rss_kib());
    assert_int_equal(box_test_v1_echo_service_collect_finish(call, &response, &err), 0);
    assert_int_equal(response->messages, MESSAGES + 1);
    assert_int_equal(response->bytes, MESSAGES * 64 * 1024);
    box__test__v1__collect_response__free_unpacked(response, NULL);
    check_growth(theirs, server_rss_kib(c));
    free(payload);
    box_client_free(call);
    box_channel_free(c);
}

/* --- with an event loop ----------------------------------------------------------------------- */

typedef struct flow {
    size_t messages, bytes;
    size_t pause_after;
    bool paused, done;
    box_error status;
} flow;

static void on_expand(void *arg, box_client_call *call, const Box__Test__V1__ExpandResponse *m)
{
    flow *f = arg;
    assert_false(f->paused);
    f->messages++;
    f->bytes += m->payload.len;
    if (f->messages == f->pause_after) {
        f->paused = true;
        box_client_pause(call, true);
    }
}

static void on_done(void *arg, box_client_call *call, const box_error *status,
                    const box_metadata *trailers)
{
    (void)call, (void)trailers;
    flow *f = arg;
    f->done = true;
    f->status = *status;
}

static void a_paused_call_gets_nothing_and_costs_little(void **state)
{
    (void)state;
    static const box_test_v1_echo_service_expand_events events = {.message = on_expand,
                                                                  .done = on_done};
    box_channel *c = echo_channel(&echo_shared, ECHO_TLS, NULL);
    Box__Test__V1__ExpandRequest request;
    flow f = {.pause_after = 10};
    box_client_call *call;
    box_error err;
    box__test__v1__expand_request__init(&request);
    request.count = 1000;
    request.size = 64 * 1024;
    assert_int_equal(echo_once(c, NULL, "x", 1, &err), 0);
    uint64_t own = echo_own_rss_kib();
    assert_int_equal(
        box_test_v1_echo_service_expand_start(c, NULL, &request, &events, &f, &call, &err), 0);
    echo_loop(c, &f.paused);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(echo_once(c, NULL, "x", 1, &err), 0);
        box_channel_dispatch(c);
    }
    assert_int_equal(f.messages, 10);
    check_growth(own, echo_own_rss_kib());
    f.paused = false;
    box_client_pause(call, false);
    echo_loop(c, &f.done);
    assert_int_equal(f.status.reason, BOX_NONE);
    assert_int_equal(f.messages, 1000);
    box_client_free(call);
    box_channel_free(c);
}

/* box_client_send of a call with events never waits; who does not look loses the call. */
static void a_sender_that_never_looks_loses_its_call(void **state)
{
    (void)state;
    static const box_test_v1_echo_service_collect_events events = {.done = on_done};
    box_channel *c = echo_channel(&echo_shared, ECHO_UNIX, NULL);
    Box__Test__V1__CollectRequest request;
    uint8_t *payload = calloc(1, MIB);
    flow f = {0};
    box_client_call *call;
    box_error err;
    int sent = 0;
    box__test__v1__collect_request__init(&request);
    request.payload = (ProtobufCBinaryData){MIB, payload};
    assert_int_equal(box_test_v1_echo_service_collect_start(c, NULL, &events, &f, &call, &err), 0);
    while (sent < 200 && box_test_v1_echo_service_collect_send(call, &request, &err) == 0)
        sent++;
    echo_loop(c, &f.done);
    assert_int_equal(f.status.reason, BOX_MEMORY_BUDGET);
    assert_int_equal(echo_once(c, NULL, "x", 1, &err), 0);
    free(payload);
    box_client_free(call);
    box_channel_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_nobody_reads_costs_little_and_stops_nobody),
        cmocka_unit_test(a_blocking_sender_waits_for_a_server_that_does_not_read),
        cmocka_unit_test(a_paused_call_gets_nothing_and_costs_little),
        ECHO_TEST_EACH(messages_of_8_mib_pass),
        cmocka_unit_test(an_answer_over_max_message_bytes_is_refused),
        cmocka_unit_test(a_sender_that_never_looks_loses_its_call),
    };
    return cmocka_run_group_tests(tests, echo_shared_start, echo_shared_stop);
}
