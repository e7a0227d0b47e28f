/* "X.box.h" and "X.box.c": handler structs and dispatch tables, as wire/service.h describes them.
 */
#pragma once

#include <google/protobuf/descriptor.pb-c.h>

#include "emit.h"

void server_emit_header(emitter *e, const Google__Protobuf__FileDescriptorProto *file);
void server_emit_source(emitter *e, const Google__Protobuf__FileDescriptorProto *file);
