/* What goes wrong: cancels, deadlines, servers that die, lie, or never answer, and tokens. */
#include "echo.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"

/* --- cancel and deadline ---------------------------------------------------------------------- */

typedef struct sleeper {
    box_channel *channel;
    box_client_call *call;
} sleeper;

static bool one_call_open(void *arg)
{
    Box__Test__V1__GetCountersResponse *counters = echo_counters(arg);
    bool open = counters->calls_open >= 2; /* the sleeper and this one */
    box__test__v1__get_counters_response__free_unpacked(counters, NULL);
    return open;
}

static void *cancel_when_open(void *arg)
{
    sleeper *s = arg;
    echo_wait(one_call_open, s->channel, "the call is open at the server");
    box_client_cancel(s->call);
    return NULL;
}

static box_client_call *open_chat(box_channel *c, const box_client_options *o)
{
    box_client_call *call;
    box_error err;
    assert_int_equal(box_test_v1_echo_service_chat(c, o, &call, &err), 0);
    return call;
}

static uint64_t cancelled(box_channel *c)
{
    Box__Test__V1__GetCountersResponse *counters = echo_counters(c);
    uint64_t n = counters->cancelled;
    box__test__v1__get_counters_response__free_unpacked(counters, NULL);
    return n;
}

typedef struct count {
    box_channel *channel;
    uint64_t wanted;
} count;

static bool cancels_arrived(void *arg)
{
    const count *c = arg;
    return cancelled(c->channel) >= c->wanted;
}

static void another_thread_cancels_a_waiting_call(void **state)
{
    echo_over over = echo_over_of(state);
    box_channel *c = echo_channel(&echo_shared, over, NULL);
    box_channel *other = echo_channel(&echo_shared, ECHO_UNIX, NULL);
    count expected = {other, cancelled(other) + 1};
    sleeper s = {.channel = other, .call = open_chat(c, NULL)};
    Box__Test__V1__ChatResponse *m = NULL;
    pthread_t id;
    box_error err;
    assert_int_equal(pthread_create(&id, NULL, cancel_when_open, &s), 0);
    assert_int_equal(box_test_v1_echo_service_chat_receive(s.call, &m, &err), -1);
    assert_int_equal(err.reason, BOX_CANCELLED);
    assert_int_equal(pthread_join(id, NULL), 0);
    box_client_free(s.call);
    echo_wait(cancels_arrived, &expected, "the server hears of the cancel");
    assert_int_equal(echo_once(c, NULL, "x", 1, &err), 0);
    box_channel_free(other);
    box_channel_free(c);
}

/* The one that waits for its call does the I/O; the canceller's call is another's. */
static void *cancel_soon(void *arg)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    box_client_cancel(arg);
    return NULL;
}

static void *receive_cancelled(void *arg)
{
    Box__Test__V1__ChatResponse *m = NULL;
    box_error err;
    int rc = box_test_v1_echo_service_chat_receive(arg, &m, &err);
    return (void *)(uintptr_t)(rc == -1 && err.reason == BOX_CANCELLED);
}

static void cancel_wakes_drivers_and_sleepers_alike(void **state)
{
    (void)state;
    box_channel *c = echo_channel(&echo_shared, ECHO_TLS, NULL);
    enum { CALLS = 4 };
    box_client_call *calls[CALLS];
    pthread_t waiting[CALLS];
    pthread_t cancelling[CALLS];
    for (int i = 0; i < CALLS; i++) {
        calls[i] = open_chat(c, NULL);
        assert_int_equal(pthread_create(&waiting[i], NULL, receive_cancelled, calls[i]), 0);
    }
    for (int i = 0; i < CALLS; i++)
        assert_int_equal(pthread_create(&cancelling[i], NULL, cancel_soon, calls[i]), 0);
    for (int i = 0; i < CALLS; i++) {
        void *ok;
        assert_int_equal(pthread_join(cancelling[i], NULL), 0);
        assert_int_equal(pthread_join(waiting[i], &ok), 0);
        assert_non_null(ok);
        box_client_free(calls[i]);
    }
    box_channel_free(c);
}

