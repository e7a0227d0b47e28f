/* The warden's own promises: what it leaves behind (nothing), what it survives, and whose sandboxes
 * it touches. The real box-warden with backend `namespace`, as root. */
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
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fd.h"
#include "warden_client.h"

enum { FEW = 12, MANY = 50, ROUNDS = 100, PEER_WAIT_MS = 30000 };

static const box_warden_create plain;

static test_warden new_warden(void)
{
    test_warden w;
    test_warden_init(&w, "");
    test_warden_start(&w);
    return w;
}

static test_boxd new_boxd(const test_warden *w)
{
    test_boxd b;
    box_uid instance = box_uid_new();
    test_boxd_connect(&b, w, &instance);
    return b;
}

static bool has_ended(int pidfd, int timeout_ms)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    return poll(&p, 1, timeout_ms) == 1;
}

static int compare(const void *a, const void *b)
{
    const box_time *x = a;
    const box_time *y = b;
    return *x < *y ? -1 : *x > *y;
}

static void nothing_is_left_after_destroy(void **state)
{
    (void)state;
    test_warden w = new_warden();
    test_boxd b = new_boxd(&w);
    test_box box;
    size_t mounts = test_count_lines("/proc/self/mountinfo", "");
    test_box_create(&b, &w, plain, &box);
    char group[BOX_UID_TEXT];
    box_uid_text(&box.uid, group);
    assert_int_equal(test_warden_states(&w), 1);
    bool grouped = (b.hello.guarantees & (BOX_G_MEMORY | BOX_G_COMMAND_CGROUP)) != 0;
    assert_int_equal(test_groups_named(group) > 0, grouped);
    assert_string_equal(test_box_output(&box, "(sleep 100 & sleep 100 &) ; echo on"), "on");
    BOX_AUTO(box_closep) int pidfd = dup(box.pidfd);
    test_box_destroy(&b, &box);
    assert_true(has_ended(pidfd, 0));
    test_warden_await_clean(&w);
    assert_int_equal(test_groups_named(group), 0);
    assert_int_equal(test_count_lines("/proc/self/mountinfo", ""), mounts);
    assert_int_equal(test_boxd_ask(&b, BOX_WARDEN_DESTROY, &box.uid).error.reason, BOX_NONE);
    assert_int_equal(test_boxd_ask(&b, BOX_WARDEN_ALIVE, &box.uid).alive, BOX_DEAD);
    assert_int_equal(test_boxd_ask(&b, BOX_WARDEN_USAGE, &box.uid).error.reason,
                     BOX_SESSION_NOT_FOUND);
    test_boxd_close(&b);
    test_warden_done(&w);
}

/* As often as something is prepared in time, it is used: see test_box_ask. */
static void a_hundred_come_and_go(void **state)
{
    (void)state;
    test_warden w = new_warden();
    test_boxd b = new_boxd(&w);
    box_time create[ROUNDS];
    box_time destroy[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        test_box box;
        if (i % 2 == 0)
            test_boxd_await_ready(&b);
        box_time t = box_now();
        test_box_create(&b, &w, plain, &box);
        create[i] = box_now() - t;
        t = box_now();
        test_box_destroy(&b, &box);
        destroy[i] = box_now() - t;
    }
    qsort(create, ROUNDS, sizeof create[0], compare);
    qsort(destroy, ROUNDS, sizeof destroy[0], compare);
    print_message("create p50 %.2f ms p95 %.2f ms, destroy p50 %.2f ms\n",
                  (double)create[ROUNDS / 2] / 1e6, (double)create[ROUNDS * 95 / 100] / 1e6,
                  (double)destroy[ROUNDS / 2] / 1e6);
    test_warden_await_clean(&w);
    test_boxd_close(&b);
    test_warden_done(&w);
}

static void count_prepared(const test_warden *w, size_t *prepared, size_t *processes)
{
    char command[192];
    (void)snprintf(command, sizeof command,
                   "ls %s/state | grep -c ^prepared-; pgrep -P %d box-warden | wc -l", w->dir,
                   (int)w->pid);
    FILE *p = popen(command, "re");
    assert_non_null(p);
    assert_int_equal(fscanf(p, "%zu %zu", prepared, processes), 2);
    assert_int_equal(pclose(p), 0);
}

/* What is prepared for nobody goes with the warden, whichever way it ends, and one that is killed
 * is replaced. */
