/* Sessions: the table, their life, and the backends that make them. Knows nothing of protobuf, gRPC
 * or HTTP/2: service/ converts. Commands in sessions are in exec.h.
 *
 * Functions that take a callback are called on a loop thread; the callback runs later, exactly
 * once, on the same loop. The others are for any thread and never wait. Another tenant's session
 * answers exactly like none. */
#pragma once

#include "base/budget.h"
#include "base/clock.h"
#include "base/id.h"
#include "loop/loop.h"
#include "session/spec.h"
#include "store/store.h"

typedef struct box_sessions box_sessions;

/* --- configuration ---------------------------------------------------------------------------- */

typedef struct box_backend_config {
    const char *name;        /* "namespace" */
    const char *socket_path; /* of its warden; NULL when fd is given */
    int fd;                  /* a connected SEQPACKET socket (taken), or -1 */
} box_backend_config;

/* Strings are copied. Zero of a number means its default. */
typedef struct box_sessions_config {
    box_loops *loops;
    const char *run_dir; /* existing, 0700, ours alone: sockets of agents; stale ones are removed */
    box_uid instance;    /* of this boxd, kept in its state directory */
    const box_backend_config *backends;
    size_t n_backends;
    const char *backend; /* used when a spec names none: "auto" (default), "local", a name */
    const char *default_profile;   /* NULL = "default" */
    const char *default_image;     /* NULL or "": the backend's own (namespace: the host's root) */
    int64_t default_memory_bytes;  /* 0 = the profile's */
    const char *default_workspace; /* see box_session_defaults; NULL = "" */
    int64_t default_workspace_limit_bytes;
    bool disabled;                    /* box.enabled = false: creating calls get BOX_DISABLED */
    uint32_t required_guarantees;     /* admission: box_guarantee bits every sandbox must have */
    uint32_t max_sessions;            /* live, whole server; 10,000 */
    uint32_t max_sessions_per_tenant; /* 256 */
    uint32_t warm_pool; /* sandboxes kept ready, at most BOX_MAX_WARM_POOL; 0 = none */
    bool evict_idle; /* a full limit: the least recently used idle session goes, else SESSION_LIMIT
                      */
    uint64_t idle_ttl_ns;     /* 300 s */
    bool allow_no_idle_ttl;   /* idle_ttl 0 may be asked for */
    uint64_t lifetime_ns;     /* 48 h */
    int64_t (*wall_ns)(void); /* NULL = box_wall_ns */
    box_store *store;         /* of persistent sessions, borrowed; NULL = there can be none */
    int last_fd;              /* highest descriptor a command may get; 0 = any */
    box_budget *budget;       /* of memory; NULL = none; outlives the sessions */
} box_sessions_config;

/* Takes over the persistent sessions of the store, and connects to the wardens, once the loops run:
 * until then they are STARTING. Waits for the disk. The process must ignore SIGPIPE: a command may
 * close its stdin. */
int box_sessions_new(const box_sessions_config *config, box_sessions **out, box_error *err)
    BOX_MUST_USE;
/* From now on creating calls and Exec get SHUTTING_DOWN; every sandbox that is not persistent is
 * removed, what runs in the others has ended; then (at most 10 s later) done(arg) on loop 0. Any
 * thread. */
void box_sessions_drain(box_sessions *all, void (*done)(void *arg), void *arg);
/* After the loops have stopped. */
void box_sessions_free(box_sessions *all);

/* What sessions get that say nothing themselves, and what holds for all new ones. */
typedef struct box_session_defaults {
    char backend[64]; /* "auto", "local", a name */
    char profile[64];
    char image[256];      /* "" = the backend's own */
    int64_t memory_bytes; /* 0 = the profile's */
    /* Host directory of sessions of tenant `default` (others would share their files with it);
     * "" = a private volume. */
    char workspace[1024];
    int64_t workspace_limit_bytes; /* of a private one; 0 = 64 MiB */
    uint32_t required_guarantees;  /* box_guarantee bits every sandbox must have */
    uint32_t max_sessions;         /* live, whole server; those there are stay */
    bool disabled;                 /* creating calls get BOX_DISABLED */
} box_session_defaults;

