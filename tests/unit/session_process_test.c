/* Managed processes of an agent that dies, lies and forgets, and callers that go away: the test
 * speaks for the agent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "session/process.h"
#include "session_rig.h"

/* --- a call and what became of it ------------------------------------------------------------- */

typedef struct call {
    box_process_call *under_way;
    unsigned done;
    bool flag;
    bool has_info;
    box_process_state state;
    int32_t pid;
    bool has_verdict;
    box_verdict verdict; /* without pointers */
    char limit[32];
    box_error error;
} call;

static void on_done(void *arg, const box_process_info *info, bool flag, const box_error *err)
{
    call *c = arg;
    c->done++;
    c->flag = flag;
    if (err != NULL)
        c->error = *err;
    if (info == NULL)
        return;
    c->has_info = true;
    c->state = info->state;
    c->pid = info->pid;
    c->has_verdict = info->has_verdict;
    c->verdict = info->verdict;
    (void)snprintf(c->limit, sizeof c->limit, "%s",
                   info->verdict.limit != NULL ? info->verdict.limit : "");
}

static void drop(rig *r, call *c)
{
    box_process_call_drop(c->under_way);
    c->under_way = NULL;
    rig_settle(r);
}

static const char *const argv[] = {"server"};
static const box_command command = {.argv = argv, .argc = 1};

static box_process_request request_of(const char *id)
{
    return (box_process_request){.tenant = "t",
                                 .session_id = "s",
                                 .process_id = id,
                                 .command = &command,
                                 .restart = BOX_RESTART_NEVER};
}

static void start_as(rig *r, call *c, const box_process_request *request)
{
    *c = (call){0};
    box_process_start(r->all, request, on_done, c, &c->under_way);
    rig_settle(r);
}

static void start(rig *r, call *c, const char *id)
{
    const box_process_request request = request_of(id);
    start_as(r, c, &request);
}

static void stop(rig *r, call *c, const char *id)
{
    *c = (call){0};
    box_process_stop(r->all, "t", "s", id, false, 0, false, on_done, c, &c->under_way);
    rig_settle(r);
}

static void wait_for(rig *r, call *c, const char *id, bool ready, int64_t timeout_ns)
{
    *c = (call){0};
    box_process_wait(r->all, "t", "s", id, ready, timeout_ns > 0, timeout_ns, on_done, c,
                     &c->under_way);
    rig_settle(r);
}

static void get(rig *r, call *c, const char *id)
{
    *c = (call){0};
    box_process_get(r->all, "t", "s", id, on_done, c, &c->under_way);
    rig_settle(r);
    assert_int_equal(c->done, 1);
    drop(r, c);
}

static void assert_failed(const call *c, box_reason reason)
{
    assert_int_equal(c->done, 1);
    if (c->error.reason != reason)
        print_error("%s: %s\n", box_reason_name(c->error.reason), c->error.msg);
    assert_int_equal(c->error.reason, reason);
}

static void assert_runs(const call *c)
{
    assert_int_equal(c->done, 1);
    assert_int_equal(c->error.reason, BOX_NONE);
    assert_int_equal(c->state, BOX_PROCESS_RUNNING);
}

/* --- the agent -------------------------------------------------------------------------------- */

static fake_sandbox *sandbox(rig *r)
{
    fake_sandbox *s = fake_warden_only(&r->warden);
    assert_non_null(s);
    return s;
}

static fake_process *newest(rig *r)
{
    fake_sandbox *s = sandbox(r);
    assert_true(s->n_processes > 0);
    return &s->processes[s->n_processes - 1];
}

static box_session_state session_state(rig *r)
{
    box_session_info info = {0};
    box_error err = {0};
    if (box_session_get(r->all, "t", "s", &info, &err) < 0)
        return 0;
    box_session_state state = info.state;
    box_session_info_done(&info);
    return state;
}

