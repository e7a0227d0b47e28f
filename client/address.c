#include "address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"

void box_addresses_done(box_addresses *a)
{
    free(a->items);
    *a = (box_addresses){0};
}

void box_addresses_add(box_addresses *a, const void *address, size_t len)
{
    if (a->count == BOX_CLIENT_ADDRESSES || len > sizeof a->items->at)
        return;
    if (a->items == NULL)
        a->items = box_alloc_array(BOX_CLIENT_ADDRESSES, sizeof *a->items);
    box_address *item = &a->items[a->count++];
    item->len = (socklen_t)len;
    memcpy(&item->at, address, len);
}

void box_addresses_add_all(box_addresses *a, const struct addrinfo *found)
{
    for (; found != NULL; found = found->ai_next)
        box_addresses_add(a, found->ai_addr, found->ai_addrlen);
}

bool box_address_same(const box_address *a, const box_address *b)
{
    return a->len == b->len && memcmp(&a->at, &b->at, a->len) == 0;
}

bool box_address_is_loopback(const box_address *a)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)&a->at;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)&a->at;
    if (a->at.ss_family == AF_INET)
        return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
    return a->at.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

bool box_addresses_add_literal(box_addresses *a, const char *host, const char *port)
{
    in_port_t number = htons((in_port_t)strtoul(port, NULL, 10));
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = number};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = number};
    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1)
        box_addresses_add(a, &v4, sizeof v4);
    else if (inet_pton(AF_INET6, host, &v6.sin6_addr) == 1)
        box_addresses_add(a, &v6, sizeof v6);
    else
        return false;
    return true;
}
