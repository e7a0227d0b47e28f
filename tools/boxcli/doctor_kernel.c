/* boxcli doctor: what the kernel lets sandboxes be made of. */
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fd.h"
#include "doctor.h"
#include "machine.h"

enum {
    LEAST_MAJOR = 6,
    LEAST_MINOR = 1,
    LANDLOCK_VERSION = 1, /* LANDLOCK_CREATE_RULESET_VERSION */
};

#define MAX_USER_NAMESPACES "/proc/sys/user/max_user_namespaces"

static void check_kernel(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)d;
    (void)check;
    struct utsname name;
    int major = 0;
    int minor = 0;
    if (uname(&name) < 0 || !machine_kernel(name.release, &major, &minor)) {
        doctor_warn(row, "its version cannot be read");
        return;
    }
    if (major > LEAST_MAJOR || (major == LEAST_MAJOR && minor >= LEAST_MINOR)) {
        doctor_ok(row, "%s %s", name.sysname, name.release);
        return;
    }
    doctor_fail(row, "%s %s", name.sysname, name.release);
    doctor_fix(row, "Box needs Linux %d.%d or later: install a newer kernel", LEAST_MAJOR,
               LEAST_MINOR);
}

/* --- namespaces ------------------------------------------------------------------------------- */

static int try_user(void)
{
    return unshare(CLONE_NEWUSER) == 0 ? 0 : errno & 0x7f;
}

/* What only root could have been allowed is no failure for somebody else. */
static void refused(const doctor *d, doctor_row *row, const char *what, const char *why)
{
    if (d->is_root) {
        doctor_fail(row, "%s: %s", what, why);
        doctor_fix(row,
                   "run box-warden where the container, LSM or seccomp filter around it allows "
                   "user namespaces");
        return;
    }
    doctor_warn(row, "%s as an ordinary user: %s", what, why);
    doctor_fix(row, "root may be allowed more: sudo boxcli doctor");
}

static void check_user(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)check;
    int64_t most = -1;
    if (machine_number(MAX_USER_NAMESPACES, &most) && most == 0) {
        doctor_fail(row, "switched off: user.max_user_namespaces is 0");
        doctor_fix(row, "sysctl -w user.max_user_namespaces=65536 (and in /etc/sysctl.d)");
        return;
    }
    int why = machine_in_child(try_user);
    if (why != 0)
        refused(d, row, "none could be made", why > 0 ? strerror(why) : "the try did not end well");
    else if (most < 0)
        doctor_ok(row, "one was made");
    else
        doctor_ok(row, "one was made; at most %lld a user", (long long)most);
}

typedef struct kind {
    int flag;
    const char *name;
} kind;

static const kind kinds[] = {
    {CLONE_NEWNS, "mount"}, {CLONE_NEWPID, "pid"}, {CLONE_NEWNET, "network"},
    {CLONE_NEWIPC, "ipc"},  {CLONE_NEWUTS, "uts"}, {CLONE_NEWCGROUP, "cgroup"},
};

enum { NO_USER_NAMESPACE = 64 };

/* A bit for each that is refused. */
static int try_kinds(void)
{
    int missing = 0;
    if (unshare(CLONE_NEWUSER) < 0)
        return NO_USER_NAMESPACE;
    for (size_t i = 0; i < BOX_COUNT(kinds); i++)
        missing |= unshare(kinds[i].flag) < 0 ? 1 << i : 0;
    return missing;
}

static void check_kinds(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)check;
    char names[128] = "";
    int missing = machine_in_child(try_kinds);
    if (missing == NO_USER_NAMESPACE) {
        doctor_skip(row, "needs a user namespace");
        return;
    }
    for (size_t i = 0; i < BOX_COUNT(kinds); i++) {
        size_t len = strlen(names);
        if ((missing & (1 << i)) != 0)
            (void)snprintf(names + len, sizeof names - len, "%s%s", len > 0 ? ", " : "",
                           kinds[i].name);
    }
    if (missing == 0)
        doctor_ok(row, "mount, pid, network, ipc, uts and cgroup were made");
    else
        refused(d, row, "some could not be made", names);
}

/* Debian's switch, and Ubuntu's. */
static void check_unprivileged(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)check;
    int64_t clone = 1;
    int64_t apparmor = 0;
    bool debian = machine_number("/proc/sys/kernel/unprivileged_userns_clone", &clone);
    bool ubuntu =
        machine_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", &apparmor);
    const char *name = clone == 0 ? "kernel.unprivileged_userns_clone=0"
                                  : "kernel.apparmor_restrict_unprivileged_userns=1";
    if (!debian && !ubuntu)
        doctor_skip(row, "this kernel has no switch for them");
    else if (clone != 0 && apparmor == 0)
        doctor_ok(row, "allowed");
    else if (d->is_root)
        doctor_ok(row, "%s: only root makes them, which box-warden is", name);
    else {
        doctor_warn(row, "%s: only root makes them", name);
        doctor_fix(row, "run box-warden as root, or: sysctl -w %s",
                   clone == 0 ? "kernel.unprivileged_userns_clone=1"
                              : "kernel.apparmor_restrict_unprivileged_userns=0");
    }
}

/* --- filters ---------------------------------------------------------------------------------- */

static void check_seccomp(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)d;
    (void)check;
    const uint32_t actions[] = {SECCOMP_RET_ERRNO, SECCOMP_RET_KILL_PROCESS};
    for (size_t i = 0; i < BOX_COUNT(actions); i++) {
        uint32_t action = actions[i];
        if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0)
            continue;
        doctor_fail(row, "filters are not available: %s", strerror(errno));
        doctor_fix(row, "use a kernel with CONFIG_SECCOMP_FILTER");
        return;
    }
    doctor_ok(row, "filters are available");
}

static void check_landlock(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)d;
    (void)check;
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_VERSION);
    if (abi > 0) {
        doctor_ok(row, "ABI %ld", abi);
        return;
    }
    doctor_warn(row, "not available: %s",
                errno == EOPNOTSUPP ? "switched off at boot" : "not in this kernel");
    doctor_fix(row, errno == EOPNOTSUPP
                        ? "add landlock to the kernel's parameter lsm="
                        : "a second wall around unpacking archives is missing: use a kernel with "
                          "CONFIG_SECURITY_LANDLOCK");
}

static void check_loop(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)check;
    BOX_AUTO(box_closep) int fd = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (fd < 0 && (errno == EACCES || errno == EPERM) && !d->is_root) {
        doctor_skip(row, "/dev/loop-control is there; using it needs root");
        return;
    }
    int number = fd >= 0 ? ioctl(fd, LOOP_CTL_GET_FREE) : -1;
    if (number >= 0) {
        doctor_ok(row, "/dev/loop%d is free", number);
        return;
    }
    doctor_warn(row, "none can be had: %s", strerror(errno));
    doctor_fix(row,
               "modprobe loop; workspaces above 256 MiB, and persistent ones on disk, need them "
               "(box-warden's disk.directory)");
}

const doctor_check doctor_kernel_checks[] = {
    {.name = "kernel", .run = check_kernel},
    {.name = "user namespaces", .run = check_user},
    {.name = "other namespaces", .run = check_kinds},
    {.name = "unprivileged namespaces", .run = check_unprivileged},
    {.name = "seccomp", .run = check_seccomp},
    {.name = "landlock", .run = check_landlock},
    {.name = "loop devices", .run = check_loop},
    {0},
};