static void what_is_prepared_goes_with_its_warden(void **state)
{
    (void)state;
    test_warden w = new_warden();
    test_boxd b = new_boxd(&w);
    test_box box;
    test_boxd_await_ready(&b);
    box_uid uid = b.ready;
    char group[BOX_UID_TEXT];
    test_box_create(&b, &w, plain, &box);
    assert_true(box_uid_equal(&box.uid, &uid));
    box_uid_text(&uid, group);
    bool grouped = (b.hello.guarantees & (BOX_G_MEMORY | BOX_G_COMMAND_CGROUP)) != 0;
    assert_int_equal(test_groups_named(group) > 0, grouped);
    assert_string_equal(test_box_output(&box, "hostname; cat /proc/sys/kernel/shmmax"),
                        "box\n16777216");
    test_box_destroy(&b, &box);
    test_boxd_await_ready(&b);
    box_uid_text(&b.ready, group);
    (void)test_warden_stop(&w, SIGKILL);
    test_boxd_close(&b);
    test_warden_start(&w);
    for (int ms = 0; test_groups_named(group) > 0; ms += 5) {
        assert_true(ms < PEER_WAIT_MS);
        (void)usleep(5000);
    }
    size_t prepared;
    size_t processes;
    b = new_boxd(&w);
    test_boxd_await_ready(&b);
    char command[64];
    (void)snprintf(command, sizeof command, "pkill -KILL -P %d box-warden", (int)w.pid);
    FILE *p = popen(command, "re");
    assert_non_null(p);
    assert_int_equal(pclose(p), 0);
    box_error lost = test_box_refused(&b, &w, plain);
    assert_true(lost.reason == BOX_BACKEND_UNAVAILABLE || lost.reason == BOX_INTERNAL ||
                lost.reason == BOX_NONE);
    int ms = 0;
    do {
        assert_true(ms < PEER_WAIT_MS);
        (void)usleep(20000);
        ms += 20;
        count_prepared(&w, &prepared, &processes);
    } while (prepared != 4 || processes != 8);
    test_boxd_close(&b);
    test_warden_done(&w);
}

static void fifty_are_made_at_once(void **state)
{
    (void)state;
    test_warden w = new_warden();
    test_boxd b = new_boxd(&w);
    static test_box boxes[MANY];
    uint64_t first = 0;
    for (int i = 0; i < MANY; i++) {
        uint64_t id = test_box_ask(&b, &w, plain, &boxes[i]);
        first = i == 0 ? id : first;
    }
    /* Answers come in any order: here each is matched by asking whether it lives. */
    for (int i = 0; i < MANY; i++) {
        uint8_t packet[BOX_WARDEN_PACKET_BYTES];
        box_warden_header h;
        box_warden_answer answer;
        int fds[BOX_ANSWER_MAX_FDS];
        size_t n = BOX_COUNT(fds);
        box_error err;
        struct pollfd p = {.fd = b.fd, .events = POLLIN};
        assert_int_equal(poll(&p, 1, PEER_WAIT_MS), 1);
        ssize_t got = box_fd_receive(b.fd, packet, sizeof packet, fds, &n, &err);
        assert_true(got >= (ssize_t)sizeof h);
        memcpy(&h, packet, sizeof h);
        if (h.type == BOX_WARDEN_PREPARED) {
            i--;
            continue;
        }
        assert_int_equal(got, sizeof h + sizeof answer);
        memcpy(&answer, packet + sizeof h, sizeof answer);
        assert_string_equal(answer.error.msg, "");
        assert_in_range(h.id, first, first + MANY - 1);
        for (size_t k = 0; k < n; k++)
            (void)close(fds[k]);
    }
    for (int i = 0; i < MANY; i++)
        assert_int_equal(test_boxd_ask(&b, BOX_WARDEN_ALIVE, &boxes[i].uid).alive, BOX_ALIVE);
    assert_string_equal(test_box_output(&boxes[MANY - 1], "echo works"), "works");
    for (int i = 0; i < MANY; i++)
        test_box_destroy(&b, &boxes[i]);
    test_warden_await_clean(&w);
    test_boxd_close(&b);
    test_warden_done(&w);
}

static void a_dead_agent_is_told_and_cleaned_up(void **state)
{
    (void)state;
    test_warden w = new_warden();
    test_boxd b = new_boxd(&w);
    test_box box;
    char group[BOX_UID_TEXT];
    test_box_create(&b, &w, plain, &box);
    box_uid_text(&box.uid, group);
    assert_int_equal(pidfd_send_signal(box.pidfd, SIGKILL, NULL, 0), 0);
    test_boxd_await_exited(&b);
    assert_true(box_uid_equal(&b.exited.uid, &box.uid));
    assert_true(WIFSIGNALED(b.exited.status) && WTERMSIG(b.exited.status) == SIGKILL);
    assert_int_equal(b.exited.oom, 0);
    assert_int_equal(test_warden_states(&w), 0);
    assert_int_equal(test_groups_named(group), 0);
    test_box_close(&box);
    test_boxd_close(&b);
    test_warden_done(&w);
}

