#include "base/config.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/limits.h"

typedef struct listener {
    char *address;
    bool tls;
} listener;

typedef struct conf {
    char *state_dir;
    char *note;
    bool require_init;
    int64_t sessions;
    uint64_t idle_ttl_ns;
    int64_t memory_bytes;
    int auth;
    box_config_strings guarantees;
    box_config_records listen;
    box_config_records warden;
} conf;

static const char *const auths[] = {"token", "off", NULL};

static const box_config_key listener_keys[] = {
    {"address", BOX_CONFIG_STRING, offsetof(listener, address), .help = "Where."},
    {"tls", BOX_CONFIG_BOOL, offsetof(listener, tls), .number = true, .help = "TLS."},
};

static const box_config_key keys[] = {
    {"state_dir", BOX_CONFIG_STRING, offsetof(conf, state_dir), .text = "/var/lib/box",
     .help = "State."},
    {"note", BOX_CONFIG_STRING, offsetof(conf, note), .help = "A note."},
    {"server.listen", BOX_CONFIG_RECORDS, offsetof(conf, listen), .max = 3, .fields = listener_keys,
     .n_fields = BOX_COUNT(listener_keys), .record_size = sizeof(listener), .help = "Listeners."},
    {"server.auth", BOX_CONFIG_ENUM, offsetof(conf, auth), .text = "token", .choices = auths,
     .help = "Authentication."},
    {"server.require_init", BOX_CONFIG_BOOL, offsetof(conf, require_init), .help = "Gate."},
    {"warden", BOX_CONFIG_MAP, offsetof(conf, warden), .max = 2, .help = "Sockets."},
    {"limits.sessions", BOX_CONFIG_INT, offsetof(conf, sessions), .number = 10000, .min = 1,
     .max = 1000000, .help = "Sessions."},
    {"limits.idle_ttl", BOX_CONFIG_DURATION, offsetof(conf, idle_ttl_ns),
     .number = 300 * (int64_t)BOX_SECOND, .min = (int64_t)BOX_SECOND,
     .max = 3600 * (int64_t)BOX_SECOND, .help = "Idle."},
    {"limits.memory", BOX_CONFIG_BYTES, offsetof(conf, memory_bytes), .number = 512 << 20, .min = 0,
     .max = INT64_C(1) << 40, .help = "Memory."},
    {"admission.guarantees", BOX_CONFIG_STRINGS, offsetof(conf, guarantees), .max = 3,
     .help = "Guarantees."},
    {"box.docker", BOX_CONFIG_NOT_BUILT, 0, .help = "the docker backend"},
};

static const box_config_schema schema = {
    .keys = keys, .n_keys = BOX_COUNT(keys), .size = sizeof(conf), .env_prefix = "BOX"};

static int parse(const char *yaml, conf *out, box_error *err)
{
    return box_config_parse(&schema, "box.yaml", yaml, strlen(yaml), NULL, out, err);
}

static void assert_refused(const char *yaml, const char *message)
{
    conf c = {.sessions = 77};
    box_error err = {0};
    assert_int_equal(parse(yaml, &c, &err), -1);
    assert_string_equal(err.msg, message);
    assert_int_equal(err.reason, BOX_VALIDATION);
    assert_int_equal(c.sessions, 77); /* left alone */
}

static const char full[] = "# everything\n"
                           "state_dir: /srv/box\n"
                           "note: \"a \\\"quoted\\\" \\\\ n\xc3\xb6te\\twith a tab\"\n"
                           "server:\n"
                           "  listen:\n"
                           "    - {address: '127.0.0.1:5410', tls: false}\n"
                           "    - address: '[::1]:5410'\n"
                           "  auth: off\n"
                           "  require_init: true\n"
                           "warden: {namespace: /run/box/namespace.sock, host: /run/h}\n"
                           "limits:\n"
                           "  sessions: 12\n"
                           "  idle_ttl: 90s\n"
                           "  memory: 3GiB\n"
                           "admission:\n"
                           "  guarantees: [memory, \"pids\"]\n";

