#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"
#include "grpc/health/v1/health.pb-c.h"
#include "rpc/call_h2.h"

/* A client and a server core joined in memory; the test moves the bytes. */
typedef struct fixture {
    box_loops *loops;
    box_rpc rpc;
    box_rpc_connection *server;
    box_h2 *client;
    bool output_noted;
    /* server's side */
    box_call *call; /* a reference, when a handler keeps it */
    int handler_calls;
    bool answers; /* the unary handler, before it returns */
    int ends;
    box_reason ended_with;
    bool refuse;
    int releases;
    /* client's side */
    int closed;
    box_error status;
    int messages;
} fixture;

static int admit(void *arg, const box_peer *peer, const char *path, const box_metadata *metadata,
                 const void **identity, box_error *err)
{
    fixture *f = arg;
    (void)path;
    assert_non_null(peer->address);
    if (f->refuse)
        return box_fail(err, BOX_UNAUTHENTICATED, "no");
    *identity = box_metadata_get(metadata, "who");
    if (*identity != NULL)
        *identity = f;
    return 0;
}

static int check_again(void *arg, const void *identity, box_error *err)
{
    fixture *f = arg;
    assert_ptr_equal(identity, f);
    return f->refuse ? box_fail(err, BOX_UNAUTHENTICATED, "revoked") : 0;
}

static void release(void *arg, const void *identity)
{
    fixture *f = arg;
    assert_ptr_equal(identity, f);
    f->releases++;
}

static void on_end(box_call *call, void *arg, const box_error *why)
{
    (void)call;
    fixture *f = arg;
    f->ends++;
    f->ended_with = why->reason;
}

/* Keeps the call, open unless f->answers. */
static int keep(const void *handlers, box_call *call, const ProtobufCMessage *request,
                box_error *err)
{
    (void)handlers, (void)request, (void)err;
    fixture *f = box_call_context(call);
    f->handler_calls++;
    f->call = box_call_ref(call);
    box_call_on_end(call, on_end, f);
    if (f->answers)
        box_call_finish(call, NULL);
    return 0;
}

static int keep_message(const void *handlers, box_call *call, const ProtobufCMessage *message,
                        box_error *err)
{
    (void)handlers, (void)message, (void)err;
    fixture *f = box_call_context(call);
    f->handler_calls++;
    return 0;
}

static int keep_half_close(const void *handlers, box_call *call, box_error *err)
{
    (void)handlers, (void)call, (void)err;
    return 0;
}

static const box_method methods[] = {
    {.path = "/t.S/Unary",
     .name = "Unary",
     .kind = BOX_UNARY,
     .request = &grpc__health__v1__health_check_request__descriptor,
     .response = &grpc__health__v1__health_check_response__descriptor,
     .start = keep},
    {.path = "/t.S/Bidi",
     .name = "Bidi",
     .kind = BOX_BIDI,
     .request = &grpc__health__v1__health_check_request__descriptor,
     .response = &grpc__health__v1__health_check_response__descriptor,
     .start = keep,
     .message = keep_message,
     .half_close = keep_half_close},
};
static const box_service_type type = {.name = "t.S", .methods = methods, .n_methods = 2};

static void client_message(void *owner, box_h2_stream *s, const uint8_t *data, size_t len)
{
    (void)s, (void)data, (void)len;
    ((fixture *)owner)->messages++;
}

static void client_closed(void *owner, box_h2_stream *s, const box_error *why,
                          const box_metadata *trailers)
{
    (void)s, (void)trailers;
    fixture *f = owner;
    f->closed++;
    f->status = *why;
}

static const box_h2_events client_events = {.message = client_message, .closed = client_closed};

static void note_output(void *arg)
{
    ((fixture *)arg)->output_noted = true;
}

static const box_peer peer = {.is_unix = true, .address = "unix"};

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    box_error err;
    assert_int_equal(box_loops_new(1, 1, &f->loops, &err), 0);
    box_service *service = calloc(1, sizeof *service);
    *service = (box_service){.type = &type, .handlers = &type, .context = f};
    f->rpc.services = service;
    f->rpc.n_services = 1;
    f->rpc.admit = (box_admit){.arg = f, .admit = admit, .check = check_again, .release = release};
    f->server = box_rpc_connection_new(&f->rpc, box_loops_get(f->loops, 0), &peer, note_output, f);
    const box_h2_config config = {.scheme = "http", .authority = "t", .user_agent = "grpc-test"};
    f->client = box_h2_new(&config, &client_events, f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    box_rpc_connection_end(f->server);
    if (f->call != NULL)
        box_call_unref(f->call);
    box_h2_free(f->client);
    box_loops_free(f->loops);
    box_tally_free(f->rpc.tenants);
    assert_int_equal(f->rpc.calls_open, 0);
    free((void *)(uintptr_t)f->rpc.services);
    free(f);
    return 0;
}

