/* Versions of the database: each step is one transaction that also sets user_version, so a kill in
 * between leaves the version before. Steps are never changed once released, only added. */
#include "base/alloc.h"
#include "store/store_impl.h"

static const char *const steps[] = {
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;"
    "INSERT INTO meta VALUES ('instance', randomblob(16));"
    "CREATE TABLE tenants (id TEXT PRIMARY KEY, display_name TEXT NOT NULL, labels BLOB NOT NULL,"
    " disabled INTEGER NOT NULL, created_ns INTEGER NOT NULL, updated_ns INTEGER NOT NULL)"
    " WITHOUT ROWID;"
    "CREATE INDEX tenants_by_time ON tenants (created_ns, id);"
    "CREATE TABLE tokens (id INTEGER PRIMARY KEY,"
    " tenant TEXT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE, name TEXT NOT NULL,"
    " prefix TEXT NOT NULL, hash BLOB NOT NULL UNIQUE, scopes INTEGER NOT NULL,"
    " created_ns INTEGER NOT NULL, expires_ns INTEGER NOT NULL, revoked_ns INTEGER NOT NULL,"
    " used_ns INTEGER NOT NULL);"
    "CREATE INDEX tokens_by_time ON tokens (tenant, created_ns, id);",
    "CREATE TABLE sessions (uid BLOB NOT NULL UNIQUE, tenant TEXT NOT NULL, record BLOB NOT NULL,"
    " used_ns INTEGER NOT NULL, extended_ns INTEGER NOT NULL, execs INTEGER NOT NULL,"
    " starts INTEGER NOT NULL);",
};

static int execute(box_store *s, const char *sql, box_error *err)
{
    if (sqlite3_exec(s->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return box_store_fail(s, "prepare the database", err);
    return 0;
}

/* One statement that gives one row; `read` gets it. */
static int query(box_store *s, const char *sql, void (*read)(sqlite3_stmt *st, void *arg),
                 void *arg, box_error *err)
{
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(s->db, sql, -1, &st, NULL) != SQLITE_OK)
        return box_store_fail(s, "read the database", err);
    bool row = sqlite3_step(st) == SQLITE_ROW;
    if (row)
        read(st, arg);
    (void)sqlite3_finalize(st); /* repeats step's error, which is reported below */
    return row ? 0 : box_store_fail(s, "read the database", err);
}

static void read_int(sqlite3_stmt *st, void *arg)
{
    *(int64_t *)arg = sqlite3_column_int64(st, 0);
}

static void read_instance(sqlite3_stmt *st, void *arg)
{
    box_uid *uid = arg;
    const void *blob = sqlite3_column_blob(st, 0);
    if (blob != NULL && sqlite3_column_bytes(st, 0) == (int)sizeof uid->bytes)
        memcpy(uid->bytes, blob, sizeof uid->bytes);
}

static int run_step(box_store *s, size_t step, box_error *err)
{
    char version[64];
    (void)snprintf(version, sizeof version, "PRAGMA user_version = %zu; COMMIT;", step + 1);
    if (execute(s, "BEGIN IMMEDIATE;", err) < 0)
        return -1;
    if (execute(s, steps[step], err) == 0 && execute(s, version, err) == 0)
        return 0;
    (void)sqlite3_exec(s->db, "ROLLBACK;", NULL, NULL, NULL); /* the first error is reported */
    return -1;
}

int box_store_migrate(box_store *s, box_error *err)
{
    int64_t version = 0;
    /* FULL: an answered change also survives the machine's crash, not only boxd's. */
    if (execute(s,
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                " PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;",
                err) < 0 ||
        query(s, "PRAGMA user_version;", read_int, &version, err) < 0)
        return -1;
    if (version < 0 || (size_t)version > BOX_COUNT(steps))
        return box_fail(err, BOX_VERSION_MISMATCH,
                        "the database was written by a newer boxd (version %lld, this one knows "
                        "%zu): start that one, or give another state_dir",
                        (long long)version, BOX_COUNT(steps));
    for (size_t i = (size_t)version; i < BOX_COUNT(steps); i++) {
        if (run_step(s, i, err) < 0)
            return -1;
    }
    box_uid none = {{0}};
    if (query(s, "SELECT value FROM meta WHERE key = 'instance';", read_instance, &s->instance,
              err) < 0)
        return -1;
    if (box_uid_equal(&s->instance, &none))
        return box_fail(err, BOX_INTERNAL, "the database has no instance id");
    return 0;
}
