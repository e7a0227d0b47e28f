/* box_error <-> grpc-status, grpc-message and grpc-status-details-bin (a google.rpc.Status with
 * ErrorInfo, BadRequest, QuotaFailure and RetryInfo packed as Any). */
#pragma once

#include "base/buf.h"

#define BOX_ERROR_DOMAIN "box"

/* The bytes of grpc-status-details-bin. */
int box_status_encode(const box_error *src, box_buf *out, box_error *err) BOX_MUST_USE;

/* A status that a server sent: code and text, and what the details say when they parse and are of
 * our domain (reason, metadata, violations, retry_ms). Without them the reason comes from the code
 * (UNAVAILABLE -> RUNTIME_UNAVAILABLE, ...; UNKNOWN where none fits) and err->code holds what came.
 */
void box_status_decode(int grpc_status, const char *message, const void *details, size_t len,
                       box_error *out);
