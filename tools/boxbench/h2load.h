/* One run of h2load, the load tool of nghttp2, with one thread on a core of its own. */
#pragma once

#include "peers.h"

typedef struct bench_shape {
    const char *name; /* "c10x10" */
    unsigned connections, streams;
    size_t calls;
    bool stream;  /* StreamingOutputCall instead of Nothing: 1 MiB in 64 messages */
    bool latency; /* wants p50_us */
} bench_shape;

typedef struct bench_result {
    double rps;
    double p50_us; /* only where the shape wants it */
} bench_result;

/* Every answer must be complete: their number and their bytes are checked. */
int bench_h2load(const bench_shape *shape, bench_peer_kind kind, const bench_peer *peer,
                 const bench_files *files, bench_result *out, box_error *err) BOX_MUST_USE;
