#include "agent/agent.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/state.h"
#include "base/alloc.h"
#include "base/fd.h"

enum {
    CHILDREN_A_ROUND = 256, /* reaped before the loop looks at boxd and deadlines again */
    FIXED_POLLS = 4,        /* boxd, listener, signals, zygote */
    SHUTDOWN_MS = 2000,     /* waiting for killed processes; the namespace's end takes the rest */
};

/* --- the zygote ------------------------------------------------------------------------------- */

bool box_agent_need_zygote(box_agent *a)
{
    const box_agent_config *c = a->config;
    box_zygote_config zygote = {
        .uid = c->setup.command_uid,
        .gid = c->setup.command_gid,
        .one_user = (c->setup.flags & BOX_AGENT_SETUP_ONE_USER) != 0,
        .max_processes = c->setup.max_processes,
        .reapers = a->reapers,
        .cgroup = c->cgroup,
        .inner = a->limits.inner,
        .box_procs = c->box_procs,
        .n_box_procs = c->setup.n_box_procs,
        .filter = c->filter,
        .filter_count = c->filter_count,
        .slots = a->slots,
        .standbys = a->standbys,
    };
    box_error err;
    if (a->zygote.pid != 0)
        return true;
    return box_zygote_fork(&zygote, &a->zygote, &err) == 0;
}

static void take_note(box_agent *a, uint32_t slot)
{
    box_command *c = box_commands_by_slot(&a->table, slot);
    if (slot == BOX_ZYGOTE_READY) {
        a->zygote.ready = true;
        return;
    }
    if (!a->reapers)
        box_standby_unborn(a, c);
    if (c != NULL)
        box_life_answered(a, c);
}

void box_agent_take_notes(box_agent *a)
{
    box_zygote_note note;
    box_error err;
    size_t n_fds = 0;
    while (a->zygote.orders >= 0 && box_agent_receive(a->zygote.orders, &note, sizeof note, NULL,
                                                      &n_fds, &err) == sizeof note) {
        take_note(a, note.slot);
        n_fds = 0;
    }
}

static void lose_zygote(box_agent *a, const box_command *except)
{
    if (a->reapers)
        box_agent_take_notes(a); /* of subreapers too */
    box_closep(&a->zygote.orders);
    box_closep(&a->zygote.starts);
    a->zygote = (box_zygote){.orders = -1, .starts = -1};
    box_standby_lost(a);
    box_life_zygote_gone(a, except);
}

bool box_agent_replace_zygote(box_agent *a, const box_command *except)
{
    assert(a->zygote.pid > 0);
    (void)kill(a->zygote.pid, SIGKILL); /* our child and not reaped; usually dead already */
    lose_zygote(a, except);
    return box_agent_need_zygote(a);
}

/* A zygote that was ready is replaced at once, one that could not begin at the next START. */
static void zygote_ended(box_agent *a)
{
    bool was_ready = a->zygote.ready;
    lose_zygote(a, NULL);
    if (was_ready && !a->ending)
        (void)box_agent_need_zygote(a); /* else the next START tries, and says so */
}

/* --- children --------------------------------------------------------------------------------- */

static uint64_t cpu_ns(const struct rusage *used)
{
    return (uint64_t)(used->ru_utime.tv_sec + used->ru_stime.tv_sec) * BOX_SECOND +
           (uint64_t)(used->ru_utime.tv_usec + used->ru_stime.tv_usec) * BOX_US;
}

/* One child that ended or stopped; false when there is none. */
static bool take_child(box_agent *a)
{
    siginfo_t info = {0};
    struct rusage used = {0};
    /* The library's waitid cannot give resource usage; the system call can (waitid(2)). */
    if (syscall(SYS_waitid, P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG, &used) < 0 ||
        info.si_pid == 0)
        return false;
    if (info.si_code == CLD_STOPPED || info.si_code == CLD_TRAPPED) {
        box_life_stopped(a, info.si_pid);
        box_agent_files_stopped(&a->workers, info.si_pid);
    } else if (info.si_pid == a->zygote.pid) {
        zygote_ended(a);
    } else if (!box_agent_files_reaped(&a->workers, &info) && !box_standby_reaped(a, &info)) {
        box_end_reaped(a, &info, cpu_ns(&used), (uint64_t)used.ru_maxrss * 1024);
    }
    return true;
}

static void take_children(box_agent *a)
{
    a->more_children = true;
    for (int i = 0; i < CHILDREN_A_ROUND; i++) {
        if (!take_child(a)) {
            a->more_children = false;
            return;
        }
    }
}

