#include "namespace/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

ssize_t box_proc_read(int dirfd, const char *path, char *out, size_t size)
{
    BOX_AUTO(box_closep) int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t len = 0;
    while (len + 1 < size) {
        ssize_t n = read(fd, out + len, size - 1 - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        len += (size_t)n;
    }
    out[len] = '\0';
    return (ssize_t)len;
}

bool box_proc_number(int dirfd, const char *path, const char *key, int64_t *out)
{
    char text[8192];
    if (box_proc_read(dirfd, path, text, sizeof text) < 0)
        return false;
    const char *at = text;
    if (key != NULL) {
        size_t len = strlen(key);
        while (strncmp(at, key, len) != 0 || at[len] != ' ') {
            at = strchr(at, '\n');
            if (at == NULL)
                return false;
            at++;
        }
        at += len + 1;
    }
    char *end;
    errno = 0;
    long long value = strtoll(at, &end, 10);
    if (end == at || errno != 0)
        return false;
    *out = value;
    return true;
}

int box_proc_start_time(pid_t pid, uint64_t *out, box_error *err)
{
    char path[32];
    char text[1024];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (box_proc_read(AT_FDCWD, path, text, sizeof text) < 0)
        return box_fail_errno(err, "read a process's state");
    /* The name in parentheses may hold anything: fields are counted from its end. */
    const char *at = strrchr(text, ')');
    for (int field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (at == NULL)
        return box_fail(err, BOX_INTERNAL, "a process's state has no start time");
    *out = strtoull(at, NULL, 10);
    return 0;
}

int box_proc_open(pid_t pid, uint64_t start_time, int *out, box_error *err)
{
    *out = -1;
    if (pid <= 0)
        return 0;
    BOX_AUTO(box_closep) int pidfd = pidfd_open(pid, 0);
    if (pidfd < 0)
        return errno == ESRCH ? 0 : box_fail_errno(err, "open a process");
    /* Read after the pidfd is open: it cannot change its meaning any more. */
    uint64_t now = 0;
    box_error gone;
    if (box_proc_start_time(pid, &now, &gone) == 0 && now == start_time)
        *out = box_take_fd(&pidfd);
    return 0;
}

bool box_proc_wait(int pidfd, int timeout_ms)
{
    box_time deadline = box_time_add(box_now(), (uint64_t)timeout_ms * BOX_MS);
    for (;;) {
        struct pollfd p = {.fd = pidfd, .events = POLLIN};
        int left = (int)((box_time_left(deadline, box_now()) + BOX_MS - 1) / BOX_MS);
        int n = poll(&p, 1, left);
        if (n > 0)
            return true;
        if (n == 0 || errno != EINTR)
            return false;
    }
}
