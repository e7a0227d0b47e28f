/* Messages with descriptors for which there is no room: in this process, or on their way. */
#pragma once

#include <sys/types.h>

#include "base/error.h"

/* Too many of this user's descriptors are in flight to send one more (ETOOMANYREFS), and no
 * readiness tells when that ends: how long until it is tried again. */
enum { BOX_FLIGHT_RETRY_MS = 20 };

/* As box_fd_receive, but a message comes without its descriptors when this process had no room for
 * them (RLIMIT_NOFILE), or they were more than BOX_FD_PASS_MAX: then *lost, and *n_fds is 0. */
ssize_t box_fd_receive_or_lose(int socket, void *data, size_t size, int *fds, size_t *n_fds,
                               bool *lost, box_error *err) BOX_MUST_USE;
