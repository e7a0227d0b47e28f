/* Commands on a terminal. */
#include <errno.h>
#include <fcntl.h>

#include "base/fd.h"
#include "base/tty.h"
#include "session/execution.h"

int box_exec_set_size(box_exec *e, int32_t rows, int32_t columns, box_error *err)
{
    if (!e->terminal)
        return box_violation(err, "resize", "the command has no terminal");
    if (rows < 0 || rows > UINT16_MAX || columns < 0 || columns > UINT16_MAX)
        return box_violation(err, "resize", "must be 0 to 65535");
    e->resized = true;
    e->new_rows = (uint16_t)rows;
    e->new_columns = (uint16_t)columns;
    if (e->tty >= 0)
        box_tty_resize(e->tty, e->new_rows, e->new_columns);
    return 0;
}

void box_exec_open_terminal(box_exec *e)
{
    e->pumps[0].is_terminal = true;
    e->input.is_terminal = true;
    e->tty = box_take_fd(&e->result.other_side);
    if (e->resized)
        box_tty_resize(e->tty, e->new_rows, e->new_columns);
}

/* A loop watches a descriptor for one thing: what is typed goes through another one. */
int box_exec_open_typing(box_exec *e, box_error *err)
{
    int fd = fcntl(e->pumps[0].fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return box_fail_errno(err, "duplicate a descriptor");
    return box_input_open(&e->input, e->loop, fd, err);
}
