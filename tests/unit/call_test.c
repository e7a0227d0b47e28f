/* The call state machine and dispatch, with a transport that only writes down. */
#include "wire/call.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "google/rpc/status.pb-c.h" /* any message will do */
#include "wire/service.h"

enum { MAX_LOG = 512 };

typedef struct script {
    char log[MAX_LOG]; /* what happened, in order */
    int start_rc, message_rc, half_close_rc;
    bool finish_in_start;
    bool keep;
    box_call *kept;
} script;

typedef struct transport {
    box_call call;
    script *s;
    bool writable;
} transport;

static void say(script *s, const char *word, const char *detail)
{
    size_t len = strlen(s->log);
    (void)snprintf(s->log + len, sizeof s->log - len, "%s%s ", word, detail);
}

static script *script_of(box_call *call)
{
    return ((transport *)(void *)call)->s;
}

/* --- the transport ---------------------------------------------------------------------------- */

static void op_send(box_call *call, const uint8_t *message, size_t len)
{
    Box__Rpc__Status *status = box__rpc__status__unpack(NULL, len, message);
    say(script_of(call), "send:", status->message);
    box__rpc__status__free_unpacked(status, NULL);
}

static void op_finish(box_call *call, const box_error *err)
{
    say(script_of(call), "finish:", box_reason_name(err != NULL ? err->reason : BOX_NONE));
}

static bool op_is_writable(const box_call *call)
{
    return ((const transport *)(const void *)call)->writable;
}

static void op_pause(box_call *call, bool paused)
{
    say(script_of(call), paused ? "pause" : "resume", "");
}

static void op_destroy(box_call *call)
{
    say(script_of(call), "destroy", "");
    free(call);
}

static const box_call_ops ops = {
    .send = op_send,
    .finish = op_finish,
    .is_writable = op_is_writable,
    .pause = op_pause,
    .destroy = op_destroy,
};

/* --- the service ------------------------------------------------------------------------------ */

static void on_end(box_call *call, void *arg, const box_error *why)
{
    assert_false(box_call_is_open(call));
    say(arg, "end:", box_reason_name(why->reason));
}

static int result(int rc, box_error *err)
{
    return rc == -1 ? box_fail(err, BOX_FILE_CONFLICT, "refused") : rc;
}

static int start(const void *handlers, box_call *call, const ProtobufCMessage *request,
                 box_error *err)
{
    (void)handlers;
    script *s = box_call_context(call);
    if (request == NULL)
        say(s, "start", "");
    else
        say(s, "start:", ((const Box__Rpc__Status *)(const void *)request)->message);
    box_call_on_end(call, on_end, s);
    if (s->keep)
        s->kept = box_call_ref(call);
    if (s->finish_in_start) {
        box_call_finish(call, NULL);
        if (request != NULL) /* still there */
            say(s, "", ((const Box__Rpc__Status *)(const void *)request)->message);
    }
    return result(s->start_rc, err);
}

static int message(const void *handlers, box_call *call, const ProtobufCMessage *request,
                   box_error *err)
{
    (void)handlers;
    script *s = box_call_context(call);
    say(s, "message:", ((const Box__Rpc__Status *)(const void *)request)->message);
    return result(s->message_rc, err);
}

static int half_close(const void *handlers, box_call *call, box_error *err)
{
    (void)handlers;
    script *s = box_call_context(call);
    say(s, "half_close", "");
    return result(s->half_close_rc, err);
}

#define METHOD(n, k, m, h)                                                                         \
    {                                                                                              \
        .path = "/box.Test/" n, .name = n, .kind = k, .request = &box__rpc__status__descriptor,    \
        .response = &box__rpc__status__descriptor, .start = start, .message = m, .half_close = h   \
    }

static const box_method methods[] = {
    METHOD("Unary", BOX_UNARY, NULL, NULL),
    METHOD("Watch", BOX_SERVER_STREAM, NULL, NULL),
    METHOD("Upload", BOX_CLIENT_STREAM, message, half_close),
    METHOD("Chat", BOX_BIDI, message, half_close),
};

