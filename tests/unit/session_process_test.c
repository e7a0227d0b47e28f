/* Managed processes of an agent that dies, lies and forgets, and callers that go away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/fd.h"
#include "process_rig.h"

/* --- life ------------------------------------------------------------------------------------- */

static void a_start_is_answered_when_it_runs(void **state)
{
    rig *r = *state;
    process_call c;
    process_rig_start(r, &c, "p");
    assert_int_equal(c.done, 0);
    assert_string_equal(process_rig_newest(r)->conf.name, "p");
    process_rig_introduce(r, process_rig_newest(r));
    assert_int_equal(c.done, 0);
    process_rig_report(r, process_rig_newest(r), BOX_MANAGED_RUNNING);
    process_rig_runs(&c);
    assert_int_equal(c.pid, 9);
    process_rig_drop(r, &c);
}

static void one_that_cannot_run_leaves_nothing(void **state)
{
    rig *r = *state;
    process_call c;
    process_rig_start(r, &c, "p");
    process_rig_fail_to_run(r);
    process_rig_failed(&c, BOX_FILE_NOT_FOUND);
    process_rig_drop(r, &c);
    process_rig_get(r, &c, "p");
    process_rig_failed(&c, BOX_PROCESS_NOT_FOUND);
    process_rig_start_and_run(r, "p");
}

static void the_name_of_one_that_runs_is_taken(void **state)
{
    rig *r = *state;
    process_call c;
    process_rig_start_and_run(r, "p");
    process_rig_start(r, &c, "p");
    process_rig_failed(&c, BOX_PROCESS_CONFLICT);
    process_rig_drop(r, &c);
}

static void a_replacement_waits_for_the_end_of_the_old_one(void **state)
{
    rig *r = *state;
    process_call c;
    process_rig_start_and_run(r, "p");
    box_process_request request = process_rig_request("p");
    request.replace = true;
    process_rig_start_as(r, &c, &request);
    assert_int_equal(process_rig_sandbox(r)->process_stops, 1);
    assert_int_equal(process_rig_sandbox(r)->n_processes, 1);
    process_rig_end(r, process_rig_newest(r),
                    (box_agent_run_exit){.exit_code = -1, .signal = SIGTERM});
    assert_int_equal(process_rig_sandbox(r)->n_processes, 2);
    assert_int_equal(process_rig_sandbox(r)->forgets, 1);
    process_rig_run(r);
    process_rig_runs(&c);
    assert_true(c.flag);
    process_rig_drop(r, &c);
}

static void a_stop_does_not_overtake_the_start_it_is_about(void **state)
{
    rig *r = *state;
    process_call first, second, stopped;
    process_rig_start(r, &first, "first"); /* the agent has not answered: the next one waits */
    process_rig_start(r, &second, "second");
    process_rig_stop(r, &stopped, "second");
    assert_int_equal(process_rig_sandbox(r)->n_processes, 1);
    assert_int_equal(process_rig_sandbox(r)->process_stops, 0);
    process_rig_run(r);
    assert_string_equal(process_rig_newest(r)->conf.name, "second");
    assert_int_equal(process_rig_sandbox(r)->process_stops, 1);
    assert_int_equal(process_rig_sandbox(r)->unknown_stops, 0);
    process_rig_run(r);
    process_rig_end(r, process_rig_newest(r), (box_agent_run_exit){.exit_code = 0});
    process_rig_runs(&first);
    process_rig_runs(&second);
    assert_int_equal(stopped.done, 1);
    assert_int_equal(stopped.error.reason, BOX_NONE);
    process_rig_drop(r, &first);
    process_rig_drop(r, &second);
    process_rig_drop(r, &stopped);
}

static void so_many_wait_to_replace_one(void **state)
{
    rig *r = *state;
    process_call waiting[BOX_MAX_REPLACEMENTS], refused;
    process_rig_start_and_run(r, "p");
    box_process_request request = process_rig_request("p");
    request.replace = true;
    for (int i = 0; i < BOX_MAX_REPLACEMENTS; i++)
        process_rig_start_as(r, &waiting[i], &request);
    process_rig_start_as(r, &refused, &request);
    process_rig_failed(&refused, BOX_QUOTA);
    process_rig_drop(r, &refused);
    for (int i = 0; i < BOX_MAX_REPLACEMENTS; i++) {
        assert_int_equal(process_rig_sandbox(r)->process_stops, i + 1); /* once for each */
        process_rig_end(r, process_rig_newest(r), (box_agent_run_exit){.exit_code = 0});
        process_rig_run(r);
        process_rig_runs(&waiting[i]);
        process_rig_drop(r, &waiting[i]);
    }
    assert_int_equal(process_rig_sandbox(r)->process_stops, BOX_MAX_REPLACEMENTS);
    assert_int_equal(process_rig_sandbox(r)->unknown_stops, 0);
}

