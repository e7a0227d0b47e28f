#include <errno.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "agent/reaper.h"
#include "agent/state.h"
#include "base/fd.h"

enum { REPORTS = 2 }; /* a subreaper makes no more */

void box_end_order(const box_command *c, uint32_t signo)
{
    box_reaper_order o = {.signo = signo};
    box_error err;
    /* A subreaper that does not read is ending; its end is seen and dealt with. */
    if (c->socket >= 0 && box_fd_send(c->socket, &o, sizeof o, NULL, 0, &err) < 0)
        return;
}

void box_end_kill_again(box_agent *a, box_command *c)
{
    int32_t pid = c->pid != 0 ? c->pid : c->reaped ? 0 : box_slot_pid(a, c);
    if (c->state == BOX_COMMAND_STARTING && pid == 0)
        return; /* who is to be it waits for its START, and is needed for others */
    if (c->tree != NULL)
        box_tree_kill(&a->trees, c->tree);
    else if (c->reaper > 0)
        (void)box_walk_kill(a->walk, c->reaper);
    /* Still our child (or our subreaper's, before its exec), so the pid is its own. */
    if (pid > 0 && (!a->reapers || c->state == BOX_COMMAND_STARTING))
        (void)kill(pid, SIGKILL);
}

static uint32_t count_beside(box_agent *a, const box_command *c, int32_t main_pid)
{
    if (c->tree != NULL)
        return box_tree_count(c->tree, main_pid);
    return a->reapers ? box_walk_count(a->walk, c->reaper, main_pid) : 0;
}

void box_end_kill(box_agent *a, box_command *c, uint32_t cause)
{
    if (c->cause == BOX_CAUSE_NONE && !c->reaped)
        c->cause = cause;
    if (!c->counted && (c->state != BOX_COMMAND_STARTING) && (!a->reapers || c->reaper > 0)) {
        int32_t main_pid = c->pid != 0 ? c->pid : box_slot_pid(a, c);
        c->exit.leftovers = count_beside(a, c, main_pid);
        c->counted = true;
    }
    c->killing = true;
    if (c->state != BOX_COMMAND_ENDED && c->state != BOX_COMMAND_KEPT)
        c->tick = box_after_ms(a, BOX_AGENT_TICK_MS);
    else
        box_sweep_soon(a, BOX_AGENT_SWEEP_MS);
    box_end_kill_again(a, c);
}

static bool is_empty(const box_agent *a, const box_command *c)
{
    return a->reapers ? c->reaper == 0 : c->tree == NULL || box_tree_empty(c->tree);
}

/* Its directory, or subreaper, is there no more. */
static bool let_place_go(box_agent *a, box_command *c, bool clean)
{
    if (a->reapers)
        return c->reaper == 0;
    if (c->tree == NULL)
        return true;
    if (clean)
        box_trees_give(&a->trees, c->tree);
    else if (!box_trees_remove(&a->trees, c->tree))
        return false;
    c->tree = NULL;
    return true;
}

void box_end_let_go(box_agent *a, box_command *c)
{
    /* Nothing can have entered it since: it takes the next command, and nobody makes a new one. */
    bool clean = c->state == BOX_COMMAND_ENDED && c->exit.leftovers == 0 && !c->killing &&
                 !c->earlier && !c->own; /* boxd would not know what it has used */
    c->state = BOX_COMMAND_KEPT;
    c->tick = 0;
    c->slot = -1;
    if (!let_place_go(a, c, clean)) {
        box_sweep_soon(a, c->killing ? BOX_AGENT_SWEEP_MS : BOX_AGENT_IDLE_SWEEP_MS);
        return;
    }
    box_closep(&c->socket);
    box_life_close_terminal(c);
    box_commands_remove(&a->table, c);
}

/* A file system tells no more: how full it is now (statfs(2)). A tmpfs gives its last block away;
 * ext4 refuses a write that leaves it some for its own tables: 0.17 % of 300 MiB. */
static bool workspace_is_full(const box_agent *a)
{
    enum { TMPFS_MAGIC = 0x01021994, LEFT_SHARE = 256 };
    struct statfs fs;
    if (a->config->workspace < 0 || fstatfs(a->config->workspace, &fs) < 0)
        return false;
    return fs.f_ffree == 0 ||
           fs.f_bavail <= (fs.f_type == TMPFS_MAGIC ? 0 : fs.f_blocks / LEFT_SHARE);
}

static void finish(box_agent *a, box_command *c, bool all_gone)
{
    if (all_gone && c->exit.leftovers > 0 && c->killing)
        c->exit.flags |= BOX_EXIT_LEFTOVERS_KILLED;
    if (c->tree != NULL && box_tree_cpu_ns(c->tree, &c->exit.cpu_ns))
        c->exit.flags |= BOX_EXIT_CPU_FROM_CGROUP;
    c->exit.group = c->tree != NULL ? c->tree->number : 0;
    c->exit.pid = c->started_pid;
    if (workspace_is_full(a))
        c->exit.flags |= BOX_EXIT_WORKSPACE_FULL;
    /* We kill by KILL alone: anything else means it ended by itself just before. */
    c->exit.cause = c->exit.signal == SIGKILL ? c->cause : BOX_CAUSE_NONE;
    c->state = BOX_COMMAND_ENDED;
    c->exit_due = !c->own;
    c->tick = 0;
}