static bool move(box_h2 *from, box_h2 *to)
{
    BOX_AUTO(box_buf_done) box_buf bytes = {0};
    box_error err;
    assert_int_equal(box_h2_send(from, &bytes, 1 << 20, &err), 0);
    if (box_buf_len(&bytes) == 0)
        return false;
    assert_int_equal(box_h2_receive(to, box_buf_data(&bytes), box_buf_len(&bytes), &err), 0);
    return true;
}

static void pump(fixture *f)
{
    box_h2 *server = box_rpc_connection_h2(f->server);
    bool any = true;
    while (any) {
        any = move(f->client, server);
        any |= move(server, f->client);
    }
}

static box_h2_stream *request(fixture *f, const char *path, uint64_t timeout_ns, bool whole)
{
    box_h2_stream *s;
    box_error err;
    box_metadata md = {0};
    assert_int_equal(box_metadata_add_text(&md, "who", "me", &err), 0);
    assert_int_equal(
        box_h2_request_start(f->client, path, &md, timeout_ns, BOX_IDENTITY, NULL, &s, &err), 0);
    box_metadata_done(&md);
    if (whole) {
        box_h2_message(s, NULL, 0);
        box_h2_half_close(s);
    }
    pump(f);
    return s;
}

static void an_unknown_method_is_unimplemented_and_named(void **state)
{
    fixture *f = *state;
    f->refuse = true; /* also for callers nobody knows */
    (void)request(f, "/t.S/None", 0, true);
    assert_int_equal(f->closed, 1);
    assert_int_equal(box_error_code(&f->status), BOX_CODE_UNIMPLEMENTED);
    assert_non_null(strstr(f->status.msg, "/t.S/None"));
    assert_int_equal(f->rpc.calls_total, 0);
}

static void a_refused_caller_never_reaches_the_handler(void **state)
{
    fixture *f = *state;
    f->refuse = true;
    (void)request(f, "/t.S/Bidi", 0, false); /* answered before any body */
    assert_int_equal(f->closed, 1);
    assert_int_equal(f->status.reason, BOX_UNAUTHENTICATED);
    assert_int_equal(f->handler_calls, 0);
}

static void a_handler_may_answer_later(void **state)
{
    fixture *f = *state;
    (void)request(f, "/t.S/Unary", 0, true);
    assert_int_equal(f->handler_calls, 1);
    assert_int_equal(f->rpc.calls_open, 1);
    assert_ptr_equal(box_call_identity(f->call), f);
    Grpc__Health__V1__HealthCheckResponse answer = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    f->output_noted = false;
    box_call_send(f->call, &answer.base);
    assert_true(f->output_noted);
    box_call_finish(f->call, NULL);
    assert_int_equal(f->ends, 1);
    assert_int_equal(f->ended_with, BOX_NONE);
    pump(f);
    assert_int_equal(f->messages, 1);
    assert_int_equal(f->closed, 1);
    assert_int_equal(f->status.reason, BOX_NONE);
    assert_int_equal(f->rpc.calls_open, 0);
    box_call_finish(f->call, NULL); /* harmless */
    assert_int_equal(f->releases, 0);
    box_call_unref(f->call);
    f->call = NULL;
    assert_int_equal(f->releases, 1);
}

static void only_an_answer_given_at_once_is_quick(void **state)
{
    fixture *f = *state;
    assert_false(box_rpc_connection_is_quick(f->server));
    f->answers = true;
    (void)request(f, "/t.S/Unary", 0, true);
    assert_true(box_rpc_connection_is_quick(f->server));
    box_call_unref(f->call);
    f->call = NULL;
    f->answers = false;
    (void)request(f, "/t.S/Unary", 0, true);
    assert_false(box_rpc_connection_is_quick(f->server)); /* it is open */
    box_call_finish(f->call, NULL);
    pump(f);
    assert_false(box_rpc_connection_is_quick(f->server));
    box_call_unref(f->call);
    f->call = NULL;
}

