/* How fast one attached caller gets the bytes of a process that floods, beside what TLS alone
 * carries between two processes of this machine. */
#pragma once

#include <stdbool.h>

#include "box/v1/process.client.h"
#include "load.h"
#include "peers.h"

/* Bytes a second from openssl s_server to s_client, read for so long. */
int bench_openssl_rate(const bench_files *f, uint64_t ns, double *rate, box_error *err)
    BOX_MUST_USE;

/* cat /dev/zero as a process of the worker's session; and the first message of a call that reads
 * it.
 */
int bench_flood(load_worker *w, box_error *err) BOX_MUST_USE;
int bench_attach_start(load_worker *w, box_client_call *call, box_error *err) BOX_MUST_USE;

/* Prints both, in MiB a second, and their ratio. */
int bench_attach(const load_target *t, bool quick, bool json, box_error *err) BOX_MUST_USE;
