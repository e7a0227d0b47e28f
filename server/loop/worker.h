/* The worker pool: a few threads for what blocks, one bounded queue. */
#pragma once

#include <pthread.h>

#include "base/error.h"

typedef struct box_workers box_workers;
typedef struct box_loop box_loop;

/* A function to run, in a queue. */
typedef struct box_task {
    struct box_task *next;
    void (*fn)(void *arg);
    void *arg;
} box_task;

box_workers *box_workers_new(unsigned n_threads, unsigned max_queued);
int box_workers_start(box_workers *w, box_error *err) BOX_MUST_USE;
/* Any thread: runs `run` on a worker, then posts `done` to the loop. -1: RATE_LIMIT (the queue is
 * full) or SHUTTING_DOWN. */
int box_workers_add(box_workers *w, box_loop *loop, void (*run)(void *), void (*done)(void *),
                    void *arg, box_error *err) BOX_MUST_USE;
/* Takes no more jobs, runs what is queued, joins. */
void box_workers_stop(box_workers *w);
void box_workers_free(box_workers *w);

/* Starts a thread that takes no signals. */
int box_thread_start(pthread_t *out, void *(*fn)(void *), void *arg, box_error *err) BOX_MUST_USE;
