#include "agent/connect.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"

static int set(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof value);
}

/* Its memory is the agent's (BOX_FORWARD_SOCKET_BYTES), whoever has it later. */
static int bound(int fd)
{
    if (set(fd, SOL_SOCKET, SO_SNDBUF, BOX_FORWARD_SOCKET_BYTES) < 0 ||
        set(fd, SOL_SOCKET, SO_RCVBUF, BOX_FORWARD_SOCKET_BYTES) < 0)
        return -1;
    return set(fd, IPPROTO_TCP, TCP_MAXSEG, BOX_FORWARD_SEGMENT_BYTES);
}

int box_connect_begin(uint16_t port, bool v6)
{
    struct sockaddr_in four = {.sin_family = AF_INET,
                               .sin_port = htons(port),
                               .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    struct sockaddr_in6 six = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    BOX_AUTO(box_closep)
    int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bound(fd) < 0)
        return -1;
    int rc = v6 ? connect(fd, (struct sockaddr *)&six, sizeof six)
                : connect(fd, (struct sockaddr *)&four, sizeof four);
    if (rc == 0 || errno == EINPROGRESS)
        return box_take_fd(&fd);
    int why = errno;
    box_closep(&fd);
    errno = why;
    return -1;
}

/* With nobody listening, a connection whose own port happens to be the one it looks for finds
 * itself (simultaneous open, RFC 9293, 3.5). It must not stay behind in TIME_WAIT: the program that
 * is waited for could not bind its port. */
static bool is_itself(int fd, uint16_t port)
{
    struct sockaddr_in6 own = {0}; /* the port is where sockaddr_in has it */
    struct linger reset = {.l_onoff = 1};
    socklen_t len = sizeof own;
    if (getsockname(fd, (struct sockaddr *)&own, &len) < 0 || own.sin6_port != htons(port))
        return false;
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset); /* else it stays a minute */
    return true;
}

int box_connect_look(int fd, uint16_t port)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int error = 0;
    socklen_t len = sizeof error;
    if (poll(&p, 1, 0) <= 0)
        return 0;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        return -1;
    if (error == 0 && is_itself(fd, port))
        error = ECONNREFUSED;
    errno = error;
    return error == 0 ? 1 : -1;
}
