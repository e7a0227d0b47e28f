/* Servers of this machine in a session, against services of this process. */
#include "box/mcp_server.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "base/macros.h"
#include "box/inproc.h"
#include "box/v1/exec.box.h"
#include "box/v1/process.box.h"
#include "box/v1/session.box.h"
#include "box/v1/types.fields.h"
#include "fake_files.h"

static const char environment[] = "/workspace/.mcp/.environments/k";

typedef struct world {
    char top[64];
    char project[96];
    char script[128]; /* project/server.py */
    fake_files files;
    box_channel *channel;
    box_error err;
    box_mcp_started started;
    char noted[512]; /* the last note */
    /* The session. */
    bool lives, disabled, all_conflict;
    int creates, conflicts; /* so many of the next creates are SESSION_CONFLICT */
    bool had_defaults;      /* of the last create that worked */
    char session[BOX_MCP_SESSION_BYTES];
    /* The one process. */
    Box__V1__StartManagedProcessRequest *process; /* owned; NULL: none */
    int starts, stops, races;                     /* so many starts find one that was faster */
    bool race_is_other;                           /* ... with another command */
    /* Commands. */
    int execs, lost; /* so many of the next ones find their session gone */
    int exit_code;
    const char *said;
} world;

/* --- services --------------------------------------------------------------------------------- */

static int get_session(box_call *call, const Box__V1__GetSessionRequest *request, box_error *err)
{
    const world *w = box_call_context(call);
    Box__V1__GetSessionResponse answer;
    Box__V1__Session session;
    if (!w->lives)
        return box_fail(err, BOX_SESSION_NOT_FOUND, "no session %s", request->session_id);
    box__v1__get_session_response__init(&answer);
    box__v1__session__init(&session);
    session.state = BOX__V1__SESSION_STATE__SESSION_STATE_RUNNING;
    answer.session = &session;
    box_v1_session_service_get_session_answer(call, &answer);
    return 0;
}

static int create_session(box_call *call, const Box__V1__CreateSessionRequest *request,
                          box_error *err)
{
    world *w = box_call_context(call);
    Box__V1__CreateSessionResponse answer;
    Box__V1__Session session;
    Box__V1__SessionSpec spec;
    w->creates++;
    if (w->disabled)
        return box_fail(err, BOX_BOX_DISABLED, "Box is switched off");
    if (w->all_conflict || w->conflicts > 0) {
        w->conflicts--;
        return box_fail(err, BOX_SESSION_CONFLICT, "it differs");
    }
    w->had_defaults = box__v1__session_spec__has_persistent(request->spec) &&
                      box__v1__session_spec__has_workspace_limit_bytes(request->spec) &&
                      box__v1__session_spec__has_max_parallel_execs(request->spec);
    (void)snprintf(w->session, sizeof w->session, "%s", request->session_id);
    box__v1__create_session_response__init(&answer);
    box__v1__session__init(&session);
    box__v1__session_spec__init(&spec);
    static char workspace[] = "/workspace";
    spec.mount_path = workspace;
    session.spec = &spec;
    answer.session = &session;
    answer.created = !w->lives;
    w->lives = true;
    box_v1_session_service_create_session_answer(call, &answer);
    return 0;
}

static int exec(box_call *call, const Box__V1__ExecRequest *request, box_error *err)
{
    world *w = box_call_context(call);
    Box__V1__ExecResponse answer;
    Box__V1__Verdict verdict;
    char out[256];
    w->execs++;
    if (w->lost > 0) {
        w->lost--;
        w->lives = false;
        return box_fail(err, BOX_SESSION_NOT_FOUND, "no session %s", request->session_id);
    }
    assert_int_equal(request->command->n_argv, 6);
    assert_string_equal(request->command->argv[1], "-c");
    assert_non_null(request->command->timeout);
    assert_non_null(request->queue_timeout);
    (void)snprintf(out, sizeof out, "%s\n%s/bin:/usr/bin\n", environment, environment);
    box__v1__exec_response__init(&answer);
    box__v1__verdict__init(&verdict);
    verdict.status = BOX__V1__VERDICT_STATUS__VERDICT_STATUS_COMPLETED;
    box__v1__verdict__set_exit_code(&verdict, w->exit_code);
    answer.verdict = &verdict;
    if (w->exit_code == 0)
        answer.stdout_data = (ProtobufCBinaryData){strlen(out), (uint8_t *)out};
    if (w->said != NULL)
        answer.stderr_data = (ProtobufCBinaryData){strlen(w->said), (uint8_t *)(uintptr_t)w->said};
    box_v1_exec_service_exec_answer(call, &answer);
    return 0;
}

