#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <unistd.h>

#include "base/alloc.h"
#include "box/v1/exec.box.h"
#include "box/v1/exec.fields.h"
#include "box/v1/session.box.h"
#include "box/v1/types.fields.h"
#include "fake_loop.h"
#include "fake_warden.h"
#include "policy/identity.h"
#include "service/exec.h"
#include "service/session.h"
#include "service/session_convert.h"
#include "session/exec.h"

typedef struct fixture {
    box_loops *loops;
    fake_warden warden;
    char dir[64];
    box_sessions *all;
    box_service services[2];
    box_identity who;
} fixture;

/* A call whose other end is the test. */
typedef struct test_call {
    box_call base;
    bool finished;
    box_error status;
    ProtobufCMessage *last; /* owned */
    unsigned messages;
    bool blocked; /* not writable */
    bool paused;
    bool destroyed;
} test_call;

static void on_send(box_call *call, const uint8_t *message, size_t len)
{
    test_call *c = (test_call *)call;
    if (c->last != NULL)
        protobuf_c_message_free_unpacked(c->last, NULL);
    c->last = protobuf_c_message_unpack(call->method->response, NULL, len, message);
    assert_non_null(c->last);
    c->messages++;
}

static void on_finish(box_call *call, const box_error *err)
{
    test_call *c = (test_call *)call;
    c->finished = true;
    if (err != NULL)
        c->status = *err;
}

static bool on_is_writable(const box_call *call)
{
    return !((const test_call *)call)->blocked;
}

static void on_pause(box_call *call, bool paused)
{
    ((test_call *)call)->paused = paused;
}

static void on_destroy(box_call *call)
{
    ((test_call *)call)->destroyed = true;
}

static const box_call_ops ops = {.send = on_send,
                                 .finish = on_finish,
                                 .is_writable = on_is_writable,
                                 .pause = on_pause,
                                 .destroy = on_destroy};

static void settle(fixture *f)
{
    int quiet = 0;
    while (quiet < 2) {
        bool any = fake_loops_turn(f->loops);
        any |= fake_warden_step(&f->warden);
        quiet = any ? 0 : quiet + 1;
    }
}

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    box_error err = {0};
    assert_int_equal(box_loops_new(1, 0, &f->loops, &err), 0);
    fake_loop_enter(box_loops_get(f->loops, 0));
    fake_warden_init(&f->warden);
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/box-run-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    box_backend_config backend = {.name = "namespace", .fd = f->warden.peer};
    f->warden.peer = -1;
    box_sessions_config c = {.loops = f->loops,
                             .run_dir = f->dir,
                             .instance = box_uid_new(),
                             .backends = &backend,
                             .n_backends = 1};
    assert_int_equal(box_sessions_new(&c, &f->all, &err), 0);
    f->services[0] = box_session_service(f->all);
    f->services[1] = box_exec_service(f->all);
    f->who = (box_identity){.tenant = "acme", .scopes = BOX_ALL_SCOPES};
    settle(f);
    *state = f;
    return 0;
}

static void drained(void *arg)
{
    *(bool *)arg = true;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    bool over = false;
    box_sessions_drain(f->all, drained, &over);
    for (int i = 0; i < 40; i++) {
        settle(f);
        fake_time_advance(BOX_SECOND);
    }
    settle(f);
    assert_true(over);
    box_sessions_free(f->all);
    fake_warden_done(&f->warden);
    box_loops_free(f->loops);
    assert_int_equal(rmdir(f->dir), 0);
    free(f);
    return 0;
}

/* --- calling ---------------------------------------------------------------------------------- */

static void open_call(fixture *f, test_call *c, const char *path)
{
    const box_service *service;
    const box_method *method;
    box_metadata none = {0};
    assert_true(box_service_find(f->services, 2, path, &service, &method));
    *c = (test_call){0};
    box_call_init(&c->base, &ops, service, method, &f->who, &none, 0);
}

