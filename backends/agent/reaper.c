#include "agent/reaper.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/packet.h"
#include "agent/walk.h"
#include "base/clock.h"
#include "base/fd.h"

typedef struct reaper {
    int socket;
    int signals;
    int32_t main_pid; /* 0: reaped */
    box_walk *walk;
} reaper;

void box_reaper_begin(const box_spawn *spawn, void *stack, box_slot *slot)
{
    (void)prctl(PR_SET_NAME, "box-reaper", 0, 0, 0); /* for people who look */
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0) {
        box_slot_fail(slot, BOX_STEP_SETUP, errno, NULL);
        return;
    }
    box_spawn_run(spawn, stack, slot);
}

static bool report(const reaper *r, box_reaper_report *out)
{
    struct rusage used;
    box_error err;
    if (getrusage(RUSAGE_CHILDREN, &used) == 0) {
        out->cpu_ns = (uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * BOX_SECOND +
                      (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * BOX_US;
        out->max_rss_bytes = (uint64_t)used.ru_maxrss * 1024;
    }
    return box_fd_send(r->socket, out, sizeof *out, NULL, 0, &err) == 0;
}

static void main_ended(reaper *r, const siginfo_t *info)
{
    box_reaper_report out = {.core = info->si_code == CLD_DUMPED};
    bool by_exit = info->si_code == CLD_EXITED;
    out.exit_code = by_exit ? info->si_status : -1;
    out.signal = by_exit ? 0 : info->si_status;
    r->main_pid = 0;
    if (box_walk_look(r->walk))
        out.leftovers = box_walk_mark(r->walk, getpid());
    if (!report(r, &out))
        _exit(1);
}

/* Reaps what ended; true while children are left. */
static bool reap(reaper *r)
{
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) < 0)
            return errno != ECHILD;
        if (info.si_pid == 0)
            return true;
        if (info.si_pid == r->main_pid)
            main_ended(r, &info);
    }
}

static void take_order(reaper *r)
{
    box_reaper_order order;
    size_t n_fds = 0;
    box_error err;
    ssize_t n = box_agent_receive(r->socket, &order, sizeof order, NULL, &n_fds, &err);
    if (n < 0 && err.sys_errno == EAGAIN)
        return;
    if (n != sizeof order)
        _exit(0); /* the agent is gone, and the pid namespace with it */
    if (r->main_pid != 0)
        (void)kill(r->main_pid, (int)order.signo); /* our child: the pid is its own until reaped */
}

static void take_signals(const reaper *r)
{
    struct signalfd_siginfo info;
    while (read(r->signals, &info, sizeof info) > 0)
        continue;
}

_Noreturn void box_reaper_run(int socket, int32_t main_pid)
{
    sigset_t chld;
    (void)sigemptyset(&chld);
    (void)sigaddset(&chld, SIGCHLD);
    reaper r = {.socket = socket, .main_pid = main_pid};
    if (sigprocmask(SIG_BLOCK, &chld, NULL) < 0)
        _exit(1);
    r.signals = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
    r.walk = mmap(NULL, sizeof *r.walk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (r.signals < 0 || r.walk == MAP_FAILED)
        _exit(1); /* the agent takes our children over and ends them */
    while (reap(&r)) {
        struct pollfd p[2] = {{.fd = socket, .events = POLLIN},
                              {.fd = r.signals, .events = POLLIN}};
        if (poll(p, 2, -1) <= 0)
            continue;
        take_signals(&r);
        if (p[0].revents != 0)
            take_order(&r);
    }
    box_reaper_report gone = {.gone = 1};
    (void)report(&r, &gone); /* our end says the same */
    _exit(0);
}
