#include "floor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

extern char **environ;

static int wait_zero(pid_t pid, const char *what, box_error *err)
{
    int status;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return box_fail_errno(err, "wait for %s", what);
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return box_fail(err, BOX_INTERNAL, "%s ended with status %#x", what, (unsigned)status);
    return 0;
}

static int spawn_once(const char *program, box_error *err)
{
    pid_t pid;
    char name[] = "true";
    char *argv[] = {name, NULL};
    int rc = posix_spawn(&pid, program, NULL, NULL, argv, environ);
    if (rc != 0)
        return box_fail(err, BOX_INTERNAL, "posix_spawn: %s", strerror(rc));
    return wait_zero(pid, "the spawned program", err);
}

/* In the new namespaces; exits with the step that failed. */
static void sandbox_child(int gate, int program)
{
    static const char *const dirs[] = {"usr", "proc", "tmp", "workspace"};
    char go;
    if (read(gate, &go, 1) != 1)
        _exit(10);
    /* The host's root is not in the map: become the namespace's. */
    if (syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
        _exit(10);
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("root", "/mnt", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m") < 0 || chdir("/mnt") < 0)
        _exit(11);
    for (size_t i = 0; i < BOX_COUNT(dirs); i++) {
        if (mkdir(dirs[i], 0755) < 0)
            _exit(12);
    }
    if (mount("/usr", "usr", NULL, MS_BIND | MS_REC, NULL) < 0 ||
        mount(NULL, "usr", NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) <
            0 ||
        mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0 ||
        mount("tmp", "tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=64m") < 0 ||
        mount("workspace", "workspace", "tmpfs", MS_NOSUID | MS_NODEV, "size=64m") < 0)
        _exit(13);
    if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        _exit(14);
    for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
        (void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        _exit(15);
    char name[] = "true";
    char *argv[] = {name, NULL};
    char *env[] = {NULL};
    (void)syscall(SYS_execveat, program, "", argv, env, AT_EMPTY_PATH);
    _exit(16);
}

static int map_ids(pid_t pid, box_error *err)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/uid_map", (int)pid);
    if (box_fd_write_file(AT_FDCWD, path, "0 1879048192 1024", err) < 0)
        return -1;
    (void)snprintf(path, sizeof path, "/proc/%d/gid_map", (int)pid);
    return box_fd_write_file(AT_FDCWD, path, "0 1879048192 1024", err);
}

static int clone_once(int program, box_error *err)
{
    int gate[2];
    if (pipe2(gate, O_CLOEXEC) < 0)
        return box_fail_errno(err, "pipe");
    struct clone_args args = {
        .flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                 CLONE_NEWUTS | CLONE_NEWCGROUP,
        .exit_signal = SIGCHLD,
    };
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0)
        sandbox_child(gate[0], program);
    BOX_AUTO(box_closep) int reader = gate[0];
    BOX_AUTO(box_closep) int writer = gate[1];
    if (pid < 0)
        return box_fail_errno(err, "clone3 with seven namespaces");
    int rc = map_ids(pid, err);
    if (rc == 0)
        rc = box_fd_write_all(writer, "g", 1, err);
    box_closep(&reader);
    box_closep(&writer); /* a child still waiting sees the end and leaves */
    box_error waited;
    if (wait_zero(pid, "the cloned sandbox", &waited) < 0 && rc == 0) {
        *err = waited;
        rc = -1;
    }
    return rc;
}

int bench_floor_spawn(const char *program, size_t rounds, bench_case *out, box_error *err)
{
    box_time begin = box_now();
    for (size_t i = 0; i < rounds; i++) {
        box_time t = box_now();
        if (spawn_once(program, err) < 0)
            return -1;
        bench_add(out, box_now() - t);
    }
    out->wall_ns = box_now() - begin;
    return 0;
}

/* One of the processes: its times go to `samples`, which the caller reads. */
static _Noreturn void spawn_rounds(const char *program, size_t rounds, box_time *samples)
{
    box_error err;
    for (size_t i = 0; i < rounds; i++) {
        box_time t = box_now();
        if (spawn_once(program, &err) < 0)
            _exit(1);
        samples[i] = box_now() - t;
    }
    _exit(0);
}

/* Waits for all, whatever happened to some. */
static int wait_all(const pid_t *pids, size_t n, box_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < n; i++) {
        if (wait_zero(pids[i], "a process that spawns", err) < 0)
            rc = -1;
    }
    return rc;
}

int bench_floor_spawn_all(const char *program, size_t rounds, bench_case *out, box_error *err)
{
    enum { MAX_CORES = 256 };
    pid_t pids[MAX_CORES];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t n = cores < 1 ? 1 : cores > MAX_CORES ? MAX_CORES : (size_t)cores;
    size_t each = rounds / n + 1;
    size_t bytes = n * each * sizeof(box_time);
    box_time *samples =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (samples == MAP_FAILED)
        return box_fail_errno(err, "map the samples");
    box_time begin = box_now();
    size_t made = 0;
    for (; made < n && (pids[made] = fork()) >= 0; made++) {
        if (pids[made] == 0)
            spawn_rounds(program, each, samples + made * each);
    }
    int rc = made < n ? box_fail_errno(err, "fork") : 0;
    box_error waited;
    if (wait_all(pids, made, &waited) < 0 && rc == 0) {
        *err = waited;
        rc = -1;
    }
    out->wall_ns = box_now() - begin;
    for (size_t i = 0; rc == 0 && i < n * each; i++)
        bench_add(out, samples[i]);
    (void)munmap(samples, bytes); /* ours, whole */
    return rc;
}

int bench_floor_clone(const char *program, size_t rounds, bench_case *out, box_error *err)
{
    BOX_AUTO(box_closep) int fd = open(program, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return box_fail_errno(err, "open the program");
    box_time begin = box_now();
    for (size_t i = 0; i < rounds; i++) {
        box_time t = box_now();
        if (clone_once(fd, err) < 0)
            return -1;
        bench_add(out, box_now() - t);
    }
    out->wall_ns = box_now() - begin;
    return 0;
}
