#include "server/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "warden/protocol.h"

static int parse(const char *yaml, box_server_config *out, box_error *err)
{
    return box_server_config_parse("boxd.yaml", yaml, strlen(yaml), NULL, out, err);
}

static void assert_refused(const char *yaml, const char *message)
{
    box_server_config c;
    box_error err = {0};
    assert_int_equal(parse(yaml, &c, &err), -1);
    assert_int_equal(err.reason, BOX_VALIDATION);
    assert_string_equal(err.msg, message);
}

static void the_defaults_are_those_of_the_design(void **state)
{
    (void)state;
    box_server_config c;
    box_error err;
    assert_int_equal(box_server_config_load(NULL, NULL, NULL, &c, &err), 0);
    assert_int_equal(c.listen.count, 0);
    assert_null(c.unix_socket);
    assert_int_equal(c.auth, BOX_AUTH_TOKEN);
    assert_false(c.require_init);
    assert_int_equal(c.max_message_bytes, 16 * 1024 * 1024);
    assert_int_equal(c.loops, 0);
    assert_int_equal(c.workers, 4);
    assert_true(c.drain_ns == 3 * BOX_SECOND);
    assert_string_equal(c.state_dir, "/var/lib/box");
    assert_int_equal(c.log_level, BOX_INFO);
    assert_int_equal(c.log_format, BOX_LOG_TEXT);
    assert_true(c.box_enabled);
    assert_string_equal(c.box_backend, "auto");
    assert_string_equal(c.box_default_profile, "default");
    assert_int_equal(c.max_sessions, 10000);
    assert_int_equal(c.max_sessions_per_tenant, 256);
    assert_int_equal(c.when_full, BOX_FULL_REFUSE);
    assert_false(c.allow_no_idle_ttl);
    assert_true(c.idle_ttl_ns == 300 * BOX_SECOND);
    assert_true(c.lifetime_ns == 48 * 3600 * BOX_SECOND);
    assert_false(c.admission_required);
    box_server_config_done(&c);
}

static void addresses_get_their_port_and_one_form(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"127.0.0.1", "127.0.0.1:5410"}, {"127.9.9.9:1", "127.9.9.9:1"},
        {"localhost", "127.0.0.1:5410"}, {"localhost:80", "127.0.0.1:80"},
        {"[::1]", "[::1]:5410"},         {"[::1]:0", "[::1]:0"},
        {"0.0.0.0", "0.0.0.0:5410"},     {"[::]:65535", "[::]:65535"},
    };
    for (size_t i = 0; i < BOX_COUNT(cases); i++) {
        char yaml[128];
        box_server_config c;
        box_error err = {0};
        (void)snprintf(yaml, sizeof yaml, "server: {listen: [{address: '%s'}]}", cases[i][0]);
        assert_int_equal(parse(yaml, &c, &err), 0);
        const box_listen_config *l = c.listen.items;
        assert_string_equal(l->address, cases[i][1]);
        assert_true(l->tls);
        box_server_config_done(&c);
    }
}

static void an_address_that_is_none_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "::1",
                                      ":5410",
                                      "[::1",
                                      "[::1]x",
                                      "127.0.0.1:",
                                      "127.0.0.1:65536",
                                      "127.0.0.1:1x",
                                      "box.example.com:5410",
                                      "[127.0.0.1]:1",
                                      "1.2.3:4",
                                      "[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]"};
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        char yaml[128];
        box_server_config c;
        box_error err = {0};
        (void)snprintf(yaml, sizeof yaml, "server: {listen: [{address: '%s'}]}", bad[i]);
        assert_int_equal(parse(yaml, &c, &err), -1);
        assert_non_null(strstr(err.msg, "boxd.yaml:1:29: server.listen[0].address: "));
    }
    assert_refused("server: {listen: [{tls: true}]}",
                   "boxd.yaml:1:19: server.listen[0].address: is missing");
}

static void a_listener_for_other_hosts_needs_tls_and_tokens(void **state)
{
    (void)state;
    assert_refused("server: {listen: [{address: localhost}, {address: 0.0.0.0, tls: false}]}",
                   "boxd.yaml:1:51: server.listen[1].address: other hosts reach this address: it "
                   "needs tls: true");
    assert_refused("server: {auth: off, listen: [{address: '[::]'}]}",
                   "boxd.yaml:1:40: server.listen[0].address: other hosts reach this address: it "
                   "needs server.auth: token");
    assert_refused("server: {auth: off, listen: [{address: 192.168.1.1}]}",
                   "boxd.yaml:1:40: server.listen[0].address: other hosts reach this address: it "
                   "needs server.auth: token");
    assert_refused("server: {listen: [{address: '[::ffff:127.0.0.1]', tls: false}]}",
                   "boxd.yaml:1:29: server.listen[0].address: other hosts reach this address: it "
                   "needs tls: true");
}

