#include "agent_sandbox_state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "stale.h"

enum { BASE_UID = 0x70000000, IDS = 65536, HIGH_FD = 100 };

/* --- control groups --------------------------------------------------------------------------- */

static const char *first_existing(const char *const *paths)
{
    for (; *paths != NULL; paths++) {
        if (access(*paths, F_OK) == 0)
            break;
    }
    return *paths;
}

/* The mount of cgroup2: hybrid or pure. */
static const char *v2_mount(void)
{
    static const char *const marks[] = {"/sys/fs/cgroup/unified/cgroup.procs",
                                        "/sys/fs/cgroup/cgroup.controllers", NULL};
    const char *found = first_existing(marks);
    if (found == NULL)
        return NULL;
    return found == marks[0] ? "/sys/fs/cgroup/unified" : "/sys/fs/cgroup";
}

static const char *missing(sandbox_mode mode)
{
    if (geteuid() != 0)
        return "needs root";
    if (mode != SANDBOX_REAPERS && v2_mount() == NULL)
        return "needs a cgroup2 tree";
    return NULL;
}

bool sandbox_skips(sandbox_mode mode)
{
    const char *what = missing(mode);
    if (what != NULL)
        (void)printf("skipped: %s\n", what);
    return what != NULL;
}

static void make_dir(const char *root, const char *name)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    assert_int_equal(mkdir(path, 0755), 0);
}

static int try_write(const char *root, const char *name, const char *text)
{
    char path[512];
    box_error err;
    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    return box_fd_write_file(AT_FDCWD, path, text, &err);
}

static void give(const char *root, const char *name)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    assert_int_equal(chown(path, BASE_UID, BASE_UID), 0);
}

static void limit_pids(sandbox *s)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%d", s->options.pids_max != 0 ? s->options.pids_max : 256);
    static const char v1[] = "/sys/fs/cgroup/pids";
    char mark[64];
    (void)snprintf(mark, sizeof mark, "%s/cgroup.procs", v1);
    if (access(mark, W_OK) == 0) {
        (void)snprintf(s->pids.root, sizeof s->pids.root, "%s/%s", v1, strrchr(s->dir, '/') + 1);
        assert_int_equal(mkdir(s->pids.root, 0755), 0);
        make_dir(s->pids.root, "box");
        s->pids_limited = try_write(s->pids.root, "box/pids.max", text) == 0;
    } else if (s->v2.root[0] != '\0') {
        s->pids_limited = try_write(v2_mount(), "cgroup.subtree_control", "+pids") == 0 &&
                          try_write(s->v2.root, "cgroup.subtree_control", "+pids") == 0 &&
                          try_write(s->v2.root, "box/pids.max", text) == 0;
    }
}

static void make_cgroups(sandbox *s)
{
    if (s->options.mode != SANDBOX_REAPERS) {
        (void)snprintf(s->v2.root, sizeof s->v2.root, "%s/%s", v2_mount(),
                       strrchr(s->dir, '/') + 1);
        assert_int_equal(mkdir(s->v2.root, 0755), 0);
        make_dir(s->v2.root, "agent");
        make_dir(s->v2.root, "box");
        make_dir(s->v2.root, "box/x");
        give(s->v2.root, "box/x");
        give(s->v2.root, "box/x/cgroup.procs");
        give(s->v2.root, "box/cgroup.procs");
    }
    limit_pids(s);
}

static void remove_below(const char *path)
{
    char sub[1024];
    DIR *d = opendir(path);
    if (d == NULL)
        return;
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_type != DT_DIR || e->d_name[0] == '.')
            continue;
        (void)snprintf(sub, sizeof sub, "%s/%s", path, e->d_name);
        remove_below(sub);
    }
    (void)closedir(d);
    for (int i = 0; i < 200 && rmdir(path) < 0 && errno == EBUSY; i++)
        (void)poll(NULL, 0, 10);
}