static const box_service_type type = {
    .name = "box.Test", .methods = methods, .n_methods = BOX_COUNT(methods)};

static transport *call_new(script *s, box_method_kind kind)
{
    box_service *service = box_alloc(sizeof *service);
    *service = (box_service){.type = &type, .handlers = &type, .context = s};
    transport *t = box_alloc(sizeof *t);
    t->s = s;
    t->writable = true;
    box_metadata md = {0};
    box_error err;
    assert_int_equal(box_metadata_add_text(&md, "who", "test", &err), 0);
    box_call_init(&t->call, &ops, service, &methods[kind], NULL, &md, 7);
    assert_int_equal(md.count, 0);
    box_call_deliver_start(&t->call);
    return t;
}

static void deliver(transport *t, const char *text)
{
    Box__Rpc__Status status = BOX__RPC__STATUS__INIT;
    status.message = (char *)(uintptr_t)text;
    uint8_t bytes[256];
    size_t len = box__rpc__status__pack(&status, bytes);
    box_call_deliver_message(&t->call, bytes, len);
}

static void answer(box_call *call, const char *text)
{
    Box__Rpc__Status status = BOX__RPC__STATUS__INIT;
    status.message = (char *)(uintptr_t)text;
    box_call_send(call, &status.base);
}

/* The transport is done with it. */
static void end(transport *t, box_reason reason)
{
    const box_service *service = t->call.service;
    box_call_deliver_end(&t->call, &(box_error){.reason = reason});
    free((void *)(uintptr_t)service);
}

/* --- unary and server streaming --------------------------------------------------------------- */

static void one_request_runs_at_the_half_close(void **state)
{
    (void)state;
    const box_method_kind kinds[] = {BOX_UNARY, BOX_SERVER_STREAM};
    for (size_t i = 0; i < BOX_COUNT(kinds); i++) {
        script s = {.finish_in_start = true};
        transport *t = call_new(&s, kinds[i]);
        deliver(t, "hello");
        assert_string_equal(s.log, "");
        box_call_deliver_half_close(&t->call);
        assert_string_equal(s.log, "start:hello finish:NONE end:NONE hello ");
        end(t, BOX_NONE);
        assert_string_equal(s.log, "start:hello finish:NONE end:NONE hello destroy ");
    }
}

static void a_second_request_is_refused(void **state)
{
    (void)state;
    script s = {0};
    transport *t = call_new(&s, BOX_UNARY);
    deliver(t, "one");
    deliver(t, "two");
    deliver(t, "three");
    box_call_deliver_half_close(&t->call);
    end(t, BOX_NONE);
    assert_string_equal(s.log, "finish:UNIMPLEMENTED destroy ");
}

static void no_request_is_refused(void **state)
{
    (void)state;
    script s = {0};
    transport *t = call_new(&s, BOX_SERVER_STREAM);
    box_call_deliver_half_close(&t->call);
    end(t, BOX_NONE);
    assert_string_equal(s.log, "finish:UNIMPLEMENTED destroy ");
}

static void a_request_that_is_no_message_never_runs(void **state)
{
    (void)state;
    const struct {
        const char *bytes;
        size_t len;
        const char *log;
    } rows[] = {
        {"\xff\xff\xff", 3, "finish:PROTOCOL destroy "},
        {"\x12\x05hi", 4, "finish:PROTOCOL destroy "},
        {"\x12\x02\xff\xff", 4, "finish:VALIDATION destroy "},
        {"\x12\x02"
         "a\0",
         4, "finish:VALIDATION destroy "},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        script s = {0};
        transport *t = call_new(&s, BOX_UNARY);
        box_call_deliver_message(&t->call, (const uint8_t *)rows[i].bytes, rows[i].len);
        box_call_deliver_half_close(&t->call);
        end(t, BOX_NONE);
        assert_string_equal(s.log, rows[i].log);
    }
}

