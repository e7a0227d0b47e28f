/* Which hierarchies there are, and what can really be written in them. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/id.h"
#include "namespace/cgroup.h"
#include "namespace/cgroup_tree.h"
#include "namespace/proc.h"

#define LEAF "/box-warden"

struct box_cgroups {
    box_cgroup_trees trees;
    char v2_top[BOX_CG_PATH]; /* mount point of the cgroup2 tree */
};

/* The warden's own path in a hierarchy: /proc/self/cgroup lines are "ID:CONTROLLERS:PATH"; the v2
 * line is "0::PATH". */
static bool own_path(const char *text, uint32_t version, uint32_t bits, char out[BOX_CG_PATH])
{
    for (const char *line = text; *line != '\0';) {
        const char *list = strchr(line, ':');
        const char *path = list != NULL ? strchr(list + 1, ':') : NULL;
        size_t end = strcspn(line, "\n");
        if (path == NULL || path > line + end)
            return false;
        char names[256];
        size_t n = (size_t)(path - list - 1);
        if (n < sizeof names) {
            memcpy(names, list + 1, n);
            names[n] = '\0';
            bool match = version == 2 ? n == 0 : (box_cgroup_bits(names) & bits) != 0;
            size_t len = (size_t)(line + end - path - 1);
            if (match && len < BOX_CG_PATH) {
                memcpy(out, path + 1, len);
                out[len] = '\0';
                return true;
            }
        }
        line += end;
        line += *line != '\0' ? 1 : 0;
    }
    return false;
}

/* BASE = mount point + own path (without what the mount's root already covers) or + parent. */
static bool set_base(box_cgroup_tree *t, const char *mount_point, const char *mount_root,
                     const char *own)
{
    size_t covered = strcmp(mount_root, "/") == 0 ? 0 : strlen(mount_root);
    if (strncmp(own, mount_root, covered) != 0)
        covered = 0; /* a mount of another part: its own top is all we can see */
    const char *rest = own + covered;
    int n =
        snprintf(t->base, sizeof t->base, "%s%s", mount_point, strcmp(rest, "/") == 0 ? "" : rest);
    return n > 0 && (size_t)n < sizeof t->base;
}

typedef struct mount_line {
    char root[BOX_CG_PATH];
    char point[BOX_CG_PATH];
    char type[32];
    char options[256];
} mount_line;

/* "36 35 98:0 /root /point rw,noatime ... - type source superoptions" (proc_pid_mountinfo(5)). */
static bool parse_mount(const char *line, mount_line *out)
{
    if (sscanf(line, "%*d %*d %*s %1023s %1023s", out->root, out->point) != 2)
        return false;
    const char *rest = strstr(line, " - ");
    return rest != NULL && sscanf(rest, " - %31s %*s %255s", out->type, out->options) == 2;
}

/* Fills one tree from a mount, unless an earlier one has it already. */
static void add_mount(box_cgroups *c, const mount_line *m, const char *own_text, const char *parent)
{
    box_cgroup_trees *trees = &c->trees;
    box_cgroup_tree t = {.version = strcmp(m->type, "cgroup2") == 0 ? 2 : 1};
    uint32_t bits = t.version == 1 ? box_cgroup_bits(m->options) : 0;
    if ((t.version == 1 && (bits == 0 || box_cgroup_find(trees, bits) != NULL)) ||
        (t.version == 2 && box_cgroup_v2(trees) != NULL) || trees->count == BOX_CG_MAX_TREES)
        return;
    char own[BOX_CG_PATH];
    if (!own_path(own_text, t.version, bits, own))
        return;
    t.controllers = bits;
    if (!set_base(&t, m->point, m->root, parent != NULL ? parent : own))
        return;
    if (t.version == 2)
        memcpy(c->v2_top, m->point, sizeof c->v2_top);
    trees->all[trees->count++] = t;
}

static void find_mounts(box_cgroups *c, const char *parent)
{
    char own[8192];
    if (box_proc_read(AT_FDCWD, "/proc/self/cgroup", own, sizeof own) < 0)
        return;
    FILE *f = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    size_t size = 0;
    while (f != NULL && getline(&line, &size, f) > 0) {
        mount_line m;
        if (parse_mount(line, &m) && strncmp(m.type, "cgroup", 6) == 0)
            add_mount(c, &m, own, parent);
    }
    free(line);
    if (f != NULL)
        (void)fclose(f); /* only read */
}

/* False while processes sit in the group itself, but for the real root. It must be asked: pids and
 * cpu ("threaded controllers") are switched on all the same, and then no child may have processes.
 */
static bool may_limit_children(int dir)
{
    char procs[16];
    return faccessat(dir, "cgroup.type", F_OK, 0) < 0 ||
           box_proc_read(dir, "cgroup.procs", procs, sizeof procs) == 0;
}

/* Switches the controllers on for a group's children, one by one. What does not work shows in the
 * probe. */
