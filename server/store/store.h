/* What boxd keeps on disk: one SQLite file in its state directory. Tenants, tokens (only the
 * SHA-256 of their secrets), persistent sessions and the instance id.
 *
 * Every call waits for the disk, so it belongs on a worker (or before the loops run); one lock
 * serialises them. A call that returned 0 has been written and synced: killing boxd at any moment
 * loses nothing that was answered. */
#pragma once

#include "base/id.h"
#include "store/records.h"

typedef struct box_store box_store;

/* Opens or makes state_dir (0700, ours: any other owner or mode is refused) and the database in it,
 * and brings the database to this version. VERSION_MISMATCH for one that a newer boxd wrote;
 * RUNTIME_UNAVAILABLE when another boxd uses the directory. */
int box_store_open(const char *state_dir, box_store **out, box_error *err) BOX_MUST_USE;
void box_store_close(box_store *s);

/* Random, made with the database: what tells the sandboxes of this boxd from another's. */
box_uid box_store_instance(const box_store *s);
/* The state directory; the descriptor stays the store's. */
int box_store_dirfd(const box_store *s);

/* --- tenants ---------------------------------------------------------------------------------- */

/* TENANT_EXISTS {id}; QUOTA when there are max_tenants already. */
BOX_WORKER int box_store_tenant_create(box_store *s, const box_tenant *t, int64_t max_tenants,
                                       box_error *err) BOX_MUST_USE;
/* The error of a tenant that is not there: TENANT_NOT_FOUND {kind, id}. So for all that name one.
 */
int box_store_tenant_missing(const char *id, box_error *err);
BOX_WORKER int box_store_tenant_get(box_store *s, const char *id, box_tenant *out, box_error *err)
    BOX_MUST_USE;
/* Writes display_name, labels, disabled and updated_ns of the tenant t->id. */
BOX_WORKER int box_store_tenant_update(box_store *s, const box_tenant *t, box_error *err)
    BOX_MUST_USE;
/* With its tokens. *deleted is false when there was none. */
BOX_WORKER int box_store_tenant_delete(box_store *s, const char *id, bool *deleted, box_error *err)
    BOX_MUST_USE;

typedef struct box_tenant_filter {
    box_labels labels; /* all must be there; an empty value matches any */
} box_tenant_filter;

/* Tenants behind the position, by creation time, then id; at most `limit`. *out is freed with
 * box_tenants_free. *more: there are others behind. */
BOX_WORKER int box_store_tenant_list(box_store *s, const box_tenant_filter *filter,
                                     const box_position *after, size_t limit, box_tenant **out,
                                     size_t *n, bool *more, box_error *err) BOX_MUST_USE;

/* --- tokens ----------------------------------------------------------------------------------- */

/* TENANT_NOT_FOUND; QUOTA when the tenant has max_tokens that are neither revoked nor expired at
 * t->created_ns. Of those that are, the BOX_MAX_ENDED_TOKENS newest are kept. */
BOX_WORKER int box_store_token_create(box_store *s, const box_token *t, int64_t max_tokens,
                                      box_error *err) BOX_MUST_USE;
/* TOKEN_NOT_FOUND {kind, id}. */
BOX_WORKER int box_store_token_get(box_store *s, uint64_t id, box_token *out, box_error *err)
    BOX_MUST_USE;
/* The error of a token that is not there. */
int box_store_token_missing(uint64_t id, box_error *err);
/* Sets revoked_ns unless it is set. */
BOX_WORKER int box_store_token_revoke(box_store *s, uint64_t id, int64_t now_ns, box_token *out,
                                      box_error *err) BOX_MUST_USE;

typedef struct box_token_filter {
    const char *tenant;
    int64_t live_at_ns; /* only those neither revoked nor expired then; 0 = all */
} box_token_filter;

BOX_WORKER int box_store_token_list(box_store *s, const box_token_filter *filter,
                                    const box_position *after, size_t limit, box_token **out,
                                    size_t *n, bool *more, box_error *err) BOX_MUST_USE;
BOX_WORKER int box_store_token_used(box_store *s, uint64_t id, int64_t used_ns, box_error *err)
    BOX_MUST_USE;

/* Everything policy keeps in memory, once at the start. The callbacks borrow. */
typedef struct box_store_visitor {
    void *arg;
    void (*tenant)(void *arg, const box_tenant *t);
    void (*token)(void *arg, const box_token *t); /* those that are not revoked */
} box_store_visitor;
BOX_WORKER int box_store_visit(box_store *s, const box_store_visitor *v, box_error *err)
    BOX_MUST_USE;

/* --- persistent sessions ---------------------------------------------------------------------- */

/* All in one transaction, or none. */
BOX_WORKER int box_store_sessions_write(box_store *s, const box_session_change *changes, size_t n,
                                        box_error *err) BOX_MUST_USE;
/* At the start of boxd: forgets those of tenants that are gone or disabled, counts the start in
 * each of the others and calls each for it, in the order they were put; not from inside. */
BOX_WORKER int box_store_sessions_start(box_store *s,
                                        void (*each)(void *arg, const box_stored_session *session),
                                        void *arg, box_error *err) BOX_MUST_USE;

/* --- the start -------------------------------------------------------------------------------- */

/* First start: writes both, or nothing when the tenant is there already (*seeded false).
 * before_commit runs when they are written and not yet kept: its failure takes them back. */
BOX_WORKER int box_store_seed(box_store *s, const box_tenant *tenant, const box_token *token,
                              int (*before_commit)(void *arg, box_error *err), void *arg,
                              bool *seeded, box_error *err) BOX_MUST_USE;