/* Kept ones live on, the others go; so with a warden that was killed and one that ended itself. */
static void restart(int signo)
{
    test_warden w = new_warden();
    test_boxd b = new_boxd(&w);
    test_boxd other = new_boxd(&w);
    test_box keep;
    test_box drop;
    test_box foreign;
    test_box_create(&b, &w, plain, &keep);
    test_box_create(&b, &w, plain, &drop);
    test_box_create(&other, &w, plain, &foreign);
    assert_string_equal(test_box_output(&keep, "echo x > /workspace/f; echo made"), "made");
    int status = test_warden_stop(&w, signo);
    assert_true(signo == SIGKILL ? WIFSIGNALED(status)
                                 : WIFEXITED(status) && WEXITSTATUS(status) == 0);
    box_uid instance = b.instance;
    test_boxd_close(&b);
    test_warden_start(&w);
    test_boxd_connect(&b, &w, &instance);
    box_warden_answer kept = test_boxd_ask(&b, BOX_WARDEN_KEEP, &keep.uid);
    assert_int_equal(kept.alive, BOX_ALIVE);
    assert_int_equal(kept.fds, keep.answer.fds);
    assert_int_equal(test_boxd_ask(&b, BOX_WARDEN_KEEP, &foreign.uid).alive, BOX_DEAD);
    assert_int_equal(test_boxd_ask(&b, BOX_WARDEN_SWEEP, &(box_uid){0}).error.reason, BOX_NONE);
    assert_true(has_ended(drop.pidfd, 0));
    assert_false(has_ended(keep.pidfd, 0));
    assert_false(has_ended(foreign.pidfd, 0));
    assert_string_equal(test_box_output(&keep, "cat /workspace/f"), "x");
    test_box_destroy(&b, &keep);
    test_box_close(&drop);
    instance = other.instance;
    test_boxd_close(&other);
    test_boxd_connect(&other, &w, &instance);
    assert_int_equal(test_boxd_ask(&other, BOX_WARDEN_ALIVE, &foreign.uid).alive, BOX_ALIVE);
    test_box_destroy(&other, &foreign);
    test_warden_await_clean(&w);
    test_boxd_close(&other);
    test_boxd_close(&b);
    test_warden_done(&w);
}

static void a_killed_warden_finds_its_sandboxes_again(void **state)
{
    (void)state;
    restart(SIGKILL);
}

static void a_stopped_warden_leaves_its_sandboxes_to_the_next(void **state)
{
    (void)state;
    restart(SIGTERM);
}

static void what_died_while_no_warden_ran_is_removed_at_start(void **state)
{
    (void)state;
    test_warden w = new_warden();
    test_boxd b = new_boxd(&w);
    test_box box;
    char group[BOX_UID_TEXT];
    test_box_create(&b, &w, plain, &box);
    box_uid_text(&box.uid, group);
    (void)test_warden_stop(&w, SIGKILL);
    test_boxd_close(&b);
    assert_int_equal(pidfd_send_signal(box.pidfd, SIGKILL, NULL, 0), 0);
    assert_true(has_ended(box.pidfd, PEER_WAIT_MS));
    test_warden_start(&w);
    test_warden_await_clean(&w);
    assert_int_equal(test_groups_named(group), 0);
    test_box_close(&box);
    test_warden_done(&w);
}

/* A warden of another version, or a disk, left files that this one cannot read: what they are about
 * is ended all the same. */
