/* box_error <-> grpc-status, grpc-message and grpc-status-details-bin (a google.rpc.Status with
 * ErrorInfo, BadRequest, QuotaFailure and RetryInfo packed as Any). */
#pragma once

#include "base/buf.h"

#define BOX_ERROR_DOMAIN "box"

/* The bytes of grpc-status-details-bin. */
int box_status_encode(const box_error *src, box_buf *out, box_error *err) BOX_MUST_USE;

/* A status that a server sent: code and text, and what the details say when they parse (reason and
 * metadata of our domain only; violations and retry_ms of anyone). Without a reason of ours it
 * comes from the code (UNAVAILABLE -> RUNTIME_UNAVAILABLE, ...; UNKNOWN where none fits). out->code
 * is set when the code that came is not the reason's own; a number that is no code is UNKNOWN, 0
 * gives the zero error. details may be NULL when len is 0. */
void box_status_decode(int grpc_status, const char *message, const void *details, size_t len,
                       box_error *out);
