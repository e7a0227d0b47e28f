#include "net/listener.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/limits.h"

enum { SOCKET_FLAGS = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, HOST_TEXT = 64 };

/* "127.0.0.1:5410" or "[::1]:5410" in two; the host without brackets. */
static int split_address(const char *address, char host[HOST_TEXT], const char **port,
                         box_error *err)
{
    const char *colon = strrchr(address, ':');
    size_t len = colon == NULL ? 0 : (size_t)(colon - address);
    const char *start = address;
    if (len >= 2 && start[0] == '[' && start[len - 1] == ']') {
        start++;
        len -= 2;
    } else if (memchr(start, ':', len) != NULL) {
        len = 0; /* an IPv6 address without brackets */
    }
    if (len == 0 || len >= HOST_TEXT || colon[1] == '\0')
        return box_fail(err, BOX_VALIDATION, "\"%s\" is not HOST:PORT", address);
    memcpy(host, start, len);
    host[len] = '\0';
    *port = colon + 1;
    return 0;
}

static void addrinfo_freep(struct addrinfo **list)
{
    if (*list != NULL)
        freeaddrinfo(*list);
}

static int bound_port(int fd, uint16_t *port, box_error *err)
{
    struct sockaddr_in6 a = {0}; /* large enough for both; the port is at the same place */
    socklen_t len = sizeof a;
    if (getsockname(fd, (struct sockaddr *)&a, &len) < 0)
        return box_fail_errno(err, "getsockname");
    *port = ntohs(a.sin6_port);
    return 0;
}

static int bind_tcp(int fd, const struct addrinfo *at, const char *address, box_error *err)
{
    const int on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* only a convenience */
    if (at->ai_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on); /* [::] and 0.0.0.0 */
    if (bind(fd, at->ai_addr, at->ai_addrlen) < 0)
        return box_fail_errno(err, "cannot bind %s", address);
    if (listen(fd, BOX_LISTEN_BACKLOG) < 0)
        return box_fail_errno(err, "cannot listen on %s", address);
    return 0;
}

int box_listener_tcp(const char *address, box_tls_context *tls, box_listener *out, uint16_t *port,
                     box_error *err)
{
    char host[HOST_TEXT];
    const char *service = NULL;
    if (split_address(address, host, &service, err) < 0)
        return -1;
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                                   .ai_socktype = SOCK_STREAM};
    BOX_AUTO(addrinfo_freep) struct addrinfo *found = NULL;
    if (getaddrinfo(host, service, &hints, &found) != 0)
        return box_fail(err, BOX_VALIDATION, "\"%s\" is not an IP address and a port", address);
    BOX_AUTO(box_closep) int fd = socket(found->ai_family, SOCKET_FLAGS, 0);
    if (fd < 0)
        return box_fail_errno(err, "cannot make a socket for %s", address);
    uint16_t bound = 0;
    if (bind_tcp(fd, found, address, err) < 0 || bound_port(fd, &bound, err) < 0)
        return -1;
    *out = (box_listener){.fd = box_take_fd(&fd), .tls = tls};
    if (port != NULL)
        *port = bound;
    return 0;
}

static int unix_address(const char *path, struct sockaddr_un *out, box_error *err)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof out->sun_path)
        return box_fail(err, BOX_VALIDATION, "a socket path has 1 to %zu bytes, this one %zu",
                        sizeof out->sun_path - 1, len);
    memcpy(out->sun_path, path, len + 1);
    return 0;
}

/* Nobody listens on the socket file any more: a server was killed. Everything else that stands at
 * the path is left alone. */
static int remove_stale(const struct sockaddr_un *at, box_error *err)
{
    struct stat st;
    if (lstat(at->sun_path, &st) < 0)
        return errno == ENOENT ? 0 : box_fail_errno(err, "cannot look at the socket path");
    if (!S_ISSOCK(st.st_mode))
        return box_fail(err, BOX_FILE_EXISTS, "the socket path is taken by something else");
    BOX_AUTO(box_closep) int fd = socket(AF_UNIX, SOCKET_FLAGS, 0);
    if (fd < 0)
        return box_fail_errno(err, "cannot make a socket");
    if (connect(fd, (const struct sockaddr *)at, sizeof *at) == 0 || errno != ECONNREFUSED)
        return box_fail(err, BOX_FILE_EXISTS, "another server answers on the socket path");
    if (unlink(at->sun_path) < 0 && errno != ENOENT)
        return box_fail_errno(err, "cannot remove the stale socket");
    return 0;
}

int box_listener_unix(const char *path, box_listener *out, box_error *err)
{
    struct sockaddr_un at = {0};
    if (unix_address(path, &at, err) < 0 || remove_stale(&at, err) < 0)
        return -1;
    BOX_AUTO(box_closep) int fd = socket(AF_UNIX, SOCKET_FLAGS, 0);
    if (fd < 0)
        return box_fail_errno(err, "cannot make a socket");
    /* Linux gives the file the mode of the socket (unix_mknod), less the umask: it is never open to
     * others, not even for a moment. */
    if (fchmod(fd, 0600) < 0)
        return box_fail_errno(err, "cannot protect the socket");
    if (bind(fd, (const struct sockaddr *)&at, sizeof at) < 0)
        return box_fail_errno(err, "cannot bind the socket path");
    struct stat st;
    if (lstat(path, &st) < 0 || listen(fd, BOX_LISTEN_BACKLOG) < 0)
        return box_fail_errno(err, "cannot listen on the socket path");
    *out = (box_listener){
        .fd = box_take_fd(&fd), .unix_path = box_strdup(path), .dev = st.st_dev, .ino = st.st_ino};
    return 0;
}

void box_listener_done(box_listener *l)
{
    if (l->fd < 0)
        return;
    struct stat st;
    if (l->unix_path != NULL && lstat(l->unix_path, &st) == 0 && st.st_dev == l->dev &&
        st.st_ino == l->ino)
        (void)unlink(l->unix_path); /* a file left behind is stale and replaced */
    box_closep(&l->fd);
    free(box_take(l->unix_path));
}
