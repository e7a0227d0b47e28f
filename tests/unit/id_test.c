#include "base/id.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/macros.h"

static void a_uid_is_written_and_read_back(void **state)
{
    (void)state;
    box_uid a = box_uid_new();
    box_uid b = box_uid_new();
    box_uid back;
    char text[BOX_UID_TEXT];
    assert_false(box_uid_equal(&a, &b));
    box_uid_text(&a, text);
    assert_int_equal(strlen(text), 32);
    assert_int_equal(strspn(text, "0123456789abcdef"), 32);
    assert_true(box_uid_parse(text, &back));
    assert_true(box_uid_equal(&a, &back));
}

static void text_cut_at_any_byte_is_no_uid(void **state)
{
    (void)state;
    box_uid a = box_uid_new();
    box_uid back;
    char text[BOX_UID_TEXT + 1];
    for (size_t len = 0; len < 32; len++) {
        box_uid_text(&a, text);
        text[len] = '\0';
        assert_false(box_uid_parse(text, &back));
    }
    box_uid_text(&a, text);
    memcpy(text + 32, "0", 2);
    assert_false(box_uid_parse(text, &back));
}

static void hexadecimal_goes_both_ways(void **state)
{
    (void)state;
    uint8_t bytes[256];
    uint8_t back[256];
    char text[513];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    box_hex(bytes, sizeof bytes, text);
    assert_memory_equal(text, "000102", 6);
    assert_string_equal(text + 508, "feff");
    assert_true(box_unhex(text, back, sizeof back));
    assert_memory_equal(bytes, back, sizeof bytes);
    assert_true(box_unhex("aBcD", back, 2));
    assert_memory_equal(back, "\xab\xcd", 2);
    static const char *const bad[] = {"", "a", "abc", "abcde", "ab g", "0xab", "ab:d"};
    for (size_t i = 0; i < BOX_COUNT(bad); i++)
        assert_false(box_unhex(bad[i], back, 2));
}

static void random_bytes_fill_all_and_differ(void **state)
{
    (void)state;
    uint8_t a[1000] = {0};
    uint8_t b[1000] = {0};
    size_t zeros = 0;
    box_random(a, sizeof a);
    box_random(b, sizeof b);
    assert_memory_not_equal(a, b, sizeof a);
    for (size_t i = 0; i < sizeof a; i++)
        zeros += a[i] == 0;
    assert_in_range(zeros, 0, 50); /* 4 expected; 50 is less likely than 1e-30 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_uid_is_written_and_read_back),
        cmocka_unit_test(text_cut_at_any_byte_is_no_uid),
        cmocka_unit_test(hexadecimal_goes_both_ways),
        cmocka_unit_test(random_bytes_fill_all_and_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
