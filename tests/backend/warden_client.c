#include "warden_client.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
/* cmocka.h needs the four above it. */
#include <cmocka.h>

#include "base/fd.h"

enum { PATIENCE_MS = 60000, MAX_UNDONE = 32 };

/* --- the warden ------------------------------------------------------------------------------- */

/* No such users: nothing else runs as them. */
enum { USER_ONE = 61241, USER_IDS = 61242, FIRST_ID = 1900000000 };

static const char *the_kind = "root";
static uid_t the_user;

static bool set_kind(const char *kind)
{
    static const char *const kinds[] = {"root", "one-id", "ids"};
    static const uid_t users[] = {0, USER_ONE, USER_IDS};
    for (size_t i = 0; i < BOX_COUNT(kinds); i++) {
        if (strcmp(kinds[i], kind) != 0)
            continue;
        the_kind = kinds[i];
        the_user = users[i];
        return true;
    }
    return false;
}

int test_wardens_begin(int argc, char **argv)
{
    if (geteuid() != 0) {
        (void)fputs("skipped: needs root\n", stderr);
        return 77;
    }
    if (argc > 1 && !set_kind(argv[1]))
        return 2;
    if (the_user == USER_IDS && access("/usr/bin/newuidmap", X_OK) < 0) {
        (void)fputs("skipped: package uidmap is not installed\n", stderr);
        return 77;
    }
    /* Sandboxes of a killed warden come to us; else this machine's init would reap them late. */
    return prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || signal(SIGCHLD, SIG_DFL) == SIG_ERR ? 1 : 0;
}

const char *test_wardens_kind(void)
{
    return the_kind;
}

static void copy_file(const char *from, const char *dir, const char *name)
{
    char command[512];
    (void)snprintf(command, sizeof command, "cp %s %s/%s", from, dir, name);
    FILE *p = popen(command, "re");
    assert_non_null(p);
    assert_int_equal(pclose(p), 0);
}

/* Where an ordinary user finds everything: the build folder may be closed to it. */
static void make_home(const char *dir)
{
    char path[96];
    copy_file(BOX_WARDEN_PROGRAM, dir, "box-warden");
    copy_file(BOX_AGENT_PROGRAM, dir, "box-agent");
    copy_file(BOX_FILES_PROGRAM, dir, "box-files");
    copy_file("/etc/passwd", dir, "passwd");
    (void)snprintf(path, sizeof path, "%s/passwd", dir);
    FILE *f = fopen(path, "ae"); /* newuidmap serves nobody who has no name */
    assert_non_null(f);
    (void)fprintf(f, "boxtest:x:%d:%d::/:/bin/sh\n", USER_IDS, USER_IDS);
    assert_int_equal(fclose(f), 0);
    (void)snprintf(path, sizeof path, "%s/subid", dir);
    f = fopen(path, "we");
    assert_non_null(f);
    (void)fprintf(f, "%d:%d:65536\n", USER_IDS, FIRST_ID);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chown(dir, the_user, the_user), 0);
}

static void show_as(const char *dir, const char *name, const char *place)
{
    char path[96];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    if (mount(path, place, NULL, MS_BIND, NULL) < 0)
        _exit(94);
}

enum { PROGRAM_BYTES = 4096 };

static const char *program_of(const char *dir, char out[PROGRAM_BYTES])
{
    (void)snprintf(out, PROGRAM_BYTES, "%s/box-warden", dir);
    return the_user != 0 ? out : BOX_WARDEN_PROGRAM;
}

static void become_user(const char *dir)
{
    if (the_user == USER_IDS) {
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
            _exit(94);
        show_as(dir, "passwd", "/etc/passwd");
        show_as(dir, "subid", "/etc/subuid");
        show_as(dir, "subid", "/etc/subgid");
    }
    if (setgroups(0, NULL) < 0 || setresgid(the_user, the_user, the_user) < 0 ||
        setresuid(the_user, the_user, the_user) < 0)
        _exit(93);
}

/* Those of tests that are not done: one that fails leaves its function before its end. */
static struct {
    char dir[64];
    pid_t pid;
} undone[MAX_UNDONE];

