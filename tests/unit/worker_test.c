#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>

#include "loop/loop.h"
#include "loop/worker.h"

typedef struct fixture {
    box_loops *loops; /* jobs need a loop to come back to */
    box_workers *workers;
    atomic_int runs;
    atomic_int dones;
} fixture;

static void set_up(fixture *f)
{
    *f = (fixture){0};
    box_error err;
    assert_int_equal(box_loops_new(1, 1, &f->loops, &err), 0);
    f->workers = box_workers_new(2, 3);
}

static void tear_down(fixture *f)
{
    box_workers_free(f->workers);
    box_loops_free(f->loops);
}

static void run(void *arg)
{
    fixture *f = arg;
    atomic_fetch_add(&f->runs, 1);
}

static void done(void *arg)
{
    fixture *f = arg;
    atomic_fetch_add(&f->dones, 1);
}

static int add(fixture *f, box_error *err)
{
    return box_workers_add(f->workers, box_loops_get(f->loops, 0), run, done, f, err);
}

static void a_full_queue_refuses_and_runs_neither_function(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    box_error err = {0};
    for (int i = 0; i < 3; i++)
        assert_int_equal(add(&f, &err), 0); /* no thread takes any yet */
    assert_int_equal(add(&f, &err), -1);
    assert_int_equal(err.reason, BOX_RATE_LIMIT);
    assert_int_equal(box_workers_start(f.workers, &err), 0);
    box_workers_stop(f.workers);
    assert_int_equal(atomic_load(&f.runs), 3);
    tear_down(&f);
}

static void stopping_runs_what_is_queued_and_refuses_more(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    box_error err = {0};
    assert_int_equal(box_workers_start(f.workers, &err), 0);
    assert_int_equal(add(&f, &err), 0);
    box_workers_stop(f.workers);
    assert_int_equal(atomic_load(&f.runs), 1);
    assert_int_equal(add(&f, &err), -1);
    assert_int_equal(err.reason, BOX_SHUTTING_DOWN);
    box_loops_stop(f.loops);
    assert_int_equal(box_loops_run(f.loops, &err), 0);
    assert_int_equal(atomic_load(&f.dones), 1);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_queue_refuses_and_runs_neither_function),
        cmocka_unit_test(stopping_runs_what_is_queued_and_refuses_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
