/* Calls of all four kinds between our client and our server, split at every byte. */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "h2_peer.h"

static void pair_run(h2_pair *p, size_t chunk)
{
    h2_run(p->client, p->server, chunk);
}

/* --- the four kinds --------------------------------------------------------------------------- */

static void answer_once(seen *call)
{
    h2_peer_text(call, "pong");
    box_h2_finish(call->s, NULL, NULL);
}

static void unary(size_t chunk)
{
    BOX_AUTO(h2_pair_done) h2_pair p = h2_pair_new();
    p.server->on_half_close = answer_once;
    seen *call = h2_peer_call(p.client, "/box.Test/Unary", NULL, 0);
    h2_peer_text(call, "ping");
    box_h2_half_close(call->s);
    pair_run(&p, chunk);
    assert_ok(call);
    assert_int_equal(call->n_headers, 1);
    assert_int_equal(call->n_messages, 1);
    assert_bytes(call, "pong");
    seen *served = &p.server->seen[0];
    assert_string_equal(served->path, "/box.Test/Unary");
    assert_string_equal(served->authority, "box.test:5410");
    assert_int_equal(served->timeout_ns, 0);
    assert_bytes(served, "ping");
    assert_int_equal(served->n_half_close, 1);
    assert_ok(served);
    assert_int_equal(box_h2_stream_count(p.client->h), 0);
    assert_int_equal(box_h2_stream_count(p.server->h), 0);
}

static void echo(seen *call, const uint8_t *data, size_t len)
{
    box_h2_message(call->s, data, len);
}

static void end_ok(seen *call)
{
    box_h2_finish(call->s, NULL, NULL);
}

static void stream_three(seen *call)
{
    h2_peer_text(call, "one");
    h2_peer_text(call, "");
    h2_peer_text(call, "three");
    box_h2_finish(call->s, NULL, NULL);
}

static void server_stream(size_t chunk)
{
    BOX_AUTO(h2_pair_done) h2_pair p = h2_pair_new();
    p.server->on_half_close = stream_three;
    seen *call = h2_peer_call(p.client, "/box.Test/Watch", NULL, 0);
    h2_peer_text(call, "");
    box_h2_half_close(call->s);
    pair_run(&p, chunk);
    assert_ok(call);
    assert_int_equal(p.server->seen[0].n_messages, 1);
    assert_int_equal(call->n_messages, 3);
    assert_bytes(call, "onethree");
}

static void client_stream(size_t chunk)
{
    BOX_AUTO(h2_pair_done) h2_pair p = h2_pair_new();
    p.server->on_half_close = answer_once;
    seen *call = h2_peer_call(p.client, "/box.Test/Upload", NULL, 0);
    h2_peer_text(call, "a");
    pair_run(&p, chunk);
    h2_peer_text(call, "b");
    h2_peer_text(call, "c");
    box_h2_half_close(call->s);
    pair_run(&p, chunk);
    assert_ok(call);
    assert_int_equal(p.server->seen[0].n_messages, 3);
    assert_bytes(&p.server->seen[0], "abc");
    assert_bytes(call, "pong");
}

static void bidi(size_t chunk)
{
    BOX_AUTO(h2_pair_done) h2_pair p = h2_pair_new();
    p.server->on_message = echo;
    p.server->on_half_close = end_ok;
    seen *call = h2_peer_call(p.client, "/box.Test/Chat", NULL, 0);
    for (unsigned i = 1; i <= 3; i++) {
        h2_peer_text(call, "hello ");
        pair_run(&p, chunk);
        assert_int_equal(call->n_messages, i);
        assert_int_equal(call->n_closed, 0);
    }
    box_h2_half_close(call->s);
    pair_run(&p, chunk);
    assert_ok(call);
    assert_bytes(call, "hello hello hello ");
}

static void calls_work_however_the_bytes_are_cut(void **state)
{
    (void)state;
    const size_t chunks[] = {1, 2, 3, 7, 9, 64, WHOLE};
    for (size_t i = 0; i < BOX_COUNT(chunks); i++) {
        unary(chunks[i]);
        server_stream(chunks[i]);
        client_stream(chunks[i]);
        bidi(chunks[i]);
    }
}

