/* Attachments: readers that are slow or gone, writers that take over, agents that die and lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "process_rig.h"
#include "session/attach.h"

typedef struct reader {
    box_attach *attach;
    unsigned attached, restarts, writers_lost, rooms, done;
    char out[256]; /* of both streams, as it came */
    size_t len, total;
    uint64_t dropped;
    bool closed; /* takes nothing now */
    bool has_verdict;
    box_verdict_status status;
    box_error error;
} reader;

static void on_attached(void *arg, const box_process_info *info, const uint64_t offset[2])
{
    (void)info;
    (void)offset;
    ((reader *)arg)->attached++;
}

static void on_output(void *arg, int stream, uint64_t offset, const uint8_t *data, size_t len)
{
    (void)stream;
    (void)offset;
    reader *a = arg;
    size_t n = len < sizeof a->out - 1 - a->len ? len : sizeof a->out - 1 - a->len;
    memcpy(a->out + a->len, data, n);
    a->len += n;
    a->total += len;
}

static void on_dropped(void *arg, int stream, uint64_t offset, uint64_t bytes)
{
    (void)stream;
    (void)offset;
    ((reader *)arg)->dropped += bytes;
}

static void on_restarted(void *arg, const box_verdict *before, uint32_t restarts)
{
    (void)before;
    (void)restarts;
    ((reader *)arg)->restarts++;
}

static void on_writer_lost(void *arg)
{
    ((reader *)arg)->writers_lost++;
}

static bool on_writable(void *arg)
{
    return !((reader *)arg)->closed;
}

static void on_room(void *arg)
{
    ((reader *)arg)->rooms++;
}

static void on_done(void *arg, const box_verdict *verdict, const box_error *err)
{
    reader *a = arg;
    a->done++;
    a->has_verdict = verdict != NULL;
    if (verdict != NULL)
        a->status = verdict->status;
    if (err != NULL)
        a->error = *err;
}

static void attach_as(rig *r, reader *a, box_attach_request request)
{
    static const box_attach_events events = {.attached = on_attached,
                                             .output = on_output,
                                             .dropped = on_dropped,
                                             .restarted = on_restarted,
                                             .writer_lost = on_writer_lost,
                                             .writable = on_writable,
                                             .stdin_room = on_room,
                                             .done = on_done};
    bool closed = a->closed;
    *a = (reader){.closed = closed};
    request.tenant = "t";
    request.session_id = "s";
    request.process_id = "p";
    a->attach = box_attach_new(r->all, &request, &events, a);
    rig_settle(r);
}

/* From the first byte on. */
static void attach(rig *r, reader *a)
{
    a->closed = false;
    attach_as(r, a, (box_attach_request){.has_offset = {true, true}});
}

static void attach_writer(rig *r, reader *a, bool take_over)
{
    a->closed = false;
    attach_as(r, a, (box_attach_request){.write = true, .take_over = take_over});
}

static void leave(rig *r, reader *a)
{
    box_attach_free(a->attach);
    a->attach = NULL;
    rig_settle(r);
}

static void write_text(rig *r, const char *text)
{
    process_rig_write(r, process_rig_newest(r), 0, text, strlen(text));
}

/* It runs, and its stdin is a pipe whose other end is *inside. */
static void run_with_stdin(rig *r, int *inside)
{
    process_call c;
    int ends[2];
    process_rig_start(r, &c, "p");
    process_rig_introduce(r, process_rig_newest(r));
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    process_rig_report_with(r, process_rig_newest(r)->id,
                            (box_agent_managed){.state = BOX_MANAGED_RUNNING, .pid = 9, .runs = 1},
                            ends[1]);
    process_rig_runs(&c);
    process_rig_drop(r, &c);
    (void)close(ends[1]);
    *inside = ends[0];
}

static void assert_reads(int fd, const char *text)
{
    char got[64] = "";
    assert_int_equal(read(fd, got, sizeof got - 1), strlen(text));
    assert_string_equal(got, text);
}

