/* The queue of operations, and the helper processes they run in. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/fd_room.h"
#include "base/limits.h"
#include "warden/internal.h"
#include "warden/state.h"

warden_job *box_warden_job_new(job_kind kind, warden_sandbox *s, uint64_t conn, uint64_t id)
{
    warden_job *job = box_alloc(sizeof *job);
    job->kind = kind;
    job->sandbox = s;
    job->conn = conn;
    job->id = id;
    job->listen_fd = job->pidfd = job->helper.fd = -1;
    return job;
}

void box_warden_job_free(box_warden *w, warden_job *job)
{
    w->n_creates -= job->kind == JOB_CREATE ? 1 : 0;
    w->worked_at = box_now();
    box_warden_watch_close(w, &job->helper);
    box_closep(&job->listen_fd);
    box_closep(&job->pidfd);
    free(job);
}

void box_warden_job_queue(box_warden *w, warden_job *job)
{
    box_list_append(&w->queue, &job->link);
    w->worked_at = box_now();
    w->n_creates += job->kind == JOB_CREATE ? 1 : 0;
    w->n_queue += job->conn != 0 ? 1 : 0;
}

void box_warden_job_drop(box_warden *w, warden_job *job)
{
    box_list_remove(&job->link);
    w->n_queue -= job->conn != 0 ? 1 : 0;
    box_warden_job_free(w, job);
}

warden_job *box_warden_job_create_of(const box_warden *w, const warden_sandbox *s)
{
    for (box_list *at = w->queue.next; at != &w->queue; at = at->next) {
        warden_job *job = BOX_CONTAINER(at, warden_job, link);
        if (job->sandbox == s && job->kind == JOB_CREATE)
            return job;
    }
    return NULL;
}

static warden_result new_result(const warden_job *job)
{
    return job->sandbox != NULL ? (warden_result){.record = job->sandbox->record}
                                : (warden_result){0};
}

/* --- in the helper ---------------------------------------------------------------------------- */

int box_warden_helper_save(void *journal, const box_sandbox_record *record, box_error *err)
{
    warden_journal *j = journal;
    if (j->file < 0)
        return box_state_write(j->w->state_dir, record, j->prepared, &j->file, err);
    if (box_state_update(j->file, record, err) < 0)
        return -1;
    if (!j->claim)
        return 0;
    j->claim = j->prepared = false;
    return box_state_claim(j->w->state_dir, &record->uid, err);
}

/* Descriptors in the order of the BOX_ANSWER_FD_ bits. */
static size_t pack_fds(const box_sandbox_fds *fds, uint32_t *bits, int out[RESULT_MAX_FDS])
{
    const struct {
        int fd;
        uint32_t bit;
    } rows[] = {{fds->cgroup, BOX_ANSWER_FD_CGROUP},
                {fds->devpts, BOX_ANSWER_FD_DEVPTS},
                {fds->pidfd, BOX_ANSWER_FD_PIDFD},
                {fds->memory, BOX_ANSWER_FD_MEMORY},
                {fds->pids, BOX_ANSWER_FD_PIDS}};
    size_t n = 0;
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        if (rows[i].fd < 0)
            continue;
        *bits |= rows[i].bit;
        out[n++] = rows[i].fd;
    }
    return n;
}

static int do_destroy(box_warden *w, const warden_sandbox *s, const warden_held *held,
                      warden_result *r, box_error *err)
{
    if (s->unread && box_state_find(w->state_dir, &r->record.uid, &r->record, err) < 0)
        return -1;
    if (w->ops->destroy(w->backend, &r->record, held->image, held->mounts, &r->oom, err) < 0)
        return -1;
    return box_state_remove(w->state_dir, &r->record.uid, err);
}

static int do_alive(box_warden *w, warden_result *r, box_error *err)
{
    box_alive alive = BOX_ALIVE_UNKNOWN;
    int rc = w->ops->alive(w->backend, &r->record, &alive, err);
    r->answer.alive = alive;
    return rc;
}

