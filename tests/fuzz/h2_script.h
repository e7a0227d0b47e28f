/* A peer of the HTTP/2 core that says what an input tells it to. Each step of an input makes frames
 * that are whole and mostly sensible (header blocks compressed as they should be, gRPC messages in
 * DATA, SETTINGS, floods of one frame), or any frame, or bytes that are none: so the fuzzer gets
 * far into the core instead of guessing lengths. */
#pragma once

#include <nghttp2/nghttp2.h>

#include "fuzz.h"
#include "wire/h2.h"

typedef struct h2_field {
    const char *name;
    const char *value;
} h2_field;

/* What header blocks are made of: lists to begin with, each ended by a zeroed field, and single
 * fields to add. */
typedef struct h2_words {
    const h2_field *const *heads;
    size_t n_heads;
    const h2_field *fields;
    size_t n_fields;
} h2_words;

enum { H2_SCRIPT_STREAMS = 256 };

typedef struct h2_script {
    const h2_words *words;
    nghttp2_hd_deflater *deflater;
    box_buf out;                   /* made, not given to the core yet */
    size_t chunk;                  /* bytes the core gets at once */
    bool ended[H2_SCRIPT_STREAMS]; /* by half of the id: the core said END_STREAM or RST_STREAM */
    size_t sent_bytes;             /* by the core */
} h2_script;

/* A client begins with the preface. chunk 0: all at once. */
void h2_script_init(h2_script *s, const h2_words *words, bool client, size_t chunk);
void h2_script_done(h2_script *s);

/* One step; kind may be any number, the rest is read from in. */
void h2_script_step(h2_script *s, uint8_t kind, box_bytes *in);
void h2_script_bytes(h2_script *s, box_bytes bytes);
/* Gives the core what was made. False once it says that the connection is broken. */
bool h2_script_feed(h2_script *s, box_h2 *core);
/* Takes about max_bytes from the core and checks that they are frames one may send. Returns how
 * many there were. */
size_t h2_script_drain(h2_script *s, box_h2 *core, size_t max_bytes);
