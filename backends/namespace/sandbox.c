#include "namespace/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <linux/securebits.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "namespace/rootfs.h"
#include "warden/uids.h"

#define AHEAD  (CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)
#define CHILDS ((uint64_t)CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID)

/* Where descriptors wait until they get their final numbers; above all of those. */
enum { PARKED_FD = 64 };

static int act_as(uid_t user, box_error *err)
{
    if (syscall(SYS_setresuid, -1, user, -1) < 0)
        return box_fail_errno(err, "act as the sandbox's user");
    return 0;
}

/* With CLONE_PARENT the warden is its parent from the start: the helper may end at any time. */
static pid_t clone_namespaces(int *pidfd)
{
    int fd = -1;
    struct clone_args args = {.flags = CHILDS | CLONE_PIDFD | CLONE_PARENT,
                              .pidfd = (uint64_t)(uintptr_t)&fd};
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (pid < 0 && errno == ENOSYS)
        pid = (pid_t)syscall(SYS_clone, args.flags | SIGCHLD, NULL, &fd, NULL, NULL);
    if (pid > 0)
        *pidfd = fd;
    return pid;
}

/* A change of the effective user makes a process unreadable and forgets the signal that its
 * parent's death is to bring (prctl(2)): a helper must not outlive its warden, and its /proc files
 * must stay its own where root is only root of a namespace. */
typedef struct traits {
    pid_t parent;
    int signo;
    int dumpable;
    unsigned long securebits;
} traits;

static int restore_traits(const traits *t, box_error *err)
{
    if (prctl(PR_SET_SECUREBITS, t->securebits, 0, 0, 0) < 0)
        return box_fail_errno(err, "restore the securebits");
    if (prctl(PR_SET_PDEATHSIG, t->signo) < 0 ||
        (t->dumpable == 1 && prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0))
        return box_fail_errno(err, "restore the helper");
    if (t->signo != 0 && getppid() != t->parent)
        return box_fail(err, BOX_SHUTTING_DOWN, "the warden ended");
    return 0;
}

/* Capabilities stay while the effective user is another one: hosts may forbid user namespaces to
 * ordinary users. A child in a new user namespace gets fresh ones and fresh securebits
 * (user_namespaces(7)). */
