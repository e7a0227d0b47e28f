/* The Model Context Protocol's side that faces its client: lines, messages and the answers made of
 * them. The first byte says in pieces of which size the rest comes. */
#include "mcp_message.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "fuzz.h"

typedef struct seen {
    size_t lines;
    size_t bytes;
    bool answers;
} seen;

/* One line of JSON; frees it. */
static void check_answer(char *line, const json_t *id)
{
    size_t len = strlen(line);
    assert(len > 1 && strchr(line, '\n') == line + len - 1);
    mcp_message m;
    mcp_message_parse(line, len - 1, &m);
    assert(m.kind == MCP_RESPONSE || m.whole == NULL || m.id == NULL);
    assert(m.whole != NULL);
    assert(id == NULL || json_equal(id, m.id));
    mcp_message_done(&m);
    free(line);
}

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

/* A server says what it likes too: its texts come from the message here. */
static void check_results(const mcp_message *m)
{
    const char *text = text_at(m->params, "text");
    const char *error = text_at(m->params, "error");
    json_t *tool = mcp_tool(m->method, text, text_at(m->params, "schema"), true);
    if (tool != NULL)
        check_answer(mcp_answer(m->id, tool), m->id);
    check_answer(mcp_answer(m->id, mcp_tool_result(text, error, error[0] != '\0',
                                                   text_at(m->params, "structured"))),
                 m->id);
    const char *version = mcp_version(text_at(m->params, "protocolVersion"));
    check_answer(mcp_answer(m->id, mcp_initialize_result(version, "0", text)), m->id);
    box_error err = {0};
    BOX_IGNORE(box_violation(&err, m->method, "%s", text));
    BOX_IGNORE(box_violation(&err, text, "%s", error));
    check_answer(mcp_answer(m->id, mcp_tool_refusal(&err)), m->id);
}

static void on_line(void *arg, char *line, size_t len)
{
    seen *s = arg;
    mcp_message m;
    assert(line != NULL && line[len] == '\0' && memchr(line, '\n', len) == NULL);
    s->lines++;
    s->bytes += len;
    if (!s->answers)
        return;
    mcp_message_parse(line, len, &m);
    if (m.kind == MCP_REQUEST) {
        assert(m.id != NULL && m.method != NULL);
        check_results(&m);
    } else if (m.kind == MCP_WRONG) {
        check_answer(mcp_error(m.id, m.code, m.why), m.id);
    }
    mcp_message_done(&m);
}

static seen feed(box_bytes in, size_t step, bool answers)
{
    mcp_lines lines = {0};
    seen s = {.answers = answers};
    for (box_bytes piece; (piece = fuzz_take(&in, step)).len > 0;)
        mcp_lines_add(&lines, piece.data, piece.len, on_line, &s);
    mcp_lines_done(&lines);
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    box_bytes in = {data, size};
    size_t step = 1 + (size_t)fuzz_u8(&in);
    seen whole = feed(in, in.len + 1, true);
    seen cut = feed(in, step, false);
    assert(whole.lines == cut.lines && whole.bytes == cut.bytes);
    return 0;
}
