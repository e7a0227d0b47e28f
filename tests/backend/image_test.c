/* Images of workspaces on disk: their sizes, their limits, and that nothing of them stays. Real
 * loop devices, as root. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "image_devices.h"
#include "namespace/image.h"

#define KIB INT64_C(1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)

typedef struct fixture {
    char dir[64];
    box_disk_class classes[2];
    box_disk_config disk;
    box_images *images;
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    box_error err;
    assert_non_null(f);
    (void)snprintf(f->dir, sizeof f->dir, "/var/tmp/box-image-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->classes[0] = (box_disk_class){.bytes = 64 * MIB, .ready = 1};
    f->classes[1] = (box_disk_class){.bytes = GIB, .ready = 1};
    f->disk = (box_disk_config){.directory = f->dir,
                                .pool = {.items = f->classes, .count = BOX_COUNT(f->classes)}};
    if (box_images_open(&f->disk, &f->images, &err) < 0)
        fail_msg("%s", err.msg);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    box_images_close(f->images);
    test_devices_await(f->dir, 0);
    assert_int_equal(rmdir(f->dir), 0);
    free(f);
    return 0;
}

static int make(const fixture *f, int64_t bytes)
{
    int image = -1;
    box_error err;
    if (box_images_make(f->images, bytes, &image, &err) < 0)
        fail_msg("%lld bytes: %s", (long long)bytes, err.msg);
    return image;
}

static void each_size_has_room_for_what_was_asked(void **state)
{
    const fixture *f = *state;
    static const int64_t sizes[] = {
        BOX_DISK_MIN_BYTES, 5 * MIB,   64 * MIB,  100 * MIB,       119 * MIB,
        127 * MIB,          128 * MIB, 129 * MIB, GIB - 4 * KIB,   GIB,
        3 * GIB + 1,        16 * GIB,  100 * GIB, 1000 * GIB + MIB};
    for (size_t i = 0; i < BOX_COUNT(sizes); i++) {
        box_image_room room;
        box_error err;
        BOX_AUTO(box_closep) int image = make(f, sizes[i]); /* looks itself */
        assert_int_equal(box_image_assign(image, sizes[i], 0x70000000, &room, &err), 0);
        assert_in_range(room.bytes, sizes[i], sizes[i] + sizes[i] / 1024 + 512 * KIB);
        assert_true(room.inodes >= sizes[i] / (4 * KIB));
    }
}

static void a_smaller_workspace_gets_its_limit_in_a_larger_image(void **state)
{
    const fixture *f = *state;
    static const int64_t sizes[] = {64 * KIB, MIB, 300 * MIB, 700 * MIB + 1};
    for (size_t i = 0; i < BOX_COUNT(sizes); i++) {
        box_image_room room;
        box_error err;
        BOX_AUTO(box_closep) int image = make(f, GIB);
        assert_int_equal(box_image_assign(image, sizes[i], 0x70000000, &room, &err), 0);
        assert_in_range(room.bytes, sizes[i], sizes[i] + sizes[i] / 1024 + 512 * KIB);
    }
}

