#include "warden/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

static int parse(const char *yaml, box_warden_config *c, box_error *err)
{
    *err = (box_error){0};
    return box_warden_config_parse("warden.yaml", yaml, strlen(yaml), c, err);
}

static void an_empty_file_gives_the_defaults(void **state)
{
    (void)state;
    box_warden_config c;
    box_error err;
    uid_t peer;
    assert_int_equal(parse("", &c, &err), 0);
    assert_null(c.socket);
    assert_string_equal(c.instance_dir, "/run/box/warden");
    assert_int_equal(c.allowed_roots.count, 0);
    assert_int_equal(c.maxima.sandboxes, 10000);
    assert_int_equal(box_warden_config_peer(&c, &peer, &err), 0);
    assert_int_equal(peer, geteuid());
    box_warden_config_done(&c);
}

static void every_key_is_read(void **state)
{
    (void)state;
    static const char yaml[] = "socket: /run/x\npeer_uid: nobody\ninstance_dir: /run/y\n"
                               "agent: /opt/box-agent\ncgroup: /box\nallowed_roots:\n"
                               "  - {path: /srv/a, owner_uid: 1500}\n"
                               "maxima:\n  memory: 1GiB\n  pids: 64\n  sandboxes: 5\n"
                               "log: {level: warn, format: json}\n";
    box_warden_config c;
    box_error err;
    uid_t peer;
    assert_int_equal(parse(yaml, &c, &err), 0);
    const box_allowed_root *root = c.allowed_roots.items;
    assert_int_equal(c.allowed_roots.count, 1);
    assert_string_equal(root->path, "/srv/a");
    assert_int_equal(root->owner_uid, 1500);
    assert_int_equal(c.maxima.memory_bytes, INT64_C(1) << 30);
    assert_int_equal(c.maxima.pids, 64);
    assert_int_equal(c.maxima.sandboxes, 5);
    assert_string_equal(c.cgroup, "/box");
    assert_int_equal(box_warden_config_peer(&c, &peer, &err), 0);
    assert_int_equal(peer, 65534);
    box_warden_config_done(&c);
}

static void what_would_be_dangerous_or_useless_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "sockets: /run/x\n",
        "socket: run/x\n",
        "instance_dir: x\n",
        "peer_uid: no-such-user-here\n",
        "peer_uid: 4294967295\n",
        "images: [debian]\n",
        "allowed_roots:\n  - {path: /srv, owner_uid: 0}\n",
        "allowed_roots:\n  - {path: /srv, owner_uid: 999}\n",
        "allowed_roots:\n  - {path: srv, owner_uid: 1000}\n",
        "allowed_roots:\n  - {path: /srv}\n",
        "maxima: {pids: 0}\n",
        "maxima: {workspace: 1GiB}\n",
        "maxima: {memory: 1}\n",
    };
    box_warden_config c;
    box_error err;
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        assert_int_equal(parse(bad[i], &c, &err), -1);
        assert_int_equal(err.reason, BOX_VALIDATION);
        assert_true(err.msg[0] != '\0');
    }
}

static void a_peer_is_a_name_or_a_number(void **state)
{
    (void)state;
    box_error err;
    uid_t peer;
    char number[] = "4242";
    char name[] = "root";
    box_warden_config c = {.peer_uid = number};
    assert_int_equal(box_warden_config_peer(&c, &peer, &err), 0);
    assert_int_equal(peer, 4242);
    c.peer_uid = name;
    assert_int_equal(box_warden_config_peer(&c, &peer, &err), 0);
    assert_int_equal(peer, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_file_gives_the_defaults),
        cmocka_unit_test(every_key_is_read),
        cmocka_unit_test(what_would_be_dangerous_or_useless_is_refused),
        cmocka_unit_test(a_peer_is_a_name_or_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
