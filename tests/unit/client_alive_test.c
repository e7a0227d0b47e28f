#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "conn.h"

/* A connection of which only what keepalive looks at is there. */
typedef struct fixture {
    box_channel channel;
    box_conn conn;
} fixture;

static void ignore_closed(void *owner, box_h2_stream *s, const box_error *why,
                          const box_metadata *trailers)
{
    (void)owner;
    (void)s;
    (void)why;
    (void)trailers;
}

static void fixture_init(fixture *f, bool with_call)
{
    static const box_h2_events events = {.closed = ignore_closed};
    box_h2_stream *s;
    box_error err;
    *f = (fixture){0};
    f->channel.keepalive_ns = f->channel.keepalive_timeout_ns = 20 * BOX_SECOND;
    f->channel.keepalive_is_usual = true;
    f->conn.channel = &f->channel;
    f->conn.heard_at = 1000 * BOX_SECOND;
    f->conn.h2 = box_h2_new(&(box_h2_config){.authority = "x"}, &events, NULL);
    if (with_call)
        assert_int_equal(
            box_h2_request_start(f->conn.h2, "/a/b", NULL, 0, BOX_IDENTITY, NULL, &s, &err), 0);
}

static void fixture_done(fixture *f)
{
    box_h2_free(f->conn.h2);
}

static box_time seconds(const fixture *f)
{
    return box_conn_alive_by(&f->conn) / BOX_SECOND;
}

/* A PING at that second, and its answer a second later. */
static void ping(fixture *f, box_time at)
{
    box_error err;
    assert_int_equal(seconds(f), at);
    assert_int_equal(box_conn_check_alive(&f->conn, at * BOX_SECOND, &err), 0);
    assert_int_equal(seconds(f), at + 20);
    f->conn.is_asked = false;
    f->conn.heard_at = (at + 1) * BOX_SECOND;
}

static void a_silent_server_is_asked_and_then_given_up(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done)
    fixture f = {0};
    box_error err;
    fixture_init(&f, true);
    assert_int_equal(seconds(&f), 1020);
    assert_int_equal(box_conn_check_alive(&f.conn, 1020 * BOX_SECOND, &err), 0);
    assert_int_equal(seconds(&f), 1040);
    assert_int_equal(box_conn_check_alive(&f.conn, 1040 * BOX_SECOND, &err), -1);
    assert_int_equal(err.reason, BOX_RUNTIME_UNAVAILABLE);
}

/* No stock server takes that for abuse (gRFC A8: at most one in 5 minutes without data). */
static void a_server_that_only_answers_pings_is_asked_seldom(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done)
    fixture f = {0};
    fixture_init(&f, true);
    ping(&f, 1020);
    ping(&f, 1020 + 301);
    ping(&f, 1020 + 2 * 301);
}

static void a_server_that_answers_calls_is_asked_again(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done)
    fixture f = {0};
    fixture_init(&f, true);
    ping(&f, 1020);
    f.conn.is_answering = true;
    f.conn.heard_at = 1030 * BOX_SECOND;
    ping(&f, 1050);
}

static void a_program_that_says_how_often_is_obeyed(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done)
    fixture f = {0};
    fixture_init(&f, true);
    f.channel.keepalive_is_usual = false;
    f.channel.keepalive_ns = 10 * BOX_SECOND;
    ping(&f, 1010);
    ping(&f, 1021);
    f.channel.keepalive_ns = BOX_TIME_NEVER;
    assert_int_equal(box_conn_alive_by(&f.conn), BOX_TIME_NEVER);
}

static void a_server_that_complains_for_ever_is_asked_no_more(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done)
    fixture f = {0};
    fixture_init(&f, true);
    box_conn_ask_less(&f.conn);
    assert_int_equal(seconds(&f), 1040);
    for (int i = 0; i < 100; i++)
        box_conn_ask_less(&f.conn);
    assert_int_equal(box_conn_alive_by(&f.conn), BOX_TIME_NEVER);
}

static void without_calls_nobody_asks_unless_told_to(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done)
    fixture f = {0};
    fixture_init(&f, false);
    assert_int_equal(box_conn_alive_by(&f.conn), BOX_TIME_NEVER);
    f.channel.keepalive_without_calls = true;
    assert_int_equal(seconds(&f), 1020);
}

/* A PING that is answered early is followed by one that may be due before the answer was. */
static void an_answered_ping_moves_the_next_look(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done)
    fixture f = {0};
    fixture_init(&f, true);
    f.channel.keepalive_is_usual = false;
    f.channel.keepalive_ns = 10 * BOX_SECOND;
    f.conn.pinged_at = box_now();
    f.conn.is_asked = true;
    f.channel.soonest = box_conn_alive_by(&f.conn);
    box_conn_heard(&f.conn);
    assert_true(box_conn_alive_by(&f.conn) < f.conn.pinged_at + 20 * BOX_SECOND);
    assert_true(f.channel.soonest <= box_conn_alive_by(&f.conn));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_server_is_asked_and_then_given_up),
        cmocka_unit_test(a_server_that_only_answers_pings_is_asked_seldom),
        cmocka_unit_test(a_server_that_answers_calls_is_asked_again),
        cmocka_unit_test(a_program_that_says_how_often_is_obeyed),
        cmocka_unit_test(a_server_that_complains_for_ever_is_asked_no_more),
        cmocka_unit_test(without_calls_nobody_asks_unless_told_to),
        cmocka_unit_test(an_answered_ping_moves_the_next_look),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
