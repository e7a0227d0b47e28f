#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "files/source.h"

typedef struct rig {
    int fd; /* of a file without a name */
    box_source source;
} rig;

static void fill(rig *r, size_t len, char what)
{
    BOX_AUTO(box_freep) char *data = box_alloc(len);
    memset(data, what, len);
    assert_int_equal(pwrite(r->fd, data, len, 0), len);
}

static int set_up(void **state)
{
    rig *r = box_alloc(sizeof *r);
    r->fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    assert_true(r->fd >= 0);
    *state = r;
    return 0;
}

static int tear_down(void **state)
{
    rig *r = *state;
    box_closep(&r->fd);
    free(r);
    return 0;
}

static void begin(rig *r, int fd)
{
    struct stat st;
    box_error err;
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(box_source_init(&r->source, fd, &st, "/x", &err), 0);
}

/* From the offset to the end, in pieces of `piece`; fails where a byte is not `what`. */
static size_t rest(rig *r, int64_t offset, size_t piece, char what)
{
    box_error err;
    char data[3000];
    size_t total = 0;
    for (;;) {
        ssize_t n = box_source_read(&r->source, data, piece, offset + (int64_t)total, &err);
        assert_true(n >= 0 && (size_t)n <= piece);
        if (n == 0)
            return total;
        for (ssize_t i = 0; i < n; i++)
            assert_int_equal(data[i], what);
        total += (size_t)n;
    }
}

static void it_is_read_whole_in_pieces_of_any_size(void **state)
{
    rig *r = *state;
    const size_t sizes[] = {1, BOX_SOURCE_HEAD_BYTES - 1, BOX_SOURCE_HEAD_BYTES,
                            BOX_SOURCE_HEAD_BYTES + 1, 3 * BOX_SOURCE_HEAD_BYTES};
    for (size_t i = 0; i < BOX_COUNT(sizes); i++) {
        fill(r, sizes[i], 'a');
        begin(r, r->fd);
        assert_int_equal(rest(r, 0, 1, 'a'), sizes[i]);
        assert_int_equal(rest(r, 0, 3000, 'a'), sizes[i]);
        assert_int_equal(rest(r, (int64_t)sizes[i] - 1, 7, 'a'), 1);
        assert_int_equal(rest(r, (int64_t)sizes[i], 7, 'a'), 0);
        assert_int_equal(rest(r, INT64_MAX / 2, 7, 'a'), 0);
    }
}

static void a_small_file_is_read_once(void **state)
{
    rig *r = *state;
    fill(r, 1024, 'a');
    begin(r, r->fd);
    fill(r, 1024, 'b');
    assert_int_equal(rest(r, 0, 100, 'a'), 1024);
}

static void what_it_grows_by_is_not_seen(void **state)
{
    rig *r = *state;
    fill(r, 20000, 'a');
    begin(r, r->fd);
    fill(r, 30000, 'a');
    assert_int_equal(rest(r, 0, 3000, 'a'), 20000);
    assert_int_equal(box_source_left(&r->source, 19000, 5000), 1000);
    assert_int_equal(box_source_left(&r->source, 20000, 5000), 0);
}

static void one_that_shrinks_ends_where_it_ends_now(void **state)
{
    rig *r = *state;
    fill(r, 30000, 'a');
    begin(r, r->fd);
    assert_int_equal(ftruncate(r->fd, 10000), 0);
    assert_int_equal(rest(r, 0, 3000, 'a'), 10000);
}

static void where_the_size_says_nothing_the_end_is_found(void **state)
{
    rig *r = *state;
    char data[64];
    box_error err;
    BOX_AUTO(box_closep) int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    begin(r, fd);
    assert_true(box_source_read(&r->source, data, sizeof data, 0, &err) > 2);
    assert_int_equal(box_source_left(&r->source, 1000000, 5), 5);
    assert_int_equal(box_source_read(&r->source, data, sizeof data, 1000000, &err), 0);
}

static void an_empty_file_may_have_grown(void **state)
{
    rig *r = *state;
    begin(r, r->fd);
    assert_int_equal(rest(r, 0, 10, 'a'), 0);
    fill(r, 10, 'a');
    assert_int_equal(rest(r, 0, 100, 'a'), 10);
}

static void an_error_names_the_file(void **state)
{
    rig *r = *state;
    struct stat st;
    box_error err = {0};
    BOX_AUTO(box_closep) int fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(box_source_init(&r->source, fd, &st, "/x", &err), -1);
    assert_non_null(strstr(err.msg, "/x"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_is_read_whole_in_pieces_of_any_size, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_small_file_is_read_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_it_grows_by_is_not_seen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_shrinks_ends_where_it_ends_now, set_up, tear_down),
        cmocka_unit_test_setup_teardown(where_the_size_says_nothing_the_end_is_found, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_empty_file_may_have_grown, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_error_names_the_file, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