static void sandboxes_of_another_version_end_at_start(void **state)
{
    (void)state;
    enum { ALL = 2 };
    test_warden w = new_warden();
    test_boxd b = new_boxd(&w);
    test_box boxes[ALL];
    char names[ALL][BOX_UID_TEXT];
    for (int i = 0; i < ALL; i++) {
        test_box_create(&b, &w, plain, &boxes[i]);
        box_uid_text(&boxes[i].uid, names[i]);
    }
    bool grouped = (b.hello.guarantees & (BOX_G_MEMORY | BOX_G_COMMAND_CGROUP)) != 0;
    (void)test_warden_stop(&w, SIGKILL);
    test_boxd_close(&b);
    for (int i = 0; i < ALL; i++) {
        char path[256];
        (void)snprintf(path, sizeof path, "%s/state/sandbox-%s", w.dir, names[i]);
        BOX_AUTO(box_closep) int fd = open(path, O_WRONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        if (i == 0 || !grouped) /* the number of the version */
            assert_int_equal(pwrite(fd, "\377", 1, 4), 1);
        else
            assert_int_equal(ftruncate(fd, 0), 0);
        assert_false(has_ended(boxes[i].pidfd, 0));
    }
    test_warden_start(&w);
    test_warden_await_clean(&w);
    for (int i = 0; i < ALL; i++) {
        assert_true(has_ended(boxes[i].pidfd, 0));
        assert_int_equal(test_groups_named(names[i]), 0);
        test_box_close(&boxes[i]);
    }
    test_warden_done(&w);
}

/* DESTROY is answered when the processes are dead. What the warden still has to remove then
 * outlives it by its state files, and goes before it when it ends in order. */
static void end_behind_the_answers(int signo)
{
    test_warden w = new_warden();
    test_boxd b = new_boxd(&w);
    test_box boxes[FEW];
    char groups[FEW][BOX_UID_TEXT];
    for (int i = 0; i < FEW; i++) {
        test_box_create(&b, &w, plain, &boxes[i]);
        box_uid_text(&boxes[i].uid, groups[i]);
    }
    for (int i = 0; i < FEW; i++)
        (void)test_boxd_send(&b, BOX_WARDEN_DESTROY, &boxes[i].uid, sizeof boxes[i].uid, -1);
    for (int i = 0; i < FEW; i++)
        assert_true(has_ended(boxes[i].pidfd, PEER_WAIT_MS));
    (void)test_warden_stop(&w, signo);
    if (signo == SIGTERM)
        assert_int_equal(test_warden_states(&w), 0);
    test_warden_start(&w);
    test_warden_await_clean(&w);
    for (int i = 0; i < FEW; i++) {
        assert_int_equal(test_groups_named(groups[i]), 0);
        test_box_close(&boxes[i]);
    }
    test_boxd_close(&b);
    test_warden_done(&w);
}

static void a_warden_killed_behind_its_answers_leaves_the_rest_to_the_next(void **state)
{
    (void)state;
    end_behind_the_answers(SIGKILL);
}

static void a_warden_that_is_told_to_end_removes_what_was_to_go(void **state)
{
    (void)state;
    end_behind_the_answers(SIGTERM);
}

/* Killed again and again in the middle of creates: no process, group or state file may stay. */
static void a_warden_killed_during_creates_leaves_nothing_for_good(void **state)
{
    (void)state;
    test_warden w = new_warden();
    box_uid instance = box_uid_new();
    for (int round = 0; round < 20; round++) {
        test_boxd b;
        static test_box boxes[4];
        test_boxd_connect(&b, &w, &instance);
        for (int i = 0; i < 4; i++)
            (void)test_box_ask(&b, &w, plain, &boxes[i]);
        (void)usleep((useconds_t)(round * 700));
        (void)test_warden_stop(&w, SIGKILL);
        test_boxd_close(&b);
        for (int i = 0; i < 4; i++)
            test_box_close(&boxes[i]);
        test_warden_start(&w);
    }
    test_boxd b;
    test_boxd_connect(&b, &w, &instance);
    assert_int_equal(test_boxd_ask(&b, BOX_WARDEN_SWEEP, &(box_uid){0}).error.reason, BOX_NONE);
    assert_int_equal(test_warden_states(&w), 0);
    test_boxd_close(&b);
    test_warden_done(&w);
}

static void two_instances_do_not_touch_each_other(void **state)
{
    (void)state;
    test_warden w = new_warden();
    test_boxd a = new_boxd(&w);
    test_boxd b = new_boxd(&w);
    test_box box;
    test_box_create(&a, &w, plain, &box);
    assert_int_equal(test_boxd_ask(&b, BOX_WARDEN_ALIVE, &box.uid).alive, BOX_DEAD);
    assert_int_equal(test_boxd_ask(&b, BOX_WARDEN_DESTROY, &box.uid).error.reason, BOX_NONE);
    assert_int_equal(test_boxd_ask(&b, BOX_WARDEN_SWEEP, &(box_uid){0}).error.reason, BOX_NONE);
    assert_int_equal(test_boxd_ask(&a, BOX_WARDEN_ALIVE, &box.uid).alive, BOX_ALIVE);
    test_box_destroy(&a, &box);
    test_boxd_close(&a);
    test_boxd_close(&b);
    test_warden_done(&w);
}

static void a_second_warden_is_refused_the_same_directory(void **state)
{
    (void)state;
    test_warden w = new_warden();
    pid_t pid = fork();
    if (pid == 0) {
        char config[96];
        (void)snprintf(config, sizeof config, "%s/config", w.dir);
        (void)dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
        (void)execl(BOX_WARDEN_PROGRAM, BOX_WARDEN_PROGRAM, "--config", config, (char *)NULL);
        _exit(127);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    test_boxd b = new_boxd(&w); /* the first one still listens */
    test_boxd_close(&b);
    test_warden_done(&w);
}

static void a_private_warden_takes_its_sandboxes_with_it(void **state)
{
    (void)state;
    int pair[2];
    test_warden files; /* only for its directory and configuration */
    test_warden_init(&files, "");
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char config[96];
        char number[12];
        (void)snprintf(config, sizeof config, "%s/config", files.dir);
        (void)snprintf(number, sizeof number, "%d", dup(pair[1]));
        (void)execl(BOX_WARDEN_PROGRAM, BOX_WARDEN_PROGRAM, "--config", config, "--boxd-fd", number,
                    (char *)NULL);
        _exit(127);
    }
    (void)close(pair[1]);
    test_boxd b;
    test_box box;
    box_uid instance = box_uid_new();
    test_boxd_greet(&b, pair[0], &instance);
    char group[BOX_UID_TEXT];
    test_box_create(&b, &files, plain, &box);
    box_uid_text(&box.uid, group);
    test_boxd_close(&b);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(has_ended(box.pidfd, 0));
    assert_int_equal(test_groups_named(group), 0);
    assert_int_equal(test_warden_states(&files), 0);
    test_box_close(&box);
    test_warden_done(&files);
}

static bool is_root(void)
{
    return strcmp(test_wardens_kind(), "root") == 0;
}

static void older_kernels_are_served_too(void **state)
{
    (void)state;
    static const int calls[] = {SYS_clone3, SYS_mount_setattr, SYS_openat2};
    for (size_t i = 0; i < BOX_COUNT(calls); i++) {
        test_warden w;
        test_box box;
        test_warden_init(&w, "");
        w.refused_call = calls[i];
        test_warden_start(&w);
        test_boxd b = new_boxd(&w);
        test_box_create(&b, &w, plain, &box);
        assert_string_equal(test_box_output(&box, "(: > /usr/x) 2>/dev/null || echo read-only"),
                            "read-only");
        assert_int_equal((b.hello.guarantees & BOX_G_HOST_MOUNT) != 0,
                         calls[i] == SYS_clone3 && is_root());
        test_box_destroy(&b, &box);
        test_boxd_close(&b);
        test_warden_done(&w);
    }
}

/* No helper can be watched, so that nothing can be found out about what lives. */
static void sandboxes_stay_while_a_warden_cannot_look_at_them(void **state)
{
    (void)state;
    test_warden w = new_warden();
    test_boxd b = new_boxd(&w);
    test_box box;
    test_box_create(&b, &w, plain, &box);
    assert_string_equal(test_box_output(&box, "echo x > /workspace/f; echo made"), "made");
    for (int weak = 1; weak >= 0; weak--) {
        (void)test_warden_stop(&w, SIGKILL);
        box_uid instance = b.instance;
        test_boxd_close(&b);
        w.refused_call = weak ? SYS_pidfd_open : 0;
        test_warden_start(&w);
        test_boxd_connect(&b, &w, &instance);
        box_warden_answer kept = test_boxd_ask(&b, BOX_WARDEN_KEEP, &box.uid);
        assert_int_equal(kept.error.reason != BOX_NONE, weak);
        assert_int_equal(kept.alive, weak ? BOX_DEAD : BOX_ALIVE);
        assert_int_equal(test_warden_states(&w), 1);
        assert_string_equal(test_box_output(&box, "cat /workspace/f"), "x");
    }
    test_box_destroy(&b, &box);
    test_warden_await_clean(&w);
    test_boxd_close(&b);
    test_warden_done(&w);
}

static box_warden_answer set_memory(test_boxd *b, const box_uid *uid, int64_t bytes)
{
    const box_warden_limits limits = {.uid = *uid, .memory_bytes = bytes};
    uint64_t id = test_boxd_send(b, BOX_WARDEN_LIMITS, &limits, sizeof limits, -1);
    int fds[BOX_ANSWER_MAX_FDS];
    size_t n_fds = BOX_COUNT(fds);
    return test_boxd_answer(b, id, fds, &n_fds);
}

static void no_memory_left(const box_error *err, const char *used)
{
    assert_int_equal(err->reason, BOX_MEMORY_BUDGET);
    assert_string_equal(box_error_get(err, "limit"), "total_memory");
    assert_string_equal(box_error_get(err, "used"), used);
    assert_true(err->retry_ms > 0);
}

/* Two of them, of 100 MiB and 4 tmpfs of 1 MiB each, have 8 MiB left. */
static void sandboxes_together_have_so_much_memory(void **state)
{
    (void)state;
    enum { MIB = 1 << 20 };
    const box_warden_create small = {.memory_bytes = 100 * MIB,
                                     .workspace_bytes = MIB,
                                     .tmp_bytes = MIB,
                                     .home_bytes = MIB,
                                     .shm_bytes = MIB};
    test_warden w;
    test_warden_init(&w, "maxima: {total_memory: 216MiB}\n");
    test_warden_start(&w);
    test_boxd b = new_boxd(&w);
    if ((b.hello.guarantees & BOX_G_LIVE_LIMITS) == 0) {
        test_boxd_close(&b);
        test_warden_done(&w);
        skip();
    }
    test_box first;
    test_box second;
    test_box_create(&b, &w, small, &first);
    test_box_create(&b, &w, small, &second);
    box_error refused = test_box_refused(&b, &w, small);
    no_memory_left(&refused, "218103808");
    refused = set_memory(&b, &first.uid, 109 * MIB).error;
    no_memory_left(&refused, "218103808");
    assert_int_equal(set_memory(&b, &first.uid, 108 * MIB).error.reason, BOX_NONE);
    refused = set_memory(&b, &second.uid, 101 * MIB).error;
    no_memory_left(&refused, "226492416");
    assert_int_equal(set_memory(&b, &first.uid, 50 * MIB).error.reason, BOX_NONE);

    (void)test_warden_stop(&w, SIGKILL); /* the next one knows what they have */
    box_uid instance = b.instance;
    test_boxd_close(&b);
    test_warden_start(&w);
    test_boxd_connect(&b, &w, &instance);
    refused = test_box_refused(&b, &w, small);
    no_memory_left(&refused, "165675008");
    test_box_destroy(&b, &first);
    test_box_create(&b, &w, small, &first);
    test_box_destroy(&b, &first);
    test_box_destroy(&b, &second);
    test_warden_await_clean(&w);
    test_boxd_close(&b);
    test_warden_done(&w);
}

#define V2_TOP "/sys/fs/cgroup"

static const uint32_t limits = BOX_G_MEMORY | BOX_G_PIDS | BOX_G_CPU | BOX_G_LIVE_LIMITS;

static bool has_cgroup2_alone(void)
{
    return access(V2_TOP "/cgroup.controllers", F_OK) == 0;
}

static void hosts_with_fewer_control_groups_say_so(void **state)
{
    (void)state;
    if (!is_root())
        skip(); /* there are none for an ordinary user */
    static const char *const hidden[] = {"cgroup2", ""};
    for (size_t i = 0; i < BOX_COUNT(hidden); i++) {
        test_warden w;
        test_box box;
        bool none = hidden[i][0] == '\0' || has_cgroup2_alone();
        test_warden_init(&w, "");
        w.hidden = hidden[i];
        test_warden_start(&w);
        test_boxd b = new_boxd(&w);
        assert_int_equal(b.hello.guarantees & BOX_G_COMMAND_CGROUP, 0);
        assert_int_equal(b.hello.guarantees & limits, none ? 0 : limits);
        test_box_create(&b, &w, plain, &box);
        assert_int_equal(box.cgroup, -1);
        assert_string_equal(test_box_output(&box, "echo works"), "works");
        BOX_AUTO(box_closep) int pidfd = dup(box.pidfd);
        test_box_destroy(&b, &box);
        assert_true(has_ended(pidfd, 0));
        box_error err =
            test_box_refused(&b, &w, (box_warden_create){.required = BOX_G_COMMAND_CGROUP});
        assert_string_equal(box_error_get(&err, "guarantees"), "command_cgroup");
        test_warden_await_clean(&w);
        test_boxd_close(&b);
        test_warden_done(&w);
    }
}

/* The guarantees of a warden with that configuration, started in that group. */
static uint32_t limits_of(const char *config, const char *group, bool enclosed)
{
    test_warden w;
    test_box box;
    test_warden_init(&w, config);
    w.group = group;
    w.enclosed = enclosed;
    test_warden_start(&w);
    test_boxd b = new_boxd(&w);
    uint32_t found = b.hello.guarantees & limits;
    test_box_create(&b, &w, plain, &box);
    assert_string_equal(test_box_output(&box, "echo works"), "works");
    test_box_destroy(&b, &box);
    test_boxd_close(&b);
    test_warden_done(&w);
    return found;
}

static void remove_group(const char *path)
{
    for (int i = 0; i < 500 && rmdir(path) < 0 && errno != ENOENT; i++)
        (void)usleep(10000); /* its processes are on their way out */
}

/* Below a group that has no controllers yet: on v2 they are handed down from the top. */
static void a_configured_group_has_the_same_limits(void **state)
{
    (void)state;
    uint32_t usual = limits_of("", NULL, false);
    char config[96];
    (void)snprintf(config, sizeof config, "cgroup: /box-test-%d/below\n", (int)getpid());
    assert_int_equal(limits_of(config, NULL, false), usual);
    char command[192];
    (void)snprintf(command, sizeof command,
                   "find " V2_TOP " -depth -type d '(' -name box-test-%d -o -path "
                   "'*/box-test-%d/*' ')' -exec rmdir {} + 2>/dev/null",
                   (int)getpid(), (int)getpid());
    FILE *p = popen(command, "re");
    assert_non_null(p);
    (void)pclose(p); /* not 0 when groups of others vanish meanwhile */
}

static pid_t sleeper_in(const char *group)
{
    pid_t pid = fork();
    char path[256];
    char text[16];
    box_error err;
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)pause();
        _exit(0);
    }
    (void)snprintf(path, sizeof path, "%s/cgroup.procs", group);
    (void)snprintf(text, sizeof text, "%d", (int)pid);
    assert_int_equal(box_fd_write_file(AT_FDCWD, path, text, &err), 0);
    return pid;
}

