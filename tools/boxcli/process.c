/* boxcli process start|get|list|stop|signal|wait. */
#include <signal.h>

#include "args.h"
#include "base/alloc.h"
#include "box/v1/process.client.h"
#include "box/v1/process.fields.h"
#include "box/v1/types.fields.h"
#include "process_view.h"
#include "spec.h"

enum { LIST_PAGE = 1000 };

static int show(const cli *c, const ProtobufCMessage *response, const Box__V1__ManagedProcess *p)
{
    if (c->json)
        return cli_print_json(c, response);
    if (p != NULL)
        cli_process_print(p);
    return CLI_OK;
}

static char *process_word(const cli_words *words)
{
    return words->count > 1 ? words->word[1] : (char *)(uintptr_t) "";
}

/* --- start ------------------------------------------------------------------------------------ */

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
    OPT_STATE,
    OPT_MISSING,
    OPT_READY,
    OPT_TIMEOUT,
    OPT_TREE,
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

static void set_duration(Google__Protobuf__Duration **field, uint64_t ns)
{
    free(*field);
    *field = cli_duration_message(ns);
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
        set_duration(&policy_of(a)->first_backoff, cli_duration(state, "--backoff", arg));
        return 0;
    case OPT_MAX_BACKOFF:
        set_duration(&policy_of(a)->max_backoff, cli_duration(state, "--max-backoff", arg));
        return 0;
    case OPT_READY_LINE:
    case OPT_READY_PORT:
    case OPT_READY_COMMAND:
        set_ready(a, state, key, arg);
        return 0;
    case OPT_READY_INTERVAL:
        set_duration(&readiness_of(a, state, false)->interval,
                     cli_duration(state, "--ready-interval", arg));
        return 0;
    case OPT_GRACE:
        set_duration(&spec->stop_grace, cli_duration(state, "--grace", arg));
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
        set_duration(&a->wait, cli_duration(state, "--wait", arg));
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
    return show(c, &r->base, r->process);
}

static int start(cli *c, int argc, char **argv)
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

/* --- get, list -------------------------------------------------------------------------------- */

static int get(cli *c, int argc, char **argv)
{
    box_error err;
    cli_words words = {
        .doc = "SESSION [PROCESS]", .summary = "Shows one process.", .min = 1, .max = 2};
    cli_parse_words(&words, argc, argv);
    Box__V1__GetManagedProcessRequest request;
    box__v1__get_managed_process_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__GetManagedProcessResponse *r = NULL;
    request.session_id = words.word[0];
    request.process_id = process_word(&words);
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_process_service_get_managed_process(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    return show(c, &r->base, r->process);
}

typedef struct list_args {
    cli_words words;
    Box__V1__ProcessState states[8];
    size_t n_states;
} list_args;

static error_t parse_list(int key, char *arg, struct argp_state *state)
{
    list_args *a = state->input;
    Box__V1__ProcessState value;
    if (key != OPT_STATE)
        return cli_words_take(&a->words, key, arg, state);
    if (!cli_process_state_parse(arg, &value))
        argp_error(state, "--state %s: expected starting, running, waiting, stopping or exited",
                   arg);
    if (a->n_states < BOX_COUNT(a->states))
        a->states[a->n_states++] = value;
    return 0;
}

static int print_page(const cli *c, const Box__V1__ListManagedProcessesResponse *r)
{
    if (c->json)
        return cli_print_json(c, &r->base);
    for (size_t i = 0; i < r->n_processes; i++)
        cli_process_line(r->processes[i]);
    return CLI_OK;
}

static int list_pages(cli *c, list_args *a)
{
    box_error err;
    Box__V1__ListManagedProcessesRequest request;
    box__v1__list_managed_processes_request__init(&request);
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    BOX_AUTO(box_freep) char *token = box_strdup("");
    cli_process_heading(c);
    do {
        BOX_AUTO(cli_message_freep) Box__V1__ListManagedProcessesResponse *r = NULL;
        if (a->words.count > 0)
            request.session_id = a->words.word[0];
        request.states = a->states;
        request.n_states = a->n_states;
        request.page_size = LIST_PAGE;
        request.page_token = token;
        if (box_v1_process_service_list_managed_processes(c->channel, &o, &request, &r, &err) < 0)
            return cli_fail(c, &err);
        if (print_page(c, r) != CLI_OK)
            return CLI_FAILED;
        free(token);
        token = box_strdup(r->next_page_token);
    } while (token[0] != '\0');
    return CLI_OK;
}

static int list(cli *c, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {.name = "state",
         .key = OPT_STATE,
         .arg = "STATE",
         .doc = "only in this state; may be repeated"},
        {0},
    };
    const struct argp parser = {.options = options,
                                .parser = parse_list,
                                .args_doc = "[SESSION]",
                                .doc = "Lists processes, of a session or of all."};
    list_args a = {.words = {.max = 1}};
    cli_parse(&parser, argc, argv, &a);
    return list_pages(c, &a);
}

/* --- stop, signal, wait ----------------------------------------------------------------------- */

typedef struct end_args {
    cli_words words;
    Google__Protobuf__Duration *time;
    bool allow_missing;
    bool ready;
    bool tree;
} end_args;

