/* The real static box-agent as PID 1 of a small sandbox, in each of the ways it can work: with
 * cgroup2, on an older kernel, and with subreapers. */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/tree.h"
#include "agent_sandbox.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"

enum { OUTPUT = 64 * 1024 };

static sandbox *box_of(void **state)
{
    return *state;
}

static sandbox_command start(sandbox *s, const char *script, uint64_t timeout_ns, uint32_t flags)
{
    const char *argv[] = {"sh", "-c", script, NULL};
    sandbox_start st = {.argv = argv, .timeout_ns = timeout_ns, .flags = flags};
    return sandbox_send_start(s, &st);
}

static sandbox_command started(sandbox *s, const char *script, uint64_t timeout_ns, uint32_t flags)
{
    sandbox_command c = start(s, script, timeout_ns, flags);
    box_agent_started r = sandbox_wait_started(s, c.id);
    if (r.error.reason != BOX_NONE)
        fail_msg("did not start: %s", r.error.msg);
    return c;
}

static box_agent_exit ended(sandbox *s, sandbox_command *c)
{
    box_agent_exit e = sandbox_wait_exit(s, c->id);
    sandbox_acknowledge(s, c->id);
    sandbox_command_close(c);
    return e;
}

static void assert_works(sandbox *s)
{
    char out[64];
    box_agent_exit e = sandbox_run(s, "echo fine", 0, 0, out, sizeof out);
    assert_int_equal(e.exit_code, 0);
    assert_string_equal(out, "fine\n");
}

static void assert_nothing_left(sandbox *s)
{
    if (sandbox_command_dirs(s) >= 0) /* some wait for commands */
        assert_true(sandbox_dirs_below(s, BOX_TREES_SPARE + 2));
    assert_true(sandbox_is_idle(s));
}

/* --- what a command sees and says ------------------------------------------------------------- */

static void output_and_exit_code_come_back(void **state)
{
    char out[OUTPUT];
    box_agent_exit e =
        sandbox_run(box_of(state), "echo out; echo err >&2; exit 7", 0, 0, out, sizeof out);
    assert_string_equal(out, "out\nerr\n");
    assert_int_equal(e.exit_code, 7);
    assert_int_equal(e.signal, 0);
    assert_int_equal(e.cause, BOX_CAUSE_NONE);
    assert_int_equal(e.leftovers, 0);
    assert_true(e.wall_ns > 0 && e.wall_ns < 5 * BOX_SECOND);
    assert_true(e.max_rss_bytes > 4096);
    assert_nothing_left(box_of(state));
}

static void every_exit_code_and_signal_is_told_apart(void **state)
{
    char script[64];
    for (int code = 0; code < 256; code += 15) {
        (void)snprintf(script, sizeof script, "exit %d", code);
        box_agent_exit e = sandbox_run(box_of(state), script, 0, 0, NULL, 0);
        assert_int_equal(e.exit_code, code);
        assert_int_equal(e.signal, 0);
    }
    for (int signo = 1; signo < 32; signo++) {
        if (signo == SIGCHLD || signo == SIGCONT || signo == SIGSTOP || signo == SIGTSTP ||
            signo == SIGTTIN || signo == SIGTTOU || signo == SIGURG || signo == SIGWINCH)
            continue; /* these do not end a process */
        (void)snprintf(script, sizeof script, "kill -%d $$", signo);
        box_agent_exit e = sandbox_run(box_of(state), script, 0, 0, NULL, 0);
        assert_int_equal(e.signal, signo);
        assert_int_equal(e.exit_code, -1);
        assert_int_equal(e.flags & BOX_EXIT_CORE_DUMPED, 0); /* no core: RLIMIT_CORE is 1 byte */
    }
}

static void a_command_has_no_privileges(void **state)
{
    char out[OUTPUT];
    (void)sandbox_run(box_of(state), "cat /proc/self/status", 0, 0, out, sizeof out);
    static const char *const wanted[] = {
        "\nUid:\t1000\t1000\t1000\t1000\n",
        "\nGid:\t1000\t1000\t1000\t1000\n",
        "\nCapInh:\t0000000000000000\n",
        "\nCapPrm:\t0000000000000000\n",
        "\nCapEff:\t0000000000000000\n",
        "\nCapBnd:\t0000000000000000\n",
        "\nCapAmb:\t0000000000000000\n",
        "\nNoNewPrivs:\t1\n",
        "\nSeccomp:\t2\n",
        "\nSigIgn:\t0000000000000000\n",
        "\nSigBlk:\t0000000000000000\n",
        "\nSigPnd:\t0000000000000000\n",
        "\nGroups:\t \n",
        "\nUmask:\t0022\n",
    };
    for (size_t i = 0; i < BOX_COUNT(wanted); i++) {
        if (strstr(out, wanted[i]) == NULL)
            fail_msg("not in /proc/self/status: %s of %s", wanted[i], out);
    }
}

