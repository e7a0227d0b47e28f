#include "base/alloc.h"
#include "internal.h"
#include "lane.h"
#include "wire/service.h"

static const char attempts_key[] = "grpc-previous-rpc-attempts";
static const char pushback_key[] = "grpc-retry-pushback-ms";

/* --- what may have to be sent again ------------------------------------------------------------
 */

static void drop_sent(box_client_call *call)
{
    for (box_outgoing *m = call->sent; m != NULL;) {
        box_outgoing *next = m->next;
        free(m);
        m = next;
    }
    call->sent = NULL;
    call->sent_end = &call->sent;
    call->sent_bytes = 0;
}

void box_attempt_commit(box_client_call *call)
{
    if (call->is_committed)
        return;
    call->is_committed = true;
    drop_sent(call);
    box_metadata_done(&call->metadata);
}

/* The server has answered, or there is more than is kept. */
static void commit_if_large(box_client_call *call)
{
    if (call->stream != NULL && call->sent_bytes > BOX_CLIENT_REPLAY_BYTES)
        box_attempt_commit(call);
}

static void keep(box_client_call *call, box_outgoing *m)
{
    m->next = NULL;
    *call->sent_end = m;
    call->sent_end = &m->next;
    call->sent_bytes += m->len;
}

static void write_message(box_h2_stream *s, const box_outgoing *m)
{
    box_h2_set_compress(s, m->compress);
    box_h2_message(s, m->data, m->len);
}

void box_attempt_send(box_client_call *call, box_outgoing *m)
{
    box_error err;
    if (call->stream != NULL)
        write_message(call->stream, m);
    if (call->done || call->is_committed) {
        free(m);
    } else if (call->stream == NULL && call->sent_bytes + m->len > BOX_STREAM_UNSENT_BYTES) {
        free(m);
        (void)box_fail(&err, BOX_MEMORY_BUDGET, "messages are produced faster than they are sent");
        box_client_call_fail(call, &err);
    } else {
        keep(call, m);
        commit_if_large(call);
    }
}

bool box_attempt_is_writable(const box_client_call *call)
{
    if (call->stream != NULL)
        return box_h2_is_writable(call->stream);
    return call->done || call->sent_bytes <= BOX_STREAM_HIGH_WATER_BYTES;
}

/* --- the queue ---------------------------------------------------------------------------------
 */

static void leave(box_client_call *call)
{
    if (!box_list_linked(&call->place))
        return;
    box_list_remove(&call->place);
    call->channel->n_waiting--;
    if (!call->is_delayed)
        call->channel->n_queued[call->wait_for_ready]--;
    call->is_delayed = false;
}

static void wait_for_place(box_client_call *call)
{
    box_channel *c = call->channel;
    box_list_append(&c->waiting, &call->place);
    c->n_waiting++;
    c->n_queued[call->wait_for_ready]++;
    c->look_again = true;
}

int box_attempt_start(box_client_call *call, box_error *err)
{
    box_channel *c = call->channel;
    if (c->n_waiting >= BOX_CLIENT_WAITING_CALLS) {
        (void)box_fail(err, BOX_QUOTA, "too many calls wait for a connection or a free stream");
        return box_error_limit(err, "waiting_calls", BOX_CLIENT_WAITING_CALLS,
                               (int64_t)c->n_waiting);
    }
    call->born_at = c->n_failures;
    wait_for_place(call);
    return 0;
}

void box_attempt_stop(box_client_call *call)
{
    leave(call);
    call->is_cancelled = true;
    box_attempt_commit(call);
}

static void delay(box_client_call *call, uint64_t pause_ns)
{
    box_channel *c = call->channel;
    call->again_at = box_time_add(box_now(), pause_ns);
    call->is_delayed = true;
    box_list_append(&c->delayed, &call->place);
    c->n_waiting++;
    box_channel_note_expiry(c, call->again_at);
}

box_time box_attempts_expire(box_channel *c, box_time now)
{
    box_time first = BOX_TIME_NEVER;
    for (box_list *at = c->delayed.next; at != &c->delayed;) {
        box_client_call *call = BOX_CONTAINER(at, box_client_call, place);
        at = at->next;
        if (call->again_at > now) {
            first = call->again_at < first ? call->again_at : first;
            continue;
        }
        leave(call);
        wait_for_place(call);
    }
    if (box_list_empty(&c->waiting))
        return first;
    c->look_again = true;
    box_time connect = box_lanes_next_try(c, now);
    return connect < first ? connect : first;
}

/* --- a place -----------------------------------------------------------------------------------
 */

static int request_start(box_client_call *call, box_h2 *h2, uint64_t timeout_ns, box_error *err)
{
    BOX_AUTO(box_metadata_done)
    box_metadata more = {0};
    const box_metadata *metadata = &call->metadata;
    if (call->attempts.made > 0) {
        char number[12];
        (void)snprintf(number, sizeof number, "%u", call->attempts.made);
        if (box_metadata_add_text(&more, attempts_key, number, err) < 0 ||
            box_metadata_add_all(&more, &call->metadata, err) < 0)
            return -1;
        metadata = &more;
    }
    return box_h2_request_start(h2, call->method->path, metadata, timeout_ns, call->encoding, call,
                                &call->stream, err);
}

