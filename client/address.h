/* Socket addresses of a server. */
#pragma once

#include <netdb.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/error.h"

typedef struct box_address {
    socklen_t len;
    struct sockaddr_storage at;
} box_address;

/* Zero is empty; freed with box_addresses_done. At most BOX_CLIENT_ADDRESSES. */
typedef struct box_addresses {
    box_address *items;
    size_t count;
} box_addresses;

void box_addresses_done(box_addresses *a);
/* One more, copied; what does not fit is left out. */
void box_addresses_add(box_addresses *a, const void *address, size_t len);
void box_addresses_add_all(box_addresses *a, const struct addrinfo *found);
/* What has both the same is the same: the order of names' addresses changes with each answer. */
bool box_address_same(const box_address *a, const box_address *b);
bool box_address_is_loopback(const box_address *a);
/* "1.2.3.4" or "::1", and a port. False: that is no address. */
bool box_addresses_add_literal(box_addresses *a, const char *host, const char *port);
