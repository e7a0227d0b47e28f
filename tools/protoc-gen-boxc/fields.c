#include "fields.h"

#include "base/alloc.h"
#include "names.h"

typedef Google__Protobuf__DescriptorProto message_proto;
typedef Google__Protobuf__FieldDescriptorProto field_proto;

static const char *scalar_type(const field_proto *f)
{
    switch (f->type) {
    case GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_DOUBLE:
        return "double";
    case GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_FLOAT:
        return "float";
    case GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_INT64:
    case GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_SFIXED64:
    case GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_SINT64:
        return "int64_t";
    case GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_UINT64:
    case GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_FIXED64:
        return "uint64_t";
    case GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_INT32:
    case GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_SFIXED32:
    case GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_SINT32:
        return "int32_t";
    case GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_UINT32:
    case GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_FIXED32:
        return "uint32_t";
    case GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_BOOL:
        return "protobuf_c_boolean";
    default:
        return NULL;
    }
}

static const char has_scalar[] =
    "\nstatic inline protobuf_c_boolean $lower$__has_$member$(const $type$ *message)\n"
    "{\n"
    "    return message->$case$ == $constant$;\n"
    "}\n";

static const char has_pointer[] =
    "\nstatic inline protobuf_c_boolean $lower$__has_$member$(const $type$ *message)\n"
    "{\n"
    "    return message->$case$ == $constant$ && message->$member$ != NULL;\n"
    "}\n";

static const char set_scalar[] =
    "\nstatic inline void $lower$__set_$member$($type$ *message, $value$ value)\n"
    "{\n"
    "    message->$member$ = value;\n"
    "    message->$case$ = $constant$;\n"
    "}\n";

/* The field must be one it owns (malloc), not an arena's; empty text too needs memory of its own,
 * for protobuf-c drops a pointer to its shared empty string. */
static const char set_string[] =
    "\n/* Copies; frees what was set before. */\n"
    "static inline void $lower$__set_$member$($type$ *message, const char *value)\n"
    "{\n"
    "    char *copy = box_strdup(value);\n"
    "    if ($lower$__has_$member$(message) &&\n"
    "        message->$member$ != (char *)protobuf_c_empty_string)\n"
    "        free(message->$member$);\n"
    "    message->$member$ = copy;\n"
    "    message->$case$ = $constant$;\n"
    "}\n";

static const char set_bytes[] =
    "\n/* Copies; frees what was set before. */\n"
    "static inline void $lower$__set_$member$($type$ *message, const void *data, size_t len)\n"
    "{\n"
    "    uint8_t *copy = (uint8_t *)box_alloc(len + 1);\n"
    "    for (size_t i = 0; i < len; i++)\n"
    "        copy[i] = ((const uint8_t *)data)[i];\n"
    "    if ($lower$__has_$member$(message))\n"
    "        free(message->$member$.data);\n"
    "    message->$member$.data = copy;\n"
    "    message->$member$.len = len;\n"
    "    message->$case$ = $constant$;\n"
    "}\n";

static const char set_message[] =
    "\n/* The message is taken; frees what was set before. */\n"
    "static inline void $lower$__set_$member$($type$ *message, $value$ *value)\n"
    "{\n"
    "    if ($lower$__has_$member$(message))\n"
    "        protobuf_c_message_free_unpacked((ProtobufCMessage *)message->$member$, NULL);\n"
    "    message->$member$ = value;\n"
    "    message->$case$ = $constant$;\n"
    "}\n";

static void emit_templates(emitter *e, const field_proto *f, emit_var *vars, emit_var *value)
{
    const char *has = has_scalar;
    const char *set = set_scalar;
    BOX_AUTO(box_freep) char *named = f->type_name != NULL ? names_type(f->type_name) : NULL;
    value->value = named != NULL ? named : scalar_type(f);
    if (f->type == GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_STRING) {
        has = has_pointer;
        set = set_string;
    } else if (f->type == GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_BYTES) {
        set = set_bytes;
    } else if (f->type == GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_MESSAGE) {
        has = has_pointer;
        set = set_message;
    }
    emit(e, vars, has);
    emit(e, vars, set);
}

