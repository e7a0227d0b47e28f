/* The one thing the loops share: which sessions there are, their states and counts. Internal to
 * server/session.
 *
 * A box_session is one incarnation (one uid) of an id. Its fields are of three kinds: fixed at
 * birth (any thread), guarded by the table's lock, and of its home loop. The lock is held for a few
 * instructions and never across I/O; box_loop_post is allowed under it. */
#pragma once

#include <stdatomic.h>

#include "base/list.h"
#include "base/map.h"
#include "loop/lock.h"
#include "session/agent.h"
#include "session/cgroup.h"
#include "session/idem.h"
#include "session/ledger.h"
#include "session/machine.h"
#include "session/profile.h"
#include "session/warden.h"

typedef struct box_session box_session;
typedef struct box_pool box_pool; /* pool.h */

typedef struct box_tenancy {
    char *name;
    uint32_t live;
    box_list sessions; /* box_session.of_tenant: all in the table, oldest first */
    box_list ended;    /* box_session.of_ended: STOPPED and ERROR, oldest first */
    size_t n_ended;
    box_list idle;     /* box_session.of_idle: may be evicted, least recently used first */
    uint32_t leaving;  /* of live: evicted, each with a successor that is counted too */
    box_list of_size;  /* in all->by_size while it has idle ones */
    uint32_t forwards; /* connections to ports; it stays while there are any */
} box_tenancy;

/* Tenants by the logarithm of how many sessions they have. */
enum { BOX_TENANCY_SIZES = 21 /* a million: limits.sessions_per_tenant */ };

struct box_sessions {
    /* fixed */
    box_loops *loops;
    int run_dirfd;
    box_uid instance;
    box_warden **wardens;
    size_t n_wardens;
    uint32_t max_sessions_per_tenant;
    bool evict_idle;
    bool allow_no_idle_ttl;
    uint64_t idle_ttl_ns;
    uint64_t lifetime_ns;
    box_budget *budget; /* NULL = none */
    int last_fd;        /* highest descriptor of a command's pipes */
    int64_t (*wall_ns)(void);
    box_store *store;   /* NULL = no session is persistent */
    box_ledger *ledger; /* NULL without a store */
    box_pool *pool;
    atomic_uint_fast64_t verdicts[BOX_SESSION_VERDICTS]; /* of commands that ended */
    atomic_int cpu_files_left;                           /* of BOX_MAX_CPU_FILES */

    box_lock lock; /* guards everything below */
    box_session_defaults defaults;
    box_map *by_key;  /* tenant NUL id -> newest box_session */
    box_map *by_uid;  /* every box_session whose sandbox may exist; both maps hold references */
    box_map *tenants; /* name -> box_tenancy */
    box_list by_size[BOX_TENANCY_SIZES]; /* box_tenancy.of_size */
    uint32_t live, leaving;
    uint64_t running_execs, queued_execs, created_total, execs_total;
    uint32_t states[BOX_SESSION_ERROR + 1]; /* sessions in the table */
    box_list watches;                       /* box_session_watch.link */
    size_t n_watches;
    box_idem *idem;
    uint32_t staying; /* of live: drain lets them be */
    bool draining;
    void (*drained)(void *arg);
    void *drained_arg;

    /* of loop 0 */
    box_timer *sweep;
    box_timer *drain_limit;
};

/* A copy; takes the lock. */
box_session_defaults box_sessions_defaults(box_sessions *all);

/* Somebody who waits for a session: its callback runs on its own loop. */
typedef struct box_waiter {
    box_list link;
    box_loop *loop;
    box_session_done done;
    void *arg;
    bool created;
    box_session_info info; /* the answer */
    bool has_info;
    box_error error;
} box_waiter;

struct box_session {
    atomic_uint refs;

    /* fixed at birth */
    box_sessions *all;
    box_loop *home;
    box_tenancy *tenant; /* valid while in the table */
    char *tenant_name;
    char *id;
    box_uid uid; /* that of the pool's sandbox it is given before anybody knows it */
    char uid_text[BOX_UID_TEXT];
    box_warden *warden;
    const box_profile *profile;
    bool one_off;
    uint32_t required;    /* box_guarantee bits the sandbox must have */
    uint32_t best_effort; /* those only the profile wants, and which its backend lacks */
    box_adjustment adjustments[BOX_MAX_ADJUSTMENTS];
    size_t n_adjustments;
    uint32_t rebuilds;
    int64_t created_wall_ns;
    box_time dies_at; /* whatever uses it */
    bool adopted;     /* an earlier boxd made it */
    box_share memory; /* of it and of its commands */

