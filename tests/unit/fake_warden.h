/* A warden and the agents of its sandboxes, in process: they speak the real protocols over sockets
 * and fail or hang when told to. No process is started: an agent plays a few little programs
 * (argv[0]):
 *
 *     exit N | echo TEXT | err TEXT | env | cat | missing | hang | flood BYTES | oom | forks |
 * fills bg TEXT      writes, ends, and leaves a process that holds the pipes deaf         hangs and
 * ignores even KILL
 *
 * On a terminal they get one of the host's, whose modes are raw.
 */
#pragma once

#include <stdbool.h>

#include "agent/packet.h"
#include "warden/protocol.h"

enum {
    FAKE_MAX_SANDBOXES = 64,
    FAKE_MAX_PROGRAMS = 64,
    FAKE_MAX_WORKERS = 8,
    FAKE_MAX_CONNECTS = 256,
    FAKE_MAX_PROCESSES = BOX_MAX_PROCESSES + 8,
};

typedef struct fake_program {
    bool used;
    uint64_t id;
    int fds[3];
    int terminal[2]; /* STARTED's, until it is sent; -1 */
    char argv[4][64];
    char *text; /* all of START's text */
    size_t text_len;
    uint32_t flags;
    uint64_t timeout_ns;
    uint64_t flood_left;
    bool ended; /* keeps its descriptors: a background process */
} fake_program;

/* A file worker: a test speaks for it. */
typedef struct fake_worker {
    bool used;
    uint64_t id;
    uint32_t flags;
    int fd;
} fake_worker;

/* A managed process: a test speaks for the agent about it. */
typedef struct fake_process {
    uint64_t id;
    box_agent_manage conf;
    int text_fd;
    int journals[2]; /* a test's; -1 */
    uint64_t ends[2];
} fake_process;

typedef struct fake_sandbox {
    bool used;
    box_uid uid;
    box_warden_create create;
    int listen_fd;
    int fd; /* to boxd; -1 before it connected */
    fake_program programs[FAKE_MAX_PROGRAMS];
    unsigned acks;
    unsigned signals;
    unsigned last_signal;
    fake_worker workers[FAKE_MAX_WORKERS];
    unsigned files, files_stops; /* FILES and FILES_STOP that came */
    unsigned connects;           /* CONNECT that came; a test answers */
    uint64_t connect_id[FAKE_MAX_CONNECTS];
    uint16_t connect_port[FAKE_MAX_CONNECTS];
    fake_process processes[FAKE_MAX_PROCESSES]; /* every MANAGE that came */
    unsigned n_processes, process_stops, unknown_stops, forgets, watches, stdin_closes;
} fake_sandbox;

typedef struct fake_warden {
    int fd;   /* its end */
    int peer; /* boxd's end, until it is taken */
    uint32_t guarantees;
    fake_sandbox sandboxes[FAKE_MAX_SANDBOXES];
    char memory_dir[64];
    /* told by the test */
    bool deaf; /* reads nothing */
    bool hang_create;
    bool hang_destroy;
    bool hang_usage;
    bool hang_start;     /* STARTED never comes */
    bool mute_agent;     /* no HELLO */
    bool lying_agent;    /* answers HELLO with rubbish */
    bool deaf_files;     /* FILES_STOP is not heard */
    bool no_terminal;    /* STARTED never brings one */
    bool false_terminal; /* but a pipe that waits */
    box_error create_error;
    box_error hello_error;
    /* seen */
    unsigned creates, destroys, sweeps, limits, keeps;
    box_warden_limits last_limits;
    uint64_t hung_create_id;
    unsigned starts;
    unsigned max_unanswered_starts;
} fake_warden;

/* Ignores SIGPIPE in this process. */
void fake_warden_init(fake_warden *w);
void fake_warden_done(fake_warden *w);
/* boxd's end is closed: makes a new pair, peer is the new boxd's end. Sandboxes stay. */
void fake_warden_reconnect(fake_warden *w);
/* Handles all that came; false when there was nothing. Never waits. */
bool fake_warden_step(fake_warden *w);
/* PID 1 of the sandbox ends: its channel closes and EXITED is sent (when the warden knows). */
void fake_sandbox_die(fake_warden *w, fake_sandbox *s, bool tell);
unsigned fake_warden_count(const fake_warden *w);
/* The only one there is, or NULL. */
fake_sandbox *fake_warden_only(fake_warden *w);
fake_program *fake_sandbox_find(fake_sandbox *s, const char *argv0);
/* Ends a hanging program. */
void fake_program_exit(fake_sandbox *s, fake_program *p, int exit_code, int signo, uint32_t cause,
                       uint32_t leftovers);
/* It closes its socket and the agent tells so; signo 0: it ended by itself. */
void fake_worker_end(fake_sandbox *s, fake_worker *worker, int signo);
/* The answer to a CONNECT: a descriptor (taken), or why there is none. */
void fake_connect_answer(fake_sandbox *s, uint64_t id, int fd, const box_error *err);
/* The kernel counted one more kill for memory in the sandboxes. */
void fake_warden_oom(const fake_warden *w);
/* It has counted so many. */
void fake_warden_count_oom(const fake_warden *w, int n);
/* What poll(2) may wait on, for a test with a thread; returns how many. */
unsigned fake_warden_fds(const fake_warden *w, int *fds, unsigned room);
