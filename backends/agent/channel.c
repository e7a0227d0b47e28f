#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/state.h"
#include "base/fd.h"

enum {
    PACKETS_A_ROUND = 32, /* then the loop looks at its children again */
    MAX_FDS = 4,          /* START's and MANAGE's */
};

void box_channel_drop(box_agent *a)
{
    box_closep(&a->conn);
    a->greeted = a->blocked = a->stash.due = false;
    box_agent_files_forget(&a->workers, box_after_ms(a, BOX_FILES_GRACE_SECONDS * 1000));
    box_agent_forwards_drop(&a->forwards);
    if (a->orphan_at == 0) {
        uint64_t seconds = a->config->setup.orphan_seconds;
        seconds = seconds != 0 ? seconds : BOX_AGENT_ORPHAN_SECONDS;
        a->orphan_at = box_time_add(a->now, seconds * BOX_SECOND);
    }
}

bool box_channel_send(box_agent *a, box_agent_type type, uint64_t id, const void *body,
                      const int *fds, size_t n_fds)
{
    box_error err;
    if (a->conn < 0 || a->blocked)
        return false;
    if (box_agent_send_with(a->conn, type, id, body, fds, n_fds, &err) == 0)
        return true;
    if (err.sys_errno == EAGAIN)
        a->blocked = true;
    else
        box_channel_drop(a);
    return false;
}

static bool send_packet(box_agent *a, box_agent_type type, uint64_t id, const void *body)
{
    return box_channel_send(a, type, id, body, NULL, 0);
}

/* A peer outside our pid namespace shows as pid 0; inside, nobody may speak for boxd. */
static bool is_boxd(const box_agent *a, int fd)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    if ((a->config->setup.flags & BOX_AGENT_SETUP_ANY_PEER) != 0)
        return true;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.pid == 0;
}

void box_channel_accept(box_agent *a)
{
    BOX_AUTO(box_closep)
    int fd = accept4(a->config->listen, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 || !is_boxd(a, fd))
        return;
    box_agent_hello hello = {
        .version = BOX_AGENT_VERSION,
        .features = a->reapers ? BOX_AGENT_HAS_REAPERS : BOX_AGENT_HAS_CGROUPS,
        .running = box_commands_open(&a->table),
        .processes = box_managed_told(a),
    };
    a->conn = box_take_fd(&fd);
    a->hello_by = box_time_add(a->now, BOX_BOXD_HELLO_SECONDS * BOX_SECOND);
    (void)send_packet(a, BOX_AGENT_HELLO, 0, &hello); /* a fresh socket has room, or it is gone */
}

/* Repeats to a new boxd all it has to know: what runs and what has ended. */
static void greet(box_agent *a)
{
    a->greeted = true;
    a->orphan_at = 0;
    if (!a->reapers)
        box_standby_renew(a);
    for (box_command *c = NULL; (c = box_commands_after(&a->table, c)) != NULL;) {
        c->earlier = true;
        bool told = !c->own && c->state != BOX_COMMAND_STARTING && c->state != BOX_COMMAND_KEPT;
        c->started_due = told;
        c->exit_due = told && c->state == BOX_COMMAND_ENDED;
    }
    box_managed_greet(a);
}

static void pong(box_agent *a, uint64_t id)
{
    if (!send_packet(a, BOX_AGENT_PONG, id, NULL) && a->blocked)
        a->stash = (box_stash){.due = true, .type = BOX_AGENT_PONG, .id = id};
}

void box_channel_refuse(box_agent *a, uint64_t id, const box_error *why)
{
    box_agent_started body = {.error = *why};
    if (!send_packet(a, BOX_AGENT_STARTED, id, &body) && a->blocked)
        a->stash = (box_stash){.due = true, .type = BOX_AGENT_STARTED, .id = id, .body = body};
}

static int start_worker(box_agent *a, const box_agent_packet *p, int socket)
{
    const box_agent_config *c = a->config;
    const box_agent_files_config config = {.program = c->files,
                                           .uid = c->setup.command_uid,
                                           .gid = c->setup.command_gid,
                                           .one_user =
                                               (c->setup.flags & BOX_AGENT_SETUP_ONE_USER) != 0,
                                           .cgroup = c->cgroup,
                                           .inner = a->limits.inner,
                                           .box_procs = c->box_procs,
                                           .n_box_procs = c->setup.n_box_procs};
    return box_agent_files_start(&a->workers, &config, p->header.id, &p->body.files, socket);
}

