/* How a channel finds its server: waiting for it, several addresses, what the program hears of it,
 * and what may be sent there. */
#include "echo.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "echo.box.h"

enum { CHAT = 3 /* among the methods of EchoService */ };

static const box_client_options patient = {.wait_for_ready = true, .timeout_ns = 60 * BOX_SECOND};
/* Tries follow each other quickly enough for a test. */
static const box_channel_options quick = {.reconnect_first_ms = 20, .reconnect_max_ms = 50};

static box_channel *new_channel(const char *target, const box_channel_options *o)
{
    box_channel *c;
    box_error err;
    if (box_channel_new(target, o, &c, &err) < 0)
        fail_msg("%s: %s", target, err.msg);
    return c;
}

/* --- the states, as they were told ------------------------------------------------------------ */

typedef struct told {
    pthread_mutex_t lock;
    box_channel_state states[64];
    size_t n;
} told;

static void on_state(void *arg, box_channel_state state)
{
    told *t = arg;
    (void)pthread_mutex_lock(&t->lock);
    if (t->n < BOX_COUNT(t->states))
        t->states[t->n++] = state;
    (void)pthread_mutex_unlock(&t->lock);
}

static bool was_told(void *arg, box_channel_state state)
{
    told *t = arg;
    bool found = false;
    (void)pthread_mutex_lock(&t->lock);
    for (size_t i = 0; i < t->n; i++)
        found |= t->states[i] == state;
    (void)pthread_mutex_unlock(&t->lock);
    return found;
}

static bool has_failed(void *arg)
{
    return was_told(arg, BOX_CHANNEL_FAILED);
}

static void the_program_hears_of_each_change(void **state)
{
    (void)state;
    static const box_channel_state wanted[] = {BOX_CHANNEL_CONNECTING, BOX_CHANNEL_READY,
                                               BOX_CHANNEL_CLOSED};
    told t = {.lock = PTHREAD_MUTEX_INITIALIZER};
    const box_channel_options o = {.on_state = on_state, .on_state_arg = &t};
    box_channel *c = echo_channel(&echo_shared, ECHO_TLS, &o);
    box_error err;
    assert_int_equal(box_channel_get_state(c), BOX_CHANNEL_IDLE);
    assert_int_equal(echo_once(c, NULL, "x", 1, &err), 0);
    assert_int_equal(echo_once(c, NULL, "x", 1, &err), 0);
    assert_int_equal(box_channel_get_state(c), BOX_CHANNEL_READY);
    box_channel_free(c);
    assert_int_equal(t.n, BOX_COUNT(wanted));
    assert_memory_equal(t.states, wanted, sizeof wanted);
}

/* One thread is in the callback while another frees the channel. */
typedef struct slow_teller {
    box_channel *channel;
    atomic_bool is_inside, may_go_on, is_freed, came_after;
} slow_teller;

static void tell_slowly(void *arg, box_channel_state state)
{
    slow_teller *t = arg;
    atomic_store(&t->is_inside, true);
    while (state != BOX_CHANNEL_CLOSED && !atomic_load(&t->may_go_on))
        (void)poll(NULL, 0, 1);
    if (atomic_load(&t->is_freed))
        atomic_store(&t->came_after, true);
}

static bool is_inside(void *arg)
{
    return atomic_load(&((slow_teller *)arg)->is_inside);
}

static void *call_once(void *arg)
{
    slow_teller *t = arg;
    box_error err;
    BOX_IGNORE(echo_once(t->channel, NULL, "x", 1, &err)); /* it may be closed by then */
    return NULL;
}

static void *free_channel(void *arg)
{
    slow_teller *t = arg;
    box_channel_free(t->channel);
    atomic_store(&t->is_freed, true);
    return NULL;
}