static void keep_process(world *w, const Box__V1__StartManagedProcessRequest *request)
{
    uint8_t packed[4096];
    size_t len = box__v1__start_managed_process_request__get_packed_size(request);
    assert_true(len <= sizeof packed);
    (void)box__v1__start_managed_process_request__pack(request, packed);
    if (w->process != NULL)
        box__v1__start_managed_process_request__free_unpacked(w->process, NULL);
    w->process = box__v1__start_managed_process_request__unpack(NULL, len, packed);
    assert_non_null(w->process);
}

static int start_process(box_call *call, const Box__V1__StartManagedProcessRequest *request,
                         box_error *err)
{
    world *w = box_call_context(call);
    Box__V1__StartManagedProcessResponse answer;
    bool race = w->races > 0;
    if (race) {
        w->races--;
        keep_process(w, request);
        if (w->race_is_other)
            w->process->spec->argv[0][0] = 'X';
    }
    if (race || (w->process != NULL && !request->replace))
        return box_fail(err, BOX_PROCESS_CONFLICT, "it runs");
    w->starts++;
    keep_process(w, request);
    box__v1__start_managed_process_response__init(&answer);
    box_v1_process_service_start_managed_process_answer(call, &answer);
    return 0;
}

static int get_process(box_call *call, const Box__V1__GetManagedProcessRequest *request,
                       box_error *err)
{
    const world *w = box_call_context(call);
    Box__V1__GetManagedProcessResponse answer;
    Box__V1__ManagedProcess process;
    char *keys[16];
    if (w->process == NULL)
        return box_fail(err, BOX_PROCESS_NOT_FOUND, "no process %s", request->process_id);
    box__v1__get_managed_process_response__init(&answer);
    box__v1__managed_process__init(&process);
    process.state = BOX__V1__PROCESS_STATE__PROCESS_STATE_RUNNING;
    process.spec = w->process->spec;
    for (size_t i = 0; i < process.spec->n_env && i < BOX_COUNT(keys); i++)
        keys[process.n_env_keys++] = process.spec->env[i]->key;
    process.env_keys = keys;
    answer.process = &process;
    box_v1_process_service_get_managed_process_answer(call, &answer);
    return 0;
}

static int stop_process(box_call *call, const Box__V1__StopManagedProcessRequest *request,
                        box_error *err)
{
    world *w = box_call_context(call);
    Box__V1__StopManagedProcessResponse answer;
    (void)err;
    assert_true(request->allow_missing);
    w->stops++;
    box__v1__stop_managed_process_response__init(&answer);
    box_v1_process_service_stop_managed_process_answer(call, &answer);
    return 0;
}

/* --- the test's world ------------------------------------------------------------------------- */

static void file(const world *w, const char *name, const char *text)
{
    char path[512];
    box_error err;
    (void)snprintf(path, sizeof path, "%s/%s", w->project, name);
    BOX_AUTO(box_closep) int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(box_fd_write_all(fd, text, strlen(text), &err), 0);
}

