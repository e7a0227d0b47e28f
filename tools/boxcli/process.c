/* boxcli process get|list, and the table of all its verbs. */
#include "args.h"
#include "base/alloc.h"
#include "base/limits.h"
#include "box/v1/process.client.h"
#include "process_end.h"
#include "process_start.h"
#include "process_view.h"

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
    request.process_id = cli_process_word(&words);
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_process_service_get_managed_process(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    return cli_process_show(c, &r->base, r->process);
}

enum { OPT_STATE = 0x500 };

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

static int list_page(cli *c, void *arg, char *token, char **next)
{
    list_args *a = arg;
    box_error err;
    Box__V1__ListManagedProcessesRequest request;
    box__v1__list_managed_processes_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__ListManagedProcessesResponse *r = NULL;
    if (a->words.count > 0)
        request.session_id = a->words.word[0];
    request.states = a->states;
    request.n_states = a->n_states;
    request.page_size = BOX_MAX_PAGE;
    request.page_token = token;
    box_client_options o = cli_options(c);
    if (box_v1_process_service_list_managed_processes(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    *next = box_strdup(r->next_page_token);
    return print_page(c, r);
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
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    cli_process_heading(c);
    return cli_pages(c, list_page, &a);
}

const cli_command cli_process_commands[] = {
    {"process", "start", "start a process that lives on", cli_process_start},
    {"process", "get", "show one", get},
    {"process", "list", "list them", list},
    {"process", "stop", "end one", cli_process_stop},
    {"process", "signal", "send it a signal", cli_process_signal},
    {"process", "wait", "until it is ready or has ended", cli_process_wait},
    {0},
};
