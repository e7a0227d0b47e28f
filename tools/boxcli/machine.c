#include "machine.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

extern char **environ;

bool machine_line(const char *path, char *out, size_t size)
{
    BOX_AUTO(box_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, size - 1) : -1;
    if (n < 0)
        return false;
    out[n] = '\0';
    out[strcspn(out, "\n")] = '\0';
    return true;
}

bool machine_number(const char *path, int64_t *out)
{
    char text[64];
    char *end;
    if (!machine_line(path, text, sizeof text))
        return false;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || errno != 0)
        return false;
    *out = value;
    return true;
}

bool machine_kernel(const char *release, int *major, int *minor)
{
    char *end;
    long first = strtol(release, &end, 10);
    if (end == release || *end != '.' || first < 0 || first > 1000)
        return false;
    const char *second_at = end + 1;
    long second = strtol(second_at, &end, 10);
    if (end == second_at || second < 0 || second > 100000)
        return false;
    *major = (int)first;
    *minor = (int)second;
    return true;
}

bool machine_has_word(const char *list, const char *dividers, const char *word)
{
    size_t wanted = strlen(word);
    while (*list != '\0') {
        size_t len = strcspn(list, dividers);
        if (len == wanted && strncmp(list, word, len) == 0)
            return true;
        list += len;
        list += strspn(list, dividers);
    }
    return false;
}

bool machine_parse_mount(const char *line, machine_mount *out)
{
    if (sscanf(line, "%*d %*d %*s %*s %511s", out->point) != 1)
        return false;
    const char *rest = strstr(line, " - ");
    return rest != NULL && sscanf(rest, " - %31s %*s %255s", out->type, out->options) == 2;
}

int machine_in_child(int (*work)(void))
{
    int status = 0;
    (void)fflush(stdout); /* what waits there is not the child's too */
    pid_t pid = fork();
    if (pid == 0)
        _exit(work());
    if (pid < 0)
        return -1;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return -1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* --- programs --------------------------------------------------------------------------------- */

static pid_t spawn(const char *const argv[], int out)
{
    pid_t pid = -1;
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return -1;
    bool ready =
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) == 0 &&
        posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO) == 0 &&
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) == 0;
    if (!ready ||
        posix_spawn(&pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ) != 0)
        pid = -1;
    (void)posix_spawn_file_actions_destroy(&actions);
    return pid;
}

/* Reads to the end of the text: true. False: there is more than fits, or it takes too long. */
static bool read_until(int fd, box_time deadline, char *out, size_t size)
{
    size_t len = 0;
    bool at_end = false;
    while (len < size - 1 && !at_end) {
        uint64_t left_ms = box_time_left(deadline, box_now()) / BOX_MS;
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (left_ms == 0 || poll(&wait, 1, (int)left_ms) <= 0)
            break;
        ssize_t n = read(fd, out + len, size - 1 - len);
        at_end = n <= 0;
        len += n > 0 ? (size_t)n : 0;
    }
    out[len] = '\0';
    out[strcspn(out, "\n")] = '\0';
    return at_end;
}

bool machine_run(const char *const argv[], int timeout_ms, char *out, size_t size)
{
    int ends[2];
    int status = 0;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return false;
    BOX_AUTO(box_closep) int from = ends[0];
    BOX_AUTO(box_closep) int to = ends[1];
    pid_t pid = spawn(argv, to);
    box_closep(&to);
    if (pid < 0)
        return false;
    box_time deadline = box_time_add(box_now(), (uint64_t)timeout_ms * BOX_MS);
    bool at_end = read_until(from, deadline, out, size);
    while (waitpid(pid, &status, WNOHANG) == 0) { /* it may close its output and go on */
        if (!at_end || box_now() >= deadline)
            (void)kill(pid, SIGKILL);
        (void)poll(NULL, 0, 1);
    }
    return out[0] != '\0' && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int machine_connect(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return ENAMETOOLONG;
    memcpy(address.sun_path, path, strlen(path) + 1);
    BOX_AUTO(box_closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) < 0)
        return errno;
    return 0;
}