/* Any thread. While sessions live another backend is put off: next->backend is set back to the one
 * in force and *reselected is false; the rest holds at once. VALIDATION for a profile that does not
 * exist, nothing changed. */
int box_sessions_set_defaults(box_sessions *all, box_session_defaults *next, bool *reselected,
                              box_error *err) BOX_MUST_USE;

/* --- what a session is ------------------------------------------------------------------------ */

typedef enum box_session_state {
    BOX_SESSION_CREATED = 1,
    BOX_SESSION_STARTING,
    BOX_SESSION_RUNNING,
    BOX_SESSION_STOPPING,
    BOX_SESSION_STOPPED,
    BOX_SESSION_ERROR,
} box_session_state;

typedef enum box_stop_reason {
    BOX_STOP_NONE,
    BOX_STOP_REQUESTED,    /* StopSession */
    BOX_STOP_IDLE,         /* idle_ttl passed */
    BOX_STOP_LIFETIME,     /* 48 h */
    BOX_STOP_EXEC_TIMEOUT, /* destroy_on_timeout */
    BOX_STOP_DELETED,
    BOX_STOP_SHUTDOWN,
    BOX_STOP_LOST,          /* the sandbox vanished (state ERROR): rebuilt on next use */
    BOX_STOP_CREATE_FAILED, /* state ERROR */
    BOX_STOP_REVOKED,       /* its tenant was disabled or deleted */
    BOX_STOP_EVICTED,       /* the least recently used idle one made room for another */
    BOX_STOP_BROKEN,        /* its agent broke the protocol or stopped answering (state ERROR) */
} box_stop_reason;

const char *box_stop_reason_name(box_stop_reason r); /* "idle"; "" for NONE */

/* A snapshot. Owned (box_session_info_done). */
typedef struct box_session_info {
    char *id;
    char *tenant;
    box_uid uid;
    box_session_state state;
    box_stop_reason stop_reason;
    box_error error;     /* why the state is ERROR */
    box_spec spec;       /* complete: every value that holds, all bits set; of env only the names */
    char *backend;       /* the one that was chosen */
    uint32_t guarantees; /* what holds for this sandbox: box_guarantee bits */
    uint32_t best_effort; /* what the profile wants and this host cannot give */
    uint32_t required;    /* box_guarantee bits that were asked for */
    box_adjustment adjustments[BOX_MAX_ADJUSTMENTS]; /* what the profile changed of the request */
    size_t n_adjustments;
    uint32_t rebuilds; /* how often its sandbox vanished and was made anew */
    uint64_t total_execs;
    uint32_t running_execs;
    uint32_t queued_execs;
    uint32_t running_processes; /* managed ones that live */
    int64_t created_wall_ns;    /* since 1970 */
    int64_t updated_wall_ns;    /* last change of state, limits or labels */
    int64_t last_used_wall_ns;
    int64_t stopped_wall_ns; /* 0 while it lives */
    int64_t expires_wall_ns; /* when it stops if nothing happens: idle or lifetime; RUNNING only */
    bool one_off;            /* goes with the Exec that made it; never listed */
    bool created;            /* answers of creating calls: by this call */
} box_session_info;

void box_session_info_done(box_session_info *info);

/* --- calls ------------------------------------------------------------------------------------ */

/* info is NULL exactly when err is not. Both are borrowed for the call. */
typedef void (*box_session_done)(void *arg, const box_session_info *info, const box_error *err);

/* VALIDATION with every violation of an id and a spec (NULL: none) of a creating call; what err
 * holds of them already stays. The calls below check by themselves. */
int box_session_check(const char *id, const box_spec *spec, box_error *err) BOX_MUST_USE;

