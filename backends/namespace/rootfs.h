/* The sandbox's file system, built by its first process as root of its own user namespace. */
#pragma once

#include "namespace/first.h"

/* What needs no order: builds the new root, makes it "/" and drops the host's. */
int box_rootfs_begin(const box_first_plan *plan, box_error *err) BOX_MUST_USE;
/* The rest. `workspace` is the mount that came with the order, or -1; it is moved. */
int box_rootfs_finish(const box_first_order *order, box_ids ids, int workspace, box_error *err)
    BOX_MUST_USE;
