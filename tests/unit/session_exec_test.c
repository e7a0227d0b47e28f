#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <unistd.h>

#include "base/limits.h"
#include "session_rig.h"

static void a_one_off_command_gives_its_output_and_code_and_leaves_nothing(void **state)
{
    rig *r = *state;
    outcome o = {0};
    rig_exec(r, &o, NULL, "echo hello");
    assert_true(o.done && o.started);
    assert_int_equal(o.error.reason, BOX_NONE);
    assert_int_equal(o.verdict.status, BOX_VERDICT_COMPLETED);
    assert_true(o.verdict.has_exit_code);
    assert_int_equal(o.verdict.exit_code, 0);
    assert_string_equal(o.out, "hello");
    assert_true(o.created);
    outcome_free(&o);
    rig_settle(r);
    assert_int_equal(fake_warden_count(&r->warden), 0);
    assert_int_equal(r->warden.destroys, 1);
    box_sessions_stats stats;
    box_sessions_stats_get(r->all, NULL, &stats);
    assert_int_equal(stats.live, 0);
    assert_int_equal(stats.records, 0);
}

static void exit_code_and_standard_error_are_told(void **state)
{
    rig *r = *state;
    outcome o = {0};
    rig_exec(r, &o, "s", "exit 3");
    assert_int_equal(o.verdict.exit_code, 3);
    outcome_free(&o);
    rig_exec(r, &o, "s", "err trouble");
    assert_string_equal(o.err, "trouble");
    assert_int_equal(o.verdict.exit_code, 1);
    assert_false(o.created);
    outcome_free(&o);
    assert_int_equal(r->warden.creates, 1);
    assert_int_equal(fake_warden_only(&r->warden)->acks, 2);
}

static void an_exit_without_a_started_says_both(void **state)
{
    rig *r = *state;
    for (int i = 0; i < 3; i++) {
        outcome o = {0};
        rig_exec(r, &o, "s", "brief word 1");
        assert_true(o.done && o.started);
        assert_int_equal(o.verdict.status, BOX_VERDICT_COMPLETED);
        assert_int_equal(o.verdict.exit_code, 3);
        assert_string_equal(o.out, "word");
        outcome_free(&o);
    }
    assert_int_equal(fake_warden_only(&r->warden)->acks, 3);
}

static void what_a_brief_command_leaves_in_its_pipe_comes_whole(void **state)
{
    rig *r = *state;
    static const size_t sizes[] = {1, 4095, 4096, 4097, 8192, 60000};
    for (size_t i = 0; i < BOX_COUNT(sizes); i++) {
        char words[64];
        outcome o = {0};
        (void)snprintf(words, sizeof words, "brief x %zu", sizes[i]);
        rig_exec(r, &o, "s", words);
        assert_int_equal(o.verdict.exit_code, 3);
        assert_int_equal(o.out_len, sizes[i]);
        assert_int_equal(strspn(o.out, "x"), sizes[i]);
        outcome_free(&o);
    }
}

static void a_program_that_is_not_there_is_an_error_and_no_verdict(void **state)
{
    rig *r = *state;
    outcome o = {0};
    rig_exec(r, &o, "s", "missing");
    assert_true(o.done);
    assert_false(o.started);
    assert_int_equal(o.error.reason, BOX_FILE_NOT_FOUND);
    outcome_free(&o);
    rig_exec(r, &o, "s", "echo again");
    assert_string_equal(o.out, "again");
    outcome_free(&o);
}

static void an_invalid_command_makes_no_session(void **state)
{
    rig *r = *state;
    outcome o = {0};
    box_command bad = {.shell_command = "", .workdir = "relative", .has_timeout = true};
    rig_start(r, &o, "s", "", NULL, &bad);
    rig_settle(r);
    assert_int_equal(o.error.reason, BOX_VALIDATION);
    assert_non_null(box_error_get(&o.error, "field:command.shell_command"));
    assert_non_null(box_error_get(&o.error, "field:command.workdir"));
    assert_non_null(box_error_get(&o.error, "field:command.timeout"));
    assert_int_equal(r->warden.creates, 0);
}

static void environment_and_directory_reach_the_program(void **state)
{
    rig *r = *state;
    outcome o = {0};
    box_label of_session[] = {{(char *)(uintptr_t) "A", (char *)(uintptr_t) "session"},
                              {(char *)(uintptr_t) "B", (char *)(uintptr_t) "session"}};
    box_spec spec = {.set = BOX_SPEC_ENV, .env = of_session, .n_env = 2};
    box_exec_request request = {.spec = &spec};
    box_env env[] = {{"A", "command"}, {"HOME", "/elsewhere"}};
    const char *argv[] = {"env"};
    box_command c = {.argv = argv, .argc = 1, .env = env, .n_env = 2};
    rig_start(r, &o, "s", "", &request, &c);
    rig_settle(r);
    assert_non_null(strstr(o.out, "\nA=command\n"));
    assert_null(strstr(o.out, "A=session"));
    assert_non_null(strstr(o.out, "\nB=session\n"));
    assert_non_null(strstr(o.out, "\nHOME=/elsewhere\n"));
    assert_null(strstr(o.out, "HOME=/home"));
    assert_non_null(strstr(o.out, "\nPATH=/usr/local/sbin"));
    assert_string_equal(o.out + o.out_len - strlen("\n/workspace"), "\n/workspace");
    outcome_free(&o);
}

