#include "namespace/child.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "namespace/birth.h"
#include "namespace/proc.h"

int box_child_start(box_first_plan *plan, const box_sandbox_record *record, uint32_t uid_base,
                    box_child *out, box_error *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return box_fail_errno(err, "make a socket pair");
    out->socket = pair[0];
    plan->helper = pair[1];
    int rc = box_birth(plan, record, uid_base, out->socket, &out->pid, &out->pidfd, err);
    box_closep(&plan->helper);
    return rc;
}

int box_child_ended(box_error *err)
{
    (void)box_fail(err, BOX_SESSION_BROKEN, "the sandbox's first process has ended");
    box_error_add(err, "cause", "killed");
    return -1;
}

/* --- its life --------------------------------------------------------------------------------- */

int box_child_go(box_child *c, box_error *err)
{
    return box_fd_send(c->socket, "g", 1, NULL, 0, err);
}

int box_child_order(box_child *c, const box_first_order *order, int listen, int setup,
                    int workspace, box_error *err)
{
    const int fds[BOX_FIRST_FDS] = {listen, setup, workspace};
    return box_fd_send(c->socket, order, sizeof *order, fds, workspace < 0 ? 2 : 3, err);
}

/* The length of what it says next: 0 = nothing any more, 1 = a byte; -1 with its error. */
static ssize_t hear(const box_child *c, box_error *err)
{
    box_error said;
    if (!box_proc_wait(c->socket, BOX_SANDBOX_SETUP_SECONDS * 1000))
        return box_fail(err, BOX_DEADLINE, "the sandbox is not ready after %d s",
                        BOX_SANDBOX_SETUP_SECONDS);
    ssize_t n = recv(c->socket, &said, sizeof said, 0);
    if (n < 0)
        return errno == ECONNRESET ? 0 : box_fail_errno(err, "hear of the sandbox"); /* unread */
    if (n <= 1)
        return n;
    if (n != (ssize_t)sizeof said)
        return box_fail(err, BOX_INTERNAL, "the sandbox's first process said something odd");
    box_error_sanitize(&said);
    *err = said;
    return box_wrap(err, "sandbox");
}

int box_child_await_built(const box_child *c, box_error *err)
{
    ssize_t n = hear(c, err);
    if (n == 0)
        return box_child_ended(err);
    return n < 0 ? -1 : 0;
}

int box_child_why(const box_child *c, box_error *err)
{
    if (c->pidfd < 0 || !box_proc_wait(c->pidfd, BOX_CHILD_ENDING_MS))
        return -1;
    ssize_t n;
    while ((n = hear(c, err)) == 1)
        continue; /* what it said before */
    return n == 0 ? box_child_ended(err) : -1;
}

int box_child_await_exec(const box_child *c, box_error *err)
{
    ssize_t n = hear(c, err);
    return n == 1 ? box_fail(err, BOX_INTERNAL, "the sandbox's first process goes on and on")
                  : (int)n;
}

/* Its socket closes at its exec, and when it is killed, some time before it has ended. Only the
 * exec changes its name. */
bool box_child_runs(const box_child *c)
{
    enum { LOOK_NS = 50000 };
    char path[32];
    char before[16];
    char now[32];
    box_time deadline = box_time_add(box_now(), BOX_SANDBOX_SETUP_SECONDS * BOX_SECOND);
    (void)snprintf(path, sizeof path, "/proc/%d/comm", (int)c->pid);
    if (prctl(PR_GET_NAME, before) < 0)
        return false;
    while (!box_proc_wait(c->pidfd, 0) && box_now() < deadline) {
        if (box_proc_read(AT_FDCWD, path, now, sizeof now) > 0) {
            now[strcspn(now, "\n")] = '\0';
            if (strcmp(now, before) != 0)
                return true;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL); /* cut short is fine */
    }
    return false;
}
