/* boxcli: Box for people and scripts. Finds the command in the tables, hands it the rest. */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "base/log.h"
#include "cli.h"

static const cli_command *const tables[] = {
    cli_process_commands, cli_attach_commands,     cli_file_commands,       cli_cp_commands,
    cli_run_commands,     cli_session_commands,    cli_session_id_commands, cli_tool_commands,
    cli_mcp_commands,     cli_mcp_server_commands, cli_tenant_commands,     cli_token_commands,
    cli_control_commands, cli_init_commands,       cli_completion_commands, cli_doctor_commands,
    cli_drill_commands,   cli_port_commands,
};

typedef struct found {
    const cli_command *command;
    int words; /* of argv that name it */
} found;

/* noun NULL: all. Returns how many there are. */
static int list_commands(FILE *to, const char *noun)
{
    int n = 0;
    for (size_t i = 0; i < BOX_COUNT(tables); i++) {
        for (const cli_command *c = tables[i]; c->noun != NULL; c++) {
            if (noun != NULL && strcmp(noun, c->noun) != 0)
                continue;
            fprintf(to, "  %-12s %-7s %s\n", c->noun, c->verb != NULL ? c->verb : "", c->summary);
            n++;
        }
    }
    return n;
}

/* One a line, for completion. */
static int name_commands(void)
{
    for (size_t i = 0; i < BOX_COUNT(tables); i++) {
        for (const cli_command *c = tables[i]; c->noun != NULL; c++)
            printf("%s%s%s\n", c->noun, c->verb != NULL ? " " : "", c->verb != NULL ? c->verb : "");
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
    "  --json              print the response message as JSON, an error as {\"error\": ...} on "
    "stderr;\n"
    "                      may also stand behind any command but run and exec\n"
    "  --endpoint=TARGET   dns:///HOST:PORT, unix:/PATH or \"spawn:boxd ...\" (BOX_ENDPOINT)\n"
    "  --token-file=FILE   file with the token (BOX_TOKEN_FILE)\n"
    "  --ca=FILE           PEM file of the CA that signed the server's certificate (BOX_CA)\n"
    "  --cert=FILE         PEM file of your own certificate, where the server asks for one "
    "(BOX_CERT)\n"
    "  --key=FILE          PEM file of its key (BOX_KEY); default: in the file of --cert\n"
    "  --plaintext         no TLS; with a token only to this host\n"
    "  --tenant=ID         act as this tenant (needs scope tenants.act)\n"
    "  --help, --version\n"
    "\n"
    "run, exec, attach and mcp-server run end with the program's exit code, 128 + N when signal N\n"
    "ended it, 124 when it timed out, 125 for all that is not the program's (Box failed, boxcli "
    "was\n"
    "misused, the output cannot be written), 126 when it cannot be executed, 127 when it does not\n"
    "exist. Other commands end with 0 (done), 1 (failed) or 2 (misused). All end with 141 when "
    "the\n"
    "reader of their output went away.\n";

/* In one write: it is longer than the stream's buffer, and why a part of it failed would be lost.
 */
static int usage(cli *c, FILE *to)
{
    char *text = NULL;
    size_t len = 0;
    FILE *memory = open_memstream(&text, &len);
    if (memory == NULL)
        return CLI_FAILED;
    fputs(usage_text, memory);
    (void)list_commands(memory, NULL);
    fputs(options_text, memory);
    if (fclose(memory) == 0 && fwrite(text, 1, len, to) != len)
        c->output_errno = errno;
    free(text);
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

/* "--name=value" or "--name value" of a global option; advances *at past it. An option without its
 * value is the caller's to report: *at stays. */
static bool option(const char *name, int argc, char **argv, int *at, const char **value)
{
    size_t len = strlen(name);
    const char *word = argv[*at];
    if (strncmp(word, name, len) != 0 || (word[len] != '=' && word[len] != '\0'))
        return false;
    if (word[len] == '=') {
        *value = word + len + 1;
        *at += 1;
    } else if (*at + 1 < argc) {
        *value = argv[*at + 1];
        *at += 2;
    }
    return true;
}

static bool is_program(const char *noun)
{
    return strcmp(noun, "run") == 0 || strcmp(noun, "exec") == 0 || strcmp(noun, "attach") == 0;
}

/* A mistake before the noun; of run and exec it must not look like the program's exit code. */
static int misused_code(int argc, char **argv, int at)
{
    for (int i = at; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0)
            break;
        if (is_program(argv[i]))
            return CLI_BOX_FAILED;
    }
    return CLI_MISUSED;
}

static int misused(const char *what, const char *word)
{
    fprintf(stderr, "boxcli: %s %s; see boxcli --help\n", what, word);
    return CLI_MISUSED;
}

/* Global options stand before the noun. Returns its index, or -1 with *code. */
static int parse_global(cli *c, int argc, char **argv, int *code)
{
    int at = 1;
    while (at < argc && argv[at][0] == '-') {
        int before = at;
        if (strcmp(argv[at], "--json") == 0) {
            c->json = true;
            at++;
        } else if (strcmp(argv[at], "--plaintext") == 0) {
            c->plaintext = true;
            at++;
        } else if (strcmp(argv[at], "--help") == 0 || strcmp(argv[at], "-h") == 0) {
            *code = usage(c, stdout);
            return -1;
        } else if (strcmp(argv[at], "--version") == 0) {
            puts("boxcli " BOX_VERSION);
            *code = CLI_OK;
            return -1;
        } else if (!option("--endpoint", argc, argv, &at, &c->endpoint) &&
                   !option("--token-file", argc, argv, &at, &c->token_file) &&
                   !option("--ca", argc, argv, &at, &c->ca) &&
                   !option("--cert", argc, argv, &at, &c->cert) &&
                   !option("--key", argc, argv, &at, &c->key) &&
                   !option("--tenant", argc, argv, &at, &c->tenant)) {
            (void)misused("unknown option", argv[at]);
            *code = misused_code(argc, argv, at);
            return -1;
        } else if (at == before) {
            *code = misused("a value is missing behind", argv[at]);
            return -1;
        }
    }
    return at;
}

/* "boxcli session --help", "boxcli session" and what is no command at all. */
static int unknown(int argc, char **argv)
{
    bool help = argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    FILE *to = help ? stdout : stderr;
    if (argc > 1 && !help)
        fprintf(to, "boxcli: no command called %s %s\n", argv[0], argv[1]);
    if (list_commands(to, argv[0]) == 0)
        return misused("no command called", argv[0]);
    return help ? CLI_OK : CLI_MISUSED;
}

/* --json may also stand behind the command, where people put it; not for run and exec, whose words
 * are another program's. Returns the words left. */
static int take_json(cli *c, int argc, char **argv)
{
    int kept = 0;
    for (int i = 0; i < argc; i++) {
        if (!c->is_program && strcmp(argv[i], "--json") == 0)
            c->json = true;
        else
            argv[kept++] = argv[i];
    }
    return kept;
}

static int run(cli *c, int argc, char **argv)
{
    if (strcmp(argv[0], "help") == 0)
        return usage(c, stdout);
    if (strcmp(argv[0], "commands") == 0) /* for completion */
        return name_commands();
    found f = find(argc, argv);
    if (f.command == NULL)
        return unknown(argc, argv);
    c->is_program = is_program(f.command->noun) || f.command->run == cli_mcp_server_commands[0].run;
    if (c->is_program)
        argp_err_exit_status = CLI_BOX_FAILED;
    argc = take_json(c, argc, argv);
    char name[64];
    (void)snprintf(name, sizeof name, "boxcli %s%s%s", f.command->noun,
                   f.command->verb != NULL ? " " : "",
                   f.command->verb != NULL ? f.command->verb : "");
    argv[f.words - 1] = name;
    return f.command->run(c, argc - f.words + 1, argv + f.words - 1);
}

int main(int argc, char **argv)
{
    cli c = {0};
    int code = CLI_MISUSED;
    (void)signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of write, told like any other */
    argp_err_exit_status = CLI_MISUSED;
    int at = parse_global(&c, argc, argv, &code);
    if (at >= 0)
        code = at < argc ? run(&c, argc - at, argv + at) : usage(&c, stderr);
    if (fflush(stdout) != 0 && c.output_errno == 0)
        c.output_errno = errno;
    if (ferror(stdout) != 0)
        code = cli_output_failed(&c, c.output_errno);
    box_channel_free(c.channel);
    box_metadata_done(&c.metadata);
    return code;
}