/* Written down too: the next warden adds up what it has. */
static int do_limits(box_warden *w, const box_warden_limits *limits, warden_result *r,
                     box_error *err)
{
    if (w->ops->set_limits(w->backend, &r->record, limits, err) < 0)
        return -1;
    if (limits->memory_bytes == 0)
        return 0;
    r->record.memory_bytes = limits->memory_bytes;
    return box_state_write(w->state_dir, &r->record, false, NULL, err);
}

static int do_create(box_warden *w, const warden_job *job, int image, warden_result *r,
                     box_sandbox_fds *fds, box_error *err)
{
    warden_journal owner = {.w = w, .file = -1};
    const box_journal journal = {.save = box_warden_helper_save, .owner = &owner};
    box_prepared made = {.watch = -1};
    if (w->ops->prepare != NULL &&
        w->ops->prepare(w->backend, &journal, &r->record, &made, err) < 0)
        return -1;
    return w->ops->create(w->backend, &made, &job->create, w->slots[WARDEN_SLOT_REQUEST], image,
                          &journal, &r->record, fds, &r->answer, err);
}

static int do_job(box_warden *w, const warden_job *job, const warden_held *held, warden_result *r,
                  box_sandbox_fds *fds, box_error *err)
{
    switch (job->kind) {
    case JOB_CREATE:
        return do_create(w, job, held->image, r, fds, err);
    case JOB_DESTROY:
        return do_destroy(w, job->sandbox, held, r, err);
    case JOB_CLEAR: /* the image is its next CREATE's */
        return do_destroy(w, job->sandbox, &(warden_held){-1, -1}, r, err);
    case JOB_ALIVE:
        return do_alive(w, r, err);
    case JOB_LIMITS:
        return do_limits(w, &job->limits, r, err);
    case JOB_USAGE:
        return w->ops->usage(w->backend, &r->record, held->image, &r->answer, err);
    case JOB_IMAGE:
    case JOB_FILL:
        return w->ops->make_image(w->backend, job->image_bytes, &fds->image, err);
    case JOB_KEEP:
    case JOB_ADOPT:
        r->answer.alive = BOX_ALIVE;
        return w->ops->adopt(w->backend, &r->record, fds, err);
    }
    return box_fail(err, BOX_INTERNAL, "no such job");
}

static warden_held held_of(const warden_job *job)
{
    return job->sandbox != NULL ? job->sandbox->held : (warden_held){-1, -1};
}

void box_warden_held_done(warden_held *held)
{
    box_closep(&held->mounts);
    box_closep(&held->image);
}

/* Only what the backend opened, the slots and the state directory stay open: a helper that
 * hangs keeps no connection of boxd alive. */
void box_warden_helper_begin(box_warden *w, int socket, int request, const warden_held *held,
                             pid_t warden)
{
    /* A helper without its warden would work against the next one. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != warden)
        _exit(1);
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (request >= 0)
        (void)dup3(request, w->slots[WARDEN_SLOT_REQUEST], O_CLOEXEC);
    (void)dup3(socket, w->slots[WARDEN_SLOT_RESULT], O_CLOEXEC);
    if (held->image >= 0)
        (void)dup3(held->image, w->slots[WARDEN_SLOT_IMAGE], O_CLOEXEC);
    if (held->mounts >= 0)
        (void)dup3(held->mounts, w->slots[WARDEN_SLOT_MOUNTS], O_CLOEXEC);
    (void)close_range((unsigned)w->last_static_fd + 1, ~0U, 0);
}

int box_warden_helper_tell(const box_warden *w, warden_result *result, const box_sandbox_fds *fds)
{
    int packed[RESULT_MAX_FDS];
    size_t n = pack_fds(fds, &result->answer.fds, packed);
    box_error unsent;
    result->has_mounts = fds->mounts >= 0;
    if (result->has_mounts)
        packed[n++] = fds->mounts;
    result->has_image = fds->image >= 0;
    if (result->has_image)
        packed[n++] = fds->image;
    /* The warden ends a helper that is late. */
    while (box_fd_send(w->slots[WARDEN_SLOT_RESULT], result, sizeof *result, packed, n, &unsent) <
           0) {
        if (unsent.sys_errno != ETOOMANYREFS)
            return 1;
        (void)poll(NULL, 0, BOX_FLIGHT_RETRY_MS);
    }
    return 0;
}

