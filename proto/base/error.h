/* box_error: the one value that says what went wrong. It owns nothing, so it is copied between
 * threads, written whole to a socket by warden and agent, and becomes the gRPC trailer unchanged.
 *
 * Functions that can fail return 0 or -1, fill *err and leave their outputs alone on failure. The
 * reason is chosen where the cause is known; it implies the gRPC code through reason.def. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum box_reason {
#define BOX_REASON(name, code) BOX_##name,
#include "base/reason.def"
#undef BOX_REASON
    BOX_REASON_COUNT
} box_reason;

/* The 17 codes of gRPC (grpc/grpc doc/statuscodes.md). */
typedef enum box_code {
    BOX_CODE_OK = 0,
    BOX_CODE_CANCELLED = 1,
    BOX_CODE_UNKNOWN = 2,
    BOX_CODE_INVALID_ARGUMENT = 3,
    BOX_CODE_DEADLINE_EXCEEDED = 4,
    BOX_CODE_NOT_FOUND = 5,
    BOX_CODE_ALREADY_EXISTS = 6,
    BOX_CODE_PERMISSION_DENIED = 7,
    BOX_CODE_RESOURCE_EXHAUSTED = 8,
    BOX_CODE_FAILED_PRECONDITION = 9,
    BOX_CODE_ABORTED = 10,
    BOX_CODE_OUT_OF_RANGE = 11,
    BOX_CODE_UNIMPLEMENTED = 12,
    BOX_CODE_INTERNAL = 13,
    BOX_CODE_UNAVAILABLE = 14,
    BOX_CODE_DATA_LOSS = 15,
    BOX_CODE_UNAUTHENTICATED = 16,
} box_code;

enum { BOX_ERROR_MSG = 240, BOX_ERROR_DETAIL = 1024 };

/* All zero: no error. `detail` is detail_len bytes of "key\0value\0" pairs: a key "field:NAME" is a
 * violation of that request field (BadRequest), any other key is ErrorInfo metadata. What does not
 * fit is counted in a last pair "more". `code` is 0 (the reason's own) or, for a peer's status, the
 * code that came. */
typedef struct box_error {
    box_reason reason;
    int sys_errno;
    uint32_t retry_ms; /* 0: no advice; else RetryInfo */
    uint16_t code;
    uint16_t detail_len;
    uint32_t more; /* pairs that did not fit */
    char msg[BOX_ERROR_MSG];
    char detail[BOX_ERROR_DETAIL];
} box_error;

/* Fills *err and returns -1. The text is cut at its size, made valid UTF-8 and free of control
 * characters; it must not hold host paths, tokens or pointers. */
int box_fail(box_error *err, box_reason reason, const char *fmt, ...) BOX_PRINTF(3, 4);

/* The same for a failed system call: the reason comes from errno (ENOENT, EEXIST, ENOSPC, EACCES,
 * ...; INTERNAL for the rest) and ": strerror" is appended. */
int box_fail_errno(box_error *err, const char *fmt, ...) BOX_PRINTF(2, 3);

/* Puts "context: " before the text, keeps everything else. Returns -1. */
int box_wrap(box_error *err, const char *fmt, ...) BOX_PRINTF(2, 3);

/* The text of a status that a gRPC peer chose: like box_fail's, with tabs and line ends kept. */
void box_error_set_text(box_error *err, const char *text);

/* Adds ErrorInfo metadata. */
void box_error_add(box_error *err, const char *key, const char *value);
void box_error_add_int(box_error *err, const char *key, int64_t value);

/* Says which limit was reached: metadata {limit, max, used}, which become QuotaFailure. Always -1.
 */
int box_error_limit(box_error *err, const char *limit, int64_t max, int64_t used);

/* Records that a request field is wrong; the first one also becomes the text. Always -1, so all of
 * a request's fields can be checked before returning: `bad |= box_violation(err, "argv", "...")`.
 */
int box_violation(box_error *err, const char *field, const char *fmt, ...) BOX_PRINTF(3, 4);

/* Walks the pairs: start with *at = 0; false at the end. */
bool box_error_next(const box_error *err, size_t *at, const char **key, const char **value);
/* The value of a metadata key, or NULL. */
const char *box_error_get(const box_error *err, const char *key);

const char *box_reason_name(box_reason reason);
/* The reason with that name, or BOX_UNKNOWN. */
box_reason box_reason_from_name(const char *name);
box_code box_reason_code(box_reason reason);
/* err->code when set, else the reason's. */
box_code box_error_code(const box_error *err);
/* "NOT_FOUND"; "CODE_17" is never returned: unknown numbers give "UNKNOWN". */
const char *box_code_name(box_code code);

/* A box_error that came from another process: forces every text to be ended, valid and within its
 * bounds, an unknown reason to INTERNAL. Call it on every error read from a socket. */
void box_error_sanitize(box_error *err);

#ifdef __cplusplus
}
#endif
