/* Helpers that made their preparations ahead: what a CREATE then does not wait for. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "warden/internal.h"
#include "warden/state.h"

/* What the helper is to make, with the descriptor of the agent's socket. */
typedef struct claim {
    box_sandbox_record record;
    box_warden_create create;
} claim;

enum { MAKING = 1 /* at once: the machine has other work */ };

/* --- in the helper ---------------------------------------------------------------------------- */

/* Ends the helper when the warden wants nothing of it any more, or what it made is lost. The image,
 * or -1. */
static int await_claim(const box_warden *w, int watch, claim *out)
{
    int socket = w->slots[WARDEN_SLOT_RESULT];
    struct pollfd p[] = {{.fd = socket, .events = POLLIN}, {.fd = watch, .events = POLLIN}};
    int fds[2] = {-1, -1};
    size_t n_fds = 2;
    box_error err;
    while (poll(p, BOX_COUNT(p), -1) < 0 && errno == EINTR)
        continue;
    if (p[0].revents == 0 ||
        box_fd_receive(socket, out, sizeof *out, fds, &n_fds, &err) != (ssize_t)sizeof *out ||
        n_fds < 1 || dup3(fds[0], w->slots[WARDEN_SLOT_REQUEST], O_CLOEXEC) < 0)
        _exit(1);
    (void)close(fds[0]); /* a copy of it is in its slot */
    return fds[1];
}

BOX_NORETURN static void standby_main(box_warden *w, const warden_standby *s, int socket,
                                      pid_t warden)
{
    box_warden_helper_begin(w, socket, -1, &(warden_held){-1, -1}, warden);
    warden_result result = {.record = s->record};
    box_sandbox_fds fds = {-1, -1, -1, -1, -1, -1, -1};
    warden_journal owner = {.w = w, .prepared = true, .file = -1};
    const box_journal journal = {.save = box_warden_helper_save, .owner = &owner};
    box_prepared made = {.watch = -1};
    bool ready = w->ops->prepare(w->backend, &journal, &result.record, &made, &result.error) == 0;
    if (ready)
        result.error = (box_error){0};
    if (box_warden_helper_tell(w, &result, &fds) != 0 || !ready)
        _exit(1);
    claim c;
    int image = await_claim(w, made.watch, &c);
    result.record = c.record;
    owner.claim = true;
    if (w->ops->create(w->backend, &made, &c.create, w->slots[WARDEN_SLOT_REQUEST], image, &journal,
                       &result.record, &fds, &result.answer, &result.error) == 0)
        result.error = (box_error){0};
    _exit(box_warden_helper_tell(w, &result, &fds));
}

/* --- in the warden ---------------------------------------------------------------------------- */

static void end(warden_standby *s)
{
    (void)pidfd_send_signal(s->pidfd, SIGKILL, NULL, 0); /* its end comes as event */
}

static void free_standby(box_warden *w, warden_standby *s)
{
    box_list_remove(&s->link);
    w->n_standbys--;
    w->n_preparing -= s->ready ? 0 : 1;
    box_warden_standby_drop(w, s);
}

/* What it made is removed as a sandbox that is half made. */
static void remove_made(box_warden *w, const warden_standby *s)
{
    box_sandbox_record saved;
    box_error err;
    box_uids_give(w->uids, s->record.uid_base);
    int found = box_state_find(w->state_dir, &s->record.uid, &saved, &err);
    if (found == 0) { /* it had made nothing yet */
        BOX_IGNORE(box_state_remove(w->state_dir, &s->record.uid, &err)); /* or the next start */
        return;
    }
    if (found < 0)
        saved = s->record;
    box_warden_sandbox_restore(w, &saved, true);
    box_warden_sandbox_find(w, &s->record.uid)->unread = found < 0;
}

