#include "mcp_message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"

/* --- lines ------------------------------------------------------------------------------------ */

static void end_line(mcp_lines *l, mcp_on_line *on_line, void *arg)
{
    static const uint8_t nul = 0;
    box_error err;
    bool whole = !l->too_long && box_buf_add(&l->text, &nul, 1, &err) == 0;
    if (whole)
        on_line(arg, (char *)(uintptr_t)box_buf_data(&l->text), box_buf_len(&l->text) - 1);
    else
        on_line(arg, NULL, 0);
    box_buf_clear(&l->text);
    l->too_long = false;
}

void mcp_lines_add(mcp_lines *l, const void *data, size_t len, mcp_on_line *on_line, void *arg)
{
    const char *at = data;
    const char *end = at + len;
    box_error err;
    if (l->text.max_bytes == 0)
        box_buf_init(&l->text, BOX_MCP_LINE_BYTES + 1);
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t part = (size_t)((newline != NULL ? newline : end) - at);
        if (!l->too_long && (box_buf_len(&l->text) + part > BOX_MCP_LINE_BYTES ||
                             box_buf_add(&l->text, at, part, &err) < 0)) {
            l->too_long = true;
            box_buf_clear(&l->text);
        }
        at += part;
        if (newline == NULL)
            return;
        end_line(l, on_line, arg);
        at++;
    }
}

void mcp_lines_done(mcp_lines *l)
{
    box_buf_done(&l->text);
}

/* --- messages that come ----------------------------------------------------------------------- */

static bool is_id(const json_t *v)
{
    return json_is_string(v) || json_is_integer(v);
}

static void wrong(mcp_message *m, int code, const char *why)
{
    m->kind = MCP_WRONG;
    m->code = code;
    m->why = why;
}

void mcp_message_parse(const char *line, size_t len, mcp_message *out)
{
    *out = (mcp_message){.whole = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL)};
    const json_t *id = json_object_get(out->whole, "id");
    const json_t *params = json_object_get(out->whole, "params");
    const char *version = json_string_value(json_object_get(out->whole, "jsonrpc"));
    out->id = is_id(id) ? id : NULL;
    out->method = json_string_value(json_object_get(out->whole, "method"));
    out->params = params;
    if (out->whole == NULL)
        wrong(out, MCP_PARSE_ERROR, "not JSON");
    else if (!json_is_object(out->whole))
        wrong(out, MCP_INVALID_REQUEST, "expected one JSON object a line; there are no batches");
    else if (version == NULL || strcmp(version, "2.0") != 0)
        wrong(out, MCP_INVALID_REQUEST, "jsonrpc must be \"2.0\"");
    else if (id != NULL && out->id == NULL)
        wrong(out, MCP_INVALID_REQUEST, "id must be a text or an integer");
    else if (params != NULL && !json_is_object(params))
        wrong(out, MCP_INVALID_PARAMS, "params must be an object");
    else if (out->method != NULL)
        out->kind = out->id != NULL ? MCP_REQUEST : MCP_NOTIFICATION;
    else if (json_object_get(out->whole, "result") != NULL ||
             json_object_get(out->whole, "error") != NULL)
        out->kind = MCP_RESPONSE;
    else
        wrong(out, MCP_INVALID_REQUEST, "a method is missing");
}

void mcp_message_done(mcp_message *m)
{
    json_decref(m->whole);
    *m = (mcp_message){0};
}

/* --- answers ---------------------------------------------------------------------------------- */

/* Only without memory can any of these fail: texts are UTF-8. */
static json_t *must(json_t *v)
{
    if (v == NULL)
        abort();
    return v;
}

static void set(json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, must(value)) < 0)
        abort();
}

static json_t *id_of(const json_t *id)
{
    return id != NULL ? json_deep_copy(id) : json_null();
}

