#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "session_rig.h"

/* What a session of tenant t is now; zero when there is none. */
static box_session_info state_of(rig *r, const char *tenant, const char *id)
{
    box_session_info info = {0};
    box_error err = {0};
    if (box_session_get(r->all, tenant, id, &info, &err) == 0) {
        box_session_info copy = {.state = info.state, .stop_reason = info.stop_reason};
        box_session_info_done(&info);
        return copy;
    }
    return info;
}

/* The reason of the answer. */
static box_reason create(rig *r, const char *tenant, const char *id, const box_spec *spec)
{
    answer a = {0};
    box_create_request request = {.tenant = tenant, .id = id, .spec = spec};
    box_session_create(r->all, &request, answer_done, &a);
    rig_wait(r, BOX_SECOND / 100); /* so that no two are used at one time */
    assert_int_equal(a.count, 1);
    box_reason reason = a.error.reason;
    answer_free(&a);
    return reason;
}

static void create_three(rig *r, const char *tenant)
{
    static const char *const ids[] = {"a", "b", "c"};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(create(r, tenant, ids[i], NULL), BOX_NONE);
}

static void assert_evicted(rig *r, const char *tenant, const char *id)
{
    box_session_info info = state_of(r, tenant, id);
    assert_int_equal(info.state, BOX_SESSION_STOPPED);
    assert_int_equal(info.stop_reason, BOX_STOP_EVICTED);
}

static void assert_running(rig *r, const char *tenant, const char *id)
{
    assert_int_equal(state_of(r, tenant, id).state, BOX_SESSION_RUNNING);
}

static void begin(rig *r, uint32_t max, uint32_t max_per_tenant)
{
    box_sessions_config config = {
        .evict_idle = true, .max_sessions = max, .max_sessions_per_tenant = max_per_tenant};
    rig_init_stored(r, &config);
}

static void the_least_recently_used_idle_session_makes_room(void **state)
{
    (void)state;
    rig r;
    begin(&r, 100, 3);
    create_three(&r, "t");
    outcome o = {0};
    rig_exec(&r, &o, "a", "echo x"); /* b is the oldest now */
    outcome_free(&o);
    rig_wait(&r, BOX_SECOND);
    assert_int_equal(create(&r, "t", "d", NULL), BOX_NONE);
    assert_evicted(&r, "t", "b");
    assert_int_equal(create(&r, "t", "c", NULL), BOX_NONE); /* used again: a is the oldest */
    assert_int_equal(create(&r, "t", "e", NULL), BOX_NONE);
    assert_evicted(&r, "t", "a");
    assert_running(&r, "t", "c");
    assert_running(&r, "t", "d");
    assert_running(&r, "t", "e");
    assert_int_equal(fake_warden_count(&r.warden), 3);
    rig_done(&r);
}

static void what_runs_is_extended_or_persistent_is_never_evicted(void **state)
{
    (void)state;
    rig r;
    begin(&r, 100, 3);
    outcome o = {0};
    box_spec persistent = {.set = BOX_SPEC_PERSISTENT, .persistent = true};
    rig_exec(&r, &o, "busy", "hang");
    assert_int_equal(create(&r, "t", "extended", NULL), BOX_NONE);
    assert_int_equal(create(&r, "t", "persistent", &persistent), BOX_NONE);
    answer a = {0};
    box_session_extend(r.all, "t", "extended", 60 * BOX_SECOND, answer_done, &a);
    rig_settle(&r);
    assert_int_equal(a.error.reason, BOX_NONE);
    answer_free(&a);
    rig_create(&r, &a, "more", NULL);
    assert_int_equal(a.error.reason, BOX_SESSION_LIMIT);
    assert_true(a.error.retry_ms > 0);
    answer_free(&a);
    rig_wait(&r, 61 * BOX_SECOND); /* the promise is over; its idle_ttl is not */
    assert_int_equal(create(&r, "t", "more", NULL), BOX_NONE);
    assert_evicted(&r, "t", "extended");
    assert_running(&r, "t", "busy");
    assert_running(&r, "t", "persistent");
    outcome_free(&o);
    rig_done(&r);
}

