#include "warden/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MIB      (INT64_C(1) << 20)
#define ALL_BITS UINT32_MAX

static box_warden_config config(void)
{
    box_warden_config c;
    box_error err;
    assert_int_equal(box_warden_config_parse("test", "", 0, &c, &err), 0);
    return c;
}

static int check(box_warden_create r, uint32_t guarantees, box_error *err)
{
    box_warden_config c = config();
    int rc = box_warden_create_check(&r, &c, "namespace", guarantees, err);
    box_warden_config_done(&c);
    return rc;
}

/* --- packets ---------------------------------------------------------------------------------- */

static size_t packet(uint8_t *out, uint32_t type, size_t body)
{
    box_warden_header h = {.type = type, .size = (uint32_t)(sizeof h + body), .id = 7};
    memset(out, 0, BOX_WARDEN_PACKET_BYTES);
    memcpy(out, &h, sizeof h);
    return h.size;
}

static void each_request_is_taken_at_its_exact_size(void **state)
{
    (void)state;
    static const struct {
        uint32_t type;
        size_t body;
    } rows[] = {{BOX_WARDEN_HELLO, sizeof(box_warden_hello)},
                {BOX_WARDEN_CREATE, sizeof(box_warden_create)},
                {BOX_WARDEN_DESTROY, sizeof(box_warden_target)},
                {BOX_WARDEN_LIMITS, sizeof(box_warden_limits)},
                {BOX_WARDEN_SWEEP, sizeof(box_warden_target)}};
    uint8_t data[BOX_WARDEN_PACKET_BYTES];
    box_warden_header h;
    const void *body;
    box_error err;
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        size_t len = packet(data, rows[i].type, rows[i].body);
        assert_int_equal(box_warden_packet_parse(data, len, &h, &body, &err), 0);
        assert_int_equal(h.id, 7);
        assert_ptr_equal(body, data + sizeof h);
        for (size_t cut = 0; cut < len; cut++) /* every shorter packet, honest about it or not */
            assert_int_equal(box_warden_packet_parse(data, cut, &h, &body, &err), -1);
        assert_int_equal(box_warden_packet_parse(data, len + 1, &h, &body, &err), -1);
        len = packet(data, rows[i].type, rows[i].body + 8);
        assert_int_equal(box_warden_packet_parse(data, len, &h, &body, &err), -1);
        assert_int_equal(err.reason, BOX_PROTOCOL);
    }
}

static void types_that_boxd_does_not_send_are_refused(void **state)
{
    (void)state;
    static const uint32_t types[] = {0, BOX_WARDEN_ANSWER, BOX_WARDEN_EXITED, 9, UINT32_MAX};
    uint8_t data[BOX_WARDEN_PACKET_BYTES];
    box_warden_header h;
    const void *body;
    box_error err;
    for (size_t i = 0; i < BOX_COUNT(types); i++) {
        size_t len = packet(data, types[i], 16);
        assert_int_equal(box_warden_packet_parse(data, len, &h, &body, &err), -1);
    }
}

static void a_greeting_of_another_version_or_backend_is_refused(void **state)
{
    (void)state;
    box_error err;
    box_warden_hello h = {.version = BOX_WARDEN_VERSION, .backend = "namespace"};
    assert_int_equal(box_warden_hello_check(&h, "namespace", &err), 0);
    assert_int_equal(box_warden_hello_check(&h, "docker", &err), -1);
    assert_int_equal(err.reason, BOX_BACKEND_UNAVAILABLE);
    h.version++;
    assert_int_equal(box_warden_hello_check(&h, "namespace", &err), -1);
    assert_int_equal(err.reason, BOX_VERSION_MISMATCH);
    h = (box_warden_hello){.version = BOX_WARDEN_VERSION};
    memset(h.backend, 'x', sizeof h.backend);
    assert_int_equal(box_warden_hello_check(&h, "namespace", &err), -1);
    assert_int_equal(err.reason, BOX_PROTOCOL);
}

/* --- create ----------------------------------------------------------------------------------- */

static void zero_fields_get_the_defaults(void **state)
{
    (void)state;
    box_warden_config c = config();
    box_warden_create r = {0};
    box_error err;
    assert_int_equal(box_warden_create_check(&r, &c, "namespace", ALL_BITS, &err), 0);
    assert_int_equal(r.memory_bytes, 512 * MIB);
    assert_int_equal(r.pids, 128);
    assert_int_equal(r.cpu_millis, 1000);
    assert_int_equal(r.workspace_bytes, 64 * MIB);
    assert_int_equal(r.tmp_bytes, 64 * MIB);
    assert_int_equal(r.home_bytes, 16 * MIB);
    assert_int_equal(r.shm_bytes, 16 * MIB);
    assert_string_equal(r.mount_path, "/workspace");
    box_warden_config_done(&c);
}

