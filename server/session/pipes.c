#include "session/pipes.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

static int no_pipe(box_error *err)
{
    if (errno != EMFILE && errno != ENFILE)
        return box_fail_errno(err, "pipe");
    (void)box_fail(err, BOX_QUOTA, "the server has no file descriptors left: retry later");
    box_error_add(err, "limit", "open_files");
    err->retry_ms = 1000;
    return -1;
}

/* The kernel gives the lowest free numbers. */
static int make_ends(int last_fd, int ends[2], box_error *err)
{
    if (pipe2(ends, O_CLOEXEC) < 0)
        return no_pipe(err);
    if (ends[0] <= last_fd && ends[1] <= last_fd)
        return 0;
    box_closep(&ends[0]);
    box_closep(&ends[1]);
    errno = EMFILE;
    return no_pipe(err);
}

int box_pipe_make(int last_fd, int *ours, int *theirs, bool ours_writes, box_error *err)
{
    int ends[2];
    if (make_ends(last_fd, ends, err) < 0)
        return -1;
    *ours = ends[ours_writes ? 1 : 0];
    *theirs = ends[ours_writes ? 0 : 1];
    if (fchmod(*theirs, 0666) < 0)
        return box_fail_errno(err, "pipe mode");
    if (fcntl(*ours, F_SETFL, O_NONBLOCK) < 0) /* a new pipe has no other flags to keep */
        return box_fail_errno(err, "set a pipe non-blocking");
    return 0;
}

int box_pipe_room(int last_fd, box_error *err)
{
    int ends[2];
    if (make_ends(last_fd, ends, err) < 0)
        return -1;
    box_closep(&ends[0]);
    box_closep(&ends[1]);
    return 0;
}
