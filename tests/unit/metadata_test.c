#include "wire/metadata.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/limits.h"

static void an_application_may_set_ordinary_keys(void **state)
{
    (void)state;
    BOX_AUTO(box_metadata_done) box_metadata md = {0};
    box_error err;
    const char *const keys[] = {"authorization", "x-a", "x_a.b-9", "a", "grpcx", "0"};
    for (size_t i = 0; i < BOX_COUNT(keys); i++)
        assert_int_equal(box_metadata_add_text(&md, keys[i], "v", &err), 0);
    assert_int_equal(md.count, BOX_COUNT(keys));
    assert_string_equal(box_metadata_get(&md, "x_a.b-9"), "v");
    assert_null(box_metadata_get(&md, "x"));
}

static void bad_and_reserved_keys_are_refused(void **state)
{
    (void)state;
    BOX_AUTO(box_metadata_done) box_metadata md = {0};
    box_error err;
    const char *const keys[] = {
        "",
        "Upper",
        "sp ace",
        ":path",
        "gr\xfcn",
        "x\n",
        "grpc-status",
        "te",
        "content-type",
        "user-agent",
        "host",
        "connection",
        "content-length",
        "grpc-details-bin",
    };
    for (size_t i = 0; i < BOX_COUNT(keys); i++) {
        assert_int_equal(box_metadata_add_text(&md, keys[i], "v", &err), -1);
        assert_int_equal(err.reason, BOX_VALIDATION);
    }
    assert_int_equal(md.count, 0);
    assert_int_equal(box_metadata_add_text(&md, "grpc-status-details-bin", "v", &err), 0);
    assert_int_equal(box_metadata_add_text(&md, "grpc-previous-rpc-attempts", "1", &err), 0);
    assert_int_equal(box_metadata_add_text(&md, "grpc-retry-pushback-ms", "-1", &err), 0);
}

static void values_are_printable_unless_the_key_says_binary(void **state)
{
    (void)state;
    BOX_AUTO(box_metadata_done) box_metadata md = {0};
    box_error err;
    const char *const values[] = {"a\nb", "a\rb", "\t", "\xc3\xbc", "\x7f", "\x01"};
    for (size_t i = 0; i < BOX_COUNT(values); i++) {
        assert_int_equal(box_metadata_add_text(&md, "x-a", values[i], &err), -1);
        assert_int_equal(err.reason, BOX_VALIDATION);
        assert_int_equal(box_metadata_add_text(&md, "x-a-bin", values[i], &err), 0);
    }
    assert_int_equal(box_metadata_add(&md, "x-a", "a\0b", 3, &err), -1);
    assert_int_equal(box_metadata_add(&md, "x-a", "", 0, &err), 0);
}

static void order_and_duplicates_are_kept(void **state)
{
    (void)state;
    BOX_AUTO(box_metadata_done) box_metadata md = {0};
    BOX_AUTO(box_metadata_done) box_metadata copy = {0};
    box_error err;
    for (int i = 0; i < 100; i++) {
        char value[8];
        (void)snprintf(value, sizeof value, "%d", i);
        assert_int_equal(box_metadata_add_text(&md, i % 2 == 0 ? "even" : "odd", value, &err), 0);
    }
    assert_int_equal(box_metadata_add_all(&copy, &md, &err), 0);
    box_metadata_done(&md);
    assert_int_equal(copy.count, 100);
    assert_string_equal(copy.entries[42].key, "even");
    assert_string_equal((const char *)copy.entries[99].value, "99");
    assert_string_equal(box_metadata_get(&copy, "odd"), "1");
}

