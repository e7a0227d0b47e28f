/* The file workers of a session: who has one and who waits. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "session/cgroup.h"
#include "session/file_call.h"

/* --- references ------------------------------------------------------------------------------- */

void box_file_worker_unref(box_file_worker *w)
{
    if (w == NULL || atomic_fetch_sub_explicit(&w->refs, 1, memory_order_acq_rel) != 1)
        return;
    box_closep(&w->fd);
    box_session_unref(w->session);
    free(w);
}

/* --- waiting ---------------------------------------------------------------------------------- */

static box_file_call *first_waiting_locked(box_session *s)
{
    if (box_list_empty(&s->file_wait))
        return NULL;
    box_file_call *c = BOX_CONTAINER(s->file_wait.next, box_file_call, of_wait);
    box_list_remove(&c->of_wait);
    s->n_file_wait--;
    return c;
}

static void refuse(box_file_call *c, const box_error *why)
{
    c->error = *why;
    box_loop_post(c->loop, box_file_refused, c); /* the list's reference */
}

/* The worker and the list's reference go to the call. */
static void grant(box_file_call *c, box_file_worker *w)
{
    c->worker = w;
    box_loop_post(c->loop, box_file_granted, c);
}

/* A worker nobody waits for. */
static void put_idle_locked(box_session *s, box_file_worker *w)
{
    w->idle_since = box_loop_now(box_loop_current());
    box_list_append(&s->file_idle, &w->of_idle);
    s->n_file_idle++;
}

/* The last one is the warmest, and this loop's own need not change hands. */
static box_file_worker *take_idle_locked(box_session *s)
{
    box_file_worker *best = NULL;
    const box_loop *here = box_loop_current();
    for (box_list *at = s->file_idle.prev; at != &s->file_idle; at = at->prev) {
        box_file_worker *w = BOX_CONTAINER(at, box_file_worker, of_idle);
        bool near = w->loop == here || w->loop == NULL;
        if (best == NULL || near)
            best = w;
        if (near)
            break;
    }
    if (best == NULL)
        return NULL;
    box_list_remove(&best->of_idle);
    s->n_file_idle--;
    return best;
}

/* --- idle ones go, on the home loop ----------------------------------------------------------- */

/* One that has waited too long, or NULL. The last one may wait longer. */
static box_file_worker *take_stale_locked(box_session *s, box_time now)
{
    if (box_list_empty(&s->file_idle))
        return NULL;
    box_file_worker *w = BOX_CONTAINER(s->file_idle.next, box_file_worker, of_idle);
    uint64_t seconds = s->n_file_idle > 1 ? BOX_FILES_EXTRA_SECONDS : BOX_FILES_IDLE_SECONDS;
    if (now < box_time_add(w->idle_since, seconds * BOX_SECOND))
        return NULL;
    box_list_remove(&w->of_idle);
    s->n_file_idle--;
    return w;
}

static void look_at_idle(void *arg)
{
    box_session *s = arg;
    box_file_worker *w;
    box_time now = box_loop_now(s->home);
    do {
        box_lock_take(&s->all->lock);
        w = take_stale_locked(s, now);
        s->file_timer_set = !box_list_empty(&s->file_idle);
        bool again = s->file_timer_set;
        box_lock_release(&s->all->lock);
        if (w != NULL)
            box_file_worker_close(w);
        else if (again)
            box_timer_set(s->file_timer, box_time_add(now, BOX_FILES_EXTRA_SECONDS * BOX_SECOND));
    } while (w != NULL);
}

static void set_idle_timer(void *session)
{
    BOX_AUTO(box_session_unrefp) box_session *s = session;
    if (s->ending)
        return;
    if (s->file_timer == NULL)
        s->file_timer = box_timer_new(s->home, look_at_idle, s);
    box_timer_set(s->file_timer,
                  box_time_add(box_loop_now(s->home), BOX_FILES_EXTRA_SECONDS * BOX_SECOND));
}

/* --- starting, on the home loop --------------------------------------------------------------- */

