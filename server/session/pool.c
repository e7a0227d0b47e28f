#include "session/pool.h"

#include <poll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "session/cgroup.h"
#include "session/pool_fit.h"

/* One that is being made, or ready, or to be removed. */
typedef struct warm {
    box_pool *pool;
    box_uid uid;
    char uid_text[BOX_UID_TEXT];
    box_warden *warden;
    box_warden_create create; /* what was asked for */

    /* guarded by the sessions' lock */
    box_list link;
    bool ready; /* may be taken: loop 0 has nothing to do with it any more */
    bool unfit; /* is to be removed */

    /* of loop 0 until it is ready, then of whoever takes it */
    bool busy; /* a callback that names it will come */
    bool bound;
    bool made;
    uint32_t guarantees;
    box_agent *agent;
    int channel_fd, cgroup_fd, memory_fd, memory_dir, pids_fd;
} warm;

struct box_pool {
    box_sessions *all;
    box_loop *loop;
    uint32_t wanted;
    /* guarded by the sessions' lock */
    box_list list;    /* of warm */
    uint32_t leaving; /* removed here, not yet by the warden */
    uint32_t ready;
    /* of loop 0 */
    box_timer *timer;
    uint64_t pause_ns; /* after the next failure */
    box_time not_before;
};

static void look_soon(box_pool *p)
{
    box_loop_post(p->loop, box_pool_look, p);
}

/* --- removing --------------------------------------------------------------------------------- */

static void unbind(warm *m)
{
    if (m->bound)
        (void)unlinkat(m->pool->all->run_dirfd, m->uid_text, 0); /* else removed at start */
    m->bound = false;
}

static void let_go(warm *m)
{
    box_agent_free(m->agent);
    unbind(m);
    box_closep(&m->channel_fd);
    box_closep(&m->cgroup_fd);
    box_closep(&m->memory_fd);
    box_closep(&m->memory_dir);
    box_closep(&m->pids_fd);
    free(m);
}

/* A warden that is away sweeps it when it comes back; one that failed tries again by itself. */
static void removed(void *arg, box_warden_reply *reply)
{
    box_pool *p = arg;
    if (reply->error.reason != BOX_NONE)
        box_log(BOX_WARN, "pool.destroy", BOX_ERR(&reply->error));
    box_warden_reply_done(reply);
    box_lock_take(&p->all->lock);
    p->leaving--;
    box_sessions_check_drained_locked(p->all);
    box_lock_release(&p->all->lock);
}

static void remove_one(warm *m)
{
    box_pool *p = m->pool;
    box_warden_target target = {.uid = m->uid};
    box_warden *warden = m->warden;
    bool made = m->made;
    let_go(m);
    if (made) {
        box_warden_ask(warden, "", BOX_WARDEN_DESTROY, &target, -1, p->loop, removed, p);
        return;
    }
    box_lock_take(&p->all->lock);
    p->leaving--;
    box_sessions_check_drained_locked(p->all);
    box_lock_release(&p->all->lock);
}

static void leave_locked(warm *m)
{
    box_list_remove(&m->link);
    m->pool->ready -= m->ready;
}

/* One that a callback still names is removed by that. */
static void remove_unfit(box_pool *p)
{
    box_list unfit;
    box_list_init(&unfit);
    box_lock_take(&p->all->lock);
    for (box_list *at = p->list.next, *next; at != &p->list; at = next) {
        warm *m = BOX_CONTAINER(at, warm, link);
        next = at->next;
        if (!m->unfit || m->busy)
            continue;
        leave_locked(m);
        box_list_append(&unfit, &m->link);
        p->leaving++;
    }
    box_lock_release(&p->all->lock);
    while (!box_list_empty(&unfit)) {
        warm *m = BOX_CONTAINER(unfit.next, warm, link);
        box_list_remove(&m->link);
        remove_one(m);
    }
}

static void make_unfit(warm *m)
{
    box_lock_take(&m->pool->all->lock);
    m->unfit = true;
    box_lock_release(&m->pool->all->lock);
    look_soon(m->pool);
}