/* protoc-c: member "_cpu_millis_case", constant "BOX__V1__SPEC___CPU_MILLIS_CPU_MILLIS". */
static void emit_field(emitter *e, const char *message_name, const message_proto *m,
                       const field_proto *f)
{
    const char *oneof = m->oneof_decl[f->oneof_index]->name;
    BOX_AUTO(box_freep) char *type = names_type(message_name);
    BOX_AUTO(box_freep) char *lower = names_lower(message_name);
    BOX_AUTO(box_freep) char *upper = names_upper(message_name);
    BOX_AUTO(box_freep) char *member = names_field(f->name);
    BOX_AUTO(box_freep) char *oneof_lower = names_snake(oneof);
    BOX_AUTO(box_freep) char *oneof_upper = names_snake_upper(oneof);
    BOX_AUTO(box_freep) char *field_upper = names_snake_upper(f->name);
    size_t room = strlen(upper) + strlen(oneof_upper) + strlen(field_upper) + 4;
    BOX_AUTO(box_freep) char *constant = box_alloc(room);
    (void)snprintf(constant, room, "%s__%s_%s", upper, oneof_upper, field_upper);
    room = strlen(oneof_lower) + sizeof("_case");
    BOX_AUTO(box_freep) char *case_member = box_alloc(room);
    (void)snprintf(case_member, room, "%s_case", oneof_lower);
    emit_var vars[] = {{"type", type},        {"lower", lower},       {"member", member},
                       {"case", case_member}, {"constant", constant}, {"value", NULL},
                       {NULL, NULL}};
    emit_templates(e, f, vars, &vars[5]);
}

static void emit_message(emitter *e, const char *scope, const message_proto *m)
{
    size_t room = strlen(scope) + strlen(m->name) + 2;
    BOX_AUTO(box_freep) char *full = box_alloc(room);
    (void)snprintf(full, room, "%s.%s", scope, m->name);
    for (size_t i = 0; i < m->n_field; i++) {
        if (m->field[i]->proto3_optional)
            emit_field(e, full, m, m->field[i]);
    }
    for (size_t i = 0; i < m->n_nested_type; i++)
        emit_message(e, full, m->nested_type[i]);
}

/* So that one include brings the helpers of every message a file uses. What google has there has no
 * optional fields, and no helpers. */
static void emit_imports(emitter *e, const Google__Protobuf__FileDescriptorProto *file)
{
    for (size_t i = 0; i < file->n_dependency; i++) {
        if (strncmp(file->dependency[i], "google/", strlen("google/")) == 0)
            continue;
        BOX_AUTO(box_freep) char *stem = names_file_stem(file->dependency[i]);
        const emit_var vars[] = {{"stem", stem}, {NULL, NULL}};
        emit(e, vars, "#include \"$stem$.fields.h\"\n");
    }
}

void fields_emit_header(emitter *e, const Google__Protobuf__FileDescriptorProto *file)
{
    BOX_AUTO(box_freep) char *stem = names_file_stem(file->name);
    const emit_var vars[] = {{"file", file->name}, {"stem", stem}, {NULL, NULL}};
    emit(
        e, vars,
        "/* Generated by protoc-gen-boxc from $file$: presence of `optional` fields. A field that\n"
        " * was not set reads as zero (text: NULL); one that is set without its helper is silently "
        "dropped.\n"
        " * Setters are for messages of one's own, not for those in a box_arena. */\n"
        "#pragma once\n"
        "\n"
        "#include <stdlib.h>\n"
        "\n"
        "#include \"base/alloc.h\"\n"
        "\n");
    emit_imports(e, file);
    emit(e, vars, "#include \"$stem$.pb-c.h\"\n");
    for (size_t i = 0; i < file->n_message_type; i++)
        emit_message(e, file->package != NULL ? file->package : "", file->message_type[i]);
}
