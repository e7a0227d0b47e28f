#include "read_value.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <math.h>

#include "base/alloc.h"
#include "wire/codec.h"

/* --- integers ----------------------------------------------------------------------------------
 */

/* What a JSON number or text says, before its range is known. */
typedef struct integer {
    bool negative;
    uint64_t magnitude;
} integer;

static bool integer_of_real(double value, integer *out)
{
    if (value != floor(value) || fabs(value) > 9007199254740992.0) /* 2^53: exact up to here */
        return false;
    *out = (integer){value < 0, (uint64_t)fabs(value)};
    return true;
}

/* Only digits behind an optional minus: what strtoull takes beyond that is not JSON. */
static bool integer_of_text(const char *text, integer *out)
{
    char *end;
    out->negative = *text == '-';
    text += out->negative;
    if (!isdigit((unsigned char)*text) || (text[0] == '0' && text[1] != '\0'))
        return false;
    errno = 0;
    out->magnitude = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0';
}

static bool integer_of(const json_t *json, integer *out)
{
    if (json_is_string(json))
        return integer_of_text(json_string_value(json), out);
    if (json_is_real(json))
        return integer_of_real(json_real_value(json), out);
    if (!json_is_integer(json))
        return false;
    json_int_t value = json_integer_value(json);
    *out = (integer){value < 0, value < 0 ? -(uint64_t)value : (uint64_t)value};
    return true;
}

static bool to_signed(integer from, int64_t max, int64_t *out)
{
    uint64_t limit = (uint64_t)max + from.negative;
    if (from.magnitude > limit)
        return false;
    *out = from.negative ? (int64_t)-from.magnitude : (int64_t)from.magnitude;
    return true;
}

static bool to_unsigned(integer from, uint64_t max, uint64_t *out)
{
    if ((from.negative && from.magnitude != 0) || from.magnitude > max)
        return false;
    *out = from.magnitude;
    return true;
}

static bool store_integer(ProtobufCType type, integer from, void *to)
{
    int64_t value;
    uint64_t natural;
    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_ENUM:
        if (!to_signed(from, INT32_MAX, &value))
            return false;
        *(int32_t *)to = (int32_t)value;
        return true;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        if (!to_unsigned(from, UINT32_MAX, &natural))
            return false;
        *(uint32_t *)to = (uint32_t)natural;
        return true;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return to_unsigned(from, UINT64_MAX, to);
    default:
        return to_signed(from, INT64_MAX, to);
    }
}

/* --- the others --------------------------------------------------------------------------------
 */

static bool number_of_text(const char *text, double *out)
{
    char *end;
    if (strcmp(text, "NaN") == 0) {
        *out = (double)NAN;
        return true;
    }
    if (strcmp(text, "Infinity") == 0 || strcmp(text, "-Infinity") == 0) {
        *out = *text == '-' ? -(double)INFINITY : (double)INFINITY;
        return true;
    }
    /* Not what strtod has beyond JSON: spaces, hexadecimal, "inf". */
    if (*text == '\0' || strspn(text, "0123456789+-.eE") != strlen(text) || *text == '+')
        return false;
    *out = strtod(text, &end);
    return *end == '\0' && isfinite(*out);
}

/* The largest float is written in few digits as a number that is a little larger: everything that
 * rounds to it is it. False for what rounds to infinity. */
static bool fits_float(double *value)
{
    if (!isfinite(*value) || fabs(*value) <= (double)FLT_MAX)
        return true;
    if (fabs(*value) >= 0x1.ffffffp127)
        return false;
    *value = copysign((double)FLT_MAX, *value);
    return true;
}

static int read_number(const json_reader *r, const json_path *at, ProtobufCType type,
                       const json_t *json, void *to)
{
    double value = json_number_value(json);
    bool good = json_is_number(json) ||
                (json_is_string(json) && number_of_text(json_string_value(json), &value));
    if (!good || (type == PROTOBUF_C_TYPE_FLOAT && !fits_float(&value)))
        return box_json_fail(r->err, at, "must be a number within the range of its type");
    if (type == PROTOBUF_C_TYPE_FLOAT)
        *(float *)to = (float)value;
    else
        *(double *)to = value;
    return 0;
}

