/* Our server against frames made by hand (grpc-conformance.md; the numbers are its rows). */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/clock.h"
#include "h2_raw.h"

enum { END = NGHTTP2_FLAG_END_STREAM };

typedef struct fixture {
    h2_raw raw;
    h2_peer *server;
} fixture;

static fixture fixture_new(const box_h2_config *config)
{
    fixture f;
    raw_init(&f.raw, true);
    f.server = h2_peer_new(true, config);
    return f;
}

static void fixture_done(fixture *f)
{
    raw_done(&f->raw);
    h2_peer_free(f->server);
}

static void exchange(fixture *f)
{
    assert_int_equal(raw_exchange(&f->raw, f->server, WHOLE), 0);
}

/* The connection still serves a call. */
static void assert_alive(fixture *f, uint32_t id)
{
    unsigned before = f->server->n_seen;
    raw_request(&f->raw, id, "/box.Test/Unary");
    RAW_DATA(&f->raw, id, END, "\0\0\0\0\2ok");
    exchange(f);
    assert_int_equal(f->server->n_seen, before + 1);
    seen *call = &f->server->seen[before];
    assert_bytes(call, "ok");
    assert_int_equal(call->n_half_close, 1);
    box_h2_finish(call->s, NULL, NULL);
    exchange(f);
    assert_true(raw_has(&f->raw, id, "grpc-status: 0"));
    assert_int_equal(f->raw.n_goaway, 0);
}

/* --- what a request says ---------------------------------------------------------------------- */

static const raw_field *request(const char *method, const char *path, const char *type,
                                const char *key, const char *value)
{
    static raw_field fields[8];
    size_t n = 0;
    fields[n++] = (raw_field){":method", method};
    fields[n++] = (raw_field){":scheme", "https"};
    fields[n++] = (raw_field){":path", path};
    if (key == NULL || strcmp(key, "host") != 0)
        fields[n++] = (raw_field){":authority", "box.test"};
    if (type != NULL)
        fields[n++] = (raw_field){"content-type", type};
    if (key != NULL)
        fields[n++] = (raw_field){key, value};
    fields[n] = (raw_field){0};
    return fields;
}

static void what_is_no_grpc_gets_an_ordinary_answer(void **state)
{
    (void)state;
    const struct {
        const char *method, *type, *line;
        bool body;
    } rows[] = {
        {"GET", NULL, ":status: 405", true},
        {"GET", "application/grpc", ":status: 405", true},
        {"HEAD", NULL, ":status: 405", false},
        {"PUT", "application/grpc", ":status: 405", true},
        {"POST", NULL, ":status: 415", true},
        {"POST", "text/html", ":status: 415", true},
        {"POST", "application/grpcx", ":status: 415", true},
        {"POST", "application/grpc+json", ":status: 415", true},
        {"POST", "application/grpc-web", ":status: 415", true},
        {"POST", "application/grp", ":status: 415", true},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
        raw_headers(&f.raw, 1, END, request(rows[i].method, "/a/b", rows[i].type, NULL, NULL));
        exchange(&f);
        raw_stream *s = raw_get(&f.raw, 1);
        assert_true(raw_has(&f.raw, 1, rows[i].line));
        assert_null(strstr(s->head, "grpc-status"));
        assert_true(s->ended);
        assert_false(s->was_reset);
        assert_int_equal(box_buf_len(&s->data) > 0, rows[i].body);
        assert_int_equal(f.server->n_seen, 0);
        assert_alive(&f, 3);
        assert_int_equal(box_h2_stream_count(f.server->h), 0);
    }
}

static int one_page(const box_h2_request *request, box_buf *out)
{
    box_error err;
    if (strcmp(request->path, "/page") != 0)
        return 0;
    assert_string_equal(box_metadata_get(request->metadata, "authorization"), "Bearer x");
    assert_int_equal(box_buf_printf(out, &err, "a line\nanother\n"), 0);
    return 200;
}

