/* Box client library: calls. Programs use the generated stubs ("box/v1/exec.client.h"); these
 * functions are what the stubs are made of.
 *
 * For each method protoc-gen-boxc writes, with the prefix of package and service (for Exec of
 * box.v1.ExecService: box_v1_exec_service_exec), where C is box_channel *, O is const
 * box_client_options *, E is box_error * and K is box_client_call *:
 *
 *     unary           int P_exec(C, O, const Request *, Response **, E)
 *     server stream   int P_watch(C, O, const Request *, K *call, E)
 *                     int P_watch_receive(K, Response **, E)
 *     client stream   int P_upload(C, O, K *call, E)
 *                     int P_upload_send(K, const Request *, E)
 *                     int P_upload_finish(K, Response **, E)
 *     bidi            int P_exec_stream(C, O, K *call, E)
 *                     int P_exec_stream_send(K, const Request *, E)
 *                     int P_exec_stream_receive(K, Response **, E)
 *
 * with box_client_half_close, box_client_cancel and box_client_free for the stream kinds. And for
 * event loops, all four kinds (box_client_events below says what each event is):
 *
 *     typedef struct P_exec_events {
 *         void (*headers)(void *arg, K, const box_metadata *);
 *         void (*message)(void *arg, K, const Response *);
 *         void (*writable)(void *arg, K);
 *         void (*done)(void *arg, K, const box_error *status, const box_metadata *trailers);
 *     } P_exec_events;
 *     int P_exec_start(C, O, [const Request *,] const P_exec_events *, void *arg, K *call, E)
 *
 * Responses are the caller's: free them with ...__free_unpacked(response, NULL). A status other
 * than OK is -1 with *err. One thread may send on a call while another receives; box_client_cancel
 * is for any thread. box_client_free comes when no other thread uses the call any more. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "box/channel.h"
#include "wire/encoding.h"
#include "wire/metadata.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct box_method box_method; /* what the generator knows about a method */
typedef struct box_client_call box_client_call;

/* NULL or zero: defaults. Borrowed by the function that takes it. */
typedef struct box_client_options {
    uint64_t timeout_ns; /* the call's deadline, from now; 0 = none */
    /* The same as a time of CLOCK_MONOTONIC in nanoseconds, such as box_call_deadline of a call
     * that this one is made for; 0 = none. The sooner one counts. */
    uint64_t deadline_ns;
    const box_metadata *metadata; /* sent with the request */
    /* Blocking unary: overwritten with the answer's (empty when there are none), the caller's to
     * free. NULL: not wanted. */
    box_metadata *headers;
    box_metadata *trailers;
    const char *token; /* instead of the channel's */
    /* Adds what proves who calls to `out` (a token that has to be asked for, a signature); called
     * once, before the call starts, with no lock held. -1 with *err: the call does not exist, with
     * that error if it is UNAUTHENTICATED or UNAVAILABLE, else with UNAUTHENTICATED. Over TLS and
     * Unix sockets only: UNAUTHENTICATED elsewhere. */
    int (*credentials)(void *arg, const char *path, box_metadata *out, box_error *err);
    void *credentials_arg;
    /* false: fails with RUNTIME_UNAVAILABLE when no server can be reached just now. true: waits for
     * one until its deadline. */
    bool wait_for_ready;
    /* Making it twice does no harm: the channel's retry policy is for it. Without, a call is made
     * again only when the server surely has not looked at it. */
    bool idempotent;
    size_t max_message_bytes; /* received, instead of the channel's; 0 = the channel's */
    box_encoding encoding;    /* of messages sent; those that come may have any that we know */
} box_client_options;

/* Starts a call. request: sent, and nothing follows it; NULL: messages are sent with
 * box_client_send, until box_client_half_close. -1: the call does not exist, as what was asked for
 * is not possible (VALIDATION, UNAUTHENTICATED, MESSAGE_SIZE), or too many calls
 * wait already (QUOTA); all else is the call's status. */
