/* Listeners and connections: accepts, does TLS, feeds bytes to the HTTP/2 core and hands its calls
 * to rpc/. One listening socket is shared by all loops; a connection lives and dies on the loop
 * that accepted it. */
#pragma once

#include "loop/loop.h"
#include "rpc/admit.h"
#include "wire/service.h"
#include "wire/tls.h"

typedef struct box_net box_net;

typedef struct box_net_config {
    box_loops *loops;
    const box_service *services; /* const for the life of the server */
    size_t n_services;
    box_admit admit;
    size_t max_message_bytes; /* received */
    box_budget *budget;       /* of memory; NULL = none; outlives the server */
    uint32_t drain_seconds;   /* grace for running calls */
} box_net_config;

int box_net_new(const box_net_config *config, box_net **out, box_error *err) BOX_MUST_USE;

/* "127.0.0.1:5410", "[::1]:5410", "0.0.0.0:0". tls NULL = clear text. *port: the one bound. Before
 * run. */
int box_net_listen_tcp(box_net *n, const char *address, box_tls_context *tls, uint16_t *port,
                       box_error *err) BOX_MUST_USE;
/* Mode 0600; replaces a stale socket file, never one that is answered. */
int box_net_listen_unix(box_net *n, const char *path, box_error *err) BOX_MUST_USE;
/* A connected Unix stream socket (spawn: channel); taken. When it closes, `closed` is called (may
 * be NULL). */
int box_net_adopt(box_net *n, int fd, void (*closed)(void *arg), void *arg, box_error *err)
    BOX_MUST_USE;

/* Admission changed its mind about somebody (a token was revoked): asks it about every open call
 * again and ends those it no longer allows. Any thread. */
void box_net_recheck(box_net *n);

/* Graceful end, any thread, idempotent: listeners close, GOAWAY, running calls get drain_seconds,
 * then are cancelled; then done(arg) on loop 0. */
void box_net_drain(box_net *n, void (*done)(void *arg), void *arg);
/* After the loops have stopped. */
void box_net_free(box_net *n);

typedef struct box_net_stats {
    uint64_t connections_open, connections_total, calls_open, calls_total;
} box_net_stats;
void box_net_stats_get(const box_net *n, box_net_stats *out);
