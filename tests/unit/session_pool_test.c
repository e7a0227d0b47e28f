#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"
#include "session_rig.h"

enum { WANTED = 3 };

static char *text(const char *s)
{
    return (char *)(uintptr_t)s; /* only read */
}

/* A boxd whose pool is full. */
static void begin_with(rig *r, box_sessions_config config)
{
    config.warm_pool = WANTED;
    rig_init(r, &config);
    rig_wait(r, 3 * BOX_SECOND); /* the first look may come before the warden's HELLO */
}

static void begin(rig *r)
{
    begin_with(r, (box_sessions_config){0});
    assert_int_equal(fake_warden_count(&r->warden), WANTED);
}

static unsigned ready(rig *r)
{
    box_sessions_stats stats;
    box_sessions_stats_get(r->all, NULL, &stats);
    assert_int_equal(stats.warm_wanted, WANTED);
    return stats.warm_ready;
}

static void pause_over(rig *r)
{
    rig_wait(r, 2 * BOX_SECOND);
}

/* The sandbox a session has; NULL when the warden has none of that uid. */
static fake_sandbox *sandbox_of(rig *r, const box_uid *uid)
{
    for (int i = 0; i < FAKE_MAX_SANDBOXES; i++) {
        if (r->warden.sandboxes[i].used && box_uid_equal(&r->warden.sandboxes[i].uid, uid))
            return &r->warden.sandboxes[i];
    }
    return NULL;
}

static fake_sandbox *any_sandbox(rig *r)
{
    for (int i = 0; i < FAKE_MAX_SANDBOXES; i++) {
        if (r->warden.sandboxes[i].used)
            return &r->warden.sandboxes[i];
    }
    return NULL;
}

static void the_pool_is_filled_and_belongs_to_nobody(void **state)
{
    (void)state;
    rig r;
    begin(&r);
    assert_int_equal(ready(&r), WANTED);
    box_sessions_stats stats;
    box_sessions_stats_get(r.all, NULL, &stats);
    assert_int_equal(stats.live, 0);
    assert_int_equal(stats.records, 0);
    assert_int_equal(stats.created_total, 0);
    const fake_sandbox *s = any_sandbox(&r);
    assert_string_equal(s->create.host_path, "");
    assert_int_equal(s->create.memory_bytes, 512 << 20); /* profile `default` */
    assert_int_equal(s->create.flags, 0);
    rig_done(&r);
}

static void a_session_takes_one_and_another_is_made(void **state)
{
    (void)state;
    rig r;
    answer a;
    outcome o = {0};
    begin(&r);
    r.warden.hang_create = true; /* nothing is made anew meanwhile */
    rig_create(&r, &a, "s", NULL);
    assert_int_equal(a.error.reason, BOX_NONE);
    assert_int_equal(a.info.state, BOX_SESSION_RUNNING);
    assert_int_equal(a.info.guarantees, r.warden.guarantees);
    assert_non_null(sandbox_of(&r, &a.info.uid));
    assert_int_equal(r.warden.creates, WANTED);
    assert_int_equal(r.warden.limits, 0);
    assert_int_equal(ready(&r), WANTED - 1);
    rig_exec(&r, &o, "s", "echo works");
    assert_string_equal(o.out, "works");
    outcome_free(&o);
    answer_free(&a);
    r.warden.hang_create = false;
    pause_over(&r);
    rig_wait(&r, 70 * BOX_SECOND); /* the one that hung is given up */
    assert_int_equal(ready(&r), WANTED);
    rig_done(&r);
}

