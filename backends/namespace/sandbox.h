/* The first process of a sandbox, from clone to the agent's exec: what runs in the child.
 * Everything it needs is opened by the helper beforehand, so nothing of the host is looked up by
 * path. */
#pragma once

#include <sys/types.h>

#include "agent/protocol.h"
#include "namespace/template.h"
#include "warden/protocol.h"

/* Which ids of the parent's user namespace a sandbox's ids are, from a base on. */
typedef enum box_ids {
    BOX_IDS_BLOCK, /* 0-1023 and 65534: BOX_UIDS_BLOCK of them */
    BOX_IDS_THREE, /* 0, 1000 and 65534: three */
    BOX_IDS_ONE,   /* 1000 alone: agent and commands are one user */
} box_ids;

typedef struct box_sandbox_plan {
    const box_warden_create *request;
    const box_template_link *links; /* of the root, from the template */
    size_t n_links;
    int trees[BOX_TEMPLATE_MAX_TREES]; /* detached mounts, moved to names */
    const char *names[BOX_TEMPLATE_MAX_TREES];
    size_t n_trees;
    int workspace; /* detached mount for mount_path, or -1: */
    int image;     /* the workspace is a part of this detached mount, or -1: a tmpfs */
    int agent;     /* memfd of the program */
    int files;     /* memfd of box-files */
    int filter;
    int setup;
    int listen;
    int cgroup; /* -1 = none */
    int box_procs[BOX_AGENT_MAX_BOX_PROCS];
    size_t n_box_procs;
    int limits[3]; /* box_cgroups_process_dirs; -1 */
    uint32_t limits_version;
    int report; /* one box_error goes here, then it closes; an exec closes it without a word */
    int go;     /* end of file = the parent is gone; a byte = go on: the id maps are written; a
                 * second one: all is ready for the agent */
    box_ids ids;
    bool probe; /* end with 0 where the agent would start */
} box_sandbox_plan;

/* New network, ipc, uts and cgroup namespaces for the caller, which its children share: they belong
 * to the caller's root, so nobody inside has a capability over them. What the kernel counts against
 * who makes them (namespaces(7)) is uid_base's alone. */
int box_sandbox_unshare(uint32_t uid_base, box_ids ids, box_error *err) BOX_MUST_USE;

/* Bounds shared memory of the caller's ipc namespace to those bytes; it goes with its last user. */
void box_sandbox_limit_ipc(int64_t shm_bytes);

/* clone3 with the other three namespaces: user, mount, pid (clone where the kernel has no clone3).
 * 0 in the child; the child's pid and *pidfd in the parent; -1 with *err. The child is the caller's
 * parent's. The user namespace belongs to uid_base: what the kernel counts against its owner
 * (user_namespaces(7)) is this sandbox's alone. */
pid_t box_sandbox_clone(uint32_t uid_base, box_ids ids, int *pidfd, box_error *err);

/* The child's whole life until the agent runs. */
BOX_NORETURN void box_sandbox_run(const box_sandbox_plan *plan);

/* Writes the id maps of a fresh child. */
int box_sandbox_map_ids(pid_t pid, uint32_t uid_base, box_ids ids, box_error *err) BOX_MUST_USE;
