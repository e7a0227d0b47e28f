/* Checks the wire bytes of a message against its descriptor before protobuf-c unpacks them, because
 * protobuf-c does not (c-grpc-codegen.md, section 3): field framing, depth, UTF-8, no NUL in
 * strings, and an upper bound of what unpacking allocates. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "base/buf.h"

/* VALIDATION naming the field for bad text and for a message field that is there twice, PROTOCOL
 * for bytes that are no message of that type, MEMORY_BUDGET when unpacking could need more than
 * budget_bytes. */
int box_message_validate(const ProtobufCMessageDescriptor *type, const uint8_t *data, size_t len,
                         size_t budget_bytes, box_error *err) BOX_MUST_USE;

/* An arena for one decoded message: all allocations of protobuf_c_message_unpack come from it and
 * go at once. Zero is empty. Stops (returns NULL) at limit_bytes. */
typedef struct box_arena {
    struct box_arena_block *blocks;
    size_t used_bytes;
    size_t limit_bytes;
    ProtobufCAllocator allocator;
} box_arena;

void box_arena_init(box_arena *a, size_t limit_bytes);
void box_arena_done(box_arena *a);

/* Validate, then unpack into the arena. The message lives until box_arena_done. */
int box_message_unpack(const ProtobufCMessageDescriptor *type, const uint8_t *data, size_t len,
                       box_arena *arena, ProtobufCMessage **out, box_error *err) BOX_MUST_USE;
