/* One connection, as its two halves see it: connection.c has the states of its life,
 * connection_io.c moves the bytes between socket, TLS and HTTP/2, handshake.c has workers do that
 * for handshakes, connection_time.c does what is due while it is open. Nobody else includes it. */
#pragma once

#include "net/internal.h"
#include "net/life.h"

typedef enum connection_state {
    STATE_HANDSHAKE, /* until TLS and the HTTP/2 preface are through */
    STATE_OPEN,
    STATE_CLOSING,   /* HTTP/2 is over: its last bytes are sent */
    STATE_LINGERING, /* all is sent: the peer's last bytes are read and dropped */
    STATE_CLOSED,    /* freed at the end of the turn */
    STATE_COUNT,
} connection_state;

typedef struct handshake_step handshake_step;

struct connection {
    box_list link; /* net_loop.connections until freed */
    net_loop *nl;
    connection_state state;
    int fd;
    box_later turn;       /* of its own, for what costs: a step of a handshake, a piece of a flood;
                             nothing is read while it waits for it, or in net_loop.handshakes */
    handshake_step *step; /* a worker makes it, and tls is not to be touched; or NULL */
    box_watch *watch;
    int watched;             /* events asked of watch */
    box_timer *timer;        /* handshake, closing, life: whichever the state has */
    box_life life;           /* while open */
    box_tls *tls;            /* NULL = clear text */
    box_rpc_connection *rpc; /* NULL once CLOSING */
    box_peer peer;
    net_origin from;
    char *certificate;
    box_buf out;             /* taken from HTTP/2: to be sent, or to be encrypted */
    box_buf rest;            /* plain bytes that HTTP/2 gets in the next turn */
    size_t received;         /* plain bytes, while in handshake */
    size_t blocked_received; /* bytes read since the socket took no more */
    bool blocked;            /* the socket took no more */
    bool spoke;              /* a byte came */
    bool ended_badly;        /* was counted */
    bool is_queued;          /* in net->handshakes_waiting */
    box_later flush;
    void (*closed)(void *arg);
    void *closed_arg;
};

/* connection.c */
void box_connection_handle(connection *c, connection_event event);
/* Over TCP, and no call of it came with a token that is good. */
bool box_connection_is_stranger(const connection *c);
/* It failed, by what the peer did: too much of that holds the peer's address back. */
void box_connection_end_badly(connection *c);
/* HTTP/2 is over, for good or ill: takes its last bytes (a GOAWAY comes first), ends the calls. */
void box_connection_begin_closing(connection *c);

/* connection_time.c, while open */
void box_connection_opened(connection *c);
/* Sets the timer to what comes next. */
void box_connection_set_timer(connection *c);
void box_connection_time_passed(connection *c);
void box_connection_cancel_calls(connection *c);
/* There may be streams now. */
void box_connection_want_sweep(connection *c);

/* handshake.c */
/* A step of its handshake is to be made, and others wait already: workers make them in turn. */
void box_handshake_wait(connection *c);
/* It is closed: a step that runs belongs to nobody. */
void box_handshake_leave(connection *c);

/* connection_io.c */
/* Reads at most size bytes. 0 or less: nothing came, and if it is over that was dealt with. */
ssize_t box_connection_read(connection *c, uint8_t *data, size_t size);
/* What box_tls_receive gave. */
void box_connection_took(connection *c, int rc, bool closed, const box_buf *plain,
                         const box_error *err);
/* Whether it reads now, and waits to write, has changed. */
void box_connection_look_again(connection *c);
void box_connection_on_ready(void *arg, int events); /* of watch */
void box_connection_on_output(void *arg);            /* of rpc */
void box_connection_on_flush(box_later *later);      /* of flush */
void box_connection_on_turn(box_later *later);       /* of turn */
void box_connection_cancel_turn(connection *c);
/* Sends what there is at the end of the loop's turn. */
void box_connection_want_flush(connection *c);
void box_connection_watch(connection *c, int events);
/* The socket takes no more, or does again; progress: it took something just now. Decides whether to
 * read on, and how long to wait for it. */
void box_connection_set_blocked(connection *c, bool blocked, bool progress);
