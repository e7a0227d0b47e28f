/* Working on a FileDescriptorSet that protoc wrote. */
#pragma once

#include "base/buf.h"

/* Clears proto3_optional on every field, so protoc-c (1.4.1 and 1.5.2 refuse it) sees a oneof of
 * one member. Refuses what would then not compile: the oneof's case type "FooCase" under the name
 * of another oneof's case type or of an enum or message of the same message. Appends the new set.
 */
int descriptor_set_clear_optional(box_bytes set, box_buf *out, box_error *err) BOX_MUST_USE;

/* The set as C source: `const box_descriptor_set SYMBOL`, without source info (comments), each
 * file's other bytes as protoc wrote them. */
int descriptor_set_embed(box_bytes set, const char *symbol, box_buf *out, box_error *err)
    BOX_MUST_USE;
/* Its header. */
int descriptor_set_embed_header(const char *symbol, box_buf *out, box_error *err) BOX_MUST_USE;
