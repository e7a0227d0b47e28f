#include "agent/files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/privilege.h"
#include "agent/zygote.h"
#include "base/fd.h"

enum {
    SOCKET_FD = 3,                       /* BOX_FILES_SOCKET_FD of files/protocol.h */
    PROGRAM_FD = 4,                      /* closes at the exec */
    HIGH_FD = 16,                        /* above both, while they are placed */
    AGENT_DATA_BYTES = 16 * 1024 * 1024, /* of a worker in S/agent: half of what that has */
    CANNOT_START = 127,
};

/* --- in the child ----------------------------------------------------------------------------- */

static int enter_limits(const box_agent_files_config *c, bool in_agent, size_t entered,
                        box_error *err)
{
    struct rlimit data = {AGENT_DATA_BYTES, AGENT_DATA_BYTES};
    for (size_t i = entered; !in_agent && i < c->n_box_procs; i++) {
        if (write(c->box_procs[i], "0", 1) != 1)
            return box_fail_errno(err, "enter the sandbox's control group");
    }
    if (in_agent && setrlimit(RLIMIT_DATA, &data) < 0)
        return box_fail_errno(err, "limit memory");
    return 0;
}

/* A preference: memory that runs out should hit this, not the agent. Where /proc cannot be written
 * the kernel's own choice stands. */
static void prefer_as_victim(bool in_agent)
{
    box_error err;
    BOX_IGNORE(
        box_fd_write_file(AT_FDCWD, "/proc/self/oom_score_adj", in_agent ? "1000" : "500", &err));
}

static int place_descriptors(const box_agent_files_config *c, int socket, box_error *err)
{
    int high_socket = fcntl(socket, F_DUPFD_CLOEXEC, HIGH_FD);
    int high_program = fcntl(c->program, F_DUPFD_CLOEXEC, HIGH_FD);
    if (high_socket < 0 || high_program < 0 || dup3(high_socket, SOCKET_FD, 0) < 0 ||
        dup3(high_program, PROGRAM_FD, O_CLOEXEC) < 0)
        return box_fail_errno(err, "place the socket");
    box_privilege_close_from(PROGRAM_FD + 1);
    return 0;
}

static int become_user(const box_agent_files_config *c, box_error *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    if (syscall(SYS_setresgid, c->gid, c->gid, c->gid) < 0 ||
        syscall(SYS_setresuid, c->uid, c->uid, c->uid) < 0 ||
        syscall(SYS_capset, &header, none) < 0)
        return box_fail_errno(err, "become the sandbox's user");
    return 0;
}

