/* What the files of the warden's main loop share. warden.c owns the loop, conn.c connections,
 * ask.c their requests, job.c the queue and helpers, again.c creates that are done again, standby.c
 * helpers that wait for their job, sandbox.c the table and what happens to a sandbox, disk.c images
 * of workspaces. */
#pragma once

#include <sys/types.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/map.h"
#include "warden/image_pool.h"
#include "warden/uids.h"
#include "warden/warden.h"

/* Something the loop polls. */
typedef struct warden_watch {
    int fd; /* -1 = not watched */
    void (*ready)(box_warden *w, struct warden_watch *watch, uint32_t events);
} warden_watch;

/* One answer that boxd has not taken yet. */
typedef struct warden_packet {
    box_list link;
    size_t n_fds;
    int fds[BOX_ANSWER_MAX_FDS];
    size_t len;
    uint8_t data[BOX_WARDEN_PACKET_BYTES];
} warden_packet;

typedef struct warden_conn {
    box_list link;
    warden_watch watch;
    uint64_t serial; /* never used twice: what outlives a connection refers to it by this */
    bool greeted;
    bool private; /* --boxd-fd */
    bool broken;  /* to be closed by the loop */
    box_uid instance;
    box_list unsent; /* warden_packet */
    size_t n_unsent;
} warden_conn;

typedef enum job_kind {
    JOB_CREATE,
    JOB_DESTROY,
    JOB_CLEAR, /* before its CREATE is done again: as DESTROY, but the sandbox stays */
    JOB_ALIVE,
    JOB_LIMITS,
    JOB_USAGE,
    JOB_KEEP,
    JOB_ADOPT, /* after the warden's start: find out whether it lives */
    JOB_IMAGE, /* before its CREATE, when none was ready */
    JOB_FILL,  /* an image for the pool: of no sandbox */
} job_kind;

struct warden_sandbox;

/* One operation, of all but FILL on one sandbox: waits in the queue, then runs in a helper. */
typedef struct warden_job {
    box_list link;
    job_kind kind;
    struct warden_sandbox *sandbox; /* lives at least as long as its jobs; FILL: NULL */
    uint64_t conn;                  /* serial of who asked; 0 = the warden itself */
    uint64_t id;                    /* of the request */
    box_warden_create create;
    bool prepared; /* CREATE: by what was prepared; once that is lost, by a helper that does it all
                    */
    box_warden_limits limits;
    int64_t image_bytes; /* IMAGE, FILL */
    int listen_fd;
    warden_watch helper; /* the socket it reports on */
    int pidfd;           /* of the helper */
    box_time deadline;
    box_time not_before; /* of JOB_DESTROY, unless the sandbox is dead before */
} warden_job;

/* What a helper sends, with the descriptors that answer.fds tells, and after them those of
 * warden_held. */
typedef struct warden_result {
    box_error error;
    box_sandbox_record record;
    box_warden_answer answer;
    uint32_t oom;
    bool has_mounts;
    bool has_image;
    bool lost; /* the warden's own: the helper could not do or tell it */
} warden_result;

enum { RESULT_MAX_FDS = BOX_ANSWER_MAX_FDS + 2 };

/* What holds parts of a sandbox besides itself, so that its end does not wait for their removal,
 * which is left to the helper that destroys it; -1 = nothing. */
typedef struct warden_held {
    int mounts; /* box_sandbox_fds.mounts */
    int image;
} warden_held;

/* A helper that made its preparations before anybody asked for them (backend.h, prepare), and waits
 * for a CREATE. */
typedef struct warden_standby {
    box_list link;
    box_sandbox_record record; /* `place` and others come when it is ready */
    warden_watch socket;
    int pidfd;
    bool ready;
    uint64_t told;     /* serial of the connection that knows of it; 0 = none */
    box_time deadline; /* to be ready */
} warden_standby;

/* box_journal for a helper. */
typedef struct warden_journal {
    const struct box_warden *w;
    bool prepared; /* for nobody yet */
    bool claim;    /* for somebody from the next save on */
    int file;      /* -1 at first */
} warden_journal;

