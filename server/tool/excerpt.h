/* What a model is shown of a stream of output: at most so many characters, the first 60 % and the
 * last 40 % with the exact number of those missing between (box-behaviour.md, section 8). Fed in
 * pieces of any size; memory does not grow with the stream. */
#pragma once

#include "base/buf.h"

enum {
    BOX_EXCERPT_CHARS = 4000, /* the most that can be asked for */
    BOX_EXCERPT_TAIL = BOX_EXCERPT_CHARS - BOX_EXCERPT_CHARS * 60 / 100,
};

/* UTF-8 in pieces; zero is the start. */
typedef struct box_utf8_decoder {
    uint32_t code;  /* so far */
    uint32_t least; /* below it the sequence is longer than it had to be */
    unsigned left;  /* bytes that are missing */
} box_utf8_decoder;

/* Characters are code points; a byte sequence that is not UTF-8, and NUL, counts and shows as one
 * U+FFFD (Unicode, section 3.9: one for each maximal part of a sequence). */
typedef struct box_excerpt {
    box_utf8_decoder decoder;
    uint64_t total;                   /* characters so far */
    uint32_t head[BOX_EXCERPT_CHARS]; /* the first ones */
    uint32_t tail[BOX_EXCERPT_TAIL];  /* the last ones, a ring: character i at i % its size */
} box_excerpt;

/* Zero is empty. */
void box_excerpt_add(box_excerpt *e, const void *data, size_t len);
/* Nothing follows: a character that is not whole counts too. */
void box_excerpt_end(box_excerpt *e);
/* Adds at most `limit` characters to out, exactly that many when it cuts; true: it did. */
bool box_excerpt_text(const box_excerpt *e, size_t limit, box_buf *out);

/* Adds the bytes to out as valid UTF-8 without NUL, by the same rule. */
void box_text_scrub(const void *data, size_t len, box_buf *out);