/* A stream's journal with nothing in it. */
static int journal_of(uint64_t capacity)
{
    const box_journal_header empty = {.claim_not = ~UINT64_C(0), .end_not = ~UINT64_C(0)};
    int fd = memfd_create("journal", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)(BOX_JOURNAL_HEADER_BYTES + capacity)), 0);
    assert_int_equal(pwrite(fd, &empty, sizeof empty, 0), sizeof empty);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    return fd;
}

static void introduce(rig *r, const fake_process *p)
{
    box_error err;
    int fds[3] = {p->text_fd, journal_of(p->conf.journal_bytes), journal_of(p->conf.journal_bytes)};
    assert_int_equal(
        box_agent_send_with(sandbox(r)->fd, BOX_AGENT_INTRODUCED, p->id, &p->conf, fds, 3, &err),
        0);
    (void)close(fds[1]);
    (void)close(fds[2]);
    rig_settle(r);
}

static void report_with(rig *r, uint64_t id, box_agent_managed m, int stdin_fd)
{
    box_error err;
    m.flags |= stdin_fd >= 0 ? (uint32_t)BOX_MANAGED_STDIN_COMES : 0;
    assert_int_equal(box_agent_send_with(sandbox(r)->fd, BOX_AGENT_MANAGED, id, &m, &stdin_fd,
                                         stdin_fd >= 0 ? 1 : 0, &err),
                     0);
    rig_settle(r);
}

static void report(rig *r, const fake_process *p, box_managed_state state)
{
    report_with(r, p->id, (box_agent_managed){.state = state, .pid = state < 3 ? 9 : 0, .runs = 1},
                -1);
}

static void run(rig *r)
{
    introduce(r, newest(r));
    report(r, newest(r), BOX_MANAGED_RUNNING);
}

static void fail_to_run(rig *r)
{
    box_agent_managed m = {.state = BOX_MANAGED_FAILED};
    (void)box_fail(&m.error, BOX_FILE_NOT_FOUND, "no command server");
    report_with(r, newest(r)->id, m, -1);
}

static void end(rig *r, const fake_process *p, box_agent_run_exit exit)
{
    report_with(r, p->id,
                (box_agent_managed){.state = BOX_MANAGED_EXITED,
                                    .flags = BOX_MANAGED_HAS_EXIT,
                                    .runs = 1,
                                    .exited_ns = 5,
                                    .exit = exit},
                -1);
}

static int set_up(void **state)
{
    rig *r = calloc(1, sizeof *r);
    answer a;
    rig_init(r, NULL);
    rig_create(r, &a, "s", NULL);
    assert_int_equal(a.error.reason, BOX_NONE);
    answer_free(&a);
    *state = r;
    return 0;
}

static void start_and_run(rig *r, const char *id)
{
    call c;
    start(r, &c, id);
    run(r);
    assert_runs(&c);
    drop(r, &c);
}

/* --- life ------------------------------------------------------------------------------------- */

static void a_start_is_answered_when_it_runs(void **state)
{
    rig *r = *state;
    call c;
    start(r, &c, "p");
    assert_int_equal(c.done, 0);
    assert_string_equal(newest(r)->conf.name, "p");
    introduce(r, newest(r));
    assert_int_equal(c.done, 0);
    report(r, newest(r), BOX_MANAGED_RUNNING);
    assert_runs(&c);
    assert_int_equal(c.pid, 9);
    drop(r, &c);
}

static void one_that_cannot_run_leaves_nothing(void **state)
{
    rig *r = *state;
    call c;
    start(r, &c, "p");
    fail_to_run(r);
    assert_failed(&c, BOX_FILE_NOT_FOUND);
    drop(r, &c);
    get(r, &c, "p");
    assert_failed(&c, BOX_PROCESS_NOT_FOUND);
    start_and_run(r, "p");
}

static void the_name_of_one_that_runs_is_taken(void **state)
{
    rig *r = *state;
    call c;
    start_and_run(r, "p");
    start(r, &c, "p");
    assert_failed(&c, BOX_PROCESS_CONFLICT);
    drop(r, &c);
}