static void one_that_was_used_is_given_to_nobody_else(void **state)
{
    (void)state;
    rig r;
    box_uid seen[6];
    begin(&r);
    for (size_t i = 0; i < BOX_COUNT(seen); i++) {
        answer a, d = {0};
        outcome o = {0};
        rig_create(&r, &a, "s", NULL);
        rig_exec(&r, &o, "s", "exit 0");
        assert_true(o.done);
        outcome_free(&o);
        seen[i] = a.info.uid;
        for (size_t k = 0; k < i; k++)
            assert_false(box_uid_equal(&seen[i], &seen[k]));
        box_session_delete(r.all, "t", "s", false, answer_done, &d);
        rig_settle(&r);
        assert_int_equal(d.count, 1);
        assert_null(sandbox_of(&r, &seen[i]));
        answer_free(&d);
        answer_free(&a);
        pause_over(&r);
    }
    assert_int_equal(r.warden.destroys, BOX_COUNT(seen));
    assert_int_equal(r.warden.creates, BOX_COUNT(seen) + WANTED);
    rig_done(&r);
}

static void a_command_without_a_session_takes_one_too(void **state)
{
    (void)state;
    rig r;
    outcome o = {0};
    begin(&r);
    r.warden.hang_create = true;
    rig_exec(&r, &o, NULL, "echo works");
    assert_true(o.done && o.created);
    assert_string_equal(o.out, "works");
    outcome_free(&o);
    assert_int_equal(r.warden.creates, WANTED);
    assert_int_equal(r.warden.destroys, 1);
    rig_done(&r);
}

static void limits_are_set_before_the_first_command(void **state)
{
    (void)state;
    rig r;
    answer a;
    begin(&r);
    box_spec spec = {.set = BOX_SPEC_MEMORY | BOX_SPEC_CPU | BOX_SPEC_ENV | BOX_SPEC_WORKDIR,
                     .memory_bytes = 64 << 20,
                     .cpu_millis = 300,
                     .workdir = text("/tmp")};
    rig_create(&r, &a, "s", &spec);
    assert_int_equal(a.info.state, BOX_SESSION_RUNNING);
    assert_int_equal(r.warden.limits, 1);
    assert_true(box_uid_equal(&r.warden.last_limits.uid, &a.info.uid));
    assert_int_equal(r.warden.last_limits.memory_bytes, 64 << 20);
    assert_int_equal(r.warden.last_limits.cpu_millis, 300);
    assert_int_equal(r.warden.last_limits.pids, 0); /* as it is */
    assert_int_equal(a.info.spec.memory_bytes, 64 << 20);
    answer_free(&a);
    rig_done(&r);
}

static void what_does_not_fit_is_made_for_itself(void **state)
{
    (void)state;
    rig r;
    answer a;
    begin(&r);
    box_spec specs[] = {
        {.set = BOX_SPEC_MOUNT_PATH, .mount_path = text("/elsewhere")},
        {.set = BOX_SPEC_WORKSPACE_LIMIT, .workspace_limit_bytes = 8 << 20},
        {.set = BOX_SPEC_READ_ONLY_ROOTFS, .read_only_rootfs = false},
        {.set = BOX_SPEC_HOST_PATH, .host_path = text("/srv/x")},
        {.set = BOX_SPEC_PROFILE, .profile = text("offline_readonly")}, /* a mode of its own */
    };
    for (size_t i = 0; i < BOX_COUNT(specs); i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "s%zu", i);
        rig_create(&r, &a, id, &specs[i]);
        assert_int_equal(a.error.reason, BOX_NONE);
        assert_int_equal(ready(&r), WANTED);
        answer_free(&a);
    }
    rig_done(&r);
}

static void persistent_sessions_take_none(void **state)
{
    (void)state;
    rig r;
    answer a;
    box_sessions_config config = {.warm_pool = WANTED};
    rig_init_stored(&r, &config);
    rig_wait(&r, 3 * BOX_SECOND);
    box_spec persistent = {.set = BOX_SPEC_PERSISTENT, .persistent = true};
    rig_create(&r, &a, "p", &persistent);
    assert_int_equal(a.info.state, BOX_SESSION_RUNNING);
    assert_int_equal(ready(&r), WANTED);
    assert_int_equal(r.warden.creates, WANTED + 1);
    answer_free(&a);
    rig_done(&r);
}