static void a_large_environment_travels_whole(void **state)
{
    rig *r = *state;
    outcome o = {0};
    char *value = malloc(100001);
    memset(value, 'v', 100000);
    value[100000] = '\0';
    box_env env[] = {{"BIG", value}};
    const char *argv[] = {"exit", "0"};
    box_command c = {.argv = argv, .argc = 2, .env = env, .n_env = 1};
    rig_start(r, &o, "s", "", NULL, &c);
    rig_settle(r);
    assert_int_equal(o.error.reason, BOX_NONE);
    assert_int_equal(o.verdict.exit_code, 0);
    outcome_free(&o);
    free(value);
}

static void no_stdin_is_end_of_file_at_once(void **state)
{
    rig *r = *state;
    outcome o = {0};
    rig_exec(r, &o, "s", "cat");
    assert_true(o.done);
    assert_int_equal(o.out_len, 0);
    outcome_free(&o);
}

static void stdin_data_is_given_whole(void **state)
{
    rig *r = *state;
    outcome o = {0};
    static char data[200000];
    memset(data, 'd', sizeof data);
    box_exec_request request = {.stdin_data = data, .stdin_len = sizeof data};
    rig_start(r, &o, "s", "cat", &request, NULL);
    rig_settle(r);
    assert_true(o.done);
    assert_int_equal(o.verdict.output[0].total_bytes, sizeof data);
    assert_int_equal(o.verdict.stdin_bytes, sizeof data);
    outcome_free(&o);
}

static void fed_stdin_is_bounded_and_can_be_ended(void **state)
{
    rig *r = *state;
    outcome o = {0};
    box_exec_request request = {.stdin_open = true};
    rig_start(r, &o, "s", "hang", &request, NULL);
    rig_settle(r);
    static char data[64 * 1024];
    int fed = 0;
    bool room = true;
    box_error err = {0};
    for (; room; fed++)
        assert_int_equal(box_exec_feed(o.exec, data, sizeof data, &room, &err), 0);
    fed--;                      /* the one that was enough */
    assert_in_range(fed, 4, 6); /* 256 KiB and a pipe */
    assert_int_equal(o.room, 0);
    fake_program_exit(fake_warden_only(&r->warden),
                      fake_sandbox_find(fake_warden_only(&r->warden), "hang"), 0, 0, 0, 0);
    rig_settle(r);
    assert_true(o.done);
    assert_int_equal(box_exec_feed(o.exec, data, sizeof data, &room, &err), 0); /* harmless */
    assert_true(room);
    outcome_free(&o);
}

static void stdin_of_a_program_that_reads_slowly_makes_room_again(void **state)
{
    rig *r = *state;
    outcome o = {0};
    box_exec_request request = {.stdin_open = true};
    rig_start(r, &o, "s", "cat", &request, NULL);
    static char data[64 * 1024];
    for (int i = 0; i < 20; i++) {
        bool room;
        assert_int_equal(box_exec_feed(o.exec, data, sizeof data, &room, &(box_error){0}), 0);
        if (!room)
            rig_settle(r);
    }
    assert_true(o.room > 0);
    box_exec_close_stdin(o.exec);
    rig_settle(r);
    assert_true(o.done);
    assert_int_equal(o.verdict.output[0].total_bytes, 20 * sizeof data);
    outcome_free(&o);
}

static void output_keeps_head_and_tail_and_counts_exactly(void **state)
{
    rig *r = *state;
    outcome o = {0};
    const char *argv[] = {"flood", "3000000"};
    box_command c = {.argv = argv, .argc = 2, .has_output_limit = true, .output_limit_bytes = 1000};
    rig_start(r, &o, "s", "", NULL, &c);
    rig_settle(r);
    assert_true(o.done);
    assert_int_equal(o.verdict.output[0].total_bytes, 3000000);
    assert_int_equal(o.verdict.output[0].head.len, 600);
    assert_int_equal(o.verdict.output[0].tail.len, 400);
    assert_int_equal(o.dropped[0], 3000000 - 1000);
    outcome_free(&o);
}

static void too_much_output_kills_when_asked(void **state)
{
    rig *r = *state;
    outcome o = {0};
    const char *argv[] = {"flood", "90000000"};
    box_command c = {.argv = argv, .argc = 2, .has_output_kill = true, .output_kill_bytes = 200000};
    rig_start(r, &o, "s", "", NULL, &c);
    rig_settle(r);
    assert_true(o.done);
    assert_int_equal(o.verdict.status, BOX_VERDICT_OUTPUT_LIMIT);
    assert_string_equal(o.limit, "output_kill_bytes");
    assert_false(o.verdict.has_exit_code);
    outcome_free(&o);
}

