#include "agent/zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/journal.h"
#include "agent/privilege.h"
#include "agent/reaper.h"
#include "agent/spawn.h"
#include "base/fd.h"

enum {
    ZYGOTE_FD = 3,
    MAX_FDS = 7,           /* three streams, the text, two journals, cgroup or subreaper socket */
    INLINE_POINTERS = 512, /* argv and env of an ordinary command need no mapping */
};

typedef struct zygote {
    const box_zygote_config *config;
    void *stack;
    char *pointers[INLINE_POINTERS];
    uint8_t packet[BOX_AGENT_PACKET_BYTES];
} zygote;

/* One START taken apart. */
typedef struct request {
    box_agent_start start;
    box_slot *slot;
    int fds[MAX_FDS];
    size_t n_fds;
    box_bytes text;
    void *text_map; /* MAP_FAILED: inline */
    char **pointers;
    void *pointers_map; /* MAP_FAILED: in zygote */
    size_t pointers_size;
} request;

static void request_done(request *r)
{
    for (size_t i = 0; i < r->n_fds; i++)
        box_closep(&r->fds[i]);
    if (r->text_map != MAP_FAILED)
        (void)munmap(r->text_map, r->text.len); /* ours, whole */
    if (r->pointers_map != MAP_FAILED)
        (void)munmap(r->pointers_map, r->pointers_size); /* ours, whole */
}

static int note(uint32_t slot)
{
    box_zygote_note n = {.slot = slot};
    box_error err;
    return box_fd_send(ZYGOTE_FD, &n, sizeof n, NULL, 0, &err);
}

/* The text: in the packet, or mapped from the sealed memfd. -1 with the slot failed. */
static int get_text(request *r, const uint8_t *packet)
{
    box_error err;
    struct stat st;
    if ((r->start.flags & BOX_START_TEXT_IN_MEMFD) == 0) {
        r->text = (box_bytes){.data = packet + sizeof(box_agent_header) + sizeof r->start,
                              .len = r->start.text_len};
        return 0;
    }
    r->text.len = r->start.text_len;
    int seals = fcntl(r->fds[3], F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_WRITE) == 0 || (seals & F_SEAL_SHRINK) == 0 ||
        fstat(r->fds[3], &st) < 0 || (size_t)st.st_size < r->text.len) {
        box_slot_fail(r->slot, BOX_STEP_TEXT, 0, NULL);
        return -1;
    }
    r->text_map = mmap(NULL, r->text.len, PROT_READ, MAP_PRIVATE, r->fds[3], 0);
    if (r->text_map == MAP_FAILED) {
        box_slot_fail(r->slot, BOX_STEP_MEMORY, ENOMEM, NULL);
        return -1;
    }
    r->text.data = r->text_map;
    if (box_agent_text_check(&r->start, r->text, &err) < 0) {
        box_slot_fail(r->slot, BOX_STEP_TEXT, 0, NULL);
        return -1;
    }
    return 0;
}