static void a_replacement_waits_for_the_end_of_the_old_one(void **state)
{
    rig *r = *state;
    call c;
    start_and_run(r, "p");
    box_process_request request = request_of("p");
    request.replace = true;
    start_as(r, &c, &request);
    assert_int_equal(sandbox(r)->process_stops, 1);
    assert_int_equal(sandbox(r)->n_processes, 1);
    end(r, newest(r), (box_agent_run_exit){.exit_code = -1, .signal = SIGTERM});
    assert_int_equal(sandbox(r)->n_processes, 2);
    assert_int_equal(sandbox(r)->forgets, 1);
    run(r);
    assert_runs(&c);
    assert_true(c.flag);
    drop(r, &c);
}

static void waits_end_when_they_come_true_or_are_over(void **state)
{
    rig *r = *state;
    call ready, ended, brief;
    start_and_run(r, "p");
    wait_for(r, &ready, "p", true, 0);
    wait_for(r, &ended, "p", false, 0);
    wait_for(r, &brief, "p", true, (int64_t)BOX_SECOND);
    rig_wait(r, 2 * BOX_SECOND);
    assert_int_equal(brief.done, 1);
    assert_false(brief.flag);
    assert_int_equal(ready.done + ended.done, 0);
    report_with(r, newest(r)->id,
                (box_agent_managed){
                    .state = BOX_MANAGED_RUNNING, .flags = BOX_MANAGED_READY, .pid = 9, .runs = 1},
                -1);
    assert_int_equal(ready.done, 1);
    assert_true(ready.flag);
    end(r, newest(r), (box_agent_run_exit){.exit_code = 3});
    assert_int_equal(ended.done, 1);
    assert_int_equal(ended.verdict.exit_code, 3);
    drop(r, &ready);
    drop(r, &ended);
    drop(r, &brief);
}

static void one_that_is_not_ready_in_time_is_stopped(void **state)
{
    rig *r = *state;
    call c;
    box_process_request request = request_of("p");
    request.has_ready_timeout = true;
    request.ready_timeout_ns = (int64_t)BOX_SECOND;
    start_as(r, &c, &request);
    run(r);
    assert_int_equal(c.done, 0);
    rig_wait(r, 2 * BOX_SECOND);
    assert_failed(&c, BOX_DEADLINE);
    assert_int_equal(sandbox(r)->process_stops, 1);
    drop(r, &c);
}

/* --- limits ----------------------------------------------------------------------------------- */

static void own_limits_lie_within_the_sessions(void **state)
{
    rig *r = *state;
    call c;
    box_process_request request = request_of("p");
    request.has_memory = request.has_pids = request.has_cpu = true;
    request.memory_bytes = INT64_C(1) << 50;
    request.pids = INT32_MAX;
    request.cpu_millis = INT32_MAX;
    start_as(r, &c, &request);
    assert_failed(&c, BOX_VALIDATION);
    static const char *const fields[] = {"field:spec.memory_bytes", "field:spec.pids_limit",
                                         "field:spec.cpu_millis"};
    for (size_t i = 0; i < BOX_COUNT(fields); i++)
        assert_non_null(box_error_get(&c.error, fields[i]));
    drop(r, &c);
    request.memory_bytes = 64 << 20;
    request.pids = 5;
    request.cpu_millis = 100;
    start_as(r, &c, &request);
    assert_int_equal(newest(r)->conf.limits.memory_bytes, 64 << 20);
    assert_int_equal(newest(r)->conf.limits.pids, 5);
    assert_int_equal(newest(r)->conf.limits.cpu_millis, 100);
    run(r);
    drop(r, &c);
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
        call c;
        fake_warden_count_oom(&r->warden, 0);
        start_and_run(r, "p");
        fake_warden_count_oom(&r->warden, rows[i].session_counts ? 1 : 0);
        end(r, newest(r), rows[i].exit);
        get(r, &c, "p");
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
    call c;
    char id[16];
    for (int i = 0; i < BOX_MAX_PROCESSES; i++) {
        (void)snprintf(id, sizeof id, "p%d", i);
        start_and_run(r, id);
    }
    start(r, &c, "one-more");
    assert_failed(&c, BOX_QUOTA);
    drop(r, &c);
    end(r, &sandbox(r)->processes[0], (box_agent_run_exit){.exit_code = 0});
    start_and_run(r, "one-more"); /* the record of the one that ended makes room */
    get(r, &c, "p0");
    assert_failed(&c, BOX_PROCESS_NOT_FOUND);
}