static void send_message(test_call *c, const ProtobufCMessage *m)
{
    size_t len = protobuf_c_message_get_packed_size(m);
    uint8_t *bytes = malloc(len + 1);
    protobuf_c_message_pack(m, bytes);
    box_call_deliver_message(&c->base, bytes, len);
    free(bytes);
}

static void call(fixture *f, test_call *c, const char *path, const ProtobufCMessage *request)
{
    open_call(f, c, path);
    send_message(c, request);
    box_call_deliver_half_close(&c->base);
    settle(f);
}

/* The transport's end. */
static void close_call(fixture *f, test_call *c, box_reason why)
{
    box_error err = {.reason = why};
    box_call_deliver_end(&c->base, &err);
    settle(f);
    assert_true(c->destroyed);
    if (c->last != NULL)
        protobuf_c_message_free_unpacked(c->last, NULL);
}

static char *text(const char *s)
{
    return (char *)(uintptr_t)s;
}

static void fill_command(Box__V1__Command *m, char **argv, size_t n)
{
    box__v1__command__init(m);
    m->argv = argv;
    m->n_argv = n;
}

/* --- tests ------------------------------------------------------------------------------------ */

static void the_numbers_of_both_sides_are_the_same(void **state)
{
    (void)state;
    assert_int_equal(BOX_SESSION_CREATED, BOX__V1__SESSION_STATE__SESSION_STATE_CREATED);
    assert_int_equal(BOX_SESSION_STARTING, BOX__V1__SESSION_STATE__SESSION_STATE_STARTING);
    assert_int_equal(BOX_SESSION_RUNNING, BOX__V1__SESSION_STATE__SESSION_STATE_RUNNING);
    assert_int_equal(BOX_SESSION_STOPPING, BOX__V1__SESSION_STATE__SESSION_STATE_STOPPING);
    assert_int_equal(BOX_SESSION_STOPPED, BOX__V1__SESSION_STATE__SESSION_STATE_STOPPED);
    assert_int_equal(BOX_SESSION_ERROR, BOX__V1__SESSION_STATE__SESSION_STATE_ERROR);
    assert_int_equal(BOX_VERDICT_COMPLETED, BOX__V1__VERDICT_STATUS__VERDICT_STATUS_COMPLETED);
    assert_int_equal(BOX_VERDICT_TIMED_OUT, BOX__V1__VERDICT_STATUS__VERDICT_STATUS_TIMED_OUT);
    assert_int_equal(BOX_VERDICT_IDLE_TIMED_OUT,
                     BOX__V1__VERDICT_STATUS__VERDICT_STATUS_IDLE_TIMED_OUT);
    assert_int_equal(BOX_VERDICT_CANCELLED, BOX__V1__VERDICT_STATUS__VERDICT_STATUS_CANCELLED);
    assert_int_equal(BOX_VERDICT_OOM_KILLED, BOX__V1__VERDICT_STATUS__VERDICT_STATUS_OOM_KILLED);
    assert_int_equal(BOX_VERDICT_OUTPUT_LIMIT,
                     BOX__V1__VERDICT_STATUS__VERDICT_STATUS_OUTPUT_LIMIT);
    assert_int_equal(BOX_VERDICT_KILLED, BOX__V1__VERDICT_STATUS__VERDICT_STATUS_KILLED);
    assert_int_equal(BOX_VERDICT_SANDBOX_LOST,
                     BOX__V1__VERDICT_STATUS__VERDICT_STATUS_SANDBOX_LOST);
    assert_int_equal(BOX_WATCH_EXISTING, BOX__V1__SESSION_EVENT_TYPE__SESSION_EVENT_TYPE_EXISTING);
    assert_int_equal(BOX_WATCH_SYNCED, BOX__V1__SESSION_EVENT_TYPE__SESSION_EVENT_TYPE_SYNCED);
    assert_int_equal(BOX_WATCH_CREATED, BOX__V1__SESSION_EVENT_TYPE__SESSION_EVENT_TYPE_CREATED);
    assert_int_equal(BOX_WATCH_STATE_CHANGED,
                     BOX__V1__SESSION_EVENT_TYPE__SESSION_EVENT_TYPE_STATE_CHANGED);
    assert_int_equal(BOX_WATCH_UPDATED, BOX__V1__SESSION_EVENT_TYPE__SESSION_EVENT_TYPE_UPDATED);
    assert_int_equal(BOX_WATCH_DELETED, BOX__V1__SESSION_EVENT_TYPE__SESSION_EVENT_TYPE_DELETED);
    assert_int_equal(BOX_WATCH_LOST, BOX__V1__SESSION_EVENT_TYPE__SESSION_EVENT_TYPE_LOST);
}

