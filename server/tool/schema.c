#include "tool/schema.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"

enum { MAX_PATH = 200, MAX_LIST = 160 };

/* --- values ----------------------------------------------------------------------------------- */

/* 30.0 is an integer too (JSON Schema, section 4.2.3); beyond 2^53 a double says nothing exact. */
static bool is_integer(const json_t *v)
{
    if (json_is_integer(v))
        return true;
    double d = json_is_real(v) ? json_real_value(v) : NAN;
    return d == floor(d) && fabs(d) <= 9007199254740992.0;
}

static bool has_type(const json_t *v, const char *name)
{
    if (strcmp(name, "integer") == 0)
        return is_integer(v);
    if (strcmp(name, "number") == 0)
        return json_is_number(v);
    if (strcmp(name, "string") == 0)
        return json_is_string(v);
    if (strcmp(name, "boolean") == 0)
        return json_is_boolean(v);
    if (strcmp(name, "object") == 0)
        return json_is_object(v);
    if (strcmp(name, "array") == 0)
        return json_is_array(v);
    return json_is_null(v);
}

static bool is_type_name(const json_t *v)
{
    static const char *const names[] = {"integer", "number", "string", "boolean",
                                        "object",  "array",  "null"};
    for (size_t i = 0; json_is_string(v) && i < BOX_COUNT(names); i++) {
        if (strcmp(json_string_value(v), names[i]) == 0)
            return true;
    }
    return false;
}

static size_t characters(const json_t *text)
{
    const char *s = json_string_value(text);
    size_t n = 0;
    for (size_t i = 0; i < json_string_length(text); i++)
        n += ((unsigned char)s[i] & 0xc0) != 0x80;
    return n;
}

/* --- is it a schema --------------------------------------------------------------------------- */

static bool all_of(const json_t *list, bool (*test)(const json_t *v))
{
    size_t i;
    json_t *v;
    json_array_foreach(list, i, v)
    {
        if (!test(v))
            return false;
    }
    return json_is_array(list) && json_array_size(list) > 0;
}

static bool is_text(const json_t *v)
{
    return json_is_string(v);
}

static bool is_anything(const json_t *v)
{
    return v != NULL;
}

static bool is_count(const json_t *v)
{
    return json_is_integer(v) && json_integer_value(v) >= 0;
}

static bool is_number(const json_t *v)
{
    return json_is_number(v);
}

static bool is_type(const json_t *v)
{
    return is_type_name(v) || all_of(v, is_type_name);
}

static bool is_text_list(const json_t *v)
{
    return all_of(v, is_text);
}

static bool is_schema(const json_t *v);

static bool is_schema_or_boolean(const json_t *v)
{
    return json_is_boolean(v) || is_schema(v);
}

static bool is_map_of_schemas(const json_t *v)
{
    const char *key;
    json_t *property;
    json_object_foreach((json_t *)(uintptr_t)v, key, property)
    {
        if (!is_schema(property))
            return false;
    }
    return json_is_object(v);
}

static const struct {
    const char *name;
    bool (*is_good)(const json_t *v);
} keywords[] = {
    {"additionalProperties", is_schema_or_boolean},
    {"default", is_anything},
    {"description", is_text},
    {"enum", is_text_list},
    {"items", is_schema},
    {"maxItems", is_count},
    {"maxLength", is_count},
    {"maxProperties", is_count},
    {"maximum", is_number},
    {"minItems", is_count},
    {"minLength", is_count},
    {"minimum", is_number},
    {"properties", is_map_of_schemas},
    {"required", is_text_list},
    {"type", is_type},
};

static bool is_keyword(const char *name, const json_t *value)
{
    for (size_t i = 0; i < BOX_COUNT(keywords); i++) {
        if (strcmp(name, keywords[i].name) == 0)
            return keywords[i].is_good(value);
    }
    return false;
}

static bool is_schema(const json_t *v)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)v, key, value)
    {
        if (!is_keyword(key, value))
            return false;
    }
    return json_is_object(v);
}

int box_schema_check(const json_t *schema, box_error *err)
{
    return is_schema(schema) ? 0
                             : box_fail(err, BOX_INTERNAL, "a schema outside the subset we check");
}

/* --- does a value fit ------------------------------------------------------------------------- */

static int validate(const json_t *schema, const json_t *v, const char *path, box_error *err);

/* "a, b, c" of the texts of a list, cut. */
static void join(const json_t *list, char out[MAX_LIST])
{
    size_t i;
    json_t *v;
    out[0] = '\0';
    json_array_foreach(list, i, v)
    {
        size_t len = strlen(out);
        (void)snprintf(out + len, MAX_LIST - len, "%s%s", i > 0 ? ", " : "", json_string_value(v));
    }
}

