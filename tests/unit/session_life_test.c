#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/limits.h"
#include "session_rig.h"

static char *text(const char *s)
{
    return (char *)(uintptr_t)s; /* only read */
}

static box_session_info info_of(rig *r, const char *id)
{
    box_session_info info = {0};
    box_error err = {0};
    assert_int_equal(box_session_get(r->all, "t", id, &info, &err), 0);
    return info;
}

static box_session_state state_of(rig *r, const char *id)
{
    box_session_info info = {0};
    box_error err = {0};
    if (box_session_get(r->all, "t", id, &info, &err) < 0)
        return 0;
    box_session_state state = info.state;
    box_session_info_done(&info);
    return state;
}

static void creating_twice_gives_the_same_session(void **state)
{
    rig *r = *state;
    answer a, b;
    rig_create(r, &a, "s", NULL);
    rig_create(r, &b, "s", NULL);
    assert_true(a.info.created);
    assert_false(b.info.created);
    assert_true(box_uid_equal(&a.info.uid, &b.info.uid));
    assert_int_equal(a.info.state, BOX_SESSION_RUNNING);
    assert_int_equal(r->warden.creates, 1);
    answer_free(&a);
    answer_free(&b);
}

static void two_creates_at_once_make_one_sandbox(void **state)
{
    rig *r = *state;
    answer a = {0}, b = {0};
    box_create_request request = {.tenant = "t", .id = "s"};
    box_session_create(r->all, &request, answer_done, &a);
    fake_loop_enter(box_loops_get(r->loops, 0));
    box_session_create(r->all, &request, answer_done, &b);
    rig_settle(r);
    fake_loop_enter(box_loops_get(r->loops, 1));
    assert_int_equal(a.count, 1);
    assert_int_equal(b.count, 1);
    assert_true(box_uid_equal(&a.info.uid, &b.info.uid));
    assert_int_equal(r->warden.creates, 1);
    answer_free(&a);
    answer_free(&b);
}

static void the_server_makes_an_id_when_none_is_given(void **state)
{
    rig *r = *state;
    answer a, b;
    rig_create(r, &a, "", NULL);
    rig_create(r, &b, "", NULL);
    assert_int_equal(strlen(a.info.id), 32);
    assert_string_not_equal(a.info.id, b.info.id);
    answer_free(&a);
    answer_free(&b);
}

static void bad_ids_are_violations(void **state)
{
    rig *r = *state;
    answer a;
    char longest[258];
    memset(longest, 'x', 257);
    longest[257] = '\0';
    const char *bad[] = {longest, "a\nb", "\xff", "del\x7f", "\xc2\x85"};
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        rig_create(r, &a, bad[i], NULL);
        assert_int_equal(a.error.reason, BOX_VALIDATION);
    }
    longest[256] = '\0';
    const char *good[] = {longest, "a/b:c d", "\xc3\xa9t\xc3\xa9"};
    for (size_t i = 0; i < BOX_COUNT(good); i++) {
        rig_create(r, &a, good[i], NULL);
        assert_int_equal(a.error.reason, BOX_NONE);
        assert_string_equal(a.info.id, good[i]);
        answer_free(&a);
    }
}

static void a_conflict_names_all_differences(void **state)
{
    rig *r = *state;
    answer a;
    rig_create(r, &a, "s", NULL);
    answer_free(&a);
    box_spec other = {.set = BOX_SPEC_CPU | BOX_SPEC_PIDS | BOX_SPEC_MEMORY | BOX_SPEC_PROFILE,
                      .cpu_millis = 500,
                      .pids = 7,
                      .memory_bytes = 512 << 20, /* the same */
                      .profile = text("offline_readonly")};
    rig_create(r, &a, "s", &other);
    assert_int_equal(a.error.reason, BOX_SESSION_CONFLICT);
    assert_string_equal(box_error_get(&a.error, "session"), "s");
    assert_string_equal(box_error_get(&a.error, "fields"), "cpu_millis,pids_limit,profile");
    box_spec any = {
        .set = BOX_SPEC_BACKEND | BOX_SPEC_IMAGE, .backend = text("auto"), .image = text("host")};
    char image[] = "host";
    any.image = image;
    rig_create(r, &a, "s", &any);
    assert_int_equal(a.error.reason, BOX_NONE);
    answer_free(&a);
}

static void locked_fields_win_and_are_no_conflict_the_second_time(void **state)
{
    rig *r = *state;
    answer a;
    box_spec spec = {.set = BOX_SPEC_PROFILE | BOX_SPEC_READ_ONLY_ROOTFS,
                     .profile = text("offline_readonly"),
                     .read_only_rootfs = false};
    rig_create(r, &a, "s", &spec);
    assert_int_equal(a.error.reason, BOX_NONE);
    assert_true(a.info.spec.read_only_rootfs);
    assert_int_equal(a.info.spec.cpu_millis, 500);
    assert_int_equal(a.info.n_adjustments, 1);
    assert_string_equal(a.info.adjustments[0].field, "read_only_rootfs");
    assert_string_equal(a.info.adjustments[0].rule, "profile.locked");
    answer_free(&a);
    rig_create(r, &a, "s", &spec);
    assert_int_equal(a.error.reason, BOX_NONE);
    answer_free(&a);
}

