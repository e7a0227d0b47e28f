/* boxbench --rpc: our gRPC server beside a grpc++ callback server and nghttpd, each on one core
 * over TLS 1.3, driven by h2load from another. README.md explains each figure. */
#pragma once

#include "base/error.h"

/* dir: where box-echo-server and box-grpcxx-server are (built with the tests); NULL: ../tests
 * beside this program's directory. Needs h2load, nghttpd and openssl in PATH and two processors.
 * Prints a table, or JSON. */
int bench_rpc(const char *dir, bool quick, bool json, box_error *err) BOX_MUST_USE;
