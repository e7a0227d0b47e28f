#include "service/page.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void a_token_leads_back_to_its_position(void **state)
{
    (void)state;
    box_error err = {0};
    box_position at = {.created_ns = 1234567890123};
    box_position out = {0};
    char token[BOX_PAGE_TOKEN_TEXT];
    uint64_t binding = box_page_binding("tenants", "acme", "x", 1);
    memset(at.id, 'z', BOX_TENANT_ID_BYTES);
    box_page_token(binding, &at, token);
    assert_int_equal(box_page_parse(token, binding, &out, &err), 0);
    assert_int_equal(out.created_ns, at.created_ns);
    assert_string_equal(out.id, at.id);
}

static void no_token_is_the_start(void **state)
{
    (void)state;
    box_error err = {0};
    box_position out = {.created_ns = 7, .id = "x"};
    assert_int_equal(box_page_parse("", 1, &out, &err), 0);
    assert_int_equal(out.created_ns, 0);
    assert_string_equal(out.id, "");
}

static void a_token_of_another_list_tenant_or_filter_is_refused(void **state)
{
    (void)state;
    box_position at = {.created_ns = 5, .id = "a"};
    box_position out;
    char token[BOX_PAGE_TOKEN_TEXT];
    box_page_token(box_page_binding("tenants", "acme", "x", 1), &at, token);
    uint64_t others[] = {
        box_page_binding("tokens", "acme", "x", 1), box_page_binding("tenants", "other", "x", 1),
        box_page_binding("tenants", "acme", "y", 1), box_page_binding("tenants", "acme", "", 0)};
    for (size_t i = 0; i < BOX_COUNT(others); i++) {
        box_error err = {0};
        assert_int_equal(box_page_parse(token, others[i], &out, &err), -1);
        assert_int_equal(err.reason, BOX_VALIDATION);
        assert_non_null(box_error_get(&err, "field:page_token"));
    }
}

static void a_token_cut_at_any_byte_is_refused(void **state)
{
    (void)state;
    box_position at = {.created_ns = 5, .id = "acme"};
    box_position out;
    char token[BOX_PAGE_TOKEN_TEXT];
    uint64_t binding = box_page_binding("tenants", "acme", "", 0);
    box_page_token(binding, &at, token);
    size_t whole = strlen(token);
    for (size_t len = 1; len < whole; len++) {
        char cut[BOX_PAGE_TOKEN_TEXT];
        box_error err = {0};
        memcpy(cut, token, len);
        cut[len] = '\0';
        int rc = box_page_parse(cut, binding, &out, &err);
        /* Only at a whole character of the id it is a token again: of a shorter id. */
        assert_int_equal(rc, len > 32 && len % 2 == 0 ? 0 : -1);
    }
}

static void text_that_is_no_token_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"x", "00", "zz00000000000000000000000000000000",
                                      "0000000000000000000000000000000061"};
    char longest[400];
    box_position out;
    memset(longest, '0', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    for (size_t i = 0; i <= BOX_COUNT(bad); i++) {
        box_error err = {0};
        assert_int_equal(
            box_page_parse(i < BOX_COUNT(bad) ? bad[i] : longest, UINT64_MAX, &out, &err), -1);
    }
}

static void sizes_of_pages_are_bounded(void **state)
{
    (void)state;
    static const int32_t cases[][2] = {
        {0, 100}, {1, 1}, {1000, 1000}, {1001, 1000}, {INT32_MAX, 1000}};
    box_error err = {0};
    size_t size = 0;
    for (size_t i = 0; i < BOX_COUNT(cases); i++) {
        assert_int_equal(box_page_size(cases[i][0], &size, &err), 0);
        assert_int_equal(size, cases[i][1]);
    }
    assert_int_equal(box_page_size(-1, &size, &err), -1);
    assert_non_null(box_error_get(&err, "field:page_size"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_leads_back_to_its_position),
        cmocka_unit_test(no_token_is_the_start),
        cmocka_unit_test(a_token_of_another_list_tenant_or_filter_is_refused),
        cmocka_unit_test(a_token_cut_at_any_byte_is_refused),
        cmocka_unit_test(text_that_is_no_token_is_refused),
        cmocka_unit_test(sizes_of_pages_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
