#include "agent/slot.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static box_error error_of(box_start_step step, int sys_errno, const char *name)
{
    box_slot slot;
    box_error err = {0};
    box_slot_clear(&slot);
    box_slot_fail(&slot, step, sys_errno, name);
    assert_int_equal(box_slot_error(&slot, &err), -1);
    assert_true(err.msg[0] != '\0');
    return err;
}

static void a_missing_program_or_directory_is_named(void **state)
{
    (void)state;
    const int missing[] = {ENOENT, ENOTDIR};
    for (size_t i = 0; i < BOX_COUNT(missing); i++) {
        box_error e = error_of(BOX_STEP_EXEC, missing[i], "prog");
        assert_int_equal(e.reason, BOX_FILE_NOT_FOUND);
        assert_int_equal(e.sys_errno, missing[i]);
        assert_string_equal(box_error_get(&e, "kind"), "command");
        assert_string_equal(box_error_get(&e, "id"), "prog");
        e = error_of(BOX_STEP_WORKDIR, missing[i], "/w");
        assert_int_equal(e.reason, BOX_FILE_NOT_FOUND);
        assert_string_equal(box_error_get(&e, "kind"), "workdir");
        assert_string_equal(box_error_get(&e, "id"), "/w");
    }
}

static void each_exec_error_has_its_reason(void **state)
{
    (void)state;
    const struct {
        int sys_errno;
        box_reason reason;
    } rows[] = {
        {EACCES, BOX_PERMISSION},
        {EPERM, BOX_PERMISSION},
        {ENOEXEC, BOX_VALIDATION},
        {E2BIG, BOX_VALIDATION},
        {ENAMETOOLONG, BOX_VALIDATION},
        {ELOOP, BOX_VALIDATION},
        {ENOMEM, BOX_QUOTA},
        {EIO, BOX_INTERNAL},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        box_error e = error_of(BOX_STEP_EXEC, rows[i].sys_errno, "p");
        assert_int_equal(e.reason, rows[i].reason);
    }
}

static void a_refused_process_is_a_quota(void **state)
{
    (void)state;
    const struct {
        int sys_errno;
        const char *limit;
    } rows[] = {{EAGAIN, "pids"}, {ENOMEM, "memory"}, {EMFILE, "descriptors"}};
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        box_error e = error_of(BOX_STEP_CLONE, rows[i].sys_errno, NULL);
        assert_int_equal(e.reason, BOX_QUOTA);
        assert_string_equal(box_error_get(&e, "limit"), rows[i].limit);
    }
}

static void our_own_failures_are_internal(void **state)
{
    (void)state;
    const box_start_step steps[] = {BOX_STEP_CGROUP, BOX_STEP_SETUP, BOX_STEP_ZYGOTE,
                                    BOX_STEP_STUCK};
    for (size_t i = 0; i < BOX_COUNT(steps); i++) {
        box_error e = error_of(steps[i], EACCES, NULL);
        assert_int_equal(e.reason, BOX_INTERNAL);
    }
    box_error e = error_of(BOX_STEP_CLONE, EINVAL, NULL);
    assert_int_equal(e.reason, BOX_INTERNAL);
}

static void a_long_name_is_cut(void **state)
{
    (void)state;
    char name[1000];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    box_error e = error_of(BOX_STEP_EXEC, ENOENT, name);
    assert_int_equal(strlen(box_error_get(&e, "id")), BOX_SLOT_NAME_BYTES - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_program_or_directory_is_named),
        cmocka_unit_test(each_exec_error_has_its_reason),
        cmocka_unit_test(a_refused_process_is_a_quota),
        cmocka_unit_test(our_own_failures_are_internal),
        cmocka_unit_test(a_long_name_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
