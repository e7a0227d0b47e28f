/* Dispatch tables: what protoc-gen-boxc writes for a service, and how a server offers one.
 *
 * For `service ExecService` of package box.v1 in box/v1/exec.proto the generator writes
 * "box/v1/exec.box.h" with (prefix = package and service in snake case):
 *
 *     typedef struct box_v1_exec_service_handlers {
 *         // unary and server streaming: the whole request is here
 *         int (*exec)(box_call *call, const Box__V1__ExecRequest *request, box_error *err);
 *         // client and bidi streaming: the call begins; then each message; then the half-close
 *         int (*exec_stream)(box_call *call, box_error *err);
 *         int (*exec_stream_message)(box_call *call, const Box__V1__ExecStreamRequest *message,
 * box_error *err); int (*exec_stream_half_close)(box_call *call, box_error *err); }
 * box_v1_exec_service_handlers;
 *
 *     extern const box_service_type box_v1_exec_service;
 *
 *     // unary and client streaming: sends the response and ends the call with OK
 *     static inline void box_v1_exec_service_exec_answer(box_call *, const Box__V1__ExecResponse
 * *);
 *     // server streaming and bidi: sends one message; end with box_call_finish (not "_send": that
 * is
 *     // the client stub's name, and a test includes both headers)
 *     static inline void box_v1_exec_service_exec_stream_reply(box_call *, const
 * Box__V1__ExecStreamResponse *);
 *
 * A handler that returns -1 ends the call with *err. One that returns 0 has answered, or will
 * later, on the call's loop. The request is borrowed until the handler returns. A handler left NULL
 * answers UNIMPLEMENTED. A server offers `{&box_v1_exec_service, &my_handlers, my_context}`. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "wire/call.h"

typedef enum box_method_kind {
    BOX_UNARY,
    BOX_SERVER_STREAM,
    BOX_CLIENT_STREAM,
    BOX_BIDI,
} box_method_kind;

/* Typed handlers are called through these, which the generator writes (a cast and a call).
 * `handlers` is the service's struct; -2 says the handler is NULL. */
typedef struct box_method {
    const char *path; /* "/box.v1.ExecService/Exec" */
    const char *name; /* "Exec" */
    box_method_kind kind;
    const ProtobufCMessageDescriptor *request;
    const ProtobufCMessageDescriptor *response;
    /* Unary, server streaming: the request. Client streaming, bidi: NULL at the call's start. */
    int (*start)(const void *handlers, box_call *call, const ProtobufCMessage *request,
                 box_error *err);
    /* Client streaming and bidi only, else NULL. */
    int (*message)(const void *handlers, box_call *call, const ProtobufCMessage *message,
                   box_error *err);
    int (*half_close)(const void *handlers, box_call *call, box_error *err);
} box_method;

enum { BOX_NOT_IMPLEMENTED = -2 };

typedef struct box_service_type {
    const char *name; /* "box.v1.ExecService" */
    const box_method *methods;
    size_t n_methods;
} box_service_type;

typedef struct box_service {
    const box_service_type *type;
    const void *handlers; /* NULL: declared only, every method answers UNIMPLEMENTED */
    void *context;        /* box_call_context */
} box_service;

/* Finds "/service/method" among services, compared byte by byte; false when unknown. */
bool box_service_find(const box_service *services, size_t n_services, const char *path,
                      const box_service **service, const box_method **method);

/* The FileDescriptorSet of one or more generated files, as protoc wrote it: for reflection. */
typedef struct box_descriptor_set {
    const uint8_t *data;
    size_t len;
} box_descriptor_set;
