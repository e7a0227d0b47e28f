/* Workspaces on disk, as sandboxes and boxd see them: what fits, what does not, what is told of it,
 * and that nothing of them stays. The real box-warden and box-agent on real loop devices, as root.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fd.h"
#include "image_devices.h"
#include "warden_client.h"

#define MIB (INT64_C(1) << 20)
#define GIB (MIB << 10)

enum { READY = 2, SEVERAL = 6, ROUNDS = 25 };

typedef struct fixture {
    test_warden warden;
    char dir[64]; /* of images */
} fixture;

/* A warden with one size of images, READY of them. */
static fixture new_fixture(const char *more)
{
    fixture f;
    char extra[400];
    (void)snprintf(f.dir, sizeof f.dir, "/var/tmp/box-disk-XXXXXX");
    assert_non_null(mkdtemp(f.dir));
    (void)snprintf(extra, sizeof extra,
                   "disk:\n  directory: %s\n  pool: [{size: 300MiB, ready: %d}]\n%s", f.dir, READY,
                   more);
    test_warden_init(&f.warden, extra);
    test_warden_start(&f.warden);
    return f;
}

static void end_fixture(fixture *f)
{
    (void)test_warden_stop(&f->warden, SIGTERM);
    test_devices_await(f->dir, 0);
    assert_int_equal(test_names_in(f->dir), 0);
    assert_int_equal(rmdir(f->dir), 0);
    test_warden_start(&f->warden); /* test_warden_done ends it; it makes the directory anew */
    test_warden_done(&f->warden);
    test_devices_await(f->dir, 0);
    assert_int_equal(rmdir(f->dir), 0);
}

static test_boxd new_boxd(const fixture *f)
{
    test_boxd b;
    box_uid instance = box_uid_new();
    test_boxd_connect(&b, &f->warden, &instance);
    assert_true((b.hello.guarantees & BOX_G_DISK_WORKSPACE) != 0);
    return b;
}

static void expect(test_box *box, const char *script, const char *text)
{
    assert_string_equal(test_box_output(box, script), text);
}

static const box_warden_create large = {.workspace_bytes = 300 * MIB};

static void a_large_workspace_is_a_file_system_of_its_own(void **state)
{
    (void)state;
    fixture f = new_fixture("");
    test_boxd b = new_boxd(&f);
    test_box box;
    test_box_create(&b, &f.warden, large, &box);
    assert_true((box.answer.guarantees & BOX_G_DISK_WORKSPACE) != 0);
    expect(&box, "stat -f -c %T /workspace; stat -c '%u %g %a' /workspace; ls -A /workspace",
           "ext2/ext3\n1000 1000 755");
    expect(&box, "findmnt -n -o FSROOT,OPTIONS /workspace | grep -c '^/files .*nosuid,nodev'", "1");
    expect(&box, "grep -c ' /workspace ' /proc/self/mountinfo", "1");
    char seen[160];
    (void)snprintf(seen, sizeof seen, "grep -c %s /proc/self/mountinfo || true", f.dir);
    expect(&box, seen, "0");
    expect(&box, "ls -d /workspace/../reserve /workspace/../files 2>&1 | wc -l", "2");
    expect(&box, "cat /workspace/../reserve 2>&1 | tail -c 26", "No such file or directory");
    expect(&box, "find /dev -type b | wc -l", "0");
    /* Its size does not count as memory. */
    const char *file = box.answer.memory_version == 2 ? "memory.max" : "memory.limit_in_bytes";
    char text[32] = "";
    BOX_AUTO(box_closep) int fd = openat(box.memory, file, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        assert_true(read(fd, text, sizeof text - 1) > 0);
        assert_int_equal(strtoll(text, NULL, 10), (512 + 64 + 16 + 16) * MIB);
    }
    test_box_destroy(&b, &box);
    test_devices_await(f.dir, READY);
    test_boxd_close(&b);
    end_fixture(&f);
}

