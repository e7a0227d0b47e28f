#include "agent/privilege.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/process.h"

enum { COMMAND_DESCRIPTORS = 1024, LAST_CAPABILITY = 63 };

static const uint64_t three =
    (1u << CAP_KILL) | (1u << CAP_SETUID) | (1u << CAP_SETGID); /* all below 32 */

static int get_capabilities(uint64_t *permitted, box_error *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) < 0)
        return box_fail_errno(err, "read capabilities");
    *permitted = data[0].permitted | (uint64_t)data[1].permitted << 32;
    return 0;
}

/* Lowering permitted and inheritable lowers the ambient set with them (capabilities(7)). */
static int set_capabilities(uint64_t held, box_error *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {
        {.effective = (uint32_t)held, .permitted = (uint32_t)held}, {0}};
    if (syscall(SYS_capset, &header, data) < 0)
        return box_fail_errno(err, "drop capabilities");
    return 0;
}

static int empty_bounding_set(box_error *err)
{
    for (unsigned long cap = 0; cap <= LAST_CAPABILITY; cap++) {
        int is = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);
        if (is > 0 && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            return box_fail_errno(err, "empty the bounding set");
        if (is < 0)
            break; /* the kernel knows no more */
    }
    return 0;
}

static int close_off(box_error *err)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return box_fail_errno(err, "give up privileges");
    return 0;
}

int box_privilege_keep_none(box_error *err)
{
    return close_off(err) < 0 ? -1 : set_capabilities(0, err);
}

int box_privilege_keep_three(box_error *err)
{
    uint64_t permitted = 0;
    if (get_capabilities(&permitted, err) < 0)
        return -1;
    if ((permitted & three) != three)
        return box_fail(err, BOX_PERMISSION, "needs the capabilities KILL, SETUID and SETGID");
    if (close_off(err) < 0)
        return -1;
    /* Without SETPCAP (an engine gave exactly the three) the set stays: no_new_privs makes it
     * worthless, since no exec gains anything. */
    if ((permitted & (1u << CAP_SETPCAP)) != 0 && empty_bounding_set(err) < 0)
        return -1;
    return set_capabilities(three, err);
}

/* Only ever lowered: the caller's own limit may be less. */
static int limit_processes(rlim_t most, box_error *err)
{
    struct rlimit now;
    if (getrlimit(RLIMIT_NPROC, &now) < 0)
        return box_fail_errno(err, "read the limit of processes");
    if (most > now.rlim_max)
        most = now.rlim_max;
    struct rlimit both = {most, most};
    return setrlimit(RLIMIT_NPROC, &both) < 0 ? box_fail_errno(err, "set limits") : 0;
}

int box_privilege_prepare_commands(bool one_user, uint32_t max_processes, box_error *err)
{
    struct rlimit files;
    if (!one_user && getgroups(0, NULL) > 0 && syscall(SYS_setgroups, 0, NULL) < 0)
        return box_fail_errno(err, "drop supplementary groups");
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return box_fail_errno(err, "read the descriptor limit");
    if (files.rlim_max == RLIM_INFINITY || files.rlim_max > COMMAND_DESCRIPTORS)
        files.rlim_cur = COMMAND_DESCRIPTORS;
    else
        files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) < 0)
        return box_fail_errno(err, "set limits");
    if (max_processes > 0 && limit_processes(max_processes, err) < 0)
        return -1;
    return box_process_forbid_core(err);
}

int box_privilege_load_filter(const struct sock_filter *program, size_t count, box_error *err)
{
    /* The kernel only reads it; the field is not const. */
    struct sock_fprog prog = {.len = (unsigned short)count,
                              .filter = (struct sock_filter *)(uintptr_t)program};
    if (count > BPF_MAXINSNS)
        return box_fail(err, BOX_VALIDATION, "a seccomp program of %zu instructions", count);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
        return box_fail_errno(err, "load the seccomp program");
    return 0;
}

void box_privilege_raise_descriptors(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return;
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files); /* starts fail typed when they run out */
}

void box_privilege_close_from(unsigned first)
{
    struct rlimit files;
    if (syscall(SYS_close_range, first, ~0u, 0u) == 0)
        return;
    /* Before 5.9, or refused: one by one, as far as any can be open. */
    rlim_t last = getrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_max : 65536;
    last = last < 1048576 ? last : 1048576;
    for (rlim_t fd = first; fd < last; fd++)
        (void)close((int)fd); /* most are not open */
}
