#include "namespace/first.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "namespace/rootfs.h"

/* Where descriptors wait until they get their final numbers; above all of those. */
enum { PARKED_FD = 64 };

/* The two that stay parked. */
typedef struct parked {
    int agent;
    int helper;
} parked;

/* The next message, with its descriptors; none but this length will do. */
static int hear(int helper, void *out, size_t size, int *fds, size_t *n_fds, box_error *err)
{
    struct pollfd p = {.fd = helper, .events = POLLIN};
    while (poll(&p, 1, -1) < 0 && errno == EINTR)
        continue;
    ssize_t n = box_fd_receive(helper, out, size, fds, n_fds, err);
    if (n < 0)
        return -1;
    return n == (ssize_t)size ? 0 : box_fail(err, BOX_INTERNAL, "the helper ended");
}

static int wait_for_go(int helper, box_error *err)
{
    char byte;
    size_t n_fds = 0;
    return hear(helper, &byte, 1, NULL, &n_fds, err);
}

/* Raw calls: glibc's own synchronise threads that a cloned child does not have. */
static int become_inner_root(box_ids ids, box_error *err)
{
    /* With one id there is no root to become, and no right to change groups. */
    if (ids != BOX_IDS_ONE &&
        (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, 0, 0, 0) < 0 ||
         syscall(SYS_setresuid, 0, 0, 0) < 0))
        return box_fail_errno(err, "become root of the user namespace");
    /* The helper looks at its /proc files, as root of no more than the warden's namespace may be.
     * The exec forgets it. */
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
        return box_fail_errno(err, "stay readable");
    if (syscall(SYS_setsid) < 0)
        return box_fail_errno(err, "start a session");
    (void)umask(022);
    return 0;
}

/* The three that the agent keeps: killing, and becoming the commands' user. They reach it through
 * the inheritable set (an exec of uid 0 gets inheritable and bounding), so the bounding set can be
 * empty for all that ever runs here. */
#define AGENT_CAPS (1U << CAP_KILL | 1U << CAP_SETGID | 1U << CAP_SETUID)
/* What mounting, and the root's owner, need until then. */
#define BUILDER_CAPS                                                                               \
    (1U << CAP_SYS_ADMIN | 1U << CAP_CHOWN | 1U << CAP_DAC_OVERRIDE | 1U << CAP_SETPCAP)

static uint32_t agent_caps(box_ids ids)
{
    return ids == BOX_IDS_ONE ? 0 : AGENT_CAPS;
}

static int set_capabilities(uint32_t held, uint32_t inheritable, box_error *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {
        {.effective = held, .permitted = held, .inheritable = inheritable}, {0}};
    if (syscall(SYS_capset, &header, data) < 0)
        return box_fail_errno(err, "drop the capabilities");
    return 0;
}

static int empty_bounding_set(box_ids ids, box_error *err)
{
    /* Inheritable ones must be in the bounding set when they are added. */
    if (set_capabilities(agent_caps(ids) | BUILDER_CAPS, agent_caps(ids), err) < 0)
        return -1;
    for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++) {
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            return box_fail_errno(err, "drop a capability");
    }
    return 0;
}

static int drop_capabilities(box_ids ids, box_error *err)
{
    if (set_capabilities(agent_caps(ids), agent_caps(ids), err) < 0)
        return -1;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return box_fail_errno(err, "set no_new_privs");
    return 0;
}

static int park(int fd, box_error *err)
{
    int to = fcntl(fd, F_DUPFD_CLOEXEC, PARKED_FD);
    return to < 0 ? box_fail_errno(err, "park a descriptor") : to;
}

static int place(int from, int number, box_error *err)
{
    if (dup3(from, number, 0) < 0)
        return box_fail_errno(err, "place a descriptor");
    return 0;
}

/* 0 to 2 on /dev/null, then what agent/protocol.h says and is there by now; the rest closes: now,
 * or at the exec. */
