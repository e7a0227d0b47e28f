/* Flow control and back-pressure between our client and our server. */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "h2_peer.h"

typedef struct pair {
    h2_peer *client;
    h2_peer *server;
} pair;

static pair pair_new(uint32_t stream_window)
{
    box_h2_config config = {.stream_window_bytes = stream_window, .connection_window_bytes = 65535};
    if (stream_window == 0)
        config.connection_window_bytes = 0;
    return (pair){h2_peer_new(false, &config), h2_peer_new(true, &config)};
}

static void pair_done(pair *p)
{
    h2_peer_free(p->client);
    h2_peer_free(p->server);
}

static void echo(seen *call, const uint8_t *data, size_t len)
{
    box_h2_message(call->s, data, len);
}

static void end_ok(seen *call)
{
    box_h2_finish(call->s, NULL, NULL);
}

static uint8_t *pattern(size_t len)
{
    uint8_t *data = box_alloc(len);
    for (size_t i = 0; i < len; i++)
        data[i] = (uint8_t)(i * 7 + i / 1000);
    return data;
}

static void messages_larger_than_any_window_pass_both_ways(void **state)
{
    (void)state;
    enum { SIZE = 5 * 1024 * 1024 };
    const uint32_t windows[] = {1000, 16384, 65535, 0};
    BOX_AUTO(box_freep) uint8_t *data = pattern(SIZE);
    for (size_t i = 0; i < BOX_COUNT(windows); i++) {
        BOX_AUTO(pair_done) pair p = pair_new(windows[i]);
        p.server->on_message = echo;
        p.server->on_half_close = end_ok;
        seen *call = h2_peer_call(p.client, "/box.Test/Echo", NULL, 0);
        box_h2_message(call->s, data, SIZE);
        box_h2_half_close(call->s);
        h2_run(p.client, p.server, 5000);
        assert_ok(call);
        assert_int_equal(call->n_messages, 1);
        assert_int_equal(call->last_len, SIZE);
        assert_memory_equal(box_buf_data(&call->bytes), data, SIZE);
    }
}

static void a_window_of_one_byte_works(void **state)
{
    (void)state;
    BOX_AUTO(pair_done) pair p = pair_new(1);
    p.server->on_message = echo;
    p.server->on_half_close = end_ok;
    seen *call = h2_peer_call(p.client, "/box.Test/Echo", NULL, 0);
    h2_peer_text(call, "byte by byte");
    box_h2_half_close(call->s);
    h2_run(p.client, p.server, WHOLE);
    assert_ok(call);
    assert_bytes(call, "byte by byte");
}

/* --- outwards --------------------------------------------------------------------------------- */

/* Writes as much as it may, like a pipe reader that obeys. */
static void pour(seen *call)
{
    static const uint8_t piece[10000];
    while (box_h2_is_writable(call->s))
        box_h2_message(call->s, piece, sizeof piece);
}

static void a_writer_waits_for_a_reader_that_stops(void **state)
{
    (void)state;
    BOX_AUTO(pair_done) pair p = pair_new(0);
    p.server->on_half_close = pour;
    p.server->on_writable = pour;
    seen *call = h2_peer_call(p.client, "/box.Test/Watch", NULL, 0);
    box_h2_half_close(call->s);
    box_h2_pause(call->s, true);
    h2_run(p.client, p.server, WHOLE);
    seen *served = &p.server->seen[0];
    assert_int_equal(call->n_messages, 0);
    size_t unsent = box_h2_unsent_bytes(served->s);
    assert_true(unsent >= BOX_STREAM_LOW_WATER_BYTES);
    assert_true(unsent <= BOX_STREAM_HIGH_WATER_BYTES + 10005);
    unsigned woken = served->n_writable;
    h2_run(p.client, p.server, WHOLE); /* nothing moves */
    assert_int_equal(served->n_writable, woken);
    box_h2_pause(call->s, false);
    for (int i = 0; i < 200; i++) {
        (void)h2_move(p.client, p.server, WHOLE, 16384);
        (void)h2_move(p.server, p.client, WHOLE, 16384);
    }
    assert_true(served->n_writable > woken);
    assert_true(call->n_messages > 100);
    box_h2_cancel(call->s, &(box_error){.reason = BOX_CANCELLED});
    h2_run(p.client, p.server, WHOLE);
    assert_int_equal(served->why.reason, BOX_CANCELLED);
}

