/* Managed processes on the home loop of their session: what the agent says of them, and their
 * sandbox's end. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "session/cgroup.h"
#include "session/process_impl.h"

static box_process *at_link(box_list *link)
{
    return BOX_CONTAINER(link, box_process, link);
}

static box_process *find_by_agent_id(box_session *s, uint64_t id)
{
    for (box_list *at = s->processes.next; at != &s->processes; at = at->next) {
        if (at_link(at)->agent_id == id)
            return at_link(at);
    }
    return NULL;
}

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
        bool ready = live && box_process_is_ready(p);
        if (c->want == BOX_WANT_START && !c->waits_for_end && (!c->has_timeout || ready || !live))
            box_process_answer(c, p, c->flag, NULL);
        else if (c->want == BOX_WANT_READY && (ready || !live))
            box_process_answer(c, p, ready, NULL);
        else if ((c->want == BOX_WANT_EXIT || c->want == BOX_WANT_STOP) && !live)
            box_process_answer(c, p, true, NULL);
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
        box_process_start_arrives(s, c);
    }
}

static void fail_calls(box_process *p, const box_error *why)
{
    while (!box_list_empty(&p->calls)) {
        box_process_call *c = BOX_CONTAINER(p->calls.next, box_process_call, link);
        box_error err = *why;
        if (c->want != BOX_WANT_START)
            (void)box_process_not_found(p->id, &err); /* always -1 */
        box_process_answer(c, NULL, false, &err);
    }
}

static void never_ran(box_session *s, box_process *p, const box_error *why)
{
    box_process_stop_using(p);
    box_process_ref(p);
    box_process_leave(s, p);
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
    box_process *p = box_process_new(s, m->name, id);
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
    box_process_note_counters(s, p);
    box_process_enter(s, p);
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

/* What it is to be, and made so that writing to it never waits: an agent may lie. */
static int check_stdin(int fd, box_error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || (!S_ISFIFO(st.st_mode) && isatty(fd) != 1))
        return box_fail(err, BOX_PROTOCOL, "its agent gave a process something else than a pipe");
    return box_fd_set_nonblocking(fd, err);
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
    box_process_stop_using(p);
    box_attach_ended(p);
    serve_calls(p);
    serve_successors(s, p);
    box_processes_forget_due(s);
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
    box_error err = {0};
    if (*stdin_fd >= 0 && check_stdin(*stdin_fd, &err) < 0) {
        broken(s, err.msg);
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
        box_process_note_counters(s, p);
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
    box_process_stop_using(p);
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
