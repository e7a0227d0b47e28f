/* Our client against a server whose frames are made by hand. */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "h2_raw.h"

enum { END = NGHTTP2_FLAG_END_STREAM };

typedef struct fixture {
    h2_raw raw;
    h2_peer *client;
    seen *call; /* stream 1, half-closed */
} fixture;

static fixture fixture_new(void)
{
    fixture f;
    raw_init(&f.raw, false);
    f.client = h2_peer_new(false, &(box_h2_config){.max_message_bytes = 1000});
    f.call = h2_peer_call(f.client, "/box.Test/Unary", NULL, UINT64_C(100000000));
    h2_peer_text(f.call, "hi");
    box_h2_half_close(f.call->s);
    (void)raw_exchange(&f.raw, f.client, WHOLE);
    return f;
}

static void fixture_done(fixture *f)
{
    raw_done(&f->raw);
    h2_peer_free(f->client);
}

static void exchange(fixture *f)
{
    assert_int_equal(raw_exchange(&f->raw, f->client, 3), 0);
}

static void answer_headers(fixture *f)
{
    const raw_field fields[] = {
        {":status", "200"}, {"content-type", "application/grpc"}, {"x-a", "1"}, {0}};
    raw_headers(&f->raw, 1, 0, fields);
}

static void answer_status(fixture *f, const char *status)
{
    const raw_field fields[] = {{"grpc-status", status}, {0}};
    raw_headers(&f->raw, 1, END, fields);
}

/* --- what we send ----------------------------------------------------------------------------- */

static void a_request_has_its_fields_in_order(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new();
    assert_string_equal(raw_get(&f.raw, 1)->head,
                        ":method: POST\n"
                        ":scheme: https\n"
                        ":path: /box.Test/Unary\n"
                        ":authority: box.test:5410\n"
                        "grpc-timeout: 100000u\n"
                        "te: trailers\n"
                        "content-type: application/grpc\n"
                        "user-agent: grpc-c-box/test\n"
                        "grpc-accept-encoding: identity,deflate,gzip\n\n");
    raw_stream *s = raw_get(&f.raw, 1);
    assert_int_equal(box_buf_len(&s->data), 7);
    assert_memory_equal(box_buf_data(&s->data), "\0\0\0\0\2hi", 7);
    assert_true(s->ended);
}

/* --- statuses --------------------------------------------------------------------------------- */

static void a_normal_answer_is_ok(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new();
    const raw_field interim[] = {{":status", "103"}, {"link", "x"}, {0}};
    raw_headers(&f.raw, 1, 0, interim); /* skipped (73) */
    answer_headers(&f);
    RAW_DATA(&f.raw, 1, 0, "\0\0\0\0\2yo");
    answer_status(&f, "0");
    raw_frame(&f.raw, NGHTTP2_RST_STREAM, 0, 1, "\0\0\0\0", 4); /* changes nothing (88) */
    exchange(&f);
    assert_ok(f.call);
    assert_bytes(f.call, "yo");
    assert_int_equal(f.call->metadata.count, 1);
    assert_int_equal(f.client->n_goaway, 0);
}

static void an_http_status_stands_in_for_a_missing_grpc_status(void **state)
{
    (void)state;
    const struct {
        const char *http, *type;
        box_code code;
    } rows[] = {
        {"400", "text/plain", BOX_CODE_INTERNAL},
        {"401", "text/plain", BOX_CODE_UNAUTHENTICATED},
        {"403", "text/plain", BOX_CODE_PERMISSION_DENIED},
        {"404", "text/plain", BOX_CODE_UNIMPLEMENTED},
        {"429", "text/plain", BOX_CODE_UNAVAILABLE},
        {"431", "text/plain", BOX_CODE_INTERNAL},
        {"502", "text/html", BOX_CODE_UNAVAILABLE},
        {"503", "text/html", BOX_CODE_UNAVAILABLE},
        {"504", "text/html", BOX_CODE_UNAVAILABLE},
        {"500", "text/html", BOX_CODE_UNKNOWN},
        {"418", "text/html", BOX_CODE_UNKNOWN},
        {"200", "text/html", BOX_CODE_UNKNOWN},
        {"200", "application/grpc", BOX_CODE_UNKNOWN},
        {"503", "application/grpc", BOX_CODE_UNAVAILABLE},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        for (int with_body = 0; with_body < 2; with_body++) {
            BOX_AUTO(fixture_done) fixture f = fixture_new();
            const raw_field fields[] = {
                {":status", rows[i].http}, {"content-type", rows[i].type}, {0}};
            raw_headers(&f.raw, 1, with_body != 0 ? 0 : END, fields);
            if (with_body != 0)
                RAW_DATA(&f.raw, 1, END, "<html>Sorry</html>");
            exchange(&f);
            assert_int_equal(f.call->n_closed, 1);
            bool grpc_200 = strcmp(rows[i].http, "200") == 0 && rows[i].type[0] == 'a';
            if (with_body == 0 || !grpc_200) /* else the body is a broken message */
                assert_int_equal(box_error_code(&f.call->why), rows[i].code);
            assert_int_equal(f.call->n_messages, 0);
            assert_int_equal(box_h2_stream_count(f.client->h), 0);
        }
    }
}

