/* Metadata and status as they travel between our client and our server. */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "h2_peer.h"

static void add(box_metadata *md, const char *key, const char *value)
{
    box_error err;
    assert_int_equal(box_metadata_add_text(md, key, value, &err), 0);
}

static void send_metadata(seen *call)
{
    BOX_AUTO(box_metadata_done) box_metadata headers = {0};
    BOX_AUTO(box_metadata_done) box_metadata trailers = {0};
    box_error err;
    add(&headers, "x-first", "initial");
    add(&trailers, "x-last", "a");
    add(&trailers, "x-last", "b");
    assert_int_equal(box_metadata_add(&trailers, "x-raw-bin", "\0\1\xff", 3, &err), 0);
    box_h2_set_headers(call->s, &headers);
    h2_peer_text(call, "m");
    box_h2_finish(call->s, NULL, &trailers);
}

static void metadata_goes_both_ways(void **state)
{
    (void)state;
    BOX_AUTO(h2_pair_done) h2_pair p = h2_pair_new();
    p.server->on_half_close = send_metadata;
    BOX_AUTO(box_metadata_done) box_metadata md = {0};
    box_error err;
    add(&md, "authorization", "Bearer box_secret");
    add(&md, "x-twice", "1");
    add(&md, "x-twice", "2");
    add(&md, "x-empty", "");
    assert_int_equal(box_metadata_add(&md, "x-id-bin", "\0\xfe", 2, &err), 0);
    seen *call = h2_peer_call(p.client, "/box.Test/Unary", &md, UINT64_C(1500000000));
    box_h2_half_close(call->s);
    h2_run(p.client, p.server, 5);
    assert_ok(call);
    const box_metadata *got = &p.server->seen[0].metadata;
    assert_int_equal(p.server->seen[0].timeout_ns, UINT64_C(1500000000));
    assert_int_equal(got->count, 5); /* and nothing of the protocol's own */
    assert_string_equal(box_metadata_get(got, "authorization"), "Bearer box_secret");
    assert_string_equal(got->entries[2].key, "x-twice");
    assert_string_equal((const char *)got->entries[2].value, "2");
    assert_string_equal(box_metadata_get(got, "x-empty"), "");
    assert_int_equal(got->entries[4].value_len, 2);
    assert_memory_equal(got->entries[4].value, "\0\xfe", 2);
    assert_int_equal(call->metadata.count, 1);
    assert_string_equal(box_metadata_get(&call->metadata, "x-first"), "initial");
    assert_int_equal(call->trailers.count, 3);
    assert_string_equal((const char *)call->trailers.entries[1].value, "b");
    assert_int_equal(call->trailers.entries[2].value_len, 3);
    assert_memory_equal(call->trailers.entries[2].value, "\0\1\xff", 3);
}

static box_error refusal(void)
{
    box_error err;
    (void)box_fail(&err, BOX_SESSION_LIMIT, "no more than 3 sessions, 100 %% full \xc3\xbc");
    box_error_add(&err, "limit", "sessions");
    box_error_add_int(&err, "max", 3);
    err.retry_ms = 1250;
    return err;
}

static void refuse(seen *call)
{
    BOX_AUTO(box_metadata_done) box_metadata headers = {0};
    BOX_AUTO(box_metadata_done) box_metadata trailers = {0};
    add(&headers, "x-first", "initial");
    add(&trailers, "x-last", "end");
    box_error err = refusal();
    box_h2_set_headers(call->s, &headers);
    box_h2_finish(call->s, &err, &trailers);
}

static void assert_refused(const seen *call)
{
    box_error expected = refusal();
    assert_int_equal(call->n_closed, 1);
    assert_int_equal(call->why.reason, expected.reason);
    assert_string_equal(call->why.msg, expected.msg);
    assert_int_equal(call->why.retry_ms, 1250);
    assert_int_equal(call->why.detail_len, expected.detail_len);
    assert_memory_equal(call->why.detail, expected.detail, expected.detail_len);
}

