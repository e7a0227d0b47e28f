#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/state.h"
#include "agent/terminal.h"
#include "base/fd.h"

void box_life_fail(box_command *c)
{
    c->state = BOX_COMMAND_FAILED;
    c->started_due = !c->own;
    c->tick = 0;
    box_life_close_terminal(c);
}

void box_life_close_terminal(box_command *c)
{
    box_closep(&c->terminal[0]);
    box_closep(&c->terminal[1]);
}

/* Opened once and passed on: what a command without stdin reads is at its end. */
static int open_null(box_agent *a, box_error *err)
{
    if (a->null < 0)
        a->null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return a->null < 0 ? box_fail_errno(err, "open /dev/null") : 0;
}

/* Without cgroup2 a subreaper is made for it, which takes the other end of a socket along. */
static int make_socket(box_command *c, int *theirs, box_error *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return box_fail_errno(err, "make a socket");
    c->socket = ends[0];
    *theirs = ends[1];
    return 0;
}

static int send_start(box_agent *a, box_command *c, size_t size, const int *fds, size_t n_fds,
                      box_error *err)
{
    if (!a->reapers && box_standby_need(a, err) < 0)
        return -1;
    int socket = a->reapers ? a->zygote.orders : a->zygote.starts;
    if (box_fd_send(socket, a->packet, size, fds, n_fds, err) < 0)
        return -1;
    if (!a->reapers)
        box_standby_take(a, c);
    return 0;
}

/* a->packet holds a START of that size. */
static int pass_to_zygote(box_agent *a, box_command *c, box_agent_start start, size_t size,
                          const int *fds, size_t n_fds, box_error *err)
{
    int all[BOX_FD_PASS_MAX];
    size_t n = 0;
    BOX_AUTO(box_closep) int theirs = -1;
    if ((start.flags & BOX_START_NO_STDIN) != 0 && open_null(a, err) < 0)
        return -1;
    if (a->reapers && make_socket(c, &theirs, err) < 0)
        return -1;
    assert(n_fds + 2 <= BOX_FD_PASS_MAX);
    if ((start.flags & BOX_START_NO_STDIN) != 0)
        all[n++] = a->null;
    memcpy(all + n, fds, n_fds * sizeof *fds);
    n += n_fds;
    if (a->reapers)
        all[n++] = theirs;
    start.reserved[0] = (uint32_t)c->slot;
    memcpy(a->packet + sizeof(box_agent_header), &start, sizeof start);
    int rc = send_start(a, c, size, all, n, err);
    bool dead = rc < 0 && (err->sys_errno == EPIPE || err->sys_errno == ECONNRESET);
    if (dead && box_agent_replace_zygote(a, c)) /* it was killed and is not reaped yet */
        rc = send_start(a, c, size, all, n, err);
    return rc;
}

/* What the zygote could not even be told: the sandbox's or the agent's own bounds. */
static void pass_failed(const box_command *c, box_agent *a, const box_error *err)
{
    int e = err->sys_errno;
    bool own = e == EMFILE || e == ENFILE || e == ENOMEM || e == EAGAIN || e == ENOSPC;
    box_slot_fail(&a->slots[c->slot], own ? BOX_STEP_CLONE : BOX_STEP_CGROUP,
                  e == ENOSPC ? ENOMEM : e, NULL);
}

static int refuse(box_agent *a, uint64_t id, box_reason reason, const char *limit, int max)
{
    box_error err;
    (void)box_fail(&err, reason, "the sandbox has %d %s", max, limit);
    (void)box_error_limit(&err, limit, max, max); /* always -1 */
    box_channel_refuse(a, id, &err);
    return 0;
}

/* Its streams are made here; streams: three places for the command's ends. */
static int open_terminal(box_command *c, const box_agent_start *start, int *streams, box_error *err)
{
    if (box_terminal_open(start->rows, start->columns, &c->terminal[0], streams, err) < 0)
        return -1;
    c->terminal[1] = fcntl(streams[0], F_DUPFD_CLOEXEC, 0);
    return c->terminal[1] < 0 ? box_fail_errno(err, "duplicate a descriptor") : 0;
}

