#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "box_rpc_descriptor_set.h"
#include "rpc/descriptors.h"

/* a.proto imports b.proto and c.proto, which both import d.proto: FileDescriptorSet by hand. */
static const uint8_t diamond[] = {
    0x0a, 27,  0x0a, 7,   'a', '.',  'p', 'r', 'o', 't', 'o', 0x1a, 7,   'b', '.',
    'p',  'r', 'o',  't', 'o', 0x1a, 7,   'c', '.', 'p', 'r', 'o',  't', 'o', /* b */
    0x0a, 18,  0x0a, 7,   'b', '.',  'p', 'r', 'o', 't', 'o', 0x1a, 7,   'd', '.',
    'p',  'r', 'o',  't', 'o', /* c */
    0x0a, 18,  0x0a, 7,   'c', '.',  'p', 'r', 'o', 't', 'o', 0x1a, 7,   'd', '.',
    'p',  'r', 'o',  't', 'o', /* d */
    0x0a, 9,   0x0a, 7,   'd', '.',  'p', 'r', 'o', 't', 'o',
};

static box_descriptors *make(const uint8_t *data, size_t len)
{
    box_descriptors *d;
    box_error err = {0};
    box_descriptor_set sets[] = {{data, len}, {data, len}}; /* twice: files are not doubled */
    assert_int_equal(box_descriptors_new(sets, 2, &d, &err), 0);
    return d;
}

static box_descriptors *make_rpc(void)
{
    return make(box_rpc_descriptor_set.data, box_rpc_descriptor_set.len);
}

static void a_file_comes_with_all_its_imports_once(void **state)
{
    (void)state;
    box_descriptors *d = make(diamond, sizeof diamond);
    const box_descriptor_file **files;
    size_t n;
    box_descriptors_by_file(d, "a.proto", &files, &n);
    assert_int_equal(n, 4);
    assert_string_equal(files[0]->name, "a.proto");
    assert_string_equal(files[1]->name, "b.proto");
    assert_string_equal(files[2]->name, "c.proto");
    assert_string_equal(files[3]->name, "d.proto");
    free(files);
    box_descriptors_by_file(d, "d.proto", &files, &n);
    assert_int_equal(n, 1);
    assert_int_equal(files[0]->bytes.len, 9);
    free(files);
    box_descriptors_free(d);
}

static void expect_file(const box_descriptors *d, const char *symbol, const char *name)
{
    const box_descriptor_file **files = NULL;
    size_t n;
    box_descriptors_by_symbol(d, symbol, &files, &n);
    assert_int_equal(n, 1);
    assert_string_equal(files[0]->name, name);
    free(files);
}

static void every_kind_of_symbol_is_found_in_its_file(void **state)
{
    (void)state;
    box_descriptors *d = make_rpc();
    static const char *const in_health[] = {
        "grpc.health.v1.Health",
        "grpc.health.v1.Health.Check",
        "grpc.health.v1.HealthCheckRequest",
        "grpc.health.v1.HealthCheckRequest.service",
        "grpc.health.v1.HealthCheckResponse.ServingStatus",
        "grpc.health.v1.HealthCheckResponse.NOT_SERVING", /* beside its enum, as C++ scopes it */
        "grpc.health.v1.HealthListResponse.StatusesEntry",
    };
    for (size_t i = 0; i < BOX_COUNT(in_health); i++)
        expect_file(d, in_health[i], "grpc/health/v1/health.proto");
    expect_file(d, "grpc.reflection.v1.ServerReflectionRequest.message_request",
                "grpc/reflection/v1/reflection.proto");
    expect_file(d, "grpc.reflection.v1alpha.ServerReflection",
                "grpc/reflection/v1alpha/reflection.proto");
    box_descriptors_free(d);
}

static void what_is_not_declared_is_not_found(void **state)
{
    (void)state;
    box_descriptors *d = make_rpc();
    static const char *const unknown[] = {"",
                                          ".",
                                          "grpc",
                                          "grpc.health.v1",
                                          "Health",
                                          ".grpc.health.v1.Health",
                                          "grpc.health.v1.Health."};
    const box_descriptor_file **files;
    size_t n;
    for (size_t i = 0; i < BOX_COUNT(unknown); i++) {
        box_descriptors_by_symbol(d, unknown[i], &files, &n);
        assert_int_equal(n, 0);
        box_descriptors_by_file(d, unknown[i], &files, &n);
        assert_int_equal(n, 0);
    }
    box_descriptors_free(d);
}

static void only_messages_are_messages(void **state)
{
    (void)state;
    box_descriptors *d = make_rpc();
    assert_true(box_descriptors_has_message(d, "grpc.health.v1.HealthCheckRequest"));
    assert_false(box_descriptors_has_message(d, "grpc.health.v1.Health"));
    assert_false(box_descriptors_has_message(d, "grpc.health.v1.HealthCheckRequest.service"));
    assert_false(box_descriptors_has_message(d, "none"));
    box_descriptors_free(d);
}

static void a_set_cut_inside_a_file_is_refused(void **state)
{
    (void)state;
    for (size_t len = 0; len < sizeof diamond; len++) {
        bool whole = len == 0 || len == 29 || len == 49 || len == 69; /* ends of the files */
        box_descriptor_set set = {diamond, len};
        box_descriptors *d = NULL;
        box_error err = {0};
        int rc = box_descriptors_new(&set, 1, &d, &err);
        assert_int_equal(rc, whole ? 0 : -1);
        box_descriptors_free(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_comes_with_all_its_imports_once),
        cmocka_unit_test(every_kind_of_symbol_is_found_in_its_file),
        cmocka_unit_test(what_is_not_declared_is_not_found),
        cmocka_unit_test(only_messages_are_messages),
        cmocka_unit_test(a_set_cut_inside_a_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