static void usage_is_told_in_bytes_and_inodes(void **state)
{
    (void)state;
    fixture f = new_fixture("");
    test_boxd b = new_boxd(&f);
    test_box box;
    test_box_create(&b, &f.warden, (box_warden_create){.workspace_bytes = 260 * MIB}, &box);
    box_warden_answer at_first = test_boxd_ask(&b, BOX_WARDEN_USAGE, &box.uid);
    assert_int_equal(at_first.workspace_bytes, 0);
    assert_int_equal(at_first.workspace_limit_bytes, 260 * MIB);
    assert_int_equal(at_first.workspace_inodes, 0);
    assert_true(at_first.workspace_inode_limit >= 260 * MIB / 4096);
    expect(&box, "cd /workspace; head -c 50M /dev/zero > f; sync f; touch a b c; echo ok", "ok");
    box_warden_answer now = test_boxd_ask(&b, BOX_WARDEN_USAGE, &box.uid);
    assert_in_range(now.workspace_bytes, 50 * MIB, 51 * MIB);
    assert_int_equal(now.workspace_inodes, 4);
    assert_int_equal(now.workspace_inode_limit, at_first.workspace_inode_limit);
    expect(&box, "rm /workspace/*; echo ok", "ok");
    assert_int_equal(test_boxd_ask(&b, BOX_WARDEN_USAGE, &box.uid).workspace_inodes, 0);
    test_box_destroy(&b, &box);
    /* One in memory tells the same of itself. */
    test_box_create(&b, &f.warden, (box_warden_create){.workspace_bytes = 8 * MIB}, &box);
    assert_int_equal(box.answer.guarantees & BOX_G_DISK_WORKSPACE, 0);
    expect(&box, "head -c 1M /dev/zero > /workspace/f; echo ok", "ok");
    now = test_boxd_ask(&b, BOX_WARDEN_USAGE, &box.uid);
    assert_int_equal(now.workspace_bytes, MIB);
    assert_int_equal(now.workspace_limit_bytes, 8 * MIB);
    assert_int_equal(now.workspace_inode_limit, 8 * MIB / 4096);
    assert_int_equal(now.workspace_inodes, 2); /* and its top */
    test_box_destroy(&b, &box);
    test_boxd_close(&b);
    end_fixture(&f);
}

/* All its bytes, then all its inodes: each time the rest of the session goes on. */
static void a_full_workspace_says_so_and_takes_again(void **state)
{
    (void)state;
    fixture f = new_fixture("");
    test_boxd b = new_boxd(&f);
    test_box box;
    test_run run;
    test_box_create(&b, &f.warden, large, &box);
    for (int i = 0; i < 2; i++) {
        test_box_run(&box, "exec dd if=/dev/zero of=/workspace/f bs=1M 2>&1", &run);
        assert_non_null(strstr(run.output, "No space left on device"));
        assert_int_equal(run.exit.exit_code, 1);
        assert_true((run.exit.flags & BOX_EXIT_WORKSPACE_FULL) != 0);
        expect(&box,
               "s=$(stat -c %s /workspace/f); [ $s -ge 314572800 ] && [ $s -le 316000000 ] && "
               "echo fits",
               "fits");
        expect(&box,
               "head -c 2M /dev/zero 2>/dev/null > /workspace/g || echo full; echo x > /tmp/g; cat "
               "/tmp/g",
               "full\nx");
        expect(&box, "cd /workspace && rm -f f g && echo again > g && cat g && rm g", "again");
    }
    expect(&box, "fallocate -l 10G /workspace/f 2>&1 | grep -o 'No space.*'; rm -f /workspace/f",
           "No space left on device");
    expect(&box,
           "truncate -s 1T /workspace/f; stat -c '%s %b' /workspace/f; "
           "cp --sparse=never /workspace/f /workspace/g 2>&1 | grep -o 'No space.*'; "
           "rm /workspace/?",
           "1099511627776 0\nNo space left on device");
    expect(&box,
           "cd /workspace; /usr/bin/python3 -c \"\n"
           "import os\n"
           "n = 0\n"
           "try:\n"
           "  while True:\n"
           "    if n % 1000 == 0: os.mkdir('d%d' % (n // 1000))\n"
           "    os.mknod('d%d/%d' % (n // 1000, n)); n += 1\n"
           "except OSError as e: print(e.strerror, n >= 76000)\"",
           "No space left on device True");
    box_warden_answer now = test_boxd_ask(&b, BOX_WARDEN_USAGE, &box.uid);
    assert_int_equal(now.workspace_inodes, now.workspace_inode_limit);
    expect(&box, "rm -r /workspace/* && echo fine > /workspace/f && cat /workspace/f", "fine");
    test_box_destroy(&b, &box);
    test_boxd_close(&b);
    end_fixture(&f);
}

