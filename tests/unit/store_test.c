#include "store/store.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "temp_dir.h"

enum { MAX = 1000 };

typedef struct fixture {
    temp_dir dir;
    char path[48]; /* the state directory, below dir */
    box_store *store;
} fixture;

static void open_store(fixture *f)
{
    box_error err = {0};
    assert_int_equal(box_store_open(f->path, &f->store, &err), 0);
}

static void reopen(fixture *f)
{
    box_store_close(f->store);
    open_store(f);
}

static int setup(void **state)
{
    static fixture f;
    temp_dir_new(&f.dir);
    (void)snprintf(f.path, sizeof f.path, "%s/state", f.dir.path);
    open_store(&f);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    box_store_close(f->store);
    temp_dir_remove_path(f->path);
    temp_dir_remove(&f->dir);
    return 0;
}

static box_tenant tenant(const char *id, int64_t created)
{
    box_tenant t = {.created_ns = created, .updated_ns = created};
    (void)snprintf(t.id, sizeof t.id, "%s", id);
    return t;
}

static void add_tenant(fixture *f, const char *id, int64_t created)
{
    box_error err = {0};
    box_tenant t = tenant(id, created);
    assert_int_equal(box_store_tenant_create(f->store, &t, MAX, &err), 0);
}

static box_token token(uint64_t id, const char *owner, int64_t created)
{
    box_token t = {.id = id, .created_ns = created, .scopes = 3};
    (void)snprintf(t.tenant, sizeof t.tenant, "%s", owner);
    (void)snprintf(t.prefix, sizeof t.prefix, "box_12345678");
    memcpy(t.hash, &id, sizeof id);
    return t;
}

static void add_token(fixture *f, const box_token *t)
{
    box_error err = {0};
    assert_int_equal(box_store_token_create(f->store, t, MAX, &err), 0);
}