static void a_stream_stops_reading_when_its_caller_does(void **state)
{
    rig *r = *state;
    outcome o = {.may_stream = 100000};
    box_exec_request request = {.stream = true};
    rig_start(r, &o, "s", "flood 5000000", &request, NULL);
    rig_settle(r);
    assert_false(o.done);
    assert_in_range(o.streamed, 100000, 100000 + 64 * 1024);
    fake_program *p = fake_sandbox_find(fake_warden_only(&r->warden), "flood");
    assert_true(p->flood_left > 4000000); /* the program waits */
    o.may_stream = SIZE_MAX;
    box_exec_resume(o.exec);
    rig_settle(r);
    assert_true(o.done);
    assert_int_equal(o.streamed, 5000000);
    assert_int_equal(o.verdict.output[0].total_bytes, 5000000);
    outcome_free(&o);
}

static void the_verdict_of_a_stream_waits_until_the_caller_took_the_rest(void **state)
{
    rig *r = *state;
    outcome o = {.may_stream = 0};
    box_exec_request request = {.stream = true};
    rig_start(r, &o, "s", "echo tail", &request, NULL);
    rig_settle(r);
    assert_false(o.done);
    assert_int_equal(o.streamed, 0);
    o.may_stream = 100;
    box_exec_resume(o.exec);
    rig_settle(r);
    assert_true(o.done);
    assert_int_equal(o.streamed, 4);
    outcome_free(&o);
}

static void a_background_process_that_holds_the_pipes_delays_nothing(void **state)
{
    rig *r = *state;
    outcome o = {0};
    rig_exec(r, &o, "s", "bg started");
    assert_true(o.done);
    assert_string_equal(o.out, "started");
    assert_int_equal(o.verdict.status, BOX_VERDICT_COMPLETED);
    assert_int_equal(o.verdict.leftovers, 1);
    assert_false(o.verdict.leftovers_killed);
    outcome_free(&o);
    rig_settle(r);
    /* Its pipes stay open: it does not die of SIGPIPE. */
    fake_program *p = fake_sandbox_find(fake_warden_only(&r->warden), "bg");
    assert_int_equal(write(p->fds[1], "x", 1), 1);
}

static void leftovers_of_a_one_off_run_are_killed(void **state)
{
    rig *r = *state;
    outcome o = {0};
    rig_exec(r, &o, NULL, "bg started");
    assert_true(o.done);
    assert_true(o.verdict.leftovers_killed);
    outcome_free(&o);
    rig_settle(r);
    assert_int_equal(fake_warden_count(&r->warden), 0);
}

static void commands_of_a_session_run_one_at_a_time_in_order(void **state)
{
    rig *r = *state;
    outcome first = {0}, second = {0}, third = {0};
    rig_exec(r, &first, "s", "hang");
    rig_exec(r, &second, "s", "hang");
    rig_exec(r, &third, "s", "echo three");
    assert_true(first.started);
    assert_false(second.started || third.started);
    fake_sandbox *box = fake_warden_only(&r->warden);
    fake_program_exit(box, fake_sandbox_find(box, "hang"), 0, 0, 0, 0);
    rig_settle(r);
    assert_true(first.done && second.started);
    assert_false(second.done || third.started);
    fake_program_exit(box, fake_sandbox_find(box, "hang"), 0, 0, 0, 0);
    rig_settle(r);
    assert_true(second.done && third.done);
    assert_string_equal(third.out, "three");
    outcome_free(&first);
    outcome_free(&second);
    outcome_free(&third);
}

static void sessions_do_not_wait_for_each_other(void **state)
{
    rig *r = *state;
    outcome a = {0}, b = {0};
    rig_exec(r, &a, "a", "hang");
    rig_exec(r, &b, "b", "echo b");
    assert_true(b.done);
    assert_false(a.done);
    outcome_free(&a);
    outcome_free(&b);
    rig_settle(r);
}

static void max_parallel_execs_lets_several_run(void **state)
{
    rig *r = *state;
    box_spec spec = {.set = BOX_SPEC_MAX_PARALLEL_EXECS, .max_parallel_execs = 2};
    box_exec_request request = {.spec = &spec};
    outcome o[3] = {0};
    for (int i = 0; i < 3; i++)
        rig_start(r, &o[i], "s", "hang", &request, NULL);
    rig_settle(r);
    assert_true(o[0].started && o[1].started);
    assert_false(o[2].started);
    for (int i = 0; i < 3; i++)
        outcome_free(&o[i]);
    rig_settle(r);
}

static void waiting_for_a_slot_ends_with_an_error(void **state)
{
    rig *r = *state;
    outcome first = {0}, second = {0}, third = {0};
    rig_exec(r, &first, "s", "hang");
    rig_exec(r, &second, "s", "echo two");
    box_exec_request at_once = {.has_queue_timeout = true};
    rig_start(r, &third, "s", "echo three", &at_once, NULL);
    rig_settle(r);
    assert_int_equal(third.error.reason, BOX_EXEC_QUEUE);
    rig_wait(r, 29 * BOX_SECOND);
    assert_false(second.done);
    rig_wait(r, 2 * BOX_SECOND);
    assert_true(second.done);
    assert_int_equal(second.error.reason, BOX_EXEC_QUEUE);
    assert_true(second.error.retry_ms > 0);
    assert_non_null(box_error_get(&second.error, "limit"));
    outcome_free(&first);
    outcome_free(&second);
    outcome_free(&third);
    rig_settle(r);
}

