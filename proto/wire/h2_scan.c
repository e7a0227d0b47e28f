/* Frames are looked at here before nghttp2 gets them, for what it takes otherwise than we must:
 *
 * - It keeps no closed streams for us (a connection would hold a thousand) and so ignores what
 * comes for one, and a stream number that falls. RFC 9113, 5.1 and 5.1.1 want it to end the
 * connection, or to be reset where the client had reset the stream. A stream that we reset is never
 * among the closed ones: its frames may have been on their way. Few are remembered, so a frame may
 * still be ignored that should not be; none is taken for wrong that is right.
 * - The reset of a call that never came ends nothing (is_reset_of_unsent).
 * - WINDOW_UPDATE by 0 is an error of its stream (RFC 9113, 6.9), not of all. */
#include "wire/h2_internal.h"

enum { PREFACE_BYTES = 24, RESET_BYTES = 4, WINDOW_BYTES = 4, ODD = 1 };

static bool is_among(const h2_scan *c, int32_t id)
{
    bool found = false;
    for (size_t i = 0; i < H2_CLOSED_STREAMS; i++)
        found |= c->ids[i] == id;
    return found;
}

void box_h2_scan_closed(box_h2 *h, int32_t id, bool by_reset)
{
    h2_scan *c = &h->scan;
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
    h2_scan *c = &h->scan;
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

typedef enum verdict { FRAME_PASSES, FRAME_IS_DROPPED, FRAME_ENDS_IT } verdict;

static verdict check_stream(box_h2 *h, uint8_t type, int32_t id)
{
    if (type == NGHTTP2_PRIORITY && id == 0) {
        end_connection(h, NGHTTP2_PROTOCOL_ERROR, "PRIORITY: stream 0");
        return FRAME_ENDS_IT;
    }
    if ((type != NGHTTP2_DATA && type != NGHTTP2_HEADERS) || (id & ODD) == 0)
        return FRAME_PASSES; /* nghttp2's business */
    if (is_among(&h->scan, id)) {
        end_connection(h, NGHTTP2_STREAM_CLOSED, "a frame on a closed stream");
        return FRAME_ENDS_IT;
    }
    if (is_among(&h->scan, -id)) {
        box_h2_check(
            h, nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, id, NGHTTP2_STREAM_CLOSED));
        return FRAME_PASSES; /* nghttp2 drops it, and knows window and header table */
    }
    return type != NGHTTP2_HEADERS || check_number(h, id) ? FRAME_PASSES : FRAME_ENDS_IT;
}

typedef struct frame_head {
    const uint8_t *bytes;
    size_t payload;
    size_t bytes_len; /* of bytes; with what must be known of the payload */
    int32_t id;
    uint8_t type, flags;
} frame_head;

/* False until enough of it came: all WINDOW_UPDATE is part of the head. */
static bool head_parse(const uint8_t *b, size_t len, frame_head *out)
{
    if (len < H2_FRAME_HEAD)
        return false;
    *out = (frame_head){
        .bytes = b,
        .payload = (size_t)b[0] << 16 | (size_t)b[1] << 8 | b[2],
        .bytes_len = H2_FRAME_HEAD,
        .id = (int32_t)((uint32_t)(b[5] & 0x7f) << 24 | (uint32_t)b[6] << 16 | (uint32_t)b[7] << 8 |
                        b[8]),
        .type = b[3],
        .flags = b[4],
    };
    if (out->type == NGHTTP2_WINDOW_UPDATE && out->payload == WINDOW_BYTES)
        out->bytes_len += WINDOW_BYTES;
    return len >= out->bytes_len;
}

static bool is_window_of_0(const frame_head *f)
{
    static const uint8_t zero[WINDOW_BYTES];
    return f->bytes_len == H2_WINDOW_UPDATE && f->id != 0 &&
           (f->bytes[H2_FRAME_HEAD] & 0x7f) == 0 &&
           memcmp(f->bytes + H2_FRAME_HEAD + 1, zero, WINDOW_BYTES - 1) == 0;
}

/* Whether the frame is answered with the end of its stream alone. */
static bool is_stream_error(box_h2 *h, const frame_head *f)
{
    if (!is_window_of_0(f) || h->scan.in_block ||
        nghttp2_session_get_stream_user_data(h->session, f->id) == NULL)
        return false;
    box_h2_check(
        h, nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, f->id, NGHTTP2_PROTOCOL_ERROR));
    return true;
}