static int start_worker(box_session *s, bool in_agent, box_file_worker **out, box_error *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return box_fail_errno(err, "make the socket of a file worker");
    BOX_AUTO(box_closep) int ours = ends[0];
    BOX_AUTO(box_closep) int theirs = ends[1];
    if (ends[0] > s->all->last_fd || ends[1] > s->all->last_fd) {
        (void)box_fail(err, BOX_QUOTA, "the server has no file descriptors left: retry later");
        box_error_add(err, "limit", "open_files");
        err->retry_ms = 1000;
        return -1;
    }
    if (box_fd_set_nonblocking(ours, err) < 0)
        return -1;
    box_file_worker *w = box_alloc(sizeof *w);
    atomic_init(&w->refs, 2); /* the home loop's, and who gets it */
    w->session = box_session_ref(s);
    w->id = s->next_worker_id++;
    w->in_agent = in_agent;
    w->fd = box_take_fd(&ours);
    w->oom_before = box_cgroup_oom_kills(s->memory_fd);
    box_list_append(&s->file_workers, &w->of_home);
    box_agent_start_files(s->agent, w->id, in_agent ? BOX_AGENT_FILES_IN_AGENT : 0, &theirs);
    *out = w;
    return 0;
}

static int cannot_start(box_session *s, box_error *err)
{
    if (s->agent != NULL && !s->ending)
        return 0;
    return box_session_not_running(s, err);
}

/* As many as there are calls for, up to the limit. */
static void start_wanted(void *session)
{
    BOX_AUTO(box_session_unrefp) box_session *s = session;
    for (;;) {
        box_lock_take(&s->all->lock);
        bool may = !box_list_empty(&s->file_wait) && s->n_file_workers < BOX_FILES_MAX_WORKERS;
        box_file_call *c = may ? first_waiting_locked(s) : NULL;
        s->n_file_workers += c != NULL;
        box_lock_release(&s->all->lock);
        if (c == NULL)
            return;
        box_file_worker *w = NULL;
        box_error err = {0};
        if (cannot_start(s, &err) == 0 && start_worker(s, false, &w, &err) == 0) {
            grant(c, w);
            continue;
        }
        box_lock_take(&s->all->lock);
        s->n_file_workers--;
        box_lock_release(&s->all->lock);
        refuse(c, &err);
    }
}

/* The one in S/agent, for a call whose worker in S/box had no memory. */
static void start_in_agent(void *call)
{
    box_file_call *c = call; /* the reference becomes the grant's */
    box_session *s = c->session;
    box_file_worker *w = NULL;
    box_error err = {0};
    box_lock_take(&s->all->lock);
    bool busy = s->file_agent_busy;
    s->file_agent_busy = true;
    box_lock_release(&s->all->lock);
    if (busy) {
        (void)box_fail(&err, BOX_RUNTIME_UNAVAILABLE,
                       "the sandbox is out of memory, and another "
                       "call is removing files: try again");
        err.retry_ms = 1000;
        refuse(c, &err);
        return;
    }
    if (cannot_start(s, &err) == 0 && start_worker(s, true, &w, &err) == 0) {
        grant(c, w);
        return;
    }
    box_lock_take(&s->all->lock);
    s->file_agent_busy = false;
    box_lock_release(&s->all->lock);
    refuse(c, &err);
}

/* --- the calls' side -------------------------------------------------------------------------- */

/* It ended, or says what nobody asked: an idle one has nothing to say, but for its HELLO. */
static bool is_bad(const box_file_worker *w)
{
    struct pollfd p = {.fd = w->fd, .events = (short)(POLLRDHUP | (w->greeted ? POLLIN : 0))};
    return poll(&p, 1, 0) != 0;
}

/* An idle one that lives; those that were killed meanwhile go. */
static box_file_worker *living_idle(box_session *s)
{
    for (;;) {
        box_lock_take(&s->all->lock);
        box_file_worker *w = take_idle_locked(s);
        box_lock_release(&s->all->lock);
        if (w == NULL || !is_bad(w))
            return w;
        box_files_discard(s, w);
    }
}