static size_t place_of(const char *dir)
{
    for (size_t i = 0; i < MAX_UNDONE; i++) {
        if (strcmp(undone[i].dir, dir) == 0)
            return i;
    }
    fail_msg("too many wardens at once");
    return 0;
}

void test_warden_init(test_warden *w, const char *extra)
{
    *w = (test_warden){.dir = "/tmp/box-test-XXXXXX"};
    assert_non_null(mkdtemp(w->dir));
    (void)snprintf(undone[place_of("")].dir, sizeof undone[0].dir, "%s", w->dir);
    assert_int_equal(chmod(w->dir, 0711), 0);
    (void)snprintf(w->socket, sizeof w->socket, "%s/warden", w->dir);
    char path[96];
    (void)snprintf(path, sizeof path, "%s/config", w->dir);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    (void)fprintf(f, "socket: %s\ninstance_dir: %s/state\nlog: {level: %s}\n%s", w->socket, w->dir,
                  getenv("BOX_TEST_LOG") != NULL ? "debug" : "off", extra);
    assert_int_equal(fclose(f), 0);
    if (the_user != 0)
        make_home(w->dir);
}

/* Makes one system call unknown, as on an older kernel. */
static void refuse_call(int nr)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = BOX_COUNT(code), .filter = code};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        _exit(99);
}

/* A host without (all of) its control groups, in a mount namespace of the warden's. */
static void hide_cgroups(const char *which)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        _exit(98);
    FILE *f = fopen("/proc/self/mountinfo", "re");
    char line[4096];
    char points[32][256];
    size_t n = 0;
    while (f != NULL && n < 32 && fgets(line, sizeof line, f) != NULL) {
        if (strstr(line, " - cgroup") != NULL && strstr(line, which) != NULL &&
            sscanf(line, "%*d %*d %*s %*s %255s", points[n]) == 1)
            n++;
    }
    while (n-- > 0) {
        if (umount2(points[n], MNT_DETACH) < 0)
            _exit(97);
    }
}

static void enter_group(const char *group)
{
    char path[256];
    box_error err;
    (void)snprintf(path, sizeof path, "%s/cgroup.procs", group);
    if (box_fd_write_file(AT_FDCWD, path, "0", &err) < 0)
        _exit(96);
}

/* As in a container that has its own control group for the root of the tree. */
static void enclose(void)
{
    static const char tree[] = "/sys/fs/cgroup";
    if (unshare(CLONE_NEWCGROUP | CLONE_NEWNS) < 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || umount2(tree, MNT_DETACH) < 0 ||
        mount("cgroup", tree, "cgroup2", 0, NULL) < 0)
        _exit(95);
}

static int connect_to(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    (void)snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

void test_warden_start(test_warden *w)
{
    char config[96];
    char program[PROGRAM_BYTES];
    (void)snprintf(config, sizeof config, "%s/config", w->dir);
    (void)unlink(w->socket); /* a killed one's helper may still listen there for a moment */
    w->pid = fork();
    assert_true(w->pid >= 0);
    undone[place_of(w->dir)].pid = w->pid;
    if (w->pid == 0) {
        if (w->group != NULL)
            enter_group(w->group);
        if (w->enclosed)
            enclose();
        if (w->hidden != NULL)
            hide_cgroups(w->hidden);
        if (w->refused_call != 0)
            refuse_call(w->refused_call);
        if (the_user != 0)
            become_user(w->dir);
        (void)execl(program_of(w->dir, program), BOX_WARDEN_PROGRAM, "--backend", "namespace",
                    "--config", config, (char *)NULL);
        _exit(127);
    }
    for (int ms = 0; ms < PATIENCE_MS; ms += 5) {
        int fd = connect_to(w->socket);
        if (fd >= 0) {
            (void)close(fd);
            return;
        }
        assert_int_equal(waitpid(w->pid, NULL, WNOHANG), 0);
        (void)usleep(5000);
    }
    fail_msg("the warden does not listen");
}

int test_warden_stop(test_warden *w, int signo)
{
    int status;
    assert_int_equal(kill(w->pid, signo), 0);
    assert_int_equal(waitpid(w->pid, &status, 0), w->pid);
    w->pid = undone[place_of(w->dir)].pid = 0;
    return status;
}

static void remove_all(int parent, const char *name)
{
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
        return;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            remove_all(dirfd(d), e->d_name);
    }
    if (d != NULL)
        (void)closedir(d);
    assert_int_equal(unlinkat(parent, name, AT_REMOVEDIR), 0);
}

