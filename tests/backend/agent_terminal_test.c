/* Commands on terminals in the real static box-agent, as boxd's end of the channel sees them. */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent_sandbox.h"
#include "base/fd.h"

typedef struct terminal {
    sandbox *s;
    uint64_t id;
    int master;
    int other;
} terminal;

static void send_start(sandbox *s, uint64_t id, const char *script)
{
    const char *argv[] = {"sh", "-c", script};
    const char *env[] = {"PATH=/usr/local/bin:/usr/bin:/bin"};
    box_agent_command command = {.id = id,
                                 .flags = BOX_START_TERMINAL,
                                 .argc = 3,
                                 .argv = argv,
                                 .envc = 1,
                                 .env = env,
                                 .workdir = "/",
                                 .rows = 33,
                                 .columns = 99};
    BOX_AUTO(box_buf_done) box_buf packet = {.max_bytes = BOX_AGENT_PACKET_BYTES};
    int memfd = -1;
    box_error err;
    if (box_agent_start_build(&command, &packet, &memfd, &err) < 0 ||
        box_fd_send(sandbox_fd(s), box_buf_data(&packet), box_buf_len(&packet), NULL, 0, &err) < 0)
        fail_msg("START: %s", err.msg);
}

/* A reason other than NONE: it did not start, and brought nothing. */
static box_error take_started(terminal *t)
{
    int fds[4];
    size_t n;
    box_agent_packet p = sandbox_take(t->s, BOX_AGENT_STARTED, t->id, fds, &n);
    bool runs = p.body.started.error.reason == BOX_NONE;
    assert_int_equal(n, runs ? 2 : 0);
    if (runs) {
        t->master = fds[0];
        t->other = fds[1];
    }
    return p.body.started.error;
}

static terminal start(sandbox *s, uint64_t id, const char *script)
{
    terminal t = {.s = s, .id = id, .master = -1, .other = -1};
    send_start(s, id, script);
    box_error err = take_started(&t);
    if (err.reason != BOX_NONE)
        fail_msg("it did not start: %s", err.msg);
    return t;
}

/* All that comes until that text does, NUL-ended. */
static void until(const terminal *t, const char *text, char *out, size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    while (strstr(out, text) == NULL) {
        struct pollfd p = {.fd = t->master, .events = POLLIN};
        if (poll(&p, 1, 10000) <= 0 || len + 1 >= size)
            fail_msg("no \"%s\" in \"%s\"", text, out);
        ssize_t n = read(t->master, out + len, size - 1 - len);
        len += n > 0 ? (size_t)n : 0;
        out[len] = '\0';
    }
}

static box_agent_exit ended(terminal *t)
{
    box_agent_exit e = sandbox_wait_exit(t->s, t->id);
    sandbox_acknowledge(t->s, t->id);
    box_closep(&t->master);
    box_closep(&t->other);
    return e;
}

static void a_command_has_a_terminal_of_the_sandbox(void **state)
{
    char out[1024];
    terminal t =
        start(*state, 1, "tty; stty size; read x; echo got $x; id -u; stat -c %u $(tty); exit 3");
    until(&t, "33 99\r\n", out, sizeof out);
    assert_non_null(strstr(out, "/dev/pts/"));
    assert_int_equal(write(t.master, "hi\n", 3), 3);
    until(&t, "got hi\r\n1000\r\n1000\r\n", out, sizeof out);
    assert_int_equal(ended(&t).exit_code, 3);
}

static void our_end_is_not_waited_for(void **state)
{
    terminal t = start(*state, 1, "true");
    assert_true((fcntl(t.master, F_GETFL) & O_NONBLOCK) != 0);
    char c;
    assert_true(read(t.master, &c, 1) < 0);
    assert_int_equal(ended(&t).exit_code, 0);
}

static void one_that_ended_at_once_brings_its_terminal_all_the_same(void **state)
{
    char out[1024];
    for (uint64_t id = 1; id <= 50; id++) {
        terminal t = start(*state, id, "echo brief");
        box_agent_exit e = sandbox_wait_exit(t.s, id);
        assert_int_equal(e.exit_code, 0);
        until(&t, "brief\r\n", out, sizeof out);
        sandbox_acknowledge(t.s, id);
        box_closep(&t.master);
        box_closep(&t.other);
    }
}

static void the_terminals_end_is_ours(void **state)
{
    terminal t = start(*state, 1, "sleep 600");
    box_closep(&t.other);
    box_closep(&t.master);
    box_agent_exit e = ended(&t);
    assert_int_equal(e.signal, SIGHUP);
}

