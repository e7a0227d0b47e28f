/* boxcli attach, process attach, process logs. */
#include "attach.h"

#include <unistd.h>

#include "args.h"
#include "base/alloc.h"
#include "box/v1/process.fields.h"
#include "console.h"
#include "spec.h"
#include "stream.h"

typedef struct attached {
    cli_console console;
    const cli_attach *a;
    bool ready; /* the first answer came: stdin is read */
    bool writer_lost;
    bool may_lend; /* our terminal, to the process, when that has one too */
    bool held;     /* a Ctrl-P was typed last */
    bool detached; /* by the keys */
} attached;

/* --- to the server ---------------------------------------------------------------------------- */

static void send_message(attached *s, const Box__V1__AttachManagedProcessRequest *m)
{
    box_error err; /* a call that is over says why in on_done */
    BOX_IGNORE(box_v1_process_service_attach_managed_process_send(s->console.call, m, &err));
}

static void send_start(attached *s)
{
    Box__V1__AttachManagedProcessRequest m;
    box__v1__attach_managed_process_request__init(&m);
    m.request_case = BOX__V1__ATTACH_MANAGED_PROCESS_REQUEST__REQUEST_START;
    m.start = s->a->start;
    send_message(s, &m);
}

static bool wants_stdin(const void *owner)
{
    const attached *s = owner;
    return s->ready;
}

static void take_end(void *owner)
{
    attached *s = owner;
    Box__V1__AttachManagedProcessRequest m;
    box__v1__attach_managed_process_request__init(&m);
    Box__V1__CloseStdin end;
    box__v1__close_stdin__init(&end);
    if (s->a->detach_on_eof) {
        box_client_cancel(s->console.call);
        return;
    }
    m.request_case = BOX__V1__ATTACH_MANAGED_PROCESS_REQUEST__REQUEST_CLOSE_STDIN;
    m.close_stdin = &end;
    send_message(s, &m);
}

static void send_stdin(attached *s, uint8_t *data, size_t len)
{
    Box__V1__AttachManagedProcessRequest m;
    box__v1__attach_managed_process_request__init(&m);
    m.request_case = BOX__V1__ATTACH_MANAGED_PROCESS_REQUEST__REQUEST_STDIN_DATA;
    m.stdin_data = (ProtobufCBinaryData){len, data};
    if (len > 0)
        send_message(s, &m);
}

/* Nothing more is passed, in either direction. */
static void leave(attached *s)
{
    s->console.stdin_open = false;
    s->console.given_up = true;
    box_client_cancel(s->console.call);
}

static void pass_typed(attached *s, const uint8_t *typed, size_t len)
{
    uint8_t passed[CLI_STDIN_STEP + 1];
    size_t n;
    s->detached = cli_detach_keys(&s->held, typed, len, passed, &n);
    send_stdin(s, passed, n);
    if (s->detached)
        leave(s);
}

static void take_stdin(void *owner, uint8_t *data, size_t len)
{
    attached *s = owner;
    if (s->console.tty.raw)
        pass_typed(s, data, len);
    else
        send_stdin(s, data, len);
}

static void take_size(void *owner)
{
    Box__V1__AttachManagedProcessRequest m;
    box__v1__attach_managed_process_request__init(&m);
    Box__V1__TerminalSize size;
    box__v1__terminal_size__init(&size);
    cli_tty_size(&size.rows, &size.columns);
    m.request_case = BOX__V1__ATTACH_MANAGED_PROCESS_REQUEST__REQUEST_RESIZE;
    m.resize = &size;
    send_message(owner, &m);
}

/* A signal ends this program; the process goes on. */
static void take_signal(void *owner, int signo)
{
    (void)signo; /* the console keeps it */
    leave(owner);
}

static const cli_console_ops console_ops = {
    .wants_stdin = wants_stdin,
    .take_stdin = take_stdin,
    .take_end = take_end,
    .take_signal = take_signal,
    .take_size = take_size,
};

/* --- from the server -------------------------------------------------------------------------- */

/* Two terminals, one on each side: what is typed goes through as it is. */
static void take_attached(attached *s, const Box__V1__ManagedProcess *p)
{
    s->ready = true;
    if (s->may_lend && p != NULL && p->spec != NULL && p->spec->terminal != NULL)
        (void)cli_console_lend(&s->console); /* by lines is fine too */
}

static void say_dropped(const Box__V1__DroppedOutput *d)
{
    if (d->stdout_bytes > 0)
        fprintf(stderr, "boxcli: %lld bytes of stdout are not kept any more\n",
                (long long)d->stdout_bytes);
    if (d->stderr_bytes > 0)
        fprintf(stderr, "boxcli: %lld bytes of stderr are not kept any more\n",
                (long long)d->stderr_bytes);
}

