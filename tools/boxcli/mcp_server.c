/* boxcli mcp-server run|stage|stop: MCP servers of this machine, in a session. */
#include "box/mcp_server.h"
#include "args.h"
#include "attach.h"
#include "base/alloc.h"
#include "box/stage.h"
#include "box/v1/process.fields.h"
#include "spec.h"

/* --- run -------------------------------------------------------------------------------------- */

enum {
    OPT_SESSION = 0x700,
    OPT_ID,
    OPT_PROJECT,
    OPT_ENV,
    OPT_REPLACE,
    OPT_NO_VENV,
    OPT_TIMEOUT,
    OPT_STOP,
    OPT_TAKE_OVER,
    OPT_QUIET,
};

enum { MAX_VARIABLES = 1024 };

typedef struct run_args {
    box_mcp_server server;
    cli_spec_args spec;
    const char *variables[MAX_VARIABLES];
    bool take_over, quiet;
} run_args;

static const struct argp_option run_options[] = {
    {.name = "session", .key = OPT_SESSION, .arg = "SESSION", .doc = "in this one (mcp-shared)"},
    {.name = "id", .key = OPT_ID, .arg = "ID", .doc = "the process's name in the session"},
    {.name = "project",
     .key = OPT_PROJECT,
     .arg = "DIR",
     .doc = "copy this folder (what the command's paths have in common); '': none"},
    {.name = "env", .key = OPT_ENV, .arg = "K=V", .doc = "environment; may be repeated"},
    {.name = "no-venv", .key = OPT_NO_VENV, .doc = "make no Python environment"},
    {.name = "replace", .key = OPT_REPLACE, .doc = "start it anew, also when it runs already"},
    {.name = "timeout", .key = OPT_TIMEOUT, .arg = "TIME", .doc = "until it runs (300s)"},
    {.name = "stop-on-detach",
     .key = OPT_STOP,
     .doc = "stop it when the client is gone; its stdin ends with ours"},
    {.name = "take-over", .key = OPT_TAKE_OVER, .doc = "take stdin from another client"},
    {.name = "quiet", .key = OPT_QUIET, .doc = "say only what goes wrong"},
    {0},
};

static void add_variable(run_args *a, const char *text, struct argp_state *state)
{
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text)
        argp_error(state, "--env %s: expected K=V", text);
    if (a->server.n_env == MAX_VARIABLES)
        argp_error(state, "--env: more than %d", MAX_VARIABLES);
    a->variables[a->server.n_env++] = text;
}

/* The first word begins the command; what follows is its own. */
static void take_command(run_args *a, struct argp_state *state)
{
    int at = state->next - 1;
    a->server.argv = (const char *const *)(state->argv + at);
    a->server.argc = (size_t)(state->argc - at);
    state->next = state->argc;
}

