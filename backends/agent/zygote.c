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
    ORDERS_FD = 3,
    STARTS_FD = 4,
    /* three streams, the text, groups to enter, two journals, the subreaper's socket */
    MAX_FDS = 7 + BOX_AGENT_LIMIT_DIRS,
    INLINE_POINTERS = 512, /* argv and env of an ordinary command need no mapping */
    REST = 2,              /* receive_start's */
};

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

/* Shared with the child that waits, so only one of the two may use what follows `waiter` at a time:
 * the zygote until the child is made, and when it is gone. */
typedef struct zygote {
    const box_zygote_config *config;
    void *stack;
    box_spawn_waiter waiter;
    request request; /* of the child; its descriptors are the child's alone */
    char *pointers[INLINE_POINTERS];
    uint8_t packet[BOX_AGENT_PACKET_BYTES];
} zygote;

static void request_init(request *r)
{
    *r = (request){.n_fds = MAX_FDS, .text_map = MAP_FAILED, .pointers_map = MAP_FAILED};
}

static void request_unmap(request *r)
{
    if (r->text_map != MAP_FAILED)
        (void)munmap(r->text_map, r->text.len); /* ours, whole */
    if (r->pointers_map != MAP_FAILED)
        (void)munmap(r->pointers_map, r->pointers_size); /* ours, whole */
}

static void request_done(request *r)
{
    for (size_t i = 0; i < r->n_fds; i++)
        box_closep(&r->fds[i]);
    request_unmap(r);
}

