#include "base/error.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void every_reason_has_its_name_and_code(void **state)
{
    (void)state;
    for (int i = 0; i < BOX_REASON_COUNT; i++) {
        const char *name = box_reason_name((box_reason)i);
        assert_int_equal(box_reason_from_name(name), i);
        assert_in_range(box_reason_code((box_reason)i), 0, 16);
    }
    assert_int_equal(BOX_NONE, 0);
    assert_int_equal(box_reason_code(BOX_NONE), BOX_CODE_OK);
    assert_int_equal(box_reason_code(BOX_EXEC_QUEUE), BOX_CODE_RESOURCE_EXHAUSTED);
    assert_int_equal(box_reason_from_name("NO_SUCH"), BOX_UNKNOWN);
    assert_string_equal(box_reason_name((box_reason)9999), "INTERNAL");
    assert_int_equal(box_reason_code((box_reason)-1), BOX_CODE_INTERNAL);
}

static void every_code_has_its_name(void **state)
{
    (void)state;
    assert_string_equal(box_code_name(BOX_CODE_OK), "OK");
    assert_string_equal(box_code_name(BOX_CODE_UNAUTHENTICATED), "UNAUTHENTICATED");
    assert_string_equal(box_code_name((box_code)17), "UNKNOWN");
    assert_string_equal(box_code_name((box_code)-1), "UNKNOWN");
}

static void failing_fills_all_and_gives_minus_one(void **state)
{
    (void)state;
    box_error err;
    memset(&err, 0xff, sizeof err);
    assert_int_equal(box_fail(&err, BOX_SESSION_NOT_FOUND, "no session %s", "a"), -1);
    assert_int_equal(err.reason, BOX_SESSION_NOT_FOUND);
    assert_string_equal(err.msg, "no session a");
    assert_int_equal(err.sys_errno, 0);
    assert_int_equal(err.retry_ms, 0);
    assert_int_equal(err.detail_len, 0);
    assert_int_equal(err.more, 0);
    assert_int_equal(box_error_code(&err), BOX_CODE_NOT_FOUND);
    err.code = BOX_CODE_DATA_LOSS;
    assert_int_equal(box_error_code(&err), BOX_CODE_DATA_LOSS);
}

static void a_text_is_cut_valid_and_without_control_characters(void **state)
{
    (void)state;
    box_error err;
    char longest[400];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    (void)box_fail(&err, BOX_INTERNAL, "%s", longest);
    assert_int_equal(strlen(err.msg), BOX_ERROR_MSG - 1);
    (void)box_fail(&err, BOX_INTERNAL,
                   "a\nb\x1b[31mc\x7f\xff\xc2\x9b"
                   "d\xc2\xa0");
    assert_string_equal(err.msg, "a?b?[31mc???d\xc2\xa0");
    /* A character cut in the middle does not stay in halves. */
    for (size_t i = 0; i + 2 < sizeof longest; i += 2)
        memcpy(longest + i, "\xc3\xb6", 2);
    (void)box_fail(&err, BOX_INTERNAL, "%s", longest);
    assert_int_equal(strlen(err.msg), BOX_ERROR_MSG - 1);
    assert_int_equal(err.msg[BOX_ERROR_MSG - 2], '?');
}

static void a_peers_text_keeps_tabs_and_line_ends(void **state)
{
    (void)state;
    box_error err = {.reason = BOX_UNKNOWN};
    box_error_set_text(&err, "a\xc2\x9b"
                             "2J");
    assert_string_equal(err.msg, "a?2J");
    box_error_set_text(&err, "\ta\r\nb\x1b[31m\xff\x7f\n");
    assert_string_equal(err.msg, "\ta\r\nb?[31m??\n");
    assert_int_equal(err.reason, BOX_UNKNOWN);
    char longest[400];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    box_error_set_text(&err, longest);
    assert_int_equal(strlen(err.msg), BOX_ERROR_MSG - 1);
}

static void a_system_error_chooses_the_reason(void **state)
{
    (void)state;
    box_error err;
    static const struct {
        int sys;
        box_reason reason;
    } cases[] = {{ENOENT, BOX_FILE_NOT_FOUND}, {EEXIST, BOX_FILE_EXISTS}, {ENOSPC, BOX_QUOTA},
                 {EACCES, BOX_PERMISSION},     {EIO, BOX_INTERNAL},       {0, BOX_INTERNAL}};
    for (size_t i = 0; i < BOX_COUNT(cases); i++) {
        errno = cases[i].sys;
        assert_int_equal(box_fail_errno(&err, "open %s", "f"), -1);
        assert_int_equal(err.reason, cases[i].reason);
        assert_int_equal(err.sys_errno, cases[i].sys);
        assert_memory_equal(err.msg, "open f: ", 8);
    }
}

