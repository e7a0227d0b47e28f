/* What a model is shown of output (box-behaviour.md, section 8; its reference counts some lengths
 * wrong by one). */
#include "tool/excerpt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/utf8.h"

typedef struct shown {
    char *text;
    size_t chars;
    bool cut;
} shown;

static shown show(const void *data, size_t len, size_t piece, size_t limit)
{
    box_excerpt *e = calloc(1, sizeof *e);
    box_buf out = {0};
    box_error err;
    const char *text;
    for (size_t at = 0; at < len; at += piece)
        box_excerpt_add(e, (const char *)data + at, len - at < piece ? len - at : piece);
    box_excerpt_end(e);
    shown s = {.cut = box_excerpt_text(e, limit, &out)};
    assert_int_equal(box_buf_text(&out, &text, &err), 0);
    s.text = strdup(text);
    for (const char *p = text; *p != '\0'; p++)
        s.chars += ((unsigned char)*p & 0xc0) != 0x80;
    assert_true(box_utf8_valid(text, strlen(text)));
    box_buf_done(&out);
    free(e);
    return s;
}

static void expect(const char *data, size_t len, const char *text)
{
    for (size_t piece = 1; piece <= len; piece++) {
        shown s = show(data, len, piece, BOX_EXCERPT_CHARS);
        assert_string_equal(s.text, text);
        assert_false(s.cut);
        free(s.text);
    }
}

static void short_text_is_shown_as_it_is(void **state)
{
    (void)state;
    expect("", 0, "");
    expect(" a\n\n b\t", 7, " a\n\n b\t");
    expect("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80x", 10, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80x");
}

#define BAD "\xef\xbf\xbd"

static void what_is_no_text_becomes_replacement_characters(void **state)
{
    (void)state;
    expect("a\0b", 3, "a" BAD "b");
    expect("\x80", 1, BAD);
    expect("\xff\xfe"
           "a",
           3, BAD BAD "a");
    expect("\xc3", 1, BAD); /* cut at the end */
    expect("\xc3"
           "a",
           2, BAD "a");
    expect("\xe2\x82"
           "a",
           3, BAD "a"); /* one for the part of a sequence */
    expect("\xf0\x9f\x98", 3, BAD);
    expect("\xe2\x82\xe2\x82\xac", 5, BAD "\xe2\x82\xac");
    expect("\xc0\xaf", 2, BAD BAD); /* overlong */
    expect("\xe0\x80\xaf", 3, BAD BAD BAD);
    expect("\xf0\x80\x80\xaf", 4, BAD BAD BAD BAD);
    expect("\xed\xa0\x80", 3, BAD BAD BAD); /* a surrogate */
    expect("\xf4\x90\x80\x80", 4, BAD BAD BAD BAD);
    expect("\xf5\x80\x80\x80", 4, BAD BAD BAD BAD);
    expect("\xf4\x8f\xbf\xbf", 4, "\xf4\x8f\xbf\xbf");
    expect("\xed\x9f\xbf\xee\x80\x80", 6, "\xed\x9f\xbf\xee\x80\x80");
}

/* total numbered characters, of which `limit` are shown. */
static void check_cut(size_t total, size_t limit, const char *character)
{
    size_t width = strlen(character);
    char *data = malloc(total * width + 1);
    for (size_t i = 0; i < total; i++)
        memcpy(data + i * width, character, width);
    shown s = show(data, total * width, 1 + total % 997, limit);
    unsigned long long missing;
    const char *notice = strstr(s.text, "\n\n... [");
    assert_true(s.cut);
    assert_int_equal(s.chars, limit);
    assert_non_null(notice);
    assert_int_equal(sscanf(notice, "\n\n... [%llu characters truncated] ...\n\n", &missing), 1);
    const char *behind = strstr(notice, "] ...\n\n") + strlen("] ...\n\n");
    size_t head = (size_t)(notice - s.text) / width;
    size_t tail = strlen(behind) / width;
    assert_int_equal(head + tail + missing, total);
    assert_int_equal(head, (head + tail) * 60 / 100);
    free(s.text);
    free(data);
}

static void the_number_of_missing_characters_is_exact(void **state)
{
    (void)state;
    for (size_t total = BOX_EXCERPT_CHARS + 1; total < BOX_EXCERPT_CHARS + 1200; total += 7)
        check_cut(total, BOX_EXCERPT_CHARS, "x");
    for (size_t total = 100; total < 3000000; total *= 10) {
        for (size_t by = 0; by < 100; by++)
            check_cut(BOX_EXCERPT_CHARS + total - 50 + by, BOX_EXCERPT_CHARS, "x");
    }
    for (size_t limit = 60; limit < 3000; limit += 331)
        check_cut(5000, limit, "\xe2\x82\xac");
}

static void head_and_tail_are_sixty_to_forty(void **state)
{
    (void)state;
    char data[5000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)('a' + i % 26);
    shown s = show(data, sizeof data, 4096, BOX_EXCERPT_CHARS);
    static const char notice[] = "\n\n... [1039 characters truncated] ...\n\n";
    assert_memory_equal(s.text, data, 2376);
    assert_memory_equal(s.text + 2376, notice, strlen(notice));
    assert_string_equal(s.text + 2376 + strlen(notice) + 1583, "gh"); /* 5000 % 26 = 8 */
    free(s.text);
}

static void whole_is_whole_up_to_the_last_character(void **state)
{
    (void)state;
    char data[BOX_EXCERPT_CHARS + 1];
    memset(data, 'x', sizeof data);
    shown s = show(data, BOX_EXCERPT_CHARS, 100, BOX_EXCERPT_CHARS);
    assert_false(s.cut);
    assert_int_equal(s.chars, BOX_EXCERPT_CHARS);
    free(s.text);
    s = show(data, BOX_EXCERPT_CHARS + 1, 100, BOX_EXCERPT_CHARS);
    assert_true(s.cut);
    assert_non_null(strstr(s.text, "[38 characters truncated]"));
    free(s.text);
}

static void a_limit_below_the_notice_cuts_the_notice(void **state)
{
    (void)state;
    char data[100];
    memset(data, 'x', sizeof data);
    for (size_t limit = 0; limit < 30; limit++) {
        shown s = show(data, sizeof data, 7, limit);
        assert_true(s.cut);
        assert_int_equal(s.chars, limit);
        assert_memory_equal(s.text, "\n\n... [1xx characters truncated]", limit < 7 ? limit : 7);
        free(s.text);
    }
    shown s = show("", 0, 1, 0);
    assert_false(s.cut);
    free(s.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_text_is_shown_as_it_is),
        cmocka_unit_test(what_is_no_text_becomes_replacement_characters),
        cmocka_unit_test(the_number_of_missing_characters_is_exact),
        cmocka_unit_test(head_and_tail_are_sixty_to_forty),
        cmocka_unit_test(whole_is_whole_up_to_the_last_character),
        cmocka_unit_test(a_limit_below_the_notice_cuts_the_notice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
