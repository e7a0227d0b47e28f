#include "stream.h"

#include <signal.h>

#include "base/clock.h"
#include "console.h"

/* How long a program may take to end after the first Ctrl-C. */
enum { GRACE_SECONDS = 2 };

typedef struct stream {
    cli_console console;
    bool has_terminal; /* the command has one: ours is lent to it */
    bool started;
} stream;

/* --- to the server ---------------------------------------------------------------------------- */

static void send_request(stream *s, Box__V1__ExecStreamRequest__RequestCase what, void *value)
{
    box_error err;
    Box__V1__ExecStreamRequest m;
    box__v1__exec_stream_request__init(&m);
    m.request_case = what;
    if (what == BOX__V1__EXEC_STREAM_REQUEST__REQUEST_STDIN_DATA)
        m.stdin_data = *(ProtobufCBinaryData *)value;
    else
        m.start = value; /* every other member of the union is a pointer to a message */
    /* A call that is over says why in on_done. */
    BOX_IGNORE(box_v1_exec_service_exec_stream_send(s->console.call, &m, &err));
}

static void send_signal(stream *s, int number, Box__V1__SignalScope scope)
{
    Box__V1__Signal signal;
    box__v1__signal__init(&signal);
    signal.number = number;
    signal.scope = scope;
    send_request(s, BOX__V1__EXEC_STREAM_REQUEST__REQUEST_SIGNAL, &signal);
}

/* What is typed before the command runs is left for it to be read as it wants. */
static bool wants_stdin(const void *owner)
{
    const stream *s = owner;
    return s->started || !s->has_terminal;
}

static void take_stdin(void *owner, uint8_t *data, size_t len)
{
    send_request(owner, BOX__V1__EXEC_STREAM_REQUEST__REQUEST_STDIN_DATA,
                 &(ProtobufCBinaryData){len, data});
}

static void take_end(void *owner)
{
    Box__V1__CloseStdin end;
    box__v1__close_stdin__init(&end);
    send_request(owner, BOX__V1__EXEC_STREAM_REQUEST__REQUEST_CLOSE_STDIN, &end);
}

static void take_size(void *owner)
{
    Box__V1__TerminalSize size;
    box__v1__terminal_size__init(&size);
    cli_tty_size(&size.rows, &size.columns);
    send_request(owner, BOX__V1__EXEC_STREAM_REQUEST__REQUEST_RESIZE, &size);
}

/* The first signal goes to the program as it is; a second one, or time, kills all of it. */
static void take_signal(void *owner, int signo)
{
    stream *s = owner;
    if (s->console.interrupted != 0) {
        send_signal(s, SIGKILL, BOX__V1__SIGNAL_SCOPE__SIGNAL_SCOPE_TREE);
        return;
    }
    s->console.wake_at = box_time_add(box_now(), GRACE_SECONDS * BOX_SECOND);
    send_signal(s, signo, BOX__V1__SIGNAL_SCOPE__SIGNAL_SCOPE_MAIN);
}

static void grace_is_over(void *owner)
{
    stream *s = owner;
    send_signal(s, SIGKILL, BOX__V1__SIGNAL_SCOPE__SIGNAL_SCOPE_TREE);
    box_client_cancel(s->console.call); /* if even that is not answered, its end kills it */
    s->console.given_up = true;
}

static const cli_console_ops console_ops = {
    .wants_stdin = wants_stdin,
    .take_stdin = take_stdin,
    .take_end = take_end,
    .take_signal = take_signal,
    .take_size = take_size,
    .late = grace_is_over,
};

/* --- from the server -------------------------------------------------------------------------- */

static void take_started(stream *s, const Box__V1__ExecStarted *started)
{
    cli_print_adjustments(started->adjustments, started->n_adjustments);
    s->started = true;
    if (s->has_terminal && !cli_console_lend(&s->console))
        fprintf(stderr, "boxcli: keys cannot be passed on as they are typed, only lines\n");
}

static void on_message(void *arg, box_client_call *call, const Box__V1__ExecStreamResponse *m)
{
    stream *s = arg;
    (void)call;
    switch (m->response_case) {
    case BOX__V1__EXEC_STREAM_RESPONSE__RESPONSE_STDOUT_DATA:
        cli_console_stdout(&s->console, &m->stdout_data);
        break;
    case BOX__V1__EXEC_STREAM_RESPONSE__RESPONSE_STDERR_DATA:
        cli_console_stderr(&s->console, &m->stderr_data);
        break;
    case BOX__V1__EXEC_STREAM_RESPONSE__RESPONSE_VERDICT:
        cli_console_verdict(&s->console, m->verdict);
        break;
    case BOX__V1__EXEC_STREAM_RESPONSE__RESPONSE_STARTED:
        take_started(s, m->started);
        break;
    default: /* what later servers may add */
        break;
    }
}

