/* What an idle TLS connection costs a server. */
#pragma once

#include "peers.h"

/* Opens `connections` to the peer, one call on each, and leaves them open: growth of the server's
 * proportional set size, in bytes each. */
int bench_idle(const bench_peer *peer, const bench_files *files, size_t connections, double *out,
               box_error *err) BOX_MUST_USE;
