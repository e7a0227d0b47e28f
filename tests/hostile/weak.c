/* weak WHAT PROGRAM ARGUMENTS...: runs a program on a weaker host, by a seccomp filter that refuses
 * what such a host refuses. WHAT: old-kernel (ENOSYS for newer calls that Box has another way for),
 * no-clone3 (an engine's profile), no-userns (EPERM, as AppArmor or a sysctl says), no-filters
 * (no more seccomp filters), no-landlock (not in the kernel), landlock-off (at boot). */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST = 32 };

typedef struct filter {
    struct sock_filter code[MOST];
    unsigned short len;
} filter;

static void add(filter *f, struct sock_filter one)
{
    f->code[f->len++] = one;
}

static void load(filter *f, unsigned offset)
{
    add(f, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset));
}

static void refuse(filter *f, long number, unsigned error)
{
    load(f, offsetof(struct seccomp_data, nr));
    add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1));
    add(f, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error));
}

/* When the first argument has that flag. */
static void refuse_flag(filter *f, long number, unsigned flag, unsigned error)
{
    load(f, offsetof(struct seccomp_data, nr));
    add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 3));
    load(f, offsetof(struct seccomp_data, args));
    add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, flag, 0, 1));
    add(f, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error));
}

static int build(filter *f, const char *what)
{
    static const long newer[] = {SYS_clone3, SYS_openat2, SYS_mount_setattr, 452};
    if (strcmp(what, "old-kernel") == 0) {
        for (size_t i = 0; i < sizeof newer / sizeof *newer; i++)
            refuse(f, newer[i], ENOSYS);
    } else if (strcmp(what, "no-clone3") == 0) {
        refuse(f, SYS_clone3, ENOSYS);
    } else if (strcmp(what, "no-userns") == 0) {
        refuse(f, SYS_clone3, ENOSYS);
        refuse_flag(f, SYS_clone, CLONE_NEWUSER, EPERM);
        refuse_flag(f, SYS_unshare, CLONE_NEWUSER, EPERM);
    } else if (strcmp(what, "no-filters") == 0) {
        refuse(f, SYS_seccomp, ENOSYS);
    } else if (strcmp(what, "no-landlock") == 0) {
        refuse(f, SYS_landlock_create_ruleset, ENOSYS);
    } else if (strcmp(what, "landlock-off") == 0) {
        refuse(f, SYS_landlock_create_ruleset, EOPNOTSUPP);
    } else {
        return -1;
    }
    add(f, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    return 0;
}

int main(int argc, char **argv)
{
    filter f = {.len = 0};
    if (argc < 3 || build(&f, argv[1]) < 0)
        return 2;
    struct sock_fprog program = {.len = f.len, .filter = f.code};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0) {
        perror("weak");
        return 2;
    }
    execv(argv[2], argv + 2);
    perror(argv[2]);
    return 2;
}