static void a_deadline_passes_while_the_server_sleeps(void **state)
{
    (void)state;
    box_channel *c = echo_channel(&echo_shared, ECHO_TLS, NULL);
    const box_client_options o = {.timeout_ns = 100 * BOX_MS};
    box_error err;
    box_time start = box_now();
    assert_int_equal(echo_sleep(c, &o, 30000, &err), -1);
    box_time took = box_now() - start;
    assert_int_equal(err.reason, BOX_DEADLINE);
    assert_true(took >= 90 * BOX_MS && took < 10 * BOX_SECOND);
    assert_int_equal(echo_once(c, NULL, "x", 1, &err), 0);
    box_channel_free(c);
}

static void *sleep_long(void *arg)
{
    box_error err;
    return (void *)(uintptr_t)(echo_sleep(arg, NULL, 700, &err) == 0);
}

/* The driver polls for its own, far later answer when the second call starts. */
static void a_sooner_deadline_of_another_thread_is_kept(void **state)
{
    (void)state;
    box_channel *c = echo_channel(&echo_shared, ECHO_TLS, NULL);
    const box_client_options o = {.timeout_ns = 50 * BOX_MS};
    pthread_t id;
    void *ok;
    box_error err;
    assert_int_equal(echo_once(c, NULL, "x", 1, &err), 0);
    assert_int_equal(pthread_create(&id, NULL, sleep_long, c), 0);
    (void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    box_time start = box_now();
    assert_int_equal(echo_sleep(c, &o, 30000, &err), -1);
    assert_int_equal(err.reason, BOX_DEADLINE);
    if (!ECHO_SANITIZED)
        assert_true(box_now() - start < 500 * BOX_MS);
    assert_int_equal(pthread_join(id, &ok), 0);
    assert_non_null(ok);
    box_channel_free(c);
}

/* The deadline passes between sending and waiting, when nobody polls. */
static void a_deadline_that_passed_before_waiting_is_noticed(void **state)
{
    (void)state;
    box_channel *c = echo_channel(&echo_shared, ECHO_TLS, NULL);
    const box_client_options o = {.timeout_ns = 5 * BOX_MS};
    Box__Test__V1__ChatResponse *m = NULL;
    box_error err;
    assert_int_equal(echo_once(c, NULL, "x", 1, &err), 0);
    box_client_call *call = open_chat(c, &o);
    (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    assert_int_equal(box_test_v1_echo_service_chat_receive(call, &m, &err), -1);
    assert_int_equal(err.reason, BOX_DEADLINE);
    box_client_free(call);
    box_channel_free(c);
}

/* --- freeing ---------------------------------------------------------------------------------- */

static void freeing_a_call_that_runs_cancels_it(void **state)
{
    (void)state;
    box_channel *c = echo_channel(&echo_shared, ECHO_TLS, NULL);
    count expected = {c, cancelled(c) + 1};
    box_error err;
    box_client_call *call = open_chat(c, NULL);
    assert_int_equal(echo_once(c, NULL, "x", 1, &err), 0); /* the chat came before */
    box_client_free(call);
    echo_wait(cancels_arrived, &expected, "the server hears of it");
    box_channel_free(c);
}

static void a_channel_may_be_freed_before_its_calls(void **state)
{
    (void)state;
    box_channel *c = echo_channel(&echo_shared, ECHO_TLS, NULL);
    Box__Test__V1__ChatResponse *m = NULL;
    box_error err;
    box_client_call *call = open_chat(c, NULL);
    box_channel_free(c);
    assert_int_equal(box_test_v1_echo_service_chat_receive(call, &m, &err), -1);
    assert_int_equal(err.reason, BOX_CANCELLED);
    box_client_free(call);
}

typedef struct free_test {
    int messages, dones;
    bool stop;
} free_test;

static void free_in_message(void *arg, box_client_call *call,
                            const Box__Test__V1__ExpandResponse *m)
{
    (void)m;
    free_test *t = arg;
    t->messages++;
    t->stop = true;
    box_client_free(call);
}

static void count_done(void *arg, box_client_call *call, const box_error *status,
                       const box_metadata *trailers)
{
    (void)call, (void)status, (void)trailers;
    free_test *t = arg;
    t->dones++;
}

static void a_call_freed_in_its_callback_hears_nothing_more(void **state)
{
    (void)state;
    static const box_test_v1_echo_service_expand_events events = {.message = free_in_message,
                                                                  .done = count_done};
    box_channel *c = echo_channel(&echo_shared, ECHO_TLS, NULL);
    Box__Test__V1__ExpandRequest request;
    free_test t = {0};
    box_client_call *call;
    box_error err;
    box__test__v1__expand_request__init(&request);
    request.count = 100;
    assert_int_equal(
        box_test_v1_echo_service_expand_start(c, NULL, &request, &events, &t, &call, &err), 0);
    echo_loop(c, &t.stop);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(echo_once(c, NULL, "x", 1, &err), 0);
        box_channel_dispatch(c);
    }
    assert_int_equal(t.messages, 1);
    assert_int_equal(t.dones, 0);
    box_channel_free(c);
}

/* --- servers that end ------------------------------------------------------------------------- */

typedef struct killer {
    echo_server *server;
    box_channel *watch;
} killer;

static void *kill_when_open(void *arg)
{
    const killer *k = arg;
    echo_wait(one_call_open, k->watch, "the call is open at the server");
    echo_server_kill(k->server);
    return NULL;
}

static void a_killed_server_is_unavailable_and_found_again(void **state)
{
    echo_over over = echo_over_of(state);
    echo_server own;
    echo_server_start(&own, NULL);
    box_channel *c = echo_channel(&own, over, NULL);
    killer k = {&own, echo_channel(&own, ECHO_CLEAR, NULL)};
    pthread_t id;
    box_error err;
    assert_int_equal(pthread_create(&id, NULL, kill_when_open, &k), 0);
    assert_int_equal(echo_sleep(c, NULL, 60000, &err), -1);
    assert_int_equal(box_error_code(&err), BOX_CODE_UNAVAILABLE);
    assert_int_equal(pthread_join(id, NULL), 0);
    assert_int_equal(echo_once(c, NULL, "x", 1, &err), -1);
    assert_int_equal(box_error_code(&err), BOX_CODE_UNAVAILABLE);
    echo_server_restart(&own);
    const box_client_options patient = {.wait_for_ready = true, .timeout_ns = 20 * BOX_SECOND};
    assert_int_equal(echo_once(c, &patient, "x", 1, &err), 0);
    box_channel_free(k.watch);
    box_channel_free(c);
    echo_server_stop(&own);
}

/* Nobody reads an idle connection: that it is dead is seen when the next call wants it. */
static void an_idle_channel_survives_a_restart(void **state)
{
    (void)state;
    echo_server own;
    box_error err;
    echo_server_start(&own, NULL);
    box_channel *c = echo_channel(&own, ECHO_TLS, NULL);
    for (int i = 0; i < 6; i++) {
        if (echo_once(c, NULL, "x", 1, &err) < 0)
            fail_msg("restart %d: %s", i, err.msg);
        if (i % 2 == 0)
            echo_server_kill(&own);
        else
            echo_server_end(&own);
        echo_server_restart(&own);
    }
    box_channel_free(c);
    echo_server_stop(&own);
}

static void *sleep_through_the_end(void *arg)
{
    box_error err;
    return (void *)(uintptr_t)(echo_sleep(arg, NULL, 500, &err) == 0);
}

static void a_server_that_ends_finishes_what_runs(void **state)
{
    (void)state;
    echo_server own;
    pthread_t id;
    void *ok;
    box_error err;
    echo_server_start(&own, NULL);
    box_channel *c = echo_channel(&own, ECHO_TLS, NULL);
    box_channel *watch = echo_channel(&own, ECHO_CLEAR, NULL);
    assert_int_equal(pthread_create(&id, NULL, sleep_through_the_end, c), 0);
    echo_wait(one_call_open, watch, "the call is open at the server");
    box_channel_free(watch);
    echo_server_end(&own);
    assert_int_equal(pthread_join(id, &ok), 0);
    assert_non_null(ok);
    assert_int_equal(echo_once(c, NULL, "x", 1, &err), -1);
    assert_int_equal(box_error_code(&err), BOX_CODE_UNAVAILABLE);
    box_channel_free(c);
    echo_server_stop(&own);
}

/* --- connections that do not come about ------------------------------------------------------- */

static int call_target(const char *target, const box_channel_options *o, box_error *err)
{
    box_channel *c;
    if (box_channel_new(target, o, &c, err) < 0)
        return -1;
    int rc = echo_once(c, NULL, "x", 1, err);
    box_channel_free(c);
    return rc;
}

static void a_server_of_another_ca_is_refused(void **state)
{
    (void)state;
    echo_server other;
    char target[96];
    box_error err;
    echo_server_start(&other, NULL);
    const box_channel_options o = {.ca_file = other.ca};
    assert_int_equal(call_target(echo_target(&echo_shared, ECHO_TLS, target), &o, &err), -1);
    assert_int_equal(box_error_code(&err), BOX_CODE_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "certificate"));
    echo_server_stop(&other);
}

