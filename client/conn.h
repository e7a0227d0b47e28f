/* A connection: connect.c makes it, conn.c reads and writes. Lock of the channel held in all of
 * it. */
#pragma once

#include "internal.h"
#include "lane.h"

typedef enum box_conn_state {
    BOX_CONN_CONNECTING, /* the socket is being connected */
    BOX_CONN_HANDSHAKE,  /* TLS */
    BOX_CONN_SILENT,     /* we may write; the server has not said anything yet */
    BOX_CONN_READY,
} box_conn_state;

struct box_conn {
    box_list link; /* channel->conns */
    uint64_t id;   /* what epoll knows it by */
    box_channel *channel;
    box_lane *lane; /* where new calls come from; NULL: none come any more */
    box_conn_state state;
    int fd;
    uint32_t asked; /* epoll events asked for; 0: not in the set */
    box_tls *tls;   /* NULL: clear */
    box_h2 *h2;
    box_buf out; /* clear: to be sent; TLS: plaintext on its way into tls */
    box_addresses addresses;
    size_t next;         /* of them */
    box_time connect_by; /* until READY */
    box_time attempt_by; /* until the next address is tried; BOX_TIME_NEVER: none is left */
    box_error last;      /* why the last address did not work */
    box_error failure;   /* why it ends */
    bool has_answered;   /* some call */
    bool is_busy;        /* inside box_h2, which must not be entered again */
    /* keepalive */
    box_time heard_at;  /* the last byte, or the start of the first call since */
    box_time pinged_at; /* 0: never */
    bool is_asked;      /* a PING went and nothing came since */
    bool is_answering;  /* headers or data of a call came since the last PING */
};

/* connect.c: says why no connection came about. -1. */
int box_conn_fail_connect(const box_conn *conn, int sys_errno, box_error *err);
/* The next address that at least begins to connect. */
int box_conn_try_next(box_conn *conn, box_error *err) BOX_MUST_USE;
/* Asks epoll for these events. */
int box_conn_watch(box_conn *conn, uint32_t events, box_error *err) BOX_MUST_USE;
/* Looks at the result of connect(2) and goes on to what follows, or to the next address. */
int box_conn_connected(box_conn *conn, uint32_t events, box_error *err) BOX_MUST_USE;
/* conn.c */
void box_conn_start_h2(box_conn *conn);
/* From now on we may send: calls that wait can start. */
void box_conn_open(box_conn *conn);
/* conn_alive.c: when the server must have said something, or is asked to. Once it is ready. */
box_time box_conn_alive_by(const box_conn *conn);
/* That time has come. -1: it is gone. */
int box_conn_check_alive(box_conn *conn, box_time now, box_error *err) BOX_MUST_USE;
/* The server complained about PINGs: the channel asks half as often, in the end never. */
void box_conn_ask_less(box_conn *conn);
/* A byte came. */
void box_conn_heard(box_conn *conn);