static int read_bytes(const json_reader *r, const json_path *at, const json_t *json,
                      ProtobufCBinaryData *to)
{
    size_t len = json_string_length(json);
    if (!json_is_string(json))
        return box_json_fail(r->err, at, "must be base64 text");
    BOX_AUTO(box_freep)
    char *text = box_strdup(json_string_value(json));
    for (char *c = text; *c != '\0'; c++) { /* the URL-safe alphabet */
        *c = *c == '-' ? '+' : *c;
        *c = *c == '_' ? '/' : *c;
    }
    BOX_AUTO(box_freep)
    uint8_t *data = box_alloc(len / 4 * 3 + 4);
    size_t data_len = 0;
    if (!box_base64_decode_raw(text, len, data, &data_len))
        return box_json_fail(r->err, at, "must be base64 text");
    if (data_len > 0)
        *to = (ProtobufCBinaryData){data_len, box_take(data)};
    return 0;
}

static int read_enum(const json_reader *r, const json_path *at, const ProtobufCFieldDescriptor *f,
                     const json_t *json, void *to)
{
    integer number;
    if (json_is_string(json)) {
        const ProtobufCEnumValue *named =
            protobuf_c_enum_descriptor_get_value_by_name(f->descriptor, json_string_value(json));
        if (named == NULL)
            return box_json_fail(r->err, at, "has no value of that name");
        *(int *)to = named->value;
        return 0;
    }
    if (!integer_of(json, &number) || !store_integer(PROTOBUF_C_TYPE_ENUM, number, to))
        return box_json_fail(r->err, at, "must be the name or the number of a value");
    return 0;
}

static int read_integer(const json_reader *r, const json_path *at, ProtobufCType type,
                        const json_t *json, void *to)
{
    integer number;
    if (!integer_of(json, &number) || !store_integer(type, number, to))
        return box_json_fail(r->err, at, "must be a whole number within the range of its type");
    return 0;
}

int box_json_read_scalar(const json_reader *r, const json_path *at,
                         const ProtobufCFieldDescriptor *f, const json_t *json, void *to)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_STRING:
        if (!json_is_string(json))
            return box_json_fail(r->err, at, "must be a text");
        *(char **)to = box_strdup(json_string_value(json));
        return 0;
    case PROTOBUF_C_TYPE_BOOL:
        if (!json_is_boolean(json))
            return box_json_fail(r->err, at, "must be true or false");
        *(protobuf_c_boolean *)to = json_is_true(json);
        return 0;
    case PROTOBUF_C_TYPE_BYTES:
        return read_bytes(r, at, json, to);
    case PROTOBUF_C_TYPE_ENUM:
        return read_enum(r, at, f, json, to);
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE:
        return read_number(r, at, f->type, json, to);
    default:
        return read_integer(r, at, f->type, json, to);
    }
}

int box_json_read_key(const json_reader *r, const json_path *at, const ProtobufCFieldDescriptor *f,
                      const char *key, void *to)
{
    integer number;
    if (f->type == PROTOBUF_C_TYPE_STRING) {
        *(char **)to = box_strdup(key);
        return 0;
    }
    if (f->type == PROTOBUF_C_TYPE_BOOL) {
        bool yes = strcmp(key, "true") == 0;
        if (!yes && strcmp(key, "false") != 0)
            return box_json_fail(r->err, at, "the key must be true or false");
        *(protobuf_c_boolean *)to = yes;
        return 0;
    }
    if (!integer_of_text(key, &number) || !store_integer(f->type, number, to))
        return box_json_fail(r->err, at, "the key must be a whole number within its range");
    return 0;
}
