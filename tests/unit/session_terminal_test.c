/* Commands on terminals, without a sandbox: session_rig.h. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/limits.h"
#include "session_rig.h"

static const box_exec_request on_terminal = {
    .stream = true, .stdin_open = true, .terminal = true, .rows = 33, .columns = 99};

static void start(rig *r, outcome *o, const char *text)
{
    rig_start(r, o, "s", text, &on_terminal, NULL);
    rig_settle(r);
}

static fake_program *program(rig *r, const char *name)
{
    return fake_sandbox_find(fake_warden_only(&r->warden), name);
}

static void end(rig *r, const char *name, uint32_t leftovers)
{
    fake_sandbox *s = fake_warden_only(&r->warden);
    fake_program_exit(s, fake_sandbox_find(s, name), 0, 0, BOX_CAUSE_NONE, leftovers);
}

static void all_it_writes_is_stdout(void **state)
{
    rig *r = *state;
    outcome o = {.may_stream = SIZE_MAX};
    start(r, &o, "err text");
    assert_true(o.done);
    assert_int_equal(o.error.reason, BOX_NONE);
    assert_int_equal(o.streamed, 4);
    assert_int_equal(o.verdict.output[0].total_bytes, 4);
    assert_int_equal(o.verdict.output[1].total_bytes, 0);
    outcome_free(&o);
}

static void what_is_fed_is_typed(void **state)
{
    rig *r = *state;
    outcome o = {.may_stream = SIZE_MAX};
    box_error err;
    bool room;
    start(r, &o, "cat");
    assert_int_equal(box_exec_feed(o.exec, "hello", 5, &room, &err), 0);
    rig_settle(r);
    assert_int_equal(o.streamed, 5);
    box_exec_close_stdin(o.exec); /* of a terminal whose mode knows no end */
    rig_settle(r);
    assert_false(o.done);
    end(r, "cat", 0);
    rig_settle(r);
    assert_true(o.done);
    assert_int_equal(o.verdict.stdin_bytes, 5);
    outcome_free(&o);
}

