/* Managed processes on the home loop of their session: which there are, and what callers want. */
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "session/cgroup.h"
#include "session/process_impl.h"

static box_process *at_link(box_list *link)
{
    return BOX_CONTAINER(link, box_process, link);
}

/* --- the table -------------------------------------------------------------------------------- */

box_process *box_process_find(box_session *s, const char *id)
{
    for (box_list *at = s->processes.next; at != &s->processes; at = at->next) {
        if (strcmp(at_link(at)->id, id) == 0)
            return at_link(at);
    }
    return NULL;
}

bool box_process_is_live(const box_process *p)
{
    return p->facts.state != BOX_PROCESS_EXITED; /* written by this loop only */
}

int box_process_not_found(const char *id, box_error *err)
{
    (void)box_fail(err, BOX_PROCESS_NOT_FOUND, "no process %s in this session", id);
    box_error_add(err, "kind", "process");
    box_error_add(err, "id", id);
    return -1;
}

void box_process_enter(box_session *s, box_process *p)
{
    box_lock_take(&s->all->lock);
    box_list_append(&s->processes, &p->link);
    s->n_processes++;
    box_lock_release(&s->all->lock);
}

/* The list's reference goes. */
void box_process_leave(box_session *s, box_process *p)
{
    box_lock_take(&s->all->lock);
    box_list_remove(&p->link);
    s->n_processes--;
    box_lock_release(&s->all->lock);
    box_process_unref(p);
}

/* The record goes, here and at the agent. */
static void forget(box_session *s, box_process *p)
{
    if (s->agent != NULL && !p->facts.lost)
        box_agent_order(s->agent, BOX_AGENT_FORGET, p->agent_id, "", 0);
    box_process_leave(s, p);
}

static box_process *oldest_ended(box_session *s, uint32_t *n)
{
    box_process *oldest = NULL;
    *n = 0;
    for (box_list *at = s->processes.next; at != &s->processes; at = at->next) {
        box_process *p = at_link(at);
        if (box_process_is_live(p))
            continue;
        ++*n;
        if (oldest == NULL || p->ended_at < oldest->ended_at)
            oldest = p;
    }
    return oldest;
}

void box_processes_forget_due(void *arg)
{
    box_session *s = arg;
    box_time now = box_loop_now(s->home);
    uint32_t n;
    box_process *p = oldest_ended(s, &n);
    while (p != NULL &&
           (n > BOX_MAX_ENDED_PROCESSES ||
            now >= box_time_add(p->ended_at, BOX_PROCESS_RECORD_SECONDS * BOX_SECOND))) {
        forget(s, p);
        p = oldest_ended(s, &n);
    }
    if (s->forget_timer == NULL)
        s->forget_timer = box_timer_new(s->home, box_processes_forget_due, s);
    box_timer_set(s->forget_timer,
                  p == NULL ? BOX_TIME_NEVER
                            : box_time_add(p->ended_at, BOX_PROCESS_RECORD_SECONDS * BOX_SECOND));
}

box_process *box_process_new(box_session *s, const char *id, uint64_t agent_id)
{
    box_process *p = box_alloc(sizeof *p);
    atomic_init(&p->refs, 1);
    p->session = s;
    p->agent_id = agent_id;
    p->stdin_fd = -1;
    p->facts.state = BOX_PROCESS_STARTING;
    (void)snprintf(p->id, sizeof p->id, "%s", id);
    box_list_init(&p->calls);
    box_list_init(&p->attached);
    return p;
}

void box_process_stop_using(box_process *p)
{
    if (p->uses)
        box_session_keep_alive(p->session, false);
    p->uses = false;
}

/* --- answering -------------------------------------------------------------------------------- */

/* The reference of being under way goes back to the call's loop. */
void box_process_answer(box_process_call *c, box_process *p, bool flag, const box_error *err)
{
    box_list_remove(&c->link);
    box_timer_free(c->timer);
    c->timer = NULL;
    if (p != NULL && err == NULL)
        box_process_ref(p);
    box_process_unref(c->process);
    c->process = err == NULL ? p : NULL;
    if (c->process != NULL)
        c->has_usage = box_process_measure(c->session, p, &c->usage);
    c->flag = flag;
    if (err != NULL)
        c->error = *err;
    box_loop_post(c->loop, box_process_call_answered, c);
}

static void wait_for(box_process *p, box_process_call *c)
{
    c->process = box_process_ref(p);
    box_list_append(&p->calls, &c->link);
}