static void there_is_a_limit(void **state)
{
    (void)state;
    BOX_AUTO(box_metadata_done) box_metadata md = {0};
    box_error err;
    for (int i = 0; i < BOX_MAX_METADATA_ENTRIES; i++)
        assert_int_equal(box_metadata_add_text(&md, "k", "v", &err), 0);
    assert_int_equal(box_metadata_add_text(&md, "k", "v", &err), -1);
    assert_int_equal(err.reason, BOX_MEMORY_BUDGET);
    static char large[BOX_MAX_HEADER_LIST_BYTES + 2];
    memset(large, 'v', sizeof large - 1);
    BOX_AUTO(box_metadata_done) box_metadata other = {0};
    assert_int_equal(box_metadata_add_text(&other, "k", large, &err), -1);
    assert_int_equal(err.reason, BOX_MEMORY_BUDGET);
}

static int receive(box_metadata *md, const char *key, const char *value)
{
    box_error err = {0};
    int rc = box_metadata_add_received(md, key, strlen(key), value, strlen(value), &err);
    if (rc < 0)
        assert_int_equal(err.reason, BOX_PROTOCOL);
    return rc;
}

/* What arrives can always be sent back (grpc-conformance.md, 28). */
static void odd_fields_are_dropped_when_received(void **state)
{
    (void)state;
    BOX_AUTO(box_metadata_done) box_metadata md = {0};
    BOX_AUTO(box_metadata_done) box_metadata echo = {0};
    const char *const dropped[][2] = {
        {"x-high", "\xff"},     {"x-tab", "a\tb"},   {"x!y", "v"},        {"te", "trailers"},
        {"grpc-timeout", "1S"}, {"user-agent", "x"}, {":scheme", "http"}, {"grpc-x-bin", "!!"},
    };
    for (size_t i = 0; i < BOX_COUNT(dropped); i++)
        assert_int_equal(receive(&md, dropped[i][0], dropped[i][1]), 0);
    assert_int_equal(md.count, 0);
    assert_int_equal(receive(&md, "authorization", "Bearer x"), 0);
    assert_int_equal(receive(&md, "x-a", "  in side "), 0);
    assert_int_equal(receive(&md, "x-b-bin", "/w"), 0);
    assert_string_equal(box_metadata_get(&md, "x-a"), "in side");
    for (size_t i = 0; i < md.count; i++) {
        box_error err;
        assert_int_equal(box_metadata_add(&echo, md.entries[i].key, md.entries[i].value,
                                          md.entries[i].value_len, &err),
                         0);
    }
}

static void binary_values_are_split_and_decoded(void **state)
{
    (void)state;
    const struct {
        const char *text;
        size_t count;
        const char *last;
        size_t last_len;
    } rows[] = {
        {"AQ", 1, "\1", 1},
        {"AQ==", 1, "\1", 1},
        {"AQ==,Ag==", 2, "\2", 1},
        {"AQ, Ag , AAM", 3, "\0\3", 2},
        {"", 1, "", 0},
        {",", 2, "", 0},
        {"AAECAw==", 1, "\0\1\2\3", 4},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        BOX_AUTO(box_metadata_done) box_metadata md = {0};
        assert_int_equal(receive(&md, "x-bin", rows[i].text), 0);
        assert_int_equal(md.count, rows[i].count);
        const box_metadata_entry *e = &md.entries[md.count - 1];
        assert_int_equal(e->value_len, rows[i].last_len);
        assert_memory_equal(e->value, rows[i].last, rows[i].last_len + 1); /* and a NUL */
    }
    const char *const bad[] = {"A", "A===", "!!", "AQ,A", "AQ=,AQ", "A Q"};
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        BOX_AUTO(box_metadata_done) box_metadata md = {0};
        assert_int_equal(receive(&md, "x-bin", bad[i]), -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_application_may_set_ordinary_keys),
        cmocka_unit_test(bad_and_reserved_keys_are_refused),
        cmocka_unit_test(values_are_printable_unless_the_key_says_binary),
        cmocka_unit_test(order_and_duplicates_are_kept),
        cmocka_unit_test(there_is_a_limit),
        cmocka_unit_test(odd_fields_are_dropped_when_received),
        cmocka_unit_test(binary_values_are_split_and_decoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
