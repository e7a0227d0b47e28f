/* What the files of boxcli share: the command table, global options, the channel, output. */
#pragma once

#include <argp.h>
#include <stdbool.h>

#include "box/call.h"
#include "box/channel.h"
#include "box/v1/types.box.h"

/* Exit codes. `run` and `exec` pass on the program's own; all that is not the program's is
 * CLI_BOX_FAILED with them, misuse too, as with docker and env. */
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
    bool json;              /* print response messages as proto3 JSON, errors as an object */
    const char *endpoint;   /* NULL: BOX_ENDPOINT */
    const char *token_file; /* NULL: BOX_TOKEN_FILE */
    const char *ca;         /* NULL: BOX_CA */
    const char *cert;       /* NULL: BOX_CERT */
    const char *key;        /* NULL: BOX_KEY; else in the file of cert */
    bool plaintext;         /* dns: without TLS */
    const char *tenant;     /* NULL; else metadata box-tenant */
    uint64_t timeout_ns;    /* of unary calls; 0 = 60 s */
    box_channel *channel;   /* made by cli_connect */
    box_metadata metadata;
    bool is_program;  /* run, exec, attach: the exit code is another program's */
    int output_errno; /* why stdout could not be written, where that was noticed early */
} cli;

typedef struct cli_command {
    const char *noun;
    const char *verb;                          /* NULL: the noun alone */
    const char *summary;                       /* one line, for --help and completion */
    int (*run)(cli *c, int argc, char **argv); /* an exit code; argv[0] is "boxcli NOUN VERB" */
} cli_command;

/* One table a file; main.c joins them. Each ends with a zeroed row. */
extern const cli_command cli_run_commands[];
extern const cli_command cli_attach_commands[];
extern const cli_command cli_process_commands[];
extern const cli_command cli_port_commands[];
extern const cli_command cli_session_commands[];
extern const cli_command cli_session_id_commands[];
extern const cli_command cli_tool_commands[];
extern const cli_command cli_mcp_commands[];
extern const cli_command cli_mcp_server_commands[];
extern const cli_command cli_file_commands[];
extern const cli_command cli_cp_commands[];
extern const cli_command cli_tenant_commands[];
extern const cli_command cli_token_commands[];
extern const cli_command cli_control_commands[];
extern const cli_command cli_init_commands[];
extern const cli_command cli_completion_commands[];
extern const cli_command cli_doctor_commands[];
extern const cli_command cli_drill_commands[];

/* Parses a command's own options, with --help and --usage made from `parser`. argp ends the program
 * with CLI_MISUSED on a mistake. */
void cli_parse(const struct argp *parser, int argc, char **argv, void *input);

/* Is the server a private one, "spawn:boxd"? */
bool cli_is_spawned(const cli *c);
/* Connects when needed: 0, or -1 after saying what to do. */
int cli_connect(cli *c);
/* The same without a word. */
int cli_open(cli *c, box_error *err) BOX_MUST_USE;
/* Options of a unary call. */
box_client_options cli_options(const cli *c);

/* Says on stderr what went wrong and, where it is known, what to do about it; with --json as one
 * object {"error": {...}}. Returns CLI_FAILED. */
int cli_fail(const cli *c, const box_error *err);
/* What a person can do about it; NULL where the text says it all. */
const char *cli_advice(const cli *c, const box_error *err);
/* stdout or stderr could not be written (sys_errno 0: why is not known). Says so unless the reader
 * is gone; the exit code: 128 + SIGPIPE then, CLI_BOX_FAILED of run and exec, else CLI_FAILED. */
int cli_output_failed(const cli *c, int sys_errno);
/* "boxcli: timeout lowered to 120s (profile.max_timeout)" on stderr for each. */
void cli_print_adjustments(Box__V1__Adjustment *const *adjustments, size_t n);

/* Prints a message as JSON and a newline. 0 or CLI_FAILED. */
int cli_print_json(const cli *c, const ProtobufCMessage *message);

/* A message whose fields are all on the heap, with all that hangs off it; NULL is fine. */
void cli_message_free(void *message);
/* For BOX_AUTO. */
void cli_message_freep(void *pointer);

/* "512MiB", "1.5" cores, "K=V"...: argp_error with the option's name on a mistake. */
int64_t cli_bytes(struct argp_state *state, const char *option, const char *text);
/* Of --cpu, in thousandths of a core. */
int32_t cli_cores(struct argp_state *state, const char *text);
uint64_t cli_duration(struct argp_state *state, const char *option, const char *text);
int64_t cli_number(struct argp_state *state, const char *option, const char *text, int64_t min,
                   int64_t max);

/* Asks for one page of a list and prints it. token: "" of the first page. *next (owned): the token
 * of the page that follows, left NULL or empty at the end. An exit code. */
typedef int cli_page(cli *c, void *arg, char *token, char **next);
/* Page after page until one fails or was the last. An exit code; `arg` is handed to each. */
int cli_pages(cli *c, cli_page *page, void *arg);

/* "2026-11-30T13:04:31Z", or "-". */
const char *cli_when(const Google__Protobuf__Timestamp *t, char out[32]);
/* The line above a list, when people read it: only on a terminal and without --json. */
void cli_heading(const cli *c, const char *text);

/* Text for a terminal: control characters in a server's string become '?', in place. Returns it. */
const char *cli_clean(char *text);
