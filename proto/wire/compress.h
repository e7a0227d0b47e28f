/* Compression of gRPC messages: each is a gzip or zlib stream of its own (gRPC compression.md).
 * Pure functions; any thread. Client and server use the same. Which messages are compressed is in
 * wire/encoding.h. */
#pragma once

#include "base/buf.h"
#include "wire/encoding.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What we take, as grpc-accept-encoding. */
#define BOX_ACCEPT_ENCODING "identity,deflate,gzip"

/* "gzip"; e is not OTHER. */
const char *box_encoding_name(box_encoding e);
/* A grpc-encoding value. Empty is identity. */
box_encoding box_encoding_parse(const char *name, size_t len);
/* A grpc-accept-encoding value, with or without spaces: bit 1 << e for each known one. Identity is
 * always there. */
unsigned box_encodings_parse(const char *list, size_t len);

/* Appends the compressed message. e is GZIP or DEFLATE. MEMORY_BUDGET when out has no room. */
int box_compress(box_encoding e, const uint8_t *data, size_t len, box_buf *out, box_error *err)
    BOX_MUST_USE;
/* Appends the plain message, inflated piece by piece, so that memory never passes a limit by more
 * than a piece. MESSAGE_SIZE above max_bytes, or above BOX_FREE_INFLATE_BYTES when that is more
 * than BOX_MAX_INFLATE_RATIO times len (a bomb); PROTOCOL for what is no whole stream of that
 * encoding or has bytes after it; MEMORY_BUDGET when out has no room. e is GZIP or DEFLATE. */
int box_decompress(box_encoding e, const uint8_t *data, size_t len, size_t max_bytes, box_buf *out,
                   box_error *err) BOX_MUST_USE;

#ifdef __cplusplus
}
#endif
