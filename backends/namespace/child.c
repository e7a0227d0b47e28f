#include "namespace/child.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "namespace/proc.h"

static int make_pipes(box_sandbox_plan *plan, box_child *c, box_error *err)
{
    int report[2];
    int go[2];
    if (pipe2(report, O_CLOEXEC) < 0)
        return box_fail_errno(err, "make a pipe");
    c->report = report[0];
    plan->report = report[1];
    if (pipe2(go, O_CLOEXEC) < 0)
        return box_fail_errno(err, "make a pipe");
    plan->go = go[0];
    c->go = go[1];
    return 0;
}

int box_child_start(box_sandbox_plan *plan, uint32_t uid_base, box_child *out, box_error *err)
{
    if (make_pipes(plan, out, err) < 0)
        return -1;
    pid_t pid = box_sandbox_clone(uid_base, plan->ids, &out->pidfd, err);
    if (pid == 0) {
        /* An inherited writing end would hide the helper's death. */
        (void)close(out->report);
        (void)close(out->go);
        box_sandbox_run(plan);
    }
    box_closep(&plan->report);
    box_closep(&plan->go);
    out->pid = pid;
    return pid < 0 ? -1 : 0;
}

int box_child_go(box_child *c, box_error *err)
{
    return box_fd_write_all(c->go, "g", 1, err);
}

int box_child_await(const box_child *c, box_error *err)
{
    box_error said;
    ssize_t n;
    if (!box_proc_wait(c->report, BOX_SANDBOX_SETUP_SECONDS * 1000))
        return box_fail(err, BOX_DEADLINE, "the sandbox is not ready after %d s",
                        BOX_SANDBOX_SETUP_SECONDS);
    do {
        n = read(c->report, &said, sizeof said);
    } while (n < 0 && errno == EINTR);
    if (n == 0)
        return 0;
    if (n != (ssize_t)sizeof said)
        return box_fail(err, BOX_INTERNAL, "the sandbox's first process said something odd");
    box_error_sanitize(&said);
    *err = said;
    return box_wrap(err, "sandbox");
}

void box_child_done(box_child *c)
{
    box_closep(&c->pidfd);
    box_closep(&c->report);
    box_closep(&c->go);
}
