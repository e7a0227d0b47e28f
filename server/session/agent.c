#include "session/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/fd_room.h"
#include "base/list.h"

/* A packet that waits: START, or anything the socket had no room for. */
typedef struct packet {
    box_list link;
    bool is_start; /* or MANAGE: its answer comes before the next is sent */
    bool is_manage;
    uint64_t id; /* of the START */
    box_buf bytes;
    int fds[4];
    size_t n_fds;
} packet;

struct box_agent {
    box_loop *loop;
    box_agent_events events;
    void *arg;
    int fd;
    box_watch *watch;
    box_timer *timer; /* HELLO, then STARTED */
    box_timer *again; /* too many descriptors are in flight to send now */
    uint64_t first_id;
    bool ready;
    uint32_t expect; /* processes of an earlier boxd that it has not told of yet */
    bool start_unanswered;
    uint64_t starting_id; /* of that START */
    uint64_t managing;    /* the process whose MANAGED ends that; 0 = STARTED does */
    bool lost;
    box_error why;
    bool protocol;
    box_list queue;  /* of packet: signals and acks first come, first served */
    box_list starts; /* of packet: wait for their turn, a MANAGE's orders behind it */
    box_later later; /* acknowledgements go out after the answers that made them */
    bool later_again;
    int watched; /* events: changing them costs two system calls */
    size_t n_queued;
    size_t n_awaited; /* commands whose EXIT is to come */
};

/* A name below a directory may be longer than sun_path; through /proc it is short. */
static int address_of(int run_dirfd, const char *name, struct sockaddr_un *out, box_error *err)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(out->sun_path, sizeof out->sun_path, "/proc/self/fd/%d/%s", run_dirfd, name);
    if (n < 0 || (size_t)n >= sizeof out->sun_path)
        return box_fail(err, BOX_INTERNAL, "the name of an agent's socket is too long");
    return 0;
}