static void a_grpc_status_wins_over_the_http_status(void **state)
{
    (void)state;
    const struct {
        const char *http, *status;
        box_code code;
    } rows[] = {
        {"503", "5", BOX_CODE_NOT_FOUND},        {"200", "17", BOX_CODE_UNKNOWN},
        {"200", "x", BOX_CODE_UNKNOWN},          {"200", "", BOX_CODE_UNKNOWN},
        {"200", "-1", BOX_CODE_UNKNOWN},         {"200", "99999999999", BOX_CODE_UNKNOWN},
        {"404", "16", BOX_CODE_UNAUTHENTICATED},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        BOX_AUTO(fixture_done) fixture f = fixture_new();
        const raw_field fields[] = {{":status", rows[i].http},
                                    {"content-type", "application/grpc"},
                                    {"grpc-status", rows[i].status},
                                    {"grpc-message", "why%20%C3%bc%zz%ff"},
                                    {0}};
        raw_headers(&f.raw, 1, END, fields);
        exchange(&f);
        assert_int_equal(box_error_code(&f.call->why), rows[i].code);
        assert_string_equal(f.call->why.msg, "why \xc3\xbc%zz?");
    }
}

static void a_status_in_the_headers_is_ignored_when_trailers_come(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new();
    const raw_field fields[] = {
        {":status", "200"}, {"content-type", "application/grpc"}, {"grpc-status", "0"}, {0}};
    raw_headers(&f.raw, 1, 0, fields);
    answer_status(&f, "9");
    exchange(&f);
    assert_int_equal(box_error_code(&f.call->why), BOX_CODE_FAILED_PRECONDITION);
}

static void a_reset_before_the_status_is_mapped(void **state)
{
    (void)state;
    const box_code codes[] = {
        BOX_CODE_INTERNAL,          BOX_CODE_INTERNAL,
        BOX_CODE_INTERNAL,          BOX_CODE_INTERNAL,
        BOX_CODE_INTERNAL,          BOX_CODE_UNKNOWN /* STREAM_CLOSED */,
        BOX_CODE_INTERNAL,          BOX_CODE_UNAVAILABLE /* REFUSED_STREAM */,
        BOX_CODE_CANCELLED,         BOX_CODE_INTERNAL,
        BOX_CODE_INTERNAL,          BOX_CODE_RESOURCE_EXHAUSTED /* ENHANCE_YOUR_CALM */,
        BOX_CODE_PERMISSION_DENIED, BOX_CODE_UNKNOWN /* HTTP_1_1_REQUIRED */,
        BOX_CODE_UNKNOWN,
    };
    for (uint8_t code = 0; code < BOX_COUNT(codes); code++) {
        for (int with_headers = 0; with_headers < 2; with_headers++) {
            BOX_AUTO(fixture_done) fixture f = fixture_new();
            const uint8_t payload[4] = {0, 0, 0, code};
            if (with_headers != 0)
                answer_headers(&f);
            raw_frame(&f.raw, NGHTTP2_RST_STREAM, 0, 1, payload, sizeof payload);
            exchange(&f);
            assert_int_equal(f.call->n_closed, 1);
            assert_int_equal(box_error_code(&f.call->why), codes[code]);
            bool may_repeat = code == NGHTTP2_REFUSED_STREAM && with_headers == 0;
            assert_int_equal(f.call->was_refused, may_repeat);
        }
    }
}