static int open_at(const char *root, const char *name, int flags)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    int fd = open(path, flags | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

/* --- the helper that becomes PID 1 ------------------------------------------------------------ */

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    (void)dprintf(STDERR_FILENO, "sandbox helper: %s: %s\n", what, strerror(errno));
    _exit(1);
}

static void drop_bounding(void)
{
    for (unsigned long cap = 0; cap < 64; cap++) {
        if (cap != CAP_KILL && cap != CAP_SETUID && cap != CAP_SETGID && cap != CAP_SETPCAP)
            (void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
    }
}

/* In the child that is PID 1 already. fds: agent program, then what goes to 3, 4, ...; -1 = a hole.
 */
static void become_agent(const int *fds, size_t n)
{
    must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "private mounts");
    must(mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0, "proc");
    must(mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") == 0, "tmp");
    must(mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
               "newinstance,max=16,ptmxmode=0666,mode=0620,uid=1000,gid=1000") == 0,
         "terminals");
    must(chdir("/") == 0, "chdir");
    for (size_t i = 0; i < n; i++)
        must(fds[i] < 0 || dup2(fds[i], HIGH_FD + (int)i) >= 0, "dup high");
    for (size_t i = 1; i < n; i++) {
        if (fds[i] >= 0)
            must(dup2(HIGH_FD + (int)i, 2 + (int)i) >= 0, "dup low");
        else
            (void)close(2 + (int)i);
    }
    /* One descriptor the agent was not promised stays open on purpose. */
    must(fcntl(HIGH_FD, F_SETFD, FD_CLOEXEC) == 0, "cloexec");
    drop_bounding();
    static char *argv[] = {(char *)(uintptr_t) "box-agent", NULL};
    static char *env[] = {NULL};
    (void)syscall(SYS_execveat, HIGH_FD, "", argv, env, AT_EMPTY_PATH);
    must(false, "exec box-agent");
}

static void helper_main(int ready, int go, int tell, const int *fds, size_t n)
{
    char c = 0;
    must(unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC) == 0, "unshare");
    must(write(ready, "r", 1) == 1 && read(go, &c, 1) == 1, "maps");
    must(syscall(SYS_setgroups, 0, NULL) == 0, "setgroups");
    must(syscall(SYS_setresgid, 0, 0, 0) == 0 && syscall(SYS_setresuid, 0, 0, 0) == 0, "ids");
    pid_t pid = fork();
    must(pid >= 0, "fork");
    if (pid == 0)
        become_agent(fds, n);
    must(write(tell, &pid, sizeof pid) == sizeof pid, "tell");
    int status = 0;
    must(waitpid(pid, &status, 0) == pid, "wait");
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static void write_map(pid_t pid, const char *file)
{
    char path[64];
    char text[64];
    box_error err;
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    (void)snprintf(text, sizeof text, "0 %u %u\n", (unsigned)BASE_UID, (unsigned)IDS);
    assert_int_equal(box_fd_write_file(AT_FDCWD, path, text, &err), 0);
}

static int setup_memfd(const sandbox_options *o, uint32_t n_box_procs)
{
    box_agent_setup setup = {
        .version = BOX_AGENT_VERSION,
        .command_uid = 1000,
        .command_gid = 1000,
        .has_cgroup2 = o->mode != SANDBOX_REAPERS,
        .n_box_procs = n_box_procs,
        .orphan_seconds = o->orphan_seconds,
        .flags = o->mode == SANDBOX_OLD_KERNEL ? BOX_AGENT_SETUP_NO_CGROUP_KILL : 0,
    };
    int fd = -1;
    box_error err;
    assert_int_equal(box_fd_memfd("setup", &setup, sizeof setup, &fd, &err), 0);
    return fd;
}

/* Allows everything; for an old kernel clone3 and close_range do not exist. */
static int filter_memfd(const sandbox_options *o)
{
    const struct sock_filter old[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
    };
    const struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    bool is_old = o->mode == SANDBOX_OLD_KERNEL;
    int fd = -1;
    box_error err;
    assert_int_equal(
        box_fd_memfd("filter", is_old ? old : all, is_old ? sizeof old : sizeof all, &fd, &err), 0);
    return fd;
}

