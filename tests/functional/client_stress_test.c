/* Threads that do everything at once on one channel: nothing hangs, and every call ends as it may.
 */
#include "echo.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/alloc.h"

/* 4 of 6 rounds reset a stream, and nghttp2 closes a connection whose client resets more than 1000
 * at a time and 33 a second (CVE-2023-44487). */
enum { THREADS = 6, ROUNDS = 180, QUIET_MS = 30000 };

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
    shared s = {.channel = echo_channel(&echo_shared, ECHO_TLS, NULL)};
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

/* --- servers that come and go ----------------------------------------------------------------- */

typedef struct restless {
    box_channel *channel;
    atomic_int wrong, told;
    atomic_bool stop;
} restless;

/* Uses the channel while it says that it changed. */
static void on_state(void *arg, box_channel_state state)
{
    restless *r = arg;
    atomic_fetch_add(&r->told, 1);
    if (state != BOX_CHANNEL_CLOSED)
        (void)box_channel_get_state(r->channel);
}

/* NONE: it ended well. */
static bool is_one_of(box_reason reason, box_reason a, box_reason b, box_reason c)
{
    return reason == a || reason == b || reason == c;
}

static void expect(restless *r, bool ok, const char *what, const box_error *err)
{
    if (ok)
        return;
    atomic_fetch_add(&r->wrong, 1);
    print_error("%s: %s: %s\n", what, box_reason_name(err->reason), err->msg);
}

static void cancel_elsewhere(restless *r, const box_client_options *o)
{
    Box__Test__V1__ChatResponse *m = NULL;
    box_client_call *call;
    pthread_t id;
    box_error err = {0};
    if (box_test_v1_echo_service_chat(r->channel, o, &call, &err) < 0 ||
        pthread_create(&id, NULL, cancel, call) != 0) {
        expect(r, false, "start", &err);
        return;
    }
    int rc = box_test_v1_echo_service_chat_receive(call, &m, &err);
    expect(r,
           rc == -1 && is_one_of(err.reason, BOX_CANCELLED, BOX_RUNTIME_UNAVAILABLE, BOX_CANCELLED),
           "cancel", &err);
    (void)pthread_join(id, NULL);
    box_client_free(call);
}

static void *call_restlessly(void *arg)
{
    restless *r = arg;
    const box_client_options patient = {
        .wait_for_ready = true, .idempotent = true, .timeout_ns = 60 * BOX_SECOND};
    const box_client_options hasty = {.timeout_ns = 5 * BOX_MS, .idempotent = true};
    while (!atomic_load(&r->stop)) {
        box_error err = {0};
        int rc = echo_once(r->channel, &patient, "hello", 5, &err);
        expect(r, rc == 0 || err.reason == BOX_RUNTIME_UNAVAILABLE, "patient", &err);
        err = (box_error){0};
        BOX_IGNORE(echo_sleep(r->channel, &hasty, 20, &err));
        expect(r, is_one_of(err.reason, BOX_NONE, BOX_DEADLINE, BOX_RUNTIME_UNAVAILABLE), "hasty",
               &err);
        cancel_elsewhere(r, &patient);
    }
    return NULL;
}

static void servers_that_come_and_go_end_no_thread(void **state)
{
    (void)state;
    enum { CYCLES = 4, CALLERS = 4 };
    char target[96];
    echo_server servers[2];
    restless r = {0};
    for (size_t i = 0; i < BOX_COUNT(servers); i++)
        echo_server_start(&servers[i], NULL);
    (void)snprintf(target, sizeof target, "ipv4:127.0.0.1:%u,127.0.0.1:%u", servers[0].clear_port,
                   servers[1].clear_port);
    const box_channel_options o = {.plaintext = true,
                                   .balance = BOX_ROUND_ROBIN,
                                   .reconnect_first_ms = 5,
                                   .reconnect_max_ms = 20,
                                   .retry = {.max_attempts = 5, .first_pause_ms = 5},
                                   .on_state = on_state,
                                   .on_state_arg = &r};
    box_error err;
    assert_int_equal(box_channel_new(target, &o, &r.channel, &err), 0);
    pthread_t ids[CALLERS];
    for (size_t i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, call_restlessly, &r), 0);
    for (int i = 0; i < CYCLES; i++) {
        echo_server *s = &servers[i % 2];
        (void)poll(NULL, 0, 50);
        if (i < CYCLES / 2)
            echo_server_kill(s);
        else
            echo_server_end(s);
        (void)poll(NULL, 0, 50);
        echo_server_restart(s);
    }
    atomic_store(&r.stop, true);
    for (size_t i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_join(ids[i], NULL), 0);
    assert_int_equal(atomic_load(&r.wrong), 0);
    const box_client_options patient = {.wait_for_ready = true, .timeout_ns = 60 * BOX_SECOND};
    assert_int_equal(echo_once(r.channel, &patient, "x", 1, &err), 0);
    assert_int_equal(box_channel_get_state(r.channel), BOX_CHANNEL_READY);
    box_channel_free(r.channel);
    assert_true(atomic_load(&r.told) >= 3); /* connecting, ready, closed */
    for (size_t i = 0; i < BOX_COUNT(servers); i++)
        echo_server_stop(&servers[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_that_do_everything_end_cleanly),
        cmocka_unit_test(servers_that_come_and_go_end_no_thread),
    };
    return cmocka_run_group_tests(tests, echo_shared_start, echo_shared_stop);
}
