#include "net/penalty.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"

#define START (100 * BOX_SECOND)

static uint64_t bad(box_penalty *p, const char *who, box_time now)
{
    return box_penalty_add(p, who, strlen(who), now) / BOX_SECOND;
}

static bool holds(box_penalty *p, const char *who, box_time now)
{
    return box_penalty_holds(p, who, strlen(who), now);
}

static void an_address_is_held_back_when_more_than_allowed_end_badly(void **state)
{
    (void)state;
    box_penalty *p = box_penalty_new(3);
    assert_false(holds(p, "a", START));
    for (int i = 0; i < 3; i++)
        assert_int_equal(bad(p, "a", START), 0);
    assert_false(holds(p, "a", START));
    assert_int_equal(bad(p, "a", START), BOX_HOLD_SECONDS);
    assert_true(holds(p, "a", START));
    assert_false(holds(p, "b", START));
    assert_int_equal(bad(p, "a", START), 0); /* of a connection it still had */
    box_penalty_free(p);
}

static void it_is_let_in_again_afterwards(void **state)
{
    (void)state;
    const box_time end = START + BOX_HOLD_SECONDS * BOX_SECOND;
    box_penalty *p = box_penalty_new(1);
    assert_int_equal(bad(p, "a", START), 0);
    assert_int_equal(bad(p, "a", START), BOX_HOLD_SECONDS);
    assert_true(holds(p, "a", end - 1));
    assert_false(holds(p, "a", end));
    box_penalty_free(p);
}

static void each_time_is_twice_the_last_up_to_a_limit(void **state)
{
    (void)state;
    box_time now = START;
    uint64_t expected = BOX_HOLD_SECONDS;
    box_penalty *p = box_penalty_new(1);
    assert_int_equal(bad(p, "a", now), 0);
    for (int i = 0; i < 12; i++) {
        uint64_t held = bad(p, "a", now);
        assert_int_equal(held, expected);
        now += held * BOX_SECOND;
        expected = 2 * expected < BOX_MAX_HOLD_SECONDS ? 2 * expected : BOX_MAX_HOLD_SECONDS;
        if (held == BOX_MAX_HOLD_SECONDS) /* its allowance came back meanwhile */
            assert_int_equal(bad(p, "a", now), 0);
    }
    box_penalty_free(p);
}

static void who_behaved_for_a_minute_begins_anew(void **state)
{
    (void)state;
    box_penalty *p = box_penalty_new(1);
    assert_int_equal(bad(p, "a", START), 0);
    assert_int_equal(bad(p, "a", START), BOX_HOLD_SECONDS);
    assert_int_equal(bad(p, "a", START + 10 * BOX_SECOND), 2 * BOX_HOLD_SECONDS);
    assert_int_equal(bad(p, "a", START + 73 * BOX_SECOND), 0);
    assert_int_equal(bad(p, "a", START + 73 * BOX_SECOND), BOX_HOLD_SECONDS);
    box_penalty_free(p);
}

static void few_that_end_badly_are_never_held_back(void **state)
{
    (void)state;
    box_penalty *p = box_penalty_new(60);
    for (unsigned i = 0; i < 10000; i++)
        assert_int_equal(bad(p, "a", START + i * BOX_SECOND), 0);
    box_penalty_free(p);
}

static void without_a_limit_nobody_is_held_back(void **state)
{
    (void)state;
    box_penalty *p = box_penalty_new(0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(bad(p, "a", START), 0);
    assert_false(holds(p, "a", START));
    box_penalty_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_is_held_back_when_more_than_allowed_end_badly),
        cmocka_unit_test(it_is_let_in_again_afterwards),
        cmocka_unit_test(each_time_is_twice_the_last_up_to_a_limit),
        cmocka_unit_test(who_behaved_for_a_minute_begins_anew),
        cmocka_unit_test(few_that_end_badly_are_never_held_back),
        cmocka_unit_test(without_a_limit_nobody_is_held_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