static void exec_answers_output_and_verdict(void **state)
{
    fixture *f = *state;
    char *argv[] = {text("echo"), text("hi")};
    Box__V1__Command command;
    fill_command(&command, argv, 2);
    Box__V1__ExecRequest r;
    box__v1__exec_request__init(&r);
    r.command = &command;
    test_call c;
    call(f, &c, "/box.v1.ExecService/Exec", &r.base);
    assert_true(c.finished);
    assert_int_equal(c.status.reason, BOX_NONE);
    const Box__V1__ExecResponse *a = (Box__V1__ExecResponse *)c.last;
    assert_int_equal(a->stdout_data.len, 2);
    assert_memory_equal(a->stdout_data.data, "hi", 2);
    assert_true(box__v1__verdict__has_exit_code(a->verdict));
    assert_false(box__v1__verdict__has_signal(a->verdict));
    assert_int_equal(a->verdict->exit_code, 0);
    assert_true(a->session_created);
    assert_string_equal(a->session_id, "");
    assert_string_equal(a->backend, "namespace");
    assert_int_equal(strlen(a->session_uid), 32);
    assert_int_equal(a->verdict->stdout_report->total_bytes, 2);
    assert_false(a->verdict->stdout_report->truncated);
    close_call(f, &c, BOX_NONE);
    assert_int_equal(fake_warden_count(&f->warden), 0);
}

static void every_violation_of_an_exec_is_named(void **state)
{
    fixture *f = *state;
    char *argv[] = {text("echo")};
    Box__V1__Command command;
    fill_command(&command, argv, 1);
    command.shell_command = text("echo");
    command.workdir = text("not/absolute");
    Google__Protobuf__Duration negative;
    google__protobuf__duration__init(&negative);
    negative.seconds = -1;
    Box__V1__ExecRequest r;
    box__v1__exec_request__init(&r);
    r.command = &command;
    test_call c;
    call(f, &c, "/box.v1.ExecService/Exec", &r.base);
    assert_int_equal(c.status.reason, BOX_VALIDATION);
    assert_non_null(box_error_get(&c.status, "field:command.argv"));
    assert_non_null(box_error_get(&c.status, "field:command.workdir"));
    close_call(f, &c, BOX_NONE);
    command.timeout = &negative;
    call(f, &c, "/box.v1.ExecService/Exec", &r.base);
    assert_non_null(box_error_get(&c.status, "field:command.timeout"));
    close_call(f, &c, BOX_NONE);
    r.command = NULL;
    call(f, &c, "/box.v1.ExecService/Exec", &r.base);
    assert_non_null(box_error_get(&c.status, "field:command"));
    close_call(f, &c, BOX_NONE);
    assert_int_equal(f->warden.creates, 0);
}

