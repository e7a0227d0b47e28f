/* Small looks at this machine, for boxcli doctor. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first line of a small text file, without its end. False, with errno set, when it cannot be
 * read. */
bool machine_line(const char *path, char *out, size_t size);
/* The number it begins with. */
bool machine_number(const char *path, int64_t *out);

/* "6.1.0-37-amd64" as 6 and 1. */
bool machine_kernel(const char *release, int *major, int *minor);

/* Is `word` one of a list's words, divided by any of `dividers`? */
bool machine_has_word(const char *list, const char *dividers, const char *word);

/* A mount of /proc/self/mountinfo (proc_pid_mountinfo(5)): where, its type and the options of its
 * file system. False: the line is none, or does not fit. */
typedef struct machine_mount {
    char point[512];
    char type[32];
    char options[256];
} machine_mount;
bool machine_parse_mount(const char *line, machine_mount *out);

/* Runs `work` in a child process, which gets its answer (0 to 127) as its exit status; -1 when
 * there was none. It may only make system calls: the client's resolver is a thread (box/channel.h),
 * and the locks it held stay taken. */
int machine_in_child(int (*work)(void));

/* The first line that a program writes, ended after timeout_ms at the latest. False when it did not
 * start, failed or wrote nothing. argv[0] is a path. */
bool machine_run(const char *const argv[], int timeout_ms, char *out, size_t size);

/* Is there a listener on this Unix socket? 0, or errno. */
int machine_connect(const char *path);
