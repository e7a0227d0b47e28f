#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sqlite3.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "session/stored.h"
#include "session/table.h"
#include "session_rig.h"

static char *text(const char *s)
{
    return (char *)(uintptr_t)s; /* only read */
}

static box_label pair(const char *key, const char *value)
{
    return (box_label){text(key), text(value)};
}

/* What a test's session asks for, besides being persistent. */
static const box_spec persistent = {.set = BOX_SPEC_PERSISTENT, .persistent = true};

static box_session_info get(rig *r, const char *id)
{
    box_session_info info = {0};
    box_error err = {0};
    if (box_session_get(r->all, "t", id, &info, &err) < 0)
        assert_int_equal(err.reason, BOX_SESSION_NOT_FOUND);
    return info;
}

static box_session_state state_of(rig *r, const char *id)
{
    box_session_info info = get(r, id);
    box_session_state state = info.state;
    box_session_info_done(&info);
    return state;
}

static box_session_state create(rig *r, const char *id, const box_spec *spec)
{
    answer a;
    rig_create(r, &a, id, spec);
    assert_int_equal(a.error.reason, BOX_NONE);
    box_session_state state = a.info.state;
    answer_free(&a);
    return state;
}

static void echoes(rig *r, const char *id)
{
    outcome o = {0};
    rig_exec(r, &o, id, "echo x");
    assert_int_equal(o.error.reason, BOX_NONE);
    assert_string_equal(o.out, "x");
    outcome_free(&o);
}

static int set_up(void **state)
{
    rig *r = box_alloc(sizeof *r);
    rig_init_stored(r, NULL);
    *state = r;
    return 0;
}

/* --- surviving -------------------------------------------------------------------------------- */

static void a_persistent_session_is_as_it_was_after_a_kill(void **state)
{
    rig *r = *state;
    box_label labels[] = {pair("a", "1"), pair("b", "")};
    box_label env[] = {pair("SECRET", "42")};
    box_spec spec = {.set = BOX_SPEC_PERSISTENT | BOX_SPEC_PIDS | BOX_SPEC_LABELS | BOX_SPEC_ENV |
                            BOX_SPEC_NETWORK | BOX_SPEC_PROFILE | BOX_SPEC_MAX_PARALLEL_EXECS,
                     .persistent = true,
                     .pids = 77,
                     .network_on = true, /* locked by the profile: an adjustment */
                     .max_parallel_execs = 2,
                     .profile = text("offline_readonly"),
                     .labels = labels,
                     .n_labels = 2,
                     .env = env,
                     .n_env = 1};
    assert_int_equal(create(r, "s", &spec), BOX_SESSION_RUNNING);
    echoes(r, "s");
    box_session_info before = get(r, "s");
    rig_wait(r, 20 * BOX_SECOND); /* its use is written down */
    rig_restart(r, true);
    box_session_info after = get(r, "s");
    assert_int_equal(after.state, BOX_SESSION_RUNNING);
    assert_true(box_uid_equal(&after.uid, &before.uid));
    assert_int_equal(box_spec_differences(&after.spec, &before.spec), 0);
    assert_int_equal(after.spec.max_parallel_execs, 2);
    assert_int_equal(after.spec.n_labels, 2);
    assert_string_equal(after.spec.labels[0].value, "1");
    assert_int_equal(after.n_adjustments, 1);
    assert_memory_equal(after.adjustments, before.adjustments, sizeof after.adjustments[0]);
    assert_true(after.created_wall_ns == before.created_wall_ns);
    assert_true(after.last_used_wall_ns == before.last_used_wall_ns);
    assert_true(after.expires_wall_ns == before.expires_wall_ns);
    assert_int_equal(after.total_execs, 1);
    assert_int_equal(after.required, before.required);
    outcome o = {0};
    rig_exec(r, &o, "s", "env");
    assert_non_null(strstr(o.out, "SECRET=42"));
    assert_int_equal(o.rebuilds, 0);
    outcome_free(&o);
    assert_int_equal(r->warden.creates, 1);
    box_session_info_done(&before);
    box_session_info_done(&after);
}

