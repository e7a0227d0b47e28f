/* The decision about one call: who it is, as which tenant, and whether the method is allowed. */
#include <stdlib.h>

#include "policy/method.h"
#include "policy/policy_impl.h"

enum { ADMIN = BOX_ALL_SCOPES };
static const int64_t minute_ns = 60 * (int64_t)BOX_SECOND;

static int refuse(box_error *err, const char *rule, const char *text)
{
    (void)box_fail(err, BOX_PERMISSION, "%s", text);
    box_error_add(err, "rule", rule);
    return -1;
}

static void set_tenant(box_identity *who, const char *tenant)
{
    (void)snprintf(who->tenant, sizeof who->tenant, "%s", tenant);
}

static bool is_loopback(const box_peer *peer)
{
    const char *a = peer->address != NULL ? peer->address : "";
    return peer->is_unix || strncmp(a, "127.", 4) == 0 || strncmp(a, "[::1]", 5) == 0;
}

static int no_token(box_policy *p, const box_peer *peer, box_identity *who, box_error *err)
{
    if (p->config.auth_off && is_loopback(peer)) {
        who->scopes = ADMIN;
        set_tenant(who, BOX_DEFAULT_TENANT);
        return 0;
    }
    if (peer->is_unix && (peer->uid == 0 || peer->uid == p->config.own_uid)) {
        who->scopes = ADMIN;
        who->by_peer = true;
        set_tenant(who, BOX_DEFAULT_TENANT);
        return 0;
    }
    if (peer->is_unix)
        return box_fail(err, BOX_UNAUTHENTICATED,
                        "uid %u needs a token on this socket: send metadata authorization: Bearer "
                        "TOKEN",
                        (unsigned)peer->uid);
    return box_fail(err, BOX_UNAUTHENTICATED,
                    "no token: send metadata authorization: Bearer TOKEN");
}

/* The token of that hash, when it still works; marks its use. */
static bool use_token(box_policy *p, const uint8_t hash[BOX_TOKEN_HASH_BYTES], int64_t now_ns,
                      box_identity *who)
{
    int64_t minute = now_ns / minute_ns * minute_ns;
    bool good = false;
    box_lock_take(&p->lock);
    token_entry *e = box_map_get_bytes(p->by_hash, hash, BOX_TOKEN_HASH_BYTES);
    if (e != NULL && (e->token.expires_ns == 0 || e->token.expires_ns > now_ns)) {
        good = true;
        who->token_id = e->token.id;
        who->scopes = e->token.scopes;
        set_tenant(who, e->token.tenant);
        if (e->token.used_ns < minute) {
            e->token.used_ns = minute;
            e->used = true;
        }
    }
    box_lock_release(&p->lock);
    return good;
}

static int with_token(box_policy *p, const char *header, int64_t now_ns, box_identity *who,
                      box_error *err)
{
    uint8_t hash[BOX_TOKEN_HASH_BYTES];
    const char *secret = box_token_of_header(header);
    if (secret == NULL)
        return box_fail(err, BOX_UNAUTHENTICATED,
                        "authorization must be: Bearer TOKEN, and nothing else");
    if (!box_token_hash(secret, hash) || !use_token(p, hash, now_ns, who))
        return box_fail(err, BOX_UNAUTHENTICATED,
                        "the token is not known here, was revoked or has expired: ask an "
                        "administrator for a new one (boxcli token create)");
    return 0;
}

static int authenticate(box_policy *p, const box_peer *peer, const box_metadata *metadata,
                        int64_t now_ns, box_identity *who, box_error *err)
{
    const char *header = NULL;
    for (size_t i = 0; i < metadata->count; i++) {
        if (strcmp(metadata->entries[i].key, "authorization") != 0)
            continue;
        if (header != NULL)
            return box_fail(err, BOX_UNAUTHENTICATED, "more than one authorization was sent");
        header = (const char *)metadata->entries[i].value;
    }
    if (header == NULL)
        return no_token(p, peer, who, err);
    return with_token(p, header, now_ns, who, err);
}

/* Turns a failed authentication into RATE_LIMIT once the peer had too many. */
static int count_failure(box_policy *p, const box_peer *peer, box_error *err)
{
    uint32_t retry_ms = 0;
    box_lock_take(&p->lock);
    bool within = box_peers_failed(p->peers, peer, p->config.now(), &retry_ms);
    box_lock_release(&p->lock);
    if (within)
        return -1;
    (void)box_fail(err, BOX_RATE_LIMIT,
                   "too many failed authentications from this address: wait, then send a valid "
                   "token");
    err->retry_ms = retry_ms;
    return -1;
}

