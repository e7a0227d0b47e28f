/* Calls over HTTP/2: finds the method of a new stream, asks who calls, and ties a box_call to the
 * stream until both are over.
 *
 * Order for a new stream, all before any byte of its body is read: the method is looked up
 * (UNIMPLEMENTED, also for callers nobody knows: the API is public), the calls this peer left
 * behind are counted (RATE_LIMIT), and the admission hook decides. */
#pragma once

#include <stdatomic.h>

#include "loop/loop.h"
#include "rpc/admit.h"
#include "rpc/counts.h"
#include "rpc/tally.h"
#include "wire/h2.h"
#include "wire/service.h"

/* Text that is to be had by GET, for tools that speak no gRPC. */
typedef struct box_rpc_page {
    const char *path;   /* "/metrics"; NULL: there is none */
    const char *method; /* who may call that, may have it */
    /* Appends it; on failure *err becomes the answer. Any loop thread, without waiting. */
    int (*make)(void *arg, const void *identity, box_buf *out, box_error *err);
    void *arg;
} box_rpc_page;

/* What all connections of a server share. Any loop thread. */
typedef struct box_rpc {
    const box_service *services;
    size_t n_services;
    box_admit admit;               /* a zeroed one lets everybody in, without an identity */
    size_t max_message_bytes;      /* received; 0 = BOX_MAX_MESSAGE_BYTES */
    uint32_t max_calls;            /* of one connection; 0 = BOX_MAX_STREAMS_PER_CONNECTION */
    uint64_t ping_min_interval_ns; /* see box_h2_config */
    bool permit_ping_without_calls;
    box_tally *tenants;    /* of connections; NULL = none are counted */
    box_budget *budget;    /* NULL = none */
    const char *test_page; /* box_h2_config; NULL in every real server */
    box_rpc_page page;
    box_call_counts *counts; /* NULL = calls are not counted so */
    atomic_uint_fast64_t calls_open;
    atomic_uint_fast64_t calls_total;
} box_rpc;

/* One connection's calls. Belongs to a loop. */
typedef struct box_rpc_connection box_rpc_connection;

/* peer is borrowed until box_rpc_connection_end. has_output(arg) is called when box_h2_send has new
 * bytes because of what a handler did; it may be called inside any callback and must only take
 * note. */
BOX_LOOP box_rpc_connection *box_rpc_connection_new(box_rpc *rpc, box_loop *loop,
                                                    const box_peer *peer,
                                                    void (*has_output)(void *arg), void *arg);
/* The bytes' side; lives until box_rpc_connection_end. */
BOX_LOOP box_h2 *box_rpc_connection_h2(const box_rpc_connection *c);
/* Admission knew who made one of its calls, or lets in everybody. */
BOX_LOOP bool box_rpc_connection_is_known(const box_rpc_connection *c);
BOX_LOOP bool box_rpc_connection_has_calls(const box_rpc_connection *c);
/* No call is open, of any connection, and the last of this one was answered as soon as it was
 * there: no command, disk or other process had a part in it. */
BOX_LOOP bool box_rpc_connection_is_quick(const box_rpc_connection *c);
/* Since when no call is open; BOX_TIME_NEVER while one is. */
BOX_LOOP box_time box_rpc_connection_idle_since(const box_rpc_connection *c);
/* Every few seconds while there are streams: ends calls whose request does not come to its end
 * (DEADLINE), resets answers that nobody takes. False: a header block has no end, so that nothing
 * else can come; close the connection. */
BOX_LOOP bool box_rpc_connection_sweep(box_rpc_connection *c, box_time now);
/* Ends every open call with that reason; the answers wait in box_h2_send. */
BOX_LOOP void box_rpc_connection_end_calls(box_rpc_connection *c, const box_error *why);
/* Asks admission about every open call again; ends those it no longer allows. */
BOX_LOOP void box_rpc_connection_recheck(box_rpc_connection *c);
/* The connection is over: open calls are cancelled, the rest goes with the last of them. */
BOX_LOOP void box_rpc_connection_end(box_rpc_connection *c);
