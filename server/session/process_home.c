/* Managed processes on the home loop of their session: the agent's word and what callers want. */
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

static box_process *find_by_agent_id(box_session *s, uint64_t id)
{
    for (box_list *at = s->processes.next; at != &s->processes; at = at->next) {
        if (at_link(at)->agent_id == id)
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

static void enter(box_session *s, box_process *p)
{
    box_lock_take(&s->all->lock);
    box_list_append(&s->processes, &p->link);
    s->n_processes++;
    box_lock_release(&s->all->lock);
}

/* The list's reference goes. */
static void leave(box_session *s, box_process *p)
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
    leave(s, p);
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

static void forget_due(void *arg)
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
        s->forget_timer = box_timer_new(s->home, forget_due, s);
    box_timer_set(s->forget_timer,
                  p == NULL ? BOX_TIME_NEVER
                            : box_time_add(p->ended_at, BOX_PROCESS_RECORD_SECONDS * BOX_SECOND));
}

static box_process *process_new(box_session *s, const char *id, uint64_t agent_id)
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

static void stop_using(box_process *p)
{
    if (p->uses)
        box_session_keep_alive(p->session, false);
    p->uses = false;
}

/* --- answering -------------------------------------------------------------------------------- */

/* The reference of being under way goes back to the call's loop. */
static void answer(box_process_call *c, box_process *p, bool flag, const box_error *err)
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
    if (p->session->agent != NULL && box_process_is_live(p))
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
    answer(c, NULL, false, &err);
}