static void names_that_do_not_exist_are_violations_beside_all_others(void **state)
{
    fixture *f = *state;
    char *guarantees[] = {text("memory"), text("lunch")};
    Box__V1__SkillSelection skills;
    box__v1__skill_selection__init(&skills);
    Box__V1__SessionSpec spec;
    box__v1__session_spec__init(&spec);
    spec.profile = text("no_such");
    spec.workdir = text("not/absolute");
    spec.guarantees = guarantees;
    spec.n_guarantees = 2;
    spec.skills = &skills; /* not built: only named when nothing else is wrong */
    Box__V1__CreateSessionRequest r;
    box__v1__create_session_request__init(&r);
    r.session_id = text("s");
    r.spec = &spec;
    test_call c;
    call(f, &c, "/box.v1.SessionService/CreateSession", &r.base);
    assert_int_equal(c.status.reason, BOX_VALIDATION);
    assert_non_null(box_error_get(&c.status, "field:spec.profile"));
    assert_non_null(box_error_get(&c.status, "field:spec.workdir"));
    assert_string_equal(box_error_get(&c.status, "field:spec.guarantees"),
                        "there is no guarantee called lunch");
    close_call(f, &c, BOX_NONE);
    assert_int_equal(f->warden.creates, 0);
}

static void what_is_not_built_is_refused_by_name(void **state)
{
    fixture *f = *state;
    Box__V1__SkillSelection skills;
    box__v1__skill_selection__init(&skills);
    Box__V1__Mount mount;
    box__v1__mount__init(&mount);
    Box__V1__Mount *mounts[] = {&mount};
    Box__V1__SessionSpec spec;
    box__v1__session_spec__init(&spec);
    spec.skills = &skills;
    spec.extra_mounts = mounts;
    spec.n_extra_mounts = 1;
    Box__V1__CreateSessionRequest r;
    box__v1__create_session_request__init(&r);
    r.session_id = text("s");
    r.spec = &spec;
    test_call c;
    call(f, &c, "/box.v1.SessionService/CreateSession", &r.base);
    assert_int_equal(c.status.reason, BOX_GUARANTEE_UNSUPPORTED);
    assert_string_equal(box_error_get(&c.status, "guarantees"), "extra_mounts,skills");
    close_call(f, &c, BOX_NONE);
    Box__V1__SessionSpec on;
    box__v1__session_spec__init(&on);
    on.network = BOX__V1__NETWORK_MODE__NETWORK_MODE_ON;
    r.spec = &on;
    call(f, &c, "/box.v1.SessionService/CreateSession", &r.base);
    assert_int_equal(c.status.reason, BOX_GUARANTEE_UNSUPPORTED);
    assert_string_equal(box_error_get(&c.status, "guarantees"), "network_on");
    assert_string_equal(box_error_get(&c.status, "backend"), "namespace");
    close_call(f, &c, BOX_NONE);
    assert_int_equal(f->warden.creates, 0);
}

static void create(fixture *f, const char *id, bool expect_created)
{
    Box__V1__CreateSessionRequest r;
    box__v1__create_session_request__init(&r);
    r.session_id = text(id);
    test_call c;
    call(f, &c, "/box.v1.SessionService/CreateSession", &r.base);
    assert_true(c.finished);
    assert_int_equal(c.status.reason, BOX_NONE);
    const Box__V1__CreateSessionResponse *a = (Box__V1__CreateSessionResponse *)c.last;
    assert_int_equal(a->created, expect_created);
    close_call(f, &c, BOX_NONE);
}

