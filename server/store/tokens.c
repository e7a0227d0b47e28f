/* Tokens in the store. */
#include "base/alloc.h"
#include "base/limits.h"
#include "store/store_impl.h"

int box_store_token_missing(uint64_t id, box_error *err)
{
    char text[BOX_TOKEN_ID_TEXT];
    box_token_id_text(id, text);
    (void)box_fail(err, BOX_TOKEN_NOT_FOUND, "no token %s", text);
    box_error_add(err, "kind", "token");
    box_error_add(err, "id", text);
    return -1;
}

/* Column order of TOKEN_COLUMNS in store.c. */
static void read_token(sqlite3_stmt *st, box_token *out)
{
    *out = (box_token){.id = (uint64_t)sqlite3_column_int64(st, 0)};
    box_store_column_text(st, 1, out->tenant, sizeof out->tenant);
    box_store_column_text(st, 2, out->name, sizeof out->name);
    box_store_column_text(st, 3, out->prefix, sizeof out->prefix);
    const void *hash = sqlite3_column_blob(st, 4);
    if (hash != NULL && sqlite3_column_bytes(st, 4) == BOX_TOKEN_HASH_BYTES)
        memcpy(out->hash, hash, sizeof out->hash);
    out->scopes = (uint32_t)sqlite3_column_int64(st, 5);
    out->created_ns = sqlite3_column_int64(st, 6);
    out->expires_ns = sqlite3_column_int64(st, 7);
    out->revoked_ns = sqlite3_column_int64(st, 8);
    out->used_ns = sqlite3_column_int64(st, 9);
}

int box_store_insert_token(box_store *s, const box_token *t, box_error *err)
{
    sqlite3_stmt *st = box_store_statement(s, BOX_SQL_TOKEN_INSERT);
    box_store_bind_int(st, 1, (int64_t)t->id);
    box_store_bind_text(st, 2, t->tenant);
    box_store_bind_text(st, 3, t->name);
    box_store_bind_text(st, 4, t->prefix);
    box_store_bind_blob(st, 5, t->hash, sizeof t->hash);
    box_store_bind_int(st, 6, t->scopes);
    box_store_bind_int(st, 7, t->created_ns);
    box_store_bind_int(st, 8, t->expires_ns);
    box_store_bind_int(st, 9, t->revoked_ns);
    box_store_bind_int(st, 10, t->used_ns);
    if (box_store_run(s, st, err) == 0)
        return 0;
    if (sqlite3_extended_errcode(s->db) == SQLITE_CONSTRAINT_FOREIGNKEY)
        return box_store_tenant_missing(t->tenant, err);
    return -1;
}

static int create(box_store *s, const box_token *t, int64_t max_tokens, box_error *err)
{
    int64_t count = 0;
    sqlite3_stmt *st = box_store_statement(s, BOX_SQL_TOKEN_COUNT);
    box_store_bind_text(st, 1, t->tenant);
    box_store_bind_int(st, 2, t->created_ns);
    if (box_store_count(s, st, &count, err) < 0)
        return -1;
    if (count >= max_tokens) {
        (void)box_fail(err, BOX_QUOTA,
                       "tenant %s has %lld tokens already: revoke one, or raise "
                       "limits.tokens_per_tenant",
                       t->tenant, (long long)count);
        return box_error_limit(err, "limits.tokens_per_tenant", max_tokens, count);
    }
    st = box_store_statement(s, BOX_SQL_TOKEN_PRUNE);
    box_store_bind_text(st, 1, t->tenant);
    box_store_bind_int(st, 2, t->created_ns);
    box_store_bind_int(st, 3, BOX_MAX_ENDED_TOKENS);
    if (box_store_run(s, st, err) < 0)
        return -1;
    return box_store_insert_token(s, t, err);
}

int box_store_token_create(box_store *s, const box_token *t, int64_t max_tokens, box_error *err)
{
    box_lock_take(&s->lock);
    int rc = box_store_begin(s, err);
    if (rc == 0)
        rc = box_store_end(s, create(s, t, max_tokens, err), err);
    box_lock_release(&s->lock);
    return rc;
}