static void nothing_is_told_once_the_channel_is_freed(void **state)
{
    (void)state;
    enum { LOOKS = 100 /* of a millisecond: long enough for a free that does not wait */ };
    slow_teller t = {0};
    pthread_t caller, freer;
    const box_channel_options o = {.on_state = tell_slowly, .on_state_arg = &t};
    t.channel = echo_channel(&echo_shared, ECHO_TLS, &o);
    assert_int_equal(pthread_create(&caller, NULL, call_once, &t), 0);
    echo_wait(is_inside, &t, "the callback");
    assert_int_equal(pthread_create(&freer, NULL, free_channel, &t), 0);
    for (int i = 0; i < LOOKS && !atomic_load(&t.is_freed); i++)
        (void)poll(NULL, 0, 1);
    atomic_store(&t.may_go_on, true);
    assert_int_equal(pthread_join(caller, NULL), 0);
    assert_int_equal(pthread_join(freer, NULL), 0);
    assert_false(atomic_load(&t.came_after));
}

/* --- waiting for a server --------------------------------------------------------------------- */

static void a_call_fails_at_once_while_no_server_can_be_reached(void **state)
{
    (void)state;
    const box_channel_options o = {.reconnect_first_ms = 3600 * 1000};
    box_channel *c = new_channel("unix:/nowhere/at/all", &o);
    box_error err;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(echo_once(c, NULL, "x", 1, &err), -1);
        assert_int_equal(err.reason, BOX_RUNTIME_UNAVAILABLE);
        assert_non_null(strstr(err.msg, "/nowhere/at/all"));
    }
    assert_int_equal(box_channel_get_state(c), BOX_CHANNEL_FAILED);
    box_channel_free(c);
}

static void a_patient_call_ends_with_its_deadline(void **state)
{
    (void)state;
    const box_client_options o = {.wait_for_ready = true, .timeout_ns = 100 * BOX_MS};
    box_channel *c = new_channel("unix:/nowhere/at/all", &quick);
    box_error err;
    assert_int_equal(echo_once(c, &o, "x", 1, &err), -1);
    assert_int_equal(err.reason, BOX_DEADLINE);
    box_channel_free(c);
}

typedef struct patient_caller {
    box_channel *channel;
    bool ok;
    box_error err;
} patient_caller;

static void *call_patiently(void *arg)
{
    patient_caller *p = arg;
    p->ok = echo_once(p->channel, &patient, "x", 1, &p->err) == 0;
    return NULL;
}

static void a_patient_call_waits_until_the_server_is_there(void **state)
{
    (void)state;
    echo_server own;
    echo_server_start(&own, NULL);
    told t = {.lock = PTHREAD_MUTEX_INITIALIZER};
    box_channel_options o = quick;
    o.on_state = on_state;
    o.on_state_arg = &t;
    box_channel *c = echo_channel(&own, ECHO_TLS, &o);
    echo_server_kill(&own);
    patient_caller callers[3];
    pthread_t ids[3];
    for (size_t i = 0; i < BOX_COUNT(ids); i++) {
        callers[i] = (patient_caller){.channel = c};
        assert_int_equal(pthread_create(&ids[i], NULL, call_patiently, &callers[i]), 0);
    }
    echo_wait(has_failed, &t, "the channel says that it failed");
    echo_server_restart(&own);
    for (size_t i = 0; i < BOX_COUNT(ids); i++) {
        assert_int_equal(pthread_join(ids[i], NULL), 0);
        if (!callers[i].ok)
            fail_msg("%s", callers[i].err.msg);
    }
    assert_int_equal(box_channel_get_state(c), BOX_CHANNEL_READY);
    box_channel_free(c);
    echo_server_stop(&own);
}

