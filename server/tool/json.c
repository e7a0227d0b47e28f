#include "tool/json.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/limits.h"
#include "tool/excerpt.h"

void box_json_freep(json_t **value)
{
    json_decref(*value);
}

/* What a text would cost, seen from its punctuation outside strings; whether it is JSON at all is
 * the parser's to say. */
typedef struct weight {
    size_t depth;
    size_t deepest;
    size_t values;
} weight;

static weight weigh(const char *text, size_t len)
{
    weight w = {0};
    bool quoted = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (quoted) {
            if (c == '\\')
                i++;
            quoted = c != '"';
            continue;
        }
        quoted = c == '"';
        w.values += c == ',' || c == '{' || c == '[';
        if (c == '{' || c == '[')
            w.depth++;
        else if ((c == '}' || c == ']') && w.depth > 0)
            w.depth--;
        if (w.depth > w.deepest)
            w.deepest = w.depth;
    }
    return w;
}

int box_json_object(const char *text, size_t len, const char *field, json_t **out, box_error *err)
{
    json_error_t why;
    if (len > BOX_MAX_TOOL_JSON_BYTES)
        return box_violation(err, field, "longer than %d bytes", BOX_MAX_TOOL_JSON_BYTES);
    weight w = weigh(text, len);
    if (w.deepest > BOX_MAX_TOOL_JSON_DEPTH)
        return box_violation(err, field, "nested more than %d deep", BOX_MAX_TOOL_JSON_DEPTH);
    if (w.values > BOX_MAX_TOOL_JSON_VALUES)
        return box_violation(err, field, "more than %d values", BOX_MAX_TOOL_JSON_VALUES);
    BOX_AUTO(box_json_freep)
    json_t *value = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (value == NULL)
        return box_violation(err, field, "is no JSON: line %d, column %d: %s", why.line, why.column,
                             why.text);
    if (!json_is_object(value))
        return box_violation(err, field, "must be a JSON object");
    *out = box_take(value);
    return 0;
}

json_t *box_json_text(const void *data, size_t len)
{
    BOX_AUTO(box_buf_done) box_buf text = {0};
    box_text_scrub(data, len, &text);
    return box_json_buf(&text);
}

json_t *box_json_buf(const box_buf *text)
{
    size_t len = box_buf_len(text);
    json_t *v = json_stringn(len > 0 ? (const char *)box_buf_data(text) : "", len);
    if (v == NULL)
        abort(); /* only without memory */
    return v;
}

json_t *box_json_now(void)
{
    char out[32];
    struct tm tm;
    time_t seconds = (time_t)(box_wall_ns() / (int64_t)BOX_SECOND);
    size_t len =
        gmtime_r(&seconds, &tm) != NULL ? strftime(out, sizeof out, "%Y-%m-%dT%H:%M:%SZ", &tm) : 0;
    return json_stringn(out, len);
}

char *box_json_print(const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT);
    if (text == NULL)
        abort(); /* only without memory: every text in it was checked */
    return text;
}