static bool is_ours(box_agent *a, int pid)
{
    if (pid == a->zygote.pid || box_commands_by_pid(&a->table, pid) != NULL ||
        box_agent_files_has(&a->workers, pid))
        return true;
    for (int i = 0; i < BOX_AGENT_MAX_STARTING; i++) {
        if (atomic_load(&a->slots[i].reaper) == pid)
            return true;
    }
    return false;
}

/* With subreapers, a process directly below us that is none of ours lost its subreaper: it belongs
 * to a command nobody can account for any more. */
static void kill_strays(box_agent *a)
{
    uint32_t found = 0;
    if (!a->reapers || !box_walk_look(a->walk))
        found = 0;
    for (uint32_t i = 0; a->reapers && i < a->walk->count; i++) {
        const box_walk_process *p = &a->walk->list[i];
        if (p->parent != getpid() || p->state == 'Z' || p->state == 'X' || is_ours(a, p->pid))
            continue;
        (void)kill(p->pid, SIGKILL); /* our child: not reaped */
        found++;
    }
    a->strays = found > 0; /* their children become ours: look again */
}

static void take_signals(box_agent *a)
{
    struct signalfd_siginfo info[2]; /* no more can be pending: each counts once (signal(7)) */
    ssize_t n = read(a->signals, info, sizeof info);
    for (size_t i = 0; n > 0 && i < (size_t)n / sizeof info[0]; i++) {
        /* Only root of the sandbox or somebody outside may send one: an engine's stop. */
        if (info[i].ssi_signo == SIGTERM)
            a->ending = true;
    }
    a->more_children = true;
}

/* --- the loop --------------------------------------------------------------------------------- */

static box_time next_time(box_agent *a)
{
    box_time next = box_commands_next(&a->table);
    if (box_agent_files_next(&a->workers) < next)
        next = box_agent_files_next(&a->workers);
    if (a->sweep_at != 0 && a->sweep_at < next)
        next = a->sweep_at;
    if (a->orphan_at != 0 && a->orphan_at < next)
        next = a->orphan_at;
    if (a->conn >= 0 && !a->greeted && a->hello_by < next)
        next = a->hello_by;
    if (a->strays && a->now + BOX_AGENT_TICK_MS * BOX_MS < next)
        next = a->now + BOX_AGENT_TICK_MS * BOX_MS;
    box_time standby = box_standby_next(a);
    next = standby < next ? standby : next;
    box_time forward = box_agent_forward_next(&a->forwards);
    next = forward < next ? forward : next;
    box_time managed = box_managed_next(a);
    next = managed < next ? managed : next;
    return a->more_children ? a->now : next;
}

static void wait_until(struct pollfd *polls, nfds_t count, box_time until, box_time now)
{
    uint64_t left = box_time_left(until, now);
    struct timespec t = {.tv_sec = (time_t)(left / BOX_SECOND),
                         .tv_nsec = (long)(left % BOX_SECOND)};
    if (ppoll(polls, count, until == BOX_TIME_NEVER ? NULL : &t, NULL) >= 0)
        return;
    for (nfds_t i = 0; i < count; i++)
        polls[i].revents = 0; /* out of memory or interrupted: the next round looks again */
}

static nfds_t fill_polls(box_agent *a, struct pollfd *polls)
{
    nfds_t count = FIXED_POLLS;
    polls[0] = (struct pollfd){.fd = a->conn, .events = a->blocked ? POLLOUT : POLLIN};
    polls[1] = (struct pollfd){.fd = a->conn < 0 ? a->config->listen : -1, .events = POLLIN};
    polls[2] = (struct pollfd){.fd = a->signals, .events = POLLIN};
    polls[3] = (struct pollfd){.fd = a->zygote.orders, .events = POLLIN};
    for (box_command *c = NULL; a->reapers && (c = box_commands_after(&a->table, c)) != NULL;) {
        if (c->socket >= 0)
            polls[count++] = (struct pollfd){.fd = c->socket, .events = POLLIN};
    }
    return count;
}

/* What subreapers say. polls were filled in the table's order; a report does not change it. */
static void take_reports(box_agent *a, const struct pollfd *polls, nfds_t count)
{
    nfds_t at = FIXED_POLLS;
    for (box_command *c = NULL; at < count && (c = box_commands_after(&a->table, c)) != NULL;) {
        if (c->socket < 0 || polls[at].fd != c->socket)
            continue;
        if (polls[at].revents != 0)
            box_end_report(a, c);
        at++;
    }
}