static void many_calls_share_a_connection(void **state)
{
    (void)state;
    enum { CALLS = 250 }; /* above the 100 that are assumed before SETTINGS */
    BOX_AUTO(h2_pair_done) h2_pair p = h2_pair_new();
    p.server->on_message = echo;
    p.server->on_half_close = end_ok;
    char text[16];
    for (int i = 0; i < CALLS; i++) {
        (void)snprintf(text, sizeof text, "call %d", i);
        seen *call = h2_peer_call(p.client, "/box.Test/Unary", NULL, 0);
        h2_peer_text(call, text);
        box_h2_half_close(call->s);
    }
    pair_run(&p, 1000);
    for (int i = 0; i < CALLS; i++) {
        (void)snprintf(text, sizeof text, "call %d", i);
        assert_ok(&p.client->seen[i]);
        assert_bytes(&p.client->seen[i], text);
    }
}

static void a_client_starts_a_hundred_calls_before_it_knows_the_limit(void **state)
{
    (void)state;
    BOX_AUTO(h2_pair_done) h2_pair p = h2_pair_new();
    for (int i = 0; i < 100; i++) {
        assert_true(box_h2_can_start(p.client->h));
        (void)h2_peer_call(p.client, "/box.Test/Unary", NULL, 0);
    }
    assert_false(box_h2_is_established(p.client->h));
    assert_false(box_h2_can_start(p.client->h));
    box_h2_cancel(p.client->seen[0].s, &(box_error){.reason = BOX_CANCELLED});
    assert_true(box_h2_can_start(p.client->h));
    pair_run(&p, WHOLE);
    assert_true(box_h2_is_established(p.client->h));
    for (int i = 0; i < 100; i++)
        (void)h2_peer_call(p.client, "/box.Test/Unary", NULL, 0);
    assert_true(box_h2_can_start(p.client->h)); /* as the server's SETTINGS say */
}

static void a_client_waits_for_a_free_stream(void **state)
{
    (void)state;
    BOX_AUTO(h2_pair_done)
    h2_pair p = {h2_peer_new(false, NULL), h2_peer_new(true, &(box_h2_config){.max_streams = 1})};
    pair_run(&p, WHOLE);
    seen *first = h2_peer_call(p.client, "/box.Test/Unary", NULL, 0);
    seen *second = h2_peer_call(p.client, "/box.Test/Unary", NULL, 0);
    seen *third = h2_peer_call(p.client, "/box.Test/Unary", NULL, 0);
    assert_false(box_h2_can_start(p.client->h));
    pair_run(&p, WHOLE);
    assert_int_equal(p.server->n_seen, 1);
    box_h2_cancel(second->s, &(box_error){.reason = BOX_DEADLINE}); /* while it waits */
    assert_int_equal(second->why.reason, BOX_DEADLINE);
    box_h2_finish(p.server->seen[0].s, NULL, NULL);
    box_h2_half_close(first->s);
    pair_run(&p, WHOLE);
    assert_ok(first);
    assert_int_equal(p.server->n_seen, 2);
    box_h2_finish(p.server->seen[1].s, NULL, NULL);
    assert_false(box_h2_can_start(p.client->h));
    pair_run(&p, WHOLE);
    assert_ok(third);
    assert_true(box_h2_can_start(p.client->h));
}

/* --- ends ------------------------------------------------------------------------------------- */

static void a_client_cancels(void **state)
{
    (void)state;
    BOX_AUTO(h2_pair_done) h2_pair p = h2_pair_new();
    seen *call = h2_peer_call(p.client, "/box.Test/Chat", NULL, 0);
    h2_peer_text(call, "x");
    pair_run(&p, WHOLE);
    box_h2_cancel(call->s, &(box_error){.reason = BOX_CANCELLED});
    assert_int_equal(call->n_closed, 1);
    assert_int_equal(call->why.reason, BOX_CANCELLED);
    pair_run(&p, WHOLE);
    assert_int_equal(p.server->seen[0].n_closed, 1);
    assert_int_equal(p.server->seen[0].why.reason, BOX_CANCELLED);
    assert_int_equal(box_h2_stream_count(p.client->h), 0);
    assert_int_equal(box_h2_stream_count(p.server->h), 0);
}