static void one_that_died_is_not_given_and_replaced(void **state)
{
    (void)state;
    rig r;
    answer a;
    begin(&r);
    fake_sandbox_die(&r.warden, any_sandbox(&r), true);
    pause_over(&r);
    assert_int_equal(ready(&r), WANTED);
    assert_int_equal(r.warden.creates, WANTED + 1);
    for (int i = 0; i < WANTED; i++) /* their channels close; boxd is not told */
        fake_sandbox_die(&r.warden, any_sandbox(&r), false);
    rig_create(&r, &a, "s", NULL);
    assert_int_equal(a.info.state, BOX_SESSION_RUNNING);
    assert_non_null(sandbox_of(&r, &a.info.uid));
    answer_free(&a);
    pause_over(&r);
    assert_int_equal(ready(&r), WANTED);
    assert_int_equal(fake_warden_count(&r.warden), WANTED + 1);
    rig_done(&r);
}

static void failures_are_tried_again_ever_more_rarely(void **state)
{
    (void)state;
    rig r = {0};
    box_sessions_config config = {.warm_pool = WANTED};
    rig_init(&r, &config);
    (void)box_fail(&r.warden.create_error, BOX_INTERNAL, "no"); /* always -1 */
    for (int i = 0; i < WANTED && any_sandbox(&r) != NULL; i++)
        fake_sandbox_die(&r.warden, any_sandbox(&r), true);
    rig_wait(&r, 60 * BOX_SECOND);
    unsigned first = r.warden.creates;
    assert_in_range(first, 3, 40);
    rig_wait(&r, 600 * BOX_SECOND);
    assert_in_range(r.warden.creates - first, 5, 40);
    r.warden.create_error = (box_error){0};
    rig_wait(&r, 2 * BOX_POOL_MAX_RETRY_SECONDS * BOX_SECOND);
    assert_int_equal(ready(&r), WANTED);
    rig_done(&r);
}

static void an_agent_that_says_nothing_is_no_sandbox(void **state)
{
    (void)state;
    rig r = {0};
    box_sessions_config config = {.warm_pool = WANTED};
    rig_init(&r, &config);
    r.warden.mute_agent = true;
    for (int i = 0; i < WANTED && any_sandbox(&r) != NULL; i++)
        fake_sandbox_die(&r.warden, any_sandbox(&r), true);
    rig_wait(&r, 2 * BOX_SECOND);
    assert_int_equal(ready(&r), 0);
    rig_wait(&r, 2 * BOX_AGENT_HELLO_SECONDS * BOX_SECOND);
    assert_true(r.warden.destroys > 0);
    r.warden.mute_agent = false;
    rig_wait(&r, 2 * BOX_POOL_MAX_RETRY_SECONDS * BOX_SECOND);
    assert_int_equal(ready(&r), WANTED);
    rig_done(&r);
}

static void other_defaults_make_a_new_pool(void **state)
{
    (void)state;
    rig r;
    box_error err = {0};
    bool reselected;
    box_session_defaults next = {
        .backend = "auto", .profile = "default", .memory_bytes = 64 << 20, .max_sessions = 100};
    begin(&r);
    assert_int_equal(box_sessions_set_defaults(r.all, &next, &reselected, &err), 0);
    assert_true(reselected); /* those of the pool are no sessions */
    pause_over(&r);
    assert_int_equal(ready(&r), WANTED);
    assert_int_equal(fake_warden_count(&r.warden), WANTED);
    assert_int_equal(r.warden.destroys, WANTED);
    assert_int_equal(any_sandbox(&r)->create.memory_bytes, 64 << 20);
    next.disabled = true;
    assert_int_equal(box_sessions_set_defaults(r.all, &next, &reselected, &err), 0);
    pause_over(&r);
    assert_int_equal(fake_warden_count(&r.warden), 0);
    rig_done(&r);
}

