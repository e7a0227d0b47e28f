/* What the warden does with its socket when the host gives it nothing more. The real box-warden, as
 * root. */
#include <dirent.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "warden_client.h"

static int connect_to(const test_warden *w)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    (void)snprintf(a.sun_path, sizeof a.sun_path, "%s", w->socket);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

static void allow_descriptors(const test_warden *w, rlim_t n)
{
    struct rlimit limit;
    assert_int_equal(prlimit(w->pid, RLIMIT_NOFILE, NULL, &limit), 0);
    limit.rlim_cur = n;
    assert_int_equal(prlimit(w->pid, RLIMIT_NOFILE, &limit, NULL), 0);
}

/* proc(5), /proc/PID/stat: utime and stime. */
static unsigned long processor_ms(const test_warden *w)
{
    char path[48];
    char text[1024] = "";
    unsigned long user;
    unsigned long kernel;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)w->pid);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    assert_int_equal(fclose(f), 0);
    const char *rest = strrchr(text, ')');
    assert_non_null(rest);
    assert_int_equal(
        sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel), 2);
    return (user + kernel) * 1000 / (unsigned long)sysconf(_SC_CLK_TCK);
}

/* Who connects meanwhile waits in the kernel's queue. */
static void out_of_descriptors_it_waits_instead_of_spinning(void **state)
{
    enum { WHILE_MS = 1000, LITTLE_MS = 100 };
    (void)state;
    test_warden w;
    test_boxd b;
    box_uid instance = box_uid_new();
    test_warden_init(&w, "");
    test_warden_start(&w);
    allow_descriptors(&w, 3);
    int fd = connect_to(&w);
    unsigned long before = processor_ms(&w);
    assert_int_equal(poll(NULL, 0, WHILE_MS), 0);
    assert_true(processor_ms(&w) - before < LITTLE_MS);
    allow_descriptors(&w, 256);
    test_boxd_greet(&b, fd, &instance);
    assert_int_equal(b.hello.error.reason, BOX_NONE);
    test_boxd_close(&b);
    test_warden_done(&w);
}

static const box_warden_create plain;

static void refused_for_descriptors(test_boxd *b, const test_warden *w)
{
    box_error err = test_box_refused(b, w, plain);
    assert_int_equal(err.reason, BOX_BACKEND_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "out of file descriptors"));
    assert_true(err.retry_ms > 0);
}

static rlim_t open_descriptors(const test_warden *w)
{
    char path[48];
    rlim_t n = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)w->pid);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    while (readdir(dir) != NULL)
        n++;
    assert_int_equal(closedir(dir), 0);
    return n - 2; /* . and .. */
}

/* Wherever it is that the next descriptor is missed: when CREATE's comes, for the helper, or for
 * what it made. */
static void out_of_descriptors_creates_are_answered_and_boxd_stays(void **state)
{
    enum { ROOMS = 6, ENOUGH = 256 };
    (void)state;
    test_warden w;
    test_boxd b;
    test_box box;
    box_uid instance = box_uid_new();
    test_warden_init(&w, "standbys: 0\n");
    test_warden_start(&w);
    test_boxd_connect(&b, &w, &instance);
    test_box_create(&b, &w, plain, &box);
    rlim_t used = open_descriptors(&w);
    for (rlim_t room = 0; room < ROOMS; room++) {
        allow_descriptors(&w, used + room);
        refused_for_descriptors(&b, &w);
    }
    allow_descriptors(&w, ENOUGH);
    assert_string_equal(test_box_output(&box, "echo lives"), "lives");
    test_box_destroy(&b, &box);
    test_warden_await_clean(&w);
    test_box_create(&b, &w, plain, &box);
    assert_string_equal(test_box_output(&box, "echo on"), "on");
    test_box_destroy(&b, &box);
    test_boxd_close(&b);
    test_warden_done(&w);
}

/* --- what helpers wrote down ------------------------------------------------------------------ */

/* The first helper there is; 0 = none. */
static pid_t helper_of(const test_warden *w)
{
    char path[64];
    int pid = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)w->pid, (int)w->pid);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    if (fscanf(f, "%d", &pid) != 1)
        pid = 0;
    assert_int_equal(fclose(f), 0);
    return pid;
}

static bool has_groups(const box_uid *uid)
{
    char group[BOX_UID_TEXT];
    box_uid_text(uid, group);
    return test_groups_named(group) > 0;
}

static void await_no_group(const box_uid *uid)
{
    enum { WAIT_MS = 10000, STEP_MS = 50 };
    for (int ms = 0; has_groups(uid); ms += STEP_MS) {
        assert_true(ms < WAIT_MS);
        (void)poll(NULL, 0, STEP_MS);
    }
}

/* CREATE whose helper makes all of it, and cannot tell: the warden has no descriptors then. False:
 * it was too slow, or too fast. */
static bool made_in_vain(test_boxd *b, const test_warden *w, int patience, test_box *box)
{
    uint64_t id = test_box_ask(b, w, plain, box);
    for (int i = 0; i < patience && helper_of(w) == 0; i++)
        (void)poll(NULL, 0, 1);
    allow_descriptors(w, 3);
    bool made = test_box_made(b, id, box);
    bool left = !made && has_groups(&box->uid);
    allow_descriptors(w, 256);
    if (made)
        test_box_destroy(b, box);
    return left;
}

static void what_a_helper_made_is_removed_when_it_cannot_be_read_at_first(void **state)
{
    (void)state;
    test_warden w;
    test_boxd b;
    test_box box;
    box_uid instance = box_uid_new();
    test_warden_init(&w, "standbys: 0\n");
    test_warden_start(&w);
    test_boxd_connect(&b, &w, &instance);
    bool left = false;
    for (int i = 1; i < 100 && !left; i++)
        left = made_in_vain(&b, &w, i, &box);
    assert_true(left);
    test_warden_await_clean(&w);
    await_no_group(&box.uid);
    test_boxd_close(&b);
    test_warden_done(&w);
}

static void what_was_prepared_is_removed_when_it_cannot_be_read_at_first(void **state)
{
    enum { WHILE_MS = 300 };
    (void)state;
    test_warden w;
    test_boxd b;
    box_uid instance = box_uid_new();
    test_warden_init(&w, "standbys: 1\n");
    test_warden_start(&w);
    test_boxd_connect(&b, &w, &instance);
    test_boxd_await_ready(&b);
    allow_descriptors(&w, 3);
    assert_int_equal(kill(helper_of(&w), SIGKILL), 0);
    assert_int_equal(poll(NULL, 0, WHILE_MS), 0);
    allow_descriptors(&w, 256);
    await_no_group(&b.ready);
    test_boxd_close(&b);
    test_warden_done(&w);
}

int main(int argc, char **argv)
{
    int code = test_wardens_begin(argc, argv);
    if (code != 0)
        return code;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(out_of_descriptors_it_waits_instead_of_spinning),
        cmocka_unit_test(out_of_descriptors_creates_are_answered_and_boxd_stays),
        cmocka_unit_test(what_a_helper_made_is_removed_when_it_cannot_be_read_at_first),
        cmocka_unit_test(what_was_prepared_is_removed_when_it_cannot_be_read_at_first),
    };
    return cmocka_run_group_tests_name("warden_socket", tests, NULL, test_wardens_end);
}
