/* Listening sockets: made, described and removed. Plain system calls, no loop. */
#pragma once

#include <sys/types.h>

#include "base/error.h"
#include "wire/tls.h"

typedef struct box_listener {
    int fd;
    box_tls_context *tls; /* borrowed; NULL = clear text */
    char *unix_path;      /* NULL: TCP */
    dev_t dev;            /* of the socket file, so that a successor's is left alone */
    ino_t ino;
} box_listener;

/* See box_net_listen_tcp and box_net_listen_unix. */
int box_listener_tcp(const char *address, box_tls_context *tls, box_listener *out, uint16_t *port,
                     box_error *err) BOX_MUST_USE;
int box_listener_unix(const char *path, box_listener *out, box_error *err) BOX_MUST_USE;
/* Closes it and removes its socket file. Harmless on one that is done or zeroed with fd -1. */
void box_listener_done(box_listener *l);
