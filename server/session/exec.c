#include "session/exec.h"

#include <assert.h>
#include <signal.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/limits.h"
#include "session/verdict.h"

/* --- references ------------------------------------------------------------------------------- */

box_exec *box_exec_ref(box_exec *e)
{
    atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
    return e;
}

void box_exec_unref(box_exec *e)
{
    if (e == NULL || atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (int i = 0; i < 3; i++) {
        box_closep(&e->child_fds[i]);
        box_closep(&e->result.pipes[i]);
    }
    box_closep(&e->result.other_side);
    box_closep(&e->tty);
    box_program_done(&e->program);
    if (e->payer != NULL)
        box_share_give(&e->payer->memory, e->charged_bytes);
    box_session_unref(e->payer);
    box_session_unref(e->session);
    if (e->spec != NULL)
        box_spec_done(e->spec);
    free(e->spec);
    if (e->info != NULL)
        box_session_info_done(e->info);
    free(e->info);
    free(e->idem_tenant);
    free(e->idem_key);
    free(e);
}

static void unrefp(box_exec **e)
{
    box_exec_unref(*e);
    *e = NULL;
}

static void wish(box_exec *e, const box_agent_signal *s)
{
    e->wished = true;
    box_slots_signal(e, s);
}

static void kill_it(box_exec *e, box_agent_cause cause)
{
    box_agent_signal kill = {.signo = SIGKILL, .scope = BOX_SCOPE_TREE, .cause = cause};
    wish(e, &kill);
}

/* --- ending ----------------------------------------------------------------------------------- */

void box_exec_stop_io(box_exec *e)
{
    for (int i = 0; i < 2; i++)
        box_pump_close(&e->pumps[i]);
    box_input_done(&e->input);
    box_closep(&e->tty);
    box_timer_free(e->idle_timer);
    box_timer_free(e->backup_timer);
    e->idle_timer = e->backup_timer = NULL;
}

static void end_idempotency(box_exec *e, bool keep)
{
    if (e->idem_key == NULL)
        return;
    box_time now = box_loop_now(e->loop);
    box_lock_take(&e->all->lock);
    box_idem_end(e->all->idem, e->idem_tenant, "exec", e->idem_key, keep, now);
    box_lock_release(&e->all->lock);
}

void box_exec_leave_session(box_exec *e)
{
    box_session_release(e->session);
    if (e->one_off)
        (void)box_session_ask_stop(e->session, BOX_STOP_DELETED); /* or it ended already */
}

/* The last that happens to it. The reference is the one of being under way. */
static void conclude(box_exec *e, const box_verdict *v, const box_error *err)
{
    e->phase = BOX_PHASE_OVER;
    end_idempotency(e, v != NULL);
    box_exec_leave_session(e);
    if (!e->detached)
        e->events.done(e->arg, v, err);
    for (int i = 0; i < 2; i++)
        box_keeper_done(&e->kept[i]);
    box_exec_unref(e);
}

static void conclude_with_error(box_exec *e, const box_error *err)
{
    box_exec_stop_io(e);
    conclude(e, NULL, err);
}

/* Background processes keep their pipe, unread, so that they do not die of SIGPIPE. A terminal
 * hangs up, as everywhere. */
static void hand_over_pipes(box_exec *e)
{
    if (e->one_off || e->terminal || (e->start_flags & BOX_START_KILL_LEFTOVERS) || e->detached)
        return;
    int fds[2] = {box_pump_release(&e->pumps[0]), box_pump_release(&e->pumps[1])};
    box_slots_hold(e->session, fds);
}

_Static_assert(BOX_VERDICT_SANDBOX_LOST + 1 == BOX_SESSION_VERDICTS, "one counter for each");

static void conclude_with_verdict(box_exec *e)
{
    hand_over_pipes(e);
    box_exec_stop_io(e);
    box_verdict v;
    box_verdict_of(e, &v);
    atomic_fetch_add(&e->session->all->verdicts[v.status], 1);
    if (v.status == BOX_VERDICT_TIMED_OUT && e->info->spec.destroy_on_timeout && !e->one_off)
        v.session_destroyed = box_session_ask_stop(e->session, BOX_STOP_EXEC_TIMEOUT);
    conclude(e, &v, NULL);
}

/* --- timers ----------------------------------------------------------------------------------- */

static void idle_fires(void *arg)
{
    box_exec *e = arg;
    box_time due = box_time_add(e->last_io, e->idle_timeout_ns);
    if (box_loop_now(e->loop) >= due)
        kill_it(e, BOX_CAUSE_IDLE_TIMEOUT);
    else
        box_timer_set(e->idle_timer, due);
}

static void agent_is_broken(void *session)
{
    BOX_AUTO(box_session_unrefp) box_session *s = session;
    box_sandbox_lost(s, "its agent does not end a command", BOX_STOP_BROKEN);
}

/* The agent owns the deadline; this is for one that does not keep it. */
static void backup_fires(void *arg)
{
    box_exec *e = arg;
    if (e->backup_fired) {
        box_session_post(e->session, agent_is_broken);
        return;
    }
    e->backup_fired = true;
    kill_it(e, e->detached ? BOX_CAUSE_CANCELLED : BOX_CAUSE_TIMEOUT);
    box_timer_set(e->backup_timer,
                  box_time_add(box_loop_now(e->loop), BOX_EXEC_BROKEN_SECONDS * BOX_SECOND));
}

/* --- bytes ------------------------------------------------------------------------------------ */

static bool may_read(void *arg)
{
    box_exec *e = arg;
    return !e->stream || (!e->detached && e->events.writable(e->arg));
}

static void on_data(void *arg, int stream, const uint8_t *data, size_t len)
{
    box_exec *e = arg;
    e->last_io = box_loop_now(e->loop);
    if (e->stream)
        e->kept[stream].total_bytes += len;
    else
        box_keeper_add(&e->kept[stream], data, len);
    uint64_t total = e->kept[0].total_bytes + e->kept[1].total_bytes;
    if (total > e->output_kill_bytes && !e->over_output && e->phase == BOX_PHASE_RUNNING) {
        e->over_output = true;
        kill_it(e, BOX_CAUSE_OUTPUT_LIMIT);
    }
    if (e->stream)
        e->events.output(e->arg, stream, data, len);
}

static bool is_drained(const box_exec *e)
{
    for (int i = 0; i < 2; i++) {
        if (e->pumps[i].open && e->pumps[i].left > 0)
            return false;
    }
    return true;
}

static void on_drained(void *arg)
{
    box_exec *e = arg;
    if (e->phase == BOX_PHASE_DRAINING && is_drained(e))
        conclude_with_verdict(e);
}

static const box_pump_events pump_events = {
    .data = on_data, .may_read = may_read, .drained = on_drained};

void box_exec_on_input(void *arg, bool room)
{
    box_exec *e = arg;
    e->last_io = box_loop_now(e->loop);
    if (room && !e->detached && e->events.stdin_room != NULL)
        e->events.stdin_room(e->arg);
}

/* --- what the home side tells ----------------------------------------------------------------- */

static void open_outputs(box_exec *e)
{
    for (int i = 0; i < 2; i++) {
        if (e->result.pipes[i + 1] >= 0)
            box_pump_open(&e->pumps[i], e->loop, box_take_fd(&e->result.pipes[i + 1]), i,
                          &pump_events, e);
    }
    if (e->pumps[0].open && e->terminal)
        box_exec_open_terminal(e);
}

static int open_pipes(box_exec *e, box_error *err)
{
    for (int i = 0; i < 2; i++) {
        if (box_pump_begin(&e->pumps[i], err) < 0)
            return -1;
    }
    if (e->terminal)
        return box_exec_open_typing(e, err);
    if (e->result.pipes[0] < 0)
        return 0; /* it has no stdin */
    return box_input_open(&e->input, e->loop, box_take_fd(&e->result.pipes[0]), err);
}

static void start_timers(box_exec *e)
{
    if (e->idle_timeout_ns > 0) {
        e->idle_timer = box_timer_new(e->loop, idle_fires, e);
        box_timer_set(e->idle_timer, box_time_add(e->last_io, e->idle_timeout_ns));
    }
    if (e->backup_timer == NULL)
        e->backup_timer = box_timer_new(e->loop, backup_fires, e);
    uint64_t late = BOX_EXEC_BACKUP_SECONDS * BOX_SECOND;
    if (!e->detached)
        late = box_time_add(e->timeout_ns, late);
    bool never = e->timeout_ns == 0 && !e->detached; /* on a terminal */
    box_timer_set(e->backup_timer, never ? BOX_TIME_NEVER : box_time_add(e->last_io, late));
}

static void take_info(box_exec *e)
{
    e->info = box_alloc(sizeof *e->info);
    box_session_snapshot_but_env(e->session, e->info);
    e->info->created = e->session_created;
}

void box_exec_began(void *exec)
{
    BOX_AUTO(unrefp) box_exec *e = exec;
    e->phase = BOX_PHASE_RUNNING;
    e->began_at = e->last_io = box_loop_now(e->loop);
    take_info(e);
    if (!e->detached)
        open_outputs(e);
    box_exec_started started = {.session = e->info,
                                .pid = e->result.pid,
                                .started_wall_ns = e->result.started_wall_ns,
                                .timeout_ns = e->timeout_ns,
                                .timeout_clamped = e->timeout_clamped,
                                .timeout_asked_ns = e->timeout_asked_ns};
    if (!e->detached && e->events.started != NULL)
        e->events.started(e->arg, &started);
    if (atomic_load(&e->is_over))
        return; /* what it left in its pipes is read next */
    start_timers(e);
    box_error err;
    if (!e->detached && open_pipes(e, &err) < 0)
        kill_it(e, BOX_CAUSE_CANCELLED); /* no memory for its pipes: it cannot be let run blind */
}

void box_exec_submit(box_exec *e)
{
    box_loop_post(e->session->home, box_slots_submit, e);
}

/* The sandbox vanished before START was sent: nothing can have happened yet, so a new one may be
 * tried, once. */
static bool try_again(box_exec *e)
{
    if (e->tried_again || e->wished || e->detached || e->one_off)
        return false;
    e->tried_again = true;
    box_acquire a = {
        .tenant = e->session->tenant_name, .id = e->session->id, .spec = e->spec, .for_exec = true};
    box_session *fresh = NULL;
    bool created;
    box_error err = {0};
    if (box_sessions_acquire(e->all, &a, &fresh, &created, &err) < 0)
        return false; /* the first error says more */
    box_session_release(e->session);
    box_session_unref(e->session);
    atomic_store(&e->is_over, false);
    e->session = fresh;
    e->session_created |= created;
    for (int i = 0; i < 3; i++)
        box_closep(&e->result.pipes[i]);
    e->result = (box_exec_result){.pipes = {-1, -1, -1}, .other_side = -1};
    box_exec_submit(e);
    return true;
}

/* START was sent and never answered: it may have run, and what it wrote is in its pipes. */
static void begin_blind(box_exec *e)
{
    e->phase = BOX_PHASE_RUNNING;
    e->began_at = e->last_io = box_loop_now(e->loop);
    take_info(e);
    if (!e->detached)
        open_outputs(e);
}

void box_exec_over(void *exec)
{
    box_exec *e = exec; /* the reference of being under way */
    if (e->phase == BOX_PHASE_WAITING && e->result.fate == BOX_FATE_LOST)
        begin_blind(e);
    if (e->phase != BOX_PHASE_RUNNING) {
        if (e->result.fate == BOX_FATE_LOST_EARLY && try_again(e))
            return;
        conclude_with_error(e, &e->result.error);
        return;
    }
    e->phase = BOX_PHASE_DRAINING;
    box_timer_free(e->idle_timer);
    box_timer_free(e->backup_timer);
    e->idle_timer = e->backup_timer = NULL;
    box_closep(&e->tty);
    bool done = true;
    for (int i = 0; i < 2; i++)
        done &= box_pump_drain(&e->pumps[i]);
    if (done || e->detached)
        conclude_with_verdict(e);
}

/* --- the caller ------------------------------------------------------------------------------- */

int box_exec_feed(box_exec *e, const void *data, size_t len, bool *room, box_error *err)
{
    *room = true;
    return e->phase >= BOX_PHASE_DRAINING ? 0 : box_input_add(&e->input, data, len, room, err);
}

void box_exec_close_stdin(box_exec *e)
{
    if (e->phase < BOX_PHASE_DRAINING)
        box_input_end(&e->input);
}

int box_exec_signal(box_exec *e, int signo, bool tree, box_error *err)
{
    if (signo < 1 || signo > 64)
        return box_violation(err, "signal.number", "must be 1 to 64");
    if (tree && signo != SIGKILL)
        return box_violation(err, "signal.scope", "TREE takes only signal 9 (KILL)");
    box_agent_signal s = {.signo = (uint32_t)signo,
                          .scope = tree ? BOX_SCOPE_TREE : BOX_SCOPE_MAIN};
    if (e->phase < BOX_PHASE_DRAINING)
        wish(e, &s);
    return 0;
}

void box_exec_resume(box_exec *exec)
{
    BOX_AUTO(unrefp) box_exec *e = box_exec_ref(exec); /* its last bytes may be its end */
    for (int i = 0; i < 2; i++)
        box_pump_resume(&e->pumps[i]);
}

/* Posted: the caller may be inside a callback of one of its pipes. */
static void conclude_soon(void *exec)
{
    BOX_AUTO(unrefp) box_exec *e = exec;
    if (e->phase == BOX_PHASE_DRAINING)
        conclude_with_verdict(e);
}

void box_exec_cancel(box_exec *e)
{
    if (e == NULL)
        return;
    e->detached = true;
    if (e->phase == BOX_PHASE_DRAINING) {
        box_loop_post(e->loop, conclude_soon, box_exec_ref(e));
    } else if (e->phase != BOX_PHASE_OVER) {
        kill_it(e, BOX_CAUSE_CANCELLED);
        for (int i = 0; i < 2; i++)
            box_pump_close(&e->pumps[i]);
        if (e->backup_timer == NULL)
            e->backup_timer = box_timer_new(e->loop, backup_fires, e);
        box_time patience =
            box_time_add(box_loop_now(e->loop), BOX_EXEC_BACKUP_SECONDS * BOX_SECOND);
        box_timer_set(e->backup_timer, e->phase == BOX_PHASE_RUNNING ? patience : BOX_TIME_NEVER);
    }
    box_exec_unref(e);
}

void box_exec_free(box_exec *e)
{
    assert(e == NULL || e->phase == BOX_PHASE_OVER);
    box_exec_unref(e);
}
