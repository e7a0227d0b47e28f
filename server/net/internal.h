/* What the files of net/ share; nobody else includes it. */
#pragma once

#include <stdatomic.h>
#include <sys/types.h>

#include "base/limits.h"
#include "net/listener.h"
#include "net/penalty.h"
#include "net/server.h"
#include "rpc/call_h2.h"

typedef struct net_loop net_loop;

/* One listener, watched by one loop. */
typedef struct net_accept {
    net_loop *nl;
    const box_listener *listener;
    box_watch *watch;
} net_accept;

/* The part of the server that one loop owns. */
struct net_loop {
    box_net *net;
    box_loop *loop;
    net_accept accepts[BOX_MAX_LISTENERS]; /* of net->listeners, same index */
    box_timer *accept_retry;               /* accepting rests until it fires */
    bool accept_rested;                    /* since the last connection: said once in the log */
    box_list connections;
    atomic_uint waiting; /* connections that wait for a turn of their own (connection.h) */
    box_list handshakes; /* those of them whose next step a worker makes */
    unsigned steps;      /* that workers make now */
    uint8_t *read_bytes; /* BOX_READ_BYTES, for whichever connection reads */
    box_buf plain;       /* the same, decrypted */
    box_buf to_seal;     /* what whichever connection sends, until it is encrypted */
    box_timer *drain_timer;
    unsigned drain_step; /* in the table of net.c */
    bool draining;
    bool drained;          /* loop 0 was told */
    box_time abuse_at;     /* when the log may speak of abuse again */
    unsigned abuse_unsaid; /* connections it did not speak of */
};

struct box_net {
    box_net_config config;
    box_rpc rpc;
    box_tally *peers;                          /* connections by address */
    box_penalty *penalty;                      /* of those that end badly */
    box_listener listeners[BOX_MAX_LISTENERS]; /* fixed once the loops run */
    unsigned n_listeners;
    atomic_uint loops_listening; /* the last one to stop closes the listeners */
    atomic_uint_fast64_t connections_open;
    atomic_uint_fast64_t connections_total;
    atomic_uint_fast64_t handshakes_queued;
    atomic_uint handshakes_waiting;                                      /* box_net_stats */
    atomic_uint_fast64_t ended_badly, holds, refused_held, refused_peer; /* box_net_stats */
    atomic_bool draining;
    unsigned loops_drained; /* loop 0's */
    void (*done)(void *arg);
    void *done_arg;
    unsigned n_loops;
    net_loop loops[];
};

/* What happens to a connection; each state has a handler for each (connection.c). */
typedef enum connection_event {
    EVENT_PREFACE,      /* the peer speaks HTTP/2 */
    EVENT_BROKEN,       /* TLS or HTTP/2 failed; an alert or GOAWAY may wait to be sent */
    EVENT_PEER_END,     /* end of file, reset */
    EVENT_TIMEOUT,      /* the connection's timer */
    EVENT_FLUSHED,      /* nothing waits to be sent */
    EVENT_DONE,         /* HTTP/2 has nothing more to do */
    EVENT_DRAIN,        /* first GOAWAY */
    EVENT_DRAIN_FINISH, /* second GOAWAY */
    EVENT_CANCEL,       /* end the calls */
    EVENT_FORCE,        /* close now */
    EVENT_COUNT,
} connection_event;

typedef struct connection connection;

/* Who connects. */
typedef struct net_origin {
    char address[64]; /* "127.0.0.1:40000", "unix" */
    bool is_unix;
    uint8_t key_len; /* 0: not counted */
    uint8_t key[8];  /* in net->peers: IPv4, or the /64 of IPv6 */
} net_origin;

/* fd is taken, also on failure, and the place in net->peers. tls may be NULL. closed may be NULL.
 */
BOX_LOOP void box_connection_start(net_loop *nl, int fd, const net_origin *from,
                                   box_tls_context *tls, void (*closed)(void *arg), void *arg);
BOX_LOOP void box_connection_event_all(net_loop *nl, connection_event event);
BOX_LOOP void box_connection_recheck_all(net_loop *nl);
/* Closes the oldest connection of this loop whose peer nobody knows yet (of that origin, or NULL =
 * any); false when there is none. */
BOX_LOOP bool box_connection_evict_stranger(net_loop *nl, const net_origin *from);
/* The loops have stopped: frees what was closed. */
void box_connection_reap_all(net_loop *nl);

/* Accepting on this loop (accept.c). */
BOX_LOOP void box_accept_start(net_loop *nl);
BOX_LOOP void box_accept_stop(net_loop *nl);
/* A connection of this loop went: tells loop 0 when it was the last of a drain. */
BOX_LOOP void box_net_loop_check_drained(net_loop *nl);
