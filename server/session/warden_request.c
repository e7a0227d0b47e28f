/* Requests to a warden: their life from asking to answer. */
#include "base/alloc.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "session/warden_impl.h"

void box_warden_reply_done(box_warden_reply *r)
{
    box_closep(&r->cgroup);
    box_closep(&r->devpts);
    box_closep(&r->pidfd);
    box_closep(&r->memory);
}

/* --- requests --------------------------------------------------------------------------------- */

static size_t body_size(box_warden_type type)
{
    switch (type) {
    case BOX_WARDEN_CREATE:
        return sizeof(box_warden_create);
    case BOX_WARDEN_LIMITS:
        return sizeof(box_warden_limits);
    default:
        return sizeof(box_warden_target);
    }
}

static uint64_t timeout_of(box_warden_type type)
{
    switch (type) {
    case BOX_WARDEN_CREATE:
        return BOX_WARDEN_CREATE_SECONDS * BOX_SECOND;
    case BOX_WARDEN_DESTROY:
    case BOX_WARDEN_SWEEP:
        return BOX_WARDEN_DESTROY_SECONDS * BOX_SECOND;
    default:
        return BOX_WARDEN_ASK_SECONDS * BOX_SECOND;
    }
}

box_warden_request *box_warden_request_new(box_warden *w, box_warden_type type, const void *body)
{
    box_warden_request *r = box_alloc(sizeof *r);
    r->warden = w;
    r->type = type;
    r->size = body_size(type);
    r->fd = -1;
    r->timeout_ns = timeout_of(type);
    r->reply.cgroup = r->reply.devpts = r->reply.pidfd = r->reply.memory = -1;
    memcpy(&r->body, body, r->size);
    return r;
}

void box_warden_request_free(box_warden_request *r)
{
    box_warden_reply_done(&r->reply);
    box_closep(&r->fd);
    free(r);
}

static void deliver(void *arg)
{
    box_warden_request *r = arg;
    box_warden_reply reply = r->reply;
    r->reply.cgroup = r->reply.devpts = r->reply.pidfd = r->reply.memory = -1;
    r->done(r->arg, &reply);
    box_warden_request_free(r);
}

/* The request leaves the warden's tables; its reply, filled in, goes to whoever asked. */
void box_warden_request_end(box_warden_request *r)
{
    (void)box_map_remove_bytes(r->warden->requests, &r->id, sizeof r->id); /* it is r */
    box_list_remove(&r->link);
    box_timer_free(r->timer);
    r->timer = NULL;
    box_closep(&r->fd);
    if (r->done != NULL)
        box_loop_post(r->reply_to, deliver, r);
    else
        box_warden_request_free(r);
}

/* BACKEND_UNAVAILABLE {backend}: "backend NAME: what". */
static void unavailable(const box_warden *w, box_error *err, const char *what)
{
    (void)box_fail(err, BOX_BACKEND_UNAVAILABLE, "backend %s: %s", w->name, what);
    box_error_add(err, "backend", w->name);
    err->retry_ms = 1000;
}

void box_warden_request_timed_out(void *arg)
{
    box_warden_request *r = arg;
    unavailable(r->warden, &r->reply.error, "its warden did not answer in time");
    box_log(BOX_WARN, "warden.timeout", BOX_STR("backend", r->warden->name),
            BOX_INT("type", r->type));
    box_warden_request_end(r);
}

void box_warden_fail_all(box_warden *w, const char *what)
{
    size_t at = 0;
    void *value;
    while (box_map_next(w->requests, &at, &value)) {
        box_warden_request *r = value;
        unavailable(w, &r->reply.error, what);
        box_warden_request_end(r);
        at = 0; /* the map changed */
    }
}

/* --- asking ----------------------------------------------------------------------------------- */

/* On the warden's loop. A warden that was down gets another chance at once, but not more often than
 * the shortest pause. */
static void submit(void *arg)
{
    box_warden_request *r = arg;
    box_warden *w = r->warden;
    r->id = w->next_id++;
    box_map_put_bytes(w->requests, &r->id, sizeof r->id, r);
    if (box_map_count(w->requests) > BOX_WARDEN_MAX_REQUESTS) {
        unavailable(w, &r->reply.error, "too many requests wait for its warden");
        box_warden_request_end(r);
        return;
    }
    bool rested =
        box_loop_now(w->loop) >= box_time_add(w->last_try, (uint64_t)BOX_WARDEN_RETRY_MS * BOX_MS);
    if (w->phase == BOX_WARDEN_DOWN && !w->ended && rested) {
        box_list_append(&w->waiting, &r->link);
        box_warden_connect(w);
        return;
    }
    if (w->phase == BOX_WARDEN_DOWN) {
        box_backend_report report;
        box_warden_report(w, &report);
        unavailable(w, &r->reply.error, report.detail);
        box_warden_request_end(r);
        return;
    }
    box_list_append(&w->waiting, &r->link);
    box_warden_flush(w);
}

void box_warden_ask(box_warden *w, box_warden_type type, const void *body, int fd,
                    box_loop *reply_to, void (*done)(void *arg, box_warden_reply *reply), void *arg)
{
    box_warden_request *r = box_warden_request_new(w, type, body);
    r->fd = fd;
    r->reply_to = reply_to;
    r->done = done;
    r->arg = arg;
    box_loop_post(w->loop, submit, r);
}