static int get(box_store *s, uint64_t id, box_token *out, box_error *err)
{
    sqlite3_stmt *st = box_store_statement(s, BOX_SQL_TOKEN_GET);
    box_store_bind_int(st, 1, (int64_t)id);
    int rc = box_store_step(s, st, err);
    if (rc == 1)
        read_token(st, out);
    (void)sqlite3_reset(st); /* the one row was read */
    if (rc == 0)
        return box_store_token_missing(id, err);
    return rc < 0 ? -1 : 0;
}

int box_store_token_get(box_store *s, uint64_t id, box_token *out, box_error *err)
{
    box_lock_take(&s->lock);
    int rc = get(s, id, out, err);
    box_lock_release(&s->lock);
    return rc;
}

int box_store_token_revoke(box_store *s, uint64_t id, int64_t now_ns, box_token *out,
                           box_error *err)
{
    box_lock_take(&s->lock);
    sqlite3_stmt *st = box_store_statement(s, BOX_SQL_TOKEN_REVOKE);
    box_store_bind_int(st, 1, (int64_t)id);
    box_store_bind_int(st, 2, now_ns);
    int rc = box_store_run(s, st, err);
    if (rc == 0)
        rc = get(s, id, out, err);
    box_lock_release(&s->lock);
    return rc;
}

int box_store_token_list(box_store *s, const box_token_filter *filter, const box_position *after,
                         size_t limit, box_token **out, size_t *n, bool *more, box_error *err)
{
    uint64_t after_id = 0;
    if (after->id[0] != '\0' && !box_token_id_parse(after->id, &after_id))
        return box_fail(err, BOX_VALIDATION, "the position is not one of a list of tokens");
    box_token *found = box_alloc_array(limit + 1, sizeof *found);
    *n = 0;
    box_lock_take(&s->lock);
    sqlite3_stmt *st = box_store_statement(s, BOX_SQL_TOKEN_LIST);
    box_store_bind_text(st, 1, filter->tenant);
    box_store_bind_int(st, 2, after->created_ns);
    box_store_bind_int(st, 3, (int64_t)after_id);
    box_store_bind_int(st, 4, filter->live_at_ns);
    box_store_bind_int(st, 5, (int64_t)limit + 1);
    int rc;
    while ((rc = box_store_step(s, st, err)) == 1 && *n <= limit)
        read_token(st, &found[(*n)++]);
    (void)sqlite3_reset(st); /* rows that are not read any more */
    box_lock_release(&s->lock);
    if (rc < 0) {
        free(found);
        return -1;
    }
    *more = *n > limit;
    *n = *more ? limit : *n;
    *out = found;
    return 0;
}

int box_store_token_used(box_store *s, uint64_t id, int64_t used_ns, box_error *err)
{
    box_lock_take(&s->lock);
    sqlite3_stmt *st = box_store_statement(s, BOX_SQL_TOKEN_USED);
    box_store_bind_int(st, 1, (int64_t)id);
    box_store_bind_int(st, 2, used_ns);
    int rc = box_store_run(s, st, err);
    box_lock_release(&s->lock);
    return rc;
}

static int visit_tenants(box_store *s, const box_store_visitor *v, box_error *err)
{
    sqlite3_stmt *st = box_store_statement(s, BOX_SQL_TENANT_LIST);
    box_store_bind_int(st, 1, INT64_MIN);
    box_store_bind_text(st, 2, "");
    int rc;
    while ((rc = box_store_step(s, st, err)) == 1) {
        box_tenant t = {0};
        box_store_read_tenant(st, &t);
        v->tenant(v->arg, &t);
        box_tenant_done(&t);
    }
    return rc;
}

int box_store_visit(box_store *s, const box_store_visitor *v, box_error *err)
{
    box_lock_take(&s->lock);
    int rc = visit_tenants(s, v, err);
    sqlite3_stmt *st = box_store_statement(s, BOX_SQL_TOKEN_VALID);
    while (rc == 0 && (rc = box_store_step(s, st, err)) == 1) {
        box_token t;
        read_token(st, &t);
        v->token(v->arg, &t);
        rc = 0;
    }
    box_lock_release(&s->lock);
    return rc;
}
