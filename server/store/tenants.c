/* Tenants in the store. */
#include "base/alloc.h"
#include "store/store_impl.h"

int box_store_tenant_missing(const char *id, box_error *err)
{
    (void)box_fail(err, BOX_TENANT_NOT_FOUND, "no tenant %s", id);
    box_error_add(err, "kind", "tenant");
    box_error_add(err, "id", id);
    return -1;
}

/* Column order of TENANT_COLUMNS in store.c. */
void box_store_read_tenant(sqlite3_stmt *st, box_tenant *out)
{
    box_store_column_text(st, 0, out->id, sizeof out->id);
    box_store_column_text(st, 1, out->display_name, sizeof out->display_name);
    box_labels labels = {.data = (char *)(uintptr_t)sqlite3_column_blob(st, 2),
                         .len = (size_t)sqlite3_column_bytes(st, 2)};
    box_labels_copy(&labels, &out->labels);
    out->disabled = sqlite3_column_int(st, 3) != 0;
    out->created_ns = sqlite3_column_int64(st, 4);
    out->updated_ns = sqlite3_column_int64(st, 5);
}

int box_store_insert_tenant(box_store *s, const box_tenant *t, box_error *err)
{
    sqlite3_stmt *st = box_store_statement(s, BOX_SQL_TENANT_INSERT);
    box_store_bind_text(st, 1, t->id);
    box_store_bind_text(st, 2, t->display_name);
    box_store_bind_blob(st, 3, t->labels.data, t->labels.len);
    box_store_bind_int(st, 4, t->disabled);
    box_store_bind_int(st, 5, t->created_ns);
    box_store_bind_int(st, 6, t->updated_ns);
    if (box_store_run(s, st, err) == 0)
        return 0;
    if (sqlite3_extended_errcode(s->db) != SQLITE_CONSTRAINT_PRIMARYKEY)
        return -1;
    (void)box_fail(err, BOX_TENANT_EXISTS, "tenant %s exists already", t->id);
    box_error_add(err, "id", t->id);
    return -1;
}

static int create(box_store *s, const box_tenant *t, int64_t max_tenants, box_error *err)
{
    int64_t count = 0;
    sqlite3_stmt *st = box_store_statement(s, BOX_SQL_TENANT_COUNT);
    if (box_store_count(s, st, &count, err) < 0)
        return -1;
    if (count >= max_tenants) {
        (void)box_fail(err, BOX_QUOTA,
                       "there are %lld tenants already; limits.tenants allows "
                       "no more",
                       (long long)count);
        return box_error_limit(err, "limits.tenants", max_tenants, count);
    }
    return box_store_insert_tenant(s, t, err);
}

int box_store_tenant_create(box_store *s, const box_tenant *t, int64_t max_tenants, box_error *err)
{
    box_lock_take(&s->lock);
    int rc = box_store_begin(s, err);
    if (rc == 0)
        rc = box_store_end(s, create(s, t, max_tenants, err), err);
    box_lock_release(&s->lock);
    return rc;
}

int box_store_tenant_get(box_store *s, const char *id, box_tenant *out, box_error *err)
{
    box_lock_take(&s->lock);
    sqlite3_stmt *st = box_store_statement(s, BOX_SQL_TENANT_GET);
    box_store_bind_text(st, 1, id);
    int rc = box_store_step(s, st, err);
    if (rc == 1)
        box_store_read_tenant(st, out);
    (void)sqlite3_reset(st); /* the one row was read */
    box_lock_release(&s->lock);
    if (rc == 0)
        return box_store_tenant_missing(id, err);
    return rc < 0 ? -1 : 0;
}

int box_store_tenant_update(box_store *s, const box_tenant *t, box_error *err)
{
    box_lock_take(&s->lock);
    sqlite3_stmt *st = box_store_statement(s, BOX_SQL_TENANT_UPDATE);
    box_store_bind_text(st, 1, t->id);
    box_store_bind_text(st, 2, t->display_name);
    box_store_bind_blob(st, 3, t->labels.data, t->labels.len);
    box_store_bind_int(st, 4, t->disabled);
    box_store_bind_int(st, 5, t->updated_ns);
    int rc = box_store_run(s, st, err);
    if (rc == 0 && sqlite3_changes(s->db) == 0)
        rc = box_store_tenant_missing(t->id, err);
    box_lock_release(&s->lock);
    return rc;
}

int box_store_tenant_delete(box_store *s, const char *id, bool *deleted, box_error *err)
{
    box_lock_take(&s->lock);
    sqlite3_stmt *st = box_store_statement(s, BOX_SQL_TENANT_DELETE);
    box_store_bind_text(st, 1, id);
    int rc = box_store_run(s, st, err);
    if (rc == 0)
        *deleted = sqlite3_changes(s->db) > 0;
    box_lock_release(&s->lock);
    return rc;
}

/* Reads one row more than asked, to know whether there are more. */
static int list(box_store *s, const box_tenant_filter *filter, const box_position *after,
                size_t limit, box_tenant *found, size_t *n, bool *more, box_error *err)
{
    sqlite3_stmt *st = box_store_statement(s, BOX_SQL_TENANT_LIST);
    box_store_bind_int(st, 1, after->created_ns);
    box_store_bind_text(st, 2, after->id);
    int rc;
    while ((rc = box_store_step(s, st, err)) == 1) {
        box_tenant t = {0};
        box_store_read_tenant(st, &t);
        bool match = box_labels_match(&t.labels, &filter->labels);
        if (match && *n < limit) {
            found[(*n)++] = t;
            continue;
        }
        box_tenant_done(&t);
        if (match) {
            *more = true;
            break;
        }
    }
    (void)sqlite3_reset(st); /* rows that are not read any more */
    return rc < 0 ? -1 : 0;
}

int box_store_tenant_list(box_store *s, const box_tenant_filter *filter, const box_position *after,
                          size_t limit, box_tenant **out, size_t *n, bool *more, box_error *err)
{
    box_tenant *found = box_alloc_array(limit > 0 ? limit : 1, sizeof *found);
    *n = 0;
    *more = false;
    box_lock_take(&s->lock);
    int rc = list(s, filter, after, limit, found, n, more, err);
    box_lock_release(&s->lock);
    if (rc < 0) {
        box_tenants_free(found, *n);
        return -1;
    }
    *out = found;
    return 0;
}