/* A new command with a slot; a->packet holds its START of that size. */
static void begin(box_agent *a, box_command *c, const box_agent_start *start, size_t size,
                  const int *fds, size_t n_fds)
{
    box_error err = {0};
    c->flags = start->flags;
    c->received = a->now;
    if (start->timeout_ns != 0)
        c->deadline = box_time_add(a->now, start->timeout_ns);
    c->give_up = box_time_add(a->now, BOX_AGENT_START_SECONDS * BOX_SECOND);
    c->look_ns = a->reapers     ? BOX_AGENT_TICK_MS * BOX_MS
                 : a->was_short ? BOX_AGENT_LATER_LOOK_US * BOX_US
                                : BOX_AGENT_LOOK_US * BOX_US;
    c->tick = box_time_add(a->now, c->look_ns);
    box_slot_clear(&a->slots[c->slot]);
    if (!box_agent_need_zygote(a)) {
        box_slot_fail(&a->slots[c->slot], BOX_STEP_ZYGOTE, 0, NULL);
        box_life_fail(c);
    } else if (pass_to_zygote(a, c, *start, size, fds, n_fds, &err) < 0) {
        pass_failed(c, a, &err);
        box_life_fail(c);
    }
}

/* text: a memfd, or -1. */
static int start_on_terminal(box_agent *a, box_command *c, const box_agent_packet *p, int text)
{
    int fds[4] = {-1, -1, -1, text};
    box_error err = {0};
    if (open_terminal(c, &p->body.start, fds, &err) < 0) {
        uint64_t id = c->id;
        box_life_close_terminal(c);
        box_commands_remove(&a->table, c);
        box_channel_refuse(a, id, &err);
    } else {
        begin(a, c, &p->body.start, p->header.size, fds, text >= 0 ? 4 : 3);
    }
    for (int i = 0; i < 3; i++)
        box_closep(&fds[i]);
    return 0;
}

int box_life_start(box_agent *a, const box_agent_packet *p, int *fds, size_t n_fds)
{
    uint64_t id = p->header.id;
    if (box_commands_find(&a->table, id) != NULL)
        return -1;
    int32_t slot = box_commands_free_slot(&a->table);
    if (slot < 0)
        return refuse(a, id, BOX_EXEC_QUEUE, "starting", BOX_AGENT_MAX_STARTING);
    box_command *c = box_commands_add(&a->table, id);
    if (c == NULL)
        return refuse(a, id, BOX_QUOTA, "commands", BOX_AGENT_MAX_COMMANDS);
    c->slot = slot;
    if ((p->body.start.flags & BOX_START_TERMINAL) != 0)
        return start_on_terminal(a, c, p, n_fds > 0 ? fds[0] : -1);
    begin(a, c, &p->body.start, p->header.size, fds, n_fds);
    return 0;
}

box_command *box_life_start_own(box_agent *a, uint64_t id, const box_agent_start *start,
                                const int *fds, size_t n_fds)
{
    int32_t slot = box_commands_free_slot(&a->table);
    box_command *c = slot < 0 ? NULL : box_commands_add(&a->table, id);
    if (c == NULL)
        return NULL;
    size_t size = sizeof(box_agent_header) + sizeof *start;
    box_agent_header header = {.type = BOX_AGENT_START, .size = (uint32_t)size, .id = id};
    memcpy(a->packet, &header, sizeof header);
    c->own = true;
    c->slot = slot;
    begin(a, c, start, size, fds, n_fds);
    return c;
}

void box_life_answered(box_agent *a, box_command *c)
{
    if (c->state != BOX_COMMAND_STARTING)
        return; /* given up meanwhile */
    if (atomic_load(&a->slots[c->slot].step) != BOX_STEP_NONE) {
        box_life_fail(c); /* its subreaper, if any, ends by itself */
        return;
    }
    c->state = BOX_COMMAND_RUNNING;
    a->was_short = c->reaped;
    c->started_pid = box_slot_pid(a, c);
    c->reaper = box_slot_reaper(a, c);
    c->pid = c->reaped ? 0 : c->started_pid;
    c->slot = -1;
    c->tick = 0;
    c->started_due = !c->own;
    if (c->signo != 0) {
        box_agent_signal held = {.signo = c->signo, .scope = BOX_SCOPE_MAIN};
        box_life_signal_command(a, c, &held);
    }
    if (c->killing)
        box_end_kill(a, c, c->cause);
    if (c->reaped)
        box_end_main(a, c);
}

bool box_life_has_begun(const box_agent *a, const box_command *c)
{
    int pid = box_slot_pid(a, c);
    return pid > 0 && !c->reaped && !box_walk_is_before_exec(pid);
}

void box_life_kill_unborn(const box_agent *a, const box_command *c)
{
    int pid = box_slot_pid(a, c);
    int reaper = box_slot_reaper(a, c);
    if (pid > 0 && !c->reaped)
        (void)kill(pid, SIGKILL); /* ours or our subreaper's, and not reaped */
    if (reaper > 0)
        (void)kill(reaper, SIGKILL);
}