/* --- agents that die -------------------------------------------------------------------------- */

static void the_agent_dies_under_a_start(void **state)
{
    rig *r = *state;
    call c;
    start(r, &c, "p");
    fake_sandbox_die(&r->warden, sandbox(r), true);
    rig_wait(r, BOX_SECOND);
    assert_int_equal(c.done, 1);
    assert_int_not_equal(c.error.reason, BOX_NONE);
    assert_false(c.has_info);
    drop(r, &c);
}

static void the_agent_dies_under_all_that_wait(void **state)
{
    rig *r = *state;
    call ready, ended, stopped, replaced;
    start_and_run(r, "p");
    wait_for(r, &ready, "p", true, 0);
    wait_for(r, &ended, "p", false, 0);
    stop(r, &stopped, "p");
    box_process_request request = request_of("p");
    request.replace = true;
    start_as(r, &replaced, &request);
    fake_sandbox_die(&r->warden, sandbox(r), true);
    rig_wait(r, BOX_SECOND);
    assert_int_equal(ready.done, 1);
    assert_false(ready.flag);
    assert_int_equal(ended.done, 1);
    assert_int_equal(ended.verdict.status, BOX_VERDICT_SANDBOX_LOST);
    assert_int_equal(stopped.done, 1);
    assert_int_equal(replaced.done, 1);
    assert_int_not_equal(replaced.error.reason, BOX_NONE);
    drop(r, &ready);
    drop(r, &ended);
    drop(r, &stopped);
    drop(r, &replaced);
    call c;
    get(r, &c, "p"); /* its record stays */
    assert_int_equal(c.state, BOX_PROCESS_EXITED);
    assert_int_equal(c.pid, 0);
}

static void an_agent_that_does_not_stop_it_is_broken(void **state)
{
    rig *r = *state;
    call c;
    start_and_run(r, "p");
    stop(r, &c, "p");
    rig_wait(r, (BOX_STOP_GRACE_SECONDS + BOX_AGENT_KILL_SECONDS + BOX_EXEC_BROKEN_SECONDS + 2) *
                    BOX_SECOND);
    assert_int_equal(c.done, 1);
    assert_int_equal(c.verdict.status, BOX_VERDICT_SANDBOX_LOST);
    assert_int_equal(session_state(r), BOX_SESSION_ERROR);
    drop(r, &c);
}

/* --- agents that lie -------------------------------------------------------------------------- */

static void lie_reports_nobodys(rig *r)
{
    report_with(r, 4711, (box_agent_managed){.state = BOX_MANAGED_RUNNING, .pid = 9}, -1);
}

static void lie_introduces_twice(rig *r)
{
    introduce(r, newest(r));
}

static void lie_introduces_nobodys(rig *r)
{
    fake_process other = *newest(r);
    other.id = 4711;
    introduce(r, &other);
}

static void lie_it_never_ran(rig *r)
{
    fail_to_run(r);
}

static void lie_no_pipe(rig *r)
{
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    report_with(r, newest(r)->id, (box_agent_managed){.state = BOX_MANAGED_RUNNING, .pid = 9}, fd);
    (void)close(fd);
}

static void what_cannot_be_breaks_the_session(void **state)
{
    static void (*const lies[])(rig * r) = {lie_reports_nobodys, lie_introduces_twice,
                                            lie_introduces_nobodys, lie_it_never_ran, lie_no_pipe};
    rig *r = *state;
    for (size_t i = 0; i < BOX_COUNT(lies); i++) {
        call c;
        answer a;
        start_and_run(r, "p");
        wait_for(r, &c, "p", false, 0);
        lies[i](r);
        rig_wait(r, BOX_SECOND);
        if (session_state(r) != BOX_SESSION_ERROR)
            fail_msg("lie %zu", i);
        assert_int_equal(c.done, 1);
        assert_int_equal(c.verdict.status, BOX_VERDICT_SANDBOX_LOST);
        drop(r, &c);
        rig_create(r, &a, "s", NULL); /* a new sandbox */
        assert_int_equal(a.error.reason, BOX_NONE);
        answer_free(&a);
    }
}