static void specs_reach_the_warden(void **state)
{
    rig *r = *state;
    answer a;
    box_spec spec = {.set = BOX_SPEC_CPU | BOX_SPEC_HOST_PATH | BOX_SPEC_HOST_PATH_MODE |
                            BOX_SPEC_READ_ONLY_ROOTFS | BOX_SPEC_MOUNT_PATH,
                     .cpu_millis = 250,
                     .host_path = text("/srv/data"),
                     .host_path_mode = BOX_HOST_PATH_RO,
                     .mount_path = text("/work")};
    rig_create(r, &a, "s", &spec);
    assert_int_equal(a.error.reason, BOX_NONE);
    const box_warden_create *c = &fake_warden_only(&r->warden)->create;
    assert_int_equal(c->cpu_millis, 250);
    assert_int_equal(c->memory_bytes, 512 << 20);
    assert_int_equal(c->pids, 128);
    assert_string_equal(c->host_path, "/srv/data");
    assert_string_equal(c->mount_path, "/work");
    assert_int_equal(c->flags, BOX_CREATE_HOST_READ_ONLY | BOX_CREATE_WRITABLE_ROOT);
    assert_true((c->required & BOX_G_CPU) != 0);
    assert_true((c->required & BOX_G_MEMORY) == 0); /* only a default */
    assert_true((c->required & BOX_G_HOST_MOUNT) != 0);
    answer_free(&a);
}

static void what_the_backend_cannot_give_is_refused_by_name(void **state)
{
    rig *r = *state;
    answer a;
    char image[] = "debian";
    box_spec spec = {.set = BOX_SPEC_NETWORK | BOX_SPEC_IMAGE, .network_on = true, .image = image};
    rig_create(r, &a, "s", &spec);
    assert_int_equal(a.error.reason, BOX_GUARANTEE_UNSUPPORTED);
    assert_string_equal(box_error_get(&a.error, "guarantees"), "network_on,images");
    box_spec profile = {.set = BOX_SPEC_PROFILE, .profile = text("network_basic")};
    rig_create(r, &a, "s", &profile);
    assert_int_equal(a.error.reason, BOX_GUARANTEE_UNSUPPORTED);
    box_spec unknown = {.set = BOX_SPEC_PROFILE, .profile = text("nosuch")};
    rig_create(r, &a, "s", &unknown);
    assert_int_equal(a.error.reason, BOX_VALIDATION);
    box_spec docker = {.set = BOX_SPEC_BACKEND, .backend = text("docker")};
    rig_create(r, &a, "s", &docker);
    assert_int_equal(a.error.reason, BOX_BACKEND_UNAVAILABLE);
    assert_string_equal(box_error_get(&a.error, "backend"), "docker");
    assert_int_equal(r->warden.creates, 0);
}

static void limits_refuse_with_what_the_caller_needs_to_know(void **state)
{
    (void)state;
    rig r;
    box_sessions_config config = {.max_sessions = 3, .max_sessions_per_tenant = 2};
    rig_init(&r, &config);
    answer a;
    rig_create(&r, &a, "1", NULL);
    answer_free(&a);
    rig_create(&r, &a, "2", NULL);
    answer_free(&a);
    rig_create(&r, &a, "3", NULL);
    assert_int_equal(a.error.reason, BOX_SESSION_LIMIT);
    assert_string_equal(box_error_get(&a.error, "limit"), "sessions_per_tenant");
    assert_string_equal(box_error_get(&a.error, "max"), "2");
    assert_string_equal(box_error_get(&a.error, "used"), "2");
    assert_true(a.error.retry_ms > 0);
    box_create_request other = {.tenant = "u", .id = "1"};
    answer b = {0};
    box_session_create(r.all, &other, answer_done, &b);
    rig_settle(&r);
    assert_int_equal(b.error.reason, BOX_NONE);
    answer_free(&b);
    other.id = "2";
    box_session_create(r.all, &other, answer_done, &b);
    rig_settle(&r);
    assert_int_equal(b.error.reason, BOX_SESSION_LIMIT);
    assert_string_equal(box_error_get(&b.error, "limit"), "sessions");
    a = (answer){0};
    box_session_stop(r.all, "t", "1", answer_done, &a);
    rig_settle(&r);
    answer_free(&a);
    b = (answer){0};
    box_session_create(r.all, &other, answer_done, &b); /* there is room again */
    rig_settle(&r);
    assert_int_equal(b.error.reason, BOX_NONE);
    answer_free(&b);
    rig_done(&r);
}