static void wrapping_prefixes_and_keeps_the_rest(void **state)
{
    (void)state;
    box_error err;
    (void)box_fail(&err, BOX_QUOTA, "full");
    box_error_add(&err, "limit", "x");
    assert_int_equal(box_wrap(&err, "create %d", 7), -1);
    assert_string_equal(err.msg, "create 7: full");
    assert_int_equal(err.reason, BOX_QUOTA);
    assert_string_equal(box_error_get(&err, "limit"), "x");
    for (int i = 0; i < 100; i++)
        (void)box_wrap(&err, "again");
    assert_int_equal(strlen(err.msg), BOX_ERROR_MSG - 1);
}

static void details_are_pairs_in_order(void **state)
{
    (void)state;
    box_error err = {0};
    size_t at = 0;
    const char *key;
    const char *value;
    box_error_add(&err, "kind", "session");
    box_error_add_int(&err, "max", INT64_MIN);
    box_error_add(&err, "empty", "");
    assert_true(box_error_next(&err, &at, &key, &value));
    assert_string_equal(key, "kind");
    assert_string_equal(value, "session");
    assert_true(box_error_next(&err, &at, &key, &value));
    assert_string_equal(value, "-9223372036854775808");
    assert_true(box_error_next(&err, &at, &key, &value));
    assert_string_equal(value, "");
    assert_false(box_error_next(&err, &at, &key, &value));
    assert_null(box_error_get(&err, "absent"));
    assert_string_equal(box_error_get(&err, "empty"), "");
}

static void what_does_not_fit_is_counted(void **state)
{
    (void)state;
    box_error err = {0};
    char value[200];
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    for (int i = 0; i < 8; i++)
        box_error_add(&err, "key", value);
    assert_int_equal(err.more, 3); /* 5 of 204 bytes fit in 1024 */
    box_error_add(&err, "k", "v"); /* a small one still does */
    assert_int_equal(err.more, 3);
    assert_string_equal(box_error_get(&err, "k"), "v");
}

static void violations_gather_and_the_first_is_the_text(void **state)
{
    (void)state;
    box_error err = {0};
    assert_int_equal(box_violation(&err, "argv", "is required"), -1);
    assert_int_equal(box_violation(&err, "timeout", "is %d", 0), -1);
    assert_int_equal(err.reason, BOX_VALIDATION);
    assert_string_equal(err.msg, "argv: is required");
    assert_string_equal(box_error_get(&err, "field:argv"), "is required");
    assert_string_equal(box_error_get(&err, "field:timeout"), "is 0");
}

static void an_error_from_outside_is_made_safe(void **state)
{
    (void)state;
    box_error err;
    memset(&err, 0xff, sizeof err);
    box_error_sanitize(&err);
    assert_int_equal(err.reason, BOX_INTERNAL);
    assert_int_equal(err.msg[BOX_ERROR_MSG - 1], '\0');
    assert_int_equal(err.detail_len, 0);
    /* Pairs that are not whole are dropped; whole ones stay. */
    static const struct {
        char bytes[8];
        uint16_t len;
        uint16_t kept;
    } cases[] = {{"k\0v", 4, 4},    {"k\0v", 3, 0}, {"k", 2, 0},
                 {"k\0v\0x", 6, 0}, {"", 2, 2},     {"k\0v", 5000, 0}};
    for (size_t i = 0; i < BOX_COUNT(cases); i++) {
        (void)box_fail(&err, BOX_QUOTA, "x");
        memcpy(err.detail, cases[i].bytes, sizeof cases[i].bytes);
        err.detail_len = cases[i].len;
        box_error_sanitize(&err);
        assert_int_equal(err.detail_len, cases[i].kept);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_reason_has_its_name_and_code),
        cmocka_unit_test(every_code_has_its_name),
        cmocka_unit_test(failing_fills_all_and_gives_minus_one),
        cmocka_unit_test(a_text_is_cut_valid_and_without_control_characters),
        cmocka_unit_test(a_peers_text_keeps_tabs_and_line_ends),
        cmocka_unit_test(a_system_error_chooses_the_reason),
        cmocka_unit_test(wrapping_prefixes_and_keeps_the_rest),
        cmocka_unit_test(details_are_pairs_in_order),
        cmocka_unit_test(what_does_not_fit_is_counted),
        cmocka_unit_test(violations_gather_and_the_first_is_the_text),
        cmocka_unit_test(an_error_from_outside_is_made_safe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
