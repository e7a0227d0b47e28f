#include "policy/recent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"

static int set_up(void **state)
{
    *state = box_recent_new();
    return 0;
}

static int tear_down(void **state)
{
    box_recent_free(*state);
    return 0;
}

static void add(box_recent *r, const char *tenant, const char *session, int64_t number)
{
    box_error err = {0};
    (void)box_fail(&err, BOX_EXEC_QUEUE, "error %lld", (long long)number);
    box_recent_add(r, tenant, "/box.v1.ExecService/Exec", session, NULL, number, &err);
}

/* What is listed has these numbers, from first on. */
static void expect(box_recent *r, const char *tenant, const char *session, size_t max, size_t n,
                   int64_t first)
{
    const box_recent_error *list[BOX_RECENT_ERRORS_PER_TENANT];
    assert_int_equal(box_recent_list(r, tenant, session, max, list), n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(list[i]->wall_ns, first + (int64_t)i);
    box_recent_release(r, list, n);
}

static void the_newest_fifty_of_a_tenant_are_kept_in_order(void **state)
{
    box_recent *r = *state;
    expect(r, "a", NULL, 50, 0, 0);
    for (int64_t i = 1; i <= 120; i++)
        add(r, "a", "s", i);
    assert_int_equal(box_recent_count(r, "a"), 50);
    expect(r, "a", "", 50, 50, 71);
    expect(r, "a", "s", 3, 3, 118);
    expect(r, "b", NULL, 50, 0, 0);
}

static void a_session_s_own_can_be_asked_for(void **state)
{
    box_recent *r = *state;
    for (int64_t i = 1; i <= 20; i++)
        add(r, "a", i <= 10 ? "one" : "two", i);
    expect(r, "a", "one", 50, 10, 1);
    expect(r, "a", "one", 4, 4, 7);
    expect(r, "a", "on", 50, 0, 0);
    expect(r, "b", "one", 50, 0, 0);
}

static void a_record_has_all_texts_and_the_metadata_but_no_violations(void **state)
{
    box_recent *r = *state;
    const box_recent_error *list[BOX_RECENT_ERRORS_PER_TENANT];
    box_error err = {0};
    BOX_IGNORE(box_violation(&err, "argv", "bad"));
    box_error_add(&err, "rule", "mount");
    box_error_add(&err, "id", "");
    box_recent_add(r, "a", "/m", "session", "request", 7, &err);
    memset(&err, 'x', sizeof err);
    assert_int_equal(box_recent_list(r, "a", NULL, 50, list), 1);
    const box_recent_error *e = list[0];
    assert_string_equal(e->method, "/m");
    assert_string_equal(e->session_id, "session");
    assert_string_equal(e->request_id, "request");
    assert_string_equal(e->msg, "argv: bad");
    assert_int_equal(e->reason, BOX_VALIDATION);
    assert_int_equal(e->n_metadata, 2);
    assert_memory_equal(e->metadata, "rule\0mount\0id\0", 15);
    box_recent_release(r, list, 1);
}

static void what_the_caller_cancelled_is_no_error(void **state)
{
    box_recent *r = *state;
    box_error err = {0};
    box_recent_add(r, "a", "/m", NULL, NULL, 1, &err);
    (void)box_fail(&err, BOX_CANCELLED, "gone");
    box_recent_add(r, "a", "/m", NULL, NULL, 2, &err);
    assert_int_equal(box_recent_count(r, "a"), 0);
}

static void all_tenants_together_have_a_limit_and_the_oldest_goes(void **state)
{
    box_recent *r = *state;
    char tenant[32];
    for (int64_t i = 0; i < BOX_RECENT_ERRORS + 10; i++) {
        (void)snprintf(tenant, sizeof tenant, "t%lld", (long long)i / 2);
        add(r, tenant, "s", i);
    }
    assert_int_equal(box_recent_count(r, "t4"), 0);
    assert_int_equal(box_recent_count(r, "t5"), 2);
    add(r, "last", "s", 1);
    assert_int_equal(box_recent_count(r, "t5"), 1);
    assert_int_equal(box_recent_count(r, "last"), 1);
}

static void a_tenant_that_is_deleted_leaves_nothing_to_its_name(void **state)
{
    box_recent *r = *state;
    const box_recent_error *list[BOX_RECENT_ERRORS_PER_TENANT];
    for (int64_t i = 1; i <= 30; i++)
        add(r, i % 2 == 0 ? "a" : "b", "s", i);
    size_t n = box_recent_list(r, "a", NULL, 50, list);
    box_recent_forget(r, "a");
    box_recent_forget(r, "a");
    box_recent_forget(r, "none");
    assert_int_equal(box_recent_count(r, "a"), 0);
    assert_int_equal(box_recent_count(r, "b"), 15);
    assert_string_equal(list[n - 1]->msg, "error 30"); /* who looks at them keeps them */
    box_recent_release(r, list, n);
    add(r, "a", "s", 99);
    expect(r, "a", NULL, 50, 1, 99);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_newest_fifty_of_a_tenant_are_kept_in_order),
        TEST(a_session_s_own_can_be_asked_for),
        TEST(a_record_has_all_texts_and_the_metadata_but_no_violations),
        TEST(what_the_caller_cancelled_is_no_error),
        TEST(all_tenants_together_have_a_limit_and_the_oldest_goes),
        TEST(a_tenant_that_is_deleted_leaves_nothing_to_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
