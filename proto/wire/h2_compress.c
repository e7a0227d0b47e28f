#include "base/limits.h"
#include "wire/h2_internal.h"

/* The peer's own encoding first, then what most peers know. */
static box_encoding first_accepted(const box_h2_stream *s)
{
    const box_encoding order[] = {s->in_encoding, BOX_GZIP, BOX_DEFLATE};
    for (size_t i = 0; i < BOX_COUNT(order); i++) {
        if (order[i] != BOX_IDENTITY && order[i] != BOX_ENCODING_OTHER &&
            (s->accepts >> order[i] & 1) != 0)
            return order[i];
    }
    return BOX_IDENTITY;
}

void box_h2_choose_encoding(box_h2_stream *s)
{
    bool wanted = s->wants_encoding || s->compress == BOX_COMPRESS_ALWAYS;
    bool asked = s->in_encoding != BOX_IDENTITY && s->compress == BOX_COMPRESS_AUTO;
    box_encoding e = wanted || asked ? first_accepted(s) : BOX_IDENTITY;
    s->out_encoding = wanted || e == s->in_encoding ? e : BOX_IDENTITY;
}

bool box_h2_compress(box_h2_stream *s, const uint8_t *data, size_t len, box_buf *out)
{
    if (s->out_encoding == BOX_IDENTITY || s->compress == BOX_COMPRESS_NEVER ||
        len > BOX_STREAM_UNSENT_BYTES || /* it is refused anyway */
        (s->compress == BOX_COMPRESS_AUTO && len < BOX_MIN_COMPRESS_BYTES))
        return false;
    box_error err;
    out->share = &s->h->memory;
    /* Without room for it the message goes as it is. */
    return box_compress(s->out_encoding, data, len, out, &err) == 0 && box_buf_len(out) < len;
}

void box_h2_set_compress(box_h2_stream *s, box_compress_mode mode)
{
    s->compress = mode;
    s->wants_encoding |= mode == BOX_COMPRESS_ALWAYS;
}

bool box_h2_was_compressed(const box_h2_stream *s)
{
    return s->was_compressed;
}
