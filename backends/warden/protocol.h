/* The warden channel: boxd <-> box-warden, one SEQPACKET socket per backend. Small fixed-size
 * messages, which the warden validates again against its own configuration (allowed roots, owner
 * uids, images, hard maxima): boxd's policy can only narrow it.
 *
 * boxd connects and sends HELLO; the warden answers HELLO with its capability report or refuses
 * (error). Then boxd asks, each request with an id of its own, and the warden answers each with one
 * ANSWER of the same id, in any order. Sandboxes belong to the boxd instance that created them:
 * another instance never sees them; of two connections with one instance the newer one stays.
 * EXITED and PREPARED come by themselves. Host byte order, exact sizes, reserved bytes
 * 0; strings are NUL-ended within their array. A packet that breaks these rules ends the
 * connection.
 *
 * A sandbox that is not (or no longer) there: DESTROY is done, ALIVE and KEEP answer BOX_DEAD,
 * LIMITS and USAGE SESSION_NOT_FOUND. */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/id.h"

enum {
    BOX_WARDEN_VERSION = 3,
    BOX_WARDEN_MAX_PATH = 1024,
    BOX_WARDEN_MAX_NAME = 256,
};

typedef enum box_warden_type {
    BOX_WARDEN_HELLO = 1,  /* both */
    BOX_WARDEN_CREATE = 2, /* descriptor: the agent's listening socket */
    /* Kill, unmount, remove. Answered when none of its processes lives where the backend can tell
     * (else when nothing of it is left); what is left is removed behind the answer, by the next
     * warden if need be. */
    BOX_WARDEN_DESTROY = 3,
    BOX_WARDEN_ALIVE = 4,
    BOX_WARDEN_LIMITS = 5, /* live memory, pids, cpu */
    BOX_WARDEN_USAGE = 6,
    BOX_WARDEN_KEEP = 7, /* after HELLO, once per sandbox to adopt; then */
    BOX_WARDEN_SWEEP =
        8, /* everything of this instance that was not kept or created since is removed */
    BOX_WARDEN_ANSWER = 16,
    BOX_WARDEN_EXITED = 17,   /* warden -> boxd, by itself */
    BOX_WARDEN_PREPARED = 18, /* warden -> boxd, by itself: a CREATE of this uid, which is nobody's
                               * yet, is faster than others */
} box_warden_type;

typedef struct box_warden_header {
    uint32_t type;
    uint32_t size; /* of the whole packet */
    uint64_t id;   /* of the request; answers repeat it; 0 in HELLO and EXITED */
} box_warden_header;

/* What a backend can give: the capability report. A bit that is not set is GUARANTEE_UNSUPPORTED
 * when asked for. Names in box_guarantee_name(). */
typedef enum box_guarantee {
    BOX_G_FILESYSTEM = 1 << 0, /* private root; nothing of the host but read-only /usr */
    BOX_G_PROCESS = 1 << 1,    /* own pid namespace */
    BOX_G_NETWORK_OFF = 1 << 2,
    BOX_G_NETWORK_ON = 1 << 3,
    BOX_G_USER = 1 << 4, /* own user namespace, uid range per session */
    BOX_G_SECCOMP = 1 << 5,
    BOX_G_MEMORY = 1 << 6, /* hard memory limit */
    BOX_G_PIDS = 1 << 7,
    BOX_G_CPU = 1 << 8,
    BOX_G_WORKSPACE_LIMIT = 1 << 9, /* kernel-enforced size */
    BOX_G_READ_ONLY_ROOT = 1 << 10,
    BOX_G_WRITABLE_ROOT = 1 << 11,
    BOX_G_HOST_MOUNT = 1 << 12,
    BOX_G_IMAGES = 1 << 13,
    BOX_G_PERSISTENT = 1 << 14,      /* outlives boxd and warden, until the host's reboot */
    BOX_G_COMMAND_CGROUP = 1 << 15,  /* exact kill and accounting per command */
    BOX_G_AGENT_SEPARATED = 1 << 16, /* commands cannot touch the agent */
    BOX_G_LIVE_LIMITS = 1 << 17,
    BOX_G_DISK_WORKSPACE = 1 << 18, /* a private workspace on disk, with a hard limit of its own */
    BOX_G_PROCESS_LIMITS = 1 << 19, /* limits of a managed process's own */
    /* What admission.required asks: what backend host has not. */
    BOX_G_ISOLATED = BOX_G_FILESYSTEM | BOX_G_PROCESS | BOX_G_USER,
} box_guarantee;

/* A larger private workspace is on disk. So is that of a persistent sandbox where the backend has
 * BOX_G_DISK_WORKSPACE. */
#define BOX_WARDEN_TMPFS_WORKSPACE_BYTES (INT64_C(256) << 20)

