/* What the files of the client library share. A channel has one lock; everything below it
 * (connections, HTTP/2, TLS, the calls' queues) is touched with the lock held. Callbacks of the
 * program run without it.
 *
 * Whoever waits drives: one of the waiting threads polls and does the I/O until its own call has
 * what it waits for, the others sleep until their call has news or the place of the driver is free
 * (wait.c). */
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include "address.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/list.h"
#include "box/call.h"
#include "box/inproc.h"
#include "retry.h"
#include "wire/h2.h"
#include "wire/tls.h"

enum {
    /* Received bytes a call may hold unread before its stream is paused. One message may pass it.
     */
    BOX_CLIENT_UNREAD_BYTES = 256 * 1024,
    /* What is read from a socket in one go. */
    BOX_CLIENT_INPUT_BYTES = 64 * 1024,
    /* Events of one call that are delivered before the next call has its turn. */
    BOX_CLIENT_MESSAGES_PER_TURN = 64,
};

/* What epoll says for what is no connection: those are numbered from BOX_EVENT_FIRST_CONN. */
enum { BOX_EVENT_WAKE, BOX_EVENT_RESOLVED, BOX_EVENT_FIRST_CONN };

typedef enum box_target_kind { BOX_TARGET_DNS, BOX_TARGET_UNIX, BOX_TARGET_SPAWN } box_target_kind;

/* A parsed target; owned strings. */
typedef struct box_target {
    box_target_kind kind;
    char *host;      /* DNS: without brackets */
    char *port;      /* DNS */
    char *path;      /* UNIX: the socket; SPAWN: the command line */
    char *authority; /* what :authority says: host:port or "localhost" */
    /* UNIX, and DNS where they need not be asked for */
    box_addresses addresses;
} box_target;

int box_target_parse(const char *text, box_target *out, box_error *err) BOX_MUST_USE;
void box_target_done(box_target *t);
/* Is it surely this machine? */
bool box_target_is_loopback(const box_target *t);

typedef struct box_conn box_conn;
typedef struct box_lane box_lane;
typedef struct box_resolution box_resolution;

/* A message to send. */
typedef struct box_outgoing {
    struct box_outgoing *next;
    size_t len;
    box_compress_mode compress;
    uint8_t data[];
} box_outgoing;

/* How a channel's calls are carried: over connections (carry.c) or in this process (inproc.c).
 * Everything with the lock held; news come through the box_client_call_* functions below. */
typedef struct box_carrier {
    /* With call->metadata. -1: the call does not exist. */
    int (*start)(box_client_call *call, box_error *err);
    void (*send)(box_client_call *call, box_outgoing *message); /* taken */
    void (*half_close)(box_client_call *call);                  /* call->half_closed is set */
    void (*cancel)(box_client_call *call, const box_error *why);
    void (*pause)(box_client_call *call, bool paused);
    bool (*is_writable)(const box_client_call *call);
    /* What the above queued goes out. Ends every function of the API that used one of them. */
    void (*flush)(box_channel *c);
    /* One round of progress, for at most until then; waiting happens without the lock. call: who
     * waits for it, NULL = nobody. */
    void (*round)(box_channel *c, box_client_call *call, box_time until);
    /* When the channel must look at its clocks again. Ends what is late. */
    box_time (*expire)(box_channel *c, box_time now);
    /* Every call ends. */
    void (*close)(box_channel *c);
} box_carrier;