static void a_report_before_the_introduction_breaks_it_too(void **state)
{
    rig *r = *state;
    call c;
    start(r, &c, "p");
    report(r, newest(r), BOX_MANAGED_RUNNING);
    rig_wait(r, BOX_SECOND);
    assert_int_equal(c.done, 1);
    assert_int_not_equal(c.error.reason, BOX_NONE);
    assert_int_equal(session_state(r), BOX_SESSION_ERROR);
    drop(r, &c);
}

static void a_stdin_that_would_block_does_not(void **state)
{
    rig *r = *state;
    call c;
    int ends[2];
    start(r, &c, "p");
    introduce(r, newest(r));
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0); /* blocking, as no honest agent's */
    report_with(r, newest(r)->id, (box_agent_managed){.state = BOX_MANAGED_RUNNING, .pid = 9},
                ends[1]);
    assert_runs(&c);
    assert_true((fcntl(ends[1], F_GETFL) & O_NONBLOCK) != 0);
    (void)close(ends[0]);
    (void)close(ends[1]);
    drop(r, &c);
}

/* --- callers that go away --------------------------------------------------------------------- */

static void a_caller_of_start_may_go_away_at_any_point(void **state)
{
    rig *r = *state;
    for (int point = 0; point < 4; point++) {
        call c = {0};
        const box_process_request request = request_of("p");
        box_process_start(r->all, &request, on_done, &c, &c.under_way);
        if (point >= 1)
            rig_settle(r);
        if (point >= 2)
            introduce(r, newest(r));
        if (point == 3)
            report(r, newest(r), BOX_MANAGED_RUNNING);
        drop(r, &c);
        assert_int_equal(c.done, point == 3);
        if (point < 2)
            introduce(r, newest(r));
        if (point < 3)
            report(r, newest(r), BOX_MANAGED_RUNNING);
        get(r, &c, "p"); /* it runs all the same */
        assert_runs(&c);
        end(r, newest(r), (box_agent_run_exit){.exit_code = 0});
    }
}

static void callers_that_wait_may_go_away(void **state)
{
    rig *r = *state;
    call ready, ended, stopped, replaced;
    start_and_run(r, "p");
    wait_for(r, &ready, "p", true, 0);
    wait_for(r, &ended, "p", false, (int64_t)BOX_SECOND);
    stop(r, &stopped, "p");
    box_process_request request = request_of("p");
    request.replace = true;
    start_as(r, &replaced, &request);
    drop(r, &ready);
    drop(r, &ended);
    drop(r, &stopped);
    drop(r, &replaced);
    end(r, newest(r), (box_agent_run_exit){.exit_code = 0});
    rig_wait(r, 2 * BOX_SECOND);
    assert_int_equal(ready.done + ended.done + stopped.done + replaced.done, 0);
    run(r); /* what was to take its place does */
    call c;
    get(r, &c, "p");
    assert_runs(&c);
}

#define RIG(test) cmocka_unit_test_setup_teardown(test, set_up, rig_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG(a_start_is_answered_when_it_runs),
        RIG(one_that_cannot_run_leaves_nothing),
        RIG(the_name_of_one_that_runs_is_taken),
        RIG(a_replacement_waits_for_the_end_of_the_old_one),
        RIG(waits_end_when_they_come_true_or_are_over),
        RIG(one_that_is_not_ready_in_time_is_stopped),
        RIG(own_limits_lie_within_the_sessions),
        RIG(only_its_own_kills_count_for_one_with_limits),
        RIG(a_session_has_only_so_many),
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
