/* "X.client.h" and "X.client.c": typed stubs, blocking and for event loops, as box/call.h describes
 * them. */
#pragma once

#include <google/protobuf/descriptor.pb-c.h>

#include "emit.h"

void client_emit_header(emitter *e, const Google__Protobuf__FileDescriptorProto *file);
void client_emit_source(emitter *e, const Google__Protobuf__FileDescriptorProto *file);