static int set_up(void **state)
{
    static const box_v1_session_service_handlers sessions = {.create_session = create_session,
                                                             .get_session = get_session};
    static const box_v1_exec_service_handlers execs = {.exec = exec};
    static const box_v1_process_service_handlers processes = {.start_managed_process =
                                                                  start_process,
                                                              .get_managed_process = get_process,
                                                              .stop_managed_process = stop_process};
    static box_service offered[4];
    static world world_;
    world *w = &world_;
    *w = (world){0};
    (void)snprintf(w->top, sizeof w->top, "/tmp/box-mcp-XXXXXX");
    assert_non_null(mkdtemp(w->top));
    (void)snprintf(w->project, sizeof w->project, "%.63s/my notes", w->top);
    (void)snprintf(w->script, sizeof w->script, "%.95s/server.py", w->project);
    (void)snprintf(w->files.root, sizeof w->files.root, "%.63s/inside", w->top);
    assert_int_equal(mkdir(w->project, 0700) | mkdir(w->files.root, 0700), 0);
    file(w, "server.py", "print(1)\n");
    offered[0] = (box_service){&box_v1_file_service, &fake_files_handlers, &w->files};
    offered[1] = (box_service){&box_v1_session_service, &sessions, w};
    offered[2] = (box_service){&box_v1_exec_service, &execs, w};
    offered[3] = (box_service){&box_v1_process_service, &processes, w};
    assert_int_equal(box_channel_inproc(offered, 4, NULL, NULL, &w->channel, &w->err), 0);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    world *w = *state;
    box_channel_free(w->channel);
    if (w->process != NULL)
        box__v1__start_managed_process_request__free_unpacked(w->process, NULL);
    fake_files_remove_tree(w->top);
    return 0;
}

static void note(void *arg, const char *text)
{
    world *w = arg;
    (void)snprintf(w->noted, sizeof w->noted, "%s", text);
}

/* python3 project/server.py, and what else is asked. */
static int start(world *w, box_mcp_server server)
{
    const char *const argv[] = {"python3", w->script};
    if (server.argc == 0) {
        server.argv = argv;
        server.argc = 2;
    }
    server.note = note;
    server.note_arg = w;
    return box_mcp_server_start(w->channel, NULL, &server, &w->started, &w->err);
}

