#include "fake_warden.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"

void fake_warden_reconnect(fake_warden *w)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        abort();
    box_closep(&w->fd);
    w->fd = pair[0];
    w->peer = pair[1];
}

void fake_warden_init(fake_warden *w)
{
    (void)signal(SIGPIPE, SIG_IGN); /* as in boxd */
    *w = (fake_warden){.guarantees = (1u << 18) - 1 - BOX_G_NETWORK_ON - BOX_G_IMAGES};
    w->fd = -1;
    fake_warden_reconnect(w);
    (void)snprintf(w->memory_dir, sizeof w->memory_dir, "/tmp/box-fake-XXXXXX");
    if (mkdtemp(w->memory_dir) == NULL)
        abort();
}

static void write_oom_kills(const fake_warden *w, int n)
{
    char path[96];
    (void)snprintf(path, sizeof path, "%s/memory.events", w->memory_dir);
    FILE *f = fopen(path, "we");
    if (f == NULL)
        abort();
    fprintf(f, "low 0\nhigh 0\nmax 7\noom %d\noom_kill %d\n", n, n);
    fclose(f);
}

static void write_refused(const fake_warden *w, int n)
{
    char path[96];
    (void)snprintf(path, sizeof path, "%s/pids.events", w->memory_dir);
    FILE *f = fopen(path, "we");
    if (f == NULL)
        abort();
    fprintf(f, "max %d\n", n);
    fclose(f);
}

static void drop_program(fake_program *p)
{
    for (int i = 0; i < 3; i++)
        box_closep(&p->fds[i]);
    for (int i = 0; i < 2; i++)
        box_closep(&p->terminal[i]);
    free(p->text);
    *p = (fake_program){0};
}

static void drop_sandbox(fake_sandbox *s)
{
    for (int i = 0; i < FAKE_MAX_PROGRAMS; i++) {
        if (s->programs[i].used)
            drop_program(&s->programs[i]);
    }
    for (int i = 0; i < FAKE_MAX_WORKERS; i++) {
        if (s->workers[i].used)
            box_closep(&s->workers[i].fd);
    }
    for (unsigned i = 0; i < s->n_processes; i++) {
        box_closep(&s->processes[i].text_fd);
        box_closep(&s->processes[i].journals[0]);
        box_closep(&s->processes[i].journals[1]);
    }
    box_closep(&s->listen_fd);
    box_closep(&s->fd);
    *s = (fake_sandbox){.listen_fd = -1, .fd = -1};
}

void fake_warden_done(fake_warden *w)
{
    for (int i = 0; i < FAKE_MAX_SANDBOXES; i++) {
        if (w->sandboxes[i].used)
            drop_sandbox(&w->sandboxes[i]);
    }
    box_closep(&w->fd);
    box_closep(&w->peer);
    char path[96];
    (void)snprintf(path, sizeof path, "%s/memory.events", w->memory_dir);
    (void)unlink(path); /* may never have been written */
    (void)snprintf(path, sizeof path, "%s/pids.events", w->memory_dir);
    (void)unlink(path);
    (void)rmdir(w->memory_dir);
}

/* --- programs --------------------------------------------------------------------------------- */

static void send_agent(fake_sandbox *s, box_agent_type type, uint64_t id, const void *body)
{
    box_error err;
    BOX_IGNORE(
        box_agent_send(s->fd, type, id, body, &err)); /* a boxd that went away is no matter */
}

void fake_program_exit(fake_sandbox *s, fake_program *p, int exit_code, int signo, uint32_t cause,
                       uint32_t leftovers)
{
    bool kills = (p->flags & BOX_START_KILL_LEFTOVERS) != 0;
    box_agent_exit e = {.exit_code = signo != 0 ? -1 : exit_code,
                        .signal = signo,
                        .cause = cause,
                        .leftovers = leftovers,
                        .pid = 7,
                        .flags = kills && leftovers > 0 ? BOX_EXIT_LEFTOVERS_KILLED : 0,
                        .wall_ns = 1000,
                        .cpu_ns = 500,
                        .max_rss_bytes = 4096};
    uint64_t id = p->id;
    if (leftovers > 0 && !kills)
        p->ended = true;
    else
        drop_program(p);
    send_agent(s, BOX_AGENT_EXIT, id, &e);
}

