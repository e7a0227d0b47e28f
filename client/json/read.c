#include <jansson.h>
#include <math.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "internal.h"
#include "read_value.h"
#include "json/json.h"

static void *member(ProtobufCMessage *m, size_t offset)
{
    return (uint8_t *)m + offset;
}

static json_path child_of(const json_path *at, const char *name, size_t index)
{
    return (json_path){.parent = at, .name = name, .index = index, .depth = at->depth};
}

static ProtobufCMessage *new_message(const ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *m = box_alloc(type->sizeof_message);
    protobuf_c_message_init(type, m);
    return m;
}

static int read_message(const json_reader *r, const json_path *at, ProtobufCMessage *m,
                        const json_t *json);

/* The message is stored before it is read: whatever fails, the whole is freed from its root. */
static int read_sub_message(const json_reader *r, const json_path *at,
                            const ProtobufCFieldDescriptor *f, const json_t *json, void *to)
{
    ProtobufCMessage *m = new_message(f->descriptor);
    *(ProtobufCMessage **)to = m;
    return read_message(r, at, m, json);
}

static int read_value(const json_reader *r, const json_path *at, const ProtobufCFieldDescriptor *f,
                      const json_t *json, void *to)
{
    if (json_is_null(json))
        return box_json_fail(r->err, at, "must not be null");
    if (f->type == PROTOBUF_C_TYPE_MESSAGE)
        return read_sub_message(r, at, f, json, to);
    return box_json_read_scalar(r, at, f, json, to);
}

/* --- lists and maps ----------------------------------------------------------------------------
 */

/* Zeroed room for count values in the message, which owns it from here. */
static uint8_t *make_list(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f, size_t count)
{
    uint8_t *items = box_alloc_array(count, box_json_value_size(f->type));
    *(uint8_t **)member(m, f->offset) = items;
    *(size_t *)member(m, f->quantifier_offset) = count;
    return items;
}

static int read_list(const json_reader *r, const json_path *at, ProtobufCMessage *m,
                     const ProtobufCFieldDescriptor *f, const json_t *json)
{
    size_t count = json_array_size(json);
    if (!json_is_array(json))
        return box_json_fail(r->err, at, "must be a list");
    if (count == 0)
        return 0;
    uint8_t *items = make_list(m, f, count);
    for (size_t i = 0; i < count; i++) {
        json_path here = child_of(at->parent, at->name, i + 1);
        void *to = items + i * box_json_value_size(f->type);
        if (read_value(r, &here, f, json_array_get(json, i), to) < 0)
            return -1;
    }
    return 0;
}

static int read_entry(const json_reader *r, const json_path *at, ProtobufCMessage *entry,
                      const char *key, const json_t *json)
{
    const ProtobufCFieldDescriptor *fields = entry->descriptor->fields;
    if (box_json_read_key(r, at, &fields[0], key, member(entry, fields[0].offset)) < 0)
        return -1;
    return read_value(r, at, &fields[1], json, member(entry, fields[1].offset));
}

static int read_map(const json_reader *r, const json_path *at, ProtobufCMessage *m,
                    const ProtobufCFieldDescriptor *f, const json_t *json)
{
    size_t count = json_object_size(json);
    const char *key;
    json_t *value;
    size_t i = 0;
    if (!json_is_object(json))
        return box_json_fail(r->err, at, "must be an object");
    if (count == 0)
        return 0;
    ProtobufCMessage **entries = (ProtobufCMessage **)(void *)make_list(m, f, count);
    json_object_foreach((json_t *)(uintptr_t)json, key, value)
    {
        json_path here = child_of(at, key, 0);
        entries[i] = new_message(f->descriptor);
        if (read_entry(r, &here, entries[i++], key, value) < 0)
            return -1;
    }
    return 0;
}

/* --- fields ------------------------------------------------------------------------------------
 */

static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *type,
                                                  const char *key)
{
    for (unsigned i = 0; i < type->n_fields; i++) {
        if (box_json_name_is(type->fields[i].name, key))
            return &type->fields[i];
    }
    return NULL;
}

