/* Runs the seccomp program itself, on a machine of a few lines. */
#include "namespace/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cmocka.h>

#if defined(__x86_64__)
#define ARCH  AUDIT_ARCH_X86_64
#define OTHER AUDIT_ARCH_I386
#else
#define ARCH  AUDIT_ARCH_AARCH64
#define OTHER AUDIT_ARCH_ARM
#endif

static box_buf program;

static bool jumps(const struct sock_filter *i, uint32_t a)
{
    switch (BPF_OP(i->code)) {
    case BPF_JEQ:
        return a == i->k;
    case BPF_JGT:
        return a > i->k;
    case BPF_JGE:
        return a >= i->k;
    case BPF_JSET:
        return (a & i->k) != 0;
    default:
        fail_msg("a jump of kind %x", i->code);
        return false;
    }
}

/* What the kernel would do with this call. */
static uint32_t run(const struct seccomp_data *data)
{
    const struct sock_filter *code = (const void *)box_buf_data(&program);
    size_t n = box_buf_len(&program) / sizeof *code;
    uint32_t a = 0;
    for (size_t at = 0; at < n; at++) {
        const struct sock_filter *i = &code[at];
        if (i->code == (BPF_LD | BPF_W | BPF_ABS)) {
            assert_true(i->k + sizeof a <= sizeof *data);
            memcpy(&a, (const char *)data + i->k, sizeof a);
        } else if (i->code == (BPF_JMP | BPF_JA)) {
            at += i->k;
        } else if (BPF_CLASS(i->code) == BPF_JMP) {
            at += jumps(i, a) ? i->jt : i->jf;
        } else if (i->code == (BPF_RET | BPF_K)) {
            return i->k;
        } else {
            fail_msg("an instruction of kind %x", i->code);
        }
    }
    fail_msg("the program runs off its end");
    return 0;
}

static uint32_t call(int nr, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3)
{
    const struct seccomp_data data = {.nr = nr, .arch = ARCH, .args = {a0, a1, a2, a3}};
    return run(&data);
}

static void allowed(int nr, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3)
{
    assert_int_equal(call(nr, a0, a1, a2, a3), SECCOMP_RET_ALLOW);
}

static void refused(int nr, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, int error)
{
    assert_int_equal(call(nr, a0, a1, a2, a3), SECCOMP_RET_ERRNO | (uint32_t)error);
}

static void everyday_calls_are_allowed(void **state)
{
    (void)state;
    static const int calls[] = {SYS_read,   SYS_write,  SYS_mmap,     SYS_execve, SYS_wait4,
                                SYS_futex,  SYS_openat, SYS_clone3,   SYS_ioctl,  SYS_fcntl,
                                SYS_socket, SYS_rseq,   SYS_prlimit64};
    for (size_t i = 0; i < BOX_COUNT(calls); i++)
        allowed(calls[i], calls[i] == SYS_socket ? AF_UNIX : 0, 0, 0, 0);
}

static void dangerous_calls_are_not(void **state)
{
    (void)state;
    static const int calls[] = {SYS_mount,      SYS_umount2,           SYS_unshare, SYS_setns,
                                SYS_bpf,        SYS_perf_event_open,   SYS_keyctl,  SYS_add_key,
                                SYS_chroot,     SYS_open_by_handle_at, SYS_reboot,  SYS_init_module,
                                SYS_kexec_load, SYS_userfaultfd};
    for (size_t i = 0; i < BOX_COUNT(calls); i++)
        refused(calls[i], 0, 0, 0, 0, EPERM);
    static const int absent[] = {SYS_io_uring_setup, SYS_openat2, 452 /* fchmodat2 */, 9999};
    for (size_t i = 0; i < BOX_COUNT(absent); i++)
        refused(absent[i], 0, 0, 0, 0, ENOSYS);
}

