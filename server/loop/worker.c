#include "loop/worker.h"

#include <assert.h>
#include <signal.h>

#include "base/alloc.h"
#include "loop/lock.h"
#include "loop/loop.h"

typedef struct job {
    box_loop *loop;
    void (*run)(void *arg);
    void (*done)(void *arg);
    void *arg;
} job;

struct box_workers {
    pthread_t *threads;
    unsigned n_threads;
    unsigned n_started;
    unsigned max_queued;
    box_lock lock; /* guards what follows */
    pthread_cond_t work;
    job *ring; /* max_queued entries, the oldest at `head` */
    unsigned head;
    unsigned count;
    bool stopping;
};

box_workers *box_workers_new(unsigned n_threads, unsigned max_queued)
{
    assert(n_threads > 0 && max_queued > 0);
    box_workers *w = box_alloc(sizeof *w);
    w->threads = box_alloc_array(n_threads, sizeof *w->threads);
    w->n_threads = n_threads;
    w->max_queued = max_queued;
    w->ring = box_alloc_array(max_queued, sizeof *w->ring);
    box_lock_init(&w->lock);
    pthread_cond_init(&w->work, NULL);
    return w;
}

/* False when the pool stops and nothing is left. */
static bool next_job(box_workers *w, job *out)
{
    box_lock_take(&w->lock);
    while (w->count == 0 && !w->stopping)
        pthread_cond_wait(&w->work, &w->lock.mutex);
    bool found = w->count > 0;
    if (found) {
        *out = w->ring[w->head];
        w->head = (w->head + 1) % w->max_queued;
        w->count--;
    }
    box_lock_release(&w->lock);
    return found;
}

BOX_WORKER static void *worker_main(void *arg)
{
    box_workers *w = arg;
    job j;
    while (next_job(w, &j)) {
        j.run(j.arg);
        box_loop_post(j.loop, j.done, j.arg);
    }
    return NULL;
}

int box_thread_start(pthread_t *out, void *(*fn)(void *), void *arg, box_error *err)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* a new thread inherits it: signals go to main */
    int rc = pthread_create(out, NULL, fn, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0)
        return box_fail(err, BOX_INTERNAL, "cannot start a thread (error %d)", rc);
    return 0;
}

int box_workers_start(box_workers *w, box_error *err)
{
    for (; w->n_started < w->n_threads; w->n_started++) {
        if (box_thread_start(&w->threads[w->n_started], worker_main, w, err) < 0)
            return -1;
    }
    return 0;
}

int box_workers_add(box_workers *w, box_loop *loop, void (*run)(void *), void (*done)(void *),
                    void *arg, box_error *err)
{
    box_lock_take(&w->lock);
    bool stopping = w->stopping;
    bool full = w->count == w->max_queued;
    if (!stopping && !full) {
        unsigned at = (w->head + w->count) % w->max_queued;
        w->ring[at] = (job){.loop = loop, .run = run, .done = done, .arg = arg};
        w->count++;
        pthread_cond_signal(&w->work);
    }
    box_lock_release(&w->lock);
    if (stopping)
        return box_fail(err, BOX_SHUTTING_DOWN, "the server is stopping");
    if (full)
        return box_fail(err, BOX_RATE_LIMIT, "%u jobs wait for a worker already", w->max_queued);
    return 0;
}

void box_workers_stop(box_workers *w)
{
    box_lock_take(&w->lock);
    w->stopping = true;
    pthread_cond_broadcast(&w->work);
    box_lock_release(&w->lock);
    for (; w->n_started > 0; w->n_started--)
        pthread_join(w->threads[w->n_started - 1], NULL);
}

void box_workers_free(box_workers *w)
{
    if (w == NULL)
        return;
    box_workers_stop(w);
    pthread_cond_destroy(&w->work);
    box_lock_done(&w->lock);
    free(w->ring);
    free(w->threads);
    free(w);
}
