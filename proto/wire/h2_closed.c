/* Frames on streams that are over. nghttp2 keeps no closed streams for us (a connection would hold
 * a thousand) and so ignores what comes for one, and a stream number that falls. RFC 9113, 5.1 and
 * 5.1.1 want it to end the connection, or to be reset where the client had reset the stream; so
 * frame headers are looked at here before nghttp2 gets them.
 *
 * A stream that we reset is never among the closed ones: its frames may have been on their way. Few
 * are remembered, so a frame may still be ignored that should not be; none is taken for wrong that
 * is right. */
#include "wire/h2_internal.h"

enum { PREFACE_BYTES = 24, ODD = 1 };

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

/* False when the frame that begins so ended the connection. */
static bool check_frame(box_h2 *h, const uint8_t *head)
{
    uint8_t type = head[3];
    int32_t id = (int32_t)((uint32_t)(head[5] & 0x7f) << 24 | (uint32_t)head[6] << 16 |
                           (uint32_t)head[7] << 8 | head[8]);
    if (type == NGHTTP2_PRIORITY && id == 0) {
        end_connection(h, NGHTTP2_PROTOCOL_ERROR, "PRIORITY: stream 0");
        return false;
    }
    if ((type != NGHTTP2_DATA && type != NGHTTP2_HEADERS) || (id & ODD) == 0)
        return true; /* nghttp2's business */
    if (is_among(&h->closed, id)) {
        end_connection(h, NGHTTP2_STREAM_CLOSED, "a frame on a closed stream");
        return false;
    }
    if (is_among(&h->closed, -id)) {
        box_h2_check(
            h, nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, id, NGHTTP2_STREAM_CLOSED));
        return true; /* nghttp2 drops it, and knows window and header table */
    }
    return type != NGHTTP2_HEADERS || check_number(h, id);
}

size_t box_h2_closed_scan(box_h2 *h, const uint8_t *data, size_t len)
{
    h2_closed *c = &h->closed;
    if (!h->config.server)
        return len;
    if (!c->began) {
        c->began = true;
        c->skip = PREFACE_BYTES;
    }
    for (size_t at = 0; at < len;) {
        if (c->skip > 0) {
            size_t n = c->skip < len - at ? c->skip : len - at;
            c->skip -= n;
            at += n;
            if (c->skip == 0 && c->stops) { /* what nghttp2 makes of it is needed for the next */
                c->stops = false;
                return at;
            }
            continue;
        }
        c->head[c->head_len++] = data[at++];
        if (c->head_len < H2_FRAME_HEAD)
            continue;
        c->head_len = 0;
        c->skip = (size_t)c->head[0] << 16 | (size_t)c->head[1] << 8 | c->head[2];
        c->stops = c->head[3] == NGHTTP2_RST_STREAM && c->skip > 0;
        if (!check_frame(h, c->head))
            return 0;
    }
    return len;
}
