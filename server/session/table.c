#include "session/table.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "session/pool.h"
#include "session/process_impl.h"
#include "session/watch.h"

/* --- references ------------------------------------------------------------------------------- */

box_session *box_session_new(box_sessions *all, box_loop *home, const box_uid *uid,
                             const char *tenant, const char *id)
{
    box_session *s = box_alloc(sizeof *s);
    atomic_init(&s->refs, 1);
    s->all = all;
    s->home = home;
    s->uid = *uid;
    box_uid_text(&s->uid, s->uid_text);
    s->tenant_name = box_strdup(tenant);
    s->id = box_strdup_null(id);
    s->state = BOX_SESSION_CREATED;
    s->last_used = box_loop_now(s->home);
    s->created_wall_ns = s->last_used_wall_ns = s->updated_wall_ns = all->wall_ns();
    s->memory = (box_share){.budget = all->budget, .free_bytes = BOX_SESSION_FREE_BYTES};
    s->cgroup_fd = s->memory_fd = s->memory_dir = s->pids_fd = s->channel_fd = -1;
    s->cpu.files_left = &all->cpu_files_left;
    s->next_exec_id = s->first_exec_id = 1;
    box_list_init(&s->want_run);
    box_list_init(&s->want_end);
    box_list_init(&s->queue);
    box_list_init(&s->running);
    box_list_init(&s->held);
    box_list_init(&s->file_idle);
    box_list_init(&s->file_wait);
    box_list_init(&s->file_workers);
    s->next_worker_id = 1;
    box_list_init(&s->forwards);
    s->next_forward_id = 1;
    box_list_init(&s->processes);
    box_list_init(&s->awaited);
    return s;
}