static void waits_end_when_they_come_true_or_are_over(void **state)
{
    rig *r = *state;
    process_call ready, ended, brief;
    process_rig_start_and_run(r, "p");
    process_rig_wait_for(r, &ready, "p", true, 0);
    process_rig_wait_for(r, &ended, "p", false, 0);
    process_rig_wait_for(r, &brief, "p", true, (int64_t)BOX_SECOND);
    rig_wait(r, 2 * BOX_SECOND);
    assert_int_equal(brief.done, 1);
    assert_false(brief.flag);
    assert_int_equal(ready.done + ended.done, 0);
    process_rig_report_with(
        r, process_rig_newest(r)->id,
        (box_agent_managed){
            .state = BOX_MANAGED_RUNNING, .flags = BOX_MANAGED_READY, .pid = 9, .runs = 1},
        -1);
    assert_int_equal(ready.done, 1);
    assert_true(ready.flag);
    process_rig_end(r, process_rig_newest(r), (box_agent_run_exit){.exit_code = 3});
    assert_int_equal(ended.done, 1);
    assert_int_equal(ended.verdict.exit_code, 3);
    process_rig_drop(r, &ready);
    process_rig_drop(r, &ended);
    process_rig_drop(r, &brief);
}

static void one_that_is_not_ready_in_time_is_stopped(void **state)
{
    rig *r = *state;
    process_call c;
    box_process_request request = process_rig_request("p");
    request.has_ready_timeout = true;
    request.ready_timeout_ns = (int64_t)BOX_SECOND;
    process_rig_start_as(r, &c, &request);
    process_rig_run(r);
    assert_int_equal(c.done, 0);
    rig_wait(r, 2 * BOX_SECOND);
    process_rig_failed(&c, BOX_DEADLINE);
    assert_int_equal(process_rig_sandbox(r)->process_stops, 1);
    process_rig_drop(r, &c);
}

/* --- limits ----------------------------------------------------------------------------------- */

static void own_limits_lie_within_the_sessions(void **state)
{
    rig *r = *state;
    process_call c;
    box_process_request request = process_rig_request("p");
    request.has_memory = request.has_pids = request.has_cpu = true;
    request.memory_bytes = INT64_C(1) << 50;
    request.pids = INT32_MAX;
    request.cpu_millis = INT32_MAX;
    process_rig_start_as(r, &c, &request);
    process_rig_failed(&c, BOX_VALIDATION);
    static const char *const fields[] = {"field:spec.memory_bytes", "field:spec.pids_limit",
                                         "field:spec.cpu_millis"};
    for (size_t i = 0; i < BOX_COUNT(fields); i++)
        assert_non_null(box_error_get(&c.error, fields[i]));
    process_rig_drop(r, &c);
    request.memory_bytes = 64 << 20;
    request.pids = 5;
    request.cpu_millis = 100;
    process_rig_start_as(r, &c, &request);
    assert_int_equal(process_rig_newest(r)->conf.limits.memory_bytes, 64 << 20);
    assert_int_equal(process_rig_newest(r)->conf.limits.pids, 5);
    assert_int_equal(process_rig_newest(r)->conf.limits.cpu_millis, 100);
    process_rig_run(r);
    process_rig_drop(r, &c);
}

