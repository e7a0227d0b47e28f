#include "agent/managed.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/alloc.h"

static void the_table_has_an_end_and_its_places_come_back(void **state)
{
    (void)state;
    box_processes *t = box_alloc(sizeof *t);
    box_processes_init(t);
    for (uint64_t id = 1; id <= BOX_MAX_PROCESSES; id++)
        assert_non_null(box_processes_add(t, id));
    assert_null(box_processes_add(t, 1000));
    box_managed *m = box_processes_find(t, 7);
    assert_non_null(m);
    box_processes_remove(t, m);
    assert_null(box_processes_find(t, 7));
    assert_non_null(box_processes_add(t, 1000));
    assert_int_equal(box_processes_after(t, NULL)->id, 1);
    free(t);
}

static void pauses_double_up_to_the_longest(void **state)
{
    (void)state;
    assert_int_equal(box_restart_pause(10, 60, 0), 10);
    assert_int_equal(box_restart_pause(10, 60, 1), 20);
    assert_int_equal(box_restart_pause(10, 60, 2), 40);
    assert_int_equal(box_restart_pause(10, 60, 3), 60);
    assert_int_equal(box_restart_pause(10, 60, UINT32_MAX), 60);
    assert_int_equal(box_restart_pause(100, 60, 0), 60);
    assert_int_equal(box_restart_pause(1, UINT64_MAX, 80), UINT64_MAX);
}

static void a_long_run_begins_a_new_row(void **state)
{
    (void)state;
    assert_int_equal(box_restart_row(7, 0), 7);
    assert_int_equal(box_restart_row(7, 600 * BOX_SECOND - 1), 7);
    assert_int_equal(box_restart_row(7, 600 * BOX_SECOND), 0);
}

static void the_policy_says_whether_it_begins_again(void **state)
{
    (void)state;
    box_agent_manage m = {.restart = BOX_RESTART_NEVER};
    assert_false(box_restart_wanted(&m, 0, false));
    m.restart = BOX_RESTART_ON_FAILURE;
    assert_true(box_restart_wanted(&m, 0, false));
    assert_false(box_restart_wanted(&m, 0, true));
    m.restart = BOX_RESTART_ALWAYS;
    assert_true(box_restart_wanted(&m, 1000, true));
    m.max_restarts = 3;
    assert_true(box_restart_wanted(&m, 2, true));
    assert_false(box_restart_wanted(&m, 3, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_has_an_end_and_its_places_come_back),
        cmocka_unit_test(pauses_double_up_to_the_longest),
        cmocka_unit_test(a_long_run_begins_a_new_row),
        cmocka_unit_test(the_policy_says_whether_it_begins_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