static void a_page_is_had_by_get_only(void **state)
{
    (void)state;
    static const struct {
        const char *method, *path, *type, *line;
    } rows[] = {
        {"GET", "/page", NULL, ":status: 200"},
        {"GET", "/page", "text/plain", ":status: 200"},
        {"GET", "/page", "application/grpc", ":status: 405"},
        {"GET", "/pages", NULL, ":status: 404"},
        {"HEAD", "/page", NULL, ":status: 404"},
        {"POST", "/page", NULL, ":status: 404"},
    };
    static const char text[] = "a line\nanother\n";
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
        f.server->on_page = one_page;
        raw_headers(
            &f.raw, 1, END,
            request(rows[i].method, rows[i].path, rows[i].type, "authorization", "Bearer x"));
        exchange(&f);
        const raw_stream *s = raw_get(&f.raw, 1);
        assert_true(raw_has(&f.raw, 1, rows[i].line));
        assert_true(s->ended);
        if (strstr(rows[i].line, "200") != NULL) {
            assert_true(raw_has(&f.raw, 1, "content-length: 15"));
            assert_int_equal(box_buf_len(&s->data), sizeof text - 1);
            assert_memory_equal(box_buf_data(&s->data), text, sizeof text - 1);
        }
        assert_alive(&f, 3);
    }
}

static void an_unwanted_body_is_read_for_a_while(void **state)
{
    (void)state;
    static const uint8_t body[16384];
    BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
    raw_headers(&f.raw, 1, 0, request("POST", "/a/b", "text/plain", NULL, NULL));
    raw_headers(&f.raw, 3, 0, request("POST", "/a/b", "text/plain", NULL, NULL));
    raw_frame(&f.raw, NGHTTP2_DATA, 0, 1, body, sizeof body);
    exchange(&f);
    assert_true(raw_get(&f.raw, 1)->ended);
    assert_false(raw_get(&f.raw, 1)->was_reset);
    RAW_DATA(&f.raw, 1, END, "end");
    for (int i = 0; i < 5; i++)
        raw_frame(&f.raw, NGHTTP2_DATA, 0, 3, body, sizeof body);
    exchange(&f);
    assert_false(raw_get(&f.raw, 1)->was_reset);
    assert_true(raw_get(&f.raw, 3)->rst_last);
    assert_int_equal(raw_get(&f.raw, 3)->rst, NGHTTP2_NO_ERROR);
    assert_int_equal(box_h2_stream_count(f.server->h), 0);
    assert_alive(&f, 5);
}

static void grpc_content_types_are_taken(void **state)
{
    (void)state;
    const char *const types[] = {
        "application/grpc",       "application/grpc+proto",     "application/grpc;charset=utf-8",
        "application/grpc ; q=1", "application/grpc+proto;x=y", "Application/gRPC",
    };
    for (size_t i = 0; i < BOX_COUNT(types); i++) {
        BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
        raw_headers(&f.raw, 1, END, request("POST", "/a/b", types[i], NULL, NULL));
        exchange(&f);
        assert_int_equal(f.server->n_seen, 1); /* and te is not needed (10) */
    }
}

static void host_stands_in_for_authority(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
    raw_headers(&f.raw, 1, END, request("POST", "/a/b", "application/grpc", "host", "box.test"));
    exchange(&f);
    assert_string_equal(f.server->seen[0].authority, "box.test");
    assert_int_equal(f.server->seen[0].metadata.count, 0);
}

static void a_bad_request_of_grpc_is_one_block_with_its_status(void **state)
{
    (void)state;
    const struct {
        const char *path, *key, *value, *line;
    } rows[] = {
        {"/a/b", "grpc-timeout", "1", "grpc-status: 13"},
        {"/a/b", "grpc-timeout", "", "grpc-status: 13"},
        {"/a/b", "grpc-timeout", "123456789m", "grpc-status: 13"},
        {"/a/b", "grpc-timeout", "-1S", "grpc-status: 13"},
        {"/a/b", "grpc-timeout", "1s", "grpc-status: 13"},
        {"/a/b", "grpc-timeout", "1.5S", "grpc-status: 13"},
        {"/a/b", "x-id-bin", "=", "grpc-status: 13"},
        {"/a/b", "x-id-bin", "AAAAA", "grpc-status: 13"},
        {"/a/b", "x-id-bin", "AA,!!", "grpc-status: 13"},
        {"/", "x", "y", "grpc-status: 12"},
        {"/a", "x", "y", "grpc-status: 12"},
        {"/a/", "x", "y", "grpc-status: 12"},
        {"//b", "x", "y", "grpc-status: 12"},
        {"/a/b/c", "x", "y", "grpc-status: 12"},
        {"/a/b?x", "x", "y", "grpc-status: 12"},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
        raw_headers(&f.raw, 1, 0,
                    request("POST", rows[i].path, "application/grpc", rows[i].key, rows[i].value));
        exchange(&f);
        raw_stream *s = raw_get(&f.raw, 1);
        assert_true(raw_has(&f.raw, 1, ":status: 200"));
        assert_true(raw_has(&f.raw, 1, "content-type: application/grpc"));
        assert_true(raw_has(&f.raw, 1, rows[i].line));
        assert_non_null(strstr(s->head, "grpc-message: "));
        assert_true(s->ended);
        assert_true(s->was_reset && s->rst_last); /* the body is not wanted (89) */
        assert_int_equal(s->rst, NGHTTP2_NO_ERROR);
        assert_int_equal(f.server->n_seen, 0);
        assert_alive(&f, 3);
    }
}

