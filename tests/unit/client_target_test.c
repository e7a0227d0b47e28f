#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "internal.h"

typedef struct good {
    const char *text;
    box_target_kind kind;
    const char *host, *port, *path, *authority;
} good;

static void same(const char *text, const char *got, const char *wanted)
{
    if ((got == NULL) != (wanted == NULL) || (got != NULL && strcmp(got, wanted) != 0))
        fail_msg("%s: '%s' instead of '%s'", text, got != NULL ? got : "(none)",
                 wanted != NULL ? wanted : "(none)");
}

static void every_form_of_a_target_is_understood(void **state)
{
    (void)state;
    static const good table[] = {
        {"dns:///box.example:443", BOX_TARGET_DNS, "box.example", "443", NULL, "box.example:443"},
        {"dns:box.example:443", BOX_TARGET_DNS, "box.example", "443", NULL, "box.example:443"},
        {"box.example:443", BOX_TARGET_DNS, "box.example", "443", NULL, "box.example:443"},
        {"box.example", BOX_TARGET_DNS, "box.example", "5410", NULL, "box.example:5410"},
        {"dns:///127.0.0.1:1", BOX_TARGET_DNS, "127.0.0.1", "1", NULL, "127.0.0.1:1"},
        {"dns:///[::1]:65535", BOX_TARGET_DNS, "::1", "65535", NULL, "[::1]:65535"},
        {"[fe80::1]", BOX_TARGET_DNS, "fe80::1", "5410", NULL, "[fe80::1]:5410"},
        {"dns:5410", BOX_TARGET_DNS, "dns", "5410", NULL, "dns:5410"},
        {"unix:/run/box.sock", BOX_TARGET_UNIX, NULL, NULL, "/run/box.sock", "localhost"},
        {"unix:///run/box.sock", BOX_TARGET_UNIX, NULL, NULL, "/run/box.sock", "localhost"},
        {"unix:box.sock", BOX_TARGET_UNIX, NULL, NULL, "box.sock", "localhost"},
        {"spawn:boxd --config x", BOX_TARGET_SPAWN, NULL, NULL, "boxd --config x", "localhost"},
        {"spawn:", BOX_TARGET_SPAWN, NULL, NULL, "", "localhost"},
    };
    for (size_t i = 0; i < BOX_COUNT(table); i++) {
        const good *g = &table[i];
        box_target t;
        box_error err;
        if (box_target_parse(g->text, &t, &err) < 0)
            fail_msg("%s: %s", g->text, err.msg);
        assert_int_equal(t.kind, g->kind);
        same(g->text, t.host, g->host);
        same(g->text, t.port, g->port);
        same(g->text, t.path, g->path);
        same(g->text, t.authority, g->authority);
        box_target_done(&t);
    }
}

static void what_is_no_target_is_refused(void **state)
{
    (void)state;
    static const char too_long[] =
        "unix:/a/path/that/is/longer/than/a/socket/address/can/hold/because/it/has/more/than/one/"
        "hundred/and/seven/bytes/in/all";
    static const char *const table[] = {
        "",
        ":443",
        "dns:///",
        "dns:///:443",
        "dns:///host:",
        "dns:///host:0",
        "dns:///host:65536",
        "dns:///host:http",
        "dns:///host:+5",
        "dns:///host:5410/path",
        "dns:///host/path",
        "dns://8.8.8.8/host:443", /* whom to ask is the system's business */
        "https://host",
        "::1",
        "fe80::1:443",
        "[::1",
        "[]:443",
        "[::1]443",
        "[::1]x:443",
        "unix:",
        "unix://host/path",
        "/run/box.sock",
        "ipv4:",
        "ipv4:host:1",
        "ipv4:127.0.0.1:1,host:1",
        "ipv4:[::1]:1",
        "ipv6:127.0.0.1:1",
        too_long,
    };
    for (size_t i = 0; i < BOX_COUNT(table); i++) {
        box_target t;
        box_error err = {0};
        if (box_target_parse(table[i], &t, &err) == 0)
            fail_msg("'%s' was taken", table[i]);
        assert_int_equal(err.reason, BOX_VALIDATION);
    }
}

static bool is_loopback(const char *text)
{
    box_target t;
    box_error err;
    assert_int_equal(box_target_parse(text, &t, &err), 0);
    bool result = box_target_is_loopback(&t);
    box_target_done(&t);
    return result;
}

static void addresses_need_not_be_asked_for(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t count;
    } table[] = {{"127.0.0.1:1", 1},
                 {"[::1]:1", 1},
                 {"box.example:1", 0},
                 {"127.1:1", 0},
                 {"unix:/run/box.sock", 1},
                 {"ipv4:127.0.0.1:1,127.0.0.2:2", 2},
                 {"ipv6:[::1]:1,[::2]:2,[::3]", 3}};
    for (size_t i = 0; i < BOX_COUNT(table); i++) {
        box_target t;
        box_error err;
        assert_int_equal(box_target_parse(table[i].text, &t, &err), 0);
        assert_int_equal(t.addresses.count, table[i].count);
        box_target_done(&t);
    }
}

static void only_this_machine_is_loopback(void **state)
{
    (void)state;
    static const char *const ours[] = {"localhost", "127.0.0.1", "127.255.0.9", "[::1]",
                                       "ipv4:127.0.0.1:1,127.0.0.2:2"};
    static const char *const others[] = {
        "box.example", "128.0.0.1",     "0.0.0.0",       "127.1",
        "[::]",        "127.0.0.1.com", "localhost.com", "ipv4:127.0.0.1:1,10.0.0.1:1"};
    for (size_t i = 0; i < BOX_COUNT(ours); i++)
        assert_true(is_loopback(ours[i]));
    for (size_t i = 0; i < BOX_COUNT(others); i++)
        assert_false(is_loopback(others[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_a_target_is_understood),
        cmocka_unit_test(what_is_no_target_is_refused),
        cmocka_unit_test(addresses_need_not_be_asked_for),
        cmocka_unit_test(only_this_machine_is_loopback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