static void set_timer(box_process_call *c, uint64_t in_ns, void (*fn)(void *arg))
{
    box_loop *home = c->session->home;
    c->timer = box_timer_new(home, fn, c);
    box_timer_set(c->timer, box_time_add(box_loop_now(home), in_ns));
}

/* --- orders ----------------------------------------------------------------------------------- */

void box_process_order_stop(box_process *p, uint64_t grace_ns)
{
    box_agent_stop order = {.grace_ns = grace_ns};
    uint64_t most = grace_ns == BOX_STOP_DEFAULT_GRACE ? p->grace_ns : grace_ns;
    box_time by = box_time_add(box_loop_now(p->session->home), most);
    if (p->session->agent == NULL || !box_process_is_live(p) ||
        (p->stop_by != 0 && by >= p->stop_by))
        return;
    p->stop_by = by;
    box_agent_order(p->session->agent, BOX_AGENT_STOP, p->agent_id, &order, sizeof order);
}

static void agent_is_stuck(void *arg)
{
    box_process_call *c = arg;
    box_sandbox_lost(c->session, "its agent does not end a process", BOX_STOP_BROKEN);
}

/* Stops it; the agent owns the time, this is for one that does not keep it. */
static void stop_for(box_process *p, box_process_call *c, uint64_t grace_ns)
{
    uint64_t most = grace_ns == BOX_STOP_DEFAULT_GRACE ? p->grace_ns : grace_ns;
    box_process_order_stop(p, grace_ns);
    wait_for(p, c);
    set_timer(c,
              box_time_add(most, (BOX_AGENT_KILL_SECONDS + BOX_EXEC_BROKEN_SECONDS) * BOX_SECOND),
              agent_is_stuck);
}

static void not_ready_in_time(void *arg)
{
    box_process_call *c = arg;
    box_error err;
    (void)box_fail(&err, BOX_DEADLINE, "process %s was not ready in time and is stopped", c->id);
    box_process_order_stop(c->process, BOX_STOP_DEFAULT_GRACE);
    box_process_answer(c, NULL, false, &err);
}

static void wait_is_over(void *arg)
{
    box_process_call *c = arg;
    box_process_answer(c, c->process, false, NULL);
}

/* --- starting --------------------------------------------------------------------------------- */

static int make_room(box_session *s, box_error *err)
{
    uint32_t ended;
    if (s->n_processes < BOX_MAX_PROCESSES)
        return 0;
    box_process *oldest = oldest_ended(s, &ended);
    if (oldest != NULL) {
        forget(s, oldest);
        return 0;
    }
    (void)box_fail(err, BOX_QUOTA, "the session has as many processes as it may have");
    return box_error_limit(err, "processes", BOX_MAX_PROCESSES, s->n_processes);
}

void box_process_note_counters(box_session *s, box_process *p)
{
    p->oom_before = box_cgroup_oom_kills(s->memory_fd);
    p->refused_before = box_cgroup_pids_refused(s->pids_fd);
}

static void begin(box_session *s, box_process_call *c)
{
    box_error err = {0};
    box_process_plan *plan = &c->plan;
    if (make_room(s, &err) < 0 || box_share_take(&s->memory, plan->bytes, &err) < 0) {
        box_process_answer(c, NULL, false, &err);
        return;
    }
    box_process *p = box_process_new(s, c->id, s->next_exec_id++);
    p->charged_bytes = plan->bytes;
    p->created_wall_ns = s->all->wall_ns();
    p->flags = plan->manage.flags;
    p->grace_ns = plan->manage.grace_ns;
    p->record = plan->record;
    p->record_len = plan->record_len;
    plan->record = NULL;
    p->facts.now.created_ns = p->created_wall_ns;
    box_session_keep_alive(s, true);
    p->uses = true;
    box_process_note_counters(s, p);
    box_process_enter(s, p);
    wait_for(p, c);
    if (c->has_timeout)
        set_timer(c, c->timeout_ns, not_ready_in_time);
    box_agent_manage_process(s->agent, p->agent_id, &plan->manage, plan->fds);
}

static int conflict(const box_process *p, box_error *err)
{
    (void)box_fail(err, BOX_PROCESS_CONFLICT,
                   "process %s runs: stop it first, or ask to replace it", p->id);
    box_error_add(err, "process", p->id);
    return -1;
}

