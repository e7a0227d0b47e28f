/* Writing JSON text and one scalar of a message. */
#pragma once

#include "internal.h"

typedef struct json_writer {
    box_buf *out;
    box_error *err;
    unsigned flags;
    unsigned indent;
} json_writer;

int box_json_put(json_writer *w, const char *text) BOX_MUST_USE;
/* An object or a list: open, box_json_put_next before each member, close. */
int box_json_open(json_writer *w, const char *bracket) BOX_MUST_USE;
int box_json_put_next(json_writer *w, bool *first) BOX_MUST_USE;
int box_json_close(json_writer *w, const char *bracket, bool empty) BOX_MUST_USE;
/* Quoted and escaped. */
int box_json_put_string(json_writer *w, const json_path *at, const char *text) BOX_MUST_USE;
/* The same with a colon. */
int box_json_put_name(json_writer *w, const json_path *at, const char *name) BOX_MUST_USE;

/* value: where it stands in the message, or in a list. Any type but MESSAGE. */
int box_json_put_scalar(json_writer *w, const json_path *at, const ProtobufCFieldDescriptor *f,
                        const void *value) BOX_MUST_USE;
