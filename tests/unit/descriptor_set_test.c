#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <google/protobuf/descriptor.pb-c.h>

#include "base/alloc.h"
#include "check.h"
#include "descriptor_set.h"
#include "names.h"

typedef Google__Protobuf__DescriptorProto message_proto;
typedef Google__Protobuf__FieldDescriptorProto field_proto;

/* A set of one file with message M, which has one optional field "what" in its synthetic oneof. */
typedef struct fixture {
    Google__Protobuf__FileDescriptorSet set;
    Google__Protobuf__FileDescriptorProto file;
    Google__Protobuf__FileDescriptorProto *files[1];
    message_proto message;
    message_proto *messages[1];
    field_proto field;
    field_proto *fields[1];
    Google__Protobuf__OneofDescriptorProto oneofs[2];
    Google__Protobuf__OneofDescriptorProto *oneof_list[2];
    Google__Protobuf__EnumDescriptorProto enum_type;
    Google__Protobuf__EnumDescriptorProto *enums[1];
    Google__Protobuf__SourceCodeInfo info;
} fixture;

static void name(char **to, const char *text)
{
    *to = (char *)(uintptr_t)text;
}

static void set_up(fixture *f)
{
    google__protobuf__file_descriptor_set__init(&f->set);
    google__protobuf__file_descriptor_proto__init(&f->file);
    google__protobuf__descriptor_proto__init(&f->message);
    google__protobuf__field_descriptor_proto__init(&f->field);
    google__protobuf__enum_descriptor_proto__init(&f->enum_type);
    google__protobuf__source_code_info__init(&f->info);
    for (size_t i = 0; i < 2; i++) {
        google__protobuf__oneof_descriptor_proto__init(&f->oneofs[i]);
        f->oneof_list[i] = &f->oneofs[i];
    }
    name(&f->file.name, "a.proto");
    name(&f->message.name, "M");
    name(&f->field.name, "what");
    name(&f->oneofs[0].name, "_what");
    f->field.has_proto3_optional = f->field.proto3_optional = 1;
    f->field.has_oneof_index = 1;
    f->files[0] = &f->file;
    f->messages[0] = &f->message;
    f->fields[0] = &f->field;
    f->enums[0] = &f->enum_type;
    f->set.file = f->files;
    f->set.n_file = 1;
    f->file.message_type = f->messages;
    f->file.n_message_type = 1;
    f->file.source_code_info = &f->info;
    f->message.field = f->fields;
    f->message.n_field = 1;
    f->message.oneof_decl = f->oneof_list;
    f->message.n_oneof_decl = 1;
}

static box_buf packed(const fixture *f)
{
    box_buf out = {0};
    uint8_t *room;
    box_error err;
    size_t len = google__protobuf__file_descriptor_set__get_packed_size(&f->set);
    assert_int_equal(box_buf_reserve(&out, len, &room, &err), 0);
    box_buf_commit(&out, google__protobuf__file_descriptor_set__pack(&f->set, room));
    return out;
}

static int clear(const fixture *f, box_buf *out, box_error *err)
{
    BOX_AUTO(box_buf_done) box_buf in = packed(f);
    return descriptor_set_clear_optional((box_bytes){box_buf_data(&in), box_buf_len(&in)}, out,
                                         err);
}

static void clearing_drops_optional_and_keeps_the_oneof(void **state)
{
    (void)state;
    fixture f = {0};
    BOX_AUTO(box_buf_done) box_buf out = {0};
    box_error err;
    set_up(&f);
    assert_int_equal(clear(&f, &out, &err), 0);
    Google__Protobuf__FileDescriptorSet *set =
        google__protobuf__file_descriptor_set__unpack(NULL, box_buf_len(&out), box_buf_data(&out));
    assert_non_null(set);
    assert_false(set->file[0]->message_type[0]->field[0]->has_proto3_optional);
    assert_true(set->file[0]->message_type[0]->field[0]->has_oneof_index);
    assert_int_equal(set->file[0]->message_type[0]->n_oneof_decl, 1);
    google__protobuf__file_descriptor_set__free_unpacked(set, NULL);
}

static void a_case_type_beside_an_enum_of_that_name_is_refused(void **state)
{
    (void)state;
    fixture f = {0};
    BOX_AUTO(box_buf_done) box_buf out = {0};
    box_error err = {0};
    set_up(&f);
    name(&f.enum_type.name, "WhatCase");
    f.message.enum_type = f.enums;
    f.message.n_enum_type = 1;
    assert_int_equal(clear(&f, &out, &err), -1);
    assert_non_null(strstr(err.msg, "WhatCase"));
    assert_non_null(strstr(err.msg, "a.proto"));
}

static void a_case_type_beside_a_oneof_of_that_name_is_refused(void **state)
{
    (void)state;
    fixture f = {0};
    BOX_AUTO(box_buf_done) box_buf out = {0};
    box_error err = {0};
    set_up(&f);
    name(&f.oneofs[1].name, "what");
    f.message.n_oneof_decl = 2;
    assert_int_equal(clear(&f, &out, &err), -1);
    assert_non_null(strstr(err.msg, "M.what"));
}