/* A SWEEP that waits for its sandboxes. */
typedef struct warden_sweep {
    uint64_t conn;
    uint64_t id;
    size_t left;
    box_error error; /* the first */
} warden_sweep;

/* Somebody who is told when a sandbox is dead (a DESTROY) or gone (a share of a sweep). */
typedef struct warden_waiter {
    box_list link;
    uint64_t conn;
    uint64_t id;
    warden_sweep *sweep;
} warden_waiter;

typedef enum sandbox_state {
    SANDBOX_CREATING,
    SANDBOX_LIVE,
    SANDBOX_ENDING, /* a destroy is queued, runs, or will be tried again */
} sandbox_state;

typedef struct warden_sandbox {
    box_sandbox_record record;
    warden_watch pid; /* pidfd of PID 1 */
    warden_held held;
    int64_t image_used; /* bytes, when they were looked at last (disk.c) */
    sandbox_state state;
    bool busy;            /* a helper works on it */
    bool owns_uids;       /* its range is marked as taken */
    bool dead;            /* no process of it lives: DESTROY is answered, the rest goes behind it */
    bool tell_exited;     /* boxd gets EXITED when it is gone */
    bool unread;          /* what its helper wrote down could not be read: who destroys it does */
    int status;           /* wait status of PID 1, -1 = not known */
    uint64_t conn;        /* serial of the connection that created or kept it */
    int64_t memory_bytes; /* its part of the warden's: memory.h */
    warden_standby *standby; /* that is to make it; NULL = none, or it does */
    box_list waiters;
    box_time retry_at; /* when its destroy, or adoption, is tried again; 0 = not */
} warden_sandbox;

/* The request's descriptor, the socket to tell on, what is held. */
enum {
    WARDEN_SLOT_REQUEST = 0,
    WARDEN_SLOT_RESULT = 1,
    WARDEN_SLOT_IMAGE = 2,
    WARDEN_SLOT_MOUNTS = 3,
    WARDEN_SLOTS
};

struct box_warden {
    const box_warden_config *config;
    const box_backend_ops *ops;
    box_backend *backend;
    box_error open_error; /* why there is no backend */
    uint32_t guarantees;
    char detail[BOX_WARDEN_MAX_NAME];
    uid_t peer_uid;
    int epoll;
    int state_dir;
    int slots[WARDEN_SLOTS]; /* in a helper */
    int last_static_fd;      /* descriptors above it belong to connections and jobs */
    warden_watch signals;
    warden_watch listener;
    box_time flush_at; /* too many descriptors are in flight to send now; 0 = not so */
    bool accept_rests; /* out of descriptors: who wants to connect waits in the kernel's queue */
    box_list conns;
    size_t n_conns;
    uint64_t next_serial;
    box_uids *uids;
    box_image_pool *images; /* NULL = no workspaces on disk */
    bool filling;           /* a FILL is queued or runs */
    box_time fill_at;       /* none begins before */
    box_time used_at;       /* when image_used of the sandboxes was looked at */
    box_map *sandboxes;     /* by uid bytes */
    int64_t memory_bytes;   /* that all sandboxes together may use */
    box_list queue;         /* warden_job */
    size_t n_queue;         /* those that boxd asked for */
    size_t n_creates;       /* CREATE jobs that wait or run */
    box_list running;
    size_t n_running;
    size_t n_destroying; /* of them */
    box_list standbys;   /* warden_standby */
    size_t n_standbys;
    size_t n_preparing;  /* of them */
    box_time prepare_at; /* after a failure: not before; 0 = at once */
    box_time worked_at;  /* when a job was last queued, or done */
    bool rests;          /* until it is quiet no standby is begun */
    bool to_announce;    /* one that is ready may be known to nobody */
    bool deferred;       /* a job of the queue waits for its time alone */
    size_t n_waiters;
    size_t n_retries; /* sandboxes with retry_at */
    bool strangers;   /* a child ended, and may wait to be reaped */
    box_time next_tick;
    bool stopping; /* SIGTERM: no new requests; running helpers and removals end, until remove_by */
    bool removing; /* the private boxd is gone: everything goes */
    box_time remove_by;
};

