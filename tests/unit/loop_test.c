#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/fd.h"
#include "loop/loop.h"

/* Every test runs real loops: what it waits for is an event, never a time. */
typedef struct fixture {
    box_loops *loops;
    box_error err;
    int count;
    int order[16];
    int pipe[2];
    box_timer *timer;
    box_watch *watch;
    box_time set_at, fired_at, due;
    box_later later;
    pthread_t thread;
    atomic_int atomic_count;
} fixture;

static box_loop *loop_of(fixture *f, unsigned i)
{
    return box_loops_get(f->loops, i);
}

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    f->pipe[0] = f->pipe[1] = -1;
    assert_int_equal(box_loops_new(2, 2, &f->loops, &f->err), 0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    box_loops_free(f->loops);
    box_closep(&f->pipe[0]);
    box_closep(&f->pipe[1]);
    free(f);
    return 0;
}

static void run(fixture *f)
{
    assert_int_equal(box_loops_run(f->loops, &f->err), 0);
}

static void stop(void *arg)
{
    fixture *f = arg;
    box_loops_stop(f->loops);
}

static void note_one(void *arg)
{
    fixture *f = arg;
    f->order[f->count++] = 1;
}

static void note_two(void *arg)
{
    fixture *f = arg;
    f->order[f->count++] = 2;
}

static void posted_tasks_run_in_order(void **state)
{
    fixture *f = *state;
    box_loop_post(loop_of(f, 0), note_one, f);
    box_loop_post(loop_of(f, 0), note_two, f);
    box_loop_post(loop_of(f, 0), note_one, f);
    box_loop_post(loop_of(f, 0), stop, f);
    run(f);
    assert_int_equal(f->count, 3);
    assert_int_equal(f->order[0], 1);
    assert_int_equal(f->order[1], 2);
    assert_int_equal(f->order[2], 1);
}

static void post_then_note(void *arg)
{
    fixture *f = arg;
    assert_ptr_equal(box_loop_current(), loop_of(f, 0));
    box_loop_post(loop_of(f, 0), note_two, f);
    box_loop_post(loop_of(f, 0), stop, f);
    note_one(f);
}

static void a_task_posted_from_the_loop_runs_after_the_caller(void **state)
{
    fixture *f = *state;
    box_loop_post(loop_of(f, 0), post_then_note, f);
    run(f);
    assert_int_equal(f->count, 2);
    assert_int_equal(f->order[0], 1);
    assert_int_equal(f->order[1], 2);
    assert_null(box_loop_current());
}

static void count_and_stop_at_2000(void *arg)
{
    fixture *f = arg;
    if (++f->count == 2000)
        box_loops_stop(f->loops);
}

static void *post_1000(void *arg)
{
    fixture *f = arg;
    for (int i = 0; i < 1000; i++)
        box_loop_post(loop_of(f, 1), count_and_stop_at_2000, f);
    return NULL;
}

static void several_threads_post_to_one_loop(void **state)
{
    fixture *f = *state;
    pthread_t a;
    pthread_t b;
    pthread_create(&a, NULL, post_1000, f);
    pthread_create(&b, NULL, post_1000, f);
    run(f);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    assert_int_equal(f->count, 2000);
}

static void what_is_posted_after_stop_still_runs(void **state)
{
    fixture *f = *state;
    box_loops_stop(f->loops);
    box_loop_post(loop_of(f, 1), note_one, f);
    run(f);
    assert_int_equal(f->count, 1);
}

static void on_loop_one_done(void *arg)
{
    fixture *f = arg;
    assert_ptr_equal(box_loop_current(), loop_of(f, 1));
    assert_int_equal(atomic_load(&f->atomic_count), 1);
    box_loops_stop(f->loops);
}

static void run_on_worker(void *arg)
{
    fixture *f = arg;
    assert_null(box_loop_current());
    atomic_fetch_add(&f->atomic_count, 1);
}

static void offload(void *arg)
{
    fixture *f = arg;
    assert_int_equal(box_loop_offload(loop_of(f, 1), run_on_worker, on_loop_one_done, f, &f->err),
                     0);
}

static void offloaded_work_comes_back_to_its_loop(void **state)
{
    fixture *f = *state;
    box_loop_post(loop_of(f, 1), offload, f);
    run(f);
}

static void on_due(void *arg)
{
    fixture *f = arg;
    f->fired_at = box_now();
    f->count++;
    box_timer_free(f->timer);
    box_loops_stop(f->loops);
}

static void set_timer(void *arg)
{
    fixture *f = arg;
    f->timer = box_timer_new(box_loop_current(), on_due, f);
    f->due = box_now() + 3 * BOX_MS + 1;
    box_timer_set(f->timer, f->due + BOX_SECOND * 1000);
    box_timer_set(f->timer, f->due); /* moved */
}

static void a_timer_fires_once_and_never_early(void **state)
{
    fixture *f = *state;
    box_loop_post(loop_of(f, 1), set_timer, f);
    run(f);
    assert_int_equal(f->count, 1);
    assert_true(f->fired_at >= f->due);
}

static void on_stopped_timer(void *arg)
{
    (void)arg;
    fail_msg("a stopped or freed timer fired");
}

static void stop_timers(void *arg)
{
    fixture *f = arg;
    box_timer *freed = box_timer_new(box_loop_current(), on_stopped_timer, f);
    box_timer_set(freed, 1);
    box_timer_free(freed);
    box_timer *stopped = box_timer_new(box_loop_current(), on_stopped_timer, f);
    box_timer_set(stopped, 1);
    box_timer_set(stopped, BOX_TIME_NEVER);
    f->timer = box_timer_new(box_loop_current(), on_due, f);
    box_timer_set(f->timer, box_now() + 2 * BOX_MS);
    box_timer_free(stopped);
}

