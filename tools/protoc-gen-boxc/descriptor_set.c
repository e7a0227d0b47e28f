#include "descriptor_set.h"

#include <google/protobuf/descriptor.pb-c.h>

#include "base/alloc.h"
#include "emit.h"
#include "names.h"

typedef Google__Protobuf__DescriptorProto message_proto;
typedef Google__Protobuf__FileDescriptorSet set_proto;

/* --- clear proto3_optional -------------------------------------------------------------------- */

/* The name protoc-c gives to the type that a oneof, by that name, has: "_foo" -> "FooCase". */
static char *case_type(const char *oneof)
{
    BOX_AUTO(box_freep) char *camel = names_camel(oneof);
    char *type = box_alloc(strlen(camel) + sizeof("Case"));
    (void)stpcpy(stpcpy(type, camel), "Case");
    return type;
}

static bool is_camel_of(const char *name, const char *type)
{
    BOX_AUTO(box_freep) char *camel = names_camel(name);
    return strcmp(camel, type) == 0;
}

static bool collides(const message_proto *m, size_t oneof, const char *type)
{
    for (size_t i = 0; i < m->n_oneof_decl; i++) {
        BOX_AUTO(box_freep) char *other = case_type(m->oneof_decl[i]->name);
        if (i != oneof && strcmp(other, type) == 0)
            return true;
    }
    for (size_t i = 0; i < m->n_enum_type; i++) {
        if (is_camel_of(m->enum_type[i]->name, type))
            return true;
    }
    for (size_t i = 0; i < m->n_nested_type; i++) {
        if (is_camel_of(m->nested_type[i]->name, type))
            return true;
    }
    return false;
}

static int clear_message(message_proto *m, box_error *err)
{
    for (size_t i = 0; i < m->n_field; i++) {
        Google__Protobuf__FieldDescriptorProto *f = m->field[i];
        if (!f->has_proto3_optional || !f->proto3_optional)
            continue;
        size_t oneof = (size_t)f->oneof_index;
        if (!f->has_oneof_index || oneof >= m->n_oneof_decl)
            return box_fail(err, BOX_VALIDATION, "%s.%s: optional without its oneof", m->name,
                            f->name);
        BOX_AUTO(box_freep) char *type = case_type(m->oneof_decl[oneof]->name);
        if (collides(m, oneof, type))
            return box_fail(err, BOX_VALIDATION,
                            "%s.%s: `optional` needs the C type %s, which another name in %s has",
                            m->name, f->name, type, m->name);
        f->has_proto3_optional = 0;
        f->proto3_optional = 0;
    }
    for (size_t i = 0; i < m->n_nested_type; i++) {
        if (clear_message(m->nested_type[i], err) < 0)
            return -1;
    }
    return 0;
}

static int clear_files(set_proto *set, box_error *err)
{
    for (size_t i = 0; i < set->n_file; i++) {
        for (size_t j = 0; j < set->file[i]->n_message_type; j++) {
            if (clear_message(set->file[i]->message_type[j], err) < 0)
                return box_wrap(err, "%s", set->file[i]->name);
        }
    }
    return 0;
}

static void set_freep(set_proto **set)
{
    google__protobuf__file_descriptor_set__free_unpacked(*set, NULL);
}

int descriptor_set_clear_optional(box_bytes bytes, box_buf *out, box_error *err)
{
    BOX_AUTO(set_freep)
    set_proto *set = google__protobuf__file_descriptor_set__unpack(NULL, bytes.len, bytes.data);
    if (set == NULL)
        return box_fail(err, BOX_VALIDATION, "not a FileDescriptorSet");
    uint8_t *room;
    size_t len = google__protobuf__file_descriptor_set__get_packed_size(set);
    if (clear_files(set, err) < 0)
        return -1;
    if (box_buf_reserve(out, len, &room, err) < 0)
        return -1;
    box_buf_commit(out, google__protobuf__file_descriptor_set__pack(set, room));
    return 0;
}

/* --- embed ------------------------------------------------------------------------------------ */