static void a_session_is_created_shown_stopped_and_deleted(void **state)
{
    fixture *f = *state;
    create(f, "s", true);
    create(f, "s", false);
    test_call c;
    Box__V1__GetSessionRequest get;
    box__v1__get_session_request__init(&get);
    get.session_id = text("s");
    call(f, &c, "/box.v1.SessionService/GetSession", &get.base);
    const Box__V1__Session *s = ((Box__V1__GetSessionResponse *)c.last)->session;
    assert_int_equal(s->state, BOX__V1__SESSION_STATE__SESSION_STATE_RUNNING);
    assert_string_equal(s->spec->profile, "default");
    assert_string_equal(s->spec->image, "host");
    assert_int_equal(s->spec->cpu_millis, 1000);
    assert_int_equal(s->spec->memory_bytes, 512 * 1024 * 1024);
    assert_int_equal(s->spec->idle_ttl->seconds, 300);
    assert_non_null(s->expires_at);
    assert_null(s->stopped_at);
    assert_int_equal(s->usage->memory_bytes, 12345);
    assert_int_equal(s->n_guarantees, BOX_VIEW_GUARANTEES);
    close_call(f, &c, BOX_NONE);
    Box__V1__StopSessionRequest stop;
    box__v1__stop_session_request__init(&stop);
    stop.session_id = text("s");
    call(f, &c, "/box.v1.SessionService/StopSession", &stop.base);
    s = ((Box__V1__StopSessionResponse *)c.last)->session;
    assert_int_equal(s->state, BOX__V1__SESSION_STATE__SESSION_STATE_STOPPED);
    assert_int_equal(s->stop_reason, BOX__V1__STOP_REASON__STOP_REASON_REQUESTED);
    assert_non_null(s->stopped_at);
    close_call(f, &c, BOX_NONE);
    Box__V1__DeleteSessionRequest del;
    box__v1__delete_session_request__init(&del);
    del.session_id = text("s");
    call(f, &c, "/box.v1.SessionService/DeleteSession", &del.base);
    assert_true(((Box__V1__DeleteSessionResponse *)c.last)->deleted);
    close_call(f, &c, BOX_NONE);
    call(f, &c, "/box.v1.SessionService/DeleteSession", &del.base);
    assert_int_equal(c.status.reason, BOX_SESSION_NOT_FOUND);
    assert_string_equal(box_error_get(&c.status, "id"), "s");
    close_call(f, &c, BOX_NONE);
    del.allow_missing = true;
    call(f, &c, "/box.v1.SessionService/DeleteSession", &del.base);
    assert_int_equal(c.status.reason, BOX_NONE);
    assert_false(((Box__V1__DeleteSessionResponse *)c.last)->deleted);
    close_call(f, &c, BOX_NONE);
}

static void another_tenants_session_does_not_exist(void **state)
{
    fixture *f = *state;
    create(f, "s", true);
    (void)snprintf(f->who.tenant, sizeof f->who.tenant, "other");
    Box__V1__GetSessionRequest get;
    box__v1__get_session_request__init(&get);
    get.session_id = text("s");
    test_call c, none;
    call(f, &c, "/box.v1.SessionService/GetSession", &get.base);
    get.session_id = text("t");
    call(f, &none, "/box.v1.SessionService/GetSession", &get.base);
    assert_int_equal(c.status.reason, BOX_SESSION_NOT_FOUND);
    assert_int_equal(none.status.reason, BOX_SESSION_NOT_FOUND);
    close_call(f, &c, BOX_NONE);
    close_call(f, &none, BOX_NONE);
    create(f, "s", true); /* its own */
}

static void lists_go_page_by_page_in_order(void **state)
{
    fixture *f = *state;
    const char *ids[] = {"c", "a", "b"};
    for (int i = 0; i < 3; i++)
        create(f, ids[i], true);
    Box__V1__ListSessionsRequest r;
    box__v1__list_sessions_request__init(&r);
    r.page_size = 2;
    test_call c;
    call(f, &c, "/box.v1.SessionService/ListSessions", &r.base);
    const Box__V1__ListSessionsResponse *a = (Box__V1__ListSessionsResponse *)c.last;
    assert_int_equal(a->n_sessions, 2);
    assert_string_equal(a->sessions[0]->session_id, "c");
    assert_string_equal(a->sessions[1]->session_id, "a");
    char token[1200];
    (void)snprintf(token, sizeof token, "%s", a->next_page_token);
    assert_int_not_equal(token[0], '\0');
    close_call(f, &c, BOX_NONE);
    r.page_token = token;
    call(f, &c, "/box.v1.SessionService/ListSessions", &r.base);
    a = (Box__V1__ListSessionsResponse *)c.last;
    assert_int_equal(a->n_sessions, 1);
    assert_string_equal(a->sessions[0]->session_id, "b");
    assert_string_equal(a->next_page_token, "");
    close_call(f, &c, BOX_NONE);
    r.backend = text("docker"); /* other filters: the token is not of this list */
    call(f, &c, "/box.v1.SessionService/ListSessions", &r.base);
    assert_int_equal(c.status.reason, BOX_VALIDATION);
    assert_non_null(box_error_get(&c.status, "field:page_token"));
    close_call(f, &c, BOX_NONE);
    r.page_token = text("");
    call(f, &c, "/box.v1.SessionService/ListSessions", &r.base);
    assert_int_equal(((Box__V1__ListSessionsResponse *)c.last)->n_sessions, 0);
    close_call(f, &c, BOX_NONE);
}