static void assert_full(const conf *c)
{
    const listener *l = c->listen.items;
    const box_config_pair *w = c->warden.items;
    assert_string_equal(c->state_dir, "/srv/box");
    assert_string_equal(c->note, "a \"quoted\" \\ n\xc3\xb6te\twith a tab");
    assert_int_equal(c->listen.count, 2);
    assert_string_equal(l[0].address, "127.0.0.1:5410");
    assert_false(l[0].tls);
    assert_string_equal(l[1].address, "[::1]:5410");
    assert_true(l[1].tls);
    assert_int_equal(c->auth, 1);
    assert_true(c->require_init);
    assert_int_equal(c->warden.count, 2);
    assert_string_equal(w[0].name, "namespace");
    assert_string_equal(w[0].value, "/run/box/namespace.sock");
    assert_int_equal(c->sessions, 12);
    assert_true(c->idle_ttl_ns == 90 * BOX_SECOND);
    assert_true(c->memory_bytes == INT64_C(3) << 30);
    assert_int_equal(c->guarantees.count, 2);
    assert_string_equal(c->guarantees.items[1], "pids");
}

static void no_file_gives_the_defaults(void **state)
{
    (void)state;
    conf c;
    box_error err;
    assert_int_equal(box_config_load(&schema, NULL, NULL, &c, &err), 0);
    assert_string_equal(c.state_dir, "/var/lib/box");
    assert_null(c.note);
    assert_int_equal(c.sessions, 10000);
    assert_true(c.idle_ttl_ns == 300 * BOX_SECOND);
    assert_int_equal(c.auth, 0);
    assert_int_equal(c.listen.count, 0);
    box_config_done(&schema, &c);
}

static void an_empty_file_and_empty_sections_give_the_defaults(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "", "\n# only a comment\n", "---\n", "limits:\nserver:\n", "warden:\n", "limits: {}\n"};
    for (size_t i = 0; i < BOX_COUNT(texts); i++) {
        conf c;
        box_error err;
        assert_int_equal(parse(texts[i], &c, &err), 0);
        assert_int_equal(c.sessions, 10000);
        box_config_done(&schema, &c);
    }
}

static void every_type_of_value_is_read(void **state)
{
    (void)state;
    conf c;
    box_error err;
    assert_int_equal(parse(full, &c, &err), 0);
    assert_full(&c);
    box_config_done(&schema, &c);
}

static void what_is_printed_parses_to_the_same_values(void **state)
{
    (void)state;
    conf c;
    conf again;
    box_error err;
    char *text = NULL;
    size_t len = 0;
    assert_int_equal(parse(full, &c, &err), 0);
    FILE *to = open_memstream(&text, &len);
    assert_int_equal(box_config_print(&schema, &c, to), 0);
    (void)fclose(to);
    assert_int_equal(parse(text, &again, &err), 0);
    assert_full(&again);
    assert_non_null(strstr(text, "limits:\n  # Sessions.\n  sessions: 12\n"));
    assert_non_null(strstr(text, "  idle_ttl: 90s\n"));
    assert_non_null(strstr(text, "  memory: 3GiB\n"));
    assert_null(strstr(text, "docker"));
    free(text);
    box_config_done(&schema, &c);
    box_config_done(&schema, &again);
}

static void printed_defaults_parse_to_the_defaults(void **state)
{
    (void)state;
    conf c;
    conf again;
    box_error err;
    char *text = NULL;
    size_t len = 0;
    assert_int_equal(parse("", &c, &err), 0);
    FILE *to = open_memstream(&text, &len);
    assert_int_equal(box_config_print(&schema, &c, to), 0);
    (void)fclose(to);
    assert_int_equal(parse(text, &again, &err), 0);
    assert_string_equal(again.state_dir, "/var/lib/box");
    assert_null(again.note);
    assert_int_equal(again.sessions, 10000);
    assert_int_equal(again.auth, 0);
    free(text);
    box_config_done(&schema, &c);
    box_config_done(&schema, &again);
}