/* warden.c */
int box_warden_watch_add(box_warden *w, warden_watch *watch, int fd, uint32_t events,
                         box_error *err) BOX_MUST_USE;
void box_warden_watch_events(box_warden *w, warden_watch *watch, uint32_t events);
/* The descriptor goes over to another watch, which has its `ready` already. */
void box_warden_watch_move(box_warden *w, warden_watch *from, warden_watch *to);
/* Stops watching and closes. */
void box_warden_watch_close(box_warden *w, warden_watch *watch);

/* conn.c */
int box_warden_conn_add(box_warden *w, int fd, bool private, box_error *err) BOX_MUST_USE;
void box_warden_conn_accept(box_warden *w, warden_watch *watch, uint32_t events);
/* After a rest. */
void box_warden_conns_accept_again(box_warden *w);
/* When too many descriptors were in flight, and it is time. */
void box_warden_conns_flush_again(box_warden *w);
/* Closes connections that broke. */
void box_warden_conns_tidy(box_warden *w);
void box_warden_conn_free(box_warden *w, warden_conn *c);
/* Nothing happens when that connection is gone. Descriptors that wait with it for boxd to read are
 * taken (-1); the others stay the caller's. */
void box_warden_conn_answer(box_warden *w, uint64_t serial, uint64_t id,
                            const box_warden_answer *answer, int *fds, size_t n_fds);
void box_warden_conn_answer_error(box_warden *w, uint64_t serial, uint64_t id,
                                  const box_error *error);
void box_warden_conn_exited(box_warden *w, const box_uid *instance,
                            const box_warden_exited *exited);

/* Tells the newest connection that a sandbox of that uid is half made; its serial, 0 = none. */
uint64_t box_warden_conn_ready(box_warden *w, const box_uid *uid);

/* ask.c */
/* One request with its body; *fd is what came with it (-1 = nothing), -1 when taken. On failure
 * nothing happened and err is the answer. */
int box_warden_conn_ask(box_warden *w, warden_conn *c, const box_warden_header *h, const void *body,
                        int *fd, box_error *err) BOX_MUST_USE;
/* BACKEND_UNAVAILABLE, to be tried again: no more descriptors are to be had. Always -1. */
int box_warden_out_of_descriptors(const box_warden *w, box_error *err);

/* disk.c */
void box_warden_disk_open(box_warden *w);
/* Whether all workspaces on disk have room when this one fills up too: 0 and what it may grow to
 * (0 = it is not on disk), or QUOTA. */
int box_warden_disk_admit(box_warden *w, const box_warden_create *request, int64_t *disk_bytes,
                          box_error *err) BOX_MUST_USE;
/* An image for `s`, which was admitted: a ready one, or a job that makes it. */
void box_warden_disk_claim(box_warden *w, warden_sandbox *s, int64_t workspace_bytes,
                           uint64_t conn);
/* Queues the making of one that is missing, when nothing else is to be done or it is time. */
void box_warden_disk_fill(box_warden *w);
/* A FILL has ended; *image is taken or left. */
void box_warden_disk_filled(box_warden *w, const warden_job *job, const box_error *error,
                            int *image);

/* job.c */
warden_job *box_warden_job_new(job_kind kind, warden_sandbox *s, uint64_t conn, uint64_t id);
/* Takes the job. */
void box_warden_job_queue(box_warden *w, warden_job *job);
/* Starts what can start, kills helpers that are late. */
void box_warden_jobs_pump(box_warden *w);
/* Drops requests of a connection that is gone. What was to be destroyed still is. */
void box_warden_jobs_forget(box_warden *w, uint64_t conn);
/* A job that never started: its descriptor is closed. */
void box_warden_job_free(box_warden *w, warden_job *job);
/* The CREATE of that sandbox, while it waits; NULL when there is none. */
warden_job *box_warden_job_create_of(const box_warden *w, const warden_sandbox *s);
/* A job that waits is not to be done any more. */
void box_warden_job_drop(box_warden *w, warden_job *job);

