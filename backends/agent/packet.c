#include "agent/packet.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>

#include "base/fd.h"

enum {
    START_FLAGS = BOX_START_KILL_LEFTOVERS | BOX_START_TEXT_IN_MEMFD | BOX_START_TERMINAL |
                  BOX_START_NO_STDIN,
    EXIT_FLAGS = BOX_EXIT_CORE_DUMPED | BOX_EXIT_LEFTOVERS_KILLED | BOX_EXIT_CPU_FROM_CGROUP |
                 BOX_EXIT_WORKSPACE_FULL,
    LAST_SIGNAL = 64, /* Linux: SIGRTMAX of the kernel, signal(7) */
    START_FDS = 3,    /* stdin, stdout, stderr */
};

static_assert(sizeof(box_agent_header) + sizeof(box_agent_manage) <= BOX_AGENT_SMALL_BYTES &&
                  sizeof(box_agent_header) + sizeof(box_agent_managed) <= BOX_AGENT_SMALL_BYTES,
              "both fit a small packet");

/* What every type looks like: the one place that knows sizes and directions. */
typedef struct type_row {
    bool known;
    bool from_boxd;
    bool from_agent;
    bool has_id; /* a command's; PING's may be anything */
    size_t body;
} type_row;

static const type_row types[] = {
    [BOX_AGENT_HELLO] = {true, true, true, false, sizeof(box_agent_hello)},
    [BOX_AGENT_START] = {true, true, false, true, sizeof(box_agent_start)},
    [BOX_AGENT_STARTED] = {true, false, true, true, sizeof(box_agent_started)},
    [BOX_AGENT_SIGNAL] = {true, true, false, true, sizeof(box_agent_signal)},
    [BOX_AGENT_EXIT] = {true, false, true, true, sizeof(box_agent_exit)},
    [BOX_AGENT_EXIT_ACK] = {true, true, false, true, 0},
    [BOX_AGENT_SHUTDOWN] = {true, true, false, false, 0},
    [BOX_AGENT_PING] = {true, true, false, true, 0},
    [BOX_AGENT_PONG] = {true, false, true, true, 0},
    [BOX_AGENT_MANAGE] = {true, true, false, true, sizeof(box_agent_manage)},
    [BOX_AGENT_INTRODUCED] = {true, false, true, true, sizeof(box_agent_manage)},
    [BOX_AGENT_MANAGED] = {true, false, true, true, sizeof(box_agent_managed)},
    [BOX_AGENT_STOP] = {true, true, false, true, sizeof(box_agent_stop)},
    [BOX_AGENT_FORGET] = {true, true, false, true, 0},
    [BOX_AGENT_CLOSE_STDIN] = {true, true, false, true, 0},
    [BOX_AGENT_WATCH] = {true, true, false, true, sizeof(box_agent_ends)},
    [BOX_AGENT_GREW] = {true, false, true, true, sizeof(box_agent_ends)},
    [BOX_AGENT_RESIZE] = {true, true, false, true, sizeof(box_agent_resize)},
    [BOX_AGENT_FILES] = {true, true, false, true, sizeof(box_agent_files)},
    [BOX_AGENT_FILES_STOP] = {true, true, false, true, 0},
    [BOX_AGENT_FILES_ENDED] = {true, false, true, true, sizeof(box_agent_files_ended)},
    [BOX_AGENT_CONNECT] = {true, true, false, true, sizeof(box_agent_connect)},
    [BOX_AGENT_CONNECTED] = {true, false, true, true, sizeof(box_agent_connected)},
};

static int misfit(box_error *err, const char *what)
{
    return box_fail(err, BOX_PROTOCOL, "agent channel: %s", what);
}

/* Of its streams; an impossible number where the flags exclude each other. */
static size_t stream_fds(const box_agent_start *s)
{
    bool no_stdin = (s->flags & BOX_START_NO_STDIN) != 0;
    if ((s->flags & BOX_START_TERMINAL) != 0)
        return no_stdin ? SIZE_MAX / 2 : 0;
    return no_stdin ? START_FDS - 1 : START_FDS;
}

