/* Connections to ports inside, on the loop of their call: bytes both ways. */
#include "session/forward.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/limits.h"
#include "session/forward_impl.h"

enum { READS_A_TURN = 8 /* then others of the loop get theirs */ };

static void unrefp(box_forward **f)
{
    box_forward_unref(*f);
    *f = NULL;
}

/* --- ending ----------------------------------------------------------------------------------- */

/* What was cut off must not look whole: the program gets a reset instead of an end. And what an
 * agent may have set would make close(2) wait, nonblocking or not (socket(7), SO_LINGER). */
static void close_socket(box_forward *f, bool whole)
{
    const struct linger how = {.l_onoff = whole ? 0 : 1};
    box_watch_free(f->watch);
    f->watch = NULL;
    if (f->fd >= 0)
        (void)setsockopt(f->fd, SOL_SOCKET, SO_LINGER, &how, sizeof how); /* or it is no TCP */
    box_closep(&f->fd);
}

/* The last that happens to it: drops the reference of being under way. */
static void conclude(box_forward *f, const box_error *err)
{
    if (f->phase == BOX_FORWARD_OVER)
        return;
    bool opened = f->phase == BOX_FORWARD_OPEN;
    f->phase = BOX_FORWARD_OVER;
    if (opened) /* else its descriptor is the home loop's, or none */
        close_socket(f, err == NULL);
    box_buf_done(&f->out);
    box_session_release(f->session);
    box_loop_post(f->session->home, box_forward_leaves, box_forward_ref(f));
    if (!f->detached)
        f->events.done(f->arg, err);
    box_forward_unref(f);
}

static void was_reset(box_forward *f)
{
    box_error err;
    (void)box_fail(&err, BOX_RUNTIME_UNAVAILABLE,
                   "the program at port %u inside reset the connection", f->port); /* always -1 */
    box_error_add(&err, "cause", "reset");
    box_error_add_int(&err, "port", f->port);
    conclude(f, &err);
}

/* --- to the program --------------------------------------------------------------------------- */

/* Its end may come before all it sent was read, so sending fails first: that is still told. */
static void breaks(box_forward *f)
{
    f->broken = true;
    box_buf_clear(&f->out);
}

static void send_out(box_forward *f)
{
    while (!f->broken && box_buf_len(&f->out) > 0) {
        ssize_t n =
            send(f->fd, box_buf_data(&f->out), box_buf_len(&f->out), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n < 0)
            breaks(f);
        else
            box_buf_consume(&f->out, (size_t)n);
    }
    if (f->ending && !f->ended && !f->broken && shutdown(f->fd, SHUT_WR) < 0)
        breaks(f);
    f->ended |= f->ending;
}

static void tell_room(box_forward *f)
{
    if (!f->told_full || box_buf_len(&f->out) > BOX_FORWARD_HIGH_WATER_BYTES / 2)
        return;
    f->told_full = false;
    f->events.room(f->arg);
}

/* --- to the caller ---------------------------------------------------------------------------- */

