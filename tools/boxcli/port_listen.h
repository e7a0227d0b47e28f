/* Local ports of boxcli port-forward: what the words mean, and listening. */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "box/error.h"

typedef struct cli_port {
    uint16_t local; /* 0 = any that is free */
    uint16_t remote;
} cli_port;

/* "8080" (both), "9000:8080" (local, remote), "0:8080" or ":8080" (any local one). */
bool cli_port_parse(const char *text, cli_port *out);

typedef struct cli_listener {
    int fd; /* nonblocking */
    uint16_t local;
    uint16_t remote;
    char address[INET6_ADDRSTRLEN]; /* "127.0.0.1", "::1" */
} cli_listener;

/* Listens at an address (of IPv4 or IPv6, no name); NULL: at 127.0.0.1 and, where this machine has
 * it, ::1, with the same port: whoever had only one of them would get what is meant for the other.
 * The number of listeners, or -1. */
int cli_port_listen(const cli_port *port, const char *address, cli_listener out[2], box_error *err)
    BOX_MUST_USE;
