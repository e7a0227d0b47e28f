/* The order in which a sandbox's first process comes into its control groups: forks are real, the
 * kernel's groups and namespaces are played. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "namespace/birth.h"
#include "namespace/cgroup.h"
#include "namespace/proc.h"

enum { STORY_BYTES = 512 };

/* What happened, in all processes, with a space behind each. */
typedef struct stage {
    char story[STORY_BYTES];
    atomic_size_t used;
    bool limits_on_v2;
    bool no_birth;     /* no process can be born in a group */
    bool no_namespace; /* the founder fails */
    bool no_midwife;
    int session;
    int agent;
} stage;

static stage *st;

static void tell(const char *what)
{
    char text[64];
    size_t len = (size_t)snprintf(text, sizeof text, "%s ", what);
    size_t at = atomic_fetch_add(&st->used, len);
    assert_true(len < sizeof text && at + len < sizeof st->story);
    memcpy(st->story + at, text, len);
}

/* --- the kernel, played ----------------------------------------------------------------------- */

static const char *name_of(int group)
{
    return group < 0 ? "here" : group == st->session ? "S" : group == st->agent ? "agent" : "?";
}

int box_cgroups_birthplace(const box_sandbox_record *record, const char *below)
{
    (void)record;
    int *fd = below[0] == '\0' ? &st->session : &st->agent;
    *fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return *fd;
}

bool box_cgroups_limit_on_v2(const box_sandbox_record *record)
{
    (void)record;
    return st->limits_on_v2;
}

int box_cgroups_join(const box_sandbox_record *record, const char *below, bool everywhere,
                     box_error *err)
{
    (void)record;
    (void)err;
    char text[64];
    (void)snprintf(text, sizeof text, "join:%s%s", below[0] == '\0' ? "S" : "agent",
                   everywhere ? "(moves)" : "");
    tell(text);
    return 0;
}

int box_cgroups_settle(const box_sandbox_record *record, box_error *err)
{
    (void)record;
    (void)err;
    tell("settle");
    return 0;
}

int box_sandbox_unshare_groups(uint32_t uid_base, box_ids ids, box_error *err)
{
    (void)uid_base;
    (void)ids;
    tell("namespace");
    return st->no_namespace ? box_fail(err, BOX_INTERNAL, "no namespace") : 0;
}

int box_sandbox_open_groups(int *out, box_error *err)
{
    *out = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return *out < 0 ? box_fail_errno(err, "open") : 0;
}

int box_sandbox_enter_groups(int groups, box_error *err)
{
    tell(groups >= 0 ? "enter" : "enter:nothing");
    return groups >= 0 ? 0 : box_fail(err, BOX_INTERNAL, "no namespace");
}

static pid_t born(int group, int *pidfd)
{
    pid_t pid = fork();
    if (pid > 0)
        *pidfd = pidfd_open(pid, 0);
    if (pid == 0) {
        char text[32];
        (void)snprintf(text, sizeof text, "born:%s", name_of(group));
        tell(text);
    }
    return pid;
}

pid_t box_sandbox_fork(int group, int *pidfd, box_error *err)
{
    if (group >= 0 && (st->no_birth || (st->no_midwife && group == st->agent)))
        return box_fail(err, BOX_INTERNAL, "nobody is born in a group");
    return born(group, pidfd);
}

pid_t box_sandbox_clone(uint32_t uid_base, box_ids ids, int group, int *pidfd, box_error *err)
{
    (void)uid_base;
    (void)ids;
    (void)err;
    tell("clone");
    return born(group, pidfd);
}

void box_first_run(const box_first_plan *plan)
{
    (void)plan;
    tell("first");
    _exit(0);
}

/* --- tests ------------------------------------------------------------------------------------ */

static int set_up(void **state)
{
    (void)state;
    st = mmap(NULL, sizeof *st, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return st == MAP_FAILED;
}

static int tear_down(void **state)
{
    (void)state;
    while (waitpid(-1, NULL, 0) > 0)
        continue;
    return munmap(st, sizeof *st);
}

/* Its end is waited for: then the story is whole. */
static int give_birth(box_error *err)
{
    box_first_plan plan = {0};
    const box_sandbox_record record = {0};
    BOX_AUTO(box_closep) int ours = open("/dev/null", O_RDONLY | O_CLOEXEC);
    BOX_AUTO(box_closep) int pidfd = -1;
    pid_t pid = 0;
    int rc = box_birth(&plan, &record, 70000, ours, &pid, &pidfd, err);
    assert_int_equal(rc == 0, pid > 0 && pidfd >= 0);
    /* Only the ones in between are this process's children; the first process is theirs here. */
    if (rc == 0)
        assert_true(box_proc_wait(pidfd, 10000));
    return rc;
}

static void controllers_come_before_anybody_is_in_the_group(void **state)
{
    (void)state;
    box_error err;
    st->limits_on_v2 = true;
    assert_int_equal(give_birth(&err), 0);
    assert_string_equal(st->story,
                        "born:S join:S namespace settle born:agent join:S enter join:agent "
                        "clone born:here first ");
}

static void without_controllers_one_process_does_it_all(void **state)
{
    (void)state;
    box_error err;
    assert_int_equal(give_birth(&err), 0);
    assert_ptr_equal(strstr(st->story, "born:S join:S namespace join:agent clone "), st->story);
    assert_non_null(strstr(st->story, "born:agent "));
    assert_non_null(strstr(st->story, "settle "));
}

static void where_nobody_is_born_in_a_group_it_moves(void **state)
{
    (void)state;
    box_error err;
    st->no_birth = st->limits_on_v2 = true;
    assert_int_equal(give_birth(&err), 0);
    const char *moved = "born:here join:S(moves) namespace join:agent(moves) clone ";
    assert_ptr_equal(strstr(st->story, moved), st->story);
    assert_non_null(strstr(st->story + strlen(moved), "born:here "));
    assert_non_null(strstr(st->story, "settle "));
}

static void what_a_founder_lacks_is_told(void **state)
{
    (void)state;
    box_error err = {0};
    st->no_namespace = st->limits_on_v2 = true;
    assert_int_equal(give_birth(&err), -1);
    assert_string_equal(err.msg, "no namespace");
    assert_string_equal(st->story, "born:S join:S namespace ");
}

/* Moving is no way out any more: S has its controllers, so nobody may be in it. */
static void without_a_midwife_it_fails(void **state)
{
    (void)state;
    box_error err = {0};
    st->no_midwife = st->limits_on_v2 = true;
    assert_int_equal(give_birth(&err), -1);
    assert_string_equal(err.msg, "nobody is born in a group");
    assert_string_equal(st->story, "born:S join:S namespace settle ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(controllers_come_before_anybody_is_in_the_group, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(without_controllers_one_process_does_it_all, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(where_nobody_is_born_in_a_group_it_moves, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_a_founder_lacks_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_a_midwife_it_fails, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