static void a_command_has_three_descriptors_its_session_and_limits(void **state)
{
    char out[OUTPUT];
    (void)sandbox_run(box_of(state), "ls /proc/$$/fd; ulimit -c; ulimit -n", 0, 0, out, sizeof out);
    assert_string_equal(out, "0\n1\n2\n0\n1024\n");
    (void)sandbox_run(box_of(state),
                      "set -- $(cat /proc/$$/stat); [ $5 = $1 ] && [ $6 = $1 ] && echo leader", 0,
                      0, out, sizeof out);
    assert_string_equal(out, "leader\n");
}

static void a_command_cannot_touch_the_agent(void **state)
{
    char out[OUTPUT];
    (void)sandbox_run(box_of(state),
                      "for f in mem maps environ exe fd; do head -c1 /proc/1/$f 2>/dev/null && "
                      "echo $f; done; ls /proc/1/fd 2>/dev/null; kill -9 1 2>/dev/null && echo k; "
                      "kill -STOP 1 2>/dev/null && echo s; kill -TERM 1 2>/dev/null && echo t; "
                      "echo end",
                      0, 0, out, sizeof out);
    assert_string_equal(out, "end\n");
    assert_works(box_of(state));
}

static void environment_and_directory_are_the_given_ones(void **state)
{
    const char *argv[] = {"sh", "-c", "pwd; env | sort", NULL};
    const char *env[] = {"PATH=/usr/bin:/bin", "B=\xff x", "E=", NULL};
    sandbox_start st = {.argv = argv, .env = env, .workdir = "/usr/lib"};
    sandbox_command c = sandbox_send_start(box_of(state), &st);
    char out[OUTPUT];
    (void)sandbox_output(&c, out, sizeof out, 5000);
    assert_string_equal(out, "/usr/lib\nB=\xff x\nE=\nPATH=/usr/bin:/bin\nPWD=/usr/lib\n");
    (void)ended(box_of(state), &c);
}

static void stdin_is_read_to_its_end(void **state)
{
    const char *argv[] = {"cat", NULL};
    sandbox_start st = {.argv = argv, .stdin_open = true};
    sandbox_command c = sandbox_send_start(box_of(state), &st);
    assert_int_equal(write(c.in, "a\0b\n", 4), 4);
    box_closep(&c.in);
    char out[OUTPUT];
    assert_int_equal(sandbox_output(&c, out, sizeof out, 5000), 4);
    assert_memory_equal(out, "a\0b\n", 4);
    assert_int_equal(ended(box_of(state), &c).exit_code, 0);
}

static void a_closed_stdin_is_an_end_of_file_at_once(void **state)
{
    box_agent_exit e = sandbox_run(box_of(state), "read x; exit $?", BOX_SECOND * 5, 0, NULL, 0);
    assert_int_equal(e.exit_code, 1);
}

static void without_stdin_a_command_reads_dev_null(void **state)
{
    char out[64];
    box_agent_exit e = sandbox_run(box_of(state), "readlink /proc/self/fd/0; cat; exit 3", 0,
                                   BOX_START_NO_STDIN, out, sizeof out);
    assert_string_equal(out, "/dev/null\n");
    assert_int_equal(e.exit_code, 3);
}

static void large_arguments_arrive_whole(void **state)
{
    enum { EACH = 128 * 1024 - 1, COUNT = 15 };
    BOX_AUTO(box_freep) char *arg = box_alloc(EACH + 1);
    memset(arg, 'x', EACH);
    const char *argv[4 + COUNT + 1] = {"sh", "-c", "n=0; for a; do n=$((n+${#a})); done; echo $n",
                                       "sh"};
    for (int i = 0; i < COUNT; i++)
        argv[4 + i] = arg;
    sandbox_start st = {.argv = argv};
    sandbox_command c = sandbox_send_start(box_of(state), &st);
    box_agent_started r = sandbox_wait_started(box_of(state), c.id);
    assert_string_equal(r.error.msg, "");
    char out[OUTPUT];
    (void)sandbox_output(&c, out, sizeof out, 5000);
    assert_int_equal(strtol(out, NULL, 10), (long)EACH * COUNT);
    (void)ended(box_of(state), &c);
}