static void a_default_above_the_maximum_is_lowered_to_it(void **state)
{
    (void)state;
    box_warden_config c = config();
    c.maxima.memory_bytes = 100 * MIB;
    box_warden_create r = {0};
    box_error err;
    assert_int_equal(box_warden_create_check(&r, &c, "namespace", ALL_BITS, &err), 0);
    assert_int_equal(r.memory_bytes, 100 * MIB);
    box_warden_config_done(&c);
}

static void all_violations_are_named(void **state)
{
    (void)state;
    box_warden_create r = {.memory_bytes = -1,
                           .pids = -5,
                           .cpu_millis = 1,
                           .flags = 1U << 31,
                           .mount_path = "/etc/x",
                           .host_path = "C:\\x"};
    static const char *const fields[] = {"field:memory", "field:pids",       "field:cpu",
                                         "field:flags",  "field:mount_path", "field:host_path"};
    box_error err;
    assert_int_equal(check(r, ALL_BITS, &err), -1);
    assert_int_equal(err.reason, BOX_VALIDATION);
    for (size_t i = 0; i < BOX_COUNT(fields); i++)
        assert_non_null(box_error_get(&err, fields[i]));
}

static void amounts_above_the_maxima_are_quota_errors(void **state)
{
    (void)state;
    box_error err;
    assert_int_equal(check((box_warden_create){.memory_bytes = INT64_MAX}, ALL_BITS, &err), -1);
    assert_int_equal(err.reason, BOX_QUOTA);
    assert_string_equal(box_error_get(&err, "limit"), "memory");
    assert_int_equal(check((box_warden_create){.pids = 5000}, ALL_BITS, &err), -1);
    assert_string_equal(box_error_get(&err, "max"), "4096");
}

static void what_the_backend_lacks_is_refused_by_name(void **state)
{
    (void)state;
    const struct {
        box_warden_create request;
        uint32_t bit;
        const char *field;
    } rows[] = {{{.flags = BOX_CREATE_NETWORK_ON}, BOX_G_NETWORK_ON, "network"},
                {{.flags = BOX_CREATE_WRITABLE_ROOT}, BOX_G_WRITABLE_ROOT, "read_only_rootfs"},
                {{.flags = BOX_CREATE_PERSISTENT}, BOX_G_PERSISTENT, "persistent"},
                {{.image = "x"}, BOX_G_IMAGES, "image"},
                {{.host_path = "/srv/x"}, BOX_G_HOST_MOUNT, "host_path"}};
    box_error err;
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        assert_int_equal(check(rows[i].request, ALL_BITS, &err), 0);
        assert_int_equal(check(rows[i].request, ALL_BITS & ~rows[i].bit, &err), -1);
        assert_int_equal(err.reason, BOX_GUARANTEE_UNSUPPORTED);
        assert_string_equal(box_error_get(&err, "fields"), rows[i].field);
        assert_string_equal(box_error_get(&err, "guarantees"), box_guarantee_name(rows[i].bit));
    }
    const box_warden_create needs = {.required = BOX_G_MEMORY | BOX_G_CPU | BOX_G_USER};
    assert_int_equal(check(needs, BOX_G_USER, &err), -1);
    assert_string_equal(box_error_get(&err, "guarantees"), "memory,cpu");
}

static void a_large_workspace_needs_one_on_disk(void **state)
{
    (void)state;
    box_error err;
    box_warden_create r = {.workspace_bytes = 257 * MIB};
    assert_int_equal(check(r, ALL_BITS & ~(uint32_t)BOX_G_DISK_WORKSPACE, &err), -1);
    assert_int_equal(err.reason, BOX_GUARANTEE_UNSUPPORTED);
    assert_string_equal(box_error_get(&err, "guarantees"), "disk_workspace");
    assert_string_equal(box_error_get(&err, "fields"), "workspace_limit");
    assert_int_equal(check(r, ALL_BITS, &err), 0);
    assert_true(box_warden_create_on_disk(&r, ALL_BITS));
    r.workspace_bytes = 256 * MIB;
    assert_int_equal(check(r, ALL_BITS & ~(uint32_t)BOX_G_DISK_WORKSPACE, &err), 0);
    assert_false(box_warden_create_on_disk(&r, ALL_BITS));
    r.required = BOX_G_DISK_WORKSPACE;
    assert_true(box_warden_create_on_disk(&r, ALL_BITS));
    r = (box_warden_create){.workspace_bytes = MIB, .flags = BOX_CREATE_PERSISTENT};
    assert_true(box_warden_create_on_disk(&r, ALL_BITS));
    assert_false(box_warden_create_on_disk(&r, ALL_BITS & ~(uint32_t)BOX_G_DISK_WORKSPACE));
    r = (box_warden_create){.host_path = "/srv/x", .flags = BOX_CREATE_PERSISTENT};
    assert_false(box_warden_create_on_disk(&r, ALL_BITS));
    r = (box_warden_create){.host_path = "/srv/x", .required = BOX_G_DISK_WORKSPACE};
    assert_int_equal(check(r, ALL_BITS, &err), -1);
    assert_string_equal(box_error_get(&err, "fields"), "host_path");
    r = (box_warden_create){.workspace_bytes = 17 * 1024 * MIB};
    assert_int_equal(check(r, ALL_BITS, &err), -1);
    assert_int_equal(err.reason, BOX_QUOTA);
}

