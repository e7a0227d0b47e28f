/* What callers ask of sessions: create, look, change, end. */
#include "base/alloc.h"
#include "base/limits.h"
#include "session/execution.h"
#include "session/watch.h"

/* --- create -------------------------------------------------------------------------------- */

/* A create with an idempotency key, until it is answered. */
typedef struct keyed {
    box_sessions *all;
    char *tenant;
    char *key;
    box_session_done done;
    void *arg;
} keyed;

static void keyed_done(void *arg, const box_session_info *info, const box_error *err)
{
    keyed *k = arg;
    box_time now = box_loop_now(box_loop_current());
    box_lock_take(&k->all->lock);
    if (info != NULL)
        box_idem_note(k->all->idem, k->tenant, "create", k->key, info->id);
    box_idem_end(k->all->idem, k->tenant, "create", k->key, err == NULL, now);
    box_lock_release(&k->all->lock);
    k->done(k->arg, info, err);
    free(k->tenant);
    free(k->key);
    free(k);
}

static void answer_error(box_session_done done, void *arg, const box_error *err)
{
    box_waiter_answer(box_waiter_new(done, arg), NULL, err);
}

static void create(box_sessions *all, const box_create_request *r, const char *id,
                   box_session_done done, void *arg)
{
    box_acquire a = {.tenant = r->tenant, .id = id, .spec = r->spec};
    box_session *s;
    bool created;
    box_error err = {0};
    if (box_sessions_acquire(all, &a, &s, &created, &err) < 0) {
        answer_error(done, arg, &err);
        return;
    }
    box_waiter *w = box_waiter_new(done, arg);
    w->created = created;
    box_session_want_run(s, w);
    box_session_unref(s);
}

/* The first call's session as it is now; a session that went since is no answer. */
static void answer_again(box_sessions *all, const box_create_request *r, const char *id,
                         box_session_done done, void *arg)
{
    box_session *s;
    box_error err = {0};
    if (box_sessions_find(all, r->tenant, id, &s, &err) < 0) {
        (void)box_fail(&err, BOX_IDEMPOTENCY_DONE,
                       "the call with this idempotency key made session %s, which is gone", id);
        answer_error(done, arg, &err);
        return;
    }
    box_waiter *w = box_waiter_new(done, arg);
    w->created = true; /* the first one's answer */
    box_session_want_run(s, w);
    box_session_unref(s);
}

static void create_keyed(box_sessions *all, const box_create_request *r, box_session_done done,
                         void *arg)
{
    box_idem_outcome outcome;
    const char *noted;
    char id[BOX_MAX_ID_BYTES + 1] = "";
    box_error err = {0};
    box_uid uid = box_uid_new();
    char made[BOX_UID_TEXT];
    box_uid_text(&uid, made);
    const char *wanted = r->id[0] != '\0' ? r->id : made;
    box_time now = box_loop_now(box_loop_current());
    box_lock_take(&all->lock);
    int rc = box_idem_begin(all->idem, r->tenant, "create", r->idempotency_key, r->digest, now,
                            &outcome, &noted, &err);
    if (rc == 0 && outcome == BOX_IDEM_NEW)
        box_idem_note(all->idem, r->tenant, "create", r->idempotency_key, wanted);
    else if (rc == 0)
        (void)snprintf(id, sizeof id, "%s", noted);
    box_lock_release(&all->lock);
    if (rc < 0) {
        answer_error(done, arg, &err);
        return;
    }
    if (outcome != BOX_IDEM_NEW) {
        answer_again(all, r, id, done, arg);
        return;
    }
    keyed *k = box_alloc(sizeof *k);
    *k = (keyed){.all = all,
                 .tenant = box_strdup(r->tenant),
                 .key = box_strdup(r->idempotency_key),
                 .done = done,
                 .arg = arg};
    create(all, r, wanted, keyed_done, k);
}

