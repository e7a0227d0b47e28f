/* A session manager on fake loops with a fake warden, and commands whose outcome can be looked at.
 */
#pragma once

#include "fake_loop.h"
#include "fake_warden.h"
#include "session/exec.h"

typedef struct rig {
    box_loops *loops;
    fake_warden warden;
    char dir[64];
    char state[64]; /* "" = no store */
    box_store *store;
    box_sessions_config config;
    box_sessions *all;
} rig;

/* config may be NULL; loops, run_dir, backends are filled in. Two loops; the test is on loop 1. */
void rig_init(rig *r, const box_sessions_config *config);
/* The same with a store, and a wall clock that goes along. */
void rig_init_stored(rig *r, const box_sessions_config *config);
/* Another boxd on the same store and sandboxes, after a drain or a kill (when nothing runs). */
void rig_restart(rig *r, bool killed);
void rig_done(rig *r);
/* The same as CMocka's fixture, without a configuration. */
int rig_set_up(void **state);
int rig_tear_down(void **state);
/* Turns everything until nothing happens any more. */
void rig_settle(rig *r);
/* Moves the clock in steps of at most a second, settling between. */
void rig_wait(rig *r, uint64_t ns);

/* A command and what became of it. */
typedef struct outcome {
    rig *rig;
    box_exec *exec;
    bool started;
    bool done;
    box_error error;     /* reason NONE: there was a verdict */
    box_verdict verdict; /* without pointers */
    char session[300];
    bool created;
    box_session_state state;
    uint32_t rebuilds;
    char out[64 * 1024];
    size_t out_len;
    char err[1024];
    size_t err_len;
    uint64_t dropped[2];
    char limit[32];
    size_t streamed;
    size_t may_stream; /* writable while streamed is below */
    unsigned room;
} outcome;

/* argv from a text split at spaces. r may be NULL; its session_id "" when NULL. */
void rig_start(rig *g, outcome *o, const char *session, const char *text, const box_exec_request *r,
               const box_command *c);
/* The same and settled. */
void rig_exec(rig *g, outcome *o, const char *session, const char *text);
void outcome_free(outcome *o);

typedef struct answer {
    unsigned count;
    bool has_info;
    box_session_info info;
    box_error error;
} answer;

void answer_done(void *arg, const box_session_info *info, const box_error *err);
void answer_free(answer *a);
/* CreateSession, settled. */
void rig_create(rig *g, answer *a, const char *id, const box_spec *spec);
