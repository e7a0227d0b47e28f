/* What nghttp2 would take otherwise (h2_scan.c). */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/limits.h"
#include "h2_raw.h"

enum { END = NGHTTP2_FLAG_END_STREAM };

/* A whole call, to its end. */
static void call(raw_pair *f, uint32_t id, size_t chunk)
{
    raw_request(&f->raw, id, "/a/b");
    RAW_DATA(&f->raw, id, END, "\0\0\0\0\0");
    assert_int_equal(raw_exchange(&f->raw, f->server, chunk), 0);
    assert_true(raw_get(&f->raw, id)->ended);
}

static void expect_end(raw_pair *f, uint32_t code, size_t chunk)
{
    assert_int_equal(raw_exchange(&f->raw, f->server, chunk), -1);
    assert_int_equal(f->raw.n_goaway, 1);
    assert_int_equal(f->raw.goaway_code, code);
}

static const size_t chunks[] = {1, 5, WHOLE};

static void a_frame_on_a_stream_that_ended_ends_the_connection(void **state)
{
    (void)state;
    for (size_t i = 0; i < BOX_COUNT(chunks); i++) {
        for (unsigned headers = 0; headers < 2; headers++) {
            BOX_AUTO(raw_pair_done) raw_pair f = raw_pair_new();
            call(&f, 1, chunks[i]);
            call(&f, 3, chunks[i]);
            if (headers == 1)
                raw_request(&f.raw, 1, "/a/b");
            else
                RAW_DATA(&f.raw, 1, 0, "x");
            expect_end(&f, NGHTTP2_STREAM_CLOSED, chunks[i]);
        }
    }
}

static void a_frame_after_the_clients_reset_is_answered_with_one(void **state)
{
    (void)state;
    const uint8_t cancel[4] = {0, 0, 0, NGHTTP2_CANCEL};
    for (size_t i = 0; i < BOX_COUNT(chunks); i++) {
        BOX_AUTO(raw_pair_done) raw_pair f = raw_pair_new();
        raw_request(&f.raw, 1, "/a/b");
        raw_frame(&f.raw, NGHTTP2_RST_STREAM, 0, 1, cancel, sizeof cancel);
        RAW_DATA(&f.raw, 1, 0, "\0\0\0\0\0");
        assert_int_equal(raw_exchange(&f.raw, f.server, chunks[i]), 0);
        assert_true(raw_get(&f.raw, 1)->was_reset);
        assert_int_equal(raw_get(&f.raw, 1)->rst, NGHTTP2_STREAM_CLOSED);
        call(&f, 3, chunks[i]);
    }
}

static void refuse(seen *call)
{
    box_error err;
    (void)box_fail(&err, BOX_VALIDATION, "no");
    box_h2_finish(call->s, &err, NULL);
}

/* The caller may not have heard of it yet (RFC 9113, 5.1: "closed"). */
static void what_comes_after_our_reset_is_ignored(void **state)
{
    (void)state;
    BOX_AUTO(raw_pair_done) raw_pair f = raw_pair_new();
    f.server->on_request = refuse;
    raw_request(&f.raw, 1, "/a/b");
    assert_int_equal(raw_exchange(&f.raw, f.server, WHOLE), 0);
    assert_true(raw_get(&f.raw, 1)->was_reset);
    RAW_DATA(&f.raw, 1, 0, "\0\0\0\0\1x");
    RAW_DATA(&f.raw, 1, END, "");
    assert_int_equal(raw_exchange(&f.raw, f.server, WHOLE), 0);
    f.server->on_request = NULL;
    call(&f, 3, WHOLE);
}

static void a_number_that_was_left_out_cannot_be_used_later(void **state)
{
    (void)state;
    for (size_t i = 0; i < BOX_COUNT(chunks); i++) {
        BOX_AUTO(raw_pair_done) raw_pair f = raw_pair_new();
        call(&f, 1, chunks[i]);
        call(&f, 7, chunks[i]);
        raw_request(&f.raw, 5, "/a/b");
        expect_end(&f, NGHTTP2_PROTOCOL_ERROR, chunks[i]);
    }
}

static void a_priority_of_stream_0_ends_the_connection(void **state)
{
    (void)state;
    const uint8_t priority[5] = {0, 0, 0, 1, 16};
    BOX_AUTO(raw_pair_done) raw_pair f = raw_pair_new();
    raw_frame(&f.raw, NGHTTP2_PRIORITY, 0, 1, priority, sizeof priority);
    call(&f, 1, 1);
    raw_frame(&f.raw, NGHTTP2_PRIORITY, 0, 0, priority, sizeof priority);
    expect_end(&f, NGHTTP2_PROTOCOL_ERROR, 1);
}

static void many_streams_later_the_connection_still_works(void **state)
{
    (void)state;
    BOX_AUTO(raw_pair_done) raw_pair f = raw_pair_new();
    for (uint32_t id = 1; id < 200; id += 2)
        call(&f, id, WHOLE);
    RAW_DATA(&f.raw, 1, 0, "x"); /* forgotten, so it is ignored */
    assert_int_equal(raw_exchange(&f.raw, f.server, WHOLE), 0);
    call(&f, 201, WHOLE);
}

/* As C-core does when a call is cancelled before its HEADERS were written. */
static void a_reset_of_a_call_that_never_came_is_ignored(void **state)
{
    (void)state;
    const uint8_t cancel[4] = {0, 0, 0, NGHTTP2_CANCEL};
    for (size_t i = 0; i < BOX_COUNT(chunks); i++) {
        BOX_AUTO(raw_pair_done) raw_pair f = raw_pair_new();
        call(&f, 1, chunks[i]);
        raw_frame(&f.raw, NGHTTP2_RST_STREAM, 0, 3, cancel, sizeof cancel);
        raw_frame(&f.raw, NGHTTP2_RST_STREAM, 0, 7, cancel, sizeof cancel);
        call(&f, 5, chunks[i]);
        call(&f, 9, chunks[i]);
        assert_int_equal(f.raw.n_goaway, 0);
    }
}