static void say(fake_program *p, int fd, const char *text)
{
    box_error err;
    if (box_fd_write_all(p->fds[fd], text, strlen(text), &err) < 0)
        abort();
}

/* Background work of programs that run. */
static bool step_program(fake_sandbox *s, fake_program *p)
{
    char data[4096];
    if (strcmp(p->argv[0], "cat") == 0 && !p->ended) {
        ssize_t n = read(p->fds[0], data, sizeof data);
        if (n == 0)
            fake_program_exit(s, p, 0, 0, BOX_CAUSE_NONE, 0);
        else if (n > 0 && write(p->fds[1], data, (size_t)n) != n)
            abort();
        return n >= 0;
    }
    if (strcmp(p->argv[0], "flood") == 0 && !p->ended) {
        memset(data, 'x', sizeof data);
        size_t want = p->flood_left < sizeof data ? p->flood_left : sizeof data;
        ssize_t n = want > 0 ? write(p->fds[1], data, want) : 0;
        if (n > 0)
            p->flood_left -= (uint64_t)n;
        if (n < 0 && errno == EPIPE)
            fake_program_exit(s, p, 0, SIGPIPE, BOX_CAUSE_NONE, 0);
        else if (p->flood_left == 0)
            fake_program_exit(s, p, 0, 0, BOX_CAUSE_NONE, 0);
        return n >= 0;
    }
    return false;
}

static void open_terminal(fake_program *p)
{
    struct termios raw;
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (master < 0 || unlockpt(master) < 0)
        abort();
    int other = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (other < 0 || tcgetattr(other, &raw) < 0)
        abort();
    cfmakeraw(&raw);
    if (tcsetattr(other, TCSANOW, &raw) < 0)
        abort();
    for (int i = 0; i < 3; i++)
        p->fds[i] = fcntl(other, F_DUPFD_CLOEXEC, 0);
    p->terminal[0] = master;
    p->terminal[1] = other;
}

/* As the real one does, before anything else of the command is told. */
static void send_started(const fake_warden *w, fake_sandbox *s, fake_program *p)
{
    box_agent_started started = {.pid = 7};
    box_error err;
    bool brings = p->terminal[0] >= 0 && !w->no_terminal;
    if (brings && w->false_terminal) {
        for (int i = 0; i < 2; i++)
            box_closep(&p->terminal[i]);
        if (pipe2(p->terminal, O_CLOEXEC) < 0)
            abort();
    }
    started.flags = brings ? BOX_STARTED_TERMINAL : 0;
    BOX_IGNORE(box_agent_send_with(s->fd, BOX_AGENT_STARTED, p->id, &started, p->terminal,
                                   box_agent_started_fds(&started), &err)); /* boxd may be gone */
    for (int i = 0; i < 2; i++)
        box_closep(&p->terminal[i]);
}

