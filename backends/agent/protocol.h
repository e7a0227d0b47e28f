/* The agent channel: boxd <-> box-agent (PID 1 of a sandbox), one SEQPACKET socket per sandbox.
 *
 * boxd binds the listening socket in its own directory and sends its descriptor with the warden's
 * create; the agent inherits it as descriptor BOX_AGENT_LISTEN_FD and accepts one boxd at a time
 * (SO_PEERCRED shows pid 0 from outside the pid namespace; anything else is refused). Both sides
 * send HELLO first and refuse another version. Output, input and signals of a command never go
 * through here: START carries the pipes' ends, STARTED a terminal's.
 *
 * Every message is one packet: a box_agent_header, then the struct of its type, then (START) text.
 * All fields are host byte order; sizes are exact; reserved bytes are 0. Either side drops the
 * connection at the first message that does not fit, and boxd calls the session broken. The agent
 * trusts nothing here either: everything is checked again. Descriptors are taken only where a
 * type's comment says so.
 *
 * A command's life: START -> STARTED (once; with an error it ends there and the id is forgotten) ->
 * EXIT -> EXIT_ACK. An EXIT without a STARTED before it says both (never where that would have
 * brought a terminal). Boxd sends the next START when
 * STARTED came; up to BOX_AGENT_MAX_STARTING may be under way, more are refused with EXEC_QUEUE.
 * When boxd goes away commands go on. To the boxd that connects next the agent repeats, after
 * HELLO, STARTED for every command it still has (HELLO.running of them) and EXIT for those that
 * ended: that is how a restarted boxd adopts. An agent accepts nobody else meanwhile.
 * SIGNAL and EXIT_ACK for an id the agent does not know are ignored: the command may just have
 * ended.
 *
 * Where setup says has_cgroup2, a command runs in directory EXIT.group (decimal) of
 * BOX_AGENT_CGROUP_FD, which is there until EXIT_ACK, and after that while leftovers live in it.
 * One in which nothing was left may be used for another command then; a number is never given to a
 * second directory, and none that was used is used again when another boxd has connected. Boxd
 * reads its cpu.stat through its own descriptor before it acknowledges, and takes off what was
 * there at the last EXIT of that group.
 */
#pragma once

#include <stdint.h>

#include "agent/process.h"
#include "base/error.h"
#include "base/limits.h"

enum {
    BOX_AGENT_VERSION = 5,
    BOX_AGENT_LISTEN_FD = 3, /* inherited: the listening socket */
    BOX_AGENT_SETUP_FD = 4,  /* inherited: a box_agent_setup, a read-only memfd */
    BOX_AGENT_FILTER_FD =
        5, /* inherited: seccomp program (struct sock_filter[]), a read-only memfd; empty: none */
    BOX_AGENT_CGROUP_FD = 6, /* inherited when setup says so: directory S/box/x of a cgroup2 tree */
    BOX_AGENT_FILES_FD = 7,  /* inherited when setup says so: the program box-files; nobody inside
                              * may read it, so that its processes are not the commands' to trace */
    BOX_AGENT_BOX_PROCS_FD = 8, /* first of setup.n_box_procs: open files of S/box; see there */
    BOX_AGENT_MAX_BOX_PROCS = 8,
    BOX_AGENT_LIMIT_DIRS = 3, /* behind them with setup.limits_version 1: directories S/box of the
                               * memory, pids and cpu controllers, the base uid's */
};

enum {
    /* Accept any peer: for an agent in the same pid namespace as boxd (tests, backend host). */
    BOX_AGENT_SETUP_ANY_PEER = 1,
    /* Act as on a kernel before 5.14: kill by freezing and signalling, not by cgroup.kill. */
    BOX_AGENT_SETUP_NO_CGROUP_KILL = 2,
    /* There is one id: the agent is the commands' user, and needs and has no capability. */
    BOX_AGENT_SETUP_ONE_USER = 4,
};

/* Written by the warden's helper for the agent it starts. The agent is exec'd as PID 1, uid and gid
 * 0 of the user namespace, with capabilities KILL, SETUID, SETGID permitted, and SETPCAP if the
 * bounding set is not empty yet: the agent empties it, then gives SETPCAP and all others up.
 * Descriptors 0-2 are the warden's choice (/dev/null; 2 gets one line when agent or zygote cannot
 * start). The seccomp program binds commands and the zygote, so it allows what starting needs:
 * clone3 or clone, setsid, dup2, close_range, setresuid, setresgid, capset, chdir, execve, openat,
 * write, fcntl, fstat, mmap, munmap, poll, sendmsg, recvmsg, close, kill, exit_group. S/box/x and
 * cgroup.procs of S, S/box and S/box/x belong to the base uid: CLONE_INTO_CGROUP asks for that.
 * RLIMIT_NOFILE's hard limit is at least 4096. */