typedef struct box_create_request {
    const char *tenant;
    const char *id;              /* "" = the server makes one */
    const box_spec *spec;        /* NULL = nothing asked */
    const char *idempotency_key; /* NULL or "" = none */
    const uint8_t *digest;       /* 32 bytes of the request, with idempotency_key */
} box_create_request;

/* Creates or reuses; answers when it is RUNNING. Errors: VALIDATION, SESSION_CONFLICT {session,
 * fields}, GUARANTEE_UNSUPPORTED {guarantees, backend}, SESSION_LIMIT, BACKEND_UNAVAILABLE
 * {backend}, SHUTTING_DOWN, BOX_DISABLED, IDEMPOTENCY_MISMATCH, PERMISSION {rule} for an idle_ttl
 * of 0 that is not allowed, what the warden said. */
void box_session_create(box_sessions *all, const box_create_request *r, box_session_done done,
                        void *arg);

/* SESSION_NOT_FOUND {kind, id}. */
int box_session_get(box_sessions *all, const char *tenant, const char *id, box_session_info *out,
                    box_error *err) BOX_MUST_USE;

typedef struct box_session_filter {
    uint32_t states;         /* 1 << box_session_state; 0 = all */
    const char *backend;     /* NULL or "" = any */
    const box_label *labels; /* all must be there; "" matches any value */
    size_t n_labels;
} box_session_filter;

/* Sessions of the tenant after the position (after_id NULL: from the start), by create time, then
 * id; at most `limit`. *out: an array for box_session_list_free. *more: there are others behind. */
void box_session_list(box_sessions *all, const char *tenant, const box_session_filter *filter,
                      int64_t after_created_wall_ns, const char *after_id, size_t limit,
                      box_session_info **out, size_t *n, bool *more);
void box_session_list_free(box_session_info *infos, size_t n);
/* Calls visit for every session of the tenant, in that order, with no lock held; sessions made
 * meanwhile are visited too. Any thread. */
void box_session_each(box_sessions *all, const char *tenant,
                      void (*visit)(void *arg, const box_session_info *info), void *arg);

/* Sets the fields in `fields` (of BOX_SPEC_LIVE, else VALIDATION): to the value in changes, or,
 * where changes->set lacks the bit, back to the profile's default. SESSION_NOT_RUNNING
 * {stop_reason}, GUARANTEE_UNSUPPORTED, PERMISSION as at creation. */
void box_session_update(box_sessions *all, const char *tenant, const char *id,
                        const box_spec *changes, uint32_t fields, box_session_done done, void *arg);

/* Makes it live at least until now + for_ns (0 = its idle_ttl) and within its lifetime; never
 * shortens. SESSION_NOT_RUNNING. */
void box_session_extend(box_sessions *all, const char *tenant, const char *id, uint64_t for_ns,
                        box_session_done done, void *arg);

typedef struct box_session_usage {
    bool measured;        /* false: it does not run, or its backend does not answer */
    int64_t memory_bytes; /* -1 = not known; so for all */
    int64_t memory_peak_bytes;
    int64_t pids;
    int64_t cpu_ns;
    int64_t workspace_bytes; /* used; the next three are only known with it */
    int64_t workspace_limit_bytes;
    int64_t workspace_inodes; /* used */
    int64_t workspace_inode_limit;
    int64_t oom_kills;
} box_session_usage;

/* box_session_get with what it uses; usage is NULL exactly when err is not. */
void box_session_get_usage(box_sessions *all, const char *tenant, const char *id,
                           void (*done)(void *arg, const box_session_info *info,
                                        const box_session_usage *usage, const box_error *err),
                           void *arg);

/* Ends the sandbox; what runs is killed; the record stays for BOX_SESSION_RECORD_SECONDS.
 * Idempotent. */
void box_session_stop(box_sessions *all, const char *tenant, const char *id, box_session_done done,
                      void *arg);
/* The same and the record goes too. info is the last state. allow_missing: none is no error, and
 * info and err are both NULL. */