static void an_idle_session_ends_and_a_busy_one_does_not(void **state)
{
    rig *r = *state;
    answer a;
    outcome o = {0};
    const char *argv[] = {"hang"};
    box_command c = {
        .argv = argv, .argc = 1, .has_timeout = true, .timeout_ns = 120 * (int64_t)BOX_SECOND};
    box_spec short_ttl = {.set = BOX_SPEC_IDLE_TTL, .idle_ttl_ns = 10 * BOX_SECOND};
    box_exec_request request = {.spec = &short_ttl};
    rig_create(r, &a, "idle", &short_ttl);
    answer_free(&a);
    rig_start(r, &o, "busy", "", &request, &c);
    rig_wait(r, 9 * BOX_SECOND);
    assert_int_equal(state_of(r, "idle"), BOX_SESSION_RUNNING);
    rig_wait(r, 3 * BOX_SECOND);
    assert_int_equal(state_of(r, "idle"), BOX_SESSION_STOPPED);
    rig_wait(r, 60 * BOX_SECOND);
    assert_int_equal(state_of(r, "busy"), BOX_SESSION_RUNNING);
    outcome_free(&o);
    rig_wait(r, 5 * BOX_SECOND);
    assert_int_equal(state_of(r, "busy"), BOX_SESSION_RUNNING);
    rig_wait(r, 8 * BOX_SECOND);
    assert_int_equal(state_of(r, "busy"), BOX_SESSION_STOPPED);
    box_session_info info = info_of(r, "idle");
    assert_int_equal(info.stop_reason, BOX_STOP_IDLE);
    assert_int_equal(info.expires_wall_ns, 0);
    assert_true(info.stopped_wall_ns != 0);
    box_session_info_done(&info);
    assert_int_equal(fake_warden_count(&r->warden), 0);
}

static void looking_is_no_use_and_extending_only_lengthens(void **state)
{
    rig *r = *state;
    answer a;
    box_spec ttl = {.set = BOX_SPEC_IDLE_TTL, .idle_ttl_ns = 20 * BOX_SECOND};
    rig_create(r, &a, "s", &ttl);
    answer_free(&a);
    box_session_extend(r->all, "t", "s", 60 * BOX_SECOND, answer_done, &a);
    rig_settle(r);
    assert_int_equal(a.error.reason, BOX_NONE);
    answer_free(&a);
    box_session_extend(r->all, "t", "s", 5 * BOX_SECOND, answer_done, &a);
    rig_settle(r);
    answer_free(&a);
    rig_wait(r, 55 * BOX_SECOND);
    assert_int_equal(state_of(r, "s"), BOX_SESSION_RUNNING);
    rig_wait(r, 7 * BOX_SECOND); /* looked at just now */
    assert_int_equal(state_of(r, "s"), BOX_SESSION_STOPPED);
    box_session_extend(r->all, "t", "s", BOX_SECOND, answer_done, &a);
    rig_settle(r);
    assert_int_equal(a.error.reason, BOX_SESSION_NOT_RUNNING);
    assert_string_equal(box_error_get(&a.error, "stop_reason"), "idle");
    answer_free(&a);
}

static void the_hard_lifetime_ends_even_a_busy_session(void **state)
{
    rig *r = *state;
    outcome o = {0};
    box_spec spec = {.set = BOX_SPEC_MAX_LIFETIME, .max_lifetime_ns = 20 * BOX_SECOND};
    box_exec_request request = {.spec = &spec};
    rig_start(r, &o, "s", "hang", &request, NULL);
    rig_wait(r, 22 * BOX_SECOND);
    assert_true(o.done);
    assert_int_equal(o.verdict.status, BOX_VERDICT_KILLED);
    outcome_free(&o);
    rig_settle(r);
    box_session_info info = info_of(r, "s");
    assert_int_equal(info.stop_reason, BOX_STOP_LIFETIME);
    box_session_info_done(&info);
}

static void a_stopped_record_stays_an_hour_and_a_new_create_makes_a_new_uid(void **state)
{
    rig *r = *state;
    answer a, b;
    rig_create(r, &a, "s", NULL);
    b = (answer){0};
    box_session_stop(r->all, "t", "s", answer_done, &b);
    rig_settle(r);
    assert_int_equal(b.info.state, BOX_SESSION_STOPPED);
    assert_int_equal(b.info.stop_reason, BOX_STOP_REQUESTED);
    answer_free(&b);
    box_session_stop(r->all, "t", "s", answer_done, &b); /* idempotent */
    rig_settle(r);
    assert_int_equal(b.info.state, BOX_SESSION_STOPPED);
    answer_free(&b);
    rig_create(r, &b, "s", NULL);
    assert_true(b.info.created);
    assert_false(box_uid_equal(&a.info.uid, &b.info.uid));
    answer_free(&a);
    answer_free(&b);
    box_session_stop(r->all, "t", "s", answer_done, &b);
    rig_settle(r);
    answer_free(&b);
    rig_wait(r, 3590 * BOX_SECOND);
    box_session_info info = info_of(r, "s");
    assert_int_equal(info.state, BOX_SESSION_STOPPED);
    assert_int_equal(info.stop_reason, BOX_STOP_REQUESTED);
    box_session_info_done(&info);
    rig_wait(r, 15 * BOX_SECOND);
    assert_int_equal(state_of(r, "s"), 0);
}

