#include "session/ledger.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "base/log.h"
#include "loop/lock.h"

struct box_ledger {
    box_store *store;
    box_lock lock; /* guards what follows but batch */
    box_list waiting;
    size_t n_waiting;
    bool writing;
    box_list batch; /* of the worker, and then of the loop that is told */
    box_list owed;  /* debt */
    size_t n_owed;
    box_time retry_at;
};

/* A FORGET that failed. */
typedef struct debt {
    box_list link;
    box_uid uid;
} debt;

box_ledger *box_ledger_new(box_store *store)
{
    box_ledger *l = box_alloc(sizeof *l);
    l->store = store;
    box_lock_init(&l->lock);
    box_list_init(&l->waiting);
    box_list_init(&l->batch);
    box_list_init(&l->owed);
    return l;
}

static void entry_free(box_ledger_entry *e)
{
    box_buf_done(&e->record);
    free(e->tenant);
    free(e);
}

/* The list goes, too. */
static void free_all(box_list *entries)
{
    for (box_list *at = entries->next, *next; at != entries; at = next) {
        next = at->next;
        entry_free(BOX_CONTAINER(at, box_ledger_entry, link));
    }
}

static box_uid take_debt(box_ledger *l)
{
    debt *d = BOX_CONTAINER(l->owed.next, debt, link);
    box_uid uid = d->uid;
    box_list_remove(&d->link);
    l->n_owed--;
    free(d);
    return uid;
}

/* The last try, alone here. */
static void pay_here(box_ledger *l)
{
    while (!box_list_empty(&l->owed)) {
        box_session_change changes[BOX_LEDGER_BATCH];
        size_t n = 0;
        box_error err = {0};
        while (n < BOX_LEDGER_BATCH && !box_list_empty(&l->owed))
            changes[n++] = (box_session_change){.kind = BOX_SESSION_FORGET, .uid = take_debt(l)};
        if (box_store_sessions_write(l->store, changes, n, &err) < 0)
            box_log(BOX_WARN, "session.write", BOX_ERR(&err));
    }
}

void box_ledger_free(box_ledger *l)
{
    if (l == NULL)
        return;
    free_all(&l->waiting);
    free_all(&l->batch);
    pay_here(l);
    box_lock_done(&l->lock);
    free(l);
}

box_ledger_entry *box_ledger_entry_new(box_session_change_kind kind, const box_uid *uid,
                                       void (*done)(void *arg, const box_error *err), void *arg)
{
    box_ledger_entry *e = box_alloc(sizeof *e);
    e->change = (box_session_change){.kind = kind, .uid = *uid};
    box_buf_init(&e->record, BOX_SESSION_RECORD_BYTES);
    e->reply_to = box_loop_current();
    e->done = done;
    e->arg = arg;
    return e;
}

static void deliver(void *entry)
{
    box_ledger_entry *e = entry;
    box_buf_done(&e->record); /* before done: what it is charged to may go with that */
    if (e->err.reason != BOX_NONE)
        box_log(BOX_WARN, "session.write", BOX_ERR(&e->err));
    if (e->done != NULL)
        e->done(e->arg, e->err.reason != BOX_NONE ? &e->err : NULL);
    entry_free(e);
}

void box_ledger_answer(box_ledger_entry *e, const box_error *err)
{
    if (err != NULL)
        e->err = *err;
    box_loop_post(e->reply_to, deliver, e);
}

/* With the lock held. Beyond the limit the next start finds a session whose sandbox is gone. */
static void owe_locked(box_ledger *l, const box_uid *uid) BOX_REQUIRES(l->lock)
{
    if (l->n_owed == BOX_LEDGER_MAX_WAITING)
        return;
    debt *d = box_alloc(sizeof *d);
    d->uid = *uid;
    l->n_owed++;
    box_list_append(&l->owed, &d->link);
}

/* With the lock held. err NULL: each has its own. */
static void answer_all_locked(box_ledger *l, box_list *entries, const box_error *err)
    BOX_REQUIRES(l->lock)
{
    while (!box_list_empty(entries)) {
        box_ledger_entry *e = BOX_CONTAINER(entries->next, box_ledger_entry, link);
        box_list_remove(&e->link);
        if (e->change.kind == BOX_SESSION_FORGET && (err != NULL || e->err.reason != BOX_NONE))
            owe_locked(l, &e->change.uid);
        box_ledger_answer(e, err);
    }
}