/* --- starts that fail ------------------------------------------------------------------------- */

static box_error failed_start(sandbox *s, const char *program, const char *workdir)
{
    const char *argv[] = {program, NULL};
    sandbox_start st = {.argv = argv, .workdir = workdir};
    sandbox_command c = sandbox_send_start(s, &st);
    box_agent_started r = sandbox_wait_started(s, c.id);
    sandbox_command_close(&c);
    assert_int_equal(r.pid, 0);
    assert_false(sandbox_sees(s, BOX_AGENT_EXIT, c.id, 20)); /* it never ran: no EXIT */
    return r.error;
}

static void assert_error(const box_error *e, box_reason reason, const char *kind, const char *id)
{
    assert_int_equal(e->reason, reason);
    assert_string_equal(box_error_get(e, "kind"), kind);
    assert_string_equal(box_error_get(e, "id"), id);
}

static void a_start_that_fails_says_why(void **state)
{
    sandbox *s = box_of(state);
    box_error e = failed_start(s, "no-such-program", "/");
    assert_error(&e, BOX_FILE_NOT_FOUND, "command", "no-such-program");
    e = failed_start(s, "/bin/no-such", "/");
    assert_error(&e, BOX_FILE_NOT_FOUND, "command", "/bin/no-such");
    e = failed_start(s, "/etc/passwd", "/");
    assert_error(&e, BOX_PERMISSION, "command", "/etc/passwd");
    e = failed_start(s, "true", "/no/such/directory");
    assert_error(&e, BOX_FILE_NOT_FOUND, "workdir", "/no/such/directory");
    e = failed_start(s, "true", "/etc/passwd");
    assert_error(&e, BOX_FILE_NOT_FOUND, "workdir", "/etc/passwd");
    e = failed_start(s, "true", "/root");
    assert_error(&e, BOX_PERMISSION, "workdir", "/root");
    (void)sandbox_run(s,
                      "echo garbage >/tmp/x; chmod 755 /tmp/x; printf '#!/none\n' >/tmp/y; "
                      "chmod 755 /tmp/y",
                      0, 0, NULL, 0);
    e = failed_start(s, "/tmp/x", "/");
    assert_error(&e, BOX_VALIDATION, "command", "/tmp/x");
    e = failed_start(s, "/tmp/y", "/"); /* its interpreter is missing */
    assert_error(&e, BOX_FILE_NOT_FOUND, "command", "/tmp/y");
    assert_works(s);
    assert_nothing_left(s);
}

static void a_thousand_starts_leak_nothing(void **state)
{
    sandbox *s = box_of(state);
    assert_works(s);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(sandbox_run(s, "exit 3", 0, 0, NULL, 0).exit_code, 3);
    assert_nothing_left(s);
    assert_works(s);
}

static void sixteen_starts_may_be_under_way(void **state)
{
    sandbox *s = box_of(state);
    sandbox_command c[BOX_AGENT_MAX_STARTING];
    for (int i = 0; i < BOX_AGENT_MAX_STARTING; i++)
        c[i] = start(s, "exit 4", 0, 0);
    for (int i = 0; i < BOX_AGENT_MAX_STARTING; i++) {
        assert_int_equal(sandbox_wait_started(s, c[i].id).error.reason, BOX_NONE);
        assert_int_equal(ended(s, &c[i]).exit_code, 4);
    }
    assert_nothing_left(s);
}

/* --- ends ------------------------------------------------------------------------------------- */

static void a_timeout_kills_the_tree_and_is_the_cause(void **state)
{
    sandbox *s = box_of(state);
    box_time before = box_now();
    box_agent_exit e = sandbox_run(s,
                                   "trap '' TERM INT HUP; (setsid sh -c 'trap \"\" TERM; while :; "
                                   "do :; done' &); sleep 999",
                                   300 * BOX_MS, 0, NULL, 0);
    assert_int_equal(e.cause, BOX_CAUSE_TIMEOUT);
    assert_int_equal(e.signal, SIGKILL);
    assert_true(box_now() - before < 2 * BOX_SECOND);
    assert_true(e.wall_ns >= 300 * BOX_MS && e.wall_ns < BOX_SECOND);
    assert_nothing_left(s);
}

