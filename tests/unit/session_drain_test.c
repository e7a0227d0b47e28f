#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"
#include "session_rig.h"

static void drained(void *arg)
{
    *(bool *)arg = true;
}

/* The loops have stopped then, but for what was posted before. */
static void drain_to_the_limit(rig *r)
{
    bool over = false;
    box_sessions_drain(r->all, drained, &over);
    for (unsigned i = 0; i <= BOX_SESSIONS_DRAIN_SECONDS && !over; i++)
        rig_wait(r, BOX_SECOND);
    assert_true(over);
}

static void who_waits_for_a_hung_warden_is_told_in_the_end(void **state)
{
    (void)state;
    rig r;
    rig_init(&r, NULL);
    answer made, going, gone = {0}, waiting = {0};
    box_create_request request = {.tenant = "t", .id = "never"};
    rig_create(&r, &made, "made", NULL);
    rig_create(&r, &going, "going", NULL);
    r.warden.hang_create = r.warden.hang_destroy = true;
    box_session_create(r.all, &request, answer_done, &waiting);
    box_session_delete(r.all, "t", "going", false, answer_done, &gone);
    drain_to_the_limit(&r);
    assert_int_equal(waiting.count, 1);
    assert_int_equal(waiting.error.reason, BOX_SESSION_NOT_RUNNING);
    assert_int_equal(gone.count, 1);
    answer_free(&made);
    answer_free(&going);
    answer_free(&gone);
    rig_done(&r);
}

static void a_command_that_does_not_die_has_a_verdict_in_the_end(void **state)
{
    (void)state;
    static const box_spec persistent = {.set = BOX_SPEC_PERSISTENT, .persistent = true};
    rig r;
    outcome o = {0}, queued = {0};
    rig_init_stored(&r, NULL);
    box_exec_request request = {.spec = &persistent};
    rig_start(&r, &o, "s", "deaf", &request, NULL);
    rig_settle(&r);
    rig_start(&r, &queued, "s", "echo x", &request, NULL);
    drain_to_the_limit(&r);
    assert_true(o.done);
    assert_int_equal(o.verdict.status, BOX_VERDICT_KILLED);
    assert_true(queued.done);
    assert_int_equal(queued.error.reason, BOX_SHUTTING_DOWN);
    outcome_free(&o);
    outcome_free(&queued);
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_for_a_hung_warden_is_told_in_the_end),
        cmocka_unit_test(a_command_that_does_not_die_has_a_verdict_in_the_end),
    };
    return cmocka_run_group_tests_name("session_drain", tests, NULL, NULL);
}