static char *line_of(json_t *message)
{
    BOX_AUTO(box_freep) char *text = json_dumps(message, JSON_COMPACT);
    json_decref(message);
    if (text == NULL)
        abort();
    size_t len = strlen(text);
    char *line = box_alloc(len + 2);
    (void)snprintf(line, len + 2, "%s\n", text);
    return line;
}

char *mcp_answer(const json_t *id, json_t *result)
{
    json_t *m = must(json_object());
    set(m, "jsonrpc", json_string("2.0"));
    set(m, "id", id_of(id));
    set(m, "result", result);
    return line_of(m);
}

char *mcp_error(const json_t *id, int code, const char *text)
{
    json_t *m = must(json_object());
    set(m, "jsonrpc", json_string("2.0"));
    set(m, "id", id_of(id));
    set(m, "error", json_pack("{s:i, s:s}", "code", code, "message", text));
    return line_of(m);
}

/* Newest first. 2025-03-26 is left out: it alone has batches. */
static const char *const versions[] = {"2025-11-25", "2025-06-18", "2024-11-05"};

const char *mcp_version(const char *asked)
{
    for (size_t i = 0; asked != NULL && i < BOX_COUNT(versions); i++) {
        if (strcmp(asked, versions[i]) == 0)
            return versions[i];
    }
    return versions[0];
}

bool mcp_version_is_structured(const char *version)
{
    return strcmp(version, "2025-06-18") >= 0; /* dates */
}

json_t *mcp_initialize_result(const char *version, const char *server_version,
                              const char *instructions)
{
    json_t *r =
        must(json_pack("{s:s, s:{s:{}}, s:{s:s, s:s}}", "protocolVersion", version, "capabilities",
                       "tools", "serverInfo", "name", "box", "version", server_version));
    if (instructions[0] != '\0')
        set(r, "instructions", json_string(instructions));
    return r;
}

json_t *mcp_tool(const char *name, const char *description, const char *parameters, bool read_only)
{
    json_t *schema = json_loads(parameters, 0, NULL);
    if (schema == NULL)
        return NULL;
    return must(json_pack("{s:s, s:s, s:o, s:{s:b}}", "name", name, "description", description,
                          "inputSchema", schema, "annotations", "readOnlyHint", (int)read_only));
}

/* "output\nerror", with no more line ends than are needed. */
static json_t *text_of(const char *output, const char *error)
{
    size_t len = strlen(output);
    bool joins = len > 0 && error[0] != '\0' && output[len - 1] != '\n';
    size_t size = len + strlen(error) + 2;
    BOX_AUTO(box_freep) char *text = box_alloc(size);
    (void)snprintf(text, size, "%s%s%s", output, joins ? "\n" : "", error);
    return json_string(text);
}

json_t *mcp_tool_result(const char *output, const char *error, bool is_error,
                        const char *structured)
{
    json_t *content = structured != NULL ? json_loads(structured, 0, NULL) : NULL;
    json_t *r = must(json_pack("{s:[{s:s, s:o}], s:b}", "content", "type", "text", "text",
                               must(text_of(output, error)), "isError", (int)is_error));
    if (json_is_object(content))
        set(r, "structuredContent", content);
    else
        json_decref(content);
    return r;
}

json_t *mcp_tool_refusal(const box_error *err)
{
    char text[BOX_ERROR_MSG + BOX_ERROR_DETAIL + 256];
    const char *key, *value;
    int n = snprintf(text, sizeof text, "%s: %s", box_reason_name(err->reason), err->msg);
    size_t len = (size_t)n;
    for (size_t at = 0, i = 0; box_error_next(err, &at, &key, &value);) {
        bool violation = strncmp(key, "field:", strlen("field:")) == 0;
        if (!violation || i++ == 0) /* the first one is the message */
            continue;
        len += (size_t)snprintf(text + len, sizeof text - len, "\n%s: %s", key + strlen("field:"),
                                value);
    }
    return mcp_tool_result(text, "", true, NULL);
}