static void a_certificate_for_another_name_is_refused(void **state)
{
    (void)state;
    char target[96];
    box_error err;
    const box_channel_options o = {.ca_file = echo_shared.ca, .server_name = "elsewhere.example"};
    assert_int_equal(call_target(echo_target(&echo_shared, ECHO_TLS, target), &o, &err), -1);
    assert_int_equal(box_error_code(&err), BOX_CODE_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "name"));
    const box_channel_options good = {.ca_file = echo_shared.ca, .server_name = "localhost"};
    assert_int_equal(call_target(target, &good, &err), 0);
}

static void a_ca_file_that_is_not_there_is_said_at_once(void **state)
{
    (void)state;
    box_channel *c;
    box_error err;
    const box_channel_options o = {.ca_file = "/nonexistent/ca.pem"};
    assert_int_equal(box_channel_new("dns:///127.0.0.1:1", &o, &c, &err), -1);
}

/* A port that was bound a moment ago and is closed now. */
static unsigned closed_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0 &&
                getsockname(fd, (struct sockaddr *)&a, &len) == 0);
    (void)close(fd);
    return ntohs(a.sin_port);
}

static void a_refused_connection_is_unavailable(void **state)
{
    (void)state;
    char target[96];
    box_error err;
    const box_channel_options o = {.plaintext = true};
    (void)snprintf(target, sizeof target, "dns:///127.0.0.1:%u", closed_port());
    assert_int_equal(call_target(target, &o, &err), -1);
    assert_int_equal(err.reason, BOX_RUNTIME_UNAVAILABLE);
    assert_int_equal(err.sys_errno, ECONNREFUSED);
    (void)snprintf(target, sizeof target, "unix:%s/none", echo_shared.folder);
    assert_int_equal(call_target(target, NULL, &err), -1);
    assert_int_equal(err.reason, BOX_RUNTIME_UNAVAILABLE);
    assert_int_equal(err.sys_errno, ENOENT);
}

