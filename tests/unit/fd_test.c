#include "base/fd.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/fd_room.h"
#include "temp_dir.h"

typedef struct fixture {
    temp_dir dir;
    int fd;
    int pair[2];
} fixture;

static int setup(void **state)
{
    static fixture f;
    temp_dir_new(&f.dir);
    f.fd = open(f.dir.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(f.fd >= 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, f.pair), 0);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    box_closep(&f->fd);
    box_closep(&f->pair[0]);
    box_closep(&f->pair[1]);
    temp_dir_remove(&f->dir);
    return 0;
}

static void assert_file(int dirfd, const char *name, const char *content, mode_t mode)
{
    char text[64] = "";
    struct stat st;
    BOX_AUTO(box_closep) int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, text, sizeof text - 1), (ssize_t)strlen(content));
    assert_string_equal(text, content);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 07777, mode);
}

static size_t count_files(const char *path)
{
    size_t n = 0;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    while (readdir(dir) != NULL)
        n++;
    (void)closedir(dir);
    return n - 2; /* . and .. */
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static void closing_sets_minus_one_and_may_be_repeated(void **state)
{
    (void)state;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int kept = fd;
    box_closep(&fd);
    assert_int_equal(fd, -1);
    assert_false(is_open(kept));
    box_closep(&fd);
}

static void a_file_is_replaced_whole_with_its_mode(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    assert_int_equal(box_fd_replace_file(f->fd, "a", "one", 3, 0600, &err), 0);
    assert_file(f->fd, "a", "one", 0600);
    assert_int_equal(box_fd_replace_file(f->fd, "a", "three", 5, 0644, &err), 0);
    assert_file(f->fd, "a", "three", 0644);
    assert_int_equal(count_files(f->dir.path), 1);
}

static void a_replacement_that_fails_leaves_the_old_file(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    char name[300];
    assert_int_equal(mkdirat(f->fd, "d", 0700), 0);
    assert_int_equal(box_fd_replace_file(f->fd, "d", "x", 1, 0600, &err), -1);
    assert_int_equal(err.sys_errno, EISDIR);
    assert_int_equal(count_files(f->dir.path), 1); /* no temporary file stays */
    assert_int_equal(unlinkat(f->fd, "d", AT_REMOVEDIR), 0);
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(box_fd_replace_file(f->fd, name, "x", 1, 0600, &err), -1);
    assert_int_equal(err.reason, BOX_VALIDATION);
    assert_int_equal(box_fd_replace_file(-1, "a", "x", 1, 0600, &err), -1);
}

static void an_existing_file_is_written_and_a_missing_one_is_told(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    assert_int_equal(box_fd_write_file(f->fd, "a", "x", &err), -1);
    assert_int_equal(err.reason, BOX_FILE_NOT_FOUND);
    assert_int_equal(box_fd_replace_file(f->fd, "a", "", 0, 0600, &err), 0);
    assert_int_equal(box_fd_write_file(f->fd, "a", "max\n", &err), 0);
    assert_file(f->fd, "a", "max\n", 0600);
}

static void a_message_arrives_with_its_descriptors(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    int sent[2] = {open("/dev/null", O_RDONLY | O_CLOEXEC),
                   open("/dev/zero", O_RDONLY | O_CLOEXEC)};
    int got[BOX_FD_PASS_MAX];
    size_t n = BOX_FD_PASS_MAX;
    char text[16];
    struct stat st;
    assert_int_equal(box_fd_send(f->pair[0], "hello", 5, sent, 2, &err), 0);
    assert_true(is_open(sent[0])); /* they stay the sender's */
    assert_int_equal(box_fd_receive(f->pair[1], text, sizeof text, got, &n, &err), 5);
    assert_memory_equal(text, "hello", 5);
    assert_int_equal(n, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_true(fcntl(got[i], F_GETFD) & FD_CLOEXEC);
        assert_int_equal(fstat(got[i], &st), 0);
        assert_true(S_ISCHR(st.st_mode));
        box_closep(&got[i]);
        box_closep(&sent[i]);
    }
}

static void nothing_to_receive_and_nobody_reading_are_eagain(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    char text[1024] = "";
    int got[2];
    size_t n = 2;
    assert_int_equal(box_fd_receive(f->pair[1], text, sizeof text, got, &n, &err), -1);
    assert_int_equal(err.sys_errno, EAGAIN);
    assert_int_equal(n, 0); /* or the caller would close what it never got */
    int rc = 0;
    for (int i = 0; i < 100000 && rc == 0; i++)
        rc = box_fd_send(f->pair[0], text, sizeof text, NULL, 0, &err);
    assert_int_equal(rc, -1);
    assert_int_equal(err.sys_errno, EAGAIN);
}

static void the_peers_end_is_zero(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    char text[8];
    size_t n = 0;
    box_closep(&f->pair[0]);
    assert_int_equal(box_fd_receive(f->pair[1], text, sizeof text, NULL, &n, &err), 0);
    assert_int_equal(box_fd_send(f->pair[1], "x", 1, NULL, 0, &err), -1); /* and no SIGPIPE */
    assert_int_equal(err.sys_errno, EPIPE);
}

static void a_message_that_does_not_fit_is_refused_with_all_closed(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    char text[4];
    size_t n = 1;
    int got[1];
    int fds[3];
    for (int i = 0; i < 3; i++)
        fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    size_t open_before = count_files("/proc/self/fd");
    assert_int_equal(box_fd_send(f->pair[0], "abc", 3, fds, 3, &err), 0);
    assert_int_equal(box_fd_receive(f->pair[1], text, sizeof text, got, &n, &err), -1);
    assert_int_equal(err.reason, BOX_PROTOCOL);
    assert_int_equal(n, 0);
    assert_int_equal(count_files("/proc/self/fd"), open_before);
    n = 1;
    assert_int_equal(box_fd_send(f->pair[0], "too long", 8, fds, 1, &err), 0);
    assert_int_equal(box_fd_receive(f->pair[1], text, sizeof text, got, &n, &err), -1);
    assert_int_equal(err.reason, BOX_PROTOCOL);
    assert_int_equal(count_files("/proc/self/fd"), open_before);
    for (int i = 0; i < 3; i++)
        box_closep(&fds[i]);
}

static void a_message_whose_descriptors_find_no_room_is_told(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    char text[4] = "";
    size_t n = 1;
    int got[1];
    bool lost = false;
    struct rlimit before;
    int next = fcntl(f->fd, F_DUPFD_CLOEXEC, 0);
    assert_int_equal(box_fd_send(f->pair[0], "abc", 3, &f->fd, 1, &err), 0);
    assert_int_equal(box_fd_send(f->pair[0], "de", 2, &f->fd, 1, &err), 0);
    assert_int_equal(close(next), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit none = {.rlim_cur = (rlim_t)next, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    ssize_t len = box_fd_receive_or_lose(f->pair[1], text, sizeof text, got, &n, &lost, &err);
    size_t one = 1;
    char other[4];
    ssize_t refused = box_fd_receive(f->pair[1], other, sizeof other, got, &one, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(len, 3);
    assert_memory_equal(text, "abc", 3);
    assert_true(lost);
    assert_int_equal(n, 0);
    assert_int_equal(refused, -1);
    assert_int_equal(err.reason, BOX_PROTOCOL);
    assert_false(is_open(next));
    n = 1;
    assert_int_equal(box_fd_send(f->pair[0], "fg", 2, &f->fd, 1, &err), 0);
    assert_int_equal(box_fd_receive_or_lose(f->pair[1], text, sizeof text, got, &n, &lost, &err),
                     2);
    assert_false(lost);
    assert_int_equal(n, 1);
    box_closep(&got[0]);
}

static void an_empty_message_leaves_no_descriptor_open(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    char text[4];
    size_t n = 1;
    int got[1];
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    size_t open_before = count_files("/proc/self/fd");
    assert_int_equal(box_fd_send(f->pair[0], "", 0, &fd, 1, &err), 0);
    assert_int_equal(box_fd_receive(f->pair[1], text, sizeof text, got, &n, &err), 0);
    assert_int_equal(n, 0);
    assert_int_equal(count_files("/proc/self/fd"), open_before);
    box_closep(&fd);
}

static void a_memory_file_cannot_be_changed(void **state)
{
    (void)state;
    box_error err = {0};
    char text[8] = "";
    BOX_AUTO(box_closep) int fd = -1;
    assert_int_equal(box_fd_memfd("test", "abc", 3, &fd, &err), 0);
    assert_int_equal(pread(fd, text, sizeof text, 0), 3);
    assert_string_equal(text, "abc");
    assert_int_equal(write(fd, "x", 1), -1);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_ptr_equal(mmap(NULL, 3, PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
}

static void a_descriptor_becomes_non_blocking(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    assert_int_equal(box_fd_set_nonblocking(f->pair[0], &err), 0);
    assert_true(fcntl(f->pair[0], F_GETFL) & O_NONBLOCK);
    assert_int_equal(box_fd_set_nonblocking(-1, &err), -1);
}

#define WITH_FILES(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closing_sets_minus_one_and_may_be_repeated),
        WITH_FILES(a_file_is_replaced_whole_with_its_mode),
        WITH_FILES(a_replacement_that_fails_leaves_the_old_file),
        WITH_FILES(an_existing_file_is_written_and_a_missing_one_is_told),
        WITH_FILES(a_message_arrives_with_its_descriptors),
        WITH_FILES(nothing_to_receive_and_nobody_reading_are_eagain),
        WITH_FILES(the_peers_end_is_zero),
        WITH_FILES(a_message_that_does_not_fit_is_refused_with_all_closed),
        WITH_FILES(a_message_whose_descriptors_find_no_room_is_told),
        WITH_FILES(an_empty_message_leaves_no_descriptor_open),
        cmocka_unit_test(a_memory_file_cannot_be_changed),
        WITH_FILES(a_descriptor_becomes_non_blocking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
