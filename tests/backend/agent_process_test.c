/* Managed processes in the real static box-agent, as boxd's end of the channel sees them. */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/journal.h"
#include "agent_sandbox.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"

typedef struct process {
    sandbox *s;
    uint64_t id;
    int record; /* the text and record; -1 until introduced */
    int journals[2];
    uint64_t capacity;
    int in;
    box_agent_managed now;
} process;

static const char record[] = "what boxd wants to know again";

static void build_text(const char *script, box_agent_text *out, box_buf *text)
{
    const char *argv[] = {"sh", "-c", script};
    const char *env[] = {"PATH=/usr/local/bin:/usr/bin:/bin"};
    box_agent_command command = {.argc = 3, .argv = argv, .envc = 1, .env = env, .workdir = "/"};
    box_error err;
    if (box_agent_text_build(&command, text, out, &err) < 0)
        fail_msg("text: %s", err.msg);
}

static int text_memfd(const char *script, box_agent_text *out, const char *behind)
{
    BOX_AUTO(box_buf_done) box_buf text = {.max_bytes = BOX_AGENT_TEXT_BYTES};
    box_error err;
    int fd = -1;
    build_text(script, out, &text);
    assert_int_equal(box_buf_add(&text, behind, strlen(behind), &err), 0);
    assert_int_equal(box_fd_memfd("text", box_buf_data(&text), box_buf_len(&text), &fd, &err), 0);
    return fd;
}

static box_agent_manage plain(void)
{
    return (box_agent_manage){.name = "default",
                              .restart = BOX_RESTART_NEVER,
                              .journal_bytes = BOX_MIN_JOURNAL_BYTES,
                              .first_backoff_ns = BOX_MS,
                              .max_backoff_ns = 10 * BOX_MS,
                              .grace_ns = 5 * BOX_SECOND,
                              .interval_ns = 10 * BOX_MS};
}

/* Sends MANAGE; what follows is the test's. */
static process manage(sandbox *s, uint64_t id, const char *script, box_agent_manage m,
                      const char *probe)
{
    process p = {.s = s, .id = id, .record = -1, .journals = {-1, -1}, .in = -1};
    int fds[2] = {text_memfd(script, &m.text, record), -1};
    box_error err;
    m.record_len = sizeof record - 1;
    if (probe != NULL) {
        m.probe = BOX_READY_COMMAND;
        fds[1] = text_memfd(probe, &m.probe_text, "");
    }
    if (box_agent_send_with(sandbox_fd(s), BOX_AGENT_MANAGE, id, &m, fds, box_agent_manage_fds(&m),
                            &err) < 0)
        fail_msg("MANAGE: %s", err.msg);
    box_closep(&fds[0]);
    box_closep(&fds[1]);
    return p;
}

static void introduced(process *p)
{
    int fds[4];
    size_t n;
    box_error err;
    box_agent_packet got = sandbox_take(p->s, BOX_AGENT_INTRODUCED, p->id, fds, &n);
    bool terminal = (got.body.manage.flags & BOX_MANAGE_TERMINAL) != 0;
    assert_int_equal(n, terminal ? 2 : 3);
    p->record = fds[0];
    p->journals[0] = fds[1];
    p->journals[1] = terminal ? -1 : fds[2];
    assert_int_equal(box_journal_check(fds[1], &p->capacity, &err), 0);
    char text[256];
    ssize_t len = pread(p->record, text, sizeof text, got.body.manage.text.len);
    assert_int_equal(len, sizeof record - 1);
    assert_memory_equal(text, record, sizeof record - 1);
}

static void next_report(process *p)
{
    int fds[4];
    size_t n;
    box_agent_packet got = sandbox_take(p->s, BOX_AGENT_MANAGED, p->id, fds, &n);
    p->now = got.body.managed;
    if (n == 1) {
        box_closep(&p->in);
        p->in = fds[0];
    }
}

static void until(process *p, box_managed_state state)
{
    while (p->now.state != state)
        next_report(p);
}

static void until_ready(process *p)
{
    while ((p->now.flags & BOX_MANAGED_READY) == 0)
        next_report(p);
}

static process run(sandbox *s, uint64_t id, const char *script, box_agent_manage m)
{
    process p = manage(s, id, script, m, NULL);
    introduced(&p);
    next_report(&p); /* it may have ended by now */
    assert_true(p.now.started_ns >= p.now.created_ns);
    return p;
}

static void done(process *p)
{
    box_closep(&p->record);
    box_closep(&p->journals[0]);
    box_closep(&p->journals[1]);
    box_closep(&p->in);
}

static void forget(process *p)
{
    sandbox_send(p->s, BOX_AGENT_FORGET, p->id, NULL);
    done(p);
}

static void stop(process *p, uint64_t grace_ns)
{
    box_agent_stop order = {.grace_ns = grace_ns};
    sandbox_send(p->s, BOX_AGENT_STOP, p->id, &order);
}

