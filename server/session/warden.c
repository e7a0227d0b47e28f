#include "session/warden_impl.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/fd_room.h"
#include "base/limits.h"
#include "base/log.h"

/* --- state ------------------------------------------------------------------------------------ */

static void set_report(box_warden *w, bool available, const char *detail)
{
    box_lock_take(&w->lock);
    w->report.available = available;
    w->report.connecting = false;
    (void)snprintf(w->report.detail, sizeof w->report.detail, "%s", detail);
    box_lock_release(&w->lock);
}

/* What is too much or came twice is only slower. */
static void add_ready(box_warden *w, const box_uid *uid)
{
    box_lock_take(&w->lock);
    if (w->n_ready < BOX_COUNT(w->ready))
        w->ready[w->n_ready++] = *uid;
    box_lock_release(&w->lock);
}

static void forget_ready(box_warden *w)
{
    box_lock_take(&w->lock);
    w->n_ready = 0;
    box_lock_release(&w->lock);
}

box_uid box_warden_new_uid(box_warden *w)
{
    box_uid uid;
    box_lock_take(&w->lock);
    bool ready = w->n_ready > 0;
    if (ready)
        uid = w->ready[--w->n_ready];
    box_lock_release(&w->lock);
    return ready ? uid : box_uid_new();
}

static void go_down(box_warden *w, const char *why)
{
    forget_ready(w);
    box_watch_free(w->watch);
    w->watch = NULL;
    box_closep(&w->fd);
    w->phase = BOX_WARDEN_DOWN;
    w->hello_sent = w->stalled = false;
    set_report(w, false, why);
    box_warden_fail_all(w, why);
    if (w->socket_path == NULL) {
        w->ended = true;
        return;
    }
    box_timer_set(w->retry, box_time_add(box_loop_now(w->loop), w->retry_ms * BOX_MS));
    if (w->retry_ms < BOX_WARDEN_MAX_RETRY_MS)
        w->retry_ms *= 2;
}

static void broken(box_warden *w, const box_error *err)
{
    box_log(BOX_WARN, "warden.broken", BOX_STR("backend", w->name), BOX_ERR(err));
    go_down(w, "its warden spoke another protocol and was cut off; check that boxd and box-warden "
               "are of one version");
}

/* KEEP for every sandbox that lives, then SWEEP, before anything else. */
static void add_keep(void *to, const box_uid *uid)
{
    box_warden *w = to;
    box_warden_target target = {.uid = *uid};
    box_warden_request *r = box_warden_request_new(w, BOX_WARDEN_KEEP, &target);
    r->id = w->next_id++;
    r->uid = *uid;
    box_map_put_bytes(w->requests, &r->id, sizeof r->id, r);
    box_list_append(&w->front, &r->link);
}

static void sweep(box_warden *w)
{
    if (w->hooks.live != NULL)
        w->hooks.live(w->hooks.arg, w, add_keep, w);
    box_warden_target none = {0};
    box_warden_request *r = box_warden_request_new(w, BOX_WARDEN_SWEEP, &none);
    r->id = w->next_id++;
    box_map_put_bytes(w->requests, &r->id, sizeof r->id, r);
    box_list_append(&w->front, &r->link);
}

static int send_packet(box_warden *w, const box_warden_header *header, const void *body, int fd,
                       box_error *err)
{
    uint8_t packet[BOX_WARDEN_PACKET_BYTES];
    memcpy(packet, header, sizeof *header);
    memcpy(packet + sizeof *header, body, header->size - sizeof *header);
    return box_fd_send(w->fd, packet, header->size, &fd, fd >= 0 ? 1 : 0, err);
}

static int send_hello(box_warden *w, box_error *err)
{
    box_warden_hello hello = {.version = BOX_WARDEN_VERSION, .instance = w->instance};
    box_warden_header header = {.type = BOX_WARDEN_HELLO, .size = sizeof header + sizeof hello};
    (void)snprintf(hello.backend, sizeof hello.backend, "%s", w->name);
    return send_packet(w, &header, &hello, -1, err);
}

static int request_send(box_warden_request *r, box_error *err)
{
    box_warden_header header = {
        .type = r->type, .size = (uint32_t)(sizeof header + r->size), .id = r->id};
    return send_packet(r->warden, &header, &r->body, r->fd, err);
}