void box_session_create(box_sessions *all, const box_create_request *r, box_session_done done,
                        void *arg)
{
    box_error err = {0};
    if (box_session_id_check(r->id, "session_id", &err) < 0) {
        answer_error(done, arg, &err);
        return;
    }
    if (r->idempotency_key != NULL && r->idempotency_key[0] != '\0') {
        create_keyed(all, r, done, arg);
        return;
    }
    /* The server's ids are as random as uids. */
    box_uid uid = box_uid_new();
    char made[BOX_UID_TEXT];
    box_uid_text(&uid, made);
    create(all, r, r->id[0] != '\0' ? r->id : made, done, arg);
}

/* --- look ---------------------------------------------------------------------------------- */

static int find(box_sessions *all, const char *tenant, const char *id, box_session **out,
                box_error *err)
{
    if (id[0] == '\0')
        return box_violation(err, "session_id", "must not be empty");
    if (box_session_id_check(id, "session_id", err) < 0)
        return -1;
    return box_sessions_find(all, tenant, id, out, err);
}

int box_session_get(box_sessions *all, const char *tenant, const char *id, box_session_info *out,
                    box_error *err)
{
    box_session *s;
    if (find(all, tenant, id, &s, err) < 0)
        return -1;
    box_session_snapshot(s, out);
    box_session_unref(s);
    return 0;
}

typedef struct usage_call {
    box_session *session;
    void (*done)(void *arg, const box_session_info *info, const box_session_usage *usage,
                 const box_error *err);
    void *arg;
    box_error err;
} usage_call;

static void usage_answer(usage_call *c, const box_session_usage *usage)
{
    box_session_info info;
    box_session_snapshot(c->session, &info);
    c->done(c->arg, &info, usage, NULL);
    box_session_info_done(&info);
    box_session_unref(c->session);
    free(c);
}

static void usage_came(void *arg, box_warden_reply *reply)
{
    const box_warden_answer *a = &reply->answer;
    box_session_usage usage = {.measured = reply->error.reason == BOX_NONE,
                               .memory_bytes = a->memory_bytes,
                               .memory_peak_bytes = a->memory_peak_bytes,
                               .pids = a->pids,
                               .cpu_ns = a->cpu_ns,
                               .workspace_bytes = a->workspace_bytes,
                               .oom_kills = a->oom_kills};
    box_warden_reply_done(reply);
    usage_answer(arg, &usage);
}

static void usage_not_there(void *arg)
{
    usage_call *c = arg;
    const box_session_usage none = {0};
    if (c->session != NULL) {
        usage_answer(c, &none);
        return;
    }
    c->done(c->arg, NULL, NULL, &c->err);
    free(c);
}

void box_session_get_usage(box_sessions *all, const char *tenant, const char *id,
                           void (*done)(void *arg, const box_session_info *info,
                                        const box_session_usage *usage, const box_error *err),
                           void *arg)
{
    usage_call *c = box_alloc(sizeof *c);
    c->done = done;
    c->arg = arg;
    if (find(all, tenant, id, &c->session, &c->err) < 0 ||
        box_session_state_now(c->session, NULL) != BOX_SESSION_RUNNING) {
        box_loop_post(box_loop_current(), usage_not_there, c);
        return;
    }
    box_warden_target target = {.uid = c->session->uid};
    box_warden_ask(c->session->warden, BOX_WARDEN_USAGE, &target, -1, box_loop_current(),
                   usage_came, c);
}

/* --- list ---------------------------------------------------------------------------------- */

static bool is_after(const box_session *s, int64_t wall_ns, const char *id)
{
    if (id == NULL)
        return true;
    if (s->created_wall_ns != wall_ns)
        return s->created_wall_ns > wall_ns;
    return strcmp(s->id, id) > 0;
}

static bool passes(const box_session *s, const box_session_filter *f)
{
    return !s->one_off && (f->states == 0 || (f->states >> s->state & 1) != 0) &&
           (f->backend == NULL || f->backend[0] == '\0' ||
            strcmp(f->backend, box_warden_name(s->warden)) == 0) &&
           box_spec_labels_match(f->labels, f->n_labels, s->spec.labels, s->spec.n_labels);
}

static int by_age(const void *a, const void *b)
{
    const box_session *x = *(const box_session *const *)a;
    const box_session *y = *(const box_session *const *)b;
    if (x->created_wall_ns != y->created_wall_ns)
        return x->created_wall_ns < y->created_wall_ns ? -1 : 1;
    return strcmp(x->id, y->id);
}