static box_journal_span span_of(const process *p, int stream)
{
    box_journal_span span;
    box_error err;
    if (box_journal_look(p->journals[stream], p->capacity, &span, &err) < 0)
        fail_msg("%s", err.msg);
    return span;
}

/* All of a journal, NUL-ended. */
static void read_all(const process *p, int stream, char *out, size_t size)
{
    box_journal_span span = span_of(p, stream);
    size_t len = 0;
    box_error err;
    for (uint64_t at = span.first; at < span.end;) {
        assert_true(len + 1 < size);
        size_t want =
            (size_t)(span.end - at) < size - 1 - len ? (size_t)(span.end - at) : size - 1 - len;
        ssize_t n = box_journal_read(p->journals[stream], p->capacity, at, out + len, want, &err);
        assert_true(n > 0);
        len += (size_t)n;
        at += (uint64_t)n;
    }
    out[len] = '\0';
}

static void wait_for_bytes(process *p, uint64_t out, uint64_t err)
{
    int fds[4];
    size_t n;
    box_agent_ends ends = {{out, err}};
    sandbox_send(p->s, BOX_AGENT_WATCH, p->id, &ends);
    (void)sandbox_take(p->s, BOX_AGENT_GREW, p->id, fds, &n);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void output_goes_to_the_journals_and_the_exit_is_kept(void **state)
{
    char text[256];
    process p = run(*state, 1000, "echo out; echo err >&2; exit 7", plain());
    until(&p, BOX_MANAGED_EXITED);
    assert_true((p.now.flags & BOX_MANAGED_HAS_EXIT) != 0);
    assert_int_equal(p.now.exit.exit_code, 7);
    assert_int_equal(p.now.exit.signal, 0);
    assert_int_equal(p.now.exit.end_offset[0], 4);
    assert_int_equal(p.now.pid, 0);
    read_all(&p, 0, text, sizeof text);
    assert_string_equal(text, "out\n");
    read_all(&p, 1, text, sizeof text);
    assert_string_equal(text, "err\n");
    forget(&p);
}

static void a_program_that_is_not_there_never_ran(void **state)
{
    box_agent_manage m = plain();
    BOX_AUTO(box_buf_done) box_buf text = {.max_bytes = BOX_AGENT_TEXT_BYTES};
    const char *argv[] = {"/no/such/program"};
    box_agent_command command = {.argc = 1, .argv = argv, .workdir = "/"};
    box_error err;
    int fd = -1;
    assert_int_equal(box_agent_text_build(&command, &text, &m.text, &err), 0);
    assert_int_equal(box_fd_memfd("text", box_buf_data(&text), box_buf_len(&text), &fd, &err), 0);
    assert_int_equal(
        box_agent_send_with(sandbox_fd(*state), BOX_AGENT_MANAGE, 1000, &m, &fd, 1, &err), 0);
    (void)close(fd);
    process p = {.s = *state, .id = 1000, .record = -1, .journals = {-1, -1}, .in = -1};
    next_report(&p);
    assert_int_equal(p.now.state, BOX_MANAGED_FAILED);
    assert_int_equal(p.now.error.reason, BOX_FILE_NOT_FOUND);
    /* It is forgotten: the id may come again. */
    process again = run(*state, 1000, "sleep 60", plain());
    done(&again);
}

static void stdin_reaches_it_and_ends_when_told(void **state)
{
    char text[256];
    process p = run(*state, 1000, "cat; echo end", plain());
    assert_true(p.in >= 0);
    assert_int_equal(write(p.in, "hello\n", 6), 6);
    wait_for_bytes(&p, 0, 0);
    box_closep(&p.in);
    sandbox_send(p.s, BOX_AGENT_CLOSE_STDIN, p.id, NULL);
    until(&p, BOX_MANAGED_EXITED);
    assert_true((p.now.flags & BOX_MANAGED_STDIN_CLOSED) != 0);
    read_all(&p, 0, text, sizeof text);
    assert_string_equal(text, "hello\nend\n");
    forget(&p);
}

static void nobody_reading_does_not_block_it(void **state)
{
    process p =
        run(*state, 1000, "head -c 3000000 /dev/zero; head -c 100000 /dev/zero >&2", plain());
    until(&p, BOX_MANAGED_EXITED);
    assert_int_equal(p.now.exit.exit_code, 0);
    box_journal_span out = span_of(&p, 0);
    assert_int_equal(out.end, 3000000);
    assert_int_equal(out.first, 3000000 - BOX_MIN_JOURNAL_BYTES);
    assert_int_equal(span_of(&p, 1).end, 100000);
    forget(&p);
}

static void what_it_wrote_last_is_there_when_its_exit_is_told(void **state)
{
    for (uint64_t i = 0; i < 50; i++) {
        process p = manage(*state, 1000 + i, "head -c 60000 /dev/zero; kill -9 $$", plain(), NULL);
        introduced(&p);
        until(&p, BOX_MANAGED_EXITED);
        assert_int_equal(span_of(&p, 0).end, 60000);
        assert_int_equal(p.now.exit.signal, SIGKILL);
        forget(&p);
    }
}

static void a_stop_closes_stdin_and_sends_term(void **state)
{
    char text[256];
    process p =
        run(*state, 1000, "trap 'echo term; exit 3' TERM; echo on; while :; do sleep 0.01; done",
            plain());
    wait_for_bytes(&p, 0, 0);
    stop(&p, BOX_STOP_DEFAULT_GRACE);
    until(&p, BOX_MANAGED_EXITED);
    assert_int_equal(p.now.exit.exit_code, 3);
    assert_true((p.now.flags & BOX_MANAGED_STOPPED) != 0);
    read_all(&p, 0, text, sizeof text);
    assert_string_equal(text, "on\nterm\n");
    forget(&p);
}

static void who_ignores_term_is_killed_with_all_it_started(void **state)
{
    process p = run(*state, 1000,
                    "trap '' TERM HUP; (setsid sh -c 'trap \"\" TERM; sleep 600' &); echo on; "
                    "while :; do sleep 600; done",
                    plain());
    wait_for_bytes(&p, 0, 0);
    stop(&p, 50 * BOX_MS);
    until(&p, BOX_MANAGED_EXITED);
    assert_int_equal(p.now.exit.signal, SIGKILL);
    assert_int_equal(p.now.exit.cause, BOX_CAUSE_CANCELLED);
    forget(&p);
    assert_true(sandbox_is_idle(p.s));
}

static void it_is_started_again_until_its_count_is_used_up(void **state)
{
    char text[256];
    box_agent_manage m = plain();
    m.restart = BOX_RESTART_ON_FAILURE;
    m.max_restarts = 3;
    process p = run(*state, 1000, "echo run; exit 1", m);
    until(&p, BOX_MANAGED_EXITED);
    assert_int_equal(p.now.restarts, 3);
    assert_int_equal(p.now.runs, 4);
    read_all(&p, 0, text, sizeof text);
    assert_string_equal(text, "run\nrun\nrun\nrun\n");
    forget(&p);
}

static void success_is_no_reason_to_start_again_on_failure(void **state)
{
    box_agent_manage m = plain();
    m.restart = BOX_RESTART_ON_FAILURE;
    process p = run(*state, 1000, "exit 0", m);
    until(&p, BOX_MANAGED_EXITED);
    assert_int_equal(p.now.restarts, 0);
    forget(&p);
}

static void a_stop_between_two_runs_is_the_end(void **state)
{
    box_agent_manage m = plain();
    m.restart = BOX_RESTART_ALWAYS;
    m.first_backoff_ns = m.max_backoff_ns = 3600 * BOX_SECOND;
    process p = run(*state, 1000, "exit 0", m);
    until(&p, BOX_MANAGED_WAITING);
    assert_true(p.now.next_start_ns > p.now.exited_ns);
    stop(&p, BOX_STOP_DEFAULT_GRACE);
    until(&p, BOX_MANAGED_EXITED);
    assert_int_equal(p.now.restarts, 0);
    forget(&p);
}

static void a_line_a_port_and_a_command_make_it_ready(void **state)
{
    box_agent_manage m = plain();
    m.probe = BOX_READY_LINE;
    m.line_len = 7;
    memcpy(m.line, "ready 1", 7);
    process line = run(*state, 1000,
                       "printf 'not read'; sleep 0.05; printf 'y 1\nready '; "
                       "sleep 0.05; echo 1; sleep 600",
                       m);
    until_ready(&line);
    char text[256];
    read_all(&line, 0, text, sizeof text);
    assert_non_null(strstr(text, "ready 1"));
    done(&line);

    process command =
        manage(*state, 1002, "sleep 0.05; touch /tmp/up; sleep 600", plain(), "test -e /tmp/up");
    introduced(&command);
    until_ready(&command);
    assert_true(command.now.ready_ns >= command.now.started_ns);
    done(&command);
}

static void another_boxd_hears_of_it_all_again(void **state)
{
    char text[256];
    sandbox *s = *state;
    process p = run(s, 1000, "echo one; cat; echo two", plain());
    assert_int_equal(write(p.in, "by the first\n", 13), 13);
    sandbox_disconnect(s);
    done(&p);
    assert_int_equal(sandbox_connect(s).running, 0);
    introduced(&p);
    next_report(&p);
    assert_int_equal(p.now.state, BOX_MANAGED_RUNNING);
    assert_true(p.in >= 0);
    assert_int_equal(write(p.in, "by the next\n", 12), 12);
    box_closep(&p.in);
    sandbox_send(s, BOX_AGENT_CLOSE_STDIN, p.id, NULL);
    until(&p, BOX_MANAGED_EXITED);
    read_all(&p, 0, text, sizeof text);
    assert_string_equal(text, "one\nby the first\nby the next\ntwo\n");
    sandbox_disconnect(s);
    done(&p);
    (void)sandbox_connect(s);
    introduced(&p);
    next_report(&p);
    assert_int_equal(p.now.state, BOX_MANAGED_EXITED);
    assert_int_equal(p.now.exit.exit_code, 0);
    forget(&p);
    sandbox_disconnect(s);
    (void)sandbox_connect(s);
    assert_false(sandbox_sees(s, BOX_AGENT_INTRODUCED, p.id, 50));
}

static void sixty_four_live_beside_each_other_and_commands_run_on(void **state)
{
    static process all[BOX_MAX_PROCESSES];
    char out[64];
    for (uint64_t i = 0; i < BOX_MAX_PROCESSES; i++)
        all[i] = manage(*state, 1000 + i, "echo on; exec sleep 600", plain(), NULL);
    for (size_t i = 0; i < BOX_MAX_PROCESSES; i++) {
        introduced(&all[i]);
        until(&all[i], BOX_MANAGED_RUNNING);
    }
    assert_int_equal(sandbox_run(*state, "echo fine", 0, 0, out, sizeof out).exit_code, 0);
    assert_string_equal(out, "fine\n");
    for (size_t i = 0; i < BOX_MAX_PROCESSES; i++) {
        stop(&all[i], 0);
        until(&all[i], BOX_MANAGED_EXITED);
        forget(&all[i]);
    }
}

static void a_signal_goes_to_what_runs_now(void **state)
{
    process p =
        run(*state, 1000, "trap 'exit 9' USR1; echo on; while :; do sleep 0.01; done", plain());
    wait_for_bytes(&p, 0, 0);
    sandbox_signal(p.s, p.id, SIGUSR1, BOX_SCOPE_MAIN, BOX_CAUSE_NONE);
    until(&p, BOX_MANAGED_EXITED);
    assert_int_equal(p.now.exit.exit_code, 9);
    sandbox_signal(p.s, p.id, SIGUSR1, BOX_SCOPE_MAIN, BOX_CAUSE_NONE); /* ignored */
    forget(&p);
}

static int open_cgroups(void **state)
{
    return sandbox_set_up(state, &(sandbox_options){.mode = SANDBOX_CGROUPS, .pids_max = 1024});
}

static int open_reapers(void **state)
{
    return sandbox_set_up(state, &(sandbox_options){.mode = SANDBOX_REAPERS, .pids_max = 1024});
}

#define BOTH_ENDS(test, open) cmocka_unit_test_setup_teardown(test, open, sandbox_tear_down)
#define ALL_TESTS(open)                                                                            \
    {                                                                                              \
        BOTH_ENDS(output_goes_to_the_journals_and_the_exit_is_kept, open),                         \
            BOTH_ENDS(a_program_that_is_not_there_never_ran, open),                                \
            BOTH_ENDS(stdin_reaches_it_and_ends_when_told, open),                                  \
            BOTH_ENDS(nobody_reading_does_not_block_it, open),                                     \
            BOTH_ENDS(what_it_wrote_last_is_there_when_its_exit_is_told, open),                    \
            BOTH_ENDS(a_stop_closes_stdin_and_sends_term, open),                                   \
            BOTH_ENDS(who_ignores_term_is_killed_with_all_it_started, open),                       \
            BOTH_ENDS(it_is_started_again_until_its_count_is_used_up, open),                       \
            BOTH_ENDS(success_is_no_reason_to_start_again_on_failure, open),                       \
            BOTH_ENDS(a_stop_between_two_runs_is_the_end, open),                                   \
            BOTH_ENDS(a_line_a_port_and_a_command_make_it_ready, open),                            \
            BOTH_ENDS(another_boxd_hears_of_it_all_again, open),                                   \
            BOTH_ENDS(sixty_four_live_beside_each_other_and_commands_run_on, open),                \
            BOTH_ENDS(a_signal_goes_to_what_runs_now, open),                                       \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest cgroups[] = ALL_TESTS(open_cgroups);
    const struct CMUnitTest reapers[] = ALL_TESTS(open_reapers);
    bool with_reapers = argc > 1 && strcmp(argv[1], "reapers") == 0;
    if (sandbox_skips(with_reapers ? SANDBOX_REAPERS : SANDBOX_CGROUPS))
        return 77;
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    if (with_reapers)
        return cmocka_run_group_tests_name("agent processes with subreapers", reapers, NULL, NULL);
    return cmocka_run_group_tests_name("agent processes", cgroups, NULL, NULL);
}