static void a_stream_whose_first_message_does_not_come_ends(void **state)
{
    fixture *f = *state;
    const box_time begun = 100 * BOX_SECOND;
    const box_time late = begun + BOX_REQUEST_PAUSE_SECONDS * BOX_SECOND;
    box_h2_set_time(box_rpc_connection_h2(f->server), begun);
    (void)request(f, "/t.S/Bidi", 0, false);
    assert_true(box_rpc_connection_sweep(f->server, late - 1));
    assert_int_equal(f->ends, 0);
    assert_true(box_rpc_connection_sweep(f->server, late));
    assert_int_equal(f->ended_with, BOX_DEADLINE);
    pump(f);
    assert_int_equal(f->closed, 1);
    assert_int_equal(f->status.reason, BOX_DEADLINE);
}

static void one_that_said_something_may_be_silent_for_long(void **state)
{
    fixture *f = *state;
    const box_time begun = 100 * BOX_SECOND;
    box_h2_set_time(box_rpc_connection_h2(f->server), begun);
    box_h2_message(request(f, "/t.S/Bidi", 0, false), NULL, 0);
    pump(f);
    assert_true(box_rpc_connection_sweep(f->server, begun + 24 * 3600 * BOX_SECOND));
    assert_int_equal(f->ends, 0);
}

static void a_callers_cancel_reaches_the_handler(void **state)
{
    fixture *f = *state;
    box_h2_stream *s = request(f, "/t.S/Bidi", 0, false);
    box_error why;
    (void)box_fail(&why, BOX_CANCELLED, "enough");
    box_h2_cancel(s, &why);
    pump(f);
    assert_int_equal(f->ends, 1);
    assert_int_equal(f->ended_with, BOX_CANCELLED);
    assert_false(box_call_is_open(f->call));
}

static void a_lost_connection_cancels_and_a_kept_call_outlives_it(void **state)
{
    fixture *f = *state;
    (void)request(f, "/t.S/Bidi", 0, false);
    box_rpc_connection_end(f->server);
    f->server = NULL;
    assert_int_equal(f->ends, 1);
    assert_int_equal(f->ended_with, BOX_CANCELLED);
    Grpc__Health__V1__HealthCheckResponse answer = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    box_call_send(f->call, &answer.base); /* a worker's late answer */
    box_call_finish(f->call, NULL);
    assert_false(box_call_is_writable(f->call));
}

static void stop_loops(void *arg)
{
    fixture *f = arg;
    if (f->ends == 0)
        box_loop_post(box_loops_get(f->loops, 0), stop_loops, f);
    else
        box_loops_stop(f->loops);
}

static void request_with_deadline(void *arg)
{
    fixture *f = arg;
    (void)request(f, "/t.S/Bidi", 1, false); /* one nanosecond */
    box_loop_post(box_loops_get(f->loops, 0), stop_loops, f);
}

static void a_passed_deadline_ends_the_call_on_both_sides(void **state)
{
    fixture *f = *state;
    box_error err;
    box_loop_post(box_loops_get(f->loops, 0), request_with_deadline, f);
    assert_int_equal(box_loops_run(f->loops, &err), 0);
    assert_int_equal(f->ended_with, BOX_DEADLINE);
    pump(f);
    assert_int_equal(f->closed, 1);
    assert_int_equal(f->status.reason, BOX_DEADLINE);
}

static void a_passed_deadline_resets_a_stream_nobody_reads(void **state)
{
    fixture *f = *state;
    box_h2_stream *s = request(f, "/t.S/Bidi", 0, false);
    box_h2_pause(s, true);
    Grpc__Health__V1__HealthCheckResponse answer = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    answer.status = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING;
    while (box_call_is_writable(f->call))
        box_call_send(f->call, &answer.base);
    box_error why;
    (void)box_fail(&why, BOX_DEADLINE, "late");
    box_rpc_connection_end_calls(f->server, &why);
    assert_int_equal(f->ends, 1);
    assert_int_equal(f->ended_with, BOX_DEADLINE);
    assert_int_equal(f->rpc.calls_open, 0);
    box_h2_pause(s, false);
    pump(f);
    assert_int_equal(f->closed, 1);
    assert_int_not_equal(f->status.reason, BOX_NONE);
}

