/* Starts one command: clone, become the commands' user, execve. Runs in the zygote (or in a
 * command's subreaper), whose state the child inherits: seccomp, empty bounding set, no_new_privs,
 * rlimits, umask, default signals. The child shares the memory until its execve; nothing it does
 * before may lock or allocate. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/slot.h"

typedef struct box_spawn {
    uint32_t uid;
    uint32_t gid;
    int fds[3];         /* stdin, stdout, stderr; all above 2 */
    const int *entries; /* files of control groups that it enters; all above 2 */
    size_t n_entries;
    bool terminal; /* stdin becomes the controlling terminal */
    char **argv;
    char **env;
    const char *workdir;
} box_spawn;

enum { BOX_SPAWN_STACK_BYTES = 64 * 1024 };

/* Returns when the child, ours, has become the program, or has failed: then slot->step says where.
 * slot->pid is the child's. It waits for that (CLONE_VFORK) on a stack of BOX_SPAWN_STACK_BYTES. A
 * child that somebody kills within its exec counts as started: the kernel does not tell. */
void box_spawn_run(const box_spawn *s, void *stack, box_slot *slot);

/* A child that waits for what it is to become. */
typedef struct box_spawn_waiter {
    int cgroup;             /* directory that it is born in */
    void *stack;            /* BOX_SPAWN_STACK_BYTES, its own */
    _Atomic int32_t *pid;   /* its number, before it runs */
    _Atomic int32_t *waits; /* the kernel writes 0 when it shares our memory no more: it has become
                             * a program or ended (CLONE_CHILD_CLEARTID); set before */
    void (*run)(void *arg); /* in the child, in a session of its own; does not return */
    void *arg;
} box_spawn_waiter;

/* Makes it; our parent becomes its parent. 0 or an errno. *w stays until the child is gone. */
int box_spawn_wait(const box_spawn_waiter *w);
/* In a child: become that program, or record why not and end. */
_Noreturn void box_spawn_become(const box_spawn *s, box_slot *slot);
