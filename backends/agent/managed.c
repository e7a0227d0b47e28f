/* Managed processes: beginning, ending and beginning again, and boxd's orders. */
#include <errno.h>
#include <unistd.h>

#include "agent/state.h"
#include "base/fd.h"

static const uint64_t own_bit = UINT64_C(1) << 63;

uint64_t box_managed_new_id(box_agent *a)
{
    return own_bit | ++a->next_own_id;
}

static bool is_terminal(const box_managed *m)
{
    return (m->conf.flags & BOX_MANAGE_TERMINAL) != 0;
}

static void enter(box_managed *m, box_managed_state state)
{
    m->report.state = state;
    m->report_due = true;
}

/* --- between runs ----------------------------------------------------------------------------- */

static void wait_for_next(box_agent *a, box_managed *m)
{
    uint64_t pause = box_restart_pause(m->conf.first_backoff_ns, m->conf.max_backoff_ns, m->row);
    m->row++;
    m->next_start = box_time_add(a->now, pause);
    m->report.next_start_ns = box_wall_ns() + (int64_t)(pause < INT64_MAX / 2 ? pause : 0);
    enter(m, BOX_MANAGED_WAITING);
}

static void after_run(box_agent *a, box_managed *m, bool succeeded)
{
    box_managed_close_stdin(m);
    m->began = false;
    m->kill_at = 0;
    m->report.pid = 0;
    if (m->stopping || !box_restart_wanted(&m->conf, m->row, succeeded))
        enter(m, BOX_MANAGED_EXITED);
    else
        wait_for_next(a, m);
}

static void never_began(box_agent *a, box_managed *m, const box_error *why)
{
    m->report.error = *why;
    for (int i = 0; i < 2; i++)
        box_closep(&m->out[i]);
    if (!m->never_ran) {
        after_run(a, m, false);
        return;
    }
    box_managed_close_stdin(m);
    enter(m, BOX_MANAGED_FAILED);
}

/* --- runs ------------------------------------------------------------------------------------- */

enum { START_FDS = 6 + BOX_AGENT_LIMIT_DIRS };

static int fill_start(const box_managed *m, box_agent_start *start, int fds[START_FDS])
{
    int n = 3;
    *start = (box_agent_start){
        .flags = BOX_START_KILL_LEFTOVERS | BOX_START_TEXT_IN_MEMFD |
                 (is_terminal(m) ? (uint32_t)BOX_START_TERMINAL : 0),
        .argc = m->conf.text.argc,
        .envc = m->conf.text.envc,
        .text_len = m->conf.text.len,
    };
    fds[n++] = m->text_fd;
    for (int i = 0; i < BOX_AGENT_LIMIT_DIRS; i++) {
        if (m->limits.entries[i] < 0)
            continue;
        fds[n++] = m->limits.entries[i];
        start->reserved[1] += BOX_START_ENTRY;
    }
    for (int i = 0; i < 2 && m->never_ran; i++) {
        if (m->journals[i].fd < 0)
            continue;
        fds[n++] = m->journals[i].fd;
        start->reserved[1]++;
    }
    return n;
}

/* cgroup2: its group is known when the child that waits is its own. That has just been told, and is
 * not the program yet. */
static void limit_run(box_agent *a, box_managed *m)
{
    box_error err;
    if (m->limited || m->run->tree == NULL)
        return;
    m->limited = true;
    if (box_limits_set_tree(m->run->tree, &m->conf.limits, &err) < 0)
        box_end_kill(a, m->run, BOX_CAUSE_NONE); /* nothing runs without the limits it was given */
}

/* However many there are that begin again and again, boxd's START finds a slot. */
static bool may_begin(box_agent *a)
{
    int starting = 0;
    for (box_managed *m = NULL; (m = box_processes_after(&a->processes, m)) != NULL;)
        starting += m->run != NULL && m->run->state == BOX_COMMAND_STARTING;
    return starting < BOX_AGENT_MAX_OWN_STARTING && box_commands_free_slot(&a->table) >= 0;
}

