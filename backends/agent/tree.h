/* Cgroup2 directories below S/box/x, one for each command while it runs: everything it starts is in
 * it, so it can be counted, killed and charged exactly. Making and removing one costs the kernel
 * more than a short command, so one in which nothing was left is used again; directories are
 * numbers that are never used for another one. A fixed table, no allocation. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/list.h"

enum {
    BOX_TREES_SPARE = 2, /* kept ready: one for the next command, one for the one after */
    BOX_TREES_MAX = BOX_AGENT_MAX_COMMANDS + 2 * BOX_TREES_SPARE,
};

typedef struct box_tree {
    box_list link; /* in spare, leaving or unused; or taken by a command */
    uint64_t number;
    uint64_t cpu_ns; /* of the commands before */
    int dir; /* of the directory itself, of cgroup.procs and cpu.stat: valid while it is used */
    int procs;
    int stat;
    bool used; /* a command ran in it */
} box_tree;

typedef struct box_trees {
    int dir;      /* S/box/x */
    bool no_kill; /* act as if cgroup.kill did not exist (kernel before 5.14) */
    uint64_t made;
    box_list spare;   /* empty directories */
    box_list leaving; /* no command's, to be removed when nothing lives in them */
    box_list unused;  /* entries without a directory */
    uint32_t n_spare;
    uint32_t touched; /* entries ever used: memory of the rest is never made */
    box_tree all[BOX_TREES_MAX];
} box_trees;

void box_trees_init(box_trees *t, int dir, bool no_kill);
/* A spare one, or a new one. */
int box_trees_take(box_trees *t, box_tree **out, box_error *err) BOX_MUST_USE;
/* Back: nothing lives in it, nothing in it was killed, and boxd knows its CPU time. */
void box_trees_give(box_trees *t, box_tree *tree);
/* true when the directory is gone; false while something lives in it. */
bool box_trees_remove(box_trees *t, box_tree *tree);
/* It is removed, now or by a later box_trees_sweep. */
void box_trees_leave(box_trees *t, box_tree *tree);
/* Removes what can be removed of those that are to leave; true when some are left. */
bool box_trees_sweep(box_trees *t);
/* A new boxd knows no CPU time: spare ones that were used go. */
void box_trees_forget(box_trees *t);
/* Removes all that are no command's. */
void box_trees_clear(box_trees *t);

bool box_tree_empty(const box_tree *tree);
/* Processes in it that are not zombies, without that one; stops counting at 65,536. */
uint32_t box_tree_count(const box_tree *tree, int32_t except);
/* Sends KILL to everything in it once. Without cgroup.kill it is frozen first, so that nothing is
 * born meanwhile: call again until box_tree_empty. */
void box_tree_kill(const box_trees *t, const box_tree *tree);
/* CPU time since it was taken, once; false when it cannot be told. */
bool box_tree_cpu_ns(box_tree *tree, uint64_t *out);
