#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "files/diff.h"
#include "files/pattern.h"
#include "files/sha256.h"
#include "files/text.h"

static box_bytes bytes(const char *text)
{
    return (box_bytes){.data = (const uint8_t *)text, .len = strlen(text)};
}

/* --- patterns --------------------------------------------------------------------------------- */

static bool matches(const char *pattern, const char *path)
{
    box_error err = {0};
    box_pattern p;
    assert_int_equal(box_pattern_init(&p, bytes(pattern), &err), 0);
    bool hit = box_pattern_matches(&p, path);
    box_pattern_done(&p);
    return hit;
}

typedef struct pattern_row {
    const char *pattern;
    const char *path;
    bool hit;
} pattern_row;

static void patterns_match_what_they_say(void **state)
{
    (void)state;
    static const pattern_row rows[] = {
        {"*.py", "a.py", true},
        {"*.py", "x/y/a.py", true},
        {"*.py", "a.pyc", false},
        {"src/*.py", "src/a.py", true},
        {"src/*.py", "x/src/a.py", false},
        {"src/*.py", "src/x/a.py", false},
        {"**/*.py", "a.py", true},
        {"**/a/**", "x/a/b/c", true},
        {"**/a/**", "x/b", false},
        {"a/**/b", "a/b", true},
        {"a/**/b", "a/x/y/b", true},
        {"a/**/b", "a/x/y/c", false},
        {"a/**/b/**/c", "a/b/x/b/c", true},
        {"**", "a/b", true},
        {"/a", "a", true},
        {"/a", "x/a", false},
        {"a?c", "abc", true},
        {"a?c",
         "a\xc3\xa9"
         "c",
         true},
        {"a?c",
         "a\xff"
         "c",
         true},
        {"a?c", "ac", false},
        {"[a-c]x", "bx", true},
        {"[!a-c]x", "bx", false},
        {"[^a-c]x", "dx", true},
        {"[]]", "]", true},
        {"[a", "[a", true},
        {"[\xc3\xa0-\xc3\xbf]", "\xc3\xa9", true},
        {"[\xc3\xa0-\xc3\xbf]", "z", false},
        {"x.{c,h}", "x.h", true},
        {"x.{c,h}", "x.o", false},
        {"{a,b{c,d}}e", "bde", true},
        {"{a,b{c,d}}e", "be", false},
        {"{a,}x", "x", true},
        {"{a", "{a", true},
        {"\\*", "*", true},
        {"\\*", "a", false},
        {"*a*b*c", "xxaxxbxxc", true},
        {"*a*b*c", "xxaxxcxxb", false},
        {"*", "", true},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        if (matches(rows[i].pattern, rows[i].path) != rows[i].hit)
            fail_msg("%s and %s", rows[i].pattern, rows[i].path);
    }
}

static void a_pattern_of_stars_ends_soon(void **state)
{
    (void)state;
    char pattern[1001];
    char path[4001];
    for (size_t i = 0; i < 1000; i += 2)
        memcpy(pattern + i, "*a", 2);
    pattern[1000] = '\0';
    memset(path, 'a', 4000);
    path[4000] = '\0';
    assert_true(matches(pattern, path));
    path[3999] = 'b';
    assert_false(matches(pattern, path));
}

static void patterns_that_are_none_are_refused(void **state)
{
    (void)state;
    char large[2 * BOX_PATTERN_BYTES];
    memset(large, 'a', sizeof large);
    const box_bytes bad[] = {bytes(""),
                             {(uint8_t *)large, BOX_PATTERN_BYTES + 1},
                             bytes("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}")};
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        box_error err = {0};
        box_pattern p;
        assert_int_equal(box_pattern_init(&p, bad[i], &err), -1);
        assert_int_equal(err.reason, BOX_VALIDATION);
        box_pattern_done(&p);
    }
}

/* --- text ------------------------------------------------------------------------------------- */

static void assert_clean(const char *data, size_t len, bool more, size_t room, const char *text,
                         size_t want_used, bool want_replaced)
{
    char *out = malloc(room + 1); /* exactly, so that asan sees a byte more */
    size_t used = 0;
    bool replaced = false;
    size_t n = box_text_clean((const uint8_t *)data, len, more, out, room, &used, &replaced);
    assert_int_equal(n, strlen(text));
    assert_memory_equal(out, text, n);
    assert_int_equal(used, want_used);
    assert_int_equal(replaced, want_replaced);
    free(out);
}

#define BAD "\xef\xbf\xbd"

static void text_is_made_clean(void **state)
{
    (void)state;
    assert_clean("", 0, false, 9, "", 0, false);
    assert_clean("abc", 3, false, 9, "abc", 3, false);
    assert_clean("abc", 3, false, 2, "ab", 2, false);
    assert_clean("a\xff\xfe", 3, false, 9, "a" BAD BAD, 3, true);
    assert_clean("a\0b", 3, false, 9, "a" BAD "b", 3, true);
    assert_clean("\xe2\x82\xac", 3, false, 2, "", 0, false);
    assert_clean("\xe2\x82\xac", 3, false, 3, "\xe2\x82\xac", 3, false);
    assert_clean("a\xe2\x82", 3, true, 9, "a", 1, false);
    assert_clean("a\xe2\x82", 3, false, 9, "a" BAD BAD, 3, true);
    assert_clean("\xff", 1, false, 2, "", 0, false);
    assert_clean("\xc0\x80", 2, true, 9, BAD BAD, 2, true);
}

