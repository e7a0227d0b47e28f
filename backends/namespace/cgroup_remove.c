/* Killing and removing: what must work whatever state a crash left behind. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "namespace/cgroup.h"
#include "namespace/cgroup_tree.h"

enum { MAX_DEPTH = 8 /* S/box/x/N is four deep */ };

void box_cgroups_lift_cpu(const box_sandbox_record *r)
{
    box_cgroup_trees trees;
    box_cgroup_trees_parse(r->place, &trees);
    const box_cgroup_tree *t = box_cgroup_find(&trees, BOX_CG_CPU);
    BOX_AUTO(box_closep) int dir = t != NULL ? box_cgroup_open(t, "/box") : -1;
    box_error ignored; /* only makes the killing faster */
    if (dir >= 0)
        (void)!box_fd_write_file(dir, t->version == 2 ? "cpu.max" : "cpu.cfs_quota_us",
                                 t->version == 2 ? "max" : "-1", &ignored);
}

static void kill_listed(int dir)
{
    int fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "re");
    if (f == NULL)
        return;
    char line[32];
    while (fgets(line, sizeof line, f) != NULL) {
        pid_t pid = (pid_t)strtol(line, NULL, 10); /* 0: of another pid namespace */
        if (pid > 0 && pid != getpid())
            (void)kill(pid, SIGKILL); /* gone already is fine */
    }
    (void)fclose(f); /* only read */
}

/* Kills and removes `name` below parent with all groups beneath it. False when something stays. */
static bool clear(int parent, const char *name, int depth)
{
    BOX_AUTO(box_closep)
    int dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (dir < 0)
        return errno == ENOENT;
    kill_listed(dir);
    int copy = depth < MAX_DEPTH ? fcntl(dir, F_DUPFD_CLOEXEC, 0) : -1;
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    if (d == NULL)
        return false;
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_type == DT_DIR && strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            (void)clear(dir, e->d_name, depth + 1); /* what stays shows in the rmdir below */
    }
    (void)closedir(d);
    return unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT;
}

static bool clear_tree(const box_cgroup_tree *t)
{
    char owner[BOX_CG_PATH];
    (void)snprintf(owner, sizeof owner, "%s", t->base);
    char *name = strrchr(owner, '/');
    *name++ = '\0';
    BOX_AUTO(box_closep) int dir = open(owner, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (dir < 0)
        return errno == ENOENT;
    if (!clear(dir, name, 0))
        return false;
    (void)rmdir(owner); /* stays while the warden has other sandboxes */
    return true;
}

int box_cgroups_remove(const box_sandbox_record *r, box_error *err)
{
    box_cgroup_trees trees;
    box_cgroup_trees_parse(r->place, &trees);
    box_time deadline = box_time_add(box_now(), BOX_SANDBOX_KILL_SECONDS * BOX_SECOND);
    for (long pause_ns = 500000;; pause_ns = pause_ns < 50000000 ? pause_ns * 2 : pause_ns) {
        bool done = true;
        for (size_t i = 0; i < trees.count; i++)
            done = clear_tree(&trees.all[i]) && done;
        if (done)
            return 0;
        if (box_now() > deadline)
            return box_fail(err, BOX_INTERNAL, "control groups of the sandbox cannot be removed");
        (void)nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL); /* cut short is fine */
    }
}
