/* boxcli session id: the id that a template makes of variables. */
#include "args.h"
#include "base/alloc.h"
#include "box/v1/session.client.h"
#include "spec.h"

enum { OPT_VAR = 0x440 };

typedef struct id_args {
    cli_words words;
    Box__V1__ResolveSessionIdRequest *request; /* owned */
} id_args;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    id_args *a = state->input;
    if (key != OPT_VAR)
        return cli_words_take(&a->words, key, arg, state);
    CLI_MAP_ADD(&a->request->n_variables, &a->request->variables,
                Box__V1__ResolveSessionIdRequest__VariablesEntry,
                box__v1__resolve_session_id_request__variables_entry__init, state, arg);
    return 0;
}

static int resolve(cli *c, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {.name = "var", .key = OPT_VAR, .arg = "NAME=VALUE", .doc = "a variable; may be repeated"},
        {0},
    };
    const struct argp parser = {
        .options = options,
        .parser = parse,
        .args_doc = "[TEMPLATE]",
        .doc =
            "Prints the session id that a template such as {launcher_type}_{launcher_id} makes."};
    box_error err;
    BOX_AUTO(cli_message_freep)
    Box__V1__ResolveSessionIdRequest *request = box_alloc(sizeof *request);
    BOX_AUTO(cli_message_freep) Box__V1__ResolveSessionIdResponse *r = NULL;
    box__v1__resolve_session_id_request__init(request);
    id_args a = {.words = {.max = 1}, .request = request};
    cli_parse(&parser, argc, argv, &a);
    if (a.words.count > 0)
        request->id_template = box_strdup(a.words.word[0]);
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_session_service_resolve_session_id(c->channel, &o, request, &r, &err) < 0)
        return cli_fail(c, &err);
    if (c->json)
        return cli_print_json(c, &r->base);
    for (size_t i = 0; i < r->n_unknown_names; i++)
        fprintf(stderr, "boxcli: {%s} has no value\n", cli_clean(r->unknown_names[i]));
    printf("%s\n", r->session_id);
    return CLI_OK;
}

const cli_command cli_session_id_commands[] = {
    {"session", "id", "the id a template makes", resolve},
    {0},
};