static void begin_run(box_agent *a, box_managed *m)
{
    box_error err = {0};
    box_agent_start start;
    int fds[START_FDS] = {-1, -1, -1};
    m->next_start = 0;
    m->report.runs++;
    m->report.next_start_ns = 0;
    m->report.error = (box_error){0};
    enter(m, BOX_MANAGED_STARTING);
    if (box_managed_open_streams(m, fds, &err) < 0) {
        never_began(a, m, &err);
        return;
    }
    int n = fill_start(m, &start, fds);
    box_limits_begin(&m->limits);
    m->limited = m->limits.version != 2;
    m->report.run_id = box_managed_new_id(a);
    m->run = box_life_start_own(a, m->report.run_id, &start, fds, (size_t)n);
    for (int i = 0; i < 3; i++)
        box_closep(&fds[i]);
    if (m->run != NULL) {
        limit_run(a, m);
        return;
    }
    (void)box_fail(&err, BOX_QUOTA, "the sandbox has %d commands", BOX_AGENT_MAX_COMMANDS);
    (void)box_error_limit(&err, "commands", BOX_AGENT_MAX_COMMANDS, BOX_AGENT_MAX_COMMANDS);
    never_began(a, m, &err);
}

static void run_began(box_agent *a, box_managed *m)
{
    for (int i = 0; i < 2 && m->never_ran; i++) {
        if (m->journals[i].fd >= 0)
            box_journal_begin(&m->journals[i]);
    }
    m->report.restarts += !m->never_ran;
    m->never_ran = false;
    m->introduce_due |= m->report.restarts == 0;
    m->began = true;
    m->began_at = a->now;
    m->stdin_due = m->in >= 0;
    m->stdin_over = m->stopping;
    m->report.pid = m->run->started_pid;
    m->report.group = m->run->tree != NULL ? m->run->tree->number : 0;
    m->report.group_cpu_ns = m->run->tree != NULL ? m->run->tree->cpu_ns : 0;
    m->report.started_ns = box_wall_ns();
    enter(m, m->stopping ? BOX_MANAGED_STOPPING : BOX_MANAGED_RUNNING);
    if (!m->stopping)
        box_ready_begin(a, m);
}

static void count_own(const box_agent *a, const box_managed *m, const box_tree *tree,
                      box_agent_run_exit *out)
{
    box_limits_counts n;
    /* On cgroup2 the session's counters have those of groups below: then each has its own. */
    uint32_t version = m->limits.version;
    if (version == 0 && a->limits.inner >= 0 && tree != NULL)
        version = 2;
    box_limits_count(&m->limits, version, tree, &n);
    out->own = version != 0;
    out->own_oom_kills = n.oom_kills;
    out->own_pids_refused = n.pids_refused;
    out->own_peak_bytes = n.peak_bytes;
}

static void take_exit(box_managed *m, const box_agent_exit *e)
{
    box_agent_run_exit *out = &m->report.exit;
    for (int i = 0; i < 2; i++) {
        out->first_offset[i] = out->end_offset[i];
        out->end_offset[i] = m->journals[i].end;
    }
    out->exit_code = e->exit_code;
    out->signal = e->signal;
    out->cause = e->cause;
    out->flags = e->flags;
    out->leftovers = e->leftovers;
    out->wall_ns = e->wall_ns;
    out->cpu_ns = e->cpu_ns;
    out->max_rss_bytes = e->max_rss_bytes;
    m->report.flags |= BOX_MANAGED_HAS_EXIT;
    m->report.exited_ns = box_wall_ns();
}

static void run_ended(box_agent *a, box_managed *m)
{
    box_command *c = m->run;
    if (!m->began)
        run_began(a, m); /* it was quick */
    box_managed_drain(a, m);
    box_ready_end(a, m);
    m->report.flags &= ~(uint32_t)BOX_MANAGED_READY;
    take_exit(m, &c->exit);
    count_own(a, m, c->tree, &m->report.exit);
    m->run = NULL;
    bool succeeded = c->exit.signal == 0 && c->exit.exit_code == 0;
    box_end_let_go(a, c);
    m->row = box_restart_row(m->row, box_time_left(a->now, m->began_at));
    after_run(a, m, succeeded);
}