static int can_run(box_session *s, box_error *err)
{
    if (s->agent != NULL && !s->ending && box_session_state_now(s, NULL) == BOX_SESSION_RUNNING)
        return 0;
    return box_session_not_running(s, err);
}

/* Each takes its turn, also one whose caller has gone. */
static int wait_to_replace(box_process *old, box_error *err)
{
    uint32_t waiting = 0;
    for (box_list *at = old->calls.next; at != &old->calls; at = at->next)
        waiting += BOX_CONTAINER(at, box_process_call, link)->waits_for_end;
    if (waiting < BOX_MAX_REPLACEMENTS)
        return 0;
    (void)box_fail(err, BOX_QUOTA, "as many starts as may be wait to replace process %s", old->id);
    return box_error_limit(err, "replacements", BOX_MAX_REPLACEMENTS, waiting);
}

void box_process_start_arrives(box_session *s, box_process_call *c)
{
    box_error err = {0};
    box_process *old = box_process_find(s, c->id);
    bool live = old != NULL && box_process_is_live(old);
    if (can_run(s, &err) < 0 ||
        (live && (c->replace ? wait_to_replace(old, &err) : conflict(old, &err)) < 0)) {
        box_process_answer(c, NULL, false, &err);
    } else if (live) {
        c->waits_for_end = c->flag = true;
        stop_for(old, c, BOX_STOP_DEFAULT_GRACE);
    } else {
        if (old != NULL)
            forget(s, old);
        begin(s, c);
    }
}

/* --- the other calls -------------------------------------------------------------------------- */

static void signal_arrives(box_session *s, box_process *p, box_process_call *c)
{
    box_error err = {0};
    bool runs = p->facts.state == BOX_PROCESS_RUNNING || p->facts.state == BOX_PROCESS_STOPPING;
    if (can_run(s, &err) < 0) {
        box_process_answer(c, NULL, false, &err);
        return;
    }
    if (!runs) {
        (void)box_fail(&err, BOX_SESSION_NOT_RUNNING, "process %s does not run", p->id);
        box_error_add(&err, "process", p->id);
        box_process_answer(c, NULL, false, &err);
        return;
    }
    box_agent_signal signal = {.signo = (uint32_t)c->signo,
                               .scope = c->tree ? BOX_SCOPE_TREE : BOX_SCOPE_MAIN};
    box_agent_signal_command(s->agent, p->agent_id, &signal);
    box_process_answer(c, p, true, NULL);
}

bool box_process_is_ready(const box_process *p)
{
    return (p->facts.now.flags & BOX_MANAGED_READY) != 0 && !p->facts.lost;
}

static void known_arrives(box_session *s, box_process *p, box_process_call *c)
{
    bool live = box_process_is_live(p);
    bool ready = live && box_process_is_ready(p);
    switch (c->want) {
    case BOX_WANT_SIGNAL:
        signal_arrives(s, p, c);
        return;
    case BOX_WANT_STOP:
        if (live)
            stop_for(p, c, c->grace_ns);
        else
            box_process_answer(c, p, true, NULL);
        return;
    case BOX_WANT_READY:
    case BOX_WANT_EXIT:
        if (live && !(c->want == BOX_WANT_READY && ready)) {
            wait_for(p, c);
            if (c->has_timeout)
                set_timer(c, c->timeout_ns, wait_is_over);
        } else {
            box_process_answer(c, p, c->want == BOX_WANT_EXIT || ready, NULL);
        }
        return;
    default:
        box_process_answer(c, p, true, NULL);
        return;
    }
}

void box_process_call_arrives(void *call)
{
    box_process_call *c = call;
    box_session *s = c->session;
    box_error err = {0};
    if (c->want == BOX_WANT_START) {
        box_process_start_arrives(s, c);
        return;
    }
    box_process *p = box_process_find(s, c->id);
    if (p != NULL) {
        known_arrives(s, p, c);
        return;
    }
    bool fine = c->want == BOX_WANT_STOP && c->allow_missing;
    if (!fine)
        (void)box_process_not_found(c->id, &err); /* always -1 */
    box_process_answer(c, NULL, false, fine ? NULL : &err);
}

void box_process_call_forget(void *call)
{
    box_process_call *c = call;
    if (box_list_linked(&c->link) && !c->waits_for_end) {
        box_list_remove(&c->link);
        box_timer_free(c->timer);
        c->timer = NULL;
        box_process_call_unref(c); /* of being under way */
    }
    box_process_call_unref(c);
}