static void only_its_own_kills_count_for_one_with_limits(void **state)
{
    static const struct {
        box_agent_run_exit exit;
        bool session_counts;
        box_verdict_status status;
    } rows[] = {
        {{.exit_code = -1, .signal = SIGKILL}, true, BOX_VERDICT_OOM_KILLED},
        {{.exit_code = -1, .signal = SIGKILL, .own = 1}, true, BOX_VERDICT_COMPLETED},
        {{.exit_code = -1, .signal = SIGKILL, .own = 1, .own_oom_kills = 1, .own_peak_bytes = 7},
         false,
         BOX_VERDICT_OOM_KILLED},
    };
    rig *r = *state;
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        process_call c;
        fake_warden_count_oom(&r->warden, 0);
        process_rig_start_and_run(r, "p");
        fake_warden_count_oom(&r->warden, rows[i].session_counts ? 1 : 0);
        process_rig_end(r, process_rig_newest(r), rows[i].exit);
        process_rig_get(r, &c, "p");
        assert_true(c.has_verdict);
        assert_int_equal(c.verdict.status, rows[i].status);
        assert_string_equal(c.limit, rows[i].status == BOX_VERDICT_OOM_KILLED ? "memory" : "");
        assert_int_equal(c.verdict.memory_source,
                         rows[i].exit.own_peak_bytes > 0 ? BOX_SOURCE_CGROUP : BOX_SOURCE_NONE);
    }
}

static void a_session_has_only_so_many(void **state)
{
    rig *r = *state;
    process_call c;
    char id[16];
    for (int i = 0; i < BOX_MAX_PROCESSES; i++) {
        (void)snprintf(id, sizeof id, "p%d", i);
        process_rig_start_and_run(r, id);
    }
    process_rig_start(r, &c, "one-more");
    process_rig_failed(&c, BOX_QUOTA);
    process_rig_drop(r, &c);
    process_rig_end(r, &process_rig_sandbox(r)->processes[0], (box_agent_run_exit){.exit_code = 0});
    process_rig_start_and_run(r, "one-more"); /* the record of the one that ended makes room */
    process_rig_get(r, &c, "p0");
    process_rig_failed(&c, BOX_PROCESS_NOT_FOUND);
}

/* Of those that ended. */
static void is_remembered(rig *r, const char *id, bool remembered)
{
    process_call c;
    process_rig_get(r, &c, id);
    if (!remembered) {
        process_rig_failed(&c, BOX_PROCESS_NOT_FOUND);
        return;
    }
    assert_int_equal(c.state, BOX_PROCESS_EXITED);
    assert_int_equal(c.verdict.exit_code, 3);
}

static void records_stay_for_an_hour(void **state)
{
    rig *r = *state;
    process_rig_start_and_run(r, "lives"); /* so that the session does */
    process_rig_start_and_run(r, "first");
    process_rig_end(r, process_rig_newest(r), (box_agent_run_exit){.exit_code = 3});
    rig_wait(r, 1800 * BOX_SECOND);
    process_rig_start_and_run(r, "second");
    process_rig_end(r, process_rig_newest(r), (box_agent_run_exit){.exit_code = 3});
    rig_wait(r, 1790 * BOX_SECOND);
    is_remembered(r, "first", true);
    rig_wait(r, 20 * BOX_SECOND);
    is_remembered(r, "first", false);
    is_remembered(r, "second", true);
    assert_int_equal(process_rig_sandbox(r)->forgets, 1); /* the agent forgets it too */
    rig_wait(r, 1800 * BOX_SECOND);
    is_remembered(r, "second", false);
}

static void the_oldest_of_too_many_records_goes(void **state)
{
    rig *r = *state;
    char id[16];
    for (int i = 0; i <= BOX_MAX_ENDED_PROCESSES; i++) {
        (void)snprintf(id, sizeof id, "p%d", i);
        process_rig_start_and_run(r, id);
        process_rig_end(r, process_rig_newest(r), (box_agent_run_exit){.exit_code = 3});
        rig_wait(r, BOX_SECOND);
    }
    is_remembered(r, "p0", false);
    is_remembered(r, "p1", true);
    is_remembered(r, id, true);
    assert_int_equal(process_rig_sandbox(r)->forgets, 1);
}

/* --- agents that die -------------------------------------------------------------------------- */

static void the_agent_dies_under_a_start(void **state)
{
    rig *r = *state;
    process_call c;
    process_rig_start(r, &c, "p");
    fake_sandbox_die(&r->warden, process_rig_sandbox(r), true);
    rig_wait(r, BOX_SECOND);
    assert_int_equal(c.done, 1);
    assert_int_not_equal(c.error.reason, BOX_NONE);
    assert_false(c.has_info);
    process_rig_drop(r, &c);
}

