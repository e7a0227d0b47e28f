/* The pipes of one command, on its call's loop: box_pump reads an output pipe under back-pressure,
 * box_input feeds stdin from a bounded queue. Embedded; zero is closed. */
#pragma once

#include "base/buf.h"
#include "loop/loop.h"

/* --- output ----------------------------------------------------------------------------------- */

typedef struct box_pump box_pump;

typedef struct box_pump_events {
    /* Bytes came (at most 64 KiB). */
    void (*data)(void *arg, int stream, const uint8_t *data, size_t len);
    /* Asked before each read; false: nothing is read until box_pump_resume. */
    bool (*may_read)(void *arg);
    /* After box_pump_drain: everything that was in the pipe was told. Never from inside it. */
    void (*drained)(void *arg);
} box_pump_events;

struct box_pump {
    box_loop *loop;
    int fd; /* 0 is never a pipe of ours: valid when open */
    bool open;
    box_watch *watch; /* NULL until something is to be waited for */
    const box_pump_events *events;
    void *arg;
    int stream;
    bool is_terminal; /* its master; set after box_pump_open */
    bool draining;
    size_t left; /* to drain */
};

/* fd is taken, nonblocking. Nothing is read before box_pump_begin or box_pump_drain. */
void box_pump_open(box_pump *p, box_loop *loop, int fd, int stream, const box_pump_events *events,
                   void *arg);
/* Reads what comes, from now. On failure it is closed. */
int box_pump_begin(box_pump *p, box_error *err) BOX_MUST_USE;
void box_pump_close(box_pump *p);
/* Closes all but the descriptor, which is the caller's; -1 when nobody else has the pipe open. */
int box_pump_release(box_pump *p);
void box_pump_resume(box_pump *p);
/* The command ended: what the pipe holds is read and no more is waited for, whoever still has it
 * open (of a terminal at most BOX_TERMINAL_HELD_BYTES). True when that was done at once; else
 * `drained` follows. */
bool box_pump_drain(box_pump *p);

/* --- input ------------------------------------------------------------------------------------ */

typedef struct box_input {
    bool open;
    bool is_terminal; /* fd is its master: the end is the end-of-file character */
    bool end_typed;
    int fd;
    box_watch *watch;
    box_buf queue; /* its share may be set before anything is added */
    bool closing;  /* end of file after the queue */
    bool full;     /* the feeder was told to stop */
    uint64_t written_bytes;
    void (*progress)(void *arg, bool room); /* bytes went in; room: may feed again */
    void *arg;
} box_input;

/* Before it is open bytes are queued. */
void box_input_init(box_input *in, void (*progress)(void *arg, bool room), void *arg);
/* fd is taken, nonblocking. */
int box_input_open(box_input *in, box_loop *loop, int fd, box_error *err) BOX_MUST_USE;
/* *room false: enough is waiting. -1 (MEMORY_BUDGET): they are lost, and stdin ends here. */
int box_input_add(box_input *in, const void *data, size_t len, bool *room, box_error *err)
    BOX_MUST_USE;
void box_input_end(box_input *in);
void box_input_done(box_input *in);
