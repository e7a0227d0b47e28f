#include "agent/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

enum { MAX_COUNT = 65536, NAME_BYTES = 24 };

static void name_of(char name[NAME_BYTES], uint64_t number)
{
    (void)snprintf(name, NAME_BYTES, "%" PRIu64, number); /* 20 digits */
}

/* --- the table -------------------------------------------------------------------------------- */

void box_trees_init(box_trees *t, int dir, bool no_kill)
{
    t->dir = dir;
    t->no_kill = no_kill;
    box_list_init(&t->spare);
    box_list_init(&t->leaving);
    box_list_init(&t->unused);
}

static int open_in(int dir, const char *file, int flags)
{
    return openat(dir, file, flags | O_CLOEXEC);
}

static void close_files(box_tree *tree)
{
    box_closep(&tree->dir);
    box_closep(&tree->procs);
    box_closep(&tree->stat);
}

static int make(box_trees *t, box_tree *tree, box_error *err)
{
    char name[NAME_BYTES];
    *tree = (box_tree){.number = ++t->made, .dir = -1, .procs = -1, .stat = -1};
    name_of(name, tree->number);
    if (mkdirat(t->dir, name, 0755) < 0)
        return box_fail_errno(err, "make the command's control group");
    tree->dir = open_in(t->dir, name, O_RDONLY | O_DIRECTORY);
    if (tree->dir >= 0)
        tree->procs = open_in(tree->dir, "cgroup.procs", O_RDONLY);
    if (tree->procs >= 0)
        tree->stat = open_in(tree->dir, "cpu.stat", O_RDONLY);
    if (tree->stat >= 0)
        return 0;
    (void)box_fail_errno(err, "open the command's control group");
    close_files(tree);
    (void)unlinkat(t->dir, name, AT_REMOVEDIR); /* empty; the first error is reported */
    return -1;
}

static box_tree *first(box_list *list)
{
    return BOX_CONTAINER(list->next, box_tree, link);
}

int box_trees_take(box_trees *t, box_tree **out, box_error *err)
{
    box_tree *tree;
    if (!box_list_empty(&t->spare)) {
        tree = first(&t->spare);
        box_list_remove(&tree->link);
        t->n_spare--;
        *out = tree;
        return 0;
    }
    if (!box_list_empty(&t->unused))
        tree = first(&t->unused);
    else if (t->touched < BOX_COUNT(t->all))
        tree = &t->all[t->touched++];
    else
        return box_fail(err, BOX_QUOTA, "too many control groups");
    box_list_remove(&tree->link); /* one that was never used is in no list */
    if (make(t, tree, err) < 0) {
        box_list_append(&t->unused, &tree->link);
        return -1;
    }
    *out = tree;
    return 0;
}

void box_trees_give(box_trees *t, box_tree *tree)
{
    if (t->n_spare >= BOX_TREES_SPARE) {
        box_trees_leave(t, tree);
        return;
    }
    /* First what is warm in the caches, and what boxd has heard of last. */
    box_list_prepend(&t->spare, &tree->link);
    t->n_spare++;
}

bool box_trees_remove(box_trees *t, box_tree *tree)
{
    char name[NAME_BYTES];
    name_of(name, tree->number);
    if (unlinkat(t->dir, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return false;
    close_files(tree);
    box_list_remove(&tree->link);
    box_list_append(&t->unused, &tree->link);
    return true;
}

void box_trees_leave(box_trees *t, box_tree *tree)
{
    if (!box_trees_remove(t, tree))
        box_list_append(&t->leaving, &tree->link);
}

bool box_trees_sweep(box_trees *t)
{
    for (box_list *at = t->leaving.next, *next; at != &t->leaving; at = next) {
        next = at->next;
        (void)box_trees_remove(t, BOX_CONTAINER(at, box_tree, link)); /* else another time */
    }
    return !box_list_empty(&t->leaving);
}

static void leave_spares(box_trees *t, bool only_used)
{
    for (box_list *at = t->spare.next, *next; at != &t->spare; at = next) {
        next = at->next;
        box_tree *tree = BOX_CONTAINER(at, box_tree, link);
        if (only_used && !tree->used)
            continue;
        box_list_remove(&tree->link);
        t->n_spare--;
        box_trees_leave(t, tree);
    }
}

void box_trees_forget(box_trees *t)
{
    leave_spares(t, true);
}

void box_trees_clear(box_trees *t)
{
    leave_spares(t, false);
    (void)box_trees_sweep(t); /* the warden removes what is not empty yet */
}

/* --- one directory ---------------------------------------------------------------------------- */

/* Reads a small control file whole; false when it cannot be. */
static bool read_whole(int fd, char *out, size_t size)
{
    ssize_t n = fd < 0 ? -1 : pread(fd, out, size - 1, 0);
    if (n < 0)
        return false;
    out[n] = '\0';
    return true;
}

bool box_tree_empty(const box_tree *tree)
{
    char text[256];
    BOX_AUTO(box_closep) int fd = open_in(tree->dir, "cgroup.events", O_RDONLY);
    return read_whole(fd, text, sizeof text) && strstr(text, "populated 0") != NULL;
}

/* Walks cgroup.procs: counts all but `except`, and signals all when signo is not 0. At place 0 the
 * kernel begins anew, so the open file serves for every look. */
static uint32_t walk(const box_tree *tree, int signo, pid_t except)
{
    char block[4096];
    uint32_t count = 0;
    pid_t pid = 0;
    ssize_t n;
    for (off_t at = 0; count < MAX_COUNT && (n = pread(tree->procs, block, sizeof block, at)) > 0;
         at += n) {
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

uint32_t box_tree_count(const box_tree *tree, int32_t except)
{
    return walk(tree, 0, except);
}

void box_tree_kill(const box_trees *t, const box_tree *tree)
{
    box_error err; /* a directory without the file: the older way */
    if (!t->no_kill && box_fd_write_file(tree->dir, "cgroup.kill", "1", &err) == 0)
        return;
    if (box_fd_write_file(tree->dir, "cgroup.freeze", "1", &err) < 0)
        err = (box_error){0}; /* then only the repetition makes it complete */
    (void)walk(tree, SIGKILL, 0);
}

bool box_tree_cpu_ns(box_tree *tree, uint64_t *out)
{
    char text[1024];
    static const char key[] = "usage_usec ";
    if (!read_whole(tree->stat, text, sizeof text))
        return false;
    const char *at = strstr(text, key);
    if (at == NULL)
        return false;
    uint64_t total = strtoull(at + sizeof key - 1, NULL, 10) * BOX_US;
    *out = total > tree->cpu_ns ? total - tree->cpu_ns : 0;
    tree->cpu_ns = total;
    return true;
}
