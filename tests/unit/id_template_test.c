/* Session ids from templates (known-bugs.md: A21 two ids that become one, G6 a format string). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "session/id_template.h"

static char *text(const char *s)
{
    return (char *)(uintptr_t)s; /* only read */
}

typedef struct variables {
    box_label all[BOX_MAX_ID_TEMPLATE_VARIABLES + 1];
    size_t n;
} variables;

static void put(variables *v, const char *key, const char *value)
{
    v->all[v->n++] = (box_label){text(key), text(value)};
}

static void expect(const char *template, const variables *v, const char *id)
{
    box_resolved_id out;
    box_error err = {0};
    if (box_id_template_resolve(template, v->all, v->n, &out, &err) < 0)
        fail_msg("%s: %s", template, err.msg);
    assert_string_equal(out.id, id);
}

static void refuse(const char *template, const variables *v, const char *field)
{
    box_resolved_id out;
    box_error err = {0};
    size_t at = 0;
    const char *key, *value;
    assert_int_equal(box_id_template_resolve(template, v->all, v->n, &out, &err), -1);
    assert_int_equal(err.reason, BOX_VALIDATION);
    assert_true(box_error_next(&err, &at, &key, &value));
    assert_string_equal(key + strlen("field:"), field);
}

static void names_without_a_variable_have_defaults(void **state)
{
    (void)state;
    variables v = {0};
    expect("", &v, "query_unknown");
    expect("{query_id}|{launcher_type}|{launcher_id}|{sender_id}|{global}|{other}", &v,
           "unknown|query|unknown|unknown|global|unknown");
    put(&v, "query_id", "17");
    expect("{query_id}|{launcher_type}|{launcher_id}|{sender_id}", &v, "17|query|17|17");
    put(&v, "launcher_id", "g5");
    expect("", &v, "query_g5");
    expect("{query_id}|{launcher_id}|{sender_id}", &v, "17|g5|g5");
    put(&v, "sender_id", "u1");
    put(&v, "launcher_type", "group");
    put(&v, "global", "mine");
    put(&v, "conversation_id", "c9");
    expect("{launcher_type}_{launcher_id}_{sender_id}_{global}_{conversation_id}", &v,
           "group_g5_u1_mine_c9");
}

static void values_are_taken_verbatim(void **state)
{
    (void)state;
    variables v = {0};
    put(&v, "a", "a/b");
    put(&v, "b", "a-b");
    put(&v, "c", " {x} }} ..\\ \xc3\xa9 ");
    put(&v, "d", "");
    expect("{a}", &v, "a/b");
    expect("{b}", &v, "a-b");
    expect("<{c}>", &v, "< {x} }} ..\\ \xc3\xa9 >"); /* not looked into again */
    expect("x{d}y", &v, "xy");
}

static void a_doubled_brace_is_one(void **state)
{
    (void)state;
    variables v = {0};
    put(&v, "a", "1");
    expect("{{a}}", &v, "{a}");
    expect("{{{a}}}", &v, "{1}");
    expect("}}{{", &v, "}{");
    expect("{{{{{a}}}}}", &v, "{{1}}");
}

static void a_name_has_no_attributes_indices_or_formats(void **state)
{
    (void)state;
    variables v = {0};
    put(&v, "a", "1");
    static const char *const bad[] = {
        "{a.b}", "{a[0]}", "{a!r}",  "{a:>5}", "{}",         "{0}",
        "{ a}",  "{a }",   "{a-b}",  "{",      "}",          "x}",
        "{a",    "{a{a}}", "{{{a}}", "a}b",    "{\xc3\xa9}", "{__class__.__init__}",
        "{a}}"};
    for (size_t i = 0; i < BOX_COUNT(bad); i++)
        refuse(bad[i], &v, "id_template");
}

static void what_is_no_session_id_is_refused(void **state)
{
    (void)state;
    char long_text[BOX_MAX_ID_BYTES + 2];
    char long_template[BOX_MAX_ID_TEMPLATE_BYTES + 2];
    memset(long_text, 'x', sizeof long_text);
    memset(long_template, '{', sizeof long_template);
    long_text[BOX_MAX_ID_BYTES + 1] = '\0';
    long_template[BOX_MAX_ID_TEMPLATE_BYTES + 1] = '\0';
    variables v = {0};
    put(&v, "long", long_text);
    put(&v, "most", long_text + 1);
    put(&v, "line", "a\nb");
    put(&v, "empty", "");
    refuse("{long}", &v, "variables");
    expect("{most}", &v, long_text + 1);
    refuse("{most}{most}{most}", &v, "variables");
    refuse("{most}x", &v, "variables");
    refuse("{line}", &v, "variables");
    refuse("{empty}", &v, "variables");
    refuse("a\x7f", &v, "variables");
    refuse(long_template, &v, "id_template");
    long_template[512] = '\0';
    expect(long_template, &v, long_template + 256);
}

static void variables_have_names_of_their_own(void **state)
{
    (void)state;
    variables twice = {0}, bad = {0}, many = {0};
    char names[BOX_MAX_ID_TEMPLATE_VARIABLES + 1][8];
    put(&twice, "a", "1");
    put(&twice, "a", "2");
    put(&bad, "a.b", "1");
    for (size_t i = 0; i <= BOX_MAX_ID_TEMPLATE_VARIABLES; i++) {
        (void)snprintf(names[i], sizeof names[i], "v%zu", i);
        put(&many, names[i], "x");
    }
    refuse("x", &twice, "variables");
    refuse("x", &bad, "variables");
    refuse("x", &many, "variables");
    many.n--;
    expect("{v0}{v63}", &many, "xx");
}

static void unknown_names_are_told_once_each(void **state)
{
    (void)state;
    box_resolved_id out;
    box_error err = {0};
    variables v = {0};
    put(&v, "a", "1");
    assert_int_equal(box_id_template_resolve("{b}{a}{query_id}{b}{bb}{launcher_type}{sender_id}",
                                             v.all, v.n, &out, &err),
                     0);
    assert_string_equal(out.id, "unknown1unknownunknownunknownqueryunknown");
    assert_int_equal(out.n_unknown, 4);
    assert_memory_equal(out.unknown, "b\0query_id\0bb\0sender_id", 23);
    char many[BOX_MAX_ID_TEMPLATE_BYTES + 1] = "";
    for (char c = 'a'; c <= 'z'; c++)
        (void)snprintf(many + strlen(many), 8, "{%c}", c);
    assert_int_equal(box_id_template_resolve(many, v.all, v.n, &out, &err), 0);
    assert_int_equal(out.n_unknown, 25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_without_a_variable_have_defaults),
        cmocka_unit_test(values_are_taken_verbatim),
        cmocka_unit_test(a_doubled_brace_is_one),
        cmocka_unit_test(a_name_has_no_attributes_indices_or_formats),
        cmocka_unit_test(what_is_no_session_id_is_refused),
        cmocka_unit_test(variables_have_names_of_their_own),
        cmocka_unit_test(unknown_names_are_told_once_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
