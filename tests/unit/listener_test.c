#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "net/listener.h"

typedef struct fixture {
    char dir[64];
    char path[80];
    box_listener listener;
    box_error err;
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    f->listener.fd = -1;
    snprintf(f->dir, sizeof f->dir, "/tmp/box-listener-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->path, sizeof f->path, "%s/s", f->dir);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    box_listener_done(&f->listener);
    unlink(f->path);
    assert_int_equal(rmdir(f->dir), 0);
    free(f);
    return 0;
}

static int connect_to(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    int rc = connect(fd, (struct sockaddr *)&at, sizeof at);
    close(fd);
    return rc;
}

static void a_unix_socket_is_for_its_owner_only(void **state)
{
    fixture *f = *state;
    mode_t before = umask(0);
    assert_int_equal(box_listener_unix(f->path, &f->listener, &f->err), 0);
    umask(before);
    struct stat st;
    assert_int_equal(stat(f->path, &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(connect_to(f->path), 0);
}

static void a_stale_socket_is_replaced(void **state)
{
    fixture *f = *state;
    box_listener dead = {.fd = -1};
    assert_int_equal(box_listener_unix(f->path, &dead, &f->err), 0);
    box_closep(&dead.fd); /* as after a kill: the file stays */
    free(dead.unix_path);
    assert_int_equal(box_listener_unix(f->path, &f->listener, &f->err), 0);
    assert_int_equal(connect_to(f->path), 0);
}

static void a_socket_that_answers_is_left_alone(void **state)
{
    fixture *f = *state;
    assert_int_equal(box_listener_unix(f->path, &f->listener, &f->err), 0);
    box_listener second = {.fd = -1};
    assert_int_equal(box_listener_unix(f->path, &second, &f->err), -1);
    assert_int_equal(f->err.reason, BOX_FILE_EXISTS);
    assert_int_equal(connect_to(f->path), 0);
}

static void a_file_at_the_path_is_left_alone(void **state)
{
    fixture *f = *state;
    int fd = open(f->path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(box_listener_unix(f->path, &f->listener, &f->err), -1);
    assert_int_equal(f->err.reason, BOX_FILE_EXISTS);
    assert_int_equal(access(f->path, F_OK), 0);
}

static void closing_removes_our_socket_and_no_successors(void **state)
{
    fixture *f = *state;
    assert_int_equal(box_listener_unix(f->path, &f->listener, &f->err), 0);
    box_listener_done(&f->listener);
    assert_int_equal(access(f->path, F_OK), -1);

    assert_int_equal(box_listener_unix(f->path, &f->listener, &f->err), 0);
    char aside[96];
    snprintf(aside, sizeof aside, "%s/aside", f->dir);
    assert_int_equal(rename(f->path, aside), 0); /* keeps the inode number from being reused */
    box_listener successor = {.fd = -1};
    assert_int_equal(box_listener_unix(f->path, &successor, &f->err), 0);
    box_listener_done(&f->listener);
    assert_int_equal(access(f->path, F_OK), 0);
    box_listener_done(&successor);
    unlink(aside);
}

static void addresses_that_are_not_ip_and_port_are_refused(void **state)
{
    fixture *f = *state;
    static const char *const wrong[] = {
        "",     "5410",        "127.0.0.1", "127.0.0.1:", ":5410",          "::1:5410",
        "[]:1", "localhost:1", "1.2.3.4:x", "[::1:5410",  "1.2.3.4:70000x", "[::1]5410"};
    for (size_t i = 0; i < BOX_COUNT(wrong); i++) {
        assert_int_equal(box_listener_tcp(wrong[i], NULL, &f->listener, NULL, &f->err), -1);
        assert_int_equal(f->err.reason, BOX_VALIDATION);
    }
}

static void a_path_too_long_for_a_socket_is_refused(void **state)
{
    fixture *f = *state;
    char path[200];
    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_int_equal(box_listener_unix(path, &f->listener, &f->err), -1);
    assert_int_equal(f->err.reason, BOX_VALIDATION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_unix_socket_is_for_its_owner_only, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stale_socket_is_replaced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_socket_that_answers_is_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_at_the_path_is_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(closing_removes_our_socket_and_no_successors, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(addresses_that_are_not_ip_and_port_are_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_path_too_long_for_a_socket_is_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