static int queue_full(box_session *s, box_error *err)
{
    (void)box_fail(err, BOX_RATE_LIMIT, "session %s has too many file calls at once", s->id);
    err->retry_ms = 1000;
    return box_error_limit(err, "file_calls", BOX_FILES_QUEUE_DEPTH, s->n_file_wait);
}

/* On the loop that watched it: the call's own will. */
static void hand_over(void *call)
{
    box_file_call *c = call; /* the reference becomes the grant's */
    box_file_watch_end(c->worker);
    grant(c, c->worker);
}

bool box_files_want(box_file_call *c)
{
    box_session *s = c->session;
    if (c->in_agent) {
        box_loop_post(s->home, start_in_agent, box_file_call_ref(c));
        return false;
    }
    box_file_worker *w = living_idle(s);
    if (w != NULL) {
        c->worker = w;
        if (!box_file_is_elsewhere(w))
            return true;
        box_loop_post(w->loop, hand_over, box_file_call_ref(c));
        return false;
    }
    box_error err = {0};
    box_lock_take(&s->all->lock);
    int rc = s->n_file_wait >= BOX_FILES_QUEUE_DEPTH ? queue_full(s, &err) : 0;
    if (rc == 0) {
        box_list_append(&s->file_wait, &c->of_wait);
        s->n_file_wait++;
    }
    bool start = s->n_file_workers < BOX_FILES_MAX_WORKERS;
    box_lock_release(&s->all->lock);
    box_file_call_ref(c); /* the list's, or the refusal's */
    if (rc < 0)
        refuse(c, &err);
    else if (start)
        box_session_post(s, start_wanted);
    return false;
}

bool box_files_unwant(box_file_call *c)
{
    box_session *s = c->session;
    box_lock_take(&s->all->lock);
    bool waited = box_list_linked(&c->of_wait);
    if (waited) {
        box_list_remove(&c->of_wait);
        s->n_file_wait--;
    }
    box_lock_release(&s->all->lock);
    if (waited)
        box_file_call_unref(c);
    return waited;
}

static bool is_waited_for(box_session *s)
{
    box_lock_take(&s->all->lock);
    bool waits = !box_list_empty(&s->file_wait);
    box_lock_release(&s->all->lock);
    return waits;
}

void box_files_give_back(box_session *s, box_file_worker *w)
{
    box_file_call *next = NULL;
    bool keep = false;
    bool arm = false;
    if (is_waited_for(s) && is_bad(w)) { /* else that call would fail for it */
        box_files_discard(s, w);
        return;
    }
    if (!w->in_agent) {
        box_lock_take(&s->all->lock);
        next = first_waiting_locked(s);
        keep = next == NULL && s->state == BOX_SESSION_RUNNING;
        if (keep)
            put_idle_locked(s, w);
        arm = keep && !s->file_timer_set;
        s->file_timer_set |= arm;
        box_lock_release(&s->all->lock);
    }
    if (next != NULL && next->loop != w->loop)
        box_file_watch_end(w);
    if (next != NULL)
        grant(next, w);
    else if (!keep)
        box_file_worker_close(w);
    if (arm)
        box_session_post(s, set_idle_timer);
}

/* A worker's id on its way to the home loop. */
typedef struct notice {
    box_session *session; /* a reference */
    uint64_t id;
} notice;

static void stop_worker(void *arg)
{
    notice *n = arg;
    if (n->session->agent != NULL)
        box_agent_stop_files(n->session->agent, n->id);
    box_session_unref(n->session);
    free(n);
}

void box_files_discard(box_session *s, box_file_worker *w)
{
    notice *n = box_alloc(sizeof *n);
    n->session = box_session_ref(s);
    n->id = w->id;
    box_loop_post(s->home, stop_worker, n);
    box_file_worker_close(w);
}

