/* Namespaces of a sandbox, its ids, and the clone of its first process. */
#pragma once

#include <sys/types.h>

#include "base/error.h"

/* Whom commands run as. */
enum { BOX_INSIDE_UID = 1000, BOX_INSIDE_GID = 1000 };

/* Which ids of the parent's user namespace a sandbox's ids are, from a base on. */
typedef enum box_ids {
    BOX_IDS_BLOCK, /* 0-1023 and 65534: BOX_UIDS_BLOCK of them */
    BOX_IDS_THREE, /* 0, 1000 and 65534: three */
    BOX_IDS_ONE,   /* 1000 alone: agent and commands are one user */
} box_ids;

/* New network, ipc and uts namespaces for the caller, which its children share: they belong to the
 * caller's root, so nobody inside has a capability over them. What the kernel counts against who
 * makes them (namespaces(7)) is uid_base's alone. */
int box_sandbox_unshare(uint32_t uid_base, box_ids ids, box_error *err) BOX_MUST_USE;
/* Likewise a cgroup namespace, whose root is where the caller is. */
int box_sandbox_unshare_groups(uint32_t uid_base, box_ids ids, box_error *err) BOX_MUST_USE;

/* A descriptor of the caller's cgroup namespace, and the way into it from another. */
int box_sandbox_open_groups(int *out, box_error *err) BOX_MUST_USE;
int box_sandbox_enter_groups(int groups, box_error *err) BOX_MUST_USE;

/* A copy of the caller as a child of its parent, born in that directory of the cgroup2 tree (-1 =
 * where the caller is; else it fails before kernel 5.7). 0 in the child; -1 with *err. */
pid_t box_sandbox_fork(int group, int *pidfd, box_error *err);

/* Bounds shared memory of the caller's ipc namespace to those bytes; it goes with its last user. */
void box_sandbox_limit_ipc(int64_t shm_bytes);

/* That with the other three namespaces: user, mount, pid. The user namespace belongs to uid_base:
 * what the kernel counts against its owner (user_namespaces(7)) is this sandbox's alone. */
pid_t box_sandbox_clone(uint32_t uid_base, box_ids ids, int group, int *pidfd, box_error *err);

/* Writes the id maps of a fresh child. */
int box_sandbox_map_ids(pid_t pid, uint32_t uid_base, box_ids ids, box_error *err) BOX_MUST_USE;
