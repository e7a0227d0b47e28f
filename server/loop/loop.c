#include "loop/loop.h"

#include <assert.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/limits.h"
#include "loop/internal.h"

/* Which loop a thread runs is a property of the thread. */
static _Thread_local box_loop *current;

box_loop *box_loop_current(void)
{
    return current;
}

/* --- tasks from any thread -------------------------------------------------------------------- */

void box_loop_post(box_loop *l, void (*fn)(void *arg), void *arg)
{
    box_task *task = box_alloc(sizeof *task);
    *task = (box_task){.fn = fn, .arg = arg};
    box_lock_take(&l->lock);
    if (l->first == NULL)
        l->first = task;
    else
        l->last->next = task;
    l->last = task;
    box_lock_release(&l->lock);
    /* On the loop itself the end of this turn finds it, unless that is what is running now. */
    if (current != l || l->running_posts)
        uv_async_send(&l->wake);
}

static box_task *take_posts(box_loop *l)
{
    box_lock_take(&l->lock);
    box_task *task = l->first;
    l->first = l->last = NULL;
    box_lock_release(&l->lock);
    return task;
}

/* One batch: what these post waits for the next turn, so that descriptors get their share. */
static bool run_posts(box_loop *l)
{
    box_task *task = take_posts(l);
    bool any = task != NULL;
    l->running_posts = true;
    while (task != NULL) {
        box_task *next = task->next;
        task->fn(task->arg);
        free(task);
        task = next;
    }
    l->running_posts = false;
    return any;
}

/* --- the end of a turn ------------------------------------------------------------------------ */

void box_loop_later(box_loop *l, box_later *later)
{
    if (!box_list_linked(&later->link))
        box_list_append(&l->later, &later->link);
}

void box_later_cancel(box_later *later)
{
    box_list_remove(&later->link);
}

static void run_later(box_loop *l)
{
    while (!box_list_empty(&l->later)) {
        box_later *later = BOX_CONTAINER(l->later.next, box_later, link);
        box_list_remove(&later->link);
        later->fn(later);
    }
}

/* Its being active is all there is to it. */
static void on_not_idle(uv_idle_t *handle)
{
    (void)handle;
}

void box_loop_spare(box_loop *l, box_later *later)
{
    if (box_list_linked(&later->link))
        return;
    box_list_append(&l->spare, &later->link);
    uv_idle_start(&l->not_idle, on_not_idle);
}

static void run_spare(box_loop *l)
{
    if (!box_list_empty(&l->spare)) {
        box_later *later = BOX_CONTAINER(l->spare.next, box_later, link);
        box_list_remove(&later->link);
        later->fn(later);
    }
    if (box_list_empty(&l->spare))
        uv_idle_stop(&l->not_idle);
}

static void end_of_turn(box_loop *l)
{
    (void)run_posts(l);
    run_later(l);
}

void box_loop_expect(box_loop *l)
{
    l->expect.wanted = true;
}

/* More threads of the machine could run than it has processors, or nobody knows (proc(5),
 * /proc/loadavg: the fourth number). */
static bool is_machine_busy(const box_loops *all)
{
    char text[64];
    ssize_t n = pread(all->load_fd, text, sizeof text - 1, 0);
    if (n <= 0)
        return true;
    text[n] = '\0';
    const char *at = text;
    for (int i = 0; i < 3 && at != NULL; i++) {
        at = strchr(at, ' ');
        at = at != NULL ? at + 1 : NULL;
    }
    return at == NULL || strtoul(at, NULL, 10) > all->n_processors;
}

/* Others that want this processor go first: then it is not the time to look. */
static bool look_for_events(const box_loop *l, box_time now)
{
    struct pollfd events = {.fd = uv_backend_fd(&l->uv), .events = POLLIN};
    const box_time end = now + BOX_POLL_US * BOX_US;
    if (is_machine_busy(l->all))
        return false;
    while (poll(&events, 1, 0) == 0) {
        box_time before = now;
        (void)sched_yield();
        now = box_now();
        if (now >= end || now - before > BOX_YIELD_US * BOX_US)
            return false;
    }
    return true;
}

static void on_prepare(uv_prepare_t *handle)
{
    box_loop *l = BOX_CONTAINER(handle, box_loop, before_poll);
    end_of_turn(l);
    if (!l->expect.wanted)
        return;
    box_time now = box_now();
    if (box_expect_begin(&l->expect, now) && box_list_empty(&l->spare))
        box_expect_polled(&l->expect, look_for_events(l, now));
}

static void on_check(uv_check_t *handle)
{
    box_loop *l = BOX_CONTAINER(handle, box_loop, after_poll);
    if (l->expect.began_at != 0)
        box_expect_end(&l->expect, box_now());
    end_of_turn(l);
    run_spare(l);
}

/* Only wakes the poll: on_check, which follows, does the work. */
static void on_wake(uv_async_t *handle)
{
    (void)handle;
}

box_time box_loop_now(const box_loop *l)
{
    return uv_now(&l->uv) * BOX_MS;
}

