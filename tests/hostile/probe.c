/* Compiled and run inside a sandbox: asks the kernel for what a command must not get and prints one
 * line for each, "NAME ERRNO" (0 = it worked). The test says which errors are refusals. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *name, long rc)
{
    printf("%s %d\n", name, rc < 0 ? errno : 0);
    fflush(stdout);
}

#define TRY(name, ...) say(name, syscall(__VA_ARGS__))

static void kernel_surface(void)
{
    char buf[256] = {0};
    uint64_t attr[16] = {0};
    TRY("io_uring_setup", SYS_io_uring_setup, 8, buf);
    TRY("keyctl", SYS_keyctl, 0, -3, 1);
    TRY("add_key", SYS_add_key, "user", "x", "y", 1, -3);
    TRY("request_key", SYS_request_key, "user", "x", NULL, 0);
    TRY("bpf", SYS_bpf, 0, attr, sizeof attr);
    TRY("userfaultfd", SYS_userfaultfd, 1 /* UFFD_USER_MODE_ONLY */);
    TRY("perf_event_open", SYS_perf_event_open, attr, 0, -1, -1, 0);
    TRY("kexec_load", SYS_kexec_load, 0, 0, NULL, 0);
    TRY("init_module", SYS_init_module, buf, 1, "");
    TRY("finit_module", SYS_finit_module, 0, "", 0);
    TRY("delete_module", SYS_delete_module, "x", 0);
    TRY("open_by_handle_at", SYS_open_by_handle_at, AT_FDCWD, buf, 0);
    TRY("name_to_handle_at", SYS_name_to_handle_at, AT_FDCWD, "/", buf, &buf[128], 0);
    TRY("syslog", SYS_syslog, 10, NULL, 0);
    TRY("reboot", SYS_reboot, 0, 0, 0, NULL);
    TRY("swapon", SYS_swapon, "/workspace", 0);
    TRY("acct", SYS_acct, "/workspace/a");
    TRY("iopl", SYS_iopl, 3);
    TRY("ioperm", SYS_ioperm, 0, 1, 1);
    TRY("modify_ldt", SYS_modify_ldt, 0, buf, sizeof buf);
    TRY("kcmp", SYS_kcmp, 1, 1, 0, 0, 0);
    TRY("memfd_secret", SYS_memfd_secret, 0);
    TRY("fanotify_init", SYS_fanotify_init, 0x200, 0);
    TRY("lookup_dcookie", SYS_lookup_dcookie, 0, buf, sizeof buf);
    TRY("quotactl", SYS_quotactl, 0, "/", 0, NULL);
    TRY("vhangup", SYS_vhangup);
    TRY("mbind", SYS_mbind, 0, 0, 0, NULL, 0, 0);
    TRY("move_pages", SYS_move_pages, 0, 0, NULL, NULL, NULL, 0);
    TRY("settimeofday", SYS_settimeofday, buf, NULL);
    TRY("clock_settime", SYS_clock_settime, 0, buf);
    TRY("adjtimex", SYS_adjtimex, attr);
    TRY("sethostname", SYS_sethostname, "x", 1);
    TRY("io_setup", SYS_io_setup, 16, attr);
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog filter = {.len = 1, .filter = &allow};
    TRY("seccomp", SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter);
    TRY("prctl_seccomp", SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0);
    int s = socket(AF_UNIX, SOCK_DGRAM, 0);
    say("socket_filter", setsockopt(s, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter));
    say("reuseport_filter",
        setsockopt(s, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &filter, sizeof filter));
    say("mmap_hugetlb", mmap(NULL, 1 << 21, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB,
                             -1, 0) == MAP_FAILED
                            ? -1
                            : 0);
    TRY("memfd_hugetlb", SYS_memfd_create, "x", MFD_HUGETLB);
    TRY("shm_hugetlb", SYS_shmget, 0, 1 << 21, IPC_CREAT | 0600 | SHM_HUGETLB);
    TRY("openat2", SYS_openat2, AT_FDCWD, "/", attr, 24);
    TRY("fchmodat2", 452, AT_FDCWD, "/workspace", 0755, 0);
}