static int arrange_fds(const box_first_plan *plan, parked *out, box_error *err)
{
    int wanted[BOX_AGENT_BOX_PROCS_FD + BOX_AGENT_MAX_BOX_PROCS + BOX_AGENT_LIMIT_DIRS];
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0)
        return box_fail_errno(err, "open /dev/null");
    wanted[0] = wanted[1] = wanted[2] = null;
    wanted[BOX_AGENT_LISTEN_FD] = wanted[BOX_AGENT_SETUP_FD] = -1;
    wanted[BOX_AGENT_FILTER_FD] = plan->filter;
    wanted[BOX_AGENT_CGROUP_FD] = plan->cgroup;
    wanted[BOX_AGENT_FILES_FD] = plan->files;
    size_t count = BOX_AGENT_BOX_PROCS_FD;
    for (size_t i = 0; i < plan->n_box_procs; i++)
        wanted[count++] = plan->box_procs[i];
    for (size_t i = 0; plan->limits_version == 1 && i < BOX_AGENT_LIMIT_DIRS; i++)
        wanted[count++] = plan->limits[i];
    for (size_t i = 0; i < count; i++) {
        if (wanted[i] >= 0 && (wanted[i] = park(wanted[i], err)) < 0)
            return -1;
    }
    int agent = park(plan->agent, err);
    int helper = agent < 0 ? -1 : park(plan->helper, err);
    if (helper < 0)
        return -1;
    *out = (parked){.agent = agent, .helper = helper};
    if (close_range(3, PARKED_FD - 1, 0) < 0 ||
        close_range(PARKED_FD, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
        return box_fail_errno(err, "close descriptors");
    for (size_t i = 0; i < count; i++) {
        if (wanted[i] >= 0 && place(wanted[i], (int)i, err) < 0)
            return -1;
    }
    return 0;
}

/* Those that came with the order: they may have each other's numbers. */
static int place_ordered(const int *fds, box_error *err)
{
    int listen = park(fds[0], err);
    int setup = listen < 0 ? -1 : park(fds[1], err);
    return setup < 0 || place(listen, BOX_AGENT_LISTEN_FD, err) < 0
               ? -1
               : place(setup, BOX_AGENT_SETUP_FD, err);
}

static void default_signals(void)
{
    sigset_t none;
    (void)sigemptyset(&none);
    for (int signo = 1; signo < NSIG; signo++)
        (void)signal(signo, SIG_DFL); /* KILL and STOP refuse, and are so anyway */
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* All that needs no order. */
static int begin(const box_first_plan *plan, parked *p, box_error *err)
{
    if (wait_for_go(p->helper, err) < 0 || become_inner_root(plan->ids, err) < 0 ||
        box_rootfs_begin(plan, err) < 0 || arrange_fds(plan, p, err) < 0 ||
        empty_bounding_set(plan->ids, err) < 0)
        return -1;
    default_signals();
    return box_fd_send(p->helper, "b", 1, NULL, 0, err);
}

static int await_order(int helper, box_first_order *out, int *workspace, box_error *err)
{
    int fds[BOX_FIRST_FDS];
    size_t n_fds = BOX_FIRST_FDS;
    if (hear(helper, out, sizeof *out, fds, &n_fds, err) < 0)
        return -1;
    if (n_fds != (out->workspace == BOX_FIRST_TMPFS ? 2 : 3))
        return box_fail(err, BOX_INTERNAL, "an order without its descriptors");
    *workspace = n_fds < 3 ? -1 : park(fds[2], err);
    return n_fds == 3 && *workspace < 0 ? -1 : place_ordered(fds, err);
}

static int run(const box_first_plan *plan, parked *p, box_error *err)
{
    box_first_order order;
    int workspace = -1;
    if (begin(plan, p, err) < 0 || await_order(p->helper, &order, &workspace, err) < 0 ||
        box_rootfs_finish(&order, plan->ids, workspace, err) < 0 ||
        drop_capabilities(plan->ids, err) < 0 || wait_for_go(p->helper, err) < 0)
        return -1;
    if (plan->probe)
        _exit(0);
    char *const argv[] = {(char[]){"box-agent"}, NULL};
    char *const env[] = {NULL};
    (void)syscall(SYS_execveat, p->agent, "", argv, env, AT_EMPTY_PATH);
    return box_fail_errno(err, "start the agent");
}

void box_first_run(const box_first_plan *plan)
{
    box_error err = {0};
    box_error unsent; /* the helper may be gone */
    parked p = {.agent = -1, .helper = plan->helper};
    if (run(plan, &p, &err) < 0)
        (void)!box_fd_send(p.helper, &err, sizeof err, NULL, 0, &unsent);
    _exit(1);
}
