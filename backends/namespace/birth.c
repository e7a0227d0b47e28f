#include "namespace/birth.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "namespace/cgroup.h"
#include "namespace/proc.h"

/* A move into a group of the cgroup2 tree waits for a grace period, some ms, with a lock held that
 * every other use of control groups waits for; so does giving controllers to groups with processes
 * (kernel/cgroup/cgroup.c, cgroup_update_dfl_csses). So nobody moves there, and controllers come
 * before processes: a founder is born in S, makes the cgroup namespace and ends; S, which is empty
 * again, gives its controllers; a midwife is born in S/agent, enters that namespace and has the
 * first process there. Where cgroup2 limits nothing one process does for both: born in S, it makes
 * the namespace, and has the first process born in S/agent. */

typedef struct birth {
    const box_sandbox_record *record;
    uint32_t uid_base;
    box_first_plan *plan;
    int session; /* S of the cgroup2 tree, to be born in; -1 = nowhere in particular */
    int agent;   /* S/agent, likewise */
    int groups;  /* the founder's namespace; -1 = the midwife makes it */
    int ours;    /* a copy of it would hide the helper's death */
} birth;

/* What a process in between says, with a descriptor: of the namespace, of the first process. */
typedef struct birth_report {
    pid_t pid;
    box_error error;
} birth_report;

/* Its pid in *pid, and what comes with the report in *fd. */
typedef int birth_work(const birth *b, int report, pid_t *pid, int *fd, box_error *err);

static int found_groups(const birth *b, box_error *err)
{
    bool moves = b->session < 0; /* else it was born there */
    if (box_cgroups_join(b->record, "", moves, err) < 0)
        return -1;
    return box_sandbox_unshare_groups(b->uid_base, b->plan->ids, err);
}

static int founder(const birth *b, int report, pid_t *pid, int *fd, box_error *err)
{
    (void)report;
    *pid = 0;
    return found_groups(b, err) < 0 ? -1 : box_sandbox_open_groups(fd, err);
}

/* v1's groups, where the host has both, are its own to join. */
static int enter_groups(const birth *b, box_error *err)
{
    return box_cgroups_join(b->record, "", false, err) < 0
               ? -1
               : box_sandbox_enter_groups(b->groups, err);
}

static int midwife(const birth *b, int report, pid_t *pid, int *fd, box_error *err)
{
    bool founded = b->groups >= 0;
    bool moves = b->session < 0;
    if ((founded ? enter_groups(b, err) : found_groups(b, err)) < 0 ||
        box_cgroups_join(b->record, "/agent", moves, err) < 0)
        return -1;
    *pid = box_sandbox_clone(b->uid_base, b->plan->ids, founded || moves ? -1 : b->agent, fd, err);
    if (*pid == 0) {
        (void)close(report);
        box_first_run(b->plan);
    }
    return *pid < 0 ? -1 : 0;
}

BOX_NORETURN static void in_between(const birth *b, birth_work *work, int report)
{
    birth_report said = {0};
    box_error unsent; /* the helper ended */
    int fd = -1;
    (void)close(b->ours);
    if (work(b, report, &said.pid, &fd, &said.error) == 0)
        said.error = (box_error){0};
    (void)!box_fd_send(report, &said, sizeof said, &fd, fd >= 0 ? 1 : 0, &unsent);
    _exit(0);
}

/* When it is heard the one in between has ended: it is in no group any more. */
static int hear(int report, int pidfd, pid_t *pid, int *fd, box_error *err)
{
    birth_report said;
    size_t n_fds = 1;
    if (!box_proc_wait(report, BOX_SANDBOX_SETUP_SECONDS * 1000))
        return box_fail(err, BOX_DEADLINE, "the sandbox's first process is not born after %d s",
                        BOX_SANDBOX_SETUP_SECONDS);
    ssize_t n = box_fd_receive(report, &said, sizeof said, fd, &n_fds, err);
    if (n < 0)
        return -1;
    if (n != (ssize_t)sizeof said)
        return box_fail(err, BOX_INTERNAL, "the sandbox's first process was not born");
    if (said.error.reason != BOX_NONE) {
        *err = said.error;
        return -1;
    }
    *pid = said.pid;
    if (!box_proc_wait(pidfd, BOX_SANDBOX_SETUP_SECONDS * 1000))
        return box_fail(err, BOX_DEADLINE, "a process does not end");
    return 0;
}

/* Without `group` (-1) where the caller is. 1: nobody can be born in that group. */
static int start(const birth *b, birth_work *work, int group, pid_t *pid, int *fd, box_error *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return box_fail_errno(err, "make a socket pair");
    BOX_AUTO(box_closep) int from = pair[0];
    BOX_AUTO(box_closep) int report = pair[1];
    BOX_AUTO(box_closep) int pidfd = -1;
    pid_t child = box_sandbox_fork(group, &pidfd, err);
    if (child < 0)
        return group >= 0 ? 1 : -1;
    if (child == 0) {
        (void)close(from);
        in_between(b, work, report);
    }
    box_closep(&report);
    return hear(from, pidfd, pid, fd, err);
}

/* Founder and midwife. 1: that cannot be done here. */
static int in_two_steps(birth *b, pid_t *pid, int *pidfd, box_error *err)
{
    int rc = start(b, founder, b->session, pid, &b->groups, err);
    if (rc != 0)
        return rc;
    rc = box_cgroups_settle(b->record, err);
    return rc < 0 || start(b, midwife, b->agent, pid, pidfd, err) != 0 ? -1 : 0;
}

static int in_one_step(birth *b, pid_t *pid, int *pidfd, box_error *err)
{
    int rc = 1;
    if (b->session >= 0 && b->agent >= 0)
        rc = start(b, midwife, b->session, pid, pidfd, err);
    b->session = rc == 1 ? -1 : b->session;
    if (rc == 1)
        rc = start(b, midwife, -1, pid, pidfd, err);
    return rc < 0 ? -1 : box_cgroups_settle(b->record, err);
}

int box_birth(box_first_plan *plan, const box_sandbox_record *record, uint32_t uid_base, int ours,
              pid_t *pid, int *pidfd, box_error *err)
{
    BOX_AUTO(box_closep) int session = box_cgroups_birthplace(record, "");
    BOX_AUTO(box_closep) int agent = box_cgroups_birthplace(record, "/agent");
    birth b = {.record = record,
               .uid_base = uid_base,
               .plan = plan,
               .session = session,
               .agent = agent,
               .groups = -1,
               .ours = ours};
    bool two = session >= 0 && agent >= 0 && box_cgroups_limit_on_v2(record);
    int rc = two ? in_two_steps(&b, pid, pidfd, err) : 1;
    box_closep(&b.groups);
    return rc == 1 ? in_one_step(&b, pid, pidfd, err) : rc;
}
