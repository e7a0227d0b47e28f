/* What a start under way leaves in memory that agent, zygote and the not yet exec'd child share:
 * so the agent knows the child's pid from the moment it exists, and the child can say why it never
 * became the program. A slot is in use from START until its STARTED was delivered. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/error.h"

/* Where a start failed. */
typedef enum box_start_step {
    BOX_STEP_NONE = 0, /* it did not fail */
    BOX_STEP_CLONE,
    BOX_STEP_CGROUP,
    BOX_STEP_SETUP, /* session, descriptors, identity */
    BOX_STEP_WORKDIR,
    BOX_STEP_EXEC,
    BOX_STEP_TEXT,   /* the memfd does not hold what START said */
    BOX_STEP_MEMORY, /* the zygote cannot map what it needs */
    BOX_STEP_ZYGOTE, /* the zygote ended or cannot be made */
    BOX_STEP_STUCK,  /* it did not get to its exec in BOX_AGENT_START_SECONDS */
} box_start_step;

enum { BOX_SLOT_NAME_BYTES = 256 };

typedef struct box_slot {
    _Atomic int32_t pid;    /* written by the kernel (CLONE_PARENT_SETTID) before the child runs */
    _Atomic int32_t reaper; /* the same for the command's subreaper, when there is one */
    _Atomic int32_t step;   /* box_start_step */
    _Atomic int32_t sys_errno;
    char name[BOX_SLOT_NAME_BYTES]; /* argv[0] or the directory, cut; set when step is */
} box_slot;

/* The process that waits for the next START, in the same shared memory. Each has a place of its
 * own, so that what a dying one leaves is not taken for the next one's. */
enum { BOX_STANDBYS = 4 };
/* Its exit code when it was told to: it has taken no START. */
enum { BOX_STANDBY_RESTED = 3 };
typedef struct box_standby {
    _Atomic int32_t pid;   /* written by the kernel before it runs; 0 = there is none */
    _Atomic int32_t waits; /* 0 again when it has become a program or ended: box_spawn_waiter */
} box_standby;

void box_slot_clear(box_slot *slot);
/* Records a failure; name may be NULL. Async-signal-safe: called in a vfork child. */
void box_slot_fail(box_slot *slot, box_start_step step, int sys_errno, const char *name);

/* The error STARTED carries for a failed slot (protocol.h lists them). Always -1. */
int box_slot_error(const box_slot *slot, box_error *err);
