/* Requests to a warden: their life from asking to answer. */
#include "base/alloc.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "session/warden_impl.h"

void box_warden_reply_done(box_warden_reply *r)
{
    box_closep(&r->cgroup);
    box_closep(&r->devpts);
    box_closep(&r->pidfd);
    box_closep(&r->memory);
    box_closep(&r->pids);
}

/* --- requests --------------------------------------------------------------------------------- */

static size_t body_size(box_warden_type type)
{
    switch (type) {
    case BOX_WARDEN_CREATE:
        return sizeof(box_warden_create);
    case BOX_WARDEN_LIMITS:
        return sizeof(box_warden_limits);
    default:
        return sizeof(box_warden_target);
    }
}

static uint64_t timeout_of(box_warden_type type)
{
    switch (type) {
    case BOX_WARDEN_CREATE:
        return BOX_WARDEN_CREATE_SECONDS * BOX_SECOND;
    case BOX_WARDEN_DESTROY:
    case BOX_WARDEN_SWEEP:
        return BOX_WARDEN_DESTROY_SECONDS * BOX_SECOND;
    case BOX_WARDEN_USAGE:
        return BOX_WARDEN_USAGE_MS * BOX_MS;
    default:
        return BOX_WARDEN_ASK_SECONDS * BOX_SECOND;
    }
}

box_warden_request *box_warden_request_new(box_warden *w, box_warden_type type, const void *body)
{
    box_warden_request *r = box_alloc(sizeof *r);
    r->warden = w;
    r->type = type;
    r->size = body_size(type);
    r->fd = -1;
    r->timeout_ns = timeout_of(type);
    r->reply.cgroup = r->reply.devpts = r->reply.pidfd = r->reply.memory = r->reply.pids = -1;
    memcpy(&r->body, body, r->size);
    return r;
}

void box_warden_request_free(box_warden_request *r)
{
    box_warden_reply_done(&r->reply);
    box_closep(&r->fd);
    free(r->tenant);
    free(r);
}

/* --- groups: one tenant's requests are not all before another's ------------------------------- */

static box_warden_group *group_get(box_warden *w, const char *tenant)
{
    box_warden_group *g = box_map_get(w->groups, tenant);
    if (g != NULL)
        return g;
    g = box_alloc(sizeof *g);
    g->tenant = box_strdup(tenant);
    box_list_init(&g->waiting);
    (void)box_map_put(w->groups, tenant, g); /* there was none */
    return g;
}

static void group_open(box_warden_group *g, box_warden_request *r)
{
    g->open++;
    r->open = true;
    box_list_append(&r->warden->waiting, &r->link);
}

/* False: it has to wait. */
static bool group_enter(box_warden_request *r)
{
    box_warden_group *g = r->group = group_get(r->warden, r->tenant);
    if (g->open < BOX_WARDEN_OPEN_PER_TENANT) {
        group_open(g, r);
        return true;
    }
    g->n_waiting++;
    box_list_append(&g->waiting, &r->link);
    return false;
}

/* The request is out of all lists: the next of its tenant may go. */
static void group_leave(box_warden_request *r)
{
    box_warden_group *g = r->group;
    box_warden *w = r->warden;
    if (g == NULL)
        return;
    r->group = NULL;
    if (r->open)
        g->open--;
    else
        g->n_waiting--;
    if (r->open && !box_list_empty(&g->waiting)) {
        box_list *next = g->waiting.next;
        box_list_remove(next);
        g->n_waiting--;
        group_open(g, BOX_CONTAINER(next, box_warden_request, link));
    }
    if (g->open > 0)
        return;
    (void)box_map_remove(w->groups, g->tenant); /* it is g; nobody waits where nobody is open */
    free(g->tenant);
    free(g);
}

void box_warden_groups_free(box_warden *w)
{
    size_t at = 0;
    void *value;
    while (box_map_next(w->groups, &at, &value)) {
        box_warden_group *g = value;
        free(g->tenant);
        free(g);
    }
    box_map_free(w->groups);
}

static void deliver(void *arg)
{
    box_warden_request *r = arg;
    box_warden_reply reply = r->reply;
    r->reply.cgroup = r->reply.devpts = r->reply.pidfd = r->reply.memory = r->reply.pids = -1;
    r->done(r->arg, &reply);
    box_warden_request_free(r);
}

