/* What the files of boxcli share: the command table, global options, the channel, output. */
#pragma once

#include <argp.h>
#include <stdbool.h>

#include "box/call.h"
#include "box/channel.h"

/* Exit codes. `run` and `exec` pass on the program's own. */
enum {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_MISUSED = 2,
    CLI_TIMED_OUT = 124,
    CLI_BOX_FAILED = 125,
    CLI_NOT_EXECUTABLE = 126,
    CLI_NOT_FOUND = 127,
    CLI_SIGNAL = 128, /* plus the signal's number */
};

typedef struct cli {
    bool json;              /* print response messages as proto3 JSON */
    const char *endpoint;   /* NULL: BOX_ENDPOINT */
    const char *token_file; /* NULL: BOX_TOKEN_FILE */
    const char *ca;         /* NULL: BOX_CA */
    bool plaintext;         /* dns: without TLS */
    const char *tenant;     /* NULL; else metadata box-tenant */
    uint64_t timeout_ns;    /* of unary calls; 0 = 60 s */
    box_channel *channel;   /* made by cli_connect */
    box_metadata metadata;
} cli;

typedef struct cli_command {
    const char *noun;
    const char *verb;                          /* NULL: the noun alone */
    const char *summary;                       /* one line, for --help and completion */
    int (*run)(cli *c, int argc, char **argv); /* an exit code; argv[0] is "boxcli NOUN VERB" */
} cli_command;

/* One table a file; main.c joins them. Each ends with a zeroed row. */
extern const cli_command cli_run_commands[];
extern const cli_command cli_session_commands[];
extern const cli_command cli_admin_commands[];
extern const cli_command cli_control_commands[];

/* Parses a command's own options, with --help and --usage made from `parser`. argp ends the program
 * with CLI_MISUSED on a mistake. */
void cli_parse(const struct argp *parser, int argc, char **argv, void *input);

/* Connects when needed: 0, or -1 after saying what to do. */
int cli_connect(cli *c);
/* Options of a unary call. */
box_client_options cli_options(const cli *c);

/* Says what went wrong and, where it is known, what to do about it. Returns CLI_FAILED. */
int cli_fail(const cli *c, const box_error *err);

/* Prints a message as JSON and a newline. 0 or CLI_FAILED. */
int cli_print_json(const ProtobufCMessage *message);

/* A message whose fields are all on the heap, with all that hangs off it; NULL is fine. */
void cli_message_free(void *message);
/* For BOX_AUTO. */
void cli_message_freep(void *pointer);

/* "512MiB", "1.5" cores, "K=V"...: argp_error with the option's name on a mistake. */
int64_t cli_bytes(struct argp_state *state, const char *option, const char *text);
uint64_t cli_duration(struct argp_state *state, const char *option, const char *text);
int64_t cli_number(struct argp_state *state, const char *option, const char *text, int64_t min,
                   int64_t max);

/* Text for a terminal: control characters in a server's string become '?', in place. Returns it. */
const char *cli_clean(char *text);