static void run(fake_warden *w, fake_sandbox *s, fake_program *p)
{
    const char *name = p->argv[0];
    if (strcmp(name, "missing") == 0) {
        box_agent_started started = {.pid = 0};
        (void)box_fail(&started.error, BOX_FILE_NOT_FOUND, "no such program"); /* always -1 */
        uint64_t id = p->id;
        drop_program(p);
        send_agent(s, BOX_AGENT_STARTED, id, &started);
        return;
    }
    if (strcmp(name, "brief") == 0) { /* over before STARTED was sent */
        for (long n = strtol(p->argv[2], NULL, 10); n > 0; n--)
            say(p, 1, p->argv[1]);
        fake_program_exit(s, p, 3, 0, BOX_CAUSE_NONE, 0);
        return;
    }
    send_started(w, s, p);
    for (int i = 0; i < 3; i++) {
        box_error err;
        if ((strcmp(name, "cat") == 0 || strcmp(name, "flood") == 0) &&
            box_fd_set_nonblocking(p->fds[i], &err) < 0)
            abort();
    }
    if (strcmp(name, "exit") == 0) {
        fake_program_exit(s, p, (int)strtol(p->argv[1], NULL, 10), 0, BOX_CAUSE_NONE, 0);
    } else if (strcmp(name, "echo") == 0) {
        say(p, 1, p->argv[1]);
        fake_program_exit(s, p, 0, 0, BOX_CAUSE_NONE, 0);
    } else if (strcmp(name, "err") == 0) {
        say(p, 2, p->argv[1]);
        fake_program_exit(s, p, 1, 0, BOX_CAUSE_NONE, 0);
    } else if (strcmp(name, "env") == 0) {
        for (size_t i = 0; i < p->text_len; i++) {
            if (p->text[i] == '\0')
                p->text[i] = '\n';
        }
        p->text[p->text_len - 1] = '\0';
        say(p, 1, p->text);
        fake_program_exit(s, p, 0, 0, BOX_CAUSE_NONE, 0);
    } else if (strcmp(name, "bg") == 0) {
        say(p, 1, p->argv[1]);
        fake_program_exit(s, p, 0, 0, BOX_CAUSE_NONE, 1);
    } else if (strcmp(name, "oom") == 0) {
        write_oom_kills(w, 1);
        fake_program_exit(s, p, 0, SIGKILL, BOX_CAUSE_NONE, 0);
    } else if (strcmp(name, "forks") == 0) {
        write_refused(w, 3);
        fake_program_exit(s, p, 0, 0, BOX_CAUSE_NONE, 0);
    } else if (strcmp(name, "fills") == 0) {
        box_agent_exit e = {.exit_code = 1, .pid = 7, .flags = BOX_EXIT_WORKSPACE_FULL};
        uint64_t id = p->id;
        drop_program(p);
        send_agent(s, BOX_AGENT_EXIT, id, &e);
    } else if (strcmp(name, "flood") == 0) {
        p->flood_left = strtoull(p->argv[1], NULL, 10);
    }
}

/* --- agent ------------------------------------------------------------------------------------ */

static fake_program *place(fake_sandbox *s)
{
    for (int i = 0; i < FAKE_MAX_PROGRAMS; i++) {
        if (!s->programs[i].used)
            return &s->programs[i];
    }
    abort();
}

static void take_text(fake_program *p, const box_agent_packet *packet, int memfd)
{
    const box_agent_start *start = &packet->body.start;
    p->text = box_alloc(start->text_len + 1);
    p->text_len = start->text_len;
    if (memfd >= 0) {
        if (pread(memfd, p->text, p->text_len, 0) != (ssize_t)p->text_len)
            abort();
        (void)close(memfd);
    } else {
        memcpy(p->text, packet->text.data, p->text_len);
    }
    const char *at = p->text;
    for (uint32_t i = 0; i < start->argc && i < 4; i++) {
        (void)snprintf(p->argv[i], sizeof p->argv[i], "%s", at); /* cut: tests know */
        at += strlen(at) + 1;
    }
}

/* How many of fds they are. */
static size_t take_streams(fake_program *p, const int *fds)
{
    if ((p->flags & BOX_START_TERMINAL) != 0) {
        open_terminal(p);
        return 0;
    }
    size_t n = (p->flags & BOX_START_NO_STDIN) != 0 ? 2 : 3; /* else /dev/null */
    if (n == 2)
        p->fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    memcpy(p->fds + 3 - n, fds, n * sizeof *fds);
    return n;
}

static void on_signal(fake_sandbox *s, uint64_t id, const box_agent_signal *signal)
{
    s->signals++;
    s->last_signal = signal->signo;
    for (int i = 0; i < FAKE_MAX_PROGRAMS; i++) {
        fake_program *p = &s->programs[i];
        if (p->used && p->id == id && !p->ended && strcmp(p->argv[0], "deaf") != 0)
            fake_program_exit(s, p, 0, (int)signal->signo, signal->cause, 0);
    }
}

/* To the next boxd. */
static void repeat_started(fake_sandbox *s)
{
    const box_agent_started started = {.pid = 7};
    for (int i = 0; i < FAKE_MAX_PROGRAMS; i++) {
        if (s->programs[i].used && !s->programs[i].ended)
            send_agent(s, BOX_AGENT_STARTED, s->programs[i].id, &started);
    }
}

void fake_worker_end(fake_sandbox *s, fake_worker *worker, int signo)
{
    box_agent_files_ended e = {.signal = signo};
    uint64_t id = worker->id;
    box_closep(&worker->fd);
    *worker = (fake_worker){0};
    send_agent(s, BOX_AGENT_FILES_ENDED, id, &e);
}

