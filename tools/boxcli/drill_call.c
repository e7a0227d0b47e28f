/* boxcli drill: its sessions, and commands in them that a signal ends. */
#include <errno.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "attacks.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "box/v1/exec.client.h"
#include "box/v1/session.client.h"
#include "box/v1/types.fields.h"
#include "drill.h"
#include "spec.h"

enum {
    CALL_EXTRA_SECONDS = 30, /* over a command's own timeout: then the server is at fault */
    SESSION_SECONDS = 30,
    /* Of sessions that boxcli could not delete any more. */
    IDLE_SECONDS = 60,
    LIFETIME_SECONDS = 600,
    MAX_NEEDS = 8,
    MAX_SCRIPT_BYTES = 128 * 1024 - 1, /* of one argument (execve(2)) */
};

/* --- signals ---------------------------------------------------------------------------------- */

bool drill_is_interrupted(drill *d)
{
    struct signalfd_siginfo info;
    if (d->interrupted == 0 && read(d->signals, &info, sizeof info) == sizeof info)
        d->interrupted = (int)info.ssi_signo;
    return d->interrupted != 0;
}

/* --- sessions --------------------------------------------------------------------------------- */

static bool needs_one(const char *needs, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = needs; at != NULL; at = strchr(at, ',')) {
        at += *at == ',' ? 1 : 0;
        if (strncmp(at, name, len) == 0 && (at[len] == ',' || at[len] == '\0'))
            return true;
    }
    return false;
}

/* A limit is asked for where an attack needs it: a backend without it then refuses. */
static void set_limits(Box__V1__SessionSpec *spec, const char *needs)
{
    if (needs_one(needs, "memory"))
        box__v1__session_spec__set_memory_bytes(spec, DRILL_MEMORY_BYTES);
    if (needs_one(needs, "pids"))
        box__v1__session_spec__set_pids_limit(spec, DRILL_PIDS);
    if (needs_one(needs, "cpu"))
        box__v1__session_spec__set_cpu_millis(spec, DRILL_CPU_MILLIS);
    if (needs_one(needs, "workspace_limit"))
        box__v1__session_spec__set_workspace_limit_bytes(spec, DRILL_WORKSPACE_BYTES);
}

int drill_session_create(drill *d, const char *id, const char *needs, box_error *err)
{
    char *guarantees[MAX_NEEDS] = {(char *)(uintptr_t) "filesystem", (char *)(uintptr_t) "process"};
    size_t n = 2;
    char *save = NULL;
    BOX_AUTO(box_freep) char *list = box_strdup(needs != NULL ? needs : "");
    for (char *name = strtok_r(list, ",", &save); name != NULL && n < MAX_NEEDS;
         name = strtok_r(NULL, ",", &save))
        guarantees[n++] = name;
    Box__V1__CreateSessionRequest request;
    Box__V1__SessionSpec spec;
    box__v1__create_session_request__init(&request);
    box__v1__session_spec__init(&spec);
    BOX_AUTO(box_freep)
    Google__Protobuf__Duration *idle = cli_duration_message(IDLE_SECONDS * BOX_SECOND);
    BOX_AUTO(box_freep)
    Google__Protobuf__Duration *life = cli_duration_message(LIFETIME_SECONDS * BOX_SECOND);
    spec.backend = (char *)(uintptr_t)d->backend;
    spec.network = BOX__V1__NETWORK_MODE__NETWORK_MODE_OFF;
    spec.host_path_mode = BOX__V1__MOUNT_MODE__MOUNT_MODE_NONE;
    spec.idle_ttl = idle;
    spec.max_lifetime = life;
    spec.guarantees = guarantees;
    spec.n_guarantees = n;
    set_limits(&spec, needs);
    request.session_id = (char *)(uintptr_t)id;
    request.spec = &spec;
    BOX_AUTO(cli_message_freep) Box__V1__CreateSessionResponse *r = NULL;
    box_client_options o = cli_options(d->cli);
    o.timeout_ns = SESSION_SECONDS * BOX_SECOND;
    return box_v1_session_service_create_session(d->cli->channel, &o, &request, &r, err);
}

void drill_session_delete(drill *d, const char *id)
{
    box_error err;
    Box__V1__DeleteSessionRequest request;
    box__v1__delete_session_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__DeleteSessionResponse *r = NULL;
    request.session_id = (char *)(uintptr_t)id;
    request.allow_missing = true;
    box_client_options o = cli_options(d->cli);
    o.timeout_ns = SESSION_SECONDS * BOX_SECOND;
    if (box_v1_session_service_delete_session(d->cli->channel, &o, &request, &r, &err) < 0)
        fprintf(stderr, "boxcli: session %s could not be deleted, it ends by itself: %s\n", id,
                err.msg);
}

/* --- commands --------------------------------------------------------------------------------- */

typedef struct call {
    Box__V1__ExecResponse *answer;
    box_error status;
    bool done;
} call;

