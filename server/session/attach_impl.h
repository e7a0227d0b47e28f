/* box_attach as its two sides see it. Internal to server/session. */
#pragma once

#include "session/process_impl.h"

typedef enum box_attach_kind {
    BOX_NOTE_JOINED, /* first */
    BOX_NOTE_FAILED,
    BOX_NOTE_MORE,
    BOX_NOTE_RESTARTED,
    BOX_NOTE_ENDED,
    BOX_NOTE_STDIN,
    BOX_NOTE_WRITER_LOST,
} box_attach_kind;

/* From the home loop to the call's, in order. */
typedef struct box_attach_note {
    box_attach *attach; /* a reference */
    box_attach_kind kind;
    int stdin_fd;            /* STDIN: -1 = the run's is over */
    box_journals *journals;  /* JOINED: a reference */
    box_process_facts facts; /* RESTARTED, ENDED */
    box_error error;         /* FAILED */
} box_attach_note;

struct box_attach {
    atomic_uint refs;

    /* fixed */
    box_loop *loop;
    box_session *session; /* a reference; NULL: it was not found */
    char id[BOX_MAX_PROCESS_ID_BYTES + 1];
    bool write, take_over, skip_stderr, no_follow, stop_on_detach;
    bool has_offset[2];
    uint64_t wait_ns;

    /* of the home loop, which sets `process` once, before JOINED */
    box_list link; /* process->attached or session->awaited */
    box_process *process;
    box_timer *wait_timer;
    bool gone;       /* it has left */
    bool wants_more; /* it has told all it saw */

    /* what it has read when it asked for more: the home loop's while `asked` */
    uint64_t seen[2];

    /* of the call's loop */
    box_attach_events events;
    void *arg;
    box_journals *journals;
    uint64_t at[2];
    uint64_t until[2];
    bool joined, over, asked, pump_posted;
    bool ended;
    box_process_facts final;
    bool restart_due;
    box_process_facts restart;
    box_input input;
    bool has_stdin; /* a run's stdin came */
    bool may_write;
    bool close_wanted, close_told;
    bool resize_due; /* to this, before what is typed next */
    uint16_t rows, columns;
    box_error error; /* found before the home loop was asked */
};

void box_attach_unref(box_attach *a);
box_attach *box_attach_ref(box_attach *a);
void box_attach_noted(void *note); /* posted to the call's loop */

/* --- attach_input.c --------------------------------------------------------------------------- */

/* Nothing waits to be written. */
void box_attach_input_begin(box_attach *a);
/* A new run's (taken), or -1: the end of one. What was for another run is dropped; what came before
 * any is kept. */
void box_attach_take_stdin(box_attach *a, int *fd);
/* It is another caller's now. */
void box_attach_lose_stdin(box_attach *a);

/* --- attach_home.c: posted to the home loop, each with a reference ---------------------------- */

void box_attach_arrives(void *attach);
void box_attach_wants(void *attach);
void box_attach_leaves(void *attach);
void box_attach_closes_stdin(void *attach);