static void run_failed(box_agent *a, box_managed *m)
{
    box_error err = {0};
    box_command *c = m->run;
    (void)box_slot_error(&a->slots[c->slot], &err); /* always -1 */
    m->run = NULL;
    box_end_let_go(a, c);
    never_began(a, m, &err);
}

static void look_at_run(box_agent *a, box_managed *m)
{
    switch (m->run->state) {
    case BOX_COMMAND_RUNNING:
    case BOX_COMMAND_ENDING:
        if (!m->began)
            run_began(a, m);
        break;
    case BOX_COMMAND_ENDED:
        run_ended(a, m);
        break;
    case BOX_COMMAND_FAILED:
        run_failed(a, m);
        break;
    default:
        break;
    }
}

/* Commands whose process did not wait for them. */
static void forget_abandoned(box_agent *a)
{
    box_command *next;
    for (box_command *c = box_commands_after(&a->table, NULL); c != NULL; c = next) {
        next = box_commands_after(&a->table, c);
        bool over = c->state == BOX_COMMAND_ENDED || c->state == BOX_COMMAND_FAILED;
        if (!c->abandoned || !over)
            continue;
        c->abandoned = false;
        a->abandoned--;
        box_end_let_go(a, c);
    }
}

static bool is_due(const box_agent *a, box_time at)
{
    return at != 0 && a->now >= at;
}

/* The one that has waited longest. */
static box_managed *next_due(const box_agent *a)
{
    box_managed *first = NULL;
    for (box_managed *m = NULL; (m = box_processes_after(&a->processes, m)) != NULL;) {
        if (is_due(a, m->next_start) && (first == NULL || m->next_start < first->next_start))
            first = m;
    }
    return first;
}

static void begin_due(box_agent *a)
{
    box_managed *m;
    for (int i = 0; i < BOX_MAX_PROCESSES && (m = next_due(a)) != NULL && may_begin(a); i++)
        begin_run(a, m);
}

void box_managed_tick(box_agent *a)
{
    for (box_managed *m = NULL; (m = box_processes_after(&a->processes, m)) != NULL;) {
        if (m->run != NULL && is_due(a, m->kill_at)) {
            m->kill_at = 0;
            box_end_kill(a, m->run, BOX_CAUSE_CANCELLED);
        }
        if (m->run != NULL)
            limit_run(a, m);
        if (m->run != NULL)
            look_at_run(a, m);
        box_ready_tick(a, m);
    }
    begin_due(a);
    if (a->abandoned > 0)
        forget_abandoned(a);
}

static box_time earlier(box_time next, box_time at)
{
    return at != 0 && at < next ? at : next;
}

box_time box_managed_next(box_agent *a)
{
    box_time next = BOX_TIME_NEVER;
    bool may = may_begin(a); /* else those who start now wake us */
    for (box_managed *m = NULL; (m = box_processes_after(&a->processes, m)) != NULL;) {
        next = earlier(next, m->kill_at);
        if (may || !is_due(a, m->next_start))
            next = earlier(next, m->next_start);
        next = earlier(next, m->probe_at);
    }
    return next;
}

/* --- orders ----------------------------------------------------------------------------------- */