static void a_timeout_of_zero_is_an_expired_one(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
    raw_headers(&f.raw, 1, END, request("POST", "/a/b", "application/grpc", "grpc-timeout", "0m"));
    raw_headers(&f.raw, 3, END,
                request("POST", "/a/b", "application/grpc", "grpc-timeout", "99999999H"));
    exchange(&f);
    assert_int_equal(f.server->seen[0].timeout_ns, 1);
    assert_true(f.server->seen[1].timeout_ns == BOX_TIME_NEVER - 1);
}

static void malformed_http_resets_the_stream_and_no_more(void **state)
{
    (void)state;
    const char *const rows[][2] = {
        {"te", "gzip"},        {"connection", "close"}, {"Upper", "x"},
        {"bad name", "value"}, {":unknown", "x"},       {"x-line", "a\nb"},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
        raw_headers(&f.raw, 1, END,
                    request("POST", "/a/b", "application/grpc", rows[i][0], rows[i][1]));
        exchange(&f);
        assert_true(raw_get(&f.raw, 1)->was_reset);
        assert_int_equal(raw_get(&f.raw, 1)->rst, NGHTTP2_PROTOCOL_ERROR);
        assert_int_equal(f.server->n_seen, 0);
        assert_alive(&f, 3);
    }
}

static void odd_metadata_is_dropped_and_binary_values_are_split(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
    const raw_field fields[] = {
        {":method", "POST"},
        {":scheme", "http"},
        {":path", "/a/b"},
        {":authority", "box.test"},
        {"content-type", "application/grpc"},
        {"x-tab", "a\tb"},
        {"x-high", "\xfc"},
        {"x!odd", "v"},
        {"x-spaces", "  in side "},
        {"x-bin", "AQ==,Ag"},
        {"grpc-something", "hidden"},
        {"grpc-tags-bin", "AAAA"},
        {0},
    };
    raw_headers(&f.raw, 1, END, fields);
    exchange(&f);
    const box_metadata *md = &f.server->seen[0].metadata;
    assert_int_equal(md->count, 3);
    assert_string_equal(box_metadata_get(md, "x-spaces"), "in side");
    assert_memory_equal(md->entries[1].value, "\1", 2);
    assert_memory_equal(md->entries[2].value, "\2", 2);
}

static void headers_over_the_limit_end_that_call_only(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
    static char value[60 * 1024];
    memset(value, 'v', sizeof value - 1);
    raw_headers(&f.raw, 1, 0, request("POST", "/a/b", "application/grpc", "x-large", value));
    exchange(&f);
    assert_true(raw_has(&f.raw, 1, "grpc-status: 8"));
    assert_int_equal(f.server->n_seen, 0);
    assert_alive(&f, 3);
}

/* --- messages --------------------------------------------------------------------------------- */

static void messages_do_not_care_about_frames(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
    raw_request(&f.raw, 1, "/a/b");
    RAW_DATA(&f.raw, 1, 0, "\0");
    RAW_DATA(&f.raw, 1, 0, "");
    RAW_DATA(&f.raw, 1, 0, "\0\0\0");
    RAW_DATA(&f.raw, 1, 0, "\3ab");
    RAW_DATA(&f.raw, 1, 0, "c\0\0\0\0\0\0\0\0\0\2de\0\0");
    RAW_DATA(&f.raw, 1, NGHTTP2_FLAG_PADDED, "\4\0\0\1fxxxx");
    RAW_DATA(&f.raw, 1, END, "");
    exchange(&f);
    assert_int_equal(f.server->seen[0].n_messages, 4);
    assert_bytes(&f.server->seen[0], "abcdef");
    assert_int_equal(f.server->seen[0].n_half_close, 1);
}

