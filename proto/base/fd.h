/* Descriptors: owning them, reading and writing whole, passing them over Unix sockets. Everything
 * is close-on-exec from birth. */
#pragma once

#include <sys/types.h>

#include "base/error.h"

/* For BOX_AUTO(box_closep): closes when >= 0 and sets -1. */
void box_closep(int *fd);

/* openat2(2) that tries again where the kernel gave up only because something was renamed, mounted
 * or signalled meanwhile. A descriptor, or -1 with errno. */
struct open_how;
int box_fd_open_how(int dir, const char *path, const struct open_how *how);

/* Writes all of it (a blocking descriptor). */
int box_fd_write_all(int fd, const void *data, size_t len, box_error *err) BOX_MUST_USE;
int box_fd_set_nonblocking(int fd, box_error *err) BOX_MUST_USE;

/* Writes text to a file below dirfd (an existing control file: cgroup, /proc). */
int box_fd_write_file(int dirfd, const char *path, const char *text, box_error *err) BOX_MUST_USE;

/* Creates or replaces a file below dirfd by a temporary name, fsync and rename. */
int box_fd_replace_file(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                        box_error *err) BOX_MUST_USE;

/* One message with descriptors over a SEQPACKET (or STREAM) socket, without blocking. 0, or -1:
 * *err's sys_errno is EAGAIN when the peer does not read. The descriptors stay the caller's. */
enum { BOX_FD_PASS_MAX = 12 };
int box_fd_send(int socket, const void *data, size_t len, const int *fds, size_t n_fds,
                box_error *err) BOX_MUST_USE;

/* Receives one. Returns its length, 0 at the peer's end or for an empty message (whose descriptors
 * are closed), -1 on error (sys_errno EAGAIN: nothing is there). A message or descriptor list that
 * does not fit is PROTOCOL, with everything closed. *n_fds: capacity in, count out (0 on failure);
 * they are the caller's. */
ssize_t box_fd_receive(int socket, void *data, size_t size, int *fds, size_t *n_fds, box_error *err)
    BOX_MUST_USE;

/* A sealed memfd with that content, read-only for whoever gets it. */
int box_fd_memfd(const char *name, const void *data, size_t len, int *out, box_error *err)
    BOX_MUST_USE;