static void a_timeout_also_ends_a_stopped_command(void **state)
{
    box_agent_exit e = sandbox_run(box_of(state), "kill -STOP $$", 200 * BOX_MS, 0, NULL, 0);
    assert_int_equal(e.cause, BOX_CAUSE_TIMEOUT);
    assert_nothing_left(box_of(state));
}

static void leftovers_are_kept_and_counted(void **state)
{
    sandbox *s = box_of(state);
    sandbox_command c = started(s, "sleep 300 & echo hi", 0, 0);
    box_agent_exit e = sandbox_wait_exit(s, c.id);
    assert_int_equal(e.exit_code, 0);
    assert_int_equal(e.leftovers, 1);
    assert_int_equal(e.flags & BOX_EXIT_LEFTOVERS_KILLED, 0);
    char out[64];
    (void)sandbox_output(&c, out, sizeof out, 50);
    assert_string_equal(out, "hi\n");
    sandbox_acknowledge(s, c.id);
    assert_works(s);
    sandbox_signal(s, c.id, SIGKILL, BOX_SCOPE_TREE, BOX_CAUSE_STOPPED); /* they can still go */
    (void)sandbox_output(&c, out, sizeof out, 5000);                     /* to its end */
    sandbox_command_close(&c);
    assert_nothing_left(s);
}

static void leftovers_are_killed_however_they_hide(void **state)
{
    sandbox *s = box_of(state);
    box_agent_exit e = sandbox_run(s,
                                   "sleep 300 & setsid nohup sleep 301 >/dev/null & (setsid sh -c "
                                   "'(setsid sleep 302 &) &' &); sleep 0.2",
                                   0, BOX_START_KILL_LEFTOVERS, NULL, 0);
    assert_int_equal(e.exit_code, 0);
    assert_true(e.leftovers >= 3);
    assert_true((e.flags & BOX_EXIT_LEFTOVERS_KILLED) != 0);
    assert_nothing_left(s);
}

static void nothing_left_behind_is_not_called_killed(void **state)
{
    box_agent_exit e = sandbox_run(box_of(state), "true", 0, BOX_START_KILL_LEFTOVERS, NULL, 0);
    assert_int_equal(e.leftovers, 0);
    assert_int_equal(e.flags & BOX_EXIT_LEFTOVERS_KILLED, 0);
}

static void a_signal_reaches_the_main_process_only(void **state)
{
    sandbox *s = box_of(state);
    sandbox_command c = started(s, "trap 'exit 9' TERM; sleep 300 & wait", 0, 0);
    (void)poll(NULL, 0, 100); /* until the trap is set */
    sandbox_signal(s, c.id, SIGTERM, BOX_SCOPE_MAIN, BOX_CAUSE_NONE);
    box_agent_exit e = sandbox_wait_exit(s, c.id);
    assert_int_equal(e.exit_code, 9);
    assert_int_equal(e.cause, BOX_CAUSE_NONE);
    assert_int_equal(e.leftovers, 1);
    sandbox_signal(s, c.id, SIGKILL, BOX_SCOPE_TREE, BOX_CAUSE_NONE);
    sandbox_acknowledge(s, c.id);
    sandbox_command_close(&c);
    assert_nothing_left(s);
}

static void a_tree_kill_tells_its_first_cause(void **state)
{
    sandbox *s = box_of(state);
    sandbox_command c = start(s, "sleep 300 & sleep 300", 0, 0); /* also before STARTED */
    sandbox_signal(s, c.id, SIGKILL, BOX_SCOPE_TREE, BOX_CAUSE_IDLE_TIMEOUT);
    sandbox_signal(s, c.id, SIGKILL, BOX_SCOPE_TREE, BOX_CAUSE_CANCELLED);
    (void)sandbox_wait_started(s, c.id);
    box_agent_exit e = ended(s, &c);
    assert_int_equal(e.signal, SIGKILL);
    assert_int_equal(e.cause, BOX_CAUSE_IDLE_TIMEOUT);
    assert_nothing_left(s);
}

static void cpu_time_is_counted(void **state)
{
    box_agent_exit e = sandbox_run(
        box_of(state), "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done", 0, 0, NULL, 0);
    assert_true(e.cpu_ns > 10 * BOX_MS && e.cpu_ns < 20 * BOX_SECOND);
    bool from_cgroup = (e.flags & BOX_EXIT_CPU_FROM_CGROUP) != 0;
    assert_int_equal(from_cgroup, sandbox_command_dirs(box_of(state)) >= 0);
}

