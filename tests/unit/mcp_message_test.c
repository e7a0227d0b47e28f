/* The Model Context Protocol's lines and messages. */
#include "mcp_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"

/* --- lines ------------------------------------------------------------------------------------ */

typedef struct seen {
    char text[256];
    unsigned lines;
    unsigned dropped;
} seen;

static void on_line(void *arg, char *line, size_t len)
{
    seen *s = arg;
    s->lines++;
    if (line == NULL) {
        s->dropped++;
        return;
    }
    assert_int_equal(strlen(line), len);
    size_t at = strlen(s->text);
    (void)snprintf(s->text + at, sizeof s->text - at, "<%.*s>", len > 20 ? 20 : (int)len, line);
}

static void lines_come_whole_however_they_are_cut(void **state)
{
    (void)state;
    static const char text[] = "one\n\n two\r\nthree\nrest";
    for (size_t piece = 1; piece <= strlen(text); piece++) {
        mcp_lines l = {0};
        seen s = {0};
        for (size_t at = 0; at < strlen(text); at += piece) {
            size_t len = strlen(text) - at < piece ? strlen(text) - at : piece;
            mcp_lines_add(&l, text + at, len, on_line, &s);
        }
        assert_string_equal(s.text, "<one><>< two\r><three>");
        mcp_lines_add(&l, "\n", 1, on_line, &s);
        assert_string_equal(s.text, "<one><>< two\r><three><rest>");
        mcp_lines_done(&l);
    }
}

static void a_line_that_is_too_long_is_dropped_and_the_next_one_is_not(void **state)
{
    (void)state;
    enum { PIECE = 100000 };
    char *piece = malloc(PIECE);
    mcp_lines l = {0};
    seen s = {0};
    memset(piece, 'x', PIECE);
    for (size_t sent = 0; sent < 2 * (size_t)BOX_MCP_LINE_BYTES; sent += PIECE)
        mcp_lines_add(&l, piece, PIECE, on_line, &s);
    assert_int_equal(s.lines, 0);
    assert_true(l.text.capacity <= 2 * (size_t)BOX_MCP_LINE_BYTES);
    mcp_lines_add(&l, "\nnext\n", 6, on_line, &s);
    assert_int_equal(s.lines, 2);
    assert_int_equal(s.dropped, 1);
    assert_string_equal(s.text, "<next>");
    memset(s.text, 0, sizeof s.text);
    for (size_t sent = 0; sent < BOX_MCP_LINE_BYTES; sent += PIECE)
        mcp_lines_add(&l, piece,
                      BOX_MCP_LINE_BYTES - sent < PIECE ? BOX_MCP_LINE_BYTES - sent : PIECE,
                      on_line, &s);
    mcp_lines_add(&l, "\n", 1, on_line, &s); /* the largest there may be */
    assert_string_equal(s.text, "<xxxxxxxxxxxxxxxxxxxx>");
    mcp_lines_done(&l);
    free(piece);
}

/* --- messages --------------------------------------------------------------------------------- */

static mcp_kind parse(const char *line, int *code)
{
    mcp_message m;
    mcp_message_parse(line, strlen(line), &m);
    mcp_kind kind = m.kind;
    *code = m.code;
    if (kind == MCP_REQUEST)
        assert_true(m.id != NULL && m.method != NULL);
    if (kind == MCP_WRONG)
        assert_true(m.why[0] != '\0');
    mcp_message_done(&m);
    return kind;
}

static void messages_are_what_json_rpc_says(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        mcp_kind kind;
        int code;
    } rows[] = {
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", MCP_REQUEST, 0},
        {"{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"ping\",\"params\":{}}", MCP_REQUEST, 0},
        {"{\"jsonrpc\":\"2.0\",\"method\":\"n\"}", MCP_NOTIFICATION, 0},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", MCP_RESPONSE, 0},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1}}", MCP_RESPONSE, 0},
        {"{\"jsonrpc\":\"2.0\",\"id\":1}", MCP_WRONG, MCP_INVALID_REQUEST},
        {"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", MCP_WRONG, MCP_INVALID_REQUEST},
        {"{\"id\":1,\"method\":\"ping\"}", MCP_WRONG, MCP_INVALID_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"x\"}", MCP_WRONG, MCP_INVALID_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"x\"}", MCP_WRONG, MCP_INVALID_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"x\"}", MCP_WRONG, MCP_INVALID_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}", MCP_WRONG, MCP_INVALID_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":[]}", MCP_WRONG,
         MCP_INVALID_PARAMS},
        {"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", MCP_WRONG, MCP_INVALID_REQUEST},
        {"7", MCP_WRONG, MCP_PARSE_ERROR}, /* no object or array */
        {"{", MCP_WRONG, MCP_PARSE_ERROR},
        {"hello", MCP_WRONG, MCP_PARSE_ERROR},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"x\"}", MCP_WRONG, MCP_PARSE_ERROR},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", MCP_WRONG, MCP_PARSE_ERROR},
    };
    int code;
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        if (parse(rows[i].line, &code) != rows[i].kind || code != rows[i].code)
            fail_msg("%s: code %d", rows[i].line, code);
    }
    const char *whole = rows[1].line;
    char cut[128];
    for (size_t len = 0; len < strlen(whole); len++) {
        (void)snprintf(cut, sizeof cut, "%.*s", (int)len, whole);
        assert_int_equal(parse(cut, &code), MCP_WRONG);
    }
}