/* --- readers ---------------------------------------------------------------------------------- */

static void readers_get_what_was_and_what_comes(void **state)
{
    rig *r = *state;
    reader first, late;
    process_rig_start_and_run(r, "p");
    attach(r, &first);
    write_text(r, "one ");
    attach(r, &late);
    write_text(r, "two");
    assert_string_equal(first.out, "one two");
    assert_string_equal(late.out, "one two");
    process_rig_end(r, process_rig_newest(r), (box_agent_run_exit){.exit_code = 0});
    assert_int_equal(first.done + late.done, 2);
    assert_true(first.has_verdict);
    leave(r, &first);
    leave(r, &late);
}

static void a_reader_that_takes_nothing_holds_nobody_up(void **state)
{
    rig *r = *state;
    static uint8_t much[3 * 64 * 1024];
    reader slow = {.closed = true}, quick;
    process_call c;
    box_process_request request = process_rig_request("p");
    request.has_journal = true;
    request.journal_bytes = 64 * 1024;
    process_rig_start_as(r, &c, &request);
    process_rig_run(r);
    process_rig_drop(r, &c);
    attach_as(r, &slow, (box_attach_request){.has_offset = {true, true}});
    attach(r, &quick);
    for (int i = 0; i < 3; i++)
        process_rig_write(r, process_rig_newest(r), 0, much, 64 * 1024);
    assert_int_equal(quick.total, sizeof much);
    assert_int_equal(quick.dropped, 0);
    assert_int_equal(slow.total, 0);
    slow.closed = false;
    box_attach_resume(slow.attach);
    rig_settle(r);
    assert_true(slow.dropped >= 2 * 64 * 1024);
    assert_int_equal(slow.total + slow.dropped, sizeof much);
    leave(r, &slow);
    leave(r, &quick);
}

static void an_offset_beyond_the_end_is_refused(void **state)
{
    rig *r = *state;
    reader a = {0};
    process_rig_start_and_run(r, "p");
    write_text(r, "abc");
    attach_as(r, &a, (box_attach_request){.has_offset = {true, false}, .offset = {4, 0}});
    assert_int_equal(a.error.reason, BOX_VALIDATION);
    assert_int_equal(a.attached, 0);
    leave(r, &a);
    attach_as(r, &a, (box_attach_request){.has_offset = {true, false}, .offset = {3, 0}});
    assert_int_equal(a.attached, 1);
    leave(r, &a);
}

static void there_are_only_so_many_readers(void **state)
{
    rig *r = *state;
    reader *all = calloc(BOX_MAX_ATTACHED + 1, sizeof *all);
    process_rig_start_and_run(r, "p");
    for (int i = 0; i <= BOX_MAX_ATTACHED; i++)
        attach(r, &all[i]);
    assert_int_equal(all[BOX_MAX_ATTACHED].error.reason, BOX_QUOTA);
    leave(r, &all[0]);
    leave(r, &all[BOX_MAX_ATTACHED]);
    attach(r, &all[0]);
    assert_int_equal(all[0].attached, 1);
    for (int i = 0; i < BOX_MAX_ATTACHED; i++)
        leave(r, &all[i]);
    free(all);
}

static void one_may_wait_for_a_process_that_is_not_there(void **state)
{
    rig *r = *state;
    reader comes = {0}, never = {0}, at_once = {0};
    attach_as(r, &at_once, (box_attach_request){0});
    assert_int_equal(at_once.error.reason, BOX_PROCESS_NOT_FOUND);
    attach_as(r, &comes, (box_attach_request){.wait_ns = 60 * BOX_SECOND});
    attach_as(r, &never, (box_attach_request){.wait_ns = BOX_SECOND});
    rig_wait(r, 2 * BOX_SECOND);
    assert_int_equal(never.error.reason, BOX_PROCESS_NOT_FOUND);
    assert_int_equal(comes.done, 0);
    process_rig_start_and_run(r, "p");
    assert_int_equal(comes.attached, 1);
    leave(r, &comes);
    leave(r, &never);
    leave(r, &at_once);
}