static void deleting_cancels_what_runs_and_forgets_the_record(void **state)
{
    rig *r = *state;
    outcome first = {0}, waiting = {0};
    rig_exec(r, &first, "s", "hang");
    rig_exec(r, &waiting, "s", "echo x");
    answer a = {0};
    box_session_delete(r->all, "t", "s", false, answer_done, &a);
    rig_settle(r);
    assert_int_equal(a.count, 1);
    assert_int_equal(a.info.stop_reason, BOX_STOP_DELETED);
    assert_true(first.done && waiting.done);
    assert_int_equal(first.verdict.status, BOX_VERDICT_KILLED);
    assert_int_equal(waiting.error.reason, BOX_SESSION_NOT_RUNNING);
    answer_free(&a);
    outcome_free(&first);
    outcome_free(&waiting);
    assert_int_equal(state_of(r, "s"), 0);
    assert_int_equal(fake_warden_count(&r->warden), 0);
    box_session_delete(r->all, "t", "s", false, answer_done, &a);
    rig_settle(r);
    assert_int_equal(a.error.reason, BOX_SESSION_NOT_FOUND);
    assert_string_equal(box_error_get(&a.error, "id"), "s");
    answer_free(&a);
    box_session_delete(r->all, "t", "s", true, answer_done, &a);
    rig_settle(r);
    assert_int_equal(a.count, 1);
    assert_int_equal(a.error.reason, BOX_NONE);
    assert_false(a.has_info);
}

static void a_command_that_ignores_the_kill_does_not_hold_up_the_stop(void **state)
{
    rig *r = *state;
    outcome o = {0};
    rig_exec(r, &o, "s", "deaf");
    answer a = {0};
    box_session_stop(r->all, "t", "s", answer_done, &a);
    rig_settle(r);
    assert_int_equal(a.count, 0);
    rig_wait(r, 2 * BOX_SECOND);
    assert_int_equal(a.count, 1);
    assert_true(o.done);
    assert_int_equal(o.verdict.status, BOX_VERDICT_KILLED);
    assert_false(o.verdict.has_exit_code);
    answer_free(&a);
    outcome_free(&o);
}

static void stopping_while_it_starts_removes_what_was_made(void **state)
{
    rig *r = *state;
    answer a = {0}, b = {0};
    box_create_request request = {.tenant = "t", .id = "s"};
    box_session_create(r->all, &request, answer_done, &a);
    box_session_stop(r->all, "t", "s", answer_done, &b);
    rig_settle(r);
    assert_int_equal(a.error.reason, BOX_SESSION_NOT_RUNNING);
    assert_int_equal(b.info.state, BOX_SESSION_STOPPED);
    assert_int_equal(fake_warden_count(&r->warden), 0);
    answer_free(&b);
    r->warden.mute_agent = true;
    a = (answer){0};
    box_session_create(r->all, &request, answer_done, &a);
    rig_settle(r);
    assert_int_equal(a.count, 0);
    box_session_stop(r->all, "t", "s", answer_done, &b);
    rig_settle(r);
    assert_int_equal(a.count, 1);
    assert_int_equal(fake_warden_count(&r->warden), 0);
    answer_free(&b);
}

static void an_agent_that_says_nothing_fails_the_create(void **state)
{
    rig *r = *state;
    answer a = {0};
    r->warden.mute_agent = true;
    rig_create(r, &a, "s", NULL);
    assert_int_equal(a.count, 0);
    rig_wait(r, 11 * BOX_SECOND);
    assert_int_equal(a.error.reason, BOX_SESSION_BROKEN);
    assert_int_equal(state_of(r, "s"), BOX_SESSION_ERROR);
    rig_settle(r);
    assert_int_equal(fake_warden_count(&r->warden), 0);
}

typedef struct numbers {
    bool came;
    bool measured;
} numbers;

static void numbers_came(void *arg, const box_session_info *info, const box_session_usage *usage,
                         const box_error *err)
{
    numbers *n = arg;
    assert_null(err);
    assert_string_equal(info->id, "s");
    n->came = true;
    n->measured = usage->measured;
}

static numbers numbers_of(rig *r, uint64_t wait_ns)
{
    numbers n = {0};
    box_session_get_usage(r->all, "t", "s", numbers_came, &n);
    rig_settle(r);
    rig_wait(r, wait_ns);
    return n;
}

