/* The home side of commands: who runs in a session and who waits. */
#include <signal.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/tty.h"
#include "session/cgroup.h"
#include "session/execution.h"
#include "session/pipes.h"
#include "session/process_impl.h"

/* --- leaving the home side -------------------------------------------------------------------- */

static void tell_counts(box_session *s, bool started)
{
    box_session_count_execs(s, s->n_queued, s->n_running, started);
}

static void leave_lists(box_exec *e)
{
    box_session *s = e->session;
    if (e->home == BOX_HOME_QUEUED)
        s->n_queued -= !e->terminal;
    else if (e->home != BOX_HOME_NONE)
        s->n_running--;
    if (e->home > BOX_HOME_QUEUED)
        s->n_slots -= !e->terminal;
    if (e->home != BOX_HOME_NONE)
        s->n_terminals -= e->terminal;
    box_list_remove(&e->link);
    e->home = BOX_HOME_NONE;
    box_timer_free(e->wait_timer);
    e->wait_timer = NULL;
    for (int i = 0; i < 3; i++)
        box_closep(&e->child_fds[i]);
    tell_counts(s, false);
}

/* The reference of the session's list goes to the call side. */
static void over(box_exec *e, box_exec_fate fate, const box_error *why)
{
    leave_lists(e);
    e->result.fate = fate;
    if (why != NULL)
        e->result.error = *why;
    atomic_store(&e->is_over, true);
    box_loop_post(e->loop, box_exec_over, e);
}

/* --- waiting ---------------------------------------------------------------------------------- */

static int queue_full(const box_exec *e, const char *limit, uint64_t max, box_error *err)
{
    (void)box_fail(err, BOX_EXEC_QUEUE,
                   "session %s is busy: retry later, or raise "
                   "max_parallel_execs",
                   e->session->id);
    err->retry_ms = 1000;
    return box_error_limit(err, limit, (int64_t)max, e->session->n_queued);
}

static void wait_is_over(void *arg)
{
    box_exec *e = arg;
    box_error err;
    (void)queue_full(e, "queue_timeout_ms", e->queue_timeout_ns / BOX_MS, &err); /* always -1 */
    over(e, BOX_FATE_NEVER_RAN, &err);
}

static void start_waiting(box_exec *e)
{
    if (e->wait_timer != NULL)
        return;
    e->waits_since = box_loop_now(e->session->home);
    e->wait_timer = box_timer_new(e->session->home, wait_is_over, e);
    box_timer_set(e->wait_timer, box_time_add(e->waits_since, e->queue_timeout_ns));
}

static bool has_slot(box_session *s)
{
    return s->n_slots < box_session_parallel(s);
}

static int too_many_terminals(box_error *err)
{
    (void)box_fail(err, BOX_QUOTA, "the session runs %d commands on terminals",
                   BOX_SESSION_TERMINALS);
    return box_error_limit(err, "terminals", BOX_SESSION_TERMINALS, BOX_SESSION_TERMINALS);
}

/* May it wait for a slot? Those on a terminal need none. */
static int may_queue(const box_exec *e, bool runs, box_error *err)
{
    box_session *s = e->session;
    if (e->terminal)
        return s->n_terminals < BOX_SESSION_TERMINALS ? 0 : too_many_terminals(err);
    bool must_wait = !runs || !has_slot(s) || s->n_queued > 0;
    if (must_wait && s->n_queued >= BOX_EXEC_QUEUE_DEPTH)
        return queue_full(e, "queue_depth", BOX_EXEC_QUEUE_DEPTH, err);
    if (runs && must_wait && e->queue_timeout_ns == 0)
        return queue_full(e, "queue_timeout_ms", 0, err);
    return 0;
}