/* RFC 9113, 5.1 "idle", 6.4: of a stream that is no client's, too far ahead, of the wrong size,
 * within a header block, or before any call. */
static void any_other_reset_of_a_stream_that_never_was_ends_the_connection(void **state)
{
    (void)state;
    const uint8_t cancel[5] = {0, 0, 0, NGHTTP2_CANCEL, 0};
    const struct {
        uint32_t id;
        size_t len;
        uint32_t code;
    } wrong[] = {{2, 4, NGHTTP2_PROTOCOL_ERROR},
                 {1 + 2 * (BOX_MAX_STREAMS_PER_CONNECTION + 1), 4, NGHTTP2_PROTOCOL_ERROR},
                 {3, 5, NGHTTP2_FRAME_SIZE_ERROR}};
    for (size_t i = 0; i < BOX_COUNT(chunks); i++) {
        for (size_t k = 0; k < BOX_COUNT(wrong); k++) {
            BOX_AUTO(raw_pair_done) raw_pair f = raw_pair_new();
            call(&f, 1, chunks[i]);
            raw_frame(&f.raw, NGHTTP2_RST_STREAM, 0, wrong[k].id, cancel, wrong[k].len);
            expect_end(&f, wrong[k].code, chunks[i]);
        }
        BOX_AUTO(raw_pair_done) raw_pair first = raw_pair_new();
        raw_frame(&first.raw, NGHTTP2_RST_STREAM, 0, 1, cancel, 4);
        expect_end(&first, NGHTTP2_PROTOCOL_ERROR, chunks[i]);
        BOX_AUTO(raw_pair_done) raw_pair block = raw_pair_new();
        call(&block, 1, chunks[i]);
        raw_frame(&block.raw, NGHTTP2_HEADERS, 0, 3, (const uint8_t[]){0x82}, 1);
        raw_frame(&block.raw, NGHTTP2_RST_STREAM, 0, 5, cancel, 4);
        expect_end(&block, NGHTTP2_PROTOCOL_ERROR, chunks[i]);
    }
}

/* Else they were free of charge. */
static void such_resets_are_counted_with_the_others(void **state)
{
    (void)state;
    const uint8_t cancel[4] = {0, 0, 0, NGHTTP2_CANCEL};
    BOX_AUTO(raw_pair_done) raw_pair f = raw_pair_new();
    call(&f, 1, WHOLE);
    for (unsigned i = 0; i <= BOX_STREAM_RESET_BURST; i++)
        raw_frame(&f.raw, NGHTTP2_RST_STREAM, 0, 3, cancel, sizeof cancel);
    expect_end(&f, NGHTTP2_ENHANCE_YOUR_CALM, WHOLE);
}

static void a_window_update_of_0_ends_its_stream_only(void **state)
{
    (void)state;
    const uint8_t zero[2][4] = {{0}, {0x80, 0, 0, 0}}; /* the first bit means nothing */
    for (size_t i = 0; i < BOX_COUNT(chunks); i++) {
        for (size_t k = 0; k < BOX_COUNT(zero); k++) {
            BOX_AUTO(raw_pair_done) raw_pair f = raw_pair_new();
            raw_request(&f.raw, 1, "/a/b");
            raw_request(&f.raw, 3, "/a/b");
            raw_frame(&f.raw, NGHTTP2_WINDOW_UPDATE, 0, 1, zero[k], 4);
            RAW_DATA(&f.raw, 3, END, "\0\0\0\0\0");
            assert_int_equal(raw_exchange(&f.raw, f.server, chunks[i]), 0);
            assert_true(raw_get(&f.raw, 1)->was_reset);
            assert_int_equal(raw_get(&f.raw, 1)->rst, NGHTTP2_PROTOCOL_ERROR);
            assert_true(raw_get(&f.raw, 3)->ended);
            call(&f, 5, chunks[i]);
        }
    }
}

static void a_window_update_of_0_elsewhere_ends_the_connection(void **state)
{
    (void)state;
    const uint8_t zero[4] = {0};
    const uint32_t ids[] = {0, 3}; /* of the connection; of a stream that never was */
    for (size_t i = 0; i < BOX_COUNT(chunks); i++) {
        for (size_t k = 0; k < BOX_COUNT(ids); k++) {
            BOX_AUTO(raw_pair_done) raw_pair f = raw_pair_new();
            call(&f, 1, chunks[i]);
            raw_frame(&f.raw, NGHTTP2_WINDOW_UPDATE, 0, ids[k], zero, sizeof zero);
            expect_end(&f, NGHTTP2_PROTOCOL_ERROR, chunks[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_on_a_stream_that_ended_ends_the_connection),
        cmocka_unit_test(a_frame_after_the_clients_reset_is_answered_with_one),
        cmocka_unit_test(what_comes_after_our_reset_is_ignored),
        cmocka_unit_test(a_number_that_was_left_out_cannot_be_used_later),
        cmocka_unit_test(a_priority_of_stream_0_ends_the_connection),
        cmocka_unit_test(a_reset_of_a_call_that_never_came_is_ignored),
        cmocka_unit_test(any_other_reset_of_a_stream_that_never_was_ends_the_connection),
        cmocka_unit_test(such_resets_are_counted_with_the_others),
        cmocka_unit_test(a_window_update_of_0_ends_its_stream_only),
        cmocka_unit_test(a_window_update_of_0_elsewhere_ends_the_connection),
        cmocka_unit_test(many_streams_later_the_connection_still_works),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