/* What is written is memory only until the disk has it. */
static void more_than_the_memory_limit_can_be_written(void **state)
{
    (void)state;
    fixture f = new_fixture("");
    test_boxd b = new_boxd(&f);
    test_box box;
    test_run run;
    test_box_create(&b, &f.warden,
                    (box_warden_create){.workspace_bytes = 600 * MIB,
                                        .memory_bytes = 32 * MIB,
                                        .tmp_bytes = MIB,
                                        .home_bytes = MIB,
                                        .shm_bytes = MIB},
                    &box);
    test_box_run(&box,
                 "cd /workspace; dd if=/dev/zero of=f bs=1M count=500 2>/dev/null && "
                 "cp f g 2>/dev/null; cmp -n 100000000 f g; stat -c %s f",
                 &run);
    assert_string_equal(run.output, "524288000\n");
    assert_int_equal(run.exit.signal, 0);
    assert_int_equal(test_boxd_ask(&b, BOX_WARDEN_USAGE, &box.uid).oom_kills, 0);
    test_box_destroy(&b, &box);
    test_boxd_close(&b);
    end_fixture(&f);
}

static void a_persistent_or_asked_for_one_is_on_disk_whatever_its_size(void **state)
{
    (void)state;
    fixture f = new_fixture("");
    test_boxd b = new_boxd(&f);
    test_box box;
    const box_warden_create rows[] = {
        {.flags = BOX_CREATE_PERSISTENT, .workspace_bytes = 8 * MIB},
        {.required = BOX_G_DISK_WORKSPACE, .workspace_bytes = 8 * MIB},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        test_box_create(&b, &f.warden, rows[i], &box);
        expect(&box, "head -c 20M /dev/zero 2>/dev/null > /workspace/f; stat -f -c %T /workspace",
               "ext2/ext3");
        box_warden_answer now = test_boxd_ask(&b, BOX_WARDEN_USAGE, &box.uid);
        assert_in_range(now.workspace_bytes, 8 * MIB, 9 * MIB);
        test_box_destroy(&b, &box);
    }
    test_boxd_close(&b);
    end_fixture(&f);
}

static void without_a_directory_none_is_on_disk(void **state)
{
    (void)state;
    test_warden w;
    test_boxd b;
    test_box box;
    box_uid instance = box_uid_new();
    test_warden_init(&w, "");
    test_warden_start(&w);
    test_boxd_connect(&b, &w, &instance);
    assert_int_equal(b.hello.guarantees & BOX_G_DISK_WORKSPACE, 0);
    assert_non_null(strstr(b.hello.detail, "no disk.directory"));
    box_error err = test_box_refused(&b, &w, (box_warden_create){.workspace_bytes = 257 * MIB});
    assert_int_equal(err.reason, BOX_GUARANTEE_UNSUPPORTED);
    assert_string_equal(box_error_get(&err, "guarantees"), "disk_workspace");
    assert_string_equal(box_error_get(&err, "fields"), "workspace_limit");
    err = test_box_refused(&b, &w, (box_warden_create){.required = BOX_G_DISK_WORKSPACE});
    assert_int_equal(err.reason, BOX_GUARANTEE_UNSUPPORTED);
    test_box_create(&b, &w, (box_warden_create){.flags = BOX_CREATE_PERSISTENT}, &box);
    assert_int_equal(box.answer.guarantees & BOX_G_DISK_WORKSPACE, 0);
    expect(&box, "stat -f -c %T /workspace", "tmpfs");
    test_box_destroy(&b, &box);
    test_boxd_close(&b);
    test_warden_done(&w);
}

