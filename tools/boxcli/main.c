/* boxcli: Box for people and scripts. Finds the command in the tables, hands it the rest. */
#include <signal.h>
#include <unistd.h>

#include "base/log.h"
#include "cli.h"

static const cli_command *const tables[] = {
    cli_run_commands,
    cli_session_commands,
    cli_admin_commands,
    cli_control_commands,
};

typedef struct found {
    const cli_command *command;
    int words; /* of argv that name it */
} found;

static int list_commands(FILE *to, bool bare)
{
    for (size_t i = 0; i < BOX_COUNT(tables); i++) {
        for (const cli_command *c = tables[i]; c->noun != NULL; c++) {
            if (bare)
                fprintf(to, "%s%s%s\n", c->noun, c->verb != NULL ? " " : "",
                        c->verb != NULL ? c->verb : "");
            else
                fprintf(to, "  %-9s %-9s %s\n", c->noun, c->verb != NULL ? c->verb : "",
                        c->summary);
        }
    }
    return CLI_OK;
}

static const char usage_text[] =
    "Usage: boxcli [OPTIONS] NOUN [VERB] [ARGUMENTS] [-- COMMAND...]\n"
    "\n"
    "Runs commands in sandboxes of a Box server.\n"
    "\n"
    "  boxcli run -- python3 -c 'print(6*7)'      one command in a fresh sandbox\n"
    "  boxcli session create work                 a sandbox that stays\n"
    "  boxcli exec work -- sh -c 'echo hi >file'  a command in it\n"
    "\n"
    "Commands (each has --help):\n";

static const char options_text[] =
    "\n"
    "Options:\n"
    "  --json              print the response message as JSON\n"
    "  --endpoint=TARGET   dns:///HOST:PORT, unix:/PATH or \"spawn:boxd ...\" (BOX_ENDPOINT)\n"
    "  --token-file=FILE   file with the token (BOX_TOKEN_FILE)\n"
    "  --ca=FILE           PEM file of the CA that signed the server's certificate (BOX_CA)\n"
    "  --tenant=ID         act as this tenant (needs scope tenants.act)\n"
    "  --help, --version\n"
    "\n"
    "run and exec end with the program's exit code, 128 + N when signal N ended it, 124 when it "
    "timed out,\n"
    "125 when Box failed, 126 when it cannot be executed, 127 when it does not exist. Other "
    "commands end with\n"
    "0 (done), 1 (failed) or 2 (misused).\n";

static int usage(FILE *to)
{
    fputs(usage_text, to);
    (void)list_commands(to, false);
    fputs(options_text, to);
    return to == stdout ? CLI_OK : CLI_MISUSED;
}

static bool matches(const cli_command *c, int argc, char **argv)
{
    if (argc < 1 || strcmp(c->noun, argv[0]) != 0)
        return false;
    return c->verb == NULL || (argc > 1 && strcmp(c->verb, argv[1]) == 0);
}

static found find(int argc, char **argv)
{
    for (size_t i = 0; i < BOX_COUNT(tables); i++) {
        for (const cli_command *c = tables[i]; c->noun != NULL; c++) {
            if (matches(c, argc, argv))
                return (found){c, c->verb != NULL ? 2 : 1};
        }
    }
    return (found){0};
}

static bool is_noun(const char *word)
{
    for (size_t i = 0; i < BOX_COUNT(tables); i++) {
        for (const cli_command *c = tables[i]; c->noun != NULL; c++) {
            if (strcmp(c->noun, word) == 0)
                return true;
        }
    }
    return false;
}

/* "--name=value" or "--name value" of a global option; advances *at past it. */
static bool option(const char *name, int argc, char **argv, int *at, const char **value)
{
    size_t len = strlen(name);
    const char *word = argv[*at];
    if (strncmp(word, name, len) != 0)
        return false;
    if (word[len] == '=') {
        *value = word + len + 1;
        *at += 1;
        return true;
    }
    if (word[len] != '\0' || *at + 1 >= argc)
        return false;
    *value = argv[*at + 1];
    *at += 2;
    return true;
}

/* Global options stand before the noun. Returns its index, or -1 with *code. */
static int parse_global(cli *c, int argc, char **argv, int *code)
{
    int at = 1;
    while (at < argc && argv[at][0] == '-') {
        if (strcmp(argv[at], "--json") == 0) {
            c->json = true;
            at++;
        } else if (strcmp(argv[at], "--help") == 0 || strcmp(argv[at], "-h") == 0) {
            *code = usage(stdout);
            return -1;
        } else if (strcmp(argv[at], "--version") == 0) {
            puts("boxcli " BOX_VERSION);
            *code = CLI_OK;
            return -1;
        } else if (!option("--endpoint", argc, argv, &at, &c->endpoint) &&
                   !option("--token-file", argc, argv, &at, &c->token_file) &&
                   !option("--ca", argc, argv, &at, &c->ca) &&
                   !option("--tenant", argc, argv, &at, &c->tenant)) {
            fprintf(stderr, "boxcli: unknown option %s; see boxcli --help\n", argv[at]);
            *code = CLI_MISUSED;
            return -1;
        }
    }
    return at;
}

static int unknown(int argc, char **argv)
{
    if (is_noun(argv[0]))
        fprintf(stderr, "boxcli: %s needs a verb%s%s; see boxcli --help\n", argv[0],
                argc > 1 ? ", and has none called " : "", argc > 1 ? argv[1] : "");
    else
        fprintf(stderr, "boxcli: no command called %s; see boxcli --help\n", argv[0]);
    return CLI_MISUSED;
}

static int run(cli *c, int argc, char **argv)
{
    if (strcmp(argv[0], "help") == 0)
        return usage(stdout);
    if (strcmp(argv[0], "commands") == 0) /* for completion */
        return list_commands(stdout, true);
    found f = find(argc, argv);
    if (f.command == NULL)
        return unknown(argc, argv);
    char name[64];
    (void)snprintf(name, sizeof name, "boxcli %s%s%s", f.command->noun,
                   f.command->verb != NULL ? " " : "",
                   f.command->verb != NULL ? f.command->verb : "");
    argv[f.words - 1] = name;
    int code = f.command->run(c, argc - f.words + 1, argv + f.words - 1);
    if (fflush(stdout) != 0 && code == CLI_OK) {
        fputs("boxcli: cannot write the output\n", stderr);
        code = CLI_FAILED;
    }
    return code;
}

int main(int argc, char **argv)
{
    cli c = {0};
    int code = CLI_MISUSED;
    (void)signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of write, told like any other */
    argp_err_exit_status = CLI_MISUSED;
    int at = parse_global(&c, argc, argv, &code);
    if (at >= 0)
        code = at < argc ? run(&c, argc - at, argv + at) : usage(stderr);
    box_channel_free(c.channel);
    box_metadata_done(&c.metadata);
    return code;
}
