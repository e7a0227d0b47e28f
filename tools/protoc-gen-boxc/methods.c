#include "methods.h"

#include <assert.h>

#include "base/alloc.h"
#include "comment.h"
#include "names.h"

/* Field numbers in descriptor.proto. */
enum { FILE_SERVICE = 6, SERVICE_METHOD = 2 };

static const char *kind_of(const method_names *m)
{
    if (m->client_streaming)
        return m->server_streaming ? "BOX_BIDI" : "BOX_CLIENT_STREAM";
    return m->server_streaming ? "BOX_SERVER_STREAM" : "BOX_UNARY";
}

static char *full_service_name(const char *package, const char *service)
{
    char *full = box_alloc(strlen(package) + strlen(service) + 2);
    char *end = stpcpy(full, package);
    if (end != full)
        *end++ = '.';
    (void)stpcpy(end, service);
    return full;
}

static char *decimal(size_t value)
{
    char *text = box_alloc(24);
    (void)snprintf(text, 24, "%zu", value);
    return text;
}

static void method_names_init(method_names *m, const Google__Protobuf__FileDescriptorProto *file,
                              size_t service, size_t method)
{
    const Google__Protobuf__ServiceDescriptorProto *s = file->service[service];
    const Google__Protobuf__MethodDescriptorProto *d = s->method[method];
    const char *package = file->package != NULL ? file->package : "";
    *m = (method_names){.client_streaming = d->client_streaming,
                        .server_streaming = d->server_streaming};
    const emit_var owned[METHOD_STRINGS] = {
        {"prefix", m->strings[0] = names_service(package, s->name)},
        {"service", m->strings[1] = full_service_name(package, s->name)},
        {"name", m->strings[2] = box_strdup(d->name)},
        {"method", m->strings[3] = names_snake(d->name)},
        {"request", m->strings[4] = names_type(d->input_type)},
        {"response", m->strings[5] = names_type(d->output_type)},
        {"request_lower", m->strings[6] = names_lower(d->input_type)},
        {"response_lower", m->strings[7] = names_lower(d->output_type)},
        {"index", m->strings[8] = decimal(method)},
    };
    static_assert(sizeof(owned) < sizeof(m->vars), "room for kind and the end");
    memcpy(m->vars, owned, sizeof(owned));
    m->vars[METHOD_STRINGS] = (emit_var){"kind", kind_of(m)};
}

static void method_names_done(method_names *m)
{
    for (size_t i = 0; i < METHOD_STRINGS; i++)
        free(m->strings[i]);
}

void methods_emit_each(emitter *e, const Google__Protobuf__FileDescriptorProto *file,
                       size_t service,
                       void (*one)(emitter *e, const Google__Protobuf__FileDescriptorProto *file,
                                   size_t service, size_t method, const method_names *names))
{
    for (size_t i = 0; i < file->service[service]->n_method; i++) {
        method_names names;
        method_names_init(&names, file, service, i);
        one(e, file, service, i, &names);
        method_names_done(&names);
    }
}

void methods_emit_service_comment(emitter *e, const Google__Protobuf__FileDescriptorProto *file,
                                  size_t service)
{
    const int32_t path[] = {FILE_SERVICE, (int32_t)service};
    comment_emit(e, file, path, BOX_COUNT(path), "");
}

void methods_emit_comment(emitter *e, const Google__Protobuf__FileDescriptorProto *file,
                          size_t service, size_t method, const char *indent)
{
    const int32_t path[] = {FILE_SERVICE, (int32_t)service, SERVICE_METHOD, (int32_t)method};
    comment_emit(e, file, path, BOX_COUNT(path), indent);
}