/* --- making ----------------------------------------------------------------------------------- */

static void failed(warm *m, const box_error *why)
{
    box_pool *p = m->pool;
    box_log(BOX_WARN, "pool.failed", BOX_STR("backend", box_warden_name(m->warden)), BOX_ERR(why));
    p->not_before = box_time_add(box_loop_now(p->loop), p->pause_ns);
    if (p->pause_ns < BOX_POOL_MAX_RETRY_SECONDS * BOX_SECOND)
        p->pause_ns *= 2;
    make_unfit(m);
}

/* Not from inside the agent's callback. */
static void greeted(void *arg)
{
    warm *m = arg;
    box_pool *p = m->pool;
    m->busy = false;
    m->channel_fd = box_agent_release(m->agent);
    m->agent = NULL;
    unbind(m); /* the agent holds the socket; nobody else is to find it */
    p->pause_ns = BOX_POOL_RETRY_MS * BOX_MS;
    box_lock_take(&p->all->lock);
    m->ready = !m->unfit;
    p->ready += m->ready;
    box_lock_release(&p->all->lock);
    box_pool_look(p);
}

static void on_ready(void *arg)
{
    warm *m = arg;
    m->busy = true;
    box_loop_post(m->pool->loop, greeted, m);
}

static void on_lost(void *arg, const box_error *why, bool protocol)
{
    (void)protocol;
    failed(arg, why);
}

/* Nothing was started in it. */
static void on_started(void *arg, uint64_t id, const box_agent_started *started, int *fds)
{
    box_error err;
    (void)id;
    (void)started;
    (void)fds;
    (void)box_fail(&err, BOX_PROTOCOL, "its agent started what nobody asked for"); /* always -1 */
    failed(arg, &err);
}

static void on_exited(void *arg, uint64_t id, const box_agent_exit *exit)
{
    box_error err;
    (void)id;
    (void)exit;
    (void)box_fail(&err, BOX_PROTOCOL, "its agent ended what does not run"); /* always -1 */
    failed(arg, &err);
}

static const box_agent_events agent_events = {
    .ready = on_ready, .started = on_started, .exited = on_exited, .lost = on_lost};

static void created(void *arg, box_warden_reply *reply)
{
    warm *m = arg;
    box_pool *p = m->pool;
    box_error err = reply->error;
    m->busy = false;
    /* Whether an unanswered create made something is not known: destroy is idempotent. */
    m->made = err.reason == BOX_NONE || err.reason == BOX_BACKEND_UNAVAILABLE;
    if (err.reason == BOX_NONE) {
        m->guarantees = reply->answer.guarantees;
        m->cgroup_fd = box_take_fd(&reply->cgroup);
        m->memory_fd = box_cgroup_open_memory(reply->memory, reply->answer.memory_version);
        if (reply->answer.memory_version == 1)
            m->memory_dir = box_take_fd(&reply->memory);
        m->pids_fd = box_cgroup_open_pids(reply->pids);
        BOX_IGNORE(box_agent_new(p->loop, p->all->run_dirfd, m->uid_text, &agent_events, m, 1,
                                 &m->agent, &err)); /* err says it */
    }
    box_warden_reply_done(reply);
    if (err.reason != BOX_NONE)
        failed(m, &err);
    else
        box_pool_look(p); /* it may be of no use by now */
}

bool box_pool_has_locked(const box_pool *p, const box_uid *uid)
{
    for (box_list *at = p->list.next; at != &p->list; at = at->next) {
        if (box_uid_equal(&BOX_CONTAINER(at, warm, link)->uid, uid))
            return true;
    }
    return false;
}