/* --- attacks ---------------------------------------------------------------------------------- */

static void killing_everything_leaves_the_agent(void **state)
{
    sandbox *s = box_of(state);
    sandbox_command victim = started(s, "sleep 300", 0, 0);
    (void)sandbox_run(s, "kill -9 -1", 5 * BOX_SECOND, 0, NULL, 0);
    box_agent_exit e = ended(s, &victim);
    assert_int_equal(e.signal, SIGKILL);
    assert_int_equal(e.cause, BOX_CAUSE_NONE);
    assert_works(s);
    assert_nothing_left(s);
}

static void stopping_everything_does_not_stop_starts(void **state)
{
    sandbox *s = box_of(state);
    sandbox_command attack = started(s, "while :; do kill -STOP -1; done", 0, 0);
    for (int i = 0; i < 200; i++) {
        sandbox_command c = start(s, "true", 300 * BOX_MS, 0);
        assert_int_equal(sandbox_wait_started(s, c.id).error.reason, BOX_NONE);
        box_agent_exit e = ended(s, &c);
        assert_true(e.exit_code == 0 || e.cause == BOX_CAUSE_TIMEOUT);
        if (i % 20 == 0) {
            sandbox_send(s, BOX_AGENT_PING, 1000 + (uint64_t)i, NULL);
            sandbox_wait_pong(s, 1000 + (uint64_t)i);
        }
    }
    sandbox_signal(s, attack.id, SIGKILL, BOX_SCOPE_TREE, BOX_CAUSE_CANCELLED);
    assert_int_equal(ended(s, &attack).cause, BOX_CAUSE_CANCELLED);
    assert_works(s);
    assert_nothing_left(s);
}

static void a_fork_bomb_is_killed_and_starts_say_quota(void **state)
{
    sandbox *s = box_of(state);
    if (!sandbox_pids_limited(s)) {
        print_message("no pids controller: skipped\n");
        skip();
    }
    sandbox_command bomb = started(s, "perl -e 'fork while 1'", 2 * BOX_SECOND, 0);
    (void)poll(NULL, 0, 500);
    int refused = 0;
    for (int i = 0; i < 20; i++) {
        sandbox_command c = start(s, "true", 500 * BOX_MS, BOX_START_KILL_LEFTOVERS);
        box_agent_started r = sandbox_wait_started(s, c.id);
        if (r.error.reason == BOX_NONE) {
            (void)ended(s, &c);
            continue;
        }
        assert_int_equal(r.error.reason, BOX_QUOTA);
        assert_string_equal(box_error_get(&r.error, "limit"), "pids");
        sandbox_command_close(&c);
        refused++;
    }
    print_message("starts refused under the bomb: %d of 20\n", refused);
    box_time before = box_now();
    sandbox_send(s, BOX_AGENT_PING, 77, NULL);
    sandbox_wait_pong(s, 77);
    assert_true(box_now() - before < BOX_SECOND);
    box_agent_exit e = ended(s, &bomb);
    assert_int_equal(e.cause, BOX_CAUSE_TIMEOUT);
    assert_nothing_left(s);
    assert_works(s);
}

static void zombies_nobody_waits_for_are_reaped(void **state)
{
    sandbox *s = box_of(state);
    for (int i = 0; i < 50; i++)
        (void)sandbox_run(s, "for i in 1 2 3 4 5; do true & done; exec sleep 0", 0, 0, NULL, 0);
    assert_nothing_left(s);
}

static void a_dead_zygote_is_replaced(void **state)
{
    sandbox *s = box_of(state);
    sandbox_command running = started(s, "sleep 0.5; exit 6", 0, 0);
    for (int i = 0; i < 5; i++) {
        pid_t zygote = sandbox_find(s, "box-zygote");
        assert_true(zygote > 0);
        assert_int_equal(kill(zygote, SIGKILL), 0);
        sandbox_command c = start(s, "exit 0", 0, 0);
        box_agent_started r = sandbox_wait_started(s, c.id); /* typed, or it ran */
        if (r.error.reason == BOX_NONE)
            (void)ended(s, &c);
        else
            assert_string_equal(r.error.msg, "the process that starts commands ended");
        sandbox_command_close(&c);
        assert_works(s);
    }
    assert_int_equal(ended(s, &running).exit_code, 6);
    assert_nothing_left(s);
}