static void fails(world *w, box_mcp_server server, box_reason reason, const char *text)
{
    assert_int_equal(start(w, server), -1);
    assert_int_equal(w->err.reason, reason);
    if (strstr(w->err.msg, text) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", text, w->err.msg);
}

static const char *variable(const world *w, const char *name)
{
    const Box__V1__ProcessSpec *spec = w->process->spec;
    for (size_t i = 0; i < spec->n_env; i++) {
        if (strcmp(spec->env[i]->key, name) == 0)
            return spec->env[i]->value;
    }
    return NULL;
}

/* --- tests ------------------------------------------------------------------------------------ */

static void all_is_made_once(void **state)
{
    world *w = *state;
    assert_int_equal(start(w, (box_mcp_server){0}), 0);
    assert_true(w->started.started);
    assert_true(w->had_defaults);
    assert_string_equal(w->started.session_id, "mcp-shared");
    assert_string_equal(w->session, "mcp-shared");
    assert_memory_equal(w->started.process_id, "my_notes-", 9);
    assert_int_equal(strlen(w->started.process_id), 17);
    const Box__V1__ProcessSpec *spec = w->process->spec;
    char workdir[128];
    (void)snprintf(workdir, sizeof workdir, "/workspace/.mcp/%s/", w->started.process_id);
    assert_memory_equal(spec->workdir, workdir, strlen(workdir));
    assert_int_equal(strlen(spec->workdir), strlen(workdir) + 32);
    assert_memory_equal(spec->argv[1], spec->workdir, strlen(spec->workdir));
    assert_string_equal(spec->argv[1] + strlen(spec->workdir), "/server.py");
    assert_int_equal(w->execs, 0); /* nothing asks for an environment */
    assert_int_equal(w->files.uploads, 1);
    assert_int_equal(start(w, (box_mcp_server){0}), 0);
    assert_false(w->started.started);
    assert_false(w->had_defaults); /* one that lives is taken as it is */
    assert_int_equal(w->files.uploads, 1);
    assert_int_equal(w->starts, 1);
}

static void what_differs_is_replaced(void **state)
{
    world *w = *state;
    const char *const env[] = {"A=1"};
    const char *const again[] = {"A=2"};
    assert_int_equal(start(w, (box_mcp_server){.process_id = "x"}), 0);
    assert_int_equal(start(w, (box_mcp_server){.process_id = "x", .env = env, .n_env = 1}), 0);
    assert_int_equal(w->starts, 2);
    assert_true(w->process->replace);
    assert_string_equal(w->noted, "x is replaced");
    assert_int_equal(start(w, (box_mcp_server){.process_id = "x", .env = again, .n_env = 1}), 0);
    assert_int_equal(w->starts, 2); /* values are not seen */
    file(w, "server.py", "print(2)\n");
    assert_int_equal(start(w, (box_mcp_server){.process_id = "x", .env = env, .n_env = 1}), 0);
    assert_int_equal(w->starts, 3);
    assert_int_equal(w->files.uploads, 2);
    const box_mcp_server forced = {.process_id = "x", .env = env, .n_env = 1, .replace = true};
    assert_int_equal(start(w, forced), 0);
    assert_int_equal(w->starts, 4);
}

static void an_environment_is_the_process_s(void **state)
{
    world *w = *state;
    char data[160];
    (void)snprintf(data, sizeof data, "DATA=%s", w->script);
    const char *const env[] = {data, "B=/etc/passwd"};
    file(w, "requirements.txt", "x\n");
    assert_int_equal(start(w, (box_mcp_server){.env = env, .n_env = 2}), 0);
    assert_int_equal(w->execs, 1);
    assert_string_equal(variable(w, "VIRTUAL_ENV"), environment);
    assert_memory_equal(variable(w, "PATH"), environment, strlen(environment));
    assert_string_equal(variable(w, "DATA"), w->process->spec->argv[1]);
    assert_string_equal(variable(w, "B"), "/etc/passwd");
    const char *const own[] = {"PATH=/mine"};
    assert_int_equal(start(w, (box_mcp_server){.env = own, .n_env = 1}), 0);
    assert_string_equal(variable(w, "PATH"), "/mine");
    assert_int_equal(start(w, (box_mcp_server){.no_environment = true}), 0);
    assert_int_equal(w->execs, 2);
    assert_null(variable(w, "VIRTUAL_ENV"));
}

static void one_that_cannot_be_made_is_said(void **state)
{
    world *w = *state;
    file(w, "pyproject.toml", "[project]\n");
    w->exit_code = 1;
    w->said = "pip says a lot\nand why\n\n";
    fails(w, (box_mcp_server){0}, BOX_VALIDATION, "environment: it cannot be made: and why");
    assert_string_equal(w->noted, "pip says a lot\nand why");
    w->said = NULL;
    fails(w, (box_mcp_server){0}, BOX_VALIDATION, "environment: ");
    assert_int_equal(w->starts, 0);
}

static void python_without_an_environment_has_its_own_name(void **state)
{
    world *w = *state;
    char python[160];
    (void)snprintf(python, sizeof python, "%s/.venv/bin/python3.11", w->project);
    const char *const argv[] = {python, w->script};
    assert_int_equal(start(w, (box_mcp_server){.argv = argv, .argc = 2}), 0);
    assert_string_equal(w->process->spec->argv[0], "python3");
    file(w, "setup.py", "");
    assert_int_equal(start(w, (box_mcp_server){.argv = argv, .argc = 2}), 0);
    assert_string_equal(w->process->spec->argv[0], "python");
}

static void who_is_faster_is_not_fought(void **state)
{
    world *w = *state;
    w->races = 1;
    assert_int_equal(start(w, (box_mcp_server){0}), 0);
    assert_false(w->started.started);
    assert_int_equal(w->starts, 0);
    box__v1__start_managed_process_request__free_unpacked(w->process, NULL);
    w->process = NULL;
    w->races = 1000; /* never ends */
    w->race_is_other = true;
    fails(w, (box_mcp_server){0}, BOX_PROCESS_CONFLICT, "process: ");
    assert_true(w->races > 990);
}

static void a_session_made_meanwhile_is_used_and_another_is_not(void **state)
{
    world *w = *state;
    Box__V1__SessionSpec spec;
    w->conflicts = 1;
    assert_int_equal(start(w, (box_mcp_server){0}), 0);
    assert_int_equal(w->creates, 2);
    assert_false(w->had_defaults);
    box__v1__session_spec__init(&spec);
    box__v1__session_spec__set_memory_bytes(&spec, 1 << 30);
    assert_int_equal(start(w, (box_mcp_server){.spec = &spec}), 0);
    assert_memory_equal(w->started.session_id, "mcp-shared-", 11);
    assert_int_equal(strlen(w->started.session_id), 23);
    w->all_conflict = true;
    fails(w, (box_mcp_server){.spec = &spec, .session_id = "mine"}, BOX_SESSION_CONFLICT,
          "session: ");
}

static void a_session_that_goes_is_made_again_but_not_for_ever(void **state)
{
    world *w = *state;
    file(w, "requirements.txt", "");
    w->lost = 2;
    assert_int_equal(start(w, (box_mcp_server){0}), 0);
    assert_int_equal(w->execs, 3);
    assert_int_equal(w->creates, 3);
    w->lost = 1000;
    fails(w, (box_mcp_server){0}, BOX_SESSION_NOT_FOUND, "environment: ");
    assert_int_equal(w->execs, 6);
}

static void without_box_nothing_is_done(void **state)
{
    world *w = *state;
    w->disabled = true;
    fails(w, (box_mcp_server){0}, BOX_BOX_DISABLED, "session: ");
    assert_int_equal(w->files.uploads + w->execs + w->starts, 0);
}

static void what_makes_no_sense_is_refused(void **state)
{
    world *w = *state;
    const char *const env[] = {"=x"};
    const char *const empty[] = {""};
    char id[300];
    char home[64];
    memset(id, 'x', sizeof id - 1);
    id[sizeof id - 1] = '\0';
    fails(w, (box_mcp_server){.env = env, .n_env = 1}, BOX_VALIDATION, "NAME=VALUE");
    fails(w, (box_mcp_server){.argv = empty, .argc = 1}, BOX_VALIDATION, "command");
    fails(w, (box_mcp_server){.session_id = id}, BOX_VALIDATION, "session");
    fails(w, (box_mcp_server){.process_id = id}, BOX_VALIDATION, "process id");
    fails(w, (box_mcp_server){.process_id = ".environments"}, BOX_VALIDATION, "process id");
    fails(w, (box_mcp_server){.process_id = "../x"}, BOX_VALIDATION, "process id");
    fails(w, (box_mcp_server){.project = "/no/such"}, BOX_FILE_NOT_FOUND, "project: ");
    const char *before = getenv("HOME");
    (void)snprintf(home, sizeof home, "%s", before != NULL ? before : "/");
    assert_int_equal(setenv("HOME", w->project, 1), 0);
    fails(w, (box_mcp_server){0}, BOX_VALIDATION, "home directory");
    assert_int_equal(start(w, (box_mcp_server){.project = ""}), 0); /* none */
    assert_string_equal(w->process->spec->argv[1], w->script);
    assert_string_equal(w->process->spec->workdir, "");
    assert_int_equal(setenv("HOME", home, 1), 0);
}

static void stopping_removes_its_copies_alone(void **state)
{
    world *w = *state;
    struct stat st;
    char path[256];
    assert_int_equal(start(w, (box_mcp_server){.process_id = "x"}), 0);
    assert_int_equal(start(w, (box_mcp_server){.process_id = "y", .replace = true}), 0);
    /* As a session's own paths are: below its workspace. */
    (void)snprintf(path, sizeof path, "%s/workspace", w->files.root);
    (void)snprintf(w->files.root, sizeof w->files.root, "%.90s/", path);
    assert_int_equal(box_mcp_server_stop(w->channel, NULL, "mcp-shared", "x", &w->err), 0);
    assert_int_equal(w->stops, 1);
    (void)snprintf(path, sizeof path, "%s.mcp/x", w->files.root);
    assert_int_equal(stat(path, &st), -1);
    (void)snprintf(path, sizeof path, "%s.mcp/y", w->files.root);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(box_mcp_server_stop(w->channel, NULL, "mcp-shared", "..", &w->err), -1);
    assert_int_equal(box_mcp_server_stop(w->channel, NULL, "mcp-shared", "", &w->err), -1);
    assert_int_equal(w->stops, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(all_is_made_once),
        TEST(what_differs_is_replaced),
        TEST(an_environment_is_the_process_s),
        TEST(one_that_cannot_be_made_is_said),
        TEST(python_without_an_environment_has_its_own_name),
        TEST(who_is_faster_is_not_fought),
        TEST(a_session_made_meanwhile_is_used_and_another_is_not),
        TEST(a_session_that_goes_is_made_again_but_not_for_ever),
        TEST(without_box_nothing_is_done),
        TEST(what_makes_no_sense_is_refused),
        TEST(stopping_removes_its_copies_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