/* systemd takes back at the top what none of its own units needs. */
static void controllers_that_were_taken_back_return_with_the_next_sandbox(void **state)
{
    (void)state;
    static const char *const off[] = {"-memory", "-pids", "-cpu"};
    if (!has_cgroup2_alone())
        skip();
    test_warden w = new_warden();
    test_boxd b = new_boxd(&w);
    box_error in_use; /* by other groups of this host: then there is nothing to give back */
    for (size_t i = 0; i < BOX_COUNT(off); i++)
        (void)!box_fd_write_file(AT_FDCWD, V2_TOP "/cgroup.subtree_control", off[i], &in_use);
    test_box box;
    test_box_create(&b, &w, (box_warden_create){.required = BOX_G_MEMORY}, &box);
    assert_string_equal(test_box_output(&box, "echo works"), "works");
    assert_int_equal(faccessat(box.memory, "memory.max", F_OK, 0), 0);
    assert_int_equal(faccessat(box.memory, "cpu.max", F_OK, 0), 0);
    test_box_destroy(&b, &box);
    test_boxd_close(&b);
    test_warden_done(&w);
}

/* As one started from a login shell: "no internal processes" forbids limits below that group. */
static void a_warden_that_shares_its_group_has_limits_too(void **state)
{
    (void)state;
    if (!has_cgroup2_alone())
        skip();
    char group[96];
    (void)snprintf(group, sizeof group, V2_TOP "/box-test-%d", (int)getpid());
    assert_int_equal(mkdir(group, 0755), 0);
    pid_t sleeper = sleeper_in(group);
    assert_int_equal(limits_of("", group, false), limits);
    assert_int_equal(limits_of("", group, true), 0); /* no top above it: it works and says so */
    (void)kill(sleeper, SIGKILL);
    assert_int_equal(waitpid(sleeper, NULL, 0), sleeper);
    assert_int_equal(limits_of("", group, false), limits); /* alone, as a service is */
    assert_int_equal(limits_of("", group, true), limits);
    char leaf[112];
    (void)snprintf(leaf, sizeof leaf, "%s/box-warden", group);
    remove_group(leaf);
    remove_group(group);
}

