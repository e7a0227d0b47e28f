#include <inttypes.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/map.h"
#include "internal.h"
#include "write_value.h"
#include "json/json.h"

static int put_message(json_writer *w, const json_path *at, const ProtobufCMessage *m);

static int put_value(json_writer *w, const json_path *at, const ProtobufCFieldDescriptor *f,
                     const void *value)
{
    if (f->type == PROTOBUF_C_TYPE_MESSAGE)
        return put_message(w, at, *(const ProtobufCMessage *const *)value);
    return box_json_put_scalar(w, at, f, value);
}

/* --- fields ------------------------------------------------------------------------------------
 */

static const void *member(const ProtobufCMessage *m, size_t offset)
{
    return (const uint8_t *)m + offset;
}

static size_t list_count(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    return *(const size_t *)member(m, f->quantifier_offset);
}

static const uint8_t *list_items(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    return *(const uint8_t *const *)member(m, f->offset);
}

static json_path child_of(const json_path *at, const char *name, size_t index)
{
    return (json_path){.parent = at, .name = name, .index = index, .depth = at->depth};
}

static int put_list(json_writer *w, const json_path *at, const ProtobufCMessage *m,
                    const ProtobufCFieldDescriptor *f)
{
    size_t count = list_count(m, f);
    const uint8_t *items = list_items(m, f);
    size_t size = box_json_value_size(f->type);
    bool first = true;
    if (box_json_open(w, "[") < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        json_path here = child_of(at->parent, at->name, i + 1);
        if (box_json_put_next(w, &first) < 0 || put_value(w, &here, f, items + i * size) < 0)
            return -1;
    }
    return box_json_close(w, "]", first);
}

/* A map's key as text; numbers in `number`. */
static const char *key_text(const ProtobufCMessage *entry, char number[24])
{
    const ProtobufCFieldDescriptor *f = &entry->descriptor->fields[0];
    const void *key = member(entry, f->offset);
    switch (f->type) {
    case PROTOBUF_C_TYPE_STRING:
        return *(char *const *)key;
    case PROTOBUF_C_TYPE_BOOL:
        return *(const protobuf_c_boolean *)key ? "true" : "false";
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        (void)snprintf(number, 24, "%" PRIu64, *(const uint64_t *)key);
        return number;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        (void)snprintf(number, 24, "%" PRId64, *(const int64_t *)key);
        return number;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        (void)snprintf(number, 24, "%" PRIu32, *(const uint32_t *)key);
        return number;
    default:
        (void)snprintf(number, 24, "%" PRId32, *(const int32_t *)key);
        return number;
    }
}

/* The value of a map's entry; a message that is absent counts as an empty one. */
static int put_map_value(json_writer *w, const json_path *at, const ProtobufCMessage *entry)
{
    const ProtobufCFieldDescriptor *f = &entry->descriptor->fields[1];
    const void *value = member(entry, f->offset);
    if (f->type != PROTOBUF_C_TYPE_MESSAGE || *(void *const *)value != NULL)
        return put_value(w, at, f, value);
    const ProtobufCMessageDescriptor *type = f->descriptor;
    BOX_AUTO(box_freep)
    ProtobufCMessage *empty = box_alloc(type->sizeof_message);
    protobuf_c_message_init(type, empty);
    return put_message(w, at, empty);
}

static int put_entries(json_writer *w, const json_path *at, ProtobufCMessage *const *entries,
                       size_t count, const box_map *last)
{
    bool first = true;
    char number[24];
    if (box_json_open(w, "{") < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        const char *key = key_text(entries[i], number);
        json_path here = child_of(at, key, 0);
        if (box_map_get(last, key) != entries[i])
            continue;
        if (box_json_put_next(w, &first) < 0 || box_json_put_name(w, &here, key) < 0 ||
            put_map_value(w, &here, entries[i]) < 0)
            return -1;
    }
    return box_json_close(w, "}", first);
}

static void map_freep(box_map **map)
{
    box_map_free(*map);
}

/* protobuf-c keeps every entry that came; of those with one key the last counts. */
static int put_map(json_writer *w, const json_path *at, const ProtobufCMessage *m,
                   const ProtobufCFieldDescriptor *f)
{
    BOX_AUTO(map_freep)
    box_map *last = box_map_new();
    ProtobufCMessage *const *entries = *(ProtobufCMessage *const *const *)member(m, f->offset);
    size_t count = list_count(m, f);
    char number[24];
    for (size_t i = 0; i < count; i++)
        (void)box_map_put(last, key_text(entries[i], number), entries[i]);
    return put_entries(w, at, entries, count, last);
}

