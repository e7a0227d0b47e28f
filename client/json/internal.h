/* What reading and writing share. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "base/buf.h"

/* Where in the message: frames from the root, for the names in errors. */
typedef struct json_path {
    const struct json_path *parent; /* NULL: the root, which has no name */
    const char *name;
    size_t index; /* of a list's element + 1; 0 = none */
    unsigned depth;
} json_path;

/* VALIDATION with the dotted path; always -1. */
int box_json_fail(box_error *err, const json_path *at, const char *fmt, ...) BOX_PRINTF(3, 4);

typedef enum json_form {
    JSON_PLAIN,
    JSON_TIMESTAMP,
    JSON_DURATION,
    JSON_FIELD_MASK,
    JSON_REFUSED, /* google.protobuf.Any and its like */
} json_form;

json_form box_json_form_of(const ProtobufCMessageDescriptor *type);

/* proto3's rule: "cpu_millis" is "cpuMillis". out has room for strlen(name) + 1. */
void box_json_camel(const char *name, char *out);
/* Whether key is the field's JSON name or its own. */
bool box_json_name_is(const char *name, const char *key);
/* One path of a FieldMask: "spec.cpu_millis" <-> "spec.cpuMillis". out has room for
 * strlen(path) + 1, and for 2 * len + 1. False: it would not come back. */
bool box_json_mask_to_camel(const char *path, char *out);
bool box_json_mask_to_snake(const char *path, size_t len, char *out);

/* protoc-c does not mark maps: a repeated FooEntry { key = 1, value = 2 } inside the message that
 * has it as field foo is one (protoc writes just that, and protoc-gen-boxc refuses look-alikes). */
bool box_json_is_map(const ProtobufCMessageDescriptor *type, const ProtobufCFieldDescriptor *field);

/* Bytes of one value of that type in a message or list. */
size_t box_json_value_size(ProtobufCType type);

/* RFC 3339 with Z, 0, 3, 6 or 9 digits of a second; years 1 to 9999. */
enum { JSON_TIME_TEXT = 40 };
int box_json_timestamp_format(int64_t seconds, int32_t nanos, char out[JSON_TIME_TEXT]);
int box_json_timestamp_parse(const char *text, int64_t *seconds, int32_t *nanos);
/* "1.500s", "-3s"; up to 10,000 years. */
int box_json_duration_format(int64_t seconds, int32_t nanos, char out[JSON_TIME_TEXT]);
int box_json_duration_parse(const char *text, int64_t *seconds, int32_t *nanos);