static void open_calls_are_asked_about_again(void **state)
{
    fixture *f = *state;
    (void)request(f, "/t.S/Bidi", 0, false);
    box_rpc_connection_recheck(f->server);
    assert_int_equal(f->ends, 0);
    f->refuse = true; /* the token was revoked */
    box_rpc_connection_recheck(f->server);
    assert_int_equal(f->ends, 1);
    assert_int_equal(f->ended_with, BOX_UNAUTHENTICATED);
    pump(f);
    assert_int_equal(f->closed, 1);
    assert_int_equal(f->status.reason, BOX_UNAUTHENTICATED);
}

static void calls_whose_handlers_do_not_let_go_are_counted(void **state)
{
    fixture *f = *state;
    box_call *kept[BOX_MAX_STREAMS_PER_CONNECTION];
    for (int i = 0; i < BOX_MAX_STREAMS_PER_CONNECTION; i++) {
        (void)request(f, "/t.S/Unary", 0, true);
        box_call_finish(f->call, NULL);
        kept[i] = f->call;
        f->call = NULL;
        pump(f);
    }
    f->closed = 0;
    (void)request(f, "/t.S/Bidi", 0, false);
    assert_int_equal(f->closed, 1);
    assert_int_equal(f->status.reason, BOX_RATE_LIMIT);
    for (int i = 0; i < BOX_MAX_STREAMS_PER_CONNECTION; i++)
        box_call_unref(kept[i]);
    (void)request(f, "/t.S/Bidi", 0, false);
    assert_int_equal(f->closed, 1); /* this one is open */
}

static const char *tenant_of(const void *identity)
{
    (void)identity;
    return "ours";
}

/* TCP: other hosts' connections are counted, this one's own are not. */
static void a_connection_takes_a_place_of_its_tenant(void **state)
{
    fixture *f = *state;
    const box_peer other_host = {.address = "192.0.2.1:1"};
    f->rpc.admit.tenant = tenant_of;
    f->rpc.tenants = box_tally_new(1);
    box_rpc_connection_end(f->server);
    f->server =
        box_rpc_connection_new(&f->rpc, box_loops_get(f->loops, 0), &other_host, note_output, f);
    assert_true(box_tally_add(f->rpc.tenants, "ours", 4)); /* another connection's */
    (void)request(f, "/t.S/Bidi", 0, false);
    assert_int_equal(f->closed, 1);
    assert_int_equal(f->status.reason, BOX_QUOTA);
    assert_string_equal(box_error_get(&f->status, "limit"), "connections_per_tenant");
    assert_string_equal(box_error_get(&f->status, "max"), "1");
    assert_string_equal(box_error_get(&f->status, "used"), "1");
    assert_int_equal(f->handler_calls, 0);
    assert_int_equal(f->releases, 1);
    assert_false(box_rpc_connection_is_known(f->server));

    box_tally_remove(f->rpc.tenants, "ours", 4);
    (void)request(f, "/t.S/Bidi", 0, false);
    box_call_unref(f->call);
    (void)request(f, "/t.S/Bidi", 0, false); /* the place is the connection's */
    assert_int_equal(f->closed, 1);
    assert_false(box_tally_add(f->rpc.tenants, "ours", 4));
    box_rpc_connection_end(f->server);
    assert_true(box_tally_add(f->rpc.tenants, "ours", 4));
    f->server = NULL;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_unknown_method_is_unimplemented_and_named),
        TEST(a_refused_caller_never_reaches_the_handler),
        TEST(a_handler_may_answer_later),
        TEST(only_an_answer_given_at_once_is_quick),
        TEST(a_stream_whose_first_message_does_not_come_ends),
        TEST(one_that_said_something_may_be_silent_for_long),
        TEST(a_callers_cancel_reaches_the_handler),
        TEST(a_lost_connection_cancels_and_a_kept_call_outlives_it),
        TEST(a_passed_deadline_ends_the_call_on_both_sides),
        TEST(a_passed_deadline_resets_a_stream_nobody_reads),
        TEST(open_calls_are_asked_about_again),
        TEST(calls_whose_handlers_do_not_let_go_are_counted),
        TEST(a_connection_takes_a_place_of_its_tenant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
