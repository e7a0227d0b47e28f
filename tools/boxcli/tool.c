/* boxcli tool list|call. */
#include <errno.h>
#include <unistd.h>

#include "args.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/limits.h"
#include "box/v1/tool.client.h"
#include "spec.h"

enum { OPT_SESSION = 0x480, OPT_TIMEOUT, OPT_IDEMPOTENCY };

static int list(cli *c, int argc, char **argv)
{
    box_error err;
    cli_words words = {
        .doc = "[SESSION]", .summary = "Tools a session offers, or all there are.", .max = 1};
    cli_parse_words(&words, argc, argv);
    Box__V1__ListToolsRequest request;
    box__v1__list_tools_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__ListToolsResponse *r = NULL;
    if (words.count > 0)
        request.session_id = words.word[0];
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_tool_service_list_tools(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    if (c->json)
        return cli_print_json(c, &r->base);
    for (size_t i = 0; i < r->n_tools; i++) {
        printf("%-16s ", cli_clean(r->tools[i]->name));
        printf("%s\n", cli_clean(r->tools[i]->description));
    }
    return CLI_OK;
}

typedef struct call_args {
    cli_words words;
    cli_spec_args spec;
    char *session;
    Google__Protobuf__Duration *timeout; /* owned */
    char *idempotency_key;
} call_args;

static error_t parse_call(int key, char *arg, struct argp_state *state)
{
    call_args *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->spec;
        return 0;
    case OPT_SESSION:
        a->session = arg;
        return 0;
    case OPT_TIMEOUT:
        free(a->timeout);
        a->timeout = cli_duration_message(cli_duration(state, "--timeout", arg));
        return 0;
    case OPT_IDEMPOTENCY:
        a->idempotency_key = arg;
        return 0;
    default:
        return cli_words_take(&a->words, key, arg, state);
    }
}

/* "-" is standard input. */
static int read_arguments(const char *word, box_buf *to, const char **out, box_error *err)
{
    *out = word;
    if (strcmp(word, "-") != 0)
        return 0;
    box_buf_init(to, BOX_MAX_TOOL_JSON_BYTES + 1);
    return box_buf_read_fd(to, STDIN_FILENO, err) < 0 || box_buf_text(to, out, err) < 0
               ? box_wrap(err, "arguments on standard input")
               : 0;
}

/* What the tool said on stdout, why it failed on stderr. */
static int show_result(const cli *c, const Box__V1__CallToolResponse *r)
{
    if (c->json) {
        if (cli_print_json(c, &r->base) != CLI_OK)
            return CLI_FAILED;
    } else {
        fputs(r->output, stdout);
        if (r->error[0] != '\0')
            fprintf(stderr, "boxcli: %s: %s\n", r->tool, cli_clean(r->error));
    }
    switch (r->status) {
    case BOX__V1__TOOL_STATUS__TOOL_STATUS_SUCCESS:
        return CLI_OK;
    case BOX__V1__TOOL_STATUS__TOOL_STATUS_TIMEOUT:
        return CLI_TIMED_OUT;
    default:
        return CLI_FAILED;
    }
}

static int call(cli *c, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {.name = "session",
         .key = OPT_SESSION,
         .arg = "SESSION",
         .doc = "where (else a fresh sandbox that goes with the call)"},
        {.name = "timeout", .key = OPT_TIMEOUT, .arg = "TIME", .doc = "end it after this long"},
        {.name = "idempotency-key",
         .key = OPT_IDEMPOTENCY,
         .arg = "KEY",
         .doc = "never run twice under this key"},
        {0},
    };
    static const struct argp_child children[] = {{.argp = &cli_spec_argp}, {0}};
    const struct argp parser = {
        .options = options,
        .parser = parse_call,
        .args_doc = "TOOL [ARGUMENTS]",
        .doc =
            "Calls a tool as a model would. ARGUMENTS is a JSON object, - reads it from standard "
            "input; boxcli tool list --json has the schemas. Ends with 0, 1 when the tool "
            "failed, 124 when its time was up.",
        .children = children};
    box_error err;
    BOX_AUTO(box_buf_done) box_buf input = {0};
    const char *arguments = "";
    call_args a = {.words = {.doc = "TOOL [ARGUMENTS]", .min = 1, .max = 2}};
    cli_parse(&parser, argc, argv, &a);
    BOX_AUTO(cli_message_freep) Box__V1__SessionSpec *spec = a.spec.spec;
    BOX_AUTO(box_freep) Google__Protobuf__Duration *timeout = a.timeout;
    BOX_AUTO(cli_message_freep) Box__V1__CallToolResponse *r = NULL;
    Box__V1__CallToolRequest request;
    box__v1__call_tool_request__init(&request);
    if (a.words.count > 1 && read_arguments(a.words.word[1], &input, &arguments, &err) < 0)
        return cli_fail(c, &err);
    request.tool = a.words.word[0];
    request.arguments_json = (char *)(uintptr_t)arguments;
    request.spec = spec;
    request.timeout = timeout;
    if (a.session != NULL)
        request.session_id = a.session;
    if (a.idempotency_key != NULL)
        request.idempotency_key = a.idempotency_key;
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    o.timeout_ns = 0; /* the tool has its own */
    if (box_v1_tool_service_call_tool(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    return show_result(c, r);
}

const cli_command cli_tool_commands[] = {
    {"tool", "list", "what a model can call", list},
    {"tool", "call", "call a tool with JSON arguments", call},
    {0},
};
