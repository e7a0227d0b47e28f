#include "rpc/peer_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static uint64_t *get(box_peer_table *r, const char *key, box_time now)
{
    return box_peer_table_get(r, key, strlen(key), now);
}

static void each_key_has_its_own_value(void **state)
{
    (void)state;
    box_peer_table *r = box_peer_table_new(16, sizeof(uint64_t));
    assert_int_equal(*get(r, "a", 1), 0);
    *get(r, "a", 1) = 5;
    assert_int_equal(*get(r, "b", 2), 0);
    assert_int_equal(*get(r, "a", 3), 5);
    assert_int_equal(*(uint64_t *)box_peer_table_peek(r, "a", 1), 5);
    assert_null(box_peer_table_peek(r, "c", 1));
    box_peer_table_free(r);
}

/* One bucket only. */
static void a_new_key_takes_the_place_of_the_one_used_least_recently(void **state)
{
    (void)state;
    box_peer_table *r = box_peer_table_new(8, sizeof(uint64_t));
    static const char *const keys[] = {"0", "1", "2", "3", "4", "5", "6", "7"};
    for (unsigned i = 0; i < 8; i++)
        *get(r, keys[i], 10 + i) = i + 1;
    (void)get(r, "0", 20);
    (void)box_peer_table_peek(r, "1", 1); /* not a use */
    assert_int_equal(*get(r, "new", 21), 0);
    assert_null(box_peer_table_peek(r, "1", 1));
    assert_int_equal(*get(r, "0", 22), 1);
    assert_int_equal(*get(r, "7", 22), 8);
    box_peer_table_free(r);
}

static void very_many_keys_take_no_more_room(void **state)
{
    (void)state;
    box_peer_table *r = box_peer_table_new(64, sizeof(uint64_t));
    for (uint32_t i = 1; i < 100000; i++) {
        uint64_t *value = box_peer_table_get(r, &i, sizeof i, i);
        assert_int_equal(*value, 0);
        *value = i;
        assert_int_equal(*(uint64_t *)box_peer_table_peek(r, &i, sizeof i), i);
    }
    box_peer_table_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_key_has_its_own_value),
        cmocka_unit_test(a_new_key_takes_the_place_of_the_one_used_least_recently),
        cmocka_unit_test(very_many_keys_take_no_more_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