    /* guarded by all->lock */
    bool in_table;
    box_list of_tenant;
    box_list of_ended;
    box_list of_idle;
    box_session *successor; /* a reference: is started when this one is gone */
    box_session_state state;
    box_stop_reason stop_reason;
    box_error error;
    box_spec spec;
    size_t charged_bytes; /* for env */
    uint32_t guarantees;
    bool at_warden; /* its create was answered: to be kept when the warden's channel is made anew */
    uint32_t active;     /* execs that are queued, running or being taken: no idle expiry */
    uint32_t kept_alive; /* of active: processes, which drain does not wait for */
    uint32_t running_execs, queued_execs;
    box_time last_used;
    int64_t last_used_wall_ns;
    int64_t updated_wall_ns;
    uint64_t total_execs;
    box_time extended_until;
    box_time ended_at;
    int64_t stopped_wall_ns;
    bool deleted;       /* goes from the table when it has ended */
    bool stays;         /* counted in all->staying */
    bool touched;       /* used or extended since that was written down */
    box_list file_idle; /* box_file_worker: wait for a call */
    box_list file_wait; /* box_file_call: wait for a worker */
    uint32_t n_file_idle, n_file_wait;
    uint32_t n_file_workers; /* of the agent's: idle, busy, being started or ending */
    bool file_agent_busy;    /* the one in S/agent */
    bool file_timer_set;
    box_time written_at;
    box_list want_run; /* box_waiter: until RUNNING or never */
    box_list want_end; /* box_waiter: until its sandbox is gone */

    /* of the home loop */
    box_agent *agent;
    int cgroup_fd;             /* S/box/x; -1 when there is none */
    box_cpu_groups cpu;        /* of the directories in it */
    int memory_fd;             /* box_cgroup_open_memory */
    int memory_dir;            /* v1: S/box of its memory controller; else -1 */
    int pids_fd;               /* box_cgroup_open_pids */
    int channel_fd;            /* of a sandbox of the pool until it is started; else -1 */
    box_warden_limits relimit; /* what such a one is to get other than it has */
    bool recorded;             /* written down: to be forgotten before its sandbox goes */
    bool socket_bound;
    bool create_asked; /* the warden's answer is on its way */
    bool sandbox_made; /* there may be something to destroy */
    bool ending;       /* teardown began */
    bool destroy_asked;
    unsigned destroy_tries;
    box_timer *timer;     /* grace before destroy, then pause between tries */
    box_list queue;       /* box_exec that wait for a slot */
    box_list running;     /* box_exec that were sent to the agent */
    uint32_t n_queued;    /* without those on terminals */
    uint32_t n_running;   /* with them */
    uint32_t n_slots;     /* of them, without */
    uint32_t n_terminals; /* that wait or run */
    uint64_t next_exec_id;
    uint64_t first_exec_id;  /* smaller ones are of an earlier boxd */
    box_timer *keep_timer;   /* until the warden answers for one that is adopted */
    box_list processes;      /* box_process.link; changed under all->lock, by this loop */
    uint32_t n_processes;    /* likewise */
    box_list awaited;        /* box_attach: of processes that are not there yet */
    box_timer *forget_timer; /* for records of processes that ended */
    box_list held;           /* pipes of background processes */
    size_t n_held;
    box_timer *held_timer;
    box_list file_workers; /* box_file_worker.of_home: whose end was not told yet */
    uint64_t next_worker_id;
    box_timer *file_timer; /* idle workers go */
    box_list forwards;     /* box_forward.link: connections to ports, those being made too */
    uint32_t n_forwards;
    uint64_t next_forward_id;
};

/* In state CREATED and no table; the id is copied unless it is NULL. */
box_session *box_session_new(box_sessions *all, box_loop *home, const box_uid *uid,
                             const char *tenant, const char *id);
box_session *box_session_ref(box_session *s);
void box_session_unref(box_session *s);
void box_session_unrefp(box_session **s);

/* Runs fn(s) on the home loop; the reference is fn's. */
void box_session_post(box_session *s, void (*fn)(void *session));

/* --- any thread, lock not held ---------------------------------------------------------------- */

/* SESSION_NOT_FOUND {kind, id}. -1. */
int box_session_not_found(const char *id, box_error *err);
/* VALIDATION unless id is at most 256 bytes of UTF-8 without control characters; "" passes. */
int box_session_id_check(const char *id, const char *field, box_error *err) BOX_MUST_USE;

