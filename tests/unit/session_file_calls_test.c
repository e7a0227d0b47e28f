/* File calls whose callers go away, and limits of calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "file_rig.h"

enum { NOTHING_COMES_SECONDS = 400 /* after every wait there is */ };

/* --- limits ----------------------------------------------------------------------------------- */

static void more_calls_than_may_wait_are_refused(void **state)
{
    enum { FIT = BOX_FILES_MAX_WORKERS + BOX_FILES_QUEUE_DEPTH };
    rig *r = *state;
    file_call *calls = calloc(FIT + 1, sizeof *calls);
    for (int i = 0; i <= FIT; i++)
        file_rig_start(r, &calls[i], BOX_FILES_STAT);
    file_rig_failed(&calls[FIT], BOX_RATE_LIMIT);
    assert_string_equal(box_error_get(&calls[FIT].error, "limit"), "file_calls");
    rig_wait(r, (BOX_FILES_QUEUE_SECONDS + 1) * BOX_SECOND);
    for (int i = 0; i < FIT; i++) {
        assert_int_equal(calls[i].done, i >= BOX_FILES_MAX_WORKERS);
        if (i >= BOX_FILES_MAX_WORKERS)
            file_rig_failed(&calls[i], BOX_RATE_LIMIT);
        else
            file_rig_cancel(r, &calls[i]);
    }
    free(calls);
}

static void a_worker_that_says_nothing_is_given_up(void **state)
{
    static const uint32_t ops[] = {BOX_FILES_STAT, BOX_FILES_PUT, BOX_FILES_GET, BOX_FILES_GREP};
    rig *r = *state;
    for (size_t i = 0; i < BOX_COUNT(ops); i++) {
        file_call c;
        file_rig_start(r, &c, ops[i]);
        for (int k = 0; k < NOTHING_COMES_SECONDS && c.done == 0; k++)
            rig_wait(r, BOX_SECOND);
        file_rig_failed(&c, BOX_DEADLINE);
        assert_int_equal(file_rig_sandbox(r)->files_stops, i + 1);
    }
}

static void paths_that_do_not_fit_start_nothing(void **state)
{
    rig *r = *state;
    file_call c;
    static uint8_t longest[BOX_FILES_MAX_PATH + 1];
    memset(longest, 'x', sizeof longest);
    longest[0] = '/';
    const box_bytes bad[] = {{NULL, 0}, {(const uint8_t *)"a\0b", 3}, {longest, sizeof longest}};
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        box_error err = {0};
        box_files_ask ask = file_rig_ask(BOX_FILES_STAT);
        ask.path = bad[i];
        assert_int_equal(file_rig_try(r, &c, &ask, &err), -1);
        assert_int_equal(err.reason, BOX_VALIDATION);
        err = (box_error){0};
        ask = file_rig_ask(BOX_FILES_MOVE);
        ask.target = bad[i];
        assert_int_equal(file_rig_try(r, &c, &ask, &err), -1);
        assert_non_null(box_error_get(&err, "field:target_path"));
    }
    rig_settle(r);
    assert_int_equal(file_rig_sandbox(r)->files, 0);
}

/* --- callers that go away --------------------------------------------------------------------- */

static void a_caller_may_go_away_at_any_point(void **state)
{
    /* What the worker has said by then; "-" nothing was done yet, "+" it has ended. */
    static const char *const points[] = {"-", "", "h", "hi", "hid", "+"};
    rig *r = *state;
    r->warden.deaf_files = true; /* so that "+" lasts */
    for (size_t i = 0; i < BOX_COUNT(points); i++) {
        file_call c;
        box_error err = {0};
        box_files_ask ask = file_rig_ask(BOX_FILES_READ);
        assert_int_equal(file_rig_try(r, &c, &ask, &err), 0);
        if (points[i][0] != '-')
            rig_settle(r);
        if (points[i][0] == '+')
            box_closep(&file_rig_newest(r)->fd);
        else if (points[i][0] != '-')
            file_rig_tell(r, file_rig_newest(r), points[i]);
        rig_settle(r);
        file_rig_cancel(r, &c);
        rig_wait(r, BOX_FILES_WHY_SECONDS * BOX_SECOND);
        assert_int_equal(c.done, 0);
        for (int k = 0; k < FAKE_MAX_WORKERS; k++) { /* the agent saw their sockets close */
            if (file_rig_sandbox(r)->workers[k].used)
                fake_worker_end(file_rig_sandbox(r), &file_rig_sandbox(r)->workers[k], 0);
        }
        rig_settle(r);
    }
    file_call c;
    file_rig_start(r, &c, BOX_FILES_STAT);
    file_rig_answer_stat(r, file_rig_newest(r), true);
    file_rig_answered(&c);
}

static void a_caller_that_waits_in_the_queue_may_go_away(void **state)
{
    rig *r = *state;
    file_call calls[BOX_FILES_MAX_WORKERS + 1];
    file_rig_start_all(r, calls);
    for (int i = BOX_FILES_MAX_WORKERS; i >= 0; i--) {
        file_rig_cancel(r, &calls[i]);
        assert_int_equal(calls[i].done, 0);
    }
    assert_int_equal(file_rig_sandbox(r)->files_stops, BOX_FILES_MAX_WORKERS);
}