static void each_mistake_is_told_with_its_place(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"sttae_dir: /x\n", "box.yaml:1:1: sttae_dir: is not a key"},
        {"server:\n  lisen: []\n", "box.yaml:2:3: server.lisen: is not a key"},
        {"server.auth: off\n", "box.yaml:1:1: server.auth: is not a key"},
        {"state_dir: /a\nstate_dir: /b\n", "box.yaml:2:1: state_dir: is there twice"},
        {"limits: {}\nserver: {}\nlimits: {}\n", "box.yaml:3:1: limits: is there twice"},
        {"limits: 5\n", "box.yaml:1:9: limits: is a section: it needs keys below it"},
        {"limits:\n  sessions: many\n", "box.yaml:2:13: limits.sessions: must be a whole number"},
        {"limits: {sessions: '5'}\n", "box.yaml:1:20: limits.sessions: must be a whole number"},
        {"limits: {sessions: 0}\n",
         "box.yaml:1:20: limits.sessions: 0 is out of range, allowed are 1 to 1000000"},
        {"limits: {sessions: -1}\n",
         "box.yaml:1:20: limits.sessions: -1 is out of range, allowed are 1 to 1000000"},
        {"limits: {sessions: 99999999999999999999}\n",
         "box.yaml:1:20: limits.sessions: the number does not fit 64 bits"},
        {"limits: {sessions: 0x10}\n", "box.yaml:1:20: limits.sessions: must be a whole number"},
        {"limits: {sessions: [1]}\n", "box.yaml:1:20: limits.sessions: must be one value"},
        {"limits: {sessions: }\n", "box.yaml:1:20: limits.sessions: the value is missing"},
        {"limits: {idle_ttl: 30}\n",
         "box.yaml:1:20: limits.idle_ttl: \"30\" is not a duration: a whole number with ms, s, m, "
         "h or d"},
        {"limits: {idle_ttl: 30 s}\n",
         "box.yaml:1:20: limits.idle_ttl: \"30 s\" is not a duration: a whole number with ms, s, "
         "m, h or d"},
        {"limits: {idle_ttl: 2h}\n",
         "box.yaml:1:20: limits.idle_ttl: 2h is out of range, allowed are 1s to 1h"},
        {"limits: {memory: 5MB}\n",
         "box.yaml:1:18: limits.memory: \"5MB\" is not a size: a whole number of bytes, or with "
         "KiB, MiB, GiB or TiB"},
        {"limits: {memory: 2TiB}\n",
         "box.yaml:1:18: limits.memory: 2TiB is out of range, allowed are 0 to 1TiB"},
        {"server: {auth: maybe}\n",
         "box.yaml:1:16: server.auth: \"maybe\" is not one of token, off"},
        {"server: {require_init: yes}\n",
         "box.yaml:1:24: server.require_init: must be true or false"},
        {"server: {require_init: 'true'}\n",
         "box.yaml:1:24: server.require_init: must be true or false"},
        {"state_dir: ~\n",
         "box.yaml:1:12: state_dir: null is no text; leave the key out or quote it"},
        {"server:\n  listen: 127.0.0.1:5410\n",
         "box.yaml:2:11: server.listen: must be a list of mappings"},
        {"server:\n  listen:\n    - 127.0.0.1:5410\n",
         "box.yaml:3:7: server.listen: each entry must be a mapping"},
        {"server:\n  listen:\n    - {tls: true}\n    - {port: 1}\n",
         "box.yaml:4:8: server.listen[1].port: is not a key"},
        {"server:\n  listen:\n    - {tls: maybe}\n",
         "box.yaml:3:13: server.listen[0].tls: must be true or false"},
        {"server:\n  listen:\n    - {tls: true, tls: true}\n",
         "box.yaml:3:19: server.listen[0].tls: is there twice"},
        {"server: {listen: [{}, {}, {}, {}]}\n", "box.yaml:1:31: server.listen: at most 3 entries"},
        {"warden: [a]\n", "box.yaml:1:9: warden: must be a mapping of names to texts"},
        {"warden: {a: [b]}\n", "box.yaml:1:13: warden.a: must be one text"},
        {"warden: {a: b, a: c}\n", "box.yaml:1:16: warden.a: is there twice"},
        {"warden: {a: b, c: d, e: f}\n", "box.yaml:1:25: warden: at most 2 entries"},
        {"admission: {guarantees: memory}\n",
         "box.yaml:1:25: admission.guarantees: must be a list of texts"},
        {"admission: {guarantees: [{}]}\n",
         "box.yaml:1:26: admission.guarantees: each entry must be one text"},
        {"admission: {guarantees: [a, b, c, d]}\n",
         "box.yaml:1:35: admission.guarantees: at most 3 entries"},
        {"box:\n  docker:\n    socket: /x\n",
         "box.yaml:2:3: box.docker: is not built yet: the docker backend"},
        {"- a\n", "box.yaml:1:1: the file must be a mapping of keys to values"},
        {"just text\n", "box.yaml:1:1: the file must be a mapping of keys to values"},
        {"? [a]\n: b\n", "box.yaml:1:3: : a key must be one text"},
    };
    for (size_t i = 0; i < BOX_COUNT(cases); i++)
        assert_refused(cases[i][0], cases[i][1]);
}

