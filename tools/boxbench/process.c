#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"

extern char **environ;

enum { OUTPUT_MAX_BYTES = 1 << 20, READY_MS = 20000 };

/* Children inherit the affinity: it is set here for as long as the spawn takes. */
static int spawn_on(int cpu, const char *const argv[], const posix_spawn_file_actions_t *actions,
                    pid_t *pid, box_error *err)
{
    cpu_set_t before, wanted;
    CPU_ZERO(&wanted);
    if (cpu >= 0)
        CPU_SET((size_t)cpu, &wanted);
    if (sched_getaffinity(0, sizeof before, &before) < 0 ||
        (cpu >= 0 && sched_setaffinity(0, sizeof wanted, &wanted) < 0))
        return box_fail_errno(err, "use processor %d", cpu);
    /* posix_spawnp wants char *const[] and does not write to it. */
    union {
        const char *const *in;
        char *const *out;
    } cast = {.in = argv};
    int rc = posix_spawnp(pid, argv[0], actions, NULL, cast.out, environ);
    if (sched_setaffinity(0, sizeof before, &before) < 0)
        return box_fail_errno(err, "use all processors again");
    return rc == 0 ? 0 : box_fail(err, BOX_FILE_NOT_FOUND, "start %s: %s", argv[0], strerror(rc));
}

int bench_process_start(const char *const argv[], int cpu, bench_process *out, box_error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return box_fail_errno(err, "pipe");
    posix_spawn_file_actions_t actions;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    (void)posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t pid = 0;
    int rc = spawn_on(cpu, argv, &actions, &pid, err);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(ends[1]);
    if (rc < 0) {
        (void)close(ends[0]);
        return -1;
    }
    *out = (bench_process){.pid = pid, .out = ends[0]};
    return 0;
}

int bench_process_line(bench_process *p, char *line, size_t size, box_error *err)
{
    struct pollfd readable = {.fd = p->out, .events = POLLIN};
    for (size_t n = 0; n + 1 < size; n++) {
        if (poll(&readable, 1, READY_MS) <= 0 || read(p->out, &line[n], 1) != 1)
            break;
        if (line[n] == '\n') {
            line[n] = '\0';
            return 0;
        }
    }
    return box_fail(err, BOX_RUNTIME_UNAVAILABLE, "the server did not say that it is ready");
}

int bench_process_output(bench_process *p, box_buf *out, box_error *err)
{
    box_buf_init(out, OUTPUT_MAX_BYTES);
    if (box_buf_read_fd(out, p->out, err) < 0)
        return -1;
    int status = 0;
    pid_t pid = p->pid;
    p->pid = 0;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return box_fail_errno(err, "wait for a program");
    }
    box_closep(&p->out);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return box_fail(err, BOX_INTERNAL, "a program ended with status %#x", (unsigned)status);
    return 0;
}

void bench_process_stop(bench_process *p)
{
    if (p->pid > 0) {
        (void)kill(p->pid, SIGTERM);
        while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
        box_closep(&p->out);
    }
    *p = (bench_process){.out = -1};
}
