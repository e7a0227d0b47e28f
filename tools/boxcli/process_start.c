#include "process_start.h"

#include "args.h"
#include "base/alloc.h"
#include "box/v1/process.client.h"
#include "box/v1/process.fields.h"
#include "box/v1/types.fields.h"
#include "process_view.h"
#include "spec.h"

enum {
    OPT_REPLACE = 0x500,
    OPT_ENV,
    OPT_WORKDIR,
    OPT_SHELL,
    OPT_RESTART,
    OPT_MAX_RESTARTS,
    OPT_BACKOFF,
    OPT_MAX_BACKOFF,
    OPT_READY_LINE,
    OPT_READY_PORT,
    OPT_READY_COMMAND,
    OPT_READY_INTERVAL,
    OPT_WAIT,
    OPT_GRACE,
    OPT_JOURNAL,
    OPT_STOP_ON_DETACH,
    OPT_TTY,
    OPT_IDEMPOTENCY,
    OPT_MEMORY,
    OPT_PIDS,
    OPT_CPU,
};

typedef struct start_args {
    const char *session;
    const char *id;
    Box__V1__ProcessSpec *spec;
    bool replace;
    Google__Protobuf__Duration *wait;
    const char *idempotency_key;
} start_args;

static const struct argp_option start_options[] = {
    {.name = "id", .key = 'i', .arg = "ID", .doc = "its name in the session (default)"},
    {.name = "replace", .key = OPT_REPLACE, .doc = "stop the one of that name that runs"},
    {.name = "env", .key = OPT_ENV, .arg = "K=V", .doc = "environment; may be repeated"},
    {.name = "workdir", .key = OPT_WORKDIR, .arg = "DIR", .doc = "start in this directory"},
    {.name = "shell", .key = OPT_SHELL, .arg = "TEXT", .doc = "run this text with /bin/sh -c"},
    {.name = "restart",
     .key = OPT_RESTART,
     .arg = "WHEN",
     .doc = "never, on-failure or always: start it again when it ends"},
    {.name = "max-restarts",
     .key = OPT_MAX_RESTARTS,
     .arg = "N",
     .doc = "not more often (no limit)"},
    {.name = "backoff", .key = OPT_BACKOFF, .arg = "TIME", .doc = "first pause (1s); it doubles"},
    {.name = "max-backoff", .key = OPT_MAX_BACKOFF, .arg = "TIME", .doc = "longest pause (60s)"},
    {.name = "ready-line",
     .key = OPT_READY_LINE,
     .arg = "TEXT",
     .doc = "it is ready when it writes this on stdout"},
    {.name = "ready-port",
     .key = OPT_READY_PORT,
     .arg = "PORT",
     .doc = "... when this port accepts"},
    {.name = "ready-command",
     .key = OPT_READY_COMMAND,
     .arg = "TEXT",
     .doc = "... when this shell command exits 0"},
    {.name = "ready-interval",
     .key = OPT_READY_INTERVAL,
     .arg = "TIME",
     .doc = "between two tries (1s)"},
    {.name = "wait",
     .key = OPT_WAIT,
     .arg = "TIME",
     .doc = "until it is ready; else it is stopped"},
    {.name = "grace", .key = OPT_GRACE, .arg = "TIME", .doc = "from SIGTERM to SIGKILL (5s)"},
    {.name = "journal", .key = OPT_JOURNAL, .arg = "SIZE", .doc = "kept of each stream (1MiB)"},
    {.name = "memory", .key = OPT_MEMORY, .arg = "SIZE", .doc = "of its own, within the session's"},
    {.name = "pids", .key = OPT_PIDS, .arg = "N", .doc = "processes and threads of its own"},
    {.name = "cpu", .key = OPT_CPU, .arg = "CORES", .doc = "CPU of its own, such as 0.5"},
    {.name = "tty", .key = OPT_TTY, .doc = "run it on a terminal, for `boxcli attach`"},
    {.name = "stop-on-detach",
     .key = OPT_STOP_ON_DETACH,
     .doc = "stop it when the last attached caller leaves"},
    {.name = "idempotency-key",
     .key = OPT_IDEMPOTENCY,
     .arg = "KEY",
     .doc = "a repeated call has no second effect"},
    {0},
};