/* again.c */
/* A CREATE has failed, its helper has ended. True when that was the loss of what was prepared, and
 * it is done again: then this job, but for what it holds, is over. */
bool box_warden_again(box_warden *w, warden_job *job, const warden_result *r);
/* For a CREATE of a prepared sandbox that was lost before: it is the CREATE's, and is made again
 * when the rest is removed. */
bool box_warden_again_adopt(box_warden *w, warden_sandbox *s);
/* A CLEAR has ended. */
void box_warden_cleared(box_warden *w, const warden_job *job, const warden_result *r);

/* In a helper: what the warden had open is closed but `socket`, `request` (-1 = none) and what is
 * held, which are w->slots from now on. */
void box_warden_helper_begin(box_warden *w, int socket, int request, const warden_held *held,
                             pid_t warden);
/* A box_journal's save; the owner is a warden_journal. */
int box_warden_helper_save(void *journal, const box_sandbox_record *record, box_error *err)
    BOX_MUST_USE;
/* Closes both. */
void box_warden_held_done(warden_held *held);
/* Sends the result with its descriptors; the helper's exit status. */
int box_warden_helper_tell(const box_warden *w, warden_result *result, const box_sandbox_fds *fds);

/* standby.c */
/* Starts what there is to be, when nobody waits for a sandbox. */
void box_warden_standbys_fill(box_warden *w);
/* The one of that uid, the caller's from now on; NULL: none is ready. */
warden_standby *box_warden_standby_take(box_warden *w, const box_uid *uid);
/* Gives a CREATE to the one its sandbox has: that helper is the job's from now on. */
int box_warden_standby_give(box_warden *w, warden_job *job, box_error *err) BOX_MUST_USE;
/* Ends and frees one that was taken; what it made is the sandbox's. NULL is fine. */
void box_warden_standby_drop(box_warden *w, warden_standby *s);
/* A connection is gone: others may have those that it knew of. */
void box_warden_standbys_forget(box_warden *w, uint64_t conn);
/* Ends all; n_standbys is 0 when they have ended, and what they made is queued to be removed. */
void box_warden_standbys_end(box_warden *w);
void box_warden_standbys_free(box_warden *w);

/* sandbox.c */
warden_sandbox *box_warden_sandbox_find(const box_warden *w, const box_uid *uid);
/* NULL when the instance has none of that uid: another's is not seen. */
warden_sandbox *box_warden_sandbox_of(const box_warden *w, const box_uid *uid,
                                      const box_uid *instance);
int box_warden_sandbox_add(box_warden *w, const box_uid *uid, const box_uid *instance,
                           uint32_t flags, warden_sandbox **out, box_error *err) BOX_MUST_USE;
void box_warden_sandbox_restore(void *warden, const box_sandbox_record *record, bool to_end);
/* Queues its destroy unless that is under way. */
void box_warden_sandbox_end(box_warden *w, warden_sandbox *s);
/* Adds somebody to be told: a DESTROY when its processes are dead, a sweep when nothing of it is
 * left; ends it. */
void box_warden_sandbox_end_for(box_warden *w, warden_sandbox *s, uint64_t conn, uint64_t id,
                                warden_sweep *sweep);
void box_warden_sandboxes_sweep(box_warden *w, const warden_conn *c, uint64_t id);
void box_warden_sandboxes_end_all(box_warden *w);
void box_warden_sandboxes_retry(box_warden *w);
/* A helper has ended; `result` is what it said (error.reason says when it said nothing). The
 * descriptors are the callee's. */
void box_warden_sandbox_job_done(box_warden *w, warden_job *job, warden_result *result, int *fds,
                                 size_t n_fds);
void box_warden_sandbox_free(box_warden *w, warden_sandbox *s);
