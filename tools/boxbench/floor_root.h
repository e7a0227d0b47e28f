/* The files of a bare sandbox: the mounts that one of Box's has, made by the shortest way, and its
 * lockdown. */
#pragma once

#include "base/error.h"

enum { FLOOR_TREES = 3 };

/* What sandboxes share: /usr, /etc and /dev, read-only, each cloned by one open_tree. */
typedef struct floor_template {
    int trees[FLOOR_TREES]; /* O_PATH */
} floor_template;

/* In a mount namespace of the caller's own from now on: it ends with the process. */
int floor_template_open(floor_template *out, box_error *err) BOX_MUST_USE;
/* Detached copies; those that are made are the caller's also on failure. */
int floor_template_clone(const floor_template *t, int trees[FLOOR_TREES], box_error *err)
    BOX_MUST_USE;

/* In the new namespaces, as their root: builds the root out of the copies and goes there. 0, or the
 * step that failed. */
int floor_root_build(const int trees[FLOOR_TREES]) BOX_MUST_USE;
