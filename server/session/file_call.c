/* One file call, on its loop: from its session to its answer. */
#include <assert.h>
#include <errno.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "session/file_call.h"

enum {
    READ_BYTES = 64 * 1024,
    FIRST_READ_BYTES = 8 * 1024, /* most answers fit: a large buffer for each is work for malloc */
    READS_A_TURN = 8,            /* then others of the loop get theirs */
    FEED_BYTES = 256 * 1024,     /* of content that wait for the worker */
};

static void run(box_file_call *c);

/* --- references ------------------------------------------------------------------------------- */

box_file_call *box_file_call_ref(box_file_call *c)
{
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

void box_file_call_unref(box_file_call *c)
{
    if (c == NULL || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
        return;
    box_session_unref(c->session);
    free(c);
}

static void unrefp(box_file_call **c)
{
    box_file_call_unref(*c);
    *c = NULL;
}

/* --- ending ----------------------------------------------------------------------------------- */

/* The last that happens to it: drops the reference of being under way. */
static void conclude(box_file_call *c, const box_error *err)
{
    c->phase = BOX_FILE_OVER;
    box_timer_free(c->timer);
    c->timer = NULL;
    box_buf_done(&c->ask);
    box_buf_done(&c->out);
    box_buf_done(&c->in);
    box_session_release(c->session);
    if (!c->detached)
        c->events.done(c->arg, err == NULL ? &c->answer : NULL, err);
    box_file_call_unref(c);
}

/* The worker is not to be used again. */
static void fail(box_file_call *c, const box_error *why)
{
    box_error err = *why;
    if (c->worker != NULL)
        box_files_discard(c->session, box_take(c->worker));
    conclude(c, &err);
}

static void fail_protocol(box_file_call *c, const box_error *what)
{
    box_error err;
    (void)box_fail(&err, BOX_INTERNAL, "the sandbox's file worker talks nonsense: %s", what->msg);
    fail(c, &err); /* box_fail always gives -1 */
}

/* Everything was said: the worker is good for others if it has read everything too. */
static void succeed(box_file_call *c)
{
    box_file_worker *w = box_take(c->worker);
    bool good = c->content_ended && box_buf_len(&c->out) == 0 && box_buf_len(&c->in) == 0;
    box_file_watch_rest(w);
    if (good)
        box_files_give_back(c->session, w);
    else
        box_files_discard(c->session, w);
    if (c->answer.error.reason != BOX_NONE) {
        box_error err = c->answer.error;
        conclude(c, &err);
        return;
    }
    conclude(c, NULL);
}

static bool is_repeatable(uint32_t op)
{
    return op == BOX_FILES_STAT || op == BOX_FILES_READ || op == BOX_FILES_GLOB ||
           op == BOX_FILES_GREP || op == BOX_FILES_LIST || op == BOX_FILES_REMOVE ||
           op == BOX_FILES_GET;
}

/* Its worker ended under it. */
static void lose_worker(box_file_call *c)
{
    c->phase = BOX_FILE_DYING;
    box_file_watch_end(c->worker);
    box_timer_set(c->timer,
                  box_time_add(box_loop_now(c->loop), BOX_FILES_WHY_SECONDS * BOX_SECOND));
    box_files_ask_why(c);
}

static void wait_in_queue(box_file_call *c)
{
    box_timer_set(c->timer,
                  box_time_add(box_loop_now(c->loop), BOX_FILES_QUEUE_SECONDS * BOX_SECOND));
}

/* Again with another worker; removing then goes on where it was, from S/agent, where the sandbox's
 * own memory does not count. */
static bool try_again(box_file_call *c)
{
    bool reason = c->error.reason == BOX_RUNTIME_UNAVAILABLE || c->error.reason == BOX_QUOTA;
    if (c->tried_again || c->got_something || !is_repeatable(c->op) || !reason || c->detached)
        return false;
    c->tried_again = true;
    c->in_agent = c->op == BOX_FILES_REMOVE;
    box_buf_done(&c->in);
    box_buf_clear(&c->out);
    c->phase = BOX_FILE_WAITING;
    wait_in_queue(c);
    if (box_files_want(c))
        run(c);
    return true;
}

void box_file_explained(void *call)
{
    BOX_AUTO(unrefp) box_file_call *c = call;
    if (c->phase != BOX_FILE_DYING)
        return;
    box_file_worker_unref(box_take(c->worker));
    if (!try_again(c))
        conclude(c, &c->error);
}

/* --- time ------------------------------------------------------------------------------------- */

/* Its worker closed its socket, and the agent does not tell of its end. */
static void never_explained(box_file_call *c)
{
    box_error err;
    (void)box_fail(&err, BOX_RUNTIME_UNAVAILABLE,
                   "the sandbox's file worker does not go on"); /* always -1 */
    fail(c, &err);
}

static void on_timer(void *arg)
{
    box_file_call *c = arg;
    box_error err;
    if (c->phase == BOX_FILE_DYING) {
        never_explained(c);
        return;
    }
    bool queued = c->phase == BOX_FILE_WAITING;
    if (queued && !box_files_unwant(c))
        return; /* it is being granted or refused: the next turn knows */
    (void)box_fail(&err, queued ? BOX_RATE_LIMIT : BOX_DEADLINE,
                   queued ? "other file calls of the session take too long"
                          : "the sandbox's file worker, or the caller, does not go on"); /* -1 */
    err.retry_ms = queued ? 1000 : 0;
    fail(c, &err);
}

static bool streams(const box_file_call *c)
{
    return c->op == BOX_FILES_PUT || c->op == BOX_FILES_GET;
}

/* Something moved. `caller`: it is the caller's turn. */
static void be_patient(box_file_call *c, bool caller)
{
    if (!streams(c))
        return;
    uint64_t seconds = caller ? BOX_FILES_STALL_SECONDS : BOX_FILES_HANG_SECONDS;
    box_timer_set(c->timer, box_time_add(box_loop_now(c->loop), seconds * BOX_SECOND));
}

/* --- out -------------------------------------------------------------------------------------- */

static bool may_read(const box_file_call *c)
{
    return c->events.writable == NULL || c->detached || c->events.writable(c->arg);
}

static void watch_what_is_due(box_file_call *c)
{
    box_file_watch_set(c->worker, (may_read(c) ? BOX_READABLE : 0) |
                                      (box_buf_len(&c->out) > 0 ? BOX_WRITABLE : 0));
}

/* False: the worker has closed its end; what it said before is still to be read. */
static bool send_out(box_file_call *c)
{
    while (box_buf_len(&c->out) > 0) {
        ssize_t n = send(c->worker->fd, box_buf_data(&c->out), box_buf_len(&c->out),
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK;
        box_buf_consume(&c->out, (size_t)n);
        be_patient(c, false);
        box_loop_expect(c->worker->loop); /* most answers take less than waking up does */
    }
    return true;
}

static void tell_room(box_file_call *c)
{
    if (!c->told_full || box_buf_len(&c->out) > FEED_BYTES / 2 || c->detached)
        return;
    c->told_full = false;
    c->events.room(c->arg);
}

/* --- in --------------------------------------------------------------------------------------- */

/* One read; false when there is nothing more now, or the call ended. */
static bool receive(box_file_call *c)
{
    uint8_t *room;
    box_error err = {0};
    size_t most = c->got_something ? READ_BYTES : FIRST_READ_BYTES;
    if (box_buf_reserve(&c->in, most, &room, &err) < 0) {
        fail(c, &err);
        return false;
    }
    ssize_t n = recv(c->worker->fd, room, most, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return false;
    if (n <= 0) {
        lose_worker(c);
        return false;
    }
    box_buf_commit(&c->in, (size_t)n);
    BOX_IGNORE(box_file_take_frames(c, &err)); /* err says it */
    if (err.reason == BOX_VERSION_MISMATCH)
        fail(c, &err);
    else if (err.reason != BOX_NONE)
        fail_protocol(c, &err);
    else if (c->answered)
        succeed(c);
    return c->phase == BOX_FILE_RUNNING;
}

static void turn(box_file_call *c, bool readable)
{
    bool alive = send_out(c);
    for (int i = 0; readable && i < READS_A_TURN && may_read(c); i++) {
        if (!receive(c))
            break;
    }
    if (c->phase != BOX_FILE_RUNNING)
        return;
    if (!alive && box_buf_len(&c->out) > 0)
        box_buf_clear(&c->out); /* what it still says, and its end, come by reading */
    if (c->op == BOX_FILES_GET)
        be_patient(c, !may_read(c));
    else if (c->op == BOX_FILES_PUT)
        be_patient(c, !c->content_ended && box_buf_len(&c->out) == 0);
    tell_room(c);
    if (c->phase == BOX_FILE_RUNNING)
        watch_what_is_due(c);
}

void box_file_ready(box_file_call *c, int events)
{
    BOX_AUTO(unrefp) box_file_call *mine = box_file_call_ref(c);
    turn(mine, (events & BOX_READABLE) != 0);
}

/* --- running ---------------------------------------------------------------------------------- */

static int begin(box_file_call *c, box_error *err)
{
    if (box_file_watch_begin(c, err) < 0)
        return -1;
    c->phase = BOX_FILE_RUNNING;
    size_t fed = box_buf_len(&c->out); /* content that came while it waited */
    if (fed == 0)
        return box_buf_add(&c->out, box_buf_data(&c->ask), box_buf_len(&c->ask), err);
    BOX_AUTO(box_buf_done) box_buf later = c->out;
    c->out = (box_buf){.max_bytes = later.max_bytes, .share = later.share};
    if (box_buf_add(&c->out, box_buf_data(&c->ask), box_buf_len(&c->ask), err) < 0)
        return -1;
    return box_buf_add(&c->out, box_buf_data(&later), fed, err);
}

/* It has a worker. */
static void run(box_file_call *c)
{
    box_error err = {0};
    if (begin(c, &err) < 0) {
        fail(c, &err);
        return;
    }
    if (streams(c))
        be_patient(c, false);
    else
        box_timer_set(c->timer, box_time_add(box_loop_now(c->loop), c->patience_ns));
    if (!is_repeatable(c->op))
        box_buf_done(&c->ask);
    turn(c, false);
}

void box_file_granted(void *call)
{
    BOX_AUTO(unrefp) box_file_call *c = call;
    if (c->phase == BOX_FILE_WAITING)
        run(c);
    else
        box_files_give_back(c->session, box_take(c->worker)); /* cancelled meanwhile */
}

void box_file_refused(void *call)
{
    BOX_AUTO(unrefp) box_file_call *c = call;
    if (c->phase == BOX_FILE_WAITING)
        conclude(c, &c->error);
}

/* Its session is RUNNING, or will never be. */
static void session_is_there(void *arg, const box_session_info *info, const box_error *err)
{
    (void)info;
    BOX_AUTO(unrefp) box_file_call *c = arg;
    if (c->phase != BOX_FILE_WAITING)
        return;
    if (err != NULL)
        conclude(c, err);
    else if (box_files_want(c))
        run(c);
}

/* --- starting --------------------------------------------------------------------------------- */

static box_file_call *call_new(box_session *s, const box_file_request *r,
                               const box_file_events *events, void *arg)
{
    box_file_call *c = box_alloc(sizeof *c);
    atomic_init(&c->refs, 2); /* the caller's, and one for being under way */
    c->session = s;
    c->loop = box_loop_current();
    c->phase = BOX_FILE_WAITING;
    c->events = *events;
    c->arg = arg;
    box_file_bound(c, &r->ask->head);
    size_t most = 2 * sizeof(box_files_frame) + BOX_FILES_ASK_BYTES;
    c->ask = (box_buf){.max_bytes = most, .share = &s->memory};
    c->out = (box_buf){.max_bytes = 2 * most, .share = &s->memory};
    c->in = (box_buf){.max_bytes = BOX_FILES_WORKER_BYTES + READ_BYTES, .share = &s->memory};
    c->timer = box_timer_new(c->loop, on_timer, c);
    return c;
}

/* Never was under way. */
static void undo(box_file_call *c)
{
    c->detached = true;
    box_file_call_unref(c);
    conclude(c, NULL);
}

/* Not from inside box_file_start: what follows may answer. */
static void go(void *call)
{
    BOX_AUTO(unrefp) box_file_call *c = call;
    if (c->phase == BOX_FILE_WAITING && box_files_want(c))
        run(c);
}

int box_file_start(box_sessions *all, const box_file_request *r, const box_file_events *events,
                   void *arg, box_file_call **out, box_error *err)
{
    box_session *s = NULL;
    if (box_sessions_use(all, r->tenant, r->session_id, &s, err) < 0)
        return -1;
    box_file_call *c = call_new(s, r, events, arg);
    if (box_file_pack(c, r, err) < 0) {
        undo(c);
        return -1;
    }
    wait_in_queue(c);
    *out = c;
    if (box_session_state_now(s, NULL) == BOX_SESSION_RUNNING)
        box_loop_post(c->loop, go, box_file_call_ref(c));
    else
        box_session_want_run(s, box_waiter_new(session_is_there, box_file_call_ref(c)));
    return 0;
}

size_t box_file_path_len(const box_file_call *c)
{
    return c->path_len;
}

/* --- the caller ------------------------------------------------------------------------------- */

/* Its frames go out at the end of the turn when the socket had room all the time. */
static void push(box_file_call *c)
{
    if (c->phase == BOX_FILE_RUNNING && !send_out(c))
        box_buf_clear(&c->out); /* its end comes by reading */
    if (c->phase == BOX_FILE_RUNNING)
        watch_what_is_due(c);
}

int box_file_feed(box_file_call *c, const void *data, size_t len, bool *room, box_error *err)
{
    *room = true;
    if (c->phase >= BOX_FILE_DYING || len == 0)
        return 0;
    assert(!c->content_ended);
    if (box_files_put_frame(&c->out, BOX_FILES_DATA, data, len, err) < 0)
        return -1;
    push(c);
    c->told_full = box_buf_len(&c->out) > FEED_BYTES;
    *room = !c->told_full;
    return 0;
}

int box_file_end(box_file_call *c, box_error *err)
{
    if (c->phase >= BOX_FILE_DYING)
        return 0;
    if (box_file_put_end(c, err) < 0)
        return -1;
    push(c);
    return 0;
}

void box_file_resume(box_file_call *c)
{
    if (c->phase == BOX_FILE_RUNNING)
        watch_what_is_due(c);
}

void box_file_cancel(box_file_call *c)
{
    if (c == NULL)
        return;
    box_error err;
    c->detached = true;
    (void)box_fail(&err, BOX_CANCELLED, "cancelled"); /* always -1 */
    if (c->phase == BOX_FILE_WAITING) {
        BOX_IGNORE(
            box_files_unwant(c)); /* else it is being granted or refused, which is harmless */
        conclude(c, &err);
    } else if (c->phase == BOX_FILE_RUNNING) {
        fail(c, &err);
    }
    box_file_call_unref(c);
}

void box_file_free(box_file_call *c)
{
    assert(c == NULL || c->phase == BOX_FILE_OVER);
    box_file_call_unref(c);
}
