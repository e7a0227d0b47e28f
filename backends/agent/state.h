/* What the agent's parts (agent.c, channel.c, life.c) share; nobody else includes it. */
#pragma once

#include <poll.h>
#include <signal.h>

#include "agent/agent.h"
#include "agent/files.h"
#include "agent/forward.h"
#include "agent/managed.h"
#include "agent/packet.h"
#include "agent/slot.h"
#include "agent/table.h"
#include "agent/tree.h"
#include "agent/walk.h"
#include "agent/zygote.h"

/* A message that could not be sent at once and belongs to no command: a refused START or a PONG.
 * One is enough: nothing is read from boxd while it waits. */
typedef struct box_stash {
    bool due;
    box_agent_type type;
    uint64_t id;
    box_agent_started body;
} box_stash;

typedef struct box_agent {
    const box_agent_config *config;
    box_commands table;
    box_trees trees;
    box_slot *slots;       /* shared with zygote and children */
    box_standby *standbys; /* the same */
    box_standby *standby;  /* of them: the newest */
    bool reapers;
    bool ending;
    /* boxd */
    int conn; /* -1 = none */
    bool greeted;
    bool blocked; /* its socket is full */
    box_time hello_by;
    box_time orphan_at; /* 0: a boxd is there */
    box_stash stash;
    box_processes processes;
    box_limits_place limits;
    uint32_t abandoned;   /* commands of our own to be forgotten when they have ended */
    uint64_t next_own_id; /* of commands of our own, without bit 63 */
    /* processes */
    int null; /* for commands without stdin; -1 until first needed */
    int signals;
    box_zygote zygote;
    box_tree *standby_tree;   /* of the child that is ordered, or waits; NULL = there is none */
    box_command *standby_for; /* whose START it takes; NULL = the next one's */
    bool standby_failed;      /* the next START or sweep tries again */
    bool standby_rests;       /* the next START makes one again */
    box_time standby_rest_at; /* of the one that waits */
    bool was_short;           /* the last command had ended before anybody looked */
    bool more_children;       /* reaping was broken off to look at the rest */
    bool strays;              /* children of a dead subreaper are to be killed */
    box_walk *walk;           /* for them and for killing; only with subreapers */
    box_time sweep_at;        /* 0 = nothing is kept */
    box_agent_workers workers;
    box_agent_forwards forwards;
    box_time now; /* of this round */
    uint8_t packet[BOX_AGENT_PACKET_BYTES];
} box_agent;

/* --- channel.c: boxd's side ------------------------------------------------------------------- */

void box_channel_accept(box_agent *a);
void box_channel_receive(box_agent *a);
void box_channel_drop(box_agent *a);
/* STARTED with an error for a START that was not taken. */
void box_channel_refuse(box_agent *a, uint64_t id, const box_error *why);
/* Sends what is due, as far as boxd takes it. */
void box_channel_flush(box_agent *a);
/* true: it went out. Otherwise boxd does not read (blocked) or is gone (dropped). */
bool box_channel_send(box_agent *a, box_agent_type type, uint64_t id, const void *body,
                      const int *fds, size_t n_fds);

/* --- life.c: a command from START to running, and boxd's orders ------------------------------- */

/* The packet in a->packet, checked. Takes the descriptors. -1: boxd breaks the protocol. */
int box_life_start(box_agent *a, const box_agent_packet *p, int *fds, size_t n_fds);
/* A command of our own (state.own), its text in fds[3]; start->reserved[1] as zygote.h says.
 * NULL: the table or the slots are full. Nothing is taken; a failure is the command's state. */
box_command *box_life_start_own(box_agent *a, uint64_t id, const box_agent_start *start,
                                const int *fds, size_t n_fds);
void box_life_signal(box_agent *a, uint64_t id, const box_agent_signal *signal);
void box_life_signal_command(box_agent *a, box_command *c, const box_agent_signal *signal);
/* -1: it has not ended. */
int box_life_acknowledge(box_agent *a, uint64_t id);
/* The start is over: the slot says how it went. */
void box_life_answered(box_agent *a, box_command *c);
/* Fails every start under way but that one (NULL: all): the zygote is gone. */
void box_life_zygote_gone(box_agent *a, const box_command *except);
/* A child stopped. */
void box_life_stopped(box_agent *a, int pid);
/* The start failed, its slot says why: STARTED is due. */
void box_life_fail(box_command *c);
void box_life_close_terminal(box_command *c);
/* Of a start under way that nobody will answer for: its program runs, or ran, all the same. Whoever
 * starts commands may have been killed just after that: for memory, or by the command, where there
 * is one id. */
bool box_life_has_begun(const box_agent *a, const box_command *c);
/* Kills what there is of a start under way. */
void box_life_kill_unborn(const box_agent *a, const box_command *c);
/* Deadlines, ticks and sweeps that are due at a->now. */
void box_life_tick(box_agent *a);

/* --- end.c: killing, ending, forgetting ------------------------------------------------------- */

