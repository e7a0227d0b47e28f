/* A command's cgroup2 directory, "N" below S/box/x: everything the command starts is in it, so it
 * can be counted, killed and charged exactly. Opened by name each time: no descriptor is kept. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

typedef struct box_trees {
    int dir;      /* S/box/x */
    bool no_kill; /* act as if cgroup.kill did not exist (kernel before 5.14) */
} box_trees;

/* Makes it and opens it for CLONE_INTO_CGROUP; *out is the caller's. */
int box_tree_make(const box_trees *t, uint64_t id, int *out, box_error *err) BOX_MUST_USE;
/* true when it is gone; false while something lives in it. */
bool box_tree_remove(const box_trees *t, uint64_t id);

bool box_tree_empty(const box_trees *t, uint64_t id);
/* Processes in it that are not zombies, without that one; stops counting at 65,536. */
uint32_t box_tree_count(const box_trees *t, uint64_t id, int32_t except);
/* Sends KILL to everything in it once. Without cgroup.kill it is frozen first, so that nothing is
 * born meanwhile: call again until box_tree_empty. */
void box_tree_kill(const box_trees *t, uint64_t id);
/* Its CPU time, false when it cannot be told. */
bool box_tree_cpu_ns(const box_trees *t, uint64_t id, uint64_t *out);