static bool is_dropped(test_boxd *b)
{
    char byte;
    struct pollfd p = {.fd = b->fd, .events = POLLIN};
    while (poll(&p, 1, PEER_WAIT_MS) == 1) {
        if (recv(b->fd, &byte, 1, 0) <= 0)
            return true; /* else it tells of what it has prepared */
    }
    return false;
}

static void broken_packets_end_only_their_own_connection(void **state)
{
    (void)state;
    test_warden w = new_warden();
    test_boxd good = new_boxd(&w);
    const box_warden_header lies[] = {
        {.type = BOX_WARDEN_ALIVE, .size = 8000, .id = 1},
        {.type = BOX_WARDEN_ALIVE, .size = sizeof(box_warden_header), .id = 1},
        {.type = BOX_WARDEN_ANSWER, .size = sizeof(box_warden_header), .id = 1},
        {.type = 999, .size = sizeof(box_warden_header), .id = 1},
    };
    for (size_t i = 0; i < BOX_COUNT(lies); i++) {
        test_boxd b = new_boxd(&w);
        assert_int_equal(send(b.fd, &lies[i], sizeof lies[i], 0), sizeof lies[i]);
        assert_true(is_dropped(&b));
        test_boxd_close(&b);
    }
    test_boxd b = new_boxd(&w); /* a descriptor where none belongs */
    const box_warden_target target = {.uid = b.instance};
    (void)test_boxd_send(&b, BOX_WARDEN_ALIVE, &target, sizeof target, 0);
    assert_true(is_dropped(&b));
    test_boxd_close(&b);
    b = new_boxd(&w); /* no listener */
    box_warden_create request = {.uid = box_uid_new()};
    int fds[BOX_ANSWER_MAX_FDS];
    size_t n;
    uint64_t id = test_boxd_send(&b, BOX_WARDEN_CREATE, &request, sizeof request, -1);
    assert_int_equal(test_boxd_answer(&b, id, fds, &n).error.reason, BOX_VALIDATION);
    test_boxd_close(&b);
    assert_int_equal(test_boxd_ask(&good, BOX_WARDEN_ALIVE, &target.uid).alive, BOX_DEAD);
    test_boxd_close(&good);
    test_warden_done(&w);
}

