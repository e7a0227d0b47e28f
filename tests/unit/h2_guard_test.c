/* What a client may cost our server before its connection ends (grpc-conformance.md, sections 11
 * and 12; the numbers are its rows). */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/limits.h"
#include "h2_raw.h"

enum { END = NGHTTP2_FLAG_END_STREAM, ACK = NGHTTP2_FLAG_ACK };

typedef struct fixture {
    h2_raw raw;
    h2_peer *server;
} fixture;

static fixture fixture_new(const box_h2_config *config)
{
    fixture f = {0};
    raw_init(&f.raw, true);
    f.server = h2_peer_new(true, config);
    box_h2_set_time(f.server->h, BOX_SECOND);
    return f;
}

static void fixture_done(fixture *f)
{
    raw_done(&f->raw);
    h2_peer_free(f->server);
}

static void assert_alive(fixture *f)
{
    assert_int_equal(raw_exchange(&f->raw, f->server, WHOLE), 0);
    assert_int_equal(f->raw.n_goaway, 0);
}

static void assert_told(fixture *f, const char *text)
{
    assert_int_equal(raw_exchange(&f->raw, f->server, WHOLE), -1);
    assert_int_equal(f->raw.n_goaway, 1);
    assert_int_equal(f->raw.goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
    assert_string_equal(f->raw.goaway_text, text);
}

/* 117: at most so many at once, then more as time passes. */
static void a_gateway_may_cancel_many_calls_but_not_for_ever(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
    const uint8_t cancel[4] = {0, 0, 0, NGHTTP2_CANCEL};
    raw_request(&f.raw, 1, "/a/b");
    for (int i = 0; i < BOX_STREAM_RESET_BURST; i++)
        raw_frame(&f.raw, NGHTTP2_RST_STREAM, 0, 1, cancel, sizeof cancel);
    assert_alive(&f);
    box_h2_set_time(f.server->h, 2 * BOX_SECOND);
    for (int i = 0; i < BOX_STREAM_RESET_RATE; i++)
        raw_frame(&f.raw, NGHTTP2_RST_STREAM, 0, 1, cancel, sizeof cancel);
    assert_alive(&f);
    raw_frame(&f.raw, NGHTTP2_RST_STREAM, 0, 1, cancel, sizeof cancel);
    assert_told(&f, "too_many_resets");
}

/* 118: a request without a path makes us reset its stream. */
static void resets_provoked_from_us_count_as_well(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
    const raw_field malformed[] = {{":method", "POST"}, {0}};
    uint32_t id = 1;
    for (int i = 0; i < BOX_STREAM_RESET_BURST; i++, id += 2)
        raw_headers(&f.raw, id, END, malformed);
    assert_alive(&f);
    assert_int_equal(raw_get(&f.raw, 1)->rst, NGHTTP2_PROTOCOL_ERROR);
    raw_headers(&f.raw, id, END, malformed);
    assert_told(&f, "too_many_resets");
}

/* 119: no header block has more frames than that. */
static void a_header_block_without_end_is_cut_off(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
    raw_frame(&f.raw, NGHTTP2_HEADERS, 0, 1, "\x83", 1);
    for (int i = 0; i < 100; i++)
        raw_frame(&f.raw, NGHTTP2_CONTINUATION, 0, 1, "", 0);
    assert_int_equal(raw_exchange(&f.raw, f.server, WHOLE), -1);
    assert_int_equal(f.raw.n_goaway, 1);
}

/* 120: "\xbe" is the newest entry of HPACK's table. */
static void a_header_bomb_ends_the_connection(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
    static char value[2901]; /* of a size that the table takes */
    static uint8_t bomb[15000];
    memset(value, 'z', sizeof value - 1);
    memset(bomb, 0xbe, sizeof bomb);
    const raw_field fields[] = {{":method", "POST"}, {"bomb", value}, {0}};
    raw_headers(&f.raw, 1, END, fields);
    assert_alive(&f);
    raw_frame(&f.raw, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 3, bomb, sizeof bomb);
    assert_told(&f, "headers_too_large");
}

/* 36: too much metadata is one call's error, again and again is not. */
static void metadata_that_is_too_large_costs_more_than_a_reset(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
    static char value[60 * 1024 + 1];
    memset(value, 'm', sizeof value - 1);
    const raw_field fields[] = {{":method", "POST"},
                                {":scheme", "http"},
                                {":path", "/a/b"},
                                {":authority", "box.test"},
                                {"content-type", "application/grpc"},
                                {"large", value},
                                {0}};
    enum { PASSES = 3 /* 16, 32 and 48 KiB */ };
    uint32_t id = 1;
    for (int i = 0; i < BOX_STREAM_RESET_BURST / (PASSES * BOX_LARGE_HEADER_WEIGHT); i++, id += 2)
        raw_headers(&f.raw, id, END, fields);
    assert_alive(&f);
    assert_true(raw_has(&f.raw, 1, "grpc-status: 8"));
    raw_headers(&f.raw, id, END, fields);
    assert_told(&f, "too_many_resets");
}

/* 121, 122, 124 */
static void frames_that_carry_nothing_are_counted(void **state)
{
    (void)state;
    const struct {
        uint8_t type;
        const char *payload;
        size_t len;
        uint32_t id;
    } rows[] = {
        {NGHTTP2_SETTINGS, "\0\4\0\1\0\0", 6, 0},
        {NGHTTP2_PRIORITY, "\0\0\0\0\1", 5, 3},
        {NGHTTP2_WINDOW_UPDATE, "\0\0\0\1", 4, 0},
        {NGHTTP2_DATA, "", 0, 1},
        {NGHTTP2_DATA, "\0", 1, 1},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
        raw_request(&f.raw, 1, "/a/b");
        assert_alive(&f);
        int n = 1; /* the connection's own SETTINGS */
        for (; n < BOX_IDLE_FRAME_BURST; n++) {
            raw_frame(&f.raw, rows[i].type, 0, rows[i].id, rows[i].payload, rows[i].len);
            if (n % 500 == 0) /* who reads its answers may ask for more */
                assert_alive(&f);
        }
        assert_alive(&f);
        raw_frame(&f.raw, rows[i].type, 0, rows[i].id, rows[i].payload, rows[i].len);
        assert_told(&f, "too_many_idle_frames");
    }
}

/* A reader of small messages opens the window as fast as they come. */
static void window_updates_for_what_we_sent_are_fine(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
    raw_request(&f.raw, 1, "/a/b");
    assert_alive(&f);
    for (int i = 0; i < BOX_IDLE_FRAME_BURST; i++) {
        h2_peer_text(&f.server->seen[0], "x");
        raw_frame(&f.raw, NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\0\0\6", 4);
        raw_frame(&f.raw, NGHTTP2_WINDOW_UPDATE, 0, 1, "\0\0\0\6", 4);
        assert_alive(&f);
    }
}

/* 121: nobody reads the answers. */
static void answers_that_nobody_reads_end_the_connection(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
    for (int i = 0; i < 2000; i++)
        raw_frame(&f.raw, NGHTTP2_PING, 0, 0, "12345678", 8);
    assert_int_equal(raw_exchange(&f.raw, f.server, WHOLE), -1);
    assert_int_equal(f.raw.goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
}

static void resets_that_nobody_reads_end_the_connection(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
    const raw_field malformed[] = {{":method", "POST"}, {0}};
    uint32_t id = 1;
    for (int i = 0; i <= BOX_MAX_QUEUED_FRAMES; i++, id += 2)
        raw_headers(&f.raw, id, END, malformed);
    assert_int_equal(raw_exchange(&f.raw, f.server, WHOLE), -1);
    assert_int_equal(f.raw.goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
}

static void ping(fixture *f, box_time at)
{
    box_h2_set_time(f->server->h, at);
    raw_frame(&f->raw, NGHTTP2_PING, 0, 0, "12345678", 8);
}

/* 111 */
static void pings_that_come_too_soon_are_strikes(void **state)
{
    (void)state;
    const box_h2_config config = {.ping_min_interval_ns = 10 * BOX_SECOND};
    BOX_AUTO(fixture_done) fixture f = fixture_new(&config);
    raw_request(&f.raw, 1, "/a/b");
    assert_alive(&f);
    for (unsigned i = 0; i < 1 + BOX_PING_STRIKES; i++) {
        ping(&f, (2 + i) * BOX_SECOND);
        assert_alive(&f);
    }
    assert_int_equal(f.raw.n_ping_acks, 1 + BOX_PING_STRIKES);
    ping(&f, 7 * BOX_SECOND);
    assert_told(&f, "too_many_pings");
}

static void pings_at_a_permitted_rate_are_fine(void **state)
{
    (void)state;
    const box_h2_config config = {.ping_min_interval_ns = 10 * BOX_SECOND};
    BOX_AUTO(fixture_done) fixture f = fixture_new(&config);
    raw_request(&f.raw, 1, "/a/b");
    assert_alive(&f);
    for (unsigned i = 1; i < 50; i++) {
        ping(&f, i * 10 * BOX_SECOND);
        assert_alive(&f);
    }
}

static void what_we_send_forgives_pings(void **state)
{
    (void)state;
    const box_h2_config config = {.ping_min_interval_ns = 10 * BOX_SECOND};
    BOX_AUTO(fixture_done) fixture f = fixture_new(&config);
    raw_request(&f.raw, 1, "/a/b");
    assert_alive(&f);
    for (unsigned i = 0; i < 50; i++) {
        ping(&f, (10 + i) * BOX_SECOND);
        h2_peer_text(&f.server->seen[0], "news");
        assert_alive(&f);
    }
}

static void who_resets_much_is_costly_for_a_while(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
    raw_request(&f.raw, 1, "/a/b");
    for (int i = 0; i <= BOX_COSTLY; i++)
        raw_frame(&f.raw, NGHTTP2_RST_STREAM, 0, 1, "\0\0\0\x08", 4);
    assert_false(box_h2_is_costly(f.server->h));
    assert_alive(&f);
    assert_true(box_h2_is_costly(f.server->h));
    box_h2_set_time(f.server->h, 2 * BOX_SECOND);
    assert_false(box_h2_is_costly(f.server->h));
}

static void without_a_call_pings_are_rarer_unless_permitted(void **state)
{
    (void)state;
    for (int permitted = 0; permitted < 2; permitted++) {
        const box_h2_config config = {.ping_min_interval_ns = 10 * BOX_SECOND,
                                      .permit_ping_without_calls = permitted};
        BOX_AUTO(fixture_done) fixture f = fixture_new(&config);
        for (unsigned i = 0; i < 1 + BOX_PING_STRIKES; i++) {
            ping(&f, (1 + i) * 1000 * BOX_SECOND);
            assert_alive(&f);
        }
        ping(&f, 5000 * BOX_SECOND);
        if (permitted)
            assert_alive(&f);
        else
            assert_told(&f, "too_many_pings");
    }
}

/* 110: the acknowledgement of our own PING is no PING. */
static void answers_to_our_pings_are_never_counted(void **state)
{
    (void)state;
    const box_h2_config config = {.ping_min_interval_ns = 10 * BOX_SECOND};
    BOX_AUTO(fixture_done) fixture f = fixture_new(&config);
    for (int i = 0; i < 20; i++) {
        box_h2_ping(f.server->h);
        assert_alive(&f);
        raw_frame(&f.raw, NGHTTP2_PING, ACK, 0, "boxalive", 8);
        assert_alive(&f);
    }
}

/* 125 */
static void a_header_block_has_a_beginning_and_an_end(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
    assert_int_equal(box_h2_header_since(f.server->h), 0);
    raw_frame(&f.raw, NGHTTP2_HEADERS, 0, 1, "\x83", 1);
    assert_alive(&f);
    assert_int_equal(box_h2_header_since(f.server->h), BOX_SECOND);
    raw_frame(&f.raw, NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 1, "\x86", 1);
    assert_alive(&f); /* malformed, and over */
    assert_int_equal(box_h2_header_since(f.server->h), 0);
}

/* 108 */
static void the_second_goaway_says_why(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
    assert_alive(&f);
    box_h2_drain(f.server->h, "max_age");
    (void)raw_exchange(&f.raw, f.server, WHOLE);
    assert_int_equal(f.raw.n_goaway, 1);
    assert_string_equal(f.raw.goaway_text, "");
    raw_frame(&f.raw, NGHTTP2_PING, ACK, 0, "boxdrain", 8);
    (void)raw_exchange(&f.raw, f.server, WHOLE);
    assert_int_equal(f.raw.n_goaway, 2);
    assert_string_equal(f.raw.goaway_text, "max_age");
    assert_int_equal(f.raw.goaway_code, NGHTTP2_NO_ERROR);
    assert_true(box_h2_is_done(f.server->h));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gateway_may_cancel_many_calls_but_not_for_ever),
        cmocka_unit_test(resets_provoked_from_us_count_as_well),
        cmocka_unit_test(a_header_block_without_end_is_cut_off),
        cmocka_unit_test(a_header_bomb_ends_the_connection),
        cmocka_unit_test(metadata_that_is_too_large_costs_more_than_a_reset),
        cmocka_unit_test(frames_that_carry_nothing_are_counted),
        cmocka_unit_test(window_updates_for_what_we_sent_are_fine),
        cmocka_unit_test(answers_that_nobody_reads_end_the_connection),
        cmocka_unit_test(resets_that_nobody_reads_end_the_connection),
        cmocka_unit_test(pings_that_come_too_soon_are_strikes),
        cmocka_unit_test(pings_at_a_permitted_rate_are_fine),
        cmocka_unit_test(what_we_send_forgives_pings),
        cmocka_unit_test(who_resets_much_is_costly_for_a_while),
        cmocka_unit_test(without_a_call_pings_are_rarer_unless_permitted),
        cmocka_unit_test(answers_to_our_pings_are_never_counted),
        cmocka_unit_test(a_header_block_has_a_beginning_and_an_end),
        cmocka_unit_test(the_second_goaway_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