static void loopback_may_be_clear_text_without_tokens(void **state)
{
    (void)state;
    box_server_config c;
    box_error err = {0};
    assert_int_equal(parse("server: {auth: off, listen: [{address: '[::1]:1', tls: false}, "
                           "{address: 127.0.0.1, tls: false}]}",
                           &c, &err),
                     0);
    assert_int_equal(c.listen.count, 2);
    box_server_config_done(&c);
}

static void keys_that_contradict_each_other_are_refused(void **state)
{
    (void)state;
    assert_refused("tls: {cert: /a}",
                   "boxd.yaml:1:13: tls.cert: tls.cert and tls.key need each other");
    assert_refused("tls: {key: /a}",
                   "boxd.yaml:1:12: tls.key: tls.cert and tls.key need each other");
    assert_refused("state_dir: here", "boxd.yaml:1:12: state_dir: must be an absolute path");
    assert_refused("warden: {namespace: sock}",
                   "boxd.yaml:1:21: warden.namespace: must be an absolute path");
    assert_refused("limits: {idle_ttl: 2h, lifetime: 1h}",
                   "boxd.yaml:1:20: limits.idle_ttl: is longer than limits.lifetime");
    char yaml[256];
    (void)snprintf(yaml, sizeof yaml, "server: {unix_socket: /%0107d}", 0);
    assert_refused(yaml, "boxd.yaml:1:23: server.unix_socket: is longer than 107 bytes");
}

static void keys_that_are_not_built_are_refused_by_name(void **state)
{
    (void)state;
    assert_refused("box:\n  skills_root: /x\n",
                   "boxd.yaml:2:3: box.skills_root: is not built yet: skills");
    assert_refused("box:\n  docker: {socket: /x}\n",
                   "boxd.yaml:2:3: box.docker: is not built yet: the docker backend");
    assert_refused("box:\n  e2b:\n    api_key: x\n",
                   "boxd.yaml:2:3: box.e2b: is not built yet: the e2b backend");
    assert_refused("box: {image: debian}", "boxd.yaml:1:7: box.image: is not built yet: imported "
                                           "images");
}

static void what_is_printed_loads_again(void **state)
{
    (void)state;
    static const char yaml[] =
        "server: {unix_socket: /run/box/boxd.sock, listen: [{address: localhost}], drain: 250ms}\n"
        "tls: {cert: /etc/box/c.pem, key: /etc/box/k.pem, min_version: '1.3'}\n"
        "warden: {namespace: /run/box/namespace.sock}\n"
        "log: {level: off, format: json}\n"
        "box: {backend: namespace, default_memory: 1536MiB}\n"
        "admission: {required: true, guarantees: [memory, pids]}\n";
    box_server_config c;
    box_server_config again;
    box_error err = {0};
    char *text = NULL;
    size_t len = 0;
    assert_int_equal(parse(yaml, &c, &err), 0);
    FILE *to = open_memstream(&text, &len);
    assert_int_equal(box_server_config_print(&c, to), 0);
    (void)fclose(to);
    assert_int_equal(parse(text, &again, &err), 0);
    assert_string_equal(((box_listen_config *)again.listen.items)->address, "127.0.0.1:5410");
    assert_string_equal(again.unix_socket, "/run/box/boxd.sock");
    assert_true(again.drain_ns == 250 * BOX_MS);
    assert_int_equal(again.tls_min_version, 1);
    assert_string_equal(((box_config_pair *)again.warden.items)->name, "namespace");
    assert_int_equal(again.log_level, BOX_LOG_OFF);
    assert_true(again.box_default_memory_bytes == INT64_C(1536) << 20);
    assert_true(again.admission_required);
    assert_int_equal(again.admission_guarantees.count, 2);
    free(text);
    box_server_config_done(&c);
    box_server_config_done(&again);
}

static void the_environment_overrides_and_is_checked_too(void **state)
{
    (void)state;
    char *env[] = {(char[]){"BOX__SERVER__AUTH=off"}, NULL};
    static const char yaml[] = "server: {listen: [{address: 0.0.0.0}]}";
    box_server_config c;
    box_error err = {0};
    assert_int_equal(box_server_config_parse("f", yaml, strlen(yaml), env, &c, &err), -1);
    assert_string_equal(err.msg, "f:1:29: server.listen[0].address: other hosts reach this "
                                 "address: it needs server.auth: token");
}

static void unknown_guarantees_are_refused_and_known_ones_become_bits(void **state)
{
    (void)state;
    box_server_config c;
    box_error err;
    assert_refused("admission: {guarantees: [memory, lunch]}\n",
                   "boxd.yaml:1:34: admission.guarantees[1]: there is no guarantee called lunch");
    assert_int_equal(parse("admission: {guarantees: [memory, pids]}\n", &c, &err), 0);
    assert_int_equal(c.required_guarantees,
                     box_guarantee_from_name("memory") | box_guarantee_from_name("pids"));
    box_server_config_done(&c);
}

