/* One connection of boxcli port-forward: a local socket and a PortForward call. */
#pragma once

#include <poll.h>

#include "base/buf.h"
#include "base/list.h"
#include "box/v1/session.client.h"
#include "cli.h"

typedef struct cli_link {
    box_list link; /* the owner's */
    int fd;        /* the local socket; -1 when it is over */
    box_client_call *call;
    box_buf out;        /* for the local socket */
    bool paused;        /* the server sends nothing: that waits */
    bool started;       /* the connection inside stands */
    bool local_ended;   /* the local program's direction has ended, and the call was told */
    bool remote_closed; /* the one inside has ended its own, */
    bool local_told;    /* and the local socket was told */
    bool broken;        /* the local program is gone: nobody wants to know how the call ends */
    bool done;
    box_error status;
} cli_link;

/* Takes fd. Without a call to be had, -1 and the socket is closed. `start` is borrowed. */
int cli_link_new(cli *c, int *fd, Box__V1__PortForwardStart *start, cli_link **out, box_error *err)
    BOX_MUST_USE;
/* What to poll; fd -1: nothing. */
struct pollfd cli_link_poll(const cli_link *l);
/* What poll said of it. */
void cli_link_ready(cli_link *l, short events);
/* It may be freed; of one that failed, and somebody wants to know, *why says it (else NULL). */
bool cli_link_is_over(const cli_link *l, const box_error **why);
/* Cuts off what is not over, on both sides. */
void cli_link_free(cli_link *l);
