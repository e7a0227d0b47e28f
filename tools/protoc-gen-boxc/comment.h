/* Comments of a .proto file, for the generated headers. */
#pragma once

#include <google/protobuf/descriptor.pb-c.h>

#include "emit.h"

/* Writes the comment that stands before the thing with that path (field numbers and indexes in
 * FileDescriptorProto, descriptor.proto: SourceCodeInfo) as a C comment with that indentation;
 * nothing when there is none. */
void comment_emit(emitter *e, const Google__Protobuf__FileDescriptorProto *file,
                  const int32_t *path, size_t path_len, const char *indent);
