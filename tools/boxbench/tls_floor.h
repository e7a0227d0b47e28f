/* What TLS alone carries: one thread of this program to another over loopback, by OpenSSL's own
 * SSL_write and SSL_read of large pieces, TLS 1.3 and the cipher that Box's connections have. The
 * programs s_server and s_client copy through buffers of 8 and 16 KiB and are slower. */
#pragma once

#include "peers.h"

/* Bytes a second, read for so long. */
int bench_tls_rate(const bench_files *f, uint64_t ns, double *rate, box_error *err) BOX_MUST_USE;
