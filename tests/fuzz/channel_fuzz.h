/* What the linker puts in the place of functions that channel_fuzz.c answers itself (ld --wrap). */
#pragma once

#include <sys/socket.h>

#include "base/clock.h"
#include "resolve.h"

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the linker's names */
box_time __wrap_box_now(void);
int __wrap_connect(int fd, const struct sockaddr *at, socklen_t len);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int __wrap_box_resolve(const char *host, const char *port, int wake, box_resolution **out,
                       box_error *err);
bool __wrap_box_resolution_take(box_resolution *r, box_addresses *out, int *rc, box_error *err);
void __wrap_box_resolution_free(box_resolution *r);
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
