/* Two HTTP/2 cores talking in memory, with what each was told written down. */
#pragma once

#include "wire/h2.h"

enum { H2_MAX_SEEN = 512, WHOLE = 1 << 20 /* a chunk that cuts nothing */ };

/* What one stream's owner was told. */
typedef struct seen {
    struct h2_peer *peer;
    box_h2_stream *s; /* NULL once closed */
    char path[64];
    char authority[64];
    uint64_t timeout_ns;
    box_metadata metadata; /* of the request (server) or the response headers (client) */
    box_metadata trailers;
    box_buf bytes; /* of all messages, one after another */
    size_t last_len;
    unsigned n_messages, n_headers, n_half_close, n_writable, n_closed;
    box_error why;
    bool was_refused, was_sent; /* as the closed event saw it */
} seen;

typedef struct h2_peer {
    box_h2 *h;
    seen seen[H2_MAX_SEEN];
    unsigned n_seen, n_goaway;
    /* What the owner does; NULL: only write down. */
    void (*on_request)(seen *call);
    void (*on_message)(seen *call, const uint8_t *data, size_t len);
    void (*on_half_close)(seen *call);
    void (*on_writable)(seen *call);
    int (*on_page)(const box_h2_request *request, box_buf *out);
    void *arg;
    box_encoding encoding; /* client: of the calls that follow */
} h2_peer;

/* config NULL: defaults. */
h2_peer *h2_peer_new(bool server, const box_h2_config *config);
/* The connection is lost: every call hears of it. */
void h2_peer_lose(h2_peer *p);
void h2_peer_free(h2_peer *p);

/* A new call of the client; fails the test when it cannot start. */
seen *h2_peer_call(h2_peer *client, const char *path, const box_metadata *metadata,
                   uint64_t timeout_ns);
void h2_peer_text(seen *call, const char *text);
void assert_bytes(const seen *call, const char *text);
/* Closed once, with OK. */
void assert_ok(const seen *call);

/* Moves bytes both ways, chunk at a time, until both are silent. Fails the test when a side breaks.
 */
void h2_run(h2_peer *a, h2_peer *b, size_t chunk);
/* One direction, at most about max_bytes; returns how many. */
size_t h2_move(h2_peer *from, h2_peer *to, size_t chunk, size_t max_bytes);
/* Bytes made by hand, chunk at a time. -1 when the core says the connection is broken. */
int h2_feed(h2_peer *to, const void *data, size_t len, size_t chunk);

/* Our client and our server. */
typedef struct h2_pair {
    h2_peer *client;
    h2_peer *server;
} h2_pair;

h2_pair h2_pair_new(void);
void h2_pair_done(h2_pair *p);

/* The same numbers for the same seed. */
uint64_t h2_next_random(uint64_t *seed);
