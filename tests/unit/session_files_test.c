/* File calls whose workers lie, hang and die. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>

#include "base/fd.h"
#include "file_rig.h"

/* --- honest workers --------------------------------------------------------------------------- */

static void one_worker_takes_one_call_after_another(void **state)
{
    rig *r = *state;
    file_call c;
    for (int i = 0; i < 3; i++) {
        file_rig_start(r, &c, BOX_FILES_STAT);
        file_rig_answer_stat(r, file_rig_newest(r), i == 0);
        file_rig_answered(&c);
        assert_int_equal(c.infos, 1);
    }
    assert_int_equal(file_rig_sandbox(r)->files, 1);
    assert_int_equal(file_rig_sandbox(r)->files_stops, 0);
}

static void an_answer_may_come_in_pieces_of_any_size(void **state)
{
    rig *r = *state;
    for (size_t piece = 1; piece <= 64; piece *= 2) {
        file_call c;
        file_speech s = {0};
        file_rig_start(r, &c, BOX_FILES_READ);
        if (piece == 1)
            file_rig_hello(&s);
        file_rig_info(&s);
        file_rig_data(&s, 7);
        file_rig_ends(&s, BOX_NONE);
        file_rig_say(r, file_rig_newest(r), &s, piece);
        file_rig_answered(&c);
        assert_int_equal(c.data, 7);
    }
    assert_int_equal(file_rig_sandbox(r)->files, 1);
}

static void what_the_worker_says_of_the_file_is_the_calls_error(void **state)
{
    rig *r = *state;
    file_call c;
    file_speech s = {0};
    file_rig_start(r, &c, BOX_FILES_STAT);
    file_rig_hello(&s);
    file_rig_ends(&s, BOX_FILE_NOT_FOUND);
    file_rig_say(r, file_rig_newest(r), &s, 0);
    file_rig_failed(&c, BOX_FILE_NOT_FOUND);
    file_rig_start(r, &c, BOX_FILES_STAT);
    file_rig_answer_stat(r, file_rig_newest(r), false); /* it is as good as before */
    file_rig_answered(&c);
}

static void content_is_fed_as_fast_as_the_worker_reads(void **state)
{
    rig *r = *state;
    static const uint8_t piece[64 * 1024];
    box_error err = {0};
    bool room = true;
    file_call c;
    file_rig_start(r, &c, BOX_FILES_PUT);
    size_t fed = 0;
    while (room && fed < 8 * 1024 * 1024) {
        assert_int_equal(box_file_feed(c.file, piece, sizeof piece, &room, &err), 0);
        fed += sizeof piece;
    }
    assert_false(room); /* long before memory is */
    size_t took = 0, n;
    while ((n = file_rig_listen(file_rig_newest(r))) > 0) {
        took += n;
        rig_settle(r);
    }
    assert_true(took > fed);
    assert_int_equal(c.rooms, 1);
    assert_int_equal(box_file_end(c.file, &err), 0);
    file_rig_answer_stat(r, file_rig_newest(r), true);
    file_rig_answered(&c);
}

static void nothing_is_read_while_the_caller_takes_nothing(void **state)
{
    rig *r = *state;
    file_call c;
    file_speech s = {0};
    box_files_ask ask = file_rig_ask(BOX_FILES_GET);
    box_error err = {0};
    ask.head.max_bytes = 0;
    assert_int_equal(file_rig_try(r, &c, &ask, &err), 0);
    c.closed = true;
    rig_settle(r);
    file_rig_hello(&s);
    file_rig_info(&s);
    file_rig_data(&s, 1000);
    file_rig_ends(&s, BOX_NONE);
    file_rig_say(r, file_rig_newest(r), &s, 0);
    assert_int_equal(c.infos + c.done, 0);
    c.closed = false;
    box_file_resume(c.file);
    rig_settle(r);
    file_rig_answered(&c);
    assert_int_equal(c.data, 1000);
}

/* --- workers that lie ------------------------------------------------------------------------- */

typedef struct lie {
    uint32_t op;
    const char *says; /* file_rig_tell */
} lie;

