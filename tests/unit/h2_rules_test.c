/* Which requests are malformed (h2_rules.c). */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "h2_raw.h"
#include "wire/h2_internal.h"

enum { END = NGHTTP2_FLAG_END_STREAM, MAX_FIELDS = 12 };

static void expect_alive(raw_pair *f, uint32_t id)
{
    raw_request(&f->raw, id, "/a/b");
    RAW_DATA(&f->raw, id, END, "\0\0\0\0\0");
    assert_int_equal(raw_exchange(&f->raw, f->server, WHOLE), 0);
    assert_true(raw_has(&f->raw, id, "grpc-status: 0"));
}

static bool is_good(const raw_field *fields)
{
    h2_rules r;
    box_h2_rules_begin(&r, true);
    for (const raw_field *at = fields; at->name != NULL; at++) {
        nghttp2_vec name = {(uint8_t *)(uintptr_t)at->name, strlen(at->name)};
        nghttp2_vec value = {(uint8_t *)(uintptr_t)at->value, strlen(at->value)};
        if (!box_h2_rules_field(&r, name, value))
            return false;
    }
    return box_h2_rules_end(&r, false);
}

#define LINE                                                                                       \
    {":method", "POST"}, {":scheme", "https"},                                                     \
    {                                                                                              \
        ":path", "/a/b"                                                                            \
    }

static void good_requests_pass(void **state)
{
    (void)state;
    static const raw_field rows[][MAX_FIELDS] = {
        {LINE}, /* neither :authority nor host */
        {LINE, {":authority", "a.example:5410"}},
        {LINE, {"host", "a.example"}},
        {LINE, {":authority", "[::1]:5410"}, {"host", "b"}},
        {{":path", "*"}, {":method", "OPTIONS"}, {":scheme", "http"}},
        {LINE, {"te", "trailers"}, {"te", "Trailers"}},
        {LINE, {"x", "1"}, {"x", "2"}, {"cookie", "a"}, {"cookie", "b"}},
        {LINE, {"content-length", "0"}},
        {LINE, {"content-length", "123456789012345678"}},
        {LINE, {"x", " spaces "}, {"y", ""}, {"z", "\t\xff"}},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        if (!is_good(rows[i]))
            fail_msg("row %zu", i);
    }
}

static void malformed_requests_do_not(void **state)
{
    (void)state;
    static const raw_field rows[][MAX_FIELDS] = {
        {{":scheme", "https"}, {":path", "/a/b"}},
        {{":method", "POST"}, {":path", "/a/b"}},
        {{":method", "POST"}, {":scheme", "https"}},
        {{":method", ""}, {":scheme", "https"}, {":path", "/a/b"}},
        {{":method", "PO ST"}, {":scheme", "https"}, {":path", "/a/b"}},
        {{":method", "POST"}, {":scheme", ""}, {":path", "/a/b"}},
        {{":method", "POST"}, {":scheme", "1a"}, {":path", "/a/b"}},
        {{":method", "POST"}, {":scheme", "https"}, {":path", ""}},
        {{":method", "POST"}, {":scheme", "https"}, {":path", "/a b"}},
        {{":method", "CONNECT"}, {":authority", "a:1"}},
        {LINE, {":path", "/a/b"}},
        {LINE, {":status", "200"}},
        {LINE, {":protocol", "websocket"}},
        {LINE, {":unknown", "x"}},
        {LINE, {"x", "1"}, {":authority", "a"}},
        {LINE, {":authority", "a"}, {":authority", "a"}},
        {LINE, {":authority", "a b"}},
        {LINE, {"host", "a"}, {"host", "a"}},
        {LINE, {"host", "a/b c"}},
        {LINE, {"X-Upper", "1"}},
        {LINE, {"x y", "1"}},
        {LINE, {"", "1"}},
        {LINE, {":", "1"}},
        {LINE, {"x", "a\rb"}},
        {LINE, {"x", "a\nb"}},
        {LINE, {"x", "\x7f"}},
        {LINE, {"connection", "close"}},
        {LINE, {"keep-alive", "1"}},
        {LINE, {"proxy-connection", "close"}},
        {LINE, {"transfer-encoding", "chunked"}},
        {LINE, {"upgrade", "h2c"}},
        {LINE, {"te", "gzip"}},
        {LINE, {"te", "trailers, gzip"}},
        {LINE, {"te", ""}},
        {LINE, {"content-length", ""}},
        {LINE, {"content-length", "-1"}},
        {LINE, {"content-length", "1x"}},
        {LINE, {"content-length", "1234567890123456789"}},
        {LINE, {"content-length", "1"}, {"content-length", "1"}},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        if (is_good(rows[i]))
            fail_msg("row %zu", i);
    }
}

