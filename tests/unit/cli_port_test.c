#include "port_listen.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/fd.h"
#include "base/macros.h"

static void a_word_names_a_local_and_a_remote_port(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        cli_port port;
    } good[] = {
        {"8080", {8080, 8080}}, {"9000:8080", {9000, 8080}}, {"0:80", {0, 80}},
        {":80", {0, 80}},       {"65535:1", {65535, 1}},     {"00080", {80, 80}},
    };
    for (size_t i = 0; i < BOX_COUNT(good); i++) {
        cli_port p;
        assert_true(cli_port_parse(good[i].text, &p));
        assert_int_equal(p.local, good[i].port.local);
        assert_int_equal(p.remote, good[i].port.remote);
    }
}

static void what_is_no_port_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",      "0",   ":",      "80:",     "80:0",  "65536", "-1",
                                      "+1",    " 80", "80 ",    "1:2:3",   "http",  "0x50",  "1:-2",
                                      "8080x", "::1", "000080", "1:70000", "999999"};
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        cli_port p;
        assert_false(cli_port_parse(bad[i], &p));
    }
}

static void any_free_port_is_the_same_on_both_loopbacks(void **state)
{
    (void)state;
    box_error err;
    cli_listener l[2];
    cli_port any = {.local = 0, .remote = 80};
    int n = cli_port_listen(&any, NULL, l, &err);
    assert_in_range(n, 1, 2); /* a machine may have no IPv6 */
    assert_string_equal(l[0].address, "127.0.0.1");
    assert_int_not_equal(l[0].local, 0);
    for (int i = 0; i < n; i++) {
        assert_int_equal(l[i].local, l[0].local);
        assert_int_equal(l[i].remote, 80);
    }
    /* Taken by now: nobody gets half of it. */
    cli_listener more[2];
    cli_port same = {.local = l[0].local, .remote = 80};
    assert_int_equal(cli_port_listen(&same, NULL, more, &err), -1);
    box_closep(&l[0].fd);
    if (n == 2) {
        assert_int_equal(cli_port_listen(&same, NULL, more, &err), -1);
        box_closep(&l[1].fd);
    }
    n = cli_port_listen(&same, "127.0.0.1", more, &err);
    assert_int_equal(n, 1);
    box_closep(&more[0].fd);
}

static void a_name_is_no_address(void **state)
{
    (void)state;
    box_error err;
    cli_listener l[2];
    cli_port any = {.local = 0, .remote = 80};
    assert_int_equal(cli_port_listen(&any, "localhost", l, &err), -1);
    assert_int_equal(err.reason, BOX_VALIDATION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_word_names_a_local_and_a_remote_port),
        cmocka_unit_test(what_is_no_port_is_refused),
        cmocka_unit_test(any_free_port_is_the_same_on_both_loopbacks),
        cmocka_unit_test(a_name_is_no_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
