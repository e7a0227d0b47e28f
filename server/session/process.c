/* Calls about managed processes, on their callers' loops. */
#include "session/process.h"

#include "base/alloc.h"
#include "session/process_impl.h"

/* --- a call's life ---------------------------------------------------------------------------- */

void box_process_call_unref(box_process_call *c)
{
    if (atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
        return;
    box_process_plan_done(&c->plan);
    box_process_unref(c->process);
    box_session_unref(c->session);
    free(c->idem_tenant);
    free(c->idem_key);
    free(c);
}

static box_process_call *call_new(box_process_want want, const char *process_id,
                                  box_process_done done, void *arg)
{
    box_process_call *c = box_alloc(sizeof *c);
    atomic_init(&c->refs, 2); /* the caller's, and one for being under way */
    c->want = want;
    c->loop = box_loop_current();
    c->done = done;
    c->arg = arg;
    c->plan = (box_process_plan){.fds = {-1, -1}};
    (void)snprintf(c->id, sizeof c->id, "%s", process_id[0] != '\0' ? process_id : "default");
    return c;
}

static void end_idempotency(box_process_call *c)
{
    if (c->idem_key == NULL)
        return;
    box_sessions *all = c->session->all;
    box_time now = box_loop_now(c->loop);
    box_lock_take(&all->lock);
    box_idem_end(all->idem, c->idem_tenant, "process", c->idem_key, c->error.reason == BOX_NONE,
                 now);
    box_lock_release(&all->lock);
}

void box_process_call_answered(void *call)
{
    box_process_call *c = call;
    box_process_info info = {0};
    bool fine = c->error.reason == BOX_NONE;
    end_idempotency(c);
    if (!c->dropped && fine && c->process != NULL)
        box_process_snapshot(c->session, c->process, true, &info);
    info.has_usage = c->has_usage && info.pid != 0; /* it may have ended since */
    info.usage = c->usage;
    if (c->want == BOX_WANT_START && c->session != NULL)
        box_session_release(c->session);
    if (!c->dropped)
        c->done(c->arg, info.process != NULL ? &info : NULL, c->flag, fine ? NULL : &c->error);
    box_process_info_done(&info);
    box_process_call_unref(c);
}

void box_process_call_drop(box_process_call *c)
{
    if (c == NULL)
        return;
    c->dropped = true;
    if (c->session != NULL && c->want != BOX_WANT_START)
        box_loop_post(c->session->home, box_process_call_forget, c); /* with our reference */
    else
        box_process_call_unref(c);
}

/* --- on its way ------------------------------------------------------------------------------- */

static void session_runs(void *arg, const box_session_info *info, const box_error *err)
{
    box_process_call *c = arg;
    (void)info; /* whether it still runs is looked at there */
    if (err != NULL)
        c->error = *err;
    if (err != NULL)
        box_process_call_answered(c);
    else
        box_loop_post(c->session->home, box_process_call_arrives, c);
}

static void submit(box_process_call *c)
{
    if (c->session == NULL || c->error.reason != BOX_NONE) {
        box_loop_post(c->loop, box_process_call_answered, c);
        return;
    }
    box_session_state state = box_session_state_now(c->session, NULL);
    if (state == BOX_SESSION_CREATED || state == BOX_SESSION_STARTING)
        box_session_want_run(c->session, box_waiter_new(session_runs, c));
    else
        box_loop_post(c->session->home, box_process_call_arrives, c);
}

static void find_session(box_process_call *c, box_sessions *all, const char *tenant, const char *id)
{
    if (id[0] == '\0')
        (void)box_violation(&c->error, "session_id", "must not be empty"); /* always -1 */
    else if (box_session_id_check(id, "session_id", &c->error) == 0)
        BOX_IGNORE(box_sessions_find(all, tenant, id, &c->session, &c->error)); /* it says why */
}

static int check_name(const char *process_id, box_error *err)
{
    const box_process_request only_name = {.process_id = process_id};
    return box_process_check(&only_name, err);
}

/* All calls but start. */
static box_process_call *prepare(box_sessions *all, box_process_want want, const char *tenant,
                                 const char *session_id, const char *process_id,
                                 box_process_done done, void *arg)
{
    box_process_call *c = call_new(want, process_id, done, arg);
    if (check_name(process_id, &c->error) == 0)
        find_session(c, all, tenant, session_id);
    return c;
}

void box_process_stop(box_sessions *all, const char *tenant, const char *session_id,
                      const char *process_id, bool has_grace, int64_t grace_ns, bool allow_missing,
                      box_process_done done, void *arg, box_process_call **out)
{
    box_process_call *c = prepare(all, BOX_WANT_STOP, tenant, session_id, process_id, done, arg);
    if (has_grace && grace_ns > BOX_MAX_STOP_GRACE_SECONDS * (int64_t)BOX_SECOND)
        (void)box_violation(&c->error, "grace", "at most 5 minutes"); /* always -1 */
    c->allow_missing = allow_missing;
    c->grace_ns = has_grace ? (uint64_t)grace_ns : BOX_STOP_DEFAULT_GRACE;
    *out = c;
    submit(c);
}

void box_process_wait(box_sessions *all, const char *tenant, const char *session_id,
                      const char *process_id, bool ready, bool has_timeout, int64_t timeout_ns,
                      box_process_done done, void *arg, box_process_call **out)
{
    box_process_call *c = prepare(all, ready ? BOX_WANT_READY : BOX_WANT_EXIT, tenant, session_id,
                                  process_id, done, arg);
    c->has_timeout = has_timeout;
    c->timeout_ns = (uint64_t)timeout_ns;
    *out = c;
    submit(c);
}

void box_process_signal(box_sessions *all, const char *tenant, const char *session_id,
                        const char *process_id, int signo, bool tree, box_process_done done,
                        void *arg, box_process_call **out)
{
    box_process_call *c = prepare(all, BOX_WANT_SIGNAL, tenant, session_id, process_id, done, arg);
    if (signo < 1 || signo > 64)
        (void)box_violation(&c->error, "signal.number", "must be 1 to 64"); /* always -1 */
    else if (tree && signo != 9)
        (void)box_violation(&c->error, "signal.scope", "TREE takes only signal 9 (KILL)");
    c->signo = signo;
    c->tree = tree;
    *out = c;
    submit(c);
}

void box_process_get(box_sessions *all, const char *tenant, const char *session_id,
                     const char *process_id, box_process_done done, void *arg,
                     box_process_call **out)
{
    *out = prepare(all, BOX_WANT_LOOK, tenant, session_id, process_id, done, arg);
    submit(*out);
}

/* --- starting --------------------------------------------------------------------------------- */

static int begin_idempotency(box_process_call *c, const box_process_request *r)
{
    box_sessions *all = c->session->all;
    box_idem_outcome outcome;
    const char *session;
    if (r->idempotency_key == NULL || r->idempotency_key[0] == '\0')
        return 0;
    box_time now = box_loop_now(c->loop);
    box_lock_take(&all->lock);
    int rc = box_idem_begin(all->idem, r->tenant, "process", r->idempotency_key, r->digest, now,
                            &outcome, &session, &c->error);
    box_lock_release(&all->lock);
    if (rc < 0)
        return -1;
    if (outcome != BOX_IDEM_NEW)
        return box_fail(&c->error, BOX_IDEMPOTENCY_DONE,
                        "the process of the call with this idempotency key was started before: "
                        "look with GetManagedProcess");
    c->idem_tenant = box_strdup(r->tenant);
    c->idem_key = box_strdup(r->idempotency_key);
    return 0;
}

/* The session is used from here until the call is answered. */
static void plan_start(box_process_call *c, const box_process_request *r)
{
    box_session *s = c->session;
    box_session_use(s);
    c->replace = r->replace;
    c->has_timeout = r->has_ready_timeout;
    c->timeout_ns = (uint64_t)r->ready_timeout_ns;
    if (box_session_state_now(s, NULL) >= BOX_SESSION_STOPPING)
        (void)box_session_not_running(s, &c->error); /* always -1 */
    else if (begin_idempotency(c, r) == 0)
        BOX_IGNORE(box_process_plan_make(r, &s->spec, &c->plan, &c->error)); /* it says why */
}

void box_process_start(box_sessions *all, const box_process_request *r, box_process_done done,
                       void *arg, box_process_call **out)
{
    box_process_call *c = call_new(BOX_WANT_START, r->process_id, done, arg);
    *out = c;
    if (box_process_check(r, &c->error) == 0)
        find_session(c, all, r->tenant, r->session_id);
    if (c->session != NULL)
        plan_start(c, r);
    submit(c);
}

/* --- lists ------------------------------------------------------------------------------------ */

typedef struct found {
    box_session *session;
    box_process *process;
    int64_t created_ns;
    char key[BOX_PROCESS_KEY_TEXT];
} found;

typedef struct list {
    found *items;
    size_t n, room;
    const box_process_filter *filter;
    int64_t after_ns;
    const char *after_key; /* NULL: from the start */
} list;

static void add_locked(list *l, box_session *s, box_process *p)
{
    found f = {.session = s, .process = p, .created_ns = p->created_wall_ns};
    (void)snprintf(f.key, sizeof f.key, "%s/%s", s->uid_text, p->id);
    if (l->filter->states != 0 && (l->filter->states >> p->facts.state & 1) == 0)
        return;
    if (l->after_key != NULL &&
        (p->created_wall_ns < l->after_ns ||
         (p->created_wall_ns == l->after_ns && strcmp(f.key, l->after_key) <= 0)))
        return;
    if (l->n == l->room) {
        l->room = l->room > 0 ? 2 * l->room : 64;
        found *more = box_alloc_array(l->room, sizeof *more);
        if (l->n > 0)
            memcpy(more, l->items, l->n * sizeof *more);
        free(l->items);
        l->items = more;
    }
    box_session_ref(s);
    box_process_ref(p);
    l->items[l->n++] = f;
}

static void add_session_locked(list *l, box_session *s)
{
    for (box_list *at = s->processes.next; at != &s->processes; at = at->next)
        add_locked(l, s, BOX_CONTAINER(at, box_process, link));
}

static int by_age(const void *a, const void *b)
{
    const found *x = a;
    const found *y = b;
    if (x->created_ns != y->created_ns)
        return x->created_ns < y->created_ns ? -1 : 1;
    return strcmp(x->key, y->key);
}

static int collect(box_sessions *all, const char *tenant, list *l, box_error *err)
{
    const char *id = l->filter->session_id;
    box_session *s = NULL;
    if (id[0] != '\0') {
        if (box_session_id_check(id, "session_id", err) < 0 ||
            box_sessions_find(all, tenant, id, &s, err) < 0)
            return -1;
    }
    box_lock_take(&all->lock);
    box_tenancy *t = s == NULL ? box_map_get(all->tenants, tenant) : NULL;
    for (box_list *at = t != NULL ? t->sessions.next : NULL; t != NULL && at != &t->sessions;
         at = at->next)
        add_session_locked(l, BOX_CONTAINER(at, box_session, of_tenant));
    if (s != NULL)
        add_session_locked(l, s);
    box_lock_release(&all->lock);
    box_session_unref(s);
    return 0;
}

int box_process_list(box_sessions *all, const char *tenant, const box_process_filter *filter,
                     int64_t after_created_wall_ns, const char *after_key, size_t limit,
                     box_process_info **out, size_t *n, bool *more, box_error *err)
{
    enum { OTHER_BYTES = 2048 };
    list l = {.filter = filter, .after_ns = after_created_wall_ns, .after_key = after_key};
    if (collect(all, tenant, &l, err) < 0)
        return -1;
    if (l.n > 1)
        qsort(l.items, l.n, sizeof *l.items, by_age);
    size_t bytes = 0;
    *n = 0;
    *out = box_alloc_array(l.n < limit ? l.n + 1 : limit + 1, sizeof **out);
    for (size_t i = 0; i < l.n; i++) {
        if (*n < limit && (*n == 0 || bytes < BOX_LIST_PAGE_BYTES)) {
            box_process_snapshot(l.items[i].session, l.items[i].process, false, &(*out)[*n]);
            bytes += OTHER_BYTES + (*out)[(*n)++].record.len;
        }
        box_process_unref(l.items[i].process);
        box_session_unref(l.items[i].session);
    }
    *more = l.n > *n;
    free(l.items);
    return 0;
}

void box_process_list_free(box_process_info *infos, size_t n)
{
    for (size_t i = 0; i < n; i++)
        box_process_info_done(&infos[i]);
    free(infos);
}
