#include "tool/command_result.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/utf8.h"
#include "tool/json.h"

/* A message that is as long as one can be, cut nowhere: what is cut might be no text, and is no
 * JSON then. */
static void the_longest_reason_of_a_lost_sandbox_is_told_whole(void **state)
{
    (void)state;
    char detail[BOX_ERROR_MSG];
    memset(detail, 'x', sizeof detail);
    for (size_t i = 1; i + 2 < sizeof detail; i += 2)
        memcpy(detail + i, "\xc3\xa9", 2);
    detail[sizeof detail - 1] = '\0';
    assert_true(box_utf8_valid(detail, strlen(detail)));

    char id[] = "s";
    char backend[] = "namespace";
    box_session_info session = {.id = id, .backend = backend};
    box_verdict v = {.status = BOX_VERDICT_SANDBOX_LOST, .detail = detail, .session = &session};
    static box_excerpt streams[2];
    box_command_outcome o;
    box_command_outcome_fill(&o, &v, streams);
    o.result.json = box_command_exec_json(&o);
    const char *error = json_string_value(json_object_get(o.result.json, "error"));
    assert_non_null(error);
    assert_string_equal(error + strlen("the sandbox vanished: "), detail);
    box_command_outcome_done(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_reason_of_a_lost_sandbox_is_told_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