static void headers_of(raw_pair *f, uint32_t id, uint8_t flags, const char *length)
{
    const raw_field fields[] = {LINE,
                                {"te", "trailers"},
                                {"content-type", "application/grpc"},
                                {"content-length", length},
                                {0}};
    raw_headers(&f->raw, id, flags, fields);
}

static void a_body_of_another_length_is_reset(void **state)
{
    (void)state;
    static const struct {
        const char *length;
        unsigned frames; /* of six bytes */
        bool good;
    } rows[] = {{"0", 0, true},  {"6", 1, true},  {"12", 2, true}, {"0", 1, false},
                {"5", 1, false}, {"7", 1, false}, {"6", 2, false}, {"18", 2, false}};
    const size_t chunks[] = {1, WHOLE};
    for (size_t c = 0; c < BOX_COUNT(chunks); c++) {
        for (size_t i = 0; i < BOX_COUNT(rows); i++) {
            BOX_AUTO(raw_pair_done) raw_pair f = raw_pair_new();
            headers_of(&f, 1, 0, rows[i].length);
            for (unsigned n = 0; n < rows[i].frames; n++)
                RAW_DATA(&f.raw, 1, 0, "\0\0\0\0\1x");
            RAW_DATA(&f.raw, 1, END, "");
            assert_int_equal(raw_exchange(&f.raw, f.server, chunks[c]), 0);
            const raw_stream *s = raw_get(&f.raw, 1);
            assert_int_equal(s->was_reset, !rows[i].good);
            if (!rows[i].good)
                assert_int_equal(s->rst, NGHTTP2_PROTOCOL_ERROR);
            assert_int_equal(f.server->seen[0].n_half_close, rows[i].good);
            expect_alive(&f, 3);
        }
    }
}

static void a_body_that_never_begins_is_reset(void **state)
{
    (void)state;
    BOX_AUTO(raw_pair_done) raw_pair f = raw_pair_new();
    headers_of(&f, 1, END, "5");
    assert_int_equal(raw_exchange(&f.raw, f.server, WHOLE), 0);
    assert_int_equal(raw_get(&f.raw, 1)->rst, NGHTTP2_PROTOCOL_ERROR);
    assert_int_equal(f.server->n_seen, 0);
    expect_alive(&f, 3);
}

static void trailers_end_the_request_and_have_no_pseudo_headers(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint8_t flags;
        bool good;
    } rows[] = {{"x", END, true}, {"x", 0, false}, {":path", END, false}, {"te", END, false}};
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        BOX_AUTO(raw_pair_done) raw_pair f = raw_pair_new();
        raw_request(&f.raw, 1, "/a/b");
        RAW_DATA(&f.raw, 1, 0, "\0\0\0\0\1x");
        raw_headers(&f.raw, 1, rows[i].flags, (const raw_field[]){{rows[i].name, "1"}, {0}});
        assert_int_equal(raw_exchange(&f.raw, f.server, WHOLE), 0);
        assert_int_equal(raw_get(&f.raw, 1)->was_reset, !rows[i].good);
        assert_int_equal(f.server->seen[0].n_half_close, rows[i].good);
        expect_alive(&f, 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_requests_pass),
        cmocka_unit_test(malformed_requests_do_not),
        cmocka_unit_test(a_body_of_another_length_is_reset),
        cmocka_unit_test(a_body_that_never_begins_is_reset),
        cmocka_unit_test(trailers_end_the_request_and_have_no_pseudo_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