static void an_upload_waits_too(void **state)
{
    (void)state;
    BOX_AUTO(pair_done) pair p = pair_new(0);
    p.client->on_writable = pour;
    seen *call = h2_peer_call(p.client, "/box.Test/Upload", NULL, 0);
    h2_run(p.client, p.server, WHOLE);
    seen *served = &p.server->seen[0];
    box_h2_pause(served->s, true);
    pour(call);
    h2_run(p.client, p.server, WHOLE);
    assert_int_equal(served->n_messages, 0);
    assert_true(box_h2_unsent_bytes(call->s) >= BOX_STREAM_LOW_WATER_BYTES);
    assert_true(box_h2_unsent_bytes(call->s) <= BOX_STREAM_HIGH_WATER_BYTES + 10005);
}

static void a_writer_that_ignores_the_marks_loses_the_call(void **state)
{
    (void)state;
    enum { PIECE = 8 * 1024 * 1024 };
    BOX_AUTO(box_freep) uint8_t *data = box_alloc(PIECE);
    BOX_AUTO(pair_done) pair p = pair_new(0);
    seen *call = h2_peer_call(p.client, "/box.Test/Watch", NULL, 0);
    h2_run(p.client, p.server, WHOLE);
    seen *served = &p.server->seen[0];
    for (int i = 0; i < 20; i++)
        box_h2_message(served->s, data, PIECE);
    assert_int_equal(served->n_closed, 0); /* not inside box_h2_message */
    assert_true(box_h2_unsent_bytes(served->s) <= BOX_STREAM_UNSENT_BYTES);
    h2_run(p.client, p.server, WHOLE);
    assert_int_equal(served->n_closed, 1);
    assert_int_equal(served->why.reason, BOX_MEMORY_BUDGET);
    assert_int_equal(call->n_closed, 1);
    assert_int_equal(call->why.reason, BOX_PROTOCOL);

    call = h2_peer_call(p.client, "/box.Test/Upload", NULL, 0);
    for (int i = 0; i < 20; i++)
        box_h2_message(call->s, data, PIECE);
    assert_int_equal(call->n_closed, 0);
    h2_run(p.client, p.server, WHOLE);
    assert_int_equal(call->n_closed, 1);
    assert_int_equal(call->why.reason, BOX_MEMORY_BUDGET);
}

static void one_send_gives_no_more_than_was_asked_for(void **state)
{
    (void)state;
    enum { SIZE = 900 * 1024, FRAME = 16384 + 9 };
    BOX_AUTO(box_freep) uint8_t *data = pattern(SIZE);
    BOX_AUTO(pair_done) pair p = pair_new(0);
    seen *call = h2_peer_call(p.client, "/box.Test/Upload", NULL, 0);
    h2_run(p.client, p.server, WHOLE);
    box_h2_message(call->s, data, SIZE);
    size_t moved;
    size_t total = 0;
    while ((moved = h2_move(p.client, p.server, WHOLE, 1000)) > 0) {
        assert_true(moved <= 1000 + FRAME);
        total += moved;
    }
    assert_true(total > SIZE);
    assert_memory_equal(box_buf_data(&p.server->seen[0].bytes), data, SIZE);
}

static void a_small_answer_overtakes_a_large_one(void **state)
{
    (void)state;
    enum { SIZE = 900 * 1024 };
    BOX_AUTO(box_freep) uint8_t *data = box_alloc(SIZE);
    BOX_AUTO(pair_done) pair p = pair_new(0);
    seen *large = h2_peer_call(p.client, "/box.Test/Large", NULL, 0);
    seen *small = h2_peer_call(p.client, "/box.Test/Small", NULL, 0);
    h2_run(p.client, p.server, WHOLE);
    box_h2_message(p.server->seen[0].s, data, SIZE);
    box_h2_finish(p.server->seen[0].s, NULL, NULL);
    h2_peer_text(&p.server->seen[1], "small");
    box_h2_finish(p.server->seen[1].s, NULL, NULL);
    (void)h2_move(p.server, p.client, WHOLE, 100 * 1024);
    assert_ok(small);
    assert_bytes(small, "small");
    assert_int_equal(large->n_closed, 0);
    h2_run(p.client, p.server, WHOLE);
    assert_ok(large);
}

/* --- inwards ---------------------------------------------------------------------------------- */

