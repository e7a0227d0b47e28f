#include "wire/validate.h"

#include <assert.h>

#include "base/limits.h"
#include "base/utf8.h"

/* How protobuf-c 1.4.1 (protobuf-c.c, protobuf_c_message_unpack) allocates, which the estimate
 * follows: one struct a message; one array a repeated field, exactly sized; strings and bytes at
 * every occurrence, also when a later one replaces them; a table of the fields found, 16 on the
 * stack and then pieces of twice the size, freed when the message is done; one record and a copy a
 * field it does not know. */
enum {
    ARENA_UNIT = 16, /* what the arena rounds up to: arena.c */
    SCANNED_FIELD_BYTES = 32,
    SCANNED_FIELDS_ON_STACK = 16,
    MAX_TAG_BYTES = 5,
    MAX_LENGTH_BYTES = 5,
    MAX_VARINT_BYTES = 10,
    MAX_PATH_BYTES = 200,
    REQUIRED_ON_STACK = 128, /* fields whose presence protobuf-c notes without allocating */
    SEEN_FIELDS = 256,       /* of one type at most; the largest there is has 26 */
};

typedef enum wire_type {
    WIRE_VARINT = 0,
    WIRE_64 = 1,
    WIRE_LENGTH = 2,
    WIRE_32 = 5,
} wire_type;

typedef struct validator {
    size_t budget;
    size_t kept; /* bytes that stay allocated */
    box_error *err;
} validator;

/* Where we are: names the field in an error, and holds what one message needs while it is read. */
typedef struct frame {
    const struct frame *parent;
    const ProtobufCFieldDescriptor *field; /* being looked at; NULL: not one we know */
    const ProtobufCMessageDescriptor *type;
    unsigned depth;
    size_t n_fields;   /* on the wire */
    size_t inner_peak; /* largest table, with those below it, of a sub-message */
    uint64_t seen[SEEN_FIELDS / 64];
} frame;

typedef struct wire_field {
    uint32_t number;
    wire_type type;
    box_bytes value; /* payload of a length-delimited one, else the bytes of the number */
} wire_field;

/* --- errors ----------------------------------------------------------------------------------- */

/* Returns the length written; the path is cut in front when it does not fit. */
static size_t put_path(const frame *f, char *out, size_t size)
{
    size_t len = f->parent != NULL ? put_path(f->parent, out, size) : 0;
    const char *name = f->field != NULL ? f->field->name : "?";
    int n = snprintf(out + len, size - len, "%s%s", len > 0 ? "." : "", name);
    return n < 0 || (size_t)n >= size - len ? size - 1 : len + (size_t)n;
}

static int fail_field(const validator *v, const frame *f, const char *what)
{
    char path[MAX_PATH_BYTES];
    (void)put_path(f, path, sizeof(path));
    return box_violation(v->err, path, "%s", what);
}

static int fail_bytes(const validator *v, const frame *f, const char *what)
{
    return box_fail(v->err, BOX_PROTOCOL, "not a %s: %s", f->type->name, what);
}

static size_t rounded(size_t size)
{
    return (size + ARENA_UNIT - 1) & ~(size_t)(ARENA_UNIT - 1);
}

/* Part of an allocation. */
static int charge_part(validator *v, size_t size)
{
    v->kept += size;
    if (v->kept > v->budget)
        return box_fail(v->err, BOX_MEMORY_BUDGET, "decoding the message needs more than %zu bytes",
                        v->budget);
    return 0;
}

static int charge(validator *v, size_t size)
{
    return charge_part(v, rounded(size));
}

/* --- wire format ------------------------------------------------------------------------------ */

/* Length of the varint at the front, 0 when it does not end within max bytes. */
static size_t varint_length(box_bytes in, size_t max)
{
    for (size_t i = 0; i < in.len && i < max; i++) {
        if (in.data[i] < 0x80)
            return i + 1;
    }
    return 0;
}

static uint64_t varint_value(const uint8_t *data, size_t len)
{
    uint64_t value = 0;
    for (size_t i = 0; i < len; i++)
        value |= (uint64_t)(data[i] & 0x7f) << (7 * i);
    return value;
}