/* It fails the call, and nobody gets that worker again. */
static void assert_is_nonsense(rig *r, const lie *l)
{
    file_call c;
    unsigned before = file_rig_sandbox(r)->files;
    file_rig_start(r, &c, l->op);
    assert_int_equal(file_rig_sandbox(r)->files, before + 1);
    file_rig_tell(r, file_rig_newest(r), l->says);
    if (c.done != 1 || c.error.reason != BOX_INTERNAL)
        fail_msg("op %u, \"%s\": %u, %s", l->op, l->says, c.done, box_reason_name(c.error.reason));
    assert_int_equal(file_rig_sandbox(r)->files_stops, before + 1);
}

static void nonsense_fails_the_call_and_ends_the_worker(void **state)
{
    static const lie lies[] = {
        {BOX_FILES_STAT, "ha"},    {BOX_FILES_READ, "ha"},    {BOX_FILES_PUT, "ha"},
        {BOX_FILES_EDIT, "ha"},    {BOX_FILES_MKDIR, "ha"},   {BOX_FILES_MOVE, "ha"},
        {BOX_FILES_GET, "ha"},     {BOX_FILES_STAT, "hii"},   {BOX_FILES_REMOVE, "hi"},
        {BOX_FILES_GREP, "hi"},    {BOX_FILES_GLOB, "hiiii"}, {BOX_FILES_LIST, "hiiii"},
        {BOX_FILES_GREP, "hllll"}, {BOX_FILES_GLOB, "hl"},    {BOX_FILES_STAT, "hil"},
        {BOX_FILES_STAT, "hid"},   {BOX_FILES_GREP, "ho"},    {BOX_FILES_READ, "hd"},
        {BOX_FILES_READ, "hie"},   {BOX_FILES_READ, "hiddd"}, {BOX_FILES_READ, "hidooooo"},
        {BOX_FILES_GET, "hido"},   {BOX_FILES_STAT, "a"},     {BOX_FILES_STAT, "i"},
        {BOX_FILES_STAT, "hh"},    {BOX_FILES_STAT, "x"},     {BOX_FILES_STAT, "hix"},
    };
    for (size_t i = 0; i < BOX_COUNT(lies); i++)
        assert_is_nonsense(*state, &lies[i]);
}

static void what_just_fits_is_no_nonsense(void **state)
{
    static const lie good[] = {
        {BOX_FILES_READ, "hidooooa"}, {BOX_FILES_GET, "ida"},  {BOX_FILES_GLOB, "iiia"},
        {BOX_FILES_GREP, "llla"},     {BOX_FILES_REMOVE, "a"}, {BOX_FILES_LIST, "a"},
    };
    for (size_t i = 0; i < BOX_COUNT(good); i++) {
        file_call c;
        file_rig_start(*state, &c, good[i].op);
        file_rig_tell(*state, file_rig_newest(*state), good[i].says);
        file_rig_answered(&c);
    }
}

static void a_worker_of_another_version_is_told_as_such(void **state)
{
    rig *r = *state;
    file_call c;
    file_speech s = {0};
    uint32_t version = BOX_FILES_VERSION + 1;
    file_rig_start(r, &c, BOX_FILES_STAT);
    file_rig_frame(&s, BOX_FILES_HELLO, &version, sizeof version);
    file_rig_say(r, file_rig_newest(r), &s, 0);
    file_rig_failed(&c, BOX_VERSION_MISMATCH);
}

static void what_comes_behind_an_answer_is_for_nobody(void **state)
{
    rig *r = *state;
    file_call c;
    file_rig_start(r, &c, BOX_FILES_STAT);
    file_rig_tell(r, file_rig_newest(r), "hiai");
    assert_int_equal(c.done, 1);
    file_rig_start(r, &c, BOX_FILES_STAT);
    assert_int_equal(file_rig_sandbox(r)->files, 2);
    file_rig_answer_stat(r, file_rig_newest(r), true);
    file_rig_answered(&c);
}

static void a_worker_that_speaks_while_idle_gets_no_call(void **state)
{
    rig *r = *state;
    file_call c;
    file_rig_start(r, &c, BOX_FILES_STAT);
    file_rig_answer_stat(r, file_rig_newest(r), true);
    file_rig_tell(r, file_rig_newest(r), "ia");
    file_rig_start(r, &c, BOX_FILES_STAT);
    assert_int_equal(c.done, 0);
    assert_int_equal(file_rig_sandbox(r)->files, 2);
    file_rig_answer_stat(r, file_rig_newest(r), true);
    file_rig_answered(&c);
}

/* --- workers that end ------------------------------------------------------------------------- */

