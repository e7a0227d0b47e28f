#include "write_value.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>

#include "base/utf8.h"
#include "wire/codec.h"
#include "json/json.h"

/* --- text --------------------------------------------------------------------------------------
 */

int box_json_put(json_writer *w, const char *text)
{
    return box_buf_add(w->out, text, strlen(text), w->err);
}

static int put_line(json_writer *w)
{
    if ((w->flags & BOX_JSON_PRETTY) == 0)
        return 0;
    if (box_json_put(w, "\n") < 0)
        return -1;
    for (unsigned i = 0; i < w->indent; i++) {
        if (box_json_put(w, "  ") < 0)
            return -1;
    }
    return 0;
}

/* Between two members, or before the first. */
int box_json_put_next(json_writer *w, bool *first)
{
    bool comma = !*first;
    *first = false;
    if (comma && box_json_put(w, ",") < 0)
        return -1;
    return put_line(w);
}

int box_json_open(json_writer *w, const char *bracket)
{
    w->indent++;
    return box_json_put(w, bracket);
}

int box_json_close(json_writer *w, const char *bracket, bool empty)
{
    w->indent--;
    if (!empty && put_line(w) < 0)
        return -1;
    return box_json_put(w, bracket);
}

static const char *short_escape(char c)
{
    switch (c) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    default:
        return NULL;
    }
}

int box_json_put_string(json_writer *w, const json_path *at, const char *text)
{
    size_t len = strlen(text);
    if (!box_utf8_valid(text, len))
        return box_json_fail(w->err, at, "must be valid UTF-8");
    if (box_json_put(w, "\"") < 0)
        return -1;
    for (const char *plain = text;; text++) {
        unsigned char c = (unsigned char)*text;
        const char *escape = short_escape(*text);
        size_t control = box_utf8_control(text); /* JSON needs C0 escaped, terminals the others */
        if (c != '\0' && control == 0 && escape == NULL)
            continue;
        if (box_buf_add(w->out, plain, (size_t)(text - plain), w->err) < 0)
            return -1;
        if (c == '\0')
            return box_json_put(w, "\"");
        if (control == 2)
            c = (unsigned char)*++text; /* of a C1 the second byte is its number */
        if ((escape != NULL ? box_json_put(w, escape)
                            : box_buf_printf(w->out, w->err, "\\u%04x", c)) < 0)
            return -1;
        plain = text + 1;
    }
}

int box_json_put_name(json_writer *w, const json_path *at, const char *name)
{
    if (box_json_put_string(w, at, name) < 0)
        return -1;
    return box_json_put(w, (w->flags & BOX_JSON_PRETTY) != 0 ? ": " : ":");
}

/* --- scalars -----------------------------------------------------------------------------------
 */

static int put_double(json_writer *w, double value, bool is_float)
{
    char text[32];
    if (isnan(value))
        return box_json_put(w, "\"NaN\"");
    if (isinf(value))
        return box_json_put(w, value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    if (value == 0 && signbit(value)) /* "-0" would be read as an integer without a sign */
        return box_json_put(w, "-0.0");
    /* The shortest that reads back the same. */
    for (int digits = is_float ? 6 : 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof(text), "%.*g", digits, value);
        bool same = is_float ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value;
        if (same)
            break;
    }
    return box_json_put(w, text);
}

static int put_bytes(json_writer *w, const ProtobufCBinaryData *bytes)
{
    static const char padding[] = "==";
    if (box_json_put(w, "\"") < 0 || box_base64_encode(bytes->data, bytes->len, w->out, w->err) < 0)
        return -1;
    size_t missing = (3 - bytes->len % 3) % 3;
    if (box_buf_add(w->out, padding, missing, w->err) < 0)
        return -1;
    return box_json_put(w, "\"");
}

static int put_enum(json_writer *w, const json_path *at, const ProtobufCEnumDescriptor *type,
                    int value)
{
    const ProtobufCEnumValue *named = protobuf_c_enum_descriptor_get_value(type, value);
    if (named != NULL)
        return box_json_put_string(w, at, named->name);
    return box_buf_printf(w->out, w->err, "%d", value);
}

int box_json_put_scalar(json_writer *w, const json_path *at, const ProtobufCFieldDescriptor *f,
                        const void *value)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        return box_buf_printf(w->out, w->err, "%" PRId32, *(const int32_t *)value);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return box_buf_printf(w->out, w->err, "%" PRIu32, *(const uint32_t *)value);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return box_buf_printf(w->out, w->err, "\"%" PRId64 "\"", *(const int64_t *)value);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return box_buf_printf(w->out, w->err, "\"%" PRIu64 "\"", *(const uint64_t *)value);
    case PROTOBUF_C_TYPE_FLOAT:
        return put_double(w, (double)*(const float *)value, true);
    case PROTOBUF_C_TYPE_DOUBLE:
        return put_double(w, *(const double *)value, false);
    case PROTOBUF_C_TYPE_BOOL:
        return box_json_put(w, *(const protobuf_c_boolean *)value ? "true" : "false");
    case PROTOBUF_C_TYPE_ENUM:
        return put_enum(w, at, f->descriptor, *(const int *)value);
    case PROTOBUF_C_TYPE_STRING:
        return box_json_put_string(w, at,
                                   *(char *const *)value != NULL ? *(char *const *)value : "");
    case PROTOBUF_C_TYPE_BYTES:
        return put_bytes(w, value);
    default:
        assert(false); /* the caller has messages */
        return -1;
    }
}