static void a_patient_call_can_be_cancelled(void **state)
{
    (void)state;
    box_channel *c = new_channel("unix:/nowhere/at/all", &quick);
    box_client_call *call;
    Box__Test__V1__ChatResponse *m = NULL;
    box_error err;
    const box_client_options o = {.wait_for_ready = true};
    assert_int_equal(box_test_v1_echo_service_chat(c, &o, &call, &err), 0);
    box_client_cancel(call);
    assert_int_equal(box_test_v1_echo_service_chat_receive(call, &m, &err), -1);
    assert_int_equal(err.reason, BOX_CANCELLED);
    box_client_free(call);
    box_channel_free(c);
}

static void on_done(void *arg, box_client_call *call, const box_error *status,
                    const box_metadata *trailers)
{
    bool *done = arg;
    (void)call;
    (void)trailers;
    assert_int_equal(status->reason, BOX_NONE);
    *done = true;
}

static void on_echo(void *arg, box_client_call *call, const Box__Test__V1__EchoResponse *m)
{
    (void)arg;
    (void)call;
    (void)m;
}

/* What it sends meanwhile is kept. */
static void a_loop_waits_for_a_server_as_well(void **state)
{
    (void)state;
    static const box_test_v1_echo_service_echo_events events = {.message = on_echo,
                                                                .done = on_done};
    echo_server own;
    echo_server_start(&own, NULL);
    box_channel *c = echo_channel(&own, ECHO_TLS, &quick);
    echo_server_kill(&own);
    Box__Test__V1__EchoRequest request;
    box_client_call *call;
    box_error err;
    bool done = false;
    box__test__v1__echo_request__init(&request);
    assert_int_equal(
        box_test_v1_echo_service_echo_start(c, &patient, &request, &events, &done, &call, &err), 0);
    while (box_channel_get_state(c) != BOX_CHANNEL_FAILED) {
        struct pollfd p;
        int timeout;
        box_channel_poll(c, &p.fd, &p.events, &timeout);
        assert_true(poll(&p, 1, timeout < 0 || timeout > 1000 ? 1000 : timeout) >= 0);
        box_channel_dispatch(c);
    }
    echo_server_restart(&own);
    echo_loop(c, &done);
    box_client_free(call);
    box_channel_free(c);
    echo_server_stop(&own);
}

static void only_so_many_calls_wait(void **state)
{
    (void)state;
    static const box_client_events nothing = {0};
    static box_client_call *calls[BOX_CLIENT_WAITING_CALLS];
    const box_client_options o = {.wait_for_ready = true};
    box_channel *c = new_channel("unix:/nowhere/at/all", NULL);
    const box_method *chat = &box_test_v1_echo_service.methods[CHAT];
    box_client_call *one_more;
    box_error err;
    for (size_t i = 0; i < BOX_COUNT(calls); i++)
        assert_int_equal(
            box_client_start_events(c, chat, &o, NULL, &nothing, NULL, NULL, &calls[i], &err), 0);
    assert_int_equal(
        box_client_start_events(c, chat, &o, NULL, &nothing, NULL, NULL, &one_more, &err), -1);
    assert_int_equal(err.reason, BOX_QUOTA);
    assert_string_equal(box_error_get(&err, "limit"), "waiting_calls");
    box_client_free(calls[0]);
    assert_int_equal(
        box_client_start_events(c, chat, &o, NULL, &nothing, NULL, NULL, &calls[0], &err), 0);
    box_channel_free(c);
    for (size_t i = 0; i < BOX_COUNT(calls); i++)
        box_client_free(calls[i]);
}

/* --- names and addresses ---------------------------------------------------------------------- */

