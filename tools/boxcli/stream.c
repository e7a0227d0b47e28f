#include "stream.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "tty.h"

/* How much of stdin is read at once; and how long a program may take to end after the first Ctrl-C.
 */
enum { STDIN_STEP = 32 * 1024, GRACE_SECONDS = 2 };

typedef struct stream {
    box_client_call *call;
    bool stdin_open;
    bool done;
    box_error status;
    Box__V1__Verdict *verdict; /* owned */
    int signals;               /* signalfd */
    int interrupted;           /* first signal that came, 0 = none */
    box_time kill_at;          /* 0 = not asked to end */
    bool given_up;             /* its end is not waited for any more */
    int output_errno;          /* why stdout or stderr could not be written; 0: they could */
    bool has_terminal;         /* the command has one: ours is lent to it */
    bool started;
    cli_tty tty;
    int changes; /* of the terminal's size: signalfd, or -1 */
    int out;     /* where stdout goes */
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
    BOX_IGNORE(box_v1_exec_service_exec_stream_send(s->call, &m, &err));
}

static void send_signal(stream *s, int number, Box__V1__SignalScope scope)
{
    Box__V1__Signal signal;
    box__v1__signal__init(&signal);
    signal.number = number;
    signal.scope = scope;
    send_request(s, BOX__V1__EXEC_STREAM_REQUEST__REQUEST_SIGNAL, &signal);
}

/* Not reading is how the pipe in front of us is told to wait. What is typed before the command runs
 * is left for it to be read as it wants. */
static bool reads_stdin(const stream *s)
{
    return s->stdin_open && (s->started || !s->has_terminal) && box_client_is_writable(s->call);
}

static void pass_stdin(stream *s)
{
    uint8_t data[STDIN_STEP];
    ssize_t n = read(STDIN_FILENO, data, sizeof data);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n > 0) {
        send_request(s, BOX__V1__EXEC_STREAM_REQUEST__REQUEST_STDIN_DATA,
                     &(ProtobufCBinaryData){(size_t)n, data});
        return;
    }
    Box__V1__CloseStdin end;
    box__v1__close_stdin__init(&end);
    s->stdin_open = false;
    send_request(s, BOX__V1__EXEC_STREAM_REQUEST__REQUEST_CLOSE_STDIN, &end);
}

static void send_size(stream *s)
{
    Box__V1__TerminalSize size;
    box__v1__terminal_size__init(&size);
    cli_tty_size(&size.rows, &size.columns);
    send_request(s, BOX__V1__EXEC_STREAM_REQUEST__REQUEST_RESIZE, &size);
}

/* The first signal goes to the program as it is; a second one, or time, kills all of it. */
static void pass_signal(stream *s)
{
    struct signalfd_siginfo info;
    if (read(s->signals, &info, sizeof info) != sizeof info)
        return;
    if (cli_tty_take(&s->tty, (int)info.ssi_signo)) {
        if (s->tty.raw)
            send_size(s);
        return;
    }
    if (s->interrupted != 0) {
        send_signal(s, SIGKILL, BOX__V1__SIGNAL_SCOPE__SIGNAL_SCOPE_TREE);
        return;
    }
    s->interrupted = (int)info.ssi_signo;
    s->kill_at = box_time_add(box_now(), GRACE_SECONDS * BOX_SECOND);
    send_signal(s, s->interrupted, BOX__V1__SIGNAL_SCOPE__SIGNAL_SCOPE_MAIN);
}

static void check_grace(stream *s)
{
    if (s->kill_at == 0 || box_now() < s->kill_at)
        return;
    send_signal(s, SIGKILL, BOX__V1__SIGNAL_SCOPE__SIGNAL_SCOPE_TREE);
    box_client_cancel(s->call); /* if even that is not answered, the end of the call kills it */
    s->kill_at = 0;
    s->given_up = true;
}

static int earlier(int timeout, const stream *s)
{
    if (s->kill_at == 0)
        return timeout;
    int left = (int)((box_time_left(s->kill_at, box_now()) + BOX_MS - 1) / BOX_MS);
    return timeout < 0 || left < timeout ? left : timeout;
}

/* --- from the server -------------------------------------------------------------------------- */

/* A reader that stops must not keep Ctrl-C from working: never more is written than a pipe takes
 * without waiting (PIPE_BUF, pipe(7)), and signals are looked at meanwhile; on a terminal Ctrl-C is
 * a byte of stdin. */
static void put(stream *s, int fd, const ProtobufCBinaryData *data)
{
    for (size_t at = 0; at < data->len && s->output_errno == 0 && !s->given_up;) {
        struct pollfd fds[3] = {{.fd = fd, .events = POLLOUT},
                                {.fd = s->signals, .events = POLLIN},
                                {.fd = -1, .events = POLLIN}};
        if (s->has_terminal && reads_stdin(s))
            fds[2].fd = STDIN_FILENO;
        if (poll(fds, 3, earlier(-1, s)) < 0 && errno != EINTR)
            s->output_errno = errno;
        if (fds[1].revents != 0)
            pass_signal(s);
        if (fds[2].revents != 0)
            pass_stdin(s);
        check_grace(s);
        if (fds[0].revents == 0)
            continue;
        size_t len = data->len - at < PIPE_BUF ? data->len - at : PIPE_BUF;
        ssize_t n = write(fd, data->data + at, len);
        if (n > 0)
            at += (size_t)n;
        else if (n < 0 && errno != EINTR && errno != EAGAIN)
            s->output_errno = errno;
    }
    if (s->output_errno != 0) /* what it writes is lost: the command ends too */
        box_client_cancel(s->call);
}

