/* Reading what the kernel counted, below directories that the warden gave. The files are the
 * host's; a tenant cannot write them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* CPU time of the command's own group (x_fd: S/box/x; -1 = none). False: not known. */
bool box_cgroup_cpu_ns(int x_fd, uint64_t exec_id, uint64_t *out);
/* The file below dirfd that counts kills for memory; it can be read again and again. -1 when there
 * is none. version: of the control groups, 1 or 2. */
int box_cgroup_open_memory(int dirfd, uint32_t version);
/* Processes of the session that were killed for memory; 0 when not known. */
uint64_t box_cgroup_oom_kills(int memory_fd);
/* The same for processes that could not be made because of pids_limit. */
int box_cgroup_open_pids(int dirfd);
uint64_t box_cgroup_pids_refused(int pids_fd);
/* The number behind "key " in a flat keyed file, as memory.events is one. */
bool box_cgroup_find(const char *text, const char *key, uint64_t *out);