static void start_helper(sandbox *s, const int *fds, size_t n)
{
    int ready[2] = {-1, -1};
    int go[2] = {-1, -1};
    int tell[2] = {-1, -1};
    char c = 0;
    assert_true(pipe(ready) == 0 && pipe(go) == 0 && pipe(tell) == 0);
    s->helper = fork();
    assert_true(s->helper >= 0);
    if (s->helper == 0)
        helper_main(ready[1], go[0], tell[1], fds, n);
    assert_int_equal(read(ready[0], &c, 1), 1);
    write_map(s->helper, "uid_map");
    write_map(s->helper, "gid_map");
    if (s->v2.root[0] != '\0') {
        char pid[16];
        (void)snprintf(pid, sizeof pid, "%d", (int)s->helper);
        assert_int_equal(try_write(s->v2.root, "agent/cgroup.procs", pid), 0);
    }
    assert_int_equal(write(go[1], "g", 1), 1);
    assert_int_equal(read(tell[0], &s->init, sizeof s->init), sizeof s->init);
    int all[] = {ready[0], ready[1], go[0], go[1], tell[0], tell[1]};
    for (size_t i = 0; i < BOX_COUNT(all); i++)
        (void)close(all[i]);
}

static void start_agent(sandbox *s)
{
    int fds[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
    uint32_t procs = 0;
    size_t n = 6; /* fds[5]: box-files, which no test here needs */
    fds[0] = open(BOX_AGENT_PROGRAM, O_RDONLY | O_CLOEXEC);
    assert_true(fds[0] >= 0);
    if (s->v2.root[0] != '\0') {
        fds[4] = open_at(s->v2.root, "box/x", O_RDONLY | O_DIRECTORY);
        fds[n++] = open_at(s->v2.root, "box/cgroup.procs", O_WRONLY);
        procs++;
    }
    if (s->pids.root[0] != '\0') {
        fds[n++] = open_at(s->pids.root, "box/cgroup.procs", O_WRONLY);
        procs++;
    }
    fds[1] = s->listen;
    fds[2] = setup_memfd(&s->options, procs);
    fds[3] = filter_memfd(&s->options);
    start_helper(s, fds, n);
    for (size_t i = 0; i < BOX_COUNT(fds); i++) {
        if (i != 1)
            box_closep(&fds[i]);
    }
}

/* --- life ------------------------------------------------------------------------------------- */

sandbox *sandbox_open(const sandbox_options *options)
{
    sandbox *s = box_alloc(sizeof *s);
    s->options = *options;
    s->conn = -1;
    s->next_id = 1;
    /* The sandbox has a /tmp of its own. */
    const char *folder = options->open_place ? "/var/tmp" : "/tmp";
    test_stale_sweep(folder, "box-agent-test");
    (void)snprintf(s->dir, sizeof s->dir, "%s/box-agent-test.%d.XXXXXX", folder, (int)getpid());
    assert_non_null(mkdtemp(s->dir));
    (void)snprintf(s->path, sizeof s->path, "%s/agent.sock", s->dir);
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    memcpy(name.sun_path, s->path, strlen(s->path) + 1);
    s->listen = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(s->listen >= 0);
    assert_int_equal(bind(s->listen, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(listen(s->listen, 4), 0);
    if (options->open_place)
        assert_true(chmod(s->dir, 0755) == 0 && chmod(s->path, 0666) == 0);
    make_cgroups(s);
    start_agent(s);
    (void)sandbox_connect(s);
    return s;
}

int sandbox_wait(sandbox *s, int timeout_ms)
{
    box_time end = box_now() + (uint64_t)timeout_ms * BOX_MS;
    int status = 0;
    while (!s->ended) {
        if (waitpid(s->helper, &status, WNOHANG) == s->helper) {
            s->ended = true;
            return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
        }
        if (box_now() > end)
            return -1;
        (void)poll(NULL, 0, 5);
    }
    return -1;
}

void sandbox_close(sandbox *s)
{
    sandbox_disconnect(s);
    if (!s->ended) {
        (void)kill(s->init, SIGKILL);
        (void)sandbox_wait(s, 10000);
    }
    (void)close(s->listen);
    (void)unlink(s->path);
    (void)rmdir(s->dir);
    if (s->v2.root[0] != '\0')
        remove_below(s->v2.root);
    if (s->pids.root[0] != '\0')
        remove_below(s->pids.root);
    free(s);
}

pid_t sandbox_init_pid(const sandbox *s)
{
    return s->init;
}

const char *sandbox_socket_path(const sandbox *s)
{
    return s->path;
}

bool sandbox_pids_limited(const sandbox *s)
{
    return s->pids_limited;
}

int sandbox_fd(const sandbox *s)
{
    return s->conn;
}

static void read_text(const char *path, char *out, size_t size)
{
    BOX_AUTO(box_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, out, size - 1);
    out[n > 0 ? n : 0] = '\0';
}

/* Calls see for every host pid whose pid namespace is the sandbox's. */
static int each_process(const sandbox *s, const char *comm, pid_t *found)
{
    char path[300];
    char mine[64] = "";
    char other[64];
    int count = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/ns/pid", (int)s->init);
    if (readlink(path, mine, sizeof mine - 1) < 0)
        return 0;
    DIR *d = opendir("/proc");
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] < '1' || e->d_name[0] > '9')
            continue;
        memset(other, 0, sizeof other);
        (void)snprintf(path, sizeof path, "/proc/%s/ns/pid", e->d_name);
        if (readlink(path, other, sizeof other - 1) < 0 || strcmp(mine, other) != 0)
            continue;
        count++;
        char name[32];
        (void)snprintf(path, sizeof path, "/proc/%s/comm", e->d_name);
        read_text(path, name, sizeof name);
        if (comm != NULL && strncmp(name, comm, strlen(comm)) == 0)
            *found = (pid_t)strtol(e->d_name, NULL, 10);
    }
    (void)closedir(d);
    return count;
}