static void a_host_that_cannot_says_why(void **state)
{
    (void)state;
    test_warden w;
    test_boxd b;
    box_uid instance = box_uid_new();
    test_warden_init(&w, "disk: {directory: /proc/box-images}\n");
    test_warden_start(&w);
    test_boxd_connect(&b, &w, &instance);
    assert_int_equal(b.hello.guarantees & BOX_G_DISK_WORKSPACE, 0);
    assert_non_null(strstr(b.hello.detail, "no workspaces on disk: make disk.directory"));
    box_error err = test_box_refused(&b, &w, large);
    assert_int_equal(err.reason, BOX_GUARANTEE_UNSUPPORTED);
    test_boxd_close(&b);
    test_warden_done(&w);
}

static void together_they_get_what_there_is_and_no_more(void **state)
{
    (void)state;
    fixture f = new_fixture("  total: 1GiB\n");
    test_boxd b = new_boxd(&f);
    test_box boxes[3];
    for (size_t i = 0; i < BOX_COUNT(boxes); i++)
        test_box_create(&b, &f.warden, large, &boxes[i]);
    box_error err = test_box_refused(&b, &f.warden, large);
    assert_int_equal(err.reason, BOX_QUOTA);
    assert_string_equal(box_error_get(&err, "limit"), "disk.total");
    assert_true(err.retry_ms > 0);
    test_box small; /* that is not on disk */
    test_box_create(&b, &f.warden, (box_warden_create){.workspace_bytes = 8 * MIB}, &small);
    test_box_destroy(&b, &small);
    test_box_destroy(&b, &boxes[0]);
    for (int i = 0; i < 1000; i++) { /* it counts until its image is gone */
        uint64_t id = test_box_ask(&b, &f.warden, large, &boxes[0]);
        if (test_box_made(&b, id, &boxes[0]))
            break;
        assert_int_equal(boxes[0].answer.error.reason, BOX_QUOTA);
        test_box_close(&boxes[0]);
        (void)usleep(10000);
    }
    assert_int_equal(boxes[0].answer.error.reason, BOX_NONE);
    for (size_t i = 0; i < BOX_COUNT(boxes); i++)
        test_box_destroy(&b, &boxes[i]);
    test_boxd_close(&b);
    end_fixture(&f);
    /* What the disk itself has counts as well. */
    f = new_fixture("  keep_free: 14TiB\n");
    b = new_boxd(&f);
    err = test_box_refused(&b, &f.warden, large);
    assert_int_equal(err.reason, BOX_QUOTA);
    assert_string_equal(box_error_get(&err, "limit"), "disk.keep_free");
    test_boxd_close(&b);
    end_fixture(&f);
}

/* Two, each of 100 MiB and 3 tmpfs of 1 MiB, whose workspaces would not fit. */
static void they_are_no_memory_of_all_sandboxes_together(void **state)
{
    (void)state;
    fixture f = new_fixture("maxima: {total_memory: 250MiB}\n");
    test_boxd b = new_boxd(&f);
    box_warden_create wanted = {.memory_bytes = 100 * MIB,
                                .workspace_bytes = 300 * MIB,
                                .tmp_bytes = MIB,
                                .home_bytes = MIB,
                                .shm_bytes = MIB};
    test_box first;
    test_box second;
    test_box_create(&b, &f.warden, wanted, &first);
    wanted.flags = BOX_CREATE_PERSISTENT;
    wanted.workspace_bytes = 200 * MIB;
    test_box_create(&b, &f.warden, wanted, &second);
    box_error err = test_box_refused(&b, &f.warden, wanted);
    assert_int_equal(err.reason, BOX_MEMORY_BUDGET);
    assert_string_equal(box_error_get(&err, "limit"), "total_memory");
    assert_string_equal(box_error_get(&err, "used"), "216006656");
    test_box_destroy(&b, &first);
    test_box_destroy(&b, &second);
    test_boxd_close(&b);
    end_fixture(&f);
}