static void the_agent_dies_under_all_that_wait(void **state)
{
    rig *r = *state;
    process_call ready, ended, stopped, replaced;
    process_rig_start_and_run(r, "p");
    process_rig_wait_for(r, &ready, "p", true, 0);
    process_rig_wait_for(r, &ended, "p", false, 0);
    process_rig_stop(r, &stopped, "p");
    box_process_request request = process_rig_request("p");
    request.replace = true;
    process_rig_start_as(r, &replaced, &request);
    fake_sandbox_die(&r->warden, process_rig_sandbox(r), true);
    rig_wait(r, BOX_SECOND);
    assert_int_equal(ready.done, 1);
    assert_false(ready.flag);
    assert_int_equal(ended.done, 1);
    assert_int_equal(ended.verdict.status, BOX_VERDICT_SANDBOX_LOST);
    assert_int_equal(stopped.done, 1);
    assert_int_equal(replaced.done, 1);
    assert_int_not_equal(replaced.error.reason, BOX_NONE);
    process_rig_drop(r, &ready);
    process_rig_drop(r, &ended);
    process_rig_drop(r, &stopped);
    process_rig_drop(r, &replaced);
    process_call c;
    process_rig_get(r, &c, "p"); /* its record stays */
    assert_int_equal(c.state, BOX_PROCESS_EXITED);
    assert_int_equal(c.pid, 0);
}

static void an_agent_that_does_not_stop_it_is_broken(void **state)
{
    rig *r = *state;
    process_call c;
    process_rig_start_and_run(r, "p");
    process_rig_stop(r, &c, "p");
    rig_wait(r, (BOX_STOP_GRACE_SECONDS + BOX_AGENT_KILL_SECONDS + BOX_EXEC_BROKEN_SECONDS + 2) *
                    BOX_SECOND);
    assert_int_equal(c.done, 1);
    assert_int_equal(c.verdict.status, BOX_VERDICT_SANDBOX_LOST);
    assert_int_equal(process_rig_session_state(r), BOX_SESSION_ERROR);
    process_rig_drop(r, &c);
}

/* --- agents that lie -------------------------------------------------------------------------- */

static void lie_reports_nobodys(rig *r)
{
    process_rig_report_with(r, 4711, (box_agent_managed){.state = BOX_MANAGED_RUNNING, .pid = 9},
                            -1);
}

static void lie_introduces_twice(rig *r)
{
    process_rig_introduce(r, process_rig_newest(r));
}

static void lie_introduces_nobodys(rig *r)
{
    fake_process other = *process_rig_newest(r);
    other.id = 4711;
    other.journals[0] = other.journals[1] = -1;
    process_rig_introduce(r, &other);
    box_closep(&other.journals[0]);
    box_closep(&other.journals[1]);
}

static void lie_it_never_ran(rig *r)
{
    process_rig_fail_to_run(r);
}

static void lie_no_pipe(rig *r)
{
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    process_rig_report_with(r, process_rig_newest(r)->id,
                            (box_agent_managed){.state = BOX_MANAGED_RUNNING, .pid = 9}, fd);
    (void)close(fd);
}

static void what_cannot_be_breaks_the_session(void **state)
{
    static void (*const lies[])(rig * r) = {lie_reports_nobodys, lie_introduces_twice,
                                            lie_introduces_nobodys, lie_it_never_ran, lie_no_pipe};
    rig *r = *state;
    for (size_t i = 0; i < BOX_COUNT(lies); i++) {
        process_call c;
        answer a;
        process_rig_start_and_run(r, "p");
        process_rig_wait_for(r, &c, "p", false, 0);
        lies[i](r);
        rig_wait(r, BOX_SECOND);
        if (process_rig_session_state(r) != BOX_SESSION_ERROR)
            fail_msg("lie %zu", i);
        assert_int_equal(c.done, 1);
        assert_int_equal(c.verdict.status, BOX_VERDICT_SANDBOX_LOST);
        process_rig_drop(r, &c);
        rig_create(r, &a, "s", NULL); /* a new sandbox */
        assert_int_equal(a.error.reason, BOX_NONE);
        answer_free(&a);
    }
}

static void a_report_before_the_introduction_breaks_it_too(void **state)
{
    rig *r = *state;
    process_call c;
    process_rig_start(r, &c, "p");
    process_rig_report(r, process_rig_newest(r), BOX_MANAGED_RUNNING);
    rig_wait(r, BOX_SECOND);
    assert_int_equal(c.done, 1);
    assert_int_not_equal(c.error.reason, BOX_NONE);
    assert_int_equal(process_rig_session_state(r), BOX_SESSION_ERROR);
    process_rig_drop(r, &c);
}

