#include "rpc/tally.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void each_key_has_its_own_limit(void **state)
{
    (void)state;
    box_tally *t = box_tally_new(2);
    assert_true(box_tally_add(t, "a", 1));
    assert_true(box_tally_add(t, "a", 1));
    assert_false(box_tally_add(t, "a", 1));
    assert_true(box_tally_add(t, "b", 1));
    box_tally_remove(t, "a", 1);
    assert_true(box_tally_add(t, "a", 1));
    assert_false(box_tally_add(t, "a", 1));
    box_tally_free(t);
}

static void without_a_limit_nothing_is_counted(void **state)
{
    (void)state;
    box_tally *t = box_tally_new(0);
    for (int i = 0; i < 1000; i++)
        assert_true(box_tally_add(t, "a", 1));
    box_tally_remove(t, "a", 1);
    box_tally_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_key_has_its_own_limit),
        cmocka_unit_test(without_a_limit_nothing_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