int box_managed_start(box_agent *a, const box_agent_packet *p, int *fds, size_t n_fds)
{
    uint64_t id = p->header.id;
    box_error err = {0};
    if ((id & own_bit) != 0 || box_processes_find(&a->processes, id) != NULL ||
        box_commands_find(&a->table, id) != NULL)
        return -1;
    box_managed *m = box_processes_add(&a->processes, id);
    if (m == NULL)
        return -1; /* boxd counts too */
    m->conf = p->body.manage;
    m->text_fd = box_take_fd(&fds[0]);
    if (n_fds > 1)
        m->probe_fd = box_take_fd(&fds[1]);
    m->report.created_ns = box_wall_ns();
    if (box_journal_make(&m->journals[0], m->conf.journal_bytes, &err) < 0 ||
        (!is_terminal(m) && box_journal_make(&m->journals[1], m->conf.journal_bytes, &err) < 0))
        never_began(a, m, &err);
    else if (box_limits_make(a->config, &a->limits, id, &m->conf.limits, &m->limits, &err) < 0)
        never_began(a, m, &err);
    else if (next_due(a) == NULL && may_begin(a))
        begin_run(a, m); /* at once: a STOP that follows finds it */
    else
        m->next_start = a->now;
    return 0;
}

static void signal_run(box_agent *a, box_managed *m, uint32_t signo)
{
    box_agent_signal s = {.signo = signo, .scope = BOX_SCOPE_MAIN};
    box_life_signal_command(a, m->run, &s);
}

static void stop_between_runs(box_agent *a, box_managed *m)
{
    box_error err;
    bool ran = !m->never_ran;
    m->next_start = 0;
    if (ran) {
        after_run(a, m, false);
        return;
    }
    (void)box_fail(&err, BOX_CANCELLED, "it was stopped before it ran");
    never_began(a, m, &err);
}

static void stop(box_agent *a, box_managed *m, uint64_t grace_ns)
{
    box_managed_state state = m->report.state;
    if (state == BOX_MANAGED_EXITED || state == BOX_MANAGED_FAILED)
        return;
    bool first = !m->stopping;
    box_time at =
        box_time_add(a->now, grace_ns == BOX_STOP_DEFAULT_GRACE ? m->conf.grace_ns : grace_ns);
    m->stopping = m->stdin_over = true;
    m->report.flags |= BOX_MANAGED_STOPPED;
    box_ready_end(a, m);
    if (m->run == NULL) {
        stop_between_runs(a, m);
        return;
    }
    enter(m, BOX_MANAGED_STOPPING);
    if (first) {
        if (!is_terminal(m))
            box_managed_close_stdin(m);
        else
            signal_run(a, m, SIGHUP); /* what the loss of a terminal is */
        signal_run(a, m, SIGTERM);
    }
    if (m->kill_at == 0 || at < m->kill_at)
        m->kill_at = at;
}

void box_managed_forget(box_agent *a, box_managed *m)
{
    box_limits_done(a->config, &m->limits);
    box_processes_remove(&a->processes, m);
}

static void watch(box_managed *m, const box_agent_ends *ends)
{
    m->watch = *ends;
    m->grew_due = m->journals[0].end > ends->end[0] || m->journals[1].end > ends->end[1];
    m->watched = !m->grew_due;
}

int box_managed_order(box_agent *a, const box_agent_packet *p)
{
    box_managed *m = box_processes_find(&a->processes, p->header.id);
    if (m == NULL)
        return 0;
    switch (p->header.type) {
    case BOX_AGENT_STOP:
        stop(a, m, p->body.stop.grace_ns);
        return 0;
    case BOX_AGENT_FORGET:
        if (m->report.state != BOX_MANAGED_EXITED)
            return -1;
        box_managed_forget(a, m);
        return 0;
    case BOX_AGENT_CLOSE_STDIN:
        box_managed_end_stdin(m);
        return 0;
    case BOX_AGENT_WATCH:
        watch(m, &p->body.ends);
        return 0;
    default:
        box_managed_resize(m, &p->body.resize);
        return 0;
    }
}

bool box_managed_signal(box_agent *a, uint64_t id, const box_agent_signal *signal)
{
    box_managed *m = box_processes_find(&a->processes, id);
    if (m != NULL && m->run != NULL && signal->scope == BOX_SCOPE_TREE)
        box_end_kill(a, m->run, signal->cause);
    else if (m != NULL && m->run != NULL)
        box_life_signal_command(a, m->run, signal);
    return m != NULL;
}
