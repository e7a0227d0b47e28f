#include "session/watch.h"

#include "base/alloc.h"
#include "base/limits.h"

/* What one watcher is still to be told of one incarnation (or SYNCED: of none). */
typedef struct entry {
    box_list link;
    box_watch_type type;
    box_session *session; /* a reference */
} entry;

struct box_session_watch {
    atomic_uint refs;
    /* fixed */
    box_sessions *all;
    box_loop *loop;
    char *tenant;
    char *id;        /* NULL = all */
    box_spec labels; /* only its labels */
    box_session_watch_events events;
    void *arg;
    /* guarded by all->lock */
    box_list link;
    box_list order; /* of entry */
    box_map *by_uid;
    uint64_t lost;
    bool posted;   /* deliver is on its way */
    box_error end; /* reason NONE: goes on */
    /* of the loop */
    bool closed;
};

static void watch_unref(box_session_watch *w)
{
    if (atomic_fetch_sub_explicit(&w->refs, 1, memory_order_acq_rel) != 1)
        return;
    box_map_free(w->by_uid);
    box_spec_done(&w->labels);
    free(w->tenant);
    free(w->id);
    free(w);
}

bool box_spec_labels_match(const box_label *wanted, size_t n, const box_label *have, size_t n_have)
{
    for (size_t i = 0; i < n; i++) {
        bool found = false;
        for (size_t j = 0; j < n_have && !found; j++)
            found = strcmp(wanted[i].key, have[j].key) == 0 &&
                    (wanted[i].value[0] == '\0' || strcmp(wanted[i].value, have[j].value) == 0);
        if (!found)
            return false;
    }
    return true;
}

/* --- table's side, lock held ------------------------------------------------------------------ */

static void deliver(void *arg);

static void wake(box_session_watch *w)
{
    if (w->posted)
        return;
    w->posted = true;
    atomic_fetch_add_explicit(&w->refs, 1, memory_order_relaxed);
    box_loop_post(w->loop, deliver, w);
}

static bool wants(const box_session_watch *w, const box_session *s)
{
    return !s->one_off && w->end.reason == BOX_NONE && strcmp(w->tenant, s->tenant_name) == 0 &&
           (w->id == NULL || strcmp(w->id, s->id) == 0) &&
           box_spec_labels_match(w->labels.labels, w->labels.n_labels, s->spec.labels,
                                 s->spec.n_labels);
}

static void add(box_session_watch *w, box_session *s, box_watch_type type)
{
    entry *e = box_alloc(sizeof *e);
    e->type = type;
    box_list_append(&w->order, &e->link);
    if (s == NULL)
        return;
    e->session = box_session_ref(s);
    (void)box_map_put_bytes(w->by_uid, &s->uid, sizeof s->uid, e); /* none was there */
}

/* Two things that happened before the watcher heard of the first become one. */
static void merge(entry *e, box_watch_type type)
{
    bool more = e->type == BOX_WATCH_UPDATED && type == BOX_WATCH_STATE_CHANGED;
    if (type == BOX_WATCH_DELETED || more)
        e->type = type;
}

void box_watches_tell(box_session *s, box_watch_type type)
{
    box_list *head = &s->all->watches;
    for (box_list *at = head->next; at != head; at = at->next) {
        box_session_watch *w = BOX_CONTAINER(at, box_session_watch, link);
        if (!wants(w, s))
            continue;
        entry *e = box_map_get_bytes(w->by_uid, &s->uid, sizeof s->uid);
        if (e != NULL)
            merge(e, type);
        else if (box_map_count(w->by_uid) < BOX_MAX_WATCH_DELETIONS)
            add(w, s, type);
        else
            w->lost++;
        wake(w);
    }
}

void box_watches_end(box_sessions *all, const box_error *why)
{
    box_lock_take(&all->lock);
    for (box_list *at = all->watches.next; at != &all->watches; at = at->next) {
        box_session_watch *w = BOX_CONTAINER(at, box_session_watch, link);
        w->end = *why;
        wake(w);
    }
    box_lock_release(&all->lock);
}

/* --- watcher's side --------------------------------------------------------------------------- */

typedef struct news {
    box_watch_type type; /* 0: there is none */
    bool has_info;
    box_session_info info;
    uint64_t lost;
    box_error end;
} news;

static void next_locked(box_session_watch *w, news *out)
{
    *out = (news){.end = w->end};
    if (w->end.reason != BOX_NONE)
        return;
    if (box_list_empty(&w->order)) {
        out->lost = w->lost;
        out->type = w->lost > 0 ? BOX_WATCH_LOST : 0;
        w->lost = 0;
        return;
    }
    entry *e = BOX_CONTAINER(w->order.next, entry, link);
    box_list_remove(&e->link);
    out->type = e->type;
    if (e->session != NULL) {
        (void)box_map_remove_bytes(w->by_uid, &e->session->uid, sizeof e->session->uid);
        box_session_snapshot_locked(e->session, &out->info);
        out->has_info = true;
        box_session_unref(e->session);
    }
    free(e);
}

