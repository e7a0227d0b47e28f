/* gRPC over HTTP/2, one connection, bytes in and bytes out: no sockets, clock or threads inside.
 * Server and client are the same object with a different role. Not for several threads at once.
 *
 * Callbacks run inside box_h2_receive, box_h2_send (writable, and what had waited while a stream
 * was paused), box_h2_cancel (closed) and box_h2_free (closed). A callback may call any stream
 * function on any stream that had no closed event yet, but not box_h2_receive, _send or _free.
 * Whoever calls a stream function looks at box_h2_wants_send afterwards. */
#pragma once

#include "base/buf.h"
#include "base/clock.h"
#include "wire/compress.h"
#include "wire/metadata.h"

typedef struct box_h2 box_h2;
typedef struct box_h2_stream box_h2_stream;

/* Server: what a new request says. Already checked: POST, te, content type, path shape,
 * grpc-timeout. */
typedef struct box_h2_request {
    const char *path;      /* "/box.v1.ExecService/Exec" */
    const char *authority; /* "" when absent */
    box_metadata
        *metadata;       /* application metadata with `authorization`; may be taken (left zeroed) */
    uint64_t timeout_ns; /* 0: none; an expired one is 1 */
} box_h2_request;

typedef struct box_h2_events {
    /* Server: headers came, before any body. Set the stream's owner, or finish it at once. What is
     * no gRPC request never comes here: it was answered with 404, 405, 415 or a gRPC status. */
    void (*request)(void *owner, box_h2_stream *s, const box_h2_request *request);
    /* Server: a GET that is no gRPC. Returns the HTTP status of the answer whose text it appended
     * to out, or 0: nothing is at that path. May be NULL. */
    int (*page)(void *owner, const box_h2_request *request, box_buf *out);
    /* Client: initial metadata, at most once; not for trailers-only. */
    void (*headers)(void *owner, box_h2_stream *s, const box_metadata *metadata);
    /* A whole message, decompressed, valid during the call. Its window is given back on return
     * unless paused. */
    void (*message)(void *owner, box_h2_stream *s, const uint8_t *data, size_t len);
    /* Server: the client sent everything, in whole messages. Not while paused. */
    void (*half_close)(void *owner, box_h2_stream *s);
    /* The queue of unsent bytes fell below BOX_STREAM_LOW_WATER_BYTES after having been above the
     * high-water mark. */
    void (*writable)(void *owner, box_h2_stream *s);
    /* Last event of a stream; the pointer is invalid on return. Server: why is NONE after
     * box_h2_finish went out, CANCELLED on reset or connection loss, PROTOCOL, MESSAGE_SIZE...
     * (then the core has answered). Client: the call's status (NONE = OK), trailers set (NULL when
     * there are none). Messages that came before the status are delivered first, so a paused stream
     * that still holds some gets this only when resumed. */
    void (*closed)(void *owner, box_h2_stream *s, const box_error *why,
                   const box_metadata *trailers);
    /* The peer sent GOAWAY: no new streams here. */
    void (*goaway)(void *owner);
} box_h2_events;

typedef struct box_h2_config {
    bool server;
    const char *scheme;               /* client: "https" or "http" */
    const char *authority;            /* client */
    const char *user_agent;           /* client: "grpc-c-box/0.1.0" */
    size_t max_message_bytes;         /* received; 0 = BOX_MAX_MESSAGE_BYTES */
    uint32_t max_streams;             /* server; 0 = BOX_MAX_STREAMS_PER_CONNECTION */
    uint32_t stream_window_bytes;     /* 0 = BOX_STREAM_WINDOW_BYTES */
    uint32_t connection_window_bytes; /* 0 = BOX_CONNECTION_WINDOW_BYTES; at least 65535 */
    box_budget *budget;               /* of messages that wait, in and out; NULL = none */
    /* Server, for tools that test HTTP/2 and know no gRPC: what is no gRPC request gets this text
     * with 200 instead of an error. Static; NULL = no. */
    const char *test_page;
    /* Server: PINGs that come sooner after each other are counted against the client (A8); 0 =
     * never. While no call is open only one in BOX_PING_IDLE_SECONDS is fine, unless permitted. */
    uint64_t ping_min_interval_ns;
    bool permit_ping_without_calls;
} box_h2_config;

/* config's strings are copied. owner goes to every event. */
box_h2 *box_h2_new(const box_h2_config *config, const box_h2_events *events, void *owner);
/* Every open stream gets its closed event first (server: CANCELLED; client: RUNTIME_UNAVAILABLE, or
 * its status when that had come: then also the messages that waited, paused or not). */
void box_h2_free(box_h2 *h);

/* What time it is now: rates of what clients do are measured with it. Before box_h2_receive and
 * box_h2_send; without it a server's client may do only so much in all. */
void box_h2_set_time(box_h2 *h, box_time now);
/* Bytes from the peer. -1: the connection is broken (a GOAWAY may be waiting in box_h2_send); send
 * what there is, then close. RATE_LIMIT: it costs too much (h2_guard.c). */