static int note(uint32_t slot)
{
    box_zygote_note n = {.slot = slot};
    box_error err;
    return box_fd_send(ORDERS_FD, &n, sizeof n, NULL, 0, &err);
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

static size_t n_entries(const request *r)
{
    return r->start.reserved[1] / BOX_START_ENTRY;
}

static size_t n_journals(const request *r)
{
    return r->start.reserved[1] % BOX_START_ENTRY;
}

/* Where the journals end. */
static size_t end_of(const zygote *z, const request *r)
{
    return r->n_fds - (z->config->reapers ? 1 : 0);
}

/* A START from that socket. 1: it is there; 0: nothing is; REST instead of one; -1: the agent is
 * gone, or made a mistake (it checked the packet). The slot is valid. */
static int receive_start(zygote *z, int socket, request *r)
{
    box_error err;
    request_init(r);
    ssize_t n = box_fd_receive(socket, z->packet, sizeof z->packet, r->fds, &r->n_fds, &err);
    if (n < 0 && err.sys_errno == EAGAIN)
        return 0;
    if (n == sizeof(box_zygote_note))
        return REST;
    if (n < (ssize_t)(sizeof(box_agent_header) + sizeof r->start) || r->n_fds < 3)
        return -1;
    memcpy(&r->start, z->packet + sizeof(box_agent_header), sizeof r->start);
    uint32_t slot = r->start.reserved[0];
    if (slot >= BOX_AGENT_MAX_STARTING || n_entries(r) + n_journals(r) + 3 > r->n_fds)
        return -1;
    r->slot = &z->config->slots[slot];
    return 1;
}

/* -1 with the slot failed: the sandbox has no memory for them. */
static int fill_journals(const zygote *z, request *r)
{
    size_t end = end_of(z, r);
    for (size_t i = end - n_journals(r); i < end; i++) {
        if (box_journal_fill(r->fds[i]) == 0)
            continue;
        box_slot_fail(r->slot, BOX_STEP_MEMORY, ENOMEM, NULL);
        return -1;
    }
    return 0;
}

/* What the command is to be. -1 with the slot failed. */
static int get_program(zygote *z, request *r, box_spawn *out)
{
    if (get_text(r, z->packet) < 0 || get_pointers(z, r) < 0 || fill_journals(z, r) < 0)
        return -1;
    *out = (box_spawn){.uid = z->config->uid,
                       .gid = z->config->gid,
                       .fds = {r->fds[0], r->fds[1], r->fds[2]},
                       .entries = r->fds + end_of(z, r) - n_journals(r) - n_entries(r),
                       .n_entries = n_entries(r),
                       .terminal = (r->start.flags & BOX_START_TERMINAL) != 0,
                       .argv = r->pointers,
                       .env = r->pointers + r->start.argc + 1};
    box_agent_text_split(&r->start, r->text, out->argv, out->env, &out->workdir);
    return 0;
}

/* --- with cgroup2: a child that waits --------------------------------------------------------- */

/* In the child. */
static void wait_for_start(void *arg)
{
    zygote *z = arg;
    request *r = &z->request;
    box_spawn spawn;
    struct pollfd p = {.fd = STARTS_FD, .events = POLLIN};
    int got;
    do {
        (void)poll(&p, 1, -1); /* interrupted: look again */
        got = receive_start(z, STARTS_FD, r);
    } while (got == 0);
    if (got == REST)
        _exit(BOX_STANDBY_RESTED);
    if (got < 0)
        _exit(127);
    atomic_store(&r->slot->pid, atomic_load(z->waiter.pid));
    if (get_program(z, r, &spawn) < 0)
        _exit(127);
    box_spawn_become(&spawn, r->slot);
}

/* No child for what was ordered: the START that waits for it fails. */
static bool fail_start(zygote *z, int sys_errno)
{
    request r;
    int got;
    while ((got = receive_start(z, STARTS_FD, &r)) == REST)
        continue; /* whom it was for is gone */
    if (got <= 0)
        return got == 0 && note(BOX_ZYGOTE_UNBORN) == 0;
    box_slot_fail(r.slot, BOX_STEP_CLONE, sys_errno, NULL);
    request_done(&r);
    return note(r.start.reserved[0]) == 0;
}

/* false: the agent is gone. */
static bool serve_order(zygote *z)
{
    box_zygote_order order;
    int cgroup = -1;
    size_t n_fds = 1;
    box_error err;
    ssize_t n = box_fd_receive(ORDERS_FD, &order, sizeof order, &cgroup, &n_fds, &err);
    if (n < 0 && err.sys_errno == EAGAIN)
        return true;
    if (n != sizeof order || n_fds != 1 || order.place >= BOX_STANDBYS)
        return false;
    box_standby *standby = &z->config->standbys[order.place];
    request_unmap(&z->request); /* of the child before, which is gone */
    request_init(&z->request);
    z->waiter = (box_spawn_waiter){.cgroup = cgroup,
                                   .stack = z->stack,
                                   .pid = &standby->pid,
                                   .waits = &standby->waits,
                                   .run = wait_for_start,
                                   .arg = z};
    int rc = box_spawn_wait(&z->waiter);
    box_closep(&cgroup);
    return rc == 0 || fail_start(z, rc);
}

/* --- without: a subreaper for each ------------------------------------------------------------ */

/* Returns whether this process is to answer (else the new subreaper does). */
static bool start_with_reaper(zygote *z, request *r)
{
    box_spawn spawn;
    int socket = r->fds[r->n_fds - 1];
    if (get_program(z, r, &spawn) < 0)
        return true;
    long pid = fork_reaper(r->slot);
    if (pid != 0)
        return pid < 0;
    r->n_fds--; /* its socket is not closed with the rest */
    box_reaper_begin(&spawn, z->stack, r->slot);
    bool failed = atomic_load(&r->slot->step) != BOX_STEP_NONE;
    int main_pid = atomic_load(&r->slot->pid);
    request_done(r);
    if (note(r->start.reserved[0]) < 0 || failed)
        _exit(1); /* the agent is gone; or there is nothing to look after */
    (void)close(ORDERS_FD);
    box_reaper_run(socket, main_pid);
}

/* false: the agent is gone. */
static bool serve_start(zygote *z)
{
    request r;
    int got = receive_start(z, ORDERS_FD, &r);
    if (got <= 0)
        return got == 0;
    bool answer = start_with_reaper(z, &r);
    request_done(&r);
    return !answer || note(r.start.reserved[0]) == 0;
}

/* --- becoming it ------------------------------------------------------------------------------ */

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

/* Both go to where nothing else is: the numbers may be each other's. */
static int place(int orders, int starts, box_error *err)
{
    enum { ASIDE = 16 };
    int o = fcntl(orders, F_DUPFD_CLOEXEC, ASIDE);
    int s = starts < 0 ? -1 : fcntl(starts, F_DUPFD_CLOEXEC, ASIDE);
    if (o < 0 || dup3(o, ORDERS_FD, O_CLOEXEC) < 0 ||
        (starts >= 0 && (s < 0 || dup3(s, STARTS_FD, O_CLOEXEC) < 0)))
        return box_fail_errno(err, "take the zygote's sockets");
    box_privilege_close_from(starts < 0 ? STARTS_FD : STARTS_FD + 1);
    return 0;
}

static int become_zygote(const box_zygote_config *config, size_t entered, int orders, int starts,
                         box_error *err)
{
    sigset_t none;
    (void)sigemptyset(&none);
    (void)prctl(PR_SET_NAME, "box-zygote", 0, 0, 0); /* for people who look */
    prefer_as_victim();
    if (enter_box(config, entered, err) < 0 ||
        box_privilege_prepare_commands(config->one_user, config->max_processes, err) < 0)
        return -1;
    if (place(orders, starts, err) < 0)
        return -1;
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

static _Noreturn void zygote_main(const box_zygote_config *config, size_t entered, int orders,
                                  int starts)
{
    static const size_t stack_bytes = BOX_SPAWN_STACK_BYTES;
    box_error err;
    zygote *z = mmap(NULL, sizeof *z, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *stack = mmap(NULL, stack_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (z == MAP_FAILED || stack == MAP_FAILED)
        _exit(1); /* the agent sees it end before it was ready */
    if (become_zygote(config, entered, orders, starts, &err) < 0) {
        (void)dprintf(STDERR_FILENO, "box-agent: zygote: %s\n", err.msg);
        _exit(1);
    }
    z->config = config;
    z->stack = stack;
    request_init(&z->request);
    if (note(BOX_ZYGOTE_READY) < 0)
        _exit(1);
    struct pollfd p = {.fd = ORDERS_FD, .events = POLLIN};
    for (;;) {
        int n = poll(&p, 1, -1);
        if (n < 0 && errno != EINTR)
            _exit(1);
        if (n > 0 && !(config->reapers ? serve_start(z) : serve_order(z)))
            _exit(0);
    }
}

pid_t box_zygote_fork_inside(int cgroup, int inner, size_t n_box_procs, size_t *entered)
{
    BOX_AUTO(box_closep)
    int box = cgroup < 0 || n_box_procs == 0
                  ? -1
                  : openat(inner >= 0 ? inner : cgroup, inner >= 0 ? "." : "..",
                           O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct clone_args args = {
        .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)box};
    pid_t pid = box < 0 ? -1 : (pid_t)syscall(SYS_clone3, &args, sizeof args);
    *entered = pid >= 0 ? 1 : 0;
    return pid >= 0 ? pid : fork();
}

int box_zygote_fork(const box_zygote_config *config, box_zygote *out, box_error *err)
{
    int orders[2] = {-1, -1};
    int starts[2] = {-1, -1};
    int rc = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, orders);
    if (rc == 0 && !config->reapers)
        rc = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, starts);
    BOX_AUTO(box_closep) int our_orders = orders[0];
    BOX_AUTO(box_closep) int their_orders = orders[1];
    BOX_AUTO(box_closep) int our_starts = starts[0];
    BOX_AUTO(box_closep) int their_starts = starts[1];
    if (rc < 0)
        return box_fail_errno(err, "make the zygote's sockets");
    size_t entered;
    pid_t child =
        box_zygote_fork_inside(config->cgroup, config->inner, config->n_box_procs, &entered);
    if (child < 0)
        return box_fail_errno(err, "fork the zygote");
    if (child == 0)
        zygote_main(config, entered, their_orders, their_starts);
    *out = (box_zygote){
        .pid = child, .orders = box_take_fd(&our_orders), .starts = box_take_fd(&our_starts)};
    return 0;
}
