#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "namespace/subid.h"

static bool parse(const char *text, box_subid_range *out)
{
    return box_subid_parse(text, "eve", 1001, out);
}

static void ranges_are_found_by_name_and_by_number(void **state)
{
    (void)state;
    box_subid_range r;
    assert_true(parse("bob:100000:65536\neve:165536:65536\n", &r));
    assert_int_equal(r.first, 165536);
    assert_int_equal(r.count, 65536);
    assert_true(parse("1001:5:7", &r)); /* without an end of line */
    assert_int_equal(r.first, 5);
    assert_int_equal(r.count, 7);
    assert_true(box_subid_parse("1001:5:7\n", NULL, 1001, &r));
    assert_false(box_subid_parse("eve:5:7\n", NULL, 1001, &r));
}

static void the_largest_range_is_taken(void **state)
{
    (void)state;
    box_subid_range r;
    assert_true(parse("eve:1:10\neve:100:30\n1001:200:20\n", &r));
    assert_int_equal(r.first, 100);
    assert_int_equal(r.count, 30);
}

static void lines_that_are_none_are_passed_over(void **state)
{
    (void)state;
    static const char *const none[] = {
        "",
        "\n\n",
        "eve",
        "eve:",
        "eve:1",
        "eve:1:",
        "eve:1:0",
        "eve::5",
        "eve:x:5",
        "eve:-1:5",
        "eve: 1:5",
        "eve:1:5x",
        "eve:1:5:6",
        "eve:4294967295:1",
        "eve:4294967290:10",
        "eve:1:99999999999999999999",
        "evel:1:5",
        "ev:1:5",
        ":1:5",
        "#eve:1:5",
        "10010:1:5",
        "eve:1\n:5",
    };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        box_subid_range r = {1, 2};
        assert_false(parse(none[i], &r));
        assert_int_equal(r.count, 2); /* untouched */
    }
}

/* Cut anywhere, a file holds no range that was not there. */
static void cut_files_hold_no_other_range(void **state)
{
    (void)state;
    static const char whole[] = "bob:1:2\neve:165536:65536\n";
    for (size_t len = 0; len < sizeof whole; len++) {
        char text[sizeof whole] = "";
        box_subid_range r;
        memcpy(text, whole, len);
        if (parse(text, &r)) {
            assert_int_equal(r.first, 165536);
            assert_true(r.count <= 65536); /* its last digits may be cut off */
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_found_by_name_and_by_number),
        cmocka_unit_test(the_largest_range_is_taken),
        cmocka_unit_test(lines_that_are_none_are_passed_over),
        cmocka_unit_test(cut_files_hold_no_other_range),
    };
    return cmocka_run_group_tests_name("namespace_subid", tests, NULL, NULL);
}
