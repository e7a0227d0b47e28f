#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "retry.h"

static const box_pauses pauses = {
    .first_ns = BOX_SECOND, .max_ns = 120 * BOX_SECOND, .factor_percent = 160};

/* random values at which a pause is 20 % shorter, as it is, 20 % longer */
enum { SHORTEST = 0, EXACT = 200, LONGEST = 400 };

static void pauses_grow_up_to_the_longest(void **state)
{
    (void)state;
    assert_int_equal(box_pause_ns(&pauses, 1, EXACT), BOX_SECOND);
    assert_int_equal(box_pause_ns(&pauses, 2, EXACT), 1600 * BOX_MS);
    assert_int_equal(box_pause_ns(&pauses, 3, EXACT), 2560 * BOX_MS);
    assert_int_equal(box_pause_ns(&pauses, 12, EXACT), 120 * BOX_SECOND);
    assert_int_equal(box_pause_ns(&pauses, UINT32_MAX, EXACT), 120 * BOX_SECOND);
}

static void pauses_are_spread(void **state)
{
    (void)state;
    assert_int_equal(box_pause_ns(&pauses, 1, SHORTEST), 800 * BOX_MS);
    assert_int_equal(box_pause_ns(&pauses, 1, LONGEST), 1200 * BOX_MS);
    for (uint32_t random = 0; random < 5000; random++) {
        uint64_t ns = box_pause_ns(&pauses, 1, random * 7919);
        assert_in_range(ns, 800 * BOX_MS, 1200 * BOX_MS);
    }
}

static box_retry retry_of(const box_retry_policy *policy)
{
    box_retry r;
    box_error err;
    assert_int_equal(box_retry_init(&r, policy, &err), 0);
    return r;
}

/* Would there be another attempt after this one? */
static bool again(box_retry *r, box_attempts *a, box_code code, const char *pushback, uint64_t *ns)
{
    a->made++;
    return box_retry_again(r, a, code, pushback, EXACT, ns);
}

static void without_a_policy_nothing_is_retried(void **state)
{
    (void)state;
    box_retry r = retry_of(&(box_retry_policy){0});
    box_attempts a = {0};
    uint64_t ns;
    assert_false(again(&r, &a, BOX_CODE_UNAVAILABLE, NULL, &ns));
    assert_false(again(&r, &a, BOX_CODE_UNAVAILABLE, "5", &ns));
}

static void named_codes_are_retried_up_to_the_limit(void **state)
{
    (void)state;
    box_retry r = retry_of(&(box_retry_policy){.max_attempts = 3, .first_pause_ms = 10});
    box_attempts a = {0};
    uint64_t ns;
    assert_true(again(&r, &a, BOX_CODE_UNAVAILABLE, NULL, &ns));
    assert_int_equal(ns, 10 * BOX_MS);
    assert_true(again(&r, &a, BOX_CODE_UNAVAILABLE, NULL, &ns));
    assert_int_equal(ns, 20 * BOX_MS);
    assert_false(again(&r, &a, BOX_CODE_UNAVAILABLE, NULL, &ns));
    a = (box_attempts){0};
    assert_false(again(&r, &a, BOX_CODE_INTERNAL, NULL, &ns));
    a = (box_attempts){0};
    r = retry_of(&(box_retry_policy){.max_attempts = 3, .codes = 1u << BOX_CODE_INTERNAL});
    assert_false(again(&r, &a, BOX_CODE_UNAVAILABLE, NULL, &ns));
    assert_true(again(&r, &a, BOX_CODE_INTERNAL, NULL, &ns));
}

static void the_server_says_how_long_to_wait(void **state)
{
    (void)state;
    box_retry r = retry_of(&(box_retry_policy){.max_attempts = 5, .first_pause_ms = 10});
    box_attempts a = {0};
    uint64_t ns;
    assert_true(again(&r, &a, BOX_CODE_UNAVAILABLE, NULL, &ns));
    assert_true(again(&r, &a, BOX_CODE_UNAVAILABLE, "1234", &ns));
    assert_int_equal(ns, 1234 * BOX_MS);
    assert_true(again(&r, &a, BOX_CODE_UNAVAILABLE, NULL, &ns));
    assert_int_equal(ns, 10 * BOX_MS); /* begins anew */
    static const char *const no[] = {"-1", "", "soon", "1.5", "+1", "99999999999999999999"};
    for (size_t i = 0; i < BOX_COUNT(no); i++) {
        r = retry_of(&(box_retry_policy){.max_attempts = 5});
        a = (box_attempts){0};
        assert_false(again(&r, &a, BOX_CODE_UNAVAILABLE, no[i], &ns));
    }
}

static void half_of_the_tokens_gone_stops_retries(void **state)
{
    (void)state;
    box_retry r = retry_of(
        &(box_retry_policy){.max_attempts = 2, .throttle_tokens = 4, .throttle_ratio_milli = 500});
    uint64_t ns;
    box_attempts first = {0};
    assert_true(again(&r, &first, BOX_CODE_UNAVAILABLE, NULL, &ns));
    box_attempts second = {0};
    assert_false(again(&r, &second, BOX_CODE_UNAVAILABLE, NULL, &ns)); /* 2 of 4 are left */
    box_attempts third = {0};
    assert_false(again(&r, &third, BOX_CODE_UNAVAILABLE, NULL, &ns));
    for (int i = 0; i < 5; i++)
        box_retry_succeeded(&r);
    box_attempts fourth = {0};
    assert_true(again(&r, &fourth, BOX_CODE_UNAVAILABLE, NULL, &ns)); /* 3.5 were, 2.5 are left */
    for (int i = 0; i < 100; i++)
        box_retry_succeeded(&r);
    assert_int_equal(r.throttle.left_milli, 4000);
}

static void a_policy_out_of_range_is_refused(void **state)
{
    (void)state;
    static const box_retry_policy bad[] = {{.max_attempts = 1},
                                           {.max_attempts = 6},
                                           {.max_attempts = 2, .factor_percent = 99},
                                           {.max_attempts = 2, .throttle_tokens = 1001},
                                           {.max_attempts = 2, .throttle_ratio_milli = 1001}};
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        box_retry r;
        box_error err;
        assert_int_equal(box_retry_init(&r, &bad[i], &err), -1);
        assert_int_equal(err.reason, BOX_VALIDATION);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pauses_grow_up_to_the_longest),
        cmocka_unit_test(pauses_are_spread),
        cmocka_unit_test(without_a_policy_nothing_is_retried),
        cmocka_unit_test(named_codes_are_retried_up_to_the_limit),
        cmocka_unit_test(the_server_says_how_long_to_wait),
        cmocka_unit_test(half_of_the_tokens_gone_stops_retries),
        cmocka_unit_test(a_policy_out_of_range_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