BOX_NORETURN static void helper_main(box_warden *w, const warden_job *job, int socket, pid_t warden)
{
    warden_held held = held_of(job);
    box_warden_helper_begin(w, socket, job->listen_fd, &held, warden);
    held.image = held.image >= 0 ? w->slots[WARDEN_SLOT_IMAGE] : -1;
    held.mounts = held.mounts >= 0 ? w->slots[WARDEN_SLOT_MOUNTS] : -1;
    warden_result result = new_result(job);
    box_sandbox_fds fds = {-1, -1, -1, -1, -1, -1, -1};
    if (do_job(w, job, &held, &result, &fds, &result.error) == 0)
        result.error = (box_error){0};
    _exit(box_warden_helper_tell(w, &result, &fds));
}

/* --- in the warden ---------------------------------------------------------------------------- */

/* Of the warden or of a helper. */
static void blame_descriptors(const box_warden *w, box_error *err)
{
    if (err->reason != BOX_NONE && (err->sys_errno == EMFILE || err->sys_errno == ENFILE))
        (void)box_warden_out_of_descriptors(w, err);
}

/* What it said; or why it did not. */
static void collect(const box_warden *w, warden_job *job, warden_result *result,
                    int fds[RESULT_MAX_FDS], size_t *n_fds)
{
    bool lost;
    box_error err;
    ssize_t n =
        box_fd_receive_or_lose(job->helper.fd, result, sizeof *result, fds, n_fds, &lost, &err);
    if (n == (ssize_t)sizeof *result && lost) {
        *result = new_result(job);
        (void)box_warden_out_of_descriptors(w, &result->error);
        return;
    }
    if (n == (ssize_t)sizeof *result) {
        box_error_sanitize(&result->error);
        return;
    }
    *result = new_result(job);
    result->lost = box_now() < job->deadline;
    if (!result->lost)
        (void)box_fail(&result->error, BOX_DEADLINE, "the operation took longer than %d s",
                       BOX_WARDEN_HELPER_SECONDS);
    else
        (void)box_fail(&result->error, BOX_INTERNAL, "the warden's helper ended without a word");
}

static void helper_told(box_warden *w, warden_watch *watch, uint32_t events)
{
    (void)events;
    warden_job *job = BOX_CONTAINER(watch, warden_job, helper);
    warden_result result;
    int fds[RESULT_MAX_FDS];
    size_t n_fds = BOX_COUNT(fds);
    collect(w, job, &result, fds, &n_fds);
    blame_descriptors(w, &result.error);
    box_list_remove(&job->link);
    w->n_running--;
    w->n_destroying -= job->kind == JOB_DESTROY ? 1 : 0;
    if (job->sandbox != NULL)
        job->sandbox->busy = false;
    box_warden_sandbox_job_done(w, job, &result, fds, n_fds);
    box_warden_job_free(w, job);
}

