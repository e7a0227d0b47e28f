#include "namespace/child.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "namespace/cgroup.h"
#include "namespace/proc.h"

/* --- the birth --------------------------------------------------------------------------------
 *
 * A move into a group of the cgroup2 tree waits for a grace period, some ms, with a lock held that
 * every other use of control groups waits for. So nobody moves there: a midwife is born in S, where
 * it makes the cgroup namespace, and has the first process born in S/agent. */

typedef struct birth {
    pid_t pid;
    box_error error;
} birth;

typedef struct nursery {
    const box_sandbox_record *record;
    uint32_t uid_base;
    int session; /* of the cgroup2 tree: where the midwife is born, -1 = nowhere in particular */
    int agent;   /* likewise the child */
    int report;  /* SEQPACKET, to the helper: one birth, with the child's pidfd */
} nursery;

static int deliver(nursery *n, box_first_plan *plan, int *pidfd, pid_t *pid, box_error *err)
{
    bool born = n->session >= 0; /* there: it is not to move */
    if (box_cgroups_join(n->record, "", !born, err) < 0 ||
        box_sandbox_unshare_groups(n->uid_base, plan->ids, err) < 0 ||
        box_cgroups_join(n->record, "/agent", !born, err) < 0)
        return -1;
    *pid = box_sandbox_clone(n->uid_base, plan->ids, born ? n->agent : -1, pidfd, err);
    if (*pid == 0) {
        (void)close(n->report);
        box_first_run(plan);
    }
    return *pid < 0 ? -1 : 0;
}

BOX_NORETURN static void midwife(nursery *n, box_first_plan *plan, int helper)
{
    birth b = {0};
    box_error unsent; /* the helper ended */
    int pidfd = -1;
    (void)close(helper); /* a copy of it would hide the helper's death */
    if (deliver(n, plan, &pidfd, &b.pid, &b.error) == 0)
        b.error = (box_error){0};
    (void)!box_fd_send(n->report, &b, sizeof b, &pidfd, b.pid > 0 ? 1 : 0, &unsent);
    _exit(0);
}

static pid_t call_midwife(nursery *n, int *pidfd, box_error *err)
{
    pid_t pid = n->session >= 0 && n->agent >= 0 ? box_sandbox_fork(n->session, pidfd, err) : -1;
    if (pid >= 0)
        return pid;
    n->session = -1;
    return box_sandbox_fork(-1, pidfd, err);
}

static int hear_birth(int report, int midwife_pidfd, box_child *out, box_error *err)
{
    birth b;
    size_t n_fds = 1;
    if (!box_proc_wait(report, BOX_SANDBOX_SETUP_SECONDS * 1000))
        return box_fail(err, BOX_DEADLINE, "the sandbox's first process is not born after %d s",
                        BOX_SANDBOX_SETUP_SECONDS);
    ssize_t n = box_fd_receive(report, &b, sizeof b, &out->pidfd, &n_fds, err);
    if (n < 0)
        return -1;
    if (n != (ssize_t)sizeof b)
        return box_fail(err, BOX_INTERNAL, "the sandbox's first process was not born");
    if (b.error.reason != BOX_NONE) {
        *err = b.error;
        return -1;
    }
    out->pid = b.pid;
    if (!box_proc_wait(midwife_pidfd, BOX_SANDBOX_SETUP_SECONDS * 1000))
        return box_fail(err, BOX_DEADLINE, "a process does not end");
    return 0;
}

static int be_born(nursery *n, box_first_plan *plan, box_child *out, box_error *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return box_fail_errno(err, "make a socket pair");
    BOX_AUTO(box_closep) int ours = pair[0];
    BOX_AUTO(box_closep) int theirs = pair[1];
    BOX_AUTO(box_closep) int pidfd = -1;
    n->report = theirs;
    pid_t pid = call_midwife(n, &pidfd, err);
    if (pid == 0) {
        (void)close(ours);
        midwife(n, plan, out->socket);
    }
    box_closep(&theirs);
    return pid < 0 ? -1 : hear_birth(ours, pidfd, out, err);
}

int box_child_start(box_first_plan *plan, const box_sandbox_record *record, uint32_t uid_base,
                    box_child *out, box_error *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return box_fail_errno(err, "make a socket pair");
    out->socket = pair[0];
    plan->helper = pair[1];
    BOX_AUTO(box_closep) int session = box_cgroups_birthplace(record, "");
    BOX_AUTO(box_closep) int agent = box_cgroups_birthplace(record, "/agent");
    nursery n = {.record = record, .uid_base = uid_base, .session = session, .agent = agent};
    int rc = be_born(&n, plan, out, err);
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

void box_child_done(box_child *c)
{
    box_closep(&c->pidfd);
    box_closep(&c->socket);
}