static void updates_take_only_what_the_mask_names(void **state)
{
    fixture *f = *state;
    create(f, "s", true);
    char *paths[] = {text("max_parallel_execs"), text("memory_bytes")};
    Google__Protobuf__FieldMask mask;
    google__protobuf__field_mask__init(&mask);
    mask.paths = paths;
    mask.n_paths = 2;
    Box__V1__SessionSpec spec;
    box__v1__session_spec__init(&spec);
    box__v1__session_spec__set_max_parallel_execs(&spec, 4);
    box__v1__session_spec__set_memory_bytes(&spec, 64 * 1024 * 1024);
    box__v1__session_spec__set_cpu_millis(&spec, 77); /* not named */
    Box__V1__UpdateSessionRequest r;
    box__v1__update_session_request__init(&r);
    r.session_id = text("s");
    r.spec = &spec;
    r.update_mask = &mask;
    test_call c;
    call(f, &c, "/box.v1.SessionService/UpdateSession", &r.base);
    assert_int_equal(c.status.reason, BOX_NONE);
    const Box__V1__Session *s = ((Box__V1__UpdateSessionResponse *)c.last)->session;
    assert_int_equal(s->spec->max_parallel_execs, 4);
    assert_int_equal(s->spec->memory_bytes, 64 * 1024 * 1024);
    assert_int_equal(s->spec->cpu_millis, 1000);
    assert_int_equal(f->warden.last_limits.memory_bytes, 64 * 1024 * 1024);
    assert_int_equal(f->warden.last_limits.cpu_millis, 0);
    close_call(f, &c, BOX_NONE);
    paths[0] = text("image");
    paths[1] = text("nonsense");
    call(f, &c, "/box.v1.SessionService/UpdateSession", &r.base);
    assert_int_equal(c.status.reason, BOX_VALIDATION);
    close_call(f, &c, BOX_NONE);
    mask.n_paths = 0;
    call(f, &c, "/box.v1.SessionService/UpdateSession", &r.base);
    assert_int_equal(c.status.reason, BOX_VALIDATION);
    close_call(f, &c, BOX_NONE);
}

static void a_watcher_hears_of_what_exists_and_what_happens(void **state)
{
    fixture *f = *state;
    create(f, "old", true);
    Box__V1__WatchSessionsRequest r;
    box__v1__watch_sessions_request__init(&r);
    r.include_existing = true;
    test_call c;
    call(f, &c, "/box.v1.SessionService/WatchSessions", &r.base);
    assert_int_equal(c.messages, 2);
    assert_int_equal(((Box__V1__WatchSessionsResponse *)c.last)->type,
                     BOX__V1__SESSION_EVENT_TYPE__SESSION_EVENT_TYPE_SYNCED);
    c.blocked = true;
    create(f, "new", true);
    assert_int_equal(c.messages, 2); /* nothing is sent to who does not read */
    c.blocked = false;
    box_call_deliver_writable(&c.base);
    settle(f);
    assert_int_equal(c.messages, 3); /* CREATED and its states became one */
    const Box__V1__WatchSessionsResponse *a = (Box__V1__WatchSessionsResponse *)c.last;
    assert_int_equal(a->type, BOX__V1__SESSION_EVENT_TYPE__SESSION_EVENT_TYPE_CREATED);
    assert_int_equal(a->session->state, BOX__V1__SESSION_STATE__SESSION_STATE_RUNNING);
    close_call(f, &c, BOX_CANCELLED);
    create(f, "newer", true);
}