/* A warden that takes nothing is as good as none: what it was not sent has no timer of its own. */
static void be_patient(box_warden *w, bool waits, bool progress)
{
    if (w->phase != BOX_WARDEN_READY)
        return; /* there it has to say HELLO in time */
    if (waits && (progress || !w->stalled))
        box_timer_set(w->retry,
                      box_time_add(box_loop_now(w->loop), BOX_WARDEN_ASK_SECONDS * BOX_SECOND));
    w->stalled = waits;
}

void box_warden_flush(box_warden *w)
{
    box_error err = {0};
    bool progress = false;
    int rc = 0;
    if (w->phase == BOX_WARDEN_GREETING && !w->hello_sent) {
        rc = send_hello(w, &err);
        w->hello_sent = rc == 0;
    }
    while (rc == 0 && w->phase == BOX_WARDEN_READY) {
        box_list *head = !box_list_empty(&w->front) ? &w->front : &w->waiting;
        if (box_list_empty(head))
            break;
        box_warden_request *r = BOX_CONTAINER(head->next, box_warden_request, link);
        rc = request_send(r, &err);
        if (rc < 0)
            break;
        box_list_remove(&r->link);
        box_closep(&r->fd);
        box_warden_request_start_timer(r);
        progress = true;
    }
    bool full = rc < 0 && err.sys_errno == EAGAIN;
    bool in_flight = rc < 0 && err.sys_errno == ETOOMANYREFS;
    if (rc < 0 && !full && !in_flight) {
        go_down(w, "the connection to its warden broke");
        return;
    }
    be_patient(w, rc < 0, progress);
    if (in_flight)
        box_timer_set(w->again, box_time_add(box_loop_now(w->loop), BOX_FLIGHT_RETRY_MS * BOX_MS));
    box_watch_set(w->watch, BOX_READABLE | (full ? BOX_WRITABLE : 0));
}

/* --- packets ---------------------------------------------------------------------------------- */

static int misfit(box_error *err, const char *what)
{
    return box_fail(err, BOX_PROTOCOL, "warden channel: %s", what);
}

static int on_hello(box_warden *w, const box_warden_hello *packet, box_error *err)
{
    box_warden_hello hello = *packet;
    if (w->phase != BOX_WARDEN_GREETING)
        return misfit(err, "HELLO twice");
    if (hello.version != BOX_WARDEN_VERSION)
        return box_fail(err, BOX_VERSION_MISMATCH, "warden channel: version %d here, %u there",
                        BOX_WARDEN_VERSION, hello.version);
    hello.backend[sizeof hello.backend - 1] = '\0';
    hello.detail[sizeof hello.detail - 1] = '\0';
    box_error_sanitize(&hello.error);
    if (hello.error.reason != BOX_NONE) {
        go_down(w, hello.error.msg);
        return 0;
    }
    if (strcmp(hello.backend, w->name) != 0)
        return misfit(err, "it is the warden of another backend");
    box_lock_take(&w->lock);
    w->report.guarantees = hello.guarantees;
    w->report.isolation = hello.isolation;
    box_lock_release(&w->lock);
    set_report(w, true, hello.detail);
    w->phase = BOX_WARDEN_READY;
    w->retry_ms = BOX_WARDEN_RETRY_MS;
    box_log(BOX_INFO, "warden.ready", BOX_STR("backend", w->name), BOX_STR("host", hello.detail));
    sweep(w);
    box_warden_flush(w);
    return 0;
}

static void take_fds(box_warden_reply *reply, int *fds)
{
    static const uint32_t order[] = {BOX_ANSWER_FD_CGROUP, BOX_ANSWER_FD_DEVPTS,
                                     BOX_ANSWER_FD_PIDFD, BOX_ANSWER_FD_MEMORY, BOX_ANSWER_FD_PIDS};
    int *const places[] = {&reply->cgroup, &reply->devpts, &reply->pidfd, &reply->memory,
                           &reply->pids};
    for (size_t i = 0, at = 0; i < BOX_COUNT(order); i++) {
        if (reply->answer.fds & order[i])
            *places[i] = box_take_fd(&fds[at++]);
    }
}