void box_slots_submit(void *exec)
{
    box_exec *e = exec; /* the reference becomes the list's */
    box_session *s = e->session;
    box_stop_reason reason;
    box_session_state state = box_session_state_now(s, &reason);
    if (state >= BOX_SESSION_STOPPING || s->ending) {
        box_error err = {0};
        (void)box_session_not_running(s, &err); /* always -1 */
        over(e, state == BOX_SESSION_ERROR ? BOX_FATE_LOST_EARLY : BOX_FATE_NEVER_RAN, &err);
        return;
    }
    bool runs = state == BOX_SESSION_RUNNING;
    box_error err;
    if (may_queue(e, runs, &err) < 0) {
        over(e, BOX_FATE_NEVER_RAN, &err);
        return;
    }
    e->home = BOX_HOME_QUEUED;
    s->n_queued += !e->terminal;
    s->n_terminals += e->terminal;
    box_list_append(&s->queue, &e->link);
    tell_counts(s, false);
    if (runs)
        box_slots_run(s);
}

/* --- starting --------------------------------------------------------------------------------- */

static int make_pipes(box_exec *e, box_error *err)
{
    box_session *s = e->session;
    if (e->terminal)
        return box_pipe_room(s->all->last_fd, err);
    for (int i = (e->start_flags & BOX_START_NO_STDIN) != 0 ? 1 : 0; i < 3; i++) {
        if (box_pipe_make(s->all->last_fd, &e->result.pipes[i], &e->child_fds[i], i == 0, err) < 0)
            return -1;
    }
    return 0;
}

static int start(box_exec *e, box_error *err)
{
    box_session *s = e->session;
    if (make_pipes(e, err) < 0)
        return -1;
    e->agent_id = s->next_exec_id++;
    e->oom_before = box_cgroup_oom_kills(s->memory_fd);
    e->refused_before = box_cgroup_pids_refused(s->pids_fd);
    const box_agent_run run = {.program = &e->program,
                               .flags = e->start_flags,
                               .timeout_ns = e->timeout_ns,
                               .rows = e->rows,
                               .columns = e->columns};
    return box_agent_start_command(s->agent, e->agent_id, &run, e->child_fds, err);
}

static void grant(box_exec *e)
{
    box_session *s = e->session;
    box_list_remove(&e->link);
    s->n_queued -= !e->terminal;
    s->n_running++;
    s->n_slots += !e->terminal;
    e->home = BOX_HOME_STARTING;
    box_list_append(&s->running, &e->link);
    if (e->wait_timer != NULL)
        e->result.queue_ns = box_time_left(box_loop_now(s->home), e->waits_since);
    box_timer_free(e->wait_timer);
    e->wait_timer = NULL;
    tell_counts(s, false);
    box_error err = {0};
    if (start(e, &err) < 0)
        over(e, BOX_FATE_NEVER_RAN, &err);
}

void box_slots_run(box_session *s)
{
    if (s->agent == NULL || s->ending)
        return;
    for (box_list *at = s->queue.next, *next; at != &s->queue; at = next) {
        next = at->next;
        box_exec *e = BOX_CONTAINER(at, box_exec, link);
        if (e->terminal || has_slot(s))
            grant(e);
        else
            start_waiting(e);
    }
}

/* --- the agent's word ------------------------------------------------------------------------- */

static box_exec *find_running(box_session *s, uint64_t id)
{
    for (box_list *at = s->running.next; at != &s->running; at = at->next) {
        box_exec *e = BOX_CONTAINER(at, box_exec, link);
        if (e->agent_id == id)
            return e;
    }
    return NULL;
}

/* Its caller went with that boxd. */
static bool is_of_earlier_boxd(const box_session *s, uint64_t id)
{
    return s->adopted && id < s->first_exec_id;
}

static void send_wanted(box_exec *e)
{
    if (e->kill_wanted)
        box_agent_signal_command(e->session->agent, e->agent_id, &e->kill);
    for (uint32_t n = 1; n <= 64; n++) {
        if ((e->signals_wanted >> (n - 1) & 1) == 0)
            continue;
        box_agent_signal signal = {.signo = n, .scope = BOX_SCOPE_MAIN};
        box_agent_signal_command(e->session->agent, e->agent_id, &signal);
    }
    e->signals_wanted = 0;
}

static void runs(box_exec *e, int32_t pid)
{
    e->home = BOX_HOME_RUNNING;
    e->result.pid = pid;
    e->result.started_wall_ns = e->session->all->wall_ns();
    tell_counts(e->session, true);
    send_wanted(e);
    box_loop_post(e->loop, box_exec_began, box_exec_ref(e));
}

