/* Compressed messages between our client and our server, and from peers made by hand. */
#include "wire/compress.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "h2_raw.h"

enum { TEXT_BYTES = 5000 };

static void repeated(char text[TEXT_BYTES + 1])
{
    for (size_t i = 0; i < TEXT_BYTES; i++)
        text[i] = (char)('a' + i % 7);
    text[TEXT_BYTES] = '\0';
}

static void echo(seen *call, const uint8_t *data, size_t len)
{
    box_h2_message(call->s, data, len);
}

static void end_ok(seen *call)
{
    box_h2_finish(call->s, NULL, NULL);
}

/* Writes down in the peer's arg whether the last message was compressed. */
static void look(seen *call, const uint8_t *data, size_t len)
{
    (void)data;
    (void)len;
    bool *last = call->peer->arg;
    *last = box_h2_was_compressed(call->s);
}

static void answers_are_encoded_like_requests(void **state)
{
    (void)state;
    char text[TEXT_BYTES + 1];
    repeated(text);
    const size_t chunks[] = {1, 7, WHOLE};
    for (size_t i = 0; i < BOX_COUNT(chunks); i++) {
        for (unsigned e = BOX_IDENTITY; e < BOX_ENCODINGS; e++) {
            BOX_AUTO(h2_pair_done) h2_pair p = h2_pair_new();
            p.client->encoding = (box_encoding)e;
            bool was_compressed = false;
            p.client->on_message = look;
            p.client->arg = &was_compressed;
            p.server->on_message = echo;
            p.server->on_half_close = end_ok;
            seen *call = h2_peer_call(p.client, "/box.Test/Unary", NULL, 0);
            h2_peer_text(call, text);
            box_h2_half_close(call->s);
            h2_run(p.client, p.server, chunks[i]);
            assert_ok(call);
            assert_bytes(&p.server->seen[0], text);
            assert_bytes(call, text);
            assert_int_equal(was_compressed, e != BOX_IDENTITY);
        }
    }
}

