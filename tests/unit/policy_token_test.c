#include "policy/token.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/id.h"
#include "policy/identity.h"
#include "policy/method.h"
#include "policy/peers.h"

static void a_secret_is_47_characters_and_is_found_by_its_hash(void **state)
{
    (void)state;
    box_token a = {0};
    box_token b = {0};
    char secret[BOX_TOKEN_SECRET_LEN + 1];
    char other[BOX_TOKEN_SECRET_LEN + 1];
    uint8_t hash[BOX_TOKEN_HASH_BYTES];
    box_token_make(&a, secret);
    box_token_make(&b, other);
    assert_int_equal(strlen(secret), 47);
    assert_memory_equal(secret, "box_", 4);
    assert_int_equal(strspn(secret + 4, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                        "0123456789-_"),
                     43);
    assert_memory_equal(a.prefix, secret, 12);
    assert_int_equal(strlen(a.prefix), 12);
    assert_true(box_token_hash(secret, hash));
    assert_memory_equal(a.hash, hash, sizeof hash);
    assert_memory_not_equal(a.hash, b.hash, sizeof hash);
    assert_true(a.id != b.id && a.id != 0 && a.id <= INT64_MAX);
}

static void the_hash_is_sha_256_of_the_whole_secret(void **state)
{
    (void)state;
    uint8_t hash[BOX_TOKEN_HASH_BYTES];
    char hex[2 * BOX_TOKEN_HASH_BYTES + 1];
    /* printf box_AAAA...(43 A) | sha256sum */
    assert_true(box_token_hash("box_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", hash));
    box_hex(hash, sizeof hash, hex);
    assert_string_equal(hex, "0ba1b46c8e3e3acbabc33c8ba5c56587d3395eab1f6c4adbcf6ae5c0cdad8816");
}

static void text_that_is_no_token_has_no_hash(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "box_", "box_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                                      "box_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                                      "BOX_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"};
    uint8_t hash[BOX_TOKEN_HASH_BYTES];
    for (size_t i = 0; i < BOX_COUNT(bad); i++)
        assert_false(box_token_hash(bad[i], hash));
}

static void the_scheme_is_read_without_regard_to_case(void **state)
{
    (void)state;
    assert_string_equal(box_token_of_header("Bearer abc"), "abc");
    assert_string_equal(box_token_of_header("bearer abc"), "abc");
    assert_string_equal(box_token_of_header("BEARER   abc"), "abc");
    static const char *const bad[] = {"",          "Bearer",      "Bearer ",    "Bearerabc",
                                      "Basic abc", " Bearer abc", "Bearer\tabc"};
    for (size_t i = 0; i < BOX_COUNT(bad); i++)
        assert_null(box_token_of_header(bad[i]));
}

static void every_scope_has_one_name(void **state)
{
    (void)state;
    uint32_t all = 0;
    for (uint32_t bit = 1; bit <= BOX_SCOPE_TENANTS_ACT; bit <<= 1) {
        assert_non_null(box_scope_name(bit));
        assert_int_equal(box_scope_from_name(box_scope_name(bit)), bit);
        all |= bit;
    }
    assert_int_equal(all, BOX_ALL_SCOPES);
    assert_null(box_scope_name(0));
    assert_null(box_scope_name(3));
    assert_null(box_scope_name(1 << 15));
    assert_int_equal(box_scope_from_name("session"), 0);
    assert_int_equal(box_scope_from_name(""), 0);
}

static void a_method_that_is_not_in_the_table_has_no_rule(void **state)
{
    (void)state;
    assert_null(box_method_rule_find("/box.v1.ExecService/exec"));
    assert_null(box_method_rule_find("/box.v1.ExecService"));
    assert_null(box_method_rule_find(""));
    assert_int_equal(box_method_rule_find("/box.v1.ExecService/Exec")->scope, BOX_SCOPE_EXEC_WRITE);
}

