/* A bare sandbox: made, used once and removed with nothing but system calls, one after another. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "floor.h"
#include "floor_groups.h"
#include "floor_root.h"

typedef struct bare {
    int program;
    floor_groups *groups;
    floor_template template;
    box_buf filter;
} bare;

/* What its parent makes for one. */
typedef struct parts {
    floor_entries entries;
    int trees[FLOOR_TREES];
    int gate[2];
} parts;

static void parts_done(parts *p)
{
    floor_entries_done(&p->entries);
    for (size_t i = 0; i < FLOOR_TREES; i++)
        box_closep(&p->trees[i]);
    box_closep(&p->gate[0]);
    box_closep(&p->gate[1]);
}

/* --- the filter ------------------------------------------------------------------------------- */

/* As many system calls as Box's list allows, in the same kind of program: a binary tree. Which they
 * are makes no difference to what it costs. */
static int fill_filter(scmp_filter_ctx ctx, box_error *err)
{
    enum { FIRST = 28, END = 335 };
    if (seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2) < 0)
        return box_fail(err, BOX_INTERNAL, "libseccomp refuses its options");
    for (int nr = FIRST; nr < END; nr++) {
        if (seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 0) < 0)
            return box_fail(err, BOX_INTERNAL, "libseccomp refuses call %d", nr);
    }
    return 0;
}

static int make_filter(box_buf *out, box_error *err)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    BOX_AUTO(box_closep) int file = memfd_create("filter", MFD_CLOEXEC);
    if (ctx == NULL || file < 0) {
        seccomp_release(ctx);
        return box_fail_errno(err, "make a seccomp filter");
    }
    int rc = fill_filter(ctx, err);
    if (rc == 0 && (seccomp_export_bpf(ctx, file) < 0 || lseek(file, 0, SEEK_SET) < 0))
        rc = box_fail(err, BOX_INTERNAL, "libseccomp exports nothing");
    seccomp_release(ctx);
    out->max_bytes = BPF_MAXINSNS * sizeof(struct sock_filter);
    return rc < 0 ? -1 : box_buf_read_fd(out, file, err);
}

/* --- in the sandbox --------------------------------------------------------------------------- */

static bool joins(const floor_entries *e)
{
    for (size_t i = 0; i < e->n_tasks; i++) {
        if (write(e->tasks[i], "0", 1) != 1)
            return false;
    }
    return true;
}

static bool has_loopback(void)
{
    int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq lo = {.ifr_name = "lo"};
    lo.ifr_flags = IFF_UP;
    return s >= 0 && ioctl(s, SIOCSIFFLAGS, &lo) == 0 && close(s) == 0;
}

static bool is_locked_down(const box_buf *filter)
{
    const struct sock_fprog program = {
        .len = (unsigned short)(box_buf_len(filter) / sizeof(struct sock_filter)),
        .filter = (struct sock_filter *)(void *)filter->data,
    };
    for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++) {
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            return false;
    }
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

/* Exits with the step that failed: 1 to 6 are floor_root_build's. Raw calls: glibc's own
 * synchronise threads that a cloned child does not have. */
static _Noreturn void live(const bare *b, const parts *p)
{
    char go;
    if (read(p->gate[0], &go, 1) != 1)
        _exit(10);
    if (syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
        _exit(11);
    if (!joins(&p->entries))
        _exit(12);
    if (sethostname("box", 3) < 0 || !has_loopback())
        _exit(13);
    int step = floor_root_build(p->trees);
    if (step != 0)
        _exit(step);
    if (!is_locked_down(&b->filter))
        _exit(14);
    char name[] = "true";
    char *argv[] = {name, NULL};
    char *env[] = {NULL};
    (void)syscall(SYS_execveat, b->program, "", argv, env, AT_EMPTY_PATH);
    _exit(15);
}

/* --- outside ---------------------------------------------------------------------------------- */

static int map_ids(pid_t pid, box_error *err)
{
    static const char *const files[] = {"uid_map", "gid_map"};
    for (size_t i = 0; i < BOX_COUNT(files); i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, files[i]);
        if (box_fd_write_file(AT_FDCWD, path, "0 1879048192 1024", err) < 0)
            return -1;
    }
    return 0;
}

