#include "agent/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

enum { NAME_BYTES = 24, PERIOD_US = 100000, MOVES = 100 };

enum { MEMORY, PIDS, CPU }; /* places in dirs */

static void name_of(char name[NAME_BYTES], uint64_t id)
{
    (void)snprintf(name, NAME_BYTES, "p%" PRIu64, id); /* 20 digits */
}

static int set_number(int dir, const char *file, uint64_t value, box_error *err)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    return box_fd_write_file(dir, file, text, err);
}

static bool has_file(int dir, const char *file)
{
    struct stat st;
    return fstatat(dir, file, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* --- v1 --------------------------------------------------------------------------------------- */

static int set_memory_v1(int dir, uint64_t bytes, box_error *err)
{
    static const char swap[] = "memory.memsw.limit_in_bytes";
    if (set_number(dir, "memory.limit_in_bytes", bytes, err) < 0)
        return -1;
    return has_file(dir, swap) ? set_number(dir, swap, bytes, err) : 0;
}

static int set_v1(const box_limits *l, const box_agent_limits *limits, box_error *err)
{
    if (limits->memory_bytes != 0 && set_memory_v1(l->dirs[MEMORY], limits->memory_bytes, err) < 0)
        return -1;
    if (limits->pids != 0 && set_number(l->dirs[PIDS], "pids.max", limits->pids, err) < 0)
        return -1;
    if (limits->cpu_millis == 0)
        return 0;
    if (set_number(l->dirs[CPU], "cpu.cfs_period_us", PERIOD_US, err) < 0)
        return -1;
    return set_number(l->dirs[CPU], "cpu.cfs_quota_us",
                      (uint64_t)limits->cpu_millis * PERIOD_US / 1000, err);
}

/* Two controllers may share a hierarchy: then the group is there already. */
static int make_group(int parent, const char *name, int *dir, int *entry, box_error *err)
{
    bool made = mkdirat(parent, name, 0755) == 0;
    if (!made && errno != EEXIST)
        return box_fail_errno(err, "make the process's control group");
    *dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (*dir >= 0 && made)
        *entry = openat(*dir, "tasks", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    return *dir < 0 || (made && *entry < 0)
               ? box_fail_errno(err, "open the process's control group")
               : 0;
}

static int make_v1(const box_agent_config *config, const box_agent_limits *limits, box_limits *l,
                   box_error *err)
{
    char name[NAME_BYTES];
    name_of(name, l->id);
    for (size_t i = 0; i < BOX_AGENT_LIMIT_DIRS; i++) {
        if (make_group(config->limit_dirs[i], name, &l->dirs[i], &l->entries[i], err) < 0)
            return -1;
    }
    return set_v1(l, limits, err);
}

/* --- cgroup2 ---------------------------------------------------------------------------------- */

/* All that cgroup.procs lists; what is born meanwhile is found by the next round. */
static void move_all(int from, int to)
{
    char text[4096];
    char line[16];
    box_error gone; /* it ended, or the next round tries again */
    BOX_AUTO(box_closep) int fd = openat(from, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    for (char *at = text, *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        *end = '\0';
        (void)snprintf(line, sizeof line, "%.10s", at);
        if (box_fd_write_file(to, "cgroup.procs", line, &gone) < 0)
            gone = (box_error){0};
    }
}

/* S/box may give its groups controllers only when no process is in it itself (cgroups(7)). */
static int empty_box(int box, int inner, box_error *err)
{
    static const char controllers[] = "+memory +pids +cpu";
    for (int i = 0; i < MOVES; i++) {
        move_all(box, inner);
        if (box_fd_write_file(box, "cgroup.subtree_control", controllers, err) == 0)
            return box_fd_write_file(box, "x/cgroup.subtree_control", controllers, err);
        if (err->sys_errno != EBUSY)
            break;
    }
    return box_wrap(err, "limits of a process");
}

static int open_place(const box_agent_config *config, box_limits_place *place, box_error *err)
{
    if (place->inner >= 0)
        return 0;
    BOX_AUTO(box_closep) int box = openat(config->cgroup, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (box < 0 || (mkdirat(box, "z", 0755) < 0 && errno != EEXIST))
        return box_fail_errno(err, "make a control group");
    BOX_AUTO(box_closep) int inner = openat(box, "z", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    BOX_AUTO(box_closep)
    int procs = inner < 0 ? -1 : openat(inner, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    if (procs < 0)
        return box_fail_errno(err, "open a control group");
    if (empty_box(box, inner, err) < 0)
        return -1;
    /* Whoever enters S/box from now on enters this. */
    if (dup3(procs, config->box_procs[0], O_CLOEXEC) < 0)
        return box_fail_errno(err, "take a control group");
    place->inner = box_take_fd(&inner);
    return 0;
}

int box_limits_set_tree(const box_tree *tree, const box_agent_limits *limits, box_error *err)
{
    char quota[48];
    if (limits->memory_bytes != 0) {
        if (has_file(tree->dir, "memory.swap.max") &&
            set_number(tree->dir, "memory.swap.max", 0, err) < 0)
            return -1;
        if (set_number(tree->dir, "memory.max", limits->memory_bytes, err) < 0)
            return -1;
    }
    if (limits->pids != 0 && set_number(tree->dir, "pids.max", limits->pids, err) < 0)
        return -1;
    if (limits->cpu_millis == 0)
        return 0;
    (void)snprintf(quota, sizeof quota, "%" PRIu64 " %d",
                   (uint64_t)limits->cpu_millis * PERIOD_US / 1000, PERIOD_US);
    return box_fd_write_file(tree->dir, "cpu.max", quota, err);
}

/* --- both ------------------------------------------------------------------------------------- */

int box_limits_make(const box_agent_config *config, box_limits_place *place, uint64_t id,
                    const box_agent_limits *limits, box_limits *out, box_error *err)
{
    if (!box_limits_wanted(limits))
        return 0;
    out->id = id;
    out->version = config->setup.limits_version;
    switch (out->version) {
    case 1:
        return make_v1(config, limits, out, err);
    case 2:
        return open_place(config, place, err);
    default:
        (void)box_fail(err, BOX_GUARANTEE_UNSUPPORTED,
                       "processes of this sandbox have no limits of their own"); /* always -1 */
        box_error_add(err, "guarantees", "process_limits");
        return -1;
    }
}

/* The number of a file, or behind a key in it. */
static bool read_number(int dir, const char *file, const char *key, uint64_t *out)
{
    char text[1024]; /* memory.events has under 200 bytes */
    BOX_AUTO(box_closep) int fd = dir < 0 ? -1 : openat(dir, file, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);
    if (n <= 0)
        return false;
    text[n] = '\0';
    const char *at = text;
    size_t len = strlen(key);
    while (at != NULL && len > 0 && (strncmp(at, key, len) != 0 || at[len] != ' ')) {
        at = strchr(at, '\n');
        at = at != NULL ? at + 1 : NULL;
    }
    if (at == NULL)
        return false;
    *out = strtoull(at + len, NULL, 10);
    return true;
}

static uint64_t number_or_none(int dir, const char *file, const char *key)
{
    uint64_t n = 0;
    return read_number(dir, file, key, &n) ? n : 0;
}

void box_limits_begin(box_limits *l)
{
    box_error poor; /* then the peak is that of an earlier run */
    if (l->version != 1)
        return;
    l->oom_before = number_or_none(l->dirs[MEMORY], "memory.oom_control", "oom_kill");
    l->refused_before = number_or_none(l->dirs[PIDS], "pids.events", "max");
    if (box_fd_write_file(l->dirs[MEMORY], "memory.max_usage_in_bytes", "0", &poor) < 0)
        poor = (box_error){0};
}

static uint64_t since(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

void box_limits_count(const box_limits *l, uint32_t version, const box_tree *tree,
                      box_limits_counts *out)
{
    *out = (box_limits_counts){0};
    if (version == 1) {
        int memory = l->dirs[MEMORY];
        out->oom_kills =
            since(number_or_none(memory, "memory.oom_control", "oom_kill"), l->oom_before);
        out->pids_refused =
            since(number_or_none(l->dirs[PIDS], "pids.events", "max"), l->refused_before);
        out->peak_bytes = number_or_none(memory, "memory.max_usage_in_bytes", "");
    } else if (version == 2 && tree != NULL) {
        out->oom_kills = number_or_none(tree->dir, "memory.events", "oom_kill");
        out->pids_refused = number_or_none(tree->dir, "pids.events", "max");
        out->peak_bytes = number_or_none(tree->dir, "memory.peak", "");
    }
}

void box_limits_done(const box_agent_config *config, box_limits *l)
{
    char name[NAME_BYTES];
    name_of(name, l->id);
    for (size_t i = 0; i < BOX_AGENT_LIMIT_DIRS && l->version == 1; i++) {
        box_closep(&l->entries[i]);
        box_closep(&l->dirs[i]);
        (void)unlinkat(config->limit_dirs[i], name, AT_REMOVEDIR); /* the warden removes the rest */
    }
    l->version = 0;
}
