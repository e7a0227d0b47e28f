/* A peer whose frames are made and read by hand: says what a sane HTTP/2 library would not. */
#pragma once

#include <nghttp2/nghttp2.h>

#include "h2_peer.h"

enum { RAW_MAX_STREAMS = 700, RAW_HEAD = 4096 };

typedef struct raw_stream {
    char head[RAW_HEAD]; /* "name: value\n" of all blocks; a block ends with "\n" */
    size_t head_len;
    box_buf data;
    bool ended;     /* END_STREAM came */
    bool was_reset; /* RST_STREAM came */
    uint32_t rst;   /* its code */
    bool rst_last;  /* after END_STREAM */
} raw_stream;

typedef struct raw_field {
    const char *name;
    const char *value;
} raw_field;

typedef struct h2_raw {
    nghttp2_hd_deflater *deflater;
    nghttp2_hd_inflater *inflater;
    box_buf out;         /* to the core */
    box_buf in;          /* from it, not parsed yet */
    raw_stream *streams; /* by id / 2 */
    unsigned n_goaway, n_ping_acks, n_settings_acks;
    uint32_t goaway_code;
    char goaway_text[64]; /* debug data of the last one */
} h2_raw;

void raw_init(h2_raw *r, bool client);
void raw_done(h2_raw *r);

void raw_frame(h2_raw *r, uint8_t type, uint8_t flags, uint32_t id, const void *payload,
               size_t len);
/* Ends with a zeroed one. flags: END_STREAM or 0; END_HEADERS is added. */
void raw_headers(h2_raw *r, uint32_t id, uint8_t flags, const raw_field *fields);
/* The usual request: POST to path with content type and te; END_STREAM is not set. */
void raw_request(h2_raw *r, uint32_t id, const char *path);
/* One DATA frame of text, whose length is a literal's: NUL may be inside. */
#define RAW_DATA(r, id, flags, literal)                                                            \
    raw_frame((r), NGHTTP2_DATA, (flags), (id), (literal), sizeof(literal) - 1)

/* Gives what was made to the core, chunk bytes at a time, and parses all it says. -1 when the core
 * says the connection is broken. */
int raw_exchange(h2_raw *r, h2_peer *core, size_t chunk);

raw_stream *raw_get(h2_raw *r, uint32_t id);
/* Does a block of the stream have that field line? */
bool raw_has(h2_raw *r, uint32_t id, const char *line);

/* A server that answers each call with OK at its half-close, and who calls it. */
typedef struct raw_pair {
    h2_peer *server;
    h2_raw raw;
} raw_pair;

raw_pair raw_pair_new(void);
void raw_pair_done(raw_pair *p);
