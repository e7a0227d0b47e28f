/* Managed processes: they live on when nobody is attached, and when boxd is away (agent/process.h).
 * Calls come from any loop and are answered on it; another tenant's session answers like none. */
#pragma once

#include "agent/journal.h"
#include "session/exec.h"

typedef enum box_process_state {
    BOX_PROCESS_STARTING = 1,
    BOX_PROCESS_RUNNING,
    BOX_PROCESS_WAITING, /* for its next start */
    BOX_PROCESS_STOPPING,
    BOX_PROCESS_EXITED,
} box_process_state;

enum { BOX_STDERR_PREVIEW_BYTES = 4000 };

typedef struct box_process_usage {
    int64_t memory_bytes;
    int64_t memory_peak_bytes;
    int64_t threads;
    int64_t cpu_ns; /* since this run began */
    int64_t measured_wall_ns;
} box_process_usage;

/* A snapshot. Owned (box_process_info_done). */
typedef struct box_process_info {
    struct box_process *process; /* references, */
    struct box_session *session;
    const char *id; /* and what is theirs */
    const char *session_id;
    box_uid session_uid;
    box_bytes record; /* what StartManagedProcess's service gave */
    box_process_state state;
    bool attached;
    uint32_t readers;
    int64_t created_wall_ns;
    int64_t started_wall_ns;
    int64_t exited_wall_ns;
    int64_t ready_wall_ns;
    int64_t next_start_wall_ns;
    bool ready;
    uint32_t restarts;
    int32_t pid;
    bool has_verdict;
    box_verdict verdict; /* session is NULL; detail points into this */
    char detail[BOX_ERROR_MSG];
    box_journal_span journals[2];
    bool has_usage; /* of what runs now; its numbers are -1 where not known */
    box_process_usage usage;
    uint8_t *preview; /* BOX_STDERR_PREVIEW_BYTES; NULL: not asked for */
    size_t preview_len;
} box_process_info;

void box_process_info_done(box_process_info *info);

/* What readiness is. */
typedef struct box_readiness {
    const char *stdout_line; /* NULL = none */
    uint32_t tcp_port;       /* 0 = none */
    const box_command *command;
    bool has_interval;
    int64_t interval_ns;
} box_readiness;

/* Borrowed for box_process_start. */
typedef struct box_process_request {
    const char *tenant;
    const char *session_id;
    const char *process_id;     /* "" = "default" */
    const box_command *command; /* argv, workdir, env; nothing else is looked at */
    box_bytes record;           /* given back in snapshots, also after boxd's restart */
    uint32_t restart;           /* box_restart_mode of agent/process.h */
    int32_t max_restarts;
    bool has_first_backoff, has_max_backoff, has_grace, has_journal, has_ready_timeout;
    int64_t first_backoff_ns;
    int64_t max_backoff_ns;
    int64_t grace_ns;
    int64_t journal_bytes;
    int64_t ready_timeout_ns;
    box_readiness readiness;
    bool terminal;
    int32_t rows, columns;
    bool stop_on_detach;
    bool has_memory, has_pids, has_cpu; /* limits of its own, within the session's */
    int64_t memory_bytes;
    int32_t pids;
    int32_t cpu_millis;
    bool replace;
    const char *idempotency_key; /* NULL or "" = none */
    const uint8_t *digest;
} box_process_request;

/* flag: replaced (start), met (wait). info NULL exactly when err is not, but for a stop of one that
 * need not exist. Borrowed for the call. */
typedef void (*box_process_done)(void *arg, const box_process_info *info, bool flag,
                                 const box_error *err);

/* A call under way, on its caller's loop. */
typedef struct box_process_call box_process_call;

/* VALIDATION with every violation; what err holds stays. prefix: "spec." */
int box_process_check(const box_process_request *r, box_error *err) BOX_MUST_USE;

/* Answers when it runs, or, with ready_timeout, when it is ready or has ended. PROCESS_CONFLICT,
 * QUOTA {limit}, FILE_NOT_FOUND, ..., DEADLINE when it was not ready in time: then it is stopped.
 * Not more than one event: `done`, unless box_process_call_drop came before. */
void box_process_start(box_sessions *all, const box_process_request *r, box_process_done done,
                       void *arg, box_process_call **out);
/* PROCESS_NOT_FOUND. has_grace false: the process's own. */
void box_process_stop(box_sessions *all, const char *tenant, const char *session_id,
                      const char *process_id, bool has_grace, int64_t grace_ns, bool allow_missing,
                      box_process_done done, void *arg, box_process_call **out);
/* ready: until it is ready or has ended; else until it has ended. has_timeout: then flag false. */
void box_process_wait(box_sessions *all, const char *tenant, const char *session_id,
                      const char *process_id, bool ready, bool has_timeout, int64_t timeout_ns,
                      box_process_done done, void *arg, box_process_call **out);
/* SESSION_NOT_RUNNING when it does not run. */
void box_process_signal(box_sessions *all, const char *tenant, const char *session_id,
                        const char *process_id, int signo, bool tree, box_process_done done,
                        void *arg, box_process_call **out);
void box_process_get(box_sessions *all, const char *tenant, const char *session_id,
                     const char *process_id, box_process_done done, void *arg,
                     box_process_call **out);
/* After done, or instead of it: nobody waits any more. NULL is harmless. */
void box_process_call_drop(box_process_call *c);

typedef struct box_process_filter {
    const char *session_id; /* "" = all of the tenant; else SESSION_NOT_FOUND when there is none */
    uint32_t states;        /* 1 << box_process_state; 0 = all */
} box_process_filter;

/* By create time, then session and id ("SESSION NUL ID" is `after`'s key), at most limit. Without
 * preview. *out is for box_process_list_free. */
int box_process_list(box_sessions *all, const char *tenant, const box_process_filter *filter,
                     int64_t after_created_wall_ns, const char *after_key, size_t limit,
                     box_process_info **out, size_t *n, bool *more, box_error *err) BOX_MUST_USE;
void box_process_list_free(box_process_info *infos, size_t n);
/* What orders processes of one moment: session uid and id, as text. */
enum { BOX_PROCESS_KEY_TEXT = BOX_UID_TEXT + 1 + BOX_MAX_PROCESS_ID_BYTES + 1 };
void box_process_key(const box_process_info *info, char out[BOX_PROCESS_KEY_TEXT]);