typedef struct box_acquire {
    const char *tenant;
    const char *id;       /* "" with one_off or made_id */
    const box_spec *spec; /* NULL = nothing asked */
    bool one_off;
    bool for_exec; /* counts as use until box_session_release */
} box_acquire;

/* Finds the live session or makes a new incarnation (home: this loop) and has it started. *out is a
 * reference. Errors as of box_session_create. On a loop thread. */
int box_sessions_acquire(box_sessions *all, const box_acquire *a, box_session **out, bool *created,
                         box_error *err) BOX_MUST_USE;
/* What holds where a spec is silent; the strings are *standard's. */
box_spec_defaults box_sessions_spec_defaults(const box_sessions *all,
                                             const box_session_defaults *standard,
                                             const char *tenant, bool persistent);
/* PERMISSION when the spec asks for what the configuration does not allow. */
int box_sessions_allow(const box_sessions *all, const box_spec *asked, bool persistent,
                       box_error *err) BOX_MUST_USE;
/* One use of a session there is, until box_session_release: SESSION_NOT_FOUND, SESSION_NOT_RUNNING,
 * SESSION_BROKEN, SHUTTING_DOWN. It may not be RUNNING yet. */
int box_sessions_use(box_sessions *all, const char *tenant, const char *id, box_session **out,
                     box_error *err) BOX_MUST_USE;
/* Ends one use. */
void box_session_release(box_session *s);

/* One use more, until box_session_release. */
void box_session_use(box_session *s);
/* One of a process that lives on when boxd goes; begins or ends. */
void box_session_keep_alive(box_session *s, bool begins);
/* The newest incarnation, a reference; SESSION_NOT_FOUND. One-off ones are not found. */
int box_sessions_find(box_sessions *all, const char *tenant, const char *id, box_session **out,
                      box_error *err) BOX_MUST_USE;
box_session *box_sessions_find_uid(box_sessions *all, const box_uid *uid);

/* The event happens: state, counts, watchers, waiters. False when it means nothing any more.
 * why: of FAIL and LOST, else NULL. */
bool box_session_event_happens(box_session *s, box_session_event event, box_stop_reason reason,
                               const box_error *why);
/* STOP, and the home loop is told to act on it. */
bool box_session_ask_stop(box_session *s, box_stop_reason reason);
/* STOP of all: reason SHUTDOWN. */
void box_sessions_stop_all(box_sessions *all);
/* Changes fields that are live (the warden was told before). */
void box_session_apply(box_session *s, const box_spec *changes, uint32_t fields);
/* Expiry of everything that is due, and of old records. On loop 0. */
void box_sessions_expire(box_sessions *all, box_time now);

void box_session_snapshot(box_session *s, box_session_info *out);
/* For a command's answer, which shows no variables. */
void box_session_snapshot_but_env(box_session *s, box_session_info *out);
box_session_state box_session_state_now(box_session *s, box_stop_reason *reason);
/* Adds the waiter, or answers it at once when there is nothing to wait for. Taken. */
void box_session_want_run(box_session *s, box_waiter *w);
void box_session_want_end(box_session *s, box_waiter *w);
/* Counts for snapshots and statistics. */
void box_session_count_execs(box_session *s, uint32_t queued, uint32_t running, bool started);
/* The sandbox exists at the warden, with these guarantees. */
void box_session_made(box_session *s, uint32_t guarantees);
uint32_t box_session_parallel(box_session *s);
/* SESSION_NOT_RUNNING {stop_reason}, or SESSION_BROKEN when it is in ERROR. -1. */
int box_session_not_running(box_session *s, box_error *err);
/* The sandbox is gone (or was never made): nothing to keep at the warden. */
void box_session_forget_uid(box_session *s);

/* --- lock held -------------------------------------------------------------------------------- */

void box_session_snapshot_locked(const box_session *s, box_session_info *out);
/* A STOPPED record needs no variables, up to 2 MiB, unless a command still reads them. */
void box_session_drop_env_locked(box_session *s);
box_session *box_sessions_find_locked(box_sessions *all, const char *tenant, const char *id);

/* Counts it and puts it into the table, in the place of an old record. SESSION_LIMIT. *waits:
 * another one was evicted for it, and it is started when that is gone. */
int box_sessions_enter_locked(box_session *s, bool *waits, box_error *err) BOX_MUST_USE;
/* The same for one that an earlier boxd made: no limit holds it up. */
void box_sessions_enter_restored_locked(box_session *s, box_time now);
/* Its state, or what uses it, changed: it becomes the last or none of its tenant's idle ones. */
void box_session_note_idle_locked(box_session *s);
/* evict.c: how many it has, or whether any is idle, changed. */
void box_tenancy_note_size_locked(box_sessions *all, box_tenancy *t);
/* evict.c: makes room for s, a session of t, when t (or else the server) is full: the least
 * recently used idle session of t, or of the largest tenants that then have no fewer than t, stops
 * and starts s when it is gone. False: there is none. */
