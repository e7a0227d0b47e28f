/* The servers boxbench --rpc compares, each serving on one core: a Box server, a grpc++ callback
 * server with the same methods, and nghttpd with a file of 64 bytes. */
#pragma once

#include <limits.h>

#include "process.h"

typedef enum bench_peer_kind {
    BENCH_BOX,
    BENCH_GRPCXX,
    BENCH_NGHTTPD,
    BENCH_PEERS
} bench_peer_kind;

typedef struct bench_peer {
    const char *name;
    bench_process process;
    unsigned port;
} bench_peer;

/* A directory with a certificate for 127.0.0.1, its key and what is sent; removed at the end. */
typedef struct bench_files {
    char dir[32];
    char cert[PATH_MAX], key[PATH_MAX];
    char empty[PATH_MAX];  /* a gRPC request of no bytes */
    char output[PATH_MAX]; /* a gRPC request for 64 messages of 16 KiB */
} bench_files;

/* Is there an openssl program? */
bool bench_has_openssl(void);
/* Made by openssl. */
int bench_files_make(bench_files *f, box_error *err) BOX_MUST_USE;
void bench_files_remove(const bench_files *f);

/* A port nobody listens on just now, for servers that do not tell which one they got. */
int bench_free_port(unsigned *out, box_error *err) BOX_MUST_USE;
/* Until somebody listens on it. */
int bench_wait_connectable(unsigned port, box_error *err) BOX_MUST_USE;

/* Where those servers are: build/PRESET/bin/boxbench -> build/PRESET/tests. */
int bench_find_servers(char out[static PATH_MAX], box_error *err) BOX_MUST_USE;
/* dir: where box-echo-server and box-grpcxx-server are. */
int bench_peer_start(bench_peer_kind kind, const char *dir, const bench_files *files,
                     bench_peer *out, box_error *err) BOX_MUST_USE;