static int parse_start(const uint8_t *data, size_t len, size_t n_fds, box_agent_packet *p,
                       box_error *err)
{
    const box_agent_start *s = &p->body.start;
    bool memfd = (s->flags & BOX_START_TEXT_IN_MEMFD) != 0;
    static const uint32_t none[BOX_COUNT(s->reserved)];
    bool sized = (s->flags & BOX_START_TERMINAL) != 0 || (s->rows == 0 && s->columns == 0);
    if ((s->flags & ~(uint32_t)START_FLAGS) != 0 || !sized ||
        memcmp(s->reserved, none, sizeof none) != 0)
        return misfit(err, "unknown flags in START");
    if (s->argc < 1 || s->argc > BOX_MAX_ARGS || s->envc > BOX_MAX_ENV)
        return misfit(err, "too many or no arguments in START");
    if (s->text_len > (uint32_t)(memfd ? BOX_AGENT_TEXT_BYTES : BOX_CHANNEL_INLINE_BYTES))
        return misfit(err, "START's text is too long");
    if (n_fds != stream_fds(s) + (memfd ? 1u : 0u))
        return misfit(err, "wrong number of descriptors with START");
    size_t fixed = sizeof p->header + sizeof *s;
    if (len != fixed + (memfd ? 0 : s->text_len))
        return misfit(err, "START's size does not fit its text");
    if (memfd)
        return 0;
    p->text = (box_bytes){.data = data + fixed, .len = s->text_len};
    return box_agent_text_check(s, p->text, err);
}

static int check_started(box_agent_started *s, box_error *err)
{
    box_error_sanitize(&s->error);
    bool runs = s->error.reason == BOX_NONE;
    if ((s->flags & ~(uint32_t)BOX_STARTED_TERMINAL) != 0 || (!runs && s->flags != 0) ||
        (runs ? s->pid <= 0 : s->pid != 0))
        return misfit(err, "STARTED contradicts itself");
    return 0;
}

static int check_signal(const box_agent_signal *s, box_error *err)
{
    bool main_fits = s->scope == BOX_SCOPE_MAIN && s->cause == BOX_CAUSE_NONE && s->signo >= 1 &&
                     s->signo <= LAST_SIGNAL;
    bool tree_fits =
        s->scope == BOX_SCOPE_TREE && s->cause <= BOX_CAUSE_STOPPED && s->signo == SIGKILL;
    if ((!main_fits && !tree_fits) || s->reserved != 0)
        return misfit(err, "a SIGNAL that does not exist");
    return 0;
}

static int check_end(const box_agent_exit *e, box_error *err)
{
    bool by_exit = e->signal == 0 && e->exit_code >= 0 && e->exit_code <= 255;
    bool by_signal = e->signal >= 1 && e->signal <= LAST_SIGNAL && e->exit_code == -1;
    if ((!by_exit && !by_signal) || e->cause > BOX_CAUSE_STOPPED ||
        (e->flags & ~(uint32_t)EXIT_FLAGS) != 0)
        return misfit(err, "an end that contradicts itself");
    return 0;
}

static int check_exit(const box_agent_exit *e, box_error *err)
{
    return e->pid > 0 ? check_end(e, err) : misfit(err, "EXIT of no process");
}

size_t box_agent_started_fds(const box_agent_started *s)
{
    return (s->flags & BOX_STARTED_TERMINAL) != 0 ? 2 : 0;
}

size_t box_agent_manage_fds(const box_agent_manage *m)
{
    return m->probe == BOX_READY_COMMAND ? 2 : 1;
}

size_t box_agent_introduced_fds(const box_agent_manage *m)
{
    return (m->flags & BOX_MANAGE_TERMINAL) != 0 ? 2 : 3;
}

static size_t managed_fds(const box_agent_managed *m)
{
    return (m->flags & BOX_MANAGED_STDIN_COMES) != 0 ? 1 : 0;
}

