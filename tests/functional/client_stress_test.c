/* Threads that do everything at once on one channel: nothing hangs, and every call ends as it may.
 */
#include "echo.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/alloc.h"

/* 4 of 6 rounds reset a stream, and nghttp2 closes a connection whose client resets more than 1000
 * at a time and 33 a second (CVE-2023-44487). */
enum { THREADS = 6, ROUNDS = 180, QUIET_MS = 30000 };

static echo_server server;

typedef struct shared {
    box_channel *channel;
    atomic_int wrong;      /* ended otherwise than it may */
    atomic_int loops_done; /* event-driven calls that ended */
} shared;

static void check(shared *s, bool ok, const char *what, const box_error *err)
{
    if (ok)
        return;
    atomic_fetch_add(&s->wrong, 1);
    print_error("%s: %s: %s\n", what, box_reason_name(err->reason), err->msg);
}

static void answered(shared *s)
{
    box_error err = {0};
    check(s, echo_once(s->channel, NULL, "hello", 5, &err) == 0, "echo", &err);
}

static void late(shared *s)
{
    const box_client_options o = {.timeout_ns = 2 * BOX_MS};
    box_error err = {0};
    check(s, echo_sleep(s->channel, &o, 10000, &err) < 0 && err.reason == BOX_DEADLINE, "late",
          &err);
}

static void dropped_half_read(shared *s)
{
    Box__Test__V1__ExpandRequest request;
    Box__Test__V1__ExpandResponse *m = NULL;
    box_client_call *call;
    box_error err = {0};
    box__test__v1__expand_request__init(&request);
    request.count = 1000;
    request.size = 8000;
    if (box_test_v1_echo_service_expand(s->channel, NULL, &request, &call, &err) < 0) {
        check(s, false, "start", &err);
        return;
    }
    for (int i = 0; i < 3; i++) {
        check(s, box_test_v1_echo_service_expand_receive(call, &m, &err) == 1, "expand", &err);
        box__test__v1__expand_response__free_unpacked(box_take(m), NULL);
    }
    box_client_free(call);
}

static void *cancel(void *call)
{
    box_client_cancel(call);
    return NULL;
}

static void cancelled(shared *s)
{
    Box__Test__V1__ChatResponse *m = NULL;
    box_client_call *call;
    pthread_t id;
    box_error err = {0};
    if (box_test_v1_echo_service_chat(s->channel, NULL, &call, &err) < 0 ||
        pthread_create(&id, NULL, cancel, call) != 0) {
        check(s, false, "start", &err);
        return;
    }
    check(s,
          box_test_v1_echo_service_chat_receive(call, &m, &err) == -1 &&
              err.reason == BOX_CANCELLED,
          "cancel", &err);
    (void)pthread_join(id, NULL);
    box_client_free(call);
}

static void on_done(void *arg, box_client_call *call, const box_error *status,
                    const box_metadata *trailers)
{
    (void)trailers;
    shared *s = arg;
    check(s, status->reason == BOX_NONE || status->reason == BOX_DEADLINE, "events", status);
    atomic_fetch_add(&s->loops_done, 1);
    box_client_free(call);
}

/* Ends in the loop's thread, whichever that is. */
static void with_events(shared *s, uint64_t timeout_ns)
{
    static const box_test_v1_echo_service_echo_events events = {.done = on_done};
    const box_client_options o = {.timeout_ns = timeout_ns};
    Box__Test__V1__EchoRequest request;
    box_client_call *call;
    box_error err = {0};
    box__test__v1__echo_request__init(&request);
    request.sleep_ms = timeout_ns != 0 ? 10000 : 0;
    check(s,
          box_test_v1_echo_service_echo_start(s->channel, &o, &request, &events, s, &call, &err) ==
              0,
          "start", &err);
}

static void *do_everything(void *arg)
{
    shared *s = arg;
    for (int i = 0; i < ROUNDS; i++) {
        answered(s);
        switch (i % 6) {
        case 0:
            late(s);
            break;
        case 1:
            dropped_half_read(s);
            break;
        case 2:
            cancelled(s);
            break;
        case 3:
            with_events(s, 0);
            break;
        case 4:
            with_events(s, 3 * BOX_MS);
            break;
        default:
            break;
        }
    }
    return NULL;
}

static void threads_that_do_everything_end_cleanly(void **state)
{
    (void)state;
    shared s = {.channel = echo_channel(&server, ECHO_TLS, NULL)};
    enum { WITH_EVENTS = THREADS * ROUNDS / 6 * 2 };
    pthread_t ids[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, do_everything, &s), 0);
    while (atomic_load(&s.loops_done) < WITH_EVENTS) { /* this thread is the loop */
        struct pollfd p;
        int timeout;
        box_channel_poll(s.channel, &p.fd, &p.events, &timeout);
        bool bounded = timeout >= 0 && timeout < QUIET_MS;
        int n = poll(&p, 1, bounded ? timeout : QUIET_MS);
        assert_true(n > 0 || bounded); /* else a wake-up was lost */
        box_channel_dispatch(s.channel);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(ids[i], NULL), 0);
    assert_int_equal(atomic_load(&s.wrong), 0);
    assert_int_equal(atomic_load(&s.loops_done), WITH_EVENTS);
    Box__Test__V1__GetCountersResponse *counters = echo_counters(s.channel);
    assert_int_equal(counters->connections_open, 1);
    box__test__v1__get_counters_response__free_unpacked(counters, NULL);
    box_channel_free(s.channel);
}

static int set_up(void **state)
{
    (void)state;
    echo_server_start(&server, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    echo_server_stop(&server);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_that_do_everything_end_cleanly),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