/* More than are ready: those that wait for theirs get them too, each its own. */
static void several_are_made_at_once_and_share_nothing(void **state)
{
    (void)state;
    fixture f = new_fixture("");
    test_boxd b[SEVERAL];
    test_box boxes[SEVERAL];
    uint64_t ids[SEVERAL];
    char script[80];
    for (int i = 0; i < SEVERAL; i++) {
        b[i] = new_boxd(&f);
        ids[i] =
            test_box_ask(&b[i], &f.warden,
                         (box_warden_create){.workspace_bytes = (257 + i * 50) * MIB}, &boxes[i]);
    }
    for (int i = 0; i < SEVERAL; i++) {
        if (!test_box_made(&b[i], ids[i], &boxes[i]))
            fail_msg("%s", boxes[i].answer.error.msg);
        (void)snprintf(script, sizeof script, "ls /workspace | wc -l; echo %d > /workspace/f", i);
        expect(&boxes[i], script, "0");
    }
    for (int i = 0; i < SEVERAL; i++) {
        (void)snprintf(script, sizeof script, "%d", i);
        expect(&boxes[i], "cat /workspace/f", script);
        box_warden_answer now = test_boxd_ask(&b[i], BOX_WARDEN_USAGE, &boxes[i].uid);
        assert_int_equal(now.workspace_limit_bytes, (257 + i * 50) * MIB);
        test_box_destroy(&b[i], &boxes[i]);
        test_boxd_close(&b[i]);
    }
    test_warden_await_clean(&f.warden);
    test_devices_await(f.dir, READY);
    end_fixture(&f);
}

static void one_that_is_kept_keeps_its_files_over_a_restart(void **state)
{
    (void)state;
    fixture f = new_fixture("");
    test_boxd b = new_boxd(&f);
    test_box keep;
    test_box drop;
    test_box_create(&b, &f.warden, large, &keep);
    test_box_create(&b, &f.warden, large, &drop);
    expect(&keep, "head -c 30M /dev/zero > /workspace/f; sync /workspace/f; echo ok", "ok");
    (void)test_warden_stop(&f.warden, SIGKILL);
    box_uid instance = b.instance;
    test_boxd_close(&b);
    test_devices_await(f.dir, 2); /* those that were ready are gone already */
    test_warden_start(&f.warden);
    test_boxd_connect(&b, &f.warden, &instance);
    box_warden_answer kept = test_boxd_ask(&b, BOX_WARDEN_KEEP, &keep.uid);
    assert_int_equal(kept.alive, BOX_ALIVE);
    assert_true((kept.guarantees & BOX_G_DISK_WORKSPACE) != 0);
    assert_int_equal(kept.fds, keep.answer.fds);
    assert_int_equal(test_boxd_ask(&b, BOX_WARDEN_SWEEP, &(box_uid){0}).error.reason, BOX_NONE);
    test_devices_await(f.dir, READY + 1);
    expect(&keep, "stat -c %s /workspace/f; echo more > /workspace/g; cat /workspace/g",
           "31457280\nmore");
    box_warden_answer now = test_boxd_ask(&b, BOX_WARDEN_USAGE, &keep.uid);
    assert_in_range(now.workspace_bytes, 30 * MIB, 31 * MIB);
    assert_int_equal(now.workspace_limit_bytes, 300 * MIB);
    test_box_destroy(&b, &keep);
    test_box_close(&drop);
    test_warden_await_clean(&f.warden);
    test_devices_await(f.dir, READY);
    test_boxd_close(&b);
    end_fixture(&f);
}

/* In the middle of creates, of filling the pool and of removing what was written. */
static void a_warden_killed_under_load_leaves_nothing(void **state)
{
    (void)state;
    fixture f = new_fixture("");
    box_uid instance = box_uid_new();
    for (int round = 0; round < ROUNDS; round++) {
        test_boxd b;
        test_box boxes[3];
        test_boxd_connect(&b, &f.warden, &instance);
        for (size_t i = 0; i < BOX_COUNT(boxes); i++)
            (void)test_box_ask(&b, &f.warden, large, &boxes[i]);
        (void)usleep((useconds_t)(round * 1000));
        (void)test_warden_stop(&f.warden, SIGKILL);
        test_boxd_close(&b);
        for (size_t i = 0; i < BOX_COUNT(boxes); i++)
            test_box_close(&boxes[i]);
        test_warden_start(&f.warden);
    }
    test_boxd b;
    test_boxd_connect(&b, &f.warden, &instance);
    assert_int_equal(test_boxd_ask(&b, BOX_WARDEN_SWEEP, &(box_uid){0}).error.reason, BOX_NONE);
    assert_int_equal(test_warden_states(&f.warden), 0);
    test_devices_await(f.dir, READY);
    test_boxd_close(&b);
    end_fixture(&f);
}

