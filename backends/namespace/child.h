/* The parent's side of a sandbox's first process: starts it, lets it go on, hears how it went. */
#pragma once

#include "namespace/sandbox.h"

/* Neither killed nor reaped by box_child_done: who started it knows what is to become of it. */
typedef struct box_child {
    pid_t pid;
    int pidfd;
    int report; /* to read */
    int go;     /* to write */
} box_child;

/* Clones it; it waits for box_child_go, and ends when the caller ends first. plan->report and
 * plan->go are made for it. The descriptors of *out must be -1; it is to be done in any case. */
int box_child_start(box_sandbox_plan *plan, uint32_t uid_base, box_child *out, box_error *err)
    BOX_MUST_USE;
int box_child_go(box_child *c, box_error *err) BOX_MUST_USE;
/* Waits: 0 when the agent runs (its exec closed the pipe), else the child's own error; DEADLINE
 * after BOX_SANDBOX_SETUP_SECONDS. */
int box_child_await(const box_child *c, box_error *err) BOX_MUST_USE;
void box_child_done(box_child *c);