static void only_health_is_open(void **state)
{
    (void)state;
    assert_true(box_method_rule_find("/grpc.health.v1.Health/Check")->flags & BOX_METHOD_OPEN);
    assert_false(
        box_method_rule_find("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")->flags &
        BOX_METHOD_OPEN);
    assert_false(box_method_rule_find("/box.v1.ControlService/Health")->flags & BOX_METHOD_OPEN);
}

static bool failed(box_peers *p, const char *address, box_time now)
{
    uint32_t retry_ms = 0;
    box_peer peer = {.address = address};
    bool within = box_peers_failed(p, &peer, now, &retry_ms);
    assert_int_equal(within, retry_ms == 0);
    return within;
}

static void each_address_has_its_own_failures_a_minute(void **state)
{
    (void)state;
    box_peers *p = box_peers_new(2);
    assert_true(failed(p, "10.0.0.1:1", 10 * BOX_SECOND));
    assert_true(failed(p, "10.0.0.1:2", 11 * BOX_SECOND));
    assert_false(failed(p, "10.0.0.1:3", 12 * BOX_SECOND));
    assert_true(failed(p, "10.0.0.2:3", 12 * BOX_SECOND));
    assert_false(failed(p, "10.0.0.1:3", 69 * BOX_SECOND));
    assert_true(failed(p, "10.0.0.1:3", 70 * BOX_SECOND));
    box_peers_free(p);
}

static void one_customers_ipv6_addresses_count_together(void **state)
{
    (void)state;
    box_peers *p = box_peers_new(1);
    assert_true(failed(p, "[2001:db8:1:2:3::1]:1", BOX_SECOND));
    assert_false(failed(p, "[2001:db8:1:2:ffff::9]:1", BOX_SECOND));
    assert_true(failed(p, "[2001:db8:1:3::1]:1", BOX_SECOND));
    assert_true(failed(p, "[::ffff:10.0.0.1]:1", BOX_SECOND));
    assert_false(failed(p, "10.0.0.1:1", BOX_SECOND));
    box_peers_free(p);
}

static void unix_peers_count_by_uid(void **state)
{
    (void)state;
    box_peers *p = box_peers_new(1);
    uint32_t retry_ms = 0;
    box_peer a = {.is_unix = true, .uid = 1000, .address = "unix"};
    box_peer b = {.is_unix = true, .uid = 1001, .address = "unix"};
    assert_true(box_peers_failed(p, &a, BOX_SECOND, &retry_ms));
    assert_false(box_peers_failed(p, &a, 31 * BOX_SECOND, &retry_ms));
    assert_int_equal(retry_ms, 30001);
    assert_true(box_peers_failed(p, &b, BOX_SECOND, &retry_ms));
    box_peers_free(p);
}

static void more_addresses_than_fit_push_out_old_ones_only(void **state)
{
    (void)state;
    box_peers *p = box_peers_new(1);
    for (unsigned i = 0; i < 20000; i++) {
        char address[32];
        (void)snprintf(address, sizeof address, "10.%u.%u.1:1", i / 250, i % 250);
        assert_true(failed(p, address, BOX_SECOND + i));
        assert_false(failed(p, address, BOX_SECOND + i));
    }
    box_peers_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_secret_is_47_characters_and_is_found_by_its_hash),
        cmocka_unit_test(the_hash_is_sha_256_of_the_whole_secret),
        cmocka_unit_test(text_that_is_no_token_has_no_hash),
        cmocka_unit_test(the_scheme_is_read_without_regard_to_case),
        cmocka_unit_test(every_scope_has_one_name),
        cmocka_unit_test(a_method_that_is_not_in_the_table_has_no_rule),
        cmocka_unit_test(only_health_is_open),
        cmocka_unit_test(each_address_has_its_own_failures_a_minute),
        cmocka_unit_test(one_customers_ipv6_addresses_count_together),
        cmocka_unit_test(unix_peers_count_by_uid),
        cmocka_unit_test(more_addresses_than_fit_push_out_old_ones_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