static box_bytes take_front(box_bytes *in, size_t len)
{
    box_bytes front = {in->data, len};
    in->data += len;
    in->len -= len;
    return front;
}

static bool read_varint(box_bytes *in, size_t max, uint64_t *out)
{
    size_t len = varint_length(*in, max);
    *out = varint_value(in->data, len);
    (void)take_front(in, len);
    return len > 0;
}

static bool read_value(box_bytes *in, wire_field *out)
{
    uint64_t len;
    switch (out->type) {
    case WIRE_VARINT:
        len = varint_length(*in, MAX_VARINT_BYTES);
        if (len == 0)
            return false;
        break;
    case WIRE_64:
        len = 8;
        break;
    case WIRE_LENGTH:
        if (!read_varint(in, MAX_LENGTH_BYTES, &len))
            return false;
        break;
    case WIRE_32:
        len = 4;
        break;
    default: /* groups, and what is not assigned */
        return false;
    }
    if (len > in->len)
        return false;
    out->value = take_front(in, (size_t)len);
    return true;
}

static bool read_field(box_bytes *in, wire_field *out)
{
    uint64_t tag;
    if (!read_varint(in, MAX_TAG_BYTES, &tag) || tag > UINT32_MAX || tag >> 3 == 0)
        return false;
    out->number = (uint32_t)(tag >> 3);
    out->type = (wire_type)(tag & 7);
    return read_value(in, out);
}

/* --- values ----------------------------------------------------------------------------------- */

static wire_type natural_wire_type(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return WIRE_32;
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return WIRE_64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return WIRE_LENGTH;
    default:
        return WIRE_VARINT;
    }
}

static size_t element_size(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return 4;
    }
}

static int check_string(validator *v, frame *f, box_bytes text)
{
    if (text.len > 0 && memchr(text.data, '\0', text.len) != NULL)
        return fail_field(v, f, "must not contain a NUL");
    if (!box_utf8_valid((const char *)text.data, text.len))
        return fail_field(v, f, "must be valid UTF-8");
    return charge(v, text.len + 1);
}

static int check_packed(validator *v, frame *f, box_bytes packed)
{
    size_t size = element_size(f->field->type);
    wire_type type = natural_wire_type(f->field->type);
    size_t count = 0;
    if (type != WIRE_VARINT) {
        if (packed.len % size != 0)
            return fail_bytes(v, f, "a packed field ends inside a number");
        return charge(v, packed.len);
    }
    while (packed.len > 0) {
        size_t len = varint_length(packed, MAX_VARINT_BYTES);
        if (len == 0)
            return fail_bytes(v, f, "a packed field ends inside a number");
        (void)take_front(&packed, len);
        count++;
    }
    return charge(v, count * size);
}

/* --- messages --------------------------------------------------------------------------------- */

static int check_message(validator *v, const frame *parent, const ProtobufCMessageDescriptor *type,
                         box_bytes in, size_t *peak);

/* Whether the field was there before in this message. */
static bool mark_seen(frame *f)
{
    size_t index = (size_t)(f->field - f->type->fields);
    uint64_t bit = UINT64_C(1) << (index % 64);
    bool seen = (f->seen[index / 64] & bit) != 0;
    f->seen[index / 64] |= bit;
    return seen;
}

/* A singular message that comes again would have to be merged with the one before; no encoder
 * writes that. protobuf-c 1.4.1 (merge_messages) loses numbers then that only the first one sets,
 * and fails where neither sets a oneof: nothing may be lost silently. */
static int check_sub_message(validator *v, frame *f, box_bytes in)
{
    size_t peak = 0;
    if (f->depth + 1 >= BOX_MAX_MESSAGE_DEPTH)
        return fail_field(v, f, "is nested too deep");
    if (f->field->label != PROTOBUF_C_LABEL_REPEATED && mark_seen(f))
        return fail_field(v, f, "is there more than once");
    if (check_message(v, f, f->field->descriptor, in, &peak) < 0)
        return -1;
    if (peak > f->inner_peak)
        f->inner_peak = peak;
    return 0;
}

