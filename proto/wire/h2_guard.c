/* What a peer may cost: everything here is counted against a server's clients only. The first limit
 * that is passed ends the connection with GOAWAY ENHANCE_YOUR_CALM and a word why. */
#include "base/limits.h"
#include "wire/h2_internal.h"

/* WINDOW_UPDATEs a frame of ours may be answered with: of stream and connection, and some room. */
enum { UPDATES_EACH = 4 };

static void end_connection(box_h2 *h, const char *text)
{
    if (h->is_broken)
        return;
    box_h2_blame(h, BOX_RATE_LIMIT, "the client costs too much: %s", text);
    box_h2_break(h, text);
    box_h2_check(h, nghttp2_submit_goaway(h->session, NGHTTP2_FLAG_NONE,
                                          nghttp2_session_get_last_proc_stream_id(h->session),
                                          NGHTTP2_ENHANCE_YOUR_CALM, (const uint8_t *)text,
                                          strlen(text)));
}

/* Takes n from a bucket of `burst` that fills at `per_second`; false when it is empty. */
static bool take(const box_h2 *h, box_time *full_at, uint64_t n, uint64_t burst,
                 uint64_t per_second)
{
    const uint64_t each = BOX_SECOND / per_second;
    box_time from = *full_at > h->guard.now ? *full_at : h->guard.now;
    *full_at = from + n * each;
    return *full_at - h->guard.now <= burst * each;
}

void box_h2_guard_reset(box_h2 *h, unsigned weight)
{
    if (h->config.server &&
        !take(h, &h->guard.resets, weight, BOX_STREAM_RESET_BURST, BOX_STREAM_RESET_RATE))
        end_connection(h, "too_many_resets");
}

/* DATA too short for a message's prefix carries nothing a sane peer would send often, nor does
 * WINDOW_UPDATE while we send nothing. */
static bool is_idle_frame(box_h2 *h, const nghttp2_frame_hd *hd)
{
    switch (hd->type) {
    case NGHTTP2_WINDOW_UPDATE:
        if (h->guard.updates_due == 0)
            return true;
        h->guard.updates_due--;
        return false;
    case NGHTTP2_DATA:
        return hd->length < H2_PREFIX && (hd->flags & NGHTTP2_FLAG_END_STREAM) == 0;
    case NGHTTP2_SETTINGS:
    case NGHTTP2_PRIORITY:
    case NGHTTP2_CONTINUATION:
        return true;
    default:
        return false;
    }
}

void box_h2_guard_frame(box_h2 *h, const nghttp2_frame_hd *hd)
{
    if (h->config.server && is_idle_frame(h, hd) &&
        !take(h, &h->guard.idle_frames, 1, BOX_IDLE_FRAME_BURST, BOX_IDLE_FRAME_RATE))
        end_connection(h, "too_many_idle_frames");
}

void box_h2_guard_block(box_h2 *h)
{
    h->guard.block_bytes = 0;
    h->guard.block_since = h->receiving != NULL ? h->guard.now : 0;
}

bool box_h2_guard_field(box_h2 *h, size_t bytes)
{
    size_t before = h->guard.block_bytes / BOX_MAX_HEADER_LIST_BYTES;
    h->guard.block_bytes += bytes;
    size_t after = h->guard.block_bytes / BOX_MAX_HEADER_LIST_BYTES;
    if (!h->config.server || after == before)
        return true;
    box_h2_guard_reset(h, (unsigned)(after - before) * BOX_LARGE_HEADER_WEIGHT);
    if (h->guard.block_bytes > BOX_HEADER_BOMB_BYTES)
        end_connection(h, "headers_too_large");
    return !h->is_broken;
}

void box_h2_guard_block_end(box_h2 *h)
{
    h->guard.block_since = 0;
}

/* grpc/proposal A8. What we send in between shows that the peer may be waiting for something. */
void box_h2_guard_ping(box_h2 *h)
{
    h2_guard *g = &h->guard;
    uint64_t interval = h->config.ping_min_interval_ns;
    if (!h->config.server || interval == 0)
        return;
    if (h->n_streams == 0 && !h->config.permit_ping_without_calls)
        interval = BOX_PING_IDLE_SECONDS * BOX_SECOND;
    if (g->pinged && g->now < box_time_add(g->ping_at, interval) &&
        ++g->ping_strikes > BOX_PING_STRIKES)
        end_connection(h, "too_many_pings");
    g->pinged = true;
    g->ping_at = g->now;
}

void box_h2_guard_sent(box_h2 *h)
{
    if (h->guard.updates_due < BOX_IDLE_FRAME_BURST)
        h->guard.updates_due += UPDATES_EACH;
    h->guard.pinged = false;
    h->guard.ping_strikes = 0;
}

/* Resets and acknowledgements that a peer provokes and does not read. */
void box_h2_guard_queue(box_h2 *h)
{
    if (h->config.server &&
        nghttp2_session_get_outbound_queue_size(h->session) > BOX_MAX_QUEUED_FRAMES)
        end_connection(h, "too_much_unread");
}

box_time box_h2_heard_at(const box_h2_stream *s)
{
    return s->heard_at;
}

box_time box_h2_owed_since(const box_h2_stream *s)
{
    bool owes = !s->remote_end && !s->paused && box_buf_len(&s->held) == 0;
    return owes && (s->prefix_len > 0 || !s->message_seen) ? s->heard_at : 0;
}

static void sweep(box_h2_stream *s)
{
    box_time now = s->h->guard.now;
    if (!s->local_end || s->gone)
        return;
    if (s->deliver_by == 0)
        s->deliver_by =
            now +
            (BOX_ANSWER_SECONDS + box_buf_len(&s->out) / BOX_ANSWER_BYTES_PER_SECOND) * BOX_SECOND;
    else if (now >= s->deliver_by)
        box_h2_stream_reset(s, NGHTTP2_CANCEL);
}

void box_h2_sweep(box_h2 *h)
{
    for (box_list *at = h->streams.next; at != &h->streams; at = at->next)
        sweep(BOX_CONTAINER(at, box_h2_stream, link));
}

bool box_h2_is_costly(const box_h2 *h)
{
    const h2_guard *g = &h->guard;
    return g->resets > g->now + BOX_COSTLY * (BOX_SECOND / BOX_STREAM_RESET_RATE) ||
           g->idle_frames > g->now + BOX_COSTLY * (BOX_SECOND / BOX_IDLE_FRAME_RATE);
}