typedef enum tenant_state { MISSING, DISABLED, ENABLED } tenant_state;

static tenant_state state_of(box_policy *p, const char *tenant)
{
    box_lock_take(&p->lock);
    const tenant_entry *e = box_map_get(p->tenants, tenant);
    tenant_state s = e == NULL ? MISSING : e->disabled ? DISABLED : ENABLED;
    box_lock_release(&p->lock);
    return s;
}

static int need_enabled(box_policy *p, const char *tenant, box_error *err)
{
    switch (state_of(p, tenant)) {
    case ENABLED:
        return 0;
    case DISABLED:
        return refuse(err, "tenant.disabled",
                      "this tenant is disabled: ask the server's administrator");
    default:
        break;
    }
    return box_store_tenant_missing(tenant, err);
}

/* Metadata `box-tenant`: only with tenants.act; to anyone else other tenants do not exist. */
static int act_as(box_policy *p, const box_metadata *metadata, box_identity *who, box_error *err)
{
    const char *wanted = box_metadata_get(metadata, "box-tenant");
    if (wanted == NULL || strcmp(wanted, who->tenant) == 0)
        return 0;
    bool allowed = (who->scopes & BOX_SCOPE_TENANTS_ACT) != 0;
    if (!allowed || strlen(wanted) > BOX_MAX_TENANT_ID || state_of(p, wanted) == MISSING)
        return box_store_tenant_missing(wanted, err);
    set_tenant(who, wanted);
    return need_enabled(p, who->tenant, err);
}

static int need_scope(const box_method_rule *rule, const box_identity *who, box_error *err)
{
    if ((rule->scope & ~who->scopes) == 0)
        return 0;
    (void)box_fail(err, BOX_PERMISSION,
                   "this token lacks scope %s: ask an administrator for one that has it",
                   box_scope_name(rule->scope));
    box_error_add(err, "rule", "scope");
    box_error_add(err, "scope", box_scope_name(rule->scope));
    return -1;
}

static int need_server(box_policy *p, const box_method_rule *rule, box_error *err)
{
    if (p->config.require_init && (rule->flags & BOX_METHOD_BEFORE_INIT) == 0 &&
        !atomic_load(&p->initialized))
        return box_fail(err, BOX_INIT_REQUIRED,
                        "the server waits for an administrator to call Initialize");
    if ((rule->flags & BOX_METHOD_SANDBOX) != 0 && atomic_load(&p->box_disabled))
        return box_fail(err, BOX_BOX_DISABLED,
                        "sandboxes are switched off on this server (box.enabled: false)");
    return 0;
}

int box_policy_decide(box_policy *p, const box_peer *peer, const char *path,
                      const box_metadata *metadata, box_identity *who, bool *open, box_error *err)
{
    const box_method_rule *rule = box_method_rule_find(path);
    int64_t now_ns = p->config.wall_ns();
    *open = rule != NULL && (rule->flags & BOX_METHOD_OPEN) != 0 && !p->config.health_needs_token;
    if (*open)
        return 0;
    if (atomic_load(&p->draining))
        return box_fail(err, BOX_SHUTTING_DOWN, "the server is shutting down: try again later");
    if (authenticate(p, peer, metadata, now_ns, who, err) < 0)
        return count_failure(p, peer, err);
    if (rule == NULL)
        return refuse(err, "method", "no caller may use this method");
    box_policy_flush_when_due(p, now_ns);
    if (need_enabled(p, who->tenant, err) < 0 || act_as(p, metadata, who, err) < 0 ||
        need_scope(rule, who, err) < 0)
        return -1;
    return need_server(p, rule, err);
}

/* Also the tenant whose token it is: who acts as another one is still of that. */
static bool still_good(box_policy *p, uint64_t token, int64_t now_ns, box_identity *owner)
{
    box_lock_take(&p->lock);
    const token_entry *e = box_policy_token_by_id(p, token);
    bool good = e != NULL && (e->token.expires_ns == 0 || e->token.expires_ns > now_ns);
    if (good)
        set_tenant(owner, e->token.tenant);
    box_lock_release(&p->lock);
    return good;
}

int box_policy_check(box_policy *p, const box_identity *who, box_error *err)
{
    if (who == NULL)
        return 0;
    box_identity owner = {0};
    if (who->token_id != 0) {
        if (!still_good(p, who->token_id, p->config.wall_ns(), &owner))
            return box_fail(err, BOX_UNAUTHENTICATED,
                            "the token of this call was revoked or has expired");
        if (need_enabled(p, owner.tenant, err) < 0)
            return -1;
    }
    return need_enabled(p, who->tenant, err);
}
