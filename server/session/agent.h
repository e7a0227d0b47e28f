/* The agent of one sandbox: the channel to it. Lives on one loop. */
#pragma once

#include "agent/packet.h"
#include "loop/loop.h"
#include "session/program.h"

typedef struct box_agent box_agent;

/* All on the loop. None comes after `lost`, which comes once: the channel ended (why:
 * SESSION_BROKEN with {cause}), the agent said nothing in time, or it broke the protocol. The agent
 * is to be freed, not from inside. */
typedef struct box_agent_events {
    void (*ready)(void *arg);
    /* fds: with BOX_STARTED_TERMINAL its terminal and the other side of it, taken where set to -1.
     */
    void (*started)(void *arg, uint64_t id, const box_agent_started *s, int *fds);
    void (*exited)(void *arg, uint64_t id, const box_agent_exit *e);
    /* NULL: of one who starts no file workers. */
    void (*files_ended)(void *arg, uint64_t id, const box_agent_files_ended *e);
    /* Managed processes (agent/process.h). fds: the record, then the journals; taken where set to
     * -1. */
    void (*introduced)(void *arg, uint64_t id, const box_agent_manage *m, int *fds, size_t n_fds);
    /* stdin: -1, or the write end of its stdin, taken where set to -1. */
    void (*managed)(void *arg, uint64_t id, const box_agent_managed *m, int *stdin_fd);
    void (*grew)(void *arg, uint64_t id, const box_agent_ends *ends);
    /* NULL: of one that asks for no port. fd: -1, or the connection, taken where set to -1. */
    void (*connected)(void *arg, uint64_t id, const box_agent_connected *c, int *fd);
    /* protocol: it lied, so what it says about others is worth nothing either. */
    void (*lost)(void *arg, const box_error *why, bool protocol);
} box_agent_events;

/* Binds `name` below run_dirfd (our own 0700 directory) and listens. Any thread. */
int box_agent_listen(int run_dirfd, const char *name, int *listen_fd, box_error *err) BOX_MUST_USE;

/* Connects to it and sends HELLO; ready or lost follows. Ids of commands begin at first_id;
 * `started` and `exited` also come for smaller ones, which an earlier boxd has started. */
int box_agent_new(box_loop *loop, int run_dirfd, const char *name, const box_agent_events *events,
                  void *arg, uint64_t first_id, box_agent **out, box_error *err) BOX_MUST_USE;
/* The same on a channel whose agent has said hello to box_agent_new; `ready` does not come. fd is
 * taken, and -1 then. */
int box_agent_attach(box_loop *loop, int *fd, const box_agent_events *events, void *arg,
                     uint64_t first_id, box_agent **out, box_error *err) BOX_MUST_USE;
/* Frees it and gives its channel: of one that is ready and was never asked for anything. Not from
 * inside an event. */
int box_agent_release(box_agent *a);
void box_agent_free(box_agent *a);

/* Borrowed for the call. */
typedef struct box_agent_run {
    const box_program *program;
    uint32_t flags;      /* BOX_START_* */
    uint64_t timeout_ns; /* how long it may run; 0 = for ever */
    uint16_t rows;       /* with BOX_START_TERMINAL */
    uint16_t columns;
} box_agent_run;

/* Queues a START (one is on its way at a time: descriptors in flight are counted per user). fds:
 * stdin, stdout, stderr of the command, -1 where the flags say there is none; taken. -1:
 * VALIDATION, nothing was taken. */
int box_agent_start_command(box_agent *a, uint64_t id, const box_agent_run *run, int fds[3],
                            box_error *err) BOX_MUST_USE;
/* Takes a START back that was not sent, also after `lost`. False: it was sent, and whether the
 * agent acts on it is not known. */
bool box_agent_take_back(box_agent *a, uint64_t id);
void box_agent_signal_command(box_agent *a, uint64_t id, const box_agent_signal *s);
/* Starts a file worker, whose socket is taken; files_ended follows, once. flags: BOX_AGENT_FILES_*.
 */
void box_agent_start_files(box_agent *a, uint64_t id, uint32_t flags, int *socket);
/* It is to end soon. */
void box_agent_stop_files(box_agent *a, uint64_t id);
/* Queues a MANAGE; fds as box_agent_manage_fds says, taken. MANAGED follows. */
void box_agent_manage_process(box_agent *a, uint64_t id, const box_agent_manage *m, int fds[2]);
/* STOP, FORGET, CLOSE_STDIN, WATCH, RESIZE, CONNECT; body as the type has it. Follows the MANAGE of
 * its process where that still waits. */
void box_agent_order(box_agent *a, box_agent_type type, uint64_t id, const void *body, size_t size);
/* The verdict was read: the agent may forget the command. It hears of it at the end of the loop's
 * turn: who waits for an answer is told first. */
void box_agent_ack(box_agent *a, uint64_t id);
