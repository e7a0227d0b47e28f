#include "agent/walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"

enum { STOP_ROUNDS = 8 }; /* a look at 10,000 takes 0.1 s, and boxd waits */

bool box_walk_parse(const char *text, box_walk_process *out)
{
    const char *comm_end = strrchr(text, ')'); /* comm is the process's to choose (proc(5)) */
    char *end;
    if (comm_end == NULL || comm_end[1] != ' ' || comm_end[2] == '\0' || comm_end[3] != ' ')
        return false;
    long pid = strtol(text, &end, 10);
    if (end == text || end[0] != ' ' || end[1] != '(')
        return false;
    long parent = strtol(comm_end + 4, &end, 10);
    if (end == comm_end + 4 || *end != ' ' || pid <= 0 || pid > INT32_MAX || parent < 0 ||
        parent > INT32_MAX)
        return false;
    *out = (box_walk_process){.pid = (int32_t)pid, .parent = (int32_t)parent, .state = comm_end[2]};
    return true;
}

bool box_walk_parse_before_exec(const char *text)
{
    enum { FORKED_NO_EXEC = 0x40, FLAGS_FIELD = 7 }; /* PF_FORKNOEXEC, linux/sched.h; proc(5) */
    const char *at = strrchr(text, ')');
    for (int field = 0; at != NULL && field < FLAGS_FIELD; field++)
        at = strchr(at + 1, ' ');
    return at != NULL && (strtoul(at, NULL, 10) & FORKED_NO_EXEC) != 0;
}

bool box_walk_is_before_exec(int32_t pid)
{
    char path[32];
    char text[512];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid); /* fits */
    BOX_AUTO(box_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (len <= 0)
        return true;
    text[len] = '\0';
    return box_walk_parse_before_exec(text);
}

static bool read_process(int proc, const char *name, box_walk_process *out)
{
    char path[32];
    char text[512];
    int n = snprintf(path, sizeof path, "%.16s/stat", name);
    if (n < 0 || name[0] < '1' || name[0] > '9')
        return false;
    BOX_AUTO(box_closep) int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (len <= 0)
        return false; /* it ended meanwhile */
    text[len] = '\0';
    return box_walk_parse(text, out);
}

bool box_walk_look(box_walk *w)
{
    w->count = 0;
    DIR *dir = opendir("/proc");
    if (dir == NULL)
        return false;
    const struct dirent *entry;
    while (w->count < BOX_WALK_MAX && (entry = readdir(dir)) != NULL) {
        if (read_process(dirfd(dir), entry->d_name, &w->list[w->count]))
            w->count++;
    }
    (void)closedir(dir); /* only read */
    return true;
}

static int by_pid(const void *a, const void *b)
{
    const box_walk_process *x = a;
    const box_walk_process *y = b;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

/* The kernel lists them so (proc_pid_readdir); it is not written anywhere. */
static void sort_by_pid(box_walk *w)
{
    for (uint32_t i = 1; i < w->count; i++) {
        if (w->list[i].pid < w->list[i - 1].pid) {
            qsort(w->list, w->count, sizeof w->list[0], by_pid);
            return;
        }
    }
}

/* By halving: with ten thousand processes a look at all others for each took seconds. */
static bool is_below(const box_walk *w, int32_t parent, int32_t root)
{
    const box_walk_process key = {.pid = parent};
    if (parent == root)
        return true;
    const box_walk_process *found = bsearch(&key, w->list, w->count, sizeof key, by_pid);
    return found != NULL && found->below;
}

static bool is_alive(const box_walk_process *p)
{
    return p->state != 'Z' && p->state != 'X';
}

uint32_t box_walk_mark(box_walk *w, int32_t pid)
{
    bool more = true;
    uint32_t alive = 0;
    sort_by_pid(w);
    while (more) {
        more = false;
        for (uint32_t i = 0; i < w->count; i++) {
            box_walk_process *p = &w->list[i];
            if (p->below || !is_below(w, p->parent, pid))
                continue;
            p->below = more = true;
            alive += is_alive(p);
        }
    }
    return alive;
}

uint32_t box_walk_count(box_walk *w, int32_t pid, int32_t except)
{
    const box_walk_process key = {.pid = except};
    if (!box_walk_look(w))
        return 0;
    uint32_t alive = box_walk_mark(w, pid);
    const box_walk_process *found = bsearch(&key, w->list, w->count, sizeof key, by_pid);
    return alive - (found != NULL && found->below && is_alive(found) ? 1 : 0);
}

/* Signals every living marked process; Returns how many were not stopped before. */
static uint32_t signal_marked(const box_walk *w, int signo)
{
    uint32_t running = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        const box_walk_process *p = &w->list[i];
        if (!p->below || !is_alive(p))
            continue;
        running += p->state != 'T';
        if (signo == SIGKILL || p->state != 'T')
            (void)kill(p->pid, signo); /* it may have ended meanwhile */
    }
    return running;
}

uint32_t box_walk_kill(box_walk *w, int32_t pid)
{
    uint32_t alive = 0;
    for (int round = 0; round < STOP_ROUNDS; round++) {
        if (!box_walk_look(w))
            return 0;
        alive = box_walk_mark(w, pid);
        if (alive == 0 || signal_marked(w, SIGSTOP) == 0)
            break;
    }
    (void)signal_marked(w, SIGKILL);
    return alive;
}