static void only_waiting_for_a_slot_is_queue_time(void **state)
{
    rig *r = *state;
    outcome first = {0}, second = {0};
    box_error err = {0};
    rig_start(r, &first, "s", "hang", NULL, NULL);
    rig_start(r, &second, "s", "echo two", NULL, NULL);
    while (fake_loops_turn(r->loops)) /* both are on their way, the warden does nothing yet */
        continue;
    fake_time_advance(3 * BOX_SECOND);
    rig_settle(r);
    assert_true(first.started);
    rig_wait(r, 2 * BOX_SECOND);
    assert_int_equal(box_exec_signal(first.exec, SIGKILL, true, &err), 0);
    rig_settle(r);
    assert_true(first.done && second.done);
    assert_int_equal(first.verdict.queue_ns, 0);
    assert_int_equal(second.verdict.queue_ns, 2 * BOX_SECOND);
    outcome_free(&first);
    outcome_free(&second);
    rig_settle(r);
}

static void the_queue_has_a_depth(void **state)
{
    rig *r = *state;
    static outcome o[BOX_EXEC_QUEUE_DEPTH + 2];
    for (int i = 0; i < BOX_EXEC_QUEUE_DEPTH + 2; i++) {
        o[i] = (outcome){0};
        rig_exec(r, &o[i], "s", "hang");
    }
    const outcome *last = &o[BOX_EXEC_QUEUE_DEPTH + 1];
    assert_true(last->done);
    assert_int_equal(last->error.reason, BOX_EXEC_QUEUE);
    assert_string_equal(box_error_get(&last->error, "max"), "32");
    assert_false(o[BOX_EXEC_QUEUE_DEPTH].done);
    for (int i = 0; i < BOX_EXEC_QUEUE_DEPTH + 2; i++)
        outcome_free(&o[i]);
    rig_settle(r);
}

static void a_waiting_command_that_is_cancelled_never_runs(void **state)
{
    rig *r = *state;
    outcome first = {0}, second = {0};
    rig_exec(r, &first, "s", "hang");
    rig_exec(r, &second, "s", "echo two");
    box_exec_cancel(second.exec);
    second.exec = NULL;
    rig_settle(r);
    unsigned starts = r->warden.starts;
    box_exec_cancel(first.exec);
    first.exec = NULL;
    rig_settle(r);
    assert_int_equal(r->warden.starts, starts);
    assert_false(second.done || first.done);
    outcome third = {0};
    rig_exec(r, &third, "s", "echo three"); /* the slot is free again */
    assert_string_equal(third.out, "three");
    outcome_free(&third);
}

static void a_command_whose_caller_goes_away_is_killed(void **state)
{
    rig *r = *state;
    outcome o = {0};
    rig_exec(r, &o, "s", "hang");
    box_exec_cancel(o.exec);
    o.exec = NULL;
    rig_settle(r);
    fake_sandbox *box = fake_warden_only(&r->warden);
    assert_int_equal(box->last_signal, SIGKILL);
    assert_null(fake_sandbox_find(box, "hang"));
    assert_int_equal(box->acks, 1);
}

static void cancelling_before_the_sandbox_is_there_kills_at_the_start(void **state)
{
    rig *r = *state;
    outcome o = {0};
    r->warden.hang_start = true;
    rig_exec(r, &o, "s", "hang");
    box_exec_cancel(o.exec);
    rig_settle(r);
    fake_sandbox *box = fake_warden_only(&r->warden);
    assert_int_equal(box->signals, 0);
    box_agent_started started = {.pid = 7};
    box_error err;
    assert_int_equal(box_agent_send(box->fd, BOX_AGENT_STARTED, fake_sandbox_find(box, "hang")->id,
                                    &started, &err),
                     0);
    rig_settle(r);
    assert_int_equal(box->last_signal, SIGKILL);
    assert_null(fake_sandbox_find(box, "hang"));
}

static void the_agents_timeout_is_a_verdict(void **state)
{
    rig *r = *state;
    outcome o = {0};
    const char *argv[] = {"hang"};
    box_command c = {.argv = argv, .argc = 1, .has_timeout = true, .timeout_ns = 5000000000};
    rig_start(r, &o, "s", "", NULL, &c);
    rig_settle(r);
    fake_sandbox *box = fake_warden_only(&r->warden);
    fake_program *p = fake_sandbox_find(box, "hang");
    assert_int_equal(p->timeout_ns, 5000000000);
    fake_program_exit(box, p, 0, SIGKILL, BOX_CAUSE_TIMEOUT, 0);
    rig_settle(r);
    assert_int_equal(o.verdict.status, BOX_VERDICT_TIMED_OUT);
    assert_string_equal(o.limit, "timeout");
    assert_int_equal(o.verdict.signal, SIGKILL);
    assert_false(o.verdict.has_exit_code);
    outcome_free(&o);
    rig_exec(r, &o, "s", "echo alive"); /* the session lives on */
    assert_string_equal(o.out, "alive");
    assert_false(o.created);
    outcome_free(&o);
}

