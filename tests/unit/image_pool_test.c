#include "warden/image_pool.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB (INT64_C(1) << 20)

static const box_disk_class classes[] = {{64 * MIB, 1}, {256 * MIB, 2}, {1024 * MIB, 4}};

static box_image_pool *new_pool(void)
{
    const box_disk_config disk = {
        .pool = {.items = (void *)(uintptr_t)classes, .count = BOX_COUNT(classes)}};
    return box_image_pool_new(&disk);
}

/* Any descriptor stands for an image. */
static int new_image(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static void the_smallest_size_that_holds_it_is_used(void **state)
{
    (void)state;
    box_image_pool *pool = new_pool();
    assert_int_equal(box_image_pool_size(pool, 1), 64 * MIB);
    assert_int_equal(box_image_pool_size(pool, 64 * MIB), 64 * MIB);
    assert_int_equal(box_image_pool_size(pool, 64 * MIB + 1), 256 * MIB);
    assert_int_equal(box_image_pool_size(pool, 1024 * MIB), 1024 * MIB);
    assert_int_equal(box_image_pool_size(pool, 1024 * MIB + 1), 1024 * MIB + 1);
    box_image_pool_free(pool);
}

static void one_that_was_given_is_taken_once(void **state)
{
    (void)state;
    box_image_pool *pool = new_pool();
    int image = new_image();
    int number = image;
    assert_int_equal(box_image_pool_take(pool, 64 * MIB), -1);
    assert_true(box_image_pool_give(pool, 64 * MIB, &image));
    assert_int_equal(image, -1);
    assert_int_equal(box_image_pool_take(pool, 256 * MIB), -1);
    assert_int_equal(box_image_pool_take(pool, 64 * MIB), number);
    assert_int_equal(box_image_pool_take(pool, 64 * MIB), -1);
    assert_true(is_open(number));
    assert_int_equal(close(number), 0);
    box_image_pool_free(pool);
}

static void no_more_are_kept_than_wanted_and_none_of_other_sizes(void **state)
{
    (void)state;
    box_image_pool *pool = new_pool();
    int first = new_image();
    int second = new_image();
    assert_true(box_image_pool_give(pool, 64 * MIB, &first));
    assert_false(box_image_pool_give(pool, 64 * MIB, &second));
    assert_false(box_image_pool_give(pool, 65 * MIB, &second));
    assert_int_equal(box_image_pool_take(pool, 65 * MIB), -1);
    assert_true(is_open(second));
    assert_int_equal(close(second), 0);
    box_image_pool_free(pool);
}

static void what_lacks_most_is_missing_first_until_all_are_there(void **state)
{
    (void)state;
    static const int64_t order[] = {64, 256, 1024, 1024, 256, 1024, 1024};
    box_image_pool *pool = new_pool();
    for (size_t i = 0; i < BOX_COUNT(order); i++) {
        int image = new_image();
        assert_int_equal(box_image_pool_missing(pool), order[i] * MIB);
        assert_true(box_image_pool_give(pool, order[i] * MIB, &image));
    }
    assert_int_equal(box_image_pool_missing(pool), 0);
    int taken = box_image_pool_take(pool, 256 * MIB);
    assert_int_equal(box_image_pool_missing(pool), 256 * MIB);
    assert_int_equal(close(taken), 0);
    box_image_pool_free(pool);
}

static void its_end_closes_what_is_ready(void **state)
{
    (void)state;
    box_image_pool *pool = new_pool();
    int images[3] = {new_image(), new_image(), new_image()};
    int numbers[3] = {images[0], images[1], images[2]};
    assert_true(box_image_pool_give(pool, 1024 * MIB, &images[0]));
    assert_true(box_image_pool_give(pool, 1024 * MIB, &images[1]));
    assert_true(box_image_pool_give(pool, 64 * MIB, &images[2]));
    box_image_pool_free(pool);
    for (size_t i = 0; i < BOX_COUNT(numbers); i++)
        assert_false(is_open(numbers[i]));
    box_image_pool_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_size_that_holds_it_is_used),
        cmocka_unit_test(one_that_was_given_is_taken_once),
        cmocka_unit_test(no_more_are_kept_than_wanted_and_none_of_other_sizes),
        cmocka_unit_test(what_lacks_most_is_missing_first_until_all_are_there),
        cmocka_unit_test(its_end_closes_what_is_ready),
    };
    return cmocka_run_group_tests_name("image_pool", tests, NULL, NULL);
}