bool box_session_evict_locked(box_session *s, box_tenancy *t, bool tenant_full);
/* The record leaves the table; the table's reference goes. */
void box_session_remove_locked(box_session *s);
/* STOP, and the home loop is told. */
bool box_session_stop_locked(box_session *s, box_stop_reason reason, box_time now);
/* When it ends if nothing uses it; maybe never. */
box_time box_session_idle_at(const box_session *s);
void box_tenancy_drop_if_unused(box_sessions *all, box_tenancy *t);
/* Tells who drains when nothing lives any more. */
void box_sessions_check_drained_locked(box_sessions *all);
int box_session_not_running_locked(const box_session *s, box_error *err);

/* --- surviving boxd: survive.c ---------------------------------------------------------------- */

/* Writes it down as it is now; done(arg) on this loop when it is on the disk, or with why it is
 * not (MEMORY_BUDGET: its records that wait are charged to it). arg holds a reference. Nothing to
 * do (and no error) for one that is not persistent, or ends, unless it is to be forgotten. */
void box_session_write(box_session *s, box_session_change_kind kind,
                       void (*done)(void *arg, const box_error *err), void *arg);
/* When it was used, unless that was written down less than pause_ns ago. Lock held. */
void box_session_touch_locked(box_session *s, box_time now, uint64_t pause_ns);
/* Brings back what the store has, before the loops run. Puts into `known` the uids of all that may
 * live. */
int box_sessions_restore(box_sessions *all, box_map *known, box_error *err) BOX_MUST_USE;

/* --- waiters ---------------------------------------------------------------------------------- */

box_waiter *box_waiter_new(box_session_done done, void *arg);
/* Posts the answer to the waiter's loop and frees it there. err NULL: the snapshot is the answer
 * (s NULL: nothing is). */
void box_waiter_answer(box_waiter *w, const box_session *s_locked, const box_error *err);

/* Answers nobody but this caller, later, on this loop. */
void box_session_answer_error(box_session_done done, void *arg, const box_error *err);

/* --- home loop: sandbox.c --------------------------------------------------------------------- */

/* What the warden is asked for; the uid is the caller's to fill in. */
void box_sandbox_request(const box_spec *spec, uint32_t required, box_warden_create *out);
void box_sandbox_start(void *session); /* posted */
void box_sandbox_adopt(void *session); /* posted: an earlier boxd made it */
/* It cannot be had after all. */
void box_sandbox_failed(box_session *s, const box_error *why);
void box_sandbox_end(void *session); /* posted: its state is STOPPING */
void box_sandbox_lost(box_session *s, const char *cause, box_stop_reason reason);
/* One running exec less: the teardown may be waiting for the last. */
void box_sandbox_exec_gone(box_session *s);

/* --- home loop: files.c ----------------------------------------------------------------------- */

/* arg: the session. */
void box_files_ended(void *session, uint64_t id, const box_agent_files_ended *e);
/* The agent is about to go. */
void box_files_close(box_session *s, const box_error *why);

/* --- home loop: forward_home.c -----------------------------------------------------------------
 */

/* The agent's answer; *fd is taken where set to -1. */
void box_forward_connected(box_session *s, uint64_t id, const box_agent_connected *c, int *fd);
/* The agent is about to go. */
void box_forwards_close(box_session *s, const box_error *why);

/* --- backend choice: backends.c --------------------------------------------------------------- */

/* `auto`, `local` or an exact name. BACKEND_UNAVAILABLE {backend} when none is configured. */
int box_backends_choose(box_sessions *all, const char *name, box_warden **out, box_error *err)
    BOX_MUST_USE;
/* GUARANTEE_UNSUPPORTED {guarantees, backend} when the spec asks for what the warden says it cannot
 * give; of_all: what every sandbox must have; *required: the bits create must insist on;
 * *best_effort: what the profile alone wants. */
int box_backends_check(box_warden *w, const box_spec *asked, const box_spec *whole, uint32_t of_all,
                       uint32_t *required, uint32_t *best_effort, box_error *err) BOX_MUST_USE;
/* GUARANTEE_UNSUPPORTED when its limits cannot change while it runs. */
int box_backends_check_live(box_session *s, box_error *err) BOX_MUST_USE;