static void terminal_pushing_is_refused_in_the_low_word(void **state)
{
    (void)state;
    refused(SYS_ioctl, 0, TIOCSTI, 0, 0, EPERM);
    refused(SYS_ioctl, 0, 0x100005412, 0, 0, EPERM);
    refused(SYS_ioctl, 0, 0xffffffff00005412, 0, 0, EPERM);
    refused(SYS_ioctl, 0, TIOCLINUX, 0, 0, EPERM);
    allowed(SYS_ioctl, 0, TCGETS, 0, 0);
    allowed(SYS_ioctl, 0, TIOCGWINSZ, 0, 0);
    refused(SYS_fcntl, 0, F_SETPIPE_SZ, 0, 0, EPERM);
    allowed(SYS_fcntl, 0, F_GETPIPE_SZ, 0, 0);
}

static void namespaces_are_refused_in_clone(void **state)
{
    (void)state;
    allowed(SYS_clone, 17, 0, 0, 0);
    allowed(SYS_clone, CLONE_VM | CLONE_FS | CLONE_THREAD, 0, 0, 0);
    static const uint64_t flags[] = {CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,   CLONE_NEWNET,
                                     CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP};
    for (size_t i = 0; i < BOX_COUNT(flags); i++)
        refused(SYS_clone, flags[i] | 17, 0, 0, 0, EPERM);
}

static void only_four_socket_families_are_left(void **state)
{
    (void)state;
    for (uint64_t family = 0; family < 64; family++) {
        bool ours =
            family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK;
        if (ours)
            allowed(SYS_socket, family, SOCK_STREAM, 0, 0);
        else
            refused(SYS_socket, family, SOCK_STREAM, 0, 0, EAFNOSUPPORT);
    }
    refused(SYS_socket, AF_NETLINK, SOCK_RAW, 12 /* NETLINK_NETFILTER */, 0, EPROTONOSUPPORT);
    allowed(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, 0);
    refused(SYS_socketpair, AF_VSOCK, SOCK_STREAM, 0, 0, EAFNOSUPPORT);
}

static void set_id_bits_are_refused_where_a_mode_is_given(void **state)
{
    (void)state;
    static const uint64_t bad[] = {04755, 02755, 06755, 0xffffffff00000000 | 04000};
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        refused(SYS_fchmod, 3, bad[i], 0, 0, EPERM);
        refused(SYS_fchmodat, 3, 0, bad[i], 0, EPERM);
        refused(SYS_openat, 3, 0, O_CREAT | O_WRONLY, bad[i], EPERM);
        refused(SYS_openat, 3, 0, O_TMPFILE | O_WRONLY, bad[i], EPERM);
        refused(SYS_mknodat, 3, 0, bad[i], 0, EPERM);
        allowed(SYS_openat, 3, 0, O_RDONLY, bad[i]); /* the register holds anything then */
        allowed(SYS_openat, 3, 0, O_DIRECTORY, bad[i]);
    }
    allowed(SYS_fchmod, 3, 01777, 0, 0);
    allowed(SYS_openat, 3, 0, O_CREAT, 0644);
}

static void another_abi_is_killed(void **state)
{
    (void)state;
    const struct seccomp_data other = {.nr = 4, .arch = OTHER};
    assert_int_equal(run(&other), SECCOMP_RET_KILL_PROCESS);
#if defined(__x86_64__)
    assert_int_equal(call(SYS_read | 0x40000000, 0, 0, 0, 0), SECCOMP_RET_KILL_PROCESS); /* x32 */
#endif
}

static int start(void **state)
{
    (void)state;
    box_error err;
    return box_seccomp_compile(false, &program, &err);
}

static int stop(void **state)
{
    (void)state;
    box_buf_done(&program);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everyday_calls_are_allowed),
        cmocka_unit_test(dangerous_calls_are_not),
        cmocka_unit_test(terminal_pushing_is_refused_in_the_low_word),
        cmocka_unit_test(namespaces_are_refused_in_clone),
        cmocka_unit_test(only_four_socket_families_are_left),
        cmocka_unit_test(set_id_bits_are_refused_where_a_mode_is_given),
        cmocka_unit_test(another_abi_is_killed),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