static void they_count_against_the_server_and_make_room(void **state)
{
    (void)state;
    rig r;
    answer a;
    box_spec other = {.set = BOX_SPEC_MOUNT_PATH, .mount_path = text("/elsewhere")};
    begin_with(&r, (box_sessions_config){.max_sessions = 4, .max_sessions_per_tenant = 4});
    assert_int_equal(ready(&r), WANTED);
    const char *const ids[] = {"a", "b", "c", "d"};
    for (unsigned i = 0; i < BOX_COUNT(ids); i++) {
        rig_create(&r, &a, ids[i], &other); /* fits none of them */
        assert_int_equal(a.error.reason, BOX_NONE);
        answer_free(&a);
        pause_over(&r);
        assert_int_equal(ready(&r), 3 - i);
        assert_int_equal(fake_warden_count(&r.warden), 4);
    }
    rig_create(&r, &a, "e", &other);
    assert_int_equal(a.error.reason, BOX_SESSION_LIMIT);
    answer_free(&a);
    rig_done(&r);
}

static void a_full_tenant_gets_none_of_them(void **state)
{
    (void)state;
    rig r;
    answer a;
    begin_with(&r, (box_sessions_config){.max_sessions_per_tenant = 1});
    rig_create(&r, &a, "a", NULL);
    answer_free(&a);
    pause_over(&r);
    rig_create(&r, &a, "b", NULL);
    assert_int_equal(a.error.reason, BOX_SESSION_LIMIT);
    assert_int_equal(ready(&r), WANTED);
    answer_free(&a);
    rig_done(&r);
}

static void drain_waits_until_they_are_gone(void **state)
{
    (void)state;
    rig r;
    begin(&r);
    rig_restart(&r, false);
    rig_wait(&r, 3 * BOX_SECOND);
    assert_int_equal(r.warden.destroys, WANTED);
    assert_int_equal(fake_warden_count(&r.warden), WANTED);
    assert_int_equal(ready(&r), WANTED);
    rig_done(&r);
    assert_int_equal(r.warden.destroys, 2 * WANTED);
}

static void a_deleted_session_leaves_no_sandbox_whenever_it_goes(void **state)
{
    (void)state;
    rig r;
    answer a = {0}, d = {0};
    box_create_request request = {.tenant = "t", .id = "s"};
    begin(&r);
    box_session_create(r.all, &request, answer_done, &a);
    box_session_delete(r.all, "t", "s", false, answer_done, &d); /* before its home has begun */
    pause_over(&r);
    assert_int_equal(a.count, 1);
    assert_int_equal(d.count, 1);
    assert_int_equal(fake_warden_count(&r.warden), WANTED);
    assert_int_equal(ready(&r), WANTED);
    answer_free(&a);
    answer_free(&d);
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_pool_is_filled_and_belongs_to_nobody),
        cmocka_unit_test(a_session_takes_one_and_another_is_made),
        cmocka_unit_test(one_that_was_used_is_given_to_nobody_else),
        cmocka_unit_test(a_command_without_a_session_takes_one_too),
        cmocka_unit_test(limits_are_set_before_the_first_command),
        cmocka_unit_test(what_does_not_fit_is_made_for_itself),
        cmocka_unit_test(persistent_sessions_take_none),
        cmocka_unit_test(one_that_died_is_not_given_and_replaced),
        cmocka_unit_test(failures_are_tried_again_ever_more_rarely),
        cmocka_unit_test(an_agent_that_says_nothing_is_no_sandbox),
        cmocka_unit_test(other_defaults_make_a_new_pool),
        cmocka_unit_test(they_count_against_the_server_and_make_room),
        cmocka_unit_test(a_full_tenant_gets_none_of_them),
        cmocka_unit_test(drain_waits_until_they_are_gone),
        cmocka_unit_test(a_deleted_session_leaves_no_sandbox_whenever_it_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