/* However the bytes arrive, and whatever room there is: whole characters, and it goes on. */
static void cleaning_in_pieces_gives_the_same(void **state)
{
    (void)state;
    static const char data[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9d\x84\x9e\xff\0x\xe2\x82\xf0\x9d z";
    static const size_t len = sizeof data - 1;
    char whole[256];
    size_t used;
    bool replaced = false;
    size_t want =
        box_text_clean((const uint8_t *)data, len, false, whole, sizeof whole, &used, &replaced);
    for (size_t room = 4; room < 24; room++) {
        char joined[256];
        size_t have = 0;
        for (size_t at = 0; at < len; at += used) {
            size_t n = box_text_clean((const uint8_t *)data + at, len - at, false, joined + have,
                                      room, &used, &replaced);
            assert_true(used > 0);
            assert_true(box_utf8_valid(joined + have, n));
            have += n;
        }
        assert_int_equal(have, want);
        assert_memory_equal(joined, whole, want);
    }
}

/* --- SHA-256 ---------------------------------------------------------------------------------- */

static void digests_are_those_of_the_standard(void **state)
{
    (void)state;
    /* FIPS 180-4's examples, of NIST's example values; and the empty message. */
    static const struct {
        const char *text;
        uint8_t first[4];
    } rows[] = {
        {"", {0xe3, 0xb0, 0xc4, 0x42}},
        {"abc", {0xba, 0x78, 0x16, 0xbf}},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", {0x24, 0x8d, 0x6a, 0x61}},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        uint8_t out[32];
        box_sha256 s;
        box_sha256_init(&s);
        for (size_t at = 0; rows[i].text[at] != '\0'; at++)
            box_sha256_add(&s, rows[i].text + at, 1); /* byte by byte */
        box_sha256_end(&s, out);
        assert_memory_equal(out, rows[i].first, 4);
    }
}

static void a_digest_does_not_depend_on_the_pieces(void **state)
{
    (void)state;
    uint8_t data[300];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)i;
    for (size_t len = 0; len <= sizeof data; len++) {
        uint8_t whole[32];
        box_sha256 s;
        box_sha256_init(&s);
        box_sha256_add(&s, data, len);
        box_sha256_end(&s, whole);
        for (size_t cut = 0; cut <= len; cut += 7) {
            uint8_t pieces[32];
            box_sha256_init(&s);
            box_sha256_add(&s, data, cut);
            box_sha256_add(&s, data + cut, len - cut);
            box_sha256_end(&s, pieces);
            assert_memory_equal(pieces, whole, sizeof whole);
        }
    }
}

/* --- diffs ------------------------------------------------------------------------------------ */

static char *diff(const char *from, const char *to, size_t most, bool *cut)
{
    box_error err;
    const char *text;
    box_buf out = {0};
    assert_int_equal(box_diff(bytes(from), bytes(to), "/f", most, &out, cut, &err), 0);
    assert_int_equal(box_buf_text(&out, &text, &err), 0);
    char *copy = box_strdup(text);
    box_buf_done(&out);
    return copy;
}

static void assert_diff(const char *from, const char *to, const char *want)
{
    bool cut = true;
    char *got = diff(from, to, 65536, &cut);
    assert_string_equal(got, want);
    assert_false(cut);
    free(got);
}

#define HEAD "--- a/f\n+++ b/f\n"

static void diffs_are_unified(void **state)
{
    (void)state;
    assert_diff("a\nb\n", "a\nb\n", "");
    assert_diff("", "a\n", HEAD "@@ -0,0 +1,1 @@\n+a\n");
    assert_diff("a\n", "", HEAD "@@ -1,1 +0,0 @@\n-a\n");
    assert_diff("a\nb\nc\n", "a\nx\nc\n", HEAD "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n");
    assert_diff("a", "a\n", HEAD "@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n");
    assert_diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n3\n4\n5\n6\n7\n8\n9\nx\n",
                HEAD "@@ -1,5 +1,4 @@\n 1\n-2\n 3\n 4\n 5\n@@ -7,3 +6,4 @@\n 7\n 8\n 9\n+x\n");
}

static void a_long_diff_is_cut_at_a_line(void **state)
{
    (void)state;
    bool cut = false;
    char *got = diff("a\n", "b\nc\nd\n", 40, &cut);
    assert_true(cut);
    assert_int_equal(got[strlen(got) - 1], '\n');
    assert_true(strlen(got) <= 40);
    free(got);
}

/* Thousands of lines on both sides that have nothing in common: one piece. */
static void texts_that_differ_all_over_are_one_piece(void **state)
{
    (void)state;
    bool cut = false;
    char *a = box_alloc(20001);
    char *b = box_alloc(20001);
    for (size_t i = 0; i < 10000; i++) {
        memcpy(a + 2 * i, "a\n", 2);
        memcpy(b + 2 * i, "b\n", 2);
    }
    char *got = diff(a, b, 65536, &cut);
    assert_false(cut);
    assert_non_null(strstr(got, "@@ -1,10000 +1,10000 @@\n-a\n"));
    free(got);
    free(a);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_match_what_they_say),
        cmocka_unit_test(a_pattern_of_stars_ends_soon),
        cmocka_unit_test(patterns_that_are_none_are_refused),
        cmocka_unit_test(text_is_made_clean),
        cmocka_unit_test(cleaning_in_pieces_gives_the_same),
        cmocka_unit_test(digests_are_those_of_the_standard),
        cmocka_unit_test(a_digest_does_not_depend_on_the_pieces),
        cmocka_unit_test(diffs_are_unified),
        cmocka_unit_test(a_long_diff_is_cut_at_a_line),
        cmocka_unit_test(texts_that_differ_all_over_are_one_piece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