static void start_stream(fixture *f, test_call *c, char **argv, size_t n)
{
    Box__V1__Command command;
    fill_command(&command, argv, n);
    Box__V1__ExecStart start;
    box__v1__exec_start__init(&start);
    start.command = &command;
    start.session_id = text("s");
    Box__V1__ExecStreamRequest m;
    box__v1__exec_stream_request__init(&m);
    m.request_case = BOX__V1__EXEC_STREAM_REQUEST__REQUEST_START;
    m.start = &start;
    open_call(f, c, "/box.v1.ExecService/ExecStream");
    box_call_deliver_start(&c->base);
    send_message(c, &m.base);
    settle(f);
}

static void a_stream_carries_input_output_and_the_verdict(void **state)
{
    fixture *f = *state;
    test_call c;
    char *argv[] = {text("cat")};
    start_stream(f, &c, argv, 1);
    const Box__V1__ExecStreamResponse *a = (Box__V1__ExecStreamResponse *)c.last;
    assert_int_equal(a->response_case, BOX__V1__EXEC_STREAM_RESPONSE__RESPONSE_STARTED);
    assert_int_equal(a->started->pid, 7);
    assert_string_equal(a->started->session_id, "s");
    Box__V1__ExecStreamRequest m;
    box__v1__exec_stream_request__init(&m);
    m.request_case = BOX__V1__EXEC_STREAM_REQUEST__REQUEST_STDIN_DATA;
    m.stdin_data = (ProtobufCBinaryData){.data = (uint8_t *)text("ping"), .len = 4};
    send_message(&c, &m.base);
    settle(f);
    a = (Box__V1__ExecStreamResponse *)c.last;
    assert_int_equal(a->response_case, BOX__V1__EXEC_STREAM_RESPONSE__RESPONSE_STDOUT_DATA);
    assert_memory_equal(a->stdout_data.data, "ping", 4);
    box_call_deliver_half_close(&c.base);
    settle(f);
    a = (Box__V1__ExecStreamResponse *)c.last;
    assert_int_equal(a->response_case, BOX__V1__EXEC_STREAM_RESPONSE__RESPONSE_VERDICT);
    assert_int_equal(a->verdict->status, BOX__V1__VERDICT_STATUS__VERDICT_STATUS_COMPLETED);
    assert_int_equal(a->verdict->stdout_report->kept_bytes, 4);
    assert_true(c.finished);
    assert_int_equal(c.status.reason, BOX_NONE);
    send_message(&c, &m.base); /* it crossed the verdict */
    assert_int_equal(c.status.reason, BOX_NONE);
    close_call(f, &c, BOX_NONE);
}

static void a_stream_pauses_a_caller_who_sends_too_much(void **state)
{
    fixture *f = *state;
    test_call c;
    char *argv[] = {text("hang")};
    start_stream(f, &c, argv, 1);
    static uint8_t data[128 * 1024];
    Box__V1__ExecStreamRequest m;
    box__v1__exec_stream_request__init(&m);
    m.request_case = BOX__V1__EXEC_STREAM_REQUEST__REQUEST_STDIN_DATA;
    m.stdin_data = (ProtobufCBinaryData){.data = data, .len = sizeof data};
    for (int i = 0; i < 4 && !c.paused; i++)
        send_message(&c, &m.base);
    assert_true(c.paused);
    fake_program *p = fake_sandbox_find(fake_warden_only(&f->warden), "hang");
    for (int i = 0; i < 16; i++) {
        static char taken[64 * 1024];
        assert_true(read(p->fds[0], taken, 16 * 1024) > 0);
        settle(f);
    }
    assert_false(c.paused);
    close_call(f, &c, BOX_CANCELLED);
}

static void a_cancelled_stream_kills_its_command(void **state)
{
    fixture *f = *state;
    test_call c;
    char *argv[] = {text("hang")};
    start_stream(f, &c, argv, 1);
    close_call(f, &c, BOX_DEADLINE);
    assert_int_equal(fake_warden_only(&f->warden)->last_signal, SIGKILL);
}