static void boxd_is_the_backup_of_an_agent_that_forgets_the_deadline(void **state)
{
    rig *r = *state;
    outcome o = {0};
    rig_exec(r, &o, "s", "hang"); /* 30 s */
    rig_wait(r, 31 * BOX_SECOND);
    assert_false(o.done);
    rig_wait(r, 2 * BOX_SECOND);
    assert_true(o.done);
    assert_int_equal(o.verdict.status, BOX_VERDICT_TIMED_OUT);
    outcome_free(&o);
}

static void an_agent_that_does_not_kill_is_broken(void **state)
{
    rig *r = *state;
    outcome o = {0};
    rig_exec(r, &o, "s", "deaf");
    rig_wait(r, 43 * BOX_SECOND);
    assert_true(o.done);
    assert_int_equal(o.verdict.status, BOX_VERDICT_SANDBOX_LOST);
    assert_false(o.verdict.has_exit_code);
    outcome_free(&o);
    rig_wait(r, 2 * BOX_SECOND);
    assert_int_equal(fake_warden_count(&r->warden), 0);
}

static void a_long_timeout_is_cut_to_the_profiles(void **state)
{
    rig *r = *state;
    outcome o = {0};
    const char *argv[] = {"exit", "0"};
    box_command c = {
        .argv = argv, .argc = 2, .has_timeout = true, .timeout_ns = 500 * (int64_t)BOX_SECOND};
    rig_start(r, &o, "s", "", NULL, &c);
    rig_settle(r);
    assert_true(o.verdict.timeout_clamped);
    assert_int_equal(o.verdict.timeout_ns, 120 * BOX_SECOND);
    outcome_free(&o);
}

static void silence_ends_a_command_with_an_idle_timeout(void **state)
{
    rig *r = *state;
    outcome o = {0};
    const char *argv[] = {"hang"};
    box_command c = {.argv = argv,
                     .argc = 1,
                     .has_idle_timeout = true,
                     .idle_timeout_ns = 3 * (int64_t)BOX_SECOND};
    rig_start(r, &o, "s", "", NULL, &c);
    rig_wait(r, 2 * BOX_SECOND);
    fake_program *p = fake_sandbox_find(fake_warden_only(&r->warden), "hang");
    assert_int_equal(write(p->fds[1], "x", 1), 1);
    rig_wait(r, 2 * BOX_SECOND); /* the byte counts */
    assert_false(o.done);
    rig_wait(r, 2 * BOX_SECOND);
    assert_true(o.done);
    assert_int_equal(o.verdict.status, BOX_VERDICT_IDLE_TIMED_OUT);
    outcome_free(&o);
}

static void a_refused_process_shows_in_the_verdict(void **state)
{
    rig *r = *state;
    outcome o = {0};
    rig_exec(r, &o, "s", "forks");
    assert_int_equal(o.verdict.status, BOX_VERDICT_COMPLETED);
    assert_true(o.verdict.pids_hit);
    assert_string_equal(o.limit, "");
    outcome_free(&o);
    rig_exec(r, &o, "s", "echo fine"); /* what was refused before is not its */
    assert_false(o.verdict.pids_hit);
    outcome_free(&o);
}

static void a_full_workspace_shows_in_the_verdict(void **state)
{
    rig *r = *state;
    outcome o = {0};
    rig_exec(r, &o, "s", "fills");
    assert_int_equal(o.verdict.status, BOX_VERDICT_COMPLETED);
    assert_true(o.verdict.workspace_full);
    outcome_free(&o);
    rig_exec(r, &o, "s", "exit 0");
    assert_false(o.verdict.workspace_full);
    outcome_free(&o);
}

static void killed_for_memory_is_told_from_killed(void **state)
{
    rig *r = *state;
    outcome o = {0};
    rig_exec(r, &o, "s", "oom");
    assert_int_equal(o.verdict.status, BOX_VERDICT_OOM_KILLED);
    assert_int_equal(o.verdict.oom_kills, 1);
    assert_string_equal(o.limit, "memory");
    outcome_free(&o);
    rig_exec(r, &o, "s", "hang");
    box_error err = {0};
    assert_int_equal(box_exec_signal(o.exec, SIGKILL, false, &err), 0);
    rig_settle(r);
    assert_int_equal(o.verdict.status, BOX_VERDICT_COMPLETED);
    assert_int_equal(o.verdict.signal, SIGKILL);
    assert_int_equal(o.verdict.oom_kills, 0);
    assert_true(box_exec_signal(o.exec, 0, false, &err) < 0);
    assert_true(box_exec_signal(o.exec, SIGTERM, true, &err) < 0);
    outcome_free(&o);
}

