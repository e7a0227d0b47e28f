/* Frames on streams that are over. nghttp2 keeps no closed streams for us (a connection would hold
 * a thousand) and so ignores what comes for one, and a stream number that falls. RFC 9113, 5.1 and
 * 5.1.1 want it to end the connection, or to be reset where the client had reset the stream; so
 * frame headers are looked at here before nghttp2 gets them.
 *
 * A stream that we reset is never among the closed ones: its frames may have been on their way. Few
 * are remembered, so a frame may still be ignored that should not be; none is taken for wrong that
 * is right. */
#include "wire/h2_internal.h"

enum { PREFACE_BYTES = 24, RESET_BYTES = 4, ODD = 1 };

static bool is_among(const h2_closed *c, int32_t id)
{
    bool found = false;
    for (size_t i = 0; i < H2_CLOSED_STREAMS; i++)
        found |= c->ids[i] == id;
    return found;
}

void box_h2_closed_add(box_h2 *h, int32_t id, bool by_reset)
{
    h2_closed *c = &h->closed;
    if (is_among(c, id) || is_among(c, -id))
        return;
    c->ids[c->next] = by_reset ? -id : id;
    c->next = (c->next + 1) % H2_CLOSED_STREAMS;
}

static void end_connection(box_h2 *h, uint32_t code, const char *text)
{
    box_h2_break(h, text);
    box_h2_check(h, nghttp2_submit_goaway(h->session, NGHTTP2_FLAG_NONE,
                                          nghttp2_session_get_last_proc_stream_id(h->session), code,
                                          (const uint8_t *)text, strlen(text)));
}

/* Numbers between the last stream and a new one are closed without ever having been open. */
static bool check_number(box_h2 *h, int32_t id)
{
    h2_closed *c = &h->closed;
    if (id > c->last_id) {
        if (id > c->last_id + 2) {
            c->skipped_from = c->last_id + 2;
            c->skipped_to = id - 2;
        }
        c->last_id = id;
    } else if (id >= c->skipped_from && id <= c->skipped_to) {
        end_connection(h, NGHTTP2_PROTOCOL_ERROR, "HEADERS: stream number falls");
        return false;
    }
    return true;
}

/* A call that is cancelled before its HEADERS were written: C-core (grpcio, grpc++) sends the reset
 * of a stream that never was and never will be. RFC 9113, 5.1 would end the connection and all that
 * runs on it; servers of C-core ignore it. The reset is dropped where it can be such a one. */
static bool is_reset_of_unsent(const box_h2 *h, const uint8_t *head, size_t payload, int32_t id)
{
    const h2_closed *c = &h->closed;
    return head[3] == NGHTTP2_RST_STREAM && payload == RESET_BYTES && (id & ODD) != 0 &&
           !c->in_block && c->last_id > 0 && id > c->last_id &&
           (uint32_t)(id - c->last_id) / 2 <= h->config.max_streams;
}

typedef enum verdict { FRAME_PASSES, FRAME_IS_DROPPED, FRAME_ENDS_IT } verdict;

static verdict check_stream(box_h2 *h, uint8_t type, int32_t id)
{
    if (type == NGHTTP2_PRIORITY && id == 0) {
        end_connection(h, NGHTTP2_PROTOCOL_ERROR, "PRIORITY: stream 0");
        return FRAME_ENDS_IT;
    }
    if ((type != NGHTTP2_DATA && type != NGHTTP2_HEADERS) || (id & ODD) == 0)
        return FRAME_PASSES; /* nghttp2's business */
    if (is_among(&h->closed, id)) {
        end_connection(h, NGHTTP2_STREAM_CLOSED, "a frame on a closed stream");
        return FRAME_ENDS_IT;
    }
    if (is_among(&h->closed, -id)) {
        box_h2_check(
            h, nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, id, NGHTTP2_STREAM_CLOSED));
        return FRAME_PASSES; /* nghttp2 drops it, and knows window and header table */
    }
    return type != NGHTTP2_HEADERS || check_number(h, id) ? FRAME_PASSES : FRAME_ENDS_IT;
}

/* What to do with the frame that begins with this head; it is skipped then. */
static verdict begin_frame(box_h2 *h, const uint8_t *head)
{
    h2_closed *c = &h->closed;
    uint8_t type = head[3];
    size_t payload = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
    int32_t id = (int32_t)((uint32_t)(head[5] & 0x7f) << 24 | (uint32_t)head[6] << 16 |
                           (uint32_t)head[7] << 8 | head[8]);
    c->skip = payload;
    c->drops = is_reset_of_unsent(h, head, payload, id);
    c->stops = type == NGHTTP2_RST_STREAM && payload > 0;
    if (c->drops) {
        box_h2_guard_reset(h, 1);
        return h->is_broken ? FRAME_ENDS_IT : FRAME_IS_DROPPED;
    }
    if (type == NGHTTP2_HEADERS || type == NGHTTP2_CONTINUATION)
        c->in_block = (head[4] & NGHTTP2_FLAG_END_HEADERS) == 0;
    return check_stream(h, type, id);
}

/* The head of a frame that came in two reads: nghttp2 gets it when it is whole. */
static h2_piece split_head(box_h2 *h, const uint8_t *data, size_t len)
{
    h2_closed *c = &h->closed;
    size_t rest = H2_FRAME_HEAD - (size_t)c->head_len;
    size_t n = rest < len ? rest : len;
    memcpy(c->head + c->head_len, data, n);
    c->head_len = (uint8_t)(c->head_len + n);
    if (c->head_len < H2_FRAME_HEAD)
        return (h2_piece){.used = n};
    c->head_len = 0;
    bool passes = begin_frame(h, c->head) == FRAME_PASSES;
    return (h2_piece){.data = c->head, .len = passes ? H2_FRAME_HEAD : 0, .used = n};
}

/* Of what is skipped; sets *ends where nghttp2 must have dealt with it before the next is looked
 * at.
 */
static size_t skip(h2_closed *c, size_t len, bool *ends)
{
    size_t n = c->skip < len ? c->skip : len;
    c->skip -= n;
    *ends = c->skip == 0 && c->stops;
    if (*ends)
        c->stops = false;
    return n;
}

h2_piece box_h2_closed_next(box_h2 *h, const uint8_t *data, size_t len)
{
    h2_closed *c = &h->closed;
    if (!h->config.server)
        return (h2_piece){data, len, len};
    if (!c->began) {
        c->began = true;
        c->skip = PREFACE_BYTES;
    }
    if (c->head_len > 0)
        return split_head(h, data, len);
    bool ends = false;
    if (c->drops && c->skip > 0)
        return (h2_piece){.used = skip(c, len, &ends)};
    size_t at = 0;
    while (at < len && !ends) {
        if (c->skip > 0) {
            at += skip(c, len - at, &ends);
            continue;
        }
        if (len - at < H2_FRAME_HEAD) {
            c->head_len = (uint8_t)(len - at);
            memcpy(c->head, data + at, len - at);
            return (h2_piece){data, at, len};
        }
        verdict v = begin_frame(h, data + at);
        if (v != FRAME_PASSES)
            return (h2_piece){data, v == FRAME_ENDS_IT ? 0 : at, at + H2_FRAME_HEAD};
        at += H2_FRAME_HEAD;
    }
    return (h2_piece){data, at, at};
}
