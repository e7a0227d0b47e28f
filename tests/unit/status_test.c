#include "wire/status.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static box_error round_trip(const box_error *src)
{
    BOX_AUTO(box_buf_done) box_buf bytes = {0};
    box_error err, out;
    memset(&out, 0xee, sizeof out);
    assert_int_equal(box_status_encode(src, &bytes, &err), 0);
    box_status_decode((int)box_error_code(src), src->msg, box_buf_data(&bytes), box_buf_len(&bytes),
                      &out);
    return out;
}

static void assert_same(const box_error *a, const box_error *b)
{
    assert_int_equal(a->reason, b->reason);
    assert_int_equal(box_error_code(a), box_error_code(b));
    assert_string_equal(a->msg, b->msg);
    assert_int_equal(a->retry_ms, b->retry_ms);
    assert_int_equal(a->more, b->more);
    assert_int_equal(a->detail_len, b->detail_len);
    assert_memory_equal(a->detail, b->detail, a->detail_len);
}

static void every_reason_survives(void **state)
{
    (void)state;
    for (int reason = 1; reason < BOX_REASON_COUNT; reason++) {
        box_error err;
        (void)box_fail(&err, (box_reason)reason, "text of %s", box_reason_name(reason));
        box_error_add(&err, "kind", "session");
        box_error_add(&err, "id", "\xc3\xbc 1");
        box_error back = round_trip(&err);
        assert_same(&err, &back);
    }
}

static void all_violations_survive(void **state)
{
    (void)state;
    box_error err = {0};
    (void)box_violation(&err, "command.argv", "is empty");
    (void)box_violation(&err, "spec.memory_bytes", "is below %d", 1024);
    (void)box_violation(&err, "labels", "%s", "");
    box_error back = round_trip(&err);
    assert_same(&err, &back);
    assert_string_equal(box_error_get(&back, "field:spec.memory_bytes"), "is below 1024");
}

static void limits_and_advice_survive(void **state)
{
    (void)state;
    const uint32_t delays[] = {1, 999, 1000, 61001, UINT32_MAX - 5000, UINT32_MAX};
    for (size_t i = 0; i < BOX_COUNT(delays); i++) {
        box_error err;
        (void)box_fail(&err, BOX_QUOTA, "too many");
        box_error_add(&err, "limit", "sessions");
        box_error_add_int(&err, "max", 3);
        box_error_add_int(&err, "used", 3);
        err.retry_ms = delays[i];
        box_error back = round_trip(&err);
        assert_same(&err, &back);
    }
}

static void what_did_not_fit_is_counted(void **state)
{
    (void)state;
    box_error err = {0};
    for (int i = 0; i < 100; i++)
        (void)box_violation(&err, "a.rather.long.field.name", "is wrong in some way %d", i);
    assert_true(err.more > 0);
    box_error back = round_trip(&err);
    assert_same(&err, &back);
}

static void a_code_that_came_is_kept(void **state)
{
    (void)state;
    for (int code = 1; code <= 16; code++) {
        box_error err = {.reason = BOX_UNKNOWN, .code = (uint16_t)code, .msg = "theirs"};
        box_error back = round_trip(&err);
        assert_int_equal(box_error_code(&back), code);
        assert_string_equal(back.msg, "theirs");
    }
}

static void a_status_without_details_gets_its_reason_from_the_code(void **state)
{
    (void)state;
    const struct {
        int code;
        box_reason reason;
        box_code is;
    } rows[] = {
        {0, BOX_NONE, BOX_CODE_OK},
        {1, BOX_CANCELLED, BOX_CODE_CANCELLED},
        {2, BOX_UNKNOWN, BOX_CODE_UNKNOWN},
        {3, BOX_VALIDATION, BOX_CODE_INVALID_ARGUMENT},
        {4, BOX_DEADLINE, BOX_CODE_DEADLINE_EXCEEDED},
        {5, BOX_UNKNOWN, BOX_CODE_NOT_FOUND},
        {6, BOX_UNKNOWN, BOX_CODE_ALREADY_EXISTS},
        {7, BOX_PERMISSION, BOX_CODE_PERMISSION_DENIED},
        {8, BOX_UNKNOWN, BOX_CODE_RESOURCE_EXHAUSTED},
        {12, BOX_UNIMPLEMENTED, BOX_CODE_UNIMPLEMENTED},
        {13, BOX_INTERNAL, BOX_CODE_INTERNAL},
        {14, BOX_RUNTIME_UNAVAILABLE, BOX_CODE_UNAVAILABLE},
        {16, BOX_UNAUTHENTICATED, BOX_CODE_UNAUTHENTICATED},
        {17, BOX_UNKNOWN, BOX_CODE_UNKNOWN},
        {-1, BOX_UNKNOWN, BOX_CODE_UNKNOWN},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        box_error out;
        box_status_decode(rows[i].code, "why", NULL, 0, &out);
        assert_int_equal(out.reason, rows[i].reason);
        assert_int_equal(box_error_code(&out), rows[i].is);
        if (rows[i].code != 0)
            assert_string_equal(out.msg, "why");
    }
}

static void the_trailer_wins_over_the_details(void **state)
{
    (void)state;
    BOX_AUTO(box_buf_done) box_buf bytes = {0};
    box_error err, out;
    (void)box_fail(&err, BOX_SESSION_NOT_FOUND, "no session");
    assert_int_equal(box_status_encode(&err, &bytes, &err), 0);
    box_status_decode(14, "down", box_buf_data(&bytes), box_buf_len(&bytes), &out);
    assert_int_equal(box_error_code(&out), BOX_CODE_UNAVAILABLE);
    assert_string_equal(out.msg, "down");
}

static void broken_details_say_nothing(void **state)
{
    (void)state;
    BOX_AUTO(box_buf_done) box_buf bytes = {0};
    box_error err = {0}, out;
    (void)box_violation(&err, "argv", "is empty");
    err.retry_ms = 5;
    assert_int_equal(box_status_encode(&err, &bytes, &out), 0);
    for (size_t len = 0; len < box_buf_len(&bytes); len++) { /* cut anywhere */
        box_status_decode(3, "text", len > 0 ? box_buf_data(&bytes) : NULL, len, &out);
        assert_int_equal(out.reason, BOX_VALIDATION);
        assert_string_equal(out.msg, "text");
    }
    for (size_t i = 0; i < box_buf_len(&bytes); i++) { /* damaged anywhere */
        uint8_t *at = bytes.data + bytes.start + i;
        *at ^= 0x55;
        box_status_decode(3, "text", box_buf_data(&bytes), box_buf_len(&bytes), &out);
        assert_int_equal(box_error_code(&out), BOX_CODE_INVALID_ARGUMENT);
        *at ^= 0x55;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_reason_survives),
        cmocka_unit_test(all_violations_survive),
        cmocka_unit_test(limits_and_advice_survive),
        cmocka_unit_test(what_did_not_fit_is_counted),
        cmocka_unit_test(a_code_that_came_is_kept),
        cmocka_unit_test(a_status_without_details_gets_its_reason_from_the_code),
        cmocka_unit_test(the_trailer_wins_over_the_details),
        cmocka_unit_test(broken_details_say_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