static void an_answer_without_trailers_has_no_status(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new();
    answer_headers(&f);
    RAW_DATA(&f.raw, 1, END, "\0\0\0\0\2yo");
    exchange(&f);
    assert_int_equal(f.call->n_messages, 1);
    assert_int_equal(f.call->why.reason, BOX_UNKNOWN);
}

static void bad_messages_end_the_call(void **state)
{
    (void)state;
    const struct {
        const char *data;
        size_t len;
        box_reason reason;
    } rows[] = {
        {"\0\0\0\0\2x", 6, BOX_PROTOCOL},      {"\0\0", 2, BOX_PROTOCOL},
        {"\1\0\0\0\1x", 6, BOX_PROTOCOL},      {"\7\0\0\0\1x", 6, BOX_PROTOCOL},
        {"\0\0\0\3\xe9", 5, BOX_MESSAGE_SIZE}, {"\0\xff\xff\xff\xff", 5, BOX_MESSAGE_SIZE},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        BOX_AUTO(fixture_done) fixture f = fixture_new();
        answer_headers(&f);
        raw_frame(&f.raw, NGHTTP2_DATA, 0, 1, rows[i].data, rows[i].len);
        answer_status(&f, "0");
        exchange(&f);
        assert_int_equal(f.call->n_closed, 1);
        assert_int_equal(f.call->n_messages, 0);
        assert_int_equal(f.call->why.reason, rows[i].reason);
        assert_int_equal(box_h2_stream_count(f.client->h), 0);
    }
}

static void an_early_status_ends_an_upload(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new();
    seen *upload = h2_peer_call(f.client, "/box.Test/Upload", NULL, 0);
    h2_peer_text(upload, "part");
    exchange(&f);
    const raw_field fields[] = {
        {":status", "200"}, {"content-type", "application/grpc"}, {"grpc-status", "8"}, {0}};
    raw_headers(&f.raw, 3, END, fields);
    exchange(&f);
    assert_int_equal(box_error_code(&upload->why), BOX_CODE_RESOURCE_EXHAUSTED);
    assert_int_equal(upload->n_closed, 1);
    assert_true(raw_get(&f.raw, 3)->was_reset); /* 89 */
    assert_int_equal(raw_get(&f.raw, 3)->rst, NGHTTP2_NO_ERROR);
}

static void a_malformed_answer_ends_that_call_only(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new();
    seen *other = h2_peer_call(f.client, "/box.Test/Other", NULL, 0);
    exchange(&f);
    const raw_field fields[] = {{":status", "200"}, {"Content-Type", "application/grpc"}, {0}};
    raw_headers(&f.raw, 1, 0, fields);
    exchange(&f);
    assert_int_equal(f.call->n_closed, 1);
    assert_int_equal(f.call->why.reason, BOX_PROTOCOL);
    assert_int_equal(other->n_closed, 0);
}

/* --- a connection's life ---------------------------------------------------------------------- */

static void goaway_ends_what_the_server_did_not_take(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new();
    seen *second = h2_peer_call(f.client, "/box.Test/Second", NULL, 0);
    exchange(&f);
    raw_frame(&f.raw, NGHTTP2_GOAWAY, 0, 0, "\0\0\0\1\0\0\0\13too_many_pings", 22);
    exchange(&f);
    assert_int_equal(f.client->n_goaway, 1);
    assert_int_equal(second->n_closed, 1);
    assert_int_equal(second->why.reason, BOX_RUNTIME_UNAVAILABLE);
    assert_non_null(strstr(second->why.msg, "ENHANCE_YOUR_CALM: too_many_pings"));
    assert_true(second->was_refused && second->was_sent);
    assert_true(box_h2_pinged_too_often(f.client->h));
    assert_false(box_h2_can_start(f.client->h));
    assert_int_equal(f.call->n_closed, 0);
    answer_headers(&f);
    answer_status(&f, "0");
    exchange(&f);
    assert_ok(f.call);
    assert_true(box_h2_is_done(f.client->h));
}

static void what_never_went_out_was_refused(void **state)
{
    (void)state;
    h2_peer *client = h2_peer_new(false, NULL);
    seen *call = h2_peer_call(client, "/box.Test/Unary", NULL, 0);
    h2_peer_lose(client);
    assert_int_equal(call->why.reason, BOX_RUNTIME_UNAVAILABLE);
    assert_true(call->was_refused);
    assert_false(call->was_sent);
    h2_peer_free(client);
}

