#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "tool/json.h"
#include "tool/tool.h"

static int starts;

static int start(const box_tool_request *r, box_tool_done done, void *arg, box_tool_run **out,
                 box_error *err)
{
    (void)r;
    (void)done;
    (void)arg;
    (void)out;
    (void)err;
    starts++;
    return 0;
}

#define SCHEMA                                                                                     \
    "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}},\"required\":[\"n\"]}"

static box_tool tool(const char *name)
{
    return (box_tool){
        .name = name, .description = "What it does.", .parameters = SCHEMA, .start = start};
}

static void refuse(const box_tool *t)
{
    box_tools *tools = box_tools_new();
    box_error err = {0};
    assert_int_equal(box_tools_add(tools, t, &err), -1);
    assert_int_equal(err.reason, BOX_INTERNAL);
    assert_int_equal(box_tools_count(tools), 0);
    box_tools_free(tools);
}

static void two_tools_of_one_name_are_an_error(void **state)
{
    (void)state;
    box_tools *tools = box_tools_new();
    box_error err = {0};
    box_tool first = tool("one"), second = tool("one"), third = tool("two");
    assert_int_equal(box_tools_add(tools, &first, &err), 0);
    assert_int_equal(box_tools_add(tools, &second, &err), -1);
    assert_int_equal(err.reason, BOX_INTERNAL);
    assert_non_null(strstr(err.msg, "two tools called one"));
    assert_int_equal(box_tools_add(tools, &third, &err), 0);
    assert_int_equal(box_tools_count(tools), 2);
    assert_ptr_equal(box_tools_find(tools, "one"), &first);
    box_tools_free(tools);
}

static void what_is_no_tool_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"", "Exec", "a b", "a.b", "a-b", "\xc3\xa9"};
    for (size_t i = 0; i < BOX_COUNT(names); i++) {
        box_tool t = tool(names[i]);
        refuse(&t);
    }
    static const char *const schemas[] = {"", "{", "[]", "{\"oneOf\":[]}"};
    for (size_t i = 0; i < BOX_COUNT(schemas); i++) {
        box_tool t = tool("x");
        t.parameters = schemas[i];
        refuse(&t);
    }
    box_tool silent = tool("x");
    silent.description = "";
    refuse(&silent);
}

static void there_are_only_so_many(void **state)
{
    (void)state;
    static char names[BOX_MAX_TOOLS + 1][16];
    static box_tool all[BOX_MAX_TOOLS + 1];
    box_tools *tools = box_tools_new();
    box_error err = {0};
    for (size_t i = 0; i <= BOX_MAX_TOOLS; i++) {
        (void)snprintf(names[i], sizeof names[i], "t%zu", i * 7919 % 1000);
        all[i] = tool(names[i]);
        assert_int_equal(box_tools_add(tools, &all[i], &err), i < BOX_MAX_TOOLS ? 0 : -1);
    }
    for (size_t i = 1; i < box_tools_count(tools); i++)
        assert_true(strcmp(box_tools_at(tools, i - 1)->name, box_tools_at(tools, i)->name) < 0);
    box_tools_free(tools);
}

static void own_tools_register_and_define_themselves(void **state)
{
    (void)state;
    box_tools *tools = box_tools_new();
    box_error err = {0};
    assert_int_equal(box_tools_add_own(tools, &err), 0);
    assert_int_equal(box_tools_add_own(tools, &err), -1); /* they are there already */
    assert_non_null(box_tools_find(tools, "exec"));
    assert_null(box_tools_find(tools, "exe"));
    assert_null(box_tools_find(tools, "zzz"));
    for (size_t i = 0; i < box_tools_count(tools); i++) {
        const box_tool *t = box_tools_at(tools, i);
        char *text = box_tools_definition(tools, t, i == 0 ? "Other words." : NULL);
        json_t *d = json_loads(text, 0, NULL);
        const json_t *f = json_object_get(d, "function");
        assert_string_equal(json_string_value(json_object_get(d, "type")), "function");
        assert_string_equal(json_string_value(json_object_get(f, "name")), t->name);
        assert_string_equal(json_string_value(json_object_get(f, "description")),
                            i == 0 ? "Other words." : t->description);
        const json_t *p = json_object_get(f, "parameters");
        assert_string_equal(json_string_value(json_object_get(p, "type")), "object");
        assert_true(json_is_false(json_object_get(p, "additionalProperties")));
        json_decref(d);
        free(text);
    }
    box_tools_free(tools);
}

static void arguments_are_checked_before_it_starts(void **state)
{
    (void)state;
    box_tools *tools = box_tools_new();
    box_error err = {0};
    box_tool t = tool("one");
    box_tool_run *run = NULL;
    assert_int_equal(box_tools_add(tools, &t, &err), 0);
    json_t *arguments = json_pack("{s:s}", "n", "1");
    box_tool_request r = {.arguments = arguments};
    starts = 0;
    assert_int_equal(box_tools_start(tools, &t, &r, NULL, NULL, &run, &err), -1);
    assert_int_equal(err.reason, BOX_VALIDATION);
    assert_non_null(strstr(err.msg, "arguments.n"));
    assert_int_equal(starts, 0);
    assert_int_equal(json_object_set_new(arguments, "n", json_integer(1)), 0);
    assert_int_equal(box_tools_start(tools, &t, &r, NULL, NULL, &run, &err), 0);
    assert_int_equal(starts, 1);
    box_tool_cancel(NULL);
    json_decref(arguments);
    box_tools_free(tools);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_tools_of_one_name_are_an_error),
        cmocka_unit_test(what_is_no_tool_is_refused),
        cmocka_unit_test(there_are_only_so_many),
        cmocka_unit_test(own_tools_register_and_define_themselves),
        cmocka_unit_test(arguments_are_checked_before_it_starts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