static void set_text(char **field, const char *text)
{
    if (*field != (const char *)protobuf_c_empty_string)
        free(*field);
    *field = box_strdup(text);
}

static Box__V1__RestartPolicy *policy_of(start_args *a)
{
    if (a->spec->restart == NULL) {
        a->spec->restart = box_alloc(sizeof *a->spec->restart);
        box__v1__restart_policy__init(a->spec->restart);
        a->spec->restart->mode = BOX__V1__RESTART_MODE__RESTART_MODE_ON_FAILURE;
    }
    return a->spec->restart;
}

static Box__V1__Readiness *readiness_of(start_args *a, struct argp_state *state, bool probe)
{
    if (a->spec->readiness == NULL) {
        a->spec->readiness = box_alloc(sizeof *a->spec->readiness);
        box__v1__readiness__init(a->spec->readiness);
    }
    if (probe && a->spec->readiness->probe_case != BOX__V1__READINESS__PROBE__NOT_SET)
        argp_error(state, "--ready-line, --ready-port and --ready-command exclude each other");
    return a->spec->readiness;
}

static void set_restart(start_args *a, struct argp_state *state, const char *text)
{
    static const struct {
        const char *text;
        Box__V1__RestartMode mode;
    } modes[] = {
        {"never", BOX__V1__RESTART_MODE__RESTART_MODE_NEVER},
        {"on-failure", BOX__V1__RESTART_MODE__RESTART_MODE_ON_FAILURE},
        {"always", BOX__V1__RESTART_MODE__RESTART_MODE_ALWAYS},
    };
    for (size_t i = 0; i < BOX_COUNT(modes); i++) {
        if (strcmp(text, modes[i].text) == 0) {
            policy_of(a)->mode = modes[i].mode;
            return;
        }
    }
    argp_error(state, "--restart %s: expected never, on-failure or always", text);
}

static void set_ready(start_args *a, struct argp_state *state, int key, const char *arg)
{
    Box__V1__Readiness *r = readiness_of(a, state, true);
    if (key == OPT_READY_LINE) {
        r->probe_case = BOX__V1__READINESS__PROBE_STDOUT_LINE;
        r->stdout_line = box_strdup(arg);
    } else if (key == OPT_READY_PORT) {
        r->probe_case = BOX__V1__READINESS__PROBE_TCP_PORT;
        r->tcp_port = (int32_t)cli_number(state, "--ready-port", arg, 1, UINT16_MAX);
    } else {
        r->probe_case = BOX__V1__READINESS__PROBE_COMMAND;
        r->command = box_alloc(sizeof *r->command);
        box__v1__command__init(r->command);
        r->command->shell_command = box_strdup(arg);
    }
}

