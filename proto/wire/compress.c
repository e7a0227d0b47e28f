#include "wire/compress.h"

#include <assert.h>
#include <strings.h>
#include <zlib.h>

#include "base/limits.h"

/* Window bits of zlib.h: 15 is the largest window, 16 more means gzip. */
enum { ZLIB_FORMAT = 15, GZIP_FORMAT = 15 + 16, MEMORY_LEVEL = 8, PIECE_BYTES = 64 * 1024 };

static const char *const names[BOX_ENCODINGS] = {
    [BOX_IDENTITY] = "identity",
    [BOX_GZIP] = "gzip",
    [BOX_DEFLATE] = "deflate",
};

const char *box_encoding_name(box_encoding e)
{
    assert(e < BOX_ENCODINGS);
    return names[e];
}

box_encoding box_encoding_parse(const char *name, size_t len)
{
    for (unsigned e = 0; e < BOX_ENCODINGS; e++) {
        if (strlen(names[e]) == len && strncasecmp(names[e], name, len) == 0)
            return (box_encoding)e;
    }
    return len == 0 ? BOX_IDENTITY : BOX_ENCODING_OTHER;
}

static bool is_between(char c)
{
    return c == ',' || c == ' ' || c == '\t';
}

unsigned box_encodings_parse(const char *list, size_t len)
{
    unsigned found = 1u << BOX_IDENTITY;
    for (size_t at = 0; at < len;) {
        size_t n = 0;
        while (at + n < len && !is_between(list[at + n]))
            n++;
        box_encoding e = box_encoding_parse(list + at, n);
        if (e != BOX_ENCODING_OTHER)
            found |= 1u << e;
        at += n + 1;
    }
    return found;
}

static int window_bits(box_encoding e)
{
    assert(e == BOX_GZIP || e == BOX_DEFLATE);
    return e == BOX_GZIP ? GZIP_FORMAT : ZLIB_FORMAT;
}

/* zlib does not write to what it reads, and counts in unsigned int: messages are below 4 GiB. */
static void give_input(z_stream *z, const uint8_t *data, size_t len)
{
    assert(len <= UINT32_MAX);
    z->next_in = (Bytef *)(uintptr_t)data;
    z->avail_in = (uInt)len;
}

/* --- out -------------------------------------------------------------------------------------- */

static int deflate_all(z_stream *z, box_buf *out, box_error *err)
{
    for (int rv = Z_OK; rv != Z_STREAM_END;) {
        uint8_t *room;
        if (box_buf_reserve(out, PIECE_BYTES, &room, err) < 0)
            return -1;
        z->next_out = room;
        z->avail_out = PIECE_BYTES;
        rv = deflate(z, Z_FINISH);
        assert(rv == Z_OK || rv == Z_STREAM_END); /* all input is here and there is room */
        box_buf_commit(out, PIECE_BYTES - z->avail_out);
    }
    return 0;
}

int box_compress(box_encoding e, const uint8_t *data, size_t len, box_buf *out, box_error *err)
{
    z_stream z = {0};
    /* A loop thread's time counts more than the last bytes: level 1 takes a third of the default.
     */
    if (deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, window_bits(e), MEMORY_LEVEL,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return box_fail(err, BOX_MEMORY_BUDGET, "no memory to compress a message");
    give_input(&z, data, len);
    int rc = deflate_all(&z, out, err);
    (void)deflateEnd(&z); /* Z_DATA_ERROR when it stopped half way: known already */
    return rc;
}

/* --- in --------------------------------------------------------------------------------------- */

typedef struct inflation {
    z_stream z;
    size_t compressed_bytes, plain_bytes, max_bytes;
} inflation;

static int check_size(const inflation *i, box_error *err)
{
    if (i->plain_bytes > i->max_bytes) {
        (void)box_fail(err, BOX_MESSAGE_SIZE,
                       "a message of %zu compressed bytes is larger than the limit of %zu once "
                       "decompressed",
                       i->compressed_bytes, i->max_bytes);
        box_error_add_int(err, "max", (int64_t)i->max_bytes);
        return -1;
    }
    if (i->plain_bytes <= BOX_FREE_INFLATE_BYTES ||
        i->plain_bytes / BOX_MAX_INFLATE_RATIO <= i->compressed_bytes)
        return 0;
    (void)box_fail(err, BOX_MESSAGE_SIZE,
                   "a message of %zu compressed bytes grows to more than %d times that",
                   i->compressed_bytes, BOX_MAX_INFLATE_RATIO);
    box_error_add_int(err, "max", (int64_t)i->compressed_bytes * BOX_MAX_INFLATE_RATIO);
    return -1;
}

static int inflate_all(inflation *i, box_buf *out, box_error *err)
{
    for (int rv = Z_OK; rv != Z_STREAM_END;) {
        size_t left = i->max_bytes - i->plain_bytes;
        size_t size = left < PIECE_BYTES ? left + 1 : PIECE_BYTES; /* 1 shows that there is more */
        uint8_t *room;
        if (box_buf_reserve(out, size, &room, err) < 0)
            return -1;
        i->z.next_out = room;
        i->z.avail_out = (uInt)size;
        rv = inflate(&i->z, Z_NO_FLUSH);
        size_t got = size - i->z.avail_out;
        if (rv == Z_MEM_ERROR)
            return box_fail(err, BOX_MEMORY_BUDGET, "no memory to decompress a message");
        if (rv != Z_STREAM_END && (rv != Z_OK || (got == 0 && i->z.avail_in == 0)))
            return box_fail(err, BOX_PROTOCOL, "a compressed message is broken or cut short");
        box_buf_commit(out, got);
        i->plain_bytes += got;
        if (check_size(i, err) < 0)
            return -1;
    }
    if (i->z.avail_in > 0)
        return box_fail(err, BOX_PROTOCOL, "a compressed message has %u bytes after its end",
                        i->z.avail_in);
    return 0;
}

int box_decompress(box_encoding e, const uint8_t *data, size_t len, size_t max_bytes, box_buf *out,
                   box_error *err)
{
    inflation i = {.compressed_bytes = len, .max_bytes = max_bytes};
    if (inflateInit2(&i.z, window_bits(e)) != Z_OK)
        return box_fail(err, BOX_MEMORY_BUDGET, "no memory to decompress a message");
    give_input(&i.z, data, len);
    int rc = inflate_all(&i, out, err);
    (void)inflateEnd(&i.z); /* only fails for a stream that is none */
    return rc;
}