static void two_wardens_share_a_directory_and_nothing_else(void **state)
{
    (void)state;
    fixture f = new_fixture("");
    test_boxd b = new_boxd(&f);
    test_box box;
    test_warden other;
    char extra[160];
    test_box_create(&b, &f.warden, large, &box);
    expect(&box, "echo x > /workspace/f; echo ok", "ok");
    (void)snprintf(extra, sizeof extra,
                   "disk:\n  directory: %s\n  pool: [{size: 1MiB, ready: 1}]\n", f.dir);
    test_warden_init(&other, extra);
    test_warden_start(&other);
    test_devices_await(f.dir, 1 + READY + 1);
    (void)test_warden_stop(&other, SIGKILL);
    test_devices_await(f.dir, 1 + READY);
    test_warden_start(&other);
    test_warden_done(&other);
    test_devices_await(f.dir, 1 + READY);
    expect(&box, "cat /workspace/f; echo y > /workspace/f && cat /workspace/f", "x\ny");
    test_box_destroy(&b, &box);
    test_boxd_close(&b);
    end_fixture(&f);
}

/* Told when the processes are dead, however much is still to be written and removed. */
static void the_end_does_not_wait_for_the_disk(void **state)
{
    (void)state;
    fixture f = new_fixture("");
    test_boxd b = new_boxd(&f);
    box_time create = 0;
    box_time destroy = 0;
    box_time in_memory = 0;
    enum { TIMES = 10 };
    for (int i = 0; i < TIMES; i++) {
        test_box box;
        test_devices_await(f.dir, READY);
        box_time t = box_now();
        test_box_create(&b, &f.warden, large, &box);
        create += box_now() - t;
        expect(&box, "head -c 100M /dev/zero > /workspace/f; echo ok", "ok");
        t = box_now();
        test_box_destroy(&b, &box);
        destroy += box_now() - t;
        test_warden_await_clean(&f.warden);
        test_devices_await(f.dir, READY);
        t = box_now();
        test_box_create(&b, &f.warden, (box_warden_create){0}, &box);
        in_memory += box_now() - t;
        test_box_destroy(&b, &box);
        test_warden_await_clean(&f.warden);
    }
    print_message("create %.2f ms (in memory %.2f), destroy %.2f ms\n",
                  (double)create / TIMES / 1e6, (double)in_memory / TIMES / 1e6,
                  (double)destroy / TIMES / 1e6);
    test_boxd_close(&b);
    end_fixture(&f);
}

int main(void)
{
    if (!test_devices_can("backend.disk"))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_workspace_is_a_file_system_of_its_own),
        cmocka_unit_test(usage_is_told_in_bytes_and_inodes),
        cmocka_unit_test(a_full_workspace_says_so_and_takes_again),
        cmocka_unit_test(more_than_the_memory_limit_can_be_written),
        cmocka_unit_test(a_persistent_or_asked_for_one_is_on_disk_whatever_its_size),
        cmocka_unit_test(without_a_directory_none_is_on_disk),
        cmocka_unit_test(a_host_that_cannot_says_why),
        cmocka_unit_test(they_are_no_memory_of_all_sandboxes_together),
        cmocka_unit_test(together_they_get_what_there_is_and_no_more),
        cmocka_unit_test(several_are_made_at_once_and_share_nothing),
        cmocka_unit_test(one_that_is_kept_keeps_its_files_over_a_restart),
        cmocka_unit_test(a_warden_killed_under_load_leaves_nothing),
        cmocka_unit_test(two_wardens_share_a_directory_and_nothing_else),
        cmocka_unit_test(the_end_does_not_wait_for_the_disk),
    };
    return cmocka_run_group_tests_name("disk", tests, NULL, test_wardens_end);
}
