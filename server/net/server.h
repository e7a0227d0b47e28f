/* Listeners and connections: accepts, does TLS, feeds bytes to the HTTP/2 core and hands its calls
 * to rpc/. One listening socket is shared by all loops; a connection lives and dies on the loop
 * that accepted it. */
#pragma once

#include "loop/loop.h"
#include "rpc/call_h2.h"
#include "wire/service.h"
#include "wire/tls.h"

typedef struct box_net box_net;

/* What time does to a connection; 0 = never. */
typedef struct box_net_life {
    uint64_t keepalive_time_ns;    /* PING after so long without a byte */
    uint64_t keepalive_timeout_ns; /* then the end; what the kernel waits for as well */
    uint64_t max_age_ns;           /* +-10 %: GOAWAY max_age */
    uint64_t max_age_grace_ns;     /* then the calls end */
    uint64_t max_idle_ns;          /* without a call: GOAWAY max_idle */
} box_net_life;

/* How many connections and calls there may be; 0 = the default of limits.h, or, for peers and
 * tenants, no limit. */
typedef struct box_net_limits {
    uint32_t connections;
    uint32_t connections_per_peer; /* address; IPv6: /64 */
    uint32_t connections_per_tenant;
    uint32_t bad_connections; /* of one address and minute: see net/penalty.h */
    uint32_t calls_per_connection;
    uint64_t ping_min_interval_ns; /* see box_h2_config */
    bool permit_ping_without_calls;
} box_net_limits;

typedef struct box_net_config {
    box_loops *loops;
    const box_service *services; /* const for the life of the server */
    size_t n_services;
    box_admit admit;
    size_t max_message_bytes; /* received */
    box_budget *budget;       /* of memory; NULL = none; outlives the server */
    const char *test_page;    /* box_h2_config; NULL in every real server */
    box_rpc_page page;
    uint64_t drain_ns; /* from the beginning of the end to the end of running calls */
    box_net_life life;
    box_net_limits limits;
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

/* Graceful end, any thread, idempotent: listeners close, GOAWAY, running calls get drain_ns,
 * then are cancelled; then done(arg) on loop 0. */
void box_net_drain(box_net *n, void (*done)(void *arg), void *arg);
/* After the loops have stopped. */
void box_net_free(box_net *n);

typedef struct box_net_stats {
    uint64_t connections_open, connections_total, calls_open, calls_total;
    uint64_t ended_badly;        /* connections */
    uint64_t holds;              /* addresses that began to be held back */
    uint64_t refused_held;       /* connections: of such an address */
    uint64_t refused_peer;       /* of an address that has as many as it may */
    uint64_t handshakes_queued;  /* steps of handshakes that waited for a worker */
    unsigned handshakes_waiting; /* connections whose step waits for one now, or runs in one */
} box_net_stats;
void box_net_stats_get(const box_net *n, box_net_stats *out);
/* Connections of a loop that wait for a step of their handshake, or that flood. */
unsigned box_net_waiting(const box_net *n, unsigned loop);
/* See rpc/counts.h. */
box_call_counts *box_net_call_counts(const box_net *n);