/* --- life ------------------------------------------------------------------------------------- */

static int loop_init(box_loop *l, box_loops *all, box_error *err)
{
    if (uv_loop_init(&l->uv) != 0)
        return box_fail(err, BOX_INTERNAL, "cannot make an event loop: too many open files?");
    l->all = all;
    box_list_init(&l->later);
    box_list_init(&l->spare);
    box_lock_init(&l->lock);
    uv_prepare_init(&l->uv, &l->before_poll);
    uv_prepare_start(&l->before_poll, on_prepare);
    uv_check_init(&l->uv, &l->after_poll);
    uv_check_start(&l->after_poll, on_check);
    uv_idle_init(&l->uv, &l->not_idle);
    int rc = uv_async_init(&l->uv, &l->wake, on_wake);
    if (rc != 0)
        return box_fail(err, BOX_INTERNAL, "cannot make an event loop: %s", uv_strerror(rc));
    return 0;
}

static void loop_done(box_loop *l)
{
    current = l;
    uv_close((uv_handle_t *)&l->before_poll, NULL);
    uv_close((uv_handle_t *)&l->after_poll, NULL);
    uv_close((uv_handle_t *)&l->not_idle, NULL);
    if (l->wake.type == UV_ASYNC)
        uv_close((uv_handle_t *)&l->wake, NULL);
    (void)uv_run(&l->uv, UV_RUN_DEFAULT); /* the close callbacks of all that was freed */
    int rc = uv_loop_close(&l->uv);
    assert(rc == 0); /* else a timer or watch was not freed by its owner */
    current = NULL;
    for (box_task *task = take_posts(l), *next; task != NULL; task = next) {
        next = task->next;
        free(task);
    }
    box_lock_done(&l->lock);
}

int box_loops_new(unsigned n_loops, unsigned n_workers, box_loops **out, box_error *err)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (n_loops == 0)
        n_loops = uv_available_parallelism();
    box_loops *all = box_alloc(sizeof *all + n_loops * sizeof all->loops[0]);
    all->n_processors = processors > 0 ? (unsigned)processors : 1;
    all->load_fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    all->workers =
        box_workers_new(n_workers > 0 ? n_workers : BOX_WORKER_THREADS, BOX_WORKER_QUEUE);
    for (; all->n_loops < n_loops; all->n_loops++) {
        if (loop_init(&all->loops[all->n_loops], all, err) < 0) {
            box_loops_free(all);
            return -1;
        }
    }
    *out = all;
    return 0;
}

void box_loops_free(box_loops *all)
{
    if (all == NULL)
        return;
    box_workers_free(all->workers);
    for (unsigned i = 0; i < all->n_loops; i++)
        loop_done(&all->loops[i]);
    box_closep(&all->load_fd);
    free(all);
}

unsigned box_loops_count(const box_loops *all)
{
    return all->n_loops;
}

box_loop *box_loops_get(box_loops *all, unsigned i)
{
    assert(i < all->n_loops);
    return &all->loops[i];
}

unsigned box_loop_index(const box_loop *l)
{
    return (unsigned)(l - l->all->loops);
}

static bool is_stopped(box_loop *l)
{
    box_lock_take(&l->lock);
    bool stopped = l->stopped;
    box_lock_release(&l->lock);
    return stopped;
}

static void *loop_main(void *arg)
{
    box_loop *l = arg;
    current = l;
    while (!is_stopped(l))
        (void)uv_run(&l->uv, UV_RUN_ONCE);
    current = NULL;
    return NULL;
}

void box_loops_stop(box_loops *all)
{
    for (unsigned i = 0; i < all->n_loops; i++) {
        box_loop *l = &all->loops[i];
        box_lock_take(&l->lock);
        l->stopped = true;
        box_lock_release(&l->lock);
        uv_async_send(&l->wake);
    }
}

/* All other threads have ended: runs what they left, each on behalf of its loop. */
static void run_leftovers(box_loops *all)
{
    bool any;
    do {
        any = false;
        for (unsigned i = 0; i < all->n_loops; i++) {
            current = &all->loops[i];
            any |= run_posts(current);
            run_later(current);
        }
    } while (any);
    current = NULL;
}

int box_loops_run(box_loops *all, box_error *err)
{
    int rc = box_workers_start(all->workers, err);
    unsigned started = 1;
    for (; rc == 0 && started < all->n_loops; started++) {
        rc = box_thread_start(&all->loops[started].thread, loop_main, &all->loops[started], err);
        if (rc < 0)
            break;
    }
    if (rc == 0)
        (void)loop_main(&all->loops[0]);
    else
        box_loops_stop(all);
    for (unsigned i = 1; i < started; i++)
        pthread_join(all->loops[i].thread, NULL);
    box_workers_stop(all->workers);
    run_leftovers(all);
    return rc;
}

int box_loop_offload(box_loop *l, void (*run)(void *arg), void (*done)(void *arg), void *arg,
                     box_error *err)
{
    return box_workers_add(l->all->workers, l, run, done, arg, err);
}
