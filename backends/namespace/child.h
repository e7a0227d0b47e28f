/* The parent's side of a sandbox's first process: starts it, lets it go on, hears how it went. */
#pragma once

#include "backend.h"
#include "namespace/first.h"

/* Neither killed nor reaped here: who started it knows what is to become of it. The descriptors
 * close with the helper that has it. */
typedef struct box_child {
    pid_t pid;
    int pidfd;
    int socket; /* to it: readable when it has failed or ended, too */
} box_child;

/* How long a process that was killed may still be about to end: its files and root are gone before
 * its pidfd tells. */
enum { BOX_CHILD_ENDING_MS = 1000 };

/* It is born as birth.h says. It waits for box_child_go, and ends when the caller ends first.
 * plan->helper is made for it. The descriptors of *out must be -1. */
int box_child_start(box_first_plan *plan, const box_sandbox_record *record, uint32_t uid_base,
                    box_child *out, box_error *err) BOX_MUST_USE;
/* Twice: the id maps are written; limits are set. */
int box_child_go(box_child *c, box_error *err) BOX_MUST_USE;
/* Waits until it is ready for its order; -1 with the child's own error, or DEADLINE after
 * BOX_SANDBOX_SETUP_SECONDS. */
int box_child_await_built(const box_child *c, box_error *err) BOX_MUST_USE;
/* workspace: the mount that the order tells of, else -1. */
int box_child_order(box_child *c, const box_first_order *order, int listen, int setup,
                    int workspace, box_error *err) BOX_MUST_USE;
/* Likewise until the agent runs: its exec closed the socket, or it was killed. */
int box_child_await_exec(const box_child *c, box_error *err) BOX_MUST_USE;
/* After that: which of the two it was. */
bool box_child_runs(const box_child *c);
/* Fails with SESSION_BROKEN: it was killed. */
int box_child_ended(box_error *err);
/* Something failed, as *err says; if it was because the child has ended, that is why: it said so,
 * or it was killed. Always -1. */
int box_child_why(const box_child *c, box_error *err);