static void a_server_cancels(void **state)
{
    (void)state;
    BOX_AUTO(h2_pair_done) h2_pair p = h2_pair_new();
    seen *call = h2_peer_call(p.client, "/box.Test/Chat", NULL, 0);
    pair_run(&p, WHOLE);
    box_h2_cancel(p.server->seen[0].s, &(box_error){.reason = BOX_DEADLINE});
    assert_int_equal(p.server->seen[0].why.reason, BOX_DEADLINE);
    pair_run(&p, WHOLE);
    assert_int_equal(call->n_closed, 1);
    assert_int_equal(call->why.reason, BOX_CANCELLED);
    assert_int_equal(box_h2_stream_count(p.server->h), 0);
}

static void a_call_cancelled_before_it_was_sent_never_arrives(void **state)
{
    (void)state;
    BOX_AUTO(h2_pair_done) h2_pair p = h2_pair_new();
    seen *call = h2_peer_call(p.client, "/box.Test/Chat", NULL, 0);
    h2_peer_text(call, "x");
    box_h2_cancel(call->s, &(box_error){.reason = BOX_CANCELLED});
    pair_run(&p, WHOLE);
    assert_int_equal(call->n_closed, 1);
    assert_int_equal(p.server->n_seen, 0);
}

static void cancel_in_message(seen *call, const uint8_t *data, size_t len)
{
    (void)data, (void)len;
    box_h2_cancel(call->s, &(box_error){.reason = BOX_CANCELLED});
}

static void a_client_may_cancel_inside_a_message(void **state)
{
    (void)state;
    BOX_AUTO(h2_pair_done) h2_pair p = h2_pair_new();
    p.client->on_message = cancel_in_message;
    p.server->on_half_close = stream_three;
    seen *call = h2_peer_call(p.client, "/box.Test/Watch", NULL, 0);
    box_h2_half_close(call->s);
    pair_run(&p, WHOLE);
    assert_int_equal(call->n_messages, 1);
    assert_int_equal(call->n_closed, 1);
    assert_int_equal(call->why.reason, BOX_CANCELLED);
}

static void finish_in_message(seen *call, const uint8_t *data, size_t len)
{
    (void)data, (void)len;
    box_error err;
    (void)box_fail(&err, BOX_FILE_CONFLICT, "enough");
    box_h2_finish(call->s, &err, NULL);
}

static void a_server_may_finish_early_and_the_rest_is_dropped(void **state)
{
    (void)state;
    static uint8_t piece[60000], big[1024 * 1024];
    BOX_AUTO(h2_pair_done) h2_pair p = h2_pair_new();
    p.server->on_message = finish_in_message;
    seen *call = h2_peer_call(p.client, "/box.Test/Upload", NULL, 0);
    for (int i = 0; i < 40; i++)
        box_h2_message(call->s, piece, sizeof piece);
    pair_run(&p, 777);
    assert_int_equal(call->why.reason, BOX_FILE_CONFLICT);
    assert_int_equal(p.server->seen[0].n_messages, 1);
    assert_ok(&p.server->seen[0]);
    /* The connection's window came back: 8 MiB of other calls pass. */
    p.server->on_message = NULL;
    p.server->on_half_close = end_ok;
    for (int i = 0; i < 8; i++) {
        seen *next = h2_peer_call(p.client, "/box.Test/Upload", NULL, 0);
        box_h2_message(next->s, big, sizeof big);
        box_h2_half_close(next->s);
        pair_run(&p, WHOLE);
        assert_ok(next);
    }
}

static void a_lost_connection_ends_every_call(void **state)
{
    (void)state;
    BOX_AUTO(h2_pair_done) h2_pair p = h2_pair_new();
    seen *call = h2_peer_call(p.client, "/box.Test/Chat", NULL, 0);
    pair_run(&p, WHOLE);
    h2_peer_lose(p.server);
    assert_int_equal(p.server->seen[0].n_closed, 1);
    assert_int_equal(p.server->seen[0].why.reason, BOX_CANCELLED);
    h2_peer_lose(p.client);
    assert_int_equal(call->n_closed, 1);
    assert_int_equal(call->why.reason, BOX_RUNTIME_UNAVAILABLE);
}

