/* protoc's plugin protocol (compiler/plugin.proto): a CodeGeneratorRequest in, a
 * CodeGeneratorResponse out. */
#pragma once

#include "base/buf.h"

/* The request's parameter is "server" (X.fields.h, X.box.h, X.box.c) or "client" (X.client.h,
 * X.client.c). What is wrong with the .proto stands in the response; -1 is a request that is
 * none. */
int plugin_run(box_bytes request, box_buf *response, box_error *err) BOX_MUST_USE;
