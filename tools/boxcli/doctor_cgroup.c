/* boxcli doctor: control groups. As root a group of its own is made, written to and removed. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "doctor.h"
#include "machine.h"

enum { CG_PATH = 600, CG_LIST = 512 };

typedef struct hierarchies {
    bool v1;
    char v2[512]; /* mount point of cgroup2; empty: none */
} hierarchies;

/* A controller that sandboxes are limited by. */
typedef struct controller {
    const char *name;
    const char *v1_file;
    const char *v1_value;
    const char *v2_file;
    const char *v2_value;
} controller;

static const controller memory = {"memory", "memory.limit_in_bytes", "67108864", "memory.max",
                                  "67108864"};
static const controller pids = {"pids", "pids.max", "64", "pids.max", "64"};
static const controller cpu = {"cpu", "cpu.cfs_quota_us", "50000", "cpu.max", "50000 100000"};

/* Calls `each` for all cgroup mounts until it says true. */
static bool walk_mounts(bool (*each)(void *arg, const machine_mount *m), void *arg)
{
    FILE *f = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    size_t size = 0;
    bool found = false;
    while (f != NULL && !found && getline(&line, &size, f) > 0) {
        machine_mount m;
        if (machine_parse_mount(line, &m) && strncmp(m.type, "cgroup", 6) == 0)
            found = each(arg, &m);
    }
    free(line);
    if (f != NULL)
        (void)fclose(f); /* only read */
    return found;
}

static bool note_mount(void *arg, const machine_mount *m)
{
    hierarchies *h = arg;
    if (strcmp(m->type, "cgroup2") == 0)
        (void)snprintf(h->v2, sizeof h->v2, "%s", m->point);
    else if (strstr(m->options, "name=") == NULL) /* systemd's own limits nothing */
        h->v1 = true;
    return false;
}

static hierarchies find_hierarchies(void)
{
    hierarchies h = {0};
    (void)walk_mounts(note_mount, &h);
    return h;
}

static void check_layout(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)d;
    (void)check;
    hierarchies h = find_hierarchies();
    if (!h.v1 && h.v2[0] == '\0') {
        doctor_fail(row, "none is mounted");
        doctor_fix(row, "mount -t cgroup2 none /sys/fs/cgroup");
    } else if (!h.v1) {
        doctor_ok(row, "v2 at %s", h.v2);
    } else if (h.v2[0] != '\0') {
        doctor_ok(row, "v1 hybrid, cgroup2 at %s", h.v2);
    } else {
        doctor_warn(row, "v1 without cgroup2: commands are not counted and killed exactly");
        doctor_fix(row, "boot with systemd.unified_cgroup_hierarchy=1, or: mkdir "
                        "/sys/fs/cgroup/unified; mount -t cgroup2 none /sys/fs/cgroup/unified");
    }
}

/* --- where a controller is -------------------------------------------------------------------- */

typedef struct place {
    const char *wanted; /* controller */
    int version;        /* 0: nowhere */
    char point[512];
} place;

static bool v2_offers(const char *point, const char *list, const char *name)
{
    char path[CG_PATH];
    char words[CG_LIST];
    (void)snprintf(path, sizeof path, "%s/%s", point, list);
    return machine_line(path, words, sizeof words) && machine_has_word(words, " ", name);
}

static bool has_controller(void *arg, const machine_mount *m)
{
    place *p = arg;
    bool v2 = strcmp(m->type, "cgroup2") == 0;
    if (v2 ? !v2_offers(m->point, "cgroup.controllers", p->wanted)
           : !machine_has_word(m->options, ",", p->wanted))
        return false;
    p->version = v2 ? 2 : 1;
    (void)snprintf(p->point, sizeof p->point, "%s", m->point);
    return true;
}

/* --- the try ---------------------------------------------------------------------------------- */

