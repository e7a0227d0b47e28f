/* A method and all the names its templates use. */
#pragma once

#include <google/protobuf/descriptor.pb-c.h>

#include "emit.h"

enum { METHOD_STRINGS = 9 };

typedef struct method_names {
    bool client_streaming;
    bool server_streaming;
    char *strings[METHOD_STRINGS]; /* what vars point to */
    /* prefix, service, name, method, request, response, request_lower, response_lower, index, kind
     */
    emit_var vars[11];
} method_names;

/* For every method of a service. */
void methods_emit_each(emitter *e, const Google__Protobuf__FileDescriptorProto *file,
                       size_t service,
                       void (*one)(emitter *e, const Google__Protobuf__FileDescriptorProto *file,
                                   size_t service, size_t method, const method_names *names));

/* The comment of a service or a method in the .proto. */
void methods_emit_service_comment(emitter *e, const Google__Protobuf__FileDescriptorProto *file,
                                  size_t service);
void methods_emit_comment(emitter *e, const Google__Protobuf__FileDescriptorProto *file,
                          size_t service, size_t method, const char *indent);
