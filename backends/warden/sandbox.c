/* The table of sandboxes, and what happens to one. */
#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "warden/internal.h"
#include "warden/memory.h"
#include "warden/state.h"

warden_sandbox *box_warden_sandbox_find(const box_warden *w, const box_uid *uid)
{
    return box_map_get_bytes(w->sandboxes, uid->bytes, sizeof uid->bytes);
}

warden_sandbox *box_warden_sandbox_of(const box_warden *w, const box_uid *uid,
                                      const box_uid *instance)
{
    warden_sandbox *s = box_warden_sandbox_find(w, uid);
    return s != NULL && box_uid_equal(&s->record.instance, instance) ? s : NULL;
}

static void pid_ended(box_warden *w, warden_watch *watch, uint32_t events);

static warden_sandbox *new_sandbox(box_warden *w, const box_uid *uid)
{
    warden_sandbox *s = box_alloc(sizeof *s);
    s->record.uid = *uid;
    s->pid = (warden_watch){.fd = -1, .ready = pid_ended};
    s->status = -1;
    s->held = (warden_held){-1, -1};
    box_list_init(&s->waiters);
    void *before = box_map_put_bytes(w->sandboxes, uid->bytes, sizeof uid->bytes, s);
    assert(before == NULL);
    return s;
}

int box_warden_sandbox_add(box_warden *w, const box_uid *uid, const box_uid *instance,
                           uint32_t flags, warden_sandbox **out, box_error *err)
{
    int64_t max = w->config->maxima.sandboxes;
    warden_sandbox *same = box_warden_sandbox_find(w, uid);
    if (same != NULL && !box_warden_again_adopt(w, same))
        return box_violation(err, "uid", "is in use");
    if (same != NULL) {
        same->record.instance = *instance;
        same->record.flags = flags;
        *out = same;
        return 0;
    }
    if (box_map_count(w->sandboxes) >= (size_t)max) {
        (void)box_fail(err, BOX_SESSION_LIMIT, "the warden has its %lld sandboxes", (long long)max);
        return box_error_limit(err, "sandboxes", max, max);
    }
    box_sandbox_record begun = {.uid = *uid};
    warden_standby *standby = box_warden_standby_take(w, uid);
    if (standby != NULL)
        begun = standby->record;
    else if (box_uids_take(w->uids, &begun.uid_base, err) < 0)
        return -1;
    warden_sandbox *s = new_sandbox(w, uid);
    s->standby = standby;
    s->record = begun;
    s->record.instance = *instance;
    s->record.flags = flags;
    s->owns_uids = true;
    *out = s;
    return 0;
}

void box_warden_sandbox_restore(void *warden, const box_sandbox_record *record, bool to_end)
{
    box_warden *w = warden;
    if (box_warden_sandbox_find(w, &record->uid) != NULL)
        return; /* two files of one sandbox: somebody copied one */
    warden_sandbox *s = new_sandbox(w, &record->uid);
    s->record = *record;
    s->owns_uids = box_uids_claim(w->uids, record->uid_base);
    s->state = SANDBOX_LIVE;
    box_warden_memory_settle(w, s); /* admitted before: no limit holds it up */
    if (to_end || record->pid == 0)
        box_warden_sandbox_end(w, s); /* half made, or of an earlier boot */
    else
        box_warden_job_queue(w, box_warden_job_new(JOB_ADOPT, s, 0, 0));
}

void box_warden_sandbox_free(box_warden *w, warden_sandbox *s)
{
    (void)box_map_remove_bytes(w->sandboxes, s->record.uid.bytes, sizeof s->record.uid.bytes);
    box_warden_watch_close(w, &s->pid);
    box_warden_standby_drop(w, s->standby);
    box_warden_memory_give(w, s);
    box_warden_held_done(&s->held);
    if (s->owns_uids)
        box_uids_give(w->uids, s->record.uid_base);
    for (box_list *at = s->waiters.next; at != &s->waiters;) {
        warden_waiter *waiter = BOX_CONTAINER(at, warden_waiter, link);
        at = at->next;
        free(waiter);
        w->n_waiters--;
    }
    free(s);
}

/* --- the end ---------------------------------------------------------------------------------- */

/* Whoever waits for the end of its processes does not wait for a helper too: killing never blocks.
 * The helper comes when they are dead; if they take long, to lift what slows them. */
static bool kill_now(const box_warden *w, const warden_sandbox *s)
{
    return w->ops->pid1_is_all && s->pid.fd >= 0 &&
           pidfd_send_signal(s->pid.fd, SIGKILL, NULL, 0) == 0;
}