static error_t parse_end(int key, char *arg, struct argp_state *state)
{
    end_args *a = state->input;
    switch (key) {
    case OPT_GRACE:
    case OPT_TIMEOUT:
        set_duration(&a->time,
                     cli_duration(state, key == OPT_GRACE ? "--grace" : "--timeout", arg));
        return 0;
    case OPT_MISSING:
        a->allow_missing = true;
        return 0;
    case OPT_READY:
        a->ready = true;
        return 0;
    case OPT_TREE:
        a->tree = true;
        return 0;
    default:
        return cli_words_take(&a->words, key, arg, state);
    }
}

static int stop(cli *c, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {.name = "grace",
         .key = OPT_GRACE,
         .arg = "TIME",
         .doc = "from SIGTERM to SIGKILL; 0s: none"},
        {.name = "missing-ok", .key = OPT_MISSING, .doc = "no process is no error"},
        {0},
    };
    const struct argp parser = {.options = options,
                                .parser = parse_end,
                                .args_doc = "SESSION [PROCESS]",
                                .doc = "Ends a process: end of stdin, SIGTERM, SIGKILL to all."};
    box_error err;
    end_args a = {.words = {.doc = "SESSION [PROCESS]", .min = 1, .max = 2}};
    cli_parse(&parser, argc, argv, &a);
    BOX_AUTO(box_freep) Google__Protobuf__Duration *grace = a.time;
    Box__V1__StopManagedProcessRequest request;
    box__v1__stop_managed_process_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__StopManagedProcessResponse *r = NULL;
    request.session_id = a.words.word[0];
    request.process_id = process_word(&a.words);
    request.grace = grace;
    request.allow_missing = a.allow_missing;
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    o.timeout_ns = 0; /* the grace may be long */
    if (box_v1_process_service_stop_managed_process(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    return show(c, &r->base, r->process);
}

/* "TERM", "SIGTERM" or "15"; 0 = none of them. */
static int signal_number(const char *text)
{
    const char *name = strncmp(text, "SIG", 3) == 0 ? text + 3 : text;
    char *end;
    long number = strtol(text, &end, 10);
    if (*text != '\0' && *end == '\0')
        return number >= 1 && number <= 64 ? (int)number : 0;
    for (int i = 1; i < NSIG; i++) {
        const char *known = sigabbrev_np(i);
        if (known != NULL && strcmp(known, name) == 0)
            return i;
    }
    return 0;
}

static int send_signal(cli *c, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {.name = "tree", .key = OPT_TREE, .doc = "with KILL: all it started"},
        {0},
    };
    const struct argp parser = {.options = options,
                                .parser = parse_end,
                                .args_doc = "SESSION PROCESS SIGNAL",
                                .doc = "Sends a signal (TERM, HUP, 10) to a process."};
    box_error err;
    end_args a = {.words = {.doc = "SESSION PROCESS SIGNAL", .min = 3, .max = 3}};
    cli_parse(&parser, argc, argv, &a);
    Box__V1__Signal signal;
    box__v1__signal__init(&signal);
    signal.number = signal_number(a.words.word[2]);
    if (signal.number == 0) {
        fprintf(stderr, "boxcli: no signal called %s\n", a.words.word[2]);
        return CLI_MISUSED;
    }
    signal.scope = a.tree ? BOX__V1__SIGNAL_SCOPE__SIGNAL_SCOPE_TREE
                          : BOX__V1__SIGNAL_SCOPE__SIGNAL_SCOPE_MAIN;
    Box__V1__SignalManagedProcessRequest request;
    box__v1__signal_managed_process_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__SignalManagedProcessResponse *r = NULL;
    request.session_id = a.words.word[0];
    request.process_id = process_word(&a.words);
    request.signal = &signal;
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_process_service_signal_managed_process(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    return show(c, &r->base, NULL);
}

static int wait(cli *c, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {.name = "ready", .key = OPT_READY, .doc = "until it is ready, not until it has ended"},
        {.name = "timeout", .key = OPT_TIMEOUT, .arg = "TIME", .doc = "at most this long"},
        {0},
    };
    const struct argp parser = {
        .options = options,
        .parser = parse_end,
        .args_doc = "SESSION [PROCESS]",
        .doc = "Waits until a process has ended, or is ready. Ends with 1 when it did not."};
    box_error err;
    end_args a = {.words = {.doc = "SESSION [PROCESS]", .min = 1, .max = 2}};
    cli_parse(&parser, argc, argv, &a);
    BOX_AUTO(box_freep) Google__Protobuf__Duration *timeout = a.time;
    Box__V1__WaitManagedProcessRequest request;
    box__v1__wait_managed_process_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__WaitManagedProcessResponse *r = NULL;
    request.session_id = a.words.word[0];
    request.process_id = process_word(&a.words);
    request.condition = a.ready ? BOX__V1__WAIT_CONDITION__WAIT_CONDITION_READY
                                : BOX__V1__WAIT_CONDITION__WAIT_CONDITION_EXITED;
    request.timeout = timeout;
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    o.timeout_ns = 0;
    if (box_v1_process_service_wait_managed_process(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    int code = show(c, &r->base, r->process);
    return code == CLI_OK && !r->met ? CLI_FAILED : code;
}

const cli_command cli_process_commands[] = {
    {"process", "start", "start a process that lives on", start},
    {"process", "get", "show one", get},
    {"process", "list", "list them", list},
    {"process", "stop", "end one", stop},
    {"process", "signal", "send it a signal", send_signal},
    {"process", "wait", "until it is ready or has ended", wait},
    {0},
};