static void a_sandbox_that_vanishes_is_never_exit_zero_and_is_rebuilt(void **state)
{
    rig *r = *state;
    outcome o = {0};
    rig_exec(r, &o, "s", "hang");
    fake_sandbox_die(&r->warden, fake_warden_only(&r->warden), true);
    rig_settle(r);
    assert_true(o.done);
    assert_int_equal(o.verdict.status, BOX_VERDICT_SANDBOX_LOST);
    assert_false(o.verdict.has_exit_code);
    outcome_free(&o);
    box_session_info info;
    box_error err = {0};
    assert_int_equal(box_session_get(r->all, "t", "s", &info, &err), 0);
    assert_int_equal(info.state, BOX_SESSION_ERROR);
    assert_int_equal(info.stop_reason, BOX_STOP_LOST);
    box_uid lost = info.uid;
    box_session_info_done(&info);
    rig_exec(r, &o, "s", "echo anew");
    assert_string_equal(o.out, "anew");
    assert_true(o.created);
    assert_int_equal(o.rebuilds, 1);
    outcome_free(&o);
    assert_int_equal(box_session_get(r->all, "t", "s", &info, &err), 0);
    assert_int_equal(info.state, BOX_SESSION_RUNNING);
    assert_false(box_uid_equal(&info.uid, &lost));
    box_session_info_done(&info);
}

static void waiting_commands_of_a_lost_sandbox_run_in_the_new_one(void **state)
{
    rig *r = *state;
    outcome first = {0}, second = {0};
    rig_exec(r, &first, "s", "hang");
    rig_exec(r, &second, "s", "echo two");
    fake_sandbox_die(&r->warden, fake_warden_only(&r->warden), false);
    rig_settle(r);
    assert_int_equal(first.verdict.status, BOX_VERDICT_SANDBOX_LOST);
    assert_true(second.done);
    assert_int_equal(second.error.reason, BOX_NONE);
    assert_string_equal(second.out, "two");
    assert_int_equal(r->warden.creates, 2);
    outcome_free(&first);
    outcome_free(&second);
}

/* The agent dies with one START read and not answered, and others not sent. */
static void only_what_was_not_sent_is_tried_in_a_new_sandbox(void **state)
{
    rig *r = *state;
    box_spec spec = {.set = BOX_SPEC_MAX_PARALLEL_EXECS, .max_parallel_execs = 3};
    box_exec_request request = {.spec = &spec};
    outcome o[3] = {0};
    r->warden.hang_start = true;
    for (int i = 0; i < 3; i++)
        rig_start(r, &o[i], "s", i == 0 ? "first" : "echo x", &request, NULL);
    rig_settle(r);
    assert_int_equal(r->warden.starts, 1);
    fake_sandbox *s = fake_warden_only(&r->warden);
    assert_int_equal(write(fake_sandbox_find(s, "first")->fds[1], "hello", 5), 5);
    r->warden.hang_start = false;
    fake_sandbox_die(&r->warden, s, true);
    rig_settle(r);
    assert_int_equal(r->warden.starts, 3);
    assert_int_equal(r->warden.creates, 2);
    assert_int_equal(o[0].error.reason, BOX_NONE);
    assert_int_equal(o[0].verdict.status, BOX_VERDICT_SANDBOX_LOST);
    assert_false(o[0].verdict.has_exit_code);
    assert_int_equal(o[0].verdict.started_wall_ns, 0);
    assert_string_equal(o[0].out, "hello"); /* what it wrote is told */
    for (int i = 1; i < 3; i++)
        assert_string_equal(o[i].out, "x");
    for (int i = 0; i < 3; i++)
        outcome_free(&o[i]);
}

static void a_start_the_agent_never_read_is_not_repeated_either(void **state)
{
    rig *r = *state;
    outcome o = {0};
    rig_exec(r, &o, "s", "exit 0");
    outcome_free(&o);
    rig_start(r, &o, "s", "echo x", NULL, NULL);
    while (fake_loops_turn(r->loops)) /* it goes into the socket, and nobody reads */
        continue;
    fake_sandbox_die(&r->warden, fake_warden_only(&r->warden), true);
    rig_settle(r);
    assert_true(o.done);
    assert_int_equal(o.verdict.status, BOX_VERDICT_SANDBOX_LOST);
    assert_int_equal(r->warden.starts, 1);
    outcome_free(&o);
}

static void a_stopped_session_is_not_made_anew_by_what_waited_in_it(void **state)
{
    rig *r = *state;
    box_spec spec = {.set = BOX_SPEC_MAX_PARALLEL_EXECS, .max_parallel_execs = 2};
    box_exec_request request = {.spec = &spec};
    outcome o[2] = {0};
    answer a = {0};
    r->warden.hang_start = true;
    for (int i = 0; i < 2; i++)
        rig_start(r, &o[i], "s", "echo x", &request, NULL);
    rig_settle(r);
    box_session_stop(r->all, "t", "s", answer_done, &a);
    rig_wait(r, 3 * BOX_SECOND);
    assert_int_equal(a.info.state, BOX_SESSION_STOPPED);
    assert_int_equal(o[0].verdict.status, BOX_VERDICT_KILLED); /* it was sent: it may have run */
    assert_int_equal(o[1].error.reason, BOX_SESSION_NOT_RUNNING);
    assert_int_equal(r->warden.creates, 1);
    assert_int_equal(r->warden.starts, 1);
    answer_free(&a);
    for (int i = 0; i < 2; i++)
        outcome_free(&o[i]);
}

