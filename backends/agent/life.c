#include <assert.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/reaper.h"
#include "agent/state.h"
#include "base/fd.h"

enum { REPORTS = 2 }; /* a subreaper makes no more */

static box_time after_ms(const box_agent *a, uint64_t ms)
{
    return box_time_add(a->now, ms * BOX_MS);
}

static void sweep_soon(box_agent *a, uint64_t ms)
{
    box_time at = after_ms(a, ms);
    if (a->sweep_at == 0 || at < a->sweep_at)
        a->sweep_at = at;
}

static int slot_pid(const box_agent *a, const box_command *c)
{
    return c->slot < 0 ? 0 : atomic_load(&a->slots[c->slot].pid);
}

static int slot_reaper(const box_agent *a, const box_command *c)
{
    return c->slot < 0 ? 0 : atomic_load(&a->slots[c->slot].reaper);
}

static void order(const box_command *c, uint32_t signo)
{
    box_reaper_order o = {.signo = signo};
    box_error err;
    /* A subreaper that does not read is ending; its end is seen and dealt with. */
    if (c->socket >= 0 && box_fd_send(c->socket, &o, sizeof o, NULL, 0, &err) < 0)
        return;
}

/* --- killing --------------------------------------------------------------------------------- */

static void kill_now(box_agent *a, box_command *c)
{
    int32_t pid = c->pid != 0 ? c->pid : c->reaped ? 0 : slot_pid(a, c);
    if (a->reapers)
        order(c, 0);
    else
        box_tree_kill(&a->trees, c->id);
    /* Still our child (or our subreaper's, before its exec), so the pid is its own. */
    if (pid > 0 && (!a->reapers || c->state == BOX_COMMAND_STARTING))
        (void)kill(pid, SIGKILL);
}

static void kill_tree(box_agent *a, box_command *c, uint32_t cause)
{
    if (c->cause == BOX_CAUSE_NONE && !c->reaped)
        c->cause = cause;
    if (!c->counted && !a->reapers) {
        uint32_t alive = box_tree_count(&a->trees, c->id);
        c->exit.leftovers = alive > 0 && !c->reaped ? alive - 1 : alive; /* not the main one */
        c->counted = true;
    }
    c->killing = true;
    if (c->state != BOX_COMMAND_ENDED && c->state != BOX_COMMAND_KEPT)
        c->tick = after_ms(a, BOX_AGENT_TICK_MS);
    else
        sweep_soon(a, BOX_AGENT_SWEEP_MS);
    kill_now(a, c);
}

static bool is_empty(const box_agent *a, const box_command *c)
{
    return a->reapers ? c->reaper == 0 : box_tree_empty(&a->trees, c->id);
}

/* --- the end --------------------------------------------------------------------------------- */

/* Boxd needs it no more; it goes when nothing of it lives. */
static void let_go(box_agent *a, box_command *c)
{
    c->state = BOX_COMMAND_KEPT;
    c->tick = 0;
    c->slot = -1;
    if (a->reapers ? c->reaper != 0 : !box_tree_remove(&a->trees, c->id)) {
        sweep_soon(a, c->killing ? BOX_AGENT_SWEEP_MS : BOX_AGENT_IDLE_SWEEP_MS);
        return;
    }
    box_closep(&c->socket);
    box_commands_remove(&a->table, c);
}

static void finish(box_agent *a, box_command *c, bool all_gone)
{
    if (all_gone && c->exit.leftovers > 0 && c->killing)
        c->exit.flags |= BOX_EXIT_LEFTOVERS_KILLED;
    if (!a->reapers && box_tree_cpu_ns(&a->trees, c->id, &c->exit.cpu_ns))
        c->exit.flags |= BOX_EXIT_CPU_FROM_CGROUP;
    c->exit.cause = c->cause;
    c->state = BOX_COMMAND_ENDED;
    c->exit_due = true;
    c->tick = 0;
}

static void look_at_ending(box_agent *a, box_command *c)
{
    if (is_empty(a, c))
        finish(a, c, true);
    if (c->state == BOX_COMMAND_ENDED || a->now < c->give_up)
        return;
    finish(a, c, false); /* what is left cannot die now */
    sweep_soon(a, BOX_AGENT_SWEEP_MS);
}

/* The main process was reaped, or its subreaper says so; exit holds how it ended. */
static void main_ended(box_agent *a, box_command *c)
{
    if (!c->counted)
        c->exit.leftovers = box_tree_count(&a->trees, c->id);
    c->counted = true;
    bool kill_rest = (c->flags & BOX_START_KILL_LEFTOVERS) != 0 && c->exit.leftovers > 0;
    if (!c->killing && !kill_rest) {
        finish(a, c, false);
        return;
    }
    c->state = BOX_COMMAND_ENDING;
    c->give_up = box_time_add(a->now, BOX_AGENT_KILL_SECONDS * BOX_SECOND);
    if (!c->killing)
        kill_tree(a, c, BOX_CAUSE_NONE);
    look_at_ending(a, c);
}

