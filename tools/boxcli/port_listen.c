#include "port_listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"

enum {
    BACKLOG = 128,
    TRIES = 16, /* for a free port: another program may have it at ::1 */
};

/* --- words ------------------------------------------------------------------------------------ */

static bool number(const char *text, size_t len, uint16_t *out)
{
    unsigned long value = 0;
    if (len < 1 || len > 5)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (unsigned long)(text[i] - '0');
    }
    *out = (uint16_t)value;
    return value <= UINT16_MAX;
}

bool cli_port_parse(const char *text, cli_port *out)
{
    const char *colon = strchr(text, ':');
    const char *remote = colon != NULL ? colon + 1 : text;
    size_t local_len = colon != NULL ? (size_t)(colon - text) : 0;
    cli_port p = {0};
    if (!number(remote, strlen(remote), &p.remote) || p.remote == 0 ||
        (local_len > 0 && !number(text, local_len, &p.local)))
        return false;
    if (colon == NULL)
        p.local = p.remote;
    *out = p;
    return true;
}

/* --- listening -------------------------------------------------------------------------------- */

typedef union address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
} address;

static int parse_address(const char *text, uint16_t port, address *out, socklen_t *len,
                         box_error *err)
{
    *out = (address){0};
    if (inet_pton(AF_INET, text, &out->four.sin_addr) == 1) {
        out->four.sin_family = AF_INET;
        out->four.sin_port = htons(port);
        *len = sizeof out->four;
        return 0;
    }
    if (inet_pton(AF_INET6, text, &out->six.sin6_addr) == 1) {
        out->six.sin6_family = AF_INET6;
        out->six.sin6_port = htons(port);
        *len = sizeof out->six;
        return 0;
    }
    return box_fail(err, BOX_VALIDATION, "--address: %s is no address of IPv4 or IPv6", text);
}

static int listen_at(const char *where, uint16_t local, uint16_t remote, cli_listener *out,
                     box_error *err)
{
    address a;
    socklen_t len = 0;
    int on = 1;
    if (parse_address(where, local, &a, &len, err) < 0)
        return -1;
    BOX_AUTO(box_closep)
    int fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        bind(fd, &a.any, len) < 0 || listen(fd, BACKLOG) < 0 || getsockname(fd, &a.any, &len) < 0)
        return box_fail_errno(err, "listen at %s, port %u", where, local);
    *out = (cli_listener){.remote = remote};
    out->local = ntohs(a.any.sa_family == AF_INET ? a.four.sin_port : a.six.sin6_port);
    (void)snprintf(out->address, sizeof out->address, "%s", where);
    out->fd = box_take_fd(&fd);
    return 0;
}

static bool has_no_ipv6(const box_error *err)
{
    return err->sys_errno == EADDRNOTAVAIL || err->sys_errno == EAFNOSUPPORT;
}

int cli_port_listen(const cli_port *port, const char *where, cli_listener out[2], box_error *err)
{
    if (where != NULL)
        return listen_at(where, port->local, port->remote, &out[0], err) < 0 ? -1 : 1;
    for (int i = 0; i < TRIES; i++) {
        if (listen_at("127.0.0.1", port->local, port->remote, &out[0], err) < 0)
            return -1;
        if (listen_at("::1", out[0].local, port->remote, &out[1], err) == 0)
            return 2;
        if (has_no_ipv6(err))
            return 1;
        box_closep(&out[0].fd);
        if (port->local != 0 || err->sys_errno != EADDRINUSE)
            return -1;
    }
    return -1;
}
