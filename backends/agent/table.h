/* The agent's commands: a fixed table, no allocation. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/protocol.h"
#include "base/clock.h"
#include "base/list.h"

typedef enum box_command_state {
    BOX_COMMAND_FREE = 0,
    BOX_COMMAND_STARTING, /* the zygote has it */
    BOX_COMMAND_FAILED,   /* never ran; STARTED is to be delivered */
    BOX_COMMAND_RUNNING,
    BOX_COMMAND_ENDING, /* the main process ended, the rest is being killed */
    BOX_COMMAND_ENDED,  /* EXIT is ready, until acknowledged */
    BOX_COMMAND_KEPT,   /* boxd is done with it; leftovers live, or its directory is not gone yet */
} box_command_state;

typedef struct box_command {
    box_list link; /* in live or unused */
    uint64_t id;
    box_command_state state; /* zero only in an entry that is not used */
    uint32_t flags;          /* BOX_START_* */
    int32_t slot;            /* of the start under way; -1 */
    int32_t pid;             /* main process; 0 when reaped or not known yet */
    int32_t reaper;          /* its subreaper; 0 = none */
    int32_t socket;          /* to the subreaper; -1 */
    int32_t started_pid;
    int32_t terminal[2];   /* BOX_STARTED_TERMINAL's, until STARTED is delivered; -1 */
    struct box_tree *tree; /* its cgroup; NULL without cgroup2, or while others start */
    uint32_t cause;        /* box_agent_cause: the first */
    uint32_t signo;        /* to be delivered when it runs; 0 */
    bool own;              /* started by the agent itself (managed.c): boxd does not hear of it */
    bool abandoned;        /* own, and nobody waits for it any more */
    bool earlier;          /* boxd was another one when it came */
    bool killing;          /* the whole tree is to go */
    bool counted;          /* exit.leftovers is final */
    bool reaped;           /* exit's code, signal and time are final */
    bool started_due;
    bool exit_due;
    box_time received;
    box_time deadline; /* 0 = none */
    box_time give_up;  /* STARTING: it is stuck; ENDING: EXIT goes out anyway */
    box_time tick;     /* when to look after it again; 0 = no need */
    uint64_t look_ns;  /* STARTING: from this look to the next */
    box_agent_exit exit;
} box_command;

typedef struct box_commands {
    box_list live; /* oldest first */
    box_list unused;
    uint32_t touched; /* entries ever used: memory of the rest is never made */
    box_command all[BOX_AGENT_MAX_COMMANDS];
} box_commands;

void box_commands_init(box_commands *t);
/* NULL when the table is full. The new one is STARTING. */
box_command *box_commands_add(box_commands *t, uint64_t id);
void box_commands_remove(box_commands *t, box_command *c);

box_command *box_commands_find(box_commands *t, uint64_t id);
box_command *box_commands_by_pid(box_commands *t, int32_t pid); /* main process or subreaper */
box_command *box_commands_by_slot(box_commands *t, uint32_t slot);
/* How many boxd still has to hear of: all but KEPT and our own. */
uint32_t box_commands_open(box_commands *t);
/* A slot no live command holds, or -1. */
int32_t box_commands_free_slot(box_commands *t);
/* The earliest deadline that has not fired, or tick; BOX_TIME_NEVER when none. */
box_time box_commands_next(box_commands *t);

/* The next live command after c (NULL: the first), or NULL. Take it before removing c. */
box_command *box_commands_after(box_commands *t, const box_command *c);
