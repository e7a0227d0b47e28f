/* boxcli attach, process attach, process logs. */
#include "attach.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "args.h"
#include "base/alloc.h"
#include "base/fd.h"
#include "box/v1/process.fields.h"
#include "spec.h"
#include "stream.h"
#include "tty.h"

enum { STDIN_STEP = 32 * 1024 };

typedef struct attached {
    const cli_attach *a;
    const cli *cli;
    box_client_call *call;
    bool ready; /* the first answer came: stdin is read */
    bool stdin_open;
    bool writer_lost;
    bool done;
    box_error status;
    Box__V1__Verdict *verdict; /* owned */
    int signals;               /* signalfd */
    bool may_lend;             /* our terminal */
    cli_tty tty;               /* lent to the process, when that has one too */
    int changes;               /* of the terminal's size: signalfd, or -1 */
    bool held;                 /* a Ctrl-P was typed last */
    bool detached;             /* by the keys */
    int interrupted;           /* signal that came, 0 = none */
    int output_errno;          /* why stdout or stderr could not be written */
} attached;

/* --- to the server ---------------------------------------------------------------------------- */

static void send_message(attached *s, const Box__V1__AttachManagedProcessRequest *m)
{
    box_error err; /* a call that is over says why in on_done */
    BOX_IGNORE(box_v1_process_service_attach_managed_process_send(s->call, m, &err));
}

static void send_start(attached *s)
{
    Box__V1__AttachManagedProcessRequest m;
    box__v1__attach_managed_process_request__init(&m);
    m.request_case = BOX__V1__ATTACH_MANAGED_PROCESS_REQUEST__REQUEST_START;
    m.start = s->a->start;
    send_message(s, &m);
}