static void an_answer_that_came_survives_the_loss_of_the_connection(void **state)
{
    (void)state;
    BOX_AUTO(h2_pair_done) h2_pair p = h2_pair_new();
    p.server->on_half_close = stream_three;
    seen *call = h2_peer_call(p.client, "/box.Test/Watch", NULL, 0);
    box_h2_half_close(call->s);
    box_h2_pause(call->s, true);
    pair_run(&p, WHOLE);
    assert_int_equal(call->n_messages, 0);
    assert_int_equal(call->n_closed, 0);
    h2_peer_lose(p.client);
    assert_int_equal(call->n_messages, 3);
    assert_ok(call);
}

static void a_drain_lets_calls_finish_and_refuses_new_ones(void **state)
{
    (void)state;
    BOX_AUTO(h2_pair_done) h2_pair p = h2_pair_new();
    p.server->on_half_close = answer_once;
    seen *call = h2_peer_call(p.client, "/box.Test/Chat", NULL, 0);
    pair_run(&p, WHOLE);
    box_h2_drain(p.server->h, NULL);
    pair_run(&p, WHOLE); /* both GOAWAYs: the PING was answered */
    assert_int_equal(p.client->n_goaway, 2);
    assert_int_equal(call->n_closed, 0);
    box_error err;
    box_h2_stream *s;
    assert_int_equal(
        box_h2_request_start(p.client->h, "/a/b", NULL, 0, BOX_IDENTITY, NULL, &s, &err), -1);
    assert_int_equal(err.reason, BOX_RUNTIME_UNAVAILABLE);
    assert_false(box_h2_is_done(p.server->h));
    h2_peer_text(call, "late");
    box_h2_half_close(call->s);
    pair_run(&p, WHOLE);
    assert_ok(call);
    assert_bytes(&p.server->seen[0], "late");
    assert_true(box_h2_is_done(p.server->h));
    assert_true(box_h2_is_done(p.client->h));
}

static void calls_the_server_never_took_end_unavailable(void **state)
{
    (void)state;
    BOX_AUTO(h2_pair_done) h2_pair p = h2_pair_new();
    pair_run(&p, WHOLE);
    box_h2_drain(p.server->h, NULL);
    box_h2_drain_finish(p.server->h);
    seen *call = h2_peer_call(p.client, "/box.Test/Chat", NULL, 0);
    BOX_AUTO(box_buf_done) box_buf lost = {0};
    box_error err;
    assert_int_equal(box_h2_send(p.client->h, &lost, WHOLE, &err), 0); /* crosses the GOAWAY */
    assert_true(h2_move(p.server, p.client, WHOLE, WHOLE) > 0);
    assert_int_equal(call->n_closed, 1);
    assert_int_equal(call->why.reason, BOX_RUNTIME_UNAVAILABLE);
    assert_int_equal(h2_feed(p.server, box_buf_data(&lost), box_buf_len(&lost), WHOLE), 0);
    assert_int_equal(p.server->n_seen, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_work_however_the_bytes_are_cut),
        cmocka_unit_test(many_calls_share_a_connection),
        cmocka_unit_test(a_client_starts_a_hundred_calls_before_it_knows_the_limit),
        cmocka_unit_test(a_client_waits_for_a_free_stream),
        cmocka_unit_test(a_client_cancels),
        cmocka_unit_test(a_server_cancels),
        cmocka_unit_test(a_call_cancelled_before_it_was_sent_never_arrives),
        cmocka_unit_test(a_client_may_cancel_inside_a_message),
        cmocka_unit_test(a_server_may_finish_early_and_the_rest_is_dropped),
        cmocka_unit_test(a_lost_connection_ends_every_call),
        cmocka_unit_test(an_answer_that_came_survives_the_loss_of_the_connection),
        cmocka_unit_test(a_drain_lets_calls_finish_and_refuses_new_ones),
        cmocka_unit_test(calls_the_server_never_took_end_unavailable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