static void it_survives_a_drain_and_others_do_not(void **state)
{
    rig *r = *state;
    create(r, "stays", &persistent);
    create(r, "goes", NULL);
    rig_restart(r, false);
    assert_int_equal(r->warden.destroys, 1);
    assert_int_equal(state_of(r, "stays"), BOX_SESSION_RUNNING);
    assert_int_equal(state_of(r, "goes"), 0);
    echoes(r, "stays");
    rig_restart(r, false); /* once more */
    echoes(r, "stays");
}

static void a_drain_waits_until_nothing_runs_in_it(void **state)
{
    rig *r = *state;
    outcome o = {0};
    box_exec_request request = {.spec = &persistent};
    rig_start(r, &o, "s", "hang", &request, NULL);
    rig_settle(r);
    outcome_free(&o); /* its caller went: it is being killed */
    rig_restart(r, false);
    assert_int_equal(state_of(r, "s"), BOX_SESSION_RUNNING);
    assert_int_equal(fake_warden_only(&r->warden)->programs[0].used, false);
}

static void only_it_is_kept_at_the_warden(void **state)
{
    rig *r = *state;
    create(r, "stays", &persistent);
    create(r, "goes", NULL);
    r->warden.keeps = r->warden.sweeps = 0;
    rig_restart(r, true);
    assert_int_equal(r->warden.sweeps, 1);
    assert_int_equal(r->warden.keeps, 2); /* before the sweep, and for its descriptors */
    assert_int_equal(state_of(r, "goes"), 0);
}

static void a_sandbox_that_died_meanwhile_is_lost_and_rebuilt(void **state)
{
    rig *r = *state;
    create(r, "s", &persistent);
    fake_sandbox *s = fake_warden_only(&r->warden);
    box_uid uid = s->uid;
    rig_restart(r, true);
    rig_settle(r);
    fake_sandbox_die(&r->warden, s, false); /* seen as its channel closes */
    rig_settle(r);
    assert_int_equal(state_of(r, "s"), BOX_SESSION_ERROR);
    echoes(r, "s"); /* as it was: persistent */
    rig_restart(r, true);
    box_session_info info = get(r, "s");
    assert_int_equal(info.state, BOX_SESSION_RUNNING);
    assert_int_equal(info.rebuilds, 1);
    assert_false(box_uid_equal(&info.uid, &uid));
    box_session_info_done(&info);
}

static void one_whose_agent_is_gone_at_the_start_is_lost(void **state)
{
    rig *r = *state;
    create(r, "s", &persistent);
    fake_sandbox *s = fake_warden_only(&r->warden);
    box_closep(&s->listen_fd); /* with the agent */
    rig_restart(r, true);
    box_session_info info = get(r, "s");
    assert_int_equal(info.state, BOX_SESSION_ERROR);
    assert_int_equal(info.stop_reason, BOX_STOP_LOST);
    box_session_info_done(&info);
    rig_restart(r, true);
    assert_int_equal(state_of(r, "s"), 0); /* its record went */
}

static void commands_of_an_earlier_boxd_are_killed_and_never_confused(void **state)
{
    rig *r = *state;
    create(r, "s", &persistent);
    echoes(r, "s");
    fake_sandbox *s = fake_warden_only(&r->warden);
    s->programs[0] = (fake_program){.used = true, .id = 2, .fds = {-1, -1, -1}, .argv = {"hang"}};
    unsigned acks = s->acks;
    rig_restart(r, true);
    assert_int_equal(s->signals, 1);
    assert_int_equal(s->acks, acks + 1);
    assert_false(s->programs[0].used);
    outcome o = {0};
    rig_exec(r, &o, "s", "hang");
    assert_true(fake_sandbox_find(s, "hang")->id > UINT32_MAX);
    outcome_free(&o);
    rig_settle(r);
}

