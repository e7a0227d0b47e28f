#include "base/process.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* In a child, whose limits are its own. */
static int crash_status(rlim_t soft, rlim_t hard)
{
    pid_t child = fork();
    if (child == 0) {
        box_error err;
        struct rlimit core = {soft, hard};
        struct rlimit now;
        if (setrlimit(RLIMIT_CORE, &core) < 0 || box_process_forbid_core(&err) < 0 ||
            getrlimit(RLIMIT_CORE, &now) < 0 || now.rlim_max > 1)
            _exit(1);
        (void)signal(SIGABRT, SIG_DFL); /* a sanitizer may have taken it */
        abort();
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void a_crash_dumps_nothing(void **state)
{
    (void)state;
    struct rlimit have;
    assert_int_equal(getrlimit(RLIMIT_CORE, &have), 0);
    int status = crash_status(have.rlim_max, have.rlim_max);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_false(WCOREDUMP(status));
}

static void a_lower_limit_stays(void **state)
{
    (void)state;
    int status = crash_status(0, 0);
    assert_true(WIFSIGNALED(status));
    assert_false(WCOREDUMP(status));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crash_dumps_nothing),
        cmocka_unit_test(a_lower_limit_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