/* fds that are taken become -1. */
static int on_answer(box_warden *w, uint64_t id, const box_warden_answer *answer, int *fds,
                     size_t n_fds, box_error *err)
{
    if (answer->fds > BOX_ANSWER_FD_ALL || n_fds != (size_t)__builtin_popcount(answer->fds))
        return misfit(err, "descriptors that do not fit the answer");
    box_warden_request *r = box_map_get_bytes(w->requests, &id, sizeof id);
    if (r == NULL)
        return 0; /* answered too late: whoever asked was told so, and cleans up by uid */
    if (box_list_linked(&r->link))
        return misfit(err, "an answer to what was not asked yet");
    r->reply.answer = *answer;
    r->reply.error = answer->error;
    box_error_sanitize(&r->reply.error);
    take_fds(&r->reply, fds);
    if (r->type == BOX_WARDEN_KEEP && r->reply.error.reason == BOX_NONE &&
        answer->alive == BOX_DEAD)
        w->hooks.exited(w->hooks.arg, &r->uid, false);
    if (r->type == BOX_WARDEN_SWEEP && r->reply.error.reason != BOX_NONE)
        box_log(BOX_WARN, "warden.sweep", BOX_STR("backend", w->name), BOX_ERR(&r->reply.error));
    box_warden_request_end(r);
    return 0;
}

static int on_packet(box_warden *w, const uint8_t *data, size_t len, int *fds, size_t n_fds,
                     box_error *err)
{
    box_warden_header header;
    union {
        box_warden_hello hello;
        box_warden_answer answer;
        box_warden_exited exited;
        box_warden_target ready;
    } body;
    if (len < sizeof header)
        return misfit(err, "a packet of impossible size");
    memcpy(&header, data, sizeof header);
    size_t size = header.type == BOX_WARDEN_HELLO      ? sizeof body.hello
                  : header.type == BOX_WARDEN_ANSWER   ? sizeof body.answer
                  : header.type == BOX_WARDEN_EXITED   ? sizeof body.exited
                  : header.type == BOX_WARDEN_PREPARED ? sizeof body.ready
                                                       : 0;
    if (size == 0)
        return misfit(err, "unknown type");
    if (header.size != len || len != sizeof header + size)
        return misfit(err, "wrong size");
    memcpy(&body, data + sizeof header, size);
    if (header.type != BOX_WARDEN_ANSWER && n_fds != 0)
        return misfit(err, "descriptors where none belong");
    if (header.type == BOX_WARDEN_HELLO)
        return on_hello(w, &body.hello, err);
    if (w->phase != BOX_WARDEN_READY)
        return misfit(err, "something before HELLO");
    if (header.type == BOX_WARDEN_ANSWER)
        return on_answer(w, header.id, &body.answer, fds, n_fds, err);
    if (header.type == BOX_WARDEN_PREPARED)
        add_ready(w, &body.ready.uid);
    else
        w->hooks.exited(w->hooks.arg, &body.exited.uid, body.exited.oom != 0);
    return 0;
}

/* One packet; false when there is no more or the connection went. */
static bool receive_one(box_warden *w)
{
    uint8_t data[BOX_WARDEN_PACKET_BYTES];
    int fds[BOX_ANSWER_MAX_FDS] = {-1, -1, -1, -1, -1};
    size_t n_fds = BOX_COUNT(fds);
    box_error err = {0};
    ssize_t len = box_fd_receive(w->fd, data, sizeof data, fds, &n_fds, &err);
    if (len < 0 && err.sys_errno == EAGAIN)
        return false;
    if (len <= 0) {
        if (len < 0 && err.reason == BOX_PROTOCOL)
            broken(w, &err);
        else
            go_down(w, "its warden went away; start box-warden again and retry");
        return false;
    }
    int rc = on_packet(w, data, (size_t)len, fds, n_fds, &err);
    for (size_t i = 0; i < n_fds; i++)
        box_closep(&fds[i]);
    if (rc < 0)
        broken(w, &err);
    return w->phase != BOX_WARDEN_DOWN;
}

static void on_ready(void *arg, int events)
{
    box_warden *w = arg;
    if (events & BOX_READABLE) {
        enum { PACKETS_A_TURN = 64 }; /* then the loop's other work gets its turn */
        for (int i = 0; i < PACKETS_A_TURN; i++) {
            if (!receive_one(w))
                break;
        }
    }
    if (w->phase != BOX_WARDEN_DOWN) /* answers may have opened the way for others */
        box_warden_flush(w);
}

/* --- connecting ------------------------------------------------------------------------------- */

static int open_socket(box_warden *w, box_error *err)
{
    if (w->socket_path == NULL)
        return box_take_fd(&w->given_fd);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(w->socket_path) >= sizeof address.sun_path)
        return box_fail(err, BOX_VALIDATION, "the path of its warden's socket is too long");
    memcpy(address.sun_path, w->socket_path, strlen(w->socket_path));
    BOX_AUTO(box_closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return box_fail_errno(err, "socket");
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        return box_fail_errno(err, "connect");
    return box_take_fd(&fd);
}

