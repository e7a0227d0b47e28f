#include "agent_sandbox_state.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fd.h"

enum { WAIT_MS = 15000 };

static bool receive(sandbox *s, int timeout_ms)
{
    static uint8_t data[BOX_AGENT_PACKET_BYTES];
    struct pollfd p = {.fd = s->conn, .events = POLLIN};
    box_error err;
    if (poll(&p, 1, timeout_ms) <= 0)
        return false;
    assert_true(s->n_events < EVENTS);
    sandbox_event *e = &s->events[s->n_events];
    e->n_fds = EVENT_FDS;
    ssize_t n = box_fd_receive(s->conn, data, sizeof data, e->fds, &e->n_fds, &err);
    if (n <= 0)
        return false;
    int rc =
        box_agent_packet_parse(data, (size_t)n, e->n_fds, BOX_AGENT_FROM_AGENT, &e->packet, &err);
    if (rc < 0)
        fail_msg("the agent broke the protocol: %s", err.msg);
    s->n_events++;
    return true;
}

static size_t find(const sandbox *s, box_agent_type type, uint64_t id)
{
    size_t i = 0;
    while (i < s->n_events &&
           (s->events[i].packet.header.type != type || s->events[i].packet.header.id != id))
        i++;
    return i;
}

bool sandbox_sees(sandbox *s, box_agent_type type, uint64_t id, int timeout_ms)
{
    box_time end = box_now() + (uint64_t)timeout_ms * BOX_MS;
    while (find(s, type, id) == s->n_events) {
        box_time now = box_now();
        if (now >= end || (!receive(s, (int)((end - now) / BOX_MS) + 1) && box_now() < end &&
                           sandbox_is_dropped(s)))
            return false;
    }
    return true;
}

box_agent_packet sandbox_take(sandbox *s, box_agent_type type, uint64_t id, int *fds, size_t *n_fds)
{
    if (!sandbox_sees(s, type, id, WAIT_MS))
        fail_msg("no message of type %d for command %llu", (int)type, (unsigned long long)id);
    size_t i = find(s, type, id);
    sandbox_event e = s->events[i];
    s->n_events--;
    memmove(&s->events[i], &s->events[i + 1], (s->n_events - i) * sizeof s->events[0]);
    *n_fds = e.n_fds;
    for (size_t k = 0; k < e.n_fds; k++)
        fds[k] = e.fds[k];
    return e.packet;
}

static box_agent_packet take(sandbox *s, box_agent_type type, uint64_t id)
{
    int fds[EVENT_FDS];
    size_t n_fds;
    box_agent_packet p = sandbox_take(s, type, id, fds, &n_fds);
    assert_int_equal(n_fds, 0);
    return p;
}

bool sandbox_is_dropped(sandbox *s)
{
    struct pollfd p = {.fd = s->conn, .events = POLLIN};
    char c;
    return poll(&p, 1, 5000) > 0 && recv(s->conn, &c, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

void sandbox_disconnect(sandbox *s)
{
    box_closep(&s->conn);
    for (size_t i = 0; i < s->n_events; i++) {
        for (size_t k = 0; k < s->events[i].n_fds; k++)
            (void)close(s->events[i].fds[k]);
    }
    s->n_events = 0;
}

box_agent_hello sandbox_connect(sandbox *s)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    memcpy(name.sun_path, s->path, strlen(s->path) + 1);
    s->conn = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(s->conn, (struct sockaddr *)&name, sizeof name), 0);
    box_agent_hello mine = {.version = BOX_AGENT_VERSION};
    sandbox_send(s, BOX_AGENT_HELLO, 0, &mine);
    return take(s, BOX_AGENT_HELLO, 0).body.hello;
}

void sandbox_send(sandbox *s, box_agent_type type, uint64_t id, const void *body)
{
    box_error err;
    if (box_agent_send(s->conn, type, id, body, &err) < 0)
        fail_msg("send: %s", err.msg);
}

void sandbox_signal(sandbox *s, uint64_t id, uint32_t signo, box_agent_scope scope,
                    box_agent_cause cause)
{
    box_agent_signal body = {.signo = signo, .scope = scope, .cause = cause};
    sandbox_send(s, BOX_AGENT_SIGNAL, id, &body);
}

