#include "warden/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
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

static void workspaces_kept_ready_are_put_in_order(void **state)
{
    (void)state;
    box_warden_config c;
    box_error err;
    assert_int_equal(parse("", &c, &err), 0);
    const box_disk_class *classes = c.disk.pool.items;
    assert_null(c.disk.directory);
    assert_int_equal(c.disk.pool.count, 3);
    assert_int_equal(classes[0].bytes, INT64_C(256) << 20);
    assert_int_equal(classes[0].ready, 2);
    assert_int_equal(c.disk.keep_free_bytes, INT64_C(1) << 30);
    box_warden_config_done(&c);
    static const char yaml[] = "disk:\n  directory: /var/x\n  total: 10GiB\n  keep_free: 0\n"
                               "  pool: [{size: 2GiB, ready: 3}, {size: 64MiB}]\n";
    assert_int_equal(parse(yaml, &c, &err), 0);
    classes = c.disk.pool.items;
    assert_string_equal(c.disk.directory, "/var/x");
    assert_int_equal(c.disk.total_bytes, INT64_C(10) << 30);
    assert_int_equal(c.disk.keep_free_bytes, 0);
    assert_int_equal(c.disk.pool.count, 2);
    assert_int_equal(classes[0].bytes, INT64_C(64) << 20);
    assert_int_equal(classes[0].ready, 1);
    assert_int_equal(classes[1].bytes, INT64_C(2) << 30);
    assert_int_equal(classes[1].ready, 3);
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
        "maxima: {workspace: 15TiB}\n",
        "disk: {directory: var/x}\n",
        "disk: {pool: [{size: 1GiB}, {ready: 2}]}\n",
        "disk: {pool: [{size: 1GiB}, {size: 1024MiB}]}\n",
        "disk: {pool: [{size: 1GiB, ready: 65}]}\n",
        "disk: {pool: [{size: 512KiB}]}\n",
        "disk: {total: -1}\n",
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

static void assert_refused(const char *yaml, const char *message)
{
    box_warden_config c;
    box_error err;
    assert_int_equal(parse(yaml, &c, &err), -1);
    assert_string_equal(err.msg, message);
}

static void a_refusal_names_the_place_and_the_key(void **state)
{
    (void)state;
    assert_refused("peer_uid: nosuchuser\n",
                   "warden.yaml:1:11: peer_uid: there is no user nosuchuser");
    assert_refused("log: {level: info}\nsocket: run/x\n",
                   "warden.yaml:2:9: socket: must be an absolute path");
    assert_refused("allowed_roots:\n  - {path: /a, owner_uid: 1000}\n  - path: b\n",
                   "warden.yaml:3:11: allowed_roots[1].path: must be an absolute path");
    assert_refused("allowed_roots: [{owner_uid: 1000}]",
                   "warden.yaml:1:17: allowed_roots[0].path: is missing");
    assert_refused("allowed_roots: [{path: /a, owner_uid: 999}]",
                   "warden.yaml:1:39: allowed_roots[0].owner_uid: must be 1000 or above");
    assert_refused("images: /y\n", "warden.yaml:1:1: images: is not built yet: imported images");
}

static int load_with_mode(mode_t mode, uid_t owner, box_error *err)
{
    char path[] = "/tmp/box-warden-config-XXXXXX";
    box_warden_config c;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(fchown(fd, owner, (gid_t)-1), 0);
    (void)close(fd);
    *err = (box_error){0};
    int rc = box_warden_config_load(path, NULL, &c, err);
    (void)unlink(path);
    if (rc == 0)
        box_warden_config_done(&c);
    return rc;
}

static void a_file_that_others_may_write_is_refused(void **state)
{
    (void)state;
    box_error err;
    assert_int_equal(load_with_mode(0600, geteuid(), &err), 0);
    assert_int_equal(load_with_mode(0644, geteuid(), &err), 0);
    assert_int_equal(load_with_mode(0664, geteuid(), &err), -1);
    assert_non_null(
        strstr(err.msg, ": its group or others may write it: forbid that (chmod go-w)"));
    assert_int_equal(load_with_mode(0602, geteuid(), &err), -1);
    assert_int_equal(err.reason, BOX_VALIDATION);
}

static void a_file_of_another_user_is_refused(void **state)
{
    (void)state;
    box_error err;
    if (geteuid() != 0)
        skip(); /* only root can give a file away */
    assert_int_equal(load_with_mode(0600, 65534, &err), -1);
    assert_non_null(strstr(err.msg, ": belongs to user 65534: make it root's (chown root)"));
}

static void the_environment_overrides_by_the_same_names_as_for_boxd(void **state)
{
    (void)state;
    char *env[] = {(char[]){"BOX__MAXIMA__PIDS=64"}, (char[]){"BOX__SERVER__AUTH=off"}, NULL};
    char *wrong[] = {(char[]){"BOX__MAXIMA__PIDZ=64"}, NULL};
    char *unknown[] = {(char[]){"BOX__NONSENSE=64"}, NULL};
    box_warden_config c;
    box_error err = {0};
    assert_int_equal(box_warden_config_load(NULL, env, &c, &err), 0);
    assert_int_equal(c.maxima.pids, 64);
    box_warden_config_done(&c);
    assert_int_equal(box_warden_config_load(NULL, wrong, &c, &err), -1);
    assert_int_equal(box_warden_config_load(NULL, unknown, &c, &err), -1);
    assert_string_equal(err.msg, "environment variable BOX__NONSENSE: nonsense is not a key");
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
        cmocka_unit_test(a_refusal_names_the_place_and_the_key),
        cmocka_unit_test(a_file_that_others_may_write_is_refused),
        cmocka_unit_test(a_file_of_another_user_is_refused),
        cmocka_unit_test(the_environment_overrides_by_the_same_names_as_for_boxd),
        cmocka_unit_test(an_empty_file_gives_the_defaults),
        cmocka_unit_test(every_key_is_read),
        cmocka_unit_test(workspaces_kept_ready_are_put_in_order),
        cmocka_unit_test(what_would_be_dangerous_or_useless_is_refused),
        cmocka_unit_test(a_peer_is_a_name_or_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