struct box_channel {
    const box_carrier *carrier;
    pthread_mutex_t lock;
    box_list calls;     /* not freed yet */
    box_list ready;     /* event-driven calls with something to deliver */
    box_list waiters;   /* threads that sleep */
    box_list waiting;   /* calls that have no stream, oldest first */
    box_list delayed;   /* and those that are tried again later */
    size_t n_waiting;   /* of both */
    size_t n_queued[2]; /* in waiting: those that wait for a ready connection [1], or not */
    const box_client_call *driven_for;
    box_time polling_until;
    box_time soonest;    /* nothing expires before; BOX_TIME_NEVER = nothing does */
    box_time loop_until; /* what box_channel_poll said last; 0: it was never asked */
    char *token;
    /* over connections */
    box_target target;
    char *server_name;
    char *user_agent;
    box_tls_context *tls;
    size_t max_message_bytes, max_send_bytes;
    box_list conns;
    box_lane *lanes[BOX_CLIENT_ADDRESSES]; /* lane.c */
    size_t n_lanes, next_lane;
    box_balance balance;
    box_pauses reconnect;
    uint64_t n_failures; /* of lanes */
    box_resolution *resolution;
    int resolved; /* eventfd of it */
    box_retry retry;
    uint64_t random;
    uint64_t last_conn_id;
    uint8_t *input; /* BOX_CLIENT_INPUT_BYTES to read into */
    uint64_t keepalive_ns, keepalive_timeout_ns;
    bool keepalive_is_usual; /* no program asked for it */
    bool keepalive_without_calls;
    void (*on_state)(void *arg, box_channel_state state);
    void *on_state_arg;
    box_channel_state told_state;
    bool is_telling;
    pthread_cond_t told; /* is_telling ended */
    /* in this process (inproc.c) */
    const box_service *services;
    size_t n_services;
    void (*pump)(void *arg);
    void *pump_arg;
    box_list served; /* calls that have something to do outside of their handlers */
    unsigned refs;   /* box_channel_free's and one of each call */
    uint32_t connect_timeout_ms;
    int epoll; /* the connections and wake */
    int wake;  /* eventfd: the thread that polls must look again */
    /* For event loops: what box_channel_poll gives out, epoll and loop_wake; and an eventfd: there
     * is something to deliver, or a sooner timeout. */
    int loop_epoll;
    int loop_wake;
    /* spawn: the two children, and the connected socket until the connection takes it */
    pid_t boxd, warden;
    int spawned;
    bool closed;
    bool driving; /* a thread does the I/O */
    bool polling; /* and waits for it just now, without the lock */
    bool loop_woken;
    bool dispatching;
    bool may_send_tokens;
    bool is_private;   /* TLS, or never leaves this machine */
    bool must_resolve; /* before the next connection is made */
    bool look_again;   /* a waiting call may find a place now */
};

/* A received message. */
typedef struct box_received {
    struct box_received *next;
    size_t len;
    bool was_compressed;
    uint8_t data[];
} box_received;

struct box_client_call {
    box_list link;  /* channel->calls */
    box_list ready; /* channel->ready */
    box_channel *channel;
    const box_method *method;
    unsigned refs; /* box_client_free's and one while events are delivered */
    box_time deadline;
    box_metadata metadata; /* of the request */
    size_t max_message_bytes;
    box_encoding encoding;
    box_compress_mode compress;
    bool was_compressed; /* the message taken last */
    box_received *first, **last;
    size_t unread_bytes;
    size_t n_messages; /* received */
    bool paused;       /* by us: too much unread */
    bool user_paused;  /* box_client_pause */
    bool has_headers, has_trailers;
    bool half_closed;
    bool done;
    bool freed; /* box_client_free was called: no further callback */
    box_error status;
    box_metadata headers, trailers;
    const box_client_events *events; /* NULL: blocking */
    const void *typed;
    void *arg;
    bool headers_told, done_told, writable_news;
    /* attempt.c: on its way to a stream, or to another one */
    box_list place;                 /* channel->waiting or delayed */
    box_h2_stream *stream;          /* NULL: waits, or is over */
    box_outgoing *sent, **sent_end; /* messages that may have to be sent again */
    size_t sent_bytes;
    box_attempts attempts;
    box_time again_at;
    uint64_t born_at; /* channel->n_failures then */
    bool wait_for_ready, idempotent;
    bool is_delayed;           /* in channel->delayed */
    bool is_committed;         /* never sent again */
    bool was_refused;          /* once already */
    bool is_cancelled;         /* by us */
    struct box_served *served; /* inproc */
};

/* --- news.c: what a carrier tells a call -------------------------------------------------------
 */

void box_client_call_headers(box_client_call *call, const box_metadata *metadata);
void box_client_call_message(box_client_call *call, const uint8_t *data, size_t len,
                             bool was_compressed);
void box_client_call_writable(box_client_call *call);
/* The first status counts. */
void box_client_call_done(box_client_call *call, const box_error *status,
                          const box_metadata *trailers);
/* Ends the call from our side. */
void box_client_call_fail(box_client_call *call, const box_error *why);
/* Takes the oldest message, or NULL: no message is there. */
box_received *box_client_call_pop(box_client_call *call);
void box_client_call_pause(box_client_call *call, bool users);
void box_client_call_drop_messages(box_client_call *call);
/* Decodes to the heap, so that callers free it with ...__free_unpacked(m, NULL). */
int box_client_call_unpack(const box_client_call *call, const box_received *m,
                           ProtobufCMessage **out, box_error *err) BOX_MUST_USE;
void box_client_call_mark_ready(box_client_call *call);
/* Ends every call whose deadline has passed; the earliest one left (BOX_TIME_NEVER: none). */
box_time box_client_calls_expire(box_channel *c, box_time now);