void fake_connect_answer(fake_sandbox *s, uint64_t id, int fd, const box_error *err)
{
    box_agent_connected c = {0};
    box_error failed;
    if (err != NULL)
        c.error = *err;
    if (box_agent_send_with(s->fd, BOX_AGENT_CONNECTED, id, &c, &fd, fd >= 0 ? 1 : 0, &failed) < 0)
        abort();
    box_closep(&fd);
}

static void note_connect(fake_sandbox *s, const box_agent_packet *packet)
{
    if (s->connects >= FAKE_MAX_CONNECTS)
        abort();
    s->connect_id[s->connects] = packet->header.id;
    s->connect_port[s->connects++] = (uint16_t)packet->body.connect.port;
}

void fake_warden_oom(const fake_warden *w)
{
    write_oom_kills(w, 1);
}

void fake_warden_count_oom(const fake_warden *w, int n)
{
    write_oom_kills(w, n);
}

static void manage(fake_sandbox *s, const box_agent_packet *packet, int *fds, size_t n_fds)
{
    if (s->n_processes == FAKE_MAX_PROCESSES)
        abort();
    s->processes[s->n_processes++] = (fake_process){.id = packet->header.id,
                                                    .conf = packet->body.manage,
                                                    .text_fd = fds[0],
                                                    .journals = {-1, -1}};
    if (n_fds > 1)
        (void)close(fds[1]);
}

static bool manages(const fake_sandbox *s, uint64_t id)
{
    for (unsigned i = 0; i < s->n_processes; i++) {
        if (s->processes[i].id == id)
            return true;
    }
    return false;
}

static void start_worker(fake_sandbox *s, const box_agent_packet *packet, int fd)
{
    s->files++;
    for (int i = 0; i < FAKE_MAX_WORKERS; i++) {
        fake_worker *worker = &s->workers[i];
        if (worker->used)
            continue;
        *worker = (fake_worker){
            .used = true, .id = packet->header.id, .flags = packet->body.files.flags, .fd = fd};
        return;
    }
    abort();
}

static void stop_worker(fake_sandbox *s, uint64_t id)
{
    s->files_stops++;
    for (int i = 0; i < FAKE_MAX_WORKERS; i++) {
        if (s->workers[i].used && s->workers[i].id == id)
            fake_worker_end(s, &s->workers[i], SIGKILL);
    }
}

static void on_agent_packet(fake_warden *w, fake_sandbox *s, const box_agent_packet *packet,
                            int *fds, size_t n_fds)
{
    box_agent_hello hello = {.version = BOX_AGENT_VERSION};
    switch (packet->header.type) {
    case BOX_AGENT_HELLO:
        if (w->lying_agent)
            hello.processes = BOX_MAX_PROCESSES + 1;
        if (!w->mute_agent)
            send_agent(s, BOX_AGENT_HELLO, 0, &hello);
        repeat_started(s);
        return;
    case BOX_AGENT_START: {
        fake_program *p = place(s);
        *p = (fake_program){.used = true,
                            .id = packet->header.id,
                            .flags = packet->body.start.flags,
                            .timeout_ns = packet->body.start.timeout_ns,
                            .terminal = {-1, -1}};
        size_t n = take_streams(p, fds);
        take_text(p, packet, n_fds > n ? fds[n] : -1);
        w->starts++;
        if (!w->hang_start)
            run(w, s, p);
        return;
    }
    case BOX_AGENT_SIGNAL:
        on_signal(s, packet->header.id, &packet->body.signal);
        return;
    case BOX_AGENT_EXIT_ACK:
        s->acks++;
        return;
    case BOX_AGENT_MANAGE:
        manage(s, packet, fds, n_fds);
        return;
    case BOX_AGENT_STOP:
        s->process_stops++;
        s->unknown_stops += !manages(s, packet->header.id);
        return;
    case BOX_AGENT_WATCH:
        s->watches++;
        return;
    case BOX_AGENT_CLOSE_STDIN:
        s->stdin_closes++;
        return;
    case BOX_AGENT_FORGET:
        s->forgets++;
        return;
    case BOX_AGENT_FILES:
        start_worker(s, packet, fds[0]);
        return;
    case BOX_AGENT_CONNECT:
        note_connect(s, packet);
        return;
    case BOX_AGENT_FILES_STOP:
        if (!w->deaf_files)
            stop_worker(s, packet->header.id);
        return;
    default:
        return;
    }
}

