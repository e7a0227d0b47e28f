/* The generated code itself: presence helpers, dispatch tables, client stubs of all four kinds over
 * a channel in this process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "box/golden/shapes.box.h"
#include "box/golden/shapes.client.h"
#include "box/inproc.h"
#include "box_golden_descriptor_set.h"

/* --- a server of all four kinds --------------------------------------------------------------- */

static int echo(box_call *call, const Box__Golden__Outer *request, box_error *err)
{
    (void)err;
    box_golden_shape_service_echo_answer(call, request);
    return 0;
}

/* Streams x numbers, then ends; x < 0 is an error. */
static int watch(box_call *call, const Box__Golden__Point *request, box_error *err)
{
    if (request->x < 0)
        return box_fail(err, BOX_VALIDATION, "x is negative");
    for (int32_t i = 0; i < request->x; i++) {
        Box__Golden__Scalars s;
        box__golden__scalars__init(&s);
        s.an_int32 = i;
        box_golden_shape_service_watch_reply(call, &s);
    }
    box_call_finish(call, NULL);
    return 0;
}

typedef struct counter {
    int32_t sum;
    size_t *live;
} counter;

static void counter_end(box_call *call, void *arg, const box_error *why)
{
    (void)call, (void)why;
    counter *c = arg;
    --*c->live;
    free(c);
}

static int upload(box_call *call, box_error *err)
{
    (void)err;
    counter *c = box_alloc(sizeof(*c));
    c->live = box_call_context(call);
    ++*c->live;
    box_call_set_state(call, c);
    box_call_on_end(call, counter_end, c);
    return 0;
}

static int upload_message(box_call *call, const Box__Golden__Choice *message, box_error *err)
{
    counter *c = box_call_state(call);
    if (message->kind_case != BOX__GOLDEN__CHOICE__KIND_NUMBER)
        return box_violation(err, "number", "must be set");
    c->sum += message->number;
    return 0;
}

static int upload_half_close(box_call *call, box_error *err)
{
    (void)err;
    const counter *c = box_call_state(call);
    Box__Golden__Lists lists;
    box__golden__lists__init(&lists);
    int32_t sum = c->sum;
    lists.int32s = &sum;
    lists.n_int32s = 1;
    box_golden_shape_service_upload_answer(call, &lists);
    return 0;
}

static int talk(box_call *call, box_error *err)
{
    (void)call, (void)err;
    return 0;
}

static int talk_message(box_call *call, const Box__Golden__Choice *message, box_error *err)
{
    (void)err;
    box_golden_shape_service_talk_reply(call, message);
    return 0;
}

static int talk_half_close(box_call *call, box_error *err)
{
    (void)err;
    box_call_finish(call, NULL);
    return 0;
}

static const box_golden_shape_service_handlers handlers = {
    .echo = echo,
    .watch = watch,
    .upload = upload,
    .upload_message = upload_message,
    .upload_half_close = upload_half_close,
    .talk = talk,
    .talk_message = talk_message,
    .talk_half_close = talk_half_close,
};

typedef struct fixture {
    size_t live_uploads;
    box_service service;
    box_channel *channel;
    box_error err;
} fixture;

static int set_up(void **state)
{
    fixture *f = box_alloc(sizeof(*f));
    f->service = (box_service){&box_golden_shape_service, &handlers, &f->live_uploads};
    *state = f;
    return box_channel_inproc(&f->service, 1, NULL, NULL, &f->channel, &f->err);
}

static int tear_down(void **state)
{
    fixture *f = *state;
    box_channel_free(f->channel);
    assert_int_equal(f->live_uploads, 0);
    free(f);
    return 0;
}

/* --- tables ----------------------------------------------------------------------------------- */

static void a_table_has_path_kind_and_types_of_every_method(void **state)
{
    (void)state;
    const box_service_type *t = &box_golden_shape_service;
    assert_string_equal(t->name, "box.golden.ShapeService");
    assert_int_equal(t->n_methods, 6);
    assert_string_equal(t->methods[0].path, "/box.golden.ShapeService/Echo");
    assert_string_equal(t->methods[0].name, "Echo");
    assert_int_equal(t->methods[0].kind, BOX_UNARY);
    assert_int_equal(t->methods[1].kind, BOX_SERVER_STREAM);
    assert_int_equal(t->methods[2].kind, BOX_CLIENT_STREAM);
    assert_int_equal(t->methods[3].kind, BOX_BIDI);
    assert_ptr_equal(t->methods[2].request, &box__golden__choice__descriptor);
    assert_ptr_equal(t->methods[2].response, &box__golden__lists__descriptor);
    assert_ptr_equal(t->methods[5].request, &box__golden__outer__inner_most__descriptor);
    assert_null(t->methods[0].message);
    assert_non_null(t->methods[3].half_close);
    assert_string_equal(box_golden_empty_service.name, "box.golden.EmptyService");
    assert_int_equal(box_golden_empty_service.n_methods, 0);
}