/* The kernel takes the connection for a program that never looks. */
static void silent_server(const char *what, const box_channel_options *more)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    char target[96];
    box_error err;
    BOX_AUTO(box_closep) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 5) == 0 &&
                getsockname(fd, (struct sockaddr *)&a, &len) == 0);
    (void)snprintf(target, sizeof target, "dns:///127.0.0.1:%u", ntohs(a.sin_port));
    box_channel_options o = *more;
    o.connect_timeout_ms = 150;
    box_time start = box_now();
    assert_int_equal(call_target(target, &o, &err), -1);
    box_time took = box_now() - start;
    assert_int_equal(err.reason, BOX_RUNTIME_UNAVAILABLE);
    if (strstr(err.msg, "does not answer") == NULL)
        fail_msg("%s: %s", what, err.msg);
    assert_true(took >= 140 * BOX_MS && took < 10 * BOX_SECOND);
}

static void a_server_that_never_answers_ends_with_the_connect_timeout(void **state)
{
    (void)state;
    silent_server("clear", &(box_channel_options){.plaintext = true});
    silent_server("TLS", &(box_channel_options){.ca_file = echo_shared.ca});
}

static void a_server_that_is_no_grpc_server_is_unavailable(void **state)
{
    (void)state;
    char target[96];
    box_error err;
    const box_channel_options clear = {.plaintext = true, .connect_timeout_ms = 2000};
    (void)snprintf(target, sizeof target, "dns:///127.0.0.1:%u", echo_shared.tls_port);
    assert_int_equal(call_target(target, &clear, &err), -1);
    assert_int_equal(box_error_code(&err), BOX_CODE_UNAVAILABLE);
    const box_channel_options tls = {.ca_file = echo_shared.ca, .connect_timeout_ms = 2000};
    (void)snprintf(target, sizeof target, "dns:///127.0.0.1:%u", echo_shared.clear_port);
    assert_int_equal(call_target(target, &tls, &err), -1);
    assert_int_equal(box_error_code(&err), BOX_CODE_UNAVAILABLE);
}

