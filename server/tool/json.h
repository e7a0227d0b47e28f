/* JSON that a caller sends, read within limits: of size, of depth, of how many values there are
 * (jansson takes about 100 bytes for each). */
#pragma once

#include <jansson.h>

#include "base/buf.h"
#include "base/error.h"

/* Parses text as one JSON object (RFC 8259, no key twice, no NUL in a string) of at most
 * BOX_MAX_TOOL_JSON_BYTES. *out is the caller's, to be freed with json_decref. A violation of
 * `field`. */
int box_json_object(const char *text, size_t len, const char *field, json_t **out, box_error *err)
    BOX_MUST_USE;

/* For BOX_AUTO. */
void box_json_freep(json_t **value);

/* A JSON string of bytes that are text or nearly so: what is not UTF-8, and NUL, becomes U+FFFD. */
json_t *box_json_text(const void *data, size_t len);

/* The same of a buffer that holds such text already. */
json_t *box_json_buf(const box_buf *text);

/* The present time, UTC, as 2026-01-02T03:04:05Z. */
json_t *box_json_now(void);

/* The text of a value, compact, on the heap (free). Never NULL. */
char *box_json_print(const json_t *value);
