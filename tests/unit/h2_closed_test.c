/* What comes for a stream that is over (h2_closed.c). */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_on_a_stream_that_ended_ends_the_connection),
        cmocka_unit_test(a_frame_after_the_clients_reset_is_answered_with_one),
        cmocka_unit_test(what_comes_after_our_reset_is_ignored),
        cmocka_unit_test(a_number_that_was_left_out_cannot_be_used_later),
        cmocka_unit_test(a_priority_of_stream_0_ends_the_connection),
        cmocka_unit_test(many_streams_later_the_connection_still_works),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
