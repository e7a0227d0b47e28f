#include "memory.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

int bench_pss_bytes(pid_t pid, double *out, box_error *err)
{
    char path[64];
    char line[128];
    double kib = -1;
    (void)snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return box_fail_errno(err, "open %s", path);
    while (kib < 0 && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, "Pss:", 4) == 0)
            kib = strtod(line + 4, NULL);
    }
    (void)fclose(f); /* only read */
    *out = kib * 1024;
    return kib < 0 ? box_fail(err, BOX_INTERNAL, "%s has no Pss", path) : 0;
}

/* --- processes -------------------------------------------------------------------------------- */

typedef struct process {
    pid_t pid;
    pid_t parent;
    bool below; /* of the root, or itself */
} process;

typedef struct processes {
    process *all;
    size_t count;
    size_t capacity;
} processes;

static void processes_done(processes *p)
{
    free(p->all);
}

/* Of /proc/PID/stat; 0: it ended. A name may hold anything, the last ')' ends it. */
static pid_t parent_of(pid_t pid)
{
    char path[64];
    char text[512];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return 0;
    size_t n = fread(text, 1, sizeof text - 1, f);
    (void)fclose(f); /* only read */
    text[n] = '\0';
    const char *end = strrchr(text, ')');
    return end != NULL && strlen(end) > 4 ? (pid_t)strtol(end + 4, NULL, 10) : 0;
}

static void add(processes *p, pid_t pid)
{
    if (p->count == p->capacity) {
        p->capacity = p->capacity != 0 ? p->capacity * 2 : 1024;
        p->all = realloc(p->all, p->capacity * sizeof *p->all);
        if (p->all == NULL)
            abort();
    }
    p->all[p->count++] = (process){.pid = pid, .parent = parent_of(pid)};
}

static int by_pid(const void *a, const void *b)
{
    const process *x = a;
    const process *y = b;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

static int look(processes *out, box_error *err)
{
    DIR *proc = opendir("/proc");
    if (proc == NULL)
        return box_fail_errno(err, "list processes");
    for (const struct dirent *e; (e = readdir(proc)) != NULL;) {
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
            add(out, (pid_t)strtol(e->d_name, NULL, 10));
    }
    (void)closedir(proc); /* only read */
    if (out->count > 0)
        qsort(out->all, out->count, sizeof *out->all, by_pid);
    return 0;
}

static process *find(const processes *p, pid_t pid)
{
    const process key = {.pid = pid};
    return bsearch(&key, p->all, p->count, sizeof key, by_pid);
}

/* Numbers of children may be smaller than their parents', so until nothing is new. */
static void mark(processes *p, pid_t root)
{
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < p->count; i++) {
            const process *parent = find(p, p->all[i].parent);
            bool below = p->all[i].pid == root || (parent != NULL && parent->below);
            more |= below && !p->all[i].below;
            p->all[i].below = below;
        }
    }
}

int bench_tree_pss_bytes(pid_t root, double *out, box_error *err)
{
    BOX_AUTO(processes_done) processes p = {0};
    if (look(&p, err) < 0)
        return -1;
    mark(&p, root);
    *out = 0;
    for (size_t i = 0; i < p.count; i++) {
        double bytes;
        box_error gone;
        if (p.all[i].below && bench_pss_bytes(p.all[i].pid, &bytes, &gone) == 0)
            *out += bytes;
    }
    return 0;
}

/* A line of /proc/PID/cgroup has a path of which one part is the uid. */
static bool is_of(pid_t pid, const char *uid)
{
    char path[64];
    char line[4096];
    bool found = false;
    (void)snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
    FILE *f = fopen(path, "re");
    while (f != NULL && !found && fgets(line, sizeof line, f) != NULL)
        found = strstr(line, uid) != NULL;
    if (f != NULL)
        (void)fclose(f); /* only read */
    return found;
}

pid_t bench_warden_of(const char *uid)
{
    BOX_AUTO(processes_done) processes p = {0};
    box_error err;
    if (uid[0] == '\0' || look(&p, &err) < 0)
        return 0;
    for (size_t i = 0; i < p.count; i++) {
        if (is_of(p.all[i].pid, uid) && !is_of(p.all[i].parent, uid))
            return p.all[i].parent;
    }
    return 0;
}

/* --- the machine ------------------------------------------------------------------------------ */

int bench_kernel_bytes(double *out, box_error *err)
{
    static const struct {
        const char *name;
        int sign;
    } parts[] = {
        {"MemTotal:", 1}, {"MemFree:", -1}, {"Buffers:", -1}, {"Cached:", -1}, {"AnonPages:", -1}};
    char line[128];
    size_t seen = 0;
    FILE *f = fopen("/proc/meminfo", "re");
    if (f == NULL)
        return box_fail_errno(err, "open /proc/meminfo");
    *out = 0;
    while (fgets(line, sizeof line, f) != NULL) {
        for (size_t i = 0; i < BOX_COUNT(parts); i++) {
            size_t len = strlen(parts[i].name);
            if (strncmp(line, parts[i].name, len) != 0)
                continue;
            *out += parts[i].sign * 1024 * strtod(line + len, NULL);
            seen++;
        }
    }
    (void)fclose(f); /* only read */
    return seen == BOX_COUNT(parts) ? 0 : box_fail(err, BOX_INTERNAL, "/proc/meminfo lacks a line");
}