void sandbox_acknowledge(sandbox *s, uint64_t id)
{
    sandbox_send(s, BOX_AGENT_EXIT_ACK, id, NULL);
}

box_agent_started sandbox_wait_started(sandbox *s, uint64_t id)
{
    box_time end = box_now() + WAIT_MS * BOX_MS;
    while (find(s, BOX_AGENT_STARTED, id) == s->n_events && box_now() < end) {
        size_t exit = find(s, BOX_AGENT_EXIT, id);
        if (exit < s->n_events) /* it says both */
            return (box_agent_started){.pid = s->events[exit].packet.body.exit.pid};
        (void)receive(s, 100);
    }
    return take(s, BOX_AGENT_STARTED, id).body.started;
}

box_agent_exit sandbox_wait_exit(sandbox *s, uint64_t id)
{
    return take(s, BOX_AGENT_EXIT, id).body.exit;
}

void sandbox_wait_pong(sandbox *s, uint64_t id)
{
    (void)take(s, BOX_AGENT_PONG, id);
}

/* --- commands --------------------------------------------------------------------------------- */

static size_t count_of(const char *const *list)
{
    size_t n = 0;
    while (list[n] != NULL)
        n++;
    return n;
}

sandbox_command sandbox_send_start(sandbox *s, const sandbox_start *start)
{
    static const char *const path_only[] = {"PATH=/usr/local/bin:/usr/bin:/bin", NULL};
    const char *const *env = start->env != NULL ? start->env : path_only;
    int in[2] = {-1, -1};
    int out[2] = {-1, -1};
    assert_true(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    box_agent_command command = {
        .id = s->next_id++,
        .timeout_ns = start->timeout_ns,
        .flags = start->flags,
        .argc = count_of(start->argv),
        .argv = start->argv,
        .envc = count_of(env),
        .env = env,
        .workdir = start->workdir != NULL ? start->workdir : "/",
    };
    BOX_AUTO(box_buf_done) box_buf packet = {.max_bytes = BOX_AGENT_PACKET_BYTES};
    BOX_AUTO(box_closep) int memfd = -1;
    box_error err;
    if (box_agent_start_build(&command, &packet, &memfd, &err) < 0)
        fail_msg("build START: %s", err.msg);
    int fds[] = {in[0], out[1], out[1], memfd};
    size_t first = (start->flags & BOX_START_NO_STDIN) != 0 ? 1 : 0;
    if (box_fd_send(s->conn, box_buf_data(&packet), box_buf_len(&packet), fds + first,
                    (memfd >= 0 ? 4 : 3) - first, &err) < 0)
        fail_msg("send START: %s", err.msg);
    (void)close(in[0]);
    (void)close(out[1]);
    sandbox_command c = {.id = command.id, .in = in[1], .out = out[0]};
    if (!start->stdin_open)
        box_closep(&c.in);
    return c;
}

size_t sandbox_output(const sandbox_command *c, char *out, size_t size, int timeout_ms)
{
    size_t len = 0;
    struct pollfd p = {.fd = c->out, .events = POLLIN};
    while (len + 1 < size && poll(&p, 1, timeout_ms) > 0) {
        ssize_t n = read(c->out, out + len, size - 1 - len);
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    out[len] = '\0';
    return len;
}

void sandbox_command_close(sandbox_command *c)
{
    box_closep(&c->in);
    box_closep(&c->out);
}

box_agent_exit sandbox_run(sandbox *s, const char *script, uint64_t timeout_ns, uint32_t flags,
                           char *out, size_t size)
{
    const char *argv[] = {"sh", "-c", script, NULL};
    sandbox_start start = {.argv = argv, .timeout_ns = timeout_ns, .flags = flags};
    sandbox_command c = sandbox_send_start(s, &start);
    box_agent_started started = sandbox_wait_started(s, c.id);
    if (started.error.reason != BOX_NONE)
        fail_msg("did not start: %s", started.error.msg);
    box_agent_exit e = sandbox_wait_exit(s, c.id);
    if (out != NULL)
        (void)sandbox_output(&c, out, size, 0);
    sandbox_acknowledge(s, c.id);
    sandbox_command_close(&c);
    return e;
}