/* --- the start ------------------------------------------------------------------------------- */

static void fail_start(box_command *c)
{
    c->state = BOX_COMMAND_FAILED;
    c->started_due = true;
    c->tick = 0;
}

static int pass_to_zygote(box_agent *a, box_command *c, const box_agent_packet *p, const int *fds,
                          size_t n_fds, box_error *err)
{
    int all[BOX_FD_PASS_MAX];
    int ends[2] = {-1, -1};
    BOX_AUTO(box_closep)
    int extra = -1;
    box_agent_start start = p->body.start;
    if (!a->reapers && box_tree_make(&a->trees, c->id, &extra, err) < 0)
        return -1;
    if (a->reapers && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return box_fail_errno(err, "make a socket");
    if (a->reapers) {
        c->socket = ends[0];
        extra = ends[1];
    }
    assert(n_fds + 1 <= BOX_FD_PASS_MAX);
    memcpy(all, fds, n_fds * sizeof *fds);
    all[n_fds] = extra;
    start.reserved[0] = (uint32_t)c->slot;
    memcpy(a->packet + sizeof p->header, &start, sizeof start);
    return box_fd_send(a->zygote_socket, a->packet, p->header.size, all, n_fds + 1, err);
}

/* What the zygote could not even be told: the sandbox's or the agent's own bounds. */
static void pass_failed(const box_command *c, box_agent *a, const box_error *err)
{
    int e = err->sys_errno;
    bool own = e == EMFILE || e == ENFILE || e == ENOMEM || e == EAGAIN || e == ENOSPC;
    box_slot_fail(&a->slots[c->slot], own ? BOX_STEP_CLONE : BOX_STEP_CGROUP,
                  e == ENOSPC ? ENOMEM : e, NULL);
}

static int refuse(box_agent *a, uint64_t id, box_reason reason, const char *limit, int max)
{
    box_error err;
    (void)box_fail(&err, reason, "the sandbox has %d %s", max, limit);
    box_error_add(&err, "limit", limit);
    box_error_add_int(&err, "max", max);
    box_error_add_int(&err, "used", max);
    box_channel_refuse(a, id, &err);
    return 0;
}

int box_life_start(box_agent *a, const box_agent_packet *p, int *fds, size_t n_fds)
{
    box_error err = {0};
    uint64_t id = p->header.id;
    if (box_commands_find(&a->table, id) != NULL)
        return -1;
    int32_t slot = box_commands_free_slot(&a->table);
    if (slot < 0)
        return refuse(a, id, BOX_EXEC_QUEUE, "starting", BOX_AGENT_MAX_STARTING);
    box_command *c = box_commands_add(&a->table, id);
    if (c == NULL)
        return refuse(a, id, BOX_QUOTA, "commands", BOX_AGENT_MAX_COMMANDS);
    c->slot = slot;
    c->flags = p->body.start.flags;
    c->received = a->now;
    if (p->body.start.timeout_ns != 0)
        c->deadline = box_time_add(a->now, p->body.start.timeout_ns);
    c->give_up = box_time_add(a->now, BOX_AGENT_START_SECONDS * BOX_SECOND);
    c->tick = after_ms(a, BOX_AGENT_TICK_MS);
    box_slot_clear(&a->slots[slot]);
    if (!box_agent_need_zygote(a)) {
        box_slot_fail(&a->slots[slot], BOX_STEP_ZYGOTE, 0, NULL);
        fail_start(c);
    } else if (pass_to_zygote(a, c, p, fds, n_fds, &err) < 0) {
        pass_failed(c, a, &err);
        fail_start(c);
    }
    return 0;
}

void box_life_failure_told(box_agent *a, box_command *c)
{
    let_go(a, c);
}

void box_life_answered(box_agent *a, uint32_t slot)
{
    box_command *c = box_commands_by_slot(&a->table, slot);
    if (c == NULL || c->state != BOX_COMMAND_STARTING)
        return; /* given up meanwhile */
    if (atomic_load(&a->slots[slot].step) != BOX_STEP_NONE) {
        fail_start(c); /* its subreaper, if any, ends by itself */
        return;
    }
    c->state = BOX_COMMAND_RUNNING;
    c->started_pid = slot_pid(a, c);
    c->reaper = slot_reaper(a, c);
    c->pid = c->reaped ? 0 : c->started_pid;
    c->slot = -1;
    c->tick = 0;
    c->started_due = true;
    if (c->signo != 0) {
        box_agent_signal held = {.signo = c->signo, .scope = BOX_SCOPE_MAIN};
        box_life_signal(a, c->id, &held);
    }
    if (c->killing)
        kill_tree(a, c, c->cause);
    if (c->reaped)
        main_ended(a, c);
}

static void kill_unborn(const box_agent *a, const box_command *c)
{
    int pid = slot_pid(a, c);
    int reaper = slot_reaper(a, c);
    if (pid > 0 && !c->reaped)
        (void)kill(pid, SIGKILL); /* ours or our subreaper's, and not reaped */
    if (reaper > 0)
        (void)kill(reaper, SIGKILL);
}

void box_life_zygote_gone(box_agent *a)
{
    for (box_command *c = NULL; (c = box_commands_after(&a->table, c)) != NULL;) {
        if (c->state != BOX_COMMAND_STARTING)
            continue;
        kill_unborn(a, c);
        box_slot_fail(&a->slots[c->slot], BOX_STEP_ZYGOTE, 0, NULL);
        fail_start(c);
    }
}

void box_life_stopped(box_agent *a, int pid)
{
    for (box_command *c = NULL; (c = box_commands_after(&a->table, c)) != NULL;) {
        if (c->state == BOX_COMMAND_STARTING && slot_pid(a, c) == pid)
            (void)kill(pid, SIGCONT); /* before its exec nobody may stop it; afterwards it may be */
    }
}

/* --- orders of boxd -------------------------------------------------------------------------- */

void box_life_signal(box_agent *a, uint64_t id, const box_agent_signal *signal)
{
    box_command *c = box_commands_find(&a->table, id);
    if (c == NULL || c->state == BOX_COMMAND_FAILED)
        return;
    if (signal->scope == BOX_SCOPE_TREE)
        kill_tree(a, c, signal->cause);
    else if (c->state == BOX_COMMAND_STARTING)
        c->signo = signal->signo; /* the last one, when it runs */
    else if (c->pid != 0 && a->reapers)
        order(c, signal->signo);
    else if (c->pid != 0)
        (void)kill(c->pid, (int)signal->signo); /* our child: it has not been reaped */
}

int box_life_acknowledge(box_agent *a, uint64_t id)
{
    box_command *c = box_commands_find(&a->table, id);
    if (c == NULL || c->state == BOX_COMMAND_KEPT)
        return 0;
    if (c->state != BOX_COMMAND_ENDED)
        return -1;
    let_go(a, c);
    return 0;
}

/* --- what children do ------------------------------------------------------------------------ */

static void set_exit(const box_agent *a, box_command *c, const siginfo_t *info)
{
    bool by_exit = info->si_code == CLD_EXITED;
    c->reaped = true;
    c->pid = 0;
    c->exit.exit_code = by_exit ? info->si_status & 0xff : -1;
    c->exit.signal = by_exit ? 0 : info->si_status;
    if (info->si_code == CLD_DUMPED)
        c->exit.flags |= BOX_EXIT_CORE_DUMPED;
    c->exit.wall_ns = a->now - c->received;
}

/* The subreaper ended before its command's main process, which is ours now: it cannot be accounted
 * for any more and is killed. When it is not there either, both were killed at once. */
static void lose_main(box_agent *a, box_command *c)
{
    siginfo_t killed = {0};
    if (kill(c->pid, SIGKILL) == 0)
        return; /* reaped next */
    killed.si_code = CLD_KILLED;
    killed.si_status = SIGKILL;
    set_exit(a, c, &killed);
    c->counted = true;
    main_ended(a, c);
}

/* A subreaper ended: nothing of its command is left, or it was killed and the command's processes
 * are now ours. */
static void reaper_ended(box_agent *a, box_command *c, bool orderly)
{
    for (int i = 0; i < REPORTS && c->socket >= 0; i++)
        box_life_report(a, c); /* what it said last */
    box_closep(&c->socket);
    box_agent_take_notes(a); /* the one about its start too */
    c->reaper = 0;
    a->strays |= !orderly;
    if (c->state == BOX_COMMAND_STARTING) {
        kill_unborn(a, c);
        box_slot_fail(&a->slots[c->slot], BOX_STEP_ZYGOTE, 0, NULL);
        fail_start(c);
    } else if (c->state == BOX_COMMAND_RUNNING && !c->reaped) {
        lose_main(a, c);
    } else if (c->state == BOX_COMMAND_ENDING) {
        look_at_ending(a, c);
    } else if (c->state == BOX_COMMAND_KEPT) {
        sweep_soon(a, 0);
    }
}

static box_command *find_child(box_agent *a, int pid)
{
    for (box_command *c = NULL; (c = box_commands_after(&a->table, c)) != NULL;) {
        bool known = c->pid == pid || c->reaper == pid;
        if (known || (c->state == BOX_COMMAND_STARTING && !c->reaped &&
                      (slot_pid(a, c) == pid || slot_reaper(a, c) == pid)))
            return c;
    }
    return NULL;
}

void box_life_reaped(box_agent *a, const siginfo_t *info, uint64_t cpu_ns, uint64_t max_rss)
{
    box_command *c = find_child(a, info->si_pid);
    if (c == NULL) { /* an orphan, perhaps the last of its command */
        sweep_soon(a, BOX_AGENT_SWEEP_MS);
        for (c = NULL; (c = box_commands_after(&a->table, c)) != NULL;) {
            if (c->state == BOX_COMMAND_ENDING)
                c->tick = a->now;
        }
        return;
    }
    if (c->reaper == info->si_pid || slot_reaper(a, c) == info->si_pid) {
        reaper_ended(a, c, info->si_code == CLD_EXITED && info->si_status == 0);
        return;
    }
    set_exit(a, c, info);
    c->exit.cpu_ns = cpu_ns;
    c->exit.max_rss_bytes = max_rss;
    if (a->reapers)
        c->counted = true; /* its subreaper is dead: nobody can say */
    if (c->state == BOX_COMMAND_RUNNING)
        main_ended(a, c);
}

void box_life_report(box_agent *a, box_command *c)
{
    box_reaper_report r;
    size_t n_fds = 0;
    box_error err;
    ssize_t n = box_agent_receive(c->socket, &r, sizeof r, NULL, &n_fds, &err);
    if (n < 0 && err.sys_errno == EAGAIN)
        return;
    if (n != sizeof r || r.gone != 0) {
        box_closep(&c->socket); /* its process is reaped next */
        return;
    }
    siginfo_t info = {0};
    info.si_code = r.signal == 0 ? CLD_EXITED : r.core != 0 ? CLD_DUMPED : CLD_KILLED;
    info.si_status = r.signal == 0 ? r.exit_code : r.signal;
    set_exit(a, c, &info);
    c->exit.cpu_ns = r.cpu_ns;
    c->exit.max_rss_bytes = r.max_rss_bytes;
    c->exit.leftovers = r.leftovers;
    c->counted = true;
    if (c->state == BOX_COMMAND_RUNNING)
        main_ended(a, c);
}

/* --- time ------------------------------------------------------------------------------------ */

static void tick_starting(box_agent *a, box_command *c)
{
    int pid = slot_pid(a, c);
    if (a->now < c->give_up) {
        if (pid > 0 && !c->reaped)
            (void)kill(pid, SIGCONT);
        c->tick = after_ms(a, BOX_AGENT_TICK_MS);
        return;
    }
    kill_unborn(a, c);
    box_slot_fail(&a->slots[c->slot], BOX_STEP_STUCK, 0, NULL);
    fail_start(c);
    if (a->zygote_pid != 0)
        (void)kill(a->zygote_pid, SIGKILL); /* it waits for that child; a new one is made */
}

static void tick_one(box_agent *a, box_command *c)
{
    bool lives = c->state == BOX_COMMAND_STARTING || c->state == BOX_COMMAND_RUNNING;
    if (lives && !c->killing && c->deadline != 0 && a->now >= c->deadline)
        kill_tree(a, c, BOX_CAUSE_TIMEOUT);
    if (c->tick == 0 || a->now < c->tick)
        return;
    if (c->killing && !a->reapers) /* a subreaper repeats by itself */
        kill_now(a, c);            /* also what entered a frozen directory only now */
    c->tick = after_ms(a, BOX_AGENT_TICK_MS);
    if (c->state == BOX_COMMAND_STARTING)
        tick_starting(a, c);
    else if (c->state == BOX_COMMAND_ENDING)
        look_at_ending(a, c);
}

static void sweep(box_agent *a)
{
    box_command *next;
    a->sweep_at = 0;
    for (box_command *c = box_commands_after(&a->table, NULL); c != NULL; c = next) {
        next = box_commands_after(&a->table, c);
        if (c->killing && (c->state == BOX_COMMAND_KEPT || c->state == BOX_COMMAND_ENDED) &&
            !is_empty(a, c)) {
            if (!a->reapers)
                kill_now(a, c);
            sweep_soon(a, BOX_AGENT_SWEEP_MS);
        }
        if (c->state == BOX_COMMAND_KEPT)
            let_go(a, c);
    }
}

void box_life_tick(box_agent *a)
{
    for (box_command *c = NULL; (c = box_commands_after(&a->table, c)) != NULL;)
        tick_one(a, c);
    if (a->sweep_at != 0 && a->now >= a->sweep_at)
        sweep(a);
}
