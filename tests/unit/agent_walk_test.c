#include "agent/walk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"

static void a_stat_line_is_read(void **state)
{
    (void)state;
    box_walk_process p = {0};
    assert_true(box_walk_parse("42 (sh) S 7 42 42 0 -1 4194304 1", &p));
    assert_int_equal(p.pid, 42);
    assert_int_equal(p.parent, 7);
    assert_int_equal(p.state, 'S');
    assert_false(p.below);
}

static void a_name_cannot_forge_the_fields_behind_it(void **state)
{
    (void)state;
    box_walk_process p = {0};
    assert_true(box_walk_parse("42 (x) S 1 (y) Z 7 42", &p)); /* comm is "x) S 1 (y" */
    assert_int_equal(p.parent, 7);
    assert_int_equal(p.state, 'Z');
    assert_true(box_walk_parse("42 (a b\n) R 9 1", &p));
    assert_int_equal(p.parent, 9);
}

static void a_line_cut_at_any_byte_is_refused_or_whole(void **state)
{
    (void)state;
    static const char line[] = "42 (sh) S 17 42";
    char cut[sizeof line];
    for (size_t len = 0; len < sizeof line; len++) {
        memcpy(cut, line, len);
        cut[len] = '\0';
        box_walk_process p = {.pid = -5};
        bool whole = len >= strlen("42 (sh) S 17 ");
        assert_int_equal(box_walk_parse(cut, &p), whole);
        assert_int_equal(p.pid, whole ? 42 : -5);
    }
}

static void what_is_no_stat_line_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        ")",
        "42",
        "(sh) S 7 1",
        "x (sh) S 7",
        "42 (sh) S x",
        "42 (sh)S 7 ",
        "0 (sh) S 7 ",
        "42 sh) S 7 ",
        "-1 (sh) S 7 ",
        "42 (sh) S -7 ",
        "99999999999 (sh) S 7 ",
    };
    box_walk_process p;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(box_walk_parse(bad[i], &p));
}

static void a_process_before_its_exec_is_told_apart(void **state)
{
    (void)state;
    assert_true(box_walk_parse_before_exec("42 (sh) T 7 42 42 0 -1 4194368 1 2"));
    assert_false(box_walk_parse_before_exec("42 (sh) T 7 42 42 0 -1 4194304 1 2"));
    assert_false(box_walk_parse_before_exec("42 (a) T 1 1 1 0 -1 64 ) T 7 42 42 0 -1 4194304 1"));
    assert_false(box_walk_parse_before_exec("42 (sh) T 7 42"));
    assert_false(box_walk_parse_before_exec(""));
    assert_false(box_walk_is_before_exec(getpid()));
    assert_true(box_walk_is_before_exec(0x7ffffff0)); /* nobody can say */
}

static void descendants_are_marked_in_any_order(void **state)
{
    (void)state;
    BOX_AUTO(box_freep) box_walk *w = box_alloc(sizeof *w);
    const box_walk_process list[] = {
        {.pid = 5, .parent = 4, .state = 'S'}, /* great-grandchild, listed first */
        {.pid = 3, .parent = 2, .state = 'Z'}, /* a zombie child counts as dead, not as a wall */
        {.pid = 4, .parent = 3, .state = 'T'}, {.pid = 9, .parent = 1, .state = 'R'},
        {.pid = 2, .parent = 1, .state = 'S'},
    };
    memcpy(w->list, list, sizeof list);
    w->count = 5;
    assert_int_equal(box_walk_mark(w, 2), 2);
    for (int i = 0; i < 5; i++) {
        int pid = w->list[i].pid;
        assert_int_equal(w->list[i].below, pid >= 3 && pid <= 5);
    }
}

static void a_full_list_is_marked_without_a_look_at_all_for_each(void **state)
{
    (void)state;
    BOX_AUTO(box_freep) box_walk *w = box_alloc(sizeof *w);
    w->count = BOX_WALK_MAX; /* a chain, and its root is not in it; squared it would take minutes */
    for (int i = 0; i < BOX_WALK_MAX; i++)
        w->list[i] = (box_walk_process){.pid = i + 2, .parent = i + 1, .state = 'S'};
    assert_int_equal(box_walk_mark(w, 1), BOX_WALK_MAX);
    assert_int_equal(box_walk_mark(w, 1), 0); /* marked already */
}

static void a_parent_loop_does_not_hang(void **state)
{
    (void)state;
    BOX_AUTO(box_freep) box_walk *w = box_alloc(sizeof *w);
    /* Pids reused between two reads of one look. */
    const box_walk_process list[] = {{.pid = 5, .parent = 6, .state = 'S'},
                                     {.pid = 6, .parent = 5, .state = 'S'}};
    memcpy(w->list, list, sizeof list);
    w->count = 2;
    assert_int_equal(box_walk_mark(w, 1), 0);
}

static void a_look_finds_this_very_process(void **state)
{
    (void)state;
    BOX_AUTO(box_freep) box_walk *w = box_alloc(sizeof *w);
    assert_true(box_walk_look(w));
    bool found = false;
    for (uint32_t i = 0; i < w->count; i++)
        found |= w->list[i].pid == getpid() && w->list[i].parent == getppid();
    assert_true(found || w->count == BOX_WALK_MAX);
    assert_int_equal(box_walk_mark(w, getpid()), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stat_line_is_read),
        cmocka_unit_test(a_name_cannot_forge_the_fields_behind_it),
        cmocka_unit_test(a_line_cut_at_any_byte_is_refused_or_whole),
        cmocka_unit_test(what_is_no_stat_line_is_refused),
        cmocka_unit_test(a_process_before_its_exec_is_told_apart),
        cmocka_unit_test(descendants_are_marked_in_any_order),
        cmocka_unit_test(a_full_list_is_marked_without_a_look_at_all_for_each),
        cmocka_unit_test(a_parent_loop_does_not_hang),
        cmocka_unit_test(a_look_finds_this_very_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