static size_t fds_of(const box_agent_packet *p)
{
    switch (p->header.type) {
    case BOX_AGENT_STARTED:
        return box_agent_started_fds(&p->body.started);
    case BOX_AGENT_MANAGE:
        return box_agent_manage_fds(&p->body.manage);
    case BOX_AGENT_INTRODUCED:
        return box_agent_introduced_fds(&p->body.manage);
    case BOX_AGENT_MANAGED:
        return managed_fds(&p->body.managed);
    case BOX_AGENT_FILES:
        return 1;
    case BOX_AGENT_CONNECTED:
        return p->body.connected.error.reason == BOX_NONE ? 1 : 0;
    default:
        return 0;
    }
}

static bool name_fits(const char *name)
{
    size_t len = strnlen(name, BOX_PROCESS_NAME_BYTES);
    if (len < 1 || len > BOX_MAX_PROCESS_ID_BYTES)
        return false;
    for (size_t i = 0; i < BOX_PROCESS_NAME_BYTES; i++) {
        if (i >= len ? name[i] != '\0' : !box_process_name_char(name[i]))
            return false;
    }
    return true;
}

static bool text_fits(const box_agent_text *t)
{
    return t->argc >= 1 && t->argc <= BOX_MAX_ARGS && t->envc <= BOX_MAX_ENV &&
           t->len <= BOX_AGENT_TEXT_BYTES && t->reserved == 0;
}

static bool probe_fits(const box_agent_manage *m)
{
    static const box_agent_text none;
    bool line = m->line_len >= 1 && m->line_len <= BOX_READY_LINE_BYTES;
    bool no_text = memcmp(&m->probe_text, &none, sizeof none) == 0;
    switch (m->probe) {
    case BOX_READY_RUNS:
        return m->line_len == 0 && m->port == 0 && no_text;
    case BOX_READY_LINE:
        return line && m->port == 0 && no_text;
    case BOX_READY_PORT:
        return m->line_len == 0 && m->port >= 1 && m->port <= UINT16_MAX && no_text;
    case BOX_READY_COMMAND:
        return m->line_len == 0 && m->port == 0 && text_fits(&m->probe_text);
    default:
        return false;
    }
}

static int check_manage(const box_agent_manage *m, box_error *err)
{
    if (!name_fits(m->name))
        return misfit(err, "a process without a name");
    if (!text_fits(&m->text) || m->record_len > BOX_PROCESS_RECORD_BYTES || !probe_fits(m))
        return misfit(err, "a process of impossible size");
    if ((m->flags & ~(uint32_t)(BOX_MANAGE_TERMINAL | BOX_MANAGE_STOP_ON_DETACH)) != 0 ||
        m->restart < BOX_RESTART_NEVER || m->restart > BOX_RESTART_ALWAYS || m->reserved != 0 ||
        m->journal_bytes < BOX_MIN_JOURNAL_BYTES || m->journal_bytes > BOX_MAX_JOURNAL_BYTES ||
        m->journal_bytes % 4096 != 0 || m->interval_ns == 0 || m->first_backoff_ns == 0)
        return misfit(err, "a process that makes no sense");
    return 0;
}

static int check_managed(box_agent_managed *m, box_error *err)
{
    enum {
        FLAGS = BOX_MANAGED_READY | BOX_MANAGED_STDIN_COMES | BOX_MANAGED_STDIN_CLOSED |
                BOX_MANAGED_HAS_EXIT | BOX_MANAGED_STOPPED
    };
    const box_agent_run_exit *e = &m->exit;
    box_error_sanitize(&m->error);
    bool failed = m->state == BOX_MANAGED_FAILED;
    if (m->state < BOX_MANAGED_STARTING || m->state > BOX_MANAGED_FAILED || m->reserved != 0 ||
        (m->flags & ~(uint32_t)FLAGS) != 0 || m->pid < 0 ||
        (failed && m->error.reason == BOX_NONE) ||
        (failed && (m->flags & BOX_MANAGED_STDIN_COMES) != 0))
        return misfit(err, "MANAGED contradicts itself");
    if ((m->flags & BOX_MANAGED_HAS_EXIT) == 0)
        return 0;
    box_agent_exit exit = {
        .exit_code = e->exit_code, .signal = e->signal, .cause = e->cause, .flags = e->flags};
    for (int i = 0; i < 2; i++) {
        if (e->first_offset[i] > e->end_offset[i] || e->end_offset[i] > INT64_MAX)
            return misfit(err, "MANAGED with offsets that make no sense");
    }
    if (e->own > 1 || e->own_oom_kills > INT64_MAX || e->own_pids_refused > INT64_MAX ||
        e->own_peak_bytes > INT64_MAX)
        return misfit(err, "MANAGED with counts that make no sense");
    return check_end(&exit, err);
}

