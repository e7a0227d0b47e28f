/* What the files of the HTTP/2 core share. Nobody else includes this.
 *
 *   h2.c          the connection: its nghttp2 session, receiving, sending, drain
 *   h2_events.c   what nghttp2 calls: frames that came and frames that went
 *   h2_stream.c   a stream's life and what its owner may do
 *   h2_input.c    message framing, pausing, giving window back
 *   h2_compress.c which messages are compressed
 *   h2_headers.c  header blocks that come
 *   h2_rules.c    which requests are malformed
 *   h2_fields.c   header blocks that go
 *   h2_scan.c     frames that nghttp2 would take otherwise
 *   h2_codes.c    HTTP's own status and reset codes
 *   h2_guard.c    what a client may cost before its connection ends */
#pragma once

#include <nghttp2/nghttp2.h>

#include "base/list.h"
#include "wire/h2.h"

enum { H2_PREFIX = 5, H2_FIELD_OVERHEAD = 32 /* HTTP/2 counts it for each field */ };

typedef enum h2_content_type {
    H2_TYPE_NONE,    /* no content-type */
    H2_TYPE_PROTO,   /* application/grpc, application/grpc+proto */
    H2_TYPE_SUBTYPE, /* application/grpc+something */
    H2_TYPE_OTHER,
} h2_content_type;

/* A header block while it comes in. */
typedef struct h2_head {
    box_metadata metadata;
    nghttp2_rcbuf *path;
    nghttp2_rcbuf *authority;
    nghttp2_rcbuf *host;
    nghttp2_rcbuf *content_type;
    nghttp2_rcbuf *message; /* grpc-message */
    box_buf details;        /* grpc-status-details-bin, decoded */
    uint64_t timeout_ns;
    size_t list_bytes; /* as HTTP/2 counts: name + value + 32 */
    box_error *error;  /* the first thing wrong, or NULL */
    int http_status;
    int grpc_status; /* -1 absent, BOX_CODE_UNKNOWN when it is no number */
    h2_content_type type;
    bool is_post;
    bool is_get;
    bool is_head;
    box_encoding encoding;
    unsigned accepts; /* a bit for each encoding of grpc-accept-encoding */
} h2_head;

/* A header block to send, in one allocation. */
typedef struct h2_block {
    size_t count;
    size_t list_bytes;
    nghttp2_nv *fields;
    char *text;          /* next free byte */
    bool names_encoding; /* grpc-encoding comes before metadata */
} h2_block;

struct box_h2_stream {
    box_list link; /* h->streams */
    box_list work; /* h->work */
    box_h2 *h;
    void *owner;
    int32_t id;
    bool is_open;        /* the owner knows it and had no closed event yet */
    bool paused;         /* by the owner */
    bool busy;           /* its input is being delivered: do not free */
    bool released;       /* free when no longer busy */
    bool gone;           /* nghttp2 has no such stream any more */
    bool reads;          /* input is for the owner; else it is dropped */
    bool remote_end;     /* END_STREAM came */
    bool end_told;       /* half_close was delivered */
    bool local_end;      /* half-close or finish was asked for */
    bool end_sent;       /* END_STREAM went out */
    bool head_sent;      /* server: response headers were handed to nghttp2; client: went out */
    bool is_refused;     /* client: the server has not looked at it */
    bool is_cut;         /* client: the answer ended without trailers */
    bool counts;         /* client: one of h->n_running */
    bool head_seen;      /* client: the final response headers came */
    bool wants_encoding; /* server: ALWAYS was asked for once */
    bool was_compressed; /* the message delivered last */
    bool is_plain;       /* server: the answer is ordinary HTTP */
    bool deferred;       /* nghttp2 waits for box_h2_message or the end */
    bool was_full;       /* above the high-water mark since the last writable event */
    bool wake;           /* owes a writable event */
    bool message_seen;   /* server: one came whole */
    box_time heard_at;   /* server: began, or DATA came */
    box_time deliver_by; /* server: of the finished answer; 0 until box_h2_sweep saw that */
    h2_head head;
    int http_status;           /* client: of the response headers */
    box_encoding in_encoding;  /* as the peer named it */
    box_encoding out_encoding; /* as we named it */
    unsigned accepts;          /* server: encodings the caller takes */
    box_compress_mode compress;
    /* in */
    size_t max_message_bytes;
    uint8_t prefix[H2_PREFIX];
    uint8_t prefix_len;
    uint32_t message_len;
    int64_t expected_bytes; /* server: of content-length that did not come yet; -1: not said */
    box_buf partial;        /* a message that came in pieces */
    box_buf held;           /* raw bytes that came while paused */
    size_t plain_bytes;     /* of the unwanted body of a request that is no gRPC */
    size_t debt;            /* bytes taken whose window was not given back yet */
    /* out */
    box_buf out;
    h2_block *headers; /* server: initial metadata, until sent */
    h2_block *tail;    /* server: trailers, until out is empty */
    box_error
        *status; /* client: the call's status once it came, NULL = OK; server: why it was reset */
};

