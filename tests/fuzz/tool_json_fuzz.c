/* What a model calls a tool with: JSON within limits, checked against the tool's schema. The first
 * byte picks one of our tools, or that the input brings its own schema, a NUL and the value. */
#include <assert.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "fuzz.h"
#include "tool/json.h"
#include "tool/schema.h"
#include "tool/tools.h"

static void tools_freep(box_tools **tools)
{
    box_tools_free(*tools);
}

/* Every violation has a name and a text, and can be told. */
static void check_violations(const box_error *err)
{
    const char *key, *value;
    size_t n = 0;
    assert(err->reason == BOX_VALIDATION);
    for (size_t at = 0; box_error_next(err, &at, &key, &value); n++) {
        assert(strncmp(key, "field:", strlen("field:")) == 0 || strcmp(key, "more") == 0);
        assert(value[0] != '\0' && box_utf8_valid(key, strlen(key)));
        assert(box_utf8_valid(value, strlen(value)));
    }
    assert(n > 0);
}

/* NULL when it is none. */
static json_t *read_object(box_bytes text)
{
    BOX_AUTO(box_freep) char *copy = (char *)fuzz_copy(text);
    json_t *out = NULL;
    box_error err = {0};
    if (box_json_object(copy, text.len, "arguments", &out, &err) < 0) {
        assert(out == NULL);
        check_violations(&err);
    }
    return out;
}

/* What was read is written, and read as the same. */
static void round_trip(const json_t *value)
{
    BOX_AUTO(box_freep) char *text = box_json_print(value);
    BOX_AUTO(box_json_freep)
    json_t *again = read_object((box_bytes){(const uint8_t *)text, strlen(text)});
    assert(again != NULL && json_equal(value, again));
}

static void validate(const json_t *schema, box_bytes text)
{
    box_error err = {0};
    BOX_AUTO(box_json_freep) json_t *value = read_object(text);
    if (value == NULL)
        return;
    round_trip(value);
    if (box_schema_validate(schema, value, "arguments", &err) < 0)
        check_violations(&err);
    else
        assert(err.reason == BOX_NONE);
}

static void with_own_schema(box_bytes in)
{
    const uint8_t *nul = in.len > 0 ? memchr(in.data, '\0', in.len) : NULL;
    box_error err = {0};
    if (nul == NULL)
        return;
    size_t len = (size_t)(nul - in.data);
    BOX_AUTO(box_json_freep) json_t *schema = read_object((box_bytes){in.data, len});
    if (schema != NULL && box_schema_check(schema, &err) == 0)
        validate(schema, (box_bytes){nul + 1, in.len - len - 1});
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    box_bytes in = {data, size};
    box_error err = {0};
    BOX_AUTO(tools_freep) box_tools *tools = box_tools_new();
    int rc = box_tools_add_own(tools, &err);
    assert(rc == 0);
    size_t which = fuzz_u8(&in) % (box_tools_count(tools) + 1);
    if (which == box_tools_count(tools)) {
        with_own_schema(in);
        return 0;
    }
    BOX_AUTO(box_json_freep)
    json_t *schema = json_loads(box_tools_at(tools, which)->parameters, 0, NULL);
    assert(schema != NULL && box_schema_check(schema, &err) == 0);
    validate(schema, in);
    return 0;
}
