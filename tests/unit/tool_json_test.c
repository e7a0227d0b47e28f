#include "tool/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"

static bool reads(const char *text, size_t len)
{
    json_t *out = NULL;
    box_error err = {0};
    if (box_json_object(text, len, "arguments_json", &out, &err) == 0) {
        assert_true(json_is_object(out));
        json_decref(out);
        return true;
    }
    size_t at = 0;
    const char *key, *value;
    assert_null(out);
    assert_int_equal(err.reason, BOX_VALIDATION);
    assert_true(box_error_next(&err, &at, &key, &value));
    assert_string_equal(key, "field:arguments_json");
    return false;
}

static void only_one_whole_object_is_read(void **state)
{
    (void)state;
    static const char *const good[] = {"{}", " {\"a\": [1, 2.5, null, true, \"x\\u00e9\"]}\n",
                                       "{\"a\":{\"b\":{}}}", "{\"a\":\"]}{[\\\"\"}"};
    static const char *const bad[] = {"",
                                      " ",
                                      "[]",
                                      "1",
                                      "\"x\"",
                                      "null",
                                      "{",
                                      "{}x",
                                      "{}{}",
                                      "{\"a\":1,}",
                                      "{'a':1}",
                                      "{\"a\":1,\"a\":2}",
                                      "{\"a\":01}",
                                      "{\"a\"}",
                                      "{\"a\":\"\\u0000\"}",
                                      "{\"a\":\"\xff\"}",
                                      "{\"a\":\"\\ud800\"}",
                                      "{\"a\":nan}"};
    for (size_t i = 0; i < BOX_COUNT(good); i++)
        assert_true(reads(good[i], strlen(good[i])));
    for (size_t i = 0; i < BOX_COUNT(bad); i++)
        assert_false(reads(bad[i], strlen(bad[i])));
    assert_false(reads("{\"a\0\":1}", 8));
}

static void every_shorter_text_is_refused(void **state)
{
    (void)state;
    static const char text[] = "{\"a\": [1, {\"b\": \"\\u00e9\xc3\xa9\"}], \"c\": true}";
    for (size_t len = 0; len < strlen(text); len++)
        assert_false(reads(text, len));
    assert_true(reads(text, strlen(text)));
}

static void depth_values_and_size_are_bounded(void **state)
{
    (void)state;
    enum { SIZE = BOX_MAX_TOOL_JSON_BYTES + 64 };
    char *text = malloc(SIZE);
    for (int depth = BOX_MAX_TOOL_JSON_DEPTH; depth <= BOX_MAX_TOOL_JSON_DEPTH + 1; depth++) {
        size_t len = 0;
        for (int i = 0; i < depth; i++)
            len += (size_t)snprintf(text + len, SIZE - len, "{\"a\":");
        len += (size_t)snprintf(text + len, SIZE - len, "1");
        for (int i = 0; i < depth; i++)
            text[len++] = '}';
        assert_int_equal(reads(text, len), depth == BOX_MAX_TOOL_JSON_DEPTH);
    }
    size_t len = (size_t)snprintf(text, SIZE, "{\"a\":[");
    while (len < 2 * (size_t)BOX_MAX_TOOL_JSON_VALUES + 6) {
        text[len++] = '1';
        text[len++] = ',';
    }
    len += (size_t)snprintf(text + len, SIZE - len, "1]}");
    assert_false(reads(text, len));
    len = (size_t)snprintf(text, SIZE, "{\"a\":\"");
    memset(text + len, ',', BOX_MAX_TOOL_JSON_BYTES); /* in a string they are no values */
    memcpy(text + BOX_MAX_TOOL_JSON_BYTES - 2, "\"}", 2);
    assert_true(reads(text, BOX_MAX_TOOL_JSON_BYTES));
    text[BOX_MAX_TOOL_JSON_BYTES] = ' ';
    assert_false(reads(text, BOX_MAX_TOOL_JSON_BYTES + 1));
    memset(text, '[', SIZE); /* a bomb for a parser that recurses */
    assert_false(reads(text, BOX_MAX_TOOL_JSON_BYTES));
    free(text);
}

static void bytes_become_a_string_whatever_they_are(void **state)
{
    (void)state;
    json_t *v = box_json_text("a\0\xff\xc3\xa9", 5);
    assert_string_equal(json_string_value(v), "a\xef\xbf\xbd\xef\xbf\xbd\xc3\xa9");
    json_decref(v);
    v = box_json_text("", 0);
    assert_string_equal(json_string_value(v), "");
    json_decref(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_one_whole_object_is_read),
        cmocka_unit_test(every_shorter_text_is_refused),
        cmocka_unit_test(depth_values_and_size_are_bounded),
        cmocka_unit_test(bytes_become_a_string_whatever_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