static void lost(box_warden *w, warden_standby *s, const box_error *why)
{
    if (!w->stopping && !w->removing) {
        box_log(BOX_WARN, "standby.lost", BOX_ERR(why));
        w->prepare_at = box_time_add(box_now(), BOX_WARDEN_RETRY_SECONDS * BOX_SECOND);
    }
    remove_made(w, s);
    free_standby(w, s);
}

/* It is ready, or it has ended. */
static void standby_told(box_warden *w, warden_watch *watch, uint32_t events)
{
    (void)events;
    warden_standby *s = BOX_CONTAINER(watch, warden_standby, socket);
    warden_result result;
    if (!box_list_linked(&s->link)) { /* taken, and it has ended: whoever took it will see */
        box_warden_watch_close(w, watch);
        return;
    }
    box_error err;
    size_t n_fds = 0;
    ssize_t n = box_fd_receive(watch->fd, &result, sizeof result, NULL, &n_fds, &err);
    if (!s->ready && n == (ssize_t)sizeof result && result.error.reason == BOX_NONE) {
        s->record = result.record;
        s->ready = w->to_announce = true;
        w->n_preparing--;
        return;
    }
    if (n == (ssize_t)sizeof result)
        box_error_sanitize(&result.error);
    else
        (void)box_fail(&result.error, BOX_INTERNAL, "a helper that waited has ended");
    lost(w, s, &result.error);
}

static int watch_standby(box_warden *w, warden_standby *s, int *socket, pid_t pid, box_error *err)
{
    s->pidfd = pidfd_open(pid, 0);
    if (s->pidfd < 0)
        return box_fail_errno(err, "open a helper");
    if (box_warden_watch_add(w, &s->socket, *socket, EPOLLIN, err) < 0)
        return -1;
    (void)box_take_fd(socket);
    return 0;
}

static int start(box_warden *w, warden_standby *s, box_error *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return box_fail_errno(err, "make a socket pair");
    BOX_AUTO(box_closep) int ours = pair[0];
    BOX_AUTO(box_closep) int theirs = pair[1];
    pid_t warden = getpid();
    pid_t pid = fork();
    if (pid == 0)
        standby_main(w, s, theirs, warden);
    if (pid < 0)
        return box_fail_errno(err, "start a helper");
    if (watch_standby(w, s, &ours, pid, err) == 0)
        return 0;
    (void)kill(pid, SIGKILL); /* ours and not reaped: the pid is still its own */
    (void)waitpid(pid, NULL, 0);
    remove_made(w, s);
    return -1;
}

static int add(box_warden *w, box_error *err)
{
    uint32_t base;
    if (box_uids_take(w->uids, &base, err) < 0)
        return -1;
    warden_standby *s = box_alloc(sizeof *s);
    s->record.uid = box_uid_new();
    s->record.uid_base = base;
    s->socket = (warden_watch){.fd = -1, .ready = standby_told};
    s->pidfd = -1;
    s->deadline = box_time_add(box_now(), BOX_WARDEN_HELPER_SECONDS * BOX_SECOND);
    box_list_append(&w->standbys, &s->link);
    w->n_standbys++;
    w->n_preparing++;
    if (start(w, s, err) == 0)
        return 0;
    free_standby(w, s);
    return -1;
}

/* --- who knows of them ------------------------------------------------------------------------ */

void box_warden_standbys_forget(box_warden *w, uint64_t conn)
{
    for (box_list *at = w->standbys.next; at != &w->standbys; at = at->next) {
        warden_standby *s = BOX_CONTAINER(at, warden_standby, link);
        s->told = s->told == conn ? 0 : s->told;
    }
    w->to_announce = true;
}

static void announce(box_warden *w)
{
    w->to_announce = false;
    for (box_list *at = w->standbys.next; at != &w->standbys; at = at->next) {
        warden_standby *s = BOX_CONTAINER(at, warden_standby, link);
        if (s->ready && s->told == 0)
            s->told = box_warden_conn_ready(w, &s->record.uid);
    }
}

