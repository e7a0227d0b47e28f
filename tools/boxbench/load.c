#include "load.h"

#include <pthread.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"

typedef struct thread {
    pthread_t id;
    load_worker worker;
    const load_plan *plan;
    pthread_barrier_t *start; /* everyone is prepared, and the main thread looks at the clock */
    size_t calls;
    bench_case samples;
    int rc;
    box_error err;
} thread;

static void *run(void *arg)
{
    thread *t = arg;
    const load_plan *p = t->plan;
    t->rc = p->prepare != NULL ? p->prepare(&t->worker, &t->err) : 0;
    (void)pthread_barrier_wait(t->start);
    for (size_t i = 0; t->rc == 0 && i < t->calls; i++) {
        t->rc = p->before != NULL ? p->before(&t->worker, &t->err) : 0;
        if (t->rc < 0)
            break;
        box_time begin = box_now();
        t->rc = p->call(&t->worker, &t->err);
        bench_add(&t->samples, box_now() - begin);
    }
    return NULL;
}

static int open_channels(const load_target *target, unsigned n, box_channel **channels,
                         box_error *err)
{
    for (unsigned i = 0; i < n; i++) {
        if (box_channel_new(target->endpoint, NULL, &channels[i], err) < 0)
            return -1;
    }
    return 0;
}

static uint64_t processor_ns(void)
{
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* Linux always has it */
    return (uint64_t)t.tv_sec * BOX_SECOND + (uint64_t)t.tv_nsec;
}

/* Threads that could be started are joined, whatever happens. */
static int run_threads(thread *threads, unsigned n, const load_plan *plan, bench_case *out,
                       box_error *err)
{
    pthread_barrier_t start;
    int rc = 0;
    (void)pthread_barrier_init(&start, NULL, n + 1);
    for (unsigned i = 0; i < n; i++) {
        threads[i].start = &start;
        if (pthread_create(&threads[i].id, NULL, run, &threads[i]) != 0)
            abort(); /* the others wait at the barrier for ever: nothing sensible is left to do */
    }
    (void)pthread_barrier_wait(&start);
    box_time begin = box_now();
    uint64_t used = processor_ns();
    for (unsigned i = 0; i < n; i++)
        (void)pthread_join(threads[i].id, NULL);
    out->wall_ns = box_now() - begin;
    out->client_ns = processor_ns() - used;
    for (unsigned i = 0; i < n; i++) {
        bench_merge(out, &threads[i].samples);
        bench_done(&threads[i].samples);
        if (threads[i].rc < 0) {
            *err = threads[i].err;
            rc = -1;
        }
        if (plan->finish != NULL)
            plan->finish(&threads[i].worker);
    }
    (void)pthread_barrier_destroy(&start);
    return rc;
}

int load_run(const load_target *target, const load_plan *plan, bench_case *out, box_error *err)
{
    unsigned n = plan->connections * plan->threads_each;
    box_channel **channels = box_alloc_array(plan->connections, sizeof(box_channel *));
    thread *threads = box_alloc_array(n, sizeof *threads);
    int rc = open_channels(target, plan->connections, channels, err);
    for (unsigned i = 0; i < n; i++) {
        threads[i].plan = plan;
        threads[i].calls = plan->calls / n;
        threads[i].worker = (load_worker){
            .channel = channels[i / plan->threads_each], .index = i, .arg = plan->arg};
    }
    if (rc == 0)
        rc = run_threads(threads, n, plan, out, err);
    for (unsigned i = 0; i < plan->connections; i++)
        box_channel_free(channels[i]);
    free(threads);
    free(channels);
    return rc;
}