static void on_started(void *arg, uint64_t id, const box_agent_started *started, int *fds)
{
    box_session *s = arg;
    if (is_of_earlier_boxd(s, id)) {
        box_agent_signal kill = {
            .signo = SIGKILL, .scope = BOX_SCOPE_TREE, .cause = BOX_CAUSE_CANCELLED};
        box_agent_signal_command(s->agent, id, &kill); /* nothing is left of who called */
        return;
    }
    box_exec *e = find_running(s, id);
    if (e == NULL || e->home != BOX_HOME_STARTING) {
        box_sandbox_lost(s, "its agent started what nobody asked for", BOX_STOP_BROKEN);
        return;
    }
    if (started->error.reason != BOX_NONE) {
        over(e, BOX_FATE_NEVER_RAN, &started->error);
        box_slots_run(s);
        box_sandbox_exec_gone(s);
        return;
    }
    if (((started->flags & BOX_STARTED_TERMINAL) != 0) != e->terminal) {
        box_sandbox_lost(s, "its agent mistakes pipes and terminals", BOX_STOP_BROKEN);
        return;
    }
    if (e->terminal && !box_tty_check(fds[0], fds[1])) { /* a loop would wait for it */
        box_sandbox_lost(s, "its agent brings no terminal", BOX_STOP_BROKEN);
        return;
    }
    if (e->terminal) {
        e->result.pipes[1] = box_take_fd(&fds[0]);
        e->result.other_side = box_take_fd(&fds[1]);
    }
    runs(e, started->pid);
}

static void on_exited(void *arg, uint64_t id, const box_agent_exit *exit)
{
    box_session *s = arg;
    if (is_of_earlier_boxd(s, id)) {
        box_agent_ack(s->agent, id);
        return;
    }
    box_exec *e = find_running(s, id);
    if (e == NULL || (e->terminal && e->home == BOX_HOME_STARTING)) {
        box_sandbox_lost(s, "its agent ended what does not run", BOX_STOP_BROKEN);
        return;
    }
    if (e->home == BOX_HOME_STARTING)
        runs(e, exit->pid);
    box_exec_result *r = &e->result;
    r->exit = *exit;
    r->stopped = s->ending;
    uint64_t now = box_cgroup_oom_kills(s->memory_fd);
    r->oom_kills = now > e->oom_before ? now - e->oom_before : 0;
    r->pids_hit = box_cgroup_pids_refused(s->pids_fd) > e->refused_before;
    r->has_cgroup_cpu = box_cgroup_cpu_ns(&s->cpu, s->cgroup_fd, exit->group, &r->cgroup_cpu_ns);
    box_agent_ack(s->agent, id);
    over(e, BOX_FATE_EXITED, NULL);
    box_slots_run(s);
    box_sandbox_exec_gone(s);
}

static void on_lost(void *arg, const box_error *why, bool protocol)
{
    box_session *s = arg;
    const char *cause = box_error_get(why, "cause");
    box_sandbox_lost(s, cause != NULL ? cause : why->msg,
                     protocol ? BOX_STOP_BROKEN : BOX_STOP_LOST);
}

static void ready(box_session *s)
{
    if (box_session_event_happens(s, BOX_EVENT_READY, BOX_STOP_NONE, NULL))
        box_slots_run(s);
}

static void written(void *arg, const box_error *err)
{
    BOX_AUTO(box_session_unrefp) box_session *s = arg;
    if (err == NULL)
        ready(s);
    else if (!s->ending)
        box_sandbox_failed(s, err);
}

/* Nobody is told of a persistent session that is not on the disk. */
static void on_ready(void *arg)
{
    box_session *s = arg;
    if (!s->spec.persistent || s->recorded) {
        ready(s);
        return;
    }
    s->recorded = true;
    box_session_write(s, BOX_SESSION_PUT, written, box_session_ref(s));
}

static void on_introduced(void *arg, uint64_t id, const box_agent_manage *m, int *fds, size_t n_fds)
{
    box_process_introduced(arg, id, m, fds, n_fds);
}

static void on_managed(void *arg, uint64_t id, const box_agent_managed *m, int *stdin_fd)
{
    box_process_managed(arg, id, m, stdin_fd);
}

