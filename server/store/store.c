#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "store/store_impl.h"

static const char database[] = "box.db";

#define TENANT_COLUMNS "id, display_name, labels, disabled, created_ns, updated_ns"
#define TOKEN_COLUMNS                                                                              \
    "id, tenant, name, prefix, hash, scopes, created_ns, expires_ns, revoked_ns, used_ns"

#define SESSION_COLUMNS "uid, tenant, record, used_ns, extended_ns, execs"

static const char *const sql[BOX_SQL_COUNT] = {
    [BOX_SQL_BEGIN] = "BEGIN IMMEDIATE",
    [BOX_SQL_COMMIT] = "COMMIT",
    [BOX_SQL_ROLLBACK] = "ROLLBACK",
    [BOX_SQL_TENANT_COUNT] = "SELECT count(*) FROM tenants",
    [BOX_SQL_TENANT_INSERT] = "INSERT INTO tenants (" TENANT_COLUMNS ")"
                              " VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    [BOX_SQL_TENANT_GET] = "SELECT " TENANT_COLUMNS " FROM tenants WHERE id = ?1",
    [BOX_SQL_TENANT_UPDATE] = "UPDATE tenants SET display_name = ?2, labels = ?3, disabled = ?4,"
                              " updated_ns = ?5 WHERE id = ?1",
    [BOX_SQL_TENANT_DELETE] = "DELETE FROM tenants WHERE id = ?1",
    [BOX_SQL_TENANT_LIST] = "SELECT " TENANT_COLUMNS " FROM tenants"
                            " WHERE (created_ns, id) > (?1, ?2) ORDER BY created_ns, id",
    [BOX_SQL_TOKEN_COUNT] = "SELECT count(*) FROM tokens WHERE tenant = ?1 AND revoked_ns = 0"
                            " AND (expires_ns = 0 OR expires_ns > ?2)",
    [BOX_SQL_TOKEN_INSERT] = "INSERT INTO tokens (" TOKEN_COLUMNS ")"
                             " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    [BOX_SQL_TOKEN_PRUNE] = "DELETE FROM tokens WHERE id IN (SELECT id FROM tokens"
                            " WHERE tenant = ?1 AND (revoked_ns <> 0"
                            " OR (expires_ns <> 0 AND expires_ns <= ?2))"
                            " ORDER BY created_ns DESC, id DESC LIMIT -1 OFFSET ?3)",
    [BOX_SQL_TOKEN_GET] = "SELECT " TOKEN_COLUMNS " FROM tokens WHERE id = ?1",
    [BOX_SQL_TOKEN_REVOKE] = "UPDATE tokens SET revoked_ns = ?2 WHERE id = ?1 AND revoked_ns = 0",
    [BOX_SQL_TOKEN_LIST] = "SELECT " TOKEN_COLUMNS " FROM tokens WHERE tenant = ?1"
                           " AND (created_ns, id) > (?2, ?3) AND (?4 = 0 OR (revoked_ns = 0"
                           " AND (expires_ns = 0 OR expires_ns > ?4)))"
                           " ORDER BY created_ns, id LIMIT ?5",
    [BOX_SQL_TOKEN_USED] = "UPDATE tokens SET used_ns = max(used_ns, ?2) WHERE id = ?1",
    [BOX_SQL_TOKEN_VALID] = "SELECT " TOKEN_COLUMNS " FROM tokens WHERE revoked_ns = 0",
    [BOX_SQL_SESSION_PUT] = "INSERT INTO sessions (" SESSION_COLUMNS ", starts)"
                            " VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0) ON CONFLICT (uid) DO UPDATE SET"
                            " record = ?3, used_ns = ?4, extended_ns = ?5, execs = ?6",
    [BOX_SQL_SESSION_TOUCH] = "UPDATE sessions SET used_ns = ?2, extended_ns = ?3, execs = ?4"
                              " WHERE uid = ?1",
    [BOX_SQL_SESSION_DELETE] = "DELETE FROM sessions WHERE uid = ?1",
    [BOX_SQL_SESSION_PRUNE] = "DELETE FROM sessions WHERE tenant NOT IN"
                              " (SELECT id FROM tenants WHERE disabled = 0)",
    [BOX_SQL_SESSION_START] = "UPDATE sessions SET starts = starts + 1",
    [BOX_SQL_SESSION_LIST] = "SELECT " SESSION_COLUMNS ", starts FROM sessions ORDER BY rowid",
};

int box_store_fail(box_store *s, const char *what, box_error *err)
{
    box_reason reason = sqlite3_errcode(s->db) == SQLITE_FULL ? BOX_QUOTA : BOX_INTERNAL;
    return box_fail(err, reason, "%s: %s", what, sqlite3_errmsg(s->db));
}

sqlite3_stmt *box_store_statement(box_store *s, box_statement which)
{
    sqlite3_stmt *st = s->statements[which];
    (void)sqlite3_reset(st); /* repeats the last step's error, which was reported then */
    (void)sqlite3_clear_bindings(st);
    return st;
}

/* Binding fails only for a wrong index or without memory; the value is then NULL, which every
 * column refuses. STATIC: the values outlive the step. */
void box_store_bind_text(sqlite3_stmt *st, int at, const char *text)
{
    (void)sqlite3_bind_text(st, at, text, -1, SQLITE_STATIC);
}

void box_store_bind_int(sqlite3_stmt *st, int at, int64_t value)
{
    (void)sqlite3_bind_int64(st, at, value);
}

void box_store_bind_blob(sqlite3_stmt *st, int at, const void *data, size_t len)
{
    (void)sqlite3_bind_blob64(st, at, len > 0 ? data : "", len, SQLITE_STATIC);
}

int box_store_step(box_store *s, sqlite3_stmt *st, box_error *err)
{
    int rc = sqlite3_step(st);
    if (rc == SQLITE_ROW)
        return 1;
    if (rc != SQLITE_DONE)
        (void)box_store_fail(s, "use the database", err);
    (void)sqlite3_reset(st); /* repeats the error */
    return rc == SQLITE_DONE ? 0 : -1;
}

int box_store_run(box_store *s, sqlite3_stmt *st, box_error *err)
{
    int rc = box_store_step(s, st, err);
    (void)sqlite3_reset(st); /* a row that is not read any more */
    return rc < 0 ? -1 : 0;
}

int box_store_count(box_store *s, sqlite3_stmt *st, int64_t *out, box_error *err)
{
    int rc = box_store_step(s, st, err);
    if (rc == 1)
        *out = sqlite3_column_int64(st, 0);
    (void)sqlite3_reset(st); /* the one row was read */
    return rc < 0 ? -1 : 0;
}

void box_store_column_text(sqlite3_stmt *st, int column, char *out, size_t size)
{
    const unsigned char *text = sqlite3_column_text(st, column);
    (void)snprintf(out, size, "%s", text != NULL ? (const char *)text : "");
}

int box_store_begin(box_store *s, box_error *err)
{
    return box_store_run(s, box_store_statement(s, BOX_SQL_BEGIN), err);
}

int box_store_end(box_store *s, int rc, box_error *err)
{
    box_error second;
    if (rc == 0 && box_store_run(s, box_store_statement(s, BOX_SQL_COMMIT), err) == 0)
        return 0;
    int ignored = box_store_run(s, box_store_statement(s, BOX_SQL_ROLLBACK), &second);
    (void)ignored; /* the first error is the one to report */
    return -1;
}

/* state_dir itself is made when missing, not its parents. */
static int open_directory(const char *path, int *out, box_error *err)
{
    struct stat st;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return box_fail_errno(err, "make state_dir");
    BOX_AUTO(box_closep) int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return box_fail_errno(err, "open state_dir");
    if (fstat(fd, &st) < 0)
        return box_fail_errno(err, "open state_dir");
    if (st.st_uid != geteuid())
        return box_fail(err, BOX_PERMISSION,
                        "state_dir belongs to uid %u, and boxd runs as uid %u: give it its own",
                        (unsigned)st.st_uid, (unsigned)geteuid());
    if ((st.st_mode & 07777) != 0700)
        return box_fail(err, BOX_PERMISSION,
                        "state_dir has mode %04o: others could read keys; chmod it to 0700",
                        (unsigned)(st.st_mode & 07777));
    *out = box_take_fd(&fd);
    return 0;
}

static int take_lock(box_store *s, box_error *err)
{
    s->lock_fd = openat(s->dirfd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->lock_fd < 0)
        return box_fail_errno(err, "lock state_dir");
    if (flock(s->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno == EWOULDBLOCK)
        return box_fail(err, BOX_RUNTIME_UNAVAILABLE, "another boxd uses this state_dir");
    return box_fail_errno(err, "lock state_dir");
}

static int prepare(box_store *s, box_error *err)
{
    for (int i = 0; i < BOX_SQL_COUNT; i++) {
        if (sqlite3_prepare_v3(s->db, sql[i], -1, SQLITE_PREPARE_PERSISTENT, &s->statements[i],
                               NULL) != SQLITE_OK)
            return box_store_fail(s, "prepare a statement", err);
    }
    return 0;
}

static int open_database(box_store *s, const char *state_dir, box_error *err)
{
    /* Made here, because SQLite gives its journal files the mode of the database. */
    int fd = openat(s->dirfd, database, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return box_fail_errno(err, "make %s", database);
    (void)close(fd);
    size_t size = strlen(state_dir) + sizeof database + 1;
    BOX_AUTO(box_freep) char *path = box_alloc(size);
    (void)snprintf(path, size, "%s/%s", state_dir, database);
    /* NOMUTEX: s->lock serialises. */
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
    if (sqlite3_open_v2(path, &s->db, flags, NULL) != SQLITE_OK)
        return box_fail(err, BOX_INTERNAL, "open %s: %s", database, sqlite3_errmsg(s->db));
    if (box_store_migrate(s, err) < 0)
        return -1;
    return prepare(s, err);
}

int box_store_open(const char *state_dir, box_store **out, box_error *err)
{
    box_store *s = box_alloc(sizeof *s);
    s->dirfd = s->lock_fd = -1;
    box_lock_init(&s->lock);
    if (open_directory(state_dir, &s->dirfd, err) < 0 || take_lock(s, err) < 0 ||
        open_database(s, state_dir, err) < 0) {
        box_store_close(s);
        return -1;
    }
    *out = s;
    return 0;
}

void box_store_close(box_store *s)
{
    if (s == NULL)
        return;
    for (int i = 0; i < BOX_SQL_COUNT; i++)
        (void)sqlite3_finalize(s->statements[i]); /* repeats the last step's error */
    (void)sqlite3_close(s->db);                   /* nothing is open on it any more */
    box_closep(&s->lock_fd);
    box_closep(&s->dirfd);
    box_lock_done(&s->lock);
    free(s);
}

box_uid box_store_instance(const box_store *s)
{
    return s->instance;
}

int box_store_dirfd(const box_store *s)
{
    return s->dirfd;
}

static int seed(box_store *s, const box_tenant *tenant, const box_token *token,
                int (*before_commit)(void *arg, box_error *err), void *arg, bool *seeded,
                box_error *err)
{
    sqlite3_stmt *st = box_store_statement(s, BOX_SQL_TENANT_GET);
    box_store_bind_text(st, 1, tenant->id);
    int rc = box_store_step(s, st, err);
    (void)sqlite3_reset(st); /* a row that is not read any more */
    *seeded = false;
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    *seeded = true;
    if (box_store_insert_tenant(s, tenant, err) < 0 || box_store_insert_token(s, token, err) < 0)
        return -1;
    return before_commit(arg, err);
}

int box_store_seed(box_store *s, const box_tenant *tenant, const box_token *token,
                   int (*before_commit)(void *arg, box_error *err), void *arg, bool *seeded,
                   box_error *err)
{
    box_lock_take(&s->lock);
    int rc = box_store_begin(s, err);
    if (rc == 0)
        rc = box_store_end(s, seed(s, tenant, token, before_commit, arg, seeded, err), err);
    box_lock_release(&s->lock);
    return rc;
}