enum { SET_FILE = 1, FILE_SOURCE_CODE_INFO = 9 };

static bool read_varint(box_bytes *in, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 64 && in->len > 0; shift += 7) {
        uint8_t byte = *in->data++;
        in->len--;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

typedef struct field_span {
    uint64_t number;
    box_bytes whole;   /* tag and value */
    box_bytes payload; /* of a length-delimited one */
} field_span;

/* The next field of a message. Only length-delimited fields and varints stand in a set and a file.
 */
static bool next_field(box_bytes *in, field_span *out)
{
    const uint8_t *start = in->data;
    uint64_t tag;
    uint64_t value;
    if (!read_varint(in, &tag) || !read_varint(in, &value))
        return false;
    *out = (field_span){.number = tag >> 3};
    if ((tag & 7) == 2) {
        if (value > in->len)
            return false;
        out->payload = (box_bytes){in->data, (size_t)value};
        in->data += value;
        in->len -= (size_t)value;
    } else if ((tag & 7) != 0) {
        return false;
    }
    out->whole = (box_bytes){start, (size_t)(in->data - start)};
    return true;
}

static int add_varint(box_buf *out, uint64_t value, box_error *err)
{
    uint8_t bytes[10];
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[n++] = (uint8_t)(value | 0x80);
    bytes[n++] = (uint8_t)value;
    return box_buf_add(out, bytes, n, err);
}

static int add_file(box_bytes file, box_buf *out, box_error *err)
{
    BOX_AUTO(box_buf_done) box_buf kept = {0};
    field_span field;
    while (file.len > 0) {
        if (!next_field(&file, &field))
            return box_fail(err, BOX_VALIDATION, "not a FileDescriptorProto");
        if (field.number != FILE_SOURCE_CODE_INFO &&
            box_buf_add(&kept, field.whole.data, field.whole.len, err) < 0)
            return -1;
    }
    if (add_varint(out, SET_FILE << 3 | 2, err) < 0 || add_varint(out, box_buf_len(&kept), err) < 0)
        return -1;
    return box_buf_add(out, box_buf_data(&kept), box_buf_len(&kept), err);
}

static int strip_source_info(box_bytes set, box_buf *out, box_error *err)
{
    field_span field;
    while (set.len > 0) {
        if (!next_field(&set, &field) || field.number != SET_FILE)
            return box_fail(err, BOX_VALIDATION, "not a FileDescriptorSet");
        if (add_file(field.payload, out, err) < 0)
            return -1;
    }
    return 0;
}

int descriptor_set_embed(box_bytes set, const char *symbol, box_buf *out, box_error *err)
{
    BOX_AUTO(box_buf_done) box_buf plain = {0};
    BOX_AUTO(emit_done) emitter e;
    emit_init(&e);
    const emit_var vars[] = {{"symbol", symbol}, {NULL, NULL}};
    if (strip_source_info(set, &plain, err) < 0)
        return -1;
    emit(&e, vars,
         "/* Generated by protoc-gen-boxc. */\n"
         "#include \"$symbol$.h\"\n"
         "\n"
         "static const uint8_t bytes[] = {");
    for (size_t i = 0; i < box_buf_len(&plain); i++) {
        char byte[8];
        (void)snprintf(byte, sizeof(byte), "%s%u,", i % 20 == 0 ? "\n" : "",
                       box_buf_data(&plain)[i]);
        emit_text(&e, byte);
    }
    emit(&e, vars, "\n};\n\nconst box_descriptor_set $symbol$ = {bytes, sizeof(bytes)};\n");
    if (e.failed) {
        *err = e.err;
        return -1;
    }
    return box_buf_add(out, box_buf_data(&e.text), box_buf_len(&e.text), err);
}

int descriptor_set_embed_header(const char *symbol, box_buf *out, box_error *err)
{
    return box_buf_printf(out, err,
                          "/* Generated by protoc-gen-boxc. */\n"
                          "#pragma once\n"
                          "\n"
                          "#include \"wire/service.h\"\n"
                          "\n"
                          "extern const box_descriptor_set %s;\n",
                          symbol);
}