static void a_session_is_shown_without_numbers_when_its_warden_does_not_answer(void **state)
{
    enum { HUNG = 8 /* more than one tenant may have under way */ };
    rig *r = *state;
    answer a, hung[HUNG] = {{0}};
    rig_create(r, &a, "s", NULL);
    answer_free(&a);
    numbers n = numbers_of(r, 0);
    assert_true(n.came && n.measured);
    r->warden.hang_usage = true;
    n = numbers_of(r, BOX_WARDEN_USAGE_MS * BOX_MS + BOX_SECOND);
    assert_true(n.came && !n.measured);
    r->warden.hang_usage = false;
    r->warden.hang_create = true;
    for (int i = 0; i < HUNG; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "h%d", i);
        rig_create(r, &hung[i], id, NULL);
    }
    n = numbers_of(r, BOX_WARDEN_USAGE_MS * BOX_MS + BOX_SECOND);
    assert_true(n.came && !n.measured);
    r->warden.hang_create = false;
    rig_wait(r, 180 * BOX_SECOND);
    for (int i = 0; i < HUNG; i++)
        answer_free(&hung[i]);
}

static void a_create_that_is_never_answered_ends_and_is_cleaned_up(void **state)
{
    rig *r = *state;
    answer hung = {0}, other;
    r->warden.hang_create = true;
    rig_create(r, &hung, "hung", NULL);
    r->warden.hang_create = false;
    rig_create(r, &other, "other", NULL); /* nobody waits for it */
    assert_int_equal(other.error.reason, BOX_NONE);
    answer_free(&other);
    unsigned destroys = r->warden.destroys;
    rig_wait(r, 61 * BOX_SECOND);
    assert_int_equal(hung.error.reason, BOX_BACKEND_UNAVAILABLE);
    assert_string_equal(box_error_get(&hung.error, "backend"), "namespace");
    assert_true(r->warden.destroys > destroys);
    assert_int_equal(state_of(r, "hung"), BOX_SESSION_ERROR);
    rig_create(r, &hung, "hung", NULL);
    assert_int_equal(hung.error.reason, BOX_NONE);
    answer_free(&hung);
}

static void a_refusal_of_the_warden_is_the_answer(void **state)
{
    rig *r = *state;
    answer a;
    (void)box_fail(&r->warden.create_error, BOX_PERMISSION, "host_path is not allowed");
    rig_create(r, &a, "s", NULL);
    assert_int_equal(a.error.reason, BOX_PERMISSION);
    box_session_info info = info_of(r, "s");
    assert_int_equal(info.state, BOX_SESSION_ERROR);
    assert_int_equal(info.stop_reason, BOX_STOP_CREATE_FAILED);
    assert_int_equal(info.error.reason, BOX_PERMISSION);
    box_session_info_done(&info);
    r->warden.create_error = (box_error){0};
}

static void without_a_warden_the_error_says_what_to_do(void **state)
{
    rig *r = *state;
    answer a, kept;
    rig_create(r, &kept, "kept", NULL);
    answer_free(&kept);
    (void)shutdown(r->warden.fd, SHUT_RDWR);
    rig_settle(r);
    rig_create(r, &a, "s", NULL);
    assert_int_equal(a.error.reason, BOX_BACKEND_UNAVAILABLE);
    assert_string_equal(box_error_get(&a.error, "backend"), "namespace");
    assert_non_null(strstr(a.error.msg, "box-warden"));
    box_backend_report report;
    assert_true(box_backends_find(r->all, "auto", &report));
    assert_false(report.available);
    outcome o = {0};
    rig_exec(r, &o, "kept", "echo still"); /* the agent needs no warden */
    assert_string_equal(o.out, "still");
    outcome_free(&o);
}

static void backends_are_reported(void **state)
{
    rig *r = *state;
    assert_int_equal(box_backends_count(r->all), 1);
    box_backend_report report;
    box_backends_report(r->all, 0, &report);
    assert_string_equal(report.name, "namespace");
    assert_true(report.available && report.selected && !report.connecting);
    assert_int_equal(report.guarantees, r->warden.guarantees);
    assert_string_equal(report.detail, "a fake");
    assert_true(box_backends_find(r->all, "local", &report));
    assert_false(box_backends_find(r->all, "docker", &report));
    assert_int_equal(r->warden.sweeps, 1);
}

static void live_limits_go_to_the_warden_and_back_to_the_default(void **state)
{
    rig *r = *state;
    answer a;
    rig_create(r, &a, "s", NULL);
    answer_free(&a);
    box_spec change = {.set = BOX_SPEC_MEMORY, .memory_bytes = 64 << 20};
    box_session_update(r->all, "t", "s", &change, BOX_SPEC_MEMORY | BOX_SPEC_PIDS, answer_done, &a);
    rig_settle(r);
    assert_int_equal(a.info.spec.memory_bytes, 64 << 20);
    assert_int_equal(a.info.spec.pids, 128);
    assert_int_equal(r->warden.limits, 1);
    assert_int_equal(r->warden.last_limits.pids, 128);
    answer_free(&a);
    box_session_update(r->all, "t", "s", &change, BOX_SPEC_IMAGE, answer_done, &a);
    rig_settle(r);
    assert_int_equal(a.error.reason, BOX_VALIDATION);
    answer_free(&a);
    box_session_stop(r->all, "t", "s", answer_done, &a);
    rig_settle(r);
    answer_free(&a);
    box_session_update(r->all, "t", "s", &change, BOX_SPEC_MEMORY, answer_done, &a);
    rig_settle(r);
    assert_int_equal(a.error.reason, BOX_SESSION_NOT_RUNNING);
}