void box_life_zygote_gone(box_agent *a, const box_command *except)
{
    for (box_command *c = NULL; (c = box_commands_after(&a->table, c)) != NULL;) {
        if (c->state != BOX_COMMAND_STARTING || c == except)
            continue;
        if (box_life_has_begun(a, c)) {
            box_life_answered(a, c);
            continue;
        }
        box_life_kill_unborn(a, c);
        box_slot_fail(&a->slots[c->slot], BOX_STEP_ZYGOTE, 0, NULL);
        box_life_fail(c);
    }
}

/* Before its exec nobody may stop a command: the zygote waits. Afterwards it is the user's
 * affair. */
static void go_on(int pid)
{
    if (box_walk_is_before_exec(pid))
        (void)kill(pid, SIGCONT); /* it may have ended meanwhile; it is not reaped */
}

void box_life_stopped(box_agent *a, int pid)
{
    for (box_command *c = NULL; (c = box_commands_after(&a->table, c)) != NULL;) {
        if ((c->state == BOX_COMMAND_STARTING && box_slot_pid(a, c) == pid) || c->reaper == pid)
            go_on(pid);
    }
    bool waits = a->standby_tree != NULL && atomic_load(&a->standby->pid) == pid;
    if (pid == a->zygote.pid || waits)
        go_on(pid); /* like a subreaper: stopped by commands of its own user */
}

void box_life_signal(box_agent *a, uint64_t id, const box_agent_signal *signal)
{
    box_command *c = box_commands_find(&a->table, id);
    if (c != NULL && !c->own)
        box_life_signal_command(a, c, signal);
}

void box_life_signal_command(box_agent *a, box_command *c, const box_agent_signal *signal)
{
    if (c->state == BOX_COMMAND_FAILED)
        return;
    if (signal->scope == BOX_SCOPE_TREE)
        box_end_kill(a, c, signal->cause);
    else if (c->state == BOX_COMMAND_STARTING)
        c->signo = signal->signo; /* the last one, when it runs */
    else if (c->pid != 0 && a->reapers)
        box_end_order(c, signal->signo);
    else if (c->pid != 0)
        (void)kill(c->pid, (int)signal->signo); /* our child: it has not been reaped */
}

int box_life_acknowledge(box_agent *a, uint64_t id)
{
    box_command *c = box_commands_find(&a->table, id);
    if (c == NULL || c->state == BOX_COMMAND_KEPT || c->own)
        return 0;
    if (c->state != BOX_COMMAND_ENDED)
        return -1;
    box_end_let_go(a, c);
    return 0;
}

static void tick_starting(box_agent *a, box_command *c)
{
    int pid = box_slot_pid(a, c);
    if (a->now < c->give_up) {
        bool long_ago = c->look_ns >= BOX_AGENT_TICK_MS * BOX_MS;
        c->look_ns = long_ago ? BOX_AGENT_TICK_MS * BOX_MS : c->look_ns * 2;
        if (long_ago && pid > 0 && !c->reaped)
            go_on(pid);
        c->tick = box_time_add(a->now, c->look_ns);
        return;
    }
    box_life_kill_unborn(a, c);
    box_slot_fail(&a->slots[c->slot], BOX_STEP_STUCK, 0, NULL);
    box_life_fail(c);
    if (a->zygote.pid != 0)
        (void)kill(a->zygote.pid, SIGKILL); /* what it makes does not start; a new one is made */
}

static void tick_one(box_agent *a, box_command *c)
{
    bool lives = c->state == BOX_COMMAND_STARTING || c->state == BOX_COMMAND_RUNNING;
    if (lives && !c->killing && c->deadline != 0 && a->now >= c->deadline)
        box_end_kill(a, c, BOX_CAUSE_TIMEOUT);
    if (c->tick == 0 || a->now < c->tick)
        return;
    if (c->killing)
        box_end_kill_again(a, c); /* also what entered a frozen directory only now */
    c->tick = box_after_ms(a, BOX_AGENT_TICK_MS);
    if (c->state == BOX_COMMAND_STARTING)
        tick_starting(a, c);
    else if (c->state == BOX_COMMAND_ENDING)
        box_end_look(a, c);
}

void box_life_tick(box_agent *a)
{
    for (box_command *c = NULL; (c = box_commands_after(&a->table, c)) != NULL;)
        tick_one(a, c);
    if (a->sweep_at != 0 && a->now >= a->sweep_at)
        box_end_sweep(a);
}
