#include "tty.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { CTRL_P = 0x10, CTRL_Q = 0x11 };

bool cli_tty_is(void)
{
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

bool cli_tty_enter(cli_tty *t)
{
    if (tcgetattr(STDIN_FILENO, &t->before) < 0)
        return false;
    struct termios raw = t->before;
    cfmakeraw(&raw);
    t->raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
    return t->raw;
}

void cli_tty_leave(cli_tty *t)
{
    if (t->raw)
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &t->before); /* gone: nobody sees it any more */
    t->raw = false;
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