static void the_new_one_is_made_when_the_old_one_is_gone(void **state)
{
    (void)state;
    rig r;
    begin(&r, 100, 1);
    assert_int_equal(create(&r, "t", "a", NULL), BOX_NONE);
    r.warden.hang_destroy = true;
    answer a = {0};
    rig_create(&r, &a, "b", NULL);
    assert_int_equal(a.count, 0);
    assert_int_equal(r.warden.creates, 1);
    answer c = {0};
    rig_create(&r, &c, "c", NULL); /* a has its successor already */
    assert_int_equal(c.error.reason, BOX_SESSION_LIMIT);
    answer_free(&c);
    r.warden.hang_destroy = false;
    rig_wait(&r, 40 * BOX_SECOND); /* the warden is asked once more */
    assert_int_equal(a.count, 1);
    assert_int_equal(a.error.reason, BOX_NONE);
    assert_int_equal(r.warden.creates, 2);
    assert_running(&r, "t", "b");
    answer_free(&a);
    rig_done(&r);
}

static void one_that_waits_for_room_can_be_deleted(void **state)
{
    (void)state;
    rig r;
    begin(&r, 100, 1);
    assert_int_equal(create(&r, "t", "a", NULL), BOX_NONE);
    r.warden.hang_destroy = true;
    answer a = {0}, d = {0};
    rig_create(&r, &a, "b", NULL);
    box_session_delete(r.all, "t", "b", false, answer_done, &d);
    rig_settle(&r);
    assert_int_equal(a.error.reason, BOX_SESSION_NOT_RUNNING);
    assert_int_equal(d.count, 1);
    answer_free(&a);
    answer_free(&d);
    r.warden.hang_destroy = false;
    rig_wait(&r, 40 * BOX_SECOND);
    assert_int_equal(r.warden.creates, 1);
    assert_int_equal(create(&r, "t", "c", NULL), BOX_NONE);
    rig_done(&r);
}

static void a_full_server_takes_from_those_who_have_more(void **state)
{
    (void)state;
    rig r;
    begin(&r, 4, 100);
    assert_int_equal(create(&r, "small", "s", NULL), BOX_NONE); /* the oldest of all */
    create_three(&r, "large");
    assert_int_equal(create(&r, "new", "1", NULL), BOX_NONE);
    assert_evicted(&r, "large", "a");
    assert_int_equal(create(&r, "large", "d", NULL), BOX_NONE); /* its own, not small's */
    assert_evicted(&r, "large", "b");
    assert_running(&r, "small", "s");
    rig_done(&r);
}

static void one_large_tenant_among_many_is_found(void **state)
{
    (void)state;
    enum { SMALL = 50 };
    rig r;
    begin(&r, SMALL + 3, 100);
    for (int i = 0; i < SMALL; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "small%d", i);
        assert_int_equal(create(&r, name, "s", NULL), BOX_NONE);
    }
    create_three(&r, "large");
    assert_int_equal(create(&r, "new", "1", NULL), BOX_NONE);
    assert_evicted(&r, "large", "a");
    assert_int_equal(create(&r, "newer", "1", NULL), BOX_NONE);
    assert_evicted(&r, "large", "b");
    assert_int_equal(create(&r, "newest", "1", NULL), BOX_SESSION_LIMIT); /* all have one */
    assert_running(&r, "large", "c");
    assert_running(&r, "small0", "s");
    rig_done(&r);
}

static void nobody_pushes_out_one_who_has_no_more_than_he(void **state)
{
    (void)state;
    rig r;
    begin(&r, 2, 100);
    outcome o = {0};
    assert_int_equal(create(&r, "u", "u", NULL), BOX_NONE);
    rig_exec(&r, &o, "busy", "hang"); /* of t */
    assert_int_equal(create(&r, "t", "t", NULL), BOX_SESSION_LIMIT);
    assert_running(&r, "u", "u");
    outcome_free(&o);
    rig_done(&r);
}