int sandbox_processes(const sandbox *s)
{
    return each_process(s, NULL, NULL);
}

pid_t sandbox_find(const sandbox *s, const char *comm)
{
    pid_t found = 0;
    (void)each_process(s, comm, &found);
    return found;
}

sandbox_mode sandbox_mode_of(const sandbox *s)
{
    return s->options.mode;
}

int sandbox_command_dirs(const sandbox *s)
{
    char path[512];
    int count = 0;
    if (s->v2.root[0] == '\0')
        return -1;
    (void)snprintf(path, sizeof path, "%s/box/x", s->v2.root);
    DIR *d = opendir(path);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        count += e->d_type == DT_DIR && e->d_name[0] != '.';
    (void)closedir(d);
    return count;
}

bool sandbox_is_idle(const sandbox *s)
{
    enum { TIMES = 5 }; /* so often in a row: one may go while another comes */
    int wanted = s->v2.root[0] == '\0' ? 2 : 3; /* the third may rest */
    int times = 0;
    box_time end = box_now() + 5 * BOX_SECOND;
    while (times < TIMES && box_now() < end) {
        int n = sandbox_processes(s);
        times = n == wanted || n == 2 ? times + 1 : 0;
        (void)poll(NULL, 0, 5);
    }
    return times == TIMES;
}

bool sandbox_dirs_below(const sandbox *s, int below)
{
    box_time end = box_now() + 5 * BOX_SECOND;
    while (sandbox_command_dirs(s) >= below) {
        if (box_now() > end)
            return false;
        (void)poll(NULL, 0, 10);
    }
    return true;
}

int sandbox_set_up(void **state, const sandbox_options *options)
{
    *state = sandbox_open(options);
    return 0;
}

int sandbox_tear_down(void **state)
{
    sandbox_close(*state);
    return 0;
}
