/* Where a sandbox is: control group places, host_path rules, the generated /etc. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "namespace/cgroup_tree.h"
#include "namespace/etc.h"
#include "namespace/hostpath.h"
#include "namespace/proc.h"

static void a_place_is_read_back(void **state)
{
    (void)state;
    const box_cgroup_trees trees = {
        .count = 2,
        .all = {{BOX_CG_MEMORY, 1, "/sys/fs/cgroup/memory/a b"},
                {BOX_CG_PIDS | BOX_CG_CPU, 2, "/sys/fs/cgroup"}},
    };
    char place[BOX_SANDBOX_PLACE_BYTES];
    box_cgroup_trees back;
    box_error err;
    assert_int_equal(box_cgroup_trees_print(&trees, "/box-1/2", place, &err), 0);
    box_cgroup_trees_parse(place, &back);
    assert_int_equal(back.count, 2);
    assert_string_equal(back.all[0].base, "/sys/fs/cgroup/memory/a b/box-1/2");
    assert_int_equal(back.all[1].controllers, BOX_CG_PIDS | BOX_CG_CPU);
    assert_ptr_equal(box_cgroup_find(&back, BOX_CG_CPU), &back.all[1]);
    assert_ptr_equal(box_cgroup_v2(&back), &back.all[1]);
    for (size_t cut = 1; cut < strlen(place); cut++) { /* cut anywhere: whole lines or nothing */
        char part[BOX_SANDBOX_PLACE_BYTES];
        memcpy(part, place, cut);
        part[cut] = '\0';
        box_cgroup_trees_parse(part, &back);
        assert_true(back.count == 0 || (back.count == 1 && part[cut - 1] == '\n'));
    }
}

static void controllers_are_whole_words(void **state)
{
    (void)state;
    assert_int_equal(box_cgroup_bits(""), 0);
    assert_int_equal(box_cgroup_bits("cpuset cpu io memory hugetlb pids rdma misc\n"),
                     BOX_CG_CPU | BOX_CG_MEMORY | BOX_CG_PIDS);
    assert_int_equal(box_cgroup_bits("rw,cpu,cpuacct"), BOX_CG_CPU | BOX_CG_CPUACCT);
    assert_int_equal(box_cgroup_bits("cpuset,memoryx,pid"), 0);
}

static void host_paths_need_a_root_and_never_the_system(void **state)
{
    (void)state;
    char srv[] = "/srv";
    char deep[] = "/srv/deep";
    char all[] = "/";
    char run[] = "/run/box/warden";
    box_allowed_root roots[] = {{srv, 1000}, {deep, 2000}, {all, 3000}};
    box_warden_config c = {.instance_dir = run, .allowed_roots = {roots, 2}};
    const box_allowed_root *root;
    box_error err;
    assert_int_equal(box_hostpath_rule(&c, "/srv/a", &root, &err), 0);
    assert_int_equal(root->owner_uid, 1000);
    assert_int_equal(box_hostpath_rule(&c, "/srv/deep/x", &root, &err), 0);
    assert_int_equal(root->owner_uid, 2000); /* the nearest one */
    assert_int_equal(box_hostpath_rule(&c, "/srvx", &root, &err), -1);
    assert_string_equal(box_error_get(&err, "rule"), "mount");
    c.allowed_roots.count = 3;
    static const char *const never[] = {"/",
                                        "/etc",
                                        "/usr/local",
                                        "/proc/1/root",
                                        "/root",
                                        "/var",
                                        "/var/lib/docker/x",
                                        "/run/docker.sock",
                                        "/dev",
                                        "/var/lib",
                                        "/sys",
                                        "/boot"};
    for (size_t i = 0; i < BOX_COUNT(never); i++) {
        assert_int_equal(box_hostpath_rule(&c, never[i], &root, &err), -1);
        assert_int_equal(err.reason, BOX_PERMISSION);
        assert_string_equal(box_error_get(&err, "rule"), "mount");
    }
    assert_int_equal(box_hostpath_rule(&c, "/home/x", &root, &err), 0);
    c.allowed_roots.count = 0;
    assert_int_equal(box_hostpath_rule(&c, "/srv/a", &root, &err), -1);
}

static void put(int dir, const char *name, mode_t mode)
{
    BOX_AUTO(box_closep) int fd = openat(dir, name, O_CREAT | O_WRONLY | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(write(fd, "x\n", 2), 2);
}

static bool is_there(int dir, const char *name)
{
    struct stat st;
    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void etc_holds_no_secret_of_the_host(void **state)
{
    (void)state;
    char from_path[] = "/tmp/box-etc-XXXXXX";
    char to_path[] = "/tmp/box-etc-XXXXXX";
    assert_non_null(mkdtemp(from_path));
    assert_non_null(mkdtemp(to_path));
    BOX_AUTO(box_closep) int from = open(from_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    BOX_AUTO(box_closep) int to = open(to_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    put(from, "shadow", 0644);
    put(from, "passwd", 0644);
    put(from, "services", 0644);
    put(from, "magic", 0600);
    assert_int_equal(mkdirat(from, "ssl", 0755), 0);
    assert_int_equal(mkdirat(from, "ssl/certs", 0755), 0);
    assert_int_equal(mkdirat(from, "ssl/private", 0755), 0);
    put(from, "ssl/certs/ca.pem", 0644);
    put(from, "ssl/private/key.pem", 0644);
    assert_int_equal(symlinkat("/usr/share/zoneinfo/UTC", from, "localtime"), 0);
    box_error err;
    if (box_etc_fill(to, from, &err) < 0)
        fail_msg("%s", err.msg);
    assert_true(is_there(to, "services") && is_there(to, "ssl/certs/ca.pem"));
    assert_true(is_there(to, "localtime") && is_there(to, "mtab"));
    assert_false(is_there(to, "shadow") || is_there(to, "magic") || is_there(to, "ssl/private"));
    char passwd[512];
    assert_true(box_proc_read(to, "passwd", passwd, sizeof passwd) > 0);
    assert_non_null(strstr(passwd, "\nbox:x:1000:1000:"));
    char command[128];
    (void)snprintf(command, sizeof command, "rm -r %s %s", from_path, to_path);
    FILE *p = popen(command, "re");
    assert_int_equal(pclose(p), 0);
}

static void a_process_is_known_by_pid_and_start_time(void **state)
{
    (void)state;
    uint64_t started;
    box_error err;
    BOX_AUTO(box_closep) int pidfd = -1;
    assert_int_equal(box_proc_start_time(getpid(), &started, &err), 0);
    assert_int_equal(box_proc_open(getpid(), started, &pidfd, &err), 0);
    assert_true(pidfd >= 0);
    assert_false(box_proc_wait(pidfd, 0));
    box_closep(&pidfd);
    assert_int_equal(box_proc_open(getpid(), started + 1, &pidfd, &err), 0);
    assert_int_equal(pidfd, -1);
    assert_int_equal(box_proc_open(0, 0, &pidfd, &err), 0);
    assert_int_equal(pidfd, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_place_is_read_back),
        cmocka_unit_test(controllers_are_whole_words),
        cmocka_unit_test(host_paths_need_a_root_and_never_the_system),
        cmocka_unit_test(etc_holds_no_secret_of_the_host),
        cmocka_unit_test(a_process_is_known_by_pid_and_start_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
