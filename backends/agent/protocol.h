/* The agent channel: boxd <-> box-agent (PID 1 of a sandbox), one SEQPACKET socket per sandbox.
 *
 * boxd binds the listening socket in its own directory and sends its descriptor with the warden's
 * create; the agent inherits it as descriptor BOX_AGENT_LISTEN_FD and accepts one boxd at a time
 * (SO_PEERCRED shows pid 0 from outside the pid namespace; anything else is refused). Both sides
 * send HELLO first and refuse another version. Output, input and signals of a command never go
 * through here: START carries the pipes' ends.
 *
 * Every message is one packet: a box_agent_header, then the struct of its type, then (START) text.
 * All fields are host byte order; sizes are exact; reserved bytes are 0. Either side drops the
 * connection at the first message that does not fit, and boxd calls the session broken. The agent
 * trusts nothing here either: everything is checked again. Descriptors are taken only with START.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"

enum {
    BOX_AGENT_VERSION = 1,
    BOX_AGENT_LISTEN_FD = 3, /* inherited: the listening socket */
    BOX_AGENT_SETUP_FD = 4,  /* inherited: a box_agent_setup, a read-only memfd */
    BOX_AGENT_FILTER_FD =
        5, /* inherited: seccomp program (struct sock_filter[]), a read-only memfd */
    BOX_AGENT_CGROUP_FD = 6, /* inherited when setup says so: directory S/box/x of a cgroup2 tree */
    BOX_AGENT_BOX_PROCS_FD = 7, /* first of setup.n_box_procs: open cgroup.procs files of S/box */
    BOX_AGENT_MAX_BOX_PROCS = 8,
    BOX_AGENT_ORPHAN_SECONDS =
        60, /* an agent that no boxd is connected to for this long ends itself */
};

/* Written by the warden's helper for the agent it starts. */
typedef struct box_agent_setup {
    uint32_t version;
    uint32_t command_uid;    /* 1000 */
    uint32_t command_gid;    /* 1000 */
    uint32_t has_cgroup2;    /* BOX_AGENT_CGROUP_FD is there: a cgroup per command */
    uint32_t n_box_procs;    /* "0" written to each moves the writer into S/box */
    uint32_t orphan_seconds; /* 0 = BOX_AGENT_ORPHAN_SECONDS */
    uint32_t reserved[2];
} box_agent_setup;

typedef enum box_agent_type {
    BOX_AGENT_HELLO = 1, /* both */
    BOX_AGENT_START =
        2, /* boxd -> agent; descriptors stdin, stdout, stderr[, memfd with the text] */
    BOX_AGENT_STARTED = 3, /* agent -> boxd: it runs, or err says why it does not */
    BOX_AGENT_SIGNAL = 4,  /* boxd -> agent */
    BOX_AGENT_EXIT =
        5, /* agent -> boxd: the main process ended and the leftovers were dealt with */
    BOX_AGENT_EXIT_ACK = 6, /* boxd -> agent: the verdict was read, forget the command */
    BOX_AGENT_SHUTDOWN = 7, /* boxd -> agent: kill everything and end */
    BOX_AGENT_PING = 8,     /* boxd -> agent */
    BOX_AGENT_PONG = 9,     /* agent -> boxd, same id */
} box_agent_type;

typedef struct box_agent_header {
    uint32_t type;
    uint32_t size; /* of the whole packet */
    uint64_t
        id; /* the command's, chosen by boxd, never used twice on one agent; PING: any; else 0 */
} box_agent_header;

typedef struct box_agent_hello {
    uint32_t version;
    uint32_t features; /* agent: BOX_AGENT_HAS_*; boxd: 0 */
    uint32_t running;  /* agent: commands that run (adoption) */
    uint32_t reserved;
} box_agent_hello;

enum {
    BOX_AGENT_HAS_CGROUPS = 1, /* a cgroup2 directory per command: exact kill and CPU time */
};

enum {
    BOX_START_KILL_LEFTOVERS =
        1, /* what the command leaves behind is killed; else kept and counted */
    BOX_START_TEXT_IN_MEMFD =
        2, /* the text is in the fourth descriptor (sealed), not in the packet */
};

/* Followed by (or in the memfd) text_len bytes: argc arguments, envc "K=V", the directory to start
 * in; each ended by NUL. argc >= 1. argv[0] without a slash is looked up in env's PATH. */
typedef struct box_agent_start {
    uint64_t timeout_ns; /* what remains, from now; 0 = none. The agent's timer ends the command. */
    uint32_t flags;
    uint32_t argc;
    uint32_t envc;
    uint32_t text_len;
    uint32_t reserved[2];
} box_agent_start;

typedef struct box_agent_started {
    int32_t pid; /* in the sandbox's pid namespace; 0 when it did not start */
    uint32_t reserved;
    box_error error; /* reason NONE: it runs (exec succeeded). FILE_NOT_FOUND, PERMISSION,
                      * VALIDATION, QUOTA (limit "pids" or "memory"), INTERNAL: it never ran. */
} box_agent_started;

typedef enum box_agent_scope {
    BOX_SCOPE_MAIN = 0, /* the main process */
    BOX_SCOPE_TREE = 1, /* everything the command started: KILL only, repeated until none is left */
} box_agent_scope;

/* Why boxd wants it dead; comes back as EXIT's cause. */
typedef enum box_agent_cause {
    BOX_CAUSE_NONE = 0,         /* ended by itself (or a signal of the caller) */
    BOX_CAUSE_TIMEOUT = 1,      /* the agent's own timer */
    BOX_CAUSE_IDLE_TIMEOUT = 2, /* boxd's */
    BOX_CAUSE_CANCELLED = 3,
    BOX_CAUSE_OUTPUT_LIMIT = 4,
    BOX_CAUSE_STOPPED = 5, /* the session is going away */
} box_agent_cause;

typedef struct box_agent_signal {
    uint32_t signo;
    uint32_t scope;
    uint32_t cause; /* with scope TREE; the first cause stays */
    uint32_t reserved;
} box_agent_signal;

enum {
    BOX_EXIT_CORE_DUMPED = 1,
    BOX_EXIT_LEFTOVERS_KILLED = 2,
    BOX_EXIT_CPU_FROM_CGROUP = 4, /* cpu_ns counts the whole tree; else the reaped processes */
};

typedef struct box_agent_exit {
    int32_t exit_code; /* -1 when it ended by a signal */
    int32_t signal;    /* 0 when it ended by exit */
    uint32_t cause;    /* box_agent_cause: the first that fired */
    uint32_t flags;
    uint32_t leftovers; /* processes alive when the main one ended */
    uint32_t reserved;
    uint64_t wall_ns;
    uint64_t cpu_ns;
    uint64_t max_rss_bytes; /* largest single process that was reaped (ru_maxrss) */
} box_agent_exit;

/* Bounds that both sides check. */
enum {
    BOX_AGENT_MAX_COMMANDS = 1024, /* at once, per sandbox */
    BOX_AGENT_PACKET_BYTES = 128 * 1024,
};
