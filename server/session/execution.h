/* box_exec as its two sides see it. Internal to server/session.
 *
 * A command has a call side (the loop of its call: pipes, timers, verdict) and a home side (the
 * loop of its session: slot, agent). Each side touches only its own part; `result` is written by
 * the home side before it posts box_exec_over, and read by the call side after. Posts hold a
 * reference. */
#pragma once

#include "session/exec.h"
#include "session/output.h"
#include "session/program.h"
#include "session/pump.h"
#include "session/table.h"

typedef enum box_exec_home {
    BOX_HOME_NONE,     /* with no session */
    BOX_HOME_QUEUED,   /* waits for the sandbox or for a slot */
    BOX_HOME_STARTING, /* START is sent or waits for its turn */
    BOX_HOME_RUNNING,
} box_exec_home;

typedef enum box_exec_fate {
    BOX_FATE_NEVER_RAN, /* error says why */
    BOX_FATE_EXITED,
    BOX_FATE_LOST,       /* the sandbox went under it, or once its START was sent */
    BOX_FATE_LOST_EARLY, /* the sandbox went before START was sent: may be tried in a new one */
} box_exec_fate;

/* What the home side found out. */
typedef struct box_exec_result {
    int pipes[3];   /* ours: write end of stdin (-1: it has none), read ends of stdout and stderr;
                     * from `started` on. On a terminal only the second: its master */
    int other_side; /* of that terminal; else -1 */
    int32_t pid;
    int64_t started_wall_ns;
    uint64_t queue_ns; /* waited for a slot of the running session */
    box_exec_fate fate;
    box_error error; /* NEVER_RAN, LOST, LOST_EARLY */
    box_agent_exit exit;
    bool stopped; /* its session was being ended */
    bool has_cgroup_cpu;
    uint64_t cgroup_cpu_ns;
    uint64_t oom_kills;
    bool pids_hit; /* a process could not be made because of pids_limit */
} box_exec_result;

typedef enum box_exec_phase {
    BOX_PHASE_WAITING, /* handed to the home side */
    BOX_PHASE_RUNNING,
    BOX_PHASE_DRAINING, /* it ended; what is in the pipes still goes out */
    BOX_PHASE_OVER,
} box_exec_phase;

struct box_exec {
    atomic_uint refs;

    /* fixed before it is handed over */
    box_sessions *all;
    box_loop *loop;
    box_program program;
    uint64_t timeout_ns;
    uint64_t queue_timeout_ns;
    uint32_t start_flags; /* BOX_START_* */
    bool terminal;
    uint16_t rows; /* of the terminal when it starts */
    uint16_t columns;
    box_session *session; /* a reference; another one only when tried again */
    box_session *payer;   /* the first one, a reference: its share of memory is charged */
    size_t charged_bytes; /* for program and spec, until the end */
    bool session_created;
    bool one_off;

    /* of the home side */
    box_list link; /* session->queue or ->running */
    box_exec_home home;
    uint64_t agent_id;
    int child_fds[3]; /* until START is taken over by the agent's client */
    box_timer *wait_timer;
    box_time waits_since; /* for a slot; with wait_timer */
    uint64_t oom_before;
    uint64_t refused_before;
    bool we_killed;
    bool kill_wanted; /* came before STARTED */
    box_agent_signal kill;
    uint64_t signals_wanted; /* bit n - 1: signal n to the main process, came before STARTED */

    atomic_bool is_over; /* box_exec_over is posted: for box_exec_began, which came just before */
    box_exec_result result;

    /* of the call side */
    box_exec_phase phase;
    box_exec_events events;
    void *arg;
    bool detached; /* nobody is told any more */
    bool stream;
    bool timeout_clamped;
    int64_t timeout_asked_ns;
    uint64_t idle_timeout_ns; /* 0 = none */
    uint64_t output_kill_bytes;
    bool over_output; /* output_kill_bytes was passed */
    bool wished;      /* a signal was sent: no other attempt */
    bool tried_again;
    box_spec *spec;         /* for another attempt; NULL = nothing asked */
    box_session_info *info; /* of the session when it started */
    box_input input;
    box_pump pumps[2];
    int tty; /* the other side of its terminal, until it ends: output of a terminal that no process
              * has open would count as ended; -1 */
    bool resized; /* before it started: */
    uint16_t new_rows;
    uint16_t new_columns;
    box_keeper kept[2];
    box_timer *idle_timer;
    box_timer *backup_timer;
    bool backup_fired;
    box_time last_io;
    box_time began_at;
    char *idem_tenant; /* NULL = no idempotency key */
    char *idem_key;
};

box_exec *box_exec_ref(box_exec *e);
void box_exec_unref(box_exec *e);

/* --- home side: slots.c ----------------------------------------------------------------------- */

void box_slots_submit(void *exec); /* posted to session->home */
/* Ends one that waits, or signals one that runs. Any thread. */
void box_slots_signal(box_exec *e, const box_agent_signal *s);
/* Read ends that stay open for background processes. Any thread; taken. */
void box_slots_hold(box_session *s, int fds[2]);
/* Home loop: the agent is ready; the sandbox cannot be had; it is ending; it is lost. */
void box_slots_run(box_session *s);
void box_slots_fail_waiting(box_session *s, const box_error *why);
void box_slots_kill_running(box_session *s, box_agent_cause cause);
void box_slots_lose(box_session *s, const box_error *why);
void box_slots_drop_held(box_session *s);
extern const box_agent_events box_slots_agent_events; /* arg: the session */

/* --- call side: exec.c; posted by the home side, with a reference ----------------------------- */

void box_exec_began(void *exec);
void box_exec_over(void *exec);
/* Hands it to its session's home loop, with one reference. */
void box_exec_submit(box_exec *e);
void box_exec_stop_io(box_exec *e);
/* It is no use of the session any more; a one-off one goes. */
void box_exec_leave_session(box_exec *e);
/* box_input's progress; arg: the box_exec. */
void box_exec_on_input(void *arg, bool room);

/* --- exec_terminal.c: the call side of a command on a terminal -------------------------------- */

/* Its output is there: call after its pump was opened. */
void box_exec_open_terminal(box_exec *e);
int box_exec_open_typing(box_exec *e, box_error *err) BOX_MUST_USE;