/* The request leaves the warden's tables; its reply, filled in, goes to whoever asked. */
void box_warden_request_end(box_warden_request *r)
{
    (void)box_map_remove_bytes(r->warden->requests, &r->id, sizeof r->id); /* it is r */
    box_list_remove(&r->link);
    group_leave(r);
    box_timer_free(r->timer);
    r->timer = NULL;
    box_closep(&r->fd);
    if (r->done != NULL)
        box_loop_post(r->reply_to, deliver, r);
    else
        box_warden_request_free(r);
}

/* BACKEND_UNAVAILABLE {backend}: "backend NAME: what". */
static void unavailable(const box_warden *w, box_error *err, const char *what)
{
    (void)box_fail(err, BOX_BACKEND_UNAVAILABLE, "backend %s: %s", w->name, what);
    box_error_add(err, "backend", w->name);
    err->retry_ms = 1000;
}

static void timed_out(void *arg)
{
    box_warden_request *r = arg;
    box_warden *w = r->warden;
    unavailable(w, &r->reply.error, "its warden did not answer in time");
    box_log(BOX_WARN, "warden.timeout", BOX_STR("backend", w->name), BOX_INT("type", r->type));
    box_warden_request_end(r);
    if (w->phase != BOX_WARDEN_DOWN)
        box_warden_flush(w); /* the next of its tenant */
}

void box_warden_request_start_timer(box_warden_request *r)
{
    box_loop *loop = r->warden->loop;
    if (r->timer != NULL)
        return;
    r->timer = box_timer_new(loop, timed_out, r);
    box_timer_set(r->timer, box_time_add(box_loop_now(loop), r->timeout_ns));
}

void box_warden_fail_all(box_warden *w, const char *what)
{
    size_t at = 0;
    void *value;
    box_map *all = w->requests; /* ending one takes it from the map in place: not from this one */
    w->requests = box_map_new();
    while (box_map_next(all, &at, &value)) {
        box_warden_request *r = value;
        unavailable(w, &r->reply.error, what);
        box_warden_request_end(r);
    }
    box_map_free(all);
}

/* --- asking ----------------------------------------------------------------------------------- */

/* On the warden's loop. A warden that was down gets another chance at once, but not more often than
 * the shortest pause. */
static void submit(void *arg)
{
    box_warden_request *r = arg;
    box_warden *w = r->warden;
    r->id = w->next_id++;
    box_map_put_bytes(w->requests, &r->id, sizeof r->id, r);
    const box_warden_group *g = box_map_get(w->groups, r->tenant);
    if (box_map_count(w->requests) > BOX_WARDEN_MAX_REQUESTS ||
        (g != NULL && g->n_waiting >= BOX_WARDEN_WAITING_PER_TENANT)) {
        unavailable(w, &r->reply.error, "too many requests wait for its warden");
        box_warden_request_end(r);
        return;
    }
    bool rested =
        box_loop_now(w->loop) >= box_time_add(w->last_try, (uint64_t)BOX_WARDEN_RETRY_MS * BOX_MS);
    if (w->phase == BOX_WARDEN_DOWN && !w->ended && rested) {
        (void)group_enter(r); /* nobody is open while it is down */
        box_warden_connect(w);
        return;
    }
    if (w->phase == BOX_WARDEN_DOWN) {
        box_backend_report report;
        box_warden_report(w, &report);
        unavailable(w, &r->reply.error, report.detail);
        box_warden_request_end(r);
        return;
    }
    if (r->type == BOX_WARDEN_USAGE)
        box_warden_request_start_timer(r); /* behind slow creates it would wait for minutes */
    if (group_enter(r))
        box_warden_flush(w);
}

void box_warden_ask(box_warden *w, const char *tenant, box_warden_type type, const void *body,
                    int fd, box_loop *reply_to, void (*done)(void *arg, box_warden_reply *reply),
                    void *arg)
{
    box_warden_request *r = box_warden_request_new(w, type, body);
    r->tenant = box_strdup(tenant);
    r->fd = fd;
    r->reply_to = reply_to;
    r->done = done;
    r->arg = arg;
    box_loop_post(w->loop, submit, r);
}
