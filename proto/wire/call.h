/* box_call: a call as its handler sees it, whatever carries it (an HTTP/2 stream of server/rpc, or
 * the client library's inproc channel).
 *
 * A call belongs to one loop thread: every function here is called there, and handlers and
 * callbacks run there. Jobs for other threads hold a reference and come back by box_loop_post.
 * Answering or finishing a call that is over is harmless. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "base/buf.h"
#include "base/clock.h"
#include "wire/compress.h"
#include "wire/metadata.h"
#include "wire/validate.h"

typedef struct box_call box_call;
struct box_method;
struct box_service;

/* --- for handlers ----------------------------------------------------------------------------- */

box_call *box_call_ref(box_call *call);
void box_call_unref(box_call *call);

/* What the server gave with the service. */
void *box_call_context(const box_call *call);
/* Who calls: set by the transport's admission hook before the handler, NULL where there is none.
 * The type is policy's. */
const void *box_call_identity(const box_call *call);
const box_metadata *box_call_metadata(const box_call *call);
/* Absolute; 0 = none. */
box_time box_call_deadline(const box_call *call);
/* False once the call was finished, cancelled or lost. */
bool box_call_is_open(const box_call *call);

/* Sends one message (copied). Call box_call_is_writable before producing more of an unbounded
 * stream. */
void box_call_send(box_call *call, const ProtobufCMessage *message);
/* Ends the call: OK when err is NULL. */
void box_call_finish(box_call *call, const box_error *err);
/* Initial metadata goes out with the first message, trailing with the end. */
int box_call_add_header(box_call *call, const char *key, const char *value, box_error *err)
    BOX_MUST_USE;
int box_call_add_trailer(box_call *call, const char *key, const char *value, box_error *err)
    BOX_MUST_USE;

/* Of the messages sent from now on (compress.h). AUTO by default: the server answers compressed
 * when the request named an encoding that the caller accepts. ALWAYS takes effect when asked for
 * before the first message. Without meaning on a transport that does not compress. */
void box_call_set_compress(box_call *call, box_compress_mode mode);
/* Did the request message that is being delivered, or was last, come compressed? */
bool box_call_was_compressed(const box_call *call);

/* Back-pressure, outwards: false when more than BOX_STREAM_HIGH_WATER_BYTES wait to be sent;
 * on_writable is called when it is true again. */
bool box_call_is_writable(const box_call *call);
void box_call_on_writable(box_call *call, void (*fn)(box_call *call, void *arg), void *arg);
/* Inwards: no further request message is delivered, and the peer's window is not opened. */
void box_call_pause(box_call *call);
void box_call_resume(box_call *call);

/* Called exactly once, when the call is over for any reason: why->reason is NONE after
 * box_call_finish, CANCELLED when the peer went away or reset, DEADLINE, SHUTTING_DOWN, or what was
 * wrong with the request. The place to stop work and free what belongs to the call; the call itself
 * stays valid during it. After box_call_finish it runs inside box_call_finish, as its last act: do
 * not touch afterwards what it frees. Set at most once; on a call that is over, it runs at once. */
void box_call_on_end(box_call *call, void (*fn)(box_call *call, void *arg, const box_error *why),
                     void *arg);
/* The handler's own state of a streaming call. */
void box_call_set_state(box_call *call, void *state);
void *box_call_state(const box_call *call);

/* --- for transports --------------------------------------------------------------------------- */

typedef struct box_call_ops {
    /* One packed message; never called after finish. */
    void (*send)(box_call *call, const uint8_t *message, size_t len);
    /* err NULL = OK. */
    void (*finish)(box_call *call, const box_error *err);
    bool (*is_writable)(const box_call *call);
    void (*pause)(box_call *call, bool paused);
    /* NULL: the transport does not compress. */
    void (*set_compress)(box_call *call, box_compress_mode mode);
    /* The last reference went. Frees the memory that holds the call. */
    void (*destroy)(box_call *call);
} box_call_ops;

/* Embedded as the first member of a transport's own struct. Fields are call.c's; transports may
 * read headers and trailers when they send.
 *
 * Unary and server streaming: the request is checked and decoded when it comes, the handler is
 * called at the half-close, so that a second message is still refused (grpc-conformance.md, 53) and
 * a request cut short never runs. Client streaming and bidi: the handler begins with
 * box_call_deliver_start, each message is decoded, delivered and freed. */
struct box_call {
    const box_call_ops *ops;
    const struct box_service *service;
    const struct box_method *method;
    const void *identity;
    box_metadata metadata; /* the request's */
    box_metadata headers;
    box_metadata trailers;
    box_time deadline;
    unsigned refs;
    bool started;        /* handler was called */
    bool finished;       /* box_call_finish, or ended by the peer */
    bool ended;          /* on_end was delivered, or would have been */
    bool was_compressed; /* the transport's to set, before it delivers a message */
    box_reason why;      /* of the end */
    char *session_id;    /* what the first request message names so; NULL: nothing */
    void *state;
    box_arena arena;           /* holds request */
    ProtobufCMessage *request; /* unary and server streaming: came, the handler not called yet */
    void (*writable)(box_call *call, void *arg);
    void *writable_arg;
    void (*end)(box_call *call, void *arg, const box_error *why);
    void *end_arg;
};

/* One reference, for the transport. metadata is taken (left zeroed). */
void box_call_init(box_call *call, const box_call_ops *ops, const struct box_service *service,
                   const struct box_method *method, const void *identity, box_metadata *metadata,
                   box_time deadline);
/* What the transport received. Each may end the call: with the handler's error, VALIDATION or
 * PROTOCOL for bytes that are no valid request, or UNIMPLEMENTED for a wrong number of request
 * messages (grpc-conformance.md 52, 53) or a handler that is not there. All are harmless on a call
 * that is over. */
void box_call_deliver_start(box_call *call); /* once, for every kind: a streaming handler begins */
void box_call_deliver_message(box_call *call, const uint8_t *data, size_t len);
void box_call_deliver_half_close(box_call *call);
void box_call_deliver_writable(box_call *call);
/* The transport is done with the call; drops its reference. Called exactly once for every call:
 * after box_call_finish (why is ignored then), or when it is over without it: cancelled, deadline,
 * connection lost. */
void box_call_deliver_end(box_call *call, const box_error *why);
