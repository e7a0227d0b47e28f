#include "warden_client.h"
#include <cmocka.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
static void a_command_runs(void **state)
{
    (void)state;
    test_warden w;
    test_boxd b;
    test_box box;
    box_uid instance = box_uid_new();
    test_warden_init(&w, "");
    test_warden_start(&w);
    test_boxd_connect(&b, &w, &instance);
    print_message("%s %x\n", b.hello.detail, b.hello.guarantees);
    test_box_create(&b, &w, (box_warden_create){0}, &box);
    char line[1000];
    while (fgets(line, sizeof line, stdin) != NULL) {
        test_run run;
        test_box_run(&box, line, &run);
        print_message("%s-> %d %d %s\n", run.output, run.exit.exit_code, run.exit.signal,
                      run.started.error.msg);
    }
    test_box_destroy(&b, &box);
    test_boxd_close(&b);
    test_warden_done(&w);
}
int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_command_runs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