static void a_name_is_asked_for_while_calls_keep_their_deadline(void **state)
{
    (void)state;
    char target[96];
    const box_channel_options o = {.plaintext = true};
    (void)snprintf(target, sizeof target, "dns:///localhost:%u", echo_shared.clear_port);
    box_channel *c = new_channel(target, &o);
    box_error err;
    if (echo_once(c, NULL, "x", 1, &err) < 0)
        fail_msg("%s", err.msg);
    box_channel_free(c);
    c = new_channel("dns:///no.such.name.invalid:1", &o);
    const box_client_options in_time = {.timeout_ns = 20 * BOX_SECOND};
    assert_int_equal(echo_once(c, &in_time, "x", 1, &err), -1);
    assert_true(err.reason == BOX_RUNTIME_UNAVAILABLE || err.reason == BOX_DEADLINE);
    box_channel_free(c);
    /* An answer that nobody waits for any more goes nowhere. */
    c = new_channel("dns:///no.such.name.invalid:1", &o);
    const box_client_options short_time = {.timeout_ns = 1};
    assert_int_equal(echo_once(c, &short_time, "x", 1, &err), -1);
    box_channel_free(c);
}

/* A port of the address that nobody listens at; held, so that nobody begins to. */
static int dead_port(unsigned *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &size), 0);
    *port = ntohs(a.sin_port);
    return fd;
}

static uint64_t finished(const echo_server *s)
{
    box_channel *c = echo_channel(s, ECHO_UNIX, NULL);
    Box__Test__V1__GetCountersResponse *counters = echo_counters(c);
    uint64_t n = counters->finished;
    box__test__v1__get_counters_response__free_unpacked(counters, NULL);
    box_channel_free(c);
    return n;
}

static void the_first_address_that_works_is_used(void **state)
{
    (void)state;
    char target[128];
    unsigned dead;
    int held = dead_port(&dead);
    echo_server second;
    echo_server_start(&second, NULL);
    uint64_t before = finished(&second);
    (void)snprintf(target, sizeof target, "ipv4:127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u", dead,
                   echo_shared.clear_port, second.clear_port);
    const box_channel_options o = {.plaintext = true};
    box_channel *c = new_channel(target, &o);
    box_error err;
    for (int i = 0; i < 10; i++)
        assert_int_equal(echo_once(c, NULL, "x", 1, &err), 0);
    assert_int_equal(finished(&second), before);
    box_channel_free(c);
    (void)close(held);
    echo_server_stop(&second);
}

/* Both servers work, one address does not; then one server goes, and no call is lost that the
 * other can take. */