static size_t count_states(const test_warden *w, const char *kind)
{
    char path[96];
    (void)snprintf(path, sizeof path, "%s/state", w->dir);
    DIR *d = opendir(path);
    assert_non_null(d);
    size_t n = 0;
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        n += strstr(e->d_name, kind) != NULL ? 1 : 0;
    (void)closedir(d);
    return n;
}

size_t test_warden_states(const test_warden *w)
{
    return count_states(w, "sandbox-");
}

static size_t groups_of(const test_warden *w)
{
    char path[96];
    char name[64];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/state", w->dir);
    assert_int_equal(stat(path, &st), 0);
    (void)snprintf(name, sizeof name, "box-%llx-%llx", (unsigned long long)st.st_dev,
                   (unsigned long long)st.st_ino);
    return test_groups_named(name);
}

void test_warden_done(test_warden *w)
{
    if (w->pid > 0) {
        int status = test_warden_stop(w, SIGTERM);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        assert_int_equal(count_states(w, "prepared-"), 0);
        if (test_warden_states(w) == 0)
            assert_int_equal(groups_of(w), 0);
    }
    remove_all(AT_FDCWD, w->dir);
    undone[place_of(w->dir)].dir[0] = '\0';
}

/* A private warden whose boxd is gone removes what the state files name, and ends. */
static void sweep(size_t i)
{
    char config[sizeof undone + 16];
    char program[PROGRAM_BYTES];
    int pair[2];
    (void)snprintf(config, sizeof config, "%s/config", undone[i].dir);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) < 0)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(pair[1]);
        if (the_user != 0)
            become_user(undone[i].dir);
        if (dup2(pair[0], 3) == 3)
            (void)execl(program_of(undone[i].dir, program), BOX_WARDEN_PROGRAM, "--config", config,
                        "--boxd-fd", "3", (char *)NULL);
        _exit(127);
    }
    (void)close(pair[0]);
    (void)close(pair[1]);
    if (pid > 0)
        (void)waitpid(pid, NULL, 0);
}

int test_wardens_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < MAX_UNDONE; i++) {
        if (undone[i].dir[0] == '\0')
            continue;
        if (undone[i].pid > 0 && kill(undone[i].pid, SIGKILL) == 0)
            (void)waitpid(undone[i].pid, NULL, 0);
        sweep(i);
        remove_all(AT_FDCWD, undone[i].dir);
        undone[i].dir[0] = '\0';
    }
    return 0;
}

void test_warden_await_states(const test_warden *w, size_t count)
{
    for (int ms = 0; test_warden_states(w) > count; ms += 5) {
        if (ms >= PATIENCE_MS)
            fail_msg("%zu sandboxes are not removed", test_warden_states(w) - count);
        (void)usleep(5000);
    }
}

void test_warden_await_clean(const test_warden *w)
{
    test_warden_await_states(w, 0);
}

/* --- boxd ------------------------------------------------------------------------------------- */

static ssize_t receive(int fd, void *data, size_t size, int *fds, size_t *n_fds)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    box_error err;
    if (poll(&p, 1, PATIENCE_MS) != 1)
        fail_msg("nothing comes from the other side");
    ssize_t n = box_fd_receive(fd, data, size, fds, n_fds, &err);
    if (n < 0)
        fail_msg("receive: %s", err.msg);
    return n;
}

void test_boxd_greet(test_boxd *b, int fd, const box_uid *instance)
{
    *b = (test_boxd){.fd = fd, .instance = *instance};
    box_warden_hello hello = {
        .version = BOX_WARDEN_VERSION, .instance = *instance, .backend = "namespace"};
    (void)test_boxd_send(b, BOX_WARDEN_HELLO, &hello, sizeof hello, -1);
    uint8_t packet[BOX_WARDEN_PACKET_BYTES];
    size_t none = 0;
    ssize_t n = receive(fd, packet, sizeof packet, NULL, &none);
    assert_int_equal(n, sizeof(box_warden_header) + sizeof b->hello);
    memcpy(&b->hello, packet + sizeof(box_warden_header), sizeof b->hello);
}

