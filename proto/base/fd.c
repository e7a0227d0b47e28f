#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd_room.h"

void box_closep(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd); /* nothing to be done about a failed close */
    *fd = -1;
}

int box_fd_open_how(int dir, const char *path, const struct open_how *how)
{
    enum { RACES = 64 }; /* in a row: somebody does it on purpose */
    long fd = -1;
    for (int i = 0; i < RACES && fd < 0; i++) {
        fd = syscall(SYS_openat2, dir, path, how, sizeof *how);
        if (fd < 0 && errno != EAGAIN && errno != EINTR)
            break;
    }
    return (int)fd;
}

int box_fd_write_all(int fd, const void *data, size_t len, box_error *err)
{
    const char *at = data;
    while (len > 0) {
        ssize_t n = write(fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return box_fail_errno(err, "write");
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

int box_fd_set_nonblocking(int fd, box_error *err)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return box_fail_errno(err, "set a descriptor non-blocking");
    return 0;
}

int box_fd_write_file(int dirfd, const char *path, const char *text, box_error *err)
{
    BOX_AUTO(box_closep) int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return box_fail_errno(err, "open %s", path);
    if (box_fd_write_all(fd, text, strlen(text), err) < 0)
        return box_wrap(err, "%s", path);
    return 0;
}

int box_fd_replace_file(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                        box_error *err)
{
    char temporary[256];
    int n = snprintf(temporary, sizeof temporary, ".%s.%d.tmp", name, (int)getpid());
    if (n < 0 || (size_t)n >= sizeof temporary)
        return box_fail(err, BOX_VALIDATION, "file name %s is too long", name);
    BOX_AUTO(box_closep)
    int fd = openat(dirfd, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return box_fail_errno(err, "create %s", name);
    int rc = box_fd_write_all(fd, data, len, err);
    if (rc == 0 && (fchmod(fd, mode) < 0 || fsync(fd) < 0))
        rc = box_fail_errno(err, "write %s", name);
    if (rc == 0 && renameat(dirfd, temporary, dirfd, name) < 0)
        rc = box_fail_errno(err, "replace %s", name);
    if (rc < 0)
        (void)unlinkat(dirfd, temporary, 0); /* the first error is the one to report */
    return rc;
}

int box_fd_send(int socket, const void *data, size_t len, const int *fds, size_t n_fds,
                box_error *err)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int) * BOX_FD_PASS_MAX)];
    } control = {0};
    /* sendmsg does not write through iov_base; the type is shared with recvmsg. */
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (n_fds > BOX_FD_PASS_MAX)
        return box_fail(err, BOX_INTERNAL, "%zu descriptors in one message", n_fds);
    if (n_fds > 0) {
        msg.msg_control = control.space;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
    }
    ssize_t n;
    do {
        n = sendmsg(socket, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return box_fail_errno(err, "send");
    if ((size_t)n != len)
        return box_fail(err, BOX_PROTOCOL, "a message was sent in part");
    return 0;
}

ssize_t box_fd_receive(int socket, void *data, size_t size, int *fds, size_t *n_fds, box_error *err)
{
    bool lost;
    ssize_t n = box_fd_receive_or_lose(socket, data, size, fds, n_fds, &lost, err);
    if (n < 0 || !lost)
        return n;
    return box_fail(err, BOX_PROTOCOL, "a message or its descriptors are larger than expected");
}

int box_fd_memfd(const char *name, const void *data, size_t len, int *out, box_error *err)
{
    BOX_AUTO(box_closep) int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return box_fail_errno(err, "create a memory file");
    if (box_fd_write_all(fd, data, len, err) < 0)
        return -1;
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        return box_fail_errno(err, "seal a memory file");
    *out = box_take_fd(&fd);
    return 0;
}