static void default_signals(void)
{
    sigset_t none;
    (void)sigemptyset(&none);
    for (int signo = 1; signo < NSIG; signo++)
        (void)signal(signo, SIG_DFL); /* KILL and STOP refuse, rightly */
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void become_worker(const box_agent_files_config *c, bool in_agent, size_t entered,
                                    int socket)
{
    box_error err = {0};
    char name[] = "box-files";
    char *argv[] = {name, NULL};
    char *env[] = {NULL};
    prefer_as_victim(in_agent);
    default_signals();
    if (enter_limits(c, in_agent, entered, &err) < 0 ||
        box_privilege_prepare_commands(c->one_user, 0, &err) < 0 ||
        place_descriptors(c, socket, &err) < 0 || setsid() < 0 || chdir("/") < 0 ||
        become_user(c, &err) < 0)
        _exit(CANNOT_START); /* the agent says so */
    (void)syscall(SYS_execveat, PROGRAM_FD, "", argv, env, AT_EMPTY_PATH);
    _exit(CANNOT_START);
}

/* --- the table -------------------------------------------------------------------------------- */

static void ends(box_agent_worker *w)
{
    w->pid = 0;
    w->kill_at = BOX_TIME_NEVER;
    w->due = true;
}

static box_agent_worker *find(box_agent_workers *all, uint64_t id)
{
    for (size_t i = 0; i < BOX_AGENT_MAX_WORKERS; i++) {
        if (all->list[i].id == id)
            return &all->list[i];
    }
    return NULL;
}

static box_agent_worker *find_pid(box_agent_workers *all, int pid)
{
    for (size_t i = 0; i < BOX_AGENT_MAX_WORKERS; i++) {
        if (all->list[i].id != 0 && all->list[i].pid == pid)
            return &all->list[i];
    }
    return NULL;
}

static int start(const box_agent_files_config *config, bool in_agent, int socket, box_error *err)
{
    if (config->program < 0)
        return box_fail(err, BOX_UNIMPLEMENTED, "this sandbox has no box-files");
    size_t entered = 0;
    int pid = in_agent ? fork()
                       : box_zygote_fork_inside(config->cgroup, config->inner, config->n_box_procs,
                                                &entered);
    if (pid < 0)
        return box_fail_errno(err, "start box-files");
    if (pid == 0)
        become_worker(config, in_agent, entered, socket);
    return pid;
}

int box_agent_files_start(box_agent_workers *all, const box_agent_files_config *config, uint64_t id,
                          const box_agent_files *how, int socket)
{
    box_agent_worker *w = find(all, 0);
    if (w == NULL || find(all, id) != NULL)
        return -1;
    *w = (box_agent_worker){.id = id,
                            .in_agent = (how->flags & BOX_AGENT_FILES_IN_AGENT) != 0,
                            .kill_at = BOX_TIME_NEVER};
    w->pid = start(config, w->in_agent, socket, &w->ended.error);
    if (w->pid < 0)
        ends(w);
    return 0;
}

void box_agent_files_stop(box_agent_workers *all, uint64_t id, box_time kill_at)
{
    box_agent_worker *w = find(all, id);
    if (w != NULL && w->pid > 0 && kill_at < w->kill_at)
        w->kill_at = kill_at;
}

void box_agent_files_forget(box_agent_workers *all, box_time kill_at)
{
    for (size_t i = 0; i < BOX_AGENT_MAX_WORKERS; i++) {
        box_agent_worker *w = &all->list[i];
        if (w->id == 0)
            continue;
        if (w->due)
            box_agent_files_told(w);
        else
            w->id = UINT64_MAX; /* nobody's: ids count up from 1 */
        if (w->pid > 0 && kill_at < w->kill_at)
            w->kill_at = kill_at;
    }
}

/* Of one that nobody is to be told of, nothing remains. */
static void conclude(box_agent_worker *w)
{
    bool forgotten = w->id == UINT64_MAX;
    ends(w);
    if (forgotten)
        box_agent_files_told(w);
}

bool box_agent_files_reaped(box_agent_workers *all, const siginfo_t *info)
{
    box_agent_worker *w = find_pid(all, info->si_pid);
    if (w == NULL)
        return false;
    if (info->si_code == CLD_EXITED && info->si_status == CANNOT_START)
        (void)box_fail(&w->ended.error, BOX_INTERNAL,
                       "box-files cannot be started"); /* always -1 */
    else if (info->si_code != CLD_EXITED)
        w->ended.signal = info->si_status;
    conclude(w);
    return true;
}

void box_agent_files_stopped(const box_agent_workers *all, int pid)
{
    if (box_agent_files_has(all, pid))
        (void)kill(pid, SIGCONT); /* our child, not reaped */
}

bool box_agent_files_has(const box_agent_workers *all, int pid)
{
    for (size_t i = 0; i < BOX_AGENT_MAX_WORKERS; i++) {
        if (all->list[i].id != 0 && all->list[i].pid == pid)
            return true;
    }
    return false;
}

box_time box_agent_files_tick(box_agent_workers *all, box_time now)
{
    for (size_t i = 0; i < BOX_AGENT_MAX_WORKERS; i++) {
        box_agent_worker *w = &all->list[i];
        if (w->id == 0 || w->pid <= 0 || w->kill_at > now)
            continue;
        (void)kill(w->pid, SIGKILL); /* our child, not reaped */
        w->kill_at = BOX_TIME_NEVER;
    }
    return box_agent_files_next(all);
}

box_time box_agent_files_next(const box_agent_workers *all)
{
    box_time next = BOX_TIME_NEVER;
    for (size_t i = 0; i < BOX_AGENT_MAX_WORKERS; i++) {
        const box_agent_worker *w = &all->list[i];
        if (w->id != 0 && w->pid > 0 && w->kill_at < next)
            next = w->kill_at;
    }
    return next;
}

box_agent_worker *box_agent_files_due(box_agent_workers *all)
{
    for (size_t i = 0; i < BOX_AGENT_MAX_WORKERS; i++) {
        if (all->list[i].id != 0 && all->list[i].due)
            return &all->list[i];
    }
    return NULL;
}

void box_agent_files_told(box_agent_worker *w)
{
    *w = (box_agent_worker){0};
}
