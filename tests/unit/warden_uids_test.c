#include "warden/uids.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void blocks_do_not_overlap_and_stay_in_the_range(void **state)
{
    (void)state;
    box_uids *u = box_uids_new(BOX_UIDS_COUNT - 2);
    box_error err;
    uint32_t seen[4];
    for (size_t i = 0; i < BOX_COUNT(seen); i++) {
        assert_int_equal(box_uids_take(u, &seen[i], &err), 0);
        assert_in_range(seen[i], BOX_UIDS_FIRST, 0x7fffffff - BOX_UIDS_BLOCK + 1);
        assert_int_equal((seen[i] - BOX_UIDS_FIRST) % BOX_UIDS_BLOCK, 0);
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(seen[i], seen[k]);
    }
    assert_int_equal(seen[2], BOX_UIDS_FIRST); /* it goes on at the beginning */
    box_uids_free(u);
}

static void a_claimed_block_is_not_given_out(void **state)
{
    (void)state;
    box_uids *u = box_uids_new(0);
    box_error err;
    uint32_t base;
    assert_true(box_uids_claim(u, BOX_UIDS_FIRST));
    assert_false(box_uids_claim(u, BOX_UIDS_FIRST));
    assert_false(box_uids_claim(u, BOX_UIDS_FIRST + 1));
    assert_false(box_uids_claim(u, 1000));
    assert_false(box_uids_claim(u, UINT32_MAX));
    assert_int_equal(box_uids_take(u, &base, &err), 0);
    assert_int_equal(base, BOX_UIDS_FIRST + BOX_UIDS_BLOCK);
    box_uids_free(u);
}

static void all_of_them_can_be_used_and_no_more(void **state)
{
    (void)state;
    box_uids *u = box_uids_new(12345);
    box_error err;
    uint32_t base = 0;
    for (int i = 0; i < BOX_UIDS_COUNT; i++)
        assert_int_equal(box_uids_take(u, &base, &err), 0);
    assert_int_equal(box_uids_take(u, &base, &err), -1);
    assert_int_equal(err.reason, BOX_QUOTA);
    box_uids_give(u, BOX_UIDS_FIRST + 7 * BOX_UIDS_BLOCK);
    assert_int_equal(box_uids_take(u, &base, &err), 0);
    assert_int_equal(base, BOX_UIDS_FIRST + 7 * BOX_UIDS_BLOCK);
    box_uids_free(u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_do_not_overlap_and_stay_in_the_range),
        cmocka_unit_test(a_claimed_block_is_not_given_out),
        cmocka_unit_test(all_of_them_can_be_used_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