static void namespaces(void)
{
    struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    TRY("unshare_user", SYS_unshare, CLONE_NEWUSER);
    TRY("unshare_net", SYS_unshare, CLONE_NEWNET);
    TRY("unshare_mount", SYS_unshare, CLONE_NEWNS);
    TRY("clone_user", SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
    TRY("clone_mount", SYS_clone, CLONE_NEWNS | SIGCHLD, NULL, NULL, NULL, NULL);
    TRY("clone3_user", SYS_clone3, &args, sizeof args);
    args.flags = CLONE_NEWNS;
    TRY("clone3_mount", SYS_clone3, &args, sizeof args);
    args.flags = CLONE_NEWNET;
    TRY("clone3_net", SYS_clone3, &args, sizeof args);
    TRY("setns", SYS_setns, open("/proc/self/ns/mnt", O_RDONLY), 0);
    TRY("chroot", SYS_chroot, "/workspace");
    TRY("pivot_root", SYS_pivot_root, "/", "/workspace");
    TRY("mount_tmpfs", SYS_mount, "x", "/workspace", "tmpfs", 0, NULL);
    TRY("mount_bind", SYS_mount, "/proc/1/root", "/workspace", NULL, MS_BIND, NULL);
    TRY("remount_usr", SYS_mount, NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL);
    TRY("umount", SYS_umount2, "/usr", MNT_DETACH);
    TRY("open_tree", SYS_open_tree, AT_FDCWD, "/", 1);
    TRY("move_mount", SYS_move_mount, AT_FDCWD, "/usr", AT_FDCWD, "/workspace", 0);
    TRY("fsopen", SYS_fsopen, "proc", 0);
    TRY("mount_setattr", SYS_mount_setattr, AT_FDCWD, "/", 0, NULL, 0);
}

static void agent(void)
{
    char byte;
    struct iovec local = {&byte, 1};
    struct iovec remote = {(void *)0x400000, 1};
    struct rlimit limit = {3, 3};
    struct sched_param param = {0};
    TRY("ptrace_attach_1", SYS_ptrace, PTRACE_ATTACH, 1, 0, 0);
    TRY("ptrace_seize_1", SYS_ptrace, PTRACE_SEIZE, 1, 0, 0);
    TRY("ptrace_seize_2", SYS_ptrace, PTRACE_SEIZE, 2, 0, 0);
    TRY("vm_readv_1", SYS_process_vm_readv, 1, &local, 1, &remote, 1, 0);
    TRY("vm_writev_1", SYS_process_vm_writev, 1, &local, 1, &remote, 1, 0);
    TRY("vm_readv_2", SYS_process_vm_readv, 2, &local, 1, &remote, 1, 0);
    TRY("prlimit_1", SYS_prlimit64, 1, RLIMIT_NOFILE, &limit, NULL);
    TRY("prlimit_2", SYS_prlimit64, 2, RLIMIT_CPU, &limit, NULL);
    TRY("kill_1", SYS_kill, 1, SIGKILL);
    TRY("kill_2", SYS_kill, 2, SIGKILL);
    TRY("stop_2", SYS_kill, 2, SIGSTOP);
    TRY("sched_1", SYS_sched_setscheduler, 1, SCHED_IDLE, &param);
    TRY("setpriority_1", SYS_setpriority, PRIO_PROCESS, 1, 19);
    TRY("setpriority_2", SYS_setpriority, PRIO_PROCESS, 2, 19);
    TRY("ioprio_1", SYS_ioprio_set, 1, 1, 3 << 13);
    long pidfd = syscall(SYS_pidfd_open, 1, 0);
    TRY("pidfd_getfd_1", SYS_pidfd_getfd, pidfd, 3, 0);
    TRY("pidfd_signal_1", SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
    pidfd = syscall(SYS_pidfd_open, 2, 0);
    TRY("pidfd_getfd_2", SYS_pidfd_getfd, pidfd, 3, 0);
    TRY("madvise_2", SYS_process_madvise, pidfd, &remote, 1, 21 /* MADV_PAGEOUT */, 0);
    static const char *const files[] = {"mem",   "maps",    "environ", "exe",
                                        "root",  "cwd",     "fd/3",    "auxv",
                                        "stack", "syscall", "ns/mnt",  "map_files"};
    for (int pid = 1; pid <= 2; pid++) {
        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
            char path[64];
            char name[64];
            snprintf(path, sizeof path, "/proc/%d/%s", pid, files[i]);
            snprintf(name, sizeof name, "proc_%d_%s", pid, files[i]);
            say(name, open(path, O_RDONLY));
        }
        char path[64];
        static const char *const writable[] = {"oom_score_adj", "comm",       "timerslack_ns",
                                               "autogroup",     "clear_refs", "coredump_filter"};
        for (size_t i = 0; i < sizeof writable / sizeof *writable; i++) {
            char name[64];
            snprintf(path, sizeof path, "/proc/%d/%s", pid, writable[i]);
            snprintf(name, sizeof name, "write_%d_%s", pid, writable[i]);
            int fd = open(path, O_WRONLY);
            say(name, fd < 0 ? -1 : write(fd, "1", 1));
        }
    }
}

static void set_ids(void)
{
    int fd = open("/workspace/f", O_CREAT | O_RDWR, 0755);
    say("chmod_suid", chmod("/workspace/f", 04755));
    say("fchmod_sgid", fchmod(fd, 02755));
    say("fchmodat_suid", fchmodat(AT_FDCWD, "/workspace/f", 06755, 0));
    TRY("chmod_high", SYS_chmod, "/workspace/f", 0x100000000UL | 04755);
    TRY("open_suid", SYS_open, "/workspace/g", O_CREAT | O_WRONLY, 04755);
    TRY("openat_suid", SYS_openat, AT_FDCWD, "/workspace/h", O_CREAT | O_WRONLY, 04755);
    TRY("openat_tmpfile_suid", SYS_openat, AT_FDCWD, "/workspace", O_TMPFILE | O_WRONLY, 04755);
    TRY("creat_suid", SYS_creat, "/workspace/i", 04755);
    TRY("mknod_suid", SYS_mknod, "/workspace/j", S_IFREG | 04755, 0);
    TRY("mknodat_suid", SYS_mknodat, AT_FDCWD, "/workspace/k", S_IFREG | 04755, 0);
    TRY("mknod_char", SYS_mknod, "/workspace/l", S_IFCHR | 0666, 0x0101);
    TRY("mknod_block", SYS_mknod, "/workspace/m", S_IFBLK | 0666, 0xfe00);
    say("setxattr_caps",
        syscall(SYS_setxattr, "/workspace/f", "security.capability",
                "\1\0\0\2\377\377\377\377\377\377\377\377\0\0\0\0\0\0\0\0", 20, 0));
    say("setuid_0", setuid(0));
    TRY("setresuid_0", SYS_setresuid, 0, 0, 0);
    TRY("setgroups", SYS_setgroups, 0, NULL);
    TRY("chown_0", SYS_chown, "/workspace/f", 0, 0);
    say("capset", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 0, 0, 0));
    struct rlimit core = {RLIM_INFINITY, RLIM_INFINITY};
    say("rlimit_core", setrlimit(RLIMIT_CORE, &core));
    say("mkdir_sgid", mkdir("/workspace/n", 02777));
}