int box_client_start(box_channel *channel, const box_method *method,
                     const box_client_options *options, const ProtobufCMessage *request,
                     box_client_call **out, box_error *err) BOX_MUST_USE;
/* Waits while the peer does not read. -1: the call is over, or was half-closed; its status comes
 * from receive. */
int box_client_send(box_client_call *call, const ProtobufCMessage *message, box_error *err)
    BOX_MUST_USE;
/* Of the messages sent after it: NEVER for what is secret or compressed already. */
void box_client_set_compress(box_client_call *call, box_compress_mode mode);
int box_client_half_close(box_client_call *call, box_error *err) BOX_MUST_USE;
/* Waits. 1: a message in *out; 0: the call ended with OK; -1: it ended with *err. */
int box_client_receive(box_client_call *call, ProtobufCMessage **out, box_error *err) BOX_MUST_USE;
/* Unary in one step. */
int box_client_unary(box_channel *channel, const box_method *method,
                     const box_client_options *options, const ProtobufCMessage *request,
                     ProtobufCMessage **response, box_error *err) BOX_MUST_USE;
/* Client streaming: half-closes, then exactly one answer and the status. */
int box_client_finish(box_client_call *call, ProtobufCMessage **response, box_error *err)
    BOX_MUST_USE;
/* Did the message that was received last come compressed? */
bool box_client_was_compressed(const box_client_call *call);
/* After the first message or the end; NULL before, and when there are none. Borrowed from the call.
 */
const box_metadata *box_client_headers(const box_client_call *call);
const box_metadata *box_client_trailers(const box_client_call *call);
/* Any thread, not a signal handler. The call ends with CANCELLED if it is not over. */
void box_client_cancel(box_client_call *call);
/* Cancels it if it is not over. Also inside its own callbacks; none comes afterwards. */
void box_client_free(box_client_call *call);

/* --- with an event loop ----------------------------------------------------------------------- */

/* Called by box_channel_dispatch, with no lock held: every function of this header may be called
 * inside, also the waiting ones; box_channel_free may not. */
typedef struct box_client_events {
    /* Once, before the first message; not for a call that fails at once. May be NULL. */
    void (*headers)(void *arg, box_client_call *call, const box_metadata *metadata);
    /* Borrowed until it returns. A unary call's message counts only if `done` says OK. */
    void (*message)(void *arg, box_client_call *call, const ProtobufCMessage *message);
    /* The send queue was full and has drained. May be NULL. */
    void (*writable)(void *arg, box_client_call *call);
    /* Last event, exactly once unless the call is freed before; status->reason NONE = OK. Free the
     * call here or later. */
    void (*done)(void *arg, box_client_call *call, const box_error *status,
                 const box_metadata *trailers);
} box_client_events;

/* Like box_client_start; events come from box_channel_dispatch, never from inside this.
 * box_client_send then never waits: it queues, and box_client_is_writable says when to stop (a call
 * that queues 64 MiB ends with MEMORY_BUDGET). events and typed are borrowed until the call is
 * freed. */
int box_client_start_events(box_channel *channel, const box_method *method,
                            const box_client_options *options, const ProtobufCMessage *request,
                            const box_client_events *events, const void *typed, void *arg,
                            box_client_call **out, box_error *err) BOX_MUST_USE;
/* What box_client_start_events got: generated code keeps its typed events there. */
const void *box_client_typed(const box_client_call *call);
bool box_client_is_writable(const box_client_call *call);
/* No message event until resumed (what is being delivered just now still comes); then the server is
 * told not to send more. */
void box_client_pause(box_client_call *call, bool paused);

/* What to poll: a descriptor (-1: nothing to poll), events of poll(2), and at most how long, -1 =
 * for ever. Ask again before each poll. Another thread that starts or cancels a call makes the
 * descriptor readable. */
void box_channel_poll(box_channel *channel, int *fd, short *events, int *timeout_ms);
/* Does the I/O that is ready without waiting, then delivers events. One thread at a time. A broken
 * connection is its calls' status; the next call makes another. */
void box_channel_dispatch(box_channel *channel);

#ifdef __cplusplus
}
#endif