static int check_files(const box_agent_packet *p, box_error *err)
{
    const box_agent_files *f = &p->body.files;
    bool id_fits = p->header.id != 0 && p->header.id != UINT64_MAX;
    if (!id_fits || f->reserved != 0 || (f->flags & ~(uint32_t)BOX_AGENT_FILES_IN_AGENT) != 0)
        return misfit(err, "a FILES that does not exist");
    return 0;
}

static int check_files_ended(box_agent_files_ended *e, box_error *err)
{
    box_error_sanitize(&e->error);
    if (e->reserved != 0 || e->signal < 0 || e->signal > LAST_SIGNAL)
        return misfit(err, "FILES_ENDED contradicts itself");
    return 0;
}

static int check_connect(const box_agent_packet *p, box_error *err)
{
    const box_agent_connect *c = &p->body.connect;
    if (p->header.id == 0 || c->port < 1 || c->port > UINT16_MAX || c->reserved != 0)
        return misfit(err, "a CONNECT that does not exist");
    return 0;
}

static int check_connected(box_agent_packet *p, box_error *err)
{
    box_error_sanitize(&p->body.connected.error);
    return p->header.id != 0 ? 0 : misfit(err, "CONNECTED without an id");
}

static int check_body(const uint8_t *data, size_t len, size_t n_fds, box_agent_packet *p,
                      box_error *err)
{
    if (p->header.type == BOX_AGENT_START)
        return parse_start(data, len, n_fds, p, err);
    if (len != sizeof p->header + types[p->header.type].body)
        return misfit(err, "wrong size");
    if (n_fds != fds_of(p))
        return misfit(err, "descriptors where none belong, or too few");
    switch (p->header.type) {
    case BOX_AGENT_HELLO:
        return p->body.hello.processes <= BOX_MAX_PROCESSES ? 0 : misfit(err, "wrong HELLO");
    case BOX_AGENT_STARTED:
        return check_started(&p->body.started, err);
    case BOX_AGENT_SIGNAL:
        return check_signal(&p->body.signal, err);
    case BOX_AGENT_EXIT:
        return check_exit(&p->body.exit, err);
    case BOX_AGENT_MANAGE:
    case BOX_AGENT_INTRODUCED:
        return check_manage(&p->body.manage, err);
    case BOX_AGENT_MANAGED:
        return check_managed(&p->body.managed, err);
    case BOX_AGENT_RESIZE:
        return p->body.resize.reserved == 0 ? 0 : misfit(err, "unknown fields in RESIZE");
    case BOX_AGENT_FILES:
        return check_files(p, err);
    case BOX_AGENT_FILES_ENDED:
        return check_files_ended(&p->body.files_ended, err);
    case BOX_AGENT_CONNECT:
        return check_connect(p, err);
    case BOX_AGENT_CONNECTED:
        return check_connected(p, err);
    default:
        return 0;
    }
}

ssize_t box_agent_receive(int socket, void *data, size_t size, int *fds, size_t *n_fds,
                          box_error *err)
{
    size_t room = *n_fds;
    ssize_t n = box_fd_receive(socket, data, size, fds, n_fds, err);
    if (n >= 0 || err->sys_errno != ECONNRESET)
        return n;
    *n_fds = room; /* reading the error cleared it */
    return box_fd_receive(socket, data, size, fds, n_fds, err);
}

