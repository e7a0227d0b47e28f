/* box_file_call and box_file_worker as their two sides see them. Internal to server/session.
 *
 * A worker is a process in the sandbox and our end of its socket. The home loop of its session has
 * it started and hears of its end; in between it is idle (the table's lock) or belongs to one call,
 * on that call's loop. That loop goes on watching it while it is idle: only there its watch may go,
 * and with it the socket. Posts hold a reference. */
#pragma once

#include "session/files.h"
#include "session/table.h"

typedef struct box_file_worker {
    atomic_uint refs;
    box_session *session; /* a reference */
    uint64_t id;
    bool in_agent;
    int fd;           /* of whoever has it */
    box_loop *loop;   /* that watches it; NULL: none does. Of whoever has it; the rest is */
    box_watch *watch; /* the loop's own */
    int watched;
    struct box_file_call *call; /* whose turn it is; NULL: idle, or on its way to a call */
    bool greeted;               /* HELLO came; so */
    box_list of_idle;           /* lock held; so */
    box_time idle_since;
    /* of the home loop */
    box_list of_home;
    uint64_t oom_before;
    bool has_ended;
    box_error why;                 /* of its end */
    struct box_file_call *curious; /* a reference: is to be told */
} box_file_worker;

typedef enum box_file_phase {
    BOX_FILE_WAITING, /* for the session or a worker */
    BOX_FILE_RUNNING,
    BOX_FILE_DYING, /* its worker has ended: why is being asked */
    BOX_FILE_OVER,
} box_file_phase;

/* The most that an honest worker says in one answer. */
typedef struct box_file_bounds {
    uint64_t infos;
    uint64_t matches;
    uint64_t data_bytes;
} box_file_bounds;

struct box_file_call {
    atomic_uint refs;
    box_session *session; /* a reference, and a use of it until it is over */
    box_loop *loop;
    box_list of_wait; /* lock held */

    box_file_phase phase;
    bool detached; /* nobody is told any more */
    box_file_events events;
    void *arg;
    uint32_t op;
    uint64_t patience_ns; /* for all of the answer; PUT and GET: for each step */
    bool content_ended;   /* END is in `out`, or nothing comes */
    bool told_full;
    bool tried_again;
    bool in_agent;
    bool got_something; /* besides HELLO */
    size_t path_len;
    box_file_bounds may;
    size_t item_bytes; /* BOX_FILES_ITEM_COST and its frame, for each file and line */
    uint64_t n_infos;
    uint64_t n_matches;
    uint64_t data_bytes;
    box_file_worker *worker;
    box_timer *timer;
    box_buf ask; /* the frames that begin it, kept for another try */
    box_buf out;
    box_buf in;
    bool answered;
    box_files_answer answer;
    box_error error; /* from the home loop */
};

box_file_call *box_file_call_ref(box_file_call *c);
void box_file_call_unref(box_file_call *c);
void box_file_worker_unref(box_file_worker *w);

/* --- files.c: workers ------------------------------------------------------------------------- */

/* Gives the call an idle worker now (true), or has box_file_granted or box_file_refused posted to
 * it. */
bool box_files_want(box_file_call *c);
/* It does not want one any more; true when that was in time. */
bool box_files_unwant(box_file_call *c);
/* It has an event that no call waits for; on the loop that watches it. */
void box_files_disturbed(box_file_worker *w);
/* A good one is for others; ours to close otherwise. The caller's reference goes. */
void box_files_give_back(box_session *s, box_file_worker *w);
/* It ends, by itself or killed. The caller's reference goes. */
void box_files_discard(box_session *s, box_file_worker *w);
/* Has box_file_explained posted, with the reason in c->error. */
void box_files_ask_why(box_file_call *c);

/* --- file_watch.c: the loop that looks at a worker -------------------------------------------- */

/* From now on c->worker's events are the call's. */
int box_file_watch_begin(box_file_call *c, box_error *err) BOX_MUST_USE;
void box_file_watch_set(box_file_worker *w, int events);
/* The call is over; the loop goes on watching it for the next. */
void box_file_watch_rest(box_file_worker *w);
/* On its loop: it may go to another. */
void box_file_watch_end(box_file_worker *w);
/* Does another loop watch it? */
bool box_file_is_elsewhere(const box_file_worker *w);
/* Its socket closes, here or where it is watched: it ends. The caller's reference goes. */
void box_file_worker_close(box_file_worker *w);

/* --- file_ask.c: what it is asked ------------------------------------------------------------- */

/* Fills c->ask, and c->out with the content that is there. VALIDATION. */
int box_file_pack(box_file_call *c, const box_file_request *r, box_error *err) BOX_MUST_USE;
/* The content is whole. */
int box_file_put_end(box_file_call *c, box_error *err) BOX_MUST_USE;

/* --- file_frames.c: what a worker says -------------------------------------------------------- */

/* Sets what is asked for, and so how much may come. */
void box_file_bound(box_file_call *c, const box_files_ask_head *h);
/* Takes the whole frames of c->in; c->answered: the last one came. PROTOCOL, VERSION_MISMATCH. */
int box_file_take_frames(box_file_call *c, box_error *err) BOX_MUST_USE;

/* --- file_call.c; posted, with a reference ---------------------------------------------------- */

void box_file_granted(void *call);
void box_file_refused(void *call);
void box_file_explained(void *call);
/* Not posted: its worker's socket is ready. */
void box_file_ready(box_file_call *c, int events);
