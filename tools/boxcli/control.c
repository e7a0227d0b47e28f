/* boxcli health, status, backends, whoami, errors, guidance, shutdown. */
#include "box/v1/control.client.h"

#include "args.h"

static int no_words(cli *c, int argc, char **argv, const char *summary)
{
    cli_words words = {.summary = summary};
    cli_parse_words(&words, argc, argv);
    return cli_connect(c);
}

static int health(cli *c, int argc, char **argv)
{
    box_error err;
    Box__V1__HealthRequest request;
    box__v1__health_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__HealthResponse *r = NULL;
    if (no_words(c, argc, argv, "Asks whether the server's backend works; 1 when it does not.") < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_control_service_health(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    if (c->json && cli_print_json(c, &r->base) != CLI_OK)
        return CLI_FAILED;
    if (!c->json && r->available)
        printf("%s: available\n", cli_clean(r->name));
    if (!r->available)
        fprintf(
            stderr,
            "boxcli: no backend is available: %s\n  is box-warden running? see boxcli backends\n",
            cli_clean(r->detail));
    return r->available ? CLI_OK : CLI_FAILED;
}

static void print_count(const char *before, int n, const char *noun)
{
    printf("%s%d %s%s", before, n, noun, n == 1 ? "" : "s");
}

static void print_server(const Box__V1__ServerStatus *s)
{
    print_count("server    ", s->active_sessions, "session");
    print_count(", ", s->active_execs, "command");
    print_count(", ", s->connections, "connection");
    print_count(", ", s->active_calls, "call");
    printf("\n");
}

static void print_status(const Box__V1__GetStatusResponse *r)
{
    printf("version   %s\n", cli_clean(r->version));
    printf("backend   %s%s\n", r->backend[0] != '\0' ? cli_clean(r->backend) : "none",
           r->available ? "" : " (not available)");
    if (!r->available)
        printf("          %s\n", cli_clean(r->backend_error));
    printf("sessions  %d\n", r->active_sessions);
    printf("commands  %d\n", r->active_execs);
    printf("profile   %s\n", cli_clean(r->profile));
    if (r->server != NULL)
        print_server(r->server);
    for (size_t i = 0; i < r->n_warnings; i++)
        printf("warning   %s\n", cli_clean(r->warnings[i]));
}

static int status(cli *c, int argc, char **argv)
{
    box_error err;
    Box__V1__GetStatusRequest request;
    box__v1__get_status_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__GetStatusResponse *r = NULL;
    if (no_words(c, argc, argv, "Numbers of the server and of your tenant.") < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_control_service_get_status(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    if (c->json)
        return cli_print_json(c, &r->base);
    print_status(r);
    return CLI_OK;
}

static void print_backend(const Box__V1__BackendInfo *b)
{
    printf("%-12s %-14s %s%s\n", cli_clean(b->name), b->available ? "available" : "unavailable",
           cli_clean(b->available ? b->detail : b->error), b->selected ? " (selected)" : "");
    for (size_t i = 0; i < b->n_guarantees; i++)
        printf("  %-18s %s\n", cli_clean(b->guarantees[i]->name),
               b->guarantees[i]->holds ? "yes" : "no");
}

static int backends(cli *c, int argc, char **argv)
{
    box_error err;
    Box__V1__ListBackendsRequest request;
    box__v1__list_backends_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__ListBackendsResponse *r = NULL;
    if (no_words(c, argc, argv, "Backends, whether they work, and what each guarantees.") < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_control_service_list_backends(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    if (c->json)
        return cli_print_json(c, &r->base);
    for (size_t i = 0; i < r->n_backends; i++)
        print_backend(r->backends[i]);
    return CLI_OK;
}

static int whoami(cli *c, int argc, char **argv)
{
    box_error err;
    Box__V1__WhoAmIRequest request;
    box__v1__who_am_irequest__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__WhoAmIResponse *r = NULL;
    if (no_words(c, argc, argv, "The tenant, token and scopes you act with.") < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_control_service_who_am_i(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    if (c->json)
        return cli_print_json(c, &r->base);
    printf("tenant  %s\n", cli_clean(r->tenant_id));
    if (r->token_id[0] != '\0') {
        printf("token   %s", cli_clean(r->token_prefix));
        printf("... (%s)\n", cli_clean(r->token_name));
    }
    printf("scopes ");
    for (size_t i = 0; i < r->n_scopes; i++)
        printf(" %s", cli_clean(r->scopes[i]));
    printf("\n");
    return CLI_OK;
}

/* The session's id, or "". */
static char *optional_session(int argc, char **argv, const char *summary)
{
    static char none[] = "";
    cli_words words = {.doc = "[SESSION]", .summary = summary, .max = 1};
    cli_parse_words(&words, argc, argv);
    return words.count > 0 ? words.word[0] : none;
}

static int errors(cli *c, int argc, char **argv)
{
    box_error err;
    char when[32];
    Box__V1__ListErrorsRequest request;
    box__v1__list_errors_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__ListErrorsResponse *r = NULL;
    request.session_id = optional_session(
        argc, argv, "The latest errors of your tenant's calls, or of those for one session.");
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_control_service_list_errors(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    if (c->json)
        return cli_print_json(c, &r->base);
    for (size_t i = 0; i < r->n_errors; i++) {
        const Box__V1__ErrorRecord *e = r->errors[i];
        printf("%s %s %s%s%s: %s\n", cli_when(e->occurred_at, when), cli_clean(e->method),
               cli_clean(e->reason), e->session_id[0] != '\0' ? " " : "", cli_clean(e->session_id),
               cli_clean(e->message));
    }
    return CLI_OK;
}

static int guidance(cli *c, int argc, char **argv)
{
    box_error err;
    Box__V1__GetGuidanceRequest request;
    box__v1__get_guidance_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__GetGuidanceResponse *r = NULL;
    request.session_id = optional_session(
        argc, argv, "Text that tells a model how to use a session, or the server's defaults.");
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_control_service_get_guidance(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    if (c->json)
        return cli_print_json(c, &r->base);
    fputs(r->text, stdout);
    return CLI_OK;
}

static int shutdown_server(cli *c, int argc, char **argv)
{
    box_error err;
    Box__V1__ShutdownRequest request;
    box__v1__shutdown_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__ShutdownResponse *r = NULL;
    if (no_words(c, argc, argv,
                 "Stops the server as SIGTERM does: running calls may finish for 5 s.") < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_control_service_shutdown(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    return c->json ? cli_print_json(c, &r->base) : CLI_OK;
}

const cli_command cli_control_commands[] = {
    {"health", NULL, "does the backend work", health},
    {"status", NULL, "numbers of server and tenant", status},
    {"backends", NULL, "backends and their guarantees", backends},
    {"whoami", NULL, "your tenant, token and scopes", whoami},
    {"errors", NULL, "the latest errors of your calls", errors},
    {"guidance", NULL, "text for a model that uses a sandbox", guidance},
    {"shutdown", NULL, "stop the server", shutdown_server},
    {0},
};