/* A call that is cancelled before its HEADERS were written: C-core (grpcio, grpc++) sends the reset
 * of a stream that never was and never will be. RFC 9113, 5.1 would end the connection and all that
 * runs on it; servers of C-core ignore it. The reset is dropped where it can be such a one. */
static bool is_reset_of_unsent(const box_h2 *h, const frame_head *f)
{
    const h2_scan *c = &h->scan;
    return f->type == NGHTTP2_RST_STREAM && f->payload == RESET_BYTES && (f->id & ODD) != 0 &&
           !c->in_block && c->last_id > 0 && f->id > c->last_id &&
           (uint32_t)(f->id - c->last_id) / 2 <= h->config.max_streams;
}

/* What to do with the frame that begins so; its payload is skipped then. */
static verdict begin_frame(box_h2 *h, const frame_head *f)
{
    h2_scan *c = &h->scan;
    c->skip = f->payload - (f->bytes_len - H2_FRAME_HEAD);
    c->stops = f->type == NGHTTP2_RST_STREAM && f->payload > 0;
    c->drops = is_stream_error(h, f);
    if (!h->config.server || c->drops)
        return c->drops ? FRAME_IS_DROPPED : FRAME_PASSES;
    if (is_reset_of_unsent(h, f)) {
        c->drops = true;
        box_h2_guard_reset(h, 1);
        return h->is_broken ? FRAME_ENDS_IT : FRAME_IS_DROPPED;
    }
    if (f->type == NGHTTP2_HEADERS || f->type == NGHTTP2_CONTINUATION)
        c->in_block = (f->flags & NGHTTP2_FLAG_END_HEADERS) == 0;
    return check_stream(h, f->type, f->id);
}

/* The head of a frame that came in two reads: nghttp2 gets it when it is whole. */
static h2_piece split_head(box_h2 *h, const uint8_t *data, size_t len)
{
    h2_scan *c = &h->scan;
    frame_head f;
    size_t n = 0;
    do {
        c->head[c->head_len++] = data[n++];
    } while (n < len && !head_parse(c->head, c->head_len, &f));
    if (!head_parse(c->head, c->head_len, &f))
        return (h2_piece){.used = n};
    c->head_len = 0;
    bool passes = begin_frame(h, &f) == FRAME_PASSES;
    return (h2_piece){.data = c->head, .len = passes ? f.bytes_len : 0, .used = n};
}

static h2_piece keep_head(h2_scan *c, const uint8_t *data, size_t at, size_t len)
{
    c->head_len = (uint8_t)(len - at);
    memcpy(c->head, data + at, len - at);
    return (h2_piece){data, at, len};
}

/* Of what is skipped; sets *ends where nghttp2 must have dealt with it before the next is looked
 * at.
 */
static size_t skip(h2_scan *c, size_t len, bool *ends)
{
    size_t n = c->skip < len ? c->skip : len;
    c->skip -= n;
    *ends = c->skip == 0 && c->stops;
    if (*ends)
        c->stops = false;
    return n;
}

static h2_piece next_piece(box_h2 *h, const uint8_t *data, size_t len)
{
    h2_scan *c = &h->scan;
    bool ends = false;
    size_t at = 0;
    while (at < len && !ends) {
        frame_head f;
        if (c->skip > 0) {
            at += skip(c, len - at, &ends);
            continue;
        }
        if (!head_parse(data + at, len - at, &f))
            return keep_head(c, data, at, len);
        if (at > 0 && is_window_of_0(&f))
            break; /* nghttp2 must know its stream first */
        verdict v = begin_frame(h, &f);
        if (v != FRAME_PASSES)
            return (h2_piece){data, v == FRAME_ENDS_IT ? 0 : at, at + f.bytes_len};
        at += f.bytes_len;
    }
    return (h2_piece){data, at, at};
}

h2_piece box_h2_scan_next(box_h2 *h, const uint8_t *data, size_t len)
{
    h2_scan *c = &h->scan;
    if (!c->began) {
        c->began = true;
        c->skip = h->config.server ? PREFACE_BYTES : 0;
    }
    if (c->head_len > 0)
        return split_head(h, data, len);
    bool ends = false;
    if (c->drops && c->skip > 0)
        return (h2_piece){.used = skip(c, len, &ends)};
    return next_piece(h, data, len);
}
