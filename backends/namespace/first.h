/* The first process of a sandbox, from clone to the agent's exec: what runs in the child.
 * Everything it needs is opened by the helper, so nothing of the host is looked up by path. What no
 * request decides it does at once, and then waits for its order. */
#pragma once

#include "agent/protocol.h"
#include "namespace/sandbox.h"
#include "namespace/template.h"
#include "warden/protocol.h"

typedef struct box_first_plan {
    const box_template_link *links; /* of the root, from the template */
    size_t n_links;
    int trees[BOX_TEMPLATE_MAX_TREES]; /* detached mounts, moved to names */
    const char *names[BOX_TEMPLATE_MAX_TREES];
    size_t n_trees;
    int agent; /* memfd of the program */
    int files; /* memfd of box-files */
    int filter;
    int cgroup; /* -1 = none */
    int box_procs[BOX_AGENT_MAX_BOX_PROCS];
    size_t n_box_procs;
    int limits[BOX_AGENT_LIMIT_DIRS]; /* box_cgroups_process_dirs; -1 */
    uint32_t limits_version;
    /* SEQPACKET, to the helper; its end of file = the helper is gone. In comes 'g' when the id maps
     * are written, the order, 'g' when all is ready for the agent. Out goes 'b' when what needs no
     * order is built, or one box_error; an exec closes it without a word. */
    int helper;
    box_ids ids;
    bool probe; /* end with 0 where the agent would start */
} box_first_plan;

typedef enum box_first_workspace {
    BOX_FIRST_TMPFS,
    BOX_FIRST_MOUNT, /* a detached mount */
    BOX_FIRST_IMAGE, /* a part of one */
} box_first_workspace;

/* With it come the agent's listening socket, its setup, and the workspace's mount if there is one.
 */
typedef struct box_first_order {
    uint32_t flags; /* BOX_CREATE_* */
    box_first_workspace workspace;
    int64_t workspace_bytes; /* TMPFS */
    int64_t tmp_bytes;
    int64_t home_bytes;
    int64_t shm_bytes;
    char mount_path[BOX_WARDEN_MAX_PATH];
} box_first_order;

enum { BOX_FIRST_FDS = 3 };

/* The child's whole life until the agent runs. */
BOX_NORETURN void box_first_run(const box_first_plan *plan);