/* What a server counts of its client (h2_guard.c). */
typedef struct h2_guard {
    box_time now;    /* as box_h2_set_time said last */
    box_time resets; /* of each bucket: when it is full again */
    box_time idle_frames;
    box_time block_since; /* a header block began and has not ended; 0 = none */
    size_t block_bytes;   /* of that block, decoded */
    unsigned updates_due; /* WINDOW_UPDATEs that what we sent may bring */
    box_time ping_at;     /* of the last PING, if pinged */
    bool pinged;          /* since we last sent HEADERS or DATA */
    unsigned ping_strikes;
} h2_guard;

enum { H2_FRAME_HEAD = 9, H2_WINDOW_UPDATE = H2_FRAME_HEAD + 4, H2_CLOSED_STREAMS = 16 };

/* How far frames were read, and what a server knows of streams that are over (h2_scan.c). */
typedef struct h2_scan {
    int32_t ids[H2_CLOSED_STREAMS]; /* ended by the client, or -id: reset by it; the last ones */
    unsigned next;
    int32_t last_id;
    int32_t skipped_from, skipped_to; /* numbers left out before last_id */
    bool began;
    bool stops;       /* the frame that is skipped ends a piece */
    bool drops;       /* nghttp2 does not get the frame that is skipped */
    bool in_block;    /* a header block has begun and CONTINUATION must come */
    uint8_t head_len; /* of a head that came in two reads */
    uint8_t head[H2_WINDOW_UPDATE];
    size_t skip; /* bytes until the next frame's head */
} h2_scan;

typedef struct h2_piece {
    const uint8_t *data; /* for nghttp2; valid until more is asked for */
    size_t len;          /* may be 0 */
    size_t used;         /* of what came */
} h2_piece;

/* Server: of the header block that comes (h2_rules.c). */
typedef struct h2_rules {
    bool is_request;
    bool fields_began;      /* one that is no pseudo-header came */
    unsigned seen;          /* fields that may come once */
    int64_t content_length; /* -1: not said */
} h2_rules;

struct box_h2 {
    nghttp2_session *session;
    box_h2_config config;
    box_share memory; /* of all streams' buffers */
    box_h2_events events;
    void *owner;
    box_list streams;
    box_list work; /* streams with held input or a writable event to deliver */
    size_t n_streams;
    size_t n_running;         /* client: streams that count against the server's limit */
    box_h2_stream *receiving; /* whose header block comes now */
    box_buf *sink;            /* of the box_h2_send that runs */
    size_t sink_limit;
    bool is_broken;      /* nothing more is read */
    bool is_dead;        /* nothing more is sent either */
    bool is_closing;     /* GOAWAY came, or box_h2_free runs: no new streams */
    bool is_established; /* SETTINGS came */
    bool pinged_too_often;
    bool is_draining;
    bool drain_done;
    const char *drain_text; /* of the second GOAWAY, or NULL */
    h2_guard guard;
    h2_scan scan;
    h2_rules rules;
    box_error
        *why; /* of is_broken or is_closing; NULL: nothing is wrong. Large, and rarely there */
};

/* h2.c */
/* Why nothing goes on here: what is said first counts. */
void box_h2_blame(box_h2 *h, box_reason reason, const char *fmt, ...) BOX_PRINTF(3, 4);
/* NONE when nothing was said. */
void box_h2_why(const box_h2 *h, box_error *out);
/* A fatal result of nghttp2 ends the connection. */
void box_h2_check(box_h2 *h, int rv);
void box_h2_kill(box_h2 *h, const char *text);
/* Nothing more is read; what waits is still sent. */
void box_h2_break(box_h2 *h, const char *text);

/* h2_events.c */
nghttp2_session_callbacks *box_h2_callbacks_new(void);
/* What our drain PING carries, so that its answer is known. */
extern const uint8_t box_h2_drain_ping[8];

/* h2_scan.c: harmless on a client */
/* What of data (len > 0) nghttp2 is given before this is asked again. It may end the connection
 * (h->is_broken). */