static void what_a_handler_returns_ends_the_call(void **state)
{
    (void)state;
    const struct {
        int rc;
        const char *log;
    } rows[] = {
        {-1, "start:x finish:FILE_CONFLICT end:FILE_CONFLICT destroy "},
        {BOX_NOT_IMPLEMENTED, "start:x finish:UNIMPLEMENTED end:UNIMPLEMENTED destroy "},
        {-7, "start:x finish:UNKNOWN end:UNKNOWN destroy "},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        script s = {.start_rc = rows[i].rc};
        transport *t = call_new(&s, BOX_UNARY);
        deliver(t, "x");
        box_call_deliver_half_close(&t->call);
        end(t, BOX_NONE);
        assert_string_equal(s.log, rows[i].log);
    }
}

static void a_service_without_handlers_is_not_implemented(void **state)
{
    (void)state;
    for (box_method_kind kind = BOX_UNARY; kind <= BOX_BIDI; kind++) {
        script s = {0};
        box_service service = {.type = &type, .context = &s};
        transport *t = box_alloc(sizeof *t);
        t->s = &s;
        box_metadata none = {0};
        box_call_init(&t->call, &ops, &service, &methods[kind], NULL, &none, 0);
        box_call_deliver_start(&t->call);
        deliver(t, "x");
        box_call_deliver_half_close(&t->call);
        assert_non_null(strstr(s.log, "finish:UNIMPLEMENTED"));
        box_call_deliver_end(&t->call, &(box_error){0});
    }
}

static void an_answer_may_come_later(void **state)
{
    (void)state;
    script s = {.keep = true};
    transport *t = call_new(&s, BOX_UNARY);
    deliver(t, "x");
    box_call_deliver_half_close(&t->call);
    assert_true(box_call_is_open(s.kept));
    assert_string_equal(box_metadata_get(box_call_metadata(s.kept), "who"), "test");
    assert_int_equal(box_call_deadline(s.kept), 7);
    answer(s.kept, "late");
    box_call_finish(s.kept, NULL);
    box_call_finish(s.kept, NULL);
    answer(s.kept, "too late");
    end(t, BOX_NONE);
    box_call_unref(s.kept);
    assert_string_equal(s.log, "start:x send:late finish:NONE end:NONE destroy ");
}

static void answering_a_cancelled_call_is_harmless(void **state)
{
    (void)state;
    script s = {.keep = true};
    transport *t = call_new(&s, BOX_UNARY);
    deliver(t, "x");
    box_call_deliver_half_close(&t->call);
    end(t, BOX_CANCELLED);
    assert_false(box_call_is_open(s.kept));
    assert_false(box_call_is_writable(s.kept));
    answer(s.kept, "late");
    box_call_pause(s.kept);
    box_call_resume(s.kept);
    box_call_deliver_writable(s.kept);
    box_call_finish(s.kept, NULL);
    box_call_unref(s.kept);
    assert_string_equal(s.log, "start:x end:CANCELLED destroy ");
}

/* --- client streaming and bidi ---------------------------------------------------------------- */

static void a_stream_begins_at_once_and_gets_each_message(void **state)
{
    (void)state;
    const box_method_kind kinds[] = {BOX_CLIENT_STREAM, BOX_BIDI};
    for (size_t i = 0; i < BOX_COUNT(kinds); i++) {
        script s = {0};
        transport *t = call_new(&s, kinds[i]);
        assert_string_equal(s.log, "start ");
        deliver(t, "a");
        deliver(t, "");
        box_call_pause(&t->call);
        box_call_resume(&t->call);
        box_call_deliver_half_close(&t->call);
        answer(&t->call, "b");
        box_call_finish(&t->call, &(box_error){.reason = BOX_QUOTA});
        deliver(t, "c");
        end(t, BOX_NONE);
        assert_string_equal(s.log, "start message:a message: pause resume half_close send:b "
                                   "finish:QUOTA end:NONE destroy ");
    }
}