static void on_grew(void *arg, uint64_t id, const box_agent_ends *ends)
{
    (void)ends; /* readers look themselves */
    box_process_grew(arg, id);
}

static void on_connected(void *arg, uint64_t id, const box_agent_connected *c, int *fd)
{
    box_forward_connected(arg, id, c, fd);
}

const box_agent_events box_slots_agent_events = {.ready = on_ready,
                                                 .started = on_started,
                                                 .exited = on_exited,
                                                 .files_ended = box_files_ended,
                                                 .introduced = on_introduced,
                                                 .managed = on_managed,
                                                 .grew = on_grew,
                                                 .connected = on_connected,
                                                 .lost = on_lost};

/* --- ending what waits and what runs ---------------------------------------------------------- */

void box_slots_fail_waiting(box_session *s, const box_error *why)
{
    while (!box_list_empty(&s->queue)) {
        box_exec *e = BOX_CONTAINER(s->queue.next, box_exec, link);
        over(e, BOX_FATE_NEVER_RAN, why);
    }
}

static void send_signal(box_exec *e, const box_agent_signal *signal)
{
    bool kills = signal->scope == BOX_SCOPE_TREE;
    e->we_killed |= signal->signo == SIGKILL;
    if (e->home == BOX_HOME_RUNNING && e->session->agent != NULL) {
        box_agent_signal_command(e->session->agent, e->agent_id, signal);
    } else if (kills) {
        if (!e->kill_wanted)
            e->kill = *signal;
        e->kill_wanted = true;
    } else {
        e->signals_wanted |= UINT64_C(1) << (signal->signo - 1);
    }
}

void box_slots_kill_running(box_session *s, box_agent_cause cause)
{
    box_agent_signal kill = {.signo = SIGKILL, .scope = BOX_SCOPE_TREE, .cause = cause};
    for (box_list *at = s->running.next; at != &s->running; at = at->next)
        send_signal(BOX_CONTAINER(at, box_exec, link), &kill);
}

/* A command runs at most once: what the agent may have been told about is not tried again. */
static void lose_one(box_exec *e, bool rebuilt, const box_error *why)
{
    box_session *s = e->session;
    box_error err = *why;
    bool sent = e->home == BOX_HOME_RUNNING ||
                (e->home == BOX_HOME_STARTING && !box_agent_take_back(s->agent, e->agent_id));
    e->result.stopped = !rebuilt;
    if (sent && e->home == BOX_HOME_STARTING)
        (void)box_wrap(&err, "it may have run"); /* always -1 */
    over(e, sent ? BOX_FATE_LOST : rebuilt ? BOX_FATE_LOST_EARLY : BOX_FATE_NEVER_RAN, &err);
}

void box_slots_lose(box_session *s, const box_error *why)
{
    bool rebuilt = box_session_state_now(s, NULL) == BOX_SESSION_ERROR;
    box_list *lists[] = {&s->running, &s->queue};
    for (size_t i = 0; i < BOX_COUNT(lists); i++) {
        while (!box_list_empty(lists[i]))
            lose_one(BOX_CONTAINER(lists[i]->next, box_exec, link), rebuilt, why);
    }
}

/* --- the call side's wishes ------------------------------------------------------------------- */

typedef struct wish {
    box_exec *exec;
    box_agent_signal signal;
} wish;

static void wish_arrives(void *arg)
{
    wish *w = arg;
    box_exec *e = w->exec;
    if (e->home == BOX_HOME_QUEUED && w->signal.scope == BOX_SCOPE_TREE) {
        box_error err;
        (void)box_fail(&err, BOX_CANCELLED, "cancelled before it ran"); /* always -1 */
        over(e, BOX_FATE_NEVER_RAN, &err);
    } else if (e->home != BOX_HOME_NONE) {
        send_signal(e, &w->signal);
    }
    box_exec_unref(e);
    free(w);
}

void box_slots_signal(box_exec *e, const box_agent_signal *s)
{
    wish *w = box_alloc(sizeof *w);
    w->exec = box_exec_ref(e);
    w->signal = *s;
    box_loop_post(e->session->home, wish_arrives, w);
}