static void a_stream_that_breaks_the_order_is_ended(void **state)
{
    fixture *f = *state;
    test_call c;
    char *argv[] = {text("hang")};
    Box__V1__ExecStreamRequest m;
    box__v1__exec_stream_request__init(&m);
    Box__V1__CloseStdin close_stdin;
    box__v1__close_stdin__init(&close_stdin);
    m.request_case = BOX__V1__EXEC_STREAM_REQUEST__REQUEST_CLOSE_STDIN;
    m.close_stdin = &close_stdin;
    open_call(f, &c, "/box.v1.ExecService/ExecStream");
    box_call_deliver_start(&c.base);
    send_message(&c, &m.base); /* before start */
    assert_int_equal(c.status.reason, BOX_VALIDATION);
    close_call(f, &c, BOX_NONE);
    start_stream(f, &c, argv, 1);
    send_message(&c, &m.base);
    m.request_case = BOX__V1__EXEC_STREAM_REQUEST__REQUEST_STDIN_DATA;
    m.stdin_data = (ProtobufCBinaryData){.data = (uint8_t *)text("x"), .len = 1};
    send_message(&c, &m.base); /* after the end */
    assert_int_equal(c.status.reason, BOX_VALIDATION);
    settle(f);
    assert_int_equal(fake_warden_only(&f->warden)->last_signal, SIGKILL);
    close_call(f, &c, BOX_NONE);
}

static void a_call_without_a_caller_is_refused(void **state)
{
    fixture *f = *state;
    test_call c;
    Box__V1__GetSessionRequest get;
    box__v1__get_session_request__init(&get);
    get.session_id = text("s");
    open_call(f, &c, "/box.v1.SessionService/GetSession");
    c.base.identity = NULL;
    send_message(&c, &get.base);
    box_call_deliver_half_close(&c.base);
    assert_int_equal(c.status.reason, BOX_UNAUTHENTICATED);
    close_call(f, &c, BOX_NONE);
}

static void a_long_timeout_is_reported_as_an_adjustment(void **state)
{
    fixture *f = *state;
    char *argv[] = {text("exit"), text("0")};
    Box__V1__Command command;
    fill_command(&command, argv, 2);
    Google__Protobuf__Duration day;
    google__protobuf__duration__init(&day);
    day.seconds = 315576000000; /* the most a Duration may hold */
    command.timeout = &day;
    Box__V1__ExecRequest r;
    box__v1__exec_request__init(&r);
    r.command = &command;
    test_call c;
    call(f, &c, "/box.v1.ExecService/Exec", &r.base);
    const Box__V1__ExecResponse *a = (Box__V1__ExecResponse *)c.last;
    assert_int_equal(a->n_adjustments, 1);
    assert_string_equal(a->adjustments[0]->field, "command.timeout");
    assert_string_equal(a->adjustments[0]->effective, "120s");
    close_call(f, &c, BOX_NONE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_numbers_of_both_sides_are_the_same),
        TEST(exec_answers_output_and_verdict),
        TEST(every_violation_of_an_exec_is_named),
        TEST(names_that_do_not_exist_are_violations_beside_all_others),
        TEST(what_is_not_built_is_refused_by_name),
        TEST(a_session_is_created_shown_stopped_and_deleted),
        TEST(another_tenants_session_does_not_exist),
        TEST(lists_go_page_by_page_in_order),
        TEST(updates_take_only_what_the_mask_names),
        TEST(a_watcher_hears_of_what_exists_and_what_happens),
        TEST(a_stream_carries_input_output_and_the_verdict),
        TEST(a_stream_pauses_a_caller_who_sends_too_much),
        TEST(a_cancelled_stream_kills_its_command),
        TEST(a_stream_that_breaks_the_order_is_ended),
        TEST(a_call_without_a_caller_is_refused),
        TEST(a_long_timeout_is_reported_as_an_adjustment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
