/* TCP connections to ports on loopback, in the sandbox's network namespace: the agent's own. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Begins one, to 127.0.0.1 or to ::1, that does not block. -1 and errno: it failed at once. */
int box_connect_begin(uint16_t port, bool v6);
/* 1: it stands; 0: not yet; -1 and errno: it failed, and is to be closed. */
int box_connect_look(int fd, uint16_t port);