static bool deliver_one(box_session_watch *w)
{
    news n;
    box_lock_take(&w->all->lock);
    next_locked(w, &n);
    box_lock_release(&w->all->lock);
    if (n.end.reason != BOX_NONE) {
        w->closed = true;
        w->events.ended(w->arg, &n.end);
        return false;
    }
    if (n.type == 0)
        return false;
    w->events.event(w->arg, n.type, n.has_info ? &n.info : NULL, n.lost);
    if (n.has_info)
        box_session_info_done(&n.info);
    return true;
}

/* One event a turn: a watcher with much to hear does not keep the loop from its other work. */
static void deliver(void *arg)
{
    box_session_watch *w = arg;
    box_lock_take(&w->all->lock);
    w->posted = false;
    box_lock_release(&w->all->lock);
    if (!w->closed && w->events.writable(w->arg) && deliver_one(w))
        box_session_watch_resume(w);
    watch_unref(w);
}

void box_session_watch_resume(box_session_watch *w)
{
    box_lock_take(&w->all->lock);
    if (!w->closed)
        wake(w);
    box_lock_release(&w->all->lock);
}

static void add_existing(box_session_watch *w)
{
    box_tenancy *t = box_map_get(w->all->tenants, w->tenant);
    for (box_list *at = t != NULL ? t->sessions.next : NULL; t != NULL && at != &t->sessions;
         at = at->next) {
        box_session *s = BOX_CONTAINER(at, box_session, of_tenant);
        if (wants(w, s))
            add(w, s, BOX_WATCH_EXISTING);
    }
    add(w, NULL, BOX_WATCH_SYNCED);
    wake(w);
}

static size_t watches_of_tenant(box_sessions *all, const char *tenant)
{
    size_t n = 0;
    for (box_list *at = all->watches.next; at != &all->watches; at = at->next)
        n += strcmp(BOX_CONTAINER(at, box_session_watch, link)->tenant, tenant) == 0 ? 1 : 0;
    return n;
}

static int enter_locked(box_session_watch *w, bool include_existing, box_error *err)
{
    box_sessions *all = w->all;
    if (all->n_watches >= BOX_MAX_SESSION_WATCHES ||
        watches_of_tenant(all, w->tenant) >= BOX_MAX_SESSION_WATCHES_PER_TENANT) {
        (void)box_fail(err, BOX_RATE_LIMIT, "too many watchers: retry later");
        err->retry_ms = 1000;
        return -1;
    }
    if (w->id != NULL) {
        box_session *s = box_sessions_find_locked(all, w->tenant, w->id);
        if (s == NULL || s->one_off) {
            return box_session_not_found(w->id, err);
        }
    }
    all->n_watches++;
    box_list_append(&all->watches, &w->link);
    if (include_existing)
        add_existing(w);
    return 0;
}

int box_session_watch_new(box_sessions *all, const box_session_watch_request *r,
                          const box_session_watch_events *events, void *arg,
                          box_session_watch **out, box_error *err)
{
    bool one = r->id != NULL && r->id[0] != '\0';
    if (one && box_session_id_check(r->id, "session_id", err) < 0)
        return -1;
    box_session_watch *w = box_alloc(sizeof *w);
    atomic_init(&w->refs, 1);
    w->all = all;
    w->loop = box_loop_current();
    w->tenant = box_strdup(r->tenant);
    w->id = one ? box_strdup(r->id) : NULL;
    box_spec_set_labels(&w->labels, r->labels, r->n_labels);
    w->events = *events;
    w->arg = arg;
    w->by_uid = box_map_new();
    box_list_init(&w->order);
    box_lock_take(&all->lock);
    int rc = enter_locked(w, r->include_existing, err);
    box_lock_release(&all->lock);
    if (rc < 0) {
        watch_unref(w);
        return -1;
    }
    *out = w;
    return 0;
}

void box_session_watch_free(box_session_watch *w)
{
    if (w == NULL)
        return;
    w->closed = true;
    box_lock_take(&w->all->lock);
    box_list_remove(&w->link);
    w->all->n_watches--;
    for (box_list *at = w->order.next, *next; at != &w->order; at = next) {
        next = at->next;
        entry *e = BOX_CONTAINER(at, entry, link);
        box_session_unref(e->session);
        free(e);
    }
    box_list_init(&w->order);
    box_lock_release(&w->all->lock);
    watch_unref(w);
}