static error_t parse_run(int key, char *arg, struct argp_state *state)
{
    run_args *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->spec;
        return 0;
    case OPT_SESSION:
        a->server.session_id = arg;
        return 0;
    case OPT_ID:
        a->server.process_id = arg;
        return 0;
    case OPT_PROJECT:
        a->server.project = arg;
        return 0;
    case OPT_ENV:
        add_variable(a, arg, state);
        return 0;
    case OPT_NO_VENV:
        a->server.no_environment = true;
        return 0;
    case OPT_REPLACE:
        a->server.replace = true;
        return 0;
    case OPT_TIMEOUT:
        a->server.timeout_ns = cli_duration(state, "--timeout", arg);
        return 0;
    case OPT_STOP:
        a->server.stop_on_detach = true;
        return 0;
    case OPT_TAKE_OVER:
        a->take_over = true;
        return 0;
    case OPT_QUIET:
        a->quiet = true;
        return 0;
    case ARGP_KEY_ARG:
        take_command(a, state);
        return 0;
    case ARGP_KEY_END:
        if (a->server.argc == 0)
            argp_error(state, "name a command behind --");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void note(void *arg, const char *text)
{
    const run_args *a = arg;
    BOX_AUTO(box_freep) char *shown = box_strdup(text);
    char *rest = shown;
    for (char *line; !a->quiet && (line = strsep(&rest, "\n")) != NULL;)
        fprintf(stderr, "boxcli: %s\n", cli_clean(line));
}

/* stdin and stdout are the server's from here on. One that was started just now is read from its
 * begin; of one that ran already comes what it writes from now on. */
static int attach(cli *c, const run_args *a, box_mcp_started *started)
{
    Box__V1__AttachStart start;
    box__v1__attach_start__init(&start);
    start.session_id = started->session_id;
    start.process_id = started->process_id;
    start.write = true;
    start.take_over = a->take_over;
    if (started->started) {
        box__v1__attach_start__set_stdout_offset(&start, 0);
        box__v1__attach_start__set_stderr_offset(&start, 0);
    }
    const cli_attach how = {
        .start = &start, .quiet = true, .detach_on_eof = !a->server.stop_on_detach};
    return cli_attach_run(c, &how);
}

static int run(cli *c, int argc, char **argv)
{
    static const struct argp_child children[] = {{.argp = &cli_spec_argp}, {0}};
    const struct argp parser = {
        .options = run_options,
        .parser = parse_run,
        .args_doc = "-- COMMAND...",
        .doc = "Runs an MCP server in a session that many share, and is a plain pipe to it: the "
               "command of a client's entry. Its project is copied, a Python project gets its "
               "environment there; what runs already is used. The end of stdin detaches. Nothing "
               "is ever run on this machine instead.",
        .children = children};
    box_error err;
    box_mcp_started started = {0};
    BOX_AUTO(box_freep) run_args *a = box_alloc(sizeof *a);
    cli_parse(&parser, argc, argv, a);
    BOX_AUTO(cli_message_freep) Box__V1__SessionSpec *spec = a->spec.spec;
    a->server.spec = spec;
    a->server.env = a->variables;
    a->server.note = note;
    a->server.note_arg = a;
    if (cli_connect(c) < 0)
        return CLI_BOX_FAILED;
    box_client_options o = cli_options(c);
    if (box_mcp_server_start(c->channel, &o, &a->server, &started, &err) < 0) {
        (void)cli_fail(c, &err);
        return CLI_BOX_FAILED;
    }
    return attach(c, a, &started);
}

/* --- stage, stop ------------------------------------------------------------------------------ */

static int stage(cli *c, int argc, char **argv)
{
    box_error err;
    bool made = false;
    const char *example;
    cli_words words = {.doc = "DIR SESSION PATH",
                       .summary = "Copies a folder into a session: PATH (absolute) is there whole "
                                  "or not at all, and one that exists stays as it is. Left out are "
                                  "version control, caches, virtual environments and links that "
                                  "lead out of the folder.",
                       .min = 3,
                       .max = 3};
    cli_parse_words(&words, argc, argv);
    BOX_AUTO(box_stage_freep) box_stage *s = NULL;
    if (box_stage_scan(words.word[0], &s, &err) < 0)
        return cli_fail(c, &err);
    size_t left_out = box_stage_left_out(s, &example);
    if (left_out > 0) {
        BOX_AUTO(box_freep) char *shown = box_strdup(example);
        fprintf(stderr, "boxcli: %zu names are left out: %s...\n", left_out, cli_clean(shown));
    }
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_stage_put(s, c->channel, &o, words.word[1], words.word[2], &made, &err) < 0)
        return cli_fail(c, &err);
    if (c->json)
        printf("{\"hash\": \"%s\", \"files\": %zu, \"bytes\": %lld, \"made\": %s}\n",
               box_stage_hash(s), box_stage_files(s), (long long)box_stage_bytes(s),
               made ? "true" : "false");
    else
        printf("%zu files, %lld bytes%s\n", box_stage_files(s), (long long)box_stage_bytes(s),
               made ? "" : ": it was there");
    return CLI_OK;
}

static int stop(cli *c, int argc, char **argv)
{
    box_error err;
    cli_words words = {.doc = "SESSION PROCESS",
                       .summary = "Stops one server and removes the copies of its project; others "
                                  "of the session go on.",
                       .min = 2,
                       .max = 2};
    cli_parse_words(&words, argc, argv);
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_mcp_server_stop(c->channel, &o, words.word[0], words.word[1], &err) < 0)
        return cli_fail(c, &err);
    return CLI_OK;
}

const cli_command cli_mcp_server_commands[] = {
    {"mcp-server", "run", "run an MCP server of this machine in a session, as a pipe to it", run},
    {"mcp-server", "stage", "copy a project's folder into a session", stage},
    {"mcp-server", "stop", "stop one and remove its copies", stop},
    {0},
};
