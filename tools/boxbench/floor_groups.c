#include "floor_groups.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"

#define PREFIX     "boxbench."
#define UNIFIED    "cgroup2"
#define CONTROLLED "+memory", "+pids", "+cpu"

/* Below S, parents first. */
static const char *const groups[] = {"s", "s/agent", "s/box", "s/box/x", "s/box/x/1"};
enum { V1_GROUPS = 3, V2_GROUPS = BOX_COUNT(groups) };

/* Of all hierarchies; each has some. In this order: v1 keeps memory <= memory and swap. */
static const struct {
    const char *file;
    const char *value;
} limits[] = {
    {"s/agent/memory.limit_in_bytes", "16777216"},
    {"s/agent/memory.memsw.limit_in_bytes", "16777216"},
    {"s/agent/memory.max", "16777216"},
    {"s/agent/memory.swap.max", "0"},
    {"s/agent/pids.max", "16"},
    {"s/box/memory.limit_in_bytes", "536870912"},
    {"s/box/memory.memsw.limit_in_bytes", "536870912"},
    {"s/box/memory.max", "536870912"},
    {"s/box/memory.swap.max", "0"},
    {"s/box/pids.max", "128"},
    {"s/box/cpu.cfs_quota_us", "100000"},
    {"s/box/cpu.max", "100000 100000"},
};

static size_t groups_of(const floor_tree *t)
{
    return t->unified ? V2_GROUPS : V1_GROUPS;
}

/* --- the hierarchies -------------------------------------------------------------------------- */

static bool is_ours(const char *type, const char *options)
{
    char list[512];
    if (strcmp(type, UNIFIED) == 0)
        return true;
    if (strcmp(type, "cgroup") != 0)
        return false;
    (void)snprintf(list, sizeof list, ",%s,", options);
    return strstr(list, ",memory,") != NULL || strstr(list, ",pids,") != NULL ||
           strstr(list, ",cpu,") != NULL;
}

