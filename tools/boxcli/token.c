/* boxcli token create|list|revoke. */
#include "args.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/limits.h"
#include "box/v1/admin.client.h"
#include "spec.h"

enum { OPT_NAME = 0x500, OPT_TENANT, OPT_SCOPE, OPT_TTL, OPT_ENDED };

enum { MAX_SCOPES = 32 };

/* Everything the commands of this file can be told. */
typedef struct token_args {
    cli_words words;
    const char *name;
    const char *of_tenant;
    char *scopes[MAX_SCOPES];
    size_t n_scopes;
    uint64_t ttl_ns;
    bool include_ended;
} token_args;

/* "exec.write,session.read", and the option may be repeated. */
static void add_scopes(token_args *a, char *list, struct argp_state *state)
{
    char *save = NULL;
    for (char *scope = strtok_r(list, ",", &save); scope != NULL;
         scope = strtok_r(NULL, ",", &save)) {
        if (a->n_scopes == MAX_SCOPES)
            argp_error(state, "more than %d scopes", MAX_SCOPES);
        a->scopes[a->n_scopes++] = scope;
    }
}

static error_t parse_token(int key, char *arg, struct argp_state *state)
{
    token_args *a = state->input;
    switch (key) {
    case OPT_NAME:
        a->name = arg;
        return 0;
    case OPT_TENANT:
        a->of_tenant = arg;
        return 0;
    case OPT_SCOPE:
        add_scopes(a, arg, state);
        return 0;
    case OPT_TTL:
        a->ttl_ns = cli_duration(state, "--ttl", arg);
        return 0;
    case OPT_ENDED:
        a->include_ended = true;
        return 0;
    default:
        return cli_words_take(&a->words, key, arg, state);
    }
}

static void parse_with(const struct argp_option *options, const char *doc, token_args *a, int argc,
                       char **argv)
{
    const struct argp p = {.options = options, .parser = parse_token, .doc = doc};
    cli_parse(&p, argc, argv, a);
}

static char *text(const char *value)
{
    return (char *)(uintptr_t)(value != NULL ? value : "");
}

#define TOKEN_COLUMNS "%-16s %-16s %-8s %-20s"

static const char *token_state(const Box__V1__Token *t)
{
    if (t->revoked_at != NULL)
        return "revoked";
    bool ended =
        t->expires_at != NULL &&
        t->expires_at->seconds * (int64_t)BOX_SECOND + t->expires_at->nanos <= box_wall_ns();
    return ended ? "expired" : "valid";
}

static void token_heading(const cli *c)
{
    char line[128];
    (void)snprintf(line, sizeof line, TOKEN_COLUMNS " %s", "TOKEN", "PREFIX", "STATE", "ENDS",
                   "NAME: SCOPES");
    cli_heading(c, line);
}

static void print_token(const Box__V1__Token *t)
{
    char ends[32];
    printf(TOKEN_COLUMNS, cli_clean(t->token_id), cli_clean(t->prefix), token_state(t),
           t->expires_at != NULL ? cli_when(t->expires_at, ends) : "never");
    printf(" %s:", cli_clean(t->name));
    for (size_t i = 0; i < t->n_scopes; i++)
        printf(" %s", cli_clean(t->scopes[i]));
    printf("\n");
}

static int token_create(cli *c, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {.name = "name", .key = OPT_NAME, .arg = "TEXT", .doc = "name for people"},
        {.name = "of",
         .key = OPT_TENANT,
         .arg = "TENANT",
         .doc = "for this tenant; default: your own"},
        {.name = "scope",
         .key = OPT_SCOPE,
         .arg = "SCOPE[,SCOPE...]",
         .doc = "what it may do, of session.read session.write exec.write process.read "
                "process.write file.read file.write tool.call skill.read skill.write image.read "
                "image.write admin.read admin.write tenants.act, as far as you may"},
        {.name = "ttl",
         .key = OPT_TTL,
         .arg = "TIME",
         .doc = "it ends this long from now; default: never"},
        {0},
    };
    box_error err;
    token_args a = {0};
    parse_with(options, "Makes a token and prints its secret, which is shown only now.", &a, argc,
               argv);
    Box__V1__CreateTokenRequest request;
    box__v1__create_token_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__CreateTokenResponse *r = NULL;
    BOX_AUTO(box_freep)
    Google__Protobuf__Duration *ttl = a.ttl_ns > 0 ? cli_duration_message(a.ttl_ns) : NULL;
    request.tenant_id = text(a.of_tenant);
    request.name = text(a.name);
    request.scopes = a.scopes;
    request.n_scopes = a.n_scopes;
    request.ttl = ttl;
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_admin_service_create_token(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    if (c->json)
        return cli_print_json(c, &r->base);
    printf("%s\n", cli_clean(r->secret));
    return CLI_OK;
}

static int token_page(cli *c, void *arg, char *token, char **next)
{
    const token_args *a = arg;
    box_error err;
    Box__V1__ListTokensRequest request;
    box__v1__list_tokens_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__ListTokensResponse *r = NULL;
    request.tenant_id = text(a->of_tenant);
    request.page_size = BOX_MAX_PAGE;
    request.page_token = token;
    request.include_ended = a->include_ended;
    box_client_options o = cli_options(c);
    if (box_v1_admin_service_list_tokens(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    *next = box_strdup(r->next_page_token);
    if (c->json)
        return cli_print_json(c, &r->base);
    for (size_t i = 0; i < r->n_tokens; i++)
        print_token(r->tokens[i]);
    return CLI_OK;
}

static int token_list(cli *c, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {.name = "of",
         .key = OPT_TENANT,
         .arg = "TENANT",
         .doc = "of this tenant; default: your own"},
        {.name = "all", .key = OPT_ENDED, .doc = "also those that were revoked or have expired"},
        {0},
    };
    token_args a = {0};
    parse_with(options, "Lists tokens, never their secrets.", &a, argc, argv);
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    token_heading(c);
    return cli_pages(c, token_page, &a);
}

static int token_revoke(cli *c, int argc, char **argv)
{
    box_error err;
    cli_words words = {.doc = "TOKEN-ID",
                       .summary = "Ends a token at once, its open streams included.",
                       .min = 1,
                       .max = 1};
    cli_parse_words(&words, argc, argv);
    Box__V1__RevokeTokenRequest request;
    box__v1__revoke_token_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__RevokeTokenResponse *r = NULL;
    request.token_id = words.word[0];
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_admin_service_revoke_token(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    return c->json ? cli_print_json(c, &r->base) : CLI_OK;
}

const cli_command cli_token_commands[] = {
    {"token", "create", "make a token", token_create},
    {"token", "list", "list tokens", token_list},
    {"token", "revoke", "end a token", token_revoke},
    {0},
};