static void make(box_pool *p, box_warden *warden, const box_warden_create *create)
{
    warm *m = box_alloc(sizeof *m);
    box_error err = {0};
    int listen_fd = -1;
    *m = (warm){.pool = p, .uid = box_uid_new(), .warden = warden, .create = *create};
    m->channel_fd = m->cgroup_fd = m->memory_fd = m->memory_dir = m->pids_fd = -1;
    box_lock_take(&p->all->lock);
    box_uid prepared = box_warden_new_uid(warden);
    if (!box_pool_has_locked(p, &prepared) &&
        box_map_get_bytes(p->all->by_uid, &prepared, sizeof prepared) == NULL)
        m->uid = prepared;
    m->create.uid = m->uid;
    box_uid_text(&m->uid, m->uid_text);
    box_list_append(&p->list, &m->link);
    box_lock_release(&p->all->lock);
    if (box_agent_listen(p->all->run_dirfd, m->uid_text, &listen_fd, &err) < 0) {
        failed(m, &err);
        return;
    }
    m->bound = m->busy = true;
    box_warden_ask(warden, "", BOX_WARDEN_CREATE, &m->create, listen_fd, p->loop, created, m);
}

/* --- looking ---------------------------------------------------------------------------------- */

static uint32_t room_locked(const box_pool *p)
{
    const box_session_defaults *d = &p->all->defaults;
    if (d->disabled || p->all->draining || p->all->live >= d->max_sessions)
        return 0;
    uint32_t room = d->max_sessions - p->all->live;
    return room < p->wanted ? room : p->wanted;
}

typedef struct view {
    uint32_t room; /* how many there may be */
    uint32_t have;
    uint32_t making; /* of them */
} view;

/* Marks what does not fit and what is too many. */
static view review(box_pool *p, const box_warden *warden, const box_warden_create *create)
{
    view v = {0};
    box_lock_take(&p->all->lock);
    v.room = create != NULL ? room_locked(p) : 0;
    for (box_list *at = p->list.next; at != &p->list; at = at->next) {
        warm *m = BOX_CONTAINER(at, warm, link);
        m->unfit |= create == NULL || m->warden != warden ||
                    !box_pool_same_make(&m->create, create) ||
                    !box_pool_same_limits(&m->create, create) ||
                    m->create.required != create->required || v.have >= v.room;
        v.have += !m->unfit;
        v.making += !m->unfit && !m->ready;
    }
    box_lock_release(&p->all->lock);
    return v;
}

void box_pool_look(void *pool)
{
    box_pool *p = pool;
    box_warden *warden = NULL;
    box_warden_create create;
    if (p->wanted == 0)
        return;
    bool can = box_pool_standard(p->all, &warden, &create);
    view v = review(p, warden, can ? &create : NULL);
    remove_unfit(p);
    box_time now = box_loop_now(p->loop);
    while (v.have < v.room && v.making < BOX_POOL_MAKING && now >= p->not_before) {
        make(p, warden, &create);
        v.have++;
        v.making++;
    }
}

/* What kills one may kill the next. */
static void one_died(void *arg)
{
    box_pool *p = arg;
    p->not_before = box_time_add(box_loop_now(p->loop), BOX_POOL_RETRY_MS * BOX_MS);
    box_pool_look(p);
}

static bool is_half_full(box_pool *p)
{
    box_lock_take(&p->all->lock);
    bool half = p->ready * 2 >= p->wanted;
    box_lock_release(&p->all->lock);
    return half;
}

/* Those who take come first while there is enough for them: making one costs a processor for some
 * milliseconds. */
static void taken(void *arg)
{
    box_pool *p = arg;
    if (!is_half_full(p)) {
        box_pool_look(p);
        return;
    }
    if (p->timer == NULL)
        p->timer = box_timer_new(p->loop, box_pool_look, p);
    box_timer_set(p->timer, box_time_add(box_loop_now(p->loop), BOX_POOL_PAUSE_MS * BOX_MS));
}

/* --- taking ----------------------------------------------------------------------------------- */

/* An agent says nothing unasked: anything on its channel is its end. Does not wait. */
static bool is_silent(const warm *m)
{
    struct pollfd p = {.fd = m->channel_fd, .events = POLLIN};
    return poll(&p, 1, 0) == 0;
}