h2_piece box_h2_scan_next(box_h2 *h, const uint8_t *data, size_t len);
/* Nothing may come on that stream any more: the client ended or reset it. */
void box_h2_scan_closed(box_h2 *h, int32_t id, bool by_reset);

/* h2_rules.c: each is false for what is malformed */
void box_h2_rules_begin(h2_rules *r, bool is_request);
bool box_h2_rules_field(h2_rules *r, nghttp2_vec name, nghttp2_vec value);
bool box_h2_rules_end(const h2_rules *r, bool is_end);

/* h2_stream.c */
box_h2_stream *box_h2_stream_new(box_h2 *h, int32_t id);
/* Ends our knowledge of it: unlinked, detached from nghttp2, freed (after the delivery that runs).
 */
void box_h2_stream_release(box_h2_stream *s);
/* The closed event, if it did not come yet. */
void box_h2_stream_closed(box_h2_stream *s, const box_error *why, const box_metadata *trailers);
/* The call cannot go on: server answers with err, client resets; then closed. May free s. */
void box_h2_stream_fail(box_h2_stream *s, const box_error *err);
void box_h2_stream_reset(box_h2_stream *s, uint32_t code);
void box_h2_stream_finish(box_h2_stream *s, const box_error *err, const box_metadata *trailers);
/* Server: an ordinary HTTP answer of text. */
void box_h2_stream_plain(box_h2_stream *s, int status, const void *text, size_t len);
/* out was read until empty: trailers follow. */
void box_h2_stream_send_tail(box_h2_stream *s);
void box_h2_stream_queue_work(box_h2_stream *s);
/* nghttp2 closed it with that code. Frees s, or leaves it until its held messages were taken. */
void box_h2_stream_gone(box_h2_stream *s, uint32_t code);

/* h2_input.c */
void box_h2_input_data(box_h2_stream *s, const uint8_t *data, size_t len);
/* Delivers what waits, as far as the owner lets it: held messages, then the end. May free s. */
void box_h2_input_run(box_h2_stream *s);
void box_h2_input_drop(box_h2_stream *s);

/* h2_compress.c */
/* Server: what the headers are to name. */
void box_h2_choose_encoding(box_h2_stream *s);
/* True: send out instead, with flag 1. */
bool box_h2_compress(box_h2_stream *s, const uint8_t *data, size_t len, box_buf *out);

/* h2_headers.c */
void box_h2_head_reset(h2_head *head);
void box_h2_head_field(h2_head *head, nghttp2_rcbuf *name, nghttp2_rcbuf *value);
/* The block is complete. May free s. */
void box_h2_head_request(box_h2_stream *s);
void box_h2_head_response(box_h2_stream *s, bool is_end);
/* Client: END_STREAM came without trailers. */
void box_h2_head_missing(box_h2_stream *s);

/* h2_codes.c */
/* An answer without grpc-status (grpc/grpc doc/http-grpc-status-mapping.md). */
void box_h2_status_from_http(int http_status, const char *content_type, box_error *out);
/* RST_STREAM before any status (grpc-conformance.md, 87). */
void box_h2_status_from_reset(uint32_t code, box_error *out);

/* h2_guard.c: all harmless on a client. Each may end the connection (h->is_broken). */
/* A stream was reset, by the peer or because of what it sent. */
void box_h2_guard_reset(box_h2 *h, unsigned weight);
void box_h2_guard_frame(box_h2 *h, const nghttp2_frame_hd *hd);
void box_h2_guard_block(box_h2 *h); /* a header block begins, of h->receiving */
bool box_h2_guard_field(box_h2 *h, size_t bytes);
void box_h2_guard_block_end(box_h2 *h);
void box_h2_guard_ping(box_h2 *h);
void box_h2_guard_sent(box_h2 *h); /* HEADERS or DATA went */
void box_h2_guard_queue(box_h2 *h);

/* h2_fields.c */
h2_block *box_h2_block_request(const box_h2 *h, const char *path, const box_metadata *metadata,
                               uint64_t timeout_ns, box_encoding encoding);
h2_block *box_h2_block_headers(const box_metadata *metadata, box_encoding encoding);
/* only: this is the whole answer. Kept within limit bytes by leaving out details, then text, then
 * metadata (grpc-conformance.md, 37). */
h2_block *box_h2_block_status(const box_error *err, const h2_block *only,
                              const box_metadata *trailers, size_t limit_bytes);
h2_block *box_h2_block_plain(int status, size_t length);
