/* Starts one command: clone, become the commands' user, execve. Runs in the zygote (or in a
 * command's subreaper), whose state the child inherits: seccomp, empty bounding set, no_new_privs,
 * rlimits, umask, default signals. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/slot.h"

typedef struct box_spawn {
    uint32_t uid;
    uint32_t gid;
    int fds[3];    /* stdin, stdout, stderr; all above 2 */
    int cgroup;    /* directory of the command's cgroup; -1 = none */
    bool terminal; /* stdin becomes the controlling terminal */
    bool sibling;  /* CLONE_PARENT: our parent becomes the command's */
    char **argv;
    char **env;
    const char *workdir;
    void *stack; /* for the child, BOX_SPAWN_STACK_BYTES */
} box_spawn;

enum { BOX_SPAWN_STACK_BYTES = 64 * 1024 };

/* Returns when the child has become the program, or has failed: then slot->step says where.
 * slot->pid is the child's. The child shares this process's memory until then (CLONE_VM|VFORK). A
 * child that somebody kills within its exec counts as started: the kernel does not tell. */
void box_spawn_run(const box_spawn *s, box_slot *slot);
