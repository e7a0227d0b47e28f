#include <ctype.h>
#include <stdarg.h>

#include "internal.h"

enum { MAX_PATH_BYTES = 200, MAX_TEXT_BYTES = 160 };

static size_t put_path(const json_path *at, char *out, size_t size)
{
    if (at->parent == NULL)
        return 0;
    size_t len = put_path(at->parent, out, size);
    int n = snprintf(out + len, size - len, "%s%s", len > 0 ? "." : "", at->name);
    if (n >= 0 && (size_t)n < size - len && at->index > 0) {
        len += (size_t)n;
        n = snprintf(out + len, size - len, "[%zu]", at->index - 1);
    }
    return n < 0 || (size_t)n >= size - len ? size - 1 : len + (size_t)n;
}

int box_json_fail(box_error *err, const json_path *at, const char *fmt, ...)
{
    char path[MAX_PATH_BYTES] = "";
    char text[MAX_TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    (void)put_path(at, path, sizeof(path));
    if (*path == '\0')
        return box_fail(err, BOX_VALIDATION, "%s", text);
    return box_violation(err, path, "%s", text);
}

json_form box_json_form_of(const ProtobufCMessageDescriptor *type)
{
    static const char package[] = "google.protobuf.";
    if (strncmp(type->name, package, sizeof(package) - 1) != 0)
        return JSON_PLAIN;
    const char *name = type->name + sizeof(package) - 1;
    if (strcmp(name, "Timestamp") == 0)
        return JSON_TIMESTAMP;
    if (strcmp(name, "Duration") == 0)
        return JSON_DURATION;
    if (strcmp(name, "FieldMask") == 0)
        return JSON_FIELD_MASK;
    return strcmp(name, "Empty") == 0 ? JSON_PLAIN : JSON_REFUSED;
}

void box_json_camel(const char *name, char *out)
{
    bool upper = false;
    for (; *name != '\0'; name++) {
        if (*name == '_') {
            upper = true;
            continue;
        }
        *out++ = upper ? (char)toupper((unsigned char)*name) : *name;
        upper = false;
    }
    *out = '\0';
}

bool box_json_name_is(const char *name, const char *key)
{
    if (strcmp(name, key) == 0)
        return true;
    bool upper = false;
    for (; *name != '\0'; name++) {
        if (*name == '_') {
            upper = true;
            continue;
        }
        if (*key++ != (upper ? (char)toupper((unsigned char)*name) : *name))
            return false;
        upper = false;
    }
    return *key == '\0';
}

/* An underscore must stand before a lower-case letter, and nothing be upper case already. */
bool box_json_mask_to_camel(const char *path, char *out)
{
    for (; *path != '\0'; path++) {
        bool underscore = *path == '_';
        path += underscore;
        if (isupper((unsigned char)*path) || (underscore && !islower((unsigned char)*path)))
            return false;
        *out++ = underscore ? (char)toupper((unsigned char)*path) : *path;
    }
    *out = '\0';
    return true;
}

bool box_json_mask_to_snake(const char *path, size_t len, char *out)
{
    for (size_t i = 0; i < len; i++) {
        if (path[i] == '_')
            return false;
        if (isupper((unsigned char)path[i]))
            *out++ = '_';
        *out++ = (char)tolower((unsigned char)path[i]);
    }
    *out = '\0';
    return true;
}

/* "Entry" after the field's name with every word in capitals. */
static bool is_entry_name(const char *type, const char *field)
{
    bool upper = true;
    for (; *field != '\0'; field++) {
        if (*field == '_') {
            upper = true;
            continue;
        }
        if (*type++ != (upper ? (char)toupper((unsigned char)*field) : *field))
            return false;
        upper = false;
    }
    return strcmp(type, "Entry") == 0;
}

bool box_json_is_map(const ProtobufCMessageDescriptor *type, const ProtobufCFieldDescriptor *field)
{
    if (field->label != PROTOBUF_C_LABEL_REPEATED || field->type != PROTOBUF_C_TYPE_MESSAGE)
        return false;
    const ProtobufCMessageDescriptor *entry = field->descriptor;
    size_t len = strlen(type->name);
    return strncmp(entry->name, type->name, len) == 0 && entry->name[len] == '.' &&
           is_entry_name(entry->name + len + 1, field->name) && entry->n_fields == 2 &&
           strcmp(entry->fields[0].name, "key") == 0 && strcmp(entry->fields[1].name, "value") == 0;
}

size_t box_json_value_size(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    default:
        return 4;
    }
}