/* --- writers ---------------------------------------------------------------------------------- */

static void one_writes_at_a_time(void **state)
{
    rig *r = *state;
    reader first, second;
    int inside;
    bool room;
    box_error err = {0};
    run_with_stdin(r, &inside);
    attach_writer(r, &first, false);
    assert_int_equal(box_attach_feed(first.attach, "a", 1, &room, &err), 0);
    rig_settle(r);
    assert_reads(inside, "a");
    attach_writer(r, &second, false);
    assert_int_equal(second.error.reason, BOX_STDIN_TAKEN);
    leave(r, &second);
    attach_writer(r, &second, true);
    assert_int_equal(first.writers_lost, 1);
    assert_int_equal(box_attach_feed(first.attach, "x", 1, &room, &err), 0); /* dropped */
    assert_int_equal(box_attach_feed(second.attach, "b", 1, &room, &err), 0);
    rig_settle(r);
    assert_reads(inside, "b");
    leave(r, &second);
    attach_writer(r, &second, false); /* nobody writes now */
    assert_int_equal(second.attached, 1);
    assert_int_equal(box_attach_close_stdin(second.attach, &err), 0);
    rig_settle(r);
    assert_int_equal(process_rig_sandbox(r)->stdin_closes, 1);
    leave(r, &first);
    leave(r, &second);
    (void)close(inside);
}

static void who_only_reads_may_not_write(void **state)
{
    rig *r = *state;
    reader a;
    bool room;
    box_error err = {0};
    process_rig_start_and_run(r, "p");
    attach(r, &a);
    assert_int_equal(box_attach_feed(a.attach, "a", 1, &room, &err), -1);
    assert_int_equal(err.reason, BOX_VALIDATION);
    assert_int_equal(box_attach_close_stdin(a.attach, &err), -1);
    leave(r, &a);
}

static void a_process_that_reads_nothing_bounds_its_writer(void **state)
{
    rig *r = *state;
    static const uint8_t piece[64 * 1024];
    reader a;
    int inside;
    bool room = true;
    box_error err = {0};
    size_t fed = 0;
    run_with_stdin(r, &inside);
    attach_writer(r, &a, false);
    while (room && fed < 64 * 1024 * 1024) {
        assert_int_equal(box_attach_feed(a.attach, piece, sizeof piece, &room, &err), 0);
        fed += sizeof piece;
    }
    assert_false(room); /* long before memory is */
    leave(r, &a);       /* and that is nobody's problem */
    process_rig_end(r, process_rig_newest(r), (box_agent_run_exit){.exit_code = 0});
    (void)close(inside);
}

static void the_last_who_leaves_stops_one_that_wants_it(void **state)
{
    rig *r = *state;
    reader a, b;
    process_call c;
    box_process_request request = process_rig_request("p");
    request.stop_on_detach = true;
    process_rig_start_as(r, &c, &request);
    process_rig_run(r);
    process_rig_drop(r, &c);
    attach(r, &a);
    attach(r, &b);
    leave(r, &a);
    assert_int_equal(process_rig_sandbox(r)->process_stops, 0);
    leave(r, &b);
    assert_int_equal(process_rig_sandbox(r)->process_stops, 1);
}

/* --- agents ----------------------------------------------------------------------------------- */

