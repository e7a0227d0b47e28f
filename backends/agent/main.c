/* box-agent: PID 1 of a sandbox. Takes what the warden's helper left in its descriptors
 * (agent/protocol.h), gives up every privilege it does not need, and runs. */
#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/privilege.h"
#include "base/fd.h"

static int read_whole(int fd, void *out, size_t size, const char *what, box_error *err)
{
    ssize_t n = pread(fd, out, size, 0);
    if (n < 0)
        return box_fail_errno(err, "read the %s", what);
    if ((size_t)n != size)
        return box_fail(err, BOX_PROTOCOL, "the %s has another size", what);
    return 0;
}

static int read_setup(box_agent_config *config, box_error *err)
{
    box_agent_setup *setup = &config->setup;
    if (read_whole(BOX_AGENT_SETUP_FD, setup, sizeof *setup, "setup", err) < 0)
        return -1;
    if (setup->version != BOX_AGENT_VERSION)
        return box_fail(err, BOX_VERSION_MISMATCH, "version %u here, %u in the setup",
                        (unsigned)BOX_AGENT_VERSION, setup->version);
    if (setup->n_box_procs > BOX_AGENT_MAX_BOX_PROCS || setup->has_cgroup2 > 1 ||
        (setup->flags & ~(uint32_t)(BOX_AGENT_SETUP_ANY_PEER | BOX_AGENT_SETUP_NO_CGROUP_KILL |
                                    BOX_AGENT_SETUP_ONE_USER)) != 0 ||
        setup->has_files > 1 || setup->limits_version > (setup->has_cgroup2 != 0 ? 2 : 1) ||
        memchr(setup->workspace, '\0', sizeof setup->workspace) == NULL)
        return box_fail(err, BOX_PROTOCOL, "a setup that makes no sense");
    config->listen = BOX_AGENT_LISTEN_FD;
    config->files = setup->has_files != 0 ? BOX_AGENT_FILES_FD : -1;
    config->cgroup = setup->has_cgroup2 != 0 ? BOX_AGENT_CGROUP_FD : -1;
    for (uint32_t i = 0; i < setup->n_box_procs; i++)
        config->box_procs[i] = BOX_AGENT_BOX_PROCS_FD + (int)i;
    for (int i = 0; i < BOX_AGENT_LIMIT_DIRS; i++)
        config->limit_dirs[i] =
            setup->limits_version == 1 ? BOX_AGENT_BOX_PROCS_FD + (int)setup->n_box_procs + i : -1;
    return 0;
}

/* `program` holds BPF_MAXINSNS instructions. */
static int read_filter(box_agent_config *config, struct sock_filter *program, box_error *err)
{
    struct stat st;
    if (fstat(BOX_AGENT_FILTER_FD, &st) < 0)
        return box_fail_errno(err, "look at the seccomp program");
    size_t size = (size_t)st.st_size;
    if (size % sizeof *program != 0 || size > BPF_MAXINSNS * sizeof *program)
        return box_fail(err, BOX_PROTOCOL, "a seccomp program of impossible size");
    if (size == 0)
        return 0;
    if (read_whole(BOX_AGENT_FILTER_FD, program, size, "seccomp program", err) < 0)
        return -1;
    config->filter = program;
    config->filter_count = size / sizeof *program;
    return 0;
}

static int mark_close_on_exec(int fd, box_error *err)
{
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return box_fail_errno(err, "descriptor %d is missing", fd);
    return 0;
}

/* Standard streams exist, so that no other descriptor becomes one; everything we were not promised
 * is closed. */
static int settle_descriptors(const box_agent_config *config, box_error *err)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd && open("/", O_PATH) != fd)
            return box_fail_errno(err, "fill descriptor %d", fd);
    }
    (void)close(BOX_AGENT_SETUP_FD);  /* read */
    (void)close(BOX_AGENT_FILTER_FD); /* read */
    unsigned n = config->setup.n_box_procs;
    if (config->files < 0)
        (void)close(BOX_AGENT_FILES_FD); /* was not promised */
    else if (mark_close_on_exec(config->files, err) < 0)
        return -1;
    if (config->cgroup < 0)
        (void)close(BOX_AGENT_CGROUP_FD); /* was not promised */
    else if (mark_close_on_exec(config->cgroup, err) < 0)
        return -1;
    for (unsigned i = 0; i < config->setup.n_box_procs; i++) {
        if (mark_close_on_exec(config->box_procs[i], err) < 0)
            return -1;
    }
    for (unsigned i = 0; config->setup.limits_version == 1 && i < BOX_AGENT_LIMIT_DIRS; i++, n++) {
        if (mark_close_on_exec(config->limit_dirs[i], err) < 0)
            return -1;
    }
    box_privilege_close_from(BOX_AGENT_BOX_PROCS_FD + n);
    if (mark_close_on_exec(config->listen, err) < 0)
        return -1;
    return box_fd_set_nonblocking(config->listen, err);
}

/* Before anything of the tenant runs, so the path is still what the warden made. */
static int open_workspace(box_agent_config *config, box_error *err)
{
    config->workspace = -1;
    if (config->setup.workspace[0] == '\0')
        return 0;
    config->workspace =
        open(config->setup.workspace, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return config->workspace < 0 ? box_fail_errno(err, "open the workspace") : 0;
}

static int run(box_error *err)
{
    static struct sock_filter program[BPF_MAXINSNS]; /* 32 KiB, untouched beyond what is read */
    box_agent_config config = {0};
    if (getpid() != 1)
        return box_fail(err, BOX_VALIDATION, "only runs as PID 1 of a sandbox");
    if (read_setup(&config, err) < 0 || read_filter(&config, program, err) < 0)
        return -1;
    (void)prctl(PR_SET_NAME, "box-agent", 0, 0, 0); /* for people who look */
    box_privilege_raise_descriptors();
    bool one_user = (config.setup.flags & BOX_AGENT_SETUP_ONE_USER) != 0;
    if (settle_descriptors(&config, err) < 0 || open_workspace(&config, err) < 0 ||
        (one_user ? box_privilege_keep_none(err) : box_privilege_keep_three(err)) < 0)
        return -1;
    return box_agent_run(&config, err);
}

int main(void)
{
    box_error err = {0};
    if (run(&err) == 0)
        return 0;
    (void)dprintf(STDERR_FILENO, "box-agent: %s: %s\n", box_reason_name(err.reason), err.msg);
    return 1;
}
