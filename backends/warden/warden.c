#include "warden/warden.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/fd_room.h"
#include "base/limits.h"
#include "base/log.h"
#include "warden/internal.h"
#include "warden/state.h"

enum { TICK_MS = 500 }; /* deadlines and retries are looked at this often while there are any */

int box_warden_watch_add(box_warden *w, warden_watch *watch, int fd, uint32_t events,
                         box_error *err)
{
    struct epoll_event e = {.events = events, .data.ptr = watch};
    if (epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &e) < 0)
        return box_fail_errno(err, "watch a descriptor");
    watch->fd = fd;
    return 0;
}

void box_warden_watch_events(box_warden *w, warden_watch *watch, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = watch};
    (void)epoll_ctl(w->epoll, EPOLL_CTL_MOD, watch->fd, &e); /* it is there: nothing can fail */
}

void box_warden_watch_move(box_warden *w, warden_watch *from, warden_watch *to)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = to};
    to->fd = box_take_fd(&from->fd);
    (void)epoll_ctl(w->epoll, EPOLL_CTL_MOD, to->fd, &e); /* it is there: nothing can fail */
}

void box_warden_watch_close(box_warden *w, warden_watch *watch)
{
    if (watch->fd < 0)
        return;
    /* By hand: a copy of the descriptor in a helper would keep the entry alive. */
    (void)epoll_ctl(w->epoll, EPOLL_CTL_DEL, watch->fd, NULL);
    box_closep(&watch->fd);
}

/* --- start ------------------------------------------------------------------------------------ */

/* Helpers, and what one that was killed leaves, which the warden inherits as subreaper: reaped when
 * no table knows it. */
static void reap_strangers(box_warden *w)
{
    for (;;) {
        siginfo_t si = {0};
        if (waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) < 0 || si.si_pid == 0) {
            w->strangers = false;
            return;
        }
        size_t at = 0;
        void *value;
        while (box_map_next(w->sandboxes, &at, &value)) {
            const warden_sandbox *s = value;
            if (s->record.pid == si.si_pid && s->pid.fd >= 0)
                return;
        }
        (void)waitid(P_PID, (id_t)si.si_pid, &si, WEXITED | WNOHANG);
    }
}

static void signalled(box_warden *w, warden_watch *watch, uint32_t events)
{
    (void)events;
    struct signalfd_siginfo si;
    if (read(watch->fd, &si, sizeof si) != (ssize_t)sizeof si)
        return;
    if (si.ssi_signo == SIGCHLD) {
        w->strangers = true;
        reap_strangers(w);
        return;
    }
    box_log(BOX_INFO, "warden.stopping", BOX_INT("sandboxes", box_map_count(w->sandboxes)));
    for (box_list *at = w->conns.next; at != &w->conns; at = at->next) {
        warden_conn *c = BOX_CONTAINER(at, warden_conn, link);
        if (c->private) {
            c->broken = true; /* nobody adopts what a private pair leaves */
            return;
        }
    }
    if (w->removing || w->stopping)
        return;
    w->stopping = true;
    box_warden_standbys_end(w);
    w->remove_by = box_time_add(box_now(), BOX_WARDEN_REMOVE_SECONDS * BOX_SECOND);
}

static int watch_signals(box_warden *w, box_error *err)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGCHLD);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0 || signal(SIGPIPE, SIG_IGN) == SIG_ERR)
        return box_fail_errno(err, "set up signals");
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return box_fail_errno(err, "make a signalfd");
    w->signals.ready = signalled;
    return box_warden_watch_add(w, &w->signals, fd, EPOLLIN, err);
}

static int open_slots(box_warden *w, box_error *err)
{
    for (size_t i = 0; i < BOX_COUNT(w->slots); i++) {
        w->slots[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (w->slots[i] < 0)
            return box_fail_errno(err, "open /dev/null");
    }
    return 0;
}

/* Each live sandbox costs a descriptor. */
static void raise_nofile(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit); /* lowering nothing: it cannot fail */
    }
}

static void open_backend(box_warden *w)
{
    if (w->ops->open(w->config, &w->backend, &w->guarantees, w->detail, &w->open_error) < 0) {
        w->backend = NULL;
        if (w->open_error.reason != BOX_BACKEND_UNAVAILABLE)
            w->open_error.reason = BOX_BACKEND_UNAVAILABLE; /* what it means to boxd */
        box_error_add(&w->open_error, "backend", w->ops->name);
        box_log(BOX_ERROR, "backend.unavailable", BOX_STR("backend", w->ops->name),
                BOX_ERR(&w->open_error));
        return;
    }
    w->open_error = (box_error){0};
    box_warden_disk_open(w);
    box_log(BOX_INFO, "backend.open", BOX_STR("backend", w->ops->name),
            BOX_STR("detail", w->detail), BOX_INT("guarantees", w->guarantees));
}