static bool step_sandbox(fake_warden *w, fake_sandbox *s)
{
    uint8_t data[BOX_AGENT_PACKET_BYTES];
    int fds[4];
    size_t n_fds = 4;
    box_error err;
    bool any = false;
    if (s->fd < 0) {
        s->fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        return s->fd >= 0;
    }
    for (int i = 0; i < FAKE_MAX_PROGRAMS; i++) {
        if (s->programs[i].used)
            any |= step_program(s, &s->programs[i]);
    }
    ssize_t n = box_fd_receive(s->fd, data, sizeof data, fds, &n_fds, &err);
    if (n == 0)
        box_closep(&s->fd); /* another boxd may come */
    if (n <= 0)
        return any;
    box_agent_packet packet;
    if (box_agent_packet_parse(data, (size_t)n, n_fds, BOX_AGENT_FROM_BOXD, &packet, &err) < 0)
        abort();
    on_agent_packet(w, s, &packet, fds, n_fds);
    return true;
}

/* --- warden ----------------------------------------------------------------------------------- */

static void send_warden(fake_warden *w, box_warden_type type, uint64_t id, const void *body,
                        size_t size, const int *fds, size_t n_fds)
{
    uint8_t packet[BOX_WARDEN_PACKET_BYTES];
    box_warden_header header = {.type = type, .size = (uint32_t)(sizeof header + size), .id = id};
    memcpy(packet, &header, sizeof header);
    memcpy(packet + sizeof header, body, size);
    box_error err;
    BOX_IGNORE(box_fd_send(w->fd, packet, header.size, fds, n_fds, &err)); /* boxd may be gone */
}

static fake_sandbox *find(fake_warden *w, const box_uid *uid)
{
    for (int i = 0; i < FAKE_MAX_SANDBOXES; i++) {
        if (w->sandboxes[i].used && box_uid_equal(&w->sandboxes[i].uid, uid))
            return &w->sandboxes[i];
    }
    return NULL;
}

