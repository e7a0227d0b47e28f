/* How boxcli drill judges what a command's end says. */
#include "drill.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>

#include <cmocka.h>

#include "box/v1/types.fields.h"

/* An answer with all its parts. */
typedef struct fixture {
    Box__V1__ExecResponse answer;
    Box__V1__Verdict verdict;
    Box__V1__OutputReport report;
    Google__Protobuf__Duration wall, cpu;
    drill_outcome out;
} fixture;

static void set_text(ProtobufCBinaryData *to, const char *text)
{
    to->data = (uint8_t *)(uintptr_t)text;
    to->len = strlen(text);
}

/* It completed with exit code 0 and this output. */
static fixture *completed(fixture *f, const char *out)
{
    box__v1__exec_response__init(&f->answer);
    box__v1__verdict__init(&f->verdict);
    box__v1__output_report__init(&f->report);
    google__protobuf__duration__init(&f->wall);
    google__protobuf__duration__init(&f->cpu);
    f->answer.verdict = &f->verdict;
    f->verdict.stdout_report = &f->report;
    f->verdict.wall_time = &f->wall;
    f->verdict.cpu_time = &f->cpu;
    f->verdict.status = BOX__V1__VERDICT_STATUS__VERDICT_STATUS_COMPLETED;
    box__v1__verdict__set_exit_code(&f->verdict, 0);
    set_text(&f->answer.stdout_data, out);
    f->out = (drill_outcome){0};
    return f;
}

static fixture *ended(fixture *f, Box__V1__VerdictStatus status)
{
    (void)completed(f, "");
    f->verdict.status = status;
    return f;
}

static void expect(const fixture *f, drill_result result, const char *happened)
{
    assert_int_equal(f->out.result, result);
    assert_non_null(strstr(f->out.happened, happened));
}

static void a_report_is_held_by_its_own_word(void **state)
{
    (void)state;
    fixture f;
    drill_judge_report(&completed(&f, "noise\nheld: all refused\n")->answer, &f.out);
    expect(&f, DRILL_HELD, "all refused");
    drill_judge_report(&completed(&f, "held: without a line end")->answer, &f.out);
    expect(&f, DRILL_HELD, "without a line end");
}

static void one_thing_that_worked_breaks_a_report(void **state)
{
    (void)state;
    fixture f;
    drill_judge_report(&completed(&f, "broken: mount worked\nheld: the rest\n")->answer, &f.out);
    expect(&f, DRILL_BROKEN, "mount worked");
    drill_judge_report(&completed(&f, "held: x\nbroken: late\n")->answer, &f.out);
    expect(&f, DRILL_BROKEN, "late");
}

static void a_report_that_did_not_come_to_its_end_is_not_held(void **state)
{
    (void)state;
    fixture f;
    drill_judge_report(&completed(&f, "")->answer, &f.out);
    expect(&f, DRILL_BROKEN, "COMPLETED, exit code 0");
    drill_judge_report(&completed(&f, "unheld: x\nbrok")->answer, &f.out);
    expect(&f, DRILL_BROKEN, "ended with");
    (void)completed(&f, "held: x\n");
    box__v1__verdict__set_exit_code(&f.verdict, 1);
    set_text(&f.answer.stderr_data, "Traceback: TypeError");
    drill_judge_report(&f.answer, &f.out);
    expect(&f, DRILL_BROKEN, "exit code 1: Traceback: TypeError");
    (void)ended(&f, BOX__V1__VERDICT_STATUS__VERDICT_STATUS_SANDBOX_LOST);
    drill_judge_report(&f.answer, &f.out);
    expect(&f, DRILL_BROKEN, "SANDBOX_LOST");
}

static void a_python_without_its_modules_is_no_verdict(void **state)
{
    (void)state;
    fixture f;
    (void)completed(&f, "");
    box__v1__verdict__set_exit_code(&f.verdict, 1);
    set_text(&f.answer.stderr_data, "ModuleNotFoundError: No module named 'ctypes'");
    drill_judge_report(&f.answer, &f.out);
    expect(&f, DRILL_SKIPPED, "module");
}

static void memory_holds_when_the_kernel_killed_it(void **state)
{
    (void)state;
    fixture f;
    (void)ended(&f, BOX__V1__VERDICT_STATUS__VERDICT_STATUS_OOM_KILLED);
    drill_judge_oom(&f.answer, &f.out);
    expect(&f, DRILL_HELD, "memory");
    drill_judge_oom(&completed(&f, "broken: 512 MiB\n")->answer, &f.out);
    expect(&f, DRILL_BROKEN, "512 MiB");
}

