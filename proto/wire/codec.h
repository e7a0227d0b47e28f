/* The small codecs of gRPC over HTTP/2: timeouts, percent-encoding, base64 of -bin values. Pure
 * functions; any thread. */
#pragma once

#include "base/buf.h"

/* Parses a grpc-timeout value such as "250m" into nanoseconds: 1 to 8 digits, then one of
 * H M S m u n (gRPC over HTTP/2, Timeout); 99999999H is clamped to BOX_TIME_NEVER - 1. VALIDATION
 * else. */
int box_timeout_parse(const char *s, size_t len, uint64_t *out_ns, box_error *err) BOX_MUST_USE;
enum { BOX_TIMEOUT_TEXT = 10 };
/* At most 8 digits, coarser unit as needed, rounded up, never 0 unless ns is. */
void box_timeout_format(uint64_t ns, char out[BOX_TIMEOUT_TEXT]);

/* grpc-message: bytes outside 0x20-0x7e, '%', and a space at either end become %XX. */
int box_percent_encode(const char *text, box_buf *out, box_error *err) BOX_MUST_USE;
/* Never fails on content: a broken % stays, invalid UTF-8 becomes '?'. out_size includes the end.
 */
void box_percent_decode(const char *text, size_t len, char *out, size_t out_size);

/* Standard alphabet; padding accepted on decoding, not written on encoding. */
int box_base64_encode(const void *data, size_t len, box_buf *out, box_error *err) BOX_MUST_USE;
int box_base64_decode(const char *text, size_t len, box_buf *out, box_error *err) BOX_MUST_USE;
/* Into memory of the caller: len / 4 * 3 + 2 bytes are always enough. False: not base64. */
bool box_base64_decode_raw(const char *text, size_t len, uint8_t *out, size_t *out_len);
/* Exactly box_base64_size(len) characters, no NUL. */
void box_base64_encode_raw(const void *data, size_t len, char *out);
static inline size_t box_base64_size(size_t len)
{
    return (len * 4 + 2) / 3;
}