static void what_is_no_set_is_refused(void **state)
{
    (void)state;
    BOX_AUTO(box_buf_done) box_buf out = {0};
    box_error err = {0};
    static const uint8_t bytes[] = {0x0a, 0x05, 0x01};
    assert_int_equal(descriptor_set_clear_optional((box_bytes){bytes, sizeof(bytes)}, &out, &err),
                     -1);
    assert_int_equal(descriptor_set_embed((box_bytes){bytes, sizeof(bytes)}, "s", &out, &err), -1);
}

/* The generated C would be long to read back: the file's field 9 begins with 0x4a. */
static void embedding_drops_source_info(void **state)
{
    (void)state;
    fixture f = {0};
    BOX_AUTO(box_buf_done) box_buf with = {0};
    BOX_AUTO(box_buf_done) box_buf without = {0};
    box_error err = {0};
    set_up(&f);
    BOX_AUTO(box_buf_done) box_buf full = packed(&f);
    f.file.source_code_info = NULL;
    BOX_AUTO(box_buf_done) box_buf plain = packed(&f);
    assert_true(box_buf_len(&plain) < box_buf_len(&full));
    assert_int_equal(descriptor_set_embed((box_bytes){box_buf_data(&full), box_buf_len(&full)}, "s",
                                          &with, &err),
                     0);
    assert_int_equal(descriptor_set_embed((box_bytes){box_buf_data(&plain), box_buf_len(&plain)},
                                          "s", &without, &err),
                     0);
    assert_int_equal(box_buf_len(&with), box_buf_len(&without));
    assert_memory_equal(box_buf_data(&with), box_buf_data(&without), box_buf_len(&with));
}

static void a_json_name_of_its_own_is_refused(void **state)
{
    (void)state;
    fixture f = {0};
    box_error err = {0};
    set_up(&f);
    assert_int_equal(check_file(&f.file, &err), 0);
    name(&f.field.json_name, "what");
    assert_int_equal(check_file(&f.file, &err), 0);
    name(&f.field.json_name, "why");
    assert_int_equal(check_file(&f.file, &err), -1);
    assert_non_null(strstr(err.msg, "M.what"));
}

static void a_message_that_looks_like_a_map_entry_is_refused(void **state)
{
    (void)state;
    fixture f = {0};
    box_error err = {0};
    message_proto entry;
    message_proto *nested[] = {&entry};
    field_proto members[2];
    field_proto *member_list[] = {&members[0], &members[1]};
    Google__Protobuf__MessageOptions options;
    set_up(&f);
    google__protobuf__descriptor_proto__init(&entry);
    google__protobuf__message_options__init(&options);
    google__protobuf__field_descriptor_proto__init(&members[0]);
    google__protobuf__field_descriptor_proto__init(&members[1]);
    name(&members[0].name, "key");
    name(&members[1].name, "value");
    name(&entry.name, "WhatEntry");
    name(&f.field.type_name, ".M.WhatEntry");
    entry.field = member_list;
    entry.n_field = 2;
    f.message.nested_type = nested;
    f.message.n_nested_type = 1;
    assert_int_equal(check_file(&f.file, &err), -1);
    options.has_map_entry = options.map_entry = 1;
    entry.options = &options;
    assert_int_equal(check_file(&f.file, &err), 0);
}

static void check_name(char *made, const char *expected)
{
    assert_string_equal(made, expected);
    free(made);
}

static void names_are_those_of_protoc_c(void **state)
{
    (void)state;
    check_name(names_type(".box.v1.exec_request"), "Box__V1__ExecRequest");
    check_name(names_lower("box.v1.HTTPServer.SubThing"), "box__v1__httpserver__sub_thing");
    check_name(names_upper("box.v1.ExecRequest"), "BOX__V1__EXEC_REQUEST");
    check_name(names_snake("_cpu_millis"), "_cpu_millis");
    check_name(names_field("Register"), "register_");
    check_name(names_field("camelCase"), "camelcase");
    check_name(names_service("box.v1", "ExecService"), "box_v1_exec_service");
    check_name(names_service("", "Plain"), "plain");
    check_name(names_snake("GetHTTPInfo"), "get_httpinfo");
    check_name(names_json("a_b__c_1"), "aBC1");
    check_name(names_file_stem("box/v1/a.proto"), "box/v1/a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clearing_drops_optional_and_keeps_the_oneof),
        cmocka_unit_test(a_case_type_beside_an_enum_of_that_name_is_refused),
        cmocka_unit_test(a_case_type_beside_a_oneof_of_that_name_is_refused),
        cmocka_unit_test(what_is_no_set_is_refused),
        cmocka_unit_test(embedding_drops_source_info),
        cmocka_unit_test(a_json_name_of_its_own_is_refused),
        cmocka_unit_test(a_message_that_looks_like_a_map_entry_is_refused),
        cmocka_unit_test(names_are_those_of_protoc_c),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