/* The highest descriptor that is open now. */
static int find_last_fd(int *out, box_error *err)
{
    DIR *d = opendir("/proc/self/fd");
    if (d == NULL)
        return box_fail_errno(err, "list the warden's descriptors");
    *out = STDERR_FILENO;
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        int fd = (int)strtol(e->d_name, NULL, 10); /* "." and ".." are 0 */
        if (fd > *out && fd != dirfd(d))
            *out = fd;
    }
    (void)closedir(d); /* only read */
    return 0;
}

static int setup(box_warden *w, box_error *err)
{
    if (box_warden_config_peer(w->config, &w->peer_uid, err) < 0)
        return -1;
    raise_nofile();
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return box_fail_errno(err, "become a subreaper");
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (w->epoll < 0)
        return box_fail_errno(err, "make an epoll");
    if (watch_signals(w, err) < 0 || open_slots(w, err) < 0 ||
        box_state_open(w->config->instance_dir, &w->state_dir, err) < 0)
        return -1;
    open_backend(w);
    if (find_last_fd(&w->last_static_fd, err) < 0)
        return -1;
    if (w->backend == NULL)
        return 0; /* nothing can be adopted or removed without it */
    int damaged = box_state_scan(w->state_dir, box_warden_sandbox_restore, w, err);
    if (damaged > 0)
        box_log(BOX_WARN, "state.damaged", BOX_INT("files", damaged));
    return damaged < 0 ? -1 : 0;
}

int box_warden_new(const box_warden_config *config, const box_backend_ops *ops, box_warden **out,
                   box_error *err)
{
    box_warden *w = box_alloc(sizeof *w);
    w->config = config;
    w->ops = ops;
    w->epoll = w->state_dir = w->signals.fd = w->listener.fd = -1;
    for (size_t i = 0; i < BOX_COUNT(w->slots); i++)
        w->slots[i] = -1;
    box_list_init(&w->conns);
    box_list_init(&w->queue);
    box_list_init(&w->running);
    box_list_init(&w->standbys);
    w->sandboxes = box_map_new();
    uint32_t start;
    box_random(&start, sizeof start);
    w->uids = box_uids_new(start);
    if (setup(w, err) < 0) {
        box_warden_free(w);
        return -1;
    }
    *out = w;
    return 0;
}

static void free_jobs(box_warden *w, box_list *list)
{
    for (box_list *at = list->next; at != list;) {
        warden_job *job = BOX_CONTAINER(at, warden_job, link);
        at = at->next;
        box_warden_job_free(w, job);
    }
}

/* Waiters of a sweep share it: the last one frees it. */
static void free_sweeps(const warden_sandbox *s)
{
    for (box_list *at = s->waiters.next; at != &s->waiters; at = at->next) {
        warden_waiter *waiter = BOX_CONTAINER(at, warden_waiter, link);
        if (waiter->sweep != NULL && --waiter->sweep->left == 0)
            free(waiter->sweep);
    }
}

void box_warden_free(box_warden *w)
{
    if (w == NULL)
        return;
    free_jobs(w, &w->queue);
    free_jobs(w, &w->running);
    box_warden_standbys_free(w);
    while (!box_list_empty(&w->conns))
        box_warden_conn_free(w, BOX_CONTAINER(w->conns.next, warden_conn, link));
    void *value;
    for (size_t at = 0; box_map_next(w->sandboxes, &at, &value); at = 0) {
        free_sweeps(value);
        box_warden_sandbox_free(w, value);
    }
    box_map_free(w->sandboxes);
    box_uids_free(w->uids);
    box_image_pool_free(w->images);
    if (w->backend != NULL)
        w->ops->close(w->backend);
    box_warden_watch_close(w, &w->listener);
    box_warden_watch_close(w, &w->signals);
    for (size_t i = 0; i < BOX_COUNT(w->slots); i++)
        box_closep(&w->slots[i]);
    box_closep(&w->state_dir);
    box_closep(&w->epoll);
    free(w);
}

/* --- sockets ---------------------------------------------------------------------------------- */

/* The state directory's lock says that no other warden listens here: what is there is a leftover.
 */
static int remove_stale(const char *path, box_error *err)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : box_fail_errno(err, "look at the socket");
    if (!S_ISSOCK(st.st_mode))
        return box_fail(err, BOX_FILE_EXISTS, "socket: something else has that name");
    return unlink(path) < 0 ? box_fail_errno(err, "remove the old socket") : 0;
}