int box_h2_receive(box_h2 *h, const uint8_t *data, size_t len, box_error *err) BOX_MUST_USE;
/* Appends up to about max_bytes of what is to be sent to out. 0 or -1 (broken). */
int box_h2_send(box_h2 *h, box_buf *out, size_t max_bytes, box_error *err) BOX_MUST_USE;
/* There may be something to send. */
bool box_h2_wants_send(const box_h2 *h);
/* Nothing to read or send any more: close the connection. */
bool box_h2_is_done(const box_h2 *h);
size_t box_h2_stream_count(const box_h2 *h);
/* Server: the client reset much lately, or sent many frames that carry nothing. Within limits, but
 * better read in small pieces, so that others wait less for it. */
bool box_h2_is_costly(const box_h2 *h);
/* When the header block began whose end did not come yet; 0 = there is none. */
box_time box_h2_header_since(const box_h2 *h);
/* The peer's SETTINGS came. */
bool box_h2_is_established(const box_h2 *h);
/* Server: resets streams whose answer is finished and is not taken: in BOX_ANSWER_SECONDS, and one
 * more for each BOX_ANSWER_BYTES_PER_SECOND of it. Call it every few seconds while there are
 * streams. */
void box_h2_sweep(box_h2 *h);
/* Is the peer still there? Its answer is bytes, and says no more than any others would. */
void box_h2_ping(box_h2 *h);
/* The peer's GOAWAY complained about too many of those. */
bool box_h2_pinged_too_often(const box_h2 *h);
/* Client: as many calls run as the server's SETTINGS allow, 100 until they come
 * (grpc-conformance.md, 103); a call started above that waits inside for its turn. */
bool box_h2_can_start(const box_h2 *h);

/* Server, graceful end: GOAWAY with last id 2^31-1 and a PING now; the true last id when the PING's
 * answer comes, or at box_h2_drain_finish (call that from a timer). Open streams go on
 * (grpc-conformance.md 105), then box_h2_is_done. text: static, the second GOAWAY's debug data
 * ("max_age"), or NULL. */
void box_h2_drain(box_h2 *h, const char *text);
void box_h2_drain_finish(box_h2 *h);

/* --- streams ---------------------------------------------------------------------------------- */

void box_h2_stream_set_owner(box_h2_stream *s, void *owner);
void *box_h2_stream_owner(const box_h2_stream *s);

/* Client: a new call; the stream is open until its closed event. timeout_ns 0 = none. encoding: of
 * its messages, as its compress mode says (compress.h), not OTHER. -1 when the connection cannot
 * take it (going away, broken): UNAVAILABLE; nothing was sent. */
int box_h2_request_start(box_h2 *h, const char *path, const box_metadata *metadata,
                         uint64_t timeout_ns, box_encoding encoding, void *stream_owner,
                         box_h2_stream **out, box_error *err) BOX_MUST_USE;
/* Client, inside its closed event: the server surely has not looked at the call. It refused the
 * stream, or its GOAWAY left it out (grpc-conformance.md, 104), or, then was_sent is false, the
 * headers never went out. */
bool box_h2_was_refused(const box_h2_stream *s);
bool box_h2_was_sent(const box_h2_stream *s);
/* Received messages of this stream may have that many bytes, instead of what the connection says.
 */
void box_h2_limit_messages(box_h2_stream *s, size_t max_bytes);
/* Client: no more messages. */
void box_h2_half_close(box_h2_stream *s);
/* Client: RST_STREAM CANCEL; closed comes with why (CANCELLED, DEADLINE) before this returns.
 * Server: the same towards the peer, for a call that cannot be finished; box_h2_finish is the usual
 * end. */
void box_h2_cancel(box_h2_stream *s, const box_error *why);

/* Either: queues one message (copied). Server: headers go first, with `headers` set before. A
 * writer that ignores box_h2_is_writable loses the call (MEMORY_BUDGET) at BOX_STREAM_UNSENT_BYTES.
 */
void box_h2_message(box_h2_stream *s, const uint8_t *data, size_t len);
/* Server: initial metadata, before the first message. Borrowed for the call. */
void box_h2_set_headers(box_h2_stream *s, const box_metadata *headers);
/* Server: status and trailers (NULL = none) after all messages; NULL err = OK. closed follows once
 * sent. The rest of the request is dropped. */
void box_h2_finish(box_h2_stream *s, const box_error *err, const box_metadata *trailers);

/* Server: when the request's last DATA came, or it began. */
box_time box_h2_heard_at(const box_h2_stream *s);
/* The same while the caller owes something: its first message, or the rest of one. 0: it does not,
 * or we do not let it. */
box_time box_h2_owed_since(const box_h2_stream *s);
/* Of the messages that follow (compress.h). A server that wants some of a call's messages
 * compressed which AUTO would not asks for ALWAYS once before its headers go. */
void box_h2_set_compress(box_h2_stream *s, box_compress_mode mode);
/* Did the message that is being delivered, or was last, come compressed? */
bool box_h2_was_compressed(const box_h2_stream *s);

size_t box_h2_unsent_bytes(const box_h2_stream *s);
bool box_h2_is_writable(const box_h2_stream *s);
/* While paused no message or half_close event comes and the stream's window stays shut; what had
 * arrived waits, and comes in the next box_h2_send after resuming. */
void box_h2_pause(box_h2_stream *s, bool paused);
