#include "base/clock.h"

#include <time.h>

box_time box_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
    return (uint64_t)t.tv_sec * BOX_SECOND + (uint64_t)t.tv_nsec;
}

int64_t box_wall_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * (int64_t)BOX_SECOND + t.tv_nsec;
}
