/* What the files of the client library share. A channel has one lock; everything below it
 * (connections, HTTP/2, TLS, calls' queues) is touched with the lock held. Whoever waits drives:
 * one thread at a time polls and does the I/O, the others sleep until it has news. */
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/list.h"
#include "box/call.h"
#include "wire/h2.h"
#include "wire/tls.h"

/* Received bytes a call may hold unread before its stream is paused. One message may pass it. */
enum { BOX_CLIENT_UNREAD_BYTES = 256 * 1024 };

typedef enum box_target_kind { BOX_TARGET_DNS, BOX_TARGET_UNIX, BOX_TARGET_SPAWN } box_target_kind;

/* A parsed target; owned strings. */
typedef struct box_target {
    box_target_kind kind;
    char *host;      /* DNS: without brackets */
    char *port;      /* DNS */
    char *path;      /* UNIX: the socket; SPAWN: the command line */
    char *authority; /* what :authority says: host:port or "localhost" */
} box_target;

int box_target_parse(const char *text, box_target *out, box_error *err) BOX_MUST_USE;
void box_target_done(box_target *t);

typedef struct box_conn box_conn;

/* How a channel's calls are carried: over connections (channel.c) or in this process (inproc.c). */
typedef struct box_carrier {
    int (*start)(box_client_call *call, box_metadata *metadata, uint64_t timeout_ns,
                 box_error *err);
    void (*send)(box_client_call *call, const uint8_t *data, size_t len);
    void (*half_close)(box_client_call *call);
    void (*cancel)(box_client_call *call, const box_error *why);
    void (*pause)(box_client_call *call, bool paused);
    bool (*is_writable)(const box_client_call *call);
    /* One round of progress, at most until then. Lock held on entry and exit. */
    void (*wait)(box_channel *c, box_time until);
    void (*close)(box_channel *c);
} box_carrier;

struct box_channel {
    const box_carrier *carrier;
    pthread_mutex_t lock;
    pthread_cond_t news;
    box_list calls; /* open and unfreed */
    box_list ready; /* event-driven calls with something to deliver */
    char *token;
    /* over connections */
    box_target target;
    char *server_name;
    box_tls_context *tls;
    size_t max_message_bytes;
    uint32_t connect_timeout_ms;
    box_list conns;
    box_conn *current; /* where new calls go, or NULL */
    int epoll;
    int wake; /* eventfd: a call started or changed while another thread polls */
    bool driving;
    pid_t boxd; /* spawn: */
    pid_t warden;
    int spawned; /* spawn: the connected socket, until the connection takes it */
    /* in this process */
    const box_service *services;
    size_t n_services;
    void (*pump)(void *arg);
    void *pump_arg;
};

/* A received message. */
typedef struct box_received {
    struct box_received *next;
    size_t len;
    uint8_t data[];
} box_received;

struct box_client_call {
    box_list link;  /* channel->calls */
    box_list ready; /* channel->ready */
    box_channel *channel;
    const box_method *method;
    unsigned refs;
    box_time deadline;
    box_received *first, **last;
    size_t unread_bytes;
    bool paused;      /* by us: too much unread */
    bool user_paused; /* box_client_pause */
    bool has_headers, has_trailers;
    bool half_closed;
    bool done;
    bool freed; /* box_client_free was called: no further callback */
    box_error status;
    box_metadata headers, trailers;
    const box_client_events *events; /* NULL: blocking */
    void *arg;
    bool headers_told, done_told, writable_news;
    /* carrier's */
    box_conn *conn;
    box_h2_stream *stream;
    box_call *served; /* inproc */
};

/* Every call's news come through these, from a carrier, lock held. */
void box_client_call_headers(box_client_call *call, const box_metadata *metadata);
void box_client_call_message(box_client_call *call, const uint8_t *data, size_t len);
void box_client_call_writable(box_client_call *call);
void box_client_call_done(box_client_call *call, const box_error *status,
                          const box_metadata *trailers);
/* Ends every call whose deadline has passed; the earliest deadline left (BOX_TIME_NEVER: none). */
box_time box_client_expire(box_channel *c, box_time now);

box_channel *box_channel_alloc(const box_carrier *carrier, bool recursive);
extern const box_carrier box_carrier_connections;

/* Copies; a failed copy is a status the call cannot use, so it aborts like any small allocation. */
void box_metadata_copy(const box_metadata *from, box_metadata *to);

/* --- conn.c
 * ----------------------------------------------------------------------------------------- */

/* Starts connecting. -1: nothing could even be tried. */
int box_conn_new(box_channel *c, box_conn **out, box_error *err) BOX_MUST_USE;
/* The connection's calls end UNAVAILABLE with why. */
void box_conn_free(box_conn *conn, const box_error *why);
void box_conn_free_all(box_channel *c, const box_error *why);
box_h2 *box_conn_h2(box_conn *conn);
/* Sends what can be sent now, asks epoll for the rest. */
void box_conn_flush(box_conn *conn);
/* Something may be read or written. Frees the connection when it is over. */
void box_conn_ready(box_conn *conn, uint32_t events);
/* Connects that take too long fail here. Earliest such time. */
box_time box_conn_expire(box_channel *c, box_time now);

/* --- spawn.c
 * ---------------------------------------------------------------------------------------- */

int box_spawn_boxd(box_channel *c, const char *command, box_error *err) BOX_MUST_USE;
void box_spawn_stop(box_channel *c);
