/* One cgroup hierarchy as a sandbox uses it, and where a sandbox's groups are in it. Shared by the
 * files that detect, make and remove groups. */
#pragma once

#include "backend.h"

enum {
    BOX_CG_MEMORY = 1,
    BOX_CG_PIDS = 2,
    BOX_CG_CPU = 4,
    BOX_CG_CPUACCT = 8,
    BOX_CG_PROCESS = BOX_CG_MEMORY | BOX_CG_PIDS | BOX_CG_CPU, /* limits of a process's own */
    BOX_CG_CONTROLLERS = 4,
    BOX_CG_MAX_TREES = 6,
    BOX_CG_PATH = 1024,
};

typedef struct box_cgroup_tree {
    uint32_t controllers;   /* BOX_CG_* that are limited here */
    uint32_t version;       /* 1 or 2 */
    char base[BOX_CG_PATH]; /* BASE; in a sandbox's place S itself */
} box_cgroup_tree;

typedef struct box_cgroup_trees {
    size_t count;
    box_cgroup_tree all[BOX_CG_MAX_TREES];
} box_cgroup_trees;

typedef struct box_cgroup_controller {
    uint32_t bit;
    const char *name;
    const char *v1_probe; /* a file whose writing proves that limits can be set */
    const char *v2_probe;
} box_cgroup_controller;

extern const box_cgroup_controller box_cgroup_controllers[BOX_CG_CONTROLLERS];

/* Bits of a list such as "rw,cpu,cpuacct" or "cpu memory pids". */
uint32_t box_cgroup_bits(const char *list);

/* record->place as text, with `below` added to each base, and back: a place that does not parse
 * gives no trees. */
int box_cgroup_trees_print(const box_cgroup_trees *trees, const char *below,
                           char out[BOX_SANDBOX_PLACE_BYTES], box_error *err) BOX_MUST_USE;
void box_cgroup_trees_parse(const char *place, box_cgroup_trees *out);

/* Directory S or what is `below` it ("/box"; "/agent", which is S itself on v1), or -1. */
int box_cgroup_open(const box_cgroup_tree *s, const char *below);
/* The tree with that controller (of that version when not 0), or NULL. */
const box_cgroup_tree *box_cgroup_find(const box_cgroup_trees *trees, uint32_t controller);
const box_cgroup_tree *box_cgroup_v2(const box_cgroup_trees *trees);
/* 1: all of BOX_CG_PROCESS are v1's, each where it is; 2: all are the cgroup2 tree's; 0: neither.
 */
uint32_t box_cgroup_process_version(const box_cgroup_trees *trees);

/* Writes one limit of the directory; names in messages are file names, never paths. */
int box_cgroup_set(int dir, const char *file, int64_t value, box_error *err) BOX_MUST_USE;
