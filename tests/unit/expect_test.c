#include "loop/expect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"

#define START (10 * BOX_SECOND)

/* A wait after something was sent; whether the loop would have looked first. */
static bool wait_us(box_expect *e, uint64_t us)
{
    e->wanted = true;
    bool polls = box_expect_begin(e, START);
    box_expect_end(e, START + us * BOX_US);
    return polls;
}

static void many_short_waits_make_it_look_first(void **state)
{
    (void)state;
    box_expect e = {0};
    for (int i = 0; i < BOX_POLL_AFTER; i++)
        assert_false(wait_us(&e, BOX_SHORT_WAIT_US));
    assert_true(wait_us(&e, BOX_SHORT_WAIT_US));
    assert_true(wait_us(&e, 1));
}

static void one_long_wait_ends_that(void **state)
{
    (void)state;
    box_expect e = {0};
    for (int i = 0; i < BOX_POLL_AFTER; i++)
        (void)wait_us(&e, 1);
    assert_true(wait_us(&e, BOX_SHORT_WAIT_US + 1));
    for (int i = 0; i < BOX_POLL_AFTER; i++)
        assert_false(wait_us(&e, 1));
    assert_true(wait_us(&e, 1));
}

static void so_does_looking_in_vain(void **state)
{
    (void)state;
    box_expect e = {0};
    for (int i = 0; i < BOX_POLL_AFTER; i++)
        (void)wait_us(&e, 1);
    for (int i = 0; i < 100; i++) { /* it came while it looked, so there was no wait to measure */
        e.wanted = true;
        assert_true(box_expect_begin(&e, START));
        box_expect_polled(&e, true);
        box_expect_end(&e, START + BOX_SECOND);
    }
    e.wanted = true;
    assert_true(box_expect_begin(&e, START));
    box_expect_polled(&e, false);
    assert_false(wait_us(&e, 1));
}

static void waits_for_nothing_sent_do_not_count(void **state)
{
    (void)state;
    box_expect e = {0};
    for (int i = 0; i < 3 * BOX_POLL_AFTER; i++) {
        assert_false(box_expect_begin(&e, START));
        box_expect_end(&e, START + 1);
    }
    assert_false(wait_us(&e, 1));
    for (int i = 1; i < BOX_POLL_AFTER; i++)
        (void)wait_us(&e, 1);
    assert_false(box_expect_begin(&e, START)); /* nothing was sent */
    box_expect_end(&e, START + BOX_SECOND);
    assert_true(wait_us(&e, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_short_waits_make_it_look_first),
        cmocka_unit_test(one_long_wait_ends_that),
        cmocka_unit_test(so_does_looking_in_vain),
        cmocka_unit_test(waits_for_nothing_sent_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