static void terminals(void)
{
    int fd = open("/dev/ptmx", O_RDWR);
    char c = 'x';
    TRY("tiocsti", SYS_ioctl, fd, 0x5412UL, &c);
    TRY("tioclinux", SYS_ioctl, fd, 0x541CUL, &c);
    TRY("tiocsti_high", SYS_ioctl, fd, 0x100005412UL, &c);
    TRY("tioclinux_high", SYS_ioctl, fd, 0x10000541CUL, &c);
    say("dev_tty", open("/dev/tty", O_RDWR));
    int pipes[2];
    say("pipe", pipe(pipes));
    TRY("pipe_size", SYS_fcntl, pipes[0], 1031UL, 1UL << 20);
    TRY("pipe_size_high", SYS_fcntl, pipes[0], 0x100000000UL | 1031UL, 1UL << 20);
    TRY("pipe_size_stdout", SYS_fcntl, 1, 1031UL, 4096UL);
}

static void sockets(void)
{
    static const struct {
        const char *name;
        int family, type, protocol;
    } rows[] = {
        {"vsock", 40, SOCK_STREAM, 0},      {"packet", 17, SOCK_RAW, 0},
        {"netlink_audit", 16, SOCK_RAW, 9}, {"netlink_uevent", 16, SOCK_RAW, 15},
        {"netlink_nft", 16, SOCK_RAW, 12},  {"alg", 38, SOCK_SEQPACKET, 0},
        {"bluetooth", 31, SOCK_RAW, 0},     {"can", 29, SOCK_RAW, 1},
        {"raw_icmp", AF_INET, SOCK_RAW, 1}, {"raw6_icmp", AF_INET6, SOCK_RAW, 58},
        {"xdp", 44, SOCK_RAW, 0},           {"key", 15, SOCK_RAW, 2},
        {"smc", 43, SOCK_STREAM, 0},        {"tipc", 30, SOCK_SEQPACKET, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        say(rows[i].name, socket(rows[i].family, rows[i].type, rows[i].protocol));
    TRY("vsock_high", SYS_socket, 0x100000000UL | 40, SOCK_STREAM, 0);
}

/* The tables of other architectures: killed, or not there. In a child, since a kill is fine. */
static void other_table(const char *name, bool x32)
{
    pid_t pid = fork();
    if (pid == 0) {
        long rc = 20; /* getpid of i386 */
        if (x32)
            rc = syscall(0x40000000L | SYS_getpid);
        else
            __asm__ volatile("int $0x80" : "+a"(rc) : : "memory");
        _exit(rc > 0 ? 0 : 1);
    }
    int status = 0;
    (void)waitpid(pid, &status, 0);
    errno = EPERM;
    say(name, WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1);
}

int main(void)
{
    kernel_surface();
    namespaces();
    set_ids();
    terminals();
    sockets();
    other_table("int80", false);
    other_table("x32", true);
    agent();
    return 0;
}