static void bad_messages_end_the_call_with_the_right_status(void **state)
{
    (void)state;
    const struct {
        const char *data;
        size_t len;
        const char *encoding, *line;
        box_reason reason;
    } rows[] = {
        {"\2\0\0\0\1x", 6, NULL, "grpc-status: 13", BOX_PROTOCOL},           /* 44 */
        {"\1\0\0\0\1x", 6, NULL, "grpc-status: 13", BOX_PROTOCOL},           /* 57 */
        {"\1\0\0\0\1x", 6, "identity", "grpc-status: 13", BOX_PROTOCOL},     /* 57 */
        {"\1\0\0\0\1x", 6, "br", "grpc-status: 12", BOX_UNIMPLEMENTED},      /* 58 */
        {"\1\0\0\0\1x", 6, "gzip", "grpc-status: 13", BOX_PROTOCOL},         /* 61 */
        {"\1\0\0\0\0", 5, "deflate", "grpc-status: 13", BOX_PROTOCOL},       /* 61 */
        {"\0\xff\xff\xff\xff", 5, NULL, "grpc-status: 8", BOX_MESSAGE_SIZE}, /* 46 */
        {"\0\0\0\3\xe9", 5, NULL, "grpc-status: 8", BOX_MESSAGE_SIZE},       /* 1001 bytes */
        {"\0\0\0\0\2x", 6, NULL, "grpc-status: 13", BOX_PROTOCOL},           /* 45 */
        {"\0\0\0", 3, NULL, "grpc-status: 13", BOX_PROTOCOL},                /* 45 */
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        BOX_AUTO(fixture_done) fixture f = fixture_new(&(box_h2_config){.max_message_bytes = 1000});
        raw_headers(&f.raw, 1, 0,
                    request("POST", "/a/b", "application/grpc",
                            rows[i].encoding != NULL ? "grpc-encoding" : NULL, rows[i].encoding));
        raw_frame(&f.raw, NGHTTP2_DATA, END, 1, rows[i].data, rows[i].len);
        exchange(&f);
        assert_true(raw_has(&f.raw, 1, rows[i].line));
        assert_true(raw_has(&f.raw, 1, "grpc-accept-encoding: identity,deflate,gzip"));
        assert_int_equal(f.server->n_seen, 1);
        const seen *call = &f.server->seen[0];
        assert_int_equal(call->n_messages, 0);
        assert_int_equal(call->n_half_close, 0);
        assert_int_equal(call->n_closed, 1);
        assert_int_equal(call->why.reason, rows[i].reason);
        assert_alive(&f, 3);
        assert_int_equal(box_h2_stream_count(f.server->h), 0);
    }
}

static void an_encoding_without_compressed_messages_is_harmless(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
    raw_headers(&f.raw, 1, 0, request("POST", "/a/b", "application/grpc", "grpc-encoding", "gzip"));
    RAW_DATA(&f.raw, 1, END, "\0\0\0\0\1x");
    exchange(&f);
    assert_bytes(&f.server->seen[0], "x");
}

static void a_message_of_exactly_the_limit_passes(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new(&(box_h2_config){.max_message_bytes = 3});
    raw_request(&f.raw, 1, "/a/b");
    RAW_DATA(&f.raw, 1, END, "\0\0\0\0\3abc");
    exchange(&f);
    assert_bytes(&f.server->seen[0], "abc");
}

/* --- answers ---------------------------------------------------------------------------------- */

static void an_answer_is_headers_data_trailers(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
    raw_request(&f.raw, 1, "/a/b");
    exchange(&f);
    seen *call = &f.server->seen[0];
    h2_peer_text(call, "hi");
    exchange(&f);
    assert_string_equal(raw_get(&f.raw, 1)->head,
                        ":status: 200\ncontent-type: application/grpc\n"
                        "grpc-accept-encoding: identity,deflate,gzip\n\n");
    box_h2_finish(call->s, NULL, NULL);
    exchange(&f);
    raw_stream *s = raw_get(&f.raw, 1);
    assert_string_equal(s->head,
                        ":status: 200\ncontent-type: application/grpc\n"
                        "grpc-accept-encoding: identity,deflate,gzip\n\ngrpc-status: 0\n\n");
    assert_int_equal(box_buf_len(&s->data), 7);
    assert_memory_equal(box_buf_data(&s->data), "\0\0\0\0\2hi", 7);
    assert_true(s->rst_last);
    assert_int_equal(s->rst, NGHTTP2_NO_ERROR);
}

