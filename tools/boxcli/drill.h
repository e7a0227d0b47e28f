/* boxcli drill: a table of attacks, run in sandboxes of the operator's own server. */
#pragma once

#include "box/v1/exec.box.h"
#include "cli.h"

typedef enum drill_result { DRILL_HELD, DRILL_BROKEN, DRILL_SKIPPED } drill_result;

enum { DRILL_TEXT = 512, DRILL_ID = 64 };

typedef struct drill_outcome {
    drill_result result;
    char happened[DRILL_TEXT]; /* one line */
} drill_outcome;

typedef struct drill {
    cli *cli;
    const char *backend;      /* by its own name */
    const char *prefix;       /* of the ids of its sessions */
    char neighbour[DRILL_ID]; /* a session that nobody attacks: it has to go on working */
    int signals;              /* signalfd; the signals themselves are blocked */
    int interrupted;          /* the one that came, 0: none */
} drill;

typedef struct drill_attack drill_attack;
struct drill_attack {
    const char *name;
    const char *tried;
    const char *expected;
    const char *needs;   /* guarantees without which it could harm the machine, or means nothing;
                            "memory,pids", or NULL */
    const char *program; /* "python3" or "sh" */
    const char *script;  /* python3: the prelude goes before it */
    uint32_t timeout_ms; /* 0: DRILL_TIMEOUT_MS */
    int64_t output_kill_bytes;  /* 0: none */
    int64_t output_limit_bytes; /* 0: the server's */
    /* Judges how it ended; NULL: by what the script itself reports. */
    void (*judge)(const Box__V1__ExecResponse *answer, drill_outcome *out);
    /* Instead of one command in the session; NULL: that. -1: the call failed. */
    int (*run)(drill *d, const drill_attack *a, const char *session, drill_outcome *out,
               box_error *err);
};

/* What a sandbox of the drill may use: little, so that every limit is reached soon. */
#define DRILL_MEMORY_BYTES    (64 * 1024 * 1024)
#define DRILL_WORKSPACE_BYTES (8 * 1024 * 1024)
#define DRILL_PIDS            64
#define DRILL_CPU_MILLIS      500
#define DRILL_TIMEOUT_MS      20000
#define DRILL_OUTPUT_BYTES    65536
#define DRILL_LARGE_BYTES     (20 * 1024 * 1024) /* attacks/output_large.sh */

/* One table a file; drill.c joins them. Each ends with a zeroed row. */
extern const drill_attack drill_resource_attacks[];
extern const drill_attack drill_escape_attacks[];
extern const drill_attack drill_neighbour_attacks[];

/* --- outcomes (drill_outcome.c, drill_judge.c)
 * ----------------------------------------------------------------- */

void drill_say(drill_outcome *out, drill_result result, const char *fmt, ...) BOX_PRINTF(3, 4);
#define drill_held(out, ...)    drill_say((out), DRILL_HELD, __VA_ARGS__)
#define drill_broken(out, ...)  drill_say((out), DRILL_BROKEN, __VA_ARGS__)
#define drill_skipped(out, ...) drill_say((out), DRILL_SKIPPED, __VA_ARGS__)

/* Lines "broken: ..." and "held: ..." of stdout. Without the latter it did not run to its end. */
void drill_judge_report(const Box__V1__ExecResponse *answer, drill_outcome *out);
void drill_judge_oom(const Box__V1__ExecResponse *answer, drill_outcome *out);
void drill_judge_timeout(const Box__V1__ExecResponse *answer, drill_outcome *out);
void drill_judge_flood(const Box__V1__ExecResponse *answer, drill_outcome *out);
void drill_judge_kept(const Box__V1__ExecResponse *answer, drill_outcome *out);
void drill_judge_leftovers(const Box__V1__ExecResponse *answer, drill_outcome *out);
void drill_judge_cpu(const Box__V1__ExecResponse *answer, drill_outcome *out);
void drill_judge_core(const Box__V1__ExecResponse *answer, drill_outcome *out);

/* --- calls (drill_call.c) --------------------------------------------------------------------- */

typedef struct drill_command {
    const char *program;
    const char *script;
    const char *argument; /* behind the script; NULL: none */
    const char *workdir;  /* NULL: the session's */
    uint32_t timeout_ms;
    int64_t output_kill_bytes;
    int64_t output_limit_bytes;
    bool keep_leftovers;
} drill_command;

/* The command of an attack. */
drill_command drill_command_of(const drill_attack *a);

/* Runs it in the session; also ends, with CANCELLED, when a signal comes. The answer is the
 * caller's. */
int drill_exec(drill *d, const char *session, const drill_command *command,
               Box__V1__ExecResponse **answer, box_error *err) BOX_MUST_USE;

/* Makes a session for the drill, with the limits that `needs` names. */
int drill_session_create(drill *d, const char *id, const char *needs, box_error *err) BOX_MUST_USE;
/* Says on stderr when that fails. */
void drill_session_delete(drill *d, const char *id);

/* Did a signal come? */
bool drill_is_interrupted(drill *d);