typedef struct box_agent_setup {
    uint32_t version;
    uint32_t command_uid;    /* 1000 */
    uint32_t command_gid;    /* 1000 */
    uint32_t has_cgroup2;    /* BOX_AGENT_CGROUP_FD is there: a cgroup per command */
    uint32_t n_box_procs;    /* "0" written to each moves the writer, of one thread, into S/box:
                              * `tasks` on v1, cgroup.procs of a cgroup2 tree, which is the first one
                              * where has_cgroup2 is set */
    uint32_t orphan_seconds; /* it ends itself when no boxd is connected to it for this long; 0 =
                              * BOX_AGENT_ORPHAN_SECONDS */
    uint32_t flags;          /* BOX_AGENT_SETUP_*: 0 in production */
    uint32_t has_files;      /* BOX_AGENT_FILES_FD is there */
    uint32_t max_processes;  /* RLIMIT_NPROC of the commands' user; 0 = none */
    uint32_t limits_version; /* of processes' own limits (limits.h): 1, or 2 with has_cgroup2: then
                              * S/box, its cgroup.subtree_control and that of S/box/x are the base
                              * uid's too; 0 = there are none */
    char workspace[1024];    /* where the private workspace is inside; "" = it has none */
} box_agent_setup;

typedef enum box_agent_type {
    BOX_AGENT_HELLO = 1,   /* both */
    BOX_AGENT_START = 2,   /* boxd -> agent; descriptors [stdin, ]stdout, stderr[, memfd with the
                            * text]; with BOX_START_TERMINAL only [memfd] */
    BOX_AGENT_STARTED = 3, /* agent -> boxd: it runs, or err says why it does not; perhaps with
                            * descriptors */
    BOX_AGENT_SIGNAL = 4,  /* boxd -> agent */
    BOX_AGENT_EXIT =
        5, /* agent -> boxd: the main process ended and the leftovers were dealt with */
    BOX_AGENT_EXIT_ACK = 6, /* boxd -> agent: the verdict was read, forget the command */
    BOX_AGENT_SHUTDOWN = 7, /* boxd -> agent: kill everything and end */
    BOX_AGENT_PING = 8,     /* boxd -> agent */
    BOX_AGENT_PONG = 9,     /* agent -> boxd, same id */
    /* Managed processes: process.h. Their id is the process's. */
    BOX_AGENT_MANAGE = 10,      /* boxd -> agent, with descriptors */
    BOX_AGENT_INTRODUCED = 11,  /* agent -> boxd, with descriptors */
    BOX_AGENT_MANAGED = 12,     /* agent -> boxd, perhaps with one */
    BOX_AGENT_STOP = 13,        /* boxd -> agent: end of stdin, TERM, KILL */
    BOX_AGENT_FORGET = 14,      /* boxd -> agent: its record, when it has EXITED */
    BOX_AGENT_CLOSE_STDIN = 15, /* boxd -> agent */
    BOX_AGENT_WATCH = 16,       /* boxd -> agent */
    BOX_AGENT_GREW = 17,        /* agent -> boxd */
    BOX_AGENT_RESIZE = 18,      /* boxd -> agent: of its terminal */
    /* File workers. Their ids are boxd's too, from 1, apart from those of commands. */
    BOX_AGENT_FILES = 32,       /* boxd -> agent: start one; a descriptor, its socket */
    BOX_AGENT_FILES_STOP = 33,  /* boxd -> agent: it ends within BOX_FILES_GRACE_SECONDS */
    BOX_AGENT_FILES_ENDED = 34, /* agent -> boxd: of every FILES, once */
    /* Ports. Their ids are boxd's too, from 1, apart from all others. */
    BOX_AGENT_CONNECT = 40,   /* boxd -> agent: to a port on loopback; BOX_MAX_FORWARDS at once */
    BOX_AGENT_CONNECTED = 41, /* agent -> boxd: of every CONNECT, once; its socket, unless error */
} box_agent_type;

typedef struct box_agent_header {
    uint32_t type;
    uint32_t size; /* of the whole packet */
    uint64_t id; /* the command's or worker's, chosen by boxd, never used twice on one agent; PING:
                  * any; else 0 */
} box_agent_header;