int box_agent_packet_parse(const void *data, size_t len, size_t n_fds, box_agent_sender from,
                           box_agent_packet *out, box_error *err)
{
    box_agent_packet p = {0};
    if (len < sizeof p.header || len > BOX_AGENT_PACKET_BYTES)
        return misfit(err, "a packet of impossible size");
    memcpy(&p.header, data, sizeof p.header);
    if (p.header.size != len)
        return misfit(err, "a packet that lies about its size");
    if (p.header.type >= BOX_COUNT(types) || !types[p.header.type].known)
        return misfit(err, "unknown type");
    const type_row *row = &types[p.header.type];
    if (from == BOX_AGENT_FROM_BOXD ? !row->from_boxd : !row->from_agent)
        return misfit(err, "a type the other side sends");
    if (!row->has_id && p.header.id != 0)
        return misfit(err, "an id where none belongs");
    if (len < sizeof p.header + row->body)
        return misfit(err, "wrong size");
    memcpy(&p.body, (const uint8_t *)data + sizeof p.header, row->body);
    if (check_body(data, len, n_fds, &p, err) < 0)
        return -1;
    *out = p;
    return 0;
}

int box_agent_hello_check(const box_agent_hello *hello, box_error *err)
{
    if (hello->version == BOX_AGENT_VERSION)
        return 0;
    return box_fail(err, BOX_VERSION_MISMATCH, "agent channel: version %u here, %u there",
                    (unsigned)BOX_AGENT_VERSION, hello->version);
}

int box_agent_send(int socket, box_agent_type type, uint64_t id, const void *body, box_error *err)
{
    return box_agent_send_with(socket, type, id, body, NULL, 0, err);
}

int box_agent_send_with(int socket, box_agent_type type, uint64_t id, const void *body,
                        const int *fds, size_t n_fds, box_error *err)
{
    uint8_t packet[BOX_AGENT_SMALL_BYTES];
    size_t size = sizeof(box_agent_header) + types[type].body;
    box_agent_header header = {.type = type, .size = (uint32_t)size, .id = id};
    memcpy(packet, &header, sizeof header);
    if (types[type].body > 0)
        memcpy(packet + sizeof header, body, types[type].body);
    return box_fd_send(socket, packet, size, fds, n_fds, err);
}

/* --- START's text ----------------------------------------------------------------------------- */

int box_agent_text_check(const box_agent_start *start, box_bytes text, box_error *err)
{
    const char *at = (const char *)text.data;
    size_t left = text.len;
    if (text.len != start->text_len)
        return misfit(err, "START's text has another length");
    for (uint32_t i = 0; i <= start->argc + start->envc; i++) {
        const char *end = left > 0 ? memchr(at, '\0', left) : NULL;
        if (end == NULL)
            return misfit(err, "START's text ends too early");
        size_t len = (size_t)(end - at);
        if (i == 0 && len == 0)
            return misfit(err, "an empty program name");
        bool is_env = i >= start->argc && i < start->argc + start->envc;
        if (is_env && (at[0] == '=' || memchr(at, '=', len) == NULL))
            return misfit(err, "an environment entry without a key");
        if (i == start->argc + start->envc && at[0] != '/')
            return misfit(err, "a working directory that is not absolute");
        left -= len + 1;
        at = end + 1;
    }
    return left == 0 ? 0 : misfit(err, "START's text is longer than its strings");
}

static const char *point(char **out, uint32_t count, const char *at)
{
    for (uint32_t i = 0; i < count; i++) {
        out[i] = (char *)(uintptr_t)at; /* execve's arrays are not const; nobody writes */
        at += strlen(at) + 1;
    }
    out[count] = NULL;
    return at;
}

void box_agent_text_split(const box_agent_start *start, box_bytes text, char **argv, char **env,
                          const char **workdir)
{
    const char *at = point(argv, start->argc, (const char *)text.data);
    *workdir = point(env, start->envc, at);
}

