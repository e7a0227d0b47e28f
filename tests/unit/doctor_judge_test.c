/* How boxcli doctor judges dates and clocks. */
#include "doctor.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/clock.h"

static const doctor_row *dates(doctor_row *row, int left, int begin)
{
    *row = (doctor_row){0};
    doctor_judge_dates(row, "it", &(doctor_dates){left, begin}, "renew it");
    return row;
}

static void a_certificate_is_renewed_in_time(void **state)
{
    (void)state;
    doctor_row row;
    assert_int_equal(dates(&row, 400, -1)->state, DOCTOR_OK);
    assert_string_equal(row.found, "it: expires in 400 days");
    assert_string_equal(row.fix, "");
    assert_int_equal(dates(&row, DOCTOR_RENEW_DAYS, 0)->state, DOCTOR_OK);
    assert_int_equal(dates(&row, DOCTOR_RENEW_DAYS - 1, 0)->state, DOCTOR_WARN);
    assert_string_equal(row.fix, "renew it");
    assert_int_equal(dates(&row, 0, 0)->state, DOCTOR_WARN);
}

static void a_certificate_that_has_ended_or_not_begun_fails(void **state)
{
    (void)state;
    doctor_row row;
    assert_int_equal(dates(&row, -1, -100)->state, DOCTOR_FAIL);
    assert_string_equal(row.found, "it: expired 1 days ago");
    assert_string_equal(row.fix, "renew it");
    assert_int_equal(dates(&row, INT32_MIN, 0)->state, DOCTOR_FAIL);
    assert_int_equal(dates(&row, 400, 2)->state, DOCTOR_FAIL);
    assert_non_null(strstr(row.found, "in 2 days"));
}

static const doctor_row *skew(doctor_row *row, int64_t seconds)
{
    const int64_t now = INT64_C(1700000000) * (int64_t)BOX_SECOND;
    *row = (doctor_row){0};
    doctor_judge_skew(row, now, now + (int64_t)BOX_SECOND, now + seconds * (int64_t)BOX_SECOND);
    return row;
}

static void clocks_may_differ_a_little(void **state)
{
    (void)state;
    doctor_row row;
    for (int64_t s = -4; s <= 5; s++)
        assert_int_equal(skew(&row, s)->state, DOCTOR_OK);
    assert_string_equal(row.fix, "");
}

static void a_clock_that_is_far_off_is_said_with_its_direction(void **state)
{
    (void)state;
    doctor_row row;
    assert_int_equal(skew(&row, 3601)->state, DOCTOR_WARN);
    assert_string_equal(row.found, "3600 s ahead of this one");
    assert_int_equal(skew(&row, -60)->state, DOCTOR_WARN);
    assert_string_equal(row.found, "60 s behind this one");
    assert_string_not_equal(row.fix, "");
}

static void a_long_text_is_cut(void **state)
{
    (void)state;
    doctor_row row = {0};
    char text[2 * DOCTOR_FOUND];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    doctor_fail(&row, "%s", text);
    doctor_fix(&row, "%s", text);
    assert_int_equal(strlen(row.found), DOCTOR_FOUND - 1);
    assert_int_equal(strlen(row.fix), DOCTOR_FIX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_certificate_is_renewed_in_time),
        cmocka_unit_test(a_certificate_that_has_ended_or_not_begun_fails),
        cmocka_unit_test(clocks_may_differ_a_little),
        cmocka_unit_test(a_clock_that_is_far_off_is_said_with_its_direction),
        cmocka_unit_test(a_long_text_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
