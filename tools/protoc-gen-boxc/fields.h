/* "X.fields.h": has and set helpers for proto3 optional fields, which protoc-c sees as oneofs of
 * one member once proto3_optional is cleared (descriptor_set.h). */
#pragma once

#include <google/protobuf/descriptor.pb-c.h>

#include "emit.h"

void fields_emit_header(emitter *e, const Google__Protobuf__FileDescriptorProto *file);