/* --- building START --------------------------------------------------------------------------- */

static int check_command(const box_agent_command *c, box_error *err)
{
    if (c->argc < 1 || c->argc > BOX_MAX_ARGS)
        return box_violation(err, "argv", "needs 1 to %d arguments", BOX_MAX_ARGS);
    if (c->argv[0][0] == '\0')
        return box_violation(err, "argv", "the program's name is empty");
    if (c->envc > BOX_MAX_ENV)
        return box_violation(err, "env", "at most %d entries", BOX_MAX_ENV);
    for (size_t i = 0; i < c->envc; i++) {
        if (c->env[i][0] == '=' || strchr(c->env[i], '=') == NULL)
            return box_violation(err, "env", "an entry has no key");
    }
    if (c->workdir[0] != '/')
        return box_violation(err, "workdir", "must be absolute");
    return 0;
}

static int add_strings(box_buf *b, const char *const *strings, size_t count, const char *field,
                       box_error *err)
{
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(strings[i]) + 1;
        if (size > BOX_MAX_ARG_BYTES)
            return box_violation(err, field, "one text of more than %d bytes",
                                 BOX_MAX_ARG_BYTES - 1);
        if (size > BOX_AGENT_TEXT_BYTES - box_buf_len(b))
            return box_violation(err, field, "argv and env have more than %d bytes",
                                 BOX_MAX_ARGV_ENV_BYTES);
        if (box_buf_add(b, strings[i], size, err) < 0)
            return -1;
    }
    return 0;
}

int box_agent_text_build(const box_agent_command *command, box_buf *text, box_agent_text *out,
                         box_error *err)
{
    if (check_command(command, err) < 0)
        return -1;
    if (add_strings(text, command->argv, command->argc, "argv", err) < 0 ||
        add_strings(text, command->env, command->envc, "env", err) < 0)
        return -1;
    if (box_buf_len(text) > BOX_MAX_ARGV_ENV_BYTES)
        return box_violation(err, "argv", "argv and env have more than %d bytes",
                             BOX_MAX_ARGV_ENV_BYTES);
    if (add_strings(text, &command->workdir, 1, "workdir", err) < 0)
        return -1;
    *out = (box_agent_text){.argc = (uint32_t)command->argc,
                            .envc = (uint32_t)command->envc,
                            .len = (uint32_t)box_buf_len(text)};
    return 0;
}

int box_agent_start_build(const box_agent_command *command, box_buf *packet, int *memfd,
                          box_error *err)
{
    box_agent_text made;
    BOX_AUTO(box_buf_done) box_buf text = {.max_bytes = BOX_AGENT_TEXT_BYTES};
    if (box_agent_text_build(command, &text, &made, err) < 0)
        return -1;
    size_t len = box_buf_len(&text);
    bool outside = len > BOX_CHANNEL_INLINE_BYTES;
    box_agent_start start = {.timeout_ns = command->timeout_ns,
                             .flags = command->flags | (outside ? BOX_START_TEXT_IN_MEMFD : 0),
                             .argc = (uint32_t)command->argc,
                             .envc = (uint32_t)command->envc,
                             .text_len = (uint32_t)len,
                             .rows = command->rows,
                             .columns = command->columns};
    size_t size = sizeof(box_agent_header) + sizeof start + (outside ? 0 : len);
    box_agent_header header = {.type = BOX_AGENT_START, .size = (uint32_t)size, .id = command->id};
    BOX_AUTO(box_closep) int fd = -1;
    if (outside && box_fd_memfd("box-start", box_buf_data(&text), len, &fd, err) < 0)
        return -1;
    if (box_buf_add(packet, &header, sizeof header, err) < 0 ||
        box_buf_add(packet, &start, sizeof start, err) < 0 ||
        (!outside && box_buf_add(packet, box_buf_data(&text), len, err) < 0))
        return -1;
    *memfd = box_take_fd(&fd);
    return 0;
}