static void a_stdin_that_would_block_does_not(void **state)
{
    rig *r = *state;
    process_call c;
    int ends[2];
    process_rig_start(r, &c, "p");
    process_rig_introduce(r, process_rig_newest(r));
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0); /* blocking, as no honest agent's */
    process_rig_report_with(r, process_rig_newest(r)->id,
                            (box_agent_managed){.state = BOX_MANAGED_RUNNING, .pid = 9}, ends[1]);
    process_rig_runs(&c);
    assert_true((fcntl(ends[1], F_GETFL) & O_NONBLOCK) != 0);
    (void)close(ends[0]);
    (void)close(ends[1]);
    process_rig_drop(r, &c);
}

/* --- callers that go away --------------------------------------------------------------------- */

static void a_caller_of_start_may_go_away_at_any_point(void **state)
{
    rig *r = *state;
    for (int point = 0; point < 4; point++) {
        process_call c;
        const box_process_request request = process_rig_request("p");
        process_rig_ask(r, &c, &request);
        if (point >= 1)
            rig_settle(r);
        if (point >= 2)
            process_rig_introduce(r, process_rig_newest(r));
        if (point == 3)
            process_rig_report(r, process_rig_newest(r), BOX_MANAGED_RUNNING);
        process_rig_drop(r, &c);
        assert_int_equal(c.done, point == 3);
        if (point < 2)
            process_rig_introduce(r, process_rig_newest(r));
        if (point < 3)
            process_rig_report(r, process_rig_newest(r), BOX_MANAGED_RUNNING);
        process_rig_get(r, &c, "p"); /* it runs all the same */
        process_rig_runs(&c);
        process_rig_end(r, process_rig_newest(r), (box_agent_run_exit){.exit_code = 0});
    }
}

static void callers_that_wait_may_go_away(void **state)
{
    rig *r = *state;
    process_call ready, ended, stopped, replaced;
    process_rig_start_and_run(r, "p");
    process_rig_wait_for(r, &ready, "p", true, 0);
    process_rig_wait_for(r, &ended, "p", false, (int64_t)BOX_SECOND);
    process_rig_stop(r, &stopped, "p");
    box_process_request request = process_rig_request("p");
    request.replace = true;
    process_rig_start_as(r, &replaced, &request);
    process_rig_drop(r, &ready);
    process_rig_drop(r, &ended);
    process_rig_drop(r, &stopped);
    process_rig_drop(r, &replaced);
    process_rig_end(r, process_rig_newest(r), (box_agent_run_exit){.exit_code = 0});
    rig_wait(r, 2 * BOX_SECOND);
    assert_int_equal(ready.done + ended.done + stopped.done + replaced.done, 0);
    process_rig_run(r); /* what was to take its place does */
    process_call c;
    process_rig_get(r, &c, "p");
    process_rig_runs(&c);
}

#define RIG(test) cmocka_unit_test_setup_teardown(test, process_rig_set_up, rig_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG(a_start_is_answered_when_it_runs),
        RIG(one_that_cannot_run_leaves_nothing),
        RIG(the_name_of_one_that_runs_is_taken),
        RIG(a_replacement_waits_for_the_end_of_the_old_one),
        RIG(a_stop_does_not_overtake_the_start_it_is_about),
        RIG(so_many_wait_to_replace_one),
        RIG(waits_end_when_they_come_true_or_are_over),
        RIG(one_that_is_not_ready_in_time_is_stopped),
        RIG(own_limits_lie_within_the_sessions),
        RIG(only_its_own_kills_count_for_one_with_limits),
        RIG(a_session_has_only_so_many),
        RIG(records_stay_for_an_hour),
        RIG(the_oldest_of_too_many_records_goes),
        RIG(the_agent_dies_under_a_start),
        RIG(the_agent_dies_under_all_that_wait),
        RIG(an_agent_that_does_not_stop_it_is_broken),
        RIG(what_cannot_be_breaks_the_session),
        RIG(a_report_before_the_introduction_breaks_it_too),
        RIG(a_stdin_that_would_block_does_not),
        RIG(a_caller_of_start_may_go_away_at_any_point),
        RIG(callers_that_wait_may_go_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