static void a_stopped_or_freed_timer_never_fires(void **state)
{
    fixture *f = *state;
    box_loop_post(loop_of(f, 0), stop_timers, f);
    run(f);
    assert_int_equal(f->count, 1);
}

static void on_readable(void *arg, int events)
{
    fixture *f = arg;
    assert_int_equal(events, BOX_READABLE);
    if (++f->count < 3)
        return; /* level-triggered: comes again */
    box_watch_free(f->watch);
    box_loops_stop(f->loops);
}

static void watch_pipe(void *arg)
{
    fixture *f = arg;
    assert_int_equal(
        box_watch_new(box_loop_current(), f->pipe[0], on_readable, f, &f->watch, &f->err), 0);
    box_watch_set(f->watch, BOX_READABLE);
}

static void a_watch_is_level_triggered_and_may_free_itself(void **state)
{
    fixture *f = *state;
    assert_int_equal(pipe(f->pipe), 0);
    assert_int_equal(write(f->pipe[1], "x", 1), 1);
    box_loop_post(loop_of(f, 1), watch_pipe, f);
    run(f);
    assert_int_equal(f->count, 3);
}

static void on_broken_pipe(void *arg, int events)
{
    fixture *f = arg;
    assert_int_equal(events & BOX_WRITABLE, BOX_WRITABLE);
    if (++f->count < 2)
        return;
    box_watch_free(f->watch);
    box_loops_stop(f->loops);
}

static void watch_broken_pipe(void *arg)
{
    fixture *f = arg;
    box_closep(&f->pipe[0]);
    assert_int_equal(
        box_watch_new(box_loop_current(), f->pipe[1], on_broken_pipe, f, &f->watch, &f->err), 0);
    box_watch_set(f->watch, BOX_WRITABLE);
}

static void an_error_on_a_descriptor_is_reported_until_it_is_handled(void **state)
{
    fixture *f = *state;
    assert_int_equal(pipe(f->pipe), 0);
    box_loop_post(loop_of(f, 0), watch_broken_pipe, f);
    run(f);
    assert_int_equal(f->count, 2);
}

static void on_later(box_later *later)
{
    fixture *f = BOX_CONTAINER(later, fixture, later);
    f->order[f->count++] = 3;
    box_loops_stop(f->loops);
}

static void ask_later_twice(void *arg)
{
    fixture *f = arg;
    f->later.fn = on_later;
    box_loop_later(box_loop_current(), &f->later);
    box_loop_later(box_loop_current(), &f->later);
    note_one(f);
}

static void later_work_runs_once_at_the_end_of_the_turn(void **state)
{
    fixture *f = *state;
    box_loop_post(loop_of(f, 0), ask_later_twice, f);
    box_loop_post(loop_of(f, 0), note_two, f);
    run(f);
    assert_int_equal(f->count, 3);
    assert_int_equal(f->order[2], 3);
}

static void cancel_later(void *arg)
{
    fixture *f = arg;
    f->later.fn = on_later;
    box_loop_later(box_loop_current(), &f->later);
    box_later_cancel(&f->later);
    box_loop_post(box_loop_current(), stop, f);
}

static void cancelled_later_work_does_not_run(void **state)
{
    fixture *f = *state;
    box_loop_post(loop_of(f, 0), cancel_later, f);
    run(f);
    assert_int_equal(f->count, 0);
}

typedef struct spare_work {
    box_later later;
    fixture *f;
    int number;
} spare_work;

static void note_ten(void *arg)
{
    fixture *f = arg;
    f->order[f->count++] = 10;
}

static void on_spare(box_later *later)
{
    spare_work *w = BOX_CONTAINER(later, spare_work, later);
    w->f->order[w->f->count++] = w->number;
    if (w->number == 3)
        box_loops_stop(w->f->loops);
    else
        box_loop_post(box_loop_current(), note_ten, w->f);
}

static void on_later_one(box_later *later)
{
    note_one(BOX_CONTAINER(later, fixture, later));
}

static void ask_spare(void *arg)
{
    spare_work *work = arg;
    for (int i = 0; i < 4; i++) {
        work[i].later.fn = on_spare;
        box_loop_spare(box_loop_current(), &work[i].later);
        box_loop_spare(box_loop_current(), &work[i].later);
    }
    box_later_cancel(&work[3].later);
    work[0].f->later.fn = on_later_one;
    box_loop_later(box_loop_current(), &work[0].f->later);
}

static void spare_work_runs_once_a_turn_after_everything_else(void **state)
{
    fixture *f = *state;
    spare_work work[4] = {
        {.f = f, .number = 2}, {.f = f, .number = 2}, {.f = f, .number = 3}, {.f = f}};
    static const int expected[] = {1, 2, 10, 2, 10, 3};
    box_loop_post(loop_of(f, 0), ask_spare, work);
    run(f);
    assert_int_equal(f->count, BOX_COUNT(expected));
    for (size_t i = 0; i < BOX_COUNT(expected); i++)
        assert_int_equal(f->order[i], expected[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(posted_tasks_run_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_task_posted_from_the_loop_runs_after_the_caller, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(several_threads_post_to_one_loop, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_posted_after_stop_still_runs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(offloaded_work_comes_back_to_its_loop, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_timer_fires_once_and_never_early, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stopped_or_freed_timer_never_fires, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_watch_is_level_triggered_and_may_free_itself, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_error_on_a_descriptor_is_reported_until_it_is_handled,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(later_work_runs_once_at_the_end_of_the_turn, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(cancelled_later_work_does_not_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(spare_work_runs_once_a_turn_after_everything_else, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