/* A group of our own; true with its path. */
static bool make_group(const char *point, char path[CG_PATH])
{
    char text[BOX_UID_TEXT];
    box_uid random = box_uid_new();
    box_uid_text(&random, text);
    (void)snprintf(path, CG_PATH, "%s/box-doctor-%s", point, text);
    return mkdir(path, 0755) == 0;
}

/* 0 or errno: a limit was written to a new group. */
static int try_limit(const char *point, const char *file, const char *value)
{
    char path[CG_PATH];
    box_error err = {0};
    if (!make_group(point, path))
        return errno;
    BOX_AUTO(box_closep) int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int why = dir < 0 ? errno : 0;
    if (why == 0 && box_fd_write_file(dir, file, value, &err) < 0)
        why = err.sys_errno;
    (void)rmdir(path); /* nothing ever ran in it */
    return why;
}

static void tried(doctor_row *row, const place *p, int why)
{
    if (why == 0) {
        doctor_ok(row, "v%d at %s, a limit was set", p->version, p->point);
        return;
    }
    doctor_fail(row, "v%d at %s, but no limit can be set: %s", p->version, p->point, strerror(why));
    doctor_fix(row,
               why == EROFS
                   ? "mount -o remount,rw %s (in a container: run it with a writable cgroup "
                     "tree)"
                   : "run box-warden where it may make control groups below %s",
               p->point);
}

static void check_controller(doctor *d, const doctor_check *check, doctor_row *row)
{
    const controller *c = check->about;
    place p = {.wanted = c->name};
    (void)walk_mounts(has_controller, &p);
    if (p.version == 0) {
        doctor_fail(row, "no hierarchy has it: sandboxes cannot be limited so");
        doctor_fix(row, "boot with cgroup_enable=%s, or let the container see that controller",
                   c->name);
    } else if (!d->is_root) {
        doctor_skip(row, "v%d at %s; setting a limit needs root", p.version, p.point);
    } else if (p.version == 1) {
        tried(row, &p, try_limit(p.point, c->v1_file, c->v1_value));
    } else if (v2_offers(p.point, "cgroup.subtree_control", c->name)) {
        tried(row, &p, try_limit(p.point, c->v2_file, c->v2_value));
    } else { /* switching it on would change the machine: that is box-warden's to do */
        doctor_ok(row, "v2 at %s, offered; box-warden switches it on", p.point);
    }
}

/* A group for each command: made, killed and counted as a whole. */
static void check_commands(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)check;
    char path[CG_PATH];
    hierarchies h = find_hierarchies();
    if (h.v2[0] == '\0') {
        doctor_warn(row, "no cgroup2: what a command leaves behind is found by its parents only");
        doctor_fix(row, "mount cgroup2 (see the row cgroups)");
    } else if (!d->is_root) {
        doctor_skip(row, "cgroup2 at %s; making a group needs root", h.v2);
    } else if (!make_group(h.v2, path)) {
        doctor_warn(row, "no group can be made in %s: %s", h.v2, strerror(errno));
        doctor_fix(row, "run box-warden where it may make control groups below %s", h.v2);
    } else {
        BOX_AUTO(box_closep) int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        bool kill = dir >= 0 && faccessat(dir, "cgroup.kill", W_OK, 0) == 0;
        (void)rmdir(path); /* nothing ever ran in it */
        if (kill)
            doctor_ok(row, "cgroup2 at %s, a group was made; it can be killed as a whole", h.v2);
        else {
            doctor_warn(row, "cgroup2 at %s, a group was made; cgroup.kill is missing", h.v2);
            doctor_fix(row, "use Linux 5.14 or later; until then processes are killed one by one");
        }
    }
}

const doctor_check doctor_cgroup_checks[] = {
    {.name = "cgroups", .run = check_layout},
    {.name = "cgroup memory", .run = check_controller, .about = &memory},
    {.name = "cgroup pids", .run = check_controller, .about = &pids},
    {.name = "cgroup cpu", .run = check_controller, .about = &cpu},
    {.name = "cgroup of a command", .run = check_commands},
    {0},
};