static void a_timeout_holds_only_as_a_timeout(void **state)
{
    (void)state;
    fixture f;
    (void)ended(&f, BOX__V1__VERDICT_STATUS__VERDICT_STATUS_TIMED_OUT);
    f.wall.seconds = 2;
    drill_judge_timeout(&f.answer, &f.out);
    expect(&f, DRILL_HELD, "2.0 s");
    drill_judge_timeout(&completed(&f, "")->answer, &f.out);
    expect(&f, DRILL_BROKEN, "COMPLETED");
}

static void floods_are_ended_and_large_outputs_cut(void **state)
{
    (void)state;
    fixture f;
    static char large[DRILL_OUTPUT_BYTES + 1];
    (void)ended(&f, BOX__V1__VERDICT_STATUS__VERDICT_STATUS_OUTPUT_LIMIT);
    drill_judge_flood(&f.answer, &f.out);
    expect(&f, DRILL_HELD, "killed");
    drill_judge_flood(&completed(&f, "")->answer, &f.out);
    expect(&f, DRILL_BROKEN, "COMPLETED");
    (void)completed(&f, "");
    f.answer.stdout_data = (ProtobufCBinaryData){DRILL_OUTPUT_BYTES, (uint8_t *)large};
    drill_judge_kept(&f.answer, &f.out);
    expect(&f, DRILL_BROKEN, "bytes were counted");
    f.verdict.stdout_report->total_bytes = DRILL_LARGE_BYTES;
    drill_judge_kept(&f.answer, &f.out);
    expect(&f, DRILL_HELD, "65536 of");
    f.answer.stdout_data.len++;
    drill_judge_kept(&f.answer, &f.out);
    expect(&f, DRILL_BROKEN, "65537 bytes were kept");
}

static void leftovers_have_to_be_found_and_killed(void **state)
{
    (void)state;
    fixture f;
    (void)completed(&f, "");
    drill_judge_leftovers(&f.answer, &f.out);
    expect(&f, DRILL_BROKEN, "0 processes");
    f.verdict.leftover_processes = 3;
    f.verdict.leftovers = BOX__V1__LEFTOVER_POLICY__LEFTOVER_POLICY_KEEP;
    drill_judge_leftovers(&f.answer, &f.out);
    expect(&f, DRILL_BROKEN, "not killed");
    f.verdict.leftovers = BOX__V1__LEFTOVER_POLICY__LEFTOVER_POLICY_KILL;
    drill_judge_leftovers(&f.answer, &f.out);
    expect(&f, DRILL_HELD, "3 processes");
}

static void cpu_time_is_measured_against_the_quota(void **state)
{
    (void)state;
    fixture f;
    (void)completed(&f, "");
    f.wall.seconds = 2;
    f.cpu.seconds = 1;
    drill_judge_cpu(&f.answer, &f.out);
    expect(&f, DRILL_HELD, "1.00 s");
    f.cpu.seconds = 4;
    drill_judge_cpu(&f.answer, &f.out);
    expect(&f, DRILL_BROKEN, "4.00 s");
    f.verdict.cpu_time = NULL;
    drill_judge_cpu(&f.answer, &f.out);
    expect(&f, DRILL_SKIPPED, "not measure");
}

static void a_crash_is_told_without_a_core(void **state)
{
    (void)state;
    fixture f;
    (void)completed(&f, "");
    drill_judge_core(&f.answer, &f.out);
    expect(&f, DRILL_BROKEN, "exit code 0");
    box__v1__verdict__set_signal(&f.verdict, SIGSEGV);
    drill_judge_core(&f.answer, &f.out);
    expect(&f, DRILL_HELD, "signal 11");
    f.verdict.core_dumped = true;
    drill_judge_core(&f.answer, &f.out);
    expect(&f, DRILL_BROKEN, "core");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_is_held_by_its_own_word),
        cmocka_unit_test(one_thing_that_worked_breaks_a_report),
        cmocka_unit_test(a_report_that_did_not_come_to_its_end_is_not_held),
        cmocka_unit_test(a_python_without_its_modules_is_no_verdict),
        cmocka_unit_test(memory_holds_when_the_kernel_killed_it),
        cmocka_unit_test(a_timeout_holds_only_as_a_timeout),
        cmocka_unit_test(floods_are_ended_and_large_outputs_cut),
        cmocka_unit_test(leftovers_have_to_be_found_and_killed),
        cmocka_unit_test(cpu_time_is_measured_against_the_quota),
        cmocka_unit_test(a_crash_is_told_without_a_core),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