static void give_locked(warm *m, const box_warden_limits *limits, box_session *s)
{
    s->uid = m->uid;
    memcpy(s->uid_text, m->uid_text, sizeof s->uid_text);
    s->guarantees = m->guarantees;
    s->relimit = *limits;
    s->at_warden = s->sandbox_made = true;
    s->channel_fd = box_take_fd(&m->channel_fd);
    s->cgroup_fd = box_take_fd(&m->cgroup_fd);
    s->memory_fd = box_take_fd(&m->memory_fd);
    s->memory_dir = box_take_fd(&m->memory_dir);
    s->pids_fd = box_take_fd(&m->pids_fd);
    leave_locked(m);
    free(m);
}

bool box_pool_take_locked(box_pool *p, box_session *s)
{
    box_warden_create asked;
    box_warden_limits limits;
    if (p->ready == 0)
        return false;
    box_sandbox_request(&s->spec, s->required, &asked);
    for (box_list *at = p->list.next; at != &p->list; at = at->next) {
        warm *m = BOX_CONTAINER(at, warm, link);
        if (!m->ready || m->unfit || m->warden != s->warden ||
            !box_pool_same_make(&m->create, &asked) || (s->required & ~m->guarantees) != 0 ||
            !box_pool_relimit(&m->create, m->guarantees, &asked, &limits))
            continue;
        m->unfit = !is_silent(m);
        if (m->unfit)
            continue; /* removed at the next look */
        give_locked(m, &limits, s);
        box_loop_post(p->loop, taken, p);
        return true;
    }
    return false;
}

uint32_t box_pool_count_locked(const box_pool *p)
{
    uint32_t n = 0;
    for (box_list *at = p->list.next; at != &p->list; at = at->next)
        n += !BOX_CONTAINER(at, warm, link)->unfit;
    return n;
}

void box_pool_yield_locked(box_pool *p)
{
    for (box_list *at = p->list.next; at != &p->list; at = at->next) {
        warm *m = BOX_CONTAINER(at, warm, link);
        if (m->unfit)
            continue;
        m->unfit = true;
        look_soon(p);
        return;
    }
}

void box_pool_forget_warden_locked(box_pool *p, const box_warden *w)
{
    for (box_list *at = p->list.next; at != &p->list; at = at->next) {
        warm *m = BOX_CONTAINER(at, warm, link);
        m->unfit |= m->warden == w;
    }
    look_soon(p);
}

bool box_pool_lose(box_pool *p, const box_uid *uid)
{
    bool found = false;
    box_lock_take(&p->all->lock);
    for (box_list *at = p->list.next; at != &p->list && !found; at = at->next) {
        warm *m = BOX_CONTAINER(at, warm, link);
        found = box_uid_equal(&m->uid, uid);
        m->unfit |= found;
    }
    box_lock_release(&p->all->lock);
    if (found)
        box_loop_post(p->loop, one_died, p);
    return found;
}

bool box_pool_is_empty_locked(const box_pool *p)
{
    return box_list_empty(&p->list) && p->leaving == 0;
}

void box_pool_stats_locked(const box_pool *p, box_sessions_stats *out)
{
    out->warm_wanted = p->wanted;
    out->warm_ready = p->ready;
}

/* --- life ------------------------------------------------------------------------------------- */

box_pool *box_pool_new(box_sessions *all, uint32_t wanted)
{
    box_pool *p = box_alloc(sizeof *p);
    p->all = all;
    p->loop = box_loops_get(all->loops, 0);
    p->wanted = wanted;
    p->pause_ns = BOX_POOL_RETRY_MS * BOX_MS;
    box_list_init(&p->list);
    return p;
}

void box_pool_free(box_pool *p)
{
    if (p == NULL)
        return;
    while (!box_list_empty(&p->list)) {
        warm *m = BOX_CONTAINER(p->list.next, warm, link);
        box_list_remove(&m->link);
        let_go(m);
    }
    box_timer_free(p->timer);
    free(p);
}