static void document_features_of_yaml_are_refused(void **state)
{
    (void)state;
    assert_refused("state_dir: &a /x\n", "box.yaml:1:12: YAML anchors are not allowed");
    assert_refused("state_dir: *a\n", "box.yaml:1:12: YAML aliases are not allowed");
    assert_refused("state_dir: !!str x\n", "box.yaml:1:12: YAML tags are not allowed");
    assert_refused("limits: &a {}\n", "box.yaml:1:9: YAML anchors are not allowed");
    assert_refused("admission:\n  guarantees: !x [a]\n",
                   "box.yaml:2:15: YAML tags are not allowed");
    assert_refused("<<: {state_dir: /x}\n", "box.yaml:1:1: <<: is not a key");
    assert_refused("%YAML 1.1\n---\nstate_dir: /x\n",
                   "box.yaml:1:1: YAML directives are not allowed");
    assert_refused("state_dir: /x\n---\nnote: b\n",
                   "box.yaml:2:1: only one YAML document is allowed");
}

static void broken_text_is_told_with_its_place(void **state)
{
    (void)state;
    assert_refused("note: a\n  b: c\n",
                   "box.yaml:2:4: mapping values are not allowed in this context");
    assert_refused("note: ok\nstate_dir: \xff\n", "box.yaml:2:12: the text is not UTF-8");
    assert_refused("note: \xc3\xb6\x01\n", "box.yaml:1:8: control characters are not allowed");
    assert_refused("note: \"a\\0b\"\n", "box.yaml:1:7: text with a NUL byte");
    assert_refused("limits: {sessions: 5\n", "box.yaml:2:1: did not find expected ',' or '}'");
}

static void a_file_cut_at_any_byte_is_read_or_refused(void **state)
{
    (void)state;
    size_t whole = strlen(full);
    size_t refused = 0;
    for (size_t len = 0; len <= whole; len++) {
        /* A copy of exactly that size, so that reading past it is seen by the sanitizers. */
        BOX_AUTO(box_freep) char *cut = box_alloc(len + 1);
        memcpy(cut, full, len);
        conf c;
        box_error err = {0};
        if (box_config_parse(&schema, "cut", cut, len, NULL, &c, &err) == 0) {
            box_config_done(&schema, &c);
        } else {
            assert_int_equal(err.reason, BOX_VALIDATION);
            assert_memory_equal(err.msg, "cut:", 4);
            refused++;
        }
    }
    assert_in_range(refused, whole / 3, whole);
}

static void a_file_with_any_byte_changed_never_crashes(void **state)
{
    (void)state;
    static const char bytes[] = {'\0', '[', '{', ']',  '}',    ':', '"',
                                 '&',  '*', '!', '\n', '\xff', '-'};
    for (size_t i = 0; i < strlen(full); i++) {
        for (size_t b = 0; b < BOX_COUNT(bytes); b++) {
            BOX_AUTO(box_freep) char *copy = box_strdup(full);
            copy[i] = bytes[b];
            conf c;
            box_error err = {0};
            if (box_config_parse(&schema, "x", copy, strlen(full), NULL, &c, &err) == 0)
                box_config_done(&schema, &c);
            else
                assert_int_equal(err.reason, BOX_VALIDATION);
        }
    }
}