static void a_handler_that_is_not_there_is_told_apart(void **state)
{
    (void)state;
    box_error err = {0};
    const box_golden_shape_service_handlers none = {0};
    const box_method *methods = box_golden_shape_service.methods;
    for (size_t i = 0; i < box_golden_shape_service.n_methods; i++)
        assert_int_equal(methods[i].start(&none, NULL, NULL, &err), BOX_NOT_IMPLEMENTED);
    assert_int_equal(methods[3].message(&none, NULL, NULL, &err), BOX_NOT_IMPLEMENTED);
    assert_int_equal(methods[3].half_close(&none, NULL, &err), BOX_NOT_IMPLEMENTED);
}

static void the_descriptor_set_has_the_file_its_imports_and_optional(void **state)
{
    (void)state;
    const box_descriptor_set *set = &box_golden_descriptor_set;
    static const char *const names[] = {"box/golden/common.proto", "box/golden/shapes.proto",
                                        "google/protobuf/duration.proto"};
    for (size_t i = 0; i < BOX_COUNT(names); i++)
        assert_non_null(memmem(set->data, set->len, names[i], strlen(names[i])));
    /* The comment is source info, the synthetic oneof stays. */
    assert_null(memmem(set->data, set->len, "Every shape", strlen("Every shape")));
    assert_non_null(memmem(set->data, set->len, "_a_double", strlen("_a_double")));
}

/* --- presence --------------------------------------------------------------------------------- */

static Box__Golden__Optionals *round_trip(const Box__Golden__Optionals *m)
{
    size_t len = box__golden__optionals__get_packed_size(m);
    uint8_t *bytes = box_alloc(len + 1);
    assert_int_equal(box__golden__optionals__pack(m, bytes), len);
    Box__Golden__Optionals *back = box__golden__optionals__unpack(NULL, len, bytes);
    free(bytes);
    assert_non_null(back);
    return back;
}

static void a_zero_that_is_set_arrives_as_set(void **state)
{
    (void)state;
    Box__Golden__Optionals m;
    box__golden__optionals__init(&m);
    assert_false(box__golden__optionals__has_an_int32(&m));
    box__golden__optionals__set_an_int32(&m, 0);
    box__golden__optionals__set_a_bool(&m, 0);
    box__golden__optionals__set_a_double(&m, 0);
    box__golden__optionals__set_a_colour(&m, BOX__GOLDEN__COLOUR__COLOUR_UNSPECIFIED);
    box__golden__optionals__set_default_(&m, 0);
    box__golden__optionals__set_camelcase(&m, 0);
    box__golden__optionals__set_httpport(&m, 0);
    Box__Golden__Optionals *back = round_trip(&m);
    assert_true(box__golden__optionals__has_an_int32(back));
    assert_true(box__golden__optionals__has_a_bool(back));
    assert_true(box__golden__optionals__has_a_double(back));
    assert_true(box__golden__optionals__has_a_colour(back));
    assert_true(box__golden__optionals__has_default_(back));
    assert_true(box__golden__optionals__has_camelcase(back));
    assert_true(box__golden__optionals__has_httpport(back));
    assert_false(box__golden__optionals__has_an_int64(back));
    assert_false(box__golden__optionals__has_a_string(back));
    box__golden__optionals__free_unpacked(back, NULL);
}

static void empty_text_and_bytes_that_are_set_arrive_as_set(void **state)
{
    (void)state;
    Box__Golden__Optionals *m = box_alloc(sizeof(*m));
    box__golden__optionals__init(m);
    box__golden__optionals__set_a_string(m, "first");
    box__golden__optionals__set_a_string(m, "");
    box__golden__optionals__set_some_bytes(m, "abc", 3);
    box__golden__optionals__set_some_bytes(m, NULL, 0);
    Box__Golden__Point *point = box_alloc(sizeof(*point));
    box__golden__point__init(point);
    box__golden__optionals__set_a_point(m, point);
    Box__Golden__Optionals *back = round_trip(m);
    assert_true(box__golden__optionals__has_a_string(back));
    assert_string_equal(back->a_string, "");
    assert_true(box__golden__optionals__has_some_bytes(back));
    assert_int_equal(back->some_bytes.len, 0);
    assert_true(box__golden__optionals__has_a_point(back));
    assert_false(box__golden__optionals__has_new_(back));
    box__golden__optionals__free_unpacked(back, NULL);
    box__golden__optionals__free_unpacked(m, NULL);
}

