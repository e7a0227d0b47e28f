#include "rpc/counts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const box_method a_methods[] = {{.path = "/a/One"}, {.path = "/a/Two"}};
static const box_method b_methods[] = {{.path = "/b/One"}};
static const box_service_type a = {.name = "a", .methods = a_methods, .n_methods = 2};
static const box_service_type b = {.name = "b", .methods = b_methods, .n_methods = 1};
static const box_service services[] = {{.type = &a}, {.type = &b}};

static void put(void *arg, const char *path, box_code code, uint64_t count)
{
    char *text = arg;
    size_t len = strlen(text);
    (void)snprintf(text + len, 256 - len, "%s %s %llu\n", path, box_code_name(code),
                   (unsigned long long)count);
}

static void calls_are_counted_by_method_and_code(void **state)
{
    (void)state;
    char text[256] = "";
    box_error err = {0};
    box_call_counts *c = box_call_counts_new(services, 2);
    box_call_counts_each(c, put, text);
    assert_string_equal(text, "");
    box_call_counts_add(c, &b_methods[0], NULL);
    box_call_counts_add(c, &a_methods[1], NULL);
    box_call_counts_add(c, &a_methods[1], NULL);
    (void)box_fail(&err, BOX_QUOTA, "full");
    box_call_counts_add(c, &a_methods[1], &err);
    (void)box_fail(&err, BOX_UNIMPLEMENTED, "no such method");
    box_call_counts_add(c, NULL, &err);
    err.code = 99;
    box_call_counts_add(c, NULL, &err);
    box_call_counts_each(c, put, text);
    assert_string_equal(text, "/a/Two OK 2\n/a/Two RESOURCE_EXHAUSTED 1\n/b/One OK 1\n"
                              " UNKNOWN 1\n UNIMPLEMENTED 1\n");
    box_call_counts_free(c);
}

static void without_counts_nothing_is_counted(void **state)
{
    (void)state;
    box_call_counts_add(NULL, NULL, NULL);
    box_call_counts_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_counted_by_method_and_code),
        cmocka_unit_test(without_counts_nothing_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
