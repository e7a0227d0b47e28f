#include "namespace/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "namespace/seccomp_list.h"

/* seccomp's own limit, BPF_MAXINSNS of linux/filter.h. */
enum { MAX_BYTES = BPF_MAXINSNS * sizeof(struct sock_filter) };

typedef enum test { END = 0, ANY_BIT, EQUAL, NOT_EQUAL } test;

/* On the low 32 bits of an argument: the kernel ignores the rest of an int, and so a comparison of
 * all 64 would miss 0x100005412 (CVE-2019-10063). HIGH asks about the other half, of a pointer. */
enum { HIGH = 8 };
typedef struct condition {
    test test;
    uint32_t arg;
    uint32_t value;
} condition;

/* A call that is refused when all conditions hold; error 0: it does nothing and says it did. */
typedef struct refusal {
    const char *name;
    int error;
    condition all[5];
} refusal;

#define NAMESPACES                                                                                 \
    ((uint32_t)CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |       \
     CLONE_NEWPID | CLONE_NEWNET)
#define SET_IDS  ((uint32_t)S_ISUID | S_ISGID)
#define CREATING ((uint32_t)O_CREAT | (O_TMPFILE & ~O_DIRECTORY))
#define NOT_OURS(arg)                                                                              \
    {NOT_EQUAL, arg, AF_UNIX}, {NOT_EQUAL, arg, AF_INET}, {NOT_EQUAL, arg, AF_INET6},              \
    {                                                                                              \
        NOT_EQUAL, arg, AF_NETLINK                                                                 \
    }

static const refusal refusals[] = {
    /* Pushing characters into a terminal that others read (CVE-2017-5226). */
    {"ioctl", EPERM, {{EQUAL, 1, TIOCSTI}}},
    {"ioctl", EPERM, {{EQUAL, 1, TIOCLINUX}}},
    /* Pipes that grow take the memory of all the sandbox's host user. */
    {"fcntl", EPERM, {{EQUAL, 1, F_SETPIPE_SZ}}},
    /* clone3's flags are out of a filter's reach: max_user_namespaces is 0 and no capability. */
    {"clone", EPERM, {{ANY_BIT, 0, NAMESPACES}}},
    /* A network namespace does not hold AF_VSOCK and others (sandbox-facts.md, section 5). */
    {"socket", EAFNOSUPPORT, {NOT_OURS(0)}},
    {"socketpair", EAFNOSUPPORT, {NOT_OURS(0)}},
    {"socket", EPROTONOSUPPORT, {{EQUAL, 0, AF_NETLINK}, {NOT_EQUAL, 2, 0 /* NETLINK_ROUTE */}}},
    /* More programs for bpf_jit_limit: see seccomp_list.c. EINVAL: a kernel without them. */
    {"prctl", EINVAL, {{EQUAL, 0, PR_SET_SECCOMP}}},
    {"setsockopt", EPERM, {{EQUAL, 1, SOL_SOCKET}, {EQUAL, 2, SO_ATTACH_FILTER}}},
    {"setsockopt", EPERM, {{EQUAL, 1, SOL_SOCKET}, {EQUAL, 2, SO_ATTACH_REUSEPORT_CBPF}}},
    /* Reserved huge pages are the host's and no memory limit counts them. */
    {"mmap", ENOMEM, {{ANY_BIT, 3, MAP_HUGETLB}}},
    {"memfd_create", EINVAL, {{ANY_BIT, 1, MFD_HUGETLB}}},
    {"shmget", EPERM, {{ANY_BIT, 2, SHM_HUGETLB}}},
    /* A core limit of 1 byte keeps the kernel from handing a core to the host's crash handler,
     * which runs as root; one of 0 does not (core(5), do_coredump). So it stays, whatever they ask
     * for. */
    {"setrlimit", 0, {{EQUAL, 0, RLIMIT_CORE}}},
    {"prlimit64",
     0,
     {{EQUAL, 1, RLIMIT_CORE}, {ANY_BIT, 2, UINT32_MAX}, {EQUAL, 3, 0}, {EQUAL, 3 + HIGH, 0}}},
    {"prlimit64",
     0,
     {{EQUAL, 1, RLIMIT_CORE},
      {ANY_BIT, 2 + HIGH, UINT32_MAX},
      {EQUAL, 3, 0},
      {EQUAL, 3 + HIGH, 0}}},
    {"prlimit64", EPERM, {{EQUAL, 1, RLIMIT_CORE}, {ANY_BIT, 2, UINT32_MAX}}},
    {"prlimit64", EPERM, {{EQUAL, 1, RLIMIT_CORE}, {ANY_BIT, 2 + HIGH, UINT32_MAX}}},
    /* A set-id file in a host_path mount is the host's danger, not ours. */
    {"chmod", EPERM, {{ANY_BIT, 1, SET_IDS}}},
    {"fchmod", EPERM, {{ANY_BIT, 1, SET_IDS}}},
    {"fchmodat", EPERM, {{ANY_BIT, 2, SET_IDS}}},
    {"creat", EPERM, {{ANY_BIT, 1, SET_IDS}}},
    {"open", EPERM, {{ANY_BIT, 1, CREATING}, {ANY_BIT, 2, SET_IDS}}},
    {"openat", EPERM, {{ANY_BIT, 2, CREATING}, {ANY_BIT, 3, SET_IDS}}},
    {"mknod", EPERM, {{ANY_BIT, 1, SET_IDS}}},
    {"mknodat", EPERM, {{ANY_BIT, 2, SET_IDS}}},
};