int box_agent_listen(int run_dirfd, const char *name, int *listen_fd, box_error *err)
{
    struct sockaddr_un address;
    BOX_AUTO(box_closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return box_fail_errno(err, "socket");
    if (address_of(run_dirfd, name, &address, err) < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0)
        return box_fail_errno(err, "bind the agent's socket");
    if (listen(fd, 4) < 0)
        return box_fail_errno(err, "listen on the agent's socket");
    *listen_fd = box_take_fd(&fd);
    return 0;
}

/* --- losing it -------------------------------------------------------------------------------- */

static void drop_packet(box_agent *a, packet *p)
{
    box_list_remove(&p->link);
    a->n_queued--;
    for (size_t i = 0; i < p->n_fds; i++)
        box_closep(&p->fds[i]);
    box_buf_done(&p->bytes);
    free(p);
}

static void watch_for(box_agent *a, int events)
{
    if (events != a->watched)
        box_watch_set(a->watch, events);
    a->watched = events;
}

static void drop_all(box_agent *a, box_list *packets)
{
    for (box_list *at = packets->next, *next; at != packets; at = next) {
        next = at->next;
        drop_packet(a, BOX_CONTAINER(at, packet, link));
    }
}

/* Told from the timer, so never from inside a function the owner called. */
static void lose(box_agent *a, bool protocol, const char *cause)
{
    if (a->lost)
        return;
    a->lost = true;
    a->protocol = protocol;
    (void)box_fail(&a->why, BOX_SESSION_BROKEN, "the sandbox is gone: %s", cause);
    box_error_add(&a->why, "cause", cause);
    watch_for(a, 0);
    box_timer_set(a->timer, 0);
}

static void on_timer(void *arg)
{
    box_agent *a = arg;
    if (a->lost)
        a->events.lost(a->arg, &a->why, a->protocol);
    else if (!a->ready || a->expect > 0)
        lose(a, false, "its agent did not say hello");
    else if (a->start_unanswered)
        lose(a, false, "its agent does not start a command");
}

/* --- sending ---------------------------------------------------------------------------------- */

static packet *next_packet(box_agent *a)
{
    if (!box_list_empty(&a->queue))
        return BOX_CONTAINER(a->queue.next, packet, link);
    if (box_list_empty(&a->starts))
        return NULL;
    packet *p = BOX_CONTAINER(a->starts.next, packet, link);
    return p->is_start && a->start_unanswered ? NULL : p; /* an order's MANAGE has just been sent */
}

/* managing: of a MANAGE, else 0. */
static void expect_started(box_agent *a, uint64_t managing)
{
    a->start_unanswered = true;
    a->managing = managing;
    box_timer_set(a->timer,
                  box_time_add(box_loop_now(a->loop), BOX_AGENT_STARTED_SECONDS * BOX_SECOND));
}

static void flush(box_agent *a)
{
    box_error err = {0};
    bool waits = false;
    for (packet *p; !a->lost && a->ready && (p = next_packet(a)) != NULL;) {
        if (box_fd_send(a->fd, box_buf_data(&p->bytes), box_buf_len(&p->bytes), p->fds, p->n_fds,
                        &err) < 0) {
            waits = err.sys_errno == EAGAIN;
            if (err.sys_errno == ETOOMANYREFS)
                box_timer_set(a->again,
                              box_time_add(box_loop_now(a->loop), BOX_FLIGHT_RETRY_MS * BOX_MS));
            else if (!waits)
                lose(a, false, "its agent closed the channel");
            break;
        }
        if (p->is_start) {
            a->n_awaited += !p->is_manage; /* that has no EXIT */
            a->starting_id = p->id;
            expect_started(a, p->is_manage ? p->id : 0);
        }
        drop_packet(a, p);
    }
    if (!a->lost)
        watch_for(a, BOX_READABLE | (waits ? BOX_WRITABLE : 0));
}

static void on_again(void *arg)
{
    box_agent *a = arg;
    if (!a->lost)
        flush(a);
}

static void enqueue(box_agent *a, box_list *list, packet *p)
{
    a->n_queued++;
    box_list_append(list, &p->link);
    if (a->n_queued > BOX_AGENT_MAX_QUEUE)
        lose(a, true, "its agent does not read");
}

static packet *packet_new(box_agent *a, box_agent_type type, uint64_t id, const void *body,
                          size_t size)
{
    packet *p = box_alloc(sizeof *p);
    box_agent_header header = {.type = type, .size = (uint32_t)(sizeof header + size), .id = id};
    box_error err;
    if (box_buf_add(&p->bytes, &header, sizeof header, &err) == 0 &&
        box_buf_add(&p->bytes, body, size, &err) == 0)
        return p;
    box_buf_done(&p->bytes);
    free(p);
    lose(a, false, "no memory for its channel");
    return NULL;
}

/* Never mixed up with START's order: a signal for a command that is still queued here is the
 * owner's to keep back. */
static void send_with(box_agent *a, box_agent_type type, uint64_t id, const void *body, size_t size,
                      int *fd)
{
    if (a->lost)
        return;
    packet *p = packet_new(a, type, id, body, size);
    if (p == NULL)
        return;
    if (fd != NULL)
        p->fds[p->n_fds++] = box_take_fd(fd);
    enqueue(a, &a->queue, p);
}

static void send_small(box_agent *a, box_agent_type type, uint64_t id, const void *body,
                       size_t size)
{
    send_with(a, type, id, body, size, NULL);
}

/* What else waits for the end of the turn, answers first of all, comes before us. */
static void on_later(box_later *later)
{
    box_agent *a = BOX_CONTAINER(later, box_agent, later);
    a->later_again = !a->later_again;
    if (a->later_again)
        box_loop_later(a->loop, &a->later);
    else if (!a->lost)
        flush(a);
}

int box_agent_start_command(box_agent *a, uint64_t id, const box_agent_run *run, int fds[3],
                            box_error *err)
{
    const box_program *program = run->program;
    packet *p = box_alloc(sizeof *p);
    box_buf_init(&p->bytes, BOX_AGENT_PACKET_BYTES);
    p->is_start = true;
    p->id = id;
    int memfd = -1;
    box_agent_command command = {.id = id,
                                 .timeout_ns = run->timeout_ns,
                                 .flags = run->flags,
                                 .rows = run->rows,
                                 .columns = run->columns,
                                 .argc = program->argc,
                                 .argv = (const char *const *)program->argv,
                                 .envc = program->envc,
                                 .env = (const char *const *)program->env,
                                 .workdir = program->workdir};
    if (box_agent_start_build(&command, &p->bytes, &memfd, err) < 0) {
        box_buf_done(&p->bytes);
        free(p);
        return -1;
    }
    for (int i = 0; i < 3; i++) {
        if (fds[i] >= 0)
            p->fds[p->n_fds++] = box_take_fd(&fds[i]);
    }
    if (memfd >= 0)
        p->fds[p->n_fds++] = memfd;
    enqueue(a, &a->starts, p);
    flush(a);
    return 0;
}

void box_agent_manage_process(box_agent *a, uint64_t id, const box_agent_manage *m, int fds[2])
{
    packet *p = box_alloc(sizeof *p);
    size_t size = sizeof(box_agent_header) + sizeof *m;
    box_agent_header header = {.type = BOX_AGENT_MANAGE, .size = (uint32_t)size, .id = id};
    box_error err;
    p->is_start = p->is_manage = true;
    p->id = id;
    p->n_fds = box_agent_manage_fds(m);
    for (size_t i = 0; i < p->n_fds; i++)
        p->fds[i] = box_take_fd(&fds[i]);
    a->n_queued++;
    box_list_append(&a->starts, &p->link);
    if (a->lost || box_buf_add(&p->bytes, &header, sizeof header, &err) < 0 ||
        box_buf_add(&p->bytes, m, sizeof *m, &err) < 0) {
        drop_packet(a, p);
        lose(a, false, "no memory for its channel");
    } else {
        flush(a);
    }
}

static packet *find_start(box_agent *a, uint64_t id)
{
    for (box_list *at = a->starts.next; at != &a->starts; at = at->next) {
        packet *p = BOX_CONTAINER(at, packet, link);
        if (p->is_start && p->id == id)
            return p;
    }
    return NULL;
}

/* What is to come after a MANAGE and the orders behind it: a link before which to put one. */
static box_list *behind_orders(box_agent *a, const packet *manage)
{
    box_list *at = manage->link.next;
    while (at != &a->starts && !BOX_CONTAINER(at, packet, link)->is_start)
        at = at->next;
    return at;
}

/* One for a process whose MANAGE waits here follows that: before it the agent would not know whom
 * it is about. */
void box_agent_order(box_agent *a, box_agent_type type, uint64_t id, const void *body, size_t size)
{
    packet *manage = a->lost ? NULL : find_start(a, id);
    if (manage == NULL) {
        send_small(a, type, id, body, size);
    } else {
        packet *p = packet_new(a, type, id, body, size);
        if (p != NULL)
            enqueue(a, behind_orders(a, manage), p);
    }
    flush(a);
}

bool box_agent_take_back(box_agent *a, uint64_t id)
{
    packet *p = find_start(a, id);
    if (p == NULL)
        return false;
    drop_packet(a, p);
    return true;
}

void box_agent_signal_command(box_agent *a, uint64_t id, const box_agent_signal *s)
{
    send_small(a, BOX_AGENT_SIGNAL, id, s, sizeof *s);
    flush(a);
}

void box_agent_start_files(box_agent *a, uint64_t id, uint32_t flags, int *socket)
{
    box_agent_files files = {.flags = flags};
    send_with(a, BOX_AGENT_FILES, id, &files, sizeof files, socket);
    box_closep(socket); /* where it was not sent its other end hears of it */
    flush(a);
}

void box_agent_stop_files(box_agent *a, uint64_t id)
{
    send_small(a, BOX_AGENT_FILES_STOP, id, "", 0);
    flush(a);
}

void box_agent_ack(box_agent *a, uint64_t id)
{
    send_small(a, BOX_AGENT_EXIT_ACK, id, "", 0);
    box_loop_later(a->loop, &a->later);
}

/* --- receiving -------------------------------------------------------------------------------- */

static void start_is_answered(box_agent *a)
{
    a->start_unanswered = false;
    box_timer_set(a->timer, BOX_TIME_NEVER);
}

static void is_ready(box_agent *a)
{
    box_timer_set(a->timer, BOX_TIME_NEVER);
    a->events.ready(a->arg);
}

static int on_packet(box_agent *a, const box_agent_packet *p, int *fds, size_t n_fds,
                     box_error *err)
{
    int none = -1;
    if ((p->header.type == BOX_AGENT_HELLO) == a->ready)
        return box_fail(err, BOX_PROTOCOL, "agent channel: HELLO at the wrong time");
    switch (p->header.type) {
    case BOX_AGENT_HELLO:
        if (box_agent_hello_check(&p->body.hello, err) < 0)
            return -1;
        a->ready = true;
        a->expect = p->body.hello.processes;
        if (a->expect == 0)
            is_ready(a);
        return 0;
    case BOX_AGENT_STARTED:
        if (p->header.id >= a->first_id && (!a->start_unanswered || a->managing != 0))
            return box_fail(err, BOX_PROTOCOL, "agent channel: STARTED without START");
        if (p->header.id >= a->first_id)
            start_is_answered(a);
        if (p->header.id >= a->first_id && p->body.started.error.reason != BOX_NONE)
            a->n_awaited--;
        a->events.started(a->arg, p->header.id, &p->body.started, fds);
        return 0;
    case BOX_AGENT_EXIT:
        if (a->start_unanswered && p->header.id == a->starting_id)
            start_is_answered(a); /* it says both */
        if (p->header.id >= a->first_id && a->n_awaited > 0)
            a->n_awaited--;
        a->events.exited(a->arg, p->header.id, &p->body.exit);
        return 0;
    case BOX_AGENT_FILES_ENDED:
        if (a->events.files_ended != NULL)
            a->events.files_ended(a->arg, p->header.id, &p->body.files_ended);
        return 0;
    case BOX_AGENT_INTRODUCED:
        if (a->events.introduced == NULL)
            return box_fail(err, BOX_PROTOCOL, "agent channel: a process nobody asked for");
        a->events.introduced(a->arg, p->header.id, &p->body.manage, fds, n_fds);
        return 0;
    case BOX_AGENT_MANAGED:
        if (a->events.managed == NULL)
            return box_fail(err, BOX_PROTOCOL, "agent channel: a process nobody asked for");
        if (a->start_unanswered && a->managing == p->header.id)
            start_is_answered(a);
        a->events.managed(a->arg, p->header.id, &p->body.managed, n_fds > 0 ? &fds[0] : &none);
        if (a->expect > 0 && --a->expect == 0 && !a->lost)
            is_ready(a);
        return 0;
    case BOX_AGENT_GREW:
        if (a->events.grew == NULL)
            return box_fail(err, BOX_PROTOCOL, "agent channel: a process nobody asked for");
        a->events.grew(a->arg, p->header.id, &p->body.ends);
        return 0;
    case BOX_AGENT_CONNECTED:
        if (a->events.connected == NULL)
            return box_fail(err, BOX_PROTOCOL, "agent channel: a port nobody asked for");
        a->events.connected(a->arg, p->header.id, &p->body.connected, n_fds > 0 ? &fds[0] : &none);
        return 0;
    default:
        return 0; /* PONG: we never ask */
    }
}

static bool receive_one(box_agent *a)
{
    uint8_t data[BOX_AGENT_SMALL_BYTES];
    int fds[BOX_FD_PASS_MAX];
    size_t n_fds = BOX_COUNT(fds);
    box_error err = {0};
    ssize_t len = box_fd_receive(a->fd, data, sizeof data, fds, &n_fds, &err);
    if (len < 0 && err.sys_errno == EAGAIN)
        return false;
    if (len <= 0) {
        lose(a, len < 0 && err.reason == BOX_PROTOCOL, "its agent ended");
        return false;
    }
    box_agent_packet p;
    if (box_agent_packet_parse(data, (size_t)len, n_fds, BOX_AGENT_FROM_AGENT, &p, &err) < 0 ||
        on_packet(a, &p, fds, n_fds, &err) < 0)
        lose(a, true, err.msg);
    for (size_t i = 0; i < n_fds; i++)
        box_closep(&fds[i]); /* what nobody took */
    return !a->lost;
}

static void on_ready(void *arg, int events)
{
    box_agent *a = arg;
    enum { PACKETS_A_TURN = 64 };
    for (int i = 0; (events & BOX_READABLE) && i < PACKETS_A_TURN; i++) {
        if (!receive_one(a) || (a->ready && a->n_awaited == 0))
            break; /* nothing more is to be expected: the loop says when there is */
    }
    /* Acknowledgements alone have time until the answers are out. */
    bool wait = box_list_linked(&a->later.link) && box_list_empty(&a->starts);
    if (!a->lost && (!wait || (events & BOX_WRITABLE)))
        flush(a);
}

/* --- life ------------------------------------------------------------------------------------- */

/* A peer that is gone is the sandbox's end, not a fault of ours. */
static int not_there(box_error *err)
{
    int e = err->sys_errno;
    if (e == ECONNREFUSED || e == ECONNRESET || e == EPIPE) {
        (void)box_fail(err, BOX_SESSION_BROKEN, "the sandbox's agent has ended");
        box_error_add(err, "cause", "its agent has ended");
    }
    return -1;
}

int box_agent_new(box_loop *loop, int run_dirfd, const char *name, const box_agent_events *events,
                  void *arg, uint64_t first_id, box_agent **out, box_error *err)
{
    struct sockaddr_un address;
    BOX_AUTO(box_closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return box_fail_errno(err, "socket");
    if (address_of(run_dirfd, name, &address, err) < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        (void)box_fail_errno(err, "connect to the agent");
        return not_there(err);
    }
    box_agent_hello hello = {.version = BOX_AGENT_VERSION};
    if (box_agent_send(fd, BOX_AGENT_HELLO, 0, &hello, err) < 0)
        return not_there(err);
    box_agent *a;
    if (box_agent_attach(loop, &fd, events, arg, first_id, &a, err) < 0)
        return -1;
    a->ready = false;
    box_timer_set(a->timer, box_time_add(box_loop_now(loop), BOX_AGENT_HELLO_SECONDS * BOX_SECOND));
    *out = a;
    return 0;
}

int box_agent_attach(box_loop *loop, int *fd, const box_agent_events *events, void *arg,
                     uint64_t first_id, box_agent **out, box_error *err)
{
    box_agent *a = box_alloc(sizeof *a);
    a->loop = loop;
    a->events = *events;
    a->arg = arg;
    a->first_id = first_id;
    a->ready = true;
    if (box_watch_new(loop, *fd, on_ready, a, &a->watch, err) < 0) {
        free(a);
        return -1;
    }
    a->fd = box_take_fd(fd);
    box_list_init(&a->queue);
    box_list_init(&a->starts);
    a->timer = box_timer_new(loop, on_timer, a);
    a->again = box_timer_new(loop, on_again, a);
    a->later.fn = on_later;
    watch_for(a, BOX_READABLE);
    *out = a;
    return 0;
}

int box_agent_release(box_agent *a)
{
    int fd = box_take_fd(&a->fd);
    /* Not watched any more before another loop does. */
    box_watch_free(a->watch);
    a->watch = NULL;
    box_agent_free(a);
    return fd;
}

void box_agent_free(box_agent *a)
{
    if (a == NULL)
        return;
    drop_all(a, &a->queue);
    drop_all(a, &a->starts);
    box_later_cancel(&a->later);
    box_watch_free(a->watch);
    box_timer_free(a->timer);
    box_timer_free(a->again);
    box_closep(&a->fd);
    free(a);
}