void box_end_look(box_agent *a, box_command *c)
{
    if (is_empty(a, c))
        finish(a, c, true);
    if (c->state == BOX_COMMAND_ENDED || a->now < c->give_up)
        return;
    finish(a, c, false); /* what is left cannot die now */
    box_sweep_soon(a, BOX_AGENT_SWEEP_MS);
}

void box_end_main(box_agent *a, box_command *c)
{
    if (!c->counted)
        c->exit.leftovers = count_beside(a, c, 0);
    c->counted = true;
    bool kill_rest = (c->flags & BOX_START_KILL_LEFTOVERS) != 0 && c->exit.leftovers > 0;
    if (!c->killing && !kill_rest) {
        finish(a, c, false);
        return;
    }
    c->state = BOX_COMMAND_ENDING;
    c->give_up = box_time_add(a->now, BOX_AGENT_KILL_SECONDS * BOX_SECOND);
    if (!c->killing)
        box_end_kill(a, c, BOX_CAUSE_NONE);
    box_end_look(a, c);
}

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
    box_end_main(a, c);
}

/* A subreaper ended: nothing of its command is left, or it was killed and the command's processes
 * are now ours. */
static void reaper_ended(box_agent *a, box_command *c, bool orderly)
{
    for (int i = 0; i < REPORTS && c->socket >= 0; i++)
        box_end_report(a, c); /* what it said last */
    box_closep(&c->socket);
    box_agent_take_notes(a); /* the one about its start too */
    if (c->state == BOX_COMMAND_STARTING && box_life_has_begun(a, c))
        box_life_answered(a, c);
    c->reaper = 0;
    a->strays |= !orderly;
    if (c->state == BOX_COMMAND_STARTING) {
        box_life_kill_unborn(a, c);
        box_slot_fail(&a->slots[c->slot], BOX_STEP_ZYGOTE, 0, NULL);
        box_life_fail(c);
    } else if (c->state == BOX_COMMAND_RUNNING && !c->reaped) {
        lose_main(a, c);
    } else if (c->state == BOX_COMMAND_ENDING) {
        box_end_look(a, c);
    } else if (c->state == BOX_COMMAND_KEPT) {
        box_sweep_soon(a, 0);
    }
}

static box_command *find_child(box_agent *a, int pid)
{
    for (box_command *c = NULL; (c = box_commands_after(&a->table, c)) != NULL;) {
        bool known = c->pid == pid || c->reaper == pid;
        if (known || (c->state == BOX_COMMAND_STARTING && !c->reaped &&
                      (box_slot_pid(a, c) == pid || box_slot_reaper(a, c) == pid)))
            return c;
    }
    return NULL;
}

void box_end_reaped(box_agent *a, const siginfo_t *info, uint64_t cpu_ns, uint64_t max_rss)
{
    box_command *c = find_child(a, info->si_pid);
    bool is_reaper =
        c != NULL && (c->reaper == info->si_pid || box_slot_reaper(a, c) == info->si_pid);
    /* With subreapers nothing else should be below us: what it leaves is ours to kill. */
    a->strays |= a->reapers && !is_reaper;
    if (c == NULL) { /* an orphan, perhaps the last of its command */
        box_sweep_soon(a, BOX_AGENT_SWEEP_MS);
        for (c = NULL; (c = box_commands_after(&a->table, c)) != NULL;) {
            if (c->state == BOX_COMMAND_ENDING)
                c->tick = a->now;
        }
        return;
    }
    if (is_reaper) {
        reaper_ended(a, c, info->si_code == CLD_EXITED && info->si_status == 0);
        return;
    }
    set_exit(a, c, info);
    c->exit.cpu_ns = cpu_ns;
    c->exit.max_rss_bytes = max_rss;
    if (a->reapers)
        c->counted = true; /* its subreaper is dead: nobody can say */
    if (c->state == BOX_COMMAND_RUNNING)
        box_end_main(a, c);
}

void box_end_report(box_agent *a, box_command *c)
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
    if (!c->counted)
        c->exit.leftovers = r.leftovers;
    c->counted = true;
    if (c->state == BOX_COMMAND_RUNNING)
        box_end_main(a, c);
}

void box_end_sweep(box_agent *a)
{
    box_command *next;
    a->sweep_at = 0;
    a->standby_failed = false;
    if (!a->reapers && box_trees_sweep(&a->trees))
        box_sweep_soon(a, BOX_AGENT_SWEEP_MS);
    for (box_command *c = box_commands_after(&a->table, NULL); c != NULL; c = next) {
        next = box_commands_after(&a->table, c);
        if (c->killing && (c->state == BOX_COMMAND_KEPT || c->state == BOX_COMMAND_ENDED) &&
            !is_empty(a, c)) {
            box_end_kill_again(a, c);
            box_sweep_soon(a, BOX_AGENT_SWEEP_MS);
        }
        if (c->state == BOX_COMMAND_KEPT)
            box_end_let_go(a, c);
    }
}