/* All that match, as references. */
static box_session **collect(box_tenancy *t, const box_session_filter *f, int64_t after_wall_ns,
                             const char *after_id, size_t *n)
{
    size_t room = t->live + t->n_ended;
    box_session **found = box_alloc_array(room > 0 ? room : 1, sizeof(box_session *));
    *n = 0;
    for (box_list *at = t->sessions.next; at != &t->sessions && *n < room; at = at->next) {
        box_session *s = BOX_CONTAINER(at, box_session, of_tenant);
        if (passes(s, f) && is_after(s, after_wall_ns, after_id))
            found[(*n)++] = box_session_ref(s);
    }
    return found;
}

void box_session_list(box_sessions *all, const char *tenant, const box_session_filter *filter,
                      int64_t after_created_wall_ns, const char *after_id, size_t limit,
                      box_session_info **out, size_t *n, bool *more)
{
    size_t found_n = 0;
    box_lock_take(&all->lock);
    box_tenancy *t = box_map_get(all->tenants, tenant);
    box_session **found =
        t != NULL ? collect(t, filter, after_created_wall_ns, after_id, &found_n) : NULL;
    box_lock_release(&all->lock);
    if (found_n > 1)
        qsort(found, found_n, sizeof(box_session *), by_age); /* by what is fixed at birth */
    *n = found_n < limit ? found_n : limit;
    *more = found_n > limit;
    *out = box_alloc_array(*n > 0 ? *n : 1, sizeof(box_session_info));
    for (size_t i = 0; i < found_n; i++) {
        if (i < *n)
            box_session_snapshot(found[i], &(*out)[i]);
        box_session_unref(found[i]);
    }
    free(found);
}

void box_session_list_free(box_session_info *infos, size_t n)
{
    for (size_t i = 0; i < n; i++)
        box_session_info_done(&infos[i]);
    free(infos);
}

/* --- change -------------------------------------------------------------------------------- */

enum { LIMITS = BOX_SPEC_CPU | BOX_SPEC_MEMORY | BOX_SPEC_PIDS };

typedef struct update_call {
    box_session *session;
    box_spec changes; /* complete for `fields` */
    uint32_t fields;
    box_session_done done;
    void *arg;
    box_error err;
} update_call;

static void run_queue(void *session)
{
    BOX_AUTO(box_session_unrefp)
    box_session *s = session;
    box_slots_run(s);
}

static void update_end(void *arg)
{
    update_call *c = arg;
    box_session *s = c->session;
    box_session_info info = {0};
    bool ok = c->err.reason == BOX_NONE;
    if (ok) {
        box_session_apply(s, &c->changes, c->fields);
        box_session_snapshot(s, &info);
        if (c->fields & BOX_SPEC_MAX_PARALLEL_EXECS)
            box_session_post(s, run_queue);
    }
    c->done(c->arg, ok ? &info : NULL, ok ? NULL : &c->err);
    box_session_info_done(&info);
    box_session_unref(s);
    box_spec_done(&c->changes);
    free(c);
}

static void limits_changed(void *arg, box_warden_reply *reply)
{
    update_call *c = arg;
    c->err = reply->error;
    box_warden_reply_done(reply);
    update_end(c);
}

static int update_check(const box_spec *changes, uint32_t fields, box_error *err)
{
    int bad = 0;
    uint32_t fixed = fields & ~(uint32_t)BOX_SPEC_LIVE;
    for (uint32_t bit = 1; bit != 0 && bit <= fixed; bit <<= 1) {
        if (fixed & bit)
            bad |= box_violation(err, "update_mask", "%s cannot change in a live session",
                                 box_spec_field_name(bit));
    }
    if (fields == 0)
        bad |= box_violation(err, "update_mask", "names nothing to change");
    bad |= box_spec_check(changes, "spec.", err);
    return bad;
}

