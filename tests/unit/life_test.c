/* What time does to a connection (grpc-conformance.md 108, 109). */
#include "net/life.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/limits.h"

enum { MIDDLE = 100 /* the random number that neither adds nor takes away */ };

static const box_time start = 1000 * BOX_SECOND;

static box_life life_of(const box_net_life *rules)
{
    box_life l;
    box_life_start(&l, rules, start, MIDDLE);
    return l;
}

/* Nothing before, the action then, and nothing after it. */
static void assert_due(box_life *l, const box_net_life *rules, box_time at, box_life_action action)
{
    assert_int_equal(box_life_next(l, rules), at);
    assert_int_equal(box_life_due(l, rules, at - 1), BOX_LIFE_NONE);
    assert_int_equal(box_life_due(l, rules, at), action);
    assert_int_equal(box_life_due(l, rules, at), BOX_LIFE_NONE);
}

static void without_rules_nothing_ever_happens(void **state)
{
    (void)state;
    const box_net_life rules = {0};
    box_life l = life_of(&rules);
    assert_true(box_life_next(&l, &rules) == BOX_TIME_NEVER);
    assert_int_equal(box_life_due(&l, &rules, BOX_TIME_NEVER - 1), BOX_LIFE_NONE);
}

static const box_net_life keepalive = {.keepalive_time_ns = 60 * BOX_SECOND,
                                       .keepalive_timeout_ns = 20 * BOX_SECOND};

static void a_silent_peer_is_asked_and_then_given_up(void **state)
{
    (void)state;
    box_life l = life_of(&keepalive);
    assert_due(&l, &keepalive, start + 60 * BOX_SECOND, BOX_LIFE_PING);
    assert_int_equal(box_life_next(&l, &keepalive), start + 80 * BOX_SECOND);
    assert_int_equal(box_life_due(&l, &keepalive, start + 80 * BOX_SECOND), BOX_LIFE_DEAD);
}

static void any_byte_answers(void **state)
{
    (void)state;
    box_life l = life_of(&keepalive);
    box_life_heard(&l, start + 50 * BOX_SECOND); /* not silent */
    assert_int_equal(box_life_due(&l, &keepalive, start + 60 * BOX_SECOND), BOX_LIFE_NONE);
    assert_due(&l, &keepalive, start + 110 * BOX_SECOND, BOX_LIFE_PING);
    box_life_heard(&l, start + 111 * BOX_SECOND);
    assert_int_equal(box_life_due(&l, &keepalive, start + 130 * BOX_SECOND), BOX_LIFE_NONE);
    assert_due(&l, &keepalive, start + 171 * BOX_SECOND, BOX_LIFE_PING);
}

static const box_net_life age = {.max_age_ns = 1000 * BOX_SECOND,
                                 .max_age_grace_ns = 30 * BOX_SECOND};

static void an_old_connection_leaves_step_by_step(void **state)
{
    (void)state;
    box_life l = life_of(&age);
    box_time at = start + 1000 * BOX_SECOND;
    assert_due(&l, &age, at, BOX_LIFE_AGE);
    at += BOX_GOAWAY_WAIT_MS * BOX_MS;
    assert_due(&l, &age, at, BOX_LIFE_LEAVE);
    at += 30 * BOX_SECOND;
    assert_due(&l, &age, at, BOX_LIFE_CANCEL);
    at += BOX_CANCEL_WAIT_MS * BOX_MS;
    assert_int_equal(box_life_due(&l, &age, at), BOX_LIFE_DEAD);
}

static void without_grace_calls_may_go_on(void **state)
{
    (void)state;
    const box_net_life rules = {.max_age_ns = 1000 * BOX_SECOND};
    box_life l = life_of(&rules);
    assert_int_equal(box_life_due(&l, &rules, start + 1000 * BOX_SECOND), BOX_LIFE_AGE);
    assert_int_equal(box_life_due(&l, &rules, start + 1001 * BOX_SECOND), BOX_LIFE_LEAVE);
    assert_true(box_life_next(&l, &rules) == BOX_TIME_NEVER);
}

static void ages_differ_by_a_tenth_either_way(void **state)
{
    (void)state;
    box_time least = BOX_TIME_NEVER, most = 0;
    for (uint64_t random = 0; random < 1000; random++) {
        box_life l;
        box_life_start(&l, &age, start, random);
        least = l.age_at < least ? l.age_at : least;
        most = l.age_at > most ? l.age_at : most;
    }
    assert_int_equal(least, start + 900 * BOX_SECOND);
    assert_int_equal(most, start + 1100 * BOX_SECOND);
}

static void only_a_connection_without_calls_is_idle(void **state)
{
    (void)state;
    const box_net_life rules = {.max_idle_ns = 10 * BOX_SECOND};
    box_life l = life_of(&rules);
    l.idle_since = BOX_TIME_NEVER;
    assert_true(box_life_next(&l, &rules) == BOX_TIME_NEVER);
    l.idle_since = start + 5 * BOX_SECOND;
    assert_due(&l, &rules, start + 15 * BOX_SECOND, BOX_LIFE_IDLE);
    assert_int_equal(box_life_due(&l, &rules, start + 16 * BOX_SECOND), BOX_LIFE_LEAVE);
}

static void what_the_connection_sets_comes_first(void **state)
{
    (void)state;
    box_life l = life_of(&keepalive);
    l.stranger_at = start + 30 * BOX_SECOND;
    l.sweep_at = start + 5 * BOX_SECOND;
    assert_due(&l, &keepalive, start + 5 * BOX_SECOND, BOX_LIFE_SWEEP);
    assert_due(&l, &keepalive, start + 30 * BOX_SECOND, BOX_LIFE_STRANGER);
    l.stranger_at = BOX_TIME_NEVER;
    l.stall_at = start + 40 * BOX_SECOND;
    assert_int_equal(box_life_next(&l, &keepalive), start + 40 * BOX_SECOND);
    assert_int_equal(box_life_due(&l, &keepalive, start + 40 * BOX_SECOND), BOX_LIFE_DEAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_rules_nothing_ever_happens),
        cmocka_unit_test(a_silent_peer_is_asked_and_then_given_up),
        cmocka_unit_test(any_byte_answers),
        cmocka_unit_test(an_old_connection_leaves_step_by_step),
        cmocka_unit_test(without_grace_calls_may_go_on),
        cmocka_unit_test(ages_differ_by_a_tenth_either_way),
        cmocka_unit_test(only_a_connection_without_calls_is_idle),
        cmocka_unit_test(what_the_connection_sets_comes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
