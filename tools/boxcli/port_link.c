#include "port_link.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/fd.h"

enum {
    READ_STEP = 32 * 1024,
    OUT_BYTES = 8 * 1024 * 1024, /* messages that come although it is paused: a window full */
};

/* --- the local side --------------------------------------------------------------------------- */

/* What was cut off must not look whole. */
static void close_local(cli_link *l, bool whole)
{
    const struct linger reset = {.l_onoff = 1};
    if (!whole && l->fd >= 0)
        (void)setsockopt(l->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset); /* a hint only */
    box_closep(&l->fd);
}

static void breaks(cli_link *l)
{
    l->broken = true;
    close_local(l, false);
    box_buf_clear(&l->out);
    box_client_cancel(l->call); /* resets the connection inside */
}

static void hold(cli_link *l, bool wanted)
{
    if (l->paused == wanted)
        return;
    l->paused = wanted;
    box_client_pause(l->call, wanted);
}

static void write_local(cli_link *l)
{
    while (l->fd >= 0 && box_buf_len(&l->out) > 0) {
        ssize_t n = send(l->fd, box_buf_data(&l->out), box_buf_len(&l->out), MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN) {
            breaks(l);
            return;
        }
        if (n < 0)
            break;
        box_buf_consume(&l->out, (size_t)n);
    }
    if (l->fd < 0)
        return;
    hold(l, box_buf_len(&l->out) > 0);
    if (box_buf_len(&l->out) > 0 || !l->remote_closed || l->local_told)
        return;
    l->local_told = true;
    if (shutdown(l->fd, SHUT_WR) < 0)
        breaks(l);
}

static void read_local(cli_link *l)
{
    uint8_t data[READ_STEP];
    box_error err; /* a call that is over says why in on_done */
    ssize_t n = recv(l->fd, data, sizeof data, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0) {
        breaks(l);
        return;
    }
    if (n == 0) {
        l->local_ended = true;
        BOX_IGNORE(box_client_half_close(l->call, &err));
        return;
    }
    Box__V1__PortForwardRequest m;
    box__v1__port_forward_request__init(&m);
    m.request_case = BOX__V1__PORT_FORWARD_REQUEST__REQUEST_DATA;
    m.data = (ProtobufCBinaryData){(size_t)n, data};
    BOX_IGNORE(box_v1_session_service_port_forward_send(l->call, &m, &err));
}

struct pollfd cli_link_poll(const cli_link *l)
{
    struct pollfd p = {.fd = l->fd};
    if (l->started && !l->done && !l->local_ended && box_client_is_writable(l->call))
        p.events |= POLLIN;
    if (box_buf_len(&l->out) > 0)
        p.events |= POLLOUT;
    /* With both directions ended poll(2) would say so again and again. */
    if (p.events == 0 && (l->local_told || l->local_ended))
        p.fd = -1;
    return p;
}

void cli_link_ready(cli_link *l, short events)
{
    if (l->fd >= 0 && (events & POLLERR) != 0)
        breaks(l);
    if (l->fd >= 0 && (events & POLLOUT) != 0)
        write_local(l);
    if (l->fd >= 0 && (events & (POLLIN | POLLHUP)) != 0 && !l->local_ended)
        read_local(l);
}

/* --- the call --------------------------------------------------------------------------------- */

static void on_message(void *arg, box_client_call *call, const Box__V1__PortForwardResponse *m)
{
    cli_link *l = arg;
    box_error err;
    (void)call;
    if (l->broken)
        return;
    switch (m->response_case) {
    case BOX__V1__PORT_FORWARD_RESPONSE__RESPONSE_STARTED:
        l->started = true;
        return;
    case BOX__V1__PORT_FORWARD_RESPONSE__RESPONSE_DATA:
        if (box_buf_add(&l->out, m->data.data, m->data.len, &err) < 0)
            breaks(l); /* the server sends more than it may */
        else
            write_local(l);
        return;
    case BOX__V1__PORT_FORWARD_RESPONSE__RESPONSE_CLOSED:
        l->remote_closed = true;
        write_local(l);
        return;
    default: /* what later servers may add */
        return;
    }
}

static void on_done(void *arg, box_client_call *call, const box_error *status,
                    const box_metadata *trailers)
{
    cli_link *l = arg;
    (void)call;
    (void)trailers;
    l->done = true;
    l->status = *status;
}

int cli_link_new(cli *c, int *fd, Box__V1__PortForwardStart *start, cli_link **out, box_error *err)
{
    static const box_v1_session_service_port_forward_events events = {.message = on_message,
                                                                      .done = on_done};
    const box_client_options options = {.metadata = &c->metadata};
    int on = 1;
    cli_link *l = box_alloc(sizeof *l);
    l->fd = box_take_fd(fd);
    box_buf_init(&l->out, OUT_BYTES);
    if (box_v1_session_service_port_forward_start(c->channel, &options, &events, l, &l->call, err) <
        0) {
        cli_link_free(l);
        return -1;
    }
    (void)setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* or it is slower */
    Box__V1__PortForwardRequest m;
    box__v1__port_forward_request__init(&m);
    m.request_case = BOX__V1__PORT_FORWARD_REQUEST__REQUEST_START;
    m.start = start;
    box_error ended; /* on_done says why */
    BOX_IGNORE(box_v1_session_service_port_forward_send(l->call, &m, &ended));
    *out = l;
    return 0;
}

bool cli_link_is_over(const cli_link *l, const box_error **why)
{
    *why = NULL;
    if (!l->done || (l->fd >= 0 && box_buf_len(&l->out) > 0))
        return false;
    if (l->status.reason != BOX_NONE && !l->broken)
        *why = &l->status;
    return true;
}

void cli_link_free(cli_link *l)
{
    if (l == NULL)
        return;
    box_list_remove(&l->link);
    close_local(l, l->done && l->status.reason == BOX_NONE && box_buf_len(&l->out) == 0);
    box_client_free(l->call);
    box_buf_done(&l->out);
    free(l);
}