static void another_user_is_refused(void **state)
{
    (void)state;
    test_warden w = new_warden();
    assert_int_equal(chmod(w.socket, 0666), 0); /* so that only the credentials refuse */
    pid_t pid = fork();
    if (pid == 0) {
        if (setresuid(65534, 65534, 65534) < 0)
            _exit(2);
        test_boxd b;
        struct pollfd p;
        int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        (void)snprintf(a.sun_path, sizeof a.sun_path, "%s", w.socket);
        if (connect(fd, (struct sockaddr *)&a, sizeof a) < 0)
            _exit(3);
        b.fd = fd;
        p = (struct pollfd){.fd = fd, .events = POLLIN};
        char byte;
        _exit(poll(&p, 1, PEER_WAIT_MS) == 1 && recv(b.fd, &byte, 1, 0) == 0 ? 0 : 4);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    test_warden_done(&w);
}

int main(int argc, char **argv)
{
    int code = test_wardens_begin(argc, argv);
    if (code != 0)
        return code;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_left_after_destroy),
        cmocka_unit_test(a_hundred_come_and_go),
        cmocka_unit_test(what_is_prepared_goes_with_its_warden),
        cmocka_unit_test(fifty_are_made_at_once),
        cmocka_unit_test(a_dead_agent_is_told_and_cleaned_up),
        cmocka_unit_test(a_killed_warden_finds_its_sandboxes_again),
        cmocka_unit_test(a_stopped_warden_leaves_its_sandboxes_to_the_next),
        cmocka_unit_test(what_died_while_no_warden_ran_is_removed_at_start),
        cmocka_unit_test(sandboxes_of_another_version_end_at_start),
        cmocka_unit_test(a_warden_killed_behind_its_answers_leaves_the_rest_to_the_next),
        cmocka_unit_test(a_warden_that_is_told_to_end_removes_what_was_to_go),
        cmocka_unit_test(a_warden_killed_during_creates_leaves_nothing_for_good),
        cmocka_unit_test(two_instances_do_not_touch_each_other),
        cmocka_unit_test(a_second_warden_is_refused_the_same_directory),
        cmocka_unit_test(a_private_warden_takes_its_sandboxes_with_it),
        cmocka_unit_test(older_kernels_are_served_too),
        cmocka_unit_test(sandboxes_stay_while_a_warden_cannot_look_at_them),
        cmocka_unit_test(sandboxes_together_have_so_much_memory),
        cmocka_unit_test(hosts_with_fewer_control_groups_say_so),
        cmocka_unit_test(a_configured_group_has_the_same_limits),
        cmocka_unit_test(controllers_that_were_taken_back_return_with_the_next_sandbox),
        cmocka_unit_test(a_warden_that_shares_its_group_has_limits_too),
        cmocka_unit_test(broken_packets_end_only_their_own_connection),
        cmocka_unit_test(another_user_is_refused),
    };
    return cmocka_run_group_tests_name("warden", tests, NULL, test_wardens_end);
}
