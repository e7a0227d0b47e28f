#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

static void assert_content(const box_buf *b, const char *text)
{
    assert_int_equal(box_buf_len(b), strlen(text));
    if (text[0] != '\0')
        assert_memory_equal(box_buf_data(b), text, strlen(text));
}

static void a_zeroed_buffer_is_empty_and_usable(void **state)
{
    (void)state;
    box_buf b = {0};
    box_error err;
    assert_int_equal(box_buf_len(&b), 0);
    assert_int_equal(box_buf_add(&b, "abc", 3, &err), 0);
    assert_int_equal(box_buf_add(&b, NULL, 0, &err), 0);
    assert_content(&b, "abc");
    box_buf_done(&b);
    assert_int_equal(box_buf_len(&b), 0);
}

static void content_can_be_added_and_consumed_in_any_steps(void **state)
{
    (void)state;
    box_buf b = {0};
    box_error err;
    uint8_t next_in = 0;
    uint8_t next_out = 0;
    for (size_t round = 1; round < 300; round++) {
        for (size_t i = 0; i < round; i++, next_in++)
            assert_int_equal(box_buf_add(&b, &next_in, 1, &err), 0);
        size_t take = round % 7 == 0 ? box_buf_len(&b) : round / 2;
        for (size_t i = 0; i < take; i++, next_out++)
            assert_int_equal(box_buf_data(&b)[i], next_out);
        box_buf_consume(&b, take);
    }
    box_buf_consume(&b, SIZE_MAX);
    assert_int_equal(box_buf_len(&b), 0);
    box_buf_done(&b);
}

static void the_ceiling_holds_exactly_and_nothing_is_added_beyond(void **state)
{
    (void)state;
    box_buf b;
    box_error err = {0};
    box_buf_init(&b, 5);
    assert_int_equal(box_buf_add(&b, "abc", 3, &err), 0);
    assert_int_equal(box_buf_add(&b, "def", 3, &err), -1);
    assert_int_equal(err.reason, BOX_MEMORY_BUDGET);
    assert_content(&b, "abc");
    assert_int_equal(box_buf_add(&b, "de", 2, &err), 0);
    assert_content(&b, "abcde");
    uint8_t *room;
    assert_int_equal(box_buf_reserve(&b, SIZE_MAX, &room, &err), -1);
    /* What was consumed makes room. */
    box_buf_consume(&b, 4);
    assert_int_equal(box_buf_add(&b, "1234", 4, &err), 0);
    assert_content(&b, "e1234");
    box_buf_done(&b);
    assert_int_equal(b.max_bytes, 5);
}

static void room_counts_when_it_is_claimed(void **state)
{
    (void)state;
    box_buf b = {0};
    box_error err;
    uint8_t *room;
    assert_int_equal(box_buf_reserve(&b, 10, &room, &err), 0);
    memcpy(room, "0123456789", 10);
    assert_int_equal(box_buf_len(&b), 0);
    box_buf_commit(&b, 4);
    assert_content(&b, "0123");
    box_buf_done(&b);
}

static void text_is_formatted_and_ended(void **state)
{
    (void)state;
    box_buf b = {0};
    box_error err;
    const char *text;
    assert_int_equal(box_buf_text(&b, &text, &err), 0);
    assert_string_equal(text, "");
    assert_int_equal(box_buf_printf(&b, &err, "%s-%d", "a", 7), 0);
    assert_int_equal(box_buf_printf(&b, &err, "%s", "!"), 0);
    assert_int_equal(box_buf_text(&b, &text, &err), 0);
    assert_string_equal(text, "a-7!");
    assert_int_equal(box_buf_len(&b), 4);
    box_buf_clear(&b);
    assert_int_equal(box_buf_len(&b), 0);
    box_buf_done(&b);
}

static void a_descriptor_is_read_to_its_end_within_the_ceiling(void **state)
{
    (void)state;
    box_buf b = {.max_bytes = 64 * 1024};
    box_error err = {0};
    int ends[2];
    char chunk[1000];
    memset(chunk, 'c', sizeof chunk);
    assert_int_equal(pipe(ends), 0);
    for (int i = 0; i < 20; i++)
        assert_int_equal(write(ends[1], chunk, sizeof chunk), sizeof chunk);
    (void)close(ends[1]);
    assert_int_equal(box_buf_read_fd(&b, ends[0], &err), 0);
    assert_int_equal(box_buf_len(&b), 20000);
    (void)close(ends[0]);
    box_buf_done(&b);
    assert_int_equal(box_buf_read_fd(&b, -1, &err), -1);
    box_buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_zeroed_buffer_is_empty_and_usable),
        cmocka_unit_test(content_can_be_added_and_consumed_in_any_steps),
        cmocka_unit_test(the_ceiling_holds_exactly_and_nothing_is_added_beyond),
        cmocka_unit_test(room_counts_when_it_is_claimed),
        cmocka_unit_test(text_is_formatted_and_ended),
        cmocka_unit_test(a_descriptor_is_read_to_its_end_within_the_ceiling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