/* --- blocking stubs --------------------------------------------------------------------------- */

static void a_unary_stub_gives_the_typed_answer(void **state)
{
    fixture *f = *state;
    Box__Golden__Point point;
    box__golden__point__init(&point);
    Box__Golden__Choice choice;
    box__golden__choice__init(&choice);
    Box__Golden__Outer outer;
    box__golden__outer__init(&outer);
    Box__Golden__Outer *answer = NULL;
    point.x = 42;
    choice.kind_case = BOX__GOLDEN__CHOICE__KIND_POINT;
    choice.point = &point;
    outer.choice = &choice;
    assert_int_equal(box_golden_shape_service_echo(f->channel, NULL, &outer, &answer, &f->err), 0);
    assert_int_equal(answer->choice->point->x, 42);
    box__golden__outer__free_unpacked(answer, NULL);
}

static void a_handler_left_out_answers_unimplemented(void **state)
{
    fixture *f = *state;
    Box__Golden__Point point;
    box__golden__point__init(&point);
    Box__Golden__Point *answer = NULL;
    assert_int_equal(
        box_golden_shape_service_get_httpinfo(f->channel, NULL, &point, &answer, &f->err), -1);
    assert_int_equal(f->err.reason, BOX_UNIMPLEMENTED);
    assert_null(answer);
}

static void a_server_stream_stub_receives_until_the_end(void **state)
{
    fixture *f = *state;
    Box__Golden__Point point;
    box__golden__point__init(&point);
    box_client_call *call = NULL;
    point.x = 3;
    assert_int_equal(box_golden_shape_service_watch(f->channel, NULL, &point, &call, &f->err), 0);
    for (int32_t i = 0; i < 3; i++) {
        Box__Golden__Scalars *s = NULL;
        assert_int_equal(box_golden_shape_service_watch_receive(call, &s, &f->err), 1);
        assert_int_equal(s->an_int32, i);
        box__golden__scalars__free_unpacked(s, NULL);
    }
    Box__Golden__Scalars *none = NULL;
    assert_int_equal(box_golden_shape_service_watch_receive(call, &none, &f->err), 0);
    assert_null(none);
    box_client_free(call);
}

static void a_server_stream_that_is_refused_says_so_in_receive(void **state)
{
    fixture *f = *state;
    Box__Golden__Point point;
    box__golden__point__init(&point);
    Box__Golden__Scalars *none = NULL;
    box_client_call *call = NULL;
    point.x = -1;
    assert_int_equal(box_golden_shape_service_watch(f->channel, NULL, &point, &call, &f->err), 0);
    assert_int_equal(box_golden_shape_service_watch_receive(call, &none, &f->err), -1);
    assert_int_equal(f->err.reason, BOX_VALIDATION);
    box_client_free(call);
}

static void a_client_stream_stub_gets_the_one_answer(void **state)
{
    fixture *f = *state;
    Box__Golden__Choice choice;
    box__golden__choice__init(&choice);
    Box__Golden__Lists *answer = NULL;
    box_client_call *call = NULL;
    choice.kind_case = BOX__GOLDEN__CHOICE__KIND_NUMBER;
    assert_int_equal(box_golden_shape_service_upload(f->channel, NULL, &call, &f->err), 0);
    for (choice.number = 1; choice.number <= 4; choice.number++)
        assert_int_equal(box_golden_shape_service_upload_send(call, &choice, &f->err), 0);
    assert_int_equal(box_golden_shape_service_upload_finish(call, &answer, &f->err), 0);
    assert_int_equal(answer->n_int32s, 1);
    assert_int_equal(answer->int32s[0], 10);
    box__golden__lists__free_unpacked(answer, NULL);
    box_client_free(call);
}

static void a_client_stream_that_fails_gives_its_status(void **state)
{
    fixture *f = *state;
    Box__Golden__Choice choice;
    box__golden__choice__init(&choice);
    Box__Golden__Lists *answer = NULL;
    box_client_call *call = NULL;
    assert_int_equal(box_golden_shape_service_upload(f->channel, NULL, &call, &f->err), 0);
    assert_int_equal(box_golden_shape_service_upload_send(call, &choice, &f->err), 0);
    assert_int_equal(box_golden_shape_service_upload_finish(call, &answer, &f->err), -1);
    assert_int_equal(f->err.reason, BOX_VALIDATION);
    assert_null(answer);
    box_client_free(call);
}