void test_boxd_connect(test_boxd *b, const test_warden *w, const box_uid *instance)
{
    int fd = connect_to(w->socket);
    assert_true(fd >= 0);
    test_boxd_greet(b, fd, instance);
    if (b->hello.error.reason != BOX_NONE)
        fail_msg("the warden refuses: %s", b->hello.error.msg);
}

void test_boxd_close(test_boxd *b)
{
    box_closep(&b->fd);
}

uint64_t test_boxd_send(test_boxd *b, box_warden_type type, const void *body, size_t size, int fd)
{
    uint8_t packet[BOX_WARDEN_PACKET_BYTES];
    box_error err;
    box_warden_header h = {.type = type,
                           .size = (uint32_t)(sizeof h + size),
                           .id = type == BOX_WARDEN_HELLO ? 0 : ++b->next_id};
    memcpy(packet, &h, sizeof h);
    memcpy(packet + sizeof h, body, size);
    while (box_fd_send(b->fd, packet, h.size, &fd, fd >= 0 ? 1 : 0, &err) < 0) {
        if (err.sys_errno != EAGAIN)
            fail_msg("send: %s", err.msg);
        struct pollfd p = {.fd = b->fd, .events = POLLOUT};
        (void)poll(&p, 1, PATIENCE_MS);
    }
    return h.id;
}

/* One packet of the warden; false when it was EXITED. */
static bool next_answer(test_boxd *b, box_warden_header *h, box_warden_answer *answer,
                        int fds[BOX_ANSWER_MAX_FDS], size_t *n_fds)
{
    uint8_t packet[BOX_WARDEN_PACKET_BYTES];
    *n_fds = BOX_ANSWER_MAX_FDS;
    ssize_t n = receive(b->fd, packet, sizeof packet, fds, n_fds);
    if (n < (ssize_t)sizeof *h)
        fail_msg("the warden closed the connection");
    memcpy(h, packet, sizeof *h);
    if (h->type == BOX_WARDEN_EXITED) {
        memcpy(&b->exited, packet + sizeof *h, sizeof b->exited);
        b->n_exited++;
        return false;
    }
    if (h->type == BOX_WARDEN_PREPARED) {
        assert_int_equal(n, sizeof *h + sizeof b->ready);
        memcpy(&b->ready, packet + sizeof *h, sizeof b->ready);
        return false;
    }
    assert_int_equal(h->type, BOX_WARDEN_ANSWER);
    assert_int_equal(n, sizeof *h + sizeof *answer);
    memcpy(answer, packet + sizeof *h, sizeof *answer);
    return true;
}

box_warden_answer test_boxd_answer(test_boxd *b, uint64_t id, int fds[BOX_ANSWER_MAX_FDS],
                                   size_t *n_fds)
{
    box_warden_header h;
    box_warden_answer answer;
    while (!next_answer(b, &h, &answer, fds, n_fds))
        continue;
    assert_int_equal(h.id, id);
    return answer;
}

void test_boxd_await_ready(test_boxd *b)
{
    box_warden_header h;
    box_warden_answer answer;
    int fds[BOX_ANSWER_MAX_FDS];
    size_t n_fds;
    while (box_uid_equal(&b->ready, &(box_uid){0}))
        (void)next_answer(b, &h, &answer, fds, &n_fds);
}

void test_boxd_await_exited(test_boxd *b)
{
    box_warden_header h;
    box_warden_answer answer;
    int fds[BOX_ANSWER_MAX_FDS];
    size_t n_fds;
    size_t before = b->n_exited;
    while (b->n_exited == before)
        (void)next_answer(b, &h, &answer, fds, &n_fds);
}

box_warden_answer test_boxd_ask(test_boxd *b, box_warden_type type, const box_uid *uid)
{
    const box_warden_target target = {.uid = *uid};
    int fds[BOX_ANSWER_MAX_FDS];
    size_t n_fds;
    uint64_t id = test_boxd_send(b, type, &target, sizeof target, -1);
    box_warden_answer answer = test_boxd_answer(b, id, fds, &n_fds);
    for (size_t i = 0; i < n_fds; i++)
        box_closep(&fds[i]);
    return answer;
}