void box_warden_sandbox_end(box_warden *w, warden_sandbox *s)
{
    if (s->state == SANDBOX_ENDING)
        return;
    s->state = SANDBOX_ENDING;
    box_warden_standby_drop(w, s->standby); /* its CREATE was not begun */
    s->standby = NULL;
    if (s->retry_at != 0) { /* of an adoption */
        s->retry_at = 0;
        w->n_retries--;
    }
    warden_job *job = box_warden_job_new(JOB_DESTROY, s, 0, 0);
    if (kill_now(w, s))
        job->not_before = box_time_add(box_now(), BOX_WARDEN_DYING_MS * BOX_MS);
    box_warden_job_queue(w, job);
}

static void retry(box_warden *w, warden_sandbox *s)
{
    job_kind kind = s->state == SANDBOX_ENDING ? JOB_DESTROY : JOB_ADOPT;
    s->retry_at = 0;
    w->n_retries--;
    box_warden_job_queue(w, box_warden_job_new(kind, s, 0, 0));
}

static void retry_later(box_warden *w, warden_sandbox *s)
{
    s->retry_at = box_time_add(box_now(), BOX_WARDEN_RETRY_SECONDS * BOX_SECOND);
    w->n_retries++;
}

static void add_waiter(box_warden *w, warden_sandbox *s, uint64_t conn, uint64_t id,
                       warden_sweep *sweep)
{
    warden_waiter *waiter = box_alloc(sizeof *waiter);
    waiter->conn = conn;
    waiter->id = id;
    waiter->sweep = sweep;
    box_list_append(&s->waiters, &waiter->link);
    w->n_waiters++;
}

void box_warden_sandbox_end_for(box_warden *w, warden_sandbox *s, uint64_t conn, uint64_t id,
                                warden_sweep *sweep)
{
    if (s->dead && sweep == NULL)
        box_warden_conn_answer_error(w, conn, id, &(box_error){0});
    else
        add_waiter(w, s, conn, id, sweep);
    if (s->retry_at != 0 && s->state == SANDBOX_ENDING)
        retry(w, s); /* somebody waits: at once */
    box_warden_sandbox_end(w, s);
}

static void tell(box_warden *w, warden_waiter *waiter, const box_error *error)
{
    warden_sweep *sweep = waiter->sweep;
    box_list_remove(&waiter->link);
    w->n_waiters--;
    if (sweep == NULL) {
        box_warden_conn_answer_error(w, waiter->conn, waiter->id, error);
    } else {
        if (sweep->error.reason == BOX_NONE)
            sweep->error = *error;
        if (--sweep->left == 0) {
            box_warden_conn_answer_error(w, sweep->conn, sweep->id, &sweep->error);
            free(sweep);
        }
    }
    free(waiter);
}

static void tell_waiters(box_warden *w, warden_sandbox *s, bool but_sweeps, const box_error *error)
{
    for (box_list *at = s->waiters.next; at != &s->waiters;) {
        warden_waiter *waiter = BOX_CONTAINER(at, warden_waiter, link);
        at = at->next;
        if (!but_sweeps || waiter->sweep == NULL)
            tell(w, waiter, error);
    }
}

static void pid_ended(box_warden *w, warden_watch *watch, uint32_t events)
{
    (void)events;
    warden_sandbox *s = BOX_CONTAINER(watch, warden_sandbox, pid);
    siginfo_t si = {0};
    /* After a restart it is no child of ours, and only its end is known. */
    if (waitid(P_PIDFD, (id_t)watch->fd, &si, WEXITED | WNOHANG) == 0 && si.si_pid != 0)
        s->status =
            si.si_code == CLD_EXITED ? W_EXITCODE(si.si_status, 0) : W_EXITCODE(0, si.si_status);
    box_warden_watch_close(w, watch);
    s->dead = w->ops->pid1_is_all;
    if (s->dead) {
        box_warden_memory_give(w, s);
        tell_waiters(w, s, true, &(box_error){0});
    }
    if (s->state != SANDBOX_LIVE)
        return;
    s->tell_exited = true;
    box_warden_sandbox_end(w, s);
}

static void log_sandbox(box_log_level level, const char *event, const warden_sandbox *s,
                        const box_error *error)
{
    char uid[BOX_UID_TEXT];
    box_uid_text(&s->record.uid, uid);
    if (error != NULL && error->reason != BOX_NONE)
        box_log(level, event, BOX_STR("sandbox", uid), BOX_ERR(error));
    else
        box_log(level, event, BOX_STR("sandbox", uid), BOX_INT("pid", s->record.pid));
}

