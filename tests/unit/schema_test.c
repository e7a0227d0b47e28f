#include "tool/schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static json_t *parse(const char *text)
{
    json_error_t why;
    json_t *v = json_loads(text, JSON_DECODE_ANY, &why);
    if (v == NULL)
        fail_msg("%s: %s", text, why.text);
    return v;
}

/* What is wrong, as "field,field"; "" when nothing is. */
static void check(const char *schema, const char *value, const char *fields)
{
    json_t *s = parse(schema), *v = parse(value);
    box_error err = {0};
    assert_int_equal(box_schema_check(s, &err), 0);
    int rc = box_schema_validate(s, v, "a", &err);
    char got[512] = "";
    const char *key, *text;
    for (size_t at = 0; box_error_next(&err, &at, &key, &text);) {
        size_t len = strlen(got);
        assert_true(text[0] != '\0');
        (void)snprintf(got + len, sizeof got - len, "%s%s", len > 0 ? "," : "",
                       key + strlen("field:"));
    }
    assert_string_equal(got, fields);
    assert_int_equal(rc, fields[0] != '\0' ? -1 : 0);
    json_decref(s);
    json_decref(v);
}

static void types_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        const char *good[4];
        const char *bad[7];
    } rows[] = {
        {"integer",
         {"1", "-3", "30.0", "0"},
         {"1.5", "\"1\"", "true", "null", "[]", "{}", "1e300"}},
        {"number", {"1", "1.5", "-1e3"}, {"\"1\"", "true", "null", "[]", "{}"}},
        {"string", {"\"\"", "\"x\""}, {"1", "true", "null", "[]", "{}"}},
        {"boolean", {"true", "false"}, {"1", "0", "\"true\"", "null", "[]", "{}"}},
        {"object", {"{}", "{\"x\":1}"}, {"1", "\"x\"", "true", "null", "[]"}},
        {"array", {"[]", "[1]"}, {"1", "\"x\"", "true", "null", "{}"}},
        {"null", {"null"}, {"1", "\"x\"", "true", "[]", "{}", "false"}},
    };
    char schema[64];
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        (void)snprintf(schema, sizeof schema, "{\"type\":\"%s\"}", rows[i].type);
        for (size_t j = 0; j < BOX_COUNT(rows[i].good) && rows[i].good[j] != NULL; j++)
            check(schema, rows[i].good[j], "");
        for (size_t j = 0; j < BOX_COUNT(rows[i].bad) && rows[i].bad[j] != NULL; j++)
            check(schema, rows[i].bad[j], "a");
    }
    check("{\"type\":[\"string\",\"array\"]}", "\"x\"", "");
    check("{\"type\":[\"string\",\"array\"]}", "[1]", "");
    check("{\"type\":[\"string\",\"array\"]}", "1", "a");
    check("{}", "1", "");
}

static void bounds_hold_at_both_ends(void **state)
{
    (void)state;
    check("{\"minimum\":1,\"maximum\":5}", "1", "");
    check("{\"minimum\":1,\"maximum\":5}", "5", "");
    check("{\"minimum\":1,\"maximum\":5}", "0", "a");
    check("{\"minimum\":1,\"maximum\":5}", "5.5", "a");
    check("{\"minLength\":2,\"maxLength\":3}", "\"\xc3\xa9\xc3\xa9\xc3\xa9\"", "");
    check("{\"minLength\":2,\"maxLength\":3}", "\"\xc3\xa9\"", "a");
    check("{\"minLength\":2,\"maxLength\":3}", "\"abcd\"", "a");
    check("{\"minItems\":1,\"maxItems\":2}", "[1]", "");
    check("{\"minItems\":1,\"maxItems\":2}", "[]", "a");
    check("{\"minItems\":1,\"maxItems\":2}", "[1,2,3]", "a");
    check("{\"maxProperties\":1}", "{\"x\":1}", "");
    check("{\"maxProperties\":1}", "{\"x\":1,\"y\":2}", "a");
    check("{\"enum\":[\"on\",\"off\"]}", "\"on\"", "");
    check("{\"enum\":[\"on\",\"off\"]}", "\"ON\"", "a");
    check("{\"enum\":[\"on\",\"off\"]}", "1", "a");
}

static const char tool[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"command\":{\"type\":\"string\",\"minLength\":1},"
    "\"timeout\":{\"type\":\"integer\",\"minimum\":1,\"default\":30,\"description\":\"s\"},"
    "\"env\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}},"
    "\"list\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":[\"x\"],"
    "\"additionalProperties\":false,\"properties\":{\"x\":{\"type\":\"integer\"}}}}},"
    "\"required\":[\"command\"],\"additionalProperties\":false}";

static void everything_that_is_wrong_is_named(void **state)
{
    (void)state;
    check(tool, "{\"command\":\"x\",\"timeout\":1,\"env\":{\"A\":\"b\"},\"list\":[{\"x\":1}]}", "");
    check(tool, "{}", "a.command");
    check(tool, "[]", "a");
    check(tool, "{\"command\":\"\",\"timeout\":0}", "a.command,a.timeout");
    check(tool, "{\"cmd\":\"x\",\"timeout\":\"1\",\"env\":{\"A\":1,\"B\":\"b\",\"C\":null}}",
          "a.command,a.cmd,a.timeout,a.env.A,a.env.C");
    check(tool, "{\"command\":\"x\",\"list\":[{\"x\":1},{\"y\":1},7,{\"x\":\"1\"}]}",
          "a.list[1].x,a.list[1].y,a.list[2],a.list[3].x");
}

static void names_of_any_length_and_kind_are_harmless(void **state)
{
    (void)state;
    json_t *schema = parse(tool), *value = json_object();
    char key[4096];
    for (size_t i = 0; i < 200; i++) {
        memset(key, 'k', sizeof key);
        (void)snprintf(key + 4000, 90, "%zu\n\xc3\xa9", i);
        assert_int_equal(json_object_set_new(value, key + i, json_integer(1)), 0);
    }
    box_error err = {0};
    assert_int_equal(box_schema_validate(schema, value, "a", &err), -1);
    assert_int_equal(err.reason, BOX_VALIDATION);
    assert_true(err.more > 100); /* counted where there is no room */
    json_decref(schema);
    json_decref(value);
}

static void a_schema_outside_the_subset_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"{\"pattern\":\"x\"}",
                                      "{\"oneOf\":[]}",
                                      "{\"type\":\"text\"}",
                                      "{\"type\":[]}",
                                      "{\"type\":1}",
                                      "{\"required\":\"x\"}",
                                      "{\"required\":[1]}",
                                      "{\"enum\":[1]}",
                                      "{\"minimum\":\"1\"}",
                                      "{\"maxLength\":-1}",
                                      "{\"properties\":[]}",
                                      "{\"properties\":{\"a\":{\"format\":\"x\"}}}",
                                      "{\"items\":true}",
                                      "{\"additionalProperties\":1}",
                                      "{\"additionalProperties\":{\"not\":{}}}",
                                      "[]",
                                      "true"};
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        box_error err = {0};
        json_t *s = parse(bad[i]);
        if (box_schema_check(s, &err) == 0)
            fail_msg("%s was taken", bad[i]);
        assert_int_equal(err.reason, BOX_INTERNAL);
        json_decref(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_are_told_apart),
        cmocka_unit_test(bounds_hold_at_both_ends),
        cmocka_unit_test(everything_that_is_wrong_is_named),
        cmocka_unit_test(names_of_any_length_and_kind_are_harmless),
        cmocka_unit_test(a_schema_outside_the_subset_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
