/* Persistent sessions in the store. What they are is session/'s affair: here they are bytes. */
#include "base/alloc.h"
#include "store/store_impl.h"

static int put(box_store *s, const box_session_change *c, box_error *err)
{
    sqlite3_stmt *st = box_store_statement(s, BOX_SQL_SESSION_PUT);
    box_store_bind_blob(st, 1, c->uid.bytes, sizeof c->uid.bytes);
    box_store_bind_text(st, 2, c->tenant);
    box_store_bind_blob(st, 3, c->record.data, c->record.len);
    box_store_bind_int(st, 4, c->used_ns);
    box_store_bind_int(st, 5, c->extended_ns);
    box_store_bind_int(st, 6, (int64_t)c->execs);
    return box_store_run(s, st, err);
}

static int touch(box_store *s, const box_session_change *c, box_error *err)
{
    sqlite3_stmt *st = box_store_statement(s, BOX_SQL_SESSION_TOUCH);
    box_store_bind_blob(st, 1, c->uid.bytes, sizeof c->uid.bytes);
    box_store_bind_int(st, 2, c->used_ns);
    box_store_bind_int(st, 3, c->extended_ns);
    box_store_bind_int(st, 4, (int64_t)c->execs);
    return box_store_run(s, st, err);
}

static int forget(box_store *s, const box_session_change *c, box_error *err)
{
    sqlite3_stmt *st = box_store_statement(s, BOX_SQL_SESSION_DELETE);
    box_store_bind_blob(st, 1, c->uid.bytes, sizeof c->uid.bytes);
    return box_store_run(s, st, err);
}

static int write_all(box_store *s, const box_session_change *changes, size_t n, box_error *err)
{
    static int (*const kinds[])(box_store * s, const box_session_change *c, box_error *err) = {
        [BOX_SESSION_PUT] = put, [BOX_SESSION_TOUCH] = touch, [BOX_SESSION_FORGET] = forget};
    for (size_t i = 0; i < n; i++) {
        if (kinds[changes[i].kind](s, &changes[i], err) < 0)
            return -1;
    }
    return 0;
}

int box_store_sessions_write(box_store *s, const box_session_change *changes, size_t n,
                             box_error *err)
{
    box_lock_take(&s->lock);
    int rc = box_store_begin(s, err);
    if (rc == 0)
        rc = box_store_end(s, write_all(s, changes, n, err), err);
    box_lock_release(&s->lock);
    return rc;
}

static int visit(box_store *s, void (*each)(void *arg, const box_stored_session *session),
                 void *arg, box_error *err)
{
    sqlite3_stmt *st = box_store_statement(s, BOX_SQL_SESSION_LIST);
    int rc;
    while ((rc = box_store_step(s, st, err)) == 1) {
        box_stored_session found = {
            .record = {.data = sqlite3_column_blob(st, 2),
                       .len = (size_t)sqlite3_column_bytes(st, 2)},
            .used_ns = sqlite3_column_int64(st, 3),
            .extended_ns = sqlite3_column_int64(st, 4),
            .execs = (uint64_t)sqlite3_column_int64(st, 5),
            .starts = (uint32_t)sqlite3_column_int64(st, 6),
        };
        const void *uid = sqlite3_column_blob(st, 0);
        if (uid == NULL || sqlite3_column_bytes(st, 0) != (int)sizeof found.uid.bytes)
            continue; /* nothing of ours */
        memcpy(found.uid.bytes, uid, sizeof found.uid.bytes);
        box_store_column_text(st, 1, found.tenant, sizeof found.tenant);
        each(arg, &found);
    }
    return rc;
}

int box_store_sessions_start(box_store *s,
                             void (*each)(void *arg, const box_stored_session *session), void *arg,
                             box_error *err)
{
    box_lock_take(&s->lock);
    int rc = box_store_begin(s, err);
    if (rc == 0) {
        rc = box_store_run(s, box_store_statement(s, BOX_SQL_SESSION_PRUNE), err);
        if (rc == 0)
            rc = box_store_run(s, box_store_statement(s, BOX_SQL_SESSION_START), err);
        rc = box_store_end(s, rc, err);
    }
    if (rc == 0)
        rc = visit(s, each, arg, err);
    box_lock_release(&s->lock);
    return rc;
}