void box_files_disturbed(box_file_worker *w)
{
    box_session *s = w->session;
    box_lock_take(&s->all->lock);
    bool idle = box_list_linked(&w->of_idle);
    if (idle) {
        box_list_remove(&w->of_idle);
        s->n_file_idle--;
    }
    box_lock_release(&s->all->lock);
    if (idle)
        box_files_discard(s, w);
    else
        box_file_watch_set(w, 0); /* whose call it will be has a look itself */
}

/* --- ends, on the home loop ------------------------------------------------------------------- */

static void explain(box_file_call *c, const box_error *why)
{
    c->error = *why;
    box_loop_post(c->loop, box_file_explained, c);
}

static void ask_home(void *call)
{
    box_file_call *c = call; /* the reference goes on */
    box_session *s = c->session;
    box_file_worker *w = c->worker;
    box_error err = {0};
    if (w->has_ended) {
        explain(c, &w->why);
    } else if (s->agent == NULL || !box_list_linked(&w->of_home)) {
        (void)box_session_not_running(s, &err); /* always -1 */
        explain(c, &err);
    } else {
        box_agent_stop_files(s->agent, w->id); /* it closed its socket and may live on */
        w->curious = c;
    }
}

void box_files_ask_why(box_file_call *c)
{
    box_loop_post(c->session->home, ask_home, box_file_call_ref(c));
}

static box_file_worker *find_worker(box_session *s, uint64_t id)
{
    for (box_list *at = s->file_workers.next; at != &s->file_workers; at = at->next) {
        box_file_worker *w = BOX_CONTAINER(at, box_file_worker, of_home);
        if (w->id == id)
            return w;
    }
    return NULL;
}

static void why_it_ended(const box_session *s, const box_file_worker *w,
                         const box_agent_files_ended *e, box_error *why)
{
    *why = e->error;
    if (why->reason != BOX_NONE)
        return;
    if (e->signal == SIGKILL && box_cgroup_oom_kills(s->memory_fd) > w->oom_before) {
        (void)box_fail(why, BOX_QUOTA, "the sandbox has no memory left for file calls"); /* -1 */
        box_error_add(why, "limit", "memory");
        return;
    }
    (void)box_fail(why, BOX_RUNTIME_UNAVAILABLE,
                   "the sandbox's file worker was ended from inside (signal %d)",
                   (int)e->signal); /* always -1 */
    why->retry_ms = 100;
}

/* It leaves the home loop's list; its reference goes. */
static void leave_home(box_session *s, box_file_worker *w, const box_error *why)
{
    box_list_remove(&w->of_home);
    box_lock_take(&s->all->lock);
    bool idle = box_list_linked(&w->of_idle);
    if (idle) {
        box_list_remove(&w->of_idle);
        s->n_file_idle--;
    }
    if (w->in_agent)
        s->file_agent_busy = false;
    else
        s->n_file_workers--;
    box_lock_release(&s->all->lock);
    w->has_ended = true;
    w->why = *why;
    if (w->curious != NULL)
        explain(box_take(w->curious), why);
    if (idle)
        box_file_worker_close(w);
    box_file_worker_unref(w);
}

void box_files_ended(void *session, uint64_t id, const box_agent_files_ended *e)
{
    box_session *s = session;
    box_error why;
    box_file_worker *w = find_worker(s, id);
    if (w == NULL)
        return; /* an earlier boxd's */
    why_it_ended(s, w, e, &why);
    leave_home(s, w, &why);
    box_session_post(s, start_wanted); /* its place is free */
}

void box_files_close(box_session *s, const box_error *why)
{
    box_file_call *c;
    box_timer_free(s->file_timer);
    s->file_timer = NULL;
    do {
        box_lock_take(&s->all->lock);
        c = first_waiting_locked(s);
        box_lock_release(&s->all->lock);
        if (c != NULL)
            refuse(c, why);
    } while (c != NULL);
    while (!box_list_empty(&s->file_workers))
        leave_home(s, BOX_CONTAINER(s->file_workers.next, box_file_worker, of_home), why);
}
