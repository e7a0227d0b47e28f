#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"

/* spawn: runs `box-warden --backend namespace --boxd-fd 3` and `boxd --rpc-fd 3 --warden-fd
 * namespace=4 ARGS`. Both end by themselves when their sockets close; STOP_MS is how long they get
 * before they are killed. */
enum { MAX_ARGS = 64, STOP_MS = 8000, FIRST_FD = 3, MAX_FDS = 2 };

extern char **environ;

/* Splits at blanks; no quoting: arguments of boxd are flags and paths. */
static int split(char *command, const char **argv, size_t max, box_error *err)
{
    size_t n = 0;
    char *save = NULL;
    for (char *word = strtok_r(command, " \t", &save); word != NULL;
         word = strtok_r(NULL, " \t", &save)) {
        if (n + 1 >= max)
            return box_fail(err, BOX_VALIDATION, "spawn: has more than %d words", MAX_ARGS);
        argv[n++] = word;
    }
    argv[n] = NULL;
    return (int)n;
}

static bool is_program(const char *dir, size_t dir_len, const char *word, char out[PATH_MAX])
{
    int len = snprintf(out, PATH_MAX, "%.*s/%s", (int)dir_len, dir, word);
    return len > 0 && len < PATH_MAX && access(out, X_OK) == 0;
}

static bool find_beside_us(const char *word, char out[PATH_MAX])
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return false;
    self[n] = '\0';
    const char *dir = dirname(self);
    return is_program(dir, strlen(dir), word, out);
}

/* Absolute entries only: the warden is looked for beside what is found, and never where somebody
 * happened to stand. */
static bool find_in_path(const char *word, char out[PATH_MAX])
{
    const char *at = getenv("PATH");
    while (at != NULL && *at != '\0') {
        size_t len = strcspn(at, ":");
        if (*at == '/' && is_program(at, len, word, out))
            return true;
        at += len + (at[len] == ':');
    }
    return false;
}

/* As given when it has a slash, else beside this program, else by PATH. */
static int find_boxd(const char *word, char out[PATH_MAX], box_error *err)
{
    int problem = ENOENT;
    if (strchr(word, '/') == NULL) {
        if (find_beside_us(word, out) || find_in_path(word, out))
            return 0;
    } else if (strlen(word) < PATH_MAX && access(word, X_OK) == 0) {
        (void)snprintf(out, PATH_MAX, "%s", word);
        return 0;
    } else {
        problem = errno;
    }
    return box_fail(err, BOX_RUNTIME_UNAVAILABLE, "cannot start %s: %s", word, strerror(problem));
}

/* The warden is beside boxd (build tree) or in ../libexec/box (installed). */
static int find_warden(const char *boxd, char out[PATH_MAX], box_error *err)
{
    char copy[PATH_MAX];
    (void)snprintf(copy, sizeof copy, "%s", boxd);
    const char *dir = dirname(copy);
    if (is_program(dir, strlen(dir), "box-warden", out) ||
        is_program(dir, strlen(dir), "../libexec/box/box-warden", out))
        return 0;
    return box_fail(err, BOX_RUNTIME_UNAVAILABLE,
                    "box-warden is not beside boxd nor in ../libexec/box");
}

/* A copy with a number that none of the child's has, so that dup2 in the child neither overwrites
 * another one of ours nor finds source and target equal (which would keep close-on-exec). */
static int move_up(int fd, int *out, box_error *err)
{
    *out = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD + MAX_FDS);
    if (fd >= 0 && *out < 0)
        return box_fail_errno(err, "copy a descriptor");
    return 0;
}