static void the_directory_and_its_files_are_private(void **state)
{
    fixture *f = *state;
    static const char *const names[] = {"box.db", "box.db-wal", "box.db-shm", "lock"};
    struct stat st;
    assert_int_equal(fstat(box_store_dirfd(f->store), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(fstatat(box_store_dirfd(f->store), names[i], &st, 0), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
    }
}

static void a_directory_that_others_can_read_is_refused(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    box_store *other = NULL;
    char path[96];
    (void)snprintf(path, sizeof path, "%s/open", f->dir.path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, 0750), 0);
    assert_int_equal(box_store_open(path, &other, &err), -1);
    assert_int_equal(err.reason, BOX_PERMISSION);
    assert_string_equal(err.msg,
                        "state_dir has mode 0750: others could read keys; chmod it to 0700");
    (void)rmdir(path);
}

static void a_directory_of_another_user_is_refused(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    box_store *other = NULL;
    char path[96];
    if (geteuid() != 0)
        skip(); /* only root can give a directory away */
    (void)snprintf(path, sizeof path, "%s/theirs", f->dir.path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chown(path, 12345, 12345), 0);
    assert_int_equal(box_store_open(path, &other, &err), -1);
    assert_int_equal(err.reason, BOX_PERMISSION);
    (void)rmdir(path);
}

static void a_link_is_no_state_directory(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    box_store *other = NULL;
    char path[96];
    (void)snprintf(path, sizeof path, "%s/link", f->dir.path);
    assert_int_equal(symlink(f->path, path), 0);
    assert_int_equal(box_store_open(path, &other, &err), -1);
    (void)unlink(path);
}

static void a_second_boxd_on_the_same_directory_is_refused(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    box_store *second = NULL;
    assert_int_equal(box_store_open(f->path, &second, &err), -1);
    assert_int_equal(err.reason, BOX_RUNTIME_UNAVAILABLE);
    assert_string_equal(err.msg, "another boxd uses this state_dir");
}

static void the_instance_id_stays(void **state)
{
    fixture *f = *state;
    box_uid none = {{0}};
    box_uid before = box_store_instance(f->store);
    assert_false(box_uid_equal(&before, &none));
    reopen(f);
    box_uid after = box_store_instance(f->store);
    assert_true(box_uid_equal(&before, &after));
}

static void a_database_of_a_newer_boxd_is_refused(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    char path[128];
    sqlite3 *db = NULL;
    box_store_close(f->store);
    f->store = NULL;
    (void)snprintf(path, sizeof path, "%s/box.db", f->path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA user_version = 99", NULL, NULL, NULL), SQLITE_OK);
    (void)sqlite3_close(db);
    assert_int_equal(box_store_open(f->path, &f->store, &err), -1);
    assert_int_equal(err.reason, BOX_VERSION_MISMATCH);
}

static void a_file_that_is_no_database_is_refused(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    box_store_close(f->store);
    f->store = NULL;
    char path[128];
    (void)snprintf(path, sizeof path, "%s/box.db", f->path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 1000; i++)
        (void)fputs("not a database ", file);
    (void)fclose(file);
    assert_int_equal(box_store_open(f->path, &f->store, &err), -1);
    assert_int_equal(err.reason, BOX_INTERNAL);
}

static void a_tenant_is_kept(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    box_tenant t = tenant("acme", 5);
    box_tenant out = {0};
    (void)snprintf(t.display_name, sizeof t.display_name, "Acme; DROP TABLE tenants'");
    box_labels_put(&t.labels, "tier", "gold");
    assert_int_equal(box_store_tenant_create(f->store, &t, MAX, &err), 0);
    reopen(f);
    assert_int_equal(box_store_tenant_get(f->store, "acme", &out, &err), 0);
    assert_string_equal(out.display_name, t.display_name);
    assert_string_equal(box_labels_get(&out.labels, "tier"), "gold");
    assert_false(out.disabled);
    assert_int_equal(out.created_ns, 5);
    box_tenant_done(&t);
    box_tenant_done(&out);
}

static void a_tenant_that_is_not_there_is_told(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    box_tenant out = {0};
    box_tenant t = tenant("nobody", 1);
    assert_int_equal(box_store_tenant_get(f->store, "nobody", &out, &err), -1);
    assert_int_equal(err.reason, BOX_TENANT_NOT_FOUND);
    assert_string_equal(box_error_get(&err, "id"), "nobody");
    assert_int_equal(box_store_tenant_update(f->store, &t, &err), -1);
    assert_int_equal(err.reason, BOX_TENANT_NOT_FOUND);
}

static void two_tenants_of_one_id_are_refused(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    box_tenant t = tenant("acme", 5);
    add_tenant(f, "acme", 1);
    assert_int_equal(box_store_tenant_create(f->store, &t, MAX, &err), -1);
    assert_int_equal(err.reason, BOX_TENANT_EXISTS);
}

static void more_tenants_than_allowed_are_refused(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    box_tenant t = tenant("c", 3);
    add_tenant(f, "a", 1);
    add_tenant(f, "b", 2);
    assert_int_equal(box_store_tenant_create(f->store, &t, 2, &err), -1);
    assert_int_equal(err.reason, BOX_QUOTA);
    assert_string_equal(box_error_get(&err, "max"), "2");
    assert_int_equal(box_store_tenant_create(f->store, &t, 3, &err), 0);
}

static void an_update_changes_what_it_names_only(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    box_tenant out = {0};
    add_tenant(f, "a", 7);
    add_tenant(f, "b", 8);
    box_tenant t = tenant("a", 99);
    t.disabled = true;
    t.updated_ns = 100;
    assert_int_equal(box_store_tenant_update(f->store, &t, &err), 0);
    assert_int_equal(box_store_tenant_get(f->store, "a", &out, &err), 0);
    assert_true(out.disabled);
    assert_int_equal(out.created_ns, 7);
    assert_int_equal(out.updated_ns, 100);
    box_tenant_done(&out);
    assert_int_equal(box_store_tenant_get(f->store, "b", &out, &err), 0);
    assert_false(out.disabled);
    box_tenant_done(&out);
}

static void tenants_are_listed_by_time_then_id_in_pages(void **state)
{
    fixture *f = *state;
    static const char *const order[] = {"z", "a", "b", "c", "d"};
    add_tenant(f, "d", 30);
    add_tenant(f, "b", 20);
    add_tenant(f, "z", 10);
    add_tenant(f, "c", 20);
    add_tenant(f, "a", 20);
    box_tenant_filter all = {0};
    box_position at = {0};
    size_t seen = 0;
    bool more = true;
    while (more) {
        box_tenant *page = NULL;
        size_t n = 0;
        box_error err = {0};
        assert_int_equal(box_store_tenant_list(f->store, &all, &at, 2, &page, &n, &more, &err), 0);
        assert_in_range(n, 1, 2);
        for (size_t i = 0; i < n; i++)
            assert_string_equal(page[i].id, order[seen++]);
        at.created_ns = page[n - 1].created_ns;
        (void)snprintf(at.id, sizeof at.id, "%s", page[n - 1].id);
        box_tenants_free(page, n);
    }
    assert_int_equal(seen, 5);
}

static void tenants_are_filtered_by_labels(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    static const char *const tiers[] = {"gold", "silver", "gold"};
    for (int i = 0; i < 3; i++) {
        char id[2] = {(char)('a' + i), '\0'};
        box_tenant t = tenant(id, i + 1);
        box_labels_put(&t.labels, "tier", tiers[i]);
        assert_int_equal(box_store_tenant_create(f->store, &t, MAX, &err), 0);
        box_tenant_done(&t);
    }
    add_tenant(f, "x", 9);
    box_tenant_filter filter = {0};
    box_position at = {0};
    box_tenant *page = NULL;
    size_t n = 0;
    bool more = false;
    box_labels_put(&filter.labels, "tier", "gold");
    assert_int_equal(box_store_tenant_list(f->store, &filter, &at, 1, &page, &n, &more, &err), 0);
    assert_int_equal(n, 1);
    assert_true(more);
    assert_string_equal(page[0].id, "a");
    box_tenants_free(page, n);
    box_labels_put(&filter.labels, "tier", "");
    assert_int_equal(box_store_tenant_list(f->store, &filter, &at, 10, &page, &n, &more, &err), 0);
    assert_int_equal(n, 3);
    assert_false(more);
    box_tenants_free(page, n);
    box_labels_done(&filter.labels);
}

static void a_deleted_tenant_takes_its_tokens_along(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    bool deleted = false;
    box_token out;
    add_tenant(f, "a", 1);
    box_token t = token(42, "a", 2);
    add_token(f, &t);
    assert_int_equal(box_store_tenant_delete(f->store, "a", &deleted, &err), 0);
    assert_true(deleted);
    assert_int_equal(box_store_token_get(f->store, 42, &out, &err), -1);
    assert_int_equal(err.reason, BOX_TOKEN_NOT_FOUND);
    assert_int_equal(box_store_tenant_delete(f->store, "a", &deleted, &err), 0);
    assert_false(deleted);
}

static void a_token_is_kept(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    box_token out;
    add_tenant(f, "a", 1);
    box_token t = token(INT64_MAX, "a", 2);
    t.expires_ns = 77;
    (void)snprintf(t.name, sizeof t.name, "ci");
    add_token(f, &t);
    reopen(f);
    assert_int_equal(box_store_token_get(f->store, INT64_MAX, &out, &err), 0);
    assert_memory_equal(&out, &t, sizeof t);
}

static void a_token_needs_its_tenant(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    box_token t = token(1, "nobody", 2);
    assert_int_equal(box_store_token_create(f->store, &t, MAX, &err), -1);
    assert_int_equal(err.reason, BOX_TENANT_NOT_FOUND);
}

static void only_tokens_that_still_work_count_against_the_limit(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    box_token out;
    add_tenant(f, "a", 1);
    box_token t = token(1, "a", 10);
    t.expires_ns = 15;
    add_token(f, &t);
    t = token(2, "a", 10);
    assert_int_equal(box_store_token_create(f->store, &t, 1, &err), -1);
    assert_int_equal(err.reason, BOX_QUOTA);
    t.created_ns = 20; /* the first has expired */
    assert_int_equal(box_store_token_create(f->store, &t, 1, &err), 0);
    assert_int_equal(box_store_token_revoke(f->store, 2, 30, &out, &err), 0);
    t = token(3, "a", 40);
    assert_int_equal(box_store_token_create(f->store, &t, 1, &err), 0);
}

static void revoking_twice_keeps_the_first_time(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    box_token out;
    add_tenant(f, "a", 1);
    box_token t = token(1, "a", 10);
    add_token(f, &t);
    assert_int_equal(box_store_token_revoke(f->store, 1, 20, &out, &err), 0);
    assert_int_equal(box_store_token_revoke(f->store, 1, 30, &out, &err), 0);
    assert_int_equal(out.revoked_ns, 20);
    assert_int_equal(box_store_token_revoke(f->store, 2, 30, &out, &err), -1);
    assert_int_equal(err.reason, BOX_TOKEN_NOT_FOUND);
}

static void tokens_are_listed_in_pages_without_those_that_ended(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    add_tenant(f, "a", 1);
    add_tenant(f, "b", 1);
    for (uint64_t i = 1; i <= 5; i++) {
        box_token t = token(i, i == 3 ? "b" : "a", 10);
        t.expires_ns = i == 4 ? 50 : 0;
        add_token(f, &t);
    }
    box_token_filter filter = {.tenant = "a", .live_at_ns = 60};
    box_position at = {0};
    box_token *page = NULL;
    size_t n = 0;
    bool more = false;
    assert_int_equal(box_store_token_list(f->store, &filter, &at, 2, &page, &n, &more, &err), 0);
    assert_int_equal(n, 2);
    assert_true(more);
    assert_int_equal(page[0].id, 1);
    assert_int_equal(page[1].id, 2);
    at.created_ns = 10;
    box_token_id_text(2, at.id);
    free(page);
    assert_int_equal(box_store_token_list(f->store, &filter, &at, 2, &page, &n, &more, &err), 0);
    assert_int_equal(n, 1);
    assert_int_equal(page[0].id, 5);
    assert_false(more);
    free(page);
    filter.live_at_ns = 0;
    assert_int_equal(box_store_token_list(f->store, &filter, &at, 2, &page, &n, &more, &err), 0);
    assert_int_equal(n, 2);
    free(page);
}

static void the_last_use_never_goes_back(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    box_token out;
    add_tenant(f, "a", 1);
    box_token t = token(1, "a", 10);
    add_token(f, &t);
    assert_int_equal(box_store_token_used(f->store, 1, 200, &err), 0);
    assert_int_equal(box_store_token_used(f->store, 1, 100, &err), 0);
    assert_int_equal(box_store_token_get(f->store, 1, &out, &err), 0);
    assert_int_equal(out.used_ns, 200);
}

static int fails(void *arg, box_error *err)
{
    (void)arg;
    return box_fail(err, BOX_QUOTA, "no room");
}

static int counts(void *arg, box_error *err)
{
    (void)err;
    ++*(int *)arg;
    return 0;
}

typedef struct stored {
    unsigned count;
    char order[8];
    int64_t used_ns, extended_ns;
    uint64_t execs;
    uint32_t starts;
    char tenant[BOX_TENANT_ID_BYTES + 1];
    char record[8];
} stored;

static void on_session(void *arg, const box_stored_session *s)
{
    stored *out = arg;
    out->order[out->count++] = (char)s->uid.bytes[0];
    out->used_ns = s->used_ns;
    out->extended_ns = s->extended_ns;
    out->execs = s->execs;
    out->starts = s->starts;
    (void)snprintf(out->tenant, sizeof out->tenant, "%s", s->tenant);
    (void)snprintf(out->record, sizeof out->record, "%.*s", (int)s->record.len,
                   (const char *)s->record.data);
}

static stored start(fixture *f)
{
    stored s = {0};
    box_error err = {0};
    assert_int_equal(box_store_sessions_start(f->store, on_session, &s, &err), 0);
    return s;
}

static box_session_change put(char uid, const char *owner, const char *record)
{
    return (box_session_change){.kind = BOX_SESSION_PUT,
                                .uid = {.bytes = {(uint8_t)uid}},
                                .tenant = owner,
                                .record = {(const uint8_t *)record, strlen(record)},
                                .used_ns = 1};
}

static void sessions_come_back_as_they_were_written_and_count_starts(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    box_tenant t = tenant("a", 1);
    assert_int_equal(box_store_tenant_create(f->store, &t, MAX, &err), 0);
    box_session_change changes[] = {put('b', "a", "old"), put('a', "a", "x"), put('b', "a", "new")};
    assert_int_equal(box_store_sessions_write(f->store, changes, 3, &err), 0);
    reopen(f);
    stored s = start(f);
    assert_string_equal(s.order, "ba"); /* as they were put first */
    assert_int_equal(s.starts, 1);
    box_session_change more[] = {
        {.kind = BOX_SESSION_FORGET, .uid = {.bytes = {'a'}}},
        {.kind = BOX_SESSION_FORGET, .uid = {.bytes = {'z'}}}, /* there is none */
        {.kind = BOX_SESSION_TOUCH,
         .uid = {.bytes = {'b'}},
         .used_ns = 7,
         .extended_ns = 8,
         .execs = 9}};
    assert_int_equal(box_store_sessions_write(f->store, more, 3, &err), 0);
    reopen(f);
    s = start(f);
    assert_string_equal(s.order, "b");
    assert_string_equal(s.record, "new");
    assert_string_equal(s.tenant, "a");
    assert_true(s.used_ns == 7 && s.extended_ns == 8 && s.execs == 9);
    assert_int_equal(s.starts, 2); /* putting it again would not change that */
}

static void changes_of_sessions_are_written_all_or_none(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    box_tenant t = tenant("a", 1);
    assert_int_equal(box_store_tenant_create(f->store, &t, MAX, &err), 0);
    box_session_change changes[] = {put('a', "a", "x"), put('b', NULL, "y")}; /* NOT NULL */
    assert_int_equal(box_store_sessions_write(f->store, changes, 2, &err), -1);
    assert_int_equal(start(f).count, 0);
}

static void sessions_of_tenants_that_are_gone_or_disabled_are_forgotten(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    box_tenant t[] = {tenant("a", 1), tenant("off", 2)};
    t[1].disabled = true;
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(box_store_tenant_create(f->store, &t[i], MAX, &err), 0);
    box_session_change changes[] = {put('a', "a", "x"), put('b', "off", "y"),
                                    put('c', "none", "z")};
    assert_int_equal(box_store_sessions_write(f->store, changes, 3, &err), 0);
    assert_string_equal(start(f).order, "a");
}

static void seeding_is_all_or_nothing_and_once(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    box_tenant t = tenant("default", 1);
    box_token k = token(1, "default", 1);
    box_tenant out = {0};
    bool seeded = false;
    int calls = 0;
    assert_int_equal(box_store_seed(f->store, &t, &k, fails, NULL, &seeded, &err), -1);
    assert_string_equal(err.msg, "no room");
    assert_int_equal(box_store_tenant_get(f->store, "default", &out, &err), -1);
    assert_int_equal(box_store_seed(f->store, &t, &k, counts, &calls, &seeded, &err), 0);
    assert_true(seeded);
    assert_int_equal(box_store_seed(f->store, &t, &k, counts, &calls, &seeded, &err), 0);
    assert_false(seeded);
    assert_int_equal(calls, 1);
}

/* A child writes until it is killed; what it said it had written must be there. */
static void a_kill_loses_nothing_that_was_answered(void **state)
{
    fixture *f = *state;
    int answered[2];
    box_store_close(f->store);
    f->store = NULL;
    assert_int_equal(pipe(answered), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        box_error err;
        box_store *s;
        if (box_store_open(f->path, &s, &err) < 0)
            _exit(1);
        for (int i = 0; i < 100000; i++) {
            box_tenant t = {.created_ns = i + 1};
            (void)snprintf(t.id, sizeof t.id, "t%d", i);
            if (box_store_tenant_create(s, &t, 1000000, &err) < 0 ||
                write(answered[1], &i, sizeof i) != sizeof i)
                _exit(1);
        }
        _exit(0);
    }
    (void)close(answered[1]);
    int last = -1;
    while (last < 20)
        assert_int_equal(read(answered[0], &last, sizeof last), sizeof last);
    (void)kill(child, SIGKILL);
    while (read(answered[0], &last, sizeof last) == sizeof last)
        continue;
    (void)close(answered[0]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    open_store(f);
    for (int i = 0; i <= last; i++) {
        char id[16];
        box_error err = {0};
        box_tenant out = {0};
        (void)snprintf(id, sizeof id, "t%d", i);
        assert_int_equal(box_store_tenant_get(f->store, id, &out, &err), 0);
    }
}

static void count_tenant(void *arg, const box_tenant *t)
{
    ((int *)arg)[0] += t->id[0] != '\0';
}

static void count_token(void *arg, const box_token *t)
{
    ((int *)arg)[1] += t->id != 0;
}

static void a_visit_sees_all_tenants_and_tokens_that_are_not_revoked(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    box_token out;
    int counted[2] = {0, 0};
    add_tenant(f, "a", 1);
    add_tenant(f, "b", 1);
    for (uint64_t i = 1; i <= 3; i++) {
        box_token t = token(i, "a", 10);
        add_token(f, &t);
    }
    assert_int_equal(box_store_token_revoke(f->store, 2, 20, &out, &err), 0);
    box_store_visitor v = {counted, count_tenant, count_token};
    assert_int_equal(box_store_visit(f->store, &v, &err), 0);
    assert_int_equal(counted[0], 2);
    assert_int_equal(counted[1], 2);
}

static void labels_stay_sorted_and_are_replaced(void **state)
{
    (void)state;
    box_labels l = {0};
    box_labels_put(&l, "b", "1");
    box_labels_put(&l, "a", "22");
    box_labels_put(&l, "c", "");
    box_labels_put(&l, "b", "333");
    assert_int_equal(l.len, 5 + 6 + 3);
    assert_memory_equal(l.data,
                        "a\0"
                        "22\0"
                        "b\0"
                        "333\0"
                        "c\0",
                        14);
    assert_string_equal(box_labels_get(&l, "b"), "333");
    assert_string_equal(box_labels_get(&l, "c"), "");
    assert_null(box_labels_get(&l, "d"));
    box_labels_done(&l);
}

static void token_ids_are_read_as_they_are_written(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", "1", "0000000000000000", "8000000000000000", "000000000000000g", "00000000000000012"};
    char text[BOX_TOKEN_ID_TEXT];
    uint64_t id = 0;
    box_token_id_text(0x1234abcd, text);
    assert_string_equal(text, "000000001234abcd");
    assert_true(box_token_id_parse(text, &id));
    assert_int_equal(id, 0x1234abcd);
    for (size_t i = 0; i < BOX_COUNT(bad); i++)
        assert_false(box_token_id_parse(bad[i], &id));
}

#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(the_directory_and_its_files_are_private),
        WITH_STORE(a_directory_that_others_can_read_is_refused),
        WITH_STORE(a_directory_of_another_user_is_refused),
        WITH_STORE(a_link_is_no_state_directory),
        WITH_STORE(a_second_boxd_on_the_same_directory_is_refused),
        WITH_STORE(the_instance_id_stays),
        WITH_STORE(a_database_of_a_newer_boxd_is_refused),
        WITH_STORE(a_file_that_is_no_database_is_refused),
        WITH_STORE(a_tenant_is_kept),
        WITH_STORE(a_tenant_that_is_not_there_is_told),
        WITH_STORE(two_tenants_of_one_id_are_refused),
        WITH_STORE(more_tenants_than_allowed_are_refused),
        WITH_STORE(an_update_changes_what_it_names_only),
        WITH_STORE(tenants_are_listed_by_time_then_id_in_pages),
        WITH_STORE(tenants_are_filtered_by_labels),
        WITH_STORE(a_deleted_tenant_takes_its_tokens_along),
        WITH_STORE(a_token_is_kept),
        WITH_STORE(a_token_needs_its_tenant),
        WITH_STORE(only_tokens_that_still_work_count_against_the_limit),
        WITH_STORE(revoking_twice_keeps_the_first_time),
        WITH_STORE(tokens_are_listed_in_pages_without_those_that_ended),
        WITH_STORE(the_last_use_never_goes_back),
        WITH_STORE(sessions_come_back_as_they_were_written_and_count_starts),
        WITH_STORE(changes_of_sessions_are_written_all_or_none),
        WITH_STORE(sessions_of_tenants_that_are_gone_or_disabled_are_forgotten),
        WITH_STORE(seeding_is_all_or_nothing_and_once),
        WITH_STORE(a_kill_loses_nothing_that_was_answered),
        WITH_STORE(a_visit_sees_all_tenants_and_tokens_that_are_not_revoked),
        cmocka_unit_test(labels_stay_sorted_and_are_replaced),
        cmocka_unit_test(token_ids_are_read_as_they_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
