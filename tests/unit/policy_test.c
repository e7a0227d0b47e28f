#include "policy/policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "policy/token.h"
#include "temp_dir.h"

#define EXEC   "/box.v1.ExecService/Exec"
#define WHOAMI "/box.v1.ControlService/WhoAmI"
#define HEALTH "/grpc.health.v1.Health/Check"
#define INIT   "/box.v1.ControlService/Initialize"

/* The tests' clocks: policy is given functions without an argument. */
static int64_t wall;
static box_time monotonic;

static int64_t fake_wall(void)
{
    return wall;
}

static box_time fake_now(void)
{
    return monotonic;
}

typedef struct fixture {
    temp_dir dir;
    char path[48];
    box_store *store;
    box_policy *policy;
    box_policy_config config;
    int revoked; /* calls of the hook */
    char admin[BOX_TOKEN_SECRET_LEN + 1];
} fixture;

static void revoked_hook(void *arg)
{
    ((fixture *)arg)->revoked++;
}

static void renew(fixture *f)
{
    box_error err = {0};
    box_policy_free(f->policy);
    f->policy = NULL;
    assert_int_equal(box_policy_new(&f->config, &f->policy, &err), 0);
}

static void read_admin_token(fixture *f, char *out)
{
    int fd = openat(box_store_dirfd(f->store), BOX_ADMIN_TOKEN_FILE, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    char line[BOX_TOKEN_SECRET_LEN + 2];
    assert_int_equal(read(fd, line, sizeof line), BOX_TOKEN_SECRET_LEN + 1);
    assert_int_equal(line[BOX_TOKEN_SECRET_LEN], '\n');
    line[BOX_TOKEN_SECRET_LEN] = '\0';
    memcpy(out, line, BOX_TOKEN_SECRET_LEN + 1);
    (void)close(fd);
}

static int setup(void **state)
{
    static fixture f;
    box_error err = {0};
    bool made = false;
    f = (fixture){0};
    wall = 1700000000 * INT64_C(1000000000);
    monotonic = 100 * BOX_SECOND;
    temp_dir_new(&f.dir);
    (void)snprintf(f.path, sizeof f.path, "%s/state", f.dir.path);
    assert_int_equal(box_store_open(f.path, &f.store, &err), 0);
    assert_int_equal(box_policy_first_start(f.store, wall, &made, &err), 0);
    assert_true(made);
    read_admin_token(&f, f.admin);
    f.config = (box_policy_config){.store = f.store,
                                   .own_uid = 4242,
                                   .auth_failures = 3,
                                   .max_tenants = 10,
                                   .max_tokens_per_tenant = 10,
                                   .now = fake_now,
                                   .wall_ns = fake_wall,
                                   .revoked = revoked_hook,
                                   .revoked_arg = &f};
    renew(&f);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    box_policy_free(f->policy);
    box_store_close(f->store);
    temp_dir_remove_path(f->path);
    temp_dir_remove(&f->dir);
    return 0;
}

typedef struct ask {
    const char *path;
    const char *token;         /* sent as Bearer */
    const char *authorization; /* instead, as it is */
    const char *tenant;        /* box-tenant */
    box_peer peer;
} ask;

static void add(box_metadata *md, const char *key, const char *value)
{
    box_error err = {0};
    if (value != NULL)
        assert_int_equal(box_metadata_add_text(md, key, value, &err), 0);
}

/* The reason, NONE when admitted; the identity is copied to *who. */
static box_reason decide(fixture *f, const ask *a, box_identity *who, box_error *err)
{
    box_metadata md = {0};
    char header[128];
    const void *identity = NULL;
    box_peer peer = a->peer;
    if (peer.address == NULL)
        peer.address = "192.0.2.1:40000";
    if (a->token != NULL) {
        (void)snprintf(header, sizeof header, "Bearer %s", a->token);
        add(&md, "authorization", header);
    }
    add(&md, "authorization", a->authorization);
    add(&md, "box-tenant", a->tenant);
    box_admit admit = box_policy_admit(f->policy);
    *err = (box_error){0};
    int rc = admit.admit(admit.arg, &peer, a->path, &md, &identity, err);
    assert_int_equal(rc == 0, err->reason == BOX_NONE);
    if (identity != NULL) {
        *who = *(const box_identity *)identity;
        admit.release(admit.arg, identity);
    }
    box_metadata_done(&md);
    return err->reason;
}

static box_reason reason_of(fixture *f, ask a)
{
    box_identity who;
    box_error err;
    return decide(f, &a, &who, &err);
}

/* A token of that tenant, which is made when it is not there. */
static uint64_t make_token(fixture *f, const char *tenant, uint32_t scopes, int64_t expires_ns,
                           char secret[BOX_TOKEN_SECRET_LEN + 1])
{
    box_error err = {0};
    box_tenant t = {0};
    box_token k = {.scopes = scopes, .expires_ns = expires_ns};
    (void)snprintf(t.id, sizeof t.id, "%s", tenant);
    (void)snprintf(k.tenant, sizeof k.tenant, "%s", tenant);
    if (strcmp(tenant, BOX_DEFAULT_TENANT) != 0) {
        int rc = box_policy_tenant_create(f->policy, &t, &err);
        assert_true(rc == 0 || err.reason == BOX_TENANT_EXISTS);
    }
    assert_int_equal(box_policy_token_create(f->policy, &k, secret, &err), 0);
    return k.id;
}

static void set_disabled(fixture *f, const char *tenant, bool disabled)
{
    box_error err = {0};
    box_tenant changes = {.disabled = disabled};
    box_tenant out = {0};
    (void)snprintf(changes.id, sizeof changes.id, "%s", tenant);
    assert_int_equal(
        box_policy_tenant_update(f->policy, &changes, BOX_TENANT_SET_DISABLED, &out, &err), 0);
    assert_int_equal(out.disabled, disabled);
    box_tenant_done(&out);
}

static void the_first_start_writes_one_private_admin_token(void **state)
{
    fixture *f = *state;
    struct stat st;
    bool made = true;
    box_error err = {0};
    char again[BOX_TOKEN_SECRET_LEN + 1];
    assert_int_equal(fstatat(box_store_dirfd(f->store), BOX_ADMIN_TOKEN_FILE, &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(box_policy_first_start(f->store, wall, &made, &err), 0);
    assert_false(made);
    read_admin_token(f, again);
    assert_string_equal(again, f->admin);
    box_identity who;
    ask a = {.path = EXEC, .token = f->admin};
    assert_int_equal(decide(f, &a, &who, &err), BOX_NONE);
    assert_string_equal(who.tenant, "default");
    assert_int_equal(who.scopes, BOX_ALL_SCOPES);
    assert_false(who.by_peer);
    assert_true(who.token_id != 0);
}

static void the_secret_is_nowhere_in_the_database(void **state)
{
    fixture *f = *state;
    static const char *const files[] = {"box.db", "box.db-wal"};
    for (size_t i = 0; i < 2; i++) {
        int fd = openat(box_store_dirfd(f->store), files[i], O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        box_buf text = {0};
        box_error err;
        assert_int_equal(box_buf_read_fd(&text, fd, &err), 0);
        if (box_buf_len(&text) > 0)
            assert_null(memmem(box_buf_data(&text), box_buf_len(&text), f->admin + 12, 35));
        box_buf_done(&text);
        (void)close(fd);
    }
}

static void without_a_right_token_nobody_comes_in(void **state)
{
    fixture *f = *state;
    char wrong[BOX_TOKEN_SECRET_LEN + 1];
    memcpy(wrong, f->admin, sizeof wrong);
    wrong[20] = wrong[20] == 'A' ? 'B' : 'A';
    f->config.auth_failures = 100;
    renew(f);
    assert_int_equal(reason_of(f, (ask){.path = EXEC}), BOX_UNAUTHENTICATED);
    assert_int_equal(reason_of(f, (ask){.path = EXEC, .token = wrong}), BOX_UNAUTHENTICATED);
    assert_int_equal(reason_of(f, (ask){.path = EXEC, .token = "x"}), BOX_UNAUTHENTICATED);
    assert_int_equal(reason_of(f, (ask){.path = EXEC, .authorization = f->admin}),
                     BOX_UNAUTHENTICATED);
    assert_int_equal(reason_of(f, (ask){.path = EXEC, .authorization = "Basic Ym94OmJveA=="}),
                     BOX_UNAUTHENTICATED);
    assert_int_equal(reason_of(f, (ask){.path = WHOAMI}), BOX_UNAUTHENTICATED);
    /* Two, even when one is right. */
    assert_int_equal(
        reason_of(f, (ask){.path = EXEC, .token = f->admin, .authorization = "Bearer x"}),
        BOX_UNAUTHENTICATED);
}

static void health_is_open_and_reflection_is_not(void **state)
{
    fixture *f = *state;
    static const char reflection[] = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    assert_int_equal(reason_of(f, (ask){.path = HEALTH}), BOX_NONE);
    assert_int_equal(reason_of(f, (ask){.path = reflection}), BOX_UNAUTHENTICATED);
    assert_int_equal(reason_of(f, (ask){.path = reflection, .token = f->admin}), BOX_NONE);
}

static void health_may_be_closed(void **state)
{
    fixture *f = *state;
    f->config.health_needs_token = true;
    renew(f);
    assert_int_equal(reason_of(f, (ask){.path = HEALTH}), BOX_UNAUTHENTICATED);
    assert_int_equal(reason_of(f, (ask){.path = HEALTH, .token = f->admin}), BOX_NONE);
}

static void a_method_without_a_rule_is_for_nobody(void **state)
{
    fixture *f = *state;
    assert_int_equal(reason_of(f, (ask){.path = "/box.v1.X/Y", .token = f->admin}), BOX_PERMISSION);
    assert_int_equal(reason_of(f, (ask){.path = "/box.v1.X/Y"}), BOX_UNAUTHENTICATED);
}

static void root_and_boxds_own_user_need_no_token_on_a_unix_socket(void **state)
{
    fixture *f = *state;
    box_identity who = {0};
    box_error err;
    static const uint32_t uids[] = {0, 4242};
    for (size_t i = 0; i < 2; i++) {
        ask a = {.path = EXEC, .peer = {.is_unix = true, .uid = uids[i], .address = "unix"}};
        assert_int_equal(decide(f, &a, &who, &err), BOX_NONE);
        assert_string_equal(who.tenant, "default");
        assert_int_equal(who.scopes, BOX_ALL_SCOPES);
        assert_true(who.by_peer);
        assert_int_equal(who.token_id, 0);
    }
    ask other = {.path = EXEC, .peer = {.is_unix = true, .uid = 1000, .address = "unix"}};
    assert_int_equal(decide(f, &other, &who, &err), BOX_UNAUTHENTICATED);
    assert_non_null(strstr(err.msg, "uid 1000 needs a token"));
    /* uid is only meaningful on Unix sockets. */
    assert_int_equal(
        reason_of(f, (ask){.path = EXEC, .peer = {.uid = 0, .address = "127.0.0.1:1"}}),
        BOX_UNAUTHENTICATED);
}

static void a_token_that_is_sent_decides_on_unix_sockets_too(void **state)
{
    fixture *f = *state;
    char secret[BOX_TOKEN_SECRET_LEN + 1];
    box_identity who = {0};
    box_error err;
    (void)make_token(f, "acme", BOX_SCOPE_EXEC_WRITE, 0, secret);
    box_peer root = {.is_unix = true, .uid = 0, .address = "unix"};
    ask a = {.path = EXEC, .token = secret, .peer = root};
    assert_int_equal(decide(f, &a, &who, &err), BOX_NONE);
    assert_string_equal(who.tenant, "acme");
    assert_false(who.by_peer);
    assert_int_equal(reason_of(f, (ask){.path = EXEC, .token = "wrong", .peer = root}),
                     BOX_UNAUTHENTICATED);
}

static void authentication_off_is_for_this_host_only(void **state)
{
    fixture *f = *state;
    f->config.auth_off = true;
    f->config.auth_failures = 100;
    renew(f);
    assert_int_equal(reason_of(f, (ask){.path = EXEC, .peer = {.address = "127.0.0.1:5"}}),
                     BOX_NONE);
    assert_int_equal(reason_of(f, (ask){.path = EXEC, .peer = {.address = "[::1]:5"}}), BOX_NONE);
    assert_int_equal(
        reason_of(f, (ask){.path = EXEC, .peer = {.is_unix = true, .uid = 1, .address = "unix"}}),
        BOX_NONE);
    assert_int_equal(reason_of(f, (ask){.path = EXEC, .peer = {.address = "192.0.2.7:5"}}),
                     BOX_UNAUTHENTICATED);
}

static void a_method_needs_its_scope(void **state)
{
    fixture *f = *state;
    char secret[BOX_TOKEN_SECRET_LEN + 1];
    box_identity who;
    box_error err;
    (void)make_token(f, "acme", BOX_SCOPE_SESSION_READ, 0, secret);
    ask a = {.path = EXEC, .token = secret};
    assert_int_equal(decide(f, &a, &who, &err), BOX_PERMISSION);
    assert_string_equal(box_error_get(&err, "rule"), "scope");
    assert_string_equal(box_error_get(&err, "scope"), "exec.write");
    assert_int_equal(reason_of(f, (ask){.path = WHOAMI, .token = secret}), BOX_NONE);
    assert_int_equal(
        reason_of(f, (ask){.path = "/box.v1.SessionService/GetSession", .token = secret}),
        BOX_NONE);
}

static void a_token_ends_at_its_time(void **state)
{
    fixture *f = *state;
    char secret[BOX_TOKEN_SECRET_LEN + 1];
    box_identity who = {0};
    box_error err;
    (void)make_token(f, "acme", BOX_SCOPE_EXEC_WRITE, wall + 10, secret);
    ask a = {.path = EXEC, .token = secret};
    assert_int_equal(decide(f, &a, &who, &err), BOX_NONE);
    wall += 9;
    assert_int_equal(box_policy_check(f->policy, &who, &err), 0);
    wall += 1;
    assert_int_equal(reason_of(f, a), BOX_UNAUTHENTICATED);
    assert_int_equal(box_policy_check(f->policy, &who, &err), -1);
    assert_int_equal(err.reason, BOX_UNAUTHENTICATED);
}

static void a_revoked_token_ends_at_once_open_calls_included(void **state)
{
    fixture *f = *state;
    char secret[BOX_TOKEN_SECRET_LEN + 1];
    box_identity who = {0};
    box_error err;
    box_token out;
    uint64_t id = make_token(f, "acme", BOX_SCOPE_EXEC_WRITE, 0, secret);
    ask a = {.path = EXEC, .token = secret};
    assert_int_equal(decide(f, &a, &who, &err), BOX_NONE);
    assert_int_equal(f->revoked, 0);
    assert_int_equal(box_policy_token_revoke(f->policy, id, NULL, &out, &err), 0);
    assert_int_equal(out.revoked_ns, wall);
    assert_int_equal(f->revoked, 1);
    assert_int_equal(reason_of(f, a), BOX_UNAUTHENTICATED);
    assert_int_equal(box_policy_check(f->policy, &who, &err), -1);
    /* Again is no error, and a new start knows it too. */
    assert_int_equal(box_policy_token_revoke(f->policy, id, "acme", &out, &err), 0);
    renew(f);
    assert_int_equal(reason_of(f, a), BOX_UNAUTHENTICATED);
}

static void another_tenants_token_answers_like_none(void **state)
{
    fixture *f = *state;
    char secret[BOX_TOKEN_SECRET_LEN + 1];
    box_error theirs;
    box_error none;
    box_token out;
    uint64_t id = make_token(f, "acme", BOX_SCOPE_EXEC_WRITE, 0, secret);
    assert_int_equal(box_policy_token_revoke(f->policy, id, "other", &out, &theirs), -1);
    assert_int_equal(box_policy_token_revoke(f->policy, id ^ 1, "other", &out, &none), -1);
    assert_int_equal(theirs.reason, BOX_TOKEN_NOT_FOUND);
    assert_int_equal(none.reason, theirs.reason);
    assert_int_equal(theirs.detail_len, none.detail_len);
    assert_int_equal(reason_of(f, (ask){.path = EXEC, .token = secret}), BOX_NONE);
}

static void tokens_survive_a_restart(void **state)
{
    fixture *f = *state;
    char secret[BOX_TOKEN_SECRET_LEN + 1];
    (void)make_token(f, "acme", BOX_SCOPE_EXEC_WRITE, 0, secret);
    renew(f);
    assert_int_equal(reason_of(f, (ask){.path = EXEC, .token = secret}), BOX_NONE);
}

static void a_disabled_tenant_is_refused_until_it_is_enabled(void **state)
{
    fixture *f = *state;
    char secret[BOX_TOKEN_SECRET_LEN + 1];
    box_identity who = {0};
    box_error err;
    (void)make_token(f, "acme", BOX_SCOPE_EXEC_WRITE, 0, secret);
    ask a = {.path = EXEC, .token = secret};
    assert_int_equal(decide(f, &a, &who, &err), BOX_NONE);
    set_disabled(f, "acme", true);
    assert_int_equal(f->revoked, 1);
    assert_int_equal(box_policy_check(f->policy, &who, &err), -1);
    assert_int_equal(decide(f, &a, &who, &err), BOX_PERMISSION);
    assert_string_equal(box_error_get(&err, "rule"), "tenant.disabled");
    renew(f);
    assert_int_equal(reason_of(f, a), BOX_PERMISSION);
    set_disabled(f, "acme", false);
    assert_int_equal(reason_of(f, a), BOX_NONE);
}

static void a_deleted_tenants_tokens_are_gone(void **state)
{
    fixture *f = *state;
    char secret[BOX_TOKEN_SECRET_LEN + 1];
    bool deleted = false;
    box_identity who = {0};
    box_error err;
    (void)make_token(f, "acme", BOX_SCOPE_EXEC_WRITE, 0, secret);
    ask a = {.path = EXEC, .token = secret};
    assert_int_equal(decide(f, &a, &who, &err), BOX_NONE);
    assert_int_equal(box_policy_tenant_delete(f->policy, "acme", &deleted, &err), 0);
    assert_true(deleted);
    assert_int_equal(reason_of(f, a), BOX_UNAUTHENTICATED);
    assert_int_equal(box_policy_check(f->policy, &who, &err), -1);
    /* A new tenant of that name does not revive the old tokens. */
    (void)make_token(f, "acme", BOX_SCOPE_EXEC_WRITE, 0, (char[BOX_TOKEN_SECRET_LEN + 1]){0});
    assert_int_equal(reason_of(f, a), BOX_UNAUTHENTICATED);
}

static void only_with_tenants_act_one_acts_as_another_tenant(void **state)
{
    fixture *f = *state;
    char plain[BOX_TOKEN_SECRET_LEN + 1], acting[BOX_TOKEN_SECRET_LEN + 1];
    box_identity who = {0};
    box_error theirs, none, err;
    (void)make_token(f, "acme", BOX_SCOPE_EXEC_WRITE, 0, plain);
    (void)make_token(f, "ops", BOX_SCOPE_EXEC_WRITE | BOX_SCOPE_TENANTS_ACT, 0, acting);
    ask own = {.path = EXEC, .token = plain, .tenant = "acme"};
    ask other = {.path = EXEC, .token = plain, .tenant = "ops"};
    ask missing = {.path = EXEC, .token = plain, .tenant = "spo"};
    ask as = {.path = EXEC, .token = acting, .tenant = "acme"};
    ask as_none = {.path = EXEC, .token = acting, .tenant = "nobody"};
    assert_int_equal(reason_of(f, own), BOX_NONE);
    assert_int_equal(decide(f, &other, &who, &theirs), BOX_TENANT_NOT_FOUND);
    assert_int_equal(decide(f, &missing, &who, &none), BOX_TENANT_NOT_FOUND);
    assert_int_equal(theirs.detail_len, none.detail_len);
    assert_int_equal(decide(f, &as, &who, &err), BOX_NONE);
    assert_string_equal(who.tenant, "acme");
    assert_int_equal(reason_of(f, as_none), BOX_TENANT_NOT_FOUND);
    set_disabled(f, "acme", true);
    assert_int_equal(reason_of(f, as), BOX_PERMISSION);
    set_disabled(f, "acme", false);
    set_disabled(f, "ops", true); /* its own: what it began as another ends too */
    assert_int_equal(box_policy_check(f->policy, &who, &err), -1);
}

static void too_many_failures_are_told_to_wait_but_right_tokens_pass(void **state)
{
    fixture *f = *state;
    box_identity who;
    box_error err;
    ask bad = {.path = EXEC, .token = "wrong"};
    for (int i = 0; i < 3; i++)
        assert_int_equal(reason_of(f, bad), BOX_UNAUTHENTICATED);
    assert_int_equal(decide(f, &bad, &who, &err), BOX_RATE_LIMIT);
    assert_int_equal(err.retry_ms, 60001);
    assert_int_equal(reason_of(f, (ask){.path = EXEC, .token = f->admin}), BOX_NONE);
    bad.peer.address = "192.0.2.2:40000";
    assert_int_equal(reason_of(f, bad), BOX_UNAUTHENTICATED);
    monotonic += 61 * BOX_SECOND;
    bad.peer.address = NULL;
    assert_int_equal(reason_of(f, bad), BOX_UNAUTHENTICATED);
}

static void where_initialize_is_required_tenants_wait_for_it(void **state)
{
    fixture *f = *state;
    f->config.require_init = true;
    renew(f);
    assert_int_equal(reason_of(f, (ask){.path = EXEC, .token = f->admin}), BOX_INIT_REQUIRED);
    assert_int_equal(reason_of(f, (ask){.path = WHOAMI, .token = f->admin}), BOX_NONE);
    assert_int_equal(reason_of(f, (ask){.path = INIT, .token = f->admin}), BOX_NONE);
    assert_int_equal(reason_of(f, (ask){.path = HEALTH}), BOX_NONE);
    box_policy_set_initialized(f->policy);
    assert_int_equal(reason_of(f, (ask){.path = EXEC, .token = f->admin}), BOX_NONE);
}

static void a_disabled_box_still_lets_sessions_be_looked_at(void **state)
{
    fixture *f = *state;
    box_policy_set_box_disabled(f->policy, true);
    assert_int_equal(reason_of(f, (ask){.path = EXEC, .token = f->admin}), BOX_BOX_DISABLED);
    assert_int_equal(
        reason_of(f, (ask){.path = "/box.v1.SessionService/DeleteSession", .token = f->admin}),
        BOX_NONE);
    box_policy_set_box_disabled(f->policy, false);
    assert_int_equal(reason_of(f, (ask){.path = EXEC, .token = f->admin}), BOX_NONE);
}

static void a_draining_server_takes_only_health_checks(void **state)
{
    fixture *f = *state;
    box_policy_set_draining(f->policy);
    assert_int_equal(reason_of(f, (ask){.path = WHOAMI, .token = f->admin}), BOX_SHUTTING_DOWN);
    assert_int_equal(reason_of(f, (ask){.path = HEALTH}), BOX_NONE);
}

static void the_last_use_is_kept_to_the_minute(void **state)
{
    fixture *f = *state;
    char secret[BOX_TOKEN_SECRET_LEN + 1];
    box_error err = {0};
    box_token out;
    uint64_t id = make_token(f, "acme", BOX_SCOPE_EXEC_WRITE, 0, secret);
    assert_true(box_policy_token(f->policy, id, &out));
    assert_int_equal(out.used_ns, 0);
    wall = 90 * (int64_t)BOX_SECOND + 1700000040 * INT64_C(1000000000);
    assert_int_equal(reason_of(f, (ask){.path = EXEC, .token = secret}), BOX_NONE);
    assert_true(box_policy_token(f->policy, id, &out));
    assert_int_equal(out.used_ns, 1700000100 * INT64_C(1000000000));
    assert_int_equal(box_store_token_get(f->store, id, &out, &err), 0);
    assert_int_equal(out.used_ns, 0);
    assert_int_equal(box_policy_flush(f->policy, &err), 0);
    assert_int_equal(box_store_token_get(f->store, id, &out, &err), 0);
    assert_int_equal(out.used_ns, 1700000100 * INT64_C(1000000000));
}

static void a_failed_change_changes_nothing(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    char secret[BOX_TOKEN_SECRET_LEN + 1];
    box_token k = {.scopes = 1, .tenant = "nobody"};
    box_tenant out = {0};
    box_tenant changes = {.id = "nobody"};
    bool deleted = true;
    assert_int_equal(box_policy_token_create(f->policy, &k, secret, &err), -1);
    assert_int_equal(err.reason, BOX_TENANT_NOT_FOUND);
    assert_int_equal(reason_of(f, (ask){.path = WHOAMI, .token = secret}), BOX_UNAUTHENTICATED);
    assert_int_equal(box_policy_tenant_update(f->policy, &changes, 7, &out, &err), -1);
    assert_int_equal(err.reason, BOX_TENANT_NOT_FOUND);
    assert_int_equal(box_policy_tenant_delete(f->policy, "nobody", &deleted, &err), 0);
    assert_false(deleted);
    assert_int_equal(f->revoked, 0);
    assert_int_equal(box_policy_tenant_count(f->policy), 1);
}

static void no_identity_needs_no_check(void **state)
{
    fixture *f = *state;
    box_error err;
    assert_int_equal(box_policy_check(f->policy, NULL, &err), 0);
}

#define WITH_POLICY(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_POLICY(the_first_start_writes_one_private_admin_token),
        WITH_POLICY(the_secret_is_nowhere_in_the_database),
        WITH_POLICY(without_a_right_token_nobody_comes_in),
        WITH_POLICY(health_is_open_and_reflection_is_not),
        WITH_POLICY(health_may_be_closed),
        WITH_POLICY(a_method_without_a_rule_is_for_nobody),
        WITH_POLICY(root_and_boxds_own_user_need_no_token_on_a_unix_socket),
        WITH_POLICY(a_token_that_is_sent_decides_on_unix_sockets_too),
        WITH_POLICY(authentication_off_is_for_this_host_only),
        WITH_POLICY(a_method_needs_its_scope),
        WITH_POLICY(a_token_ends_at_its_time),
        WITH_POLICY(a_revoked_token_ends_at_once_open_calls_included),
        WITH_POLICY(another_tenants_token_answers_like_none),
        WITH_POLICY(tokens_survive_a_restart),
        WITH_POLICY(a_disabled_tenant_is_refused_until_it_is_enabled),
        WITH_POLICY(a_deleted_tenants_tokens_are_gone),
        WITH_POLICY(only_with_tenants_act_one_acts_as_another_tenant),
        WITH_POLICY(too_many_failures_are_told_to_wait_but_right_tokens_pass),
        WITH_POLICY(where_initialize_is_required_tenants_wait_for_it),
        WITH_POLICY(a_disabled_box_still_lets_sessions_be_looked_at),
        WITH_POLICY(a_draining_server_takes_only_health_checks),
        WITH_POLICY(the_last_use_is_kept_to_the_minute),
        WITH_POLICY(a_failed_change_changes_nothing),
        WITH_POLICY(no_identity_needs_no_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
