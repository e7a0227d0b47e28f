#include "tty.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Typed in pieces of `step` bytes: what passes, and whether the keys came. */
static bool type(const char *text, size_t step, char *out)
{
    size_t len = strlen(text);
    size_t n = 0;
    bool held = false;
    bool came = false;
    for (size_t at = 0; at < len && !came; at += step) {
        uint8_t passed[64];
        size_t n_passed;
        size_t piece = len - at < step ? len - at : step;
        came = cli_detach_keys(&held, (const uint8_t *)text + at, piece, passed, &n_passed);
        memcpy(out + n, passed, n_passed);
        n += n_passed;
    }
    out[n] = '\0';
    return came;
}

static void the_keys_are_seen_however_they_are_cut(void **state)
{
    static const struct {
        const char *typed;
        const char *passed;
        bool came;
    } rows[] = {
        {"ls\r", "ls\r", false},
        {"\x10\x11", "", true},
        {"ab\x10\x11 more", "ab", true},
        {"\x10x", "\x10x", false},
        {"\x10\x10\x11", "\x10", true},
        {"\x11\x10", "\x11", false}, /* the last is held */
        {"a\x10"
         "b\x11",
         "a\x10"
         "b\x11",
         false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t step = 1; step <= 8; step++) {
            char out[64];
            assert_int_equal(type(rows[i].typed, step, out), rows[i].came);
            assert_string_equal(out, rows[i].passed);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_keys_are_seen_however_they_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
