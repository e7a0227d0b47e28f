#include "base/id.h"
#include "base/log.h"
#include "net/connection.h"

static const box_net_life *rules(const connection *c)
{
    return &c->nl->net->config.life;
}

void box_connection_set_timer(connection *c)
{
    if (!box_connection_is_stranger(c))
        c->life.stranger_at = BOX_TIME_NEVER;
    c->life.idle_since = box_rpc_connection_idle_since(c->rpc);
    box_timer_set(c->timer, box_life_next(&c->life, rules(c)));
}

void box_connection_opened(connection *c)
{
    uint64_t random;
    box_random(&random, sizeof random);
    box_life_start(&c->life, rules(c), box_now(), random);
    c->life.stranger_at = box_now() + BOX_STRANGER_SECONDS * BOX_SECOND;
    box_connection_set_timer(c);
    if (c->blocked) /* now its own limit counts */
        box_connection_set_blocked(c, true, true);
}

void box_connection_want_sweep(connection *c)
{
    if (c->life.sweep_at != BOX_TIME_NEVER || c->state != STATE_OPEN ||
        box_h2_stream_count(box_rpc_connection_h2(c->rpc)) == 0)
        return;
    c->life.sweep_at = box_loop_now(c->nl->loop) + BOX_SWEEP_SECONDS * BOX_SECOND;
    box_connection_set_timer(c);
}

void box_connection_cancel_calls(connection *c)
{
    box_error why = {0};
    (void)box_fail(&why, BOX_SHUTTING_DOWN, "the server is stopping");
    box_rpc_connection_end_calls(c->rpc, &why);
    box_connection_want_flush(c);
}

static void leave(connection *c, const char *why)
{
    box_h2_drain(box_rpc_connection_h2(c->rpc), why);
    box_connection_want_flush(c);
}

/* One that watches the server's health stays. */
static void send_stranger_away(connection *c)
{
    if (!box_connection_is_stranger(c) || box_rpc_connection_has_calls(c->rpc))
        return;
    box_h2_drain(box_rpc_connection_h2(c->rpc), NULL);
    box_h2_drain_finish(box_rpc_connection_h2(c->rpc));
    box_connection_begin_closing(c);
}

/* Its last call is over: buffers that were large for an answer are not kept for the next. */
static void rest(connection *c)
{
    if (box_buf_len(&c->out) == 0)
        box_buf_done(&c->out);
    if (c->tls != NULL)
        box_tls_rest(c->tls);
}

static void sweep(connection *c)
{
    if (!box_rpc_connection_sweep(c->rpc, box_now())) {
        box_connection_handle(c, EVENT_FORCE);
        return;
    }
    box_connection_want_sweep(c);
    if (c->life.sweep_at == BOX_TIME_NEVER)
        rest(c);
}

static void act(connection *c, box_life_action action)
{
    switch (action) {
    case BOX_LIFE_NONE:
        return;
    case BOX_LIFE_PING:
        box_h2_ping(box_rpc_connection_h2(c->rpc));
        box_connection_want_flush(c);
        return;
    case BOX_LIFE_DEAD:
        box_log(BOX_DEBUG, "net.dead", BOX_STR("peer", c->from.address));
        box_connection_handle(c, EVENT_FORCE);
        return;
    case BOX_LIFE_AGE:
        leave(c, "max_age");
        return;
    case BOX_LIFE_IDLE:
        leave(c, "max_idle");
        return;
    case BOX_LIFE_LEAVE:
        box_connection_handle(c, EVENT_DRAIN_FINISH);
        return;
    case BOX_LIFE_CANCEL:
        box_connection_cancel_calls(c);
        return;
    case BOX_LIFE_STRANGER:
        send_stranger_away(c);
        return;
    case BOX_LIFE_SWEEP:
        sweep(c);
        return;
    }
}

void box_connection_time_passed(connection *c)
{
    box_life_action action;
    do {
        c->life.idle_since = box_rpc_connection_idle_since(c->rpc);
        action = box_life_due(&c->life, rules(c), box_now());
        act(c, action);
    } while (action != BOX_LIFE_NONE && c->state == STATE_OPEN);
    if (c->state == STATE_OPEN)
        box_connection_set_timer(c);
}