static void more_than_the_sandbox_has_are_refused_and_come_back(void **state)
{
    enum { MOST = 16 };
    sandbox *s = *state;
    terminal all[MOST];
    for (int i = 0; i < MOST; i++)
        all[i] = start(s, (uint64_t)i + 1, "sleep 600");
    terminal late = {.s = s, .id = MOST + 1, .master = -1, .other = -1};
    send_start(s, late.id, "true");
    box_error err = take_started(&late);
    assert_int_equal(err.reason, BOX_QUOTA);
    assert_string_equal(box_error_get(&err, "limit"), "terminals");
    for (int i = 0; i < MOST; i++) {
        sandbox_signal(s, all[i].id, SIGKILL, BOX_SCOPE_TREE, BOX_CAUSE_CANCELLED);
        assert_int_equal(ended(&all[i]).signal, SIGKILL);
    }
    terminal again = start(s, MOST + 2, "exit 4");
    assert_int_equal(ended(&again).exit_code, 4);
}

static void a_start_that_fails_keeps_no_terminal(void **state)
{
    sandbox *s = *state;
    terminal t = {.s = s, .master = -1, .other = -1};
    for (uint64_t id = 1; id <= 40; id++) {
        const char *argv[] = {"no-such-program"};
        box_agent_command command = {
            .id = id, .flags = BOX_START_TERMINAL, .argc = 1, .argv = argv, .workdir = "/"};
        BOX_AUTO(box_buf_done) box_buf packet = {.max_bytes = BOX_AGENT_PACKET_BYTES};
        int memfd = -1;
        box_error err;
        assert_int_equal(box_agent_start_build(&command, &packet, &memfd, &err), 0);
        assert_int_equal(
            box_fd_send(sandbox_fd(s), box_buf_data(&packet), box_buf_len(&packet), NULL, 0, &err),
            0);
        t.id = id;
        assert_int_equal(take_started(&t).reason, BOX_FILE_NOT_FOUND);
    }
}

static void a_boxd_that_goes_away_hangs_up(void **state)
{
    sandbox *s = *state;
    terminal t = start(s, 1, "trap 'exit 9' HUP; echo ready; while :; do sleep 0.1; done");
    char out[256];
    until(&t, "ready", out, sizeof out);
    box_closep(&t.master);
    box_closep(&t.other);
    sandbox_disconnect(s);
    assert_int_equal(sandbox_connect(s).running, 1);
    int fds[4];
    size_t n;
    (void)sandbox_take(s, BOX_AGENT_STARTED, 1, fds, &n);
    assert_int_equal(n, 0); /* they came once */
    assert_int_equal(ended(&t).exit_code, 9);
}

static int open_cgroups(void **state)
{
    return sandbox_set_up(state, &(sandbox_options){.mode = SANDBOX_CGROUPS});
}

static int open_reapers(void **state)
{
    return sandbox_set_up(state, &(sandbox_options){.mode = SANDBOX_REAPERS});
}

#define BOTH_ENDS(test, open) cmocka_unit_test_setup_teardown(test, open, sandbox_tear_down)
#define ALL_TESTS(open)                                                                            \
    {                                                                                              \
        BOTH_ENDS(a_command_has_a_terminal_of_the_sandbox, open),                                  \
            BOTH_ENDS(our_end_is_not_waited_for, open),                                            \
            BOTH_ENDS(one_that_ended_at_once_brings_its_terminal_all_the_same, open),              \
            BOTH_ENDS(the_terminals_end_is_ours, open),                                            \
            BOTH_ENDS(more_than_the_sandbox_has_are_refused_and_come_back, open),                  \
            BOTH_ENDS(a_start_that_fails_keeps_no_terminal, open),                                 \
            BOTH_ENDS(a_boxd_that_goes_away_hangs_up, open),                                       \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest cgroups[] = ALL_TESTS(open_cgroups);
    const struct CMUnitTest reapers[] = ALL_TESTS(open_reapers);
    bool without = argc > 1 && strcmp(argv[1], "reapers") == 0;
    if (sandbox_skips(without ? SANDBOX_REAPERS : SANDBOX_CGROUPS))
        return 77;
    return without ? cmocka_run_group_tests(reapers, NULL, NULL)
                   : cmocka_run_group_tests(cgroups, NULL, NULL);
}