static void enable_below(const char *group)
{
    BOX_AUTO(box_closep) int dir = open(group, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || !may_limit_children(dir))
        return;
    for (size_t i = 0; i < BOX_CG_CONTROLLERS; i++) {
        char enable[32];
        box_error ignored;
        (void)snprintf(enable, sizeof enable, "+%s", box_cgroup_controllers[i].name);
        (void)!box_fd_write_file(dir, "cgroup.subtree_control", enable, &ignored);
    }
}

/* Makes a configured group. On v2 a group has only the controllers that its parent hands down, and
 * that is so from the top. */
static void make_path(const box_cgroup_tree *t, const char *top)
{
    char part[BOX_CG_PATH];
    (void)snprintf(part, sizeof part, "%s", t->base);
    for (char *slash = strchr(part + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(part, 0755); /* the probe below tells whether it worked */
        if (t->version == 2 && strlen(part) >= strlen(top))
            enable_below(part);
        *slash = '/';
    }
    (void)mkdir(part, 0755);
}

/* The warden is the only process of its group: of a service's, as opposed to a login's. */
static bool is_alone(const char *group)
{
    char procs[64];
    BOX_AUTO(box_closep) int dir = open(group, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || box_proc_read(dir, "cgroup.procs", procs, sizeof procs) < 0)
        return false;
    char *rest;
    return strtol(procs, &rest, 10) == getpid() && strcmp(rest, "\n") == 0;
}

static void enter_leaf(const box_cgroup_tree *t)
{
    char leaf[BOX_CG_PATH + sizeof LEAF];
    (void)snprintf(leaf, sizeof leaf, "%s" LEAF, t->base);
    if (mkdir(leaf, 0755) < 0 && errno != EEXIST)
        return;
    BOX_AUTO(box_closep) int dir = open(leaf, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    box_error ignored; /* the probe tells whether limits work */
    if (dir >= 0)
        (void)!box_fd_write_file(dir, "cgroup.procs", "0", &ignored);
}

/* On v2 a group with processes can have no limited children ("no internal processes", kernel
 * cgroup-v2.rst): a warden that has a group for itself goes to a leaf of it. */
static void leave_base(box_cgroup_tree *t)
{
    size_t len = strlen(t->base);
    if (len > sizeof LEAF - 1 && strcmp(t->base + len - (sizeof LEAF - 1), LEAF) == 0)
        t->base[len - (sizeof LEAF - 1)] = '\0'; /* started by one that moved before */
    else if (is_alone(t->base))
        enter_leaf(t);
}

static bool probe_file(int dir, uint32_t version, const box_cgroup_controller *c)
{
    box_error err;
    const char *file = version == 2 ? c->v2_probe : c->v1_probe;
    const char *value = c->bit == BOX_CG_CPU ? (version == 2 ? "50000 100000" : "50000")
                                             : (c->bit == BOX_CG_PIDS ? "64" : "67108864");
    return file == NULL || box_fd_write_file(dir, file, value, &err) == 0;
}

/* What of t->controllers really works: a group is made, written to and removed. On v2 the
 * controllers are switched on for the children first. */
static uint32_t probe(const box_cgroup_tree *t)
{
    box_uid random = box_uid_new();
    char text[BOX_UID_TEXT];
    char path[BOX_CG_PATH + BOX_UID_TEXT + 16];
    box_uid_text(&random, text);
    (void)snprintf(path, sizeof path, "%s/box-probe-%s", t->base, text);
    uint32_t works = 0;
    BOX_AUTO(box_closep) int base = open(t->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (base < 0 || mkdir(path, 0755) < 0)
        return UINT32_MAX; /* not even a group can be made */
    BOX_AUTO(box_closep) int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool limits = t->version == 1 || may_limit_children(base);
    for (size_t i = 0; limits && i < BOX_CG_CONTROLLERS; i++) {
        const box_cgroup_controller *c = &box_cgroup_controllers[i];
        if ((t->controllers & c->bit) == 0)
            continue;
        char enable[32];
        box_error err;
        (void)snprintf(enable, sizeof enable, "+%s", c->name);
        if (t->version == 2 && box_fd_write_file(base, "cgroup.subtree_control", enable, &err) < 0)
            continue;
        if (probe_file(dir, t->version, c))
            works |= c->bit;
    }
    (void)rmdir(path); /* empty; a leftover would only be a name */
    return works;
}

static uint32_t offered(const char *group)
{
    char list[1024] = "";
    BOX_AUTO(box_closep) int dir = open(group, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || box_proc_read(dir, "cgroup.controllers", list, sizeof list) < 0)
        return 0;
    return box_cgroup_bits(list) & ~(uint32_t)BOX_CG_CPUACCT;
}

static uint32_t v1_controllers(const box_cgroups *c)
{
    uint32_t bits = 0;
    for (size_t i = 0; i < c->trees.count; i++)
        bits |= c->trees.all[i].version == 1 ? c->trees.all[i].controllers : 0;
    return bits;
}

/* The warden's own group is the second choice on v2. A login's is shared, so that nothing below it
 * can be limited. A service's breaks what should outlive the service: when it stops, systemd
 * removes the empty groups below (S/box/x), and cannot start it again while others have limits
 * there (EBUSY; seen with systemd 252). Engines that are not systemd's use the top, too. */
static uint32_t place_v2(const box_cgroups *c, box_cgroup_tree *t, uint32_t v1)
{
    box_cgroup_tree top = {.version = 2, .controllers = offered(c->v2_top) & ~v1};
    memcpy(top.base, c->v2_top, sizeof top.base);
    if (top.controllers != 0 && is_alone(top.base))
        enter_leaf(&top); /* a container that is only the warden */
    uint32_t works = probe(&top);
    if (works != UINT32_MAX && (works != 0 || top.controllers == 0)) {
        *t = top;
        return works;
    }
    t->controllers = offered(t->base) & ~v1;
    if (t->controllers != 0)
        leave_base(t);
    t->controllers = offered(t->base) & ~v1;
    return probe(t);
}

/* Which controllers work; UINT32_MAX = the tree is of no use. */
static uint32_t settle_tree(const box_cgroups *c, box_cgroup_tree *t, const char *parent)
{
    if (t->version == 2 && parent == NULL)
        return place_v2(c, t, v1_controllers(c));
    if (parent != NULL)
        make_path(t, c->v2_top);
    if (t->version == 2)
        t->controllers = offered(t->base) & ~v1_controllers(c);
    return probe(t);
}

static void drop(box_cgroup_trees *trees, size_t i)
{
    trees->count--;
    memmove(&trees->all[i], &trees->all[i + 1], (trees->count - i) * sizeof trees->all[0]);
}

int box_cgroups_open(const char *parent, box_cgroups **out, box_error *err)
{
    (void)err; /* a host without control groups is weak, not wrong */
    box_cgroups *c = box_alloc(sizeof *c);
    box_cgroup_trees *trees = &c->trees;
    find_mounts(c, parent);
    for (size_t i = 0; i < trees->count;) {
        box_cgroup_tree *t = &trees->all[i];
        uint32_t works = settle_tree(c, t, parent);
        t->controllers = works;
        if (works == UINT32_MAX || (t->version == 1 && works == 0))
            drop(trees, i);
        else
            i++;
    }
    /* CPU time comes from cgroup2's cpu.stat where there is one. */
    for (size_t i = 0; box_cgroup_v2(trees) != NULL && i < trees->count;) {
        if (trees->all[i].controllers == BOX_CG_CPUACCT)
            drop(trees, i);
        else
            i++;
    }
    *out = c;
    return 0;
}

void box_cgroups_close(box_cgroups *c)
{
    free(c);
}

uint32_t box_cgroups_guarantees(const box_cgroups *c)
{
    uint32_t bits = 0;
    bits |= box_cgroup_find(&c->trees, BOX_CG_MEMORY) != NULL ? BOX_G_MEMORY : 0;
    bits |= box_cgroup_find(&c->trees, BOX_CG_PIDS) != NULL ? BOX_G_PIDS : 0;
    bits |= box_cgroup_find(&c->trees, BOX_CG_CPU) != NULL ? BOX_G_CPU : 0;
    bits |= box_cgroup_v2(&c->trees) != NULL ? BOX_G_COMMAND_CGROUP : 0;
    bits |= box_cgroup_process_version(&c->trees) != 0 ? BOX_G_PROCESS_LIMITS : 0;
    const uint32_t limits = BOX_G_MEMORY | BOX_G_PIDS | BOX_G_CPU;
    return (bits & limits) == limits ? bits | BOX_G_LIVE_LIMITS : bits;
}

const char *box_cgroups_kind(const box_cgroups *c)
{
    bool v1 = false;
    for (size_t i = 0; i < c->trees.count; i++)
        v1 = v1 || c->trees.all[i].version == 1;
    bool v2 = box_cgroup_v2(&c->trees) != NULL;
    return v1 ? (v2 ? "v1 hybrid" : "v1") : (v2 ? "v2" : "none");
}

uint32_t box_cgroups_memory_version(const box_cgroups *c)
{
    const box_cgroup_tree *t = box_cgroup_find(&c->trees, BOX_CG_MEMORY);
    return t != NULL ? t->version : 0;
}

int box_cgroups_place(const box_cgroups *c, const char *owner, const box_uid *uid,
                      char out[BOX_SANDBOX_PLACE_BYTES], box_error *err)
{
    char text[BOX_UID_TEXT];
    char below[BOX_UID_TEXT + 64];
    box_uid_text(uid, text);
    int n = snprintf(below, sizeof below, "/box-%s/%s", owner, text);
    if (n < 0 || (size_t)n >= sizeof below)
        return box_fail(err, BOX_VALIDATION, "the name of the warden's control group is too long");
    return box_cgroup_trees_print(&c->trees, below, out, err);
}
