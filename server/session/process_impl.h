/* Managed processes as the two sides of a call see them. Internal to server/session.
 *
 * A box_process belongs to the home loop of its session; what snapshots need of it is guarded by
 * the table's lock. Calls and attachments go to the home loop by posts, each with a reference. */
#pragma once

#include "session/attach.h"
#include "session/execution.h"
#include "session/process.h"

/* The journals of one process, as boxd has them: shared by all who read. */
typedef struct box_journals {
    atomic_uint refs;
    int fd[2]; /* -1: there is none (stderr of a terminal) */
    uint64_t capacity[2];
} box_journals;

box_journals *box_journals_ref(box_journals *j);
void box_journals_unref(box_journals *j);

typedef struct box_process_facts {
    box_process_state state;
    box_agent_managed now; /* the agent's last word */
    bool lost;             /* its sandbox ended before it */
    bool lost_by_stop;
    char lost_why[BOX_ERROR_MSG];
    uint64_t oom_kills; /* of the last run, as far as boxd was there */
    bool pids_hit;
    bool attached;
    uint32_t readers;
} box_process_facts;

typedef struct box_process {
    atomic_uint refs;

    /* fixed */
    box_session *session; /* no reference: whoever keeps a process keeps that too */
    char id[BOX_MAX_PROCESS_ID_BYTES + 1];
    uint64_t agent_id;
    int64_t created_wall_ns;
    uint32_t flags; /* BOX_MANAGE_* */
    uint64_t grace_ns;
    uint8_t *record;
    size_t record_len;
    size_t charged_bytes;

    /* guarded by the table's lock */
    box_list link;          /* session->processes */
    box_journals *journals; /* a reference; NULL until introduced and once its session has ended */
    box_process_facts facts;

    /* of the home loop */
    bool told;         /* the agent said how its first start went */
    bool uses;         /* counted as a use of its session */
    int stdin_fd;      /* of this run; -1 */
    box_time stop_by;  /* it was told to end by then; 0: it was not */
    box_list calls;    /* box_process_call that wait for something of it */
    box_list attached; /* box_attach */
    box_attach *writer;
    bool armed; /* the agent is to tell when there is more than armed_ends */
    box_agent_ends armed_ends;
    uint64_t oom_before, refused_before;
    box_time ended_at;
} box_process;

box_process *box_process_ref(box_process *p);
void box_process_unref(box_process *p);
bool box_process_is_live(const box_process *p); /* home loop */

/* --- what is to be run ------------------------------------------------------------------------ */

typedef struct box_process_plan {
    box_agent_manage manage;
    int fds[2];
    uint8_t *record;
    size_t record_len;
    size_t bytes; /* of memory: record and texts */
} box_process_plan;

/* Of a request that box_process_check found right. */
int box_process_plan_make(const box_process_request *r, const box_spec *session,
                          box_process_plan *out, box_error *err) BOX_MUST_USE;
void box_process_plan_done(box_process_plan *p);

/* --- calls ------------------------------------------------------------------------------------ */

typedef enum box_process_want {
    BOX_WANT_START,
    BOX_WANT_STOP,
    BOX_WANT_READY,
    BOX_WANT_EXIT,
    BOX_WANT_SIGNAL,
    BOX_WANT_LOOK,
} box_process_want;

struct box_process_call {
    atomic_uint refs;

    /* fixed */
    box_process_want want;
    box_loop *loop;
    box_session *session; /* a reference; NULL: it was not found */
    char id[BOX_MAX_PROCESS_ID_BYTES + 1];
    bool replace;
    bool has_timeout; /* start: until it is ready */
    uint64_t timeout_ns;
    bool allow_missing;
    uint64_t grace_ns; /* or BOX_STOP_DEFAULT_GRACE */
    int signo;
    bool tree;
    box_process_plan plan;
    char *idem_tenant; /* NULL = no idempotency key */
    char *idem_key;

    /* of the home loop */
    box_list link;      /* process->calls */
    bool waits_for_end; /* start: the one of its name is being stopped */
    box_timer *timer;
    box_process *process; /* what it waits for, then the answer: a reference */

    /* the answer */
    bool has_usage;
    box_process_usage usage;
    bool flag;
    box_error error;

    /* of the call's loop */
    box_process_done done;
    void *arg;
    bool dropped;
};

void box_process_call_unref(box_process_call *c);
void box_process_call_answered(void *call); /* posted to its loop, with a reference */
void box_process_call_arrives(void *call);  /* posted to the home loop, with a reference */
void box_process_call_forget(void *call);   /* likewise: nobody waits any more */

/* --- process_home.c and process_told.c share ------------------------------------------------- */

box_process *box_process_new(box_session *s, const char *id, uint64_t agent_id);
/* Into the session's list, with the reference; out of it, which drops that. */
void box_process_enter(box_session *s, box_process *p);
void box_process_leave(box_session *s, box_process *p);
void box_process_stop_using(box_process *p);
/* What the session's counters say when a run begins. */
void box_process_note_counters(box_session *s, box_process *p);
bool box_process_is_ready(const box_process *p);
/* Records that have been kept for long enough go. arg: the session. */
void box_processes_forget_due(void *arg);
void box_process_start_arrives(box_session *s, box_process_call *c);
/* The reference of being under way goes back to the call's loop. p or err may be NULL. */
void box_process_answer(box_process_call *c, box_process *p, bool flag, const box_error *err);

/* --- the home loop ---------------------------------------------------------------------------- */

void box_process_introduced(box_session *s, uint64_t id, const box_agent_manage *m, int *fds,
                            size_t n_fds);
void box_process_managed(box_session *s, uint64_t id, const box_agent_managed *m, int *stdin_fd);
void box_process_grew(box_session *s, uint64_t id);
/* Its sandbox ended; records stay. stopped: because it was asked to. */
void box_processes_lose(box_session *s, bool stopped, const char *why);
/* The session object goes. Any thread that owns it alone. */
void box_processes_drop(box_session *s);
box_process *box_process_find(box_session *s, const char *id);
/* STOP, when it lives and has not to end sooner already. */
void box_process_order_stop(box_process *p, uint64_t grace_ns);
int box_process_not_found(const char *id, box_error *err);
void box_process_tell_facts(box_process *p); /* who is attached changed */

/* --- attachments, home side: attach_home.c ---------------------------------------------------- */

/* A process of that name has been introduced, or will not be. */
void box_attach_serve_awaited(box_session *s);
/* The sandbox is gone: nothing will be. */
void box_attach_fail_awaited(box_session *s, const box_error *why);
void box_attach_more(box_process *p);      /* its journals grew */
void box_attach_restarted(box_process *p); /* a run ended and another began */
void box_attach_ended(box_process *p);     /* for good */
void box_attach_stdin_changed(box_process *p);

/* False when nothing of it runs. Home loop. */
bool box_process_measure(box_session *s, const box_process *p, box_process_usage *out);

/* --- snapshots -------------------------------------------------------------------------------- */

void box_process_snapshot(box_session *s, box_process *p, bool preview, box_process_info *out);
/* out->session is NULL; out->detail points into `detail`. */
void box_process_verdict(const box_process_facts *f, char detail[BOX_ERROR_MSG], box_verdict *out);
