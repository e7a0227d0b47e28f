/* Beginning a command: its check, its session, its limits. */
#include "base/alloc.h"
#include "base/limits.h"
#include "session/execution.h"

int box_exec_check(const box_exec_request *r, box_error *err)
{
    int bad = r->command != NULL ? box_command_check(r->command, "command.", err) : 0;
    bad |= box_session_check(r->session_id, r->spec, err);
    if (r->has_queue_timeout && r->queue_timeout_ns < 0)
        bad |= box_violation(err, "queue_timeout", "must not be negative");
    if (r->rows < 0 || r->rows > UINT16_MAX || r->columns < 0 || r->columns > UINT16_MAX)
        bad |= box_violation(err, "terminal.size", "must be 0 to 65535");
    return bad;
}

static int begin_idempotency(box_sessions *all, const box_exec_request *r, box_error *err)
{
    if (r->idempotency_key == NULL || r->idempotency_key[0] == '\0')
        return 0;
    box_idem_outcome outcome;
    const char *session;
    box_time now = box_loop_now(box_loop_current());
    box_lock_take(&all->lock);
    int rc = box_idem_begin(all->idem, r->tenant, "exec", r->idempotency_key, r->digest, now,
                            &outcome, &session, err);
    box_lock_release(&all->lock);
    if (rc < 0 || outcome == BOX_IDEM_NEW)
        return rc;
    return box_fail(err, BOX_IDEMPOTENCY_DONE,
                    outcome == BOX_IDEM_RUNNING
                        ? "the call with this idempotency key is still running"
                        : "the call with this idempotency key has run; its answer is not kept");
}

static void forget_idempotency(box_sessions *all, const box_exec_request *r)
{
    if (r->idempotency_key == NULL || r->idempotency_key[0] == '\0')
        return;
    box_lock_take(&all->lock);
    box_idem_end(all->idem, r->tenant, "exec", r->idempotency_key, false, 0);
    box_lock_release(&all->lock);
}

static void fill_limits(box_exec *e, const box_exec_request *r)
{
    const box_command *c = r->command;
    const box_session *s = e->session;
    e->timeout_asked_ns = c->has_timeout ? c->timeout_ns : 0;
    if (e->terminal) /* somebody is there who can end it, and it is no slot that others wait for */
        e->timeout_ns = (uint64_t)e->timeout_asked_ns;
    else
        e->timeout_ns = box_profile_timeout(s->profile, (uint64_t)e->timeout_asked_ns,
                                            s->spec.command_timeout_ns, &e->timeout_clamped);
    e->queue_timeout_ns =
        r->has_queue_timeout ? (uint64_t)r->queue_timeout_ns : BOX_EXEC_QUEUE_SECONDS * BOX_SECOND;
    e->idle_timeout_ns = c->has_idle_timeout ? (uint64_t)c->idle_timeout_ns : 0;
    e->output_kill_bytes = c->has_output_kill ? (uint64_t)c->output_kill_bytes : UINT64_MAX;
    bool kill =
        c->leftovers == BOX_LEFTOVERS_KILL || (c->leftovers == BOX_LEFTOVERS_DEFAULT && e->one_off);
    e->start_flags =
        (kill ? BOX_START_KILL_LEFTOVERS : 0) | (e->terminal ? (uint32_t)BOX_START_TERMINAL : 0);
    size_t limit =
        c->has_output_limit ? (size_t)c->output_limit_bytes : BOX_DEFAULT_OUTPUT_LIMIT_BYTES;
    for (int i = 0; i < 2; i++)
        box_keeper_init(&e->kept[i], e->stream ? 0 : limit, &e->payer->memory);
}

static box_exec *exec_new(box_sessions *all, const box_exec_request *r,
                          const box_exec_events *events, void *arg)
{
    box_exec *e = box_alloc(sizeof *e);
    atomic_init(&e->refs, 2); /* the caller's, and one for being under way */
    e->all = all;
    e->loop = box_loop_current();
    e->events = *events;
    e->arg = arg;
    e->stream = r->stream;
    e->terminal = r->terminal;
    e->rows = (uint16_t)r->rows;
    e->columns = (uint16_t)r->columns;
    e->tty = e->result.other_side = -1;
    e->phase = BOX_PHASE_WAITING;
    for (int i = 0; i < 3; i++)
        e->child_fds[i] = e->result.pipes[i] = -1;
    box_input_init(&e->input, box_exec_on_input, e);
    if (r->spec != NULL) {
        e->spec = box_alloc(sizeof *e->spec);
        box_spec_copy(e->spec, r->spec);
    }
    if (r->idempotency_key != NULL && r->idempotency_key[0] != '\0') {
        e->idem_tenant = box_strdup(r->tenant);
        e->idem_key = box_strdup(r->idempotency_key);
    }
    return e;
}

/* Gives back a command that never was handed over. */
static void undo(box_exec *e)
{
    box_exec_stop_io(e);
    for (int i = 0; i < 2; i++)
        box_keeper_done(&e->kept[i]);
    box_exec_leave_session(e);
    box_exec_unref(e);
    box_exec_unref(e);
}

/* What it holds while it waits and runs. */
static int pay(box_exec *e, box_error *err)
{
    size_t bytes = box_program_bytes(&e->program) + (e->spec != NULL ? box_spec_bytes(e->spec) : 0);
    if (box_share_take(&e->payer->memory, bytes, err) < 0)
        return -1;
    e->charged_bytes = bytes;
    return 0;
}

static int prepare(box_exec *e, const box_exec_request *r, box_error *err)
{
    bool room; /* told by stdin_room */
    e->payer = box_session_ref(e->session);
    e->input.queue.share = &e->payer->memory;
    fill_limits(e, r);
    if (box_program_init(&e->program, r->command, &e->session->spec, err) < 0 || pay(e, err) < 0)
        return -1;
    if (r->stdin_len > 0 && box_input_add(&e->input, r->stdin_data, r->stdin_len, &room, err) < 0)
        return -1;
    if (!r->stdin_open)
        box_input_end(&e->input);
    if (!r->stdin_open && r->stdin_len == 0)
        e->start_flags |= BOX_START_NO_STDIN;
    return 0;
}

static int start(box_sessions *all, const box_exec_request *r, const box_exec_events *events,
                 void *arg, box_exec **out, box_error *err)
{
    bool one_off = r->session_id[0] == '\0';
    box_acquire a = {.tenant = r->tenant,
                     .id = r->session_id,
                     .spec = r->spec,
                     .one_off = one_off,
                     .for_exec = true};
    box_session *session = NULL;
    bool created;
    if (box_sessions_acquire(all, &a, &session, &created, err) < 0)
        return -1;
    box_exec *e = exec_new(all, r, events, arg);
    e->session = session;
    e->session_created = created;
    e->one_off = one_off;
    if (prepare(e, r, err) < 0) {
        undo(e);
        return -1;
    }
    *out = e;
    box_exec_submit(e);
    return 0;
}

int box_exec_start(box_sessions *all, const box_exec_request *r, const box_exec_events *events,
                   void *arg, box_exec **out, box_error *err)
{
    if (box_exec_check(r, err) < 0 || begin_idempotency(all, r, err) < 0)
        return -1;
    int rc = start(all, r, events, arg, out, err);
    if (rc < 0)
        forget_idempotency(all, r);
    return rc;
}
