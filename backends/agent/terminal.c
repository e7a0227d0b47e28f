#include "agent/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/tty.h"

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41) /* Linux 4.13; musl's headers lack it */
#endif

int box_terminal_open(uint16_t rows, uint16_t columns, int *master, int slave[3], box_error *err)
{
    int unlock = 0;
    *master = open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (*master < 0 && errno == ENOSPC) {
        (void)box_fail(err, BOX_QUOTA, "the sandbox has as many terminals as it may have");
        return box_error_limit(err, "terminals", BOX_SANDBOX_TERMINALS, BOX_SANDBOX_TERMINALS);
    }
    if (*master < 0 || ioctl(*master, TIOCSPTLCK, &unlock) < 0)
        return box_fail_errno(err, "open a terminal");
    slave[0] = ioctl(*master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    for (int i = 0; i < 3; i++) {
        if (i > 0)
            slave[i] = fcntl(slave[0], F_DUPFD_CLOEXEC, 0);
        if (slave[i] < 0)
            return box_fail_errno(err, "open a terminal's other side");
    }
    box_tty_resize(*master, rows, columns);
    return 0;
}