static void deep_nesting_is_refused_where_the_table_ends(void **state)
{
    (void)state;
    size_t len = 100000;
    BOX_AUTO(box_freep) char *text = box_alloc(len + 1);
    memset(text, '[', len);
    memcpy(text, "note: ", 6);
    conf c;
    box_error err = {0};
    assert_int_equal(box_config_parse(&schema, "deep", text, len, NULL, &c, &err), -1);
    assert_string_equal(err.msg, "deep:1:7: note: must be one value");
}

static void a_file_that_is_too_large_is_refused(void **state)
{
    (void)state;
    size_t len = BOX_CONFIG_MAX_BYTES + 1;
    BOX_AUTO(box_freep) char *text = box_alloc(len + 1);
    memset(text, '\n', len);
    conf c;
    box_error err = {0};
    assert_int_equal(box_config_parse(&schema, "big", text, len, NULL, &c, &err), -1);
    assert_string_equal(err.msg, "big: larger than 262144 bytes");
    assert_int_equal(box_config_parse(&schema, "big", text, len - 1, NULL, &c, &err), 0);
    box_config_done(&schema, &c);
}

static int load_env(const char *variable, conf *c, box_error *err)
{
    char *copy = box_strdup(variable);
    char *env[] = {(char[]){"HOME=/root"}, (char[]){"BOX_TOKEN_FILE=/x"}, copy, NULL};
    int rc = box_config_parse(&schema, "box.yaml", full, strlen(full), env, c, err);
    free(copy);
    return rc;
}

static void the_environment_overrides_the_file(void **state)
{
    (void)state;
    conf c;
    box_error err;
    assert_int_equal(load_env("BOX__LIMITS__SESSIONS=99", &c, &err), 0);
    assert_int_equal(c.sessions, 99);
    box_config_done(&schema, &c);
    assert_int_equal(load_env("BOX__STATE_DIR=/elsewhere", &c, &err), 0);
    assert_string_equal(c.state_dir, "/elsewhere");
    box_config_done(&schema, &c);
    assert_int_equal(load_env("BOX__ADMISSION__GUARANTEES=a,b,c", &c, &err), 0);
    assert_int_equal(c.guarantees.count, 3);
    assert_string_equal(c.guarantees.items[2], "c");
    box_config_done(&schema, &c);
    assert_int_equal(load_env("BOX__ADMISSION__GUARANTEES=", &c, &err), 0);
    assert_int_equal(c.guarantees.count, 0);
    box_config_done(&schema, &c);
    assert_int_equal(load_env("BOX__WARDEN__NAMESPACE=/tmp/n.sock", &c, &err), 0);
    assert_int_equal(c.warden.count, 2);
    assert_string_equal(((box_config_pair *)c.warden.items)[0].value, "/tmp/n.sock");
    box_config_done(&schema, &c);
}

static void a_wrong_variable_is_told_by_its_name(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"BOX__LIMITS__SESSION=9",
         "environment variable BOX__LIMITS__SESSION: limits.session is not a key"},
        {"BOX__LIMITS=9", "environment variable BOX__LIMITS: limits is not a key"},
        {"BOX__=9", "environment variable BOX__:  is not a key"},
        {"BOX__LIMITS__SESSIONS=0",
         "environment variable BOX__LIMITS__SESSIONS: limits.sessions: 0 is out of range, allowed "
         "are 1 to 1000000"},
        {"BOX__SERVER__LISTEN=127.0.0.1:1",
         "environment variable BOX__SERVER__LISTEN: server.listen: can only be set in the file"},
        {"BOX__BOX__DOCKER__SOCKET=/x",
         "environment variable BOX__BOX__DOCKER__SOCKET: box.docker: is not built yet: the docker "
         "backend"},
        {"BOX__ADMISSION__GUARANTEES=a,,b",
         "environment variable BOX__ADMISSION__GUARANTEES: admission.guarantees: an entry of the "
         "list is empty"},
        {"BOX__WARDEN__A=b", "environment variable BOX__WARDEN__A: warden: at most 2 entries"},
    };
    for (size_t i = 0; i < BOX_COUNT(cases); i++) {
        conf c;
        box_error err = {0};
        assert_int_equal(load_env(cases[i][0], &c, &err), -1);
        assert_string_equal(err.msg, cases[i][1]);
    }
}