static int begin_as(uint32_t user, traits *t, box_error *err)
{
    t->parent = getppid();
    t->dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
    t->securebits = (unsigned long)prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);
    if (t->dumpable < 0 || prctl(PR_GET_PDEATHSIG, &t->signo) < 0)
        return box_fail_errno(err, "look at the helper");
    if (prctl(PR_SET_SECUREBITS, t->securebits | SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
        return box_fail_errno(err, "keep the capabilities");
    if (act_as(user, err) < 0)
        return -1;
    if (t->dumpable == 1 && prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
        return box_fail_errno(err, "stay readable");
    return 0;
}

static int end_as(const traits *t, box_error *err)
{
    return act_as(0, err) < 0 ? -1 : restore_traits(t, err);
}

static int not_made(int error, box_error *err)
{
    errno = error;
    (void)box_fail_errno(err, "make the namespaces");
    if (error == EPERM || error == ENOSPC || error == EACCES)
        return box_wrap(err, "user namespaces are switched off (sysctl user.max_user_namespaces, "
                             "AppArmor, a seccomp profile) or not ours to make");
    return -1;
}

static int raise_loopback(box_error *err)
{
    BOX_AUTO(box_closep) int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq lo = {.ifr_name = "lo"};
    lo.ifr_flags = IFF_UP;
    if (s < 0 || ioctl(s, SIOCSIFFLAGS, &lo) < 0)
        return box_fail_errno(err, "raise the loopback interface");
    return 0;
}

int box_sandbox_unshare(uint32_t uid_base, box_ids ids, box_error *err)
{
    traits before;
    bool other = ids != BOX_IDS_ONE; /* there is one to be */
    if (other && begin_as(uid_base, &before, err) < 0)
        return -1;
    int error = unshare(AHEAD) < 0 ? errno : 0;
    if (other && end_as(&before, err) < 0)
        return -1;
    if (error != 0)
        return not_made(error, err);
    if (sethostname("box", 3) < 0 || setdomainname("", 0) < 0)
        return box_fail_errno(err, "set the host name");
    return raise_loopback(err);
}

void box_sandbox_limit_ipc(int64_t shm_bytes)
{
    const struct {
        const char *path;
        int64_t value;
    } rows[] = {
        {"/proc/sys/kernel/shmmax", shm_bytes},
        {"/proc/sys/kernel/shmall", shm_bytes / sysconf(_SC_PAGESIZE)},
        {"/proc/sys/kernel/shm_rmid_forced", 1},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        char text[24];
        box_error read_only; /* a host whose /proc/sys is: there the memory limit alone bounds it */
        (void)snprintf(text, sizeof text, "%lld", (long long)rows[i].value);
        (void)!box_fd_write_file(AT_FDCWD, rows[i].path, text, &read_only);
    }
}

/* Queued signals, timers, message queues, inotify instances and processes of a user namespace are
 * counted against the user who made it too. Were that root, one sandbox could use up what all
 * others and the host's own root may have: 128 inotify instances were enough. */
static pid_t clone_as(uint32_t uid_base, int *pidfd, int *error, box_error *err)
{
    traits before = {0};
    if (begin_as(uid_base, &before, err) < 0)
        return -1;
    pid_t pid = clone_namespaces(pidfd);
    *error = errno;
    if (pid == 0)
        return 0;
    /* On failure the child ends by itself: the pipes to it close. */
    return end_as(&before, err) < 0 ? -1 : pid;
}

pid_t box_sandbox_clone(uint32_t uid_base, box_ids ids, int *pidfd, box_error *err)
{
    int error = 0;
    *err = (box_error){0};
    pid_t pid;
    if (ids == BOX_IDS_ONE) {
        pid = clone_namespaces(pidfd);
        error = errno;
    } else {
        pid = clone_as(uid_base, pidfd, &error, err);
    }
    return pid >= 0 || err->reason != BOX_NONE ? pid : not_made(error, err);
}

int box_sandbox_map_ids(pid_t pid, uint32_t uid_base, box_ids ids, box_error *err)
{
    static const char *const files[] = {"uid_map", "gid_map"};
    char map[96];
    if (ids == BOX_IDS_BLOCK)
        (void)snprintf(map, sizeof map, "0 %u %d\n%d %u 1\n", uid_base, BOX_UIDS_MAPPED,
                       BOX_UIDS_NOBODY, uid_base + BOX_UIDS_MAPPED);
    else if (ids == BOX_IDS_THREE)
        (void)snprintf(map, sizeof map, "0 %u 1\n%d %u 1\n%d %u 1\n", uid_base, BOX_INSIDE_UID,
                       uid_base + 1, BOX_UIDS_NOBODY, uid_base + 2);
    else
        (void)snprintf(map, sizeof map, "%d %u 1\n", BOX_INSIDE_UID, uid_base);
    for (size_t i = 0; i < BOX_COUNT(files); i++) {
        char path[48];
        (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, files[i]);
        if (box_fd_write_file(AT_FDCWD, path, map, err) < 0)
            return box_wrap(err, "id maps");
    }
    return 0;
}

static int wait_for_go(int go, box_error *err)
{
    char byte;
    ssize_t n;
    do {
        n = read(go, &byte, 1);
    } while (n < 0 && errno == EINTR);
    return n == 1 ? 0 : box_fail(err, BOX_INTERNAL, "the helper ended");
}

/* Raw calls: glibc's own synchronise threads that a cloned child does not have. */
static int become_inner_root(box_ids ids, box_error *err)
{
    /* With one id there is no root to become, and no right to change groups. */
    if (ids != BOX_IDS_ONE &&
        (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, 0, 0, 0) < 0 ||
         syscall(SYS_setresuid, 0, 0, 0) < 0))
        return box_fail_errno(err, "become root of the user namespace");
    if (syscall(SYS_setsid) < 0)
        return box_fail_errno(err, "start a session");
    (void)umask(022);
    return 0;
}

/* The three that the agent keeps: killing, and becoming the commands' user. They reach it through
 * the inheritable set (an exec of uid 0 gets inheritable and bounding), so the bounding set can be
 * empty for all that ever runs here. */
#define AGENT_CAPS (1U << CAP_KILL | 1U << CAP_SETGID | 1U << CAP_SETUID)

static int set_capabilities(uint32_t held, uint32_t inheritable, box_error *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {
        {.effective = held, .permitted = held, .inheritable = inheritable}, {0}};
    if (syscall(SYS_capset, &header, data) < 0)
        return box_fail_errno(err, "drop the capabilities");
    return 0;
}

static int drop_capabilities(box_ids ids, box_error *err)
{
    uint32_t kept = ids == BOX_IDS_ONE ? 0 : AGENT_CAPS;
    /* Inheritable ones must be in the bounding set when they are added. */
    if (set_capabilities(kept | 1U << CAP_SETPCAP, kept, err) < 0)
        return -1;
    for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++) {
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            return box_fail_errno(err, "drop a capability");
    }
    if (set_capabilities(kept, kept, err) < 0)
        return -1;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return box_fail_errno(err, "set no_new_privs");
    return 0;
}