/* A signal for the main process of a command with a subreaper. */
void box_end_order(const box_command *c, uint32_t signo);
/* The whole tree is to go; cause counts if it is the first and the main process runs. */
void box_end_kill(box_agent *a, box_command *c, uint32_t cause);
/* Once more, for what was born or moved in meanwhile. */
void box_end_kill_again(box_agent *a, box_command *c);
/* The main process was reaped, or its subreaper says so; exit holds how it ended. */
void box_end_main(box_agent *a, box_command *c);
/* ENDING: is it over? */
void box_end_look(box_agent *a, box_command *c);
/* Boxd needs it no more; it goes when nothing of it lives. */
void box_end_let_go(box_agent *a, box_command *c);
/* A child was reaped. */
void box_end_reaped(box_agent *a, const siginfo_t *info, uint64_t cpu_ns, uint64_t max_rss);
/* Something came from a subreaper. */
void box_end_report(box_agent *a, box_command *c);
/* Looks at the kept directories. */
void box_end_sweep(box_agent *a);

/* --- managed.c: processes that are kept alive; managed_told.c, managed_io.c, managed_ready.c ----
 */

/* MANAGE, checked. Takes the descriptors. -1: boxd breaks the protocol. */
int box_managed_start(box_agent *a, const box_agent_packet *p, int *fds, size_t n_fds);
/* STOP, FORGET, CLOSE_STDIN, WATCH, RESIZE. -1: boxd breaks the protocol. */
int box_managed_order(box_agent *a, const box_agent_packet *p);
/* True when the id is a process's. */
bool box_managed_signal(box_agent *a, uint64_t id, const box_agent_signal *signal);
/* What became of its commands, and what is due at a->now. */
void box_managed_tick(box_agent *a);
box_time box_managed_next(box_agent *a);
/* With its limits: nothing runs, and boxd knows. */
void box_managed_forget(box_agent *a, box_managed *m);

/* How many a new boxd will hear of at once. */
uint32_t box_managed_told(const box_agent *a);
/* A new boxd is to hear of all. */
void box_managed_greet(box_agent *a);
void box_managed_flush(box_agent *a);

nfds_t box_managed_polls(box_agent *a, struct pollfd *polls);
/* polls are what box_managed_polls filled, in the order of the table. */
void box_managed_read(box_agent *a, const struct pollfd *polls, nfds_t count);
/* All that is left in its pipes, which are closed then. */
void box_managed_drain(box_agent *a, box_managed *m);
/* Makes what a run begins with: `theirs` are its stdin, stdout, stderr. */
int box_managed_open_streams(box_managed *m, int theirs[3], box_error *err) BOX_MUST_USE;
void box_managed_close_stdin(box_managed *m);
/* On demand: a terminal gets its end-of-file character. */
void box_managed_end_stdin(box_managed *m);
void box_managed_resize(box_managed *m, const box_agent_resize *size);
/* A number for a command of our own. */
uint64_t box_managed_new_id(box_agent *a);

/* A run has begun: when is it ready? */
void box_ready_begin(box_agent *a, box_managed *m);
/* Stdout grew. */
void box_ready_grew(box_agent *a, box_managed *m);
void box_ready_tick(box_agent *a, box_managed *m);
/* No more looking: it is ready, ended or being stopped. */
void box_ready_end(box_agent *a, box_managed *m);

/* --- standby.c: the child that waits for the next START; only with cgroup2 ---------------------
 */

/* Before a START is sent: one waits, or is ordered. */
int box_standby_need(box_agent *a, box_error *err) BOX_MUST_USE;
/* Its START was sent. */
void box_standby_take(box_agent *a, box_command *c);
/* Has it become a program, or failed to? */
void box_standby_look(box_agent *a);
/* The zygote could not make it. failed: whose START failed for that; NULL: there was none. */
void box_standby_unborn(box_agent *a, const box_command *failed);
/* True: that child was reaped, and it was no command yet. */
bool box_standby_reaped(box_agent *a, const siginfo_t *info);
/* The zygote is gone. */
void box_standby_lost(box_agent *a);
/* When box_standby_tick is to be called; it sends a child away that nobody needed for long. */
box_time box_standby_next(const box_agent *a);
void box_standby_tick(box_agent *a);
/* Orders one when there is none: when everything else is done. */
void box_standby_prepare(box_agent *a);
/* A new boxd: whatever CPU time it knows nothing of is in no directory it will see. */
void box_standby_renew(box_agent *a);

/* --- agent.c ---------------------------------------------------------------------------------- */

/* Makes the zygote when there is none; false when that fails. */
bool box_agent_need_zygote(box_agent *a);
/* Gives the zygote up (it is reaped later), with every start under way but that one; makes another.
 */
bool box_agent_replace_zygote(box_agent *a, const box_command *except);
/* Reads what the zygote said, until nothing is there. */
void box_agent_take_notes(box_agent *a);

/* --- small things ----------------------------------------------------------------------------- */

static inline box_time box_after_ms(const box_agent *a, uint64_t ms)
{
    return box_time_add(a->now, ms * BOX_MS);
}

static inline void box_sweep_soon(box_agent *a, uint64_t ms)
{
    box_time at = box_after_ms(a, ms);
    if (a->sweep_at == 0 || at < a->sweep_at)
        a->sweep_at = at;
}

static inline int box_slot_pid(const box_agent *a, const box_command *c)
{
    return c->slot < 0 ? 0 : atomic_load(&a->slots[c->slot].pid);
}

static inline int box_slot_reaper(const box_agent *a, const box_command *c)
{
    return c->slot < 0 ? 0 : atomic_load(&a->slots[c->slot].reaper);
}
