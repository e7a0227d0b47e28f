/* Too many descriptors of boxd's user are in flight, in sockets that nobody reads: what carries
 * others waits, and boxd rests meanwhile. In a process of an ordinary user: root has no such limit.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "base/fd_room.h"
#include "session_rig.h"

enum { USER = 61307, ALLOWED = 128, AT_ONCE = BOX_FD_PASS_MAX, PATIENCE_S = 60 };

static void put_in_flight(int pair[2])
{
    int fds[AT_ONCE];
    box_error err;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    for (int i = 0; i < AT_ONCE; i++)
        fds[i] = pair[0];
    for (int sent = 0; sent <= ALLOWED; sent += AT_ONCE)
        assert_int_equal(box_fd_send(pair[0], "x", 1, fds, AT_ONCE, &err), 0);
}

static void land(int pair[2])
{
    box_closep(&pair[0]);
    box_closep(&pair[1]);
}

/* rig_settle only comes back when boxd rests. */
static void wait_for_the_flight(rig *r)
{
    int pair[2];
    outcome o = {0};
    answer a = {0};
    put_in_flight(pair);
    rig_exec(r, &o, "s", "exit 3");
    assert_false(o.done);
    land(pair);
    rig_wait(r, BOX_FLIGHT_RETRY_MS * BOX_MS);
    assert_true(o.done);
    assert_int_equal(o.verdict.exit_code, 3);
    outcome_free(&o);
    put_in_flight(pair);
    rig_create(r, &a, "t", NULL);
    assert_int_equal(a.count, 0);
    land(pair);
    rig_wait(r, BOX_FLIGHT_RETRY_MS * BOX_MS);
    assert_int_equal(a.count, 1);
    assert_int_equal(a.error.reason, BOX_NONE);
    answer_free(&a);
}

static void become_a_user(void)
{
    const struct rlimit limit = {.rlim_cur = ALLOWED, .rlim_max = ALLOWED};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(setresgid(USER, USER, USER), 0);
    assert_int_equal(setresuid(USER, USER, USER), 0);
}

/* All in that process: it would share loops and sockets with ours. */
BOX_NORETURN static void run_as_a_user(void)
{
    rig r;
    answer a = {0};
    (void)alarm(PATIENCE_S);
    become_a_user();
    rig_init(&r, NULL);
    rig_create(&r, &a, "s", NULL);
    assert_int_equal(a.count, 1);
    answer_free(&a);
    wait_for_the_flight(&r);
    rig_done(&r);
    _exit(0);
}

static void what_carries_descriptors_waits_and_boxd_rests(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0)
        run_as_a_user();
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    if (geteuid() != 0) {
        (void)fputs("skipped: needs root\n", stderr);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_carries_descriptors_waits_and_boxd_rests),
    };
    return cmocka_run_group_tests_name("session_flight", tests, NULL, NULL);
}