/* --- writing ---------------------------------------------------------------------------------- */

BOX_WORKER static void write_batch(void *ledger)
{
    box_ledger *l = ledger;
    box_session_change changes[BOX_LEDGER_BATCH];
    size_t n = 0;
    box_lock_take(&l->lock);
    while (n < BOX_LEDGER_BATCH && !box_list_empty(&l->waiting)) {
        box_ledger_entry *e = BOX_CONTAINER(l->waiting.next, box_ledger_entry, link);
        box_list_remove(&e->link);
        l->n_waiting--;
        box_list_append(&l->batch, &e->link);
        changes[n++] = e->change;
    }
    box_lock_release(&l->lock);
    box_error err = {0};
    if (box_store_sessions_write(l->store, changes, n, &err) == 0)
        return;
    for (box_list *at = l->batch.next; at != &l->batch; at = at->next)
        BOX_CONTAINER(at, box_ledger_entry, link)->err = err;
}

static void written(void *ledger);

/* With the lock held, which is let go meanwhile: the loops end, and nobody waits for this one. What
 * was promised, such as forgetting a session whose sandbox goes, is done before boxd is. */
static void write_here_locked(box_ledger *l) BOX_REQUIRES(l->lock)
{
    while (!box_list_empty(&l->waiting)) {
        box_lock_release(&l->lock);
        write_batch(l);
        box_lock_take(&l->lock);
        answer_all_locked(l, &l->batch, NULL);
    }
}

/* With the lock held. What cannot be given to a worker has failed. */
static void begin_locked(box_ledger *l) BOX_REQUIRES(l->lock)
{
    box_error err = {0};
    l->writing = true;
    if (box_loop_offload(box_loop_current(), write_batch, written, l, &err) == 0)
        return;
    if (err.reason == BOX_SHUTTING_DOWN)
        write_here_locked(l);
    l->writing = false;
    l->n_waiting = 0;
    answer_all_locked(l, &l->waiting, &err);
}

static void written(void *ledger)
{
    box_ledger *l = ledger;
    box_lock_take(&l->lock);
    answer_all_locked(l, &l->batch, NULL);
    l->writing = false;
    if (!box_list_empty(&l->waiting))
        begin_locked(l);
    box_lock_release(&l->lock);
}

void box_ledger_add(box_ledger *l, box_ledger_entry *e)
{
    e->change.tenant = e->tenant;
    e->change.record = (box_bytes){box_buf_data(&e->record), box_buf_len(&e->record)};
    box_lock_take(&l->lock);
    if (l->n_waiting >= BOX_LEDGER_MAX_WAITING && e->change.kind != BOX_SESSION_FORGET) {
        box_error err;
        (void)box_fail(&err, BOX_RATE_LIMIT, "too many changes wait for the disk: retry later");
        err.retry_ms = 1000;
        box_ledger_answer(e, &err);
    } else {
        l->n_waiting++;
        box_list_append(&l->waiting, &e->link);
        if (!l->writing)
            begin_locked(l);
    }
    box_lock_release(&l->lock);
}

void box_ledger_tick(box_ledger *l, box_time now)
{
    box_list due;
    box_list_init(&due);
    box_lock_take(&l->lock);
    while (now >= l->retry_at && !box_list_empty(&l->owed)) {
        box_uid uid = take_debt(l);
        box_list_append(&due, &box_ledger_entry_new(BOX_SESSION_FORGET, &uid, NULL, NULL)->link);
    }
    if (!box_list_empty(&due))
        l->retry_at = box_time_add(now, BOX_LEDGER_RETRY_SECONDS * BOX_SECOND);
    box_lock_release(&l->lock);
    while (!box_list_empty(&due)) {
        box_ledger_entry *e = BOX_CONTAINER(due.next, box_ledger_entry, link);
        box_list_remove(&e->link);
        box_ledger_add(l, e);
    }
}