Box__V1__Verdict *cli_verdict_copy(const Box__V1__Verdict *v)
{
    size_t size = box__v1__verdict__get_packed_size(v);
    uint8_t *data = malloc(size + 1);
    if (data == NULL)
        return NULL;
    (void)box__v1__verdict__pack(v, data);
    Box__V1__Verdict *copy = box__v1__verdict__unpack(NULL, size, data);
    free(data);
    return copy;
}

static void lend_terminal(stream *s)
{
    if (!cli_tty_enter(&s->tty))
        fprintf(stderr, "boxcli: keys cannot be passed on as they are typed, only lines\n");
    send_size(s); /* it may have changed since `start` */
}

static void on_message(void *arg, box_client_call *call, const Box__V1__ExecStreamResponse *m)
{
    stream *s = arg;
    (void)call;
    switch (m->response_case) {
    case BOX__V1__EXEC_STREAM_RESPONSE__RESPONSE_STDOUT_DATA:
        put(s, s->out, &m->stdout_data);
        break;
    case BOX__V1__EXEC_STREAM_RESPONSE__RESPONSE_STDERR_DATA:
        put(s, STDERR_FILENO, &m->stderr_data);
        break;
    case BOX__V1__EXEC_STREAM_RESPONSE__RESPONSE_VERDICT:
        cli_message_free(s->verdict);
        s->verdict = cli_verdict_copy(m->verdict);
        break;
    case BOX__V1__EXEC_STREAM_RESPONSE__RESPONSE_STARTED:
        cli_print_adjustments(m->started->adjustments, m->started->n_adjustments);
        s->started = true;
        if (s->has_terminal)
            lend_terminal(s);
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
    s->done = true;
    s->status = *status;
}

/* --- the loop --------------------------------------------------------------------------------- */

static void loop(cli *c, stream *s)
{
    while (!s->done) {
        struct pollfd fds[4] = {{.fd = -1},
                                {.fd = s->signals, .events = POLLIN},
                                {.fd = -1, .events = POLLIN},
                                {.fd = s->changes, .events = POLLIN}};
        int timeout;
        box_channel_poll(c->channel, &fds[0].fd, &fds[0].events, &timeout);
        if (reads_stdin(s))
            fds[2].fd = STDIN_FILENO;
        if (poll(fds, 4, earlier(timeout, s)) < 0 && errno != EINTR)
            break;
        if (fds[1].revents != 0)
            pass_signal(s);
        if (fds[3].revents != 0 && cli_tty_take_changes(s->changes))
            send_size(s);
        if (fds[2].revents != 0)
            pass_stdin(s);
        check_grace(s);
        box_channel_dispatch(c->channel);
    }
}

static int finish(const cli *c, const stream *s)
{
    if (s->output_errno != 0)
        return cli_output_failed(c, s->output_errno);
    if (s->status.reason != BOX_NONE) {
        if (s->interrupted != 0)
            return CLI_SIGNAL + s->interrupted;
        return cli_stream_failed(c, &s->status);
    }
    return cli_verdict_code(c, s->verdict);
}

/* What nohup, or a shell for what is in the background, has set to be ignored stays so: a signalfd
 * would be told of it (signal(7): what is blocked is not thrown away). */
static void leave_ignored(sigset_t *set)
{
    for (int signo = 1; signo < NSIG; signo++) {
        struct sigaction now;
        if (sigismember(set, signo) == 1 && sigaction(signo, NULL, &now) == 0 &&
            now.sa_handler == SIG_IGN)
            (void)sigdelset(set, signo);
    }
}

int cli_open_signals(bool raw)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigset_t set;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < BOX_COUNT(signals); i++)
        (void)sigaddset(&set, signals[i]);
    if (raw)
        cli_tty_signals(&set);
    leave_ignored(&set);
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd >= 0) /* else they end boxcli, and with it the call */
        (void)sigprocmask(SIG_BLOCK, &set, NULL);
    return fd;
}

int cli_stream(cli *c, Box__V1__ExecStart *start)
{
    static const box_v1_exec_service_exec_stream_events events = {.message = on_message,
                                                                  .done = on_done};
    box_error err;
    stream s = {.stdin_open = true, .has_terminal = start->terminal != NULL};
    BOX_AUTO(box_closep) int signals = cli_open_signals(s.has_terminal);
    BOX_AUTO(box_closep) int changes = s.has_terminal ? cli_tty_open_changes() : -1;
    BOX_AUTO(box_closep) int tty = s.has_terminal ? cli_tty_open_output() : -1;
    s.signals = signals;
    s.changes = changes;
    s.out = tty >= 0 ? tty : STDOUT_FILENO;
    box_client_options o = {.metadata = &c->metadata};
    if (box_v1_exec_service_exec_stream_start(c->channel, &o, &events, &s, &s.call, &err) < 0)
        return cli_stream_failed(c, &err);
    send_request(&s, BOX__V1__EXEC_STREAM_REQUEST__REQUEST_START, start);
    loop(c, &s);
    cli_tty_leave(&s.tty);
    int code = finish(c, &s);
    box_client_free(s.call);
    cli_message_free(s.verdict);
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