/* --- how many there are ------------------------------------------------------------------------
 */

static void end_late(box_warden *w)
{
    box_time now = box_now();
    for (box_list *at = w->standbys.next; w->n_preparing > 0 && at != &w->standbys; at = at->next) {
        warden_standby *s = BOX_CONTAINER(at, warden_standby, link);
        if (!s->ready && now >= s->deadline)
            end(s);
    }
}

static bool is_time(box_warden *w)
{
    size_t ready = w->n_standbys - w->n_preparing;
    if (ready == 0 || ready * 2 < (size_t)w->config->standbys)
        return true;
    box_time quiet_at = box_time_add(w->worked_at, BOX_WARDEN_QUIET_MS * BOX_MS);
    bool quiet = w->n_running == 0 && box_now() >= quiet_at;
    w->rests = !quiet && w->n_running == 0; /* else an event comes */
    return quiet;
}

void box_warden_standbys_fill(box_warden *w)
{
    w->rests = false;
    end_late(w);
    if (w->to_announce)
        announce(w);
    if (w->ops->prepare == NULL || w->backend == NULL || w->stopping || w->removing ||
        w->n_conns == 0 || w->n_creates > 0)
        return;
    if (w->prepare_at != 0 && box_now() < w->prepare_at)
        return;
    w->prepare_at = 0;
    if (w->n_standbys >= (size_t)w->config->standbys || !is_time(w))
        return;
    while (w->n_standbys < (size_t)w->config->standbys && w->n_preparing < MAKING) {
        box_error err;
        if (add(w, &err) == 0)
            continue;
        box_log(BOX_WARN, "standby.failed", BOX_ERR(&err));
        w->prepare_at = box_time_add(box_now(), BOX_WARDEN_RETRY_SECONDS * BOX_SECOND);
        return;
    }
}

warden_standby *box_warden_standby_take(box_warden *w, const box_uid *uid)
{
    for (box_list *at = w->standbys.next; at != &w->standbys; at = at->next) {
        warden_standby *s = BOX_CONTAINER(at, warden_standby, link);
        if (!s->ready || !box_uid_equal(&s->record.uid, uid))
            continue;
        box_list_remove(&s->link);
        w->n_standbys--;
        return s;
    }
    return NULL;
}

void box_warden_standby_drop(box_warden *w, warden_standby *s)
{
    if (s == NULL)
        return;
    if (s->pidfd >= 0)
        end(s);
    box_warden_watch_close(w, &s->socket);
    box_closep(&s->pidfd);
    free(s);
}

int box_warden_standby_give(box_warden *w, warden_job *job, box_error *err)
{
    warden_standby *s = job->sandbox->standby;
    const claim c = {.record = job->sandbox->record, .create = job->create};
    const int fds[] = {job->listen_fd, job->sandbox->held.image};
    size_t n_fds = job->sandbox->held.image >= 0 ? 2 : 1;
    if (s->socket.fd < 0 || box_fd_send(s->socket.fd, &c, sizeof c, fds, n_fds, err) < 0) {
        (void)box_fail(err, BOX_BACKEND_UNAVAILABLE, "what was prepared for it is lost");
        box_error_add(err, "backend", w->ops->name);
        return -1;
    }
    job->pidfd = box_take_fd(&s->pidfd);
    box_warden_watch_move(w, &s->socket, &job->helper);
    box_warden_standby_drop(w, s);
    job->sandbox->standby = NULL;
    return 0;
}

void box_warden_standbys_end(box_warden *w)
{
    for (box_list *at = w->standbys.next; at != &w->standbys; at = at->next)
        end(BOX_CONTAINER(at, warden_standby, link));
}

void box_warden_standbys_free(box_warden *w)
{
    while (!box_list_empty(&w->standbys))
        free_standby(w, BOX_CONTAINER(w->standbys.next, warden_standby, link));
}