/* A field that is named but not set goes back to the profile's default. */
static void complete(update_call *c, const box_spec *changes)
{
    const box_session *s = c->session;
    const box_session_defaults standard = box_sessions_defaults(s->all);
    const box_spec_defaults defaults = {.image = standard.image,
                                        .memory_bytes = standard.memory_bytes,
                                        .idle_ttl_ns = s->all->idle_ttl_ns,
                                        .max_lifetime_ns = s->all->lifetime_ns};
    box_adjustment ignored[BOX_MAX_ADJUSTMENTS]; /* only of fields that cannot change live */
    (void)box_profile_merge(s->profile, changes, &defaults, &c->changes, ignored);
}

static void ask_limits(update_call *c)
{
    box_warden_limits limits = {.uid = c->session->uid};
    if (c->fields & BOX_SPEC_MEMORY)
        limits.memory_bytes = c->changes.memory_bytes;
    if (c->fields & BOX_SPEC_PIDS)
        limits.pids = c->changes.pids;
    if (c->fields & BOX_SPEC_CPU)
        limits.cpu_millis = c->changes.cpu_millis;
    box_warden_ask(c->session->warden, BOX_WARDEN_LIMITS, &limits, -1, box_loop_current(),
                   limits_changed, c);
}

void box_session_update(box_sessions *all, const char *tenant, const char *id,
                        const box_spec *changes, uint32_t fields, box_session_done done, void *arg)
{
    box_session *s;
    box_error err = {0};
    if (update_check(changes, fields, &err) < 0 || find(all, tenant, id, &s, &err) < 0) {
        answer_error(done, arg, &err);
        return;
    }
    update_call *c = box_alloc(sizeof *c);
    *c = (update_call){.session = s, .fields = fields, .done = done, .arg = arg};
    complete(c, changes);
    box_session_state state = box_session_state_now(s, NULL);
    if (state >= BOX_SESSION_STOPPING || ((fields & LIMITS) && state != BOX_SESSION_RUNNING))
        (void)box_session_not_running(s, &c->err); /* c->err says it */
    else if (fields & LIMITS)
        BOX_IGNORE(box_backends_check_live(s, &c->err)); /* c->err says it */
    if (c->err.reason == BOX_NONE && (fields & LIMITS))
        ask_limits(c);
    else
        box_loop_post(box_loop_current(), update_end, c);
}

int box_session_extend(box_sessions *all, const char *tenant, const char *id, uint64_t for_ns,
                       box_session_info *out, box_error *err)
{
    box_session *s;
    if (find(all, tenant, id, &s, err) < 0)
        return -1;
    box_time now = box_loop_now(box_loop_current());
    int rc = 0;
    box_lock_take(&all->lock);
    if (!box_session_is_live(s->state) || s->state == BOX_SESSION_STOPPING) {
        rc = box_session_not_running_locked(s, err);
    } else {
        box_time until = box_time_add(now, for_ns > 0 ? for_ns : s->spec.idle_ttl_ns);
        if (until > s->extended_until)
            s->extended_until = until;
        s->updated_wall_ns = all->wall_ns();
        box_watches_tell(s, BOX_WATCH_UPDATED);
        box_session_snapshot_locked(s, out);
    }
    box_lock_release(&all->lock);
    box_session_unref(s);
    return rc;
}

/* --- end ----------------------------------------------------------------------------------- */

void box_session_stop(box_sessions *all, const char *tenant, const char *id, box_session_done done,
                      void *arg)
{
    box_session *s;
    box_error err = {0};
    if (find(all, tenant, id, &s, &err) < 0) {
        answer_error(done, arg, &err);
        return;
    }
    (void)box_session_ask_stop(s, BOX_STOP_REQUESTED); /* idempotent */
    box_session_want_end(s, box_waiter_new(done, arg));
    box_session_unref(s);
}

void box_session_delete(box_sessions *all, const char *tenant, const char *id, bool allow_missing,
                        box_session_done done, void *arg)
{
    box_session *s;
    box_error err = {0};
    if (find(all, tenant, id, &s, &err) < 0) {
        bool fine = allow_missing && err.reason == BOX_SESSION_NOT_FOUND;
        answer_error(done, arg, fine ? NULL : &err);
        return;
    }
    box_session_want_end(s, box_waiter_new(done, arg));
    (void)box_session_ask_stop(s, BOX_STOP_DELETED); /* it may be stopping already */
    box_session_unref(s);
}