size_t test_groups_named(const char *name)
{
    char command[160];
    size_t n = 0;
    (void)snprintf(command, sizeof command, "find /sys/fs/cgroup -type d -name '%s' | wc -l", name);
    FILE *p = popen(command, "re");
    assert_non_null(p);
    assert_int_equal(fscanf(p, "%zu", &n), 1);
    assert_int_equal(pclose(p), 0);
    return n;
}

/* --- sandboxes -------------------------------------------------------------------------------- */

int test_listen(const test_warden *w, const box_uid *uid, char address[96])
{
    char text[BOX_UID_TEXT];
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    box_uid_text(uid, text);
    (void)snprintf(address, 96, "%s/a-%.16s", w->dir, text);
    (void)snprintf(a.sun_path, sizeof a.sun_path, "%s", address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

uint64_t test_box_ask(test_boxd *b, const test_warden *w, box_warden_create request, test_box *box)
{
    bool prepared = !box_uid_equal(&b->ready, &(box_uid){0});
    *box = (test_box){.uid = prepared ? b->ready : box_uid_new(),
                      .listen = -1,
                      .agent = -1,
                      .cgroup = -1,
                      .devpts = -1,
                      .pidfd = -1,
                      .memory = -1,
                      .pids = -1};
    box->listen = test_listen(w, &box->uid, box->address);
    request.uid = box->uid;
    b->ready = (box_uid){0};
    return test_boxd_send(b, BOX_WARDEN_CREATE, &request, sizeof request, box->listen);
}

bool test_box_made(test_boxd *b, uint64_t id, test_box *box)
{
    int fds[BOX_ANSWER_MAX_FDS];
    size_t n_fds;
    box->answer = test_boxd_answer(b, id, fds, &n_fds);
    int *const places[] = {&box->cgroup, &box->devpts, &box->pidfd, &box->memory, &box->pids};
    size_t at = 0;
    for (size_t i = 0; i < BOX_COUNT(places); i++) {
        if ((box->answer.fds >> i & 1) != 0)
            *places[i] = fds[at++];
    }
    assert_int_equal(at, n_fds);
    return box->answer.error.reason == BOX_NONE;
}

void test_box_create(test_boxd *b, const test_warden *w, box_warden_create request, test_box *box)
{
    uint64_t id = test_box_ask(b, w, request, box);
    if (!test_box_made(b, id, box))
        fail_msg("create: %s", box->answer.error.msg);
}

box_error test_box_refused(test_boxd *b, const test_warden *w, box_warden_create request)
{
    test_box box;
    uint64_t id = test_box_ask(b, w, request, &box);
    bool made = test_box_made(b, id, &box);
    box_error err = box.answer.error;
    if (made)
        test_box_destroy(b, &box);
    else
        test_box_close(&box);
    return err;
}

void test_box_close(test_box *box)
{
    box_closep(&box->listen);
    box_closep(&box->agent);
    box_closep(&box->cgroup);
    box_closep(&box->devpts);
    box_closep(&box->pidfd);
    box_closep(&box->memory);
    box_closep(&box->pids);
    (void)unlink(box->address);
}

void test_box_destroy(test_boxd *b, test_box *box)
{
    box_warden_answer answer = test_boxd_ask(b, BOX_WARDEN_DESTROY, &box->uid);
    test_box_close(box);
    if (answer.error.reason != BOX_NONE)
        fail_msg("destroy: %s", answer.error.msg);
}

static void next_agent_packet(test_box *box, box_agent_packet *p, uint8_t *data)
{
    box_error err;
    size_t none = 0;
    ssize_t n = receive(box->agent, data, BOX_AGENT_PACKET_BYTES, NULL, &none);
    if (n <= 0)
        fail_msg("the agent closed the connection");
    if (box_agent_packet_parse(data, (size_t)n, 0, BOX_AGENT_FROM_AGENT, p, &err) < 0)
        fail_msg("agent: %s", err.msg);
}

void test_box_connect(test_box *box)
{
    static uint8_t data[BOX_AGENT_PACKET_BYTES];
    const box_agent_hello hello = {.version = BOX_AGENT_VERSION};
    box_error err;
    box_agent_packet p;
    box->agent = connect_to(box->address);
    assert_true(box->agent >= 0);
    assert_int_equal(box_agent_send(box->agent, BOX_AGENT_HELLO, 0, &hello, &err), 0);
    next_agent_packet(box, &p, data);
    assert_int_equal(p.header.type, BOX_AGENT_HELLO);
}

static void send_start(test_box *box, const char *script, int in, int out)
{
    const char *const argv[] = {"sh", "-c", script};
    const char *const env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home", "LANG=C.UTF-8"};
    const box_agent_command command = {.id = ++box->next_command,
                                       .timeout_ns = UINT64_C(120000000000),
                                       .flags = BOX_START_KILL_LEFTOVERS,
                                       .argc = BOX_COUNT(argv),
                                       .argv = argv,
                                       .envc = BOX_COUNT(env),
                                       .env = env,
                                       .workdir = "/"};
    BOX_AUTO(box_buf_done) box_buf packet = {0};
    BOX_AUTO(box_closep) int memfd = -1;
    box_error err;
    if (box_agent_start_build(&command, &packet, &memfd, &err) < 0)
        fail_msg("start: %s", err.msg);
    const int fds[] = {in, out, out, memfd};
    if (box_fd_send(box->agent, box_buf_data(&packet), box_buf_len(&packet), fds,
                    memfd >= 0 ? 4 : 3, &err) < 0)
        fail_msg("start: %s", err.msg);
}

static void append_output(test_run *run, int pipe)
{
    char block[4096];
    size_t used = strlen(run->output);
    ssize_t n = read(pipe, block, sizeof block);
    if (n > 0 && used + (size_t)n < sizeof run->output) {
        memcpy(run->output + used, block, (size_t)n);
        run->output[used + (size_t)n] = '\0';
    }
}

/* False when the command is over. */
static bool step(test_box *box, test_run *run, uint8_t *data)
{
    box_agent_packet p;
    next_agent_packet(box, &p, data);
    if (p.header.type == BOX_AGENT_STARTED) {
        run->started = p.body.started;
        return run->started.error.reason == BOX_NONE;
    }
    assert_int_equal(p.header.type, BOX_AGENT_EXIT);
    run->exit = p.body.exit;
    box_error err;
    assert_int_equal(box_agent_send(box->agent, BOX_AGENT_EXIT_ACK, p.header.id, NULL, &err), 0);
    return false;
}

void test_box_run(test_box *box, const char *script, test_run *run)
{
    static uint8_t data[BOX_AGENT_PACKET_BYTES];
    *run = (test_run){0};
    if (box->agent < 0)
        test_box_connect(box);
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(fchmod(out[1], 0666), 0);
    BOX_AUTO(box_closep) int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(fcntl(out[1], F_SETFL, 0), 0);
    send_start(box, script, in, out[1]);
    (void)close(out[1]);
    for (bool more = true; more;) {
        struct pollfd p[] = {{.fd = out[0], .events = POLLIN},
                             {.fd = box->agent, .events = POLLIN}};
        if (poll(p, 2, PATIENCE_MS) <= 0)
            fail_msg("a command hangs: %s", script);
        if ((p[0].revents & POLLIN) != 0)
            append_output(run, out[0]);
        else if ((p[1].revents & (POLLIN | POLLHUP)) != 0)
            more = step(box, run, data);
    }
    append_output(run, out[0]);
    (void)close(out[0]);
}

const char *test_box_output(test_box *box, const char *script)
{
    static test_run run;
    test_box_run(box, script, &run);
    if (run.started.error.reason != BOX_NONE)
        fail_msg("%s: %s", script, run.started.error.msg);
    if (run.exit.exit_code != 0)
        fail_msg("%s: exit %d signal %d: %s", script, run.exit.exit_code, run.exit.signal,
                 run.output);
    size_t len = strlen(run.output);
    if (len > 0 && run.output[len - 1] == '\n')
        run.output[len - 1] = '\0';
    return run.output;
}

size_t test_count_lines(const char *file, const char *text)
{
    FILE *f = fopen(file, "re");
    char *line = NULL;
    size_t size = 0;
    size_t n = 0;
    while (f != NULL && getline(&line, &size, f) > 0)
        n += strstr(line, text) != NULL ? 1 : 0;
    free(line);
    if (f != NULL)
        (void)fclose(f);
    return n;
}
