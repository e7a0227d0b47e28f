#include "base/log.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/utf8.h"

/* Standard error goes into a pipe while a line is written. */
typedef struct capture {
    int saved;
    int ends[2];
    char text[8192];
    size_t len;
} capture;

static void capture_start(capture *c)
{
    assert_int_equal(pipe2(c->ends, O_CLOEXEC | O_NONBLOCK), 0);
    c->saved = dup(STDERR_FILENO);
    assert_true(c->saved >= 0);
    assert_true(dup2(c->ends[1], STDERR_FILENO) >= 0);
}

static void capture_stop(capture *c)
{
    assert_true(dup2(c->saved, STDERR_FILENO) >= 0);
    (void)close(c->saved);
    (void)close(c->ends[1]);
    ssize_t n = read(c->ends[0], c->text, sizeof c->text - 1);
    c->len = n > 0 ? (size_t)n : 0;
    c->text[c->len] = '\0';
    (void)close(c->ends[0]);
}

static void a_line_of_text_has_time_level_event_and_fields(void **state)
{
    (void)state;
    capture c;
    box_log_setup(BOX_INFO, BOX_LOG_TEXT);
    capture_start(&c);
    box_log(BOX_INFO, "exec.done", BOX_STR("session", "a b"), BOX_INT("exit", -3));
    capture_stop(&c);
    /* 2026-11-30T11:00:00.000Z */
    assert_int_equal(c.text[10], 'T');
    assert_int_equal(c.text[23], 'Z');
    assert_string_equal(c.text + 24, " info exec.done session=\"a b\" exit=-3\n");
}

static void a_line_of_json_is_one_object(void **state)
{
    (void)state;
    capture c;
    box_log_setup(BOX_DEBUG, BOX_LOG_JSON);
    capture_start(&c);
    box_log(BOX_WARN, "x", BOX_STR("s", "q\"\\\n\x1b\x7f\xc2\x9b\xff\xc3\xb6"),
            BOX_INT("n", INT64_MIN));
    capture_stop(&c);
    assert_memory_equal(c.text, "{\"time\":\"", 9);
    assert_string_equal(
        strstr(c.text, "\"level\""),
        "\"level\":\"warn\",\"event\":\"x\",\"s\":\"q\\\"\\\\\\u000a\\u001b\\u007f\\u009b"
        "\\ufffd\xc3\xb6\",\"n\":-9223372036854775808}\n");
}

static void events_without_fields_and_null_texts_are_fine(void **state)
{
    (void)state;
    capture c;
    box_log_setup(BOX_INFO, BOX_LOG_TEXT);
    capture_start(&c);
    box_log(BOX_ERROR, "alone");
    box_log(BOX_ERROR, "null", BOX_STR("s", NULL));
    capture_stop(&c);
    assert_non_null(strstr(c.text, " error alone\n"));
    assert_non_null(strstr(c.text, " error null s=\"\"\n"));
}

static void an_error_gives_its_reason_and_text(void **state)
{
    (void)state;
    capture c;
    box_error err;
    (void)box_fail(&err, BOX_QUOTA, "full");
    box_log_setup(BOX_INFO, BOX_LOG_TEXT);
    capture_start(&c);
    box_log(BOX_INFO, "e", BOX_ERR(&err));
    capture_stop(&c);
    assert_non_null(strstr(c.text, " e reason=\"QUOTA\" error=\"full\"\n"));
}

static void lower_levels_are_left_out(void **state)
{
    (void)state;
    capture c;
    box_log_setup(BOX_WARN, BOX_LOG_TEXT);
    capture_start(&c);
    box_log(BOX_DEBUG, "no");
    box_log(BOX_INFO, "no");
    box_log(BOX_WARN, "yes");
    box_log_setup(BOX_LOG_OFF, BOX_LOG_TEXT);
    box_log(BOX_ERROR, "no");
    capture_stop(&c);
    assert_null(strstr(c.text, " no"));
    assert_non_null(strstr(c.text, " warn yes\n"));
}

static void a_line_too_long_is_cut_and_still_a_line(void **state)
{
    (void)state;
    static char value[6000];
    memset(value, '\n', sizeof value - 1); /* six bytes each, once escaped */
    for (int format = BOX_LOG_TEXT; format <= BOX_LOG_JSON; format++) {
        capture c;
        box_log_setup(BOX_INFO, (box_log_format)format);
        capture_start(&c);
        box_log(BOX_INFO, "long", BOX_STR("v", value), BOX_STR("w", value));
        capture_stop(&c);
        assert_in_range(c.len, 4000, 4096);
        assert_int_equal(c.text[c.len - 1], '\n');
        assert_ptr_equal(strchr(c.text, '\n'), &c.text[c.len - 1]);
        assert_true(box_utf8_valid(c.text, c.len));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_of_text_has_time_level_event_and_fields),
        cmocka_unit_test(a_line_of_json_is_one_object),
        cmocka_unit_test(events_without_fields_and_null_texts_are_fine),
        cmocka_unit_test(an_error_gives_its_reason_and_text),
        cmocka_unit_test(lower_levels_are_left_out),
        cmocka_unit_test(a_line_too_long_is_cut_and_still_a_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
