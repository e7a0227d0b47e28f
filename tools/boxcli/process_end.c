#include "process_end.h"

#include <signal.h>

#include "args.h"
#include "base/alloc.h"
#include "box/v1/process.client.h"
#include "box/v1/process.fields.h"
#include "process_view.h"
#include "spec.h"

enum { OPT_GRACE = 0x500, OPT_TIMEOUT, OPT_MISSING, OPT_READY, OPT_TREE };

typedef struct end_args {
    cli_words words;
    Google__Protobuf__Duration *time;
    bool allow_missing;
    bool ready;
    bool tree;
} end_args;

static error_t parse_end(int key, char *arg, struct argp_state *state)
{
    end_args *a = state->input;
    switch (key) {
    case OPT_GRACE:
    case OPT_TIMEOUT:
        cli_duration_set(&a->time,
                         cli_duration(state, key == OPT_GRACE ? "--grace" : "--timeout", arg));
        return 0;
    case OPT_MISSING:
        a->allow_missing = true;
        return 0;
    case OPT_READY:
        a->ready = true;
        return 0;
    case OPT_TREE:
        a->tree = true;
        return 0;
    default:
        return cli_words_take(&a->words, key, arg, state);
    }
}

int cli_process_stop(cli *c, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {.name = "grace",
         .key = OPT_GRACE,
         .arg = "TIME",
         .doc = "from SIGTERM to SIGKILL; 0s: none"},
        {.name = "missing-ok", .key = OPT_MISSING, .doc = "no process is no error"},
        {0},
    };
    const struct argp parser = {.options = options,
                                .parser = parse_end,
                                .args_doc = "SESSION [PROCESS]",
                                .doc = "Ends a process: end of stdin, SIGTERM, SIGKILL to all."};
    box_error err;
    end_args a = {.words = {.doc = "SESSION [PROCESS]", .min = 1, .max = 2}};
    cli_parse(&parser, argc, argv, &a);
    BOX_AUTO(box_freep) Google__Protobuf__Duration *grace = a.time;
    Box__V1__StopManagedProcessRequest request;
    box__v1__stop_managed_process_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__StopManagedProcessResponse *r = NULL;
    request.session_id = a.words.word[0];
    request.process_id = cli_process_word(&a.words);
    request.grace = grace;
    request.allow_missing = a.allow_missing;
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    o.timeout_ns = 0; /* the grace may be long */
    if (box_v1_process_service_stop_managed_process(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    return cli_process_show(c, &r->base, r->process);
}

/* "TERM", "SIGTERM" or "15"; 0 = none of them. */
static int signal_number(const char *text)
{
    const char *name = strncmp(text, "SIG", 3) == 0 ? text + 3 : text;
    char *end;
    long number = strtol(text, &end, 10);
    if (*text != '\0' && *end == '\0')
        return number >= 1 && number <= 64 ? (int)number : 0;
    for (int i = 1; i < NSIG; i++) {
        const char *known = sigabbrev_np(i);
        if (known != NULL && strcmp(known, name) == 0)
            return i;
    }
    return 0;
}

int cli_process_signal(cli *c, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {.name = "tree", .key = OPT_TREE, .doc = "with KILL: all it started"},
        {0},
    };
    const struct argp parser = {.options = options,
                                .parser = parse_end,
                                .args_doc = "SESSION PROCESS SIGNAL",
                                .doc = "Sends a signal (TERM, HUP, 10) to a process."};
    box_error err;
    end_args a = {.words = {.doc = "SESSION PROCESS SIGNAL", .min = 3, .max = 3}};
    cli_parse(&parser, argc, argv, &a);
    Box__V1__Signal signal;
    box__v1__signal__init(&signal);
    signal.number = signal_number(a.words.word[2]);
    if (signal.number == 0) {
        fprintf(stderr, "boxcli: no signal called %s\n", a.words.word[2]);
        return CLI_MISUSED;
    }
    signal.scope = a.tree ? BOX__V1__SIGNAL_SCOPE__SIGNAL_SCOPE_TREE
                          : BOX__V1__SIGNAL_SCOPE__SIGNAL_SCOPE_MAIN;
    Box__V1__SignalManagedProcessRequest request;
    box__v1__signal_managed_process_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__SignalManagedProcessResponse *r = NULL;
    request.session_id = a.words.word[0];
    request.process_id = cli_process_word(&a.words);
    request.signal = &signal;
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_process_service_signal_managed_process(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    return cli_process_show(c, &r->base, NULL);
}

int cli_process_wait(cli *c, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {.name = "ready", .key = OPT_READY, .doc = "until it is ready, not until it has ended"},
        {.name = "timeout", .key = OPT_TIMEOUT, .arg = "TIME", .doc = "at most this long"},
        {0},
    };
    const struct argp parser = {
        .options = options,
        .parser = parse_end,
        .args_doc = "SESSION [PROCESS]",
        .doc = "Waits until a process has ended, or is ready. Ends with 1 when it did not."};
    box_error err;
    end_args a = {.words = {.doc = "SESSION [PROCESS]", .min = 1, .max = 2}};
    cli_parse(&parser, argc, argv, &a);
    BOX_AUTO(box_freep) Google__Protobuf__Duration *timeout = a.time;
    Box__V1__WaitManagedProcessRequest request;
    box__v1__wait_managed_process_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__WaitManagedProcessResponse *r = NULL;
    request.session_id = a.words.word[0];
    request.process_id = cli_process_word(&a.words);
    request.condition = a.ready ? BOX__V1__WAIT_CONDITION__WAIT_CONDITION_READY
                                : BOX__V1__WAIT_CONDITION__WAIT_CONDITION_EXITED;
    request.timeout = timeout;
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    o.timeout_ns = 0;
    if (box_v1_process_service_wait_managed_process(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    int code = cli_process_show(c, &r->base, r->process);
    return code == CLI_OK && !r->met ? CLI_FAILED : code;
}