static bool is_zero(const ProtobufCFieldDescriptor *f, const void *value)
{
    static const uint8_t zero[8] = {0};
    if (f->type == PROTOBUF_C_TYPE_STRING)
        return *(char *const *)value == NULL || **(char *const *)value == '\0';
    if (f->type == PROTOBUF_C_TYPE_BYTES)
        return ((const ProtobufCBinaryData *)value)->len == 0;
    return memcmp(value, zero, box_json_value_size(f->type)) == 0;
}

static bool is_written(const json_writer *w, const ProtobufCMessage *m,
                       const ProtobufCFieldDescriptor *f)
{
    bool defaults = (w->flags & BOX_JSON_EMIT_DEFAULTS) != 0;
    const void *value = member(m, f->offset);
    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        return defaults || list_count(m, f) > 0;
    if ((f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0 &&
        *(const uint32_t *)member(m, f->quantifier_offset) != f->id)
        return false;
    if (f->type == PROTOBUF_C_TYPE_MESSAGE)
        return *(void *const *)value != NULL;
    if ((f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0)
        return true;
    if (f->label == PROTOBUF_C_LABEL_OPTIONAL && f->type != PROTOBUF_C_TYPE_STRING)
        return *(const protobuf_c_boolean *)member(m, f->quantifier_offset) != 0;
    return defaults || !is_zero(f, value);
}

static int put_field(json_writer *w, const json_path *at, const ProtobufCMessage *m,
                     const ProtobufCFieldDescriptor *f)
{
    BOX_AUTO(box_freep)
    char *name = box_alloc(strlen(f->name) + 1);
    json_path here = child_of(at, f->name, 0);
    box_json_camel(f->name, name);
    if (box_json_put_name(w, &here, name) < 0)
        return -1;
    if (box_json_is_map(m->descriptor, f))
        return put_map(w, &here, m, f);
    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        return put_list(w, &here, m, f);
    return put_value(w, &here, f, member(m, f->offset));
}

static int put_plain(json_writer *w, const json_path *at, const ProtobufCMessage *m)
{
    bool first = true;
    if (box_json_open(w, "{") < 0)
        return -1;
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        if (!is_written(w, m, f))
            continue;
        if (box_json_put_next(w, &first) < 0 || put_field(w, at, m, f) < 0)
            return -1;
    }
    return box_json_close(w, "}", first);
}

/* --- well-known types --------------------------------------------------------------------------
 */

static int put_time(json_writer *w, const json_path *at, const ProtobufCMessage *m, json_form form)
{
    char text[JSON_TIME_TEXT];
    int64_t seconds = *(const int64_t *)member(m, m->descriptor->fields[0].offset);
    int32_t nanos = *(const int32_t *)member(m, m->descriptor->fields[1].offset);
    int rc = form == JSON_TIMESTAMP ? box_json_timestamp_format(seconds, nanos, text)
                                    : box_json_duration_format(seconds, nanos, text);
    if (rc < 0)
        return box_json_fail(w->err, at, "is out of the range of times");
    return box_buf_printf(w->out, w->err, "\"%s\"", text);
}

static int put_mask(json_writer *w, const json_path *at, const ProtobufCMessage *m)
{
    const ProtobufCFieldDescriptor *f = &m->descriptor->fields[0];
    char *const *paths = *(char *const *const *)member(m, f->offset);
    BOX_AUTO(box_buf_done)
    box_buf all = {0};
    const char *text;
    for (size_t i = 0; i < list_count(m, f); i++) {
        BOX_AUTO(box_freep)
        char *camel = box_alloc(strlen(paths[i]) + 1);
        if (!box_json_mask_to_camel(paths[i], camel))
            return box_json_fail(w->err, at, "has a path that is not in snake case");
        if (box_buf_printf(&all, w->err, "%s%s", i > 0 ? "," : "", camel) < 0)
            return -1;
    }
    if (box_buf_text(&all, &text, w->err) < 0)
        return -1;
    return box_json_put_string(w, at, text);
}

static int put_message(json_writer *w, const json_path *at, const ProtobufCMessage *m)
{
    json_path here = *at;
    json_form form = box_json_form_of(m->descriptor);
    if (++here.depth > BOX_MAX_MESSAGE_DEPTH)
        return box_json_fail(w->err, at, "is nested too deep");
    switch (form) {
    case JSON_TIMESTAMP:
    case JSON_DURATION:
        return put_time(w, &here, m, form);
    case JSON_FIELD_MASK:
        return put_mask(w, &here, m);
    case JSON_REFUSED:
        return box_json_fail(w->err, at, "%s has no JSON form here", m->descriptor->name);
    default:
        return put_plain(w, &here, m);
    }
}

int box_json_from_message(const ProtobufCMessage *message, unsigned flags, box_buf *out,
                          box_error *err)
{
    const json_path root = {0};
    json_writer w = {.out = out, .err = err, .flags = flags};
    return put_message(&w, &root, message);
}