/* Room for argv and env with their NULLs. */
static int get_pointers(zygote *z, request *r)
{
    size_t count = (size_t)r->start.argc + r->start.envc + 2;
    r->pointers = z->pointers;
    if (count <= INLINE_POINTERS)
        return 0;
    r->pointers_size = count * sizeof(char *);
    r->pointers_map =
        mmap(NULL, r->pointers_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (r->pointers_map == MAP_FAILED) {
        box_slot_fail(r->slot, BOX_STEP_MEMORY, ENOMEM, NULL);
        return -1;
    }
    r->pointers = r->pointers_map;
    return 0;
}

/* A process like this one that becomes the command's parent; the agent is its parent. 0 in the new
 * process. */
static long fork_reaper(box_slot *slot)
{
    long pid = syscall(SYS_clone, (long)(CLONE_PARENT | CLONE_PARENT_SETTID | SIGCHLD), 0L,
                       &slot->reaper, 0L, 0L);
    if (pid < 0)
        box_slot_fail(slot, BOX_STEP_CLONE, errno, NULL);
    return pid;
}

/* Returns whether this process is to answer (else the new subreaper does). */
static bool start_command(zygote *z, request *r)
{
    const box_zygote_config *c = z->config;
    int extra = r->fds[r->n_fds - 1];
    box_spawn spawn = {.uid = c->uid,
                       .gid = c->gid,
                       .fds = {r->fds[0], r->fds[1], r->fds[2]},
                       .cgroup = c->reapers ? -1 : extra,
                       .terminal = (r->start.flags & BOX_START_TERMINAL) != 0,
                       .sibling = !c->reapers,
                       .argv = r->pointers,
                       .env = r->pointers + r->start.argc + 1,
                       .stack = z->stack};
    box_agent_text_split(&r->start, r->text, spawn.argv, spawn.env, &spawn.workdir);
    if (!c->reapers) {
        box_spawn_run(&spawn, r->slot);
        return true;
    }
    long pid = fork_reaper(r->slot);
    if (pid != 0)
        return pid < 0;
    r->n_fds--; /* its socket is not closed with the rest */
    box_reaper_begin(&spawn, r->slot);
    bool failed = atomic_load(&r->slot->step) != BOX_STEP_NONE;
    int main_pid = atomic_load(&r->slot->pid);
    request_done(r);
    if (note(r->start.reserved[0]) < 0 || failed)
        _exit(1); /* the agent is gone; or there is nothing to look after */
    (void)close(ZYGOTE_FD);
    box_reaper_run(extra, main_pid);
}

/* -1 with the slot failed: the sandbox has no memory for them. */
static int fill_journals(request *r)
{
    size_t n = r->start.reserved[1];
    for (size_t i = r->n_fds - 1 - n; i < r->n_fds - 1; i++) {
        if (box_journal_fill(r->fds[i]) == 0)
            continue;
        box_slot_fail(r->slot, BOX_STEP_MEMORY, ENOMEM, NULL);
        return -1;
    }
    return 0;
}

/* false: the agent is gone. */
static bool serve_one(zygote *z)
{
    request r = {.n_fds = MAX_FDS, .text_map = MAP_FAILED, .pointers_map = MAP_FAILED};
    box_error err;
    ssize_t n = box_fd_receive(ZYGOTE_FD, z->packet, sizeof z->packet, r.fds, &r.n_fds, &err);
    if (n < 0 && err.sys_errno == EAGAIN)
        return true;
    /* The agent checked the packet; what does not fit here is our own mistake. */
    if (n < (ssize_t)(sizeof(box_agent_header) + sizeof r.start) || r.n_fds < 4)
        return false;
    memcpy(&r.start, z->packet + sizeof(box_agent_header), sizeof r.start);
    uint32_t slot = r.start.reserved[0];
    if (slot >= BOX_AGENT_MAX_STARTING || r.start.reserved[1] + 4 > r.n_fds)
        return false;
    r.slot = &z->config->slots[slot];
    bool answer = get_text(&r, z->packet) < 0 || get_pointers(z, &r) < 0 || fill_journals(&r) < 0 ||
                  start_command(z, &r);
    request_done(&r);
    return !answer || note(slot) == 0;
}

/* A preference, not a protection: memory that runs out should hit a command (they inherit it) and
 * never anything outside the sandbox. Where /proc cannot be written the kernel's own choice
 * stands. */
static void prefer_as_victim(void)
{
    box_error err;
    if (box_fd_write_file(AT_FDCWD, "/proc/self/oom_score_adj", "500", &err) < 0)
        err = (box_error){0};
}

static int enter_box(const box_zygote_config *config, size_t entered, box_error *err)
{
    for (size_t i = entered; i < config->n_box_procs; i++) {
        if (write(config->box_procs[i], "0", 1) != 1)
            return box_fail_errno(err, "enter the sandbox's control group");
    }
    return 0;
}

static int become_zygote(const box_zygote_config *config, size_t entered, int socket,
                         box_error *err)
{
    sigset_t none;
    (void)sigemptyset(&none);
    (void)prctl(PR_SET_NAME, "box-zygote", 0, 0, 0); /* for people who look */
    prefer_as_victim();
    if (enter_box(config, entered, err) < 0 ||
        box_privilege_prepare_commands(config->one_user, config->max_processes, err) < 0)
        return -1;
    if (dup3(socket, ZYGOTE_FD, O_CLOEXEC) < 0)
        return box_fail_errno(err, "take the zygote's socket");
    box_privilege_close_from(ZYGOTE_FD + 1);
    (void)umask(022);
    /* Commands inherit dispositions and mask: the default ones. Nobody inside may signal us. */
    for (int signo = 1; signo < NSIG; signo++)
        (void)signal(signo, SIG_DFL); /* KILL and STOP refuse, rightly */
    if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
        return box_fail_errno(err, "clear the signal mask");
    if (config->filter_count > 0)
        return box_privilege_load_filter(config->filter, config->filter_count, err);
    return 0;
}

static _Noreturn void zygote_main(const box_zygote_config *config, size_t entered, int socket)
{
    static const size_t stack_bytes = BOX_SPAWN_STACK_BYTES;
    box_error err;
    zygote *z = mmap(NULL, sizeof *z, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *stack = mmap(NULL, stack_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (z == MAP_FAILED || stack == MAP_FAILED)
        _exit(1); /* the agent sees it end before it was ready */
    if (become_zygote(config, entered, socket, &err) < 0) {
        (void)dprintf(STDERR_FILENO, "box-agent: zygote: %s\n", err.msg);
        _exit(1);
    }
    z->config = config;
    z->stack = stack;
    if (note(BOX_ZYGOTE_READY) < 0)
        _exit(1);
    struct pollfd p = {.fd = ZYGOTE_FD, .events = POLLIN};
    for (;;) {
        int n = poll(&p, 1, -1);
        if (n < 0 && errno != EINTR)
            _exit(1);
        if (n > 0 && !serve_one(z))
            _exit(0);
    }
}

pid_t box_zygote_fork_inside(int cgroup, size_t n_box_procs, size_t *entered)
{
    BOX_AUTO(box_closep)
    int box = cgroup < 0 || n_box_procs == 0
                  ? -1
                  : openat(cgroup, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct clone_args args = {
        .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)box};
    pid_t pid = box < 0 ? -1 : (pid_t)syscall(SYS_clone3, &args, sizeof args);
    *entered = pid >= 0 ? 1 : 0;
    return pid >= 0 ? pid : fork();
}

int box_zygote_fork(const box_zygote_config *config, int *pid, int *socket, box_error *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return box_fail_errno(err, "make the zygote's socket");
    BOX_AUTO(box_closep) int ours = ends[0];
    BOX_AUTO(box_closep) int theirs = ends[1];
    size_t entered;
    pid_t child = box_zygote_fork_inside(config->cgroup, config->n_box_procs, &entered);
    if (child < 0)
        return box_fail_errno(err, "fork the zygote");
    if (child == 0)
        zygote_main(config, entered, theirs);
    *pid = child;
    *socket = box_take_fd(&ours);
    return 0;
}