static void one_unread_stream_does_not_stop_the_rest(void **state)
{
    (void)state;
    BOX_AUTO(box_freep) uint8_t *data = box_alloc(WHOLE);
    BOX_AUTO(pair_done) pair p = pair_new(0);
    p.server->on_half_close = end_ok;
    for (int i = 0; i < 6; i++) { /* 6 MiB on streams that nobody reads: above 4 MiB */
        seen *blocked = h2_peer_call(p.client, "/box.Test/Chat", NULL, 0);
        h2_run(p.client, p.server, WHOLE);
        box_h2_pause(p.server->seen[i].s, true);
        box_h2_message(blocked->s, data, WHOLE);
        box_h2_message(blocked->s, data, WHOLE);
        h2_run(p.client, p.server, WHOLE);
        assert_true(box_h2_unsent_bytes(blocked->s) > 0);
    }
    for (int i = 0; i < 100; i++) {
        seen *call = h2_peer_call(p.client, "/box.Test/Unary", NULL, 0);
        box_h2_message(call->s, data, 100 * 1024);
        box_h2_half_close(call->s);
        h2_run(p.client, p.server, WHOLE);
        assert_ok(call);
    }
}

static void pause_after_one(seen *call, const uint8_t *data, size_t len)
{
    (void)data, (void)len;
    box_h2_pause(call->s, true);
}

static void a_paused_stream_holds_messages_and_the_end_in_order(void **state)
{
    (void)state;
    BOX_AUTO(pair_done) pair p = pair_new(0);
    p.server->on_message = pause_after_one;
    p.server->on_half_close = end_ok;
    seen *call = h2_peer_call(p.client, "/box.Test/Upload", NULL, 0);
    h2_peer_text(call, "a");
    h2_peer_text(call, "b");
    h2_peer_text(call, "c");
    box_h2_half_close(call->s);
    h2_run(p.client, p.server, 4);
    seen *served = &p.server->seen[0];
    assert_bytes(served, "a");
    box_h2_pause(served->s, false);
    assert_bytes(served, "a"); /* not inside box_h2_pause */
    h2_run(p.client, p.server, 4);
    assert_bytes(served, "ab");
    box_h2_pause(served->s, false);
    h2_run(p.client, p.server, 4);
    assert_bytes(served, "abc");
    assert_int_equal(served->n_half_close, 0);
    box_h2_pause(served->s, false);
    h2_run(p.client, p.server, 4);
    assert_int_equal(served->n_half_close, 1);
    assert_ok(call);
}

static void pause_and_resume(seen *call, const uint8_t *data, size_t len)
{
    (void)data, (void)len;
    box_h2_pause(call->s, true);
    box_h2_pause(call->s, false);
}

static void resuming_at_once_loses_nothing(void **state)
{
    (void)state;
    BOX_AUTO(pair_done) pair p = pair_new(0);
    p.server->on_message = pause_and_resume;
    p.server->on_half_close = end_ok;
    seen *call = h2_peer_call(p.client, "/box.Test/Upload", NULL, 0);
    for (int i = 0; i < 1000; i++)
        h2_peer_text(call, "x");
    box_h2_half_close(call->s);
    h2_run(p.client, p.server, 100);
    assert_int_equal(p.server->seen[0].n_messages, 1000);
    assert_ok(call);
}

static void a_paused_stream_that_is_reset_or_finished_drops_what_it_holds(void **state)
{
    (void)state;
    for (int finish = 0; finish < 2; finish++) {
        BOX_AUTO(pair_done) pair p = pair_new(0);
        seen *call = h2_peer_call(p.client, "/box.Test/Chat", NULL, 0);
        h2_run(p.client, p.server, WHOLE);
        seen *served = &p.server->seen[0];
        box_h2_pause(served->s, true);
        h2_peer_text(call, "held");
        h2_run(p.client, p.server, WHOLE);
        if (finish != 0)
            box_h2_finish(served->s, NULL, NULL);
        else
            box_h2_cancel(call->s, &(box_error){.reason = BOX_CANCELLED});
        h2_run(p.client, p.server, WHOLE);
        assert_int_equal(served->n_messages, 0);
        assert_int_equal(served->n_closed, 1);
        assert_int_equal(served->why.reason, finish != 0 ? BOX_NONE : BOX_CANCELLED);
        assert_int_equal(box_h2_stream_count(p.server->h), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_larger_than_any_window_pass_both_ways),
        cmocka_unit_test(a_window_of_one_byte_works),
        cmocka_unit_test(a_writer_waits_for_a_reader_that_stops),
        cmocka_unit_test(an_upload_waits_too),
        cmocka_unit_test(a_writer_that_ignores_the_marks_loses_the_call),
        cmocka_unit_test(one_send_gives_no_more_than_was_asked_for),
        cmocka_unit_test(a_small_answer_overtakes_a_large_one),
        cmocka_unit_test(one_unread_stream_does_not_stop_the_rest),
        cmocka_unit_test(a_paused_stream_holds_messages_and_the_end_in_order),
        cmocka_unit_test(resuming_at_once_loses_nothing),
        cmocka_unit_test(a_paused_stream_that_is_reset_or_finished_drops_what_it_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