static int bind_as(int fd, const char *path, uid_t owner, box_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path));
    mode_t before = umask(0177);
    int rc = bind(fd, (struct sockaddr *)&address, sizeof address);
    (void)umask(before);
    if (rc < 0)
        return box_fail_errno(err, "bind the socket");
    if (lchown(path, owner, (gid_t)-1) < 0 || chmod(path, 0660) < 0 ||
        listen(fd, BOX_WARDEN_MAX_CONNECTIONS) < 0)
        return box_fail_errno(err, "open the socket to boxd");
    return 0;
}

/* Bound under another name first: boxd finds it at its own only once it may connect. */
int box_warden_listen(box_warden *w, box_error *err)
{
    char early[sizeof((struct sockaddr_un *)0)->sun_path];
    const char *path = w->config->socket;
    if (path == NULL)
        return box_fail(err, BOX_VALIDATION, "socket is not configured");
    int n = snprintf(early, sizeof early, "%s.new", path);
    if (n < 0 || (size_t)n >= sizeof early)
        return box_violation(err, "socket", "longer than %zu bytes", sizeof early - sizeof ".new");
    if (remove_stale(path, err) < 0 || remove_stale(early, err) < 0)
        return -1;
    BOX_AUTO(box_closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return box_fail_errno(err, "make a socket");
    if (bind_as(fd, early, w->peer_uid, err) < 0)
        return -1;
    if (rename(early, path) < 0)
        return box_fail_errno(err, "put the socket in its place");
    w->listener.ready = box_warden_conn_accept;
    if (box_warden_watch_add(w, &w->listener, fd, EPOLLIN, err) < 0)
        return -1;
    (void)box_take_fd(&fd);
    return 0;
}

int box_warden_attach(box_warden *w, int socket, box_error *err)
{
    if (fcntl(socket, F_SETFD, FD_CLOEXEC) < 0)
        return box_fail_errno(err, "--boxd-fd");
    box_warden_sandboxes_end_all(
        w); /* of private pairs that were killed: their boxd never comes back */
    w->guarantees &= ~(uint32_t)BOX_G_PERSISTENT; /* nothing outlives this pair */
    return box_fd_set_nonblocking(socket, err) < 0 ? -1 : box_warden_conn_add(w, socket, true, err);
}

/* --- the loop --------------------------------------------------------------------------------- */

/* True when the loop is to end; *failed when sandboxes could not be removed in time. */
static bool finished(const box_warden *w, bool *failed)
{
    if (w->stopping)
        /* What can be started was, just before. */
        return w->n_running == 0 && !w->deferred && w->n_standbys == 0;
    if (!w->removing)
        return false;
    *failed = box_map_count(w->sandboxes) + w->n_standbys > 0;
    return !*failed || box_now() >= w->remove_by;
}

static int wait_and_handle(box_warden *w, box_error *err)
{
    bool ticks = w->n_running > 0 || w->removing || w->n_retries > 0 || w->strangers ||
                 w->n_preparing > 0 || w->prepare_at != 0 || w->accept_rests;
    struct epoll_event e;
    /* One at a time: no event of a batch can then name something an earlier one has freed. */
    int n = epoll_wait(w->epoll, &e, 1,
                       w->rests           ? BOX_WARDEN_QUIET_MS
                       : w->deferred      ? BOX_WARDEN_DYING_MS
                       : w->flush_at != 0 ? BOX_FLIGHT_RETRY_MS
                       : w->fill_at != 0  ? BOX_DISK_FILL_MS
                       : ticks            ? TICK_MS
                                          : -1);
    if (n < 0 && errno != EINTR)
        return box_fail_errno(err, "wait for events");
    if (n > 0) {
        warden_watch *watch = e.data.ptr;
        watch->ready(w, watch, e.events);
    }
    box_warden_conns_flush_again(w);
    if (box_now() >= w->next_tick) {
        w->next_tick = box_time_add(box_now(), TICK_MS * BOX_MS);
        box_warden_sandboxes_retry(w);
        box_warden_conns_accept_again(w);
        reap_strangers(w);
    }
    return 0;
}

int box_warden_run(box_warden *w, box_error *err)
{
    bool failed = false;
    box_warden_jobs_pump(w);
    while (!finished(w, &failed)) {
        if (wait_and_handle(w, err) < 0)
            return -1;
        box_warden_conns_tidy(w);
        box_warden_jobs_pump(w);
    }
    if (w->listener.fd >= 0)
        (void)unlink(w->config->socket); /* a stale name would only be removed at the next start */
    return failed ? box_fail(err, BOX_INTERNAL, "sandboxes could not be removed") : 0;
}