/* With nothing to do; each START finds its command's process all the same. */
static void an_idle_sandbox_keeps_no_process_ready(void **state)
{
    sandbox *s = box_of(state);
    if (sandbox_command_dirs(s) < 0)
        return; /* it never does */
    sandbox_command running = started(s, "sleep 7; exit 6", 0, 0);
    box_time end = box_now() + (BOX_AGENT_STANDBY_MS + 1000) * BOX_MS;
    while (box_now() < end) {
        (void)poll(NULL, 0, 100);
        assert_int_equal(sandbox_processes(s), 5); /* not while a command lives */
    }
    assert_int_equal(ended(s, &running).exit_code, 6);
    end = box_now() + 4 * BOX_AGENT_STANDBY_MS * BOX_MS;
    while (sandbox_processes(s) > 2 && box_now() < end)
        (void)poll(NULL, 0, 10);
    assert_int_equal(sandbox_processes(s), 2);
    pid_t zygote = sandbox_find(s, "box-zygote");
    for (int i = 0; i < 20; i++)
        assert_works(s);
    assert_int_equal(kill(zygote, 0), 0); /* the same one: its child has its name too */
    assert_nothing_left(s);
}

/* --- the channel ------------------------------------------------------------------------------ */

static void garbage_drops_the_connection_and_no_command(void **state)
{
    sandbox *s = box_of(state);
    sandbox_command c = started(s, "sleep 0.3; exit 5", 0, 0);
    assert_int_equal(send(sandbox_fd(s), "garbage", 7, 0), 7);
    assert_true(sandbox_is_dropped(s));
    sandbox_disconnect(s);
    box_agent_hello hello = sandbox_connect(s);
    assert_int_equal(hello.running, 1);
    assert_int_equal(sandbox_wait_started(s, c.id).error.reason, BOX_NONE); /* told again */
    assert_int_equal(ended(s, &c).exit_code, 5);
    assert_nothing_left(s);
}

static void exits_wait_for_the_next_boxd_until_acknowledged(void **state)
{
    sandbox *s = box_of(state);
    sandbox_command c = started(s, "exit 8", 0, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sandbox_wait_exit(s, c.id).exit_code, 8);
        sandbox_disconnect(s);
        assert_int_equal(sandbox_connect(s).running, 1);
        assert_int_equal(sandbox_wait_started(s, c.id).error.reason, BOX_NONE);
    }
    assert_int_equal(ended(s, &c).exit_code, 8);
    sandbox_send(s, BOX_AGENT_PING, 5, NULL);
    sandbox_wait_pong(s, 5); /* the acknowledgement was read */
    sandbox_disconnect(s);
    assert_int_equal(sandbox_connect(s).running, 0);
    assert_nothing_left(s);
}

static void a_wrong_version_or_no_hello_is_refused(void **state)
{
    sandbox *s = box_of(state);
    box_agent_hello again = {.version = BOX_AGENT_VERSION};
    sandbox_send(s, BOX_AGENT_HELLO, 0, &again); /* a second one */
    assert_true(sandbox_is_dropped(s));
    sandbox_disconnect(s);
    (void)sandbox_connect(s);
    sandbox_send(s, BOX_AGENT_EXIT_ACK, 4242, NULL); /* unknown: ignored */
    assert_works(s);
}

static void an_id_is_used_once_and_acknowledged_after_its_end(void **state)
{
    sandbox *s = box_of(state);
    sandbox_command c = started(s, "sleep 300", 0, 0);
    sandbox_acknowledge(s, c.id);
    assert_true(sandbox_is_dropped(s));
    sandbox_disconnect(s);
    (void)sandbox_connect(s);
    sandbox_signal(s, c.id, SIGKILL, BOX_SCOPE_TREE, BOX_CAUSE_CANCELLED);
    assert_int_equal(ended(s, &c).cause, BOX_CAUSE_CANCELLED);
    assert_nothing_left(s);
}