static void more_parallel_execs_start_what_waits(void **state)
{
    rig *r = *state;
    outcome first = {0}, second = {0};
    rig_exec(r, &first, "s", "hang");
    rig_exec(r, &second, "s", "echo two");
    assert_false(second.done);
    answer a = {0};
    box_spec change = {.set = BOX_SPEC_MAX_PARALLEL_EXECS, .max_parallel_execs = 2};
    box_session_update(r->all, "t", "s", &change, BOX_SPEC_MAX_PARALLEL_EXECS, answer_done, &a);
    rig_settle(r);
    assert_true(second.done);
    answer_free(&a);
    outcome_free(&first);
    outcome_free(&second);
    rig_settle(r);
}

static void a_keyed_create_is_made_once_and_answered_again(void **state)
{
    rig *r = *state;
    uint8_t digest[32] = {1}, other[32] = {2};
    answer a = {0}, b = {0};
    box_create_request request = {
        .tenant = "t", .id = "", .idempotency_key = "k", .digest = digest};
    box_session_create(r->all, &request, answer_done, &a);
    box_session_create(r->all, &request, answer_done, &b); /* joins */
    rig_settle(r);
    assert_string_equal(a.info.id, b.info.id);
    assert_true(a.info.created && b.info.created);
    assert_int_equal(r->warden.creates, 1);
    answer_free(&b);
    request.digest = other;
    box_session_create(r->all, &request, answer_done, &b);
    rig_settle(r);
    assert_int_equal(b.error.reason, BOX_IDEMPOTENCY_MISMATCH);
    answer_free(&b);
    box_session_delete(r->all, "t", a.info.id, false, answer_done, &b);
    rig_settle(r);
    answer_free(&b);
    request.digest = digest;
    box_session_create(r->all, &request, answer_done, &b);
    rig_settle(r);
    assert_int_equal(b.error.reason, BOX_IDEMPOTENCY_DONE);
    answer_free(&b);
    rig_wait(r, (BOX_IDEMPOTENCY_SECONDS + 1) * BOX_SECOND);
    box_session_create(r->all, &request, answer_done, &b);
    rig_settle(r);
    assert_int_equal(b.error.reason, BOX_NONE);
    answer_free(&a);
    answer_free(&b);
}

static void draining_refuses_new_work_and_removes_everything(void **state)
{
    (void)state;
    rig r;
    rig_init(&r, NULL);
    answer a;
    rig_create(&r, &a, "s", NULL);
    answer_free(&a);
    outcome o = {0};
    rig_exec(&r, &o, NULL, "hang");
    rig_done(&r); /* asserts that nothing is left of the sockets */
    assert_true(o.done);
    assert_int_equal(o.verdict.status, BOX_VERDICT_KILLED);
    outcome_free(&o);
}

static void refused(void *arg, const box_session_info *info, const box_error *err)
{
    assert_null(info);
    *(box_reason *)arg = err->reason;
}

static void ignore(void *arg)
{
    (void)arg;
}

static void nothing_is_made_while_draining_or_disabled(void **state)
{
    (void)state;
    rig r;
    box_sessions_config config = {.disabled = true};
    rig_init(&r, &config);
    box_reason reason = BOX_NONE;
    box_create_request request = {.tenant = "t", .id = "s"};
    box_session_create(r.all, &request, refused, &reason);
    rig_settle(&r);
    assert_int_equal(reason, BOX_BOX_DISABLED);
    rig_done(&r);
    rig_init(&r, NULL);
    box_sessions_drain(r.all, ignore, NULL);
    box_session_create(r.all, &request, refused, &reason);
    rig_settle(&r);
    assert_int_equal(reason, BOX_SHUTTING_DOWN);
    rig_done(&r);
}

/* --- watching --------------------------------------------------------------------------------- */

typedef struct heard {
    unsigned events;
    box_watch_type types[2048];
    uint64_t lost;
    bool blocked;
    bool ended;
} heard;

static void on_event(void *arg, box_watch_type type, const box_session_info *info, uint64_t lost)
{
    heard *h = arg;
    assert_true((info == NULL) == (type == BOX_WATCH_SYNCED || type == BOX_WATCH_LOST));
    h->types[h->events++] = type;
    h->lost += lost;
}

static bool on_writable(void *arg)
{
    return !((heard *)arg)->blocked;
}

static void on_ended(void *arg, const box_error *why)
{
    assert_int_equal(why->reason, BOX_SHUTTING_DOWN);
    ((heard *)arg)->ended = true;
}

static const box_session_watch_events watch_events = {
    .event = on_event, .writable = on_writable, .ended = on_ended};