static void a_worker_that_was_granted_to_nobody_takes_the_next_call(void **state)
{
    rig *r = *state;
    file_call c;
    box_error err = {0};
    box_files_ask ask = file_rig_ask(BOX_FILES_STAT);
    assert_int_equal(file_rig_try(r, &c, &ask, &err), 0);
    while (file_rig_sandbox(r)->files == 0) { /* it is on its way to the call */
        (void)fake_loops_turn(r->loops);
        (void)fake_warden_step(&r->warden);
    }
    file_rig_cancel(r, &c);
    file_rig_start(r, &c, BOX_FILES_STAT);
    file_rig_answer_stat(r, file_rig_newest(r), true);
    file_rig_answered(&c);
}

/* --- idle workers ----------------------------------------------------------------------------- */

/* Has boxd closed its end? */
static bool is_let_go(const fake_worker *w)
{
    char byte;
    (void)file_rig_listen(w);
    return recv(w->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
}

static void call_and_answer(rig *r, bool greet)
{
    file_call c;
    file_rig_start(r, &c, BOX_FILES_MKDIR);
    file_rig_answer_stat(r, file_rig_newest(r), greet);
    file_rig_answered(&c);
}

static void an_idle_worker_is_let_go_after_a_while(void **state)
{
    rig *r = *state;
    call_and_answer(r, true);
    fake_worker *w = file_rig_newest(r);
    rig_wait(r, BOX_FILES_IDLE_SECONDS * BOX_SECOND / 2);
    assert_false(is_let_go(w));
    rig_wait(r, (BOX_FILES_IDLE_SECONDS + BOX_FILES_EXTRA_SECONDS) * BOX_SECOND);
    assert_true(is_let_go(w));
    fake_worker_end(file_rig_sandbox(r), w, 0);
    rig_settle(r);
    call_and_answer(r, true);
    assert_int_equal(file_rig_sandbox(r)->files, 2);
}

static void one_beside_the_sandbox_is_let_go_at_once(void **state)
{
    rig *r = *state;
    file_call c;
    file_rig_start(r, &c, BOX_FILES_REMOVE);
    fake_warden_oom(&r->warden);
    fake_worker_end(file_rig_sandbox(r), file_rig_newest(r), SIGKILL);
    rig_settle(r);
    file_rig_tell(r, file_rig_newest(r), "ha");
    file_rig_answered(&c);
    assert_int_equal(file_rig_newest(r)->flags, BOX_AGENT_FILES_IN_AGENT);
    assert_true(is_let_go(file_rig_newest(r)));
}

static void one_that_speaks_unasked_is_ended_at_once(void **state)
{
    rig *r = *state;
    call_and_answer(r, true);
    assert_int_equal(file_rig_sandbox(r)->files_stops, 0);
    file_rig_tell(r, file_rig_newest(r), "a");
    assert_int_equal(file_rig_sandbox(r)->files_stops, 1);
    call_and_answer(r, true);
}

/* The loop that made the last call looks at it; the home loop of the session is the other one. */
static void one_serves_the_calls_of_every_loop(void **state)
{
    rig *r = *state;
    box_loop *before = box_loop_current();
    for (unsigned i = 0; i < 6; i++) {
        fake_loop_enter(box_loops_get(r->loops, (i / 2) % 2));
        call_and_answer(r, i == 0);
    }
    assert_int_equal(file_rig_sandbox(r)->files, 1);
    assert_int_equal(file_rig_sandbox(r)->files_stops, 0);
    fake_loop_enter(before);
}

static void one_on_its_way_to_another_loop_may_speak(void **state)
{
    rig *r = *state;
    file_call c;
    file_speech nonsense = {0};
    box_error err = {0};
    box_files_ask ask = file_rig_ask(BOX_FILES_STAT);
    box_loop *before = box_loop_current();
    fake_loop_enter(box_loops_get(r->loops, 1));
    call_and_answer(r, true);
    fake_worker *w = file_rig_newest(r);
    fake_loop_enter(box_loops_get(r->loops, 0));
    assert_int_equal(file_rig_try(r, &c, &ask, &err), 0);
    for (int i = 0; i < 2; i++)
        (void)fake_loops_turn(r->loops);
    file_rig_info(&nonsense);
    file_rig_info(&nonsense);
    file_rig_say(r, w, &nonsense, 0);
    rig_settle(r);
    file_rig_failed(&c, BOX_INTERNAL);
    assert_int_equal(file_rig_sandbox(r)->files_stops, 1);
    call_and_answer(r, true);
    fake_loop_enter(before);
}

static void the_loop_that_watches_it_hears_when_it_dies(void **state)
{
    rig *r = *state;
    call_and_answer(r, true);
    fake_worker_end(file_rig_sandbox(r), file_rig_newest(r), SIGKILL);
    rig_settle(r);
    call_and_answer(r, true);
    assert_int_equal(file_rig_sandbox(r)->files, 2);
}

#define RIG(test) cmocka_unit_test_setup_teardown(test, file_rig_set_up, rig_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG(more_calls_than_may_wait_are_refused),
        RIG(a_worker_that_says_nothing_is_given_up),
        RIG(paths_that_do_not_fit_start_nothing),
        RIG(a_caller_may_go_away_at_any_point),
        RIG(a_caller_that_waits_in_the_queue_may_go_away),
        RIG(a_worker_that_was_granted_to_nobody_takes_the_next_call),
        RIG(an_idle_worker_is_let_go_after_a_while),
        RIG(one_beside_the_sandbox_is_let_go_at_once),
        RIG(one_that_speaks_unasked_is_ended_at_once),
        RIG(one_serves_the_calls_of_every_loop),
        RIG(one_on_its_way_to_another_loop_may_speak),
        RIG(the_loop_that_watches_it_hears_when_it_dies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