/* How much can be written to that file; what ends it is ENOSPC. */
static int64_t fill(int image, const char *path)
{
    static const char block[64 * 1024];
    BOX_AUTO(box_closep) int fd = openat(image, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    int64_t sum = 0;
    for (ssize_t n; (n = write(fd, block, sizeof block)) > 0;)
        sum += n;
    assert_int_equal(errno, ENOSPC);
    return sum;
}

static void a_full_one_says_so_close_above_its_limit_and_takes_again(void **state)
{
    const fixture *f = *state;
    box_image_room room;
    box_error err;
    BOX_AUTO(box_closep) int image = make(f, 64 * MIB);
    assert_int_equal(box_image_assign(image, 40 * MIB, 0x70000000, &room, &err), 0);
    for (int i = 0; i < 3; i++) {
        assert_in_range(fill(image, BOX_IMAGE_FILES "/a"), 40 * MIB, 41 * MIB);
        assert_int_equal(unlinkat(image, BOX_IMAGE_FILES "/a", 0), 0);
    }
    /* What another one had written is in none. */
    BOX_AUTO(box_closep) int other = make(f, 64 * MIB);
    assert_int_equal(faccessat(other, BOX_IMAGE_FILES "/a", F_OK, 0), -1);
}

static void only_the_owner_may_use_it(void **state)
{
    const fixture *f = *state;
    box_image_room room;
    box_error err;
    struct stat st;
    BOX_AUTO(box_closep) int image = make(f, 64 * MIB);
    assert_int_equal(fstatat(image, BOX_IMAGE_FILES, &st, 0), 0);
    assert_int_equal(st.st_uid, 0);
    assert_int_equal(box_image_assign(image, 64 * MIB, 0x70000000, &room, &err), 0);
    assert_int_equal(fstatat(image, BOX_IMAGE_FILES, &st, 0), 0);
    assert_int_equal(st.st_uid, 0x70000000);
    assert_int_equal(st.st_gid, 0x70000000);
    assert_int_equal(st.st_mode & 07777, 0755);
    assert_int_equal(fstatat(image, ".", &st, 0), 0);
    assert_int_equal(st.st_uid, 0);
    assert_int_equal(st.st_mode & 07777, 0711);
    assert_int_equal(box_image_assign(image, MIB, 0x70000000, &room, &err), -1); /* once */
}

static void nothing_stays_of_one_whose_holder_is_killed(void **state)
{
    const fixture *f = *state;
    int ready[2];
    char byte;
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        box_error err;
        int images[3];
        for (int i = 0; i < 3; i++) {
            if (box_images_make(f->images, 64 * MIB, &images[i], &err) < 0)
                _exit(1);
        }
        (void)!write(ready[1], "r", 1);
        (void)pause();
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(test_devices(f->dir), 3);
    assert_int_equal(test_names_in(f->dir), 0); /* a file without a name needs no sweep */
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    (void)close(ready[0]);
    (void)close(ready[1]);
    test_devices_await(f->dir, 0);
    assert_int_equal(test_names_in(f->dir), 0);
}

static void nothing_stays_of_makers_that_are_killed_at_any_moment(void **state)
{
    const fixture *f = *state;
    enum { ROUNDS = 60 };
    for (int i = 0; i < ROUNDS; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            for (;;) {
                box_error err;
                int image = -1;
                if (box_images_make(f->images, 64 * MIB, &image, &err) < 0)
                    _exit(1);
                (void)close(image);
            }
        }
        (void)usleep((useconds_t)(i * 331)); /* 0 to 20 ms: wherever it is then */
        assert_int_equal(kill(pid, SIGKILL), 0);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status)); /* making never failed */
    }
    test_devices_await(f->dir, 0);
    assert_int_equal(test_names_in(f->dir), 0);
}

static void a_directory_that_is_not_ours_is_refused(void **state)
{
    const fixture *f = *state;
    char dir[96];
    char link[96];
    box_images *images;
    box_error err;
    (void)snprintf(dir, sizeof dir, "%s/other", f->dir);
    (void)snprintf(link, sizeof link, "%s/link", f->dir);
    assert_int_equal(mkdir(dir, 0755), 0);
    assert_int_equal(symlink(dir, link), 0);
    box_disk_config disk = f->disk;
    disk.directory = link;
    assert_int_equal(box_images_open(&disk, &images, &err), -1);
    assert_int_equal(chown(dir, 1000, 1000), 0);
    disk.directory = dir;
    assert_int_equal(box_images_open(&disk, &images, &err), -1);
    assert_int_equal(err.reason, BOX_PERMISSION);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    if (!test_devices_can("backend.image"))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_size_has_room_for_what_was_asked),
        cmocka_unit_test(a_smaller_workspace_gets_its_limit_in_a_larger_image),
        cmocka_unit_test(a_full_one_says_so_close_above_its_limit_and_takes_again),
        cmocka_unit_test(only_the_owner_may_use_it),
        cmocka_unit_test(nothing_stays_of_one_whose_holder_is_killed),
        cmocka_unit_test(nothing_stays_of_makers_that_are_killed_at_any_moment),
        cmocka_unit_test(a_directory_that_is_not_ours_is_refused),
    };
    return cmocka_run_group_tests_name("image", tests, set_up, tear_down);
}