static int read_singular(const json_reader *r, const json_path *at, ProtobufCMessage *m,
                         const ProtobufCFieldDescriptor *f, const json_t *json)
{
    uint32_t *which = member(m, f->quantifier_offset);
    bool oneof = (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
    if (oneof && *which != 0)
        return box_json_fail(r->err, at, "another member of its oneof is set");
    if (oneof) {
        memset(member(m, f->offset), 0, box_json_value_size(f->type));
        *which = f->id;
    } else if (f->label == PROTOBUF_C_LABEL_OPTIONAL && f->type != PROTOBUF_C_TYPE_STRING &&
               f->type != PROTOBUF_C_TYPE_MESSAGE) {
        *(protobuf_c_boolean *)member(m, f->quantifier_offset) = 1;
    }
    return read_value(r, at, f, json, member(m, f->offset));
}

/* A field by both its names is there twice; jansson sees two keys. */
static bool is_named_twice(const json_t *object, const ProtobufCFieldDescriptor *f)
{
    BOX_AUTO(box_freep)
    char *camel = box_alloc(strlen(f->name) + 1);
    box_json_camel(f->name, camel);
    return strcmp(camel, f->name) != 0 && json_object_get(object, camel) != NULL &&
           json_object_get(object, f->name) != NULL;
}

static int read_member(const json_reader *r, const json_path *at, ProtobufCMessage *m,
                       const char *key, const json_t *object, const json_t *json)
{
    const ProtobufCFieldDescriptor *f = find_field(m->descriptor, key);
    json_path here = child_of(at, f != NULL ? f->name : key, 0);
    if (f == NULL)
        return (r->flags & BOX_JSON_IGNORE_UNKNOWN) != 0
                   ? 0
                   : box_json_fail(r->err, &here, "%s has no such field",
                                   m->descriptor->short_name);
    if (is_named_twice(object, f))
        return box_json_fail(r->err, &here, "is there twice");
    if (json_is_null(json))
        return 0;
    if (box_json_is_map(m->descriptor, f))
        return read_map(r, &here, m, f, json);
    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        return read_list(r, &here, m, f, json);
    return read_singular(r, &here, m, f, json);
}

static int read_plain(const json_reader *r, const json_path *at, ProtobufCMessage *m,
                      const json_t *json)
{
    const char *key;
    json_t *value;
    if (!json_is_object(json))
        return box_json_fail(r->err, at, "must be an object");
    json_object_foreach((json_t *)(uintptr_t)json, key, value)
    {
        if (read_member(r, at, m, key, json, value) < 0)
            return -1;
    }
    return 0;
}

/* --- well-known types --------------------------------------------------------------------------
 */

static int read_time(const json_reader *r, const json_path *at, ProtobufCMessage *m,
                     const json_t *json, json_form form)
{
    int64_t *seconds = member(m, m->descriptor->fields[0].offset);
    int32_t *nanos = member(m, m->descriptor->fields[1].offset);
    const char *text = json_string_value(json);
    if (form == JSON_TIMESTAMP) {
        if (text == NULL || box_json_timestamp_parse(text, seconds, nanos) < 0)
            return box_json_fail(r->err, at, "must be a time such as \"2024-05-01T10:00:00Z\"");
        return 0;
    }
    if (text == NULL || box_json_duration_parse(text, seconds, nanos) < 0)
        return box_json_fail(r->err, at, "must be a duration such as \"1.5s\"");
    return 0;
}

static size_t count_paths(const char *text)
{
    size_t count = *text != '\0';
    for (; *text != '\0'; text++)
        count += *text == ',';
    return count;
}

static int read_mask(const json_reader *r, const json_path *at, ProtobufCMessage *m,
                     const json_t *json)
{
    const char *text = json_string_value(json);
    if (text == NULL)
        return box_json_fail(r->err, at, "must be a text of paths joined by commas");
    size_t count = count_paths(text);
    if (count == 0)
        return 0;
    char **paths = (char **)(void *)make_list(m, &m->descriptor->fields[0], count);
    for (size_t i = 0; i < count; i++) {
        size_t len = strcspn(text, ",");
        paths[i] = box_alloc(2 * len + 1);
        if (!box_json_mask_to_snake(text, len, paths[i]))
            return box_json_fail(r->err, at, "has a path that is not in camel case");
        text += len + 1;
    }
    return 0;
}

static int read_message(const json_reader *r, const json_path *at, ProtobufCMessage *m,
                        const json_t *json)
{
    json_path here = *at;
    json_form form = box_json_form_of(m->descriptor);
    if (++here.depth > BOX_MAX_MESSAGE_DEPTH)
        return box_json_fail(r->err, at, "is nested too deep");
    switch (form) {
    case JSON_TIMESTAMP:
    case JSON_DURATION:
        return read_time(r, &here, m, json, form);
    case JSON_FIELD_MASK:
        return read_mask(r, &here, m, json);
    case JSON_REFUSED:
        return box_json_fail(r->err, at, "%s has no JSON form here", m->descriptor->name);
    default:
        return read_plain(r, &here, m, json);
    }
}

/* --- entry -------------------------------------------------------------------------------------
 */

static void json_freep(json_t **json)
{
    json_decref(*json);
}

static void message_freep(ProtobufCMessage **m)
{
    protobuf_c_message_free_unpacked(*m, NULL);
}

int box_json_to_message(const ProtobufCMessageDescriptor *type, const char *json, size_t len,
                        unsigned flags, ProtobufCMessage **out, box_error *err)
{
    const json_path root = {0};
    const json_reader r = {.err = err, .flags = flags};
    json_error_t where;
    if (len > BOX_MAX_JSON_BYTES)
        return box_fail(err, BOX_MESSAGE_SIZE, "JSON of more than %d bytes", BOX_MAX_JSON_BYTES);
    BOX_AUTO(json_freep)
    json_t *tree = json_loadb(json, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &where);
    if (tree == NULL)
        return box_fail(err, BOX_VALIDATION, "line %d, column %d: %s", where.line, where.column,
                        where.text);
    BOX_AUTO(message_freep)
    ProtobufCMessage *m = new_message(type);
    if (read_message(&r, &root, m, tree) < 0)
        return -1;
    *out = box_take(m);
    return 0;
}