static void the_agent_dies_under_all_who_are_attached(void **state)
{
    rig *r = *state;
    reader reads, writes, waits = {0};
    int inside;
    run_with_stdin(r, &inside);
    write_text(r, "before");
    attach(r, &reads);
    attach_writer(r, &writes, false);
    fake_sandbox_die(&r->warden, process_rig_sandbox(r), true);
    rig_wait(r, BOX_SECOND);
    assert_string_equal(reads.out, "before"); /* what there was is told first */
    assert_int_equal(reads.status, BOX_VERDICT_SANDBOX_LOST);
    assert_int_equal(writes.status, BOX_VERDICT_SANDBOX_LOST);
    attach_as(r, &waits, (box_attach_request){.wait_ns = BOX_SECOND});
    rig_wait(r, 2 * BOX_SECOND);
    assert_int_equal(waits.done, 1);
    assert_int_not_equal(waits.error.reason, BOX_NONE);
    leave(r, &reads);
    leave(r, &writes);
    leave(r, &waits);
    (void)close(inside);
}

static void a_journal_that_makes_no_sense_ends_its_readers_only(void **state)
{
    rig *r = *state;
    reader a;
    process_call c;
    process_rig_start_and_run(r, "p");
    attach(r, &a);
    const box_journal_header bad = {.claim = 5, .claim_not = ~UINT64_C(5), .end = 9, .end_not = 0};
    const fake_process *p = process_rig_newest(r);
    assert_int_equal(pwrite(p->journals[0], &bad, sizeof bad, 0), sizeof bad);
    const box_agent_ends ends = {{9, 0}};
    box_error err;
    assert_int_equal(box_agent_send(process_rig_sandbox(r)->fd, BOX_AGENT_GREW, p->id, &ends, &err),
                     0);
    rig_wait(r, BOX_SECOND);
    assert_int_equal(a.done, 1);
    assert_int_not_equal(a.error.reason, BOX_NONE);
    leave(r, &a);
    process_rig_get(r, &c, "p");
    process_rig_runs(&c);
}

static void callers_may_go_away_at_any_point(void **state)
{
    rig *r = *state;
    reader a = {0};
    static const box_attach_events none = {.attached = on_attached,
                                           .output = on_output,
                                           .dropped = on_dropped,
                                           .restarted = on_restarted,
                                           .writer_lost = on_writer_lost,
                                           .writable = on_writable,
                                           .stdin_room = on_room,
                                           .done = on_done};
    const box_attach_request request = {
        .tenant = "t", .session_id = "s", .process_id = "p", .has_offset = {true, true}};
    process_rig_start_and_run(r, "p");
    write_text(r, "abc");
    a.attach = box_attach_new(r->all, &request, &none, &a);
    leave(r, &a); /* before it arrived */
    assert_int_equal(a.attached + a.done, 0);
    a.attach = box_attach_new(r->all, &request, &none, &a);
    for (int turn = 0; turn < 3 && a.attached == 0; turn++)
        (void)fake_loops_turn(r->loops);
    leave(r, &a); /* on its way, or just there */
    write_text(r, "def");
    assert_int_equal(a.done, 0);
    box_attach_request waiting = request;
    waiting.process_id = "q";
    waiting.wait_ns = BOX_SECOND;
    a.attach = box_attach_new(r->all, &waiting, &none, &a);
    rig_settle(r);
    leave(r, &a);
    rig_wait(r, 2 * BOX_SECOND);
    assert_int_equal(a.done, 0);
}

#define RIG(test) cmocka_unit_test_setup_teardown(test, process_rig_set_up, rig_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG(readers_get_what_was_and_what_comes),
        RIG(a_reader_that_takes_nothing_holds_nobody_up),
        RIG(an_offset_beyond_the_end_is_refused),
        RIG(there_are_only_so_many_readers),
        RIG(one_may_wait_for_a_process_that_is_not_there),
        RIG(one_writes_at_a_time),
        RIG(who_only_reads_may_not_write),
        RIG(a_process_that_reads_nothing_bounds_its_writer),
        RIG(the_last_who_leaves_stops_one_that_wants_it),
        RIG(the_agent_dies_under_all_who_are_attached),
        RIG(a_journal_that_makes_no_sense_ends_its_readers_only),
        RIG(callers_may_go_away_at_any_point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
