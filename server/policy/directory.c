/* Changes of tenants and tokens: the database first, then memory, one at a time. */
#include "base/alloc.h"
#include "policy/policy_impl.h"

static void tell_revoked(const box_policy *p)
{
    if (p->config.revoked != NULL)
        p->config.revoked(p->config.revoked_arg);
}

int box_policy_tenant_create(box_policy *p, box_tenant *t, box_error *err)
{
    t->created_ns = t->updated_ns = p->config.wall_ns();
    box_lock_take(&p->change);
    int rc = box_store_tenant_create(p->config.store, t, p->config.max_tenants, err);
    if (rc == 0) {
        box_lock_take(&p->lock);
        box_policy_put_tenant(p, t);
        box_lock_release(&p->lock);
    }
    box_lock_release(&p->change);
    return rc;
}

static void merge(box_tenant *t, const box_tenant *changes, uint32_t set)
{
    if (set & BOX_TENANT_SET_NAME)
        memcpy(t->display_name, changes->display_name, sizeof t->display_name);
    if (set & BOX_TENANT_SET_DISABLED)
        t->disabled = changes->disabled;
    if (set & BOX_TENANT_SET_LABELS) {
        box_labels_done(&t->labels);
        box_labels_copy(&changes->labels, &t->labels);
    }
}

static int update(box_policy *p, const box_tenant *changes, uint32_t set, box_tenant *out,
                  box_error *err)
{
    box_tenant t = {0};
    if (box_store_tenant_get(p->config.store, changes->id, &t, err) < 0)
        return -1;
    merge(&t, changes, set);
    t.updated_ns = p->config.wall_ns();
    if (box_store_tenant_update(p->config.store, &t, err) < 0) {
        box_tenant_done(&t);
        return -1;
    }
    box_lock_take(&p->lock);
    box_policy_put_tenant(p, &t);
    box_lock_release(&p->lock);
    *out = t;
    return 0;
}

int box_policy_tenant_update(box_policy *p, const box_tenant *changes, uint32_t set,
                             box_tenant *out, box_error *err)
{
    box_lock_take(&p->change);
    int rc = update(p, changes, set, out, err);
    box_lock_release(&p->change);
    if (rc == 0 && out->disabled)
        tell_revoked(p);
    return rc;
}

int box_policy_tenant_delete(box_policy *p, const char *id, bool *deleted, box_error *err)
{
    box_lock_take(&p->change);
    int rc = box_store_tenant_delete(p->config.store, id, deleted, err);
    if (rc == 0 && *deleted) {
        box_lock_take(&p->lock);
        free(box_map_remove(p->tenants, id));
        box_policy_drop_tokens(p, id, 0);
        box_lock_release(&p->lock);
    }
    box_lock_release(&p->change);
    if (rc == 0 && *deleted) {
        box_recent_forget(p->recent, id);
        tell_revoked(p);
    }
    return rc;
}

/* Expired tokens stay in the database, to be listed; here they only cost memory. */
static void sweep(box_policy *p, int64_t now_ns)
{
    if (now_ns - p->swept_ns < 60 * (int64_t)BOX_SECOND)
        return;
    p->swept_ns = now_ns;
    box_policy_drop_tokens(p, NULL, now_ns);
}

int box_policy_token_create(box_policy *p, box_token *t, char secret[], box_error *err)
{
    t->created_ns = p->config.wall_ns();
    box_token_make(t, secret);
    box_lock_take(&p->change);
    int rc = box_store_token_create(p->config.store, t, p->config.max_tokens_per_tenant, err);
    if (rc == 0) {
        box_lock_take(&p->lock);
        sweep(p, t->created_ns);
        box_policy_put_token(p, t);
        box_lock_release(&p->lock);
    }
    box_lock_release(&p->change);
    return rc;
}

static int revoke(box_policy *p, uint64_t id, const char *tenant, box_token *out, box_error *err)
{
    box_token t;
    if (box_store_token_get(p->config.store, id, &t, err) < 0)
        return -1;
    if (tenant != NULL && strcmp(t.tenant, tenant) != 0)
        return box_store_token_missing(id, err);
    if (box_store_token_revoke(p->config.store, id, p->config.wall_ns(), &t, err) < 0)
        return -1;
    box_lock_take(&p->lock);
    const token_entry *e = box_policy_token_by_id(p, id);
    if (e != NULL && e->token.used_ns > t.used_ns)
        t.used_ns = e->token.used_ns;
    box_policy_drop_token(p, id);
    box_lock_release(&p->lock);
    *out = t;
    return 0;
}

int box_policy_token_revoke(box_policy *p, uint64_t id, const char *tenant, box_token *out,
                            box_error *err)
{
    box_lock_take(&p->change);
    int rc = revoke(p, id, tenant, out, err);
    box_lock_release(&p->change);
    if (rc == 0)
        tell_revoked(p);
    return rc;
}
