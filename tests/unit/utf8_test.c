#include "base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/macros.h"

/* Encodes without any check, also what UTF-8 forbids. */
static size_t encode(uint32_t c, size_t len, char out[4])
{
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = len; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(len == 1 ? c : first[len] | c);
    return len;
}

static size_t right_length(uint32_t c)
{
    return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
}

static void exactly_the_scalar_values_are_valid(void **state)
{
    (void)state;
    char text[4];
    for (uint32_t c = 0; c < 0x200000; c++) {
        bool scalar = c <= 0x10ffff && !(c >= 0xd800 && c <= 0xdfff);
        size_t len = right_length(c);
        if (box_utf8_valid(text, encode(c, len, text)) != scalar)
            fail_msg("U+%x", c);
    }
}

static void overlong_forms_are_not_valid(void **state)
{
    (void)state;
    char text[4];
    for (uint32_t c = 0; c < 0x10000; c++) {
        for (size_t len = right_length(c) + 1; len <= 4; len++) {
            if (box_utf8_valid(text, encode(c, len, text)))
                fail_msg("U+%x in %zu bytes", c, len);
        }
    }
}

static void the_valid_prefix_ends_before_a_cut_sequence(void **state)
{
    (void)state;
    static const char text[] = "a\xc3\xb6\xe2\x82\xac\xf0\x9f\x98\x80z"; /* 1, 2, 3, 4, 1 bytes */
    static const size_t expected[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};
    for (size_t len = 0; len < BOX_COUNT(expected); len++)
        assert_int_equal(box_utf8_valid_prefix(text, len), expected[len]);
    assert_true(box_utf8_valid("", 0));
    assert_true(box_utf8_valid("\0", 1));
    assert_false(box_utf8_valid("\x80", 1));
    assert_false(box_utf8_valid("\xc3(", 2));
    assert_false(box_utf8_valid("\xfe", 1));
}

/* Words of ASCII are looked at whole: what is none is found at each place of each word. */
static void a_bad_byte_is_found_wherever_it_stands(void **state)
{
    (void)state;
    char text[41];
    for (size_t from = 0; from < 8; from++) {
        for (size_t bad = from; bad < sizeof text; bad++) {
            memset(text, 'a', sizeof text);
            text[bad] = (char)0x80;
            size_t len = sizeof text - from;
            assert_int_equal(box_utf8_valid_prefix(text + from, len), bad - from);
            assert_false(box_utf8_valid(text + from, len));
            assert_true(box_utf8_valid(text + from, bad - from));
            if (bad + 1 == sizeof text)
                continue;
            memcpy(text + bad, "\xc3\xa9", 2);
            assert_int_equal(box_utf8_valid_prefix(text + from, len), len);
            assert_int_equal(box_utf8_valid_prefix(text + from, bad + 1 - from), bad - from);
        }
    }
}

static void scrubbing_replaces_only_what_is_not_valid(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"", ""},
                                           {"plain", "plain"},
                                           {"\xc3\xb6", "\xc3\xb6"},
                                           {"a\xff"
                                            "b",
                                            "a?b"},
                                           {"\xc3", "?"},
                                           {"\xe2\x82", "??"},
                                           {"\xed\xa0\x80", "???"},
                                           {"\xc3\xb6\xc3", "\xc3\xb6?"}};
    for (size_t i = 0; i < BOX_COUNT(cases); i++) {
        char text[16];
        memcpy(text, cases[i][0], strlen(cases[i][0]) + 1);
        box_utf8_scrub(text);
        assert_string_equal(text, cases[i][1]);
    }
}

static void control_characters_are_c0_del_and_c1(void **state)
{
    (void)state;
    char all[] = "a\x01\n\x1f \x7f\xc2\x80\xc2\x9f\xc2\xa0\xe2\x80\xa8\xc3\x80";
    assert_int_equal(box_utf8_control(""), 0);
    assert_int_equal(box_utf8_control("\x1b["), 1);
    assert_int_equal(box_utf8_control("\xc2\x9b"), 2);
    assert_int_equal(box_utf8_control("\xc2\xa0"), 0);
    box_utf8_hide_controls(all, "\n");
    box_utf8_hide_controls((char *)(uintptr_t) "constant", "");
    assert_string_equal(all, "a?\n? ???\xc2\xa0\xe2\x80\xa8\xc3\x80");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exactly_the_scalar_values_are_valid),
        cmocka_unit_test(overlong_forms_are_not_valid),
        cmocka_unit_test(the_valid_prefix_ends_before_a_cut_sequence),
        cmocka_unit_test(a_bad_byte_is_found_wherever_it_stands),
        cmocka_unit_test(scrubbing_replaces_only_what_is_not_valid),
        cmocka_unit_test(control_characters_are_c0_del_and_c1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