static void an_agent_that_lies_breaks_only_its_session(void **state)
{
    rig *r = *state;
    outcome good = {0}, bad = {0};
    rig_exec(r, &good, "good", "hang");
    r->warden.lying_agent = true;
    rig_exec(r, &bad, "bad", "echo x");
    assert_true(bad.done);
    assert_int_equal(bad.error.reason, BOX_SESSION_BROKEN);
    assert_non_null(box_error_get(&bad.error, "cause"));
    assert_false(good.done);
    outcome_free(&bad);
    outcome_free(&good);
    rig_settle(r);
}

static void an_exit_nobody_asked_for_breaks_the_session(void **state)
{
    rig *r = *state;
    outcome o = {0};
    rig_exec(r, &o, "s", "hang");
    box_agent_exit e = {.exit_code = 0, .pid = 7};
    box_error err;
    assert_int_equal(
        box_agent_send(fake_warden_only(&r->warden)->fd, BOX_AGENT_EXIT, 4711, &e, &err), 0);
    rig_settle(r);
    assert_true(o.done);
    assert_int_equal(o.verdict.status, BOX_VERDICT_SANDBOX_LOST);
    outcome_free(&o);
}

static void a_failed_create_is_the_commands_error(void **state)
{
    rig *r = *state;
    outcome o = {0};
    (void)box_fail(&r->warden.create_error, BOX_QUOTA, "no memory left");
    rig_exec(r, &o, "s", "echo x");
    assert_true(o.done);
    assert_int_equal(o.error.reason, BOX_QUOTA);
    outcome_free(&o);
    r->warden.create_error = (box_error){0};
    rig_exec(r, &o, "s", "echo x");
    assert_string_equal(o.out, "x");
    outcome_free(&o);
}

static void one_start_is_on_its_way_at_a_time(void **state)
{
    rig *r = *state;
    box_spec spec = {.set = BOX_SPEC_MAX_PARALLEL_EXECS, .max_parallel_execs = 3};
    box_exec_request request = {.spec = &spec};
    outcome o[3] = {0};
    r->warden.hang_start = true;
    for (int i = 0; i < 3; i++)
        rig_start(r, &o[i], "s", "hang", &request, NULL);
    rig_settle(r);
    assert_int_equal(r->warden.starts, 1);
    for (int i = 0; i < 3; i++)
        outcome_free(&o[i]);
    rig_settle(r);
}

static void an_agent_that_never_starts_a_command_is_given_up(void **state)
{
    rig *r = *state;
    outcome o = {0};
    r->warden.hang_start = true;
    rig_exec(r, &o, "s", "hang");
    rig_wait(r, (BOX_AGENT_STARTED_SECONDS - 1) * BOX_SECOND);
    assert_false(o.done);
    assert_int_equal(r->warden.creates, 1);
    rig_wait(r, 2 * BOX_SECOND);
    assert_true(o.done);
    assert_int_equal(o.verdict.status, BOX_VERDICT_SANDBOX_LOST);
    assert_false(o.started);
    assert_int_equal(r->warden.starts, 1); /* it may have run: not in another sandbox too */
    outcome_free(&o);
    r->warden.hang_start = false;
    rig_exec(r, &o, "s", "echo x");
    assert_string_equal(o.out, "x");
    outcome_free(&o);
}

static void a_cancelled_command_that_never_started_does_not_hold_its_slot(void **state)
{
    rig *r = *state;
    outcome o = {0}, next = {0};
    r->warden.hang_start = true;
    rig_exec(r, &o, "s", "hang");
    outcome_free(&o);
    r->warden.hang_start = false;
    box_exec_request request = {.has_queue_timeout = true,
                                .queue_timeout_ns = 2 * BOX_AGENT_STARTED_SECONDS * BOX_SECOND};
    rig_start(r, &next, "s", "echo x", &request, NULL);
    rig_wait(r, (BOX_AGENT_STARTED_SECONDS + 2) * BOX_SECOND);
    assert_true(next.done);
    outcome_free(&next);
}

static void an_idempotency_key_runs_a_command_once(void **state)
{
    rig *r = *state;
    outcome o = {0};
    uint8_t digest[32] = {1}, other[32] = {2};
    box_exec_request request = {.idempotency_key = "k", .digest = digest};
    rig_start(r, &o, "s", "hang", &request, NULL);
    rig_settle(r);
    outcome again = {0};
    rig_start(r, &again, "s", "hang", &request, NULL);
    assert_int_equal(again.error.reason, BOX_IDEMPOTENCY_DONE);
    request.digest = other;
    rig_start(r, &again, "s", "hang", &request, NULL);
    assert_int_equal(again.error.reason, BOX_IDEMPOTENCY_MISMATCH);
    fake_sandbox *box = fake_warden_only(&r->warden);
    fake_program_exit(box, fake_sandbox_find(box, "hang"), 0, 0, 0, 0);
    rig_settle(r);
    assert_true(o.done);
    outcome_free(&o);
    request.digest = digest;
    rig_start(r, &again, "s", "hang", &request, NULL);
    assert_int_equal(again.error.reason, BOX_IDEMPOTENCY_DONE);
    assert_int_equal(r->warden.starts, 1);
    request.idempotency_key = "k2"; /* a command that never ran may be tried again */
    rig_start(r, &again, "s", "missing", &request, NULL);
    rig_settle(r);
    assert_int_equal(again.error.reason, BOX_FILE_NOT_FOUND);
    outcome_free(&again);
    rig_start(r, &again, "s", "missing", &request, NULL);
    rig_settle(r);
    assert_int_equal(again.error.reason, BOX_FILE_NOT_FOUND);
    outcome_free(&again);
}

