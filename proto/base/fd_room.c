#include "base/fd_room.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

static void close_all(const int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        (void)close(fds[i]);
}

ssize_t box_fd_receive_or_lose(int socket, void *data, size_t size, int *fds, size_t *n_fds,
                               bool *lost, box_error *err)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int) * BOX_FD_PASS_MAX)];
    } control;
    struct iovec iov = {.iov_base = data, .iov_len = size};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.space,
                         .msg_controllen = sizeof control.space};
    ssize_t n;
    do {
        n = recvmsg(socket, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    size_t room = *n_fds;
    size_t got = 0;
    *n_fds = 0;
    *lost = false;
    if (n < 0)
        return box_fail_errno(err, "receive");
    bool fits = (msg.msg_flags & MSG_TRUNC) == 0;
    *lost = (msg.msg_flags & MSG_CTRUNC) != 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c != NULL; c = CMSG_NXTHDR(&msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        int passed[BOX_FD_PASS_MAX];
        count = count < BOX_FD_PASS_MAX ? count : BOX_FD_PASS_MAX;
        memcpy(passed, CMSG_DATA(c), count * sizeof(int));
        for (size_t i = 0; i < count; i++) {
            if (got < room) {
                fds[got++] = passed[i];
            } else {
                (void)close(passed[i]);
                fits = false;
            }
        }
    }
    *n_fds = got;
    if (fits && n > 0 && !*lost)
        return n;
    close_all(fds, got);
    *n_fds = 0;
    if (!fits)
        return box_fail(err, BOX_PROTOCOL, "a message or its descriptors are larger than expected");
    return n;
}
