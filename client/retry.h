/* When something that failed is tried again: pauses that grow, the retry policy of a channel and
 * its token bucket (gRFC A6, grpc-conformance.md 113 and 115). No clock, no I/O, no lock. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "box/channel.h"

typedef struct box_pauses {
    uint64_t first_ns;
    uint64_t max_ns;
    uint32_t factor_percent;
} box_pauses;

/* How long to wait after the n-th failure in a row (from 1): first, then growing by the factor up
 * to max, each made up to 20 % longer or shorter by `random`, any number, so that clients spread.
 */
uint64_t box_pause_ns(const box_pauses *p, unsigned n, uint32_t random);

/* Retries stop while half of the tokens are gone: in thousandths. */
typedef struct box_throttle {
    uint32_t max_milli;
    uint32_t left_milli;
    uint32_t ratio_milli;
} box_throttle;

typedef struct box_retry {
    box_pauses pauses;
    box_throttle throttle;
    uint32_t max_attempts; /* 0: none are made */
    uint32_t codes;        /* bits 1 << box_code */
} box_retry;

/* Checks what the program asked for and fills in defaults. */
int box_retry_init(box_retry *r, const box_retry_policy *policy, box_error *err) BOX_MUST_USE;

/* How a call's attempts went so far. */
typedef struct box_attempts {
    unsigned made;
    unsigned pauses; /* since the server last said how long to wait */
} box_attempts;

/* An attempt ended with this code and told nothing of an answer. pushback: the server's
 * grpc-retry-pushback-ms, or NULL. True: try again after *pause_ns. Counts in the throttle. */
bool box_retry_again(box_retry *r, box_attempts *a, box_code code, const char *pushback,
                     uint32_t random, uint64_t *pause_ns);
/* A call ended, and not with one of the policy's codes. */
void box_retry_succeeded(box_retry *r);