static void the_end_of_stdin_is_typed_once_all_else_was(void **state)
{
    rig *r = *state;
    outcome o = {.may_stream = SIZE_MAX};
    box_error err;
    bool room;
    char data[16];
    start(r, &o, "hang");
    int tty = program(r, "hang")->fds[0];
    struct termios t;
    assert_int_equal(tcgetattr(tty, &t), 0);
    t.c_lflag |= ICANON;
    assert_int_equal(tcsetattr(tty, TCSANOW, &t), 0);
    assert_int_equal(box_exec_feed(o.exec, "line\n", 5, &room, &err), 0);
    box_exec_close_stdin(o.exec);
    box_exec_close_stdin(o.exec);
    rig_settle(r);
    assert_int_equal(fcntl(tty, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(read(tty, data, sizeof data), 5);
    assert_int_equal(read(tty, data, sizeof data), 0);
    assert_int_equal(read(tty, data, sizeof data), -1); /* once */
    outcome_free(&o);
    rig_settle(r);
}

static void assert_size(int tty, int rows, int columns)
{
    struct winsize size;
    assert_int_equal(ioctl(tty, TIOCGWINSZ, &size), 0);
    assert_int_equal(size.ws_row, rows);
    assert_int_equal(size.ws_col, columns);
}

static void its_size_can_be_set_before_and_while_it_runs(void **state)
{
    rig *r = *state;
    outcome o = {.may_stream = SIZE_MAX};
    box_error err = {0};
    rig_start(r, &o, "s", "hang", &on_terminal, NULL);
    assert_int_equal(box_exec_set_size(o.exec, 5, 6, &err), 0);
    rig_settle(r);
    int tty = program(r, "hang")->fds[0];
    assert_size(tty, 5, 6);
    assert_int_equal(box_exec_set_size(o.exec, UINT16_MAX, 0, &err), 0);
    assert_size(tty, UINT16_MAX, 80);
    assert_int_equal(box_exec_set_size(o.exec, -1, 0, &err), -1);
    assert_int_equal(err.reason, BOX_VALIDATION);
    assert_int_equal(box_exec_set_size(o.exec, 0, UINT16_MAX + 1, &err), -1);
    assert_size(tty, UINT16_MAX, 80);
    outcome_free(&o);
    rig_settle(r);
}

static void only_a_terminal_has_a_size(void **state)
{
    rig *r = *state;
    outcome o = {.may_stream = SIZE_MAX};
    box_error err = {0};
    box_exec_request pipes = {.stream = true, .stdin_open = true};
    rig_start(r, &o, "s", "hang", &pipes, NULL);
    assert_int_equal(box_exec_set_size(o.exec, 5, 6, &err), -1);
    assert_int_equal(err.reason, BOX_VALIDATION);
    outcome_free(&o);
    rig_settle(r);
    box_exec_request bad = on_terminal;
    bad.rows = -1;
    rig_start(r, &o, "s", "hang", &bad, NULL);
    assert_int_equal(o.error.reason, BOX_VALIDATION);
}

static void it_takes_no_slot_and_has_a_limit_of_its_own(void **state)
{
    rig *r = *state;
    outcome one = {0}, late = {.may_stream = SIZE_MAX}, ok = {0};
    outcome all[BOX_SESSION_TERMINALS] = {{0}};
    for (size_t i = 0; i < BOX_COUNT(all); i++)
        start(r, &all[i], "hang");
    rig_exec(r, &one, "s", "deaf"); /* has the slot */
    assert_true(one.started);
    start(r, &late, "echo x");
    assert_true(late.done);
    assert_int_equal(late.error.reason, BOX_QUOTA);
    assert_string_equal(box_error_get(&late.error, "limit"), "terminals");
    outcome_free(&late);
    end(r, "hang", 0);
    rig_settle(r);
    start(r, &late, "echo x");
    assert_int_equal(late.error.reason, BOX_NONE);
    assert_int_equal(late.streamed, 1);
    rig_exec(r, &ok, "s", "echo y");
    assert_false(ok.done); /* still waits for the slot */
    outcome_free(&late);
    for (size_t i = 0; i < BOX_COUNT(all); i++)
        outcome_free(&all[i]);
    end(r, "deaf", 0);
    rig_settle(r);
    assert_string_equal(ok.out, "y");
    outcome_free(&ok);
    outcome_free(&one);
    rig_settle(r);
}

static void those_that_wait_for_the_sandbox_count_too(void **state)
{
    rig *r = *state;
    outcome all[BOX_SESSION_TERMINALS + 1] = {{0}};
    r->warden.hang_create = true;
    for (size_t i = 0; i < BOX_COUNT(all); i++)
        rig_start(r, &all[i], "s", "hang", &on_terminal, NULL);
    rig_settle(r);
    size_t last = BOX_COUNT(all) - 1;
    for (size_t i = 0; i < last; i++)
        assert_false(all[i].done);
    assert_int_equal(all[last].error.reason, BOX_QUOTA);
    rig_wait(r, 61 * BOX_SECOND);
    for (size_t i = 0; i < last; i++)
        assert_int_equal(all[i].error.reason, BOX_BACKEND_UNAVAILABLE);
    for (size_t i = 0; i < BOX_COUNT(all); i++)
        outcome_free(&all[i]);
}

static void only_a_timeout_that_is_asked_for_holds(void **state)
{
    rig *r = *state;
    outcome o = {.may_stream = SIZE_MAX}, asked = {.may_stream = SIZE_MAX};
    start(r, &o, "hang");
    assert_int_equal(program(r, "hang")->timeout_ns, 0);
    rig_wait(r, 600 * BOX_SECOND);
    assert_false(o.done);
    outcome_free(&o);
    rig_settle(r);
    const char *argv[] = {"deaf"};
    box_command command = {
        .argv = argv, .argc = 1, .has_timeout = true, .timeout_ns = 3600 * (int64_t)BOX_SECOND};
    rig_start(r, &asked, "s", "", &on_terminal, &command);
    rig_settle(r);
    assert_int_equal(program(r, "deaf")->timeout_ns, 3600 * BOX_SECOND);
    assert_false(asked.verdict.timeout_clamped);
    end(r, "deaf", 0);
    rig_settle(r);
    assert_true(asked.done);
    outcome_free(&asked);
}

static void the_rest_waits_for_its_caller_and_then_the_verdict_comes(void **state)
{
    rig *r = *state;
    outcome o = {.may_stream = 0};
    start(r, &o, "flood 20000");
    rig_settle(r);
    assert_false(o.done);
    assert_int_equal(o.streamed, 0);
    o.may_stream = 5000;
    box_exec_resume(o.exec);
    rig_settle(r);
    assert_false(o.done);
    assert_in_range(o.streamed, 5000, 20000); /* a read gives 4 KiB or more */
    o.may_stream = SIZE_MAX;
    box_exec_resume(o.exec);
    rig_settle(r);
    assert_true(o.done);
    assert_int_equal(o.streamed, 20000);
    outcome_free(&o);
}

static void a_terminal_that_holds_nothing_more_ends_when_its_caller_reads_again(void **state)
{
    rig *r = *state;
    outcome o = {.may_stream = 4}; /* nothing more may be read when the last byte was */
    start(r, &o, "echo last");
    assert_int_equal(o.streamed, 4);
    assert_false(o.done);
    o.may_stream = SIZE_MAX;
    box_exec_resume(o.exec);
    rig_settle(r);
    assert_true(o.done);
    assert_int_equal(o.verdict.status, BOX_VERDICT_COMPLETED);
    outcome_free(&o);
}

static void a_background_process_that_floods_it_delays_nothing(void **state)
{
    rig *r = *state;
    outcome o = {.may_stream = 0};
    start(r, &o, "hang");
    fake_program *p = program(r, "hang");
    char data[4096] = {0};
    assert_int_equal(fcntl(p->fds[1], F_SETFL, O_NONBLOCK), 0);
    while (write(p->fds[1], data, sizeof data) > 0)
        continue; /* as much as there is room for */
    end(r, "hang", 1);
    rig_settle(r);
    assert_false(o.done);
    o.may_stream = SIZE_MAX;
    box_exec_resume(o.exec);
    rig_settle(r);
    assert_true(o.done);
    assert_int_equal(o.verdict.leftovers, 1);
    assert_in_range(o.streamed, 4096, BOX_TERMINAL_HELD_BYTES);
    /* It has hung up. */
    p = program(r, "hang");
    assert_int_equal(write(p->fds[1], "x", 1), -1);
    outcome_free(&o);
}

static void an_agent_that_brings_no_terminal_is_broken(void **state)
{
    rig *r = *state;
    outcome o = {.may_stream = SIZE_MAX};
    r->warden.no_terminal = true;
    start(r, &o, "hang");
    assert_true(o.done);
    assert_int_equal(o.verdict.status, BOX_VERDICT_SANDBOX_LOST);
    outcome_free(&o);
    rig_settle(r);
}

static void an_agent_that_brings_anything_else_is_broken_too(void **state)
{
    rig *r = *state;
    outcome o = {.may_stream = SIZE_MAX};
    r->warden.false_terminal = true;
    start(r, &o, "hang");
    assert_true(o.done);
    assert_int_equal(o.verdict.status, BOX_VERDICT_SANDBOX_LOST);
    outcome_free(&o);
    rig_settle(r);
}

static void an_end_before_its_terminal_came_is_broken_too(void **state)
{
    rig *r = *state;
    outcome o = {.may_stream = SIZE_MAX};
    start(r, &o, "brief text 1");
    assert_true(o.done);
    assert_int_equal(o.verdict.status, BOX_VERDICT_SANDBOX_LOST);
    outcome_free(&o);
    rig_settle(r);
}

static void a_caller_that_goes_away_ends_it(void **state)
{
    rig *r = *state;
    outcome o = {.may_stream = 0};
    start(r, &o, "flood 1000000");
    fake_sandbox *s = fake_warden_only(&r->warden);
    outcome_free(&o);
    rig_settle(r);
    assert_int_equal(s->last_signal, SIGKILL);
    assert_null(fake_sandbox_find(s, "flood"));
}

static void one_cancelled_before_it_starts_leaves_nothing_open(void **state)
{
    rig *r = *state;
    outcome o = {.may_stream = SIZE_MAX};
    rig_start(r, &o, "s", "hang", &on_terminal, NULL);
    outcome_free(&o);
    rig_settle(r);
    rig_exec(r, &o, "s", "echo next");
    assert_string_equal(o.out, "next");
    outcome_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)
        RIG_TEST(all_it_writes_is_stdout),
        RIG_TEST(what_is_fed_is_typed),
        RIG_TEST(the_end_of_stdin_is_typed_once_all_else_was),
        RIG_TEST(its_size_can_be_set_before_and_while_it_runs),
        RIG_TEST(only_a_terminal_has_a_size),
        RIG_TEST(it_takes_no_slot_and_has_a_limit_of_its_own),
        RIG_TEST(those_that_wait_for_the_sandbox_count_too),
        RIG_TEST(only_a_timeout_that_is_asked_for_holds),
        RIG_TEST(the_rest_waits_for_its_caller_and_then_the_verdict_comes),
        RIG_TEST(a_terminal_that_holds_nothing_more_ends_when_its_caller_reads_again),
        RIG_TEST(a_background_process_that_floods_it_delays_nothing),
        RIG_TEST(an_agent_that_brings_no_terminal_is_broken),
        RIG_TEST(an_agent_that_brings_anything_else_is_broken_too),
        RIG_TEST(an_end_before_its_terminal_came_is_broken_too),
        RIG_TEST(a_caller_that_goes_away_ends_it),
        RIG_TEST(one_cancelled_before_it_starts_leaves_nothing_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
