/* proto3 JSON for protobuf-c messages (protobuf.dev, ProtoJSON format), by their descriptors.
 *
 * Well-known types with a JSON form of their own: Timestamp, Duration, FieldMask, Empty; any other
 * message of google.protobuf is refused. Maps and JSON names are told by the names of things, which
 * protoc-gen-boxc checks. Pure functions; any thread. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "base/buf.h"

enum {
    BOX_JSON_PRETTY = 1, /* two spaces an indent, and lines */
    BOX_JSON_EMIT_DEFAULTS =
        2, /* zero scalars, empty lists and maps too; never what has presence */
    BOX_JSON_IGNORE_UNKNOWN = 4, /* reading: members that the message does not have */
};

/* Appends the message, without a line end. VALIDATION naming the field for what has no JSON form:
 * text that is not UTF-8, a time out of range, a mask path that is not snake case, more than
 * BOX_MAX_MESSAGE_DEPTH messages in each other. */
int box_json_from_message(const ProtobufCMessage *message, unsigned flags, box_buf *out,
                          box_error *err) BOX_MUST_USE;

/* Reads one JSON object. *out is the caller's: protobuf_c_message_free_unpacked(*out, NULL).
 * VALIDATION naming the field (or line and column of bad JSON), MESSAGE_SIZE above
 * BOX_MAX_JSON_BYTES. A bare number ends at 2^63 - 1; larger uint64 values come as strings. */
int box_json_to_message(const ProtobufCMessageDescriptor *type, const char *json, size_t len,
                        unsigned flags, ProtobufCMessage **out, box_error *err) BOX_MUST_USE;