static void destroy_on_timeout_ends_the_session(void **state)
{
    rig *r = *state;
    box_spec spec = {.set = BOX_SPEC_DESTROY_ON_TIMEOUT, .destroy_on_timeout = true};
    box_exec_request request = {.spec = &spec};
    outcome o = {0};
    rig_start(r, &o, "s", "hang", &request, NULL);
    rig_settle(r);
    fake_sandbox *box = fake_warden_only(&r->warden);
    fake_program_exit(box, fake_sandbox_find(box, "hang"), 0, SIGKILL, BOX_CAUSE_TIMEOUT, 0);
    rig_settle(r);
    assert_true(o.verdict.session_destroyed);
    outcome_free(&o);
    rig_settle(r);
    box_session_info info;
    box_error err = {0};
    assert_int_equal(box_session_get(r->all, "t", "s", &info, &err), 0);
    assert_int_equal(info.state, BOX_SESSION_STOPPED);
    assert_int_equal(info.stop_reason, BOX_STOP_EXEC_TIMEOUT);
    box_session_info_done(&info);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_one_off_command_gives_its_output_and_code_and_leaves_nothing),
        TEST(exit_code_and_standard_error_are_told),
        TEST(an_exit_without_a_started_says_both),
        TEST(what_a_brief_command_leaves_in_its_pipe_comes_whole),
        TEST(a_program_that_is_not_there_is_an_error_and_no_verdict),
        TEST(an_invalid_command_makes_no_session),
        TEST(environment_and_directory_reach_the_program),
        TEST(a_large_environment_travels_whole),
        TEST(no_stdin_is_end_of_file_at_once),
        TEST(stdin_data_is_given_whole),
        TEST(fed_stdin_is_bounded_and_can_be_ended),
        TEST(stdin_of_a_program_that_reads_slowly_makes_room_again),
        TEST(output_keeps_head_and_tail_and_counts_exactly),
        TEST(too_much_output_kills_when_asked),
        TEST(a_stream_stops_reading_when_its_caller_does),
        TEST(the_verdict_of_a_stream_waits_until_the_caller_took_the_rest),
        TEST(a_background_process_that_holds_the_pipes_delays_nothing),
        TEST(leftovers_of_a_one_off_run_are_killed),
        TEST(commands_of_a_session_run_one_at_a_time_in_order),
        TEST(sessions_do_not_wait_for_each_other),
        TEST(max_parallel_execs_lets_several_run),
        TEST(waiting_for_a_slot_ends_with_an_error),
        TEST(the_queue_has_a_depth),
        TEST(a_refused_process_shows_in_the_verdict),
        TEST(only_waiting_for_a_slot_is_queue_time),
        TEST(a_waiting_command_that_is_cancelled_never_runs),
        TEST(a_command_whose_caller_goes_away_is_killed),
        TEST(cancelling_before_the_sandbox_is_there_kills_at_the_start),
        TEST(the_agents_timeout_is_a_verdict),
        TEST(boxd_is_the_backup_of_an_agent_that_forgets_the_deadline),
        TEST(an_agent_that_does_not_kill_is_broken),
        TEST(a_long_timeout_is_cut_to_the_profiles),
        TEST(silence_ends_a_command_with_an_idle_timeout),
        TEST(a_full_workspace_shows_in_the_verdict),
        TEST(killed_for_memory_is_told_from_killed),
        TEST(a_sandbox_that_vanishes_is_never_exit_zero_and_is_rebuilt),
        TEST(waiting_commands_of_a_lost_sandbox_run_in_the_new_one),
        TEST(only_what_was_not_sent_is_tried_in_a_new_sandbox),
        TEST(a_start_the_agent_never_read_is_not_repeated_either),
        TEST(a_stopped_session_is_not_made_anew_by_what_waited_in_it),
        TEST(an_agent_that_lies_breaks_only_its_session),
        TEST(an_exit_nobody_asked_for_breaks_the_session),
        TEST(a_failed_create_is_the_commands_error),
        TEST(one_start_is_on_its_way_at_a_time),
        TEST(an_agent_that_never_starts_a_command_is_given_up),
        TEST(a_cancelled_command_that_never_started_does_not_hold_its_slot),
        TEST(an_idempotency_key_runs_a_command_once),
        TEST(destroy_on_timeout_ends_the_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
