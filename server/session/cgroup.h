/* Reading what the kernel counted, below directories that the warden gave. The files are the
 * host's; a tenant cannot write them. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* CPU time of the groups of one session's commands, as it was at the end of the last command in
 * each: a group takes one command after another, and its number is never another group's
 * (agent/protocol.h). Zero is empty. */
enum {
    BOX_CPU_GROUPS = 16, /* an agent keeps 2 for later; the rest are of commands at once */
    BOX_CPU_FILES = 2,   /* of groups that commands one after another take in turn */
};
typedef struct box_cpu_groups {
    uint64_t newest;        /* the highest number seen: a higher one has had no command */
    atomic_int *files_left; /* how many more files all sessions may keep open; NULL = none */
    unsigned next_file;     /* the older one */
    struct {
        uint64_t group; /* 0 = none */
        int fd;
    } files[BOX_CPU_FILES];
    struct {
        uint64_t group; /* 0 = free */
        uint64_t cpu_ns;
    } all[BOX_CPU_GROUPS];
} box_cpu_groups;

/* What a group has taken (total_ns) since its last command. False: that is not known any more. */
bool box_cpu_since(box_cpu_groups *g, uint64_t group, uint64_t total_ns, uint64_t *out_ns);
/* CPU time of the command that has ended in that group (x_fd: S/box/x; -1 = none). False: not
 * known. */
bool box_cgroup_cpu_ns(box_cpu_groups *g, int x_fd, uint64_t group, uint64_t *out_ns);
/* All that group has ever taken. False: not known. */
bool box_cgroup_cpu_total_ns(int x_fd, uint64_t group, uint64_t *out_ns);
/* Closes what it keeps open: before the groups are removed. */
void box_cpu_groups_close(box_cpu_groups *g);
/* The file below dirfd that counts kills for memory; it can be read again and again. -1 when there
 * is none. version: of the control groups, 1 or 2. */
int box_cgroup_open_memory(int dirfd, uint32_t version);
/* Processes of the session that were killed for memory; 0 when not known. */
uint64_t box_cgroup_oom_kills(int memory_fd);
/* The same for processes that could not be made because of pids_limit. */
int box_cgroup_open_pids(int dirfd);
uint64_t box_cgroup_pids_refused(int pids_fd);
/* The whole number in a file below dir (-1 = none). False: not known. */
bool box_cgroup_number(int dir, const char *file, uint64_t *out);
/* Threads in a group below S/box/x; false: not known. Counts to 65,536. */
bool box_cgroup_threads(int x_fd, uint64_t group, uint64_t *out);
/* The number behind "key " in a flat keyed file, as memory.events is one. */
bool box_cgroup_find(const char *text, const char *key, uint64_t *out);