/* Of other processes; 0 is the caller. */
#define OTHERS(arg)                                                                                \
    {                                                                                              \
        {                                                                                          \
            NOT_EQUAL, arg, 0                                                                      \
        }                                                                                          \
    }

static const refusal one_user_refusals[] = {
    {"prlimit64", EPERM, OTHERS(0)},
    {"sched_setaffinity", EPERM, OTHERS(0)},
    {"sched_setattr", EPERM, OTHERS(0)},
    {"sched_setparam", EPERM, OTHERS(0)},
    {"sched_setscheduler", EPERM, OTHERS(0)},
    {"setpriority", EPERM, OTHERS(0)}, /* PRIO_PROCESS is 0 */
    {"setpriority", EPERM, OTHERS(1)},
    {"ioprio_set", EPERM, {{NOT_EQUAL, 0, 1 /* IOPRIO_WHO_PROCESS */}}},
    {"ioprio_set", EPERM, OTHERS(1)},
};

static struct sock_filter load(size_t offset)
{
    return (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset);
}

static size_t word_of(uint32_t arg)
{
    size_t at = offsetof(struct seccomp_data, args) + arg % HIGH * sizeof(uint64_t);
    bool high = arg >= HIGH;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    high = !high;
#endif
    return at + (high ? sizeof(uint32_t) : 0);
}

/* if (nr == NR && conditions) return ERRNO; else falls through to what comes next. Each miss jumps
 * over the rest of the rule. */
static int add_refusal(box_buf *out, int nr, const refusal *r, box_error *err)
{
    size_t conditions = 0;
    while (conditions < BOX_COUNT(r->all) && r->all[conditions].test != END)
        conditions++;
    struct sock_filter code[2 + 2 * BOX_COUNT(r->all) + 1];
    uint8_t left = (uint8_t)(2 * conditions + 1); /* instructions after the current jump */
    size_t n = 0;
    code[n++] = load(offsetof(struct seccomp_data, nr));
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, left);
    for (size_t i = 0; i < conditions; i++) {
        const condition *c = &r->all[i];
        left = (uint8_t)(left - 2);
        uint16_t op = c->test == ANY_BIT ? BPF_JSET : BPF_JEQ;
        bool negated = c->test == NOT_EQUAL;
        code[n++] = load(word_of(c->arg));
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | op | BPF_K, c->value, negated ? left : 0,
                                                 negated ? 0 : left);
    }
    code[n++] =
        (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)r->error);
    return box_buf_add(out, code, n * sizeof code[0], err);
}

static int add_refusals(box_buf *out, const refusal *all, size_t count, box_error *err)
{
    for (size_t i = 0; i < count; i++) {
        int nr = seccomp_syscall_resolve_name(all[i].name);
        if (nr >= 0 && add_refusal(out, nr, &all[i], err) < 0)
            return -1;
    }
    return 0;
}

static int add_rules(scmp_filter_ctx ctx, const char *const *names, uint32_t action, box_error *err)
{
    for (size_t i = 0; names[i] != NULL; i++) {
        int nr = seccomp_syscall_resolve_name(names[i]);
        if (nr < 0)
            continue; /* not on this architecture, or newer than the library */
        int rc = seccomp_rule_add(ctx, action, nr, 0);
        if (rc < 0) {
            errno = -rc;
            return box_fail_errno(err, "seccomp rule for %s", names[i]);
        }
    }
    return 0;
}

static void releasep(scmp_filter_ctx *ctx)
{
    if (*ctx != NULL)
        seccomp_release(*ctx);
}

int box_seccomp_compile(bool one_user, box_buf *out, box_error *err)
{
    /* Unknown calls do not exist: libraries then try their older ways. */
    BOX_AUTO(releasep) scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    if (ctx == NULL)
        return box_fail(err, BOX_INTERNAL, "libseccomp does not start");
    if (seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) < 0 ||
        seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2) < 0)
        return box_fail(err, BOX_INTERNAL, "libseccomp refuses its options");
    if (add_rules(ctx, box_seccomp_allowed, SCMP_ACT_ALLOW, err) < 0 ||
        add_rules(ctx, box_seccomp_refused, SCMP_ACT_ERRNO(EPERM), err) < 0)
        return -1;
    BOX_AUTO(box_closep) int fd = memfd_create("box-filter", MFD_CLOEXEC);
    int rc = fd < 0 ? -errno : seccomp_export_bpf(ctx, fd);
    if (rc < 0) {
        errno = -rc;
        return box_fail_errno(err, "write the seccomp program");
    }
    if (lseek(fd, 0, SEEK_SET) < 0)
        return box_fail_errno(err, "read the seccomp program");
    box_buf_init(out, MAX_BYTES);
    if (one_user && add_refusals(out, one_user_refusals, BOX_COUNT(one_user_refusals), err) < 0)
        return -1;
    if (add_refusals(out, refusals, BOX_COUNT(refusals), err) < 0)
        return -1;
    return box_buf_read_fd(out, fd, err);
}
