/* Box client library: calls. Programs use the generated stubs ("box/v1/exec.client.h"); these are
 * what the stubs are made of.
 *
 * For each method protoc-gen-boxc writes, with the prefix of package and service
 * (box_v1_exec_service):
 *
 *   unary          int P_exec(box_channel *, const box_client_options *, const Request *, Response
 * **, box_error *) server stream  int P_watch(box_channel *, const box_client_options *, const
 * Request *, box_client_call **, box_error *) int P_watch_receive(box_client_call *, Response **,
 * box_error *) client stream  int P_upload(box_channel *, const box_client_options *,
 * box_client_call **, box_error *) int P_upload_send(box_client_call *, const Request *, box_error
 * *) int P_upload_finish(box_client_call *, Response **, box_error *) bidi           int
 * P_exec_stream(box_channel *, const box_client_options *, box_client_call **, box_error *) int
 * P_exec_stream_send(...), P_exec_stream_receive(...)
 *
 * and for event loops, all four kinds:
 *
 *   typedef struct P_exec_events { void (*headers)(void *arg, box_client_call *, const box_metadata
 * *); void (*message)(void *arg, box_client_call *, const Response *); void (*writable)(void *arg,
 * box_client_call *); void (*done)(void *arg, box_client_call *, const box_error *status, const
 * box_metadata *trailers); } P_exec_events; int P_exec_start(box_channel *, const
 * box_client_options *, [const Request *,] const P_exec_events *, void *arg, box_client_call **,
 * box_error *)
 *
 * Responses are the caller's: free them with ...__free_unpacked(response, NULL). A status other
 * than OK is -1 with *err. A call object is for one thread at a time, except box_client_cancel. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "box/channel.h"
#include "wire/metadata.h"
#include "wire/service.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct box_client_call box_client_call;

/* NULL or zero: defaults. Borrowed for the call that takes it. */
typedef struct box_client_options {
    uint64_t timeout_ns;          /* the call's deadline, from now; 0 = none */
    const box_metadata *metadata; /* sent with the request */
    box_metadata *headers;        /* blocking unary: filled with the answer's, caller's to free */
    box_metadata *trailers;
    const char *token; /* instead of the channel's */
} box_client_options;

/* Starts a call. The request is sent with box_client_send; unary and server streaming: exactly one,
 * then box_client_half_close. */
int box_client_start(box_channel *c, const box_method *method, const box_client_options *options,
                     box_client_call **out, box_error *err) BOX_MUST_USE;
/* Waits while the peer does not read. -1: the call is over, its status comes from receive. */
int box_client_send(box_client_call *call, const ProtobufCMessage *message, box_error *err)
    BOX_MUST_USE;
int box_client_half_close(box_client_call *call, box_error *err) BOX_MUST_USE;
/* 1: a message in *out; 0: the call ended with OK; -1: it ended with *err. */
int box_client_receive(box_client_call *call, ProtobufCMessage **out, box_error *err) BOX_MUST_USE;
/* Unary in one step. */
int box_client_unary(box_channel *c, const box_method *method, const box_client_options *options,
                     const ProtobufCMessage *request, ProtobufCMessage **response, box_error *err)
    BOX_MUST_USE;
/* Client streaming: half-closes, then exactly one answer and the status. */
int box_client_finish(box_client_call *call, ProtobufCMessage **response, box_error *err)
    BOX_MUST_USE;
/* After the first message or the end; NULL before, and when there are none. Borrowed from the call.
 */
const box_metadata *box_client_headers(const box_client_call *call);
const box_metadata *box_client_trailers(const box_client_call *call);
/* Any thread. The call ends with CANCELLED. */
void box_client_cancel(box_client_call *call);
/* Cancels it when it is not over. */
void box_client_free(box_client_call *call);

/* --- with an event loop
 * ------------------------------------------------------------------------------ */

typedef struct box_client_events {
    void (*headers)(void *arg, box_client_call *call,
                    const box_metadata *metadata); /* may be NULL */
    void (*message)(void *arg, box_client_call *call, const ProtobufCMessage *message);
    void (*writable)(void *arg, box_client_call *call); /* may be NULL */
    /* Last event; status->reason NONE = OK. Free the call here or later. */
    void (*done)(void *arg, box_client_call *call, const box_error *status,
                 const box_metadata *trailers);
    /* The call was freed and nothing follows: the place to free arg. May be NULL. */
    void (*release)(void *arg);
} box_client_events;

/* Like box_client_start; events come from box_channel_dispatch, never from inside this.
 * box_client_send then never waits: it queues, and box_client_is_writable says when to stop. */
int box_client_start_events(box_channel *c, const box_method *method,
                            const box_client_options *options, const box_client_events *events,
                            void *arg, box_client_call **out, box_error *err) BOX_MUST_USE;
bool box_client_is_writable(const box_client_call *call);
/* No message event until resumed. */
void box_client_pause(box_client_call *call, bool paused);

/* What to poll: a descriptor (-1: none yet, call dispatch), events of poll(2), and at most how
 * long. */
void box_channel_poll(box_channel *c, int *fd, short *events, int *timeout_ms);
/* Does the I/O that is ready without waiting, then delivers events. A broken connection is its
 * calls' status; the next call makes another. */
void box_channel_dispatch(box_channel *c);

/* A channel that calls services in this process, through the same signatures: for tests. Handlers
 * run inside the calls of the client; a handler that answers later is driven by `pump` (NULL:
 * none), called while a call waits. */
int box_channel_inproc(const box_service *services, size_t n_services, void (*pump)(void *arg),
                       void *arg, box_channel **out, box_error *err) BOX_MUST_USE;

#ifdef __cplusplus
}
#endif
