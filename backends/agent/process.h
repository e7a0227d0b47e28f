/* Managed processes in the agent channel (protocol.h): commands that the agent starts, starts again
 * and stops by itself, since boxd may be away, and whose output it keeps in journals (journal.h).
 *
 * A process's life: MANAGE -> INTRODUCED -> MANAGED, and one more MANAGED whenever anything in it
 * changed (the newest state; what it passed meanwhile is skipped). MANAGED with state FAILED: it
 * never ran, and its id is forgotten. EXITED stays, with its journals, until FORGET, or until
 * another takes its place (GONE). Its id is out of the numbers of commands; what it runs has
 * numbers of the agent's own (bit 63), so that SIGNAL with the process's id goes to what runs now.
 * To a boxd that connects, INTRODUCED and MANAGED are repeated for each after HELLO.
 *
 * Stdin is a pipe (a terminal's master) whose end comes with MANAGED each time it is a new one; the
 * agent keeps it open, so that it outlives boxd, until CLOSE_STDIN.
 * Orders about a process that the agent does not know are ignored. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/limits.h"

enum { BOX_PROCESS_NAME_BYTES = 68 /* BOX_MAX_PROCESS_ID_BYTES, NUL, padded */ };

/* A-Z a-z 0-9 . _ - */
static inline bool box_process_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

typedef enum box_restart_mode {
    BOX_RESTART_NEVER = 1,
    BOX_RESTART_ON_FAILURE = 2, /* after anything but exit code 0 */
    BOX_RESTART_ALWAYS = 3,
} box_restart_mode;

typedef enum box_ready_probe {
    BOX_READY_RUNS = 0,
    BOX_READY_LINE = 1,    /* stdout holds `line` */
    BOX_READY_PORT = 2,    /* 127.0.0.1 or ::1 accepts on `port` */
    BOX_READY_COMMAND = 3, /* a command exits 0 */
} box_ready_probe;

/* How many of what a command's text (packet.h) holds. */
typedef struct box_agent_text {
    uint32_t argc;
    uint32_t envc;
    uint32_t len;
    uint32_t reserved;
} box_agent_text;

/* Of its own, within the sandbox's; 0 = none. */
typedef struct box_agent_limits {
    uint64_t memory_bytes;
    uint32_t pids;
    uint32_t cpu_millis;
} box_agent_limits;

enum {
    BOX_MANAGE_TERMINAL = 1,
    BOX_MANAGE_STOP_ON_DETACH = 2, /* boxd acts on it; the agent only keeps it */
};

/* Descriptors: a sealed memfd with the command's text and then record_len bytes of boxd's own;
 * with BOX_READY_COMMAND another with the probe's text. */
typedef struct box_agent_manage {
    char name[BOX_PROCESS_NAME_BYTES];
    uint32_t flags;
    box_agent_text text;
    uint32_t record_len;
    uint32_t restart; /* box_restart_mode */
    uint32_t max_restarts;
    uint32_t probe; /* box_ready_probe */
    uint32_t port;
    box_agent_text probe_text;
    uint32_t line_len;
    uint16_t rows; /* of the terminal */
    uint16_t columns;
    uint32_t reserved;
    uint64_t journal_bytes; /* of each stream */
    uint64_t first_backoff_ns;
    uint64_t max_backoff_ns;
    uint64_t grace_ns;
    uint64_t interval_ns; /* between probes */
    box_agent_limits limits;
    char line[BOX_READY_LINE_BYTES];
} box_agent_manage;

/* INTRODUCED is box_agent_manage again. Descriptors: the text and record, the journal of stdout,
 * without BOX_MANAGE_TERMINAL that of stderr. */

typedef enum box_managed_state {
    BOX_MANAGED_STARTING = 1,
    BOX_MANAGED_RUNNING = 2,
    BOX_MANAGED_WAITING = 3, /* for its next start */
    BOX_MANAGED_STOPPING = 4,
    BOX_MANAGED_EXITED = 5, /* for good; journals are complete */
    BOX_MANAGED_FAILED = 6, /* error says why it never ran */
} box_managed_state;

enum {
    BOX_MANAGED_READY = 1,
    BOX_MANAGED_STDIN_COMES = 2,  /* one descriptor: the write end of its stdin */
    BOX_MANAGED_STDIN_CLOSED = 4, /* by CLOSE_STDIN or STOP */
    BOX_MANAGED_HAS_EXIT = 8,     /* a run has ended: exit is the last one's */
    BOX_MANAGED_STOPPED = 16,     /* it was asked to stop */
};

typedef struct box_agent_run_exit {
    int32_t exit_code; /* -1 when it ended by a signal */
    int32_t signal;
    uint32_t cause; /* box_agent_cause */
    uint32_t flags; /* BOX_EXIT_* */
    uint32_t leftovers;
    uint32_t own; /* 1: it had limits of its own, and these three are of them */
    uint64_t own_oom_kills;
    uint64_t own_pids_refused;
    uint64_t own_peak_bytes; /* 0 = not known */
    uint64_t wall_ns;
    uint64_t cpu_ns;
    uint64_t max_rss_bytes;
    uint64_t first_offset[2]; /* where the run's output begins in the journals, */
    uint64_t end_offset[2];   /* and ends */
} box_agent_run_exit;

/* Times: CLOCK_REALTIME in nanoseconds, 0 = not yet. */
typedef struct box_agent_managed {
    uint32_t state;
    uint32_t flags;
    int32_t pid;       /* 0 when it does not run */
    uint32_t runs;     /* how often it was begun */
    uint32_t restarts; /* that succeeded */
    uint32_t reserved;
    uint64_t run_id;       /* the command of the present or last run */
    uint64_t group;        /* its directory below BOX_AGENT_CGROUP_FD; 0 = it has none */
    uint64_t group_cpu_ns; /* CPU time in it before the run */
    int64_t created_ns;
    int64_t started_ns;
    int64_t exited_ns;
    int64_t ready_ns;
    int64_t next_start_ns;
    box_agent_run_exit exit;
    box_error error; /* FAILED; else of a restart that failed, or reason NONE */
} box_agent_managed;

typedef struct box_agent_stop {
    uint64_t grace_ns; /* BOX_STOP_DEFAULT_GRACE: the process's own; 0: KILL at once */
} box_agent_stop;

#define BOX_STOP_DEFAULT_GRACE UINT64_MAX

/* WATCH: tell when either stream has more than this. GREW: it has. One GREW for each WATCH. */
typedef struct box_agent_ends {
    uint64_t end[2];
} box_agent_ends;

typedef struct box_agent_resize {
    uint16_t rows;
    uint16_t columns;
    uint32_t reserved;
} box_agent_resize;