static error_t parse_spec(start_args *a, int key, char *arg, struct argp_state *state)
{
    Box__V1__ProcessSpec *spec = a->spec;
    switch (key) {
    case OPT_ENV:
        CLI_MAP_ADD(&spec->n_env, &spec->env, Box__V1__ProcessSpec__EnvEntry,
                    box__v1__process_spec__env_entry__init, state, arg);
        return 0;
    case OPT_WORKDIR:
        set_text(&spec->workdir, arg);
        return 0;
    case OPT_SHELL:
        set_text(&spec->shell_command, arg);
        return 0;
    case OPT_RESTART:
        set_restart(a, state, arg);
        return 0;
    case OPT_MAX_RESTARTS:
        policy_of(a)->max_restarts =
            (int32_t)cli_number(state, "--max-restarts", arg, 0, INT32_MAX);
        return 0;
    case OPT_BACKOFF:
        cli_duration_set(&policy_of(a)->first_backoff, cli_duration(state, "--backoff", arg));
        return 0;
    case OPT_MAX_BACKOFF:
        cli_duration_set(&policy_of(a)->max_backoff, cli_duration(state, "--max-backoff", arg));
        return 0;
    case OPT_READY_LINE:
    case OPT_READY_PORT:
    case OPT_READY_COMMAND:
        set_ready(a, state, key, arg);
        return 0;
    case OPT_READY_INTERVAL:
        cli_duration_set(&readiness_of(a, state, false)->interval,
                         cli_duration(state, "--ready-interval", arg));
        return 0;
    case OPT_GRACE:
        cli_duration_set(&spec->stop_grace, cli_duration(state, "--grace", arg));
        return 0;
    case OPT_JOURNAL:
        box__v1__process_spec__set_journal_limit_bytes(spec, cli_bytes(state, "--journal", arg));
        return 0;
    case OPT_MEMORY:
        box__v1__process_spec__set_memory_bytes(spec, cli_bytes(state, "--memory", arg));
        return 0;
    case OPT_PIDS:
        box__v1__process_spec__set_pids_limit(
            spec, (int32_t)cli_number(state, "--pids", arg, 1, INT32_MAX));
        return 0;
    case OPT_CPU:
        box__v1__process_spec__set_cpu_millis(spec, cli_cores(state, arg));
        return 0;
    case OPT_STOP_ON_DETACH:
        spec->stop_on_detach = true;
        return 0;
    case OPT_TTY:
        if (spec->terminal == NULL) {
            spec->terminal = box_alloc(sizeof *spec->terminal);
            box__v1__terminal__init(spec->terminal);
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* The first word is the session, the rest of the line the command. */
static void take_word(start_args *a, const char *word, struct argp_state *state)
{
    if (a->session == NULL) {
        a->session = word;
        return;
    }
    int at = state->next - 1;
    a->spec->n_argv = (size_t)(state->argc - at);
    a->spec->argv = box_alloc_array(a->spec->n_argv, sizeof *a->spec->argv);
    for (int i = at; i < state->argc; i++)
        a->spec->argv[i - at] = box_strdup(state->argv[i]);
    state->next = state->argc;
}

static void check_start(const start_args *a, const struct argp_state *state)
{
    bool shell = a->spec->shell_command[0] != '\0';
    if (a->session == NULL)
        argp_error(state, "name a session");
    if ((a->spec->n_argv > 0) == shell)
        argp_error(state, "name a command behind --, or give --shell");
    if (a->spec->readiness != NULL &&
        a->spec->readiness->probe_case == BOX__V1__READINESS__PROBE__NOT_SET)
        argp_error(state, "--ready-interval needs --ready-line, --ready-port or --ready-command");
}

static error_t parse_start(int key, char *arg, struct argp_state *state)
{
    start_args *a = state->input;
    switch (key) {
    case 'i':
        a->id = arg;
        return 0;
    case OPT_REPLACE:
        a->replace = true;
        return 0;
    case OPT_WAIT:
        cli_duration_set(&a->wait, cli_duration(state, "--wait", arg));
        return 0;
    case OPT_IDEMPOTENCY:
        a->idempotency_key = arg;
        return 0;
    case ARGP_KEY_ARG:
        take_word(a, arg, state);
        return 0;
    case ARGP_KEY_END:
        check_start(a, state);
        return 0;
    default:
        return parse_spec(a, key, arg, state);
    }
}

static int start_with(cli *c, const start_args *a)
{
    box_error err;
    Box__V1__StartManagedProcessRequest request;
    box__v1__start_managed_process_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__StartManagedProcessResponse *r = NULL;
    request.session_id = (char *)(uintptr_t)a->session;
    if (a->id != NULL)
        request.process_id = (char *)(uintptr_t)a->id;
    request.spec = a->spec;
    request.replace = a->replace;
    request.ready_timeout = a->wait;
    if (a->idempotency_key != NULL)
        request.idempotency_key = (char *)(uintptr_t)a->idempotency_key;
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (a->wait != NULL || a->replace)
        o.timeout_ns = 0; /* the server has its own */
    if (box_v1_process_service_start_managed_process(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    return cli_process_show(c, &r->base, r->process);
}

int cli_process_start(cli *c, int argc, char **argv)
{
    const struct argp parser = {.options = start_options,
                                .parser = parse_start,
                                .args_doc = "SESSION -- COMMAND...",
                                .doc = "Starts a process that lives on when nobody looks."};
    start_args a = {.spec = box_alloc(sizeof *a.spec)};
    box__v1__process_spec__init(a.spec);
    cli_parse(&parser, argc, argv, &a);
    int code = start_with(c, &a);
    cli_message_free(a.spec);
    free(a.wait);
    return code;
}