/* What is typed on a lent terminal would reach nobody, not even as the keys that end this. */
static void lose_stdin(attached *s)
{
    bool lent = cli_console_take_back(&s->console);
    fprintf(stderr, "%sboxcli: another caller took the process's stdin over%s\n", lent ? "\n" : "",
            lent ? "; Ctrl-C ends this one" : "");
    s->console.stdin_open = false;
    s->writer_lost = true;
    if (s->a->quiet) /* half of a pipe is of no use to the program behind it */
        box_client_cancel(s->console.call);
}

static void on_message(void *arg, box_client_call *call,
                       const Box__V1__AttachManagedProcessResponse *m)
{
    attached *s = arg;
    (void)call;
    switch (m->response_case) {
    case BOX__V1__ATTACH_MANAGED_PROCESS_RESPONSE__RESPONSE_ATTACHED:
        take_attached(s, m->attached->process);
        break;
    case BOX__V1__ATTACH_MANAGED_PROCESS_RESPONSE__RESPONSE_STDOUT_DATA:
        cli_console_stdout(&s->console, &m->stdout_data->data);
        break;
    case BOX__V1__ATTACH_MANAGED_PROCESS_RESPONSE__RESPONSE_STDERR_DATA:
        cli_console_stderr(&s->console, &m->stderr_data->data);
        break;
    case BOX__V1__ATTACH_MANAGED_PROCESS_RESPONSE__RESPONSE_DROPPED:
        say_dropped(m->dropped);
        break;
    case BOX__V1__ATTACH_MANAGED_PROCESS_RESPONSE__RESPONSE_RESTARTED:
        if (!s->a->quiet)
            fprintf(stderr, "boxcli: it ended and was started again (restart %d)\n",
                    m->restarted->restarts);
        break;
    case BOX__V1__ATTACH_MANAGED_PROCESS_RESPONSE__RESPONSE_WRITER_LOST:
        lose_stdin(s);
        break;
    case BOX__V1__ATTACH_MANAGED_PROCESS_RESPONSE__RESPONSE_EXITED:
        cli_console_verdict(&s->console, m->exited);
        break;
    default: /* what later servers may add */
        break;
    }
}

static void on_done(void *arg, box_client_call *call, const box_error *status,
                    const box_metadata *trailers)
{
    attached *s = arg;
    (void)call;
    (void)trailers;
    cli_console_done(&s->console, status);
}

/* --- one call --------------------------------------------------------------------------------- */

static int finish(const cli *c, const attached *s)
{
    const cli_console *ended = &s->console;
    bool eof = s->a->detach_on_eof && !ended->stdin_open && !s->writer_lost;
    if (ended->output_errno != 0)
        return cli_output_failed(c, ended->output_errno);
    if (ended->interrupted != 0)
        return CLI_SIGNAL + ended->interrupted;
    if (ended->verdict != NULL && s->a->only_show)
        return CLI_OK;
    if (ended->verdict != NULL)
        return cli_verdict_code(c, ended->verdict);
    if (s->writer_lost && s->a->quiet)
        return CLI_BOX_FAILED;
    if (ended->status.reason == BOX_NONE)
        return CLI_OK;
    if ((s->detached || eof) && ended->status.reason == BOX_CANCELLED)
        return CLI_OK;
    (void)cli_fail(c, &ended->status);
    return CLI_BOX_FAILED;
}

static int run_call(cli *c, attached *s)
{
    static const box_v1_process_service_attach_managed_process_events events = {
        .message = on_message, .done = on_done};
    box_error err;
    box_client_options o = {.metadata = &c->metadata};
    if (box_v1_process_service_attach_managed_process_start(c->channel, &o, &events, s,
                                                            &s->console.call, &err) < 0) {
        (void)cli_fail(c, &err);
        return CLI_BOX_FAILED;
    }
    send_start(s);
    cli_console_run(&s->console, c->channel);
    (void)cli_console_take_back(&s->console);
    if (s->detached)
        fprintf(stderr, "\nboxcli: detached; the process goes on\n");
    return finish(c, s);
}

int cli_attach_run(cli *c, const cli_attach *a)
{
    attached s = {.console = {.ops = &console_ops, .owner = &s, .stdin_open = !a->only_read},
                  .a = a,
                  .may_lend =
                      !a->quiet && !a->only_read && cli_tty_is() && isatty(STDOUT_FILENO) != 0};
    cli_console_open(&s.console, s.may_lend);
    int code = run_call(c, &s);
    cli_console_close(&s.console);
    return code;
}

/* --- commands --------------------------------------------------------------------------------- */

