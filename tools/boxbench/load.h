/* Load on a server: threads that call in a closed loop, each timing every call. */
#pragma once

#include "box/channel.h"
#include "stats.h"

typedef struct load_target {
    const char *endpoint; /* NULL: from the environment, as boxcli does */
} load_target;

/* One thread's state; `call` does one measured call and may prepare on the first. */
typedef struct load_worker {
    box_channel *channel; /* shared by the threads of one connection */
    unsigned index;       /* of the thread, from 0 */
    void *arg;            /* of the whole case */
    char session[64];     /* filled by prepare, removed by finish */
} load_worker;

typedef struct load_plan {
    unsigned connections;
    unsigned threads_each;                          /* on one connection */
    size_t calls;                                   /* in all, shared out evenly */
    int (*prepare)(load_worker *w, box_error *err); /* NULL: nothing; not measured */
    int (*before)(load_worker *w, box_error *err);  /* each call; NULL: nothing; not measured */
    int (*call)(load_worker *w, box_error *err);
    void (*finish)(load_worker *w); /* NULL: nothing */
    void *arg;
} load_plan;

/* Fills out->samples, wall_ns and client_ns. The first error ends the case. */
int load_run(const load_target *target, const load_plan *plan, bench_case *out, box_error *err)
    BOX_MUST_USE;
