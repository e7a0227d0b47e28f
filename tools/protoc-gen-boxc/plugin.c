#include "plugin.h"

#include <google/protobuf/compiler/plugin.pb-c.h>

#include "base/alloc.h"
#include "check.h"
#include "client.h"
#include "emit.h"
#include "fields.h"
#include "names.h"
#include "server.h"

typedef Google__Protobuf__FileDescriptorProto file_proto;
typedef Google__Protobuf__Compiler__CodeGeneratorRequest request_proto;
typedef Google__Protobuf__Compiler__CodeGeneratorResponse response_proto;
typedef Google__Protobuf__Compiler__CodeGeneratorResponse__File response_file;

typedef struct generated {
    const char *parameter;
    const char *suffix;
    void (*write)(emitter *e, const file_proto *file);
} generated;

static const generated outputs[] = {
    {"server", ".fields.h", fields_emit_header}, {"server", ".box.h", server_emit_header},
    {"server", ".box.c", server_emit_source},    {"client", ".client.h", client_emit_header},
    {"client", ".client.c", client_emit_source},
};

static void add_output(response_proto *response, const file_proto *file, const generated *output)
{
    BOX_AUTO(emit_done) emitter e;
    BOX_AUTO(box_freep) char *stem = names_file_stem(file->name);
    emit_init(&e);
    output->write(&e, file);
    if (e.failed) {
        free(response->error);
        response->error = box_strdup(e.err.msg);
        return;
    }
    emit_bytes(&e, "", 1);
    response_file *added = box_alloc(sizeof(*added));
    google__protobuf__compiler__code_generator_response__file__init(added);
    added->name = box_alloc(strlen(stem) + strlen(output->suffix) + 1);
    (void)stpcpy(stpcpy(added->name, stem), output->suffix);
    added->content = box_strdup((const char *)box_buf_data(&e.text));
    response->file[response->n_file++] = added;
}

static const file_proto *find_file(const request_proto *request, const char *name)
{
    for (size_t i = 0; i < request->n_proto_file; i++) {
        if (strcmp(request->proto_file[i]->name, name) == 0)
            return request->proto_file[i];
    }
    return NULL;
}

static int fill(const request_proto *request, response_proto *response, box_error *err)
{
    const char *parameter = request->parameter != NULL ? request->parameter : "";
    if (strcmp(parameter, "server") != 0 && strcmp(parameter, "client") != 0)
        return box_fail(err, BOX_VALIDATION,
                        "the parameter is \"server\" or \"client\", not \"%s\"", parameter);
    response->file =
        box_alloc_array(request->n_file_to_generate * BOX_COUNT(outputs) + 1, sizeof(void *));
    for (size_t i = 0; i < request->n_file_to_generate; i++) {
        const file_proto *file = find_file(request, request->file_to_generate[i]);
        if (file == NULL)
            return box_fail(err, BOX_VALIDATION, "%s is not in the request",
                            request->file_to_generate[i]);
        if (check_file(file, err) < 0)
            return -1;
        for (size_t j = 0; j < BOX_COUNT(outputs); j++) {
            if (strcmp(outputs[j].parameter, parameter) == 0)
                add_output(response, file, &outputs[j]);
        }
    }
    return 0;
}

static void response_freep(response_proto **response)
{
    google__protobuf__compiler__code_generator_response__free_unpacked(*response, NULL);
}

static void request_freep(request_proto **request)
{
    google__protobuf__compiler__code_generator_request__free_unpacked(*request, NULL);
}

int plugin_run(box_bytes bytes, box_buf *out, box_error *err)
{
    BOX_AUTO(request_freep) request_proto *request =
        google__protobuf__compiler__code_generator_request__unpack(NULL, bytes.len, bytes.data);
    if (request == NULL)
        return box_fail(err, BOX_VALIDATION, "standard input is no CodeGeneratorRequest");
    BOX_AUTO(response_freep) response_proto *response = box_alloc(sizeof(*response));
    google__protobuf__compiler__code_generator_response__init(response);
    response->has_supported_features = 1;
    response->supported_features =
        GOOGLE__PROTOBUF__COMPILER__CODE_GENERATOR_RESPONSE__FEATURE__FEATURE_PROTO3_OPTIONAL;
    box_error wrong = {0};
    if (fill(request, response, &wrong) < 0)
        response->error = box_strdup(wrong.msg);
    uint8_t *room;
    size_t len = google__protobuf__compiler__code_generator_response__get_packed_size(response);
    if (box_buf_reserve(out, len, &room, err) < 0)
        return -1;
    box_buf_commit(out, google__protobuf__compiler__code_generator_response__pack(response, room));
    return 0;
}
