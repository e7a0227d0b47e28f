/* One connection, as its two halves see it: connection.c has the states of its life,
 * connection_io.c moves the bytes between socket, TLS and HTTP/2. Nobody else includes it. */
#pragma once

#include "net/internal.h"

enum { CONNECTION_ADDRESS = 64 };

typedef enum connection_state {
    STATE_HANDSHAKE, /* until TLS and the HTTP/2 preface are through */
    STATE_OPEN,
    STATE_CLOSING,   /* HTTP/2 is over: its last bytes are sent */
    STATE_LINGERING, /* all is sent: the peer's last bytes are read and dropped */
    STATE_CLOSED,    /* freed at the end of the turn */
    STATE_COUNT,
} connection_state;

struct connection {
    box_list link; /* net_loop.connections until freed */
    net_loop *nl;
    connection_state state;
    int fd;
    box_watch *watch;
    int watched;             /* events asked of watch */
    box_timer *timer;        /* handshake, stalled write, closing: whichever the state has */
    box_tls *tls;            /* NULL = clear text */
    box_rpc_connection *rpc; /* NULL once CLOSING */
    box_peer peer;
    char address[CONNECTION_ADDRESS];
    char *certificate;
    box_buf out;             /* taken from HTTP/2: to be sent, or to be encrypted */
    size_t received;         /* plain bytes, while in handshake */
    size_t blocked_received; /* bytes read since the socket took no more */
    bool blocked;            /* the socket took no more */
    box_time stall_at;       /* while blocked and open: when that was too long */
    box_time stranger_until; /* while open: when a peer that nobody knows has to go */
    box_later flush;
    void (*closed)(void *arg);
    void *closed_arg;
};

/* connection.c */
void box_connection_handle(connection *c, connection_event event);
/* While open: sets the timer to what comes next. */
void box_connection_set_timer(connection *c);

/* connection_io.c */
void box_connection_on_ready(void *arg, int events); /* of watch */
void box_connection_on_output(void *arg);            /* of rpc */
void box_connection_on_flush(box_later *later);      /* of flush */
/* Sends what there is at the end of the loop's turn. */
void box_connection_want_flush(connection *c);
void box_connection_watch(connection *c, int events);
/* The socket takes no more, or does again; progress: it took something just now. Decides whether to
 * read on, and how long to wait for it. */
void box_connection_set_blocked(connection *c, bool blocked, bool progress);