/* A helper that does the job from the beginning. */
static int start_new(box_warden *w, warden_job *job, box_error *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return box_fail_errno(err, "make a socket pair");
    BOX_AUTO(box_closep) int ours = pair[0];
    BOX_AUTO(box_closep) int theirs = pair[1];
    pid_t warden = getpid();
    pid_t pid = fork();
    if (pid == 0)
        helper_main(w, job, theirs, warden);
    if (pid < 0)
        return box_fail_errno(err, "start a helper");
    job->pidfd = pidfd_open(pid, 0);
    int rc = job->pidfd < 0 ? box_fail_errno(err, "watch a helper")
                            : box_warden_watch_add(w, &job->helper, ours, EPOLLIN, err);
    if (rc < 0) {
        (void)kill(pid, SIGKILL); /* ours and not reaped: the pid is still its own */
        (void)waitpid(pid, NULL, 0);
        return -1;
    }
    (void)box_take_fd(&ours);
    return 0;
}

static int start(box_warden *w, warden_job *job, box_error *err)
{
    job->helper.ready = helper_told;
    job->deadline = box_time_add(box_now(), BOX_WARDEN_HELPER_SECONDS * BOX_SECOND);
    return job->kind == JOB_CREATE && job->sandbox->standby != NULL
               ? box_warden_standby_give(w, job, err)
               : start_new(w, job, err);
}

/* One that ends begins nothing, but what DESTROY has answered for it still removes. */
static warden_job *next_ready(box_warden *w)
{
    box_time now = box_now();
    w->deferred = false;
    if (w->stopping && now >= w->remove_by)
        return NULL;
    for (box_list *at = w->queue.next; at != &w->queue; at = at->next) {
        warden_job *job = BOX_CONTAINER(at, warden_job, link);
        bool destroys = job->kind == JOB_DESTROY;
        if ((job->sandbox != NULL && job->sandbox->busy) || (w->stopping && !destroys) ||
            (destroys && w->n_destroying >= BOX_WARDEN_MAX_DESTROYERS))
            continue;
        if (job->not_before <= now || job->sandbox->dead)
            return job;
        w->deferred = true;
    }
    return NULL;
}

static void start_or_fail(box_warden *w, warden_job *job)
{
    warden_result result = new_result(job);
    box_list_remove(&job->link);
    w->n_queue -= job->conn != 0 ? 1 : 0;
    if (start(w, job, &result.error) == 0) {
        if (!job->prepared)
            box_closep(&job->listen_fd); /* the helper has it, and no other will need it */
        if (job->sandbox != NULL)
            job->sandbox->busy = true;
        if (job->kind == JOB_DESTROY)
            box_warden_held_done(&job->sandbox->held); /* it too: the last one, and nobody waits */
        box_list_append(&w->running, &job->link);
        w->n_running++;
        w->n_destroying += job->kind == JOB_DESTROY ? 1 : 0;
        return;
    }
    result.lost = true;
    blame_descriptors(w, &result.error);
    box_warden_sandbox_job_done(w, job, &result, NULL, 0);
    box_warden_job_free(w, job);
}

static void kill_late(box_warden *w)
{
    box_time now = box_now();
    for (box_list *at = w->running.next; at != &w->running; at = at->next) {
        warden_job *job = BOX_CONTAINER(at, warden_job, link);
        if (now >= job->deadline)
            (void)pidfd_send_signal(job->pidfd, SIGKILL, NULL, 0); /* its end comes as event */
    }
}

void box_warden_jobs_pump(box_warden *w)
{
    kill_late(w);
    box_warden_disk_fill(w);
    while (w->n_running < BOX_WARDEN_MAX_HELPERS) {
        warden_job *job = next_ready(w);
        if (job == NULL)
            break;
        start_or_fail(w, job);
    }
    box_warden_standbys_fill(w);
}

void box_warden_jobs_forget(box_warden *w, uint64_t conn)
{
    for (box_list *at = w->queue.next; at != &w->queue;) {
        warden_job *job = BOX_CONTAINER(at, warden_job, link);
        at = at->next;
        if (job->conn != conn)
            continue;
        if (job->kind == JOB_CREATE)
            box_warden_sandbox_end(w, job->sandbox); /* nothing was made: only the table knows it */
        box_warden_job_drop(w, job);
    }
}