static void a_call_that_changes_nothing_is_tried_once_more(void **state)
{
    rig *r = *state;
    file_call c;
    file_rig_start(r, &c, BOX_FILES_STAT);
    fake_worker_end(file_rig_sandbox(r), file_rig_newest(r), SIGKILL);
    rig_settle(r);
    assert_int_equal(c.done, 0);
    file_rig_answer_stat(r, file_rig_newest(r), true);
    file_rig_answered(&c);
    file_rig_start(r, &c, BOX_FILES_STAT);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(c.done, 0);
        fake_worker_end(file_rig_sandbox(r), file_rig_newest(r), SIGKILL);
        rig_settle(r);
    }
    file_rig_failed(&c, BOX_RUNTIME_UNAVAILABLE);
}

static void a_call_that_may_have_changed_something_is_not(void **state)
{
    static const uint32_t ops[] = {BOX_FILES_PUT, BOX_FILES_EDIT, BOX_FILES_MKDIR, BOX_FILES_MOVE};
    rig *r = *state;
    for (size_t i = 0; i < BOX_COUNT(ops); i++) {
        file_call c;
        file_rig_start(r, &c, ops[i]);
        fake_worker_end(file_rig_sandbox(r), file_rig_newest(r), SIGKILL);
        rig_settle(r);
        file_rig_failed(&c, BOX_RUNTIME_UNAVAILABLE);
    }
}

static void a_call_that_was_half_answered_is_not(void **state)
{
    rig *r = *state;
    file_call c;
    file_rig_start(r, &c, BOX_FILES_READ);
    file_rig_tell(r, file_rig_newest(r), "hid");
    fake_worker_end(file_rig_sandbox(r), file_rig_newest(r), SIGSEGV);
    rig_settle(r);
    file_rig_failed(&c, BOX_RUNTIME_UNAVAILABLE);
}

static void removing_goes_on_beside_the_sandbox_when_it_has_no_memory(void **state)
{
    rig *r = *state;
    file_call c;
    file_rig_start(r, &c, BOX_FILES_REMOVE);
    assert_int_equal(file_rig_newest(r)->flags, 0);
    fake_warden_oom(&r->warden);
    fake_worker_end(file_rig_sandbox(r), file_rig_newest(r), SIGKILL);
    rig_settle(r);
    assert_int_equal(file_rig_newest(r)->flags, BOX_AGENT_FILES_IN_AGENT);
    file_rig_tell(r, file_rig_newest(r), "ha");
    file_rig_answered(&c);
}

static void a_worker_that_closes_its_socket_is_stopped_and_explained(void **state)
{
    rig *r = *state;
    file_call c;
    file_rig_start(r, &c, BOX_FILES_MKDIR);
    box_closep(&file_rig_newest(r)->fd); /* and lives on */
    rig_settle(r);
    file_rig_failed(&c, BOX_RUNTIME_UNAVAILABLE);
    assert_int_equal(file_rig_sandbox(r)->files_stops, 1);
}

static void an_agent_that_never_explains_it_is_not_waited_for(void **state)
{
    rig *r = *state;
    file_call c;
    r->warden.deaf_files = true;
    file_rig_start(r, &c, BOX_FILES_STAT);
    box_closep(&file_rig_newest(r)->fd);
    rig_settle(r);
    assert_int_equal(c.done, 0);
    rig_wait(r, (BOX_FILES_WHY_SECONDS + 1) * BOX_SECOND);
    file_rig_failed(&c, BOX_RUNTIME_UNAVAILABLE);
    fake_worker_end(file_rig_sandbox(r), file_rig_newest(r), SIGKILL); /* late */
    rig_settle(r);
    assert_int_equal(c.done, 1);
}

static void a_worker_that_died_idle_gets_no_call(void **state)
{
    rig *r = *state;
    file_call c;
    file_rig_start(r, &c, BOX_FILES_MKDIR);
    file_rig_answer_stat(r, file_rig_newest(r), true);
    box_closep(&file_rig_newest(r)->fd); /* nobody has heard of it yet */
    file_rig_start(r, &c, BOX_FILES_MKDIR);
    file_rig_answer_stat(r, file_rig_newest(r), true);
    file_rig_answered(&c);
}

