/* boxcli health, status, backends, whoami, shutdown, completion. */
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
    BOX_AUTO(cli_message_freep)
    Box__V1__HealthResponse *r = NULL;
    if (no_words(c, argc, argv, "Asks whether the server's backend works; 1 when it does not.") < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_control_service_health(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    if (c->json && cli_print_json(&r->base) != CLI_OK)
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
        printf("server    %d sessions, %d commands, %d connections, %d calls\n",
               r->server->active_sessions, r->server->active_execs, r->server->connections,
               r->server->active_calls);
    for (size_t i = 0; i < r->n_warnings; i++)
        printf("warning   %s\n", cli_clean(r->warnings[i]));
}

static int status(cli *c, int argc, char **argv)
{
    box_error err;
    Box__V1__GetStatusRequest request;
    box__v1__get_status_request__init(&request);
    BOX_AUTO(cli_message_freep)
    Box__V1__GetStatusResponse *r = NULL;
    if (no_words(c, argc, argv, "Numbers of the server and of your tenant.") < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_control_service_get_status(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    if (c->json)
        return cli_print_json(&r->base);
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
    BOX_AUTO(cli_message_freep)
    Box__V1__ListBackendsResponse *r = NULL;
    if (no_words(c, argc, argv, "Backends, whether they work, and what each guarantees.") < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_control_service_list_backends(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    if (c->json)
        return cli_print_json(&r->base);
    for (size_t i = 0; i < r->n_backends; i++)
        print_backend(r->backends[i]);
    return CLI_OK;
}

static int whoami(cli *c, int argc, char **argv)
{
    box_error err;
    Box__V1__WhoAmIRequest request;
    box__v1__who_am_irequest__init(&request);
    BOX_AUTO(cli_message_freep)
    Box__V1__WhoAmIResponse *r = NULL;
    if (no_words(c, argc, argv, "The tenant, token and scopes you act with.") < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_control_service_who_am_i(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    if (c->json)
        return cli_print_json(&r->base);
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

static int shutdown_server(cli *c, int argc, char **argv)
{
    box_error err;
    Box__V1__ShutdownRequest request;
    box__v1__shutdown_request__init(&request);
    BOX_AUTO(cli_message_freep)
    Box__V1__ShutdownResponse *r = NULL;
    if (no_words(c, argc, argv,
                 "Stops the server as SIGTERM does: running calls may finish for 5 s.") < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_control_service_shutdown(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    return c->json ? cli_print_json(&r->base) : CLI_OK;
}

/* Words come from `boxcli commands` and --help, so a new command completes without touching this.
 * It never puts what was typed behind a command on a command line: "boxcli run x --help" would run
 * x. */
static const char bash_completion[] =
    "_boxcli() {\n"
    "    local program=$1 cur=${COMP_WORDS[COMP_CWORD]} i words=() own=() candidates=\n"
    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "        case ${COMP_WORDS[i]} in\n"
    "            --) return ;;\n"
    "            --endpoint | --token-file | --ca | --tenant)\n"
    "                # readline splits at '=' and ':'\n"
    "                ((i++))\n"
    "                [[ ${COMP_WORDS[i]:-} != = ]] || ((i++))\n"
    "                while [[ ${COMP_WORDS[i + 1]:-} == : ]]; do ((i += 2)); done\n"
    "                ((i < COMP_CWORD)) || return\n"
    "                ;;\n"
    "            -* | =) ;;\n"
    "            *) words+=(\"${COMP_WORDS[i]}\") ;;\n"
    "        esac\n"
    "    done\n"
    "    local commands=$(\"$program\" commands 2>/dev/null)\n"
    "    if ((${#words[@]} == 0)); then\n"
    "        candidates=\"--json --endpoint --token-file --ca --tenant --plaintext --help "
    "--version\n"
    "            $(cut -d' ' -f1 <<<\"$commands\")\"\n"
    "    else\n"
    "        # A command is one word or two; the words behind it are its own.\n"
    "        own=(\"${words[0]}\")\n"
    "        grep -qxF -- \"${words[0]}\" <<<\"$commands\" || own=(\"${words[@]:0:2}\")\n"
    "        if ((${#own[@]} == 1)) && ! grep -qxF -- \"${own[0]}\" <<<\"$commands\"; then\n"
    "            candidates=\"--help $(sed -n \"s/^${own[0]} //p\" <<<\"$commands\")\"\n"
    "        elif [[ ${own[0]} == run ]] && ((${#words[@]} > 1)); then\n"
    "            return\n"
    "        elif [[ ${own[0]} == exec ]] && ((${#words[@]} > 2)); then\n"
    "            return\n"
    "        elif [[ $cur == -* ]] && grep -qxF -- \"${own[*]}\" <<<\"$commands\"; then\n"
    "            candidates=$(\"$program\" \"${own[@]}\" --help 2>/dev/null | grep -oE -- "
    "'--[a-z][a-z-]+' | sort -u)\n"
    "        elif [[ ${own[0]} == completion ]]; then\n"
    "            candidates=bash\n"
    "        fi\n"
    "    fi\n"
    "    COMPREPLY=($(compgen -W \"$candidates\" -- \"$cur\"))\n"
    "}\n"
    "complete -o default -F _boxcli boxcli\n";

static int completion(cli *c, int argc, char **argv)
{
    (void)c;
    cli_words words = {.doc = "bash",
                       .summary = "Prints a completion script: source <(boxcli completion bash)",
                       .min = 1,
                       .max = 1};
    cli_parse_words(&words, argc, argv);
    if (strcmp(words.word[0], "bash") != 0) {
        fprintf(stderr, "boxcli: no completion for %s, only for bash\n", words.word[0]);
        return CLI_MISUSED;
    }
    fputs(bash_completion, stdout);
    return CLI_OK;
}

const cli_command cli_control_commands[] = {
    {"health", NULL, "does the backend work", health},
    {"status", NULL, "numbers of server and tenant", status},
    {"backends", NULL, "backends and their guarantees", backends},
    {"whoami", NULL, "your tenant, token and scopes", whoami},
    {"shutdown", NULL, "stop the server", shutdown_server},
    {"completion", NULL, "print a completion script (bash)", completion},
    {0},
};
