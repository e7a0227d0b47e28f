/* Every method that the generated tables offer has its rule, and no rule is for a method that does
 * not exist. */
#include "policy/method.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "box/v1/admin.box.h"
#include "box/v1/control.box.h"
#include "box/v1/exec.box.h"
#include "box/v1/file.box.h"
#include "box/v1/image.box.h"
#include "box/v1/process.box.h"
#include "box/v1/session.box.h"
#include "box/v1/skill.box.h"
#include "box/v1/tool.box.h"

static const box_service_type *const services[] = {
    &box_v1_admin_service,   &box_v1_control_service, &box_v1_exec_service,
    &box_v1_file_service,    &box_v1_image_service,   &box_v1_process_service,
    &box_v1_session_service, &box_v1_skill_service,   &box_v1_tool_service,
};

static void every_method_has_a_rule(void **state)
{
    (void)state;
    size_t n = 0;
    for (size_t i = 0; i < BOX_COUNT(services); i++) {
        for (size_t m = 0; m < services[i]->n_methods; m++, n++) {
            const char *path = services[i]->methods[m].path;
            if (box_method_rule_find(path) == NULL)
                fail_msg("no rule for %s", path);
        }
    }
    assert_in_range(n, 80, 200);
}

static void only_health_whoami_and_initialize_need_no_more_than_a_token(void **state)
{
    (void)state;
    for (size_t i = 0; i < BOX_COUNT(services); i++) {
        for (size_t m = 0; m < services[i]->n_methods; m++) {
            const box_method_rule *rule = box_method_rule_find(services[i]->methods[m].path);
            bool any = strcmp(rule->path, "/box.v1.ControlService/Health") == 0 ||
                       strcmp(rule->path, "/box.v1.ControlService/WhoAmI") == 0;
            bool early = any || strcmp(rule->path, "/box.v1.ControlService/Initialize") == 0;
            assert_int_equal(rule->scope == BOX_SCOPE_NONE, any);
            assert_int_equal((rule->flags & BOX_METHOD_BEFORE_INIT) != 0, early);
            assert_false(rule->flags & BOX_METHOD_OPEN);
            if (rule->scope != BOX_SCOPE_NONE)
                assert_non_null(box_scope_name(rule->scope));
        }
    }
}

static void every_admin_method_needs_an_admin_scope(void **state)
{
    (void)state;
    for (size_t m = 0; m < box_v1_admin_service.n_methods; m++) {
        const box_method_rule *rule = box_method_rule_find(box_v1_admin_service.methods[m].path);
        assert_true(rule->scope == BOX_SCOPE_ADMIN_READ || rule->scope == BOX_SCOPE_ADMIN_WRITE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method_has_a_rule),
        cmocka_unit_test(only_health_whoami_and_initialize_need_no_more_than_a_token),
        cmocka_unit_test(every_admin_method_needs_an_admin_scope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
