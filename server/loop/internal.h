/* What the files of loop/ share; nobody else includes it. */
#pragma once

#include <uv.h>

#include "loop/expect.h"
#include "loop/lock.h"
#include "loop/loop.h"
#include "loop/worker.h"

struct box_loop {
    uv_loop_t uv;
    uv_async_t wake;
    uv_prepare_t before_poll; /* both run what was posted and the later list */
    uv_check_t after_poll;
    uv_idle_t not_idle; /* while spare has some: the poll does not wait */
    box_loops *all;
    pthread_t thread;
    bool running_posts;
    box_expect expect;
    box_list later;  /* of box_later */
    box_list spare;  /* of box_later */
    box_lock lock;   /* guards what follows */
    box_task *first; /* posted, in order */
    box_task *last;
    bool stopped;
};

struct box_loops {
    unsigned n_loops;
    int load_fd;           /* /proc/loadavg, or -1 */
    unsigned n_processors; /* of the machine */
    box_workers *workers;
    box_loop loops[];
};
