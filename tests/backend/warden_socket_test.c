/* What the warden does with its socket when the host gives it nothing more. The real box-warden, as
 * root. */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
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

int main(int argc, char **argv)
{
    if (geteuid() != 0) {
        (void)fputs("skipped: needs root\n", stderr);
        return 77;
    }
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || signal(SIGCHLD, SIG_DFL) == SIG_ERR)
        return 1;
    if (argc > 1 && !test_wardens_are(argv[1]))
        return 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(out_of_descriptors_it_waits_instead_of_spinning),
    };
    return cmocka_run_group_tests_name("warden_socket", tests, NULL, test_wardens_end);
}