static void check_times(box_agent *a)
{
    if (a->conn >= 0 && !a->greeted && a->now >= a->hello_by)
        box_channel_drop(a);
    if (a->orphan_at != 0 && a->now >= a->orphan_at)
        a->ending = true;
    if (a->strays)
        kill_strays(a);
    box_life_tick(a);
    box_standby_tick(a);
    box_managed_tick(a);
    box_agent_files_tick(&a->workers, a->now);
    box_agent_forward_tick(&a->forwards, a->now);
}

static void round_of(box_agent *a)
{
    struct pollfd
        polls[FIXED_POLLS + BOX_AGENT_MAX_COMMANDS + BOX_PROCESS_POLLS + BOX_MAX_FORWARDS];
    nfds_t commands = fill_polls(a, polls);
    nfds_t count = commands + box_managed_polls(a, polls + commands);
    nfds_t forwards = box_agent_forward_polls(&a->forwards, polls + count);
    wait_until(polls, count + forwards, next_time(a), a->now); /* those are looked at anyway */
    a->now = box_now();
    if (polls[3].revents != 0)
        box_agent_take_notes(a);
    take_reports(a, polls, commands);
    box_managed_read(a, polls + commands, count - commands);
    if (polls[2].revents != 0)
        take_signals(a);
    if (a->more_children)
        take_children(a);
    box_standby_look(a);
    if (polls[0].revents != 0 && a->blocked)
        a->blocked = false;
    else if (polls[0].revents != 0)
        box_channel_receive(a);
    if (polls[1].revents != 0)
        box_channel_accept(a);
    check_times(a);
    box_channel_flush(a);
    box_standby_prepare(a);
}

/* Everything in the pid namespace but ourselves dies; then the directories go. */
static void shut_down(box_agent *a)
{
    box_time end = box_time_add(box_now(), SHUTDOWN_MS * BOX_MS);
    assert(getpid() == 1); /* anywhere else this would be everything of the user */
    box_channel_drop(a);
    do {
        (void)kill(-1, SIGKILL); /* ESRCH: nobody is left */
        siginfo_t info = {0};
        while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0 && info.si_pid != 0)
            info = (siginfo_t){0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD)
            break;
        (void)poll(NULL, 0, 1);
    } while (box_now() < end);
    for (box_command *c = NULL; (c = box_commands_after(&a->table, c)) != NULL;) {
        if (c->tree != NULL)
            box_trees_leave(&a->trees, c->tree);
    }
    if (a->standby_tree != NULL && a->standby_for == NULL)
        box_trees_leave(&a->trees, a->standby_tree);
    if (!a->reapers)
        box_trees_clear(&a->trees);
}

static int prepare(box_agent *a, box_error *err)
{
    sigset_t all;
    sigset_t wanted;
    (void)sigfillset(&all);
    (void)sigemptyset(&wanted);
    (void)sigaddset(&wanted, SIGCHLD);
    (void)sigaddset(&wanted, SIGTERM);
    size_t slots = sizeof(box_slot) * BOX_AGENT_MAX_STARTING;
    void *shared = mmap(NULL, slots + BOX_STANDBYS * sizeof(box_standby), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return box_fail_errno(err, "map the start slots");
    a->slots = shared;
    a->standbys = (void *)((uint8_t *)shared + slots);
    a->standby = a->standbys;
    for (int i = 0; i < BOX_AGENT_MAX_STARTING; i++)
        box_slot_clear(&a->slots[i]); /* touched here: they count to us, not to the sandbox */
    if (sigprocmask(SIG_SETMASK, &all, NULL) < 0)
        return box_fail_errno(err, "block signals");
    a->signals = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    if (a->signals < 0)
        return box_fail_errno(err, "make a signal descriptor");
    if (a->reapers)
        a->walk = box_alloc(sizeof *a->walk);
    return 0;
}

int box_agent_run(const box_agent_config *config, box_error *err)
{
    box_agent *a = box_alloc(sizeof *a); /* lives as long as the process */
    /* Field by field: a literal would touch the whole table and packet, idle memory of each box. */
    a->config = config;
    a->conn = -1;
    a->zygote.orders = a->zygote.starts = -1;
    a->null = a->limits.inner = -1;
    a->now = box_now();
    a->reapers = config->cgroup < 0;
    box_trees_init(&a->trees, config->cgroup,
                   (config->setup.flags & BOX_AGENT_SETUP_NO_CGROUP_KILL) != 0);
    box_commands_init(&a->table);
    box_processes_init(&a->processes);
    box_channel_drop(a); /* nobody is there yet: the clock of an orphan runs */
    if (prepare(a, err) < 0)
        return -1;
    if (!box_agent_need_zygote(a))
        return box_fail(err, BOX_INTERNAL, "cannot fork the zygote");
    while (!a->ending)
        round_of(a);
    shut_down(a);
    return 0;
}