/* All that was sent before, in a new stream. */
static void send_all(box_client_call *call)
{
    box_h2_limit_messages(call->stream, call->max_message_bytes);
    box_h2_pause(call->stream, call->paused || call->user_paused);
    for (const box_outgoing *m = call->sent; m != NULL; m = m->next)
        write_message(call->stream, m);
    if (call->half_closed)
        box_h2_half_close(call->stream);
    commit_if_large(call);
}

/* False: that connection takes no calls, after all. */
static bool take_place(box_client_call *call, box_lane *lane)
{
    uint64_t left_ns = 0;
    box_error err;
    if (call->deadline != 0) {
        left_ns = box_time_left(call->deadline, box_now());
        left_ns = left_ns != 0 ? left_ns : 1; /* it is ended in a moment */
    }
    box_conn_use(lane->conn);
    if (request_start(call, box_conn_h2(lane->conn), left_ns, &err) == 0) {
        leave(call);
        send_all(call);
        return true;
    }
    if (err.reason == BOX_RUNTIME_UNAVAILABLE)
        return false;
    leave(call);
    box_client_call_done(call, &err, NULL); /* too much metadata, for any connection */
    return true;
}

/* True: the call does not wait any more. */
static bool place(box_client_call *call, box_time now)
{
    box_channel *c = call->channel;
    box_lane *lane = box_lanes_pick(c, call);
    if (lane != NULL && take_place(call, lane))
        return true;
    if (lane != NULL)
        box_conn_retire(lane->conn);
    box_lanes_connect(c, now);
    const box_error *why = box_lanes_failure(c, call);
    if (why == NULL || call->wait_for_ready)
        return false;
    box_client_call_fail(call, why);
    return true;
}

void box_attempts_place(box_channel *c)
{
    bool is_full[2] = {c->n_queued[0] == 0, c->n_queued[1] == 0}; /* no place for such a call */
    box_time now = box_now();
    c->look_again = false;
    if (box_list_empty(&c->waiting))
        return;
    box_lanes_probe(c);
    if (c->balance == BOX_ROUND_ROBIN)
        box_lanes_connect(c, now); /* also those that are not missed just now */
    for (box_list *at = c->waiting.next; at != &c->waiting && !(is_full[0] && is_full[1]);) {
        box_client_call *call = BOX_CONTAINER(at, box_client_call, place);
        at = at->next; /* placing one leaves the others where they are */
        if (is_full[call->wait_for_ready])
            continue;
        is_full[call->wait_for_ready] = !place(call, now);
    }
    if (!box_list_empty(&c->waiting))
        box_channel_note_expiry(c, box_lanes_next_try(c, now));
}

void box_attempts_close(box_channel *c, const box_error *why)
{
    for (box_list *at = c->calls.next; at != &c->calls; at = at->next) {
        box_client_call *call = BOX_CONTAINER(at, box_client_call, link);
        if (box_list_linked(&call->place))
            box_client_call_fail(call, why);
    }
}

/* --- another attempt ---------------------------------------------------------------------------
 */

/* The server surely has not looked at it: again at once, whatever the policy. What never went out
 * may be sent as often as there are connections; what was refused once (gRFC A6). */
static bool may_resend(box_client_call *call, const box_h2_stream *s)
{
    if (!box_h2_was_refused(s))
        return false;
    if (!box_h2_was_sent(s))
        return true;
    bool first = !call->was_refused;
    call->was_refused = true;
    return first;
}

static bool may_retry(box_client_call *call, const box_error *why, const box_metadata *trailers,
                      uint64_t *pause_ns)
{
    box_channel *c = call->channel;
    const char *pushback = trailers != NULL ? box_metadata_get(trailers, pushback_key) : NULL;
    if (!call->idempotent)
        return false;
    call->attempts.made++;
    return box_retry_again(&c->retry, &call->attempts, box_error_code(why), pushback,
                           box_channel_random(c), pause_ns);
}

bool box_attempt_again(box_client_call *call, const box_h2_stream *s, const box_error *why,
                       const box_metadata *trailers)
{
    uint64_t pause_ns = 0;
    call->stream = NULL;
    call->channel->look_again = true; /* there is a free stream */
    if (call->is_cancelled || call->channel->closed)
        return false;
    if (box_error_code(why) == BOX_CODE_OK)
        box_retry_succeeded(&call->channel->retry);
    if (box_error_code(why) == BOX_CODE_OK || call->is_committed)
        return false;
    if (may_resend(call, s))
        wait_for_place(call);
    else if (may_retry(call, why, trailers, &pause_ns))
        delay(call, pause_ns);
    else
        return false;
    return true;
}