static void destroyed(box_warden *w, warden_sandbox *s, const warden_result *r)
{
    tell_waiters(w, s, false, &r->error);
    if (r->error.reason != BOX_NONE) {
        log_sandbox(BOX_WARN, "sandbox.destroy_failed", s, &r->error);
        retry_later(w, s);
        return;
    }
    log_sandbox(BOX_INFO, "sandbox.destroyed", s, NULL);
    if (s->tell_exited) {
        box_warden_exited exited = {.uid = s->record.uid, .status = s->status, .oom = r->oom};
        box_warden_conn_exited(w, &s->record.instance, &exited);
    }
    box_warden_sandbox_free(w, s);
}

void box_warden_sandboxes_retry(box_warden *w)
{
    size_t at = 0;
    void *value;
    box_time now = box_now();
    while (w->n_retries > 0 && box_map_next(w->sandboxes, &at, &value)) {
        warden_sandbox *s = value;
        if (s->retry_at != 0 && s->retry_at <= now)
            retry(w, s);
    }
}

void box_warden_sandboxes_sweep(box_warden *w, const warden_conn *c, uint64_t id)
{
    warden_sweep *sweep = box_alloc(sizeof *sweep);
    sweep->conn = c->serial;
    sweep->id = id;
    size_t at = 0;
    void *value;
    while (box_map_next(w->sandboxes, &at, &value)) {
        warden_sandbox *s = value;
        if (!box_uid_equal(&s->record.instance, &c->instance) || s->conn == c->serial)
            continue;
        sweep->left++;
        box_warden_sandbox_end_for(w, s, c->serial, id, sweep);
    }
    if (sweep->left == 0) {
        box_warden_conn_answer_error(w, c->serial, id, &sweep->error);
        free(sweep);
    }
}

void box_warden_sandboxes_end_all(box_warden *w)
{
    size_t at = 0;
    void *value;
    while (box_map_next(w->sandboxes, &at, &value))
        box_warden_sandbox_end(w, value);
}

/* --- helpers' results ------------------------------------------------------------------------- */

