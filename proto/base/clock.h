/* Time. box_time is CLOCK_MONOTONIC in nanoseconds: deadlines are absolute values of it, set once,
 * and 0 means none. Clocks are passed in where tests need to move them. */
#pragma once

#include <stdint.h>

typedef uint64_t box_time;

#define BOX_US         UINT64_C(1000)
#define BOX_MS         UINT64_C(1000000)
#define BOX_SECOND     UINT64_C(1000000000)
#define BOX_TIME_NEVER UINT64_MAX

/* Now, monotonic. */
box_time box_now(void);
/* Wall clock, nanoseconds since 1970. For records people read, never for waiting. */
int64_t box_wall_ns(void);

/* now + after, never wrapping: BOX_TIME_NEVER at most. */
static inline box_time box_time_add(box_time now, uint64_t after_ns)
{
    return now > BOX_TIME_NEVER - after_ns ? BOX_TIME_NEVER : now + after_ns;
}

/* Nanoseconds left, 0 when passed. */
static inline uint64_t box_time_left(box_time deadline, box_time now)
{
    return deadline > now ? deadline - now : 0;
}
