#include "fake_loop.h"

#include <poll.h>

#include "base/alloc.h"
#include "base/list.h"

typedef struct post {
    box_list link;
    void (*fn)(void *arg);
    void *arg;
} post;

struct box_timer {
    box_list link;
    box_time at;
    void (*fn)(void *arg);
    void *arg;
};

struct box_watch {
    box_list link;
    box_loop *loop;
    int fd;
    int events;
    void (*fn)(void *arg, int events);
    void *arg;
};

struct box_loop {
    box_list posts, timers, watches, later;
    unsigned generation; /* a watch was made or freed */
    bool no_workers;
};

struct box_loops {
    unsigned n;
    box_loop loops[4];
};

static box_loop *current;
static box_time now = BOX_SECOND;

int box_loops_new(unsigned n_loops, unsigned n_workers, box_loops **out, box_error *err)
{
    (void)n_workers;
    (void)err;
    box_loops *all = box_alloc(sizeof *all);
    all->n = n_loops;
    for (unsigned i = 0; i < n_loops; i++) {
        box_list_init(&all->loops[i].posts);
        box_list_init(&all->loops[i].timers);
        box_list_init(&all->loops[i].watches);
        box_list_init(&all->loops[i].later);
    }
    *out = all;
    return 0;
}

unsigned box_loops_count(const box_loops *all)
{
    return all->n;
}

box_loop *box_loops_get(box_loops *all, unsigned i)
{
    return &all->loops[i];
}

void box_loops_free(box_loops *all)
{
    free(all);
}

box_loop *box_loop_current(void)
{
    return current;
}

box_time box_loop_now(const box_loop *l)
{
    (void)l;
    return now;
}

void fake_loop_enter(box_loop *l)
{
    current = l;
}

void fake_time_advance(uint64_t ns)
{
    now += ns;
}

int64_t fake_wall_ns(void)
{
    return INT64_C(1700000000) * (int64_t)BOX_SECOND + (int64_t)now;
}

void box_loop_post(box_loop *l, void (*fn)(void *arg), void *arg)
{
    post *p = box_alloc(sizeof *p);
    p->fn = fn;
    p->arg = arg;
    box_list_append(&l->posts, &p->link);
}

/* A worker that is quick: `run` comes with the next turn, `done` with the one after. */
typedef struct job {
    box_loop *loop;
    void (*run)(void *arg);
    void (*done)(void *arg);
    void *arg;
} job;

static void run_job(void *arg)
{
    job *j = arg;
    j->run(j->arg);
    box_loop_post(j->loop, j->done, j->arg);
    free(j);
}

int box_loop_offload(box_loop *l, void (*run)(void *arg), void (*done)(void *arg), void *arg,
                     box_error *err)
{
    if (l->no_workers)
        return box_fail(err, BOX_SHUTTING_DOWN, "the loops have stopped");
    job *j = box_alloc(sizeof *j);
    *j = (job){.loop = l, .run = run, .done = done, .arg = arg};
    box_loop_post(l, run_job, j);
    return 0;
}

void box_loop_expect(box_loop *l)
{
    (void)l; /* it never waits */
}

void fake_workers_stop(box_loop *l, bool stopped)
{
    l->no_workers = stopped;
}

box_timer *box_timer_new(box_loop *l, void (*fn)(void *arg), void *arg)
{
    box_timer *t = box_alloc(sizeof *t);
    t->at = BOX_TIME_NEVER;
    t->fn = fn;
    t->arg = arg;
    box_list_append(&l->timers, &t->link);
    return t;
}

void box_timer_set(box_timer *t, box_time at)
{
    t->at = at;
}

void box_timer_free(box_timer *t)
{
    if (t == NULL)
        return;
    box_list_remove(&t->link);
    free(t);
}

int box_watch_new(box_loop *l, int fd, void (*fn)(void *arg, int events), void *arg,
                  box_watch **out, box_error *err)
{
    (void)err;
    box_watch *w = box_alloc(sizeof *w);
    *w = (box_watch){.loop = l, .fd = fd, .fn = fn, .arg = arg};
    box_list_append(&l->watches, &w->link);
    l->generation++;
    *out = w;
    return 0;
}

void box_watch_set(box_watch *w, int events)
{
    w->events = events;
}

void box_watch_free(box_watch *w)
{
    if (w == NULL)
        return;
    w->loop->generation++;
    box_list_remove(&w->link);
    free(w);
}

void box_loop_later(box_loop *l, box_later *later)
{
    if (!box_list_linked(&later->link))
        box_list_append(&l->later, &later->link);
}

void box_later_cancel(box_later *later)
{
    box_list_remove(&later->link);
}

static bool run_later(box_loop *l)
{
    bool any = !box_list_empty(&l->later);
    while (!box_list_empty(&l->later)) {
        box_later *later = BOX_CONTAINER(l->later.next, box_later, link);
        box_list_remove(&later->link);
        later->fn(later);
    }
    return any;
}

static bool run_posts(box_loop *l)
{
    box_list batch; /* what is posted meanwhile runs in the next turn */
    box_list_init(&batch);
    while (!box_list_empty(&l->posts)) {
        box_list *first = l->posts.next;
        box_list_remove(first);
        box_list_append(&batch, first);
    }
    bool any = !box_list_empty(&batch);
    while (!box_list_empty(&batch)) {
        post *p = BOX_CONTAINER(batch.next, post, link);
        box_list_remove(&p->link);
        p->fn(p->arg);
        free(p);
    }
    return any;
}

static bool run_timers(box_loop *l)
{
    for (box_list *at = l->timers.next; at != &l->timers; at = at->next) {
        box_timer *t = BOX_CONTAINER(at, box_timer, link);
        if (t->at > now)
            continue;
        t->at = BOX_TIME_NEVER;
        t->fn(t->arg);
        return true;
    }
    return false;
}

static bool run_watches(box_loop *l)
{
    bool any = false;
    unsigned generation = l->generation;
    for (box_list *at = l->watches.next; at != &l->watches; at = at->next) {
        box_watch *w = BOX_CONTAINER(at, box_watch, link);
        struct pollfd p = {.fd = w->fd};
        if (w->events & BOX_READABLE)
            p.events |= POLLIN;
        if (w->events & BOX_WRITABLE)
            p.events |= POLLOUT;
        if (w->events == 0 || poll(&p, 1, 0) <= 0)
            continue;
        bool broken = (p.revents & (POLLERR | POLLHUP)) != 0;
        int events = (p.revents & POLLIN || broken ? BOX_READABLE : 0) |
                     (p.revents & POLLOUT || broken ? BOX_WRITABLE : 0);
        w->fn(w->arg, events & w->events);
        any = true;
        if (l->generation != generation)
            break;
    }
    return any;
}

bool fake_loops_turn(box_loops *all)
{
    bool any = false;
    for (unsigned i = 0; i < all->n; i++) {
        box_loop *before = current;
        current = &all->loops[i];
        any |= run_posts(current);
        any |= run_timers(current);
        any |= run_watches(current);
        any |= run_later(current);
        current = before;
    }
    return any;
}