static void a_call_that_the_server_may_have_seen_was_not_refused(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new();
    exchange(&f);
    assert_false(box_h2_pinged_too_often(f.client->h));
    raw_frame(&f.raw, NGHTTP2_RST_STREAM, 0, 1, "\0\0\0\2", 4);
    exchange(&f);
    assert_int_equal(f.call->why.reason, BOX_PROTOCOL);
    assert_false(f.call->was_refused);
    assert_true(f.call->was_sent);
}

static void one_stream_may_have_its_own_limit(void **state)
{
    (void)state;
    BOX_AUTO(fixture_done) fixture f = fixture_new();
    box_h2_limit_messages(f.call->s, 4);
    exchange(&f);
    answer_headers(&f);
    raw_frame(&f.raw, NGHTTP2_DATA, 0, 1, "\0\0\0\0\4four\0\0\0\0\5", 14);
    exchange(&f);
    assert_bytes(f.call, "four");
    assert_int_equal(f.call->why.reason, BOX_MESSAGE_SIZE);
}

static void a_server_that_is_none_breaks_the_connection(void **state)
{
    (void)state;
    for (size_t chunk = 1; chunk < 20; chunk++) {
        static const char text[] = "HTTP/1.1 400 Bad Request\r\n\r\n<html>and more of it</html>";
        h2_peer *client = h2_peer_new(false, NULL);
        seen *call = h2_peer_call(client, "/box.Test/Unary", NULL, 0);
        (void)h2_feed(client, text, sizeof text - 1, chunk);
        BOX_AUTO(box_buf_done) box_buf out = {0};
        box_error err;
        assert_int_equal(box_h2_send(client->h, &out, WHOLE, &err), -1);
        assert_int_equal(err.reason, BOX_RUNTIME_UNAVAILABLE);
        assert_true(box_h2_is_done(client->h));
        h2_peer_lose(client);
        assert_int_equal(call->why.reason, BOX_RUNTIME_UNAVAILABLE);
        h2_peer_free(client);
    }
}

static void flipped_bytes_never_crash(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        uint64_t random = seed;
        BOX_AUTO(fixture_done) fixture f = fixture_new();
        answer_headers(&f);
        RAW_DATA(&f.raw, 1, 0, "\0\0\0\0\5hello\0\0\0\0\0");
        answer_status(&f, "0");
        raw_frame(&f.raw, NGHTTP2_GOAWAY, 0, 0, "\0\0\0\1\0\0\0\0", 8);
        uint8_t *data = f.raw.out.data + f.raw.out.start;
        size_t len = box_buf_len(&f.raw.out);
        for (int flips = 1 + (int)(h2_next_random(&random) % 4); flips > 0; flips--)
            data[h2_next_random(&random) % len] = (uint8_t)h2_next_random(&random);
        (void)raw_exchange(&f.raw, f.client, 1 + h2_next_random(&random) % 40);
        h2_peer_lose(f.client);
        assert_int_equal(f.call->n_closed, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_has_its_fields_in_order),
        cmocka_unit_test(a_normal_answer_is_ok),
        cmocka_unit_test(an_http_status_stands_in_for_a_missing_grpc_status),
        cmocka_unit_test(a_grpc_status_wins_over_the_http_status),
        cmocka_unit_test(a_status_in_the_headers_is_ignored_when_trailers_come),
        cmocka_unit_test(a_reset_before_the_status_is_mapped),
        cmocka_unit_test(an_answer_without_trailers_has_no_status),
        cmocka_unit_test(bad_messages_end_the_call),
        cmocka_unit_test(an_early_status_ends_an_upload),
        cmocka_unit_test(a_malformed_answer_ends_that_call_only),
        cmocka_unit_test(goaway_ends_what_the_server_did_not_take),
        cmocka_unit_test(what_never_went_out_was_refused),
        cmocka_unit_test(a_call_that_the_server_may_have_seen_was_not_refused),
        cmocka_unit_test(one_stream_may_have_its_own_limit),
        cmocka_unit_test(a_server_that_is_none_breaks_the_connection),
        cmocka_unit_test(flipped_bytes_never_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
