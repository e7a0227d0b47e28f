/* Loop threads and the worker pool: the only way between threads of boxd.
 *
 * A loop owns connections, calls and timers; what belongs to a loop is touched on its thread only.
 * box_loop_post and box_loop_offload are the only doors between threads. */
#pragma once

#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"

typedef struct box_loops box_loops; /* N loop threads and one worker pool */
typedef struct box_loop box_loop;
typedef struct box_timer box_timer;
typedef struct box_watch box_watch;

/* n_loops 0 = one a core. Threads start with box_loops_run. They block all signals but those of a
 * fault; the caller's thread keeps its mask. */
int box_loops_new(unsigned n_loops, unsigned n_workers, box_loops **out, box_error *err)
    BOX_MUST_USE;
unsigned box_loops_count(const box_loops *all);
box_loop *box_loops_get(box_loops *all, unsigned i);
/* Runs every loop (loop 0 on this thread) until box_loops_stop, then joins. Jobs still queued for
 * the workers are run, and everything posted is run, before it returns: nothing given is lost.
 * Once. */
int box_loops_run(box_loops *all, box_error *err) BOX_MUST_USE;
void box_loops_stop(box_loops *all); /* any thread; also before run */
/* Timers and watches may still be freed between run and this, by the thread that ran. */
void box_loops_free(box_loops *all);

/* The loop this thread runs, or NULL. */
box_loop *box_loop_current(void);
/* Its place among all, as box_loops_get takes it. */
unsigned box_loop_index(const box_loop *l);
/* Time at the start of this iteration, to the millisecond below. */
BOX_LOOP box_time box_loop_now(const box_loop *l);

/* Runs fn(arg) on that loop, soon, in order; from any thread. Also from the loop itself: never
 * inside the caller. */
void box_loop_post(box_loop *l, void (*fn)(void *arg), void *arg);
/* Runs `run` on a worker, then `done` on this loop. -1 (RESOURCE_EXHAUSTED kind: RATE_LIMIT) when
 * the queue is full, SHUTTING_DOWN when the loops have stopped; then neither runs. */
int box_loop_offload(box_loop *l, void (*run)(void *arg), void (*done)(void *arg), void *arg,
                     box_error *err) BOX_MUST_USE;

/* Work at the end of the loop's current turn, before it waits again: how many small writes become
 * one. The object embeds a zeroed box_later; adding one that waits already does nothing, removing
 * it cancels. */
typedef struct box_later {
    box_list link;
    void (*fn)(struct box_later *later);
} box_later;
BOX_LOOP void box_loop_later(box_loop *l, box_later *later);
BOX_LOOP void box_later_cancel(box_later *later);
/* Work that others shall not wait for: one of these a turn, in order, when all that the turn
 * brought is done and sent. */
BOX_LOOP void box_loop_spare(box_loop *l, box_later *later);

/* Something was sent, while nothing else is to be done, that may well be answered at once: the loop
 * looks for that for a moment before it sleeps, if lately it came so soon (loop/expect.h) and the
 * machine has a processor to spare. */
BOX_LOOP void box_loop_expect(box_loop *l);

/* Timers: fn runs once at `at` (absolute, never early), on the loop. Setting again moves it;
 * BOX_TIME_NEVER stops it. A freed timer never fires. Cheap: thousands per loop. */
BOX_LOOP box_timer *box_timer_new(box_loop *l, void (*fn)(void *arg), void *arg);
BOX_LOOP void box_timer_set(box_timer *t, box_time at);
BOX_LOOP void box_timer_free(box_timer *t);

/* Readiness of a descriptor, level-triggered; an error on it counts as everything asked for. The
 * descriptor stays the caller's and must outlive the watch. Freeing one inside its own callback is
 * allowed. One watch a descriptor and loop. */
enum { BOX_READABLE = 1, BOX_WRITABLE = 2 };
BOX_LOOP int box_watch_new(box_loop *l, int fd, void (*fn)(void *arg, int events), void *arg,
                           box_watch **out, box_error *err) BOX_MUST_USE;
BOX_LOOP void box_watch_set(box_watch *w, int events); /* 0 = paused */
BOX_LOOP void box_watch_free(box_watch *w);
