/* The sandbox's file system, built by its first process as root of its own user namespace. */
#pragma once

#include "namespace/sandbox.h"

enum { BOX_INSIDE_UID = 1000, BOX_INSIDE_GID = 1000 };

/* Builds the new root, makes it "/" and drops the host's. */
int box_rootfs_enter(const box_sandbox_plan *plan, box_error *err) BOX_MUST_USE;