static void a_missing_file_is_told_by_its_name(void **state)
{
    (void)state;
    conf c;
    box_error err = {0};
    assert_int_equal(box_config_load(&schema, "/nonexistent/box.yaml", NULL, &c, &err), -1);
    assert_string_equal(err.msg, "/nonexistent/box.yaml: No such file or directory");
    assert_int_equal(err.reason, BOX_VALIDATION);
}

static void a_file_is_loaded(void **state)
{
    (void)state;
    char path[] = "/tmp/box-config-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, full, strlen(full)), (ssize_t)strlen(full));
    (void)close(fd);
    conf c;
    box_error err = {0};
    int rc = box_config_load(&schema, path, NULL, &c, &err);
    (void)unlink(path);
    assert_int_equal(rc, 0);
    assert_full(&c);
    box_config_done(&schema, &c);
}

static void durations_are_read_with_their_unit(void **state)
{
    (void)state;
    uint64_t ns = 7;
    box_error err;
    assert_int_equal(box_parse_duration("250ms", &ns, &err), 0);
    assert_true(ns == 250 * BOX_MS);
    assert_int_equal(box_parse_duration("0s", &ns, &err), 0);
    assert_true(ns == 0);
    assert_int_equal(box_parse_duration("2d", &ns, &err), 0);
    assert_true(ns == 2 * 86400 * BOX_SECOND);
    static const char *const bad[] = {"",
                                      "s",
                                      "1",
                                      "-1s",
                                      "1.5h",
                                      "1S",
                                      "1 s",
                                      "1sec",
                                      " 1s",
                                      "+1s",
                                      "99999999999999999999s",
                                      "999999999999d"};
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        ns = 7;
        assert_int_equal(box_parse_duration(bad[i], &ns, &err), -1);
        assert_true(ns == 7);
    }
}

static void sizes_are_read_with_their_unit(void **state)
{
    (void)state;
    int64_t bytes = 7;
    box_error err;
    assert_int_equal(box_parse_bytes("512", &bytes, &err), 0);
    assert_true(bytes == 512);
    assert_int_equal(box_parse_bytes("64KiB", &bytes, &err), 0);
    assert_true(bytes == 65536);
    assert_int_equal(box_parse_bytes("8388607TiB", &bytes, &err), 0);
    static const char *const bad[] = {"",   "KiB",    "1KB",   "1k",
                                      "-1", "1.5GiB", "1 MiB", "8388608TiB"};
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        bytes = 7;
        assert_int_equal(box_parse_bytes(bad[i], &bytes, &err), -1);
        assert_true(bytes == 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_file_gives_the_defaults),
        cmocka_unit_test(an_empty_file_and_empty_sections_give_the_defaults),
        cmocka_unit_test(every_type_of_value_is_read),
        cmocka_unit_test(what_is_printed_parses_to_the_same_values),
        cmocka_unit_test(printed_defaults_parse_to_the_defaults),
        cmocka_unit_test(each_mistake_is_told_with_its_place),
        cmocka_unit_test(document_features_of_yaml_are_refused),
        cmocka_unit_test(broken_text_is_told_with_its_place),
        cmocka_unit_test(a_file_cut_at_any_byte_is_read_or_refused),
        cmocka_unit_test(a_file_with_any_byte_changed_never_crashes),
        cmocka_unit_test(deep_nesting_is_refused_where_the_table_ends),
        cmocka_unit_test(a_file_that_is_too_large_is_refused),
        cmocka_unit_test(the_environment_overrides_the_file),
        cmocka_unit_test(a_wrong_variable_is_told_by_its_name),
        cmocka_unit_test(a_missing_file_is_told_by_its_name),
        cmocka_unit_test(a_file_is_loaded),
        cmocka_unit_test(durations_are_read_with_their_unit),
        cmocka_unit_test(sizes_are_read_with_their_unit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