/* A process inside that finds the socket is not boxd: SO_PEERCRED shows its pid. */
static void nobody_inside_may_speak_for_boxd(void **state)
{
    if (access("/usr/bin/python3", X_OK) < 0)
        skip();
    sandbox_options o = {.mode = sandbox_mode_of(box_of(state)), .open_place = true};
    sandbox *s = sandbox_open(&o);
    char script[512];
    (void)snprintf(script, sizeof script,
                   "sleep 0.3; exec /usr/bin/python3 -c \"\nimport socket, sys\n"
                   "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
                   "s.settimeout(10)\ns.connect('%s')\n"
                   "sys.exit(3 if s.recv(4096) == b'' else 4)\"",
                   sandbox_socket_path(s));
    sandbox_command c = started(s, script, 0, 0);
    sandbox_disconnect(s); /* the place is free */
    char out[OUTPUT];
    (void)sandbox_output(&c, out, sizeof out, 10000);
    assert_string_equal(out, "");
    (void)sandbox_connect(s);
    assert_int_equal(ended(s, &c).exit_code, 3); /* it was connected and got nothing */
    sandbox_close(s);
}

/* A host without cgroup2: the kernel may kill a subreaper for memory. */
static void a_dead_subreaper_takes_its_command_along(void **state)
{
    sandbox *s = box_of(state);
    if (sandbox_mode_of(s) != SANDBOX_REAPERS)
        return;
    sandbox_command c = started(s, "setsid sleep 300 & sleep 300", 0, 0);
    (void)poll(NULL, 0, 100);
    pid_t reaper = sandbox_find(s, "box-reaper");
    assert_true(reaper > 0);
    assert_int_equal(kill(reaper, SIGKILL), 0);
    assert_int_equal(ended(s, &c).signal, SIGKILL);
    assert_nothing_left(s);
    assert_works(s);
}

/* --- the agent's own end ---------------------------------------------------------------------- */

static void shutdown_ends_everything(void **state)
{
    sandbox *s = box_of(state);
    sandbox_command c = started(s, "sleep 300 & setsid sleep 300 & sleep 300", 0, 0);
    sandbox_send(s, BOX_AGENT_SHUTDOWN, 0, NULL);
    assert_int_equal(sandbox_wait(s, 5000), 0);
    char out[8];
    assert_int_equal(sandbox_output(&c, out, sizeof out, 2000), 0);
    sandbox_command_close(&c);
    if (sandbox_command_dirs(s) >= 0)
        assert_int_equal(sandbox_command_dirs(s), 0);
}

static void an_agent_nobody_adopts_ends_itself(void **state)
{
    sandbox_options o = {.mode = sandbox_mode_of(box_of(state)), .orphan_seconds = 1};
    sandbox *s = sandbox_open(&o);
    sandbox_command c = started(s, "sleep 300", 0, 0);
    sandbox_disconnect(s);
    box_time before = box_now();
    assert_int_equal(sandbox_wait(s, 10000), 0);
    assert_true(box_now() - before >= 900 * BOX_MS);
    sandbox_command_close(&c);
    sandbox_close(s);
}

static int by_time(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;
    return (*x > *y) - (*x < *y);
}

static void start_latency_is_printed(void **state)
{
    enum { RUNS = 500 };
    sandbox *s = box_of(state);
    static uint64_t to_started[RUNS];
    static uint64_t to_exit[RUNS];
    for (int i = 0; i < RUNS; i++) {
        const char *argv[] = {"/bin/true", NULL};
        sandbox_start st = {.argv = argv};
        box_time before = box_now();
        sandbox_command c = sandbox_send_start(s, &st);
        (void)sandbox_wait_started(s, c.id);
        to_started[i] = box_now() - before;
        (void)sandbox_wait_exit(s, c.id);
        to_exit[i] = box_now() - before;
        sandbox_acknowledge(s, c.id);
        sandbox_command_close(&c);
    }
    qsort(to_started, RUNS, sizeof to_started[0], by_time);
    qsort(to_exit, RUNS, sizeof to_exit[0], by_time);
    print_message("START to STARTED p50 %llu us p99 %llu us, to EXIT p50 %llu us\n",
                  (unsigned long long)to_started[RUNS / 2] / 1000,
                  (unsigned long long)to_started[RUNS * 99 / 100] / 1000,
                  (unsigned long long)to_exit[RUNS / 2] / 1000);
    assert_nothing_left(s);
}

/* --- the three ways --------------------------------------------------------------------------- */

static int open_cgroups(void **state)
{
    return sandbox_set_up(state, &(sandbox_options){.mode = SANDBOX_CGROUPS});
}

static int open_old(void **state)
{
    return sandbox_set_up(state, &(sandbox_options){.mode = SANDBOX_OLD_KERNEL});
}

