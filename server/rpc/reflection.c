#include "rpc/reflection.h"

#include <assert.h>

#include "base/alloc.h"
#include "grpc/reflection/v1/reflection.box.h"
#include "rpc/descriptors.h"

typedef Grpc__Reflection__V1__ServerReflectionRequest request_message;
typedef Grpc__Reflection__V1__ServerReflectionResponse response_message;

struct box_reflection {
    box_descriptors *descriptors;
    const box_service *listed;
    size_t n_listed;
    box_method alpha_method; /* v1's, under the other path */
    box_service_type alpha;
};

/* --- answers ---------------------------------------------------------------------------------- */

static void reply_error(box_call *call, response_message *response, box_code code, const char *what,
                        const char *name)
{
    box_error text = {0};
    (void)box_fail(&text, BOX_UNKNOWN, "%s not found: %s", what, name);
    Grpc__Reflection__V1__ErrorResponse error = GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT;
    error.error_code = (int32_t)code;
    error.error_message = text.msg;
    response->message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
    response->error_response = &error;
    grpc_reflection_v1_server_reflection_server_reflection_info_reply(call, response);
}

static void reply_files(box_call *call, response_message *response,
                        const box_descriptor_file *const *files, size_t n)
{
    BOX_AUTO(box_freep) ProtobufCBinaryData *bytes = box_alloc_array(n, sizeof *bytes);
    for (size_t i = 0; i < n; i++) {
        bytes[i].len = files[i]->bytes.len;
        bytes[i].data = (uint8_t *)(uintptr_t)files[i]->bytes.data; /* packing only reads it */
    }
    Grpc__Reflection__V1__FileDescriptorResponse found =
        GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT;
    found.file_descriptor_proto = bytes;
    found.n_file_descriptor_proto = n;
    response->message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
    response->file_descriptor_response = &found;
    grpc_reflection_v1_server_reflection_server_reflection_info_reply(call, response);
}

typedef void (*look_up)(const box_descriptors *d, const char *name,
                        const box_descriptor_file ***out, size_t *n);

static void reply_found(box_call *call, response_message *response, look_up find, const char *what,
                        const char *name)
{
    const box_reflection *r = box_call_context(call);
    BOX_AUTO(box_freep) const box_descriptor_file **files = NULL;
    size_t n;
    find(r->descriptors, name, &files, &n);
    if (n == 0)
        reply_error(call, response, BOX_CODE_NOT_FOUND, what, name);
    else
        reply_files(call, response, files, n);
}

static void reply_services(box_call *call, response_message *response)
{
    const box_reflection *r = box_call_context(call);
    size_t n = r->n_listed;
    BOX_AUTO(box_freep)
    Grpc__Reflection__V1__ServiceResponse *items = box_alloc_array(n + 1, sizeof *items);
    BOX_AUTO(box_freep) Grpc__Reflection__V1__ServiceResponse **list =
        box_alloc_array(n + 1, sizeof(Grpc__Reflection__V1__ServiceResponse *));
    for (size_t i = 0; i < n; i++) {
        items[i] =
            (Grpc__Reflection__V1__ServiceResponse)GRPC__REFLECTION__V1__SERVICE_RESPONSE__INIT;
        items[i].name = (char *)(uintptr_t)r->listed[i].type->name; /* packing only reads it */
        list[i] = &items[i];
    }
    Grpc__Reflection__V1__ListServiceResponse services =
        GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT;
    services.service = list;
    services.n_service = n;
    response->message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
    response->list_services_response = &services;
    grpc_reflection_v1_server_reflection_server_reflection_info_reply(call, response);
}

/* All our files are proto3: a known type has no extensions. */
static void reply_extension_numbers(box_call *call, response_message *response, char *type)
{
    const box_reflection *r = box_call_context(call);
    if (!box_descriptors_has_message(r->descriptors, type)) {
        reply_error(call, response, BOX_CODE_NOT_FOUND, "type", type);
        return;
    }
    Grpc__Reflection__V1__ExtensionNumberResponse none =
        GRPC__REFLECTION__V1__EXTENSION_NUMBER_RESPONSE__INIT;
    none.base_type_name = type;
    response->message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ALL_EXTENSION_NUMBERS_RESPONSE;
    response->all_extension_numbers_response = &none;
    grpc_reflection_v1_server_reflection_server_reflection_info_reply(call, response);
}

static void answer(box_call *call, const request_message *request, response_message *response)
{
    switch (request->message_request_case) {
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
        reply_found(call, response, box_descriptors_by_file, "file", request->file_by_filename);
        return;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
        reply_found(call, response, box_descriptors_by_symbol, "symbol",
                    request->file_containing_symbol);
        return;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_EXTENSION:
        reply_error(call, response, BOX_CODE_NOT_FOUND, "extension of",
                    request->file_containing_extension->containing_type);
        return;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_ALL_EXTENSION_NUMBERS_OF_TYPE:
        reply_extension_numbers(call, response, request->all_extension_numbers_of_type);
        return;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
        reply_services(call, response);
        return;
    default:
        reply_error(call, response, BOX_CODE_INVALID_ARGUMENT, "kind of request", "none is set");
    }
}

/* --- handlers --------------------------------------------------------------------------------- */

static void on_writable(box_call *call, void *arg)
{
    (void)arg;
    box_call_resume(call);
}

static int info(box_call *call, box_error *err)
{
    (void)err;
    box_call_on_writable(call, on_writable, NULL);
    return 0;
}

static int info_message(box_call *call, const request_message *request, box_error *err)
{
    (void)err;
    response_message response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
    response.valid_host = request->host;
    response.original_request = (request_message *)(uintptr_t)request; /* packing only reads it */
    answer(call, request, &response);
    if (!box_call_is_writable(call))
        box_call_pause(call); /* a peer that asks and does not read */
    return 0;
}

static int info_half_close(box_call *call, box_error *err)
{
    (void)err;
    box_call_finish(call, NULL);
    return 0;
}

static const grpc_reflection_v1_server_reflection_handlers handlers = {
    .server_reflection_info = info,
    .server_reflection_info_message = info_message,
    .server_reflection_info_half_close = info_half_close,
};

/* --- life ------------------------------------------------------------------------------------- */

int box_reflection_new(const box_descriptor_set *sets, size_t n_sets, box_reflection **out,
                       box_error *err)
{
    box_descriptors *descriptors;
    if (box_descriptors_new(sets, n_sets, &descriptors, err) < 0)
        return -1;
    box_reflection *r = box_alloc(sizeof *r);
    r->descriptors = descriptors;
    assert(grpc_reflection_v1_server_reflection.n_methods == 1);
    r->alpha_method = grpc_reflection_v1_server_reflection.methods[0];
    r->alpha_method.path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
    r->alpha = (box_service_type){.name = "grpc.reflection.v1alpha.ServerReflection",
                                  .methods = &r->alpha_method,
                                  .n_methods = 1};
    *out = r;
    return 0;
}

void box_reflection_free(box_reflection *r)
{
    if (r == NULL)
        return;
    box_descriptors_free(r->descriptors);
    free(r);
}

void box_reflection_services(box_reflection *r, box_service out[BOX_REFLECTION_SERVICES])
{
    out[0] = (box_service){
        .type = &grpc_reflection_v1_server_reflection, .handlers = &handlers, .context = r};
    out[1] = (box_service){.type = &r->alpha, .handlers = &handlers, .context = r};
}

void box_reflection_set_listed(box_reflection *r, const box_service *services, size_t n)
{
    r->listed = services;
    r->n_listed = n;
}
