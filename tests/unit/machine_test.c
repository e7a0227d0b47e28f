/* What boxcli doctor reads of a machine. */
#include "machine.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/macros.h"

static void a_kernel_release_is_two_numbers(void **state)
{
    (void)state;
    int major = 0;
    int minor = 0;
    assert_true(machine_kernel("6.1.0-37-amd64", &major, &minor));
    assert_int_equal(major, 6);
    assert_int_equal(minor, 1);
    assert_true(machine_kernel("5.10", &major, &minor));
    assert_int_equal(minor, 10);
}

static void what_is_no_release_is_refused(void **state)
{
    (void)state;
    int major = 7;
    int minor = 7;
    const char *const bad[] = {"", "6", "6.", ".1", "six.one", "6.x", "-6.1", "6.-1", "9999999.1"};
    for (size_t i = 0; i < BOX_COUNT(bad); i++)
        assert_false(machine_kernel(bad[i], &major, &minor));
    assert_int_equal(major, 7);
    assert_int_equal(minor, 7);
}

static void a_word_is_found_whole(void **state)
{
    (void)state;
    assert_true(machine_has_word("rw,cpu,cpuacct", ",", "cpu"));
    assert_true(machine_has_word("cpuset cpu memory", " ", "memory"));
    assert_true(machine_has_word("memory", " ", "memory"));
    assert_false(machine_has_word("rw,cpuacct,cpuset", ",", "cpu"));
    assert_false(machine_has_word("", ",", "cpu"));
    assert_false(machine_has_word("rw,,x", ",", "cpu"));
}

static void a_mount_is_where_what_and_how(void **state)
{
    (void)state;
    machine_mount m;
    assert_true(machine_parse_mount(
        "36 35 0:26 / /sys/fs/cgroup/memory rw,nosuid shared:11 - cgroup cgroup rw,memory\n", &m));
    assert_string_equal(m.point, "/sys/fs/cgroup/memory");
    assert_string_equal(m.type, "cgroup");
    assert_string_equal(m.options, "rw,memory");
    assert_true(machine_parse_mount("30 23 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", &m));
    assert_string_equal(m.type, "cgroup2");
}

static void a_line_that_is_cut_is_no_mount(void **state)
{
    (void)state;
    machine_mount m;
    const char line[] = "36 35 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 none rw";
    char part[sizeof line];
    for (size_t len = 0; len < sizeof line - 2; len++) {
        memcpy(part, line, len);
        part[len] = '\0';
        assert_false(machine_parse_mount(part, &m));
    }
    assert_true(machine_parse_mount(line, &m));
}

static void a_number_is_the_begin_of_a_file(void **state)
{
    (void)state;
    char path[] = "/tmp/box-machine-XXXXXX";
    int fd = mkstemp(path);
    int64_t value = 5;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "96364\nmore", 10), 10);
    assert_true(machine_number(path, &value));
    assert_int_equal(value, 96364);
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_false(machine_number(path, &value));
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(path), 0);
    assert_false(machine_number(path, &value));
    assert_int_equal(errno, ENOENT);
    assert_int_equal(value, 96364);
}

static void a_programs_first_line_is_taken(void **state)
{
    (void)state;
    char line[32];
    const char *const both[] = {"/bin/sh", "-c", "echo one; echo two", NULL};
    const char *const warned[] = {"/bin/sh", "-c", "echo oh >&2; echo version", NULL};
    const char *const endless[] = {"/bin/sh", "-c", "while :; do echo 0123456789012345; done",
                                   NULL};
    assert_true(machine_run(both, 10000, line, sizeof line));
    assert_string_equal(line, "one");
    assert_true(machine_run(warned, 10000, line, sizeof line));
    assert_string_equal(line, "version");
    assert_false(machine_run(endless, 10000, line, sizeof line)); /* it has to be killed */
}

static void a_program_that_fails_or_hangs_says_nothing(void **state)
{
    (void)state;
    char line[32];
    const char *const fails[] = {"/bin/sh", "-c", "echo no; exit 1", NULL};
    const char *const silent[] = {"/bin/true", NULL};
    const char *const missing[] = {"/no/such/program", NULL};
    const char *const hangs[] = {"/bin/sh", "-c", "exec sleep 100", NULL};
    assert_false(machine_run(fails, 10000, line, sizeof line));
    assert_false(machine_run(silent, 10000, line, sizeof line));
    assert_false(machine_run(missing, 10000, line, sizeof line));
    assert_false(machine_run(hangs, 50, line, sizeof line));
}

static int seven(void)
{
    return 7;
}

static int dies(void)
{
    abort();
}

static void a_child_answers_by_its_exit_status(void **state)
{
    (void)state;
    assert_int_equal(machine_in_child(seven), 7);
    assert_int_equal(machine_in_child(dies), -1);
}

static void a_socket_answers_while_somebody_listens(void **state)
{
    (void)state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char long_path[200];
    (void)snprintf(address.sun_path, sizeof address.sun_path, "/tmp/box-machine-%d", getpid());
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(machine_connect(address.sun_path), ENOENT);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(machine_connect(address.sun_path), ECONNREFUSED);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(machine_connect(address.sun_path), 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(address.sun_path), 0);
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = '\0';
    assert_int_equal(machine_connect(long_path), ENAMETOOLONG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kernel_release_is_two_numbers),
        cmocka_unit_test(what_is_no_release_is_refused),
        cmocka_unit_test(a_word_is_found_whole),
        cmocka_unit_test(a_mount_is_where_what_and_how),
        cmocka_unit_test(a_line_that_is_cut_is_no_mount),
        cmocka_unit_test(a_number_is_the_begin_of_a_file),
        cmocka_unit_test(a_programs_first_line_is_taken),
        cmocka_unit_test(a_program_that_fails_or_hangs_says_nothing),
        cmocka_unit_test(a_child_answers_by_its_exit_status),
        cmocka_unit_test(a_socket_answers_while_somebody_listens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
