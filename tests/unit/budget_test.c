#include "base/budget.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"

static void a_share_without_a_budget_is_not_bounded(void **state)
{
    (void)state;
    box_share none = {0};
    box_error err = {0};
    assert_int_equal(box_share_take(NULL, SIZE_MAX, &err), 0);
    assert_int_equal(box_share_take(&none, SIZE_MAX, &err), 0);
    box_share_give(&none, SIZE_MAX);
}

static void one_holder_alone_gets_half(void **state)
{
    (void)state;
    box_budget budget = {.max_bytes = 1000};
    box_share share = {.budget = &budget};
    box_error err = {0};
    int taken = 0;
    while (box_share_take(&share, 10, &err) == 0)
        taken += 10;
    assert_int_equal(taken, 500);
    assert_int_equal(err.reason, BOX_MEMORY_BUDGET);
    assert_true(err.retry_ms > 0);
    box_share_give(&share, 500);
    assert_int_equal(atomic_load(&budget.used), 0);
}

static void greedy_holders_leave_something_to_others(void **state)
{
    (void)state;
    enum { HOLDERS = 9 };
    box_budget budget = {.max_bytes = 100000};
    box_share greedy[HOLDERS];
    box_error err = {0};
    for (int i = 0; i < HOLDERS; i++)
        greedy[i] = (box_share){.budget = &budget};
    for (int round = 0; round < 100000; round++)
        (void)!box_share_take(&greedy[round % HOLDERS], 10, &err);
    box_share honest = {.budget = &budget};
    assert_int_equal(box_share_take(&honest, 100000 / (HOLDERS + 2), &err), 0);
}

static void the_first_bytes_are_free_for_everyone(void **state)
{
    (void)state;
    box_budget budget = {.max_bytes = 100, .used = 100};
    box_share share = {.budget = &budget, .free_bytes = 50};
    box_error err = {0};
    assert_int_equal(box_share_take(&share, 50, &err), 0);
    assert_int_equal(atomic_load(&budget.used), 100);
    assert_int_equal(box_share_take(&share, 1, &err), -1);
    assert_int_equal(atomic_load(&share.used), 50);
    box_share_give(&share, 50);
    atomic_store(&budget.used, 0);
    assert_int_equal(box_share_take(&share, 60, &err), 0);
    assert_int_equal(atomic_load(&budget.used), 10);
    box_share_give(&share, 20);
    assert_int_equal(atomic_load(&budget.used), 0);
    assert_int_equal(atomic_load(&share.used), 40);
}

static void a_buffer_is_charged_for_what_it_allocates(void **state)
{
    (void)state;
    box_budget budget = {.max_bytes = 100000};
    box_share share = {.budget = &budget};
    box_error err = {0};
    box_buf b;
    char text[1000] = "";
    box_buf_init(&b, 1 << 20);
    b.share = &share;
    assert_int_equal(box_buf_add(&b, text, sizeof text, &err), 0);
    assert_int_equal(atomic_load(&share.used), b.capacity);
    size_t added = sizeof text;
    while (box_buf_add(&b, text, sizeof text, &err) == 0)
        added += sizeof text;
    assert_int_equal(err.reason, BOX_MEMORY_BUDGET);
    assert_int_equal(box_buf_len(&b), added); /* nothing of the last one */
    assert_int_equal(atomic_load(&share.used), b.capacity);
    box_buf_done(&b);
    assert_int_equal(atomic_load(&share.used), 0);
    assert_ptr_equal(b.share, &share);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_share_without_a_budget_is_not_bounded),
        cmocka_unit_test(one_holder_alone_gets_half),
        cmocka_unit_test(greedy_holders_leave_something_to_others),
        cmocka_unit_test(the_first_bytes_are_free_for_everyone),
        cmocka_unit_test(a_buffer_is_charged_for_what_it_allocates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
