#include "policy/recent.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/map.h"
#include "loop/lock.h"

typedef struct tenant_errors {
    box_list records; /* oldest first */
    size_t n;
    char name[]; /* the map's key */
} tenant_errors;

typedef struct record {
    box_recent_error error; /* first */
    box_list of_tenant;
    box_list of_all;
    tenant_errors *tenant;
    unsigned refs; /* the lists' one, and one of each that reads it */
    char text[];
} record;

struct box_recent {
    box_lock lock; /* guards all */
    box_map *tenants;
    box_list records; /* oldest first */
    size_t n;
};

box_recent *box_recent_new(void)
{
    box_recent *r = box_alloc(sizeof *r);
    box_lock_init(&r->lock);
    box_list_init(&r->records);
    r->tenants = box_map_new();
    return r;
}

static void unref(record *e)
{
    if (--e->refs == 0)
        free(e);
}

static void drop(box_recent *r, record *e)
{
    tenant_errors *t = e->tenant;
    box_list_remove(&e->of_tenant);
    box_list_remove(&e->of_all);
    r->n--;
    t->n--;
    unref(e);
    if (t->n > 0)
        return;
    (void)box_map_remove(r->tenants, t->name);
    free(t);
}

static record *first_of_all(const box_recent *r)
{
    return BOX_CONTAINER(r->records.next, record, of_all);
}

static record *first_of(const tenant_errors *t)
{
    return BOX_CONTAINER(t->records.next, record, of_tenant);
}

void box_recent_free(box_recent *r)
{
    if (r == NULL)
        return;
    for (box_list *at = r->records.next; at != &r->records;) {
        record *e = BOX_CONTAINER(at, record, of_all);
        at = at->next;
        drop(r, e);
    }
    box_map_free(r->tenants);
    box_lock_done(&r->lock);
    free(r);
}

/* --- adding ----------------------------------------------------------------------------------- */

static bool is_metadata(const char *key)
{
    return strncmp(key, "field:", strlen("field:")) != 0;
}

static size_t size_of(const char *text)
{
    return strlen(text) + 1;
}

static const char *put(char **to, const char *text)
{
    char *at = *to;
    memcpy(at, text, size_of(text));
    *to += size_of(text);
    return at;
}

static record *record_new(const box_recent_error *texts, const box_error *why)
{
    const char *key, *value;
    size_t at = 0;
    record *e = box_alloc(sizeof *e + size_of(texts->session_id) + size_of(texts->request_id) +
                          size_of(texts->msg) + why->detail_len);
    char *to = e->text;
    e->refs = 1;
    e->error = *texts;
    e->error.session_id = put(&to, texts->session_id);
    e->error.request_id = put(&to, texts->request_id);
    e->error.msg = put(&to, texts->msg);
    e->error.metadata = to;
    while (box_error_next(why, &at, &key, &value)) {
        if (!is_metadata(key))
            continue;
        (void)put(&to, key);
        (void)put(&to, value);
        e->error.n_metadata++;
    }
    return e;
}

static tenant_errors *tenant_of(const box_recent *r, const char *name)
{
    tenant_errors *t = box_map_get(r->tenants, name);
    if (t != NULL)
        return t;
    t = box_alloc(sizeof *t + size_of(name));
    box_list_init(&t->records);
    memcpy(t->name, name, size_of(name));
    (void)box_map_put(r->tenants, name, t);
    return t;
}

void box_recent_add(box_recent *r, const char *tenant, const char *method, const char *session_id,
                    const char *request_id, int64_t wall_ns, const box_error *why)
{
    if (why->reason == BOX_CANCELLED || why->reason == BOX_NONE)
        return;
    const box_recent_error texts = {.wall_ns = wall_ns,
                                    .method = method,
                                    .session_id = session_id != NULL ? session_id : "",
                                    .request_id = request_id != NULL ? request_id : "",
                                    .msg = why->msg,
                                    .reason = why->reason};
    record *e = record_new(&texts, why);
    box_lock_take(&r->lock);
    e->tenant = tenant_of(r, tenant);
    box_list_append(&e->tenant->records, &e->of_tenant);
    box_list_append(&r->records, &e->of_all);
    e->tenant->n++;
    r->n++;
    if (e->tenant->n > BOX_RECENT_ERRORS_PER_TENANT)
        drop(r, first_of(e->tenant));
    else if (r->n > BOX_RECENT_ERRORS)
        drop(r, first_of_all(r));
    box_lock_release(&r->lock);
}

void box_recent_forget(box_recent *r, const char *tenant)
{
    box_lock_take(&r->lock);
    const tenant_errors *t = box_map_get(r->tenants, tenant);
    size_t left = t != NULL ? t->n : 0; /* the last one takes t along */
    for (box_list *at = left > 0 ? t->records.next : NULL; left > 0; left--) {
        record *e = BOX_CONTAINER(at, record, of_tenant);
        at = at->next;
        drop(r, e);
    }
    box_lock_release(&r->lock);
}

/* --- looking ---------------------------------------------------------------------------------- */

size_t box_recent_count(box_recent *r, const char *tenant)
{
    box_lock_take(&r->lock);
    const tenant_errors *t = box_map_get(r->tenants, tenant);
    size_t n = t != NULL ? t->n : 0;
    box_lock_release(&r->lock);
    return n;
}

static void reverse(const box_recent_error **list, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        const box_recent_error *other = list[n - 1 - i];
        list[n - 1 - i] = list[i];
        list[i] = other;
    }
}

size_t box_recent_list(box_recent *r, const char *tenant, const char *session_id, size_t max,
                       const box_recent_error **out)
{
    bool all = session_id == NULL || session_id[0] == '\0';
    size_t n = 0;
    box_lock_take(&r->lock);
    tenant_errors *t = box_map_get(r->tenants, tenant);
    for (box_list *at = t != NULL ? t->records.prev : NULL;
         at != NULL && at != &t->records && n < max; at = at->prev) {
        record *e = BOX_CONTAINER(at, record, of_tenant);
        if (!all && strcmp(e->error.session_id, session_id) != 0)
            continue;
        e->refs++;
        out[n++] = &e->error;
    }
    box_lock_release(&r->lock);
    reverse(out, n);
    return n;
}

void box_recent_release(box_recent *r, const box_recent_error *const *list, size_t n)
{
    box_lock_take(&r->lock);
    for (size_t i = 0; i < n; i++)
        unref((record *)(uintptr_t)list[i]); /* error is its first member */
    box_lock_release(&r->lock);
}