static void an_agent_cannot_make_up_commands_of_this_boxd(void **state)
{
    rig *r = *state;
    create(r, "s", &persistent);
    fake_sandbox *s = fake_warden_only(&r->warden);
    s->programs[0] = (fake_program){
        .used = true, .id = UINT64_C(1) << 40, .fds = {-1, -1, -1}, .argv = {"hang"}};
    rig_restart(r, true);
    assert_int_equal(state_of(r, "s"), BOX_SESSION_ERROR);
}

/* --- times and changes ------------------------------------------------------------------------ */

static void its_times_go_on(void **state)
{
    rig *r = *state;
    box_spec spec = {.set = BOX_SPEC_PERSISTENT | BOX_SPEC_MAX_LIFETIME,
                     .persistent = true,
                     .max_lifetime_ns = 600 * BOX_SECOND};
    box_spec idle = {.set = BOX_SPEC_PERSISTENT | BOX_SPEC_IDLE_TTL,
                     .persistent = true,
                     .idle_ttl_ns = 300 * BOX_SECOND};
    create(r, "life", &spec);
    create(r, "idle", &idle);
    rig_wait(r, 200 * BOX_SECOND);
    rig_restart(r, true);
    rig_wait(r, 90 * BOX_SECOND);
    assert_int_equal(state_of(r, "idle"), BOX_SESSION_RUNNING);
    rig_wait(r, 25 * BOX_SECOND); /* late by BOX_SESSION_TOUCH_SECONDS at most */
    assert_int_equal(state_of(r, "idle"), BOX_SESSION_STOPPED);
    rig_wait(r, 270 * BOX_SECOND);
    assert_int_equal(state_of(r, "life"), BOX_SESSION_RUNNING);
    rig_wait(r, 20 * BOX_SECOND);
    box_session_info info = get(r, "life");
    assert_int_equal(info.stop_reason, BOX_STOP_LIFETIME);
    box_session_info_done(&info);
}

static void one_that_is_overdue_ends_at_once(void **state)
{
    rig *r = *state;
    box_spec spec = {.set = BOX_SPEC_PERSISTENT | BOX_SPEC_MAX_LIFETIME,
                     .persistent = true,
                     .max_lifetime_ns = 60 * BOX_SECOND};
    create(r, "s", &spec);
    fake_time_advance(3600 * BOX_SECOND);
    rig_restart(r, true);
    rig_wait(r, 2 * BOX_SECOND);
    assert_int_equal(state_of(r, "s"), BOX_SESSION_STOPPED);
    assert_int_equal(fake_warden_count(&r->warden), 0);
}

static void changes_that_were_answered_survive(void **state)
{
    rig *r = *state;
    box_spec spec = {.set = BOX_SPEC_PERSISTENT | BOX_SPEC_IDLE_TTL,
                     .persistent = true,
                     .idle_ttl_ns = 100 * BOX_SECOND};
    box_label label = pair("new", "yes");
    box_spec changes = {
        .set = BOX_SPEC_LABELS | BOX_SPEC_PIDS, .labels = &label, .n_labels = 1, .pids = 5};
    create(r, "s", &spec);
    answer a = {0};
    box_session_update(r->all, "t", "s", &changes, changes.set, answer_done, &a);
    rig_settle(r);
    assert_int_equal(a.error.reason, BOX_NONE);
    answer_free(&a);
    box_session_extend(r->all, "t", "s", 1000 * BOX_SECOND, answer_done, &a);
    rig_settle(r);
    assert_int_equal(a.error.reason, BOX_NONE);
    answer_free(&a);
    rig_restart(r, true);
    rig_wait(r, 900 * BOX_SECOND);
    box_session_info info = get(r, "s");
    assert_int_equal(info.state, BOX_SESSION_RUNNING);
    assert_string_equal(info.spec.labels[0].key, "new");
    assert_int_equal(info.spec.pids, 5);
    box_session_info_done(&info);
    rig_wait(r, 200 * BOX_SECOND);
    assert_int_equal(state_of(r, "s"), BOX_SESSION_STOPPED);
}

