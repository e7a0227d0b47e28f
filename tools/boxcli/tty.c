#include "tty.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { CTRL_P = 0x10, CTRL_Q = 0x11 };

static const int faults[CLI_TTY_FAULTS] = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
                                           SIGABRT, SIGTRAP, SIGSYS};

bool cli_tty_is(void)
{
    return isatty(STDIN_FILENO) != 0;
}

/* A handler is given nothing to know the modes before by: these are those of `stty sane`, as far as
 * raw ones differ from them. Only calls that a handler may make (signal-safety(7)). */
static void on_fault(int signo)
{
    struct termios t;
    if (tcgetattr(STDIN_FILENO, &t) == 0) {
        t.c_iflag |= ICRNL | IXON;
        t.c_oflag |= OPOST;
        t.c_lflag |= ISIG | ICANON | IEXTEN | ECHO;
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &t); /* we end in any case */
    }
    (void)raise(signo); /* by the default action now */
}

static void watch_faults(cli_tty *t)
{
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = (int)SA_RESETHAND | SA_NODEFER};
    (void)sigemptyset(&action.sa_mask);
    for (int i = 0; i < CLI_TTY_FAULTS; i++)
        (void)sigaction(faults[i], &action, &t->faults[i]); /* they all exist */
}

static bool set_raw(const cli_tty *t)
{
    struct termios raw = t->before;
    cfmakeraw(&raw);
    return tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

bool cli_tty_enter(cli_tty *t)
{
    if (tcgetattr(STDIN_FILENO, &t->before) < 0)
        return false;
    watch_faults(t);
    t->raw = true;
    if (!set_raw(t))
        cli_tty_leave(t);
    return t->raw;
}

/* Now and not once all output is out: that may never be, and what is to be done to output was done
 * when it was written. */
static void restore(const cli_tty *t)
{
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &t->before); /* gone: nobody sees it any more */
}

void cli_tty_leave(cli_tty *t)
{
    if (!t->raw)
        return;
    restore(t);
    for (int i = 0; i < CLI_TTY_FAULTS; i++)
        (void)sigaction(faults[i], &t->faults[i], NULL);
    t->raw = false;
}

void cli_tty_signals(sigset_t *set)
{
    static const int more[] = {SIGUSR1, SIGUSR2, SIGALRM,   SIGVTALRM, SIGPROF, SIGXCPU,
                               SIGXFSZ, SIGIO,   SIGSTKFLT, SIGPWR,    SIGTSTP, SIGCONT};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        (void)sigaddset(set, more[i]);
}

bool cli_tty_take(cli_tty *t, int signo)
{
    if (signo == SIGTSTP) {
        if (t->raw)
            restore(t);
        (void)raise(SIGSTOP); /* SIGCONT comes next, by the same descriptor */
        return true;
    }
    if (signo == SIGCONT && t->raw)
        (void)set_raw(t); /* a terminal that is gone is noticed by reading */
    return signo == SIGCONT;
}

void cli_tty_size(int *rows, int *columns)
{
    struct winsize size = {0};
    if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0)
        size = (struct winsize){0};
    *rows = size.ws_row;
    *columns = size.ws_col;
}

int cli_tty_open_changes(void)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGWINCH);
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd >= 0)
        (void)sigprocmask(SIG_BLOCK, &set, NULL); /* SIGWINCH is ignored by default anyway */
    return fd;
}

bool cli_tty_take_changes(int changes)
{
    struct signalfd_siginfo info;
    bool any = false;
    while (read(changes, &info, sizeof info) == sizeof info)
        any = true;
    return any;
}

int cli_tty_open_output(void)
{
    if (!isatty(STDOUT_FILENO))
        return -1;
    return open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

bool cli_detach_keys(bool *held, const uint8_t *typed, size_t len, uint8_t *out, size_t *out_len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (*held && typed[i] == CTRL_Q) {
            *held = false;
            *out_len = n;
            return true;
        }
        if (*held)
            out[n++] = CTRL_P;
        *held = typed[i] == CTRL_P;
        if (!*held)
            out[n++] = typed[i];
    }
    *out_len = n;
    return false;
}
