#include "policy/policy.h"

#include "base/alloc.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/utf8.h"
#include "policy/method.h"
#include "policy/policy_impl.h"

#include <openssl/crypto.h>

/* --- what is in memory ------------------------------------------------------------------------ */

void box_policy_put_tenant(box_policy *p, const box_tenant *t)
{
    tenant_entry *e = box_map_get(p->tenants, t->id);
    if (e == NULL) {
        e = box_alloc(sizeof *e);
        memcpy(e->id, t->id, sizeof e->id);
        (void)box_map_put(p->tenants, e->id, e); /* there was none */
    }
    e->disabled = t->disabled;
}

void box_policy_put_token(box_policy *p, const box_token *t)
{
    token_entry *e = box_alloc(sizeof *e);
    e->token = *t;
    (void)box_map_put_bytes(p->by_hash, t->hash, sizeof t->hash, e); /* random: there was none */
    (void)box_map_put_bytes(p->by_id, &t->id, sizeof t->id, e);
}

token_entry *box_policy_token_by_id(const box_policy *p, uint64_t id)
{
    return box_map_get_bytes(p->by_id, &id, sizeof id);
}

void box_policy_drop_token(box_policy *p, uint64_t id)
{
    token_entry *e = box_map_remove_bytes(p->by_id, &id, sizeof id);
    if (e != NULL)
        (void)box_map_remove_bytes(p->by_hash, e->token.hash, sizeof e->token.hash); /* e itself */
    free(e);
}

void box_policy_drop_tokens(box_policy *p, const char *tenant, int64_t now_ns)
{
    size_t at = 0;
    size_t n = 0;
    void *value;
    /* A map must not change while it is walked: collect, then drop. */
    BOX_AUTO(box_freep) uint64_t *ids = box_alloc_array(box_map_count(p->by_id) + 1, sizeof *ids);
    while (box_map_next(p->by_id, &at, &value)) {
        const box_token *t = &((token_entry *)value)->token;
        bool expired = t->expires_ns != 0 && t->expires_ns <= now_ns;
        if (tenant != NULL ? strcmp(t->tenant, tenant) == 0 : expired)
            ids[n++] = t->id;
    }
    for (size_t i = 0; i < n; i++)
        box_policy_drop_token(p, ids[i]);
}

static void load_tenant(void *arg, const box_tenant *t)
{
    box_policy_put_tenant(arg, t);
}

static void load_token(void *arg, const box_token *t)
{
    box_policy_put_token(arg, t);
}

/* --- life ------------------------------------------------------------------------------------- */

int box_policy_new(const box_policy_config *config, box_policy **out, box_error *err)
{
    box_policy *p = box_alloc(sizeof *p);
    p->config = *config;
    if (p->config.now == NULL)
        p->config.now = box_now;
    if (p->config.wall_ns == NULL)
        p->config.wall_ns = box_wall_ns;
    box_lock_init(&p->change);
    box_lock_init(&p->lock);
    p->tenants = box_map_new();
    p->by_hash = box_map_new();
    p->by_id = box_map_new();
    p->peers = box_peers_new(config->auth_failures);
    p->recent = box_recent_new();
    atomic_store(&p->box_disabled, config->box_disabled);
    atomic_store(&p->flushed_ns, p->config.wall_ns());
    box_store_visitor v = {p, load_tenant, load_token};
    if (box_store_visit(config->store, &v, err) < 0) {
        box_policy_free(p);
        return -1;
    }
    *out = p;
    return 0;
}

static void free_values(box_map *m)
{
    size_t at = 0;
    void *value;
    while (box_map_next(m, &at, &value))
        free(value);
}

void box_policy_free(box_policy *p)
{
    if (p == NULL)
        return;
    box_error err;
    if (box_policy_flush(p, &err) < 0)
        box_log(BOX_WARN, "policy.flush", BOX_ERR(&err));
    free_values(p->tenants);
    free_values(p->by_id);
    box_map_free(p->tenants);
    box_map_free(p->by_hash);
    box_map_free(p->by_id);
    box_peers_free(p->peers);
    box_recent_free(p->recent);
    box_lock_done(&p->lock);
    box_lock_done(&p->change);
    free(p);
}

/* --- admission -------------------------------------------------------------------------------- */

/* Its name is another's text: the cut must not leave half a character. */
static void note_certificate(box_identity *who, const box_peer *peer)
{
    if (peer->certificate == NULL)
        return;
    size_t len = strnlen(peer->certificate, sizeof who->certificate - 1);
    len = box_utf8_valid_prefix(peer->certificate, len);
    memcpy(who->certificate, peer->certificate, len);
    who->certificate[len] = '\0';
}