static void on_message(void *arg, box_client_call *handle, const Box__V1__ExecResponse *m)
{
    call *c = arg;
    (void)handle;
    size_t size = box__v1__exec_response__get_packed_size(m);
    uint8_t *data = c->answer == NULL ? malloc(size + 1) : NULL;
    if (data == NULL)
        return;
    (void)box__v1__exec_response__pack(m, data);
    c->answer = box__v1__exec_response__unpack(NULL, size, data);
    free(data);
}

static void on_done(void *arg, box_client_call *handle, const box_error *status,
                    const box_metadata *trailers)
{
    call *c = arg;
    (void)handle;
    (void)trailers;
    c->done = true;
    c->status = *status;
}

static void wait_for(drill *d, box_client_call *handle, const call *c)
{
    while (!c->done) {
        struct pollfd fds[2] = {{.fd = -1}, {.fd = d->signals, .events = POLLIN}};
        int timeout;
        box_channel_poll(d->cli->channel, &fds[0].fd, &fds[0].events, &timeout);
        if (poll(fds, 2, timeout) < 0 && errno != EINTR)
            break;
        if (fds[1].revents != 0 && drill_is_interrupted(d))
            box_client_cancel(handle);
        box_channel_dispatch(d->cli->channel);
    }
}

static int exec_wait(drill *d, const Box__V1__ExecRequest *request, uint64_t timeout_ns,
                     Box__V1__ExecResponse **answer, box_error *err)
{
    static const box_v1_exec_service_exec_events events = {.message = on_message, .done = on_done};
    call c = {0};
    box_client_call *handle = NULL;
    box_client_options o = cli_options(d->cli);
    o.timeout_ns = timeout_ns;
    if (box_v1_exec_service_exec_start(d->cli->channel, &o, request, &events, &c, &handle, err) < 0)
        return -1;
    wait_for(d, handle, &c);
    box_client_free(handle);
    bool fine =
        c.done && c.status.reason == BOX_NONE && c.answer != NULL && c.answer->verdict != NULL;
    if (fine) {
        *answer = c.answer;
        return 0;
    }
    cli_message_free(c.answer);
    *err = c.status;
    if (c.status.reason == BOX_NONE)
        return box_fail(err, BOX_PROTOCOL, "the server's answer has no verdict");
    return -1;
}

drill_command drill_command_of(const drill_attack *a)
{
    return (drill_command){
        .program = a->program,
        .script = a->script,
        .timeout_ms = a->timeout_ms,
        .output_kill_bytes = a->output_kill_bytes,
        .output_limit_bytes = a->output_limit_bytes,
    };
}

/* "python3 -I -c SCRIPT" or "sh -c SCRIPT", and the argument. Returns how many. */
static size_t fill_argv(const drill_command *command, const char *text, char *argv[6])
{
    size_t n = 0;
    bool python = strcmp(command->program, "python3") == 0;
    argv[n++] = (char *)(uintptr_t)command->program;
    if (python)
        argv[n++] = (char *)(uintptr_t) "-I"; /* nothing of the environment or workspace */
    argv[n++] = (char *)(uintptr_t) "-c";
    argv[n++] = (char *)(uintptr_t)text;
    if (command->argument != NULL)
        argv[n++] = (char *)(uintptr_t)command->argument;
    return n;
}

int drill_exec(drill *d, const char *session, const drill_command *command,
               Box__V1__ExecResponse **answer, box_error *err)
{
    BOX_AUTO(box_buf_done) box_buf script = {.max_bytes = MAX_SCRIPT_BYTES};
    const char *text = NULL;
    char *argv[6];
    bool python = strcmp(command->program, "python3") == 0;
    if (box_buf_printf(&script, err, "%s%s", python ? drill_prelude : "", command->script) < 0 ||
        box_buf_text(&script, &text, err) < 0)
        return -1;
    uint64_t timeout_ns =
        (command->timeout_ms != 0 ? command->timeout_ms : DRILL_TIMEOUT_MS) * BOX_MS;
    BOX_AUTO(box_freep) Google__Protobuf__Duration *timeout = cli_duration_message(timeout_ns);
    Box__V1__ExecRequest request;
    Box__V1__Command c;
    box__v1__exec_request__init(&request);
    box__v1__command__init(&c);
    c.n_argv = fill_argv(command, text, argv);
    c.argv = argv;
    c.timeout = timeout;
    c.leftovers = command->keep_leftovers ? BOX__V1__LEFTOVER_POLICY__LEFTOVER_POLICY_KEEP
                                          : BOX__V1__LEFTOVER_POLICY__LEFTOVER_POLICY_KILL;
    if (command->workdir != NULL)
        c.workdir = (char *)(uintptr_t)command->workdir;
    if (command->output_kill_bytes != 0)
        box__v1__command__set_output_kill_bytes(&c, command->output_kill_bytes);
    if (command->output_limit_bytes != 0)
        box__v1__command__set_output_limit_bytes(&c, command->output_limit_bytes);
    request.session_id = (char *)(uintptr_t)session;
    request.command = &c;
    return exec_wait(d, &request, timeout_ns + CALL_EXTRA_SECONDS * BOX_SECOND, answer, err);
}