void box_session_delete(box_sessions *all, const char *tenant, const char *id, bool allow_missing,
                        box_session_done done, void *arg);

/* Every session of the tenant ends (reason REVOKED). On a loop. */
void box_sessions_revoke(box_sessions *all, const char *tenant);

/* --- watching --------------------------------------------------------------------------------- */

typedef struct box_session_watch box_session_watch;

typedef enum box_watch_type {
    BOX_WATCH_EXISTING = 1,
    BOX_WATCH_SYNCED, /* all existing ones were told; info is NULL */
    BOX_WATCH_CREATED,
    BOX_WATCH_STATE_CHANGED,
    BOX_WATCH_UPDATED,
    BOX_WATCH_DELETED,
    BOX_WATCH_LOST, /* the watcher was too slow: `lost` sessions' events were dropped; info is NULL
                     */
} box_watch_type;

typedef struct box_session_watch_events {
    /* The newest state of a session; what it passed meanwhile is skipped. */
    void (*event)(void *arg, box_watch_type type, const box_session_info *info, uint64_t lost);
    /* False: nothing is delivered until box_session_watch_resume. */
    bool (*writable)(void *arg);
    /* The server ends (SHUTTING_DOWN). Nothing follows. */
    void (*ended)(void *arg, const box_error *why);
} box_session_watch_events;

typedef struct box_session_watch_request {
    const char *tenant;
    const char *id;          /* NULL or "" = all; SESSION_NOT_FOUND when there is none of it */
    const box_label *labels; /* all must be there; "" matches any value */
    size_t n_labels;
    bool include_existing; /* begin with EXISTING for each, then SYNCED */
} box_session_watch_request;

/* Delivers on this loop. RATE_LIMIT when there are too many watchers. */
int box_session_watch_new(box_sessions *all, const box_session_watch_request *r,
                          const box_session_watch_events *events, void *arg,
                          box_session_watch **out, box_error *err) BOX_MUST_USE;
void box_session_watch_resume(box_session_watch *w);
/* Same loop; nothing is delivered afterwards. Also after `ended`. */
void box_session_watch_free(box_session_watch *w);

/* --- reports ---------------------------------------------------------------------------------- */

typedef struct box_backend_report {
    char name[64];
    bool available;
    bool connecting;     /* its first HELLO is awaited: the rest says nothing yet */
    bool selected;       /* what `backend` of the configuration means now */
    uint32_t guarantees; /* box_guarantee bits */
    uint32_t isolation;  /* 0 none, 1 process, 2 container, 3 virtual machine */
    char detail[256];    /* one line: what it runs on, or why it is not available */
} box_backend_report;

size_t box_backends_count(const box_sessions *all);
/* i below the count, in order of configuration. */
void box_backends_report(box_sessions *all, size_t i, box_backend_report *out);
/* False when none of that name ("auto" and "local" allowed) is configured. */
bool box_backends_find(box_sessions *all, const char *name, box_backend_report *out);

enum { BOX_SESSION_VERDICTS = 9 };

typedef struct box_sessions_stats {
    uint64_t live;    /* CREATED to STOPPING, one-off ones included */
    uint64_t records; /* STOPPED and ERROR */
    uint64_t running_execs;
    uint64_t queued_execs;
    uint64_t running_processes; /* managed ones that live */
    uint64_t created_total;
    uint64_t execs_total;
    uint64_t max_sessions; /* the limit that holds for this view */
    uint32_t warm_wanted;  /* of the whole server only: sandboxes kept ready as configured, */
    uint32_t warm_ready;   /* and those that are */
    bool draining;
    /* Of the whole server only. */
    uint32_t states[BOX_SESSION_ERROR + 1];
    uint64_t verdicts[BOX_SESSION_VERDICTS]; /* commands that ended, by box_verdict_status */
} box_sessions_stats;

/* tenant NULL = all. The totals are the server's. */
void box_sessions_stats_get(box_sessions *all, const char *tenant, box_sessions_stats *out);