static void a_stream_ends_with_its_handlers_errors(void **state)
{
    (void)state;
    script s = {.message_rc = -1};
    transport *t = call_new(&s, BOX_BIDI);
    deliver(t, "a");
    deliver(t, "b");
    box_call_deliver_half_close(&t->call);
    end(t, BOX_NONE);
    assert_string_equal(s.log, "start message:a finish:FILE_CONFLICT end:FILE_CONFLICT destroy ");

    s = (script){.start_rc = BOX_NOT_IMPLEMENTED};
    t = call_new(&s, BOX_BIDI);
    deliver(t, "a");
    end(t, BOX_NONE);
    assert_string_equal(s.log, "start finish:UNIMPLEMENTED end:UNIMPLEMENTED destroy ");

    s = (script){.half_close_rc = -1};
    t = call_new(&s, BOX_CLIENT_STREAM);
    box_call_deliver_half_close(&t->call);
    end(t, BOX_NONE);
    assert_string_equal(s.log, "start half_close finish:FILE_CONFLICT end:FILE_CONFLICT destroy ");
}

static void a_broken_message_ends_a_stream(void **state)
{
    (void)state;
    script s = {0};
    transport *t = call_new(&s, BOX_BIDI);
    box_call_deliver_message(&t->call, (const uint8_t *)"\xff", 1);
    end(t, BOX_NONE);
    assert_string_equal(s.log, "start finish:PROTOCOL end:PROTOCOL destroy ");
}

static void on_writable(box_call *call, void *arg)
{
    (void)call;
    say(arg, "writable", "");
}

static void writable_reaches_the_handler(void **state)
{
    (void)state;
    script s = {0};
    transport *t = call_new(&s, BOX_BIDI);
    box_call_deliver_writable(&t->call); /* nobody asked */
    box_call_on_writable(&t->call, on_writable, &s);
    t->writable = false;
    assert_false(box_call_is_writable(&t->call));
    t->writable = true;
    assert_true(box_call_is_writable(&t->call));
    box_call_deliver_writable(&t->call);
    end(t, BOX_DEADLINE);
    assert_string_equal(s.log, "start writable end:DEADLINE destroy ");
}

/* --- dispatch --------------------------------------------------------------------------------- */

static void methods_are_found_by_their_exact_path(void **state)
{
    (void)state;
    static const box_service_type longer = {.name = "box.TestTwo"};
    const box_service services[] = {{.type = &longer}, {.type = &type}};
    const box_service *service;
    const box_method *method;
    assert_true(box_service_find(services, 2, "/box.Test/Chat", &service, &method));
    assert_ptr_equal(service, &services[1]);
    assert_ptr_equal(method, &methods[BOX_BIDI]);
    const char *const unknown[] = {
        "",
        "/",
        "/box.Test",
        "/box.Test/",
        "/box.Test/chat",
        "/box.Test/Chat/",
        "box.Test/Chat",
        "/box.Test/Chat?x",
        "/box.Tes/Chat",
        "/box.TestTwo/Chat",
        "//Chat",
        "/box.Test//Chat",
    };
    for (size_t i = 0; i < BOX_COUNT(unknown); i++)
        assert_false(box_service_find(services, 2, unknown[i], &service, &method));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_request_runs_at_the_half_close),
        cmocka_unit_test(a_second_request_is_refused),
        cmocka_unit_test(no_request_is_refused),
        cmocka_unit_test(a_request_that_is_no_message_never_runs),
        cmocka_unit_test(what_a_handler_returns_ends_the_call),
        cmocka_unit_test(a_service_without_handlers_is_not_implemented),
        cmocka_unit_test(an_answer_may_come_later),
        cmocka_unit_test(answering_a_cancelled_call_is_harmless),
        cmocka_unit_test(a_stream_begins_at_once_and_gets_each_message),
        cmocka_unit_test(a_stream_ends_with_its_handlers_errors),
        cmocka_unit_test(a_broken_message_ends_a_stream),
        cmocka_unit_test(writable_reaches_the_handler),
        cmocka_unit_test(methods_are_found_by_their_exact_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
