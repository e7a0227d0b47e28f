#include "base/map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MANY = 5000 };

static void what_is_put_is_found_and_removed(void **state)
{
    (void)state;
    static int values[3];
    box_map *m = box_map_new();
    assert_null(box_map_get(m, "a"));
    assert_null(box_map_put(m, "a", &values[0]));
    assert_null(box_map_put(m, "b", &values[1]));
    assert_ptr_equal(box_map_get(m, "a"), &values[0]);
    assert_ptr_equal(box_map_put(m, "a", &values[2]), &values[0]);
    assert_ptr_equal(box_map_get(m, "a"), &values[2]);
    assert_int_equal(box_map_count(m), 2);
    assert_ptr_equal(box_map_remove(m, "a"), &values[2]);
    assert_null(box_map_remove(m, "a"));
    assert_null(box_map_get(m, "a"));
    assert_int_equal(box_map_count(m), 1);
    box_map_free(m);
    box_map_free(NULL);
}

static void keys_are_bytes_of_any_length_and_are_copied(void **state)
{
    (void)state;
    static int values[3];
    char key[] = "k\0x";
    box_map *m = box_map_new();
    assert_null(box_map_put_bytes(m, key, 3, &values[0]));
    assert_null(box_map_put_bytes(m, key, 2, &values[1]));
    assert_null(box_map_put_bytes(m, key, 0, &values[2]));
    key[2] = 'y';
    assert_ptr_equal(box_map_get_bytes(m, "k\0x", 3), &values[0]);
    assert_ptr_equal(box_map_get_bytes(m, "k\0", 2), &values[1]);
    assert_ptr_equal(box_map_get_bytes(m, "", 0), &values[2]);
    assert_null(box_map_get(m, "k"));
    assert_ptr_equal(box_map_remove_bytes(m, "k\0", 2), &values[1]);
    box_map_free(m);
}

static void many_entries_are_each_walked_once(void **state)
{
    (void)state;
    static int seen[MANY];
    box_map *m = box_map_new();
    size_t at = 0;
    size_t n = 0;
    void *value;
    for (int i = 0; i < MANY; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "%d", i);
        seen[i] = 0;
        assert_null(box_map_put(m, key, &seen[i]));
    }
    for (int i = 0; i < MANY; i += 3) {
        char key[16];
        (void)snprintf(key, sizeof key, "%d", i);
        assert_ptr_equal(box_map_remove(m, key), &seen[i]);
    }
    while (box_map_next(m, &at, &value)) {
        ++*(int *)value;
        n++;
    }
    assert_int_equal(n, box_map_count(m));
    for (int i = 0; i < MANY; i++)
        assert_int_equal(seen[i], i % 3 == 0 ? 0 : 1);
    box_map_free(m);
}

static void walking_an_empty_map_ends_at_once(void **state)
{
    (void)state;
    box_map *m = box_map_new();
    size_t at = 0;
    void *value;
    assert_false(box_map_next(m, &at, &value));
    box_map_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_is_found_and_removed),
        cmocka_unit_test(keys_are_bytes_of_any_length_and_are_copied),
        cmocka_unit_test(many_entries_are_each_walked_once),
        cmocka_unit_test(walking_an_empty_map_ends_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