static void a_bidi_stub_sends_and_receives_in_turn(void **state)
{
    fixture *f = *state;
    Box__Golden__Choice choice;
    box__golden__choice__init(&choice);
    Box__Golden__Choice *back = NULL;
    box_client_call *call = NULL;
    choice.kind_case = BOX__GOLDEN__CHOICE__KIND_NUMBER;
    assert_int_equal(box_golden_shape_service_talk(f->channel, NULL, &call, &f->err), 0);
    for (choice.number = 1; choice.number <= 3; choice.number++) {
        assert_int_equal(box_golden_shape_service_talk_send(call, &choice, &f->err), 0);
        assert_int_equal(box_golden_shape_service_talk_receive(call, &back, &f->err), 1);
        assert_int_equal(back->number, choice.number);
        box__golden__choice__free_unpacked(back, NULL);
    }
    assert_int_equal(box_client_half_close(call, &f->err), 0);
    assert_int_equal(box_golden_shape_service_talk_receive(call, &back, &f->err), 0);
    box_client_free(call);
}

/* --- stubs for event loops -------------------------------------------------------------------- */

typedef struct events_seen {
    int messages;
    int last;
    int dones;
    box_reason reason;
} events_seen;

static void on_scalars(void *arg, box_client_call *call, const Box__Golden__Scalars *message)
{
    (void)call;
    events_seen *seen = arg;
    seen->messages++;
    seen->last = message->an_int32;
}

static void on_choice(void *arg, box_client_call *call, const Box__Golden__Choice *message)
{
    (void)call;
    events_seen *seen = arg;
    seen->messages++;
    seen->last = message->number;
}

static void on_done(void *arg, box_client_call *call, const box_error *status,
                    const box_metadata *trailers)
{
    (void)trailers;
    events_seen *seen = arg;
    seen->dones++;
    seen->reason = status->reason;
    box_client_free(call);
}

static void typed_events_come_from_dispatch_and_end_with_done(void **state)
{
    fixture *f = *state;
    const box_golden_shape_service_watch_events events = {.message = on_scalars, .done = on_done};
    Box__Golden__Point point;
    box__golden__point__init(&point);
    box_client_call *call = NULL;
    events_seen seen = {0};
    point.x = 5;
    assert_int_equal(box_golden_shape_service_watch_start(f->channel, NULL, &point, &events, &seen,
                                                          &call, &f->err),
                     0);
    assert_int_equal(seen.messages, 0);
    box_channel_dispatch(f->channel);
    assert_int_equal(seen.messages, 5);
    assert_int_equal(seen.last, 4);
    assert_int_equal(seen.dones, 1);
    assert_int_equal(seen.reason, BOX_NONE);
}

static void a_call_with_events_that_is_freed_early_leaks_nothing(void **state)
{
    fixture *f = *state;
    const box_golden_shape_service_talk_events events = {.message = on_choice, .done = on_done};
    Box__Golden__Choice choice;
    box__golden__choice__init(&choice);
    box_client_call *call = NULL;
    events_seen seen = {0};
    choice.kind_case = BOX__GOLDEN__CHOICE__KIND_NUMBER;
    choice.number = 9;
    assert_int_equal(
        box_golden_shape_service_talk_start(f->channel, NULL, &events, &seen, &call, &f->err), 0);
    assert_int_equal(box_golden_shape_service_talk_send(call, &choice, &f->err), 0);
    box_channel_dispatch(f->channel);
    assert_int_equal(seen.last, 9);
    box_client_free(call);
    box_channel_dispatch(f->channel);
    assert_int_equal(seen.dones, 0);
}

#define WITH_CHANNEL(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_has_path_kind_and_types_of_every_method),
        cmocka_unit_test(a_handler_that_is_not_there_is_told_apart),
        cmocka_unit_test(the_descriptor_set_has_the_file_its_imports_and_optional),
        cmocka_unit_test(a_zero_that_is_set_arrives_as_set),
        cmocka_unit_test(empty_text_and_bytes_that_are_set_arrive_as_set),
        WITH_CHANNEL(a_unary_stub_gives_the_typed_answer),
        WITH_CHANNEL(a_handler_left_out_answers_unimplemented),
        WITH_CHANNEL(a_server_stream_stub_receives_until_the_end),
        WITH_CHANNEL(a_server_stream_that_is_refused_says_so_in_receive),
        WITH_CHANNEL(a_client_stream_stub_gets_the_one_answer),
        WITH_CHANNEL(a_client_stream_that_fails_gives_its_status),
        WITH_CHANNEL(a_bidi_stub_sends_and_receives_in_turn),
        WITH_CHANNEL(typed_events_come_from_dispatch_and_end_with_done),
        WITH_CHANNEL(a_call_with_events_that_is_freed_early_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