static void on_create(fake_warden *w, uint64_t id, const box_warden_create *c, int listen_fd)
{
    box_warden_answer answer = {.error = w->create_error};
    w->creates++;
    if (w->hang_create || w->create_error.reason != BOX_NONE) {
        w->hung_create_id = id;
        (void)close(listen_fd);
        if (!w->hang_create)
            send_warden(w, BOX_WARDEN_ANSWER, id, &answer, sizeof answer, NULL, 0);
        return;
    }
    fake_sandbox *s = NULL;
    for (int i = 0; i < FAKE_MAX_SANDBOXES && s == NULL; i++) {
        if (!w->sandboxes[i].used)
            s = &w->sandboxes[i];
    }
    if (s == NULL)
        abort();
    *s =
        (fake_sandbox){.used = true, .uid = c->uid, .create = *c, .listen_fd = listen_fd, .fd = -1};
    if (fcntl(listen_fd, F_SETFL, O_NONBLOCK) < 0)
        abort();
    write_oom_kills(w, 0);
    write_refused(w, 1);
    int memory = open(w->memory_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fds[] = {memory, memory}; /* as on cgroup v2: one directory for both */
    answer.fds = BOX_ANSWER_FD_MEMORY | BOX_ANSWER_FD_PIDS;
    answer.memory_version = 2;
    answer.guarantees = w->guarantees;
    send_warden(w, BOX_WARDEN_ANSWER, id, &answer, sizeof answer, fds, 2);
    (void)close(memory);
}

static void on_warden_packet(fake_warden *w, const uint8_t *data, size_t len, const int *fds)
{
    box_warden_header header;
    union {
        box_warden_hello hello;
        box_warden_create create;
        box_warden_target target;
        box_warden_limits limits;
    } body;
    memcpy(&header, data, sizeof header);
    size_t size = header.type == BOX_WARDEN_HELLO    ? sizeof body.hello
                  : header.type == BOX_WARDEN_CREATE ? sizeof body.create
                  : header.type == BOX_WARDEN_LIMITS ? sizeof body.limits
                                                     : sizeof body.target;
    if (header.size != len || len != sizeof header + size)
        abort(); /* sizes are exact */
    memcpy(&body, data + sizeof header, size);
    box_warden_answer answer = {.alive = BOX_ALIVE};
    fake_sandbox *s;
    switch (header.type) {
    case BOX_WARDEN_HELLO:
        body.hello.guarantees = w->guarantees;
        body.hello.isolation = 1;
        body.hello.error = w->hello_error;
        (void)snprintf(body.hello.detail, sizeof body.hello.detail, "a fake");
        send_warden(w, BOX_WARDEN_HELLO, 0, &body.hello, sizeof body.hello, NULL, 0);
        return;
    case BOX_WARDEN_CREATE:
        on_create(w, header.id, &body.create, fds[0]);
        return;
    case BOX_WARDEN_DESTROY:
        w->destroys++;
        s = find(w, &body.target.uid);
        if (s != NULL)
            drop_sandbox(s);
        if (w->hang_destroy)
            return;
        break;
    case BOX_WARDEN_SWEEP:
        w->sweeps++;
        break;
    case BOX_WARDEN_KEEP:
        w->keeps++;
        answer.alive = find(w, &body.target.uid) != NULL ? BOX_ALIVE : BOX_DEAD;
        break;
    case BOX_WARDEN_LIMITS:
        w->limits++;
        w->last_limits = body.limits;
        break;
    case BOX_WARDEN_USAGE:
        answer.memory_bytes = 12345;
        if (w->hang_usage)
            return;
        break;
    default:
        abort();
    }
    send_warden(w, BOX_WARDEN_ANSWER, header.id, &answer, sizeof answer, NULL, 0);
}

bool fake_warden_step(fake_warden *w)
{
    uint8_t data[BOX_WARDEN_PACKET_BYTES];
    int fds[2] = {-1, -1};
    size_t n_fds = 2;
    box_error err;
    bool any = false;
    bool reads = w->fd >= 0 && !w->deaf;
    ssize_t len = reads ? box_fd_receive(w->fd, data, sizeof data, fds, &n_fds, &err) : 0;
    if (len > 0) {
        on_warden_packet(w, data, (size_t)len, fds);
        any = true;
    }
    for (int i = 0; i < FAKE_MAX_SANDBOXES; i++) {
        if (w->sandboxes[i].used)
            any |= step_sandbox(w, &w->sandboxes[i]);
    }
    return any;
}

void fake_sandbox_die(fake_warden *w, fake_sandbox *s, bool tell)
{
    box_warden_exited exited = {.uid = s->uid, .status = 9};
    drop_sandbox(s);
    if (tell)
        send_warden(w, BOX_WARDEN_EXITED, 0, &exited, sizeof exited, NULL, 0);
}

unsigned fake_warden_count(const fake_warden *w)
{
    unsigned n = 0;
    for (int i = 0; i < FAKE_MAX_SANDBOXES; i++)
        n += w->sandboxes[i].used;
    return n;
}

fake_sandbox *fake_warden_only(fake_warden *w)
{
    fake_sandbox *only = NULL;
    for (int i = 0; i < FAKE_MAX_SANDBOXES; i++) {
        if (!w->sandboxes[i].used)
            continue;
        if (only != NULL)
            return NULL;
        only = &w->sandboxes[i];
    }
    return only;
}

fake_program *fake_sandbox_find(fake_sandbox *s, const char *argv0)
{
    for (int i = 0; i < FAKE_MAX_PROGRAMS; i++) {
        if (s->programs[i].used && strcmp(s->programs[i].argv[0], argv0) == 0)
            return &s->programs[i];
    }
    return NULL;
}

unsigned fake_warden_fds(const fake_warden *w, int *fds, unsigned room)
{
    unsigned n = 0;
    if (w->fd >= 0 && n < room)
        fds[n++] = w->fd;
    for (int i = 0; i < FAKE_MAX_SANDBOXES && n < room; i++) {
        const fake_sandbox *s = &w->sandboxes[i];
        if (s->used)
            fds[n++] = s->fd >= 0 ? s->fd : s->listen_fd;
    }
    return n;
}