static void backend_host_is_refused_where_isolation_is_needed(void **state)
{
    (void)state;
    box_server_config c;
    box_error err;
    assert_refused("box: {backend: host}\nadmission: {required: true}\n",
                   "boxd.yaml:1:16: box.backend: host is refused: admission.required is set");
    assert_refused(
        "box: {backend: host}\n"
        "server: {auth: off, listen: [{address: 127.0.0.1, tls: false}]}\n",
        "boxd.yaml:1:16: box.backend: host is refused: server.auth is off and there is a "
        "TCP listener");
    assert_int_equal(parse("box: {backend: host}\nwarden: {host: /run/box/host.sock}\n"
                           "server: {auth: off, unix_socket: /run/box.sock}\n",
                           &c, &err),
                     0);
    assert_null(box_server_config_host_refused(&c));
    box_server_config_done(&c);
}

static void what_sessions_could_not_use_is_refused(void **state)
{
    (void)state;
    box_server_config c;
    box_error err = {0};
    assert_refused("box:\n  default_profile: x\n",
                   "boxd.yaml:2:20: box.default_profile: there is no profile x: default, "
                   "offline_readonly, network_basic or network_extended");
    assert_refused("box: {default_memory: 1MiB}",
                   "boxd.yaml:1:23: box.default_memory: must be 32MiB or more, or 0");
    assert_refused(
        "box: {backend: docker}\nwarden: {namespace: /x}\n",
        "boxd.yaml:1:16: box.backend: docker is neither auto, local nor a key of warden");
    assert_int_equal(parse("box: {backend: docker, default_memory: 32MiB}\n"
                           "warden: {docker: /x}\n",
                           &c, &err),
                     0);
    box_server_config_done(&c);
    assert_int_equal(parse("box: {backend: local, default_memory: 0}", &c, &err), 0);
    box_server_config_done(&c);
}

static void a_backend_has_a_short_plain_name(void **state)
{
    (void)state;
    assert_refused("warden: {Bad Name: /x}",
                   "boxd.yaml:1:20: warden.Bad Name: a backend's name is 1 to 63 of a-z, 0-9, _ "
                   "and -");
    assert_refused("warden:\n  ok: /x\n  auto: /y\n",
                   "boxd.yaml:3:9: warden.auto: is a choice among backends, not one");
    char yaml[128];
    box_server_config c;
    box_error err = {0};
    (void)snprintf(yaml, sizeof yaml, "warden: {%063d: /x}", 0);
    assert_int_equal(parse(yaml, &c, &err), 0);
    box_server_config_done(&c);
    (void)snprintf(yaml, sizeof yaml, "warden: {%064d: /x}", 0);
    assert_int_equal(parse(yaml, &c, &err), -1);
}

static void a_backend_may_come_with_a_descriptor_instead_of_a_socket(void **state)
{
    (void)state;
    static const char *const spawned[] = {"namespace", NULL};
    char *env[] = {(char[]){"BOX__BOX__BACKEND=namespace"}, NULL};
    box_server_config c;
    box_error err = {0};
    assert_int_equal(box_server_config_load(NULL, env, NULL, &c, &err), -1);
    assert_string_equal(err.msg, "environment variable BOX__BOX__BACKEND: box.backend: namespace "
                                 "is neither auto, local nor a key of warden");
    assert_int_equal(box_server_config_load(NULL, env, spawned, &c, &err), 0);
    assert_string_equal(c.box_backend, "namespace");
    box_server_config_done(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_sessions_could_not_use_is_refused),
        cmocka_unit_test(a_backend_has_a_short_plain_name),
        cmocka_unit_test(a_backend_may_come_with_a_descriptor_instead_of_a_socket),
        cmocka_unit_test(unknown_guarantees_are_refused_and_known_ones_become_bits),
        cmocka_unit_test(backend_host_is_refused_where_isolation_is_needed),
        cmocka_unit_test(the_defaults_are_those_of_the_design),
        cmocka_unit_test(addresses_get_their_port_and_one_form),
        cmocka_unit_test(an_address_that_is_none_is_refused),
        cmocka_unit_test(a_listener_for_other_hosts_needs_tls_and_tokens),
        cmocka_unit_test(loopback_may_be_clear_text_without_tokens),
        cmocka_unit_test(keys_that_contradict_each_other_are_refused),
        cmocka_unit_test(keys_that_are_not_built_are_refused_by_name),
        cmocka_unit_test(what_is_printed_loads_again),
        cmocka_unit_test(the_environment_overrides_and_is_checked_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
