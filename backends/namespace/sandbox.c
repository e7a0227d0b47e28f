#include "namespace/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <linux/securebits.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "warden/uids.h"

#define OWN ((uint64_t)CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID) /* of the first process */

static int act_as(uid_t user, box_error *err)
{
    if (syscall(SYS_setresuid, -1, user, -1) < 0)
        return box_fail_errno(err, "act as the sandbox's user");
    return 0;
}

/* With CLONE_PARENT the warden is its parent from the start: the helper may end at any time. */
static pid_t clone_into(uint64_t namespaces, int group, int *pidfd)
{
    int fd = -1;
    struct clone_args args = {.flags = namespaces | CLONE_PIDFD | CLONE_PARENT,
                              .pidfd = (uint64_t)(uintptr_t)&fd};
    if (group >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)group;
    }
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (pid < 0 && errno == ENOSYS && group < 0)
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

static int unshare_as(uint32_t uid_base, box_ids ids, int namespaces, box_error *err)
{
    traits before;
    bool other = ids != BOX_IDS_ONE; /* there is one to be */
    if (other && begin_as(uid_base, &before, err) < 0)
        return -1;
    int error = unshare(namespaces) < 0 ? errno : 0;
    if (other && end_as(&before, err) < 0)
        return -1;
    return error != 0 ? not_made(error, err) : 0;
}

int box_sandbox_unshare(uint32_t uid_base, box_ids ids, box_error *err)
{
    if (unshare_as(uid_base, ids, CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS, err) < 0)
        return -1;
    if (sethostname("box", 3) < 0 || setdomainname("", 0) < 0)
        return box_fail_errno(err, "set the host name");
    return raise_loopback(err);
}

int box_sandbox_unshare_groups(uint32_t uid_base, box_ids ids, box_error *err)
{
    return unshare_as(uid_base, ids, CLONE_NEWCGROUP, err);
}

int box_sandbox_open_groups(int *out, box_error *err)
{
    *out = open("/proc/self/ns/cgroup", O_RDONLY | O_CLOEXEC);
    return *out < 0 ? box_fail_errno(err, "open a cgroup namespace") : 0;
}

int box_sandbox_enter_groups(int groups, box_error *err)
{
    return setns(groups, CLONE_NEWCGROUP) < 0 ? box_fail_errno(err, "enter a cgroup namespace") : 0;
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
static pid_t clone_as(uint32_t uid_base, int group, int *pidfd, int *error, box_error *err)
{
    traits before = {0};
    if (begin_as(uid_base, &before, err) < 0)
        return -1;
    pid_t pid = clone_into(OWN, group, pidfd);
    *error = errno;
    if (pid == 0)
        return 0;
    /* On failure the child ends by itself: the pipes to it close. */
    return end_as(&before, err) < 0 ? -1 : pid;
}

pid_t box_sandbox_fork(int group, int *pidfd, box_error *err)
{
    pid_t pid = clone_into(0, group, pidfd);
    return pid < 0 ? box_fail_errno(err, "start a process in a control group") : pid;
}

pid_t box_sandbox_clone(uint32_t uid_base, box_ids ids, int group, int *pidfd, box_error *err)
{
    int error = 0;
    *err = (box_error){0};
    pid_t pid;
    if (ids == BOX_IDS_ONE) {
        pid = clone_into(OWN, group, pidfd);
        error = errno;
    } else {
        pid = clone_as(uid_base, group, pidfd, &error, err);
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
