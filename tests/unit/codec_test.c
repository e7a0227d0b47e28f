#include "wire/codec.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/clock.h"

static void timeouts_are_parsed(void **state)
{
    (void)state;
    const struct {
        const char *text;
        uint64_t ns;
    } rows[] = {
        {"1n", 1},
        {"7u", 7000},
        {"250m", 250 * BOX_MS},
        {"1S", BOX_SECOND},
        {"00000001S", BOX_SECOND},
        {"0S", 0},
        {"2M", 120 * BOX_SECOND},
        {"3H", 3 * 3600 * BOX_SECOND},
        {"99999999S", 99999999 * BOX_SECOND},
        {"99999999H", BOX_TIME_NEVER - 1},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        uint64_t ns = 42;
        box_error err;
        assert_int_equal(box_timeout_parse(rows[i].text, strlen(rows[i].text), &ns, &err), 0);
        assert_true(ns == rows[i].ns);
    }
}

static void what_is_no_timeout_is_refused(void **state)
{
    (void)state;
    const char *const rows[] = {
        "", "1", "S", "123456789S", "-1S", "+1S", " 1S", "1S ", "1.5S", "1s", "1h", "0x1S", "1SS",
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        uint64_t ns = 42;
        box_error err;
        assert_int_equal(box_timeout_parse(rows[i], strlen(rows[i]), &ns, &err), -1);
        assert_int_equal(err.reason, BOX_VALIDATION);
        assert_int_equal(ns, 42);
    }
}

static void timeouts_are_written_with_eight_digits_rounded_up(void **state)
{
    (void)state;
    const struct {
        uint64_t ns;
        const char *text;
    } rows[] = {
        {0, "0n"},
        {1, "1n"},
        {99999999, "99999999n"},
        {100000000, "100000u"},
        {100000001, "100001u"},
        {100 * BOX_SECOND, "100000m"},
        {28 * 3600 * BOX_SECOND, "100800S"},
        {30 * 24 * 3600 * BOX_SECOND, "2592000S"},
        {UINT64_C(400) * 365 * 86400 * BOX_SECOND, "3504000H"},
        {BOX_TIME_NEVER, "5124096H"},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        char text[BOX_TIMEOUT_TEXT];
        uint64_t back;
        box_error err;
        box_timeout_format(rows[i].ns, text);
        assert_true(strlen(text) <= 9);
        assert_int_equal(box_timeout_parse(text, strlen(text), &back, &err), 0);
        assert_true(back >= rows[i].ns || back == BOX_TIME_NEVER - 1);
        assert_string_equal(text, rows[i].text);
    }
}

static void texts_are_percent_encoded(void **state)
{
    (void)state;
    const char *const rows[][2] = {
        {"", ""},
        {"plain text, ~!", "plain text, ~!"},
        {"100%", "100%25"},
        {" both ends ", "%20both ends%20"},
        {" ", "%20"},
        {"\t\r\n\x7f", "%09%0D%0A%7F"},
        {"\xc3\xbc\xe2\x82\xac", "%C3%BC%E2%82%AC"},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        BOX_AUTO(box_buf_done) box_buf out = {0};
        box_error err;
        const char *text;
        assert_int_equal(box_percent_encode(rows[i][0], &out, &err), 0);
        assert_int_equal(box_buf_text(&out, &text, &err), 0);
        assert_string_equal(text, rows[i][1]);
        char back[64];
        box_percent_decode(text, strlen(text), back, sizeof back);
        assert_string_equal(back, rows[i][0]);
    }
}

static void decoding_percents_never_fails(void **state)
{
    (void)state;
    const char *const rows[][2] = {
        {"%", "%"},       {"%4", "%4"},     {"%zz%41", "%zzA"}, {"%c3%bC", "\xc3\xbc"},
        {"%ff%41", "?A"}, {"a%00b", "a?b"}, {"\xff\xfe", "??"}, {"%%41", "%A"},
        {"%c3", "?"},     {"%e2%82", "??"},
    };
    char out[16];
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        box_percent_decode(rows[i][0], strlen(rows[i][0]), out, sizeof out);
        assert_string_equal(out, rows[i][1]);
    }
    box_percent_decode("0123456789abcdefgh", 18, out, sizeof out);
    assert_string_equal(out, "0123456789abcde");
}

static void base64_goes_both_ways(void **state)
{
    (void)state;
    const struct {
        const char *data;
        size_t len;
        const char *text;
    } rows[] = {
        {"", 0, ""},
        {"f", 1, "Zg"},
        {"fo", 2, "Zm8"},
        {"foo", 3, "Zm9v"},
        {"foobar", 6, "Zm9vYmFy"},
        {"\0\0", 2, "AAA"},
        {"\xff\xfe\xfd\xfc", 4, "//79/A"},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        BOX_AUTO(box_buf_done) box_buf out = {0};
        BOX_AUTO(box_buf_done) box_buf back = {0};
        box_error err;
        const char *text;
        assert_int_equal(box_base64_encode(rows[i].data, rows[i].len, &out, &err), 0);
        assert_int_equal(box_buf_text(&out, &text, &err), 0);
        assert_string_equal(text, rows[i].text);
        assert_int_equal(box_base64_decode(text, strlen(text), &back, &err), 0);
        assert_int_equal(box_buf_len(&back), rows[i].len);
        if (rows[i].len > 0)
            assert_memory_equal(box_buf_data(&back), rows[i].data, rows[i].len);
    }
}

static void padding_is_accepted_and_rubbish_is_not(void **state)
{
    (void)state;
    const struct {
        const char *text;
        int rc;
    } rows[] = {
        {"Zg==", 0},   {"Zm8=", 0},  {"Zm9v", 0},  {"Z", -1},     {"Zg=", -1},    {"=", -1},
        {"Zg===", -1}, {"====", -1}, {"Zm-v", -1}, {"Zm 9v", -1}, {"Zm9v\n", -1}, {"Z=g=", -1},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        BOX_AUTO(box_buf_done) box_buf out = {0};
        box_error err;
        assert_int_equal(box_base64_decode(rows[i].text, strlen(rows[i].text), &out, &err),
                         rows[i].rc);
        if (rows[i].rc < 0)
            assert_int_equal(box_buf_len(&out), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timeouts_are_parsed),
        cmocka_unit_test(what_is_no_timeout_is_refused),
        cmocka_unit_test(timeouts_are_written_with_eight_digits_rounded_up),
        cmocka_unit_test(texts_are_percent_encoded),
        cmocka_unit_test(decoding_percents_never_fails),
        cmocka_unit_test(base64_goes_both_ways),
        cmocka_unit_test(padding_is_accepted_and_rubbish_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
