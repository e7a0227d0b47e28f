#include "check.h"

#include "base/alloc.h"
#include "names.h"

typedef Google__Protobuf__DescriptorProto message_proto;
typedef Google__Protobuf__FieldDescriptorProto field_proto;

static bool is_map_entry(const message_proto *m)
{
    return m->options != NULL && m->options->map_entry;
}

/* The type name that protoc gives to the entry of a map field. */
static bool is_entry_name(const char *type, const char *field)
{
    static const char suffix[] = "Entry";
    BOX_AUTO(box_freep) char *camel = names_camel(field);
    size_t len = strlen(camel);
    return strncmp(type, camel, len) == 0 && strcmp(type + len, suffix) == 0;
}

static bool has_key_and_value(const message_proto *m)
{
    return m->n_field == 2 && strcmp(m->field[0]->name, "key") == 0 &&
           strcmp(m->field[1]->name, "value") == 0;
}

static int check_field(const message_proto *m, const field_proto *f, box_error *err)
{
    BOX_AUTO(box_freep) char *json = names_json(f->name);
    if (f->json_name != NULL && strcmp(f->json_name, json) != 0)
        return box_fail(err, BOX_VALIDATION, "%s.%s: json_name is not supported", m->name, f->name);
    const char *dot = f->type_name != NULL ? strrchr(f->type_name, '.') : NULL;
    const char *type = dot != NULL ? dot + 1 : "";
    for (size_t i = 0; i < m->n_nested_type; i++) {
        const message_proto *nested = m->nested_type[i];
        if (strcmp(nested->name, type) == 0 && !is_map_entry(nested) && has_key_and_value(nested) &&
            is_entry_name(type, f->name))
            return box_fail(err, BOX_VALIDATION, "%s.%s: %s looks like a map's entry and is none",
                            m->name, f->name, nested->name);
    }
    return 0;
}

static int check_message(const message_proto *m, box_error *err)
{
    for (size_t i = 0; i < m->n_field; i++) {
        if (check_field(m, m->field[i], err) < 0)
            return -1;
    }
    for (size_t i = 0; i < m->n_nested_type; i++) {
        if (check_message(m->nested_type[i], err) < 0)
            return -1;
    }
    return 0;
}

int check_file(const Google__Protobuf__FileDescriptorProto *file, box_error *err)
{
    for (size_t i = 0; i < file->n_message_type; i++) {
        if (check_message(file->message_type[i], err) < 0)
            return box_wrap(err, "%s", file->name);
    }
    return 0;
}