static int check_type(const json_t *type, const json_t *v, const char *path, box_error *err)
{
    char names[MAX_LIST];
    size_t i;
    json_t *name;
    if (type == NULL || (json_is_string(type) && has_type(v, json_string_value(type))))
        return 0;
    json_array_foreach(type, i, name)
    {
        if (has_type(v, json_string_value(name)))
            return 0;
    }
    join(type, names);
    return box_violation(err, path, "must be of type %s",
                         json_is_string(type) ? json_string_value(type) : names);
}

static int check_enum(const json_t *values, const json_t *v, const char *path, box_error *err)
{
    char names[MAX_LIST];
    size_t i;
    json_t *value;
    json_array_foreach(values, i, value)
    {
        if (json_equal(value, v))
            return 0;
    }
    join(values, names);
    return box_violation(err, path, "must be one of: %s", names);
}

/* The keyword's number, or what stands for "none". */
static double bound(const json_t *schema, const char *keyword, double none)
{
    const json_t *v = json_object_get(schema, keyword);
    return v != NULL ? json_number_value(v) : none;
}

static int check_size(const json_t *schema, const char *least, const char *most, size_t n,
                      const char *unit, const char *path, box_error *err)
{
    double min = bound(schema, least, 0);
    double max = bound(schema, most, INFINITY);
    if ((double)n < min)
        return box_violation(err, path, "must have at least %.0f %s", min, unit);
    if ((double)n > max)
        return box_violation(err, path, "must have at most %.0f %s", max, unit);
    return 0;
}

static int check_number(const json_t *schema, const json_t *v, const char *path, box_error *err)
{
    double min = bound(schema, "minimum", -INFINITY);
    double max = bound(schema, "maximum", INFINITY);
    if (json_number_value(v) < min)
        return box_violation(err, path, "must be at least %.15g", min);
    if (json_number_value(v) > max)
        return box_violation(err, path, "must be at most %.15g", max);
    return 0;
}

static int check_items(const json_t *schema, const json_t *list, const char *path, box_error *err)
{
    char inner[MAX_PATH];
    const json_t *items = json_object_get(schema, "items");
    int bad = check_size(schema, "minItems", "maxItems", json_array_size(list), "items", path, err);
    size_t i;
    json_t *v;
    json_array_foreach(list, i, v)
    {
        if (items == NULL)
            break;
        (void)snprintf(inner, sizeof inner, "%s[%zu]", path, i);
        bad |= validate(items, v, inner, err);
    }
    return bad;
}

static int check_required(const json_t *schema, const json_t *object, const char *path,
                          box_error *err)
{
    char inner[MAX_PATH];
    int bad = 0;
    size_t i;
    json_t *name;
    json_array_foreach(json_object_get(schema, "required"), i, name)
    {
        if (json_object_get(object, json_string_value(name)) != NULL)
            continue;
        (void)snprintf(inner, sizeof inner, "%s.%s", path, json_string_value(name));
        bad |= box_violation(err, inner, "is missing");
    }
    return bad;
}

static int check_property(const json_t *schema, const char *key, const json_t *v, const char *path,
                          box_error *err)
{
    const json_t *own = json_object_get(json_object_get(schema, "properties"), key);
    const json_t *others = json_object_get(schema, "additionalProperties");
    if (own != NULL)
        return validate(own, v, path, err);
    if (json_is_false(others))
        return box_violation(err, path, "is not known here");
    return json_is_object(others) ? validate(others, v, path, err) : 0;
}

static int check_object(const json_t *schema, const json_t *object, const char *path,
                        box_error *err)
{
    char inner[MAX_PATH];
    const char *key;
    json_t *v;
    int bad = check_required(schema, object, path, err);
    bad |= check_size(schema, "minProperties", "maxProperties", json_object_size(object),
                      "properties", path, err);
    json_object_foreach((json_t *)(uintptr_t)object, key, v)
    {
        (void)snprintf(inner, sizeof inner, "%s.%.64s", path, key);
        bad |= check_property(schema, key, v, inner, err);
    }
    return bad;
}

static int validate(const json_t *schema, const json_t *v, const char *path, box_error *err)
{
    const json_t *values = json_object_get(schema, "enum");
    if (check_type(json_object_get(schema, "type"), v, path, err) < 0)
        return -1;
    if (values != NULL && check_enum(values, v, path, err) < 0)
        return -1;
    if (json_is_object(v))
        return check_object(schema, v, path, err);
    if (json_is_array(v))
        return check_items(schema, v, path, err);
    if (json_is_string(v))
        return check_size(schema, "minLength", "maxLength", characters(v), "characters", path, err);
    return json_is_number(v) ? check_number(schema, v, path, err) : 0;
}

int box_schema_validate(const json_t *schema, const json_t *value, const char *path, box_error *err)
{
    return validate(schema, value, path, err);
}
