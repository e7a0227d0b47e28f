#include "floor.h"

#include <errno.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

extern char **environ;

int bench_wait_zero(pid_t pid, const char *what, box_error *err)
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
    return bench_wait_zero(pid, "the spawned program", err);
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
        if (bench_wait_zero(pids[i], "a process that spawns", err) < 0)
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
