/* Reading one JSON value into a scalar field. */
#pragma once

#include <jansson.h>

#include "internal.h"

typedef struct json_reader {
    box_error *err;
    unsigned flags;
} json_reader;

/* to: where the value stands in the message, or in a list; strings and bytes are allocated. Any
 * type but MESSAGE. */
int box_json_read_scalar(const json_reader *r, const json_path *at,
                         const ProtobufCFieldDescriptor *f, const json_t *json, void *to)
    BOX_MUST_USE;
/* A map's key, which JSON always has as text. */
int box_json_read_key(const json_reader *r, const json_path *at, const ProtobufCFieldDescriptor *f,
                      const char *key, void *to) BOX_MUST_USE;
