/* What a backend is: a const table of operations that a warden runs. The operations are plain
 * blocking code in a short-lived helper process (never threads), never log, and report one
 * box_error. */
#pragma once

#include "base/error.h"
#include "base/id.h"
#include "warden/protocol.h"

typedef struct box_backend
    box_backend;          /* the backend's own state, made once at the warden's start */
struct box_warden_config; /* warden/config.h: what its root-owned file allows */

enum { BOX_SANDBOX_PLACE_BYTES = 2048 };

/* A sandbox as the warden keeps it, in memory and in its state file: enough to find everything of
 * it again after a crash. */
typedef struct box_sandbox_record {
    box_uid uid;
    box_uid instance;
    int32_t pid;             /* PID 1 of the sandbox, in the warden's pid namespace; 0 = not yet */
    uint32_t uid_base;       /* first host uid of its range; 0 = none */
    uint64_t start_time;     /* of that pid, /proc/PID/stat field 22: a reused pid is not ours */
    uint32_t flags;          /* BOX_CREATE_* */
    uint32_t memory_version; /* box_warden_answer.memory_version */
    int64_t memory_bytes;    /* limit of its commands */
    int64_t tmpfs_bytes;     /* sum of its tmpfs sizes: added to each memory limit */
    int64_t disk_bytes;      /* what its image may grow to; 0 = its workspace is no image */
    int64_t workspace_bytes; /* limit of a private workspace, 0 = it has none; and on disk what */
    int64_t workspace_free_bytes;  /* was free at first: the limit and a little more, */
    int64_t workspace_free_inodes; /* and the limit */
    char mount_path[BOX_WARDEN_MAX_PATH];
    char place[BOX_SANDBOX_PLACE_BYTES]; /* the backend's own words on where it was made */
} box_sandbox_record;

/* What create and adopt hand back besides the record. All -1 at first; the caller's to close. */
typedef struct box_sandbox_fds {
    int pidfd;
    int cgroup; /* -1 when there is none; so for all */
    int devpts;
    int memory;
    int pids;
    int image;  /* adopt: what else holds its image, see make_image */
    int mounts; /* what keeps its mounts, so that its last process does not have to take them down:
                   destroy's */
} box_sandbox_fds;

/* Makes a record outlive a crash of the helper and the warden. create calls save once `place` is
 * filled in and before anything is made that would have to be removed, and again when the process
 * exists and before that one may go on. */
typedef struct box_journal {
    int (*save)(void *owner, const box_sandbox_record *record, box_error *err);
    void *owner;
} box_journal;

/* What prepare leaves to create. */
typedef struct box_prepared {
    void *own;
    int watch; /* can be read when what was made is of no use any more; -1 = never */
} box_prepared;

typedef struct box_backend_ops {
    const char *name;   /* in the config file and in CreateSessionRequest.spec.backend */
    uint32_t isolation; /* box_warden_hello.isolation */
    /* The process behind fds->pidfd is the init of a pid namespace that holds all of the sandbox:
     * the warden kills it by itself, before destroy, and its end is that of them all. */
    bool pid1_is_all;
    /* Probes the host for real (a write, a mount, a clone): the guarantees it can give, and one
     * line. Runs once, in the warden itself. */
    int (*open)(const struct box_warden_config *config, box_backend **out, uint32_t *guarantees,
                char detail[BOX_WARDEN_MAX_NAME], box_error *err);
    void (*close)(box_backend *b);
    /* Workspaces on disk, with BOX_G_DISK_WORKSPACE only. The size of the file of an image that is
     * made for a workspace of `bytes`. */
    int64_t (*image_file_bytes)(int64_t bytes);
    /* An image for a workspace of up to `bytes`: empty, never used before, and gone with the last
     * descriptor when no sandbox has it. */
    int (*make_image)(box_backend *b, int64_t bytes, int *out, box_error *err);
    /* NULL: nothing can be done ahead. What does not depend on a request: runs before create in the
     * same process, maybe long before. Of the record uid and uid_base are filled in; the rest is
     * in create. It saves as create does, and what was made then is destroy's. */
    int (*prepare)(box_backend *b, const box_journal *journal, box_sandbox_record *record,
                   box_prepared *out, box_error *err);
    /* `request` is checked and has no defaults left open. `listen_fd` is what the agent inherits;
     * `image`, when record->disk_bytes is not 0, what becomes its workspace. record->uid, instance,
     * uid_base, flags are filled in before; on failure what was made stays for destroy.
     * answer->guarantees and memory_version are filled in. */
    int (*create)(box_backend *b, box_prepared *prepared, const box_warden_create *request,
                  int listen_fd, int image, const box_journal *journal, box_sandbox_record *record,
                  box_sandbox_fds *fds, box_warden_answer *answer, box_error *err);
    /* The descriptors of one that lives, after the warden's restart or for another boxd. */
    int (*adopt)(box_backend *b, const box_sandbox_record *record, box_sandbox_fds *fds,
                 box_error *err);
    /* Idempotent: also cleans up what is left of one that is half made or dead, or of whose record
     * only the uid is known (warden/state.h). `image` and `mounts` (-1 = none) are taken: the last
     * descriptors of its image and its mounts, closed when no process of it lives. *oom is set when
     * the kernel had killed its PID 1 for memory. */
    int (*destroy)(box_backend *b, box_sandbox_record *record, int image, int mounts, uint32_t *oom,
                   box_error *err);
    int (*alive)(box_backend *b, const box_sandbox_record *record, box_alive *out, box_error *err);
    int (*set_limits)(box_backend *b, const box_sandbox_record *record,
                      const box_warden_limits *limits, box_error *err);
    int (*usage)(box_backend *b, const box_sandbox_record *record, int image,
                 box_warden_answer *out, box_error *err);
} box_backend_ops;

/* The one const array of backends this program was built with; NULL when there is none of that
 * name. */
const box_backend_ops *box_backend_find(const char *name);