/* --- tokens ----------------------------------------------------------------------------------- */

static const char token[] = "box_0123456789abcdef";

static void check_token(const echo_server *own, echo_over over)
{
    const box_channel_options with = {.token = token};
    const box_client_options wrong = {.token = "box_wrong"};
    const box_client_options right = {.token = token};
    box_error err;
    box_channel *bare = echo_channel(own, over, NULL);
    box_channel *sending = echo_channel(own, over, &with);
    assert_int_equal(echo_once(bare, NULL, "x", 1, &err), -1);
    assert_int_equal(err.reason, BOX_UNAUTHENTICATED);
    assert_int_equal(echo_once(bare, &right, "x", 1, &err), 0);
    assert_int_equal(echo_once(sending, NULL, "x", 1, &err), 0);
    assert_int_equal(echo_once(sending, &wrong, "x", 1, &err), -1);
    assert_int_equal(err.reason, BOX_UNAUTHENTICATED);
    box_channel_free(sending);
    box_channel_free(bare);
}

static void a_token_is_sent_over_tls_and_on_loopback(void **state)
{
    (void)state;
    echo_server own;
    echo_server_start(&own, (const char *const[]){"--token", token, NULL});
    check_token(&own, ECHO_TLS);
    check_token(&own, ECHO_CLEAR);
    echo_server_stop(&own);
}

/* 192.0.2.1 is nobody (RFC 5737): the refusal comes before any packet. */
static void a_token_never_goes_in_clear_text_to_another_host(void **state)
{
    (void)state;
    static const char target[] = "dns:///192.0.2.1:5410";
    const box_channel_options with = {.plaintext = true, .token = token};
    const box_channel_options without = {.plaintext = true, .connect_timeout_ms = 100};
    const box_client_options of_call = {.token = token};
    box_metadata by_hand = {0};
    box_channel *c;
    box_error err;
    assert_int_equal(box_channel_new(target, &with, &c, &err), -1);
    assert_int_equal(err.reason, BOX_VALIDATION);
    assert_int_equal(box_channel_new(target, &without, &c, &err), 0);
    assert_int_equal(echo_once(c, &of_call, "x", 1, &err), -1);
    assert_int_equal(err.reason, BOX_VALIDATION);
    assert_int_equal(box_metadata_add_text(&by_hand, "authorization", "Bearer x", &err), 0);
    const box_client_options hidden = {.metadata = &by_hand};
    assert_int_equal(echo_once(c, &hidden, "x", 1, &err), -1);
    assert_int_equal(err.reason, BOX_VALIDATION);
    box_metadata_done(&by_hand);
    box_channel_free(c);
}