typedef struct box_agent_hello {
    uint32_t version;
    uint32_t features;  /* agent: BOX_AGENT_HAS_*; boxd: 0 */
    uint32_t running;   /* agent: commands it still has, each repeated after HELLO (adoption) */
    uint32_t processes; /* agent: the same of managed processes */
} box_agent_hello;

enum {
    BOX_AGENT_HAS_CGROUPS = 1, /* a cgroup2 directory per command: exact kill and CPU time */
    BOX_AGENT_HAS_REAPERS = 2, /* instead: a uid-0 subreaper per command, kill by walking /proc */
};

enum {
    BOX_START_KILL_LEFTOVERS =
        1, /* what the command leaves behind is killed; else kept and counted */
    BOX_START_TEXT_IN_MEMFD =
        2,                  /* the text is in the last descriptor (sealed), not in the packet */
    BOX_START_TERMINAL = 4, /* it gets a terminal of the sandbox's, which is its controlling one, in
                             * place of pipes */
    BOX_START_NO_STDIN = 8, /* no descriptor for it: the command gets the sandbox's /dev/null */
};

enum {
    /* The agent to its zygote, in start.reserved[1]: so much more for each open file of a control
     * group behind the text that the command enters; what is below counts journals behind those. */
    BOX_START_ENTRY = 1 << 8,
};

/* Followed by (or in the memfd) text_len bytes: argc arguments, envc "K=V", the directory to start
 * in; each ended by NUL. argc >= 1. argv[0] without a slash is looked up in env's PATH. */
typedef struct box_agent_start {
    uint64_t timeout_ns; /* what remains, from now; 0 = none. The agent's timer ends the command. */
    uint32_t flags;
    uint32_t argc;
    uint32_t envc;
    uint32_t text_len;
    uint16_t rows; /* with BOX_START_TERMINAL: its size; 0: 24, 80 */
    uint16_t columns;
    uint32_t reserved[3]; /* the first two: between agent and zygote (zygote.h) */
} box_agent_start;

enum {
    /* Two descriptors: its terminal, nonblocking, and the other side of it, by which boxd keeps it
     * from counting as closed when no process has it open for a while. They come once: boxd's end
     * is the terminal's. */
    BOX_STARTED_TERMINAL = 1,
};

typedef struct box_agent_started {
    int32_t pid;     /* in the sandbox's pid namespace; 0 when it did not start */
    uint32_t flags;  /* BOX_STARTED_* */
    box_error error; /* reason NONE: it runs (exec succeeded). Otherwise it never ran:
                      * FILE_NOT_FOUND (kind "command" or "workdir", id), PERMISSION, VALIDATION
                      * (not a program; too many arguments), QUOTA (limit "pids", "memory",
                      * "commands", "descriptors" or "terminals"), EXEC_QUEUE, INTERNAL. */
} box_agent_started;

typedef enum box_agent_scope {
    BOX_SCOPE_MAIN = 0, /* the main process alone, not its group: it may have handed the signal on
                         * to its children itself, and a group can be left by anyone */
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
    BOX_EXIT_WORKSPACE_FULL = 8,  /* no block or no inode was free when the main process ended */
};

typedef struct box_agent_exit {
    int32_t exit_code; /* -1 when it ended by a signal */
    int32_t signal;    /* 0 when it ended by exit */
    uint32_t cause;    /* box_agent_cause: the first that fired */
    uint32_t flags;
    uint32_t leftovers; /* processes alive when the main one ended */
    int32_t pid;        /* the main process's, as in STARTED */
    uint64_t group;     /* its directory; 0 = it had none */
    uint64_t wall_ns;
    uint64_t cpu_ns;
    uint64_t max_rss_bytes; /* largest single process that was reaped (ru_maxrss) */
} box_agent_exit;

enum {
    /* Not in S/box but in S/agent, with little memory: for removing files when S/box has none. */
    BOX_AGENT_FILES_IN_AGENT = 1,
};

typedef struct box_agent_files {
    uint32_t flags;
    uint32_t reserved;
} box_agent_files;

typedef struct box_agent_files_ended {
    int32_t signal; /* that ended it; 0 = none */
    uint32_t reserved;
    box_error error; /* reason NONE: it ran */
} box_agent_files_ended;

typedef struct box_agent_connect {
    uint32_t port; /* TCP, 1 to 65535: on 127.0.0.1, and if that refuses on ::1 */
    uint32_t reserved;
} box_agent_connect;

typedef struct box_agent_connected {
    box_error error; /* reason NONE: it stands, and the socket is boxd's alone. Else
                      * RUNTIME_UNAVAILABLE {cause: "refused" or "timeout", port}, QUOTA (limit
                      * "descriptors"), INTERNAL. */
} box_agent_connected;