static int park(int fd, box_error *err)
{
    int parked = fcntl(fd, F_DUPFD_CLOEXEC, PARKED_FD);
    return parked < 0 ? box_fail_errno(err, "park a descriptor") : parked;
}

static int place(int parked, int number, box_error *err)
{
    if (dup3(parked, number, 0) < 0)
        return box_fail_errno(err, "place a descriptor");
    return 0;
}

/* 0 to 2 on /dev/null, 3 and up as agent/protocol.h says; all others close at the exec. */
static int arrange_fds(const box_sandbox_plan *plan, int *agent, int *report, box_error *err)
{
    int wanted[BOX_AGENT_BOX_PROCS_FD + BOX_AGENT_MAX_BOX_PROCS + BOX_AGENT_LIMIT_DIRS];
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0)
        return box_fail_errno(err, "open /dev/null");
    wanted[0] = wanted[1] = wanted[2] = null;
    wanted[BOX_AGENT_LISTEN_FD] = plan->listen;
    wanted[BOX_AGENT_SETUP_FD] = plan->setup;
    wanted[BOX_AGENT_FILTER_FD] = plan->filter;
    wanted[BOX_AGENT_CGROUP_FD] = plan->cgroup;
    wanted[BOX_AGENT_FILES_FD] = plan->files;
    size_t count = BOX_AGENT_BOX_PROCS_FD;
    for (size_t i = 0; i < plan->n_box_procs; i++)
        wanted[count++] = plan->box_procs[i];
    for (size_t i = 0; plan->limits_version == 1 && i < BOX_AGENT_LIMIT_DIRS; i++)
        wanted[count++] = plan->limits[i];
    *agent = park(plan->agent, err);
    *report = *agent < 0 ? -1 : park(plan->report, err);
    if (*report < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        wanted[i] = wanted[i] >= 0 ? park(wanted[i], err) : -1;
        if (wanted[i] == -1 && (int)i != BOX_AGENT_CGROUP_FD)
            return -1;
    }
    if (close_range(3, PARKED_FD - 1, 0) < 0 ||
        close_range(PARKED_FD, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
        return box_fail_errno(err, "close descriptors");
    for (size_t i = 0; i < count; i++) {
        if (wanted[i] >= 0 && place(wanted[i], (int)i, err) < 0)
            return -1;
    }
    return 0;
}

static void default_signals(void)
{
    sigset_t none;
    (void)sigemptyset(&none);
    for (int signo = 1; signo < NSIG; signo++)
        (void)signal(signo, SIG_DFL); /* KILL and STOP refuse, and are so anyway */
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static int run(const box_sandbox_plan *plan, int *report, box_error *err)
{
    if (wait_for_go(plan->go, err) < 0 || become_inner_root(plan->ids, err) < 0 ||
        box_rootfs_enter(plan, err) < 0)
        return -1;
    int agent = -1;
    if (wait_for_go(plan->go, err) < 0 || arrange_fds(plan, &agent, report, err) < 0 ||
        drop_capabilities(plan->ids, err) < 0)
        return -1;
    default_signals();
    if (plan->probe)
        _exit(0);
    char *const argv[] = {(char[]){"box-agent"}, NULL};
    char *const env[] = {NULL};
    (void)syscall(SYS_execveat, agent, "", argv, env, AT_EMPTY_PATH);
    return box_fail_errno(err, "start the agent");
}

void box_sandbox_run(const box_sandbox_plan *plan)
{
    box_error err = {0};
    int report = plan->report;
    if (run(plan, &report, &err) < 0)
        (void)!write(report < 0 ? plan->report : report, &err, sizeof err); /* the parent may be
                                                                              gone */
    _exit(1);
}