/* The pidfd is the warden's from now on; boxd gets a copy with the answer. */
static int watch_pidfd(box_warden *w, warden_sandbox *s, int pidfd, box_error *err)
{
    BOX_AUTO(box_closep) int own = fcntl(pidfd, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        return box_fail_errno(err, "keep a pidfd");
    if (box_warden_watch_add(w, &s->pid, own, EPOLLIN, err) < 0)
        return -1;
    (void)box_take_fd(&own);
    return 0;
}

static void keep_pidfd(box_warden *w, warden_sandbox *s, const warden_result *r, const int *fds)
{
    size_t at = 0;
    for (uint32_t bit = 1; bit < BOX_ANSWER_FD_PIDFD; bit <<= 1)
        at += (r->answer.fds & bit) != 0 ? 1 : 0;
    box_error err = {0};
    box_warden_watch_close(w, &s->pid);
    if ((r->answer.fds & BOX_ANSWER_FD_PIDFD) == 0 || watch_pidfd(w, s, fds[at], &err) == 0)
        return;
    log_sandbox(BOX_WARN, "sandbox.unwatched", s, &err);
    if (s->state == SANDBOX_LIVE && s->retry_at == 0)
        retry_later(w, s);
}

static void created(box_warden *w, warden_job *job, const warden_result *r, int *fds, size_t n_fds)
{
    warden_sandbox *s = job->sandbox;
    if (r->error.reason == BOX_NONE) {
        s->record = r->record;
        box_warden_memory_settle(w, s);
        if (s->state == SANDBOX_CREATING)
            s->state = SANDBOX_LIVE; /* else a DESTROY waits already */
        keep_pidfd(w, s, r, fds);
        log_sandbox(BOX_INFO, "sandbox.created", s, NULL);
        box_warden_conn_answer(w, job->conn, job->id, &r->answer, fds, n_fds);
        return;
    }
    if (box_warden_again(w, job, r))
        return;
    /* What the helper had written down before it failed says what is to be removed. */
    box_sandbox_record saved;
    box_error unread;
    int found = box_state_find(w->state_dir, &s->record.uid, &saved, &unread);
    if (found > 0)
        s->record = saved;
    s->unread = found < 0;
    log_sandbox(BOX_WARN, "sandbox.create_failed", s, &r->error);
    box_warden_conn_answer_error(w, job->conn, job->id, &r->error);
    box_warden_sandbox_end(w, s);
}

/* Only one that is known to have ended goes: a helper that could not be started, or was too late,
 * says nothing about the sandbox. */
static void adopted(box_warden *w, const warden_job *job, const warden_result *r, const int *fds,
                    warden_held *held)
{
    warden_sandbox *s = job->sandbox;
    if (r->error.reason == BOX_NONE) {
        keep_pidfd(w, s, r, fds);
        box_warden_held_done(&s->held); /* when it is tried again */
        s->held = (warden_held){box_take_fd(&held->mounts), box_take_fd(&held->image)};
        log_sandbox(BOX_INFO, "sandbox.adopted", s, NULL);
        return;
    }
    if (r->error.reason != BOX_SESSION_BROKEN) {
        log_sandbox(BOX_WARN, "sandbox.adopt_failed", s, &r->error);
        if (s->state == SANDBOX_LIVE && s->retry_at == 0)
            retry_later(w, s);
        return;
    }
    log_sandbox(BOX_INFO, "sandbox.lost", s, &r->error);
    s->tell_exited = s->state == SANDBOX_LIVE;
    box_warden_sandbox_end(w, s);
}

static void kept(box_warden *w, const warden_job *job, warden_result *r, int *fds, size_t n_fds)
{
    if (r->error.reason == BOX_SESSION_BROKEN) {
        const box_warden_answer dead = {.alive = BOX_DEAD};
        box_warden_conn_answer(w, job->conn, job->id, &dead, NULL, 0);
    } else if (r->error.reason != BOX_NONE) {
        box_warden_conn_answer_error(w, job->conn, job->id, &r->error);
    } else {
        r->answer.guarantees = w->guarantees;
        if (r->record.disk_bytes == 0)
            r->answer.guarantees &= ~(uint32_t)BOX_G_DISK_WORKSPACE;
        r->answer.memory_version = r->record.memory_version;
        box_warden_conn_answer(w, job->conn, job->id, &r->answer, fds, n_fds);
    }
}

static void answer(box_warden *w, const warden_job *job, warden_result *r)
{
    r->answer.error = r->error;
    box_warden_conn_answer(w, job->conn, job->id, &r->answer, NULL, 0);
}

/* Its CREATE comes next; or there is nothing to create it with. */
static void image_made(box_warden *w, const warden_job *job, const warden_result *r, int *image)
{
    warden_sandbox *s = job->sandbox;
    if (r->error.reason == BOX_NONE && *image >= 0) {
        s->held.image = box_take_fd(image);
        return;
    }
    log_sandbox(BOX_WARN, "sandbox.image_failed", s, &r->error);
    warden_job *create = box_warden_job_create_of(w, s);
    if (create == NULL)
        return; /* who asked is gone */
    box_warden_conn_answer_error(w, create->conn, create->id, &r->error);
    box_warden_job_drop(w, create);
    box_warden_sandbox_end(w, s);
}

void box_warden_sandbox_job_done(box_warden *w, warden_job *job, warden_result *r, int *fds,
                                 size_t n_fds)
{
    warden_held held = {-1, -1};
    if (r->has_image && n_fds > 0)
        held.image = fds[--n_fds];
    if (r->has_mounts && n_fds > 0)
        held.mounts = fds[--n_fds];
    switch (job->kind) {
    case JOB_CREATE:
        created(w, job, r, fds, n_fds);
        box_closep(&job->sandbox->held.mounts);
        job->sandbox->held.mounts = box_take_fd(&held.mounts);
        break;
    case JOB_DESTROY:
        destroyed(w, job->sandbox, r);
        break;
    case JOB_CLEAR:
        box_warden_cleared(w, job, r);
        break;
    case JOB_ADOPT:
        adopted(w, job, r, fds, &held);
        break;
    case JOB_KEEP:
        kept(w, job, r, fds, n_fds);
        break;
    case JOB_LIMITS:
        if (r->error.reason == BOX_NONE)
            job->sandbox->record.memory_bytes = r->record.memory_bytes;
        box_warden_memory_settle(w, job->sandbox);
        answer(w, job, r);
        break;
    case JOB_ALIVE:
    case JOB_USAGE:
        answer(w, job, r);
        break;
    case JOB_IMAGE:
        image_made(w, job, r, &held.image);
        break;
    case JOB_FILL:
        box_warden_disk_filled(w, job, &r->error, &held.image);
        break;
    }
    box_warden_held_done(&held);
    for (size_t i = 0; i < n_fds; i++)
        box_closep(&fds[i]);
}