/* -1: it breaks the protocol. START's descriptors are taken. */
static int dispatch(box_agent *a, const box_agent_packet *p, int *fds, size_t n_fds)
{
    box_error err;
    uint64_t id = p->header.id;
    if (a->greeted == (p->header.type == BOX_AGENT_HELLO))
        return -1; /* HELLO first, and once */
    switch (p->header.type) {
    case BOX_AGENT_HELLO:
        if (box_agent_hello_check(&p->body.hello, &err) < 0)
            return -1;
        greet(a);
        return 0;
    case BOX_AGENT_START:
        return box_life_start(a, p, fds, n_fds);
    case BOX_AGENT_SIGNAL:
        if (!box_managed_signal(a, id, &p->body.signal))
            box_life_signal(a, id, &p->body.signal);
        return 0;
    case BOX_AGENT_MANAGE:
        return box_managed_start(a, p, fds, n_fds);
    case BOX_AGENT_STOP:
    case BOX_AGENT_FORGET:
    case BOX_AGENT_CLOSE_STDIN:
    case BOX_AGENT_WATCH:
    case BOX_AGENT_RESIZE:
        return box_managed_order(a, p);
    case BOX_AGENT_EXIT_ACK:
        return box_life_acknowledge(a, id);
    case BOX_AGENT_FILES:
        return start_worker(a, p, fds[0]);
    case BOX_AGENT_FILES_STOP:
        box_agent_files_stop(&a->workers, id, box_after_ms(a, BOX_FILES_GRACE_SECONDS * 1000));
        return 0;
    case BOX_AGENT_CONNECT:
        return box_agent_forward_begin(&a->forwards, id, &p->body.connect, a->now);
    case BOX_AGENT_SHUTDOWN:
        a->ending = true;
        return 0;
    case BOX_AGENT_PING:
        pong(a, id);
        return 0;
    default:
        return -1;
    }
}

/* One packet; false when there is no more, or no boxd, or a START was read: boxd sends nothing more
 * until that is answered, as a rule. */
static bool receive_one(box_agent *a)
{
    int fds[MAX_FDS];
    size_t n_fds = MAX_FDS;
    box_error err;
    box_agent_packet p;
    ssize_t n = box_agent_receive(a->conn, a->packet, sizeof a->packet, fds, &n_fds, &err);
    if (n < 0 && err.sys_errno == EAGAIN)
        return false;
    int rc = n <= 0 ? -1 : 0;
    if (n <= 0)
        n_fds = 0;
    if (rc == 0)
        rc = box_agent_packet_parse(a->packet, (size_t)n, n_fds, BOX_AGENT_FROM_BOXD, &p, &err);
    if (rc == 0)
        rc = dispatch(a, &p, fds, n_fds);
    for (size_t i = 0; i < n_fds; i++)
        box_closep(&fds[i]);
    if (rc < 0)
        box_channel_drop(a);
    return rc == 0 && p.header.type != BOX_AGENT_START;
}

void box_channel_receive(box_agent *a)
{
    for (int i = 0; i < PACKETS_A_ROUND && a->conn >= 0 && !a->blocked && !a->ending; i++) {
        if (!receive_one(a))
            return;
    }
}

static bool tell_started(box_agent *a, box_command *c)
{
    box_agent_started body = {.pid = c->started_pid};
    if (c->state == BOX_COMMAND_FAILED) {
        body.pid = 0;
        (void)box_slot_error(&a->slots[c->slot], &body.error); /* always -1 */
    }
    if (c->terminal[0] >= 0)
        body.flags |= BOX_STARTED_TERMINAL;
    if (!box_channel_send(a, BOX_AGENT_STARTED, c->id, &body, c->terminal,
                          box_agent_started_fds(&body)))
        return false;
    c->started_due = false;
    box_life_close_terminal(c); /* boxd's are the only ones now */
    return true;
}

static bool tell_connected(box_agent *a)
{
    for (box_agent_forward *f; (f = box_agent_forward_due(&a->forwards)) != NULL;) {
        box_agent_connected body = {.error = f->error};
        if (!box_channel_send(a, BOX_AGENT_CONNECTED, f->id, &body, &f->fd, f->fd >= 0 ? 1 : 0))
            return false;
        box_agent_forward_told(&a->forwards, f);
    }
    return true;
}

/* What ended at once is told in one message, where nothing comes with its start. */
static bool is_told_with_exit(const box_command *c)
{
    return c->exit_due && c->started_pid > 0 && c->terminal[0] < 0;
}

void box_channel_flush(box_agent *a)
{
    if (!a->greeted || a->blocked)
        return;
    if (a->stash.due) {
        if (!send_packet(a, a->stash.type, a->stash.id, &a->stash.body))
            return;
        a->stash.due = false;
    }
    for (box_agent_worker *w; (w = box_agent_files_due(&a->workers)) != NULL;) {
        if (!send_packet(a, BOX_AGENT_FILES_ENDED, w->id, &w->ended))
            return;
        box_agent_files_told(w);
    }
    if (!tell_connected(a))
        return;
    box_command *next;
    for (box_command *c = box_commands_after(&a->table, NULL); c != NULL; c = next) {
        next = box_commands_after(&a->table, c);
        if (c->started_due && !is_told_with_exit(c) && !tell_started(a, c))
            return;
        if (c->exit_due && !send_packet(a, BOX_AGENT_EXIT, c->id, &c->exit))
            return;
        c->started_due = c->exit_due = false;
        if (c->state == BOX_COMMAND_FAILED && !c->own)
            box_end_let_go(a, c);
    }
    box_managed_flush(a);
}
