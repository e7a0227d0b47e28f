/* Commands in sessions. A box_exec lives on the loop of the call that made it; everything here is
 * called on that loop. */
#pragma once

#include "session/command.h"
#include "session/session.h"

typedef struct box_exec box_exec;

/* Why the main process ended. */
typedef enum box_verdict_status {
    BOX_VERDICT_COMPLETED = 1, /* by itself, or a signal of its own or the caller's */
    BOX_VERDICT_TIMED_OUT,
    BOX_VERDICT_IDLE_TIMED_OUT,
    BOX_VERDICT_CANCELLED,
    BOX_VERDICT_OOM_KILLED,
    BOX_VERDICT_OUTPUT_LIMIT,
    BOX_VERDICT_KILLED, /* because its session ended */
    BOX_VERDICT_SANDBOX_LOST,
} box_verdict_status;

/* What a stream gave. Exec: head and tail are what was kept; ExecStream: both empty. */
typedef struct box_output {
    uint64_t total_bytes;
    uint64_t dropped_bytes; /* between head and tail */
    box_bytes head;
    box_bytes tail;
} box_output;

typedef enum box_source {
    BOX_SOURCE_NONE,    /* not known */
    BOX_SOURCE_CGROUP,  /* the command's own control group */
    BOX_SOURCE_PROCESS, /* the largest single process, or the sum of the reaped ones */
    BOX_SOURCE_SESSION, /* the whole session's control group */
} box_source;

/* Borrowed for the callback. */
typedef struct box_verdict {
    box_verdict_status status;
    bool has_exit_code;
    int32_t exit_code;
    int32_t signal; /* 0 = ended by exit */
    bool core_dumped;
    const char *limit;   /* which one ended it: "timeout", "idle_timeout", "memory", ...; "" */
    bool workspace_full; /* when it ended */
    bool pids_hit;       /* while it ran, a process could not be made because of pids_limit */
    const char *detail;  /* SANDBOX_LOST and KILLED: one line; "" */
    uint64_t oom_kills;
    box_output output[2]; /* stdout, stderr */
    uint64_t wall_ns;
    uint64_t cpu_ns;
    box_source cpu_source;
    uint64_t peak_memory_bytes;
    box_source memory_source;
    uint32_t leftovers;
    bool leftovers_killed;
    uint64_t timeout_ns;      /* the one that held */
    bool timeout_clamped;     /* the profile's maximum cut what was asked */
    int64_t timeout_asked_ns; /* 0 = nothing */
    const box_session_info *session;
    int64_t started_wall_ns; /* 0 = not known whether it started */
    uint64_t queue_ns;       /* waited for a slot of the running session */
    uint64_t stdin_bytes;    /* given to the command */
    bool session_destroyed;  /* destroy_on_timeout */
} box_verdict;

typedef struct box_exec_started {
    const box_session_info *session;
    int32_t pid; /* inside the sandbox */
    int64_t started_wall_ns;
    uint64_t timeout_ns;
    bool timeout_clamped;
    int64_t timeout_asked_ns;
} box_exec_started;

typedef struct box_exec_events {
    /* It runs. May be NULL. adjustments: timeout_clamped as in the verdict. */
    void (*started)(void *arg, const box_exec_started *started);
    /* ExecStream only (else NULL): stream 0 = stdout, 1 = stderr. Called only while writable. */
    void (*output)(void *arg, int stream, const uint8_t *data, size_t len);
    bool (*writable)(void *arg);
    /* box_exec_feed may go on. May be NULL. */
    void (*stdin_room)(void *arg);
    /* Exactly once and last, never from inside box_exec_start: a verdict once it started or may
     * have (SANDBOX_LOST without `started`), else an error. Not after box_exec_cancel. */
    void (*done)(void *arg, const box_verdict *verdict, const box_error *err);
} box_exec_events;

/* Borrowed for box_exec_start. */
typedef struct box_exec_request {
    const char *tenant;
    const char *session_id; /* "" = a sandbox of its own that goes with the call */
    const box_spec *spec;   /* NULL = nothing asked */
    const box_command *command;
    const void *stdin_data;
    size_t stdin_len;
    bool stdin_open; /* more comes by box_exec_feed, until box_exec_close_stdin */
    bool stream;     /* forward output, keep nothing */
    bool terminal;   /* of a stream: on a terminal, whose output is all on stdout; no slot is taken,
                      * and no timeout holds but one that is asked for */
    int32_t rows;    /* of the terminal, 0 to 65535; 0: 24 */
    int32_t columns; /* 0: 80 */
    bool has_queue_timeout;
    int64_t queue_timeout_ns;    /* waiting for the session's slot; absent: 30 s */
    const char *idempotency_key; /* NULL or "" = none */
    const uint8_t *digest;       /* 32 bytes of the request, with idempotency_key */
} box_exec_request;

/* VALIDATION with every violation there is. box_exec_start begins with it; for callers that found
 * one before and owe the rest (err may hold theirs; command may be NULL). */
int box_exec_check(const box_exec_request *r, box_error *err) BOX_MUST_USE;

/* Checks, finds or makes the session, queues. -1: nothing was made and no event follows
 * (VALIDATION, SESSION_CONFLICT, SESSION_LIMIT, GUARANTEE_UNSUPPORTED, IDEMPOTENCY_*, ...).
 * Errors of `done`: EXEC_QUEUE {limit, max, used}, QUOTA {limit terminals or open_files},
 * SESSION_NOT_RUNNING, SESSION_BROKEN {cause}, BACKEND_UNAVAILABLE, what the warden or the agent
 * said (FILE_NOT_FOUND, PERMISSION, ...). */
int box_exec_start(box_sessions *all, const box_exec_request *r, const box_exec_events *events,
                   void *arg, box_exec **out, box_error *err) BOX_MUST_USE;

/* More stdin (copied). *room false: enough is waiting, feed no more until stdin_room. Bytes for a
 * command that ended or closed its end are dropped. -1 (MEMORY_BUDGET): they could not be kept, and
 * the command must not go on as if that had been all: cancel it. */
int box_exec_feed(box_exec *e, const void *data, size_t len, bool *room, box_error *err)
    BOX_MUST_USE;
/* On a terminal: the end-of-file character is typed, where its mode knows one. */
void box_exec_close_stdin(box_exec *e);
/* signo 1 to 64 to the main process, or KILL to all it started. VALIDATION; harmless when it is
 * over. */
int box_exec_signal(box_exec *e, int signo, bool tree, box_error *err) BOX_MUST_USE;
/* The terminal's size, 0 to 65535; 0 is 24, 80. VALIDATION, without a terminal too. */
int box_exec_set_size(box_exec *e, int32_t rows, int32_t columns, box_error *err) BOX_MUST_USE;
/* The call became writable again. */
void box_exec_resume(box_exec *e);

/* The caller went away: what runs is killed, no event follows. The handle is gone. */
void box_exec_cancel(box_exec *e);
/* After done. */
void box_exec_free(box_exec *e);
