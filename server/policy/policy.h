/* Who may call what: authentication and the scope of each method, decided before a body is read.
 *
 * Tokens and tenants are held in memory (by the hash of the secret), so a call costs no SQL;
 * changes go through here, to the database first and then to memory, and hold from the moment they
 * are answered. */
#pragma once

#include "base/clock.h"
#include "policy/identity.h"
#include "policy/recent.h"
#include "rpc/admit.h"
#include "store/store.h"

typedef struct box_policy box_policy;

#define BOX_DEFAULT_TENANT BOX_TENANT_DEFAULT
/* In the state directory, mode 0600: the secret and a newline. */
#define BOX_ADMIN_TOKEN_FILE "admin.token"

typedef struct box_policy_config {
    box_store *store; /* outlives the policy */
    bool auth_off;
    bool health_needs_token; /* grpc.health.v1.Health: any valid one */
    bool require_init;
    bool box_disabled;
    uint32_t own_uid;       /* boxd's: that and 0 need no token on Unix sockets */
    uint32_t auth_failures; /* per minute and peer address */
    int64_t max_tenants;
    int64_t max_tokens_per_tenant;
    box_time (*now)(void);    /* NULL = box_now */
    int64_t (*wall_ns)(void); /* NULL = box_wall_ns */
    /* A token or tenant stopped being valid: whoever holds open calls checks them with
     * box_policy_check. Any thread; may be NULL. */
    void (*revoked)(void *arg);
    void *revoked_arg;
} box_policy_config;

/* First start: makes tenant `default` and a token with every scope, whose secret is written to
 * BOX_ADMIN_TOKEN_FILE; else nothing (*made false). Before the loops run. */
int box_policy_first_start(box_store *store, int64_t now_ns, bool *made, box_error *err)
    BOX_MUST_USE;

int box_policy_new(const box_policy_config *config, box_policy **out, box_error *err) BOX_MUST_USE;
/* Writes what is not written yet; after the loops have stopped. */
void box_policy_free(box_policy *p);

/* --- calls: any thread, never wait ------------------------------------------------------------ */

/* For box_net_config. Identities are `const box_identity *`, NULL for calls that need none. Errors:
 * UNAUTHENTICATED, RATE_LIMIT (after too many failures of the peer; right tokens still pass),
 * TENANT_NOT_FOUND, PERMISSION {rule}, INIT_REQUIRED, BOX_DISABLED, SHUTTING_DOWN. */
box_admit box_policy_admit(box_policy *p);
/* Whether a call that was admitted may go on: UNAUTHENTICATED or PERMISSION when its token was
 * revoked or expired, or its tenant deleted or disabled, meanwhile. NULL is fine. */
int box_policy_check(box_policy *p, const box_identity *who, box_error *err) BOX_MUST_USE;

void box_policy_set_initialized(box_policy *p); /* Initialize was called */
bool box_policy_is_initialized(const box_policy *p);
void box_policy_set_box_disabled(box_policy *p, bool disabled);
void box_policy_set_draining(box_policy *p); /* new calls get SHUTTING_DOWN */

/* A token as memory has it, the last use included; false when it is gone. */
bool box_policy_token(box_policy *p, uint64_t id, box_token *out);
/* The errors of each tenant's calls. */
box_recent *box_policy_recent(const box_policy *p);
size_t box_policy_tenant_count(box_policy *p);
bool box_policy_auth_off(const box_policy *p);
int64_t box_policy_wall_ns(const box_policy *p);

/* --- changes: on a worker --------------------------------------------------------------------- */

/* t's times are set here. */
BOX_WORKER int box_policy_tenant_create(box_policy *p, box_tenant *t, box_error *err) BOX_MUST_USE;

enum { BOX_TENANT_SET_NAME = 1, BOX_TENANT_SET_LABELS = 2, BOX_TENANT_SET_DISABLED = 4 };
/* Takes the fields `set` names from *changes (whose id says which); *out is the tenant afterwards,
 * the caller's. */
BOX_WORKER int box_policy_tenant_update(box_policy *p, const box_tenant *changes, uint32_t set,
                                        box_tenant *out, box_error *err) BOX_MUST_USE;
/* With its tokens. */
BOX_WORKER int box_policy_tenant_delete(box_policy *p, const char *id, bool *deleted,
                                        box_error *err) BOX_MUST_USE;

/* tenant, name, scopes and expires_ns of *t are given, the rest is filled. */
BOX_WORKER int box_policy_token_create(box_policy *p, box_token *t, char secret[], box_error *err)
    BOX_MUST_USE;
/* tenant NULL = of any tenant; else another tenant's answers TOKEN_NOT_FOUND. Idempotent. */
BOX_WORKER int box_policy_token_revoke(box_policy *p, uint64_t id, const char *tenant,
                                       box_token *out, box_error *err) BOX_MUST_USE;
/* Writes the last uses of tokens. Calls do that by themselves once a minute. */
BOX_WORKER int box_policy_flush(box_policy *p, box_error *err) BOX_MUST_USE;