static pid_t clone_sandbox(const parts *p)
{
    struct clone_args args = {
        .flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                 CLONE_NEWUTS | CLONE_NEWCGROUP,
        .exit_signal = SIGCHLD,
    };
    if (p->entries.birth >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)p->entries.birth;
    }
    return (pid_t)syscall(SYS_clone3, &args, sizeof args);
}

static int make_parts(const bare *b, parts *p, box_error *err)
{
    if (floor_groups_make(b->groups, &p->entries, err) < 0 ||
        floor_template_clone(&b->template, p->trees, err) < 0)
        return -1;
    return pipe2(p->gate, O_CLOEXEC) < 0 ? box_fail_errno(err, "pipe") : 0;
}

static int run_one(const bare *b, parts *p, box_error *err)
{
    pid_t pid = clone_sandbox(p);
    if (pid == 0)
        live(b, p);
    if (pid < 0)
        return box_fail_errno(err, "clone3 with seven namespaces");
    int rc = map_ids(pid, err);
    if (rc == 0)
        rc = box_fd_write_all(p->gate[1], "g", 1, err);
    box_closep(&p->gate[0]);
    box_closep(&p->gate[1]); /* a child still waiting sees the end and leaves */
    box_error waited;
    if (bench_wait_zero(pid, "the cloned sandbox", &waited) < 0 && rc == 0) {
        *err = waited;
        rc = -1;
    }
    return rc;
}

static int clone_once(const bare *b, box_error *err)
{
    BOX_AUTO(parts_done) parts p = {.entries.birth = -1, .trees = {-1, -1, -1}, .gate = {-1, -1}};
    int rc = make_parts(b, &p, err);
    if (rc == 0)
        rc = run_one(b, &p, err);
    return rc < 0 ? -1 : floor_groups_remove(b->groups, err);
}

/* Between the process that runs them and the one that reports. */
typedef struct shared {
    box_error error;
    box_time samples[];
} shared;

static int rounds_of(bare *b, size_t rounds, shared *s)
{
    if (make_filter(&b->filter, &s->error) < 0 || floor_template_open(&b->template, &s->error) < 0)
        return -1;
    for (size_t i = 0; i < rounds; i++) {
        box_time t = box_now();
        if (clone_once(b, &s->error) < 0)
            return -1;
        s->samples[i] = box_now() - t;
    }
    return 0;
}

/* In a process of its own: its mounts end with it, and so does what it leaves when it fails. */
static int run_apart(bare *b, size_t rounds, shared *s, box_error *err)
{
    pid_t pid = fork();
    if (pid < 0)
        return box_fail_errno(err, "fork");
    if (pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
            _exit(1);
        (void)rounds_of(b, rounds, s);
        _exit(0);
    }
    if (bench_wait_zero(pid, "the process that makes sandboxes", err) < 0)
        return -1;
    if (s->error.reason == BOX_NONE)
        return 0;
    *err = s->error;
    return -1;
}

static int run_shared(bare *b, size_t rounds, bench_case *out, box_error *err)
{
    size_t bytes = sizeof(shared) + rounds * sizeof(box_time);
    shared *s =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (s == MAP_FAILED)
        return box_fail_errno(err, "map the samples");
    box_time begin = box_now();
    int rc = run_apart(b, rounds, s, err);
    out->wall_ns = box_now() - begin;
    for (size_t i = 0; rc == 0 && i < rounds; i++)
        bench_add(out, s->samples[i]);
    (void)munmap(s, bytes); /* ours, whole */
    return rc;
}

int bench_floor_clone(const char *program, size_t rounds, bench_case *out, box_error *err)
{
    floor_groups groups;
    BOX_AUTO(box_closep) int fd = open(program, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return box_fail_errno(err, "open the program");
    if (floor_groups_open(&groups, err) < 0)
        return -1;
    bare b = {.program = fd, .groups = &groups};
    int rc = run_shared(&b, rounds, out, err);
    floor_groups_close(&groups);
    return rc;
}