static void a_workspace_limit_on_a_host_directory_is_refused(void **state)
{
    (void)state;
    box_error err;
    const box_warden_create r = {.host_path = "/srv/x", .workspace_bytes = MIB};
    assert_int_equal(check(r, ALL_BITS, &err), -1);
    assert_string_equal(box_error_get(&err, "fields"), "workspace_limit");
}

static void unended_strings_are_protocol_errors(void **state)
{
    (void)state;
    box_error err;
    box_warden_create r = {0};
    memset(r.host_path, 'x', sizeof r.host_path);
    assert_int_equal(check(r, ALL_BITS, &err), -1);
    assert_int_equal(err.reason, BOX_PROTOCOL);
    r = (box_warden_create){.reserved = 1};
    assert_int_equal(check(r, ALL_BITS, &err), -1);
}

static void paths_must_be_normalised_and_free(void **state)
{
    (void)state;
    static const char *const good[] = {"/workspace",     "/a",        "/home/me/x", "/tmp/x",
                                       "/data/\xc3\xa4", "/etcetera", "/..."};
    static const char *const bad[] = {"",     "a",        "/",     "//",      "/a/",  "/a//b",
                                      "/a/.", "/../a",    "/a/..", "/proc/1", "/dev", "/sys",
                                      "/usr", "/etc/x",   "/bin",  "/lib64",  "/tmp", "/home",
                                      "/run", "/var/tmp", "/a\nb", "/a\xff",  "C:/x", "/sbin/x"};
    box_error err;
    for (size_t i = 0; i < BOX_COUNT(good); i++)
        assert_int_equal(box_mount_path_check(good[i], "mount_path", &err), 0);
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        err = (box_error){0};
        assert_int_equal(box_mount_path_check(bad[i], "mount_path", &err), -1);
        assert_int_equal(err.reason, BOX_VALIDATION);
    }
}

static void within_counts_whole_parts(void **state)
{
    (void)state;
    assert_true(box_path_within("/a/b", "/a"));
    assert_true(box_path_within("/a", "/a"));
    assert_true(box_path_within("/a", "/"));
    assert_true(box_path_within("/a/b", "/a/"));
    assert_false(box_path_within("/ab", "/a"));
    assert_false(box_path_within("/", "/a"));
}

static void limits_are_checked_against_maxima_and_guarantees(void **state)
{
    (void)state;
    box_warden_config c = config();
    box_error err;
    box_warden_limits l = {.memory_bytes = 64 * MIB, .pids = 10, .cpu_millis = 500};
    assert_int_equal(box_warden_limits_check(&l, &c, "namespace", ALL_BITS, &err), 0);
    assert_int_equal(box_warden_limits_check(&l, &c, "namespace", BOX_G_MEMORY, &err), -1);
    assert_int_equal(err.reason, BOX_GUARANTEE_UNSUPPORTED);
    l.pids = -1;
    assert_int_equal(box_warden_limits_check(&l, &c, "namespace", ALL_BITS, &err), -1);
    assert_int_equal(err.reason, BOX_VALIDATION);
    l.pids = 1000000;
    assert_int_equal(box_warden_limits_check(&l, &c, "namespace", ALL_BITS, &err), -1);
    assert_int_equal(err.reason, BOX_QUOTA);
    box_warden_config_done(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_request_is_taken_at_its_exact_size),
        cmocka_unit_test(types_that_boxd_does_not_send_are_refused),
        cmocka_unit_test(a_greeting_of_another_version_or_backend_is_refused),
        cmocka_unit_test(zero_fields_get_the_defaults),
        cmocka_unit_test(a_default_above_the_maximum_is_lowered_to_it),
        cmocka_unit_test(all_violations_are_named),
        cmocka_unit_test(amounts_above_the_maxima_are_quota_errors),
        cmocka_unit_test(what_the_backend_lacks_is_refused_by_name),
        cmocka_unit_test(a_large_workspace_needs_one_on_disk),
        cmocka_unit_test(a_workspace_limit_on_a_host_directory_is_refused),
        cmocka_unit_test(unended_strings_are_protocol_errors),
        cmocka_unit_test(paths_must_be_normalised_and_free),
        cmocka_unit_test(within_counts_whole_parts),
        cmocka_unit_test(limits_are_checked_against_maxima_and_guarantees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