static void a_watcher_is_told_of_the_whole_life(void **state)
{
    rig *r = *state;
    answer a;
    static heard h;
    h = (heard){0};
    box_session_watch *w;
    box_error err = {0};
    box_session_watch_request request = {.tenant = "t"};
    assert_int_equal(box_session_watch_new(r->all, &request, &watch_events, &h, &w, &err), 0);
    rig_create(r, &a, "s", NULL);
    answer_free(&a);
    unsigned n = h.events;
    assert_int_equal(h.types[0], BOX_WATCH_CREATED);
    assert_true(n >= 2);
    box_session_delete(r->all, "t", "s", false, answer_done, &a);
    rig_settle(r);
    answer_free(&a);
    assert_int_equal(h.types[h.events - 1], BOX_WATCH_DELETED);
    outcome o = {0};
    n = h.events;
    rig_exec(r, &o, NULL, "echo x"); /* one-off runs are nobody's business */
    assert_int_equal(h.events, n);
    outcome_free(&o);
    box_session_watch_free(w);
    rig_create(r, &a, "s", NULL);
    answer_free(&a);
    assert_int_equal(h.events, n);
    request.id = "nosuch";
    assert_true(box_session_watch_new(r->all, &request, &watch_events, &h, &w, &err) < 0);
    assert_int_equal(err.reason, BOX_SESSION_NOT_FOUND);
}

static void a_slow_watcher_costs_bounded_memory_and_is_told_what_it_missed(void **state)
{
    rig *r = *state;
    static heard h;
    h = (heard){.blocked = true};
    box_session_watch *w;
    box_error err = {0};
    box_session_watch_request request = {.tenant = "t"};
    assert_int_equal(box_session_watch_new(r->all, &request, &watch_events, &h, &w, &err), 0);
    for (int i = 0; i < BOX_MAX_WATCH_DELETIONS + 10; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "%d", i);
        answer a;
        rig_create(r, &a, id, NULL);
        answer_free(&a);
        box_session_delete(r->all, "t", id, false, answer_done, &a);
        rig_settle(r);
        answer_free(&a);
    }
    assert_int_equal(h.events, 0);
    h.blocked = false;
    box_session_watch_resume(w);
    rig_settle(r);
    assert_int_equal(h.events, BOX_MAX_WATCH_DELETIONS + 1);
    assert_int_equal(h.types[h.events - 1], BOX_WATCH_LOST);
    assert_true(h.lost >= 10);
    box_session_watch_free(w);
}

static void one_tenants_watchers_leave_places_to_others(void **state)
{
    rig *r = *state;
    static box_session_watch *w[BOX_MAX_SESSION_WATCHES_PER_TENANT];
    static heard h;
    box_session_watch *other;
    box_error err = {0};
    box_session_watch_request request = {.tenant = "t"};
    for (size_t i = 0; i < BOX_COUNT(w); i++)
        assert_int_equal(box_session_watch_new(r->all, &request, &watch_events, &h, &w[i], &err),
                         0);
    assert_int_equal(box_session_watch_new(r->all, &request, &watch_events, &h, &other, &err), -1);
    assert_int_equal(err.reason, BOX_RATE_LIMIT);
    request.tenant = "other";
    assert_int_equal(box_session_watch_new(r->all, &request, &watch_events, &h, &other, &err), 0);
    box_session_watch_free(other);
    for (size_t i = 0; i < BOX_COUNT(w); i++)
        box_session_watch_free(w[i]);
    rig_settle(r);
}

static void statistics_count_what_lives(void **state)
{
    rig *r = *state;
    outcome running = {0}, waiting = {0};
    rig_exec(r, &running, "s", "hang");
    rig_exec(r, &waiting, "s", "hang");
    box_sessions_stats stats;
    box_sessions_stats_get(r->all, "t", &stats);
    assert_int_equal(stats.live, 1);
    assert_int_equal(stats.running_execs, 1);
    assert_int_equal(stats.queued_execs, 1);
    box_sessions_stats_get(r->all, "nobody", &stats);
    assert_int_equal(stats.live, 0);
    outcome_free(&running);
    outcome_free(&waiting);
    rig_settle(r);
    box_sessions_stats_get(r->all, NULL, &stats);
    assert_int_equal(stats.live, 1);
    assert_int_equal(stats.running_execs, 0);
    assert_int_equal(stats.queued_execs, 0);
    assert_int_equal(stats.execs_total, 1);
}

static void a_revoked_tenant_loses_its_sessions_and_no_other_does(void **state)
{
    rig *r = *state;
    answer a;
    rig_create(r, &a, "s", NULL);
    answer_free(&a);
    box_create_request other = {.tenant = "u", .id = "s"};
    box_session_create(r->all, &other, answer_done, &a);
    rig_settle(r);
    answer_free(&a);
    box_sessions_revoke(r->all, "t");
    rig_settle(r);
    box_session_info info = info_of(r, "s");
    assert_int_equal(info.stop_reason, BOX_STOP_REVOKED);
    box_session_info_done(&info);
    assert_int_equal(fake_warden_count(&r->warden), 1);
}