static void no_idle_end_is_for_those_who_may(void **state)
{
    (void)state;
    rig r;
    box_spec endless = {.set = BOX_SPEC_IDLE_TTL};
    box_spec both = {.set = BOX_SPEC_IDLE_TTL | BOX_SPEC_PERSISTENT, .persistent = true};
    rig_init_stored(&r, NULL);
    answer a = {0};
    rig_create(&r, &a, "s", &endless);
    assert_int_equal(a.error.reason, BOX_PERMISSION);
    assert_string_equal(box_error_get(&a.error, "rule"), "limits.allow_no_idle_ttl");
    answer_free(&a);
    assert_int_equal(create(&r, "t", "s", NULL), BOX_NONE);
    box_session_update(r.all, "t", "s", &endless, BOX_SPEC_IDLE_TTL, answer_done, &a);
    rig_settle(&r);
    assert_int_equal(a.error.reason, BOX_PERMISSION);
    answer_free(&a);
    /* What the mask does not name is not asked for. */
    box_session_update(r.all, "t", "s", &endless, BOX_SPEC_MAX_PARALLEL_EXECS, answer_done, &a);
    rig_settle(&r);
    assert_int_equal(a.error.reason, BOX_NONE);
    assert_int_equal(a.info.spec.idle_ttl_ns, BOX_SESSION_IDLE_SECONDS * BOX_SECOND);
    answer_free(&a);
    assert_int_equal(create(&r, "t", "p", &both), BOX_NONE);
    rig_done(&r);
}

static void a_session_without_idle_end_ends_with_its_lifetime(void **state)
{
    (void)state;
    rig r;
    box_sessions_config config = {.allow_no_idle_ttl = true, .lifetime_ns = 3600 * BOX_SECOND};
    box_spec endless = {.set = BOX_SPEC_IDLE_TTL};
    box_spec persistent = {.set = BOX_SPEC_PERSISTENT, .persistent = true};
    rig_init_stored(&r, &config);
    assert_int_equal(create(&r, "t", "endless", &endless), BOX_NONE);
    assert_int_equal(create(&r, "t", "persistent", &persistent), BOX_NONE);
    assert_int_equal(create(&r, "t", "other", NULL), BOX_NONE);
    rig_wait(&r, 3500 * BOX_SECOND);
    assert_running(&r, "t", "endless");
    assert_running(&r, "t", "persistent");
    assert_int_equal(state_of(&r, "t", "other").state, BOX_SESSION_STOPPED);
    rig_wait(&r, 105 * BOX_SECOND);
    assert_int_equal(state_of(&r, "t", "endless").stop_reason, BOX_STOP_LIFETIME);
    assert_int_equal(state_of(&r, "t", "persistent").stop_reason, BOX_STOP_LIFETIME);
    rig_done(&r);
}

/* Records of sessions that ended have a limit of their own. */
static void the_oldest_of_too_many_records_goes(void **state)
{
    (void)state;
    rig r;
    char id[16];
    rig_init(&r, NULL);
    for (int i = 0; i <= BOX_MAX_SESSION_RECORDS; i++) {
        (void)snprintf(id, sizeof id, "s%d", i);
        assert_int_equal(create(&r, "t", id, NULL), BOX_NONE);
        answer a = {0};
        box_session_stop(r.all, "t", id, answer_done, &a);
        rig_settle(&r);
        assert_int_equal(a.info.state, BOX_SESSION_STOPPED);
        answer_free(&a);
    }
    assert_int_equal(create(&r, "u", "s0", NULL), BOX_NONE); /* another tenant's count is its own */
    assert_int_equal(state_of(&r, "t", "s0").state, 0);
    assert_int_equal(state_of(&r, "t", "s1").state, BOX_SESSION_STOPPED);
    assert_int_equal(state_of(&r, "t", id).state, BOX_SESSION_STOPPED);
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_recently_used_idle_session_makes_room),
        cmocka_unit_test(what_runs_is_extended_or_persistent_is_never_evicted),
        cmocka_unit_test(the_new_one_is_made_when_the_old_one_is_gone),
        cmocka_unit_test(one_that_waits_for_room_can_be_deleted),
        cmocka_unit_test(a_full_server_takes_from_those_who_have_more),
        cmocka_unit_test(one_large_tenant_among_many_is_found),
        cmocka_unit_test(nobody_pushes_out_one_who_has_no_more_than_he),
        cmocka_unit_test(no_idle_end_is_for_those_who_may),
        cmocka_unit_test(a_session_without_idle_end_ends_with_its_lifetime),
        cmocka_unit_test(the_oldest_of_too_many_records_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