box_session *box_session_ref(box_session *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void box_session_unref(box_session *s)
{
    if (s == NULL || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    assert(s->agent == NULL && s->cgroup_fd < 0 && s->memory_fd < 0 && s->pids_fd < 0 &&
           s->channel_fd < 0 && s->timer == NULL && s->keep_timer == NULL &&
           s->forget_timer == NULL && box_list_empty(&s->awaited));
    box_processes_drop(s);
    box_spec_done(&s->spec);
    box_share_give(&s->memory, s->charged_bytes);
    assert(atomic_load(&s->memory.used) == 0); /* commands hold a reference */
    free(s->tenant_name);
    free(s->id);
    free(s);
}

void box_session_unrefp(box_session **s)
{
    box_session_unref(*s);
    *s = NULL;
}

void box_session_post(box_session *s, void (*fn)(void *session))
{
    box_loop_post(s->home, fn, box_session_ref(s));
}

/* --- waiters ---------------------------------------------------------------------------------- */

box_waiter *box_waiter_new(box_session_done done, void *arg)
{
    box_waiter *w = box_alloc(sizeof *w);
    w->loop = box_loop_current();
    w->done = done;
    w->arg = arg;
    return w;
}

static void waiter_deliver(void *arg)
{
    box_waiter *w = arg;
    w->done(w->arg, w->has_info ? &w->info : NULL, w->error.reason != BOX_NONE ? &w->error : NULL);
    if (w->has_info)
        box_session_info_done(&w->info);
    free(w);
}

void box_waiter_answer(box_waiter *w, const box_session *s, const box_error *err)
{
    box_list_remove(&w->link);
    if (err != NULL) {
        w->error = *err;
    } else if (s != NULL) {
        box_session_snapshot_locked(s, &w->info);
        w->info.created = w->created;
        w->has_info = true;
    }
    box_loop_post(w->loop, waiter_deliver, w);
}

static void answer_all(box_list *waiters, const box_session *s, const box_error *err)
{
    while (!box_list_empty(waiters))
        box_waiter_answer(BOX_CONTAINER(waiters->next, box_waiter, link), s, err);
}

/* --- keys and tenants ------------------------------------------------------------------------- */

typedef struct key {
    size_t len;
    char text[BOX_MAX_ID_BYTES * 2 + 2];
} key;

/* tenant NUL id: neither holds a NUL. */
static key key_of(const char *tenant, const char *id)
{
    key k;
    size_t tenant_len = strnlen(tenant, BOX_MAX_ID_BYTES);
    size_t id_len = strnlen(id, BOX_MAX_ID_BYTES);
    memcpy(k.text, tenant, tenant_len);
    k.text[tenant_len] = '\0';
    memcpy(k.text + tenant_len + 1, id, id_len);
    k.len = tenant_len + 1 + id_len;
    return k;
}

static box_tenancy *tenant_get(box_sessions *all, const char *name)
{
    box_tenancy *t = box_map_get(all->tenants, name);
    if (t != NULL)
        return t;
    t = box_alloc(sizeof *t);
    t->name = box_strdup(name);
    box_list_init(&t->sessions);
    box_list_init(&t->ended);
    box_list_init(&t->idle);
    box_list_init(&t->of_size);
    (void)box_map_put(all->tenants, name, t); /* none was there */
    return t;
}

void box_tenancy_drop_if_unused(box_sessions *all, box_tenancy *t)
{
    if (t->live > 0 || t->forwards > 0 || !box_list_empty(&t->sessions))
        return;
    box_list_remove(&t->of_size);
    (void)box_map_remove(all->tenants, t->name); /* it is t */
    free(t->name);
    free(t);
}

box_session *box_sessions_find_locked(box_sessions *all, const char *tenant, const char *id)
{
    key k = key_of(tenant, id);
    return box_map_get_bytes(all->by_key, k.text, k.len);
}

int box_session_not_found(const char *id, box_error *err)
{
    (void)box_fail(err, BOX_SESSION_NOT_FOUND, "no session %s", id);
    box_error_add(err, "kind", "session");
    box_error_add(err, "id", id);
    return -1;
}

int box_sessions_find(box_sessions *all, const char *tenant, const char *id, box_session **out,
                      box_error *err)
{
    box_lock_take(&all->lock);
    box_session *s = box_sessions_find_locked(all, tenant, id);
    if (s != NULL && !s->one_off)
        *out = box_session_ref(s);
    else
        s = NULL;
    box_lock_release(&all->lock);
    return s != NULL ? 0 : box_session_not_found(id, err);
}

box_session *box_sessions_find_uid(box_sessions *all, const box_uid *uid)
{
    box_lock_take(&all->lock);
    box_session *s = box_map_get_bytes(all->by_uid, uid, sizeof *uid);
    if (s != NULL)
        box_session_ref(s);
    box_lock_release(&all->lock);
    return s;
}

/* The record leaves the table; the table's reference goes. */
void box_session_remove_locked(box_session *s)
{
    if (!s->in_table)
        return;
    s->in_table = false;
    s->all->states[s->state]--;
    box_tenancy *t = s->tenant;
    box_list_remove(&s->of_tenant);
    box_list_remove(&s->of_idle);
    if (box_list_linked(&s->of_ended)) {
        box_list_remove(&s->of_ended);
        t->n_ended--;
    }
    key k = key_of(s->tenant_name, s->id);
    (void)box_map_remove_bytes(s->all->by_key, k.text, k.len); /* it is s */
    box_tenancy_drop_if_unused(s->all, t);
    s->tenant = NULL;
    box_session_unref(s);
}

/* --- events ----------------------------------------------------------------------------------- */

static box_time now_here(void)
{
    return box_loop_now(box_loop_current());
}

int box_session_not_running_locked(const box_session *s, box_error *err)
{
    if (s->state == BOX_SESSION_ERROR) {
        if (s->error.reason != BOX_NONE) {
            *err = s->error;
            return -1;
        }
        return box_fail(err, BOX_SESSION_BROKEN, "session %s is broken", s->id);
    }
    const char *why = box_stop_reason_name(s->stop_reason);
    (void)box_fail(err, BOX_SESSION_NOT_RUNNING, "session %s is not running (%s)", s->id, why);
    box_error_add(err, "stop_reason", why);
    return -1;
}

int box_session_not_running(box_session *s, box_error *err)
{
    box_lock_take(&s->all->lock);
    (void)box_session_not_running_locked(s, err); /* always -1 */
    box_lock_release(&s->all->lock);
    return -1;
}

/* Who takes the place of one that was evicted may begin. */
static void hand_over_locked(box_session *s, box_tenancy *t)
{
    if (s->successor == NULL)
        return;
    s->all->leaving--;
    t->leaving--;
    box_tenancy_note_size_locked(s->all, t);
    box_loop_post(s->successor->home, box_sandbox_start, s->successor); /* with the reference */
    s->successor = NULL;
}

/* It does not count as live any more; a record stays unless nobody may see it. */
static void ended_locked(box_session *s)
{
    box_sessions *all = s->all;
    box_tenancy *t = box_map_get(all->tenants, s->tenant_name);
    all->live--;
    t->live--;
    box_tenancy_note_size_locked(all, t);
    all->staying -= s->stays;
    hand_over_locked(s, t);
    if (!s->in_table) {
        box_tenancy_drop_if_unused(all, t);
        return;
    }
    if (s->one_off || s->deleted) {
        box_watches_tell(s, BOX_WATCH_DELETED);
        box_session_remove_locked(s);
        return;
    }
    box_session_drop_env_locked(s);
    box_list_append(&t->ended, &s->of_ended);
    if (++t->n_ended > BOX_MAX_SESSION_RECORDS) {
        box_session *oldest = BOX_CONTAINER(t->ended.next, box_session, of_ended);
        box_watches_tell(oldest, BOX_WATCH_DELETED);
        box_session_remove_locked(oldest);
    }
}

/* Callers are gone by now: what they ran ends soon. */
static bool is_quiet(box_sessions *all)
{
    size_t at = 0;
    void *value;
    while (box_map_next(all->by_uid, &at, &value)) {
        const box_session *s = value;
        if (s->active > s->kept_alive)
            return false;
    }
    return true;
}

void box_sessions_check_drained_locked(box_sessions *all)
{
    if (all->draining && all->drained != NULL && all->live == all->staying &&
        box_pool_is_empty_locked(all->pool) && is_quiet(all)) {
        box_loop_post(box_loops_get(all->loops, 0), all->drained, all->drained_arg);
        all->drained = NULL;
    }
}

static bool happens_locked(box_session *s, box_session_event event, box_stop_reason reason,
                           const box_error *why, box_time now)
{
    box_session_state before = s->state;
    if (!box_session_next(&s->state, event))
        return false;
    if (s->in_table) {
        s->all->states[before]--;
        s->all->states[s->state]++;
    }
    s->updated_wall_ns = s->all->wall_ns();
    if (reason != BOX_STOP_NONE)
        s->stop_reason = reason;
    if (why != NULL)
        s->error = *why;
    if (!box_session_is_live(s->state)) {
        s->ended_at = now;
        s->stopped_wall_ns = s->updated_wall_ns;
    }
    box_watches_tell(s, BOX_WATCH_STATE_CHANGED);
    if (event == BOX_EVENT_READY && !s->adopted) { /* being taken over is no use */
        s->last_used = now;
        s->last_used_wall_ns = s->updated_wall_ns;
    }
    if (event == BOX_EVENT_READY)
        answer_all(&s->want_run, s, NULL);
    box_session_note_idle_locked(s);
    if (event == BOX_EVENT_STOP || event == BOX_EVENT_FAIL || event == BOX_EVENT_LOST) {
        box_error err = {0};
        (void)box_session_not_running_locked(s, &err); /* always -1 */
        answer_all(&s->want_run, s, &err);
    }
    if (event == BOX_EVENT_GONE || event == BOX_EVENT_FAIL || event == BOX_EVENT_LOST) {
        box_sessions *all = s->all;
        answer_all(&s->want_end, s, NULL);
        ended_locked(s);
        box_sessions_check_drained_locked(all);
    }
    return true;
}

bool box_session_event_happens(box_session *s, box_session_event event, box_stop_reason reason,
                               const box_error *why)
{
    box_time now = now_here();
    box_sessions *all = s->all;
    box_lock_take(&all->lock);
    bool happened = happens_locked(s, event, reason, why, now);
    box_lock_release(&all->lock);
    return happened;
}

bool box_session_stop_locked(box_session *s, box_stop_reason reason, box_time now)
{
    if (!happens_locked(s, BOX_EVENT_STOP, reason, NULL, now))
        return false;
    box_session_post(s, box_sandbox_end);
    return true;
}

bool box_session_ask_stop(box_session *s, box_stop_reason reason)
{
    box_time now = now_here();
    box_sessions *all = s->all;
    box_lock_take(&all->lock);
    bool stopping = box_session_stop_locked(s, reason, now);
    if (reason == BOX_STOP_DELETED) {
        s->deleted = true;
        if (!box_session_is_live(s->state) && s->in_table) {
            box_watches_tell(s, BOX_WATCH_DELETED);
            box_session_remove_locked(s);
        }
    }
    box_lock_release(&all->lock);
    return stopping;
}

/* --- entering --------------------------------------------------------------------------------- */

static void insert_locked(box_session *s, box_tenancy *t)
{
    box_sessions *all = s->all;
    all->live++;
    t->live++;
    box_tenancy_note_size_locked(all, t);
    box_session *old = box_sessions_find_locked(all, s->tenant_name, s->id);
    if (old != NULL)
        box_session_remove_locked(old);
    s->tenant = t;
    s->in_table = true;
    all->states[s->state]++;
    box_list_append(&t->sessions, &s->of_tenant);
    key k = key_of(s->tenant_name, s->id);
    (void)box_map_put_bytes(all->by_key, k.text, k.len, box_session_ref(s)); /* old one left */
    (void)box_map_put_bytes(all->by_uid, &s->uid, sizeof s->uid, box_session_ref(s)); /* random */
}

static int session_limit(box_sessions *all, const box_tenancy *t, bool tenant_full, box_error *err)
{
    (void)box_fail(err, BOX_SESSION_LIMIT,
                   tenant_full ? "this tenant has all the sessions it may have: stop one, or "
                                 "retry later"
                               : "the server has all the sessions it may have: retry later");
    err->retry_ms = 1000;
    return tenant_full
               ? box_error_limit(err, "sessions_per_tenant", all->max_sessions_per_tenant, t->live)
               : box_error_limit(err, "sessions", all->defaults.max_sessions, all->live);
}

/* One that its warden has prepared; not when a session has that already: the warden tells of it
 * again when the CREATE was lost on the way. */
static void take_uid_locked(box_session *s)
{
    box_uid uid = box_warden_new_uid(s->warden);
    if (box_map_get_bytes(s->all->by_uid, &uid, sizeof uid) != NULL ||
        box_pool_has_locked(s->all->pool, &uid))
        return;
    s->uid = uid;
    box_uid_text(&s->uid, s->uid_text);
}

int box_sessions_enter_locked(box_session *s, bool *waits, box_error *err)
{
    box_sessions *all = s->all;
    box_tenancy *t = tenant_get(all, s->tenant_name);
    bool tenant_full = t->live - t->leaving >= all->max_sessions_per_tenant;
    bool full = tenant_full || all->live - all->leaving >= all->defaults.max_sessions;
    *waits = full && all->evict_idle && box_session_evict_locked(s, t, tenant_full);
    if (full && !*waits) {
        int rc = session_limit(all, t, tenant_full, err);
        box_tenancy_drop_if_unused(all, t);
        return rc;
    }
    all->created_total++;
    bool named_so = strcmp(s->id, s->uid_text) == 0; /* its caller named it not */
    bool warm = !*waits && box_pool_take_locked(all->pool, s);
    if (!warm)
        take_uid_locked(s);
    if (named_so)
        memcpy(s->id, s->uid_text, sizeof s->uid_text); /* of one length */
    if (!warm && all->live + box_pool_count_locked(all->pool) >= all->defaults.max_sessions)
        box_pool_yield_locked(all->pool);
    insert_locked(s, t);
    box_watches_tell(s, BOX_WATCH_CREATED);
    return 0;
}

void box_sessions_enter_restored_locked(box_session *s, box_time now)
{
    box_session *old = box_sessions_find_locked(s->all, s->tenant_name, s->id);
    if (old != NULL) /* its record should have gone when it ended */
        (void)box_session_stop_locked(old, BOX_STOP_LOST, now);
    insert_locked(s, tenant_get(s->all, s->tenant_name));
}