static void wait_is_over(void *arg)
{
    box_process_call *c = arg;
    answer(c, c->process, false, NULL);
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

static void note_counters(box_session *s, box_process *p)
{
    p->oom_before = box_cgroup_oom_kills(s->memory_fd);
    p->refused_before = box_cgroup_pids_refused(s->pids_fd);
}

static void begin(box_session *s, box_process_call *c)
{
    box_error err = {0};
    box_process_plan *plan = &c->plan;
    if (make_room(s, &err) < 0 || box_share_take(&s->memory, plan->bytes, &err) < 0) {
        answer(c, NULL, false, &err);
        return;
    }
    box_process *p = process_new(s, c->id, s->next_exec_id++);
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
    note_counters(s, p);
    enter(s, p);
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

static void start_arrives(box_session *s, box_process_call *c)
{
    box_error err = {0};
    box_process *old = box_process_find(s, c->id);
    bool live = old != NULL && box_process_is_live(old);
    if (can_run(s, &err) < 0 || (live && !c->replace && conflict(old, &err) < 0)) {
        answer(c, NULL, false, &err);
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
        answer(c, NULL, false, &err);
        return;
    }
    if (!runs) {
        (void)box_fail(&err, BOX_SESSION_NOT_RUNNING, "process %s does not run", p->id);
        box_error_add(&err, "process", p->id);
        answer(c, NULL, false, &err);
        return;
    }
    box_agent_signal signal = {.signo = (uint32_t)c->signo,
                               .scope = c->tree ? BOX_SCOPE_TREE : BOX_SCOPE_MAIN};
    box_agent_signal_command(s->agent, p->agent_id, &signal);
    answer(c, p, true, NULL);
}

static bool is_ready(const box_process *p)
{
    return (p->facts.now.flags & BOX_MANAGED_READY) != 0 && !p->facts.lost;
}

static void known_arrives(box_session *s, box_process *p, box_process_call *c)
{
    bool live = box_process_is_live(p);
    bool ready = live && is_ready(p);
    switch (c->want) {
    case BOX_WANT_SIGNAL:
        signal_arrives(s, p, c);
        return;
    case BOX_WANT_STOP:
        if (live)
            stop_for(p, c, c->grace_ns);
        else
            answer(c, p, true, NULL);
        return;
    case BOX_WANT_READY:
    case BOX_WANT_EXIT:
        if (live && !(c->want == BOX_WANT_READY && ready)) {
            wait_for(p, c);
            if (c->has_timeout)
                set_timer(c, c->timeout_ns, wait_is_over);
        } else {
            answer(c, p, c->want == BOX_WANT_EXIT || ready, NULL);
        }
        return;
    default:
        answer(c, p, true, NULL);
        return;
    }
}

void box_process_call_arrives(void *call)
{
    box_process_call *c = call;
    box_session *s = c->session;
    box_error err = {0};
    if (c->want == BOX_WANT_START) {
        start_arrives(s, c);
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
    answer(c, NULL, false, fine ? NULL : &err);
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

/* --- what the agent says ---------------------------------------------------------------------- */

static void broken(box_session *s, const char *why)
{
    box_sandbox_lost(s, why, BOX_STOP_BROKEN);
}

/* Answers those whose wish has come true, or cannot any more. */
static void serve_calls(box_process *p)
{
    bool live = box_process_is_live(p);
    for (box_list *at = p->calls.next, *next; at != &p->calls; at = next) {
        next = at->next;
        box_process_call *c = BOX_CONTAINER(at, box_process_call, link);
        bool ready = live && is_ready(p);
        if (c->want == BOX_WANT_START && !c->waits_for_end && (!c->has_timeout || ready || !live))
            answer(c, p, c->flag, NULL);
        else if (c->want == BOX_WANT_READY && (ready || !live))
            answer(c, p, ready, NULL);
        else if ((c->want == BOX_WANT_EXIT || c->want == BOX_WANT_STOP) && !live)
            answer(c, p, true, NULL);
    }
}

/* Those who wait for its end to take its place. */
static void serve_successors(box_session *s, box_process *p)
{
    for (box_list *at = p->calls.next, *next; at != &p->calls; at = next) {
        next = at->next;
        box_process_call *c = BOX_CONTAINER(at, box_process_call, link);
        if (!c->waits_for_end)
            continue;
        box_list_remove(&c->link);
        box_timer_free(c->timer);
        c->timer = NULL;
        c->waits_for_end = false;
        box_process_unref(c->process);
        c->process = NULL;
        start_arrives(s, c);
    }
}

static void fail_calls(box_process *p, const box_error *why)
{
    while (!box_list_empty(&p->calls)) {
        box_process_call *c = BOX_CONTAINER(p->calls.next, box_process_call, link);
        box_error err = *why;
        if (c->want != BOX_WANT_START)
            (void)box_process_not_found(p->id, &err); /* always -1 */
        answer(c, NULL, false, &err);
    }
}

static void never_ran(box_session *s, box_process *p, const box_error *why)
{
    stop_using(p);
    box_process_ref(p);
    leave(s, p);
    serve_successors(s, p);
    fail_calls(p, why);
    box_process_unref(p);
    box_attach_serve_awaited(s);
}

static box_journals *take_journals(const box_agent_manage *m, int *fds, box_error *err)
{
    bool terminal = (m->flags & BOX_MANAGE_TERMINAL) != 0;
    box_journals *j = box_alloc(sizeof *j);
    atomic_init(&j->refs, 1);
    j->fd[0] = box_take_fd(&fds[1]);
    j->fd[1] = terminal ? -1 : box_take_fd(&fds[2]);
    for (int i = 0; i < 2; i++) {
        if (j->fd[i] >= 0 && box_journal_check(j->fd[i], &j->capacity[i], err) < 0) {
            box_journals_unref(j);
            return NULL;
        }
    }
    return j;
}

/* One that an earlier boxd started: its record comes from the agent. */
static box_process *adopt(box_session *s, uint64_t id, const box_agent_manage *m, int record_fd,
                          box_error *err)
{
    if (box_process_find(s, m->name) != NULL || s->n_processes >= BOX_MAX_PROCESSES) {
        (void)box_fail(err, BOX_PROTOCOL, "its agent has a process twice, or too many");
        return NULL;
    }
    box_process *p = process_new(s, m->name, id);
    p->record = box_alloc(m->record_len + 1);
    if (pread(record_fd, p->record, m->record_len, m->text.len) != (ssize_t)m->record_len) {
        (void)box_fail(err, BOX_PROTOCOL, "its agent lost a process's record");
        box_process_unref(p);
        return NULL;
    }
    size_t bytes = m->text.len + 2 * (size_t)m->record_len;
    box_error poor; /* then it is not charged; the next one who asks for memory is told */
    p->charged_bytes = box_share_take(&s->memory, bytes, &poor) == 0 ? bytes : 0;
    p->record_len = m->record_len;
    p->flags = m->flags;
    p->grace_ns = m->grace_ns;
    note_counters(s, p);
    enter(s, p);
    return p;
}

void box_process_introduced(box_session *s, uint64_t id, const box_agent_manage *m, int *fds,
                            size_t n_fds)
{
    box_error err = {0};
    (void)n_fds; /* checked against m */
    box_process *p = find_by_agent_id(s, id);
    if (p != NULL && p->journals != NULL) {
        broken(s, "its agent told of a process twice");
        return;
    }
    if (p == NULL && id >= s->first_exec_id) {
        broken(s, "its agent told of a process nobody asked for");
        return;
    }
    box_journals *j = take_journals(m, fds, &err);
    if (j != NULL && p == NULL)
        p = adopt(s, id, m, fds[0], &err);
    if (j == NULL || p == NULL) {
        box_journals_unref(j);
        broken(s, err.msg);
        return;
    }
    box_lock_take(&s->all->lock);
    p->journals = j;
    box_lock_release(&s->all->lock);
}

static box_process_state state_of(uint32_t state)
{
    static const box_process_state states[] = {
        [BOX_MANAGED_STARTING] = BOX_PROCESS_STARTING,
        [BOX_MANAGED_RUNNING] = BOX_PROCESS_RUNNING,
        [BOX_MANAGED_WAITING] = BOX_PROCESS_WAITING,
        [BOX_MANAGED_STOPPING] = BOX_PROCESS_STOPPING,
        [BOX_MANAGED_EXITED] = BOX_PROCESS_EXITED,
    };
    return states[state];
}

static bool run_ended(const box_agent_managed *before, const box_agent_managed *now)
{
    return now->exited_ns != before->exited_ns ||
           now->exit.end_offset[0] != before->exit.end_offset[0];
}

/* What the counters say about the run that ended: the session's, or its own group's, where nobody
 * else is counted. */
static void count_run(box_session *s, const box_process *p, box_process_facts *f)
{
    const box_agent_run_exit *e = &f->now.exit;
    if (e->own != 0) {
        f->oom_kills = e->own_oom_kills;
        f->pids_hit =
            e->own_pids_refused > 0 || box_cgroup_pids_refused(s->pids_fd) > p->refused_before;
        return;
    }
    uint64_t now = box_cgroup_oom_kills(s->memory_fd);
    f->oom_kills = now > p->oom_before ? now - p->oom_before : 0;
    f->pids_hit = box_cgroup_pids_refused(s->pids_fd) > p->refused_before;
}

static void set_facts(box_session *s, box_process *p, const box_agent_managed *m)
{
    box_process_facts f = p->facts;
    bool ended = p->told && run_ended(&f.now, m);
    f.state = state_of(m->state);
    f.now = *m;
    if (ended || (!p->told && (m->flags & BOX_MANAGED_HAS_EXIT) != 0))
        count_run(s, p, &f);
    box_lock_take(&s->all->lock);
    p->facts = f;
    if (p->created_wall_ns == 0)
        p->created_wall_ns = m->created_ns;
    box_lock_release(&s->all->lock);
}

static void take_stdin(box_process *p, int *stdin_fd)
{
    bool runs = p->facts.state == BOX_PROCESS_RUNNING;
    bool over = (p->facts.now.flags & BOX_MANAGED_STDIN_CLOSED) != 0;
    if (*stdin_fd >= 0) {
        box_closep(&p->stdin_fd);
        p->stdin_fd = box_take_fd(stdin_fd);
        box_attach_stdin_changed(p);
    }
    if ((!runs || over) && p->stdin_fd >= 0) {
        box_closep(&p->stdin_fd);
        box_attach_stdin_changed(p);
    }
}

static void ended_for_good(box_session *s, box_process *p)
{
    p->ended_at = box_loop_now(s->home);
    stop_using(p);
    box_attach_ended(p);
    serve_calls(p);
    serve_successors(s, p);
    forget_due(s);
}

void box_process_managed(box_session *s, uint64_t id, const box_agent_managed *m, int *stdin_fd)
{
    box_process *p = find_by_agent_id(s, id);
    bool failed = m->state == BOX_MANAGED_FAILED;
    if (p == NULL && failed)
        return; /* it never ran, and who wanted it is gone */
    if (p == NULL || (failed ? p->told : p->journals == NULL)) {
        broken(s, "its agent contradicts itself about a process");
        return;
    }
    if (failed) {
        never_ran(s, p, &m->error);
        return;
    }
    bool was_live = box_process_is_live(p);
    bool first = !p->told;
    uint32_t restarts = p->facts.now.restarts;
    set_facts(s, p, m);
    p->told = true;
    if (!was_live)
        return;
    if (!first && m->restarts != restarts) {
        note_counters(s, p);
        box_attach_restarted(p);
    }
    take_stdin(p, stdin_fd);
    if (first && !p->uses && box_process_is_live(p)) {
        box_session_keep_alive(s, true);
        p->uses = true;
    }
    if (first)
        box_attach_serve_awaited(s);
    if (box_process_is_live(p))
        serve_calls(p);
    else
        ended_for_good(s, p);
}

void box_process_grew(box_session *s, uint64_t id)
{
    box_process *p = find_by_agent_id(s, id);
    if (p == NULL)
        return; /* forgotten meanwhile */
    p->armed = false;
    box_attach_more(p);
}

/* --- the sandbox's end ------------------------------------------------------------------------ */

static void lose_one(box_session *s, box_process *p, bool stopped, const char *why)
{
    bool live = box_process_is_live(p);
    box_lock_take(&s->all->lock);
    box_journals *j = p->journals;
    p->journals = NULL;
    if (live) {
        p->facts.lost = true;
        p->facts.lost_by_stop = stopped;
        (void)snprintf(p->facts.lost_why, sizeof p->facts.lost_why, "%s", why);
        p->facts.state = BOX_PROCESS_EXITED;
        p->facts.now.exited_ns = s->all->wall_ns();
    }
    for (int i = 0; i < 2; i++) {
        box_journal_span span;
        box_error err;
        if (j != NULL && j->fd[i] >= 0 &&
            box_journal_look(j->fd[i], j->capacity[i], &span, &err) == 0)
            p->facts.now.exit.end_offset[i] = span.end;
    }
    box_lock_release(&s->all->lock);
    box_journals_unref(j);
    box_closep(&p->stdin_fd);
    p->ended_at = box_loop_now(s->home);
    stop_using(p);
    if (live)
        box_attach_ended(p);
    serve_calls(p);
    serve_successors(s, p);
}

void box_processes_lose(box_session *s, bool stopped, const char *why)
{
    for (box_list *at = s->processes.next, *next; at != &s->processes; at = next) {
        next = at->next;
        box_process *p = at_link(at);
        box_error err = {0};
        if (p->told) {
            lose_one(s, p, stopped, why);
        } else {
            (void)box_session_not_running(s, &err); /* always -1 */
            never_ran(s, p, &err);
        }
    }
    box_timer_free(s->forget_timer);
    s->forget_timer = NULL;
    box_error err = {0};
    (void)box_session_not_running(s, &err); /* always -1 */
    box_attach_fail_awaited(s, &err);
}

void box_processes_drop(box_session *s)
{
    while (!box_list_empty(&s->processes)) {
        box_process *p = at_link(s->processes.next);
        box_list_remove(&p->link);
        box_process_unref(p);
    }
    s->n_processes = 0;
}
