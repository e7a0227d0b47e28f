#include "agent/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

enum { MAX_COUNT = 65536, NAME_BYTES = 64 };

static void file_name(char name[NAME_BYTES], uint64_t id, const char *file)
{
    (void)snprintf(name, NAME_BYTES, "%" PRIu64 "%s", id, file); /* 20 digits and a known name */
}

int box_tree_make(const box_trees *t, uint64_t id, int *out, box_error *err)
{
    char name[NAME_BYTES];
    file_name(name, id, "");
    if (mkdirat(t->dir, name, 0755) < 0)
        return box_fail_errno(err, "make the command's control group");
    int fd = openat(t->dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        (void)box_fail_errno(err, "open the command's control group");
        (void)unlinkat(t->dir, name, AT_REMOVEDIR); /* empty; the first error is reported */
        return -1;
    }
    *out = fd;
    return 0;
}

bool box_tree_remove(const box_trees *t, uint64_t id)
{
    char name[NAME_BYTES];
    file_name(name, id, "");
    return unlinkat(t->dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT;
}

/* Reads a small control file whole; false when it cannot be. */
static bool read_file(const box_trees *t, uint64_t id, const char *file, char *out, size_t size)
{
    char name[NAME_BYTES];
    file_name(name, id, file);
    BOX_AUTO(box_closep) int fd = openat(t->dir, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);
    if (n < 0)
        return false; /* errno says why: closing -1 does nothing */
    out[n] = '\0';
    return true;
}

bool box_tree_empty(const box_trees *t, uint64_t id)
{
    char text[256];
    if (!read_file(t, id, "/cgroup.events", text, sizeof text))
        return errno == ENOENT; /* the directory is gone; out of descriptors says nothing */
    return strstr(text, "populated 0") != NULL;
}

/* Walks cgroup.procs: counts all but `except`, and signals all when signo is not 0. */
static uint32_t walk(const box_trees *t, uint64_t id, int signo, pid_t except)
{
    char name[NAME_BYTES];
    char block[4096];
    file_name(name, id, "/cgroup.procs");
    BOX_AUTO(box_closep) int fd = openat(t->dir, name, O_RDONLY | O_CLOEXEC);
    uint32_t count = 0;
    pid_t pid = 0;
    ssize_t n;
    while (fd >= 0 && count < MAX_COUNT && (n = read(fd, block, sizeof block)) > 0) {
        for (ssize_t i = 0; i < n; i++) {
            if (block[i] >= '0' && block[i] <= '9') {
                pid = pid * 10 + (block[i] - '0');
                continue;
            }
            count += pid > 0 && pid != except;
            if (pid > 0 && signo != 0)
                (void)kill(pid, signo); /* it may have ended meanwhile */
            pid = 0;
        }
    }
    return count;
}

uint32_t box_tree_count(const box_trees *t, uint64_t id, int32_t except)
{
    return walk(t, id, 0, except);
}

void box_tree_kill(const box_trees *t, uint64_t id)
{
    char name[NAME_BYTES];
    box_error err; /* a directory without the file: the older way */
    file_name(name, id, "/cgroup.kill");
    if (!t->no_kill && box_fd_write_file(t->dir, name, "1", &err) == 0)
        return;
    file_name(name, id, "/cgroup.freeze");
    if (box_fd_write_file(t->dir, name, "1", &err) < 0)
        err = (box_error){0}; /* then only the repetition makes it complete */
    (void)walk(t, id, SIGKILL, 0);
}

bool box_tree_cpu_ns(const box_trees *t, uint64_t id, uint64_t *out)
{
    char text[1024];
    static const char key[] = "usage_usec ";
    if (!read_file(t, id, "/cpu.stat", text, sizeof text))
        return false;
    const char *at = strstr(text, key);
    if (at == NULL)
        return false;
    *out = strtoull(at + sizeof key - 1, NULL, 10) * BOX_US;
    return true;
}