static int open_reapers(void **state)
{
    return sandbox_set_up(state, &(sandbox_options){.mode = SANDBOX_REAPERS});
}

#define BOTH_ENDS(test, open) cmocka_unit_test_setup_teardown(test, open, sandbox_tear_down)
#define ALL_TESTS(open)                                                                            \
    {                                                                                              \
        BOTH_ENDS(output_and_exit_code_come_back, open),                                           \
            BOTH_ENDS(every_exit_code_and_signal_is_told_apart, open),                             \
            BOTH_ENDS(a_command_has_no_privileges, open),                                          \
            BOTH_ENDS(a_command_has_three_descriptors_its_session_and_limits, open),               \
            BOTH_ENDS(a_command_cannot_touch_the_agent, open),                                     \
            BOTH_ENDS(environment_and_directory_are_the_given_ones, open),                         \
            BOTH_ENDS(stdin_is_read_to_its_end, open),                                             \
            BOTH_ENDS(a_closed_stdin_is_an_end_of_file_at_once, open),                             \
            BOTH_ENDS(without_stdin_a_command_reads_dev_null, open),                               \
            BOTH_ENDS(large_arguments_arrive_whole, open),                                         \
            BOTH_ENDS(a_start_that_fails_says_why, open),                                          \
            BOTH_ENDS(a_thousand_starts_leak_nothing, open),                                       \
            BOTH_ENDS(sixteen_starts_may_be_under_way, open),                                      \
            BOTH_ENDS(a_timeout_kills_the_tree_and_is_the_cause, open),                            \
            BOTH_ENDS(a_timeout_also_ends_a_stopped_command, open),                                \
            BOTH_ENDS(leftovers_are_kept_and_counted, open),                                       \
            BOTH_ENDS(leftovers_are_killed_however_they_hide, open),                               \
            BOTH_ENDS(nothing_left_behind_is_not_called_killed, open),                             \
            BOTH_ENDS(a_signal_reaches_the_main_process_only, open),                               \
            BOTH_ENDS(a_tree_kill_tells_its_first_cause, open),                                    \
            BOTH_ENDS(cpu_time_is_counted, open),                                                  \
            BOTH_ENDS(killing_everything_leaves_the_agent, open),                                  \
            BOTH_ENDS(stopping_everything_does_not_stop_starts, open),                             \
            BOTH_ENDS(a_fork_bomb_is_killed_and_starts_say_quota, open),                           \
            BOTH_ENDS(zombies_nobody_waits_for_are_reaped, open),                                  \
            BOTH_ENDS(a_dead_zygote_is_replaced, open),                                            \
            BOTH_ENDS(an_idle_sandbox_keeps_no_process_ready, open),                               \
            BOTH_ENDS(garbage_drops_the_connection_and_no_command, open),                          \
            BOTH_ENDS(exits_wait_for_the_next_boxd_until_acknowledged, open),                      \
            BOTH_ENDS(a_wrong_version_or_no_hello_is_refused, open),                               \
            BOTH_ENDS(an_id_is_used_once_and_acknowledged_after_its_end, open),                    \
            BOTH_ENDS(nobody_inside_may_speak_for_boxd, open),                                     \
            BOTH_ENDS(a_dead_subreaper_takes_its_command_along, open),                             \
            BOTH_ENDS(shutdown_ends_everything, open),                                             \
            BOTH_ENDS(an_agent_nobody_adopts_ends_itself, open),                                   \
            BOTH_ENDS(start_latency_is_printed, open),                                             \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest cgroups[] = ALL_TESTS(open_cgroups);
    const struct CMUnitTest old[] = ALL_TESTS(open_old);
    const struct CMUnitTest reapers[] = ALL_TESTS(open_reapers);
    const char *mode = argc > 1 ? argv[1] : "cgroups";
    sandbox_mode wanted = strcmp(mode, "reapers") == 0      ? SANDBOX_REAPERS
                          : strcmp(mode, "old-kernel") == 0 ? SANDBOX_OLD_KERNEL
                                                            : SANDBOX_CGROUPS;
    if (sandbox_skips(wanted))
        return 77;
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    switch (wanted) {
    case SANDBOX_REAPERS:
        return cmocka_run_group_tests(reapers, NULL, NULL);
    case SANDBOX_OLD_KERNEL:
        return cmocka_run_group_tests(old, NULL, NULL);
    default:
        return cmocka_run_group_tests(cgroups, NULL, NULL);
    }
}