static bool is_stale(const char *path)
{
    const char *text = strrchr(path, '/') + sizeof PREFIX;
    char *end;
    long pid = strtol(text, &end, 10);
    return *end == '\0' && pid > 0 && kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

static void remove_owner(const char *owner)
{
    char path[512];
    for (size_t i = BOX_COUNT(groups); i-- > 0;) {
        (void)snprintf(path, sizeof path, "%s/%s", owner, groups[i]);
        (void)rmdir(path); /* most are not there */
    }
    (void)rmdir(owner);
}

static void remove_stale(const char *point)
{
    char pattern[300];
    glob_t found;
    (void)snprintf(pattern, sizeof pattern, "%s/" PREFIX "*", point);
    if (glob(pattern, GLOB_NOSORT, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        if (is_stale(found.gl_pathv[i]))
            remove_owner(found.gl_pathv[i]);
    }
    globfree(&found);
}

/* Controllers that other hierarchies have, or nobody hands down, refuse. */
static void hand_down(int dir)
{
    static const char *const all[] = {CONTROLLED};
    box_error ignored;
    for (size_t i = 0; i < BOX_COUNT(all); i++)
        (void)!box_fd_write_file(dir, "cgroup.subtree_control", all[i], &ignored);
}

/* --- one hierarchy ---------------------------------------------------------------------------- */

static int set_limits(const floor_tree *t, box_error *err)
{
    for (size_t i = 0; i < BOX_COUNT(limits); i++) {
        if ((t->limits & 1U << i) != 0 &&
            box_fd_write_file(t->dir, limits[i].file, limits[i].value, err) < 0)
            return -1;
    }
    return 0;
}

static int make_tree(const floor_tree *t, box_error *err)
{
    for (size_t i = 0; i < groups_of(t); i++) {
        if (mkdirat(t->dir, groups[i], 0755) < 0)
            return box_fail_errno(err, "make a control group");
        if (i == 0 && t->hands_down) {
            BOX_AUTO(box_closep) int s = openat(t->dir, groups[0], O_RDONLY | O_CLOEXEC);
            hand_down(s);
        }
    }
    return set_limits(t, err);
}

static int remove_tree(const floor_tree *t, box_error *err)
{
    for (size_t i = groups_of(t); i-- > 0;) {
        if (unlinkat(t->dir, groups[i], AT_REMOVEDIR) < 0)
            return box_fail_errno(err, "remove a control group");
    }
    return 0;
}

/* Which of the limits it has. */
static int learn(floor_tree *t, box_error *err)
{
    if (t->unified) {
        char list[256];
        BOX_AUTO(box_closep) int file = openat(t->dir, "cgroup.controllers", O_RDONLY | O_CLOEXEC);
        t->hands_down = file >= 0 && read(file, list, sizeof list) > 1; /* not only a line's end */
    }
    if (make_tree(t, err) < 0)
        return -1;
    for (size_t i = 0; i < BOX_COUNT(limits); i++)
        t->limits |= faccessat(t->dir, limits[i].file, W_OK, 0) == 0 ? 1U << i : 0;
    return remove_tree(t, err);
}

static int add_tree(floor_groups *g, const char *type, const char *point, box_error *err)
{
    floor_tree t = {.unified = strcmp(type, UNIFIED) == 0};
    int n = snprintf(t.owner, sizeof t.owner, "%s/" PREFIX "%d", point, (int)getpid());
    if (n < 0 || (size_t)n >= sizeof t.owner || g->count == FLOOR_MAX_TREES)
        return 0;
    remove_stale(point);
    if (mkdir(t.owner, 0755) < 0)
        return 0; /* not ours to make */
    t.dir = open(t.owner, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (t.dir < 0) {
        (void)rmdir(t.owner);
        return box_fail_errno(err, "open a control group");
    }
    if (t.unified) {
        BOX_AUTO(box_closep) int top = open(point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        hand_down(top);
        hand_down(t.dir);
    }
    g->trees[g->count++] = t;
    return learn(&g->trees[g->count - 1], err);
}

int floor_groups_open(floor_groups *out, box_error *err)
{
    *out = (floor_groups){0};
    FILE *f = fopen("/proc/self/mounts", "re");
    char *line = NULL;
    size_t size = 0;
    if (f == NULL)
        return box_fail_errno(err, "list the mounts");
    int rc = 0;
    while (rc == 0 && getline(&line, &size, f) > 0) {
        char point[200];
        char type[32];
        char options[400];
        if (sscanf(line, "%*s %199s %31s %399s", point, type, options) == 3 &&
            is_ours(type, options))
            rc = add_tree(out, type, point, err);
    }
    free(line);
    (void)fclose(f); /* only read */
    if (rc < 0)
        floor_groups_close(out);
    return rc;
}

void floor_groups_close(floor_groups *g)
{
    for (size_t i = 0; i < g->count; i++) {
        box_closep(&g->trees[i].dir);
        remove_owner(g->trees[i].owner);
    }
    g->count = 0;
}

/* --- one sandbox's ---------------------------------------------------------------------------- */

int floor_groups_make(const floor_groups *g, floor_entries *out, box_error *err)
{
    for (size_t i = 0; i < g->count; i++) {
        const floor_tree *t = &g->trees[i];
        if (make_tree(t, err) < 0)
            return -1;
        int fd = t->unified ? openat(t->dir, "s/box/x/1", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                            : openat(t->dir, "s/box/tasks", O_WRONLY | O_CLOEXEC);
        if (fd < 0)
            return box_fail_errno(err, "open a control group");
        if (t->unified)
            out->birth = fd;
        else
            out->tasks[out->n_tasks++] = fd;
    }
    return 0;
}

void floor_entries_done(floor_entries *e)
{
    box_closep(&e->birth);
    for (size_t i = 0; i < e->n_tasks; i++)
        box_closep(&e->tasks[i]);
    e->n_tasks = 0;
}

int floor_groups_remove(const floor_groups *g, box_error *err)
{
    for (size_t i = 0; i < g->count; i++) {
        if (remove_tree(&g->trees[i], err) < 0)
            return -1;
    }
    return 0;
}
