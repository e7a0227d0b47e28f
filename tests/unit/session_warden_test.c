#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"
#include "session_rig.h"

static void count_unavailable(void *arg, const box_session_info *info, const box_error *err)
{
    assert_null(info);
    assert_int_equal(err->reason, BOX_BACKEND_UNAVAILABLE);
    ++*(unsigned *)arg;
}

/* More than its socket holds: the rest was never sent, and waits without a timer of its own. */
static void a_warden_that_does_not_read_keeps_nobody_waiting(void **state)
{
    enum { TENANTS = 40, CALLS = TENANTS * BOX_WARDEN_OPEN_PER_TENANT };
    rig *r = *state;
    unsigned answers = 0;
    r->warden.deaf = true;
    for (unsigned i = 0; i < CALLS; i++) {
        char tenant[16];
        (void)snprintf(tenant, sizeof tenant, "t%u", i % TENANTS);
        box_create_request request = {.tenant = tenant, .id = ""};
        box_session_create(r->all, &request, count_unavailable, &answers);
    }
    rig_wait(r, (BOX_WARDEN_ASK_SECONDS - 1) * BOX_SECOND);
    assert_int_equal(answers, 0);
    rig_wait(r, BOX_SECOND);
    assert_int_equal(answers, CALLS);
    r->warden.deaf = false;
}

static void one_that_reads_again_in_time_stays(void **state)
{
    rig *r = *state;
    answer a = {0};
    r->warden.deaf = true;
    box_create_request request = {.tenant = "t", .id = "s"};
    box_session_create(r->all, &request, answer_done, &a);
    rig_wait(r, (BOX_WARDEN_ASK_SECONDS - 1) * BOX_SECOND);
    r->warden.deaf = false;
    rig_wait(r, 2 * BOX_SECOND);
    assert_int_equal(a.count, 1);
    assert_int_equal(a.error.reason, BOX_NONE);
    answer_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_warden_that_does_not_read_keeps_nobody_waiting,
                                        rig_set_up, rig_tear_down),
        cmocka_unit_test_setup_teardown(one_that_reads_again_in_time_stays, rig_set_up,
                                        rig_tear_down),
    };
    return cmocka_run_group_tests_name("session_warden", tests, NULL, NULL);
}