/* Starts a program whose descriptors 3, 4 are fds[0], fds[1]; -1: there is no second one. */
static int spawn(const char *path, const char *const *argv, const int fds[MAX_FDS], pid_t *pid,
                 box_error *err)
{
    BOX_AUTO(box_closep)
    int first = -1;
    BOX_AUTO(box_closep)
    int second = -1;
    if (move_up(fds[0], &first, err) < 0 || move_up(fds[1], &second, err) < 0)
        return -1;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigset_t pipe;
    (void)sigemptyset(&none);
    (void)sigemptyset(&pipe);
    (void)sigaddset(&pipe, SIGPIPE); /* ours may be ignored, and stays so across exec */
    int rc = posix_spawn_file_actions_init(&actions);
    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    (void)posix_spawnattr_setsigdefault(&attributes, &pipe);
    /* Own process group: a terminal's Ctrl-C is the client's to handle. */
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                    POSIX_SPAWN_SETPGROUP);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(&actions, first, FIRST_FD);
    if (rc == 0 && second >= 0)
        rc = posix_spawn_file_actions_adddup2(&actions, second, FIRST_FD + 1);
    if (rc == 0)
        rc = posix_spawn_file_actions_addclosefrom_np(&actions, FIRST_FD + (second >= 0 ? 2 : 1));
    if (rc == 0)
        rc = posix_spawn(pid, path, &actions, &attributes, (char *const *)(uintptr_t)argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attributes);
    if (rc != 0)
        return box_fail(err, BOX_RUNTIME_UNAVAILABLE, "cannot start %s: %s", argv[0], strerror(rc));
    return 0;
}

static int pair(int type, int out[2], box_error *err)
{
    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, out) < 0)
        return box_fail_errno(err, "make a socket pair");
    return 0;
}

int box_spawn_boxd(box_channel *c, const char *command, box_error *err)
{
    BOX_AUTO(box_freep)
    char *words = box_strdup(*command != '\0' ? command : "boxd");
    const char *argv[MAX_ARGS + 8] = {0};
    int n = split(words, argv, MAX_ARGS, err);
    if (n < 0)
        return -1;
    if (n == 0)
        return box_fail(err, BOX_VALIDATION, "spawn: names no program");
    char boxd[PATH_MAX];
    char warden[PATH_MAX];
    if (find_boxd(argv[0], boxd, err) < 0 || find_warden(boxd, warden, err) < 0)
        return -1;
    int rpc[2];
    int link[2];
    if (pair(SOCK_STREAM, rpc, err) < 0)
        return -1;
    BOX_AUTO(box_closep)
    int rpc_mine = rpc[0];
    BOX_AUTO(box_closep)
    int rpc_boxd = rpc[1];
    if (pair(SOCK_SEQPACKET, link, err) < 0)
        return -1;
    BOX_AUTO(box_closep)
    int link_boxd = link[0];
    BOX_AUTO(box_closep)
    int link_warden = link[1];
    static const char *const warden_argv[] = {"box-warden", "--backend", "namespace",
                                              "--boxd-fd",  "3",         NULL};
    static const char *const fixed[] = {"--rpc-fd", "3", "--warden-fd", "namespace=4"};
    memcpy(argv + n, fixed, sizeof fixed);
    if (spawn(warden, warden_argv, (int[MAX_FDS]){link_warden, -1}, &c->warden, err) < 0 ||
        spawn(boxd, argv, (int[MAX_FDS]){rpc_boxd, link_boxd}, &c->boxd, err) < 0)
        return -1;
    if (box_fd_set_nonblocking(rpc_mine, err) < 0)
        return -1;
    c->spawned = box_take_fd(&rpc_mine);
    return 0;
}

/* They end when their sockets close; one that does not in time is killed. */
static void stop(pid_t pid)
{
    if (pid <= 0)
        return;
    BOX_AUTO(box_closep)
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    if (fd < 0 || poll(&ended, 1, STOP_MS) <= 0)
        (void)kill(pid, SIGKILL); /* of a child not yet waited for: the number is still its own */
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

void box_spawn_stop(box_channel *c)
{
    box_closep(&c->spawned); /* boxd's sign to end, if no connection took it */
    stop(c->boxd);
    stop(c->warden);
    c->boxd = c->warden = 0;
}