static void a_worker_that_dies_behind_its_answer_gets_no_call_that_waits(void **state)
{
    rig *r = *state;
    file_call calls[BOX_FILES_MAX_WORKERS + 1];
    file_rig_start_all(r, calls);
    fake_worker *last = file_rig_newest(r);
    file_speech s = {0};
    file_rig_hello(&s);
    file_rig_info(&s);
    file_rig_ends(&s, BOX_NONE);
    assert_int_equal(
        box_fd_write_all(last->fd, box_buf_data(&s.out), box_buf_len(&s.out), &(box_error){0}), 0);
    box_buf_done(&s.out);
    box_closep(&last->fd);
    rig_settle(r);
    file_rig_answered(&calls[BOX_FILES_MAX_WORKERS - 1]);
    assert_int_equal(calls[BOX_FILES_MAX_WORKERS].done, 0);
    file_rig_answer_stat(r, file_rig_newest(r), true); /* a fresh one */
    file_rig_answered(&calls[BOX_FILES_MAX_WORKERS]);
    for (int i = 0; i < BOX_FILES_MAX_WORKERS - 1; i++)
        file_rig_cancel(r, &calls[i]);
}

static void the_agent_dies_under_calls_in_every_phase(void **state)
{
    rig *r = *state;
    file_call calls[BOX_FILES_MAX_WORKERS + 1];
    file_rig_start_all(r, calls);
    file_rig_tell(r, file_rig_newest(r), "h");
    fake_sandbox_die(&r->warden, file_rig_sandbox(r), true);
    rig_wait(r, BOX_FILES_QUEUE_SECONDS * BOX_SECOND);
    for (int i = 0; i <= BOX_FILES_MAX_WORKERS; i++) {
        assert_int_equal(calls[i].done, 1);
        assert_int_not_equal(calls[i].error.reason, BOX_NONE);
        assert_int_not_equal(calls[i].error.reason, BOX_INTERNAL);
    }
    file_call c;
    box_error err = {0};
    box_files_ask ask = file_rig_ask(BOX_FILES_STAT);
    assert_int_equal(file_rig_try(r, &c, &ask, &err), -1);
    assert_int_equal(err.reason, BOX_SESSION_BROKEN);
    answer a;
    rig_create(r, &a, "s", NULL); /* another sandbox */
    answer_free(&a);
    file_rig_start(r, &c, BOX_FILES_STAT);
    file_rig_answer_stat(r, file_rig_newest(r), true);
    file_rig_answered(&c);
}

static void a_deleted_session_answers_its_calls(void **state)
{
    rig *r = *state;
    file_call calls[BOX_FILES_MAX_WORKERS + 1];
    answer a = {0};
    file_rig_start_all(r, calls);
    box_session_delete(r->all, "t", "s", false, answer_done, &a);
    rig_wait(r, 5 * BOX_SECOND);
    assert_int_equal(a.count, 1);
    assert_int_equal(a.error.reason, BOX_NONE);
    for (int i = 0; i <= BOX_FILES_MAX_WORKERS; i++)
        file_rig_failed(&calls[i], BOX_SESSION_NOT_RUNNING);
    answer_free(&a);
}

#define RIG(test) cmocka_unit_test_setup_teardown(test, file_rig_set_up, rig_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG(one_worker_takes_one_call_after_another),
        RIG(an_answer_may_come_in_pieces_of_any_size),
        RIG(what_the_worker_says_of_the_file_is_the_calls_error),
        RIG(content_is_fed_as_fast_as_the_worker_reads),
        RIG(nothing_is_read_while_the_caller_takes_nothing),
        RIG(nonsense_fails_the_call_and_ends_the_worker),
        RIG(what_just_fits_is_no_nonsense),
        RIG(a_worker_of_another_version_is_told_as_such),
        RIG(what_comes_behind_an_answer_is_for_nobody),
        RIG(a_worker_that_speaks_while_idle_gets_no_call),
        RIG(a_call_that_changes_nothing_is_tried_once_more),
        RIG(a_call_that_may_have_changed_something_is_not),
        RIG(a_call_that_was_half_answered_is_not),
        RIG(removing_goes_on_beside_the_sandbox_when_it_has_no_memory),
        RIG(a_worker_that_closes_its_socket_is_stopped_and_explained),
        RIG(an_agent_that_never_explains_it_is_not_waited_for),
        RIG(a_worker_that_died_idle_gets_no_call),
        RIG(a_worker_that_dies_behind_its_answer_gets_no_call_that_waits),
        RIG(the_agent_dies_under_calls_in_every_phase),
        RIG(a_deleted_session_answers_its_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
