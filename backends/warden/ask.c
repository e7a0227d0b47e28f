/* Requests of boxd: each is checked, then becomes a job or is answered at once. */
#include <sys/socket.h>

#include "base/fd.h"
#include "base/limits.h"
#include "warden/internal.h"
#include "warden/memory.h"
#include "warden/request.h"

static int too_busy(const box_warden *w, box_error *err)
{
    if (w->stopping || w->removing)
        return box_fail(err, BOX_SHUTTING_DOWN, "the warden is ending");
    if (w->n_queue + w->n_waiters < BOX_WARDEN_MAX_QUEUE)
        return 0;
    (void)box_fail(err, BOX_BACKEND_UNAVAILABLE, "the warden has %d requests waiting",
                   BOX_WARDEN_MAX_QUEUE);
    box_error_add(err, "backend", w->ops->name);
    err->retry_ms = 500;
    return -1;
}

int box_warden_out_of_descriptors(const box_warden *w, box_error *err)
{
    (void)box_fail(err, BOX_BACKEND_UNAVAILABLE, "the warden is out of file descriptors");
    box_error_add(err, "backend", w->ops->name);
    err->retry_ms = 500;
    return -1;
}

/* A descriptor that is no listening SEQPACKET socket is not for an agent. */
static int check_listener(int fd, box_error *err)
{
    int domain = 0;
    int type = 0;
    int listening = 0;
    socklen_t len = sizeof(int);
    if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0 || domain != AF_UNIX ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0 || type != SOCK_SEQPACKET ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) < 0 || listening == 0)
        return box_fail(err, BOX_VALIDATION, "CREATE needs a listening SEQPACKET Unix socket");
    return 0;
}

static int ask_create(box_warden *w, warden_conn *c, uint64_t id, const void *body, int *fd,
                      box_error *err)
{
    box_warden_create request;
    memcpy(&request, body, sizeof request);
    warden_sandbox *s;
    int64_t disk_bytes;
    if (check_listener(*fd, err) < 0 || too_busy(w, err) < 0 ||
        box_warden_create_check(&request, w->config, w->ops->name, w->guarantees, err) < 0 ||
        box_warden_disk_admit(w, &request, &disk_bytes, err) < 0 ||
        box_warden_sandbox_add(w, &request.uid, &c->instance, request.flags, &s, err) < 0)
        return -1;
    s->record.disk_bytes = disk_bytes;
    if (box_warden_memory_admit(w, s, &request, err) < 0) {
        box_warden_sandbox_end(w, s); /* what was prepared goes */
        return -1;
    }
    s->conn = c->serial;
    if (disk_bytes > 0)
        box_warden_disk_claim(w, s, request.workspace_bytes, c->serial);
    warden_job *job = box_warden_job_new(JOB_CREATE, s, c->serial, id);
    job->create = request;
    job->prepared = s->standby != NULL;
    job->listen_fd = box_take_fd(fd);
    box_warden_job_queue(w, job);
    return 0;
}

static int ask_destroy(box_warden *w, warden_conn *c, uint64_t id, const void *body, box_error *err)
{
    box_warden_target target;
    memcpy(&target, body, sizeof target);
    warden_sandbox *s = box_warden_sandbox_of(w, &target.uid, &c->instance);
    if (s == NULL) {
        const box_error none = {0};
        box_warden_conn_answer_error(w, c->serial, id, &none);
        return 0;
    }
    if (too_busy(w, err) < 0)
        return -1;
    s->tell_exited = false;
    box_warden_sandbox_end_for(w, s, c->serial, id, NULL);
    return 0;
}

static int ask_kind(box_warden *w, warden_conn *c, uint64_t id, job_kind kind, const box_uid *uid,
                    const box_warden_limits *limits, box_error *err)
{
    warden_sandbox *s = box_warden_sandbox_of(w, uid, &c->instance);
    bool gone = s == NULL || s->state == SANDBOX_ENDING;
    if (gone && (kind == JOB_ALIVE || kind == JOB_KEEP)) {
        const box_warden_answer dead = {.alive = BOX_DEAD};
        box_warden_conn_answer(w, c->serial, id, &dead, NULL, 0);
        return 0;
    }
    if (gone)
        return box_fail(err, BOX_SESSION_NOT_FOUND, "no such sandbox");
    /* KEEP is never refused, or the sweep would remove what lives; there is one a sandbox. */
    if (kind == JOB_KEEP)
        s->conn = c->serial;
    else if (too_busy(w, err) < 0)
        return -1;
    if (limits != NULL && box_warden_memory_raise(w, s, limits->memory_bytes, err) < 0)
        return -1;
    warden_job *job = box_warden_job_new(kind, s, c->serial, id);
    if (limits != NULL)
        job->limits = *limits;
    box_warden_job_queue(w, job);
    return 0;
}

static int ask_limits(box_warden *w, warden_conn *c, uint64_t id, const void *body, box_error *err)
{
    box_warden_limits limits;
    memcpy(&limits, body, sizeof limits);
    if (box_warden_limits_check(&limits, w->config, w->ops->name, w->guarantees, err) < 0)
        return -1;
    return ask_kind(w, c, id, JOB_LIMITS, &limits.uid, &limits, err);
}

int box_warden_conn_ask(box_warden *w, warden_conn *c, const box_warden_header *h, const void *body,
                        int *fd, box_error *err)
{
    const box_uid *uid = body; /* of a target; bytes have no alignment */
    switch ((box_warden_type)h->type) {
    case BOX_WARDEN_CREATE:
        return ask_create(w, c, h->id, body, fd, err);
    case BOX_WARDEN_DESTROY:
        return ask_destroy(w, c, h->id, body, err);
    case BOX_WARDEN_ALIVE:
        return ask_kind(w, c, h->id, JOB_ALIVE, uid, NULL, err);
    case BOX_WARDEN_LIMITS:
        return ask_limits(w, c, h->id, body, err);
    case BOX_WARDEN_USAGE:
        return ask_kind(w, c, h->id, JOB_USAGE, uid, NULL, err);
    case BOX_WARDEN_KEEP:
        return ask_kind(w, c, h->id, JOB_KEEP, uid, NULL, err);
    case BOX_WARDEN_SWEEP:
        box_warden_sandboxes_sweep(w, c, h->id);
        return 0;
    case BOX_WARDEN_HELLO:
    case BOX_WARDEN_ANSWER:
    case BOX_WARDEN_EXITED:
    case BOX_WARDEN_PREPARED:
        break;
    }
    return box_fail(err, BOX_PROTOCOL, "a packet of a type that boxd does not send");
}