enum { OPT_STDIO = 0x600, OPT_TAKE_OVER, OPT_FROM, OPT_WAIT, OPT_KEEP, OPT_STOP, OPT_READ };

typedef struct attach_args {
    cli_words words;
    Box__V1__AttachStart start;
    uint64_t wait_ns;
    bool stdio, keep, follow;
} attach_args;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    attach_args *a = state->input;
    switch (key) {
    case OPT_STDIO:
        a->stdio = true;
        return 0;
    case OPT_TAKE_OVER:
        a->start.take_over = true;
        return 0;
    case OPT_FROM:
        box__v1__attach_start__set_stdout_offset(&a->start,
                                                 cli_number(state, "--from", arg, 0, INT64_MAX));
        return 0;
    case OPT_WAIT:
        a->wait_ns = cli_duration(state, "--wait", arg);
        return 0;
    case OPT_KEEP:
        a->keep = true;
        return 0;
    case OPT_STOP:
        a->start.stop_on_detach = true;
        return 0;
    case OPT_READ:
        a->start.write = false;
        return 0;
    case 'f':
        a->follow = true;
        return 0;
    default:
        return cli_words_take(&a->words, key, arg, state);
    }
}

static int run(cli *c, attach_args *a, const cli_attach *how)
{
    BOX_AUTO(box_freep)
    Google__Protobuf__Duration *wait = a->wait_ns > 0 ? cli_duration_message(a->wait_ns) : NULL;
    a->start.session_id = a->words.word[0];
    if (a->words.count > 1)
        a->start.process_id = a->words.word[1];
    a->start.wait = wait;
    return cli_connect(c) < 0 ? CLI_BOX_FAILED : cli_attach_run(c, how);
}

static int attach(cli *c, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {.name = "stdio",
         .key = OPT_STDIO,
         .doc =
             "be a plain pipe to the process, for a program: nothing but its bytes; losing stdin "
             "to another caller is the end"},
        {.name = "from",
         .key = OPT_FROM,
         .arg = "OFFSET",
         .doc = "replay stdout from this byte on (0: all that is kept)"},
        {.name = "wait",
         .key = OPT_WAIT,
         .arg = "TIME",
         .doc = "wait this long for a process that is not there"},
        {.name = "take-over", .key = OPT_TAKE_OVER, .doc = "take stdin from who has it"},
        {.name = "read-only", .key = OPT_READ, .doc = "leave its stdin to others"},
        {.name = "detach-on-eof",
         .key = OPT_KEEP,
         .doc = "the end of stdin detaches, and is not the end of the process's stdin"},
        {.name = "stop-on-detach", .key = OPT_STOP, .doc = "stop the process when this ends"},
        {0},
    };
    const struct argp parser = {.options = options,
                                .parser = parse,
                                .args_doc = "SESSION [PROCESS]",
                                .doc =
                                    "Connects this program's stdin, stdout and stderr to a "
                                    "process. A signal ends this program only. Where both have a "
                                    "terminal, keys go through as they are; Ctrl-P Ctrl-Q "
                                    "detaches."};
    attach_args a = {.words = {.doc = "SESSION [PROCESS]", .min = 1, .max = 2}};
    box__v1__attach_start__init(&a.start);
    a.start.write = true;
    cli_parse(&parser, argc, argv, &a);
    const cli_attach how = {
        .start = &a.start, .quiet = a.stdio, .detach_on_eof = a.keep, .only_read = !a.start.write};
    return run(c, &a, &how);
}

static int logs(cli *c, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {.name = "follow", .key = 'f', .doc = "go on until the process has ended"},
        {0},
    };
    const struct argp parser = {
        .options = options,
        .parser = parse,
        .args_doc = "SESSION [PROCESS]",
        .doc = "Shows what a process wrote, as far as it is kept, on stdout and stderr."};
    attach_args a = {.words = {.doc = "SESSION [PROCESS]", .min = 1, .max = 2}};
    box__v1__attach_start__init(&a.start);
    cli_parse(&parser, argc, argv, &a);
    box__v1__attach_start__set_stdout_offset(&a.start, 0);
    box__v1__attach_start__set_stderr_offset(&a.start, 0);
    a.start.no_follow = !a.follow;
    const cli_attach how = {.start = &a.start, .only_read = true, .only_show = true};
    int code = run(c, &a, &how);
    return code == CLI_BOX_FAILED ? CLI_FAILED : code;
}

const cli_command cli_attach_commands[] = {
    {"attach", NULL, "connect stdin and stdout to a process", attach},
    {"process", "attach", "the same", attach},
    {"process", "logs", "show what a process wrote", logs},
    {0},
};