/* 69: the window is used up to the byte, and stays shut. */
static void trailers_need_no_window(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
    raw_request(&f.raw, 1, "/a/b");
    exchange(&f);
    static uint8_t message[65535 - 5];
    seen *call = &f.server->seen[0];
    box_h2_message(call->s, message, sizeof message);
    exchange(&f);
    assert_int_equal(box_buf_len(&raw_get(&f.raw, 1)->data), 65535);
    assert_false(raw_get(&f.raw, 1)->ended);
    box_h2_finish(call->s, NULL, NULL);
    exchange(&f);
    assert_true(raw_has(&f.raw, 1, "grpc-status: 0"));
    assert_ok(call);
}

static void trailers_wait_for_data_that_waits_for_window(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
    raw_request(&f.raw, 1, "/a/b");
    exchange(&f);
    static uint8_t message[65535 - 5 + 3];
    seen *call = &f.server->seen[0];
    box_h2_message(call->s, message, sizeof message);
    box_h2_finish(call->s, NULL, NULL);
    exchange(&f);
    assert_false(raw_get(&f.raw, 1)->ended);
    for (int i = 0; i < 3; i++) { /* the connection's window has to be opened as well */
        raw_frame(&f.raw, NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\0\0\1", 4);
        raw_frame(&f.raw, NGHTTP2_WINDOW_UPDATE, 0, 1, "\0\0\0\1", 4);
        exchange(&f);
        assert_int_equal(box_buf_len(&raw_get(&f.raw, 1)->data), 65536 + i);
    }
    assert_true(raw_has(&f.raw, 1, "grpc-status: 0"));
    assert_ok(call);
}

/* --- a connection's life ---------------------------------------------------------------------- */

static void any_reset_of_the_client_cancels(void **state)
{
    (void)state;
    for (uint8_t code = 0; code < 16; code++) {
        BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
        raw_request(&f.raw, 1, "/a/b");
        exchange(&f);
        h2_peer_text(&f.server->seen[0], "never sent");
        const uint8_t payload[4] = {0, 0, 0, code};
        raw_frame(&f.raw, NGHTTP2_RST_STREAM, 0, 1, payload, sizeof payload);
        exchange(&f);
        assert_int_equal(f.server->seen[0].why.reason, BOX_CANCELLED);
        assert_int_equal(raw_get(&f.raw, 1)->head_len, 0);
        assert_alive(&f, 3);
    }
}

static void goaway_of_the_client_does_not_end_its_calls(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
    raw_request(&f.raw, 1, "/a/b");
    raw_frame(&f.raw, NGHTTP2_GOAWAY, 0, 0, "\0\0\0\0\0\0\0\0", 8);
    exchange(&f);
    assert_int_equal(f.server->n_goaway, 1);
    assert_int_equal(f.server->seen[0].n_closed, 0);
    assert_false(box_h2_is_done(f.server->h));
    RAW_DATA(&f.raw, 1, END, "\0\0\0\0\1x");
    exchange(&f);
    box_h2_finish(f.server->seen[0].s, NULL, NULL);
    exchange(&f);
    assert_ok(&f.server->seen[0]);
    assert_true(box_h2_is_done(f.server->h));
}

static void ping_and_settings_are_answered(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
    raw_frame(&f.raw, NGHTTP2_PING, 0, 0, "12345678", 8);
    exchange(&f);
    assert_int_equal(f.raw.n_ping_acks, 1);
    assert_int_equal(f.raw.n_settings_acks, 1);
}

static void a_burst_past_the_limit_is_refused_by_stream(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new(&(box_h2_config){.max_streams = 100});
    for (uint32_t i = 0; i < 300; i++) /* our SETTINGS are not acknowledged yet */
        raw_request(&f.raw, 2 * i + 1, "/a/b");
    exchange(&f);
    assert_int_equal(f.server->n_seen, 100);
    assert_int_equal(raw_get(&f.raw, 2 * 100 + 1)->rst, NGHTTP2_REFUSED_STREAM);
    assert_int_equal(raw_get(&f.raw, 2 * 299 + 1)->rst, NGHTTP2_REFUSED_STREAM);
    assert_int_equal(f.raw.n_goaway, 0);
    for (int i = 0; i < 100; i++)
        box_h2_finish(f.server->seen[i].s, NULL, NULL);
    exchange(&f);
    assert_alive(&f, 1001);
}

static void garbage_breaks_the_connection_with_a_goaway(void **state)
{
    (void)state;
    const struct {
        const char *bytes;
        size_t len;
        uint32_t code;
    } rows[] = {
        {"GET / HTTP/1.1\r\nHost: box\r\n\r\n", 27, NGHTTP2_PROTOCOL_ERROR},
        {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11, NGHTTP2_PROTOCOL_ERROR},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nXXXXXXXXXXXXXXXXXXXXXXXXXXXX", 52,
         NGHTTP2_PROTOCOL_ERROR}, /* not SETTINGS first */
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        for (size_t chunk = 1; chunk < 30; chunk++) {
            BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
            box_buf_clear(&f.raw.out);
            (void)h2_feed(f.server, rows[i].bytes, rows[i].len, chunk);
            assert_int_equal(raw_exchange(&f.raw, f.server, WHOLE), -1);
            assert_int_equal(f.raw.n_goaway, 1);
            assert_int_equal(f.raw.goaway_code, rows[i].code);
            assert_true(box_h2_is_done(f.server->h));
            assert_int_equal(h2_feed(f.server, "more", 4, 1), -1);
        }
    }
}