/* "memory" for BOX_G_MEMORY, ...; NULL for a value that is no single bit. In protocol.c. */
const char *box_guarantee_name(uint32_t bit);
/* The bit of a name; 0 when there is none. */
uint32_t box_guarantee_from_name(const char *name);

typedef struct box_warden_hello {
    uint32_t version;
    uint32_t reserved;
    box_uid instance; /* boxd -> warden: who asks (random, kept in its state dir) */
    char backend[BOX_WARDEN_MAX_NAME]; /* boxd: the one it wants; warden: the one it is */
    /* warden -> boxd */
    char detail[BOX_WARDEN_MAX_NAME]; /* what it runs on: "cgroup v1 hybrid, kernel 6.1.0" */
    uint32_t guarantees;              /* box_guarantee bits */
    uint32_t isolation;               /* 0 none, 1 process, 2 container, 3 virtual machine */
    box_error error;                  /* reason NONE, or why it refuses or cannot work */
} box_warden_hello;

enum {
    BOX_CREATE_NETWORK_ON = 1,
    BOX_CREATE_WRITABLE_ROOT = 2,
    BOX_CREATE_HOST_READ_ONLY = 4, /* the host_path mount */
    BOX_CREATE_PERSISTENT = 8,
};

/* A field that is 0 or "" means the warden's default of design section 6. Sizes in bytes. */
typedef struct box_warden_create {
    box_uid uid;
    uint32_t flags;
    int32_t cpu_millis;
    int64_t memory_bytes; /* of commands; the warden adds the sum of the tmpfs sizes */
    int64_t pids;
    int64_t workspace_bytes;
    int64_t tmp_bytes;
    int64_t home_bytes;
    int64_t shm_bytes;
    uint32_t required; /* box_guarantee bits that must hold, else nothing is made */
    uint32_t reserved;
    char image[BOX_WARDEN_MAX_NAME];      /* "" = host root */
    char mount_path[BOX_WARDEN_MAX_PATH]; /* "" = /workspace */
    char host_path[BOX_WARDEN_MAX_PATH];  /* "" = a private volume */
} box_warden_create;

typedef struct box_warden_target {
    box_uid uid;
} box_warden_target; /* DESTROY, ALIVE, USAGE, KEEP, PREPARED; SWEEP: all zero */

typedef struct box_warden_limits {
    box_uid uid;
    int64_t memory_bytes; /* 0 = leave */
    int64_t pids;
    int32_t cpu_millis;
    uint32_t reserved;
} box_warden_limits;

typedef enum box_alive { BOX_DEAD = 0, BOX_ALIVE = 1, BOX_ALIVE_UNKNOWN = 2 } box_alive;

/* Descriptors come with the answer to CREATE (and KEEP), in this order, as the bits say. */
enum {
    BOX_ANSWER_FD_CGROUP =
        1, /* directory S/box/x of the cgroup2 tree, for cpu.stat and memory.peak */
    BOX_ANSWER_FD_DEVPTS = 2, /* the sandbox's devpts mount */
    BOX_ANSWER_FD_PIDFD = 4,  /* of PID 1 */
    BOX_ANSWER_FD_MEMORY = 8, /* read-only directory with the session's memory events and peak */
    BOX_ANSWER_FD_PIDS = 16,  /* read-only directory with the session's pids.events */
    BOX_ANSWER_FD_ALL = 31,
    BOX_ANSWER_MAX_FDS = 5,
};

typedef struct box_warden_answer {
    box_error error;         /* reason NONE = done */
    uint32_t fds;            /* BOX_ANSWER_FD_* */
    uint32_t alive;          /* ALIVE, KEEP */
    uint32_t guarantees;     /* CREATE: what holds for this sandbox */
    uint32_t memory_version; /* CREATE: 1 or 2: which cgroup files BOX_ANSWER_FD_MEMORY has */
    /* USAGE */
    int64_t memory_bytes;
    int64_t memory_peak_bytes;
    int64_t pids;
    int64_t cpu_ns;
    int64_t
        workspace_bytes; /* used; -1 = not known, or no private one: the next three say nothing */
    int64_t workspace_limit_bytes;
    int64_t workspace_inodes; /* used */
    int64_t workspace_inode_limit;
    int64_t oom_kills;
} box_warden_answer;

/* Sent when nothing of it is left any more. Not sent for one that DESTROY or SWEEP ended. */
typedef struct box_warden_exited {
    box_uid uid;
    int32_t
        status;   /* wait status of PID 1; -1 when not known (the warden was restarted meanwhile) */
    uint32_t oom; /* the kernel killed it for memory */
} box_warden_exited;

enum { BOX_WARDEN_PACKET_BYTES = 8192 };
