#include "session/cgroup.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/fd.h"

bool box_cgroup_find(const char *text, const char *key, uint64_t *out)
{
    size_t len = strlen(key);
    for (const char *line = text; line != NULL && *line != '\0';) {
        if (strncmp(line, key, len) == 0 && line[len] == ' ' &&
            isdigit((unsigned char)line[len + 1])) {
            errno = 0;
            *out = strtoull(line + len + 1, NULL, 10);
            return errno == 0;
        }
        line = strchr(line, '\n');
        if (line != NULL)
            line++;
    }
    return false;
}

static bool find_in_file(int dirfd, const char *path, const char *key, uint64_t *out)
{
    char text[1024]; /* cpu.stat and memory.events have under 400 bytes */
    if (dirfd < 0)
        return false;
    BOX_AUTO(box_closep)
    int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, sizeof text - 1);
    if (n <= 0)
        return false;
    text[n] = '\0';
    return box_cgroup_find(text, key, out);
}

bool box_cgroup_cpu_ns(int x_fd, uint64_t exec_id, uint64_t *out)
{
    char path[40];
    uint64_t usec;
    (void)snprintf(path, sizeof path, "%" PRIu64 "/cpu.stat", exec_id); /* 20 digits at most */
    if (!find_in_file(x_fd, path, "usage_usec", &usec))
        return false;
    *out = usec * 1000;
    return true;
}

uint64_t box_cgroup_oom_kills(int memory_fd, uint32_t version)
{
    uint64_t n = 0;
    const char *file = version == 1 ? "memory.oom_control" : "memory.events";
    return find_in_file(memory_fd, file, "oom_kill", &n) ? n : 0;
}