/* --- call.c */

/* What every kind of start has in common; typed, events NULL: blocking. */
typedef struct box_client_start_args {
    const box_method *method;
    const box_client_options *options;
    const ProtobufCMessage *request; /* NULL: sent later */
    const box_client_events *events;
    const void *typed;
    void *arg;
} box_client_start_args;
/* NULL: it was not started. out (or NULL) is set before another thread can deliver events. */
box_client_call *box_client_call_start(box_channel *c, const box_client_start_args *args,
                                       box_client_call **out, box_error *err) BOX_MUST_USE;
/* Lock held. */
void box_client_call_unref(box_client_call *call);

/* --- attempt.c: from a call to a stream of some connection ------------------------------------
 */

/* The call waits for a place. -1: too many do. */
int box_attempt_start(box_client_call *call, box_error *err) BOX_MUST_USE;
void box_attempt_send(box_client_call *call, box_outgoing *message);
bool box_attempt_is_writable(const box_client_call *call);
/* Leaves the queue, and nothing is sent again. */
void box_attempt_stop(box_client_call *call);
/* An answer came: this attempt is the call's. */
void box_attempt_commit(box_client_call *call);
/* Its stream was closed. True: it waits for another one. */
bool box_attempt_again(box_client_call *call, const box_h2_stream *s, const box_error *why,
                       const box_metadata *trailers);
/* Gives places to the calls that wait. */
void box_attempts_place(box_channel *c);
/* Those whose pause is over wait for a place again. When the next one's is. */
box_time box_attempts_expire(box_channel *c, box_time now);
void box_attempts_close(box_channel *c, const box_error *why);

/* --- wait.c */

/* Lock held on entry and exit, not meanwhile. Returns when ready(call). */
void box_channel_await(box_client_call *call, bool (*ready)(const box_client_call *call));
/* The call has news: whoever waits for it looks again. */
void box_channel_notify(const box_client_call *call);
/* Something expires sooner than whoever polls knows. */
void box_channel_note_expiry(box_channel *c, box_time at);
/* One round for a loop that does not wait. */
void box_channel_round(box_channel *c);
/* box_channel_poll's descriptor becomes readable, stays so until loop_quiet. */
void box_channel_loop_wake(box_channel *c);
void box_channel_loop_quiet(box_channel *c);

/* --- options.c */

int box_channel_take_options(box_channel *c, const box_channel_options *o, bool from_environment,
                             box_error *err) BOX_MUST_USE;
/* The variable's value, or NULL where it is empty. */
const char *box_channel_environment(const char *name);

/* --- channel.c */

box_channel *box_channel_alloc(const box_carrier *carrier, bool is_recursive);
/* Ends every function of the API: the program hears of the state if it changed. */
void box_channel_unlock(box_channel *c);
/* Any number (lane.c). */
uint32_t box_channel_random(box_channel *c);
/* Lock held; releases it. */
void box_channel_unref_unlock(box_channel *c);

extern const box_carrier box_carrier_connections;

/* --- conn.c, connect.c ------------------------------------------------------------------------
 */

/* Starts connecting to the first of the lane's addresses that lets us. -1: nothing could even be
 * tried. */
int box_conn_new(box_lane *lane, box_conn **out, box_error *err) BOX_MUST_USE;
/* The server speaks HTTP/2. */
bool box_conn_is_ready(const box_conn *conn);
/* A call may start there now; only_ready: not before it is ready. */
bool box_conn_takes(const box_conn *conn, bool only_ready);
/* A call is about to start there. */
void box_conn_use(box_conn *conn);
/* The connection's calls end UNAVAILABLE with why. */
void box_conn_free(box_conn *conn, const box_error *why);
box_h2 *box_conn_h2(box_conn *conn);
/* The connection with that number that has something to read or write, if it is still there. */
void box_conns_ready(box_channel *c, uint64_t id, uint32_t events);
void box_conns_flush(box_channel *c);
void box_conns_close(box_channel *c, const box_error *why);
/* No new calls go there; it ends with its last one. */
void box_conn_retire(box_conn *conn);
/* Notices that the server closed a connection nobody has been reading. May free it. */
void box_conn_probe(box_conn *conn);
/* Connects that take too long fail here, and connections whose server is silent. The earliest such
 * time left. */
box_time box_conns_expire(box_channel *c, box_time now);

/* --- spawn.c ---------------------------------------------------------------------------------
 */

int box_spawn_boxd(box_channel *c, const char *command, box_error *err) BOX_MUST_USE;
void box_spawn_stop(box_channel *c);