/* Valid conversations with bytes flipped, and noise: nothing may crash, hang or grow. */
static void flipped_bytes_never_crash(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        uint64_t random = seed;
        BOX_AUTO(fixture_done) fixture f = fixture_new(NULL);
        raw_request(&f.raw, 1, "/a/b");
        RAW_DATA(&f.raw, 1, 0, "\0\0\0\0\5hello\0\0\0\0\0");
        raw_request(&f.raw, 3, "/c/d");
        RAW_DATA(&f.raw, 3, END, "\0\0\0\0\1x");
        raw_frame(&f.raw, NGHTTP2_RST_STREAM, 0, 1, "\0\0\0\10", 4);
        uint8_t *data = f.raw.out.data + f.raw.out.start;
        size_t len = box_buf_len(&f.raw.out);
        for (int flips = 1 + (int)(h2_next_random(&random) % 4); flips > 0; flips--)
            data[24 + h2_next_random(&random) % (len - 24)] = (uint8_t)h2_next_random(&random);
        (void)raw_exchange(&f.raw, f.server, 1 + h2_next_random(&random) % 40);
        for (unsigned i = 0; i < f.server->n_seen; i++) {
            if (f.server->seen[i].s != NULL)
                box_h2_finish(f.server->seen[i].s, NULL, NULL);
        }
        (void)raw_exchange(&f.raw, f.server, WHOLE);
        assert_true(f.server->n_seen <= 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_grpc_gets_an_ordinary_answer),
        cmocka_unit_test(a_page_is_had_by_get_only),
        cmocka_unit_test(an_unwanted_body_is_read_for_a_while),
        cmocka_unit_test(grpc_content_types_are_taken),
        cmocka_unit_test(host_stands_in_for_authority),
        cmocka_unit_test(a_bad_request_of_grpc_is_one_block_with_its_status),
        cmocka_unit_test(a_timeout_of_zero_is_an_expired_one),
        cmocka_unit_test(malformed_http_resets_the_stream_and_no_more),
        cmocka_unit_test(odd_metadata_is_dropped_and_binary_values_are_split),
        cmocka_unit_test(headers_over_the_limit_end_that_call_only),
        cmocka_unit_test(messages_do_not_care_about_frames),
        cmocka_unit_test(bad_messages_end_the_call_with_the_right_status),
        cmocka_unit_test(an_encoding_without_compressed_messages_is_harmless),
        cmocka_unit_test(a_message_of_exactly_the_limit_passes),
        cmocka_unit_test(an_answer_is_headers_data_trailers),
        cmocka_unit_test(trailers_need_no_window),
        cmocka_unit_test(trailers_wait_for_data_that_waits_for_window),
        cmocka_unit_test(any_reset_of_the_client_cancels),
        cmocka_unit_test(goaway_of_the_client_does_not_end_its_calls),
        cmocka_unit_test(ping_and_settings_are_answered),
        cmocka_unit_test(a_burst_past_the_limit_is_refused_by_stream),
        cmocka_unit_test(garbage_breaks_the_connection_with_a_goaway),
        cmocka_unit_test(flipped_bytes_never_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
