#include "base/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

void box_tty_resize(int fd, uint16_t rows, uint16_t columns)
{
    struct winsize size = {.ws_row = rows != 0 ? rows : 24, .ws_col = columns != 0 ? columns : 80};
    (void)ioctl(fd, TIOCSWINSZ, &size); /* a pseudo terminal takes any size */
}

bool box_tty_end_input(int master)
{
    struct termios t;
    if (tcgetattr(master, &t) < 0 || (t.c_lflag & ICANON) == 0)
        return true;
    return write(master, &t.c_cc[VEOF], 1) == 1 || errno != EAGAIN;
}

bool box_tty_check(int master, int other)
{
    unsigned number; /* only a master has one (pty(7), TIOCGPTN) */
    int flags = fcntl(master, F_GETFL);
    return flags >= 0 && ioctl(master, TIOCGPTN, &number) == 0 && isatty(other) != 0 &&
           fcntl(master, F_SETFL, flags | O_NONBLOCK) == 0;
}