static void small_messages_are_compressed_only_when_told(void **state)
{
    (void)state;
    static const struct {
        box_compress_mode mode;
        const char *text;
        bool compressed;
    } rows[] = {
        {BOX_COMPRESS_AUTO, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
        {BOX_COMPRESS_ALWAYS, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", true},
        {BOX_COMPRESS_ALWAYS, "x", false}, /* it would grow */
        {BOX_COMPRESS_ALWAYS, "", false},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        BOX_AUTO(h2_pair_done) h2_pair p = h2_pair_new();
        p.client->encoding = BOX_GZIP;
        bool was_compressed = false;
        p.server->on_message = look;
        p.server->arg = &was_compressed;
        seen *call = h2_peer_call(p.client, "/box.Test/Unary", NULL, 0);
        box_h2_set_compress(call->s, rows[i].mode);
        h2_peer_text(call, rows[i].text);
        h2_run(p.client, p.server, WHOLE);
        assert_bytes(&p.server->seen[0], rows[i].text);
        assert_int_equal(was_compressed, rows[i].compressed);
    }
}

static void one_message_may_be_left_out(void **state)
{
    (void)state;
    char text[TEXT_BYTES + 1];
    repeated(text);
    BOX_AUTO(h2_pair_done) h2_pair p = h2_pair_new();
    p.client->encoding = BOX_DEFLATE;
    bool was_compressed = false;
    p.server->on_message = look;
    p.server->arg = &was_compressed;
    seen *call = h2_peer_call(p.client, "/box.Test/Stream", NULL, 0);
    const box_compress_mode modes[] = {BOX_COMPRESS_AUTO, BOX_COMPRESS_NEVER, BOX_COMPRESS_AUTO};
    for (size_t i = 0; i < BOX_COUNT(modes); i++) {
        box_h2_set_compress(call->s, modes[i]);
        h2_peer_text(call, text);
        h2_run(p.client, p.server, WHOLE);
        assert_int_equal(was_compressed, modes[i] != BOX_COMPRESS_NEVER);
    }
    assert_int_equal(p.server->seen[0].n_messages, BOX_COUNT(modes));
}

/* --- a server's choice ------------------------------------------------------------------------ */

static void always(seen *call)
{
    box_h2_set_compress(call->s, BOX_COMPRESS_ALWAYS);
}

static void send_text(seen *call)
{
    char text[TEXT_BYTES + 1];
    repeated(text);
    h2_peer_text(call, text);
    box_h2_finish(call->s, NULL, NULL);
}

/* Nothing is sent that the caller did not say it takes (grpc-conformance.md, 62). */
static void the_caller_is_sent_only_what_it_lists(void **state)
{
    (void)state;
    static const struct {
        const char *encoding, *accepts;
        bool always;
        const char *answer; /* NULL: not encoded */
    } rows[] = {
        {NULL, "gzip", false, NULL},
        {NULL, "gzip", true, "gzip"},
        {NULL, NULL, true, NULL},
        {NULL, "br, deflate", true, "deflate"},
        {"gzip", NULL, false, NULL},
        {"gzip", "deflate", false, NULL},
        {"gzip", "deflate", true, "deflate"},
        {"deflate", "identity,deflate,gzip", false, "deflate"},
        {"br", "br,gzip", false, NULL},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        h2_peer *server = h2_peer_new(true, NULL);
        h2_raw raw;
        raw_init(&raw, true);
        server->on_request = rows[i].always ? always : NULL;
        server->on_half_close = send_text;
        raw_field fields[9] = {{":method", "POST"}, {":scheme", "https"},
                               {":path", "/a/b"},   {":authority", "a"},
                               {"te", "trailers"},  {"content-type", "application/grpc"}};
        size_t n = 6;
        if (rows[i].encoding != NULL)
            fields[n++] = (raw_field){"grpc-encoding", rows[i].encoding};
        if (rows[i].accepts != NULL)
            fields[n++] = (raw_field){"grpc-accept-encoding", rows[i].accepts};
        raw_headers(&raw, 1, 0, fields);
        RAW_DATA(&raw, 1, NGHTTP2_FLAG_END_STREAM, "\0\0\0\0\1x");
        assert_int_equal(raw_exchange(&raw, server, WHOLE), 0);
        char line[64];
        (void)snprintf(line, sizeof line, "grpc-encoding: %s",
                       rows[i].answer != NULL ? rows[i].answer : "gzip");
        assert_int_equal(raw_has(&raw, 1, line), rows[i].answer != NULL);
        const raw_stream *s = raw_get(&raw, 1);
        assert_int_equal(box_buf_data(&s->data)[0], rows[i].answer != NULL);
        raw_done(&raw);
        h2_peer_free(server);
    }
}

/* --- what is refused -------------------------------------------------------------------------- */

static void feed_packed(size_t plain_bytes, size_t max_message_bytes, box_reason reason)
{
    BOX_AUTO(h2_pair_done) h2_pair p = h2_pair_new();
    h2_peer_free(p.server);
    p.server = h2_peer_new(true, &(box_h2_config){.max_message_bytes = max_message_bytes});
    p.client->encoding = BOX_GZIP;
    seen *call = h2_peer_call(p.client, "/box.Test/Unary", NULL, 0);
    BOX_AUTO(box_buf_done) box_buf zeros = {0};
    uint8_t *room;
    box_error err;
    assert_int_equal(box_buf_reserve(&zeros, plain_bytes, &room, &err), 0);
    memset(room, 0, plain_bytes);
    box_h2_message(call->s, room, plain_bytes);
    box_h2_half_close(call->s);
    h2_run(p.client, p.server, WHOLE);
    const seen *served = &p.server->seen[0];
    assert_int_equal(served->n_messages, reason == BOX_NONE);
    assert_int_equal(call->n_closed, reason != BOX_NONE);
    assert_int_equal(call->why.reason, reason);
}

static void the_limit_is_that_of_the_plain_message(void **state)
{
    (void)state;
    feed_packed(100000, 100000, BOX_NONE);
    feed_packed(100001, 100000, BOX_MESSAGE_SIZE);
}

enum { LARGE_BYTES = 66 * 1024 * 1024 }; /* above what a box_buf holds by default */

static void make_room(seen *call)
{
    call->bytes.max_bytes = LARGE_BYTES;
}

/* A message in its frames, with its prefix. */
static void raw_packed(h2_raw *raw, const box_buf *packed)
{
    enum { FRAME_BYTES = 16384 };
    size_t len = box_buf_len(packed);
    const uint8_t prefix[] = {1, 0, (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len};
    raw_frame(raw, NGHTTP2_DATA, 0, 1, prefix, sizeof prefix);
    for (size_t at = 0; at < len; at += FRAME_BYTES)
        raw_frame(raw, NGHTTP2_DATA, 0, 1, box_buf_data(packed) + at,
                  len - at < FRAME_BYTES ? len - at : FRAME_BYTES);
}

static void the_limit_may_be_a_large_one(void **state)
{
    (void)state;
    BOX_AUTO(box_freep) uint8_t *zeros = box_alloc(LARGE_BYTES);
    BOX_AUTO(box_buf_done) box_buf packed = {0};
    box_error err;
    assert_int_equal(box_compress(BOX_GZIP, zeros, LARGE_BYTES, &packed, &err), 0);
    h2_peer *server = h2_peer_new(true, &(box_h2_config){.max_message_bytes = LARGE_BYTES});
    server->on_request = make_room;
    h2_raw raw;
    raw_init(&raw, true);
    const raw_field fields[] = {{":method", "POST"},
                                {":scheme", "https"},
                                {":path", "/a/b"},
                                {"te", "trailers"},
                                {"content-type", "application/grpc"},
                                {"grpc-encoding", "gzip"},
                                {0}};
    raw_headers(&raw, 1, 0, fields);
    assert_int_equal(raw_exchange(&raw, server, WHOLE), 0);
    raw_frame(&raw, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, NULL, 0); /* the window is 1 MiB now */
    raw_packed(&raw, &packed);
    assert_int_equal(raw_exchange(&raw, server, WHOLE), 0);
    assert_int_equal(server->seen[0].last_len, LARGE_BYTES);
    raw_done(&raw);
    h2_peer_free(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_encoded_like_requests),
        cmocka_unit_test(small_messages_are_compressed_only_when_told),
        cmocka_unit_test(one_message_may_be_left_out),
        cmocka_unit_test(the_caller_is_sent_only_what_it_lists),
        cmocka_unit_test(the_limit_is_that_of_the_plain_message),
        cmocka_unit_test(the_limit_may_be_a_large_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
