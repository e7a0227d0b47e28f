#include "conn.h"

/* Keepalive (grpc-conformance.md, 109). Stock servers take PINGs that come sooner than 5 minutes
 * after each other for abuse, unless they sent headers or data meanwhile (gRFC A8); where the
 * program did not say how often it wants them, we keep to that. */
static const uint64_t polite_ns = 301 * BOX_SECOND;

static bool is_wanted(const box_conn *conn)
{
    const box_channel *c = conn->channel;
    return c->keepalive_ns != BOX_TIME_NEVER &&
           (c->keepalive_without_calls || box_h2_stream_count(conn->h2) > 0);
}

static box_time ask_at(const box_conn *conn)
{
    const box_channel *c = conn->channel;
    box_time at = box_time_add(conn->heard_at, c->keepalive_ns);
    if (!c->keepalive_is_usual || conn->pinged_at == 0 || conn->is_answering)
        return at;
    box_time polite = box_time_add(conn->pinged_at, polite_ns);
    return polite > at ? polite : at;
}

box_time box_conn_alive_by(const box_conn *conn)
{
    if (conn->is_asked)
        return box_time_add(conn->pinged_at, conn->channel->keepalive_timeout_ns);
    return is_wanted(conn) ? ask_at(conn) : BOX_TIME_NEVER;
}

int box_conn_check_alive(box_conn *conn, box_time now, box_error *err)
{
    if (conn->is_asked)
        return box_fail(err, BOX_RUNTIME_UNAVAILABLE,
                        "the server has said nothing for %d s, and does not answer a ping",
                        (int)(box_time_left(now, conn->heard_at) / BOX_SECOND));
    conn->is_asked = true;
    conn->is_answering = false;
    conn->pinged_at = now;
    box_h2_ping(conn->h2);
    return 0;
}

void box_conn_ask_less(box_conn *conn)
{
    uint64_t *ns = &conn->channel->keepalive_ns;
    *ns = box_time_add(*ns, *ns);
}

void box_conn_heard(box_conn *conn)
{
    conn->heard_at = box_now();
    if (!conn->is_asked)
        return;
    conn->is_asked = false; /* the next PING may be due before this one's answer was */
    box_channel_note_expiry(conn->channel, box_conn_alive_by(conn));
}

void box_conn_use(box_conn *conn)
{
    if (box_h2_stream_count(conn->h2) > 0)
        return;
    if (!conn->is_asked)
        conn->heard_at = box_now(); /* before, nobody wanted to know */
    box_channel_note_expiry(conn->channel,
                            box_time_add(conn->heard_at, conn->channel->keepalive_ns));
}
