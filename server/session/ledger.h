/* Writes down what must survive boxd: changes of persistent sessions. Those that wait while one
 * transaction runs go into the next one together, in the order they came. */
#pragma once

#include "loop/loop.h"
#include "store/store.h"

typedef struct box_ledger box_ledger;

/* A change on its way. */
typedef struct box_ledger_entry {
    box_list link;
    box_session_change change; /* borrows the two below */
    char *tenant;
    box_buf record; /* may have a share, which lasts until done */
    box_loop *reply_to;
    void (*done)(void *arg, const box_error *err); /* err NULL: it is on the disk */
    void *arg;
    box_error err;
} box_ledger_entry;

/* The store is borrowed. */
box_ledger *box_ledger_new(box_store *store);
/* After the loops have stopped; tries FORGETs that failed a last time. */
void box_ledger_free(box_ledger *l);

/* done runs on this loop, once; NULL: nobody cares. The caller fills in the rest of the change. */
box_ledger_entry *box_ledger_entry_new(box_session_change_kind kind, const box_uid *uid,
                                       void (*done)(void *arg, const box_error *err), void *arg);
/* Takes it. On any loop; waits for nothing. RATE_LIMIT when BOX_LEDGER_MAX_WAITING wait already,
 * but a FORGET is never refused: there is one a session. */
void box_ledger_add(box_ledger *l, box_ledger_entry *e);
/* Writes again what sessions that are gone left behind because FORGET failed. On one loop, now and
 * then. */
void box_ledger_tick(box_ledger *l, box_time now);
/* Takes it, with nothing to write: done is told err (NULL: all is well). */
void box_ledger_answer(box_ledger_entry *e, const box_error *err);
