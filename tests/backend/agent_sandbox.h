/* A minimal sandbox around the real static box-agent, for tests: user, pid, mount and ipc
 * namespaces, control groups where the host has them, and the agent as PID 1 with the descriptors
 * of agent/protocol.h. And boxd's end of the channel. Needs root. Everything made is removed by
 * sandbox_close. Failures end the test (cmocka). */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "agent/packet.h"

typedef enum sandbox_mode {
    SANDBOX_CGROUPS,    /* cgroup2, cgroup.kill, clone3 */
    SANDBOX_OLD_KERNEL, /* cgroup2 without cgroup.kill and clone3 */
    SANDBOX_REAPERS,    /* no cgroup2 */
} sandbox_mode;

typedef struct sandbox_options {
    sandbox_mode mode;
    uint32_t orphan_seconds;
    int pids_max;    /* 0 = 256 */
    bool open_place; /* commands can reach the socket's path, as none ever should */
} sandbox_options;

typedef struct sandbox sandbox;

/* True, with the reason on standard output, where this host cannot run these tests in that mode. */
bool sandbox_skips(sandbox_mode mode);

/* Started and greeted: boxd's end is connected. */
sandbox *sandbox_open(const sandbox_options *options);
void sandbox_close(sandbox *s);
/* The same as CMocka calls it before and after a test whose *state is its sandbox. */
int sandbox_set_up(void **state, const sandbox_options *options);
int sandbox_tear_down(void **state);

/* PID 1 as the host sees it. */
pid_t sandbox_init_pid(const sandbox *s);
const char *sandbox_socket_path(const sandbox *s);
sandbox_mode sandbox_mode_of(const sandbox *s);
/* Host pid of the newest process of that name in the sandbox; 0 when there is none. */
pid_t sandbox_find(const sandbox *s, const char *comm);
/* Directories in S/box/x; -1 without cgroup2. */
int sandbox_command_dirs(const sandbox *s);
/* Processes in the pid namespace. */
int sandbox_processes(const sandbox *s);
/* true when, within 5 s, only those are left that are always there: PID 1, the zygote and, with
 * cgroup2, its child that waits for the next command. */
bool sandbox_is_idle(const sandbox *s);
bool sandbox_pids_limited(const sandbox *s);
/* Waits for PID 1's end; its wait status, or -1 after timeout_ms. */
int sandbox_wait(sandbox *s, int timeout_ms);

void sandbox_disconnect(sandbox *s);
/* Connects and greets; the agent's HELLO. */
box_agent_hello sandbox_connect(sandbox *s);
/* The raw connection. */
int sandbox_fd(const sandbox *s);

/* --- commands --------------------------------------------------------------------------------- */

typedef struct sandbox_command {
    uint64_t id;
    int in;  /* write end of its stdin, -1 when closed */
    int out; /* read end of stdout and stderr */
} sandbox_command;

typedef struct sandbox_start {
    const char *const *argv; /* NULL-ended */
    const char *const *env;  /* NULL: PATH only */
    const char *workdir;     /* NULL: "/" */
    uint64_t timeout_ns;
    uint32_t flags;
    bool stdin_open;
} sandbox_start;

/* Sends START. */
sandbox_command sandbox_send_start(sandbox *s, const sandbox_start *start);
void sandbox_signal(sandbox *s, uint64_t id, uint32_t signo, box_agent_scope scope,
                    box_agent_cause cause);
void sandbox_acknowledge(sandbox *s, uint64_t id);
void sandbox_send(sandbox *s, box_agent_type type, uint64_t id, const void *body);

/* Waits for that message, at most 15 s; others are kept for later calls. fds has room for 4; they
 * are the caller's. */
box_agent_packet sandbox_take(sandbox *s, box_agent_type type, uint64_t id, int *fds,
                              size_t *n_fds);
box_agent_started sandbox_wait_started(sandbox *s, uint64_t id);
box_agent_exit sandbox_wait_exit(sandbox *s, uint64_t id);
void sandbox_wait_pong(sandbox *s, uint64_t id);
/* true when such a message comes within timeout_ms; it stays for the others. */
bool sandbox_sees(sandbox *s, box_agent_type type, uint64_t id, int timeout_ms);
/* true when the agent closes the connection within 5 s. */
bool sandbox_is_dropped(sandbox *s);

/* What has come out until its end, or until nothing came for timeout_ms; NUL-ended. */
size_t sandbox_output(const sandbox_command *c, char *out, size_t size, int timeout_ms);
void sandbox_command_close(sandbox_command *c);

/* A shell script from START to EXIT_ACK; it must start. Output (may be NULL) is read after EXIT. */
box_agent_exit sandbox_run(sandbox *s, const char *script, uint64_t timeout_ns, uint32_t flags,
                           char *out, size_t size);
/* Waits until fewer than `below` command directories are left (true), at most 5 s. */
bool sandbox_dirs_below(const sandbox *s, int below);