static void end_stdin(attached *s)
{
    Box__V1__AttachManagedProcessRequest m;
    box__v1__attach_managed_process_request__init(&m);
    Box__V1__CloseStdin end;
    box__v1__close_stdin__init(&end);
    s->stdin_open = false;
    if (s->a->detach_on_eof) {
        box_client_cancel(s->call);
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

static void pass_typed(attached *s, const uint8_t *typed, size_t len)
{
    uint8_t passed[STDIN_STEP + 1];
    size_t n;
    bool came = cli_detach_keys(&s->held, typed, len, passed, &n);
    send_stdin(s, passed, n);
    if (!came)
        return;
    s->detached = true;
    s->stdin_open = false;
    box_client_cancel(s->call);
}

static void pass_stdin(attached *s)
{
    uint8_t data[STDIN_STEP];
    ssize_t n = read(STDIN_FILENO, data, sizeof data);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0)
        end_stdin(s);
    else if (s->tty.raw)
        pass_typed(s, data, (size_t)n);
    else
        send_stdin(s, data, (size_t)n);
}

static void send_size(attached *s)
{
    Box__V1__AttachManagedProcessRequest m;
    box__v1__attach_managed_process_request__init(&m);
    Box__V1__TerminalSize size;
    box__v1__terminal_size__init(&size);
    cli_tty_size(&size.rows, &size.columns);
    m.request_case = BOX__V1__ATTACH_MANAGED_PROCESS_REQUEST__REQUEST_RESIZE;
    m.resize = &size;
    send_message(s, &m);
}

/* Two terminals, one on each side: what is typed goes through as it is. */
static void lend_terminal(attached *s, const Box__V1__ManagedProcess *p)
{
    bool has = p != NULL && p->spec != NULL && p->spec->terminal != NULL;
    if (!has || !s->may_lend || !cli_tty_enter(&s->tty))
        return;
    s->changes = cli_tty_open_changes();
    send_size(s);
}

/* A signal ends this program; the process goes on. */
static void take_signal(attached *s)
{
    struct signalfd_siginfo info;
    if (read(s->signals, &info, sizeof info) != sizeof info)
        return;
    if (cli_tty_take(&s->tty, (int)info.ssi_signo)) {
        if (s->tty.raw)
            send_size(s);
        return;
    }
    s->interrupted = (int)info.ssi_signo;
    box_client_cancel(s->call);
}

/* --- from the server -------------------------------------------------------------------------- */

/* Never more at once than a pipe takes without waiting (PIPE_BUF, pipe(7)), and signals are looked
 * at meanwhile. */
static void put(attached *s, int fd, const ProtobufCBinaryData *data)
{
    for (size_t at = 0; at < data->len && s->output_errno == 0 && s->interrupted == 0;) {
        struct pollfd fds[2] = {{.fd = fd, .events = POLLOUT},
                                {.fd = s->signals, .events = POLLIN}};
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            s->output_errno = errno;
        if (fds[1].revents != 0)
            take_signal(s);
        if (fds[0].revents == 0)
            continue;
        size_t len = data->len - at < PIPE_BUF ? data->len - at : PIPE_BUF;
        ssize_t n = write(fd, data->data + at, len);
        if (n > 0)
            at += (size_t)n;
        else if (n < 0 && errno != EINTR && errno != EAGAIN)
            s->output_errno = errno;
    }
    if (s->output_errno != 0)
        box_client_cancel(s->call);
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
    bool lent = s->tty.raw;
    cli_tty_leave(&s->tty);
    box_closep(&s->changes);
    fprintf(stderr, "%sboxcli: another caller took the process's stdin over%s\n", lent ? "\n" : "",
            lent ? "; Ctrl-C ends this one" : "");
    s->stdin_open = false;
    s->writer_lost = true;
    if (s->a->quiet) /* half of a pipe is of no use to the program behind it */
        box_client_cancel(s->call);
}

static void on_message(void *arg, box_client_call *call,
                       const Box__V1__AttachManagedProcessResponse *m)
{
    attached *s = arg;
    (void)call;
    switch (m->response_case) {
    case BOX__V1__ATTACH_MANAGED_PROCESS_RESPONSE__RESPONSE_ATTACHED:
        s->ready = true;
        lend_terminal(s, m->attached->process);
        break;
    case BOX__V1__ATTACH_MANAGED_PROCESS_RESPONSE__RESPONSE_STDOUT_DATA:
        put(s, STDOUT_FILENO, &m->stdout_data->data);
        break;
    case BOX__V1__ATTACH_MANAGED_PROCESS_RESPONSE__RESPONSE_STDERR_DATA:
        put(s, STDERR_FILENO, &m->stderr_data->data);
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
        cli_message_free(s->verdict);
        s->verdict = cli_verdict_copy(m->exited);
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
    s->done = true;
    s->status = *status;
}

/* --- the loop --------------------------------------------------------------------------------- */

static void loop(cli *c, attached *s)
{
    while (!s->done) {
        struct pollfd fds[4] = {{.fd = -1},
                                {.fd = s->signals, .events = POLLIN},
                                {.fd = -1, .events = POLLIN},
                                {.fd = s->changes, .events = POLLIN}};
        int timeout;
        box_channel_poll(c->channel, &fds[0].fd, &fds[0].events, &timeout);
        if (s->ready && s->stdin_open && box_client_is_writable(s->call))
            fds[2].fd = STDIN_FILENO;
        if (poll(fds, 4, timeout) < 0 && errno != EINTR)
            break;
        if (fds[1].revents != 0)
            take_signal(s);
        if (fds[3].revents != 0 && cli_tty_take_changes(s->changes))
            send_size(s);
        if (fds[2].revents != 0)
            pass_stdin(s);
        box_channel_dispatch(c->channel);
    }
}

static int finish(const cli *c, const attached *s)
{
    bool detached = s->detached || (s->a->detach_on_eof && !s->stdin_open && !s->writer_lost);
    if (s->output_errno != 0)
        return cli_output_failed(c, s->output_errno);
    if (s->interrupted != 0)
        return CLI_SIGNAL + s->interrupted;
    if (s->verdict != NULL && s->a->only_show)
        return CLI_OK;
    if (s->verdict != NULL)
        return cli_verdict_code(c, s->verdict);
    if (s->writer_lost && s->a->quiet)
        return CLI_BOX_FAILED;
    if (s->status.reason == BOX_NONE || (detached && s->status.reason == BOX_CANCELLED))
        return CLI_OK;
    (void)cli_fail(c, &s->status);
    return CLI_BOX_FAILED;
}

int cli_attach_run(cli *c, const cli_attach *a)
{
    static const box_v1_process_service_attach_managed_process_events events = {
        .message = on_message, .done = on_done};
    box_error err;
    attached s = {.a = a, .cli = c, .stdin_open = !a->only_read, .changes = -1};
    bool may_lend = !a->quiet && !a->only_read && cli_tty_is() && isatty(STDOUT_FILENO);
    BOX_AUTO(box_closep) int signals = cli_open_signals(may_lend);
    s.signals = signals;
    s.may_lend = may_lend;
    box_client_options o = {.metadata = &c->metadata};
    if (box_v1_process_service_attach_managed_process_start(c->channel, &o, &events, &s, &s.call,
                                                            &err) < 0) {
        (void)cli_fail(c, &err);
        return CLI_BOX_FAILED;
    }
    send_start(&s);
    loop(c, &s);
    cli_tty_leave(&s.tty);
    box_closep(&s.changes);
    if (s.detached)
        fprintf(stderr, "\nboxcli: detached; the process goes on\n");
    int code = finish(c, &s);
    box_client_free(s.call);
    cli_message_free(s.verdict);
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