static void round_robin_uses_all_addresses_that_work(void **state)
{
    (void)state;
    char target[128];
    unsigned dead;
    int held = dead_port(&dead);
    echo_server first;
    echo_server second;
    echo_server_start(&first, NULL);
    echo_server_start(&second, NULL);
    (void)snprintf(target, sizeof target, "ipv4:127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u", dead,
                   first.clear_port, second.clear_port);
    box_channel_options o = quick;
    o.plaintext = true;
    o.balance = BOX_ROUND_ROBIN;
    box_channel *c = new_channel(target, &o);
    box_error err;
    uint64_t calls[2] = {finished(&first), finished(&second)};
    bool both = false;
    for (int i = 0; i < 100 && !both; i++) { /* the second may take a while to connect */
        for (int n = 0; n < 40; n++)
            assert_int_equal(echo_once(c, &patient, "x", 1, &err), 0);
        both = finished(&first) > calls[0] + 10 && finished(&second) > calls[1] + 10;
    }
    assert_true(both);
    echo_server_end(&first);
    for (int i = 0; i < 20; i++) {
        if (echo_once(c, &patient, "x", 1, &err) < 0)
            fail_msg("%s", err.msg);
    }
    echo_server_restart(&first);
    calls[0] = finished(&first);
    for (int i = 0; i < 2000 && finished(&first) == calls[0]; i++) {
        assert_int_equal(echo_once(c, &patient, "x", 1, &err), 0);
        (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    assert_true(finished(&first) > calls[0]);
    box_channel_free(c);
    (void)close(held);
    echo_server_stop(&first);
    echo_server_stop(&second);
}

/* --- credentials and limits ------------------------------------------------------------------- */

typedef struct asked {
    const char *token; /* NULL: there is none */
    box_reason reason;
    unsigned times;
} asked;

static int give_token(void *arg, const char *path, box_metadata *out, box_error *err)
{
    asked *a = arg;
    a->times++;
    assert_string_equal(path, "/box.test.v1.EchoService/Echo");
    if (a->token == NULL)
        return box_fail(err, a->reason, "no token today");
    return box_metadata_add_text(out, "authorization", a->token, err);
}

static void credentials_are_asked_for_with_each_call(void **state)
{
    (void)state;
    echo_server own;
    echo_server_start(&own, (const char *const[]){"--token", "secret", NULL});
    box_channel *c = echo_channel(&own, ECHO_TLS, NULL);
    asked good = {.token = "Bearer secret"};
    box_client_options o = {.credentials = give_token, .credentials_arg = &good};
    box_error err;
    for (unsigned i = 1; i <= 3; i++) {
        if (echo_once(c, &o, "x", 1, &err) < 0)
            fail_msg("%s", err.msg);
        assert_int_equal(good.times, i);
    }
    /* Codes of the application's never come from here. */
    static const struct {
        box_reason given, wanted;
    } rows[] = {{BOX_UNAUTHENTICATED, BOX_UNAUTHENTICATED},
                {BOX_RUNTIME_UNAVAILABLE, BOX_RUNTIME_UNAVAILABLE},
                {BOX_FILE_NOT_FOUND, BOX_UNAUTHENTICATED},
                {BOX_VALIDATION, BOX_UNAUTHENTICATED}};
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        asked bad = {.reason = rows[i].given};
        o.credentials_arg = &bad;
        assert_int_equal(echo_once(c, &o, "x", 1, &err), -1);
        assert_int_equal(err.reason, rows[i].wanted);
        assert_string_equal(err.msg, "no token today");
    }
    box_channel_free(c);
    /* Never in clear text, not even to this machine. */
    c = echo_channel(&own, ECHO_CLEAR, NULL);
    asked unused = {.token = "Bearer secret"};
    o.credentials_arg = &unused;
    assert_int_equal(echo_once(c, &o, "x", 1, &err), -1);
    assert_int_equal(err.reason, BOX_UNAUTHENTICATED);
    assert_int_equal(unused.times, 0);
    box_channel_free(c);
    echo_server_stop(&own);
}

static void a_message_over_max_send_bytes_fails_here(void **state)
{
    (void)state;
    const box_channel_options o = {.max_send_bytes = 100};
    box_channel *c = echo_channel(&echo_shared, ECHO_UNIX, &o);
    char payload[200] = "";
    box_error err;
    assert_int_equal(echo_once(c, NULL, payload, sizeof payload, &err), -1);
    assert_int_equal(err.reason, BOX_MESSAGE_SIZE);
    assert_string_equal(box_error_get(&err, "max"), "100");
    assert_int_equal(echo_once(c, NULL, payload, 50, &err), 0);
    box_client_call *call;
    Box__Test__V1__CollectRequest request;
    Box__Test__V1__CollectResponse *response = NULL;
    box__test__v1__collect_request__init(&request);
    assert_int_equal(box_test_v1_echo_service_collect(c, NULL, &call, &err), 0);
    request.payload = (ProtobufCBinaryData){sizeof payload, (uint8_t *)payload};
    assert_int_equal(box_test_v1_echo_service_collect_send(call, &request, &err), -1);
    assert_int_equal(err.reason, BOX_MESSAGE_SIZE);
    request.payload.len = 10;
    assert_int_equal(box_test_v1_echo_service_collect_send(call, &request, &err), 0);
    assert_int_equal(box_test_v1_echo_service_collect_finish(call, &response, &err), 0);
    assert_int_equal(response->messages, 1);
    box__test__v1__collect_response__free_unpacked(response, NULL);
    box_client_free(call);
    box_channel_free(c);
}

/* More than fits into a stream's queue is too large, and not "produced too fast". */
static void the_largest_message_is_said_also_without_a_limit(void **state)
{
    (void)state;
    enum { LARGE = 64 * 1024 * 1024 };
    box_channel *c = echo_channel(&echo_shared, ECHO_UNIX, NULL);
    char *payload = box_alloc(LARGE);
    box_error err;
    assert_int_equal(echo_once(c, NULL, payload, LARGE, &err), -1);
    assert_int_equal(err.reason, BOX_MESSAGE_SIZE);
    assert_string_equal(box_error_get(&err, "max"), "67108859");
    assert_int_equal(echo_once(c, NULL, payload, 50, &err), 0);
    free(payload);
    box_channel_free(c);
}

static void a_call_may_have_its_own_limit(void **state)
{
    (void)state;
    const box_client_options o = {.max_message_bytes = 100};
    box_channel *c = echo_channel(&echo_shared, ECHO_TLS, NULL);
    char payload[200] = "";
    box_error err;
    assert_int_equal(echo_once(c, &o, payload, sizeof payload, &err), -1);
    assert_int_equal(err.reason, BOX_MESSAGE_SIZE);
    assert_int_equal(echo_once(c, NULL, payload, sizeof payload, &err), 0);
    box_channel_free(c);
}

/* A handler that calls on: what is left of its own call's time is the new call's. */
static void a_deadline_can_be_passed_on(void **state)
{
    (void)state;
    box_channel *c = echo_channel(&echo_shared, ECHO_TLS, NULL);
    box_error err;
    const box_client_options sooner = {.timeout_ns = 3600 * BOX_SECOND,
                                       .deadline_ns = box_time_add(box_now(), 50 * BOX_MS)};
    assert_int_equal(echo_sleep(c, &sooner, 60000, &err), -1);
    assert_int_equal(err.reason, BOX_DEADLINE);
    const box_client_options passed = {.deadline_ns = box_now() - BOX_SECOND};
    assert_int_equal(echo_once(c, &passed, "x", 1, &err), -1);
    assert_int_equal(err.reason, BOX_DEADLINE);
    box_channel_free(c);
}

static void odd_options_are_refused(void **state)
{
    (void)state;
    static const box_channel_options odd[] = {
        {.retry.max_attempts = 9}, {.balance = (box_balance)7}, {.user_agent = "line\nend"}};
    for (size_t i = 0; i < BOX_COUNT(odd); i++) {
        box_channel *c;
        box_error err;
        assert_int_equal(box_channel_new("unix:/x", &odd[i], &c, &err), -1);
        assert_int_equal(err.reason, BOX_VALIDATION);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_program_hears_of_each_change),
        cmocka_unit_test(nothing_is_told_once_the_channel_is_freed),
        cmocka_unit_test(a_call_fails_at_once_while_no_server_can_be_reached),
        cmocka_unit_test(a_patient_call_ends_with_its_deadline),
        cmocka_unit_test(a_patient_call_waits_until_the_server_is_there),
        cmocka_unit_test(a_patient_call_can_be_cancelled),
        cmocka_unit_test(a_loop_waits_for_a_server_as_well),
        cmocka_unit_test(only_so_many_calls_wait),
        cmocka_unit_test(a_name_is_asked_for_while_calls_keep_their_deadline),
        cmocka_unit_test(the_first_address_that_works_is_used),
        cmocka_unit_test(round_robin_uses_all_addresses_that_work),
        cmocka_unit_test(credentials_are_asked_for_with_each_call),
        cmocka_unit_test(a_message_over_max_send_bytes_fails_here),
        cmocka_unit_test(the_largest_message_is_said_also_without_a_limit),
        cmocka_unit_test(a_call_may_have_its_own_limit),
        cmocka_unit_test(a_deadline_can_be_passed_on),
        cmocka_unit_test(odd_options_are_refused),
    };
    return cmocka_run_group_tests(tests, echo_shared_start, echo_shared_stop);
}
