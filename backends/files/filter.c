#include "files/filter.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define THIS_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCH AUDIT_ARCH_AARCH64
#else
#error "say which architecture this is (linux/audit.h)"
#endif

/* Beside file work: memory, the socket, the clock, and what the C library does by itself. */
static const uint32_t allowed[] = {
    SYS_openat2,    SYS_openat,       SYS_close,           SYS_read,       SYS_write,
    SYS_pread64,    SYS_pwrite64,     SYS_lseek,           SYS_fstat,      SYS_newfstatat,
    SYS_fstatfs,    SYS_statx,        SYS_getdents64,      SYS_readlinkat, SYS_mkdirat,
    SYS_unlinkat,   SYS_linkat,       SYS_renameat,        SYS_renameat2,  SYS_ftruncate,
    SYS_symlinkat,  SYS_utimensat,    SYS_recvfrom,        SYS_sendto,     SYS_poll,
    SYS_ppoll,      SYS_mmap,         SYS_munmap,          SYS_mremap,     SYS_mprotect,
    SYS_madvise,    SYS_brk,          SYS_clock_gettime,   SYS_getrandom,  SYS_exit,
    SYS_exit_group, SYS_rt_sigreturn, SYS_restart_syscall, SYS_futex,      SYS_getpid,
    SYS_gettid,     SYS_tgkill,       SYS_rt_sigprocmask,  SYS_faccessat,  SYS_copy_file_range,
};

enum { HEAD = 4, EACH = 2, TAIL = 8 };

/* A set-id file in a host_path mount is the host's danger. openat2's mode is out of a filter's
 * reach; the program never creates by it. */
static size_t add_modes(struct sock_filter *out)
{
    static const uint32_t modes = S_ISUID | S_ISGID;
    const struct sock_filter code[] = {
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fchmod, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, modes, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1 /* EPERM */),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    for (size_t i = 0; i < BOX_COUNT(code); i++)
        out[i] = code[i];
    return BOX_COUNT(code);
}

int box_files_filter(box_error *err)
{
    struct sock_filter code[HEAD + EACH * BOX_COUNT(allowed) + TAIL];
    size_t n = 0;
    code[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCH, 1, 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    code[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < BOX_COUNT(allowed); i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    n += add_modes(code + n);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1 /* EPERM */);
    struct sock_fprog program = {.len = (unsigned short)n, .filter = code};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
        return box_fail_errno(err, "load the seccomp program");
    return 0;
}