static void an_early_error_is_one_block_with_details_and_all_metadata(void **state)
{
    (void)state;
    for (size_t chunk = 1; chunk < 20; chunk++) {
        BOX_AUTO(h2_pair_done) h2_pair p = h2_pair_new();
        p.server->on_request = refuse;
        seen *call = h2_peer_call(p.client, "/box.Test/Unary", NULL, 0);
        h2_peer_text(call, "never read");
        h2_run(p.client, p.server, chunk);
        assert_refused(call);
        assert_int_equal(call->n_headers, 0);
        assert_string_equal(box_metadata_get(&call->trailers, "x-first"), "initial");
        assert_string_equal(box_metadata_get(&call->trailers, "x-last"), "end");
        assert_int_equal(p.server->seen[0].n_messages, 0);
        assert_ok(&p.server->seen[0]);
        assert_int_equal(box_h2_stream_count(p.client->h), 0);
        assert_int_equal(box_h2_stream_count(p.server->h), 0);
    }
}

static void message_then_refuse(seen *call)
{
    box_error err = refusal();
    h2_peer_text(call, "part");
    box_h2_finish(call->s, &err, NULL);
}

static void an_error_after_messages_comes_in_the_trailers(void **state)
{
    (void)state;
    BOX_AUTO(h2_pair_done) h2_pair p = h2_pair_new();
    p.server->on_half_close = message_then_refuse;
    seen *call = h2_peer_call(p.client, "/box.Test/Watch", NULL, 0);
    box_h2_half_close(call->s);
    h2_run(p.client, p.server, 3);
    assert_refused(call);
    assert_bytes(call, "part");
}

static void finish_with_code(seen *call)
{
    const int *code = call->peer->arg;
    box_error err = {.reason = BOX_UNKNOWN, .code = (uint16_t)*code, .msg = "text"};
    box_h2_finish(call->s, &err, NULL);
}

static void every_code_survives(void **state)
{
    (void)state;
    for (int code = 1; code <= 20; code++) {
        BOX_AUTO(h2_pair_done) h2_pair p = h2_pair_new();
        p.server->on_half_close = finish_with_code;
        p.server->arg = &code;
        seen *call = h2_peer_call(p.client, "/box.Test/Unary", NULL, 0);
        box_h2_half_close(call->s);
        h2_run(p.client, p.server, WHOLE);
        int expected = code <= 16 ? code : BOX_CODE_UNKNOWN; /* there is no such code */
        assert_int_equal(box_error_code(&call->why), expected);
        assert_string_equal(call->why.msg, "text");
    }
}

static void huge_trailers(seen *call)
{
    BOX_AUTO(box_metadata_done) box_metadata trailers = {0};
    box_error err;
    char value[8000];
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    for (int i = 0; i < 5; i++)
        add(&trailers, "x-huge", value);
    (void)box_fail(&err, BOX_QUOTA, "too much");
    h2_peer_text(call, "m");
    box_h2_finish(call->s, &err, &trailers);
}

static void a_status_is_never_lost_to_large_trailers(void **state)
{
    (void)state;
    BOX_AUTO(h2_pair_done) h2_pair p = h2_pair_new();
    p.server->on_half_close = huge_trailers;
    seen *call = h2_peer_call(p.client, "/box.Test/Unary", NULL, 0);
    box_h2_half_close(call->s);
    h2_run(p.client, p.server, WHOLE);
    assert_int_equal(box_error_code(&call->why), BOX_CODE_RESOURCE_EXHAUSTED);
}

static void metadata_larger_than_the_peer_takes_fails_locally(void **state)
{
    (void)state;
    BOX_AUTO(h2_pair_done) h2_pair p = h2_pair_new();
    h2_run(p.client, p.server, WHOLE);
    BOX_AUTO(box_metadata_done) box_metadata md = {0};
    box_error err;
    char value[9000];
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    add(&md, "x-a", value);
    add(&md, "x-b", value);
    box_h2_stream *s;
    assert_int_equal(
        box_h2_request_start(p.client->h, "/a/b", &md, 0, BOX_IDENTITY, NULL, &s, &err), -1);
    assert_int_equal(err.reason, BOX_MESSAGE_SIZE);
    assert_int_equal(box_h2_stream_count(p.client->h), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metadata_goes_both_ways),
        cmocka_unit_test(an_early_error_is_one_block_with_details_and_all_metadata),
        cmocka_unit_test(an_error_after_messages_comes_in_the_trailers),
        cmocka_unit_test(every_code_survives),
        cmocka_unit_test(a_status_is_never_lost_to_large_trailers),
        cmocka_unit_test(metadata_larger_than_the_peer_takes_fails_locally),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
