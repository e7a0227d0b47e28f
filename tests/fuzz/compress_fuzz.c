/* Compressed messages from a peer, and what we compress ourselves. The first byte chooses encoding
 * and limit. */
#include <assert.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "fuzz.h"
#include "wire/compress.h"

static void decompress(box_encoding e, box_bytes in, size_t max_bytes)
{
    BOX_AUTO(box_freep)
    uint8_t *data = fuzz_copy(in);
    BOX_AUTO(box_buf_done)
    box_buf plain = {0};
    box_error err;
    if (box_decompress(e, data, in.len, max_bytes, &plain, &err) < 0) {
        assert(err.reason == BOX_PROTOCOL || err.reason == BOX_MESSAGE_SIZE);
        return;
    }
    size_t len = box_buf_len(&plain);
    assert(len <= max_bytes);
    assert(len <= BOX_FREE_INFLATE_BYTES || len / BOX_MAX_INFLATE_RATIO <= in.len);
}

static void there_and_back(box_encoding e, box_bytes in)
{
    BOX_AUTO(box_buf_done)
    box_buf packed = {0};
    BOX_AUTO(box_buf_done)
    box_buf plain = {0};
    box_error err;
    int rc = box_compress(e, in.data, in.len, &packed, &err);
    assert(rc == 0);
    rc = box_decompress(e, box_buf_data(&packed), box_buf_len(&packed), in.len, &plain, &err);
    assert(rc == 0);
    assert(box_buf_len(&plain) == in.len);
    assert(in.len == 0 || memcmp(box_buf_data(&plain), in.data, in.len) == 0);
}

/* Whatever list a peer sends, identity is in it and nothing we do not have. */
static void lists(box_bytes in)
{
    BOX_AUTO(box_freep)
    char *text = (char *)fuzz_copy(in);
    unsigned found = box_encodings_parse(text, in.len);
    assert((found & 1u << BOX_IDENTITY) != 0 && found < 1u << BOX_ENCODINGS);
    assert(box_encoding_parse(text, in.len) <= BOX_ENCODING_OTHER);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    box_bytes in = {data, size};
    uint8_t choice = fuzz_u8(&in);
    box_encoding e = (choice & 1) != 0 ? BOX_GZIP : BOX_DEFLATE;
    decompress(e, in, (choice & 2) != 0 ? 100 : BOX_MAX_MESSAGE_BYTES);
    there_and_back(e, in);
    lists(in);
    return 0;
}
