/* boxcli run, boxcli exec: options, and the calls' first message. stream.c does the rest. */
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "box/v1/exec.client.h"
#include "spec.h"
#include "stream.h"
#include "tty.h"

enum {
    OPT_TIMEOUT = 0x300,
    OPT_IDLE_TIMEOUT,
    OPT_QUEUE_TIMEOUT,
    OPT_ENV,
    OPT_WORKDIR,
    OPT_SHELL,
    OPT_KEEP,
    OPT_KILL,
    OPT_OUTPUT_LIMIT,
    OPT_OUTPUT_KILL,
    OPT_IDEMPOTENCY,
    MAX_STDIN_JSON = 8 * 1024 * 1024, /* --json sends all of stdin in one message */
};

static const struct argp_option options[] = {
    {.doc = "Command:", .group = 1},
    {.name = "tty",
     .key = 't',
     .doc = "run it on a terminal, which this one is lent to: needs one on stdin"},
    {.name = "interactive", .key = 'i', .doc = "pass stdin on, as always: for -it of habit"},
    {.name = "timeout",
     .key = OPT_TIMEOUT,
     .arg = "TIME",
     .doc = "kill it after this long, such as 30s"},
    {.name = "idle-timeout",
     .key = OPT_IDLE_TIMEOUT,
     .arg = "TIME",
     .doc = "kill it when no byte goes in or out for this long"},
    {.name = "queue-timeout",
     .key = OPT_QUEUE_TIMEOUT,
     .arg = "TIME",
     .doc = "wait this long for the session's slot (30s)"},
    {.name = "env", .key = OPT_ENV, .arg = "K=V", .doc = "environment; may be repeated"},
    {.name = "workdir",
     .key = OPT_WORKDIR,
     .arg = "DIR",
     .doc = "start in this directory (/workspace)"},
    {.name = "shell", .key = OPT_SHELL, .arg = "TEXT", .doc = "run this text with /bin/sh -c"},
    {.name = "keep-leftovers", .key = OPT_KEEP, .doc = "processes it leaves behind go on"},
    {.name = "kill-leftovers", .key = OPT_KILL, .doc = "processes it leaves behind are killed"},
    {.name = "output-limit",
     .key = OPT_OUTPUT_LIMIT,
     .arg = "SIZE",
     .doc = "with --json: keep this much of each stream (1MiB)"},
    {.name = "output-kill",
     .key = OPT_OUTPUT_KILL,
     .arg = "SIZE",
     .doc = "kill it when it writes more than this"},
    {.name = "idempotency-key",
     .key = OPT_IDEMPOTENCY,
     .arg = "KEY",
     .doc = "never run twice under this key"},
    {0},
};

typedef struct run_args {
    bool wants_session; /* exec: the first word is the session's id */
    const char *session;
    Box__V1__Command *command;
    Google__Protobuf__Duration *queue_timeout;
    const char *idempotency_key;
    bool tty;
    bool json;
    cli_spec_args spec;
} run_args;

static void set_text(char **field, const char *text)
{
    if (*field != (const char *)protobuf_c_empty_string)
        free(*field);
    *field = box_strdup(text);
}

/* The rest of the line from argv[at] is the command. */
static void take_argv(run_args *a, int argc, char **argv, int at)
{
    a->command->n_argv = (size_t)(argc - at);
    a->command->argv = box_alloc_array(a->command->n_argv, sizeof *a->command->argv);
    for (int i = at; i < argc; i++)
        a->command->argv[i - at] = box_strdup(argv[i]);
}

static error_t parse_word(run_args *a, const char *word, struct argp_state *state)
{
    if (a->wants_session && a->session == NULL) {
        a->session = word;
        return 0;
    }
    take_argv(a, state->argc, state->argv, state->next - 1);
    state->next = state->argc;
    return 0;
}

