#include "console.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

/* --- signals ---------------------------------------------------------------------------------- */

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

static void take_signal(cli_console *c)
{
    struct signalfd_siginfo info;
    if (read(c->signals, &info, sizeof info) != sizeof info)
        return;
    int signo = (int)info.ssi_signo;
    if (cli_tty_take(&c->tty, signo)) {
        if (c->tty.raw)
            c->ops->take_size(c->owner);
        return;
    }
    c->ops->take_signal(c->owner, signo);
    if (c->interrupted == 0)
        c->interrupted = signo;
}

/* --- stdin ------------------------------------------------------------------------------------ */

/* Not reading is how the pipe in front of us is told to wait. */
static bool reads_stdin(const cli_console *c)
{
    return c->stdin_open && box_client_is_writable(c->call) && c->ops->wants_stdin(c->owner);
}

static void take_stdin(cli_console *c)
{
    uint8_t data[CLI_STDIN_STEP];
    ssize_t n = read(STDIN_FILENO, data, sizeof data);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n > 0) {
        c->ops->take_stdin(c->owner, data, (size_t)n);
        return;
    }
    c->stdin_open = false;
    c->ops->take_end(c->owner);
}

/* --- the terminal ----------------------------------------------------------------------------- */

bool cli_console_lend(cli_console *c)
{
    bool raw = cli_tty_enter(&c->tty);
    c->changes = cli_tty_open_changes();
    c->ops->take_size(c->owner);
    return raw;
}

bool cli_console_take_back(cli_console *c)
{
    bool raw = c->tty.raw;
    cli_tty_leave(&c->tty);
    box_closep(&c->changes);
    return raw;
}

/* --- waiting ---------------------------------------------------------------------------------- */

static int earlier(int timeout, const cli_console *c)
{
    if (c->wake_at == 0)
        return timeout;
    int left = (int)((box_time_left(c->wake_at, box_now()) + BOX_MS - 1) / BOX_MS);
    return timeout < 0 || left < timeout ? left : timeout;
}

static void check_time(cli_console *c)
{
    if (c->wake_at == 0 || box_now() < c->wake_at)
        return;
    c->wake_at = 0;
    c->ops->late(c->owner);
}

void cli_console_run(cli_console *c, box_channel *channel)
{
    while (!c->done) {
        struct pollfd fds[4] = {{.fd = -1},
                                {.fd = c->signals, .events = POLLIN},
                                {.fd = -1, .events = POLLIN},
                                {.fd = c->changes, .events = POLLIN}};
        int timeout;
        box_channel_poll(channel, &fds[0].fd, &fds[0].events, &timeout);
        if (reads_stdin(c))
            fds[2].fd = STDIN_FILENO;
        if (poll(fds, 4, earlier(timeout, c)) < 0 && errno != EINTR)
            break;
        if (fds[1].revents != 0)
            take_signal(c);
        if (fds[3].revents != 0 && cli_tty_take_changes(c->changes))
            c->ops->take_size(c->owner);
        if (fds[2].revents != 0)
            take_stdin(c);
        check_time(c);
        box_channel_dispatch(channel);
    }
}

/* --- output ----------------------------------------------------------------------------------- */

static void write_step(cli_console *c, int fd, const ProtobufCBinaryData *data, size_t *at)
{
    size_t len = data->len - *at < PIPE_BUF ? data->len - *at : PIPE_BUF;
    ssize_t n = write(fd, data->data + *at, len);
    if (n > 0)
        *at += (size_t)n;
    else if (n < 0 && errno != EINTR && errno != EAGAIN)
        c->output_errno = errno;
}

/* A reader that stops must not keep Ctrl-C from working: never more is written than a pipe takes
 * without waiting (PIPE_BUF, pipe(7)), and signals are looked at meanwhile; on a raw terminal keys
 * are, Ctrl-C is one of them. */
static void put(cli_console *c, int fd, const ProtobufCBinaryData *data)
{
    for (size_t at = 0; at < data->len && c->output_errno == 0 && !c->given_up;) {
        struct pollfd fds[3] = {{.fd = fd, .events = POLLOUT},
                                {.fd = c->signals, .events = POLLIN},
                                {.fd = -1, .events = POLLIN}};
        if (c->tty.raw && reads_stdin(c))
            fds[2].fd = STDIN_FILENO;
        if (poll(fds, 3, earlier(-1, c)) < 0 && errno != EINTR)
            c->output_errno = errno;
        if (fds[1].revents != 0)
            take_signal(c);
        if (fds[2].revents != 0)
            take_stdin(c);
        check_time(c);
        if (fds[0].revents != 0)
            write_step(c, fd, data, &at);
    }
    if (c->output_errno != 0) /* what it writes is lost: the call ends too */
        box_client_cancel(c->call);
}

void cli_console_stdout(cli_console *c, const ProtobufCBinaryData *data)
{
    put(c, c->terminal >= 0 ? c->terminal : STDOUT_FILENO, data);
}

void cli_console_stderr(cli_console *c, const ProtobufCBinaryData *data)
{
    put(c, STDERR_FILENO, data);
}

/* --- the end ---------------------------------------------------------------------------------- */

static Box__V1__Verdict *copy_verdict(const Box__V1__Verdict *v)
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

void cli_console_verdict(cli_console *c, const Box__V1__Verdict *v)
{
    cli_message_free(c->verdict);
    c->verdict = copy_verdict(v);
}

void cli_console_done(cli_console *c, const box_error *status)
{
    c->done = true;
    c->status = *status;
}

/* --- its life --------------------------------------------------------------------------------- */

void cli_console_open(cli_console *c, bool terminal)
{
    c->signals = cli_open_signals(terminal);
    c->changes = -1;
    c->terminal = terminal ? cli_tty_open_output() : -1;
}

void cli_console_close(cli_console *c)
{
    (void)cli_console_take_back(c);
    box_closep(&c->signals);
    box_closep(&c->terminal);
    box_client_free(c->call);
    c->call = NULL;
    cli_message_free(c->verdict);
    c->verdict = NULL;
}
