/* Reading what the kernel counted, below directories that the warden gave. The files are the
 * host's; a tenant cannot write them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* CPU time of the command's own group (x_fd: S/box/x; -1 = none). False: not known. */
bool box_cgroup_cpu_ns(int x_fd, uint64_t exec_id, uint64_t *out);
/* Processes of the session that were killed for memory; 0 when not known. version: 1 or 2. */
uint64_t box_cgroup_oom_kills(int memory_fd, uint32_t version);
/* The number behind "key " in a flat keyed file, as memory.events is one. */
bool box_cgroup_find(const char *text, const char *key, uint64_t *out);