static void check_complete(const run_args *a, const struct argp_state *state)
{
    bool shell = a->command->shell_command[0] != '\0';
    if (a->wants_session && (a->session == NULL || *a->session == '\0'))
        argp_error(state, "name a session");
    if (a->command->n_argv == 0 && !shell)
        argp_error(state, "name a command behind --, or give --shell");
    if (a->command->n_argv > 0 && shell)
        argp_error(state, "a command and --shell exclude each other");
    if (a->tty && a->json)
        argp_error(state, "--tty and --json exclude each other");
    if (a->tty && !cli_tty_is())
        argp_error(state, "--tty needs a terminal on standard input: leave it out");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    run_args *a = state->input;
    Box__V1__Command *c = a->command;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->spec;
        return 0;
    case OPT_TIMEOUT:
        cli_duration_set(&c->timeout, cli_duration(state, "--timeout", arg));
        return 0;
    case OPT_IDLE_TIMEOUT:
        cli_duration_set(&c->idle_timeout, cli_duration(state, "--idle-timeout", arg));
        return 0;
    case OPT_QUEUE_TIMEOUT:
        cli_duration_set(&a->queue_timeout, cli_duration(state, "--queue-timeout", arg));
        return 0;
    case OPT_ENV:
        CLI_MAP_ADD(&c->n_env, &c->env, Box__V1__Command__EnvEntry,
                    box__v1__command__env_entry__init, state, arg);
        return 0;
    case OPT_WORKDIR:
        set_text(&c->workdir, arg);
        return 0;
    case OPT_SHELL:
        set_text(&c->shell_command, arg);
        return 0;
    case OPT_KEEP:
        c->leftovers = BOX__V1__LEFTOVER_POLICY__LEFTOVER_POLICY_KEEP;
        return 0;
    case OPT_KILL:
        c->leftovers = BOX__V1__LEFTOVER_POLICY__LEFTOVER_POLICY_KILL;
        return 0;
    case OPT_OUTPUT_LIMIT:
        box__v1__command__set_output_limit_bytes(c, cli_bytes(state, "--output-limit", arg));
        return 0;
    case OPT_OUTPUT_KILL:
        box__v1__command__set_output_kill_bytes(c, cli_bytes(state, "--output-kill", arg));
        return 0;
    case OPT_IDEMPOTENCY:
        a->idempotency_key = arg;
        return 0;
    case 't':
        a->tty = true;
        return 0;
    case 'i':
        return 0;
    case ARGP_KEY_ARG:
        return parse_word(a, arg, state);
    case ARGP_KEY_END:
        check_complete(a, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* All of stdin, for the one message of --json. A terminal is not waited for. */
static int read_stdin(box_buf *to, box_error *err)
{
    if (isatty(STDIN_FILENO))
        return 0;
    box_buf_init(to, MAX_STDIN_JSON + 64 * 1024);
    if (box_buf_read_fd(to, STDIN_FILENO, err) < 0 || box_buf_len(to) > MAX_STDIN_JSON)
        return box_fail(err, BOX_MESSAGE_SIZE,
                        "with --json stdin is at most 8 MiB: leave --json out to stream it");
    return 0;
}

static int run_json(cli *c, run_args *a)
{
    box_error err;
    BOX_AUTO(box_buf_done) box_buf input = {0};
    BOX_AUTO(cli_message_freep) Box__V1__ExecResponse *response = NULL;
    Box__V1__ExecRequest request;
    box__v1__exec_request__init(&request);
    request.session_id = (char *)(uintptr_t)(a->session != NULL ? a->session : "");
    request.spec = a->spec.spec;
    request.command = a->command;
    request.queue_timeout = a->queue_timeout;
    request.idempotency_key =
        (char *)(uintptr_t)(a->idempotency_key != NULL ? a->idempotency_key : "");
    if (read_stdin(&input, &err) < 0)
        return cli_stream_failed(c, &err);
    request.stdin_data = (ProtobufCBinaryData){box_buf_len(&input), input.data};
    box_client_options o = cli_options(c);
    o.timeout_ns = 0; /* the command has its own */
    if (box_v1_exec_service_exec(c->channel, &o, &request, &response, &err) < 0)
        return cli_stream_failed(c, &err);
    if (cli_print_json(c, &response->base) != CLI_OK)
        return CLI_BOX_FAILED;
    return cli_verdict_code(c, response->verdict);
}

/* As this one is; a TERM that is too long for the server is no terminal's. */
static void fill_terminal(Box__V1__Terminal *t, Box__V1__TerminalSize *size)
{
    const char *term = getenv("TERM");
    box__v1__terminal__init(t);
    box__v1__terminal_size__init(size);
    cli_tty_size(&size->rows, &size->columns);
    t->size = size;
    if (term != NULL && strlen(term) <= BOX_TERM_BYTES)
        t->term = (char *)(uintptr_t)term;
}

static int run_stream(cli *c, run_args *a)
{
    Box__V1__ExecStart start;
    Box__V1__Terminal terminal;
    Box__V1__TerminalSize size;
    box__v1__exec_start__init(&start);
    if (a->tty) {
        fill_terminal(&terminal, &size);
        start.terminal = &terminal;
    }
    start.session_id = (char *)(uintptr_t)(a->session != NULL ? a->session : "");
    start.spec = a->spec.spec;
    start.command = a->command;
    start.queue_timeout = a->queue_timeout;
    start.idempotency_key =
        (char *)(uintptr_t)(a->idempotency_key != NULL ? a->idempotency_key : "");
    return cli_stream(c, &start);
}

static int run_or_exec(cli *c, int argc, char **argv, bool exec)
{
    static const struct argp_child children[] = {{.argp = &cli_spec_argp}, {0}};
    const struct argp parser = {
        .options = options,
        .parser = parse,
        .args_doc = exec ? "SESSION -- COMMAND..." : "-- COMMAND...",
        .doc =
            exec
                ? "Runs a command in a session, which is made when it does not exist. With -it on "
                  "a "
                  "terminal, as ssh does."
                : "Runs a command in a fresh sandbox that goes with it. With -it on a terminal, as "
                  "docker does.",
        .children = children,
    };
    run_args a = {.wants_session = exec, .json = c->json, .command = box_alloc(sizeof *a.command)};
    box__v1__command__init(a.command);
    cli_parse(&parser, argc, argv, &a);
    int code = CLI_BOX_FAILED;
    if (cli_connect(c) == 0)
        code = c->json ? run_json(c, &a) : run_stream(c, &a);
    cli_message_free(a.command);
    cli_message_free(a.spec.spec);
    free(a.queue_timeout);
    return code;
}

static int run(cli *c, int argc, char **argv)
{
    return run_or_exec(c, argc, argv, false);
}

static int exec(cli *c, int argc, char **argv)
{
    return run_or_exec(c, argc, argv, true);
}

const cli_command cli_run_commands[] = {
    {"run", NULL, "run a command in a fresh sandbox", run},
    {"exec", NULL, "run a command in a session", exec},
    {0},
};