static void on_done(void *arg, box_client_call *call, const box_error *status,
                    const box_metadata *trailers)
{
    stream *s = arg;
    (void)call;
    (void)trailers;
    cli_console_done(&s->console, status);
}

static int finish(const cli *c, const cli_console *ended)
{
    if (ended->output_errno != 0)
        return cli_output_failed(c, ended->output_errno);
    if (ended->status.reason == BOX_NONE)
        return cli_verdict_code(c, ended->verdict);
    if (ended->interrupted != 0)
        return CLI_SIGNAL + ended->interrupted;
    return cli_stream_failed(c, &ended->status);
}

static int run(cli *c, stream *s, Box__V1__ExecStart *start)
{
    static const box_v1_exec_service_exec_stream_events events = {.message = on_message,
                                                                  .done = on_done};
    box_error err;
    box_client_options o = {.metadata = &c->metadata};
    if (box_v1_exec_service_exec_stream_start(c->channel, &o, &events, s, &s->console.call, &err) <
        0)
        return cli_stream_failed(c, &err);
    send_request(s, BOX__V1__EXEC_STREAM_REQUEST__REQUEST_START, start);
    cli_console_run(&s->console, c->channel);
    (void)cli_console_take_back(&s->console);
    return finish(c, &s->console);
}

int cli_stream(cli *c, Box__V1__ExecStart *start)
{
    stream s = {.console = {.ops = &console_ops, .owner = &s, .stdin_open = true},
                .has_terminal = start->terminal != NULL};
    cli_console_open(&s.console, s.has_terminal);
    int code = run(c, &s, start);
    cli_console_close(&s.console);
    return code;
}

/* --- what the end means ----------------------------------------------------------------------- */

/* With --json the verdict itself says it. */
static int ended(const cli *c, const char *how, int code)
{
    if (!c->json)
        fprintf(stderr, "boxcli: the command %s\n", how);
    return code;
}

int cli_verdict_code(const cli *c, const Box__V1__Verdict *v)
{
    if (v == NULL) {
        box_error err;
        (void)box_fail(&err, BOX_PROTOCOL, "the server ended the call without a verdict");
        (void)cli_fail(c, &err);
        return CLI_BOX_FAILED;
    }
    switch (v->status) {
    case BOX__V1__VERDICT_STATUS__VERDICT_STATUS_TIMED_OUT:
        return ended(c, "timed out", CLI_TIMED_OUT);
    case BOX__V1__VERDICT_STATUS__VERDICT_STATUS_IDLE_TIMED_OUT:
        return ended(c, "was idle for too long", CLI_TIMED_OUT);
    case BOX__V1__VERDICT_STATUS__VERDICT_STATUS_OOM_KILLED:
        return ended(c, "was killed for its memory use", CLI_SIGNAL + SIGKILL);
    case BOX__V1__VERDICT_STATUS__VERDICT_STATUS_OUTPUT_LIMIT:
        return ended(c, "was killed for the size of its output", CLI_SIGNAL + SIGKILL);
    case BOX__V1__VERDICT_STATUS__VERDICT_STATUS_COMPLETED:
        if (box__v1__verdict__has_signal(v))
            return CLI_SIGNAL + v->signal;
        if (box__v1__verdict__has_exit_code(v))
            return v->exit_code;
        break;
    default:
        break;
    }
    if (!c->json)
        fprintf(stderr, "boxcli: the command did not end by itself: %s\n",
                v->detail[0] != '\0' ? cli_clean(v->detail) : "its session went away");
    return CLI_BOX_FAILED;
}

int cli_stream_failed(const cli *c, const box_error *err)
{
    const char *kind = box_error_get(err, "kind");
    bool of_command = kind != NULL && strcmp(kind, "command") == 0;
    (void)cli_fail(c, err);
    if (err->reason == BOX_FILE_NOT_FOUND && of_command)
        return CLI_NOT_FOUND;
    if (err->reason == BOX_PERMISSION && of_command)
        return CLI_NOT_EXECUTABLE;
    return CLI_BOX_FAILED;
}
