/* google.protobuf.Timestamp and Duration <-> nanoseconds. */
#pragma once

#include <google/protobuf/duration.pb-c.h>
#include <google/protobuf/timestamp.pb-c.h>

#include "base/clock.h"

/* Fills *t and returns it; NULL for 0, which is "not yet" or "never". */
static inline Google__Protobuf__Timestamp *box_times_stamp(Google__Protobuf__Timestamp *t,
                                                           int64_t wall_ns)
{
    if (wall_ns == 0)
        return NULL;
    google__protobuf__timestamp__init(t);
    t->seconds = wall_ns / (int64_t)BOX_SECOND;
    t->nanos = (int32_t)(wall_ns % (int64_t)BOX_SECOND);
    return t;
}

static inline Google__Protobuf__Duration *box_times_span(Google__Protobuf__Duration *d, uint64_t ns)
{
    google__protobuf__duration__init(d);
    d->seconds = (int64_t)(ns / BOX_SECOND);
    d->nanos = (int32_t)(ns % BOX_SECOND);
    return d;
}

/* False unless the duration is well formed (duration.proto), above zero and at most max_seconds. */
static inline bool box_times_positive(const Google__Protobuf__Duration *d, int64_t max_seconds,
                                      int64_t *out_ns)
{
    if (d->seconds < 0 || d->seconds > max_seconds || d->nanos < 0 ||
        d->nanos >= (int32_t)BOX_SECOND || (d->seconds == max_seconds && d->nanos > 0))
        return false;
    *out_ns = d->seconds * (int64_t)BOX_SECOND + d->nanos;
    return *out_ns > 0;
}