/* Holds the lock while it adds, so that a tenant that is deleted meanwhile leaves nothing. */
static void note_failure(box_policy *p, const char *tenant, const char *path,
                         const char *session_id, const box_metadata *metadata, const box_error *why)
{
    char request_id[BOX_MAX_REQUEST_ID_BYTES + 1] = "";
    const box_method_rule *rule = box_method_rule_find(path);
    const char *id = box_metadata_get(metadata, "box-request-id");
    if (rule == NULL)
        return;
    if (id != NULL) /* printable ASCII: what is cut is whole */
        (void)snprintf(request_id, sizeof request_id, "%s", id);
    box_lock_take(&p->lock);
    if (box_map_get(p->tenants, tenant) != NULL)
        box_recent_add(p->recent, tenant, rule->path, session_id, request_id, p->config.wall_ns(),
                       why);
    box_lock_release(&p->lock);
}

static void failed(void *arg, const void *identity, const char *path, const char *session_id,
                   const box_metadata *metadata, const box_error *why)
{
    const box_identity *who = identity;
    note_failure(arg, who->tenant, path, session_id, metadata, why);
}

static int admit(void *arg, const box_peer *peer, const char *path, const box_metadata *metadata,
                 const void **identity, box_error *err)
{
    box_policy *p = arg;
    box_identity who = {0};
    bool open = false;
    if (box_policy_decide(p, peer, path, metadata, &who, &open, err) < 0) {
        if (who.tenant[0] != '\0')
            note_failure(p, who.tenant, path, "", metadata, err);
        return -1;
    }
    if (!open) {
        box_identity *kept = box_alloc(sizeof *kept);
        *kept = who;
        note_certificate(kept, peer);
        *identity = kept;
    }
    return 0;
}

static void release(void *arg, const void *identity)
{
    (void)arg;
    free((void *)(uintptr_t)identity);
}

static int check(void *arg, const void *identity, box_error *err)
{
    return box_policy_check(arg, identity, err);
}

static const char *tenant(const void *identity)
{
    const box_identity *who = identity;
    return who->tenant;
}

box_admit box_policy_admit(box_policy *p)
{
    return (box_admit){.arg = p,
                       .admit = admit,
                       .release = release,
                       .failed = failed,
                       .check = check,
                       .tenant = tenant};
}

void box_policy_set_initialized(box_policy *p)
{
    atomic_store(&p->initialized, true);
}

bool box_policy_is_initialized(const box_policy *p)
{
    return atomic_load(&p->initialized);
}

void box_policy_set_box_disabled(box_policy *p, bool disabled)
{
    atomic_store(&p->box_disabled, disabled);
}

void box_policy_set_draining(box_policy *p)
{
    atomic_store(&p->draining, true);
}

bool box_policy_token(box_policy *p, uint64_t id, box_token *out)
{
    box_lock_take(&p->lock);
    const token_entry *e = box_policy_token_by_id(p, id);
    if (e != NULL)
        *out = e->token;
    box_lock_release(&p->lock);
    return e != NULL;
}

box_recent *box_policy_recent(const box_policy *p)
{
    return p->recent;
}

size_t box_policy_tenant_count(box_policy *p)
{
    box_lock_take(&p->lock);
    size_t n = box_map_count(p->tenants);
    box_lock_release(&p->lock);
    return n;
}

bool box_policy_auth_off(const box_policy *p)
{
    return p->config.auth_off;
}

int64_t box_policy_wall_ns(const box_policy *p)
{
    return p->config.wall_ns();
}

/* --- first start ------------------------------------------------------------------------------ */

typedef struct first_token {
    int dirfd;
    char line[BOX_TOKEN_SECRET_LEN + 2];
} first_token;

/* Runs before the commit: a kill in between leaves a file that the next start replaces. */
static int write_secret(void *arg, box_error *err)
{
    const first_token *t = arg;
    return box_fd_replace_file(t->dirfd, BOX_ADMIN_TOKEN_FILE, t->line, BOX_TOKEN_SECRET_LEN + 1,
                               0600, err);
}

int box_policy_first_start(box_store *store, int64_t now_ns, bool *made, box_error *err)
{
    box_tenant tenant = {.id = BOX_DEFAULT_TENANT, .created_ns = now_ns, .updated_ns = now_ns};
    box_token token = {.tenant = BOX_DEFAULT_TENANT,
                       .name = "first administrator",
                       .scopes = BOX_ALL_SCOPES,
                       .created_ns = now_ns};
    first_token file = {.dirfd = box_store_dirfd(store)};
    box_token_make(&token, file.line);
    file.line[BOX_TOKEN_SECRET_LEN] = '\n';
    int rc = box_store_seed(store, &tenant, &token, write_secret, &file, made, err);
    OPENSSL_cleanse(file.line, sizeof file.line);
    return rc;
}