static void the_environment_names_server_ca_and_token(void **state)
{
    (void)state;
    echo_server own;
    char target[96];
    char file[96];
    box_error err;
    echo_server_start(&own, (const char *const[]){"--token", token, NULL});
    (void)snprintf(file, sizeof file, "%s/token", own.folder);
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    (void)fprintf(f, "%s\n", token);
    (void)fclose(f);
    (void)setenv("BOX_ENDPOINT", echo_target(&own, ECHO_TLS, target), 1);
    (void)setenv("BOX_CA", own.ca, 1);
    (void)setenv("BOX_TOKEN_FILE", file, 1);
    assert_int_equal(call_target(NULL, NULL, &err), 0);
    /* A server that was named by hand is not given the environment's token. */
    const box_channel_options named = {.ca_file = own.ca};
    assert_int_equal(call_target(target, &named, &err), -1);
    assert_int_equal(err.reason, BOX_UNAUTHENTICATED);
    (void)setenv("BOX_TOKEN_FILE", "/nonexistent/token", 1);
    assert_int_equal(call_target(NULL, NULL, &err), -1);
    assert_int_equal(err.reason, BOX_UNAUTHENTICATED);
    (void)unsetenv("BOX_ENDPOINT");
    assert_int_equal(call_target(NULL, NULL, &err), -1);
    assert_int_equal(err.reason, BOX_VALIDATION);
    (void)unsetenv("BOX_CA");
    (void)unsetenv("BOX_TOKEN_FILE");
    echo_server_stop(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ECHO_TEST_EACH(another_thread_cancels_a_waiting_call),
        cmocka_unit_test(cancel_wakes_drivers_and_sleepers_alike),
        cmocka_unit_test(a_deadline_passes_while_the_server_sleeps),
        cmocka_unit_test(a_sooner_deadline_of_another_thread_is_kept),
        cmocka_unit_test(a_deadline_that_passed_before_waiting_is_noticed),
        cmocka_unit_test(freeing_a_call_that_runs_cancels_it),
        cmocka_unit_test(a_channel_may_be_freed_before_its_calls),
        cmocka_unit_test(a_call_freed_in_its_callback_hears_nothing_more),
        ECHO_TEST_EACH(a_killed_server_is_unavailable_and_found_again),
        cmocka_unit_test(an_idle_channel_survives_a_restart),
        cmocka_unit_test(a_server_that_ends_finishes_what_runs),
        cmocka_unit_test(a_server_of_another_ca_is_refused),
        cmocka_unit_test(a_certificate_for_another_name_is_refused),
        cmocka_unit_test(a_ca_file_that_is_not_there_is_said_at_once),
        cmocka_unit_test(a_refused_connection_is_unavailable),
        cmocka_unit_test(a_server_that_never_answers_ends_with_the_connect_timeout),
        cmocka_unit_test(a_server_that_is_no_grpc_server_is_unavailable),
        cmocka_unit_test(a_token_is_sent_over_tls_and_on_loopback),
        cmocka_unit_test(a_token_never_goes_in_clear_text_to_another_host),
        cmocka_unit_test(the_environment_names_server_ca_and_token),
    };
    return cmocka_run_group_tests(tests, echo_shared_start, echo_shared_stop);
}