static void an_id_of_a_wrong_message_is_kept_for_the_answer(void **state)
{
    (void)state;
    static const char line[] = "{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"params\":[]}";
    mcp_message m;
    mcp_message_parse(line, strlen(line), &m);
    char *answer = mcp_error(m.id, m.code, "no \"quotes\"\n");
    assert_string_equal(answer, "{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"error\":{\"code\":-32602,"
                                "\"message\":\"no \\\"quotes\\\"\\n\"}}\n");
    free(answer);
    mcp_message_done(&m);
    answer = mcp_error(NULL, MCP_PARSE_ERROR, "x");
    assert_string_equal(answer, "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,"
                                "\"message\":\"x\"}}\n");
    free(answer);
}

/* --- answers ---------------------------------------------------------------------------------- */

static char *printed(json_t *v)
{
    char *text = json_dumps(v, JSON_COMPACT);
    json_decref(v);
    return text;
}

static void the_version_asked_for_is_spoken_where_it_is_known(void **state)
{
    (void)state;
    assert_string_equal(mcp_version("2024-11-05"), "2024-11-05");
    assert_string_equal(mcp_version("2025-06-18"), "2025-06-18");
    assert_string_equal(mcp_version("2025-11-25"), "2025-11-25");
    assert_string_equal(mcp_version("2025-03-26"), "2025-11-25");
    assert_string_equal(mcp_version("2099-01-01"), "2025-11-25");
    assert_string_equal(mcp_version(NULL), "2025-11-25");
    assert_false(mcp_version_is_structured("2024-11-05"));
    assert_true(mcp_version_is_structured("2025-06-18"));
}

static void initialize_offers_tools(void **state)
{
    (void)state;
    char *text = printed(mcp_initialize_result("2025-06-18", "1.2", "Do this."));
    assert_string_equal(text, "{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}},"
                              "\"serverInfo\":{\"name\":\"box\",\"version\":\"1.2\"},"
                              "\"instructions\":\"Do this.\"}");
    free(text);
    text = printed(mcp_initialize_result("2025-06-18", "1.2", ""));
    assert_null(strstr(text, "instructions"));
    free(text);
}

static void a_tool_has_its_schema(void **state)
{
    (void)state;
    char *text = printed(mcp_tool("exec", "Runs.", "{\"type\":\"object\"}", true));
    assert_string_equal(text, "{\"name\":\"exec\",\"description\":\"Runs.\","
                              "\"inputSchema\":{\"type\":\"object\"},"
                              "\"annotations\":{\"readOnlyHint\":true}}");
    free(text);
    assert_null(mcp_tool("exec", "Runs.", "{", true));
}

static void a_result_is_what_the_tool_said_and_what_went_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *output, *error, *text;
    } rows[] = {{"out\n", "", "out\n"},
                {"out\n", "exit code 1", "out\nexit code 1"},
                {"out", "bad", "out\nbad"},
                {"", "bad", "bad"},
                {"", "", ""},
                {"\xc3\xa9", "", "\xc3\xa9"}};
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        json_t *r = mcp_tool_result(rows[i].output, rows[i].error, rows[i].error[0] != '\0', NULL);
        const json_t *content = json_array_get(json_object_get(r, "content"), 0);
        assert_string_equal(json_string_value(json_object_get(content, "type")), "text");
        assert_string_equal(json_string_value(json_object_get(content, "text")), rows[i].text);
        assert_int_equal(json_is_true(json_object_get(r, "isError")), rows[i].error[0] != '\0');
        assert_null(json_object_get(r, "structuredContent"));
        json_decref(r);
    }
    json_t *r = mcp_tool_result("x", "", false, "{\"exit_code\":0}");
    char *text = printed(json_incref(json_object_get(r, "structuredContent")));
    assert_string_equal(text, "{\"exit_code\":0}");
    free(text);
    json_decref(r);
    r = mcp_tool_result("x", "", false, "[1]"); /* only objects may be */
    assert_null(json_object_get(r, "structuredContent"));
    json_decref(r);
}

static void a_refusal_names_all_that_is_wrong(void **state)
{
    (void)state;
    box_error err = {0};
    BOX_IGNORE(box_violation(&err, "arguments.a", "is missing"));
    BOX_IGNORE(box_violation(&err, "arguments.b", "must be of type string"));
    json_t *r = mcp_tool_refusal(&err);
    const json_t *content = json_array_get(json_object_get(r, "content"), 0);
    assert_true(json_is_true(json_object_get(r, "isError")));
    assert_string_equal(json_string_value(json_object_get(content, "text")),
                        "VALIDATION: arguments.a: is missing\narguments.b: must be of type string");
    json_decref(r);
    box_error full = {0};
    for (int i = 0; i < 200; i++)
        BOX_IGNORE(box_violation(&full, "f", "%d", i));
    json_decref(mcp_tool_refusal(&full));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_whole_however_they_are_cut),
        cmocka_unit_test(a_line_that_is_too_long_is_dropped_and_the_next_one_is_not),
        cmocka_unit_test(messages_are_what_json_rpc_says),
        cmocka_unit_test(an_id_of_a_wrong_message_is_kept_for_the_answer),
        cmocka_unit_test(the_version_asked_for_is_spoken_where_it_is_known),
        cmocka_unit_test(initialize_offers_tools),
        cmocka_unit_test(a_tool_has_its_schema),
        cmocka_unit_test(a_result_is_what_the_tool_said_and_what_went_wrong),
        cmocka_unit_test(a_refusal_names_all_that_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
