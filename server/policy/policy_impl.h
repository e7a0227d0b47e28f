/* What the files of policy share; nobody else includes it. */
#pragma once

#include <stdatomic.h>

#include "base/map.h"
#include "loop/lock.h"
#include "policy/peers.h"
#include "policy/policy.h"
#include "policy/recent.h"
#include "policy/token.h"

typedef struct tenant_entry {
    char id[BOX_TENANT_ID_BYTES + 1];
    bool disabled;
} tenant_entry;

typedef struct token_entry {
    box_token token;
    bool used; /* since the last flush */
} token_entry;

struct box_policy {
    box_policy_config config;
    box_lock change; /* one change at a time, database and memory: held across SQLite, by workers */
    box_lock lock;   /* guards all below, for a few instructions */
    box_map *tenants; /* id -> tenant_entry */
    box_map *by_hash; /* hash -> token_entry */
    box_map *by_id;   /* id -> the same */
    box_peers *peers;
    box_recent *recent; /* has a lock of its own */
    int64_t swept_ns;   /* when expired tokens were last dropped */

    atomic_bool initialized;
    atomic_bool box_disabled;
    atomic_bool draining;
    atomic_bool flushing;
    _Atomic int64_t flushed_ns;
};

/* With the lock held. */
void box_policy_put_tenant(box_policy *p, const box_tenant *t);
void box_policy_put_token(box_policy *p, const box_token *t);
void box_policy_drop_token(box_policy *p, uint64_t id);
/* Tokens of that tenant, or (tenant NULL) those that expired by now. */
void box_policy_drop_tokens(box_policy *p, const char *tenant, int64_t now_ns);
token_entry *box_policy_token_by_id(const box_policy *p, uint64_t id);

/* admit.c */
int box_policy_decide(box_policy *p, const box_peer *peer, const char *path,
                      const box_metadata *metadata, box_identity *who, bool *open, box_error *err)
    BOX_MUST_USE;
/* flush.c: starts a flush on a worker when one is due and this thread is a loop. */
void box_policy_flush_when_due(box_policy *p, int64_t now_ns);