/* One read; false when there is nothing more now, or it is over. */
static bool receive(box_forward *f)
{
    uint8_t data[BOX_FORWARD_CHUNK_BYTES];
    ssize_t n = recv(f->fd, data, sizeof data, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return false;
    if (n < 0 || (n == 0 && f->broken)) {
        was_reset(f);
        return false;
    }
    if (n == 0) {
        f->peer_closed = true;
        f->events.closed(f->arg);
        return false;
    }
    f->events.data(f->arg, data, (size_t)n);
    return f->phase == BOX_FORWARD_OPEN;
}

static bool may_read(const box_forward *f)
{
    return !f->peer_closed && f->events.writable(f->arg);
}

static void watch_what_is_due(box_forward *f)
{
    int events = (may_read(f) ? BOX_READABLE : 0) | (box_buf_len(&f->out) > 0 ? BOX_WRITABLE : 0);
    if (f->watched != events)
        box_watch_set(f->watch, events);
    f->watched = events;
}

/* What follows from what happened: false when it is over. */
static bool settle(box_forward *f)
{
    if (f->phase != BOX_FORWARD_OPEN)
        return false;
    if (f->peer_closed && f->broken) {
        was_reset(f);
        return false;
    }
    if (f->peer_closed && f->ended) {
        conclude(f, NULL);
        return false;
    }
    tell_room(f);
    if (f->phase != BOX_FORWARD_OPEN)
        return false;
    watch_what_is_due(f);
    return true;
}

static void turn(void *arg, int events)
{
    BOX_AUTO(unrefp) box_forward *f = box_forward_ref(arg);
    send_out(f);
    for (int i = 0; (events & BOX_READABLE) && i < READS_A_TURN && may_read(f); i++) {
        if (!receive(f))
            break;
    }
    (void)settle(f); /* the callback needs no more of it */
}

/* --- opening ---------------------------------------------------------------------------------- */

void box_forward_opened(void *forward)
{
    BOX_AUTO(unrefp) box_forward *f = forward;
    box_error err = {0};
    int on = 1;
    if (f->phase != BOX_FORWARD_WAITING) {
        close_socket(f, false);
        return;
    }
    f->phase = BOX_FORWARD_OPEN;
    if (box_watch_new(f->loop, f->fd, turn, f, &f->watch, &err) < 0) {
        conclude(f, &err);
        return;
    }
    /* Messages come whole: waiting for more to send would only delay them. */
    (void)setsockopt(f->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* or it is slower */
    f->events.started(f->arg, f->session->uid_text);
    if (f->phase == BOX_FORWARD_OPEN)
        turn(f, 0);
}

void box_forward_failed(void *forward)
{
    BOX_AUTO(unrefp) box_forward *f = forward;
    conclude(f, &f->error);
}

/* Its session is RUNNING, or will never be. */
static void session_is_there(void *arg, const box_session_info *info, const box_error *err)
{
    BOX_AUTO(unrefp) box_forward *f = arg;
    (void)info;
    if (err != NULL)
        conclude(f, err);
    else if (f->phase == BOX_FORWARD_WAITING)
        box_loop_post(f->session->home, box_forward_arrives, box_forward_ref(f));
}

int box_forward_new(box_sessions *all, const box_forward_request *r,
                    const box_forward_events *events, void *arg, box_forward **out, box_error *err)
{
    box_session *s = NULL;
    if (box_sessions_use(all, r->tenant, r->session_id, &s, err) < 0)
        return -1;
    box_forward *f = box_alloc(sizeof *f);
    atomic_init(&f->refs, 2); /* the caller's, and one for being under way */
    f->session = s;
    f->loop = box_loop_current();
    f->port = r->port;
    f->wait_ns = r->wait_ns;
    f->fd = -1;
    f->events = *events;
    f->arg = arg;
    f->out = (box_buf){.max_bytes = BOX_FORWARD_MAX_BYTES, .share = &s->memory};
    *out = f;
    box_forward_ref(f);
    if (box_session_state_now(s, NULL) == BOX_SESSION_RUNNING)
        box_loop_post(s->home, box_forward_arrives, f);
    else
        box_session_want_run(s, box_waiter_new(session_is_there, f));
    return 0;
}

/* --- the caller ------------------------------------------------------------------------------- */

void box_forward_resume(box_forward *f)
{
    if (f->phase == BOX_FORWARD_OPEN)
        watch_what_is_due(f);
}

/* Sends now what the socket takes. False: it is over. */
static bool push(box_forward *f)
{
    if (f->phase == BOX_FORWARD_WAITING)
        return true;
    if (f->phase == BOX_FORWARD_OPEN)
        send_out(f);
    return settle(f);
}

int box_forward_feed(box_forward *f, const void *data, size_t len, bool *room, box_error *err)
{
    BOX_AUTO(unrefp) box_forward *held = box_forward_ref(f); /* `room` may end all of it */
    *room = true;
    if (held->phase == BOX_FORWARD_OVER || f->broken || len == 0)
        return 0;
    if (box_buf_add(&f->out, data, len, err) < 0)
        return -1;
    if (!push(f))
        return 0;
    f->told_full = box_buf_len(&f->out) > BOX_FORWARD_HIGH_WATER_BYTES;
    *room = !f->told_full;
    return 0;
}

void box_forward_end(box_forward *f)
{
    BOX_AUTO(unrefp) box_forward *held = box_forward_ref(f);
    held->ending = true;
    (void)push(held); /* nobody asks how it is */
}

void box_forward_free(box_forward *f)
{
    box_error err;
    if (f == NULL)
        return;
    f->detached = true;
    (void)box_fail(&err, BOX_CANCELLED, "cancelled"); /* always -1 */
    conclude(f, &err);
    box_forward_unref(f);
}
