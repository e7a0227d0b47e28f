#include "agent/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "base/limits.h"

enum { RING = 4096 };

static int make(void **state)
{
    static box_journal j;
    box_error err;
    assert_int_equal(box_journal_make(&j, RING, &err), 0);
    assert_int_equal(box_journal_fill(j.fd), 0);
    box_journal_begin(&j);
    *state = &j;
    return 0;
}

static int drop(void **state)
{
    box_journal_close(*state);
    return 0;
}

static box_journal_span look(const box_journal *j)
{
    box_journal_span span;
    box_error err;
    assert_int_equal(box_journal_look(j->fd, RING, &span, &err), 0);
    return span;
}

/* Byte number n of the stream that the tests write. */
static uint8_t byte_at(uint64_t n)
{
    return (uint8_t)(n * 31 + n / 251);
}

static void add(box_journal *j, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t b = byte_at(j->end);
        box_journal_add(j, &b, 1);
    }
}

static void assert_readable(const box_journal *j, uint64_t from, uint64_t to)
{
    uint8_t data[RING];
    box_error err;
    while (from < to) {
        size_t want = (size_t)(to - from) < sizeof data ? (size_t)(to - from) : sizeof data;
        ssize_t n = box_journal_read(j->fd, RING, from, data, want, &err);
        assert_true(n > 0);
        for (ssize_t i = 0; i < n; i++)
            assert_int_equal(data[i], byte_at(from + (uint64_t)i));
        from += (uint64_t)n;
    }
}

static void what_was_written_last_can_be_read_at_any_offset(void **state)
{
    box_journal *j = *state;
    assert_int_equal(look(j).end, 0);
    for (int round = 0; round < 40; round++) {
        add(j, 333);
        box_journal_span span = look(j);
        assert_int_equal(span.end, j->end);
        assert_int_equal(span.first, j->end > RING ? j->end - RING : 0);
        assert_readable(j, span.first, span.end);
        assert_readable(j, span.first + 1, span.end);
    }
}

static void one_long_piece_leaves_its_last_bytes(void **state)
{
    box_journal *j = *state;
    uint8_t data[3 * RING + 5];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = byte_at(i);
    box_journal_add(j, data, sizeof data);
    box_journal_span span = look(j);
    assert_int_equal(span.first, sizeof data - RING);
    assert_readable(j, span.first, span.end);
}

static void bytes_that_were_overwritten_are_not_returned(void **state)
{
    box_journal *j = *state;
    uint8_t data[64];
    box_error err;
    add(j, RING + 100);
    assert_int_equal(box_journal_read(j->fd, RING, 99, data, sizeof data, &err), 0);
    assert_int_equal(box_journal_read(j->fd, RING, 100, data, sizeof data, &err), sizeof data);
}

static void a_pipe_is_read_into_the_ring(void **state)
{
    box_journal *j = *state;
    uint8_t data[3000];
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(box_journal_take(j, ends[0]), -1);
    assert_int_equal(errno, EAGAIN);
    for (int round = 0; round < 10; round++) {
        for (size_t i = 0; i < sizeof data; i++)
            data[i] = byte_at(j->end + i);
        assert_int_equal(write(ends[1], data, sizeof data), sizeof data);
        while (box_journal_take(j, ends[0]) > 0)
            continue;
        assert_readable(j, look(j).first, look(j).end);
    }
    assert_int_equal(look(j).end, 10 * sizeof data);
    (void)close(ends[1]);
    assert_int_equal(box_journal_take(j, ends[0]), 0);
    (void)close(ends[0]);
}

static void a_text_is_found_wherever_pieces_and_the_ring_are_cut(void **state)
{
    static const char text[] = "aab ready";
    size_t len = sizeof text - 1;
    for (size_t lead = RING - 20; lead < RING + 5; lead++) {
        for (size_t cut = 1; cut < len; cut++) {
            box_journal *j = *state;
            box_journal_begin(j);
            uint64_t at = 0;
            for (size_t i = 0; i < lead; i++) {
                box_journal_add(j, "a", 1);
                assert_false(box_journal_find(j, &at, text, len));
            }
            box_journal_add(j, text, cut);
            assert_false(box_journal_find(j, &at, text, len));
            box_journal_add(j, text + cut, len - cut);
            assert_true(box_journal_find(j, &at, text, len));
            assert_int_equal(at, lead);
        }
    }
}

static void a_file_that_can_change_its_size_is_no_journal(void **state)
{
    uint64_t capacity;
    box_error err;
    box_journal *j = *state;
    assert_int_equal(box_journal_check(j->fd, &capacity, &err), 0);
    assert_int_equal(capacity, RING);
    int open_size = memfd_create("t", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(open_size, BOX_JOURNAL_HEADER_BYTES + RING), 0);
    assert_int_equal(box_journal_check(open_size, &capacity, &err), -1);
    assert_int_equal(err.reason, BOX_PROTOCOL);
    (void)close(open_size);
    off_t sizes[] = {0, BOX_JOURNAL_HEADER_BYTES, BOX_JOURNAL_HEADER_BYTES + 4095,
                     BOX_JOURNAL_HEADER_BYTES + BOX_MAX_JOURNAL_BYTES + 4096};
    for (size_t i = 0; i < BOX_COUNT(sizes); i++) {
        int fd = memfd_create("t", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_int_equal(ftruncate(fd, sizes[i]), 0);
        assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
        assert_int_equal(box_journal_check(fd, &capacity, &err), -1);
        (void)close(fd);
    }
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(box_journal_check(ends[0], &capacity, &err), -1);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void a_header_of_nonsense_is_refused(void **state)
{
    box_journal *j = *state;
    box_journal_span span;
    box_error err;
    uint8_t data[16];
    const uint64_t wrong[][4] = {
        {1, 1, 0, ~UINT64_C(0)},          {0, ~UINT64_C(0), 5, 5},          {0, 0, 0, 0},
        {UINT64_MAX, 0, 0, ~UINT64_C(0)}, {0, ~UINT64_C(0), UINT64_MAX, 0},
    };
    for (size_t i = 0; i < BOX_COUNT(wrong); i++) {
        assert_int_equal(pwrite(j->fd, wrong[i], sizeof wrong[i], 0), sizeof wrong[i]);
        assert_int_equal(box_journal_look(j->fd, RING, &span, &err), -1);
        assert_int_equal(err.reason, BOX_PROTOCOL);
        assert_int_equal(box_journal_read(j->fd, RING, 0, data, sizeof data, &err), -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_written_last_can_be_read_at_any_offset, make,
                                        drop),
        cmocka_unit_test_setup_teardown(one_long_piece_leaves_its_last_bytes, make, drop),
        cmocka_unit_test_setup_teardown(bytes_that_were_overwritten_are_not_returned, make, drop),
        cmocka_unit_test_setup_teardown(a_pipe_is_read_into_the_ring, make, drop),
        cmocka_unit_test_setup_teardown(a_text_is_found_wherever_pieces_and_the_ring_are_cut, make,
                                        drop),
        cmocka_unit_test_setup_teardown(a_file_that_can_change_its_size_is_no_journal, make, drop),
        cmocka_unit_test_setup_teardown(a_header_of_nonsense_is_refused, make, drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
