#include "agent/table.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/alloc.h"

static int make(void **state)
{
    box_commands *t = box_alloc(sizeof *t);
    box_commands_init(t);
    *state = t;
    return 0;
}

static int drop(void **state)
{
    free(*state);
    return 0;
}

static void the_table_has_an_end_and_its_places_come_back(void **state)
{
    box_commands *t = *state;
    box_command *some = NULL;
    for (uint64_t id = 1; id <= BOX_AGENT_MAX_COMMANDS; id++) {
        box_command *c = box_commands_add(t, id);
        assert_non_null(c);
        assert_int_equal(c->state, BOX_COMMAND_STARTING);
        assert_int_equal(c->slot, -1);
        some = id == 500 ? c : some;
    }
    assert_null(box_commands_add(t, 5000));
    some->pid = 77;
    box_commands_remove(t, some);
    assert_null(box_commands_find(t, 500));
    box_command *again = box_commands_add(t, 5000);
    assert_ptr_equal(again, some);
    assert_int_equal(again->pid, 0); /* nothing of the old one */
    assert_null(box_commands_add(t, 5001));
}

static void commands_are_found_by_id_pid_and_slot(void **state)
{
    box_commands *t = *state;
    box_command *a = box_commands_add(t, 10);
    box_command *b = box_commands_add(t, 11);
    a->pid = 100;
    b->reaper = 200;
    b->slot = 3;
    assert_ptr_equal(box_commands_find(t, 11), b);
    assert_null(box_commands_find(t, 12));
    assert_ptr_equal(box_commands_by_pid(t, 100), a);
    assert_ptr_equal(box_commands_by_pid(t, 200), b);
    assert_null(box_commands_by_pid(t, 300));
    assert_ptr_equal(box_commands_by_slot(t, 3), b);
    assert_null(box_commands_by_slot(t, 4));
}

static void slots_are_given_once(void **state)
{
    box_commands *t = *state;
    for (int i = 0; i < BOX_AGENT_MAX_STARTING; i++) {
        box_command *c = box_commands_add(t, (uint64_t)i);
        c->slot = box_commands_free_slot(t);
        assert_int_equal(c->slot, i);
    }
    assert_int_equal(box_commands_free_slot(t), -1);
    box_commands_find(t, 7)->slot = -1;
    assert_int_equal(box_commands_free_slot(t), 7);
}

static void only_what_boxd_does_not_know_done_counts_as_open(void **state)
{
    box_commands *t = *state;
    box_commands_add(t, 1)->state = BOX_COMMAND_ENDED;
    box_commands_add(t, 2)->state = BOX_COMMAND_KEPT;
    (void)box_commands_add(t, 3);
    assert_int_equal(box_commands_open(t), 2);
}

static void the_next_time_is_the_earliest_that_matters(void **state)
{
    box_commands *t = *state;
    assert_true(box_commands_next(t) == BOX_TIME_NEVER);
    box_command *a = box_commands_add(t, 1);
    a->state = BOX_COMMAND_RUNNING;
    assert_true(box_commands_next(t) == BOX_TIME_NEVER);
    a->deadline = 500;
    assert_true(box_commands_next(t) == 500);
    a->killing = true; /* it has fired */
    assert_true(box_commands_next(t) == BOX_TIME_NEVER);
    a->tick = 700;
    assert_true(box_commands_next(t) == 700);
    box_command *b = box_commands_add(t, 2);
    b->deadline = 600;
    assert_true(box_commands_next(t) == 600);
    b->state = BOX_COMMAND_ENDED;
    assert_true(box_commands_next(t) == 700);
}

static void walking_survives_removing_what_was_passed(void **state)
{
    box_commands *t = *state;
    for (uint64_t id = 1; id <= 5; id++)
        (void)box_commands_add(t, id);
    uint64_t sum = 0;
    box_command *next;
    for (box_command *c = box_commands_after(t, NULL); c != NULL; c = next) {
        next = box_commands_after(t, c);
        sum += c->id;
        box_commands_remove(t, c);
    }
    assert_int_equal(sum, 15);
    assert_null(box_commands_after(t, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_table_has_an_end_and_its_places_come_back, make, drop),
        cmocka_unit_test_setup_teardown(commands_are_found_by_id_pid_and_slot, make, drop),
        cmocka_unit_test_setup_teardown(slots_are_given_once, make, drop),
        cmocka_unit_test_setup_teardown(only_what_boxd_does_not_know_done_counts_as_open, make,
                                        drop),
        cmocka_unit_test_setup_teardown(the_next_time_is_the_earliest_that_matters, make, drop),
        cmocka_unit_test_setup_teardown(walking_survives_removing_what_was_passed, make, drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