/* One more element of an array, which is rounded up once. */
static int charge_element(validator *v, frame *f)
{
    return charge_part(v, element_size(f->field->type) + (mark_seen(f) ? 0 : ARENA_UNIT));
}

static int check_known(validator *v, frame *f, const wire_field *w)
{
    ProtobufCType type = f->field->type;
    bool repeated = f->field->label == PROTOBUF_C_LABEL_REPEATED;
    if (w->type != natural_wire_type(type)) {
        if (repeated && w->type == WIRE_LENGTH)
            return check_packed(v, f, w->value);
        return fail_bytes(v, f, "a field has another type");
    }
    if (repeated && charge_element(v, f) < 0)
        return -1;
    if (type == PROTOBUF_C_TYPE_STRING)
        return check_string(v, f, w->value);
    if (type == PROTOBUF_C_TYPE_BYTES)
        return charge(v, w->value.len);
    if (type == PROTOBUF_C_TYPE_MESSAGE)
        return check_sub_message(v, f, w->value);
    return 0;
}

/* Bytes of the table of fields, beyond what is on the stack. */
static size_t table_bytes(size_t n_fields)
{
    size_t room = SCANNED_FIELDS_ON_STACK;
    size_t piece = 2 * SCANNED_FIELDS_ON_STACK;
    for (; room < n_fields; piece *= 2)
        room += piece;
    return (room - SCANNED_FIELDS_ON_STACK) * SCANNED_FIELD_BYTES;
}

static int check_fields(validator *v, frame *f, box_bytes in)
{
    while (in.len > 0) {
        wire_field w;
        const uint8_t *start = in.data;
        if (!read_field(&in, &w))
            return fail_bytes(v, f, "a field is cut or of no known kind");
        f->n_fields++;
        f->field = protobuf_c_message_descriptor_get_field(f->type, w.number);
        if (f->field != NULL) {
            if (check_known(v, f, &w) < 0)
                return -1;
        } else if (charge(v, sizeof(ProtobufCMessageUnknownField)) < 0 ||
                   charge(v, (size_t)(in.data - start)) < 0) {
            return -1;
        }
    }
    return 0;
}

/* *peak: what is needed for a while on top of v->kept. */
static int check_message(validator *v, const frame *parent, const ProtobufCMessageDescriptor *type,
                         box_bytes in, size_t *peak)
{
    frame f = {.parent = parent, .type = type, .depth = parent != NULL ? parent->depth + 1 : 0};
    assert(type->n_fields <= SEEN_FIELDS);
    size_t noted = type->n_fields > REQUIRED_ON_STACK ? type->n_fields / 8 + 1 : 0;
    if (charge(v, type->sizeof_message) < 0 || charge(v, noted) < 0)
        return -1;
    if (check_fields(v, &f, in) < 0)
        return -1;
    *peak = table_bytes(f.n_fields) + f.inner_peak;
    return 0;
}

int box_message_validate(const ProtobufCMessageDescriptor *type, const uint8_t *data, size_t len,
                         size_t budget_bytes, box_error *err)
{
    validator v = {.budget = budget_bytes, .err = err};
    size_t peak = 0;
    if (check_message(&v, NULL, type, (box_bytes){data, len}, &peak) < 0)
        return -1;
    return charge(&v, peak);
}

int box_message_unpack(const ProtobufCMessageDescriptor *type, const uint8_t *data, size_t len,
                       box_arena *arena, ProtobufCMessage **out, box_error *err)
{
    size_t left = arena->limit_bytes - arena->used_bytes;
    if (box_message_validate(type, data, len, left, err) < 0)
        return -1;
    arena->allocator.allocator_data = arena; /* it may have been moved since init */
    ProtobufCMessage *message = protobuf_c_message_unpack(type, &arena->allocator, len, data);
    if (message == NULL)
        return box_fail(err, BOX_PROTOCOL, "not a %s", type->name);
    *out = message;
    return 0;
}