static void what_was_stopped_or_deleted_does_not_come_back(void **state)
{
    rig *r = *state;
    answer a = {0};
    create(r, "stopped", &persistent);
    create(r, "deleted", &persistent);
    box_session_stop(r->all, "t", "stopped", answer_done, &a);
    rig_settle(r);
    assert_int_equal(a.info.state, BOX_SESSION_STOPPED);
    answer_free(&a);
    box_session_delete(r->all, "t", "deleted", false, answer_done, &a);
    rig_settle(r);
    assert_int_equal(a.count, 1);
    answer_free(&a);
    assert_int_equal(fake_warden_count(&r->warden), 0);
    rig_restart(r, true);
    assert_int_equal(state_of(r, "stopped"), 0);
    assert_int_equal(state_of(r, "deleted"), 0);
}

/* --- what goes wrong -------------------------------------------------------------------------- */

/* While it is held nobody else writes. */
static sqlite3 *hold(const rig *r)
{
    char path[96];
    sqlite3 *db;
    (void)snprintf(path, sizeof path, "%s/box.db", r->state);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    return db;
}

static void run_sql(const rig *r, const char *sql)
{
    char path[96];
    sqlite3 *db;
    (void)snprintf(path, sizeof path, "%s/box.db", r->state);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void what_cannot_be_written_down_is_not_made(void **state)
{
    rig *r = *state;
    sqlite3 *db = hold(r);
    answer a;
    rig_create(r, &a, "s", &persistent);
    assert_int_equal(a.error.reason, BOX_INTERNAL);
    answer_free(&a);
    rig_wait(r, BOX_SECOND);
    assert_int_equal(fake_warden_count(&r->warden), 0);
    assert_int_equal(state_of(r, "s"), BOX_SESSION_ERROR);
    sqlite3_close(db);
    assert_int_equal(create(r, "s", &persistent), BOX_SESSION_RUNNING);
}

/* Deleted while nothing can be written: a full disk, say. */
static void delete_held(rig *r, const char *id)
{
    answer a = {0};
    create(r, id, &persistent);
    sqlite3 *db = hold(r);
    box_session_delete(r->all, "t", id, false, answer_done, &a);
    rig_settle(r);
    assert_int_equal(a.count, 1);
    assert_int_equal(a.error.reason, BOX_NONE);
    answer_free(&a);
    sqlite3_close(db);
}

static void what_could_not_be_forgotten_is_forgotten_later(void **state)
{
    rig *r = *state;
    delete_held(r, "s");
    rig_wait(r, 2 * BOX_LEDGER_RETRY_SECONDS * BOX_SECOND);
    rig_restart(r, true);
    assert_int_equal(state_of(r, "s"), 0);
}

static void or_when_boxd_ends(void **state)
{
    rig *r = *state;
    delete_held(r, "s");
    rig_restart(r, false);
    assert_int_equal(state_of(r, "s"), 0);
}

static void a_damaged_record_is_dropped_and_the_others_come_back(void **state)
{
    rig *r = *state;
    create(r, "bad", &persistent);
    create(r, "good", &persistent);
    run_sql(r, "UPDATE sessions SET record = substr(record, 1, 100) WHERE rowid = 1");
    rig_restart(r, true);
    assert_int_equal(state_of(r, "bad"), 0);
    assert_int_equal(state_of(r, "good"), BOX_SESSION_RUNNING);
    run_sql(r, "INSERT INTO meta SELECT 'left', count(*) FROM sessions");
    run_sql(r, "CREATE TABLE check_it (n CHECK (n = 1)); INSERT INTO check_it"
               " SELECT value FROM meta WHERE key = 'left'");
}

static void sessions_of_a_tenant_that_is_gone_are_forgotten(void **state)
{
    rig *r = *state;
    create(r, "s", &persistent);
    run_sql(r, "UPDATE tenants SET disabled = 1");
    rig_restart(r, true);
    assert_int_equal(state_of(r, "s"), 0);
    run_sql(r, "UPDATE tenants SET disabled = 0");
    rig_restart(r, true);
    assert_int_equal(state_of(r, "s"), 0);
}

static void a_run_of_its_own_cannot_be_persistent(void **state)
{
    rig *r = *state;
    outcome o = {0};
    box_exec_request request = {.spec = &persistent};
    rig_start(r, &o, "", "echo x", &request, NULL);
    rig_settle(r);
    assert_int_equal(o.error.reason, BOX_VALIDATION);
    assert_non_null(box_error_get(&o.error, "field:spec.persistent"));
    outcome_free(&o);
}

static void without_a_store_nothing_is_persistent(void **state)
{
    (void)state;
    rig r;
    answer a;
    rig_init(&r, NULL);
    rig_create(&r, &a, "s", &persistent);
    assert_int_equal(a.error.reason, BOX_GUARANTEE_UNSUPPORTED);
    assert_string_equal(box_error_get(&a.error, "guarantees"), "persistent");
    answer_free(&a);
    rig_done(&r);
}

/* --- records ---------------------------------------------------------------------------------- */

/* Reads a record of that many bytes into a fresh session; its reason. */
static box_reason unpack(rig *r, const box_buf *record, size_t len)
{
    box_uid uid = box_uid_new();
    box_error err = {0};
    box_session *s = box_session_new(r->all, box_loop_current(), &uid, "t", NULL);
    /* Copied to its exact size, so that reading on is seen. */
    uint8_t *copy = box_alloc(len + 1);
    memcpy(copy, box_buf_data(record), len);
    uint8_t *exact = len > 0 ? realloc(copy, len) : copy;
    int rc = box_stored_unpack((box_bytes){exact, len}, s, &err);
    assert_int_equal(rc == 0, err.reason == BOX_NONE);
    box_session_unref(s);
    free(exact);
    return err.reason;
}

static void a_record_cut_or_changed_anywhere_is_refused_or_whole(void **state)
{
    rig *r = *state;
    box_label labels[] = {pair("a", "1")};
    box_label env[] = {pair("K", "V"), pair("L", "W")};
    box_spec spec = persistent;
    spec.set |= BOX_SPEC_LABELS | BOX_SPEC_ENV;
    spec.labels = labels;
    spec.n_labels = 1;
    spec.env = env;
    spec.n_env = 2;
    char *tools[] = {(char *)(uintptr_t) "exec"};
    box_tool_setting setting = {tools[0], tools[0], 7};
    spec.set |= BOX_SPEC_TOOLS;
    spec.tools =
        (box_tool_choice){.names = tools, .n_names = 1, .settings = &setting, .n_settings = 1};
    create(r, "s", &spec);
    box_session *s = NULL;
    box_error err;
    box_buf record = {0};
    assert_int_equal(box_sessions_find(r->all, "t", "s", &s, &err), 0);
    assert_int_equal(box_stored_pack(s, &record, &err), 0);
    box_session_unref(s);
    size_t len = box_buf_len(&record);
    assert_int_equal(unpack(r, &record, len), BOX_NONE);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(unpack(r, &record, i), BOX_PROTOCOL);
    uint8_t *bytes = (uint8_t *)(uintptr_t)box_buf_data(&record);
    for (size_t i = 4; i < len; i++) { /* whatever it says then: no crash, nothing lost */
        bytes[i] ^= 0xff;
        (void)unpack(r, &record, len);
        bytes[i] ^= 0xff;
    }
    bytes[0]++;
    assert_int_equal(unpack(r, &record, len), BOX_VERSION_MISMATCH);
    box_buf_done(&record);
}

static void a_record_of_before_there_were_tools_has_all_of_them(void **state)
{
    rig *r = *state;
    enum { TOOLS_BYTES = 1 + 4 + 4 };
    create(r, "s", &persistent);
    box_session *s = NULL;
    box_error err = {0};
    box_buf record = {0};
    assert_int_equal(box_sessions_find(r->all, "t", "s", &s, &err), 0);
    assert_int_equal(box_stored_pack(s, &record, &err), 0);
    box_session_unref(s);
    uint8_t *bytes = (uint8_t *)(uintptr_t)box_buf_data(&record);
    size_t len = box_buf_len(&record) - TOOLS_BYTES;
    bytes[0] = 1;
    assert_int_equal(unpack(r, &record, len + TOOLS_BYTES), BOX_PROTOCOL);
    box_uid uid = box_uid_new();
    s = box_session_new(r->all, box_loop_current(), &uid, "t", NULL);
    assert_int_equal(box_stored_unpack((box_bytes){bytes, len}, s, &err), 0);
    assert_true(s->spec.tools.all);
    box_session_unref(s);
    box_buf_done(&record);
}

typedef struct heard {
    unsigned count;
    unsigned failed;
    unsigned order[600];
} heard;

typedef struct note {
    heard *to;
    unsigned number;
} note;

static void hear(void *arg, const box_error *err)
{
    note *n = arg;
    n->to->order[n->to->count++] = n->number;
    n->to->failed += err != NULL;
}

static void the_ledger_writes_all_in_order_and_says_what_failed(void **state)
{
    rig *r = *state;
    enum { N = 600 }; /* more than two batches */
    static note notes[N];
    heard h = {0};
    box_ledger *l = box_ledger_new(r->store);
    for (unsigned i = 0; i < N; i++) {
        box_uid uid = {.bytes = {(uint8_t)(i % 7), 1}}; /* few: each is put again and again */
        notes[i] = (note){&h, i};
        box_ledger_entry *e = box_ledger_entry_new(BOX_SESSION_PUT, &uid, hear, &notes[i]);
        e->tenant = box_strdup("t");
        e->change.execs = i;
        box_ledger_add(l, e);
    }
    rig_settle(r);
    assert_int_equal(h.count, N);
    assert_int_equal(h.failed, 0);
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(h.order[i], i);
    run_sql(r, "CREATE TABLE check_it (n CHECK (n = 4172)); INSERT INTO check_it"
               " SELECT sum(execs) FROM sessions"); /* 593 to 599: the last of each */
    sqlite3 *db = hold(r);
    h = (heard){0};
    for (unsigned i = 0; i < 3; i++) {
        box_uid uid = {.bytes = {(uint8_t)i, 1}};
        box_ledger_add(l, box_ledger_entry_new(BOX_SESSION_FORGET, &uid, hear, &notes[i]));
    }
    rig_settle(r);
    assert_int_equal(h.count, 3);
    assert_int_equal(h.failed, 3);
    sqlite3_close(db);
    run_sql(r, "DELETE FROM sessions");
    box_ledger_free(l);
}

static void what_waits_when_the_workers_have_ended_is_written_all_the_same(void **state)
{
    rig *r = *state;
    enum { N = 600 };
    static note notes[N];
    heard h = {0};
    box_ledger *l = box_ledger_new(r->store);
    for (unsigned i = 0; i < N; i++) {
        box_uid uid = {.bytes = {(uint8_t)i, (uint8_t)(i >> 8), 2}};
        notes[i] = (note){&h, i};
        box_ledger_entry *e = box_ledger_entry_new(BOX_SESSION_PUT, &uid, hear, &notes[i]);
        e->tenant = box_strdup("t");
        box_ledger_add(l, e); /* the first begins a batch: the worker has that one still */
        fake_workers_stop(box_loop_current(), true);
    }
    rig_settle(r);
    fake_workers_stop(box_loop_current(), false);
    assert_int_equal(h.count, N);
    assert_int_equal(h.failed, 0);
    run_sql(r, "CREATE TABLE check_it (n CHECK (n = 600)); INSERT INTO check_it"
               " SELECT count(*) FROM sessions");
    run_sql(r, "DELETE FROM sessions");
    box_ledger_free(l);
}

static void a_use_that_could_not_be_written_is_written_later(void **state)
{
    rig *r = *state;
    box_spec idle = {.set = BOX_SPEC_PERSISTENT | BOX_SPEC_IDLE_TTL,
                     .persistent = true,
                     .idle_ttl_ns = 300 * BOX_SECOND};
    create(r, "s", &idle);
    rig_wait(r, 200 * BOX_SECOND);
    create(r, "s", &idle); /* used */
    sqlite3 *db = hold(r);
    rig_wait(r, BOX_SECOND);
    sqlite3_close(db);
    rig_wait(r, 12 * BOX_SECOND);
    rig_restart(r, true);
    rig_wait(r, 200 * BOX_SECOND);
    assert_int_equal(state_of(r, "s"), BOX_SESSION_RUNNING);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, rig_tear_down)

enum { BIG_VARIABLES = 8, BIG_BYTES = 100 * 1024 };

/* Records of 800 KiB that wait for the disk are the session's memory. */
static void changes_that_wait_are_charged_to_their_session(void **state)
{
    (void)state;
    enum { UPDATES = 20 };
    box_budget budget = {.max_bytes = 8 * 1024 * 1024};
    box_sessions_config config = {.budget = &budget};
    BOX_AUTO(box_freep) char *value = box_alloc(BIG_BYTES + 1);
    memset(value, 'v', BIG_BYTES);
    box_label env[BIG_VARIABLES];
    char names[BIG_VARIABLES][4];
    for (int i = 0; i < BIG_VARIABLES; i++) {
        (void)snprintf(names[i], sizeof names[i], "V%d", i);
        env[i] = pair(names[i], value);
    }
    box_spec spec = {.set = BOX_SPEC_PERSISTENT | BOX_SPEC_ENV,
                     .persistent = true,
                     .env = env,
                     .n_env = BIG_VARIABLES};
    rig r;
    rig_init_stored(&r, &config);
    assert_int_equal(create(&r, "s", &spec), BOX_SESSION_RUNNING);
    size_t idle_bytes = atomic_load(&budget.used);
    answer answers[UPDATES] = {0};
    const box_spec change = {.set = BOX_SPEC_MAX_PARALLEL_EXECS, .max_parallel_execs = 2};
    for (int i = 0; i < UPDATES; i++)
        box_session_update(r.all, "t", "s", &change, BOX_SPEC_MAX_PARALLEL_EXECS, answer_done,
                           &answers[i]);
    rig_settle(&r);
    int refused = 0;
    for (int i = 0; i < UPDATES; i++) {
        assert_int_equal(answers[i].count, 1);
        refused += answers[i].error.reason == BOX_MEMORY_BUDGET;
        answer_free(&answers[i]);
    }
    assert_in_range(refused, 1, UPDATES - 1);
    assert_int_equal(atomic_load(&budget.used), idle_bytes);
    rig_done(&r);
    assert_int_equal(atomic_load(&budget.used), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_persistent_session_is_as_it_was_after_a_kill),
        TEST(it_survives_a_drain_and_others_do_not),
        TEST(a_drain_waits_until_nothing_runs_in_it),
        TEST(only_it_is_kept_at_the_warden),
        TEST(a_sandbox_that_died_meanwhile_is_lost_and_rebuilt),
        TEST(one_whose_agent_is_gone_at_the_start_is_lost),
        TEST(commands_of_an_earlier_boxd_are_killed_and_never_confused),
        TEST(an_agent_cannot_make_up_commands_of_this_boxd),
        TEST(its_times_go_on),
        TEST(one_that_is_overdue_ends_at_once),
        TEST(changes_that_were_answered_survive),
        TEST(what_was_stopped_or_deleted_does_not_come_back),
        TEST(what_cannot_be_written_down_is_not_made),
        TEST(what_could_not_be_forgotten_is_forgotten_later),
        TEST(or_when_boxd_ends),
        TEST(a_damaged_record_is_dropped_and_the_others_come_back),
        TEST(sessions_of_a_tenant_that_is_gone_are_forgotten),
        TEST(a_run_of_its_own_cannot_be_persistent),
        cmocka_unit_test(without_a_store_nothing_is_persistent),
        TEST(a_record_cut_or_changed_anywhere_is_refused_or_whole),
        TEST(a_record_of_before_there_were_tools_has_all_of_them),
        TEST(what_waits_when_the_workers_have_ended_is_written_all_the_same),
        TEST(a_use_that_could_not_be_written_is_written_later),
        TEST(the_ledger_writes_all_in_order_and_says_what_failed),
        cmocka_unit_test(changes_that_wait_are_charged_to_their_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
