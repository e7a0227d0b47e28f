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

static bool find_in_file(int fd, const char *key, uint64_t *out)
{
    char text[1024]; /* cpu.stat and memory.events have under 400 bytes */
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    if (n <= 0)
        return false;
    text[n] = '\0';
    return box_cgroup_find(text, key, out);
}

bool box_cpu_since(box_cpu_groups *g, uint64_t group, uint64_t total_ns, uint64_t *out_ns)
{
    size_t at = 0;
    size_t oldest = 0;
    for (; at < BOX_CPU_GROUPS && g->all[at].group != group; at++) {
        if (g->all[at].group < g->all[oldest].group)
            oldest = at;
    }
    bool seen = at < BOX_CPU_GROUPS;
    bool known = seen || group > g->newest;
    uint64_t before = seen ? g->all[at].cpu_ns : 0;
    at = seen ? at : oldest;
    g->all[at].group = group;
    g->all[at].cpu_ns = total_ns;
    g->newest = group > g->newest ? group : g->newest;
    *out_ns = total_ns > before ? total_ns - before : 0;
    return known;
}

static void close_file(box_cpu_groups *g, unsigned i)
{
    if (g->files[i].group == 0)
        return;
    g->files[i].group = 0;
    box_closep(&g->files[i].fd);
    atomic_fetch_add(g->files_left, 1);
}

void box_cpu_groups_close(box_cpu_groups *g)
{
    for (unsigned i = 0; i < BOX_CPU_FILES; i++)
        close_file(g, i);
}

static bool read_kept(const box_cpu_groups *g, uint64_t group, uint64_t *usec)
{
    for (unsigned i = 0; i < BOX_CPU_FILES; i++) {
        if (g->files[i].group == group)
            return find_in_file(g->files[i].fd, "usage_usec", usec);
    }
    return false;
}

/* Opening and closing costs three times what reading does. Takes the descriptor, or does not. */
static void keep_file(box_cpu_groups *g, uint64_t group, int *fd)
{
    unsigned i = g->next_file;
    if (g->files_left == NULL)
        return;
    close_file(g, i);
    if (atomic_fetch_sub(g->files_left, 1) <= 0) {
        atomic_fetch_add(g->files_left, 1);
        return;
    }
    g->files[i].group = group;
    g->files[i].fd = box_take_fd(fd);
    g->next_file = (i + 1) % BOX_CPU_FILES;
}

static int open_stat(int x_fd, uint64_t group)
{
    char path[40];
    if (x_fd < 0 || group == 0)
        return -1;
    (void)snprintf(path, sizeof path, "%" PRIu64 "/cpu.stat", group); /* 20 digits at most */
    return openat(x_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

bool box_cgroup_cpu_total_ns(int x_fd, uint64_t group, uint64_t *out_ns)
{
    uint64_t usec;
    BOX_AUTO(box_closep) int fd = open_stat(x_fd, group);
    if (fd < 0 || !find_in_file(fd, "usage_usec", &usec))
        return false;
    *out_ns = usec * 1000;
    return true;
}

bool box_cgroup_cpu_ns(box_cpu_groups *g, int x_fd, uint64_t group, uint64_t *out_ns)
{
    uint64_t usec;
    if (group != 0 && read_kept(g, group, &usec))
        return box_cpu_since(g, group, usec * 1000, out_ns);
    BOX_AUTO(box_closep) int fd = open_stat(x_fd, group);
    if (fd < 0 || !find_in_file(fd, "usage_usec", &usec))
        return false;
    keep_file(g, group, &fd);
    return box_cpu_since(g, group, usec * 1000, out_ns);
}

int box_cgroup_open_memory(int dirfd, uint32_t version)
{
    if (dirfd < 0)
        return -1;
    return openat(dirfd, version == 1 ? "memory.oom_control" : "memory.events",
                  O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

uint64_t box_cgroup_oom_kills(int memory_fd)
{
    uint64_t n = 0;
    return memory_fd >= 0 && find_in_file(memory_fd, "oom_kill", &n) ? n : 0;
}

int box_cgroup_open_pids(int dirfd)
{
    return dirfd < 0 ? -1 : openat(dirfd, "pids.events", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

uint64_t box_cgroup_pids_refused(int pids_fd)
{
    uint64_t n = 0;
    return pids_fd >= 0 && find_in_file(pids_fd, "max", &n) ? n : 0;
}

bool box_cgroup_number(int dir, const char *file, uint64_t *out)
{
    char text[32];
    BOX_AUTO(box_closep)
    int fd = dir < 0 ? -1 : openat(dir, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);
    if (n <= 0 || !isdigit((unsigned char)text[0]))
        return false;
    text[n] = '\0';
    *out = strtoull(text, NULL, 10);
    return true;
}

bool box_cgroup_threads(int x_fd, uint64_t group, uint64_t *out)
{
    enum { MOST = 65536 };
    char path[40];
    char text[4096];
    ssize_t n;
    if (x_fd < 0 || group == 0)
        return false;
    (void)snprintf(path, sizeof path, "%" PRIu64 "/cgroup.threads", group); /* 20 digits at most */
    BOX_AUTO(box_closep) int fd = openat(x_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    *out = 0;
    while (*out < MOST && (n = read(fd, text, sizeof text)) > 0) {
        for (ssize_t i = 0; i < n; i++)
            *out += text[i] == '\n';
    }
    return true;
}