static void connect_failed(box_warden *w, const box_error *err)
{
    char text[BOX_ERROR_MSG + 200];
    const char *why = err->sys_errno == ENOENT || err->sys_errno == ECONNREFUSED
                          ? "no warden listens on its socket"
                          : err->msg;
    (void)snprintf(text, sizeof text,
                   "%s; start it (box-warden --backend %s, or its service) and retry", why,
                   w->name);
    go_down(w, text);
}

void box_warden_connect(box_warden *w)
{
    box_error err = {0};
    w->last_try = box_loop_now(w->loop);
    w->fd = open_socket(w, &err);
    if (w->fd >= 0 && box_watch_new(w->loop, w->fd, on_ready, w, &w->watch, &err) < 0)
        box_closep(&w->fd);
    if (w->fd < 0) {
        connect_failed(w, &err);
        return;
    }
    w->phase = BOX_WARDEN_GREETING;
    /* A warden that accepts and says nothing is as good as none. */
    box_timer_set(w->retry, box_time_add(w->last_try, BOX_WARDEN_ASK_SECONDS * BOX_SECOND));
    box_warden_flush(w);
}

static void on_retry(void *arg)
{
    box_warden *w = arg;
    if (w->phase == BOX_WARDEN_GREETING)
        go_down(w, "its warden does not answer");
    else if (w->phase == BOX_WARDEN_READY && w->stalled)
        go_down(w, "its warden takes no more requests");
    else if (w->phase == BOX_WARDEN_DOWN && !w->ended)
        box_warden_connect(w);
}

static void on_again(void *arg)
{
    box_warden *w = arg;
    if (w->phase != BOX_WARDEN_DOWN)
        box_warden_flush(w);
}

static void start(void *arg)
{
    box_warden *w = arg;
    w->retry = box_timer_new(w->loop, on_retry, w);
    w->again = box_timer_new(w->loop, on_again, w);
    box_warden_connect(w);
}

static void give_up(void *arg)
{
    box_warden *w = arg;
    w->ended = true;
    if (w->phase != BOX_WARDEN_DOWN)
        go_down(w, "the server is shutting down");
}

void box_warden_give_up(box_warden *w)
{
    box_loop_post(w->loop, give_up, w);
}

/* --- life ------------------------------------------------------------------------------------- */

box_warden *box_warden_new(box_loop *loop, const box_backend_config *config,
                           const box_uid *instance, const box_warden_hooks *hooks)
{
    box_warden *w = box_alloc(sizeof *w);
    w->loop = loop;
    w->name = box_strdup(config->name);
    w->given_fd = config->socket_path == NULL ? config->fd : -1;
    w->socket_path = box_strdup_null(config->socket_path);
    w->instance = *instance;
    w->hooks = *hooks;
    w->fd = -1;
    w->retry_ms = BOX_WARDEN_RETRY_MS;
    w->next_id = 1;
    w->requests = box_map_new();
    w->groups = box_map_new();
    box_list_init(&w->waiting);
    box_list_init(&w->front);
    box_lock_init(&w->lock);
    (void)snprintf(w->report.name, sizeof w->report.name, "%s", config->name);
    (void)snprintf(w->report.detail, sizeof w->report.detail, "not connected yet");
    w->report.connecting = true;
    box_loop_post(loop, start, w);
    return w;
}

void box_warden_free(box_warden *w)
{
    if (w == NULL)
        return;
    size_t at = 0;
    void *value;
    while (box_map_next(w->requests, &at, &value)) {
        box_warden_request *r = value;
        box_timer_free(r->timer);
        box_warden_request_free(r);
    }
    box_map_free(w->requests);
    box_warden_groups_free(w);
    box_watch_free(w->watch);
    box_timer_free(w->retry);
    box_timer_free(w->again);
    box_closep(&w->fd);
    box_closep(&w->given_fd);
    box_lock_done(&w->lock);
    free(w->name);
    free(w->socket_path);
    free(w);
}

const char *box_warden_name(const box_warden *w)
{
    return w->name;
}

void box_warden_report(box_warden *w, box_backend_report *out)
{
    box_lock_take(&w->lock);
    *out = w->report;
    box_lock_release(&w->lock);
}