/* --- a warden that comes and goes ------------------------------------------------------------- */

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 4), 0);
    return fd;
}

static bool is_connecting(rig *r)
{
    box_backend_report report;
    box_backends_report(r->all, 0, &report);
    return report.connecting;
}

static void a_warden_that_comes_back_is_told_what_to_keep(void **state)
{
    (void)state;
    rig r = {0};
    box_error err = {0};
    assert_int_equal(box_loops_new(2, 0, &r.loops, &err), 0);
    fake_loop_enter(box_loops_get(r.loops, 1));
    fake_warden_init(&r.warden);
    (void)close(r.warden.fd);
    (void)close(r.warden.peer);
    r.warden.fd = r.warden.peer = -1;
    (void)snprintf(r.dir, sizeof r.dir, "/tmp/box-run-XXXXXX");
    assert_non_null(mkdtemp(r.dir));
    char path[96];
    (void)snprintf(path, sizeof path, "%s/warden", r.dir);
    box_backend_config backend = {.name = "namespace", .socket_path = path, .fd = -1};
    box_sessions_config c = {.loops = r.loops,
                             .run_dir = r.dir,
                             .instance = box_uid_new(),
                             .backends = &backend,
                             .n_backends = 1};
    assert_int_equal(box_sessions_new(&c, &r.all, &err), 0);
    assert_true(is_connecting(&r));
    rig_settle(&r);
    assert_false(is_connecting(&r));
    answer a;
    rig_create(&r, &a, "s", NULL);
    assert_int_equal(a.error.reason, BOX_BACKEND_UNAVAILABLE); /* nobody listens yet */
    int listener = listen_at(path);
    rig_wait(&r, 6 * BOX_SECOND); /* it is found by itself */
    r.warden.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_true(r.warden.fd >= 0);
    rig_settle(&r);
    rig_create(&r, &a, "s", NULL);
    assert_int_equal(a.error.reason, BOX_NONE);
    answer_free(&a);
    assert_int_equal(r.warden.keeps, 0);
    (void)close(r.warden.fd); /* it restarts */
    r.warden.fd = -1;
    rig_wait(&r, 6 * BOX_SECOND);
    r.warden.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_true(r.warden.fd >= 0);
    rig_settle(&r);
    assert_int_equal(r.warden.keeps, 1);
    assert_int_equal(r.warden.sweeps, 2);
    assert_int_equal(state_of(&r, "s"), BOX_SESSION_RUNNING);
    (void)close(listener);
    assert_int_equal(unlink(path), 0);
    rig_done(&r);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(creating_twice_gives_the_same_session),
        TEST(two_creates_at_once_make_one_sandbox),
        TEST(the_server_makes_an_id_when_none_is_given),
        TEST(bad_ids_are_violations),
        TEST(a_conflict_names_all_differences),
        TEST(locked_fields_win_and_are_no_conflict_the_second_time),
        TEST(specs_reach_the_warden),
        TEST(what_the_backend_cannot_give_is_refused_by_name),
        cmocka_unit_test(limits_refuse_with_what_the_caller_needs_to_know),
        TEST(an_idle_session_ends_and_a_busy_one_does_not),
        TEST(looking_is_no_use_and_extending_only_lengthens),
        TEST(the_hard_lifetime_ends_even_a_busy_session),
        TEST(a_stopped_record_stays_an_hour_and_a_new_create_makes_a_new_uid),
        TEST(deleting_cancels_what_runs_and_forgets_the_record),
        TEST(a_command_that_ignores_the_kill_does_not_hold_up_the_stop),
        TEST(stopping_while_it_starts_removes_what_was_made),
        TEST(an_agent_that_says_nothing_fails_the_create),
        TEST(a_session_is_shown_without_numbers_when_its_warden_does_not_answer),
        TEST(a_create_that_is_never_answered_ends_and_is_cleaned_up),
        TEST(a_refusal_of_the_warden_is_the_answer),
        TEST(without_a_warden_the_error_says_what_to_do),
        TEST(backends_are_reported),
        TEST(live_limits_go_to_the_warden_and_back_to_the_default),
        TEST(more_parallel_execs_start_what_waits),
        TEST(a_keyed_create_is_made_once_and_answered_again),
        cmocka_unit_test(draining_refuses_new_work_and_removes_everything),
        cmocka_unit_test(nothing_is_made_while_draining_or_disabled),
        TEST(a_watcher_is_told_of_the_whole_life),
        TEST(a_slow_watcher_costs_bounded_memory_and_is_told_what_it_missed),
        TEST(one_tenants_watchers_leave_places_to_others),
        TEST(statistics_count_what_lives),
        TEST(a_revoked_tenant_loses_its_sessions_and_no_other_does),
        cmocka_unit_test(a_warden_that_comes_back_is_told_what_to_keep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
