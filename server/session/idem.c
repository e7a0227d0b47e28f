#include "session/idem.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/map.h"

typedef struct entry {
    box_list link; /* in order of ending, once it ended */
    char *name;
    char *tenant;
    char *session;
    uint8_t digest[BOX_IDEM_DIGEST];
    bool ended;
    box_time forget_at;
} entry;

typedef struct count {
    size_t keys;
} count;

struct box_idem {
    box_map *entries; /* tenant/method/key, lengths in front */
    box_map *counts;  /* by tenant */
    box_list ended;
};

box_idem *box_idem_new(void)
{
    box_idem *t = box_alloc(sizeof *t);
    t->entries = box_map_new();
    t->counts = box_map_new();
    box_list_init(&t->ended);
    return t;
}

static void entry_free(entry *e)
{
    box_list_remove(&e->link);
    free(e->name);
    free(e->tenant);
    free(e->session);
    free(e);
}

void box_idem_free(box_idem *t)
{
    if (t == NULL)
        return;
    size_t at = 0;
    void *value;
    while (box_map_next(t->entries, &at, &value))
        entry_free(value);
    at = 0;
    while (box_map_next(t->counts, &at, &value))
        free(value);
    box_map_free(t->entries);
    box_map_free(t->counts);
    free(t);
}

static char *name_of(const char *tenant, const char *method, const char *key)
{
    size_t size = strlen(tenant) + strlen(method) + strlen(key) + 32;
    char *name = box_alloc(size);
    (void)snprintf(name, size, "%zu:%s:%s:%s", strlen(tenant), tenant, method, key);
    return name;
}

static void forget(box_idem *t, entry *e)
{
    (void)box_map_remove(t->entries, e->name); /* it is e */
    count *c = box_map_get(t->counts, e->tenant);
    if (--c->keys == 0)
        free(box_map_remove(t->counts, e->tenant));
    entry_free(e);
}

static void forget_old(box_idem *t, box_time now)
{
    for (box_list *at = t->ended.next, *next; at != &t->ended; at = next) {
        next = at->next;
        entry *e = BOX_CONTAINER(at, entry, link);
        if (e->forget_at > now)
            break;
        forget(t, e);
    }
}

static int full(const char *limit, int64_t max, size_t used, box_error *err)
{
    (void)box_fail(err, BOX_QUOTA, "too many idempotency keys are in use: retry later");
    err->retry_ms = 1000;
    return box_error_limit(err, limit, max, (int64_t)used);
}

static int add(box_idem *t, const char *tenant, char *name, const uint8_t *digest, box_error *err)
{
    size_t all = box_map_count(t->entries);
    count *c = box_map_get(t->counts, tenant);
    size_t own = c != NULL ? c->keys : 0;
    if (all >= BOX_MAX_IDEMPOTENCY_KEYS)
        return full("idempotency_keys", BOX_MAX_IDEMPOTENCY_KEYS, all, err);
    if (own >= BOX_MAX_IDEMPOTENCY_KEYS_PER_TENANT)
        return full("idempotency_keys_per_tenant", BOX_MAX_IDEMPOTENCY_KEYS_PER_TENANT, own, err);
    if (c == NULL) {
        c = box_alloc(sizeof *c);
        (void)box_map_put(t->counts, tenant, c); /* none was there */
    }
    c->keys++;
    entry *e = box_alloc(sizeof *e);
    e->name = box_strdup(name);
    e->tenant = box_strdup(tenant);
    e->session = box_strdup("");
    memcpy(e->digest, digest, sizeof e->digest);
    (void)box_map_put(t->entries, name, e); /* none was there */
    return 0;
}

int box_idem_begin(box_idem *t, const char *tenant, const char *method, const char *key,
                   const uint8_t digest[BOX_IDEM_DIGEST], box_time now, box_idem_outcome *out,
                   const char **out_session, box_error *err)
{
    if (strlen(key) > BOX_MAX_IDEMPOTENCY_KEY_BYTES)
        return box_violation(err, "idempotency_key", "longer than %d bytes",
                             BOX_MAX_IDEMPOTENCY_KEY_BYTES);
    forget_old(t, now);
    BOX_AUTO(box_freep) char *name = name_of(tenant, method, key);
    entry *e = box_map_get(t->entries, name);
    if (e == NULL) {
        if (add(t, tenant, name, digest, err) < 0)
            return -1;
        *out = BOX_IDEM_NEW;
        *out_session = "";
        return 0;
    }
    if (memcmp(e->digest, digest, sizeof e->digest) != 0)
        return box_fail(err, BOX_IDEMPOTENCY_MISMATCH,
                        "this idempotency_key was used with another request");
    *out = e->ended ? BOX_IDEM_ENDED : BOX_IDEM_RUNNING;
    *out_session = e->session;
    return 0;
}

static entry *find(box_idem *t, const char *tenant, const char *method, const char *key)
{
    BOX_AUTO(box_freep) char *name = name_of(tenant, method, key);
    return box_map_get(t->entries, name);
}

void box_idem_note(box_idem *t, const char *tenant, const char *method, const char *key,
                   const char *session)
{
    entry *e = find(t, tenant, method, key);
    if (e == NULL)
        return;
    free(e->session);
    e->session = box_strdup(session);
}

void box_idem_end(box_idem *t, const char *tenant, const char *method, const char *key, bool keep,
                  box_time now)
{
    entry *e = find(t, tenant, method, key);
    if (e == NULL || e->ended)
        return;
    if (!keep) {
        forget(t, e);
        return;
    }
    e->ended = true;
    e->forget_at = box_time_add(now, BOX_IDEMPOTENCY_SECONDS * BOX_SECOND);
    box_list_append(&t->ended, &e->link);
}
