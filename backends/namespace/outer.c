#include "namespace/outer.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/limits.h"
#include "namespace/proc.h"
#include "namespace/subid.h"
#include "warden/uids.h"

enum {
    IDS_EACH = 3,       /* of a sandbox: 0, 1000, 65534 */
    MAX_IDS = 1 << 20,  /* more than sandboxes can use */
    MAKER_SECONDS = 30, /* making all of it takes some milliseconds */
};

struct box_outer {
    int user_ns;
    int mount_ns;
    uint32_t count; /* ids besides the user's own, which is 0; 0 = none */
};

typedef struct ranges {
    box_subid_range uids;
    box_subid_range gids;
} ranges;

/* --- the child that makes it ------------------------------------------------------------------ */

static int send_fd(int socket, int fd, box_error *err)
{
    return box_fd_send(socket, "f", 1, &fd, 1, err);
}

static int send_namespaces(int socket, box_error *err)
{
    BOX_AUTO(box_closep) int user = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
    BOX_AUTO(box_closep) int mounts = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (user < 0 || mounts < 0)
        return box_fail_errno(err, "open the namespaces");
    return send_fd(socket, user, err) < 0 ? -1 : send_fd(socket, mounts, err);
}

/* Says "u" when it has its user namespace, waits for the maps, then sends what it made. */
static int make(int socket, const char *template_dir, box_error *err)
{
    char byte;
    if (unshare(CLONE_NEWUSER) < 0) {
        (void)box_fail_errno(err, "make a user namespace");
        (void)box_wrap(err, "user namespaces are switched off for ordinary users (sysctl "
                            "user.max_user_namespaces, AppArmor, a seccomp profile); as root "
                            "there is another way"); /* always -1 */
        err->reason = BOX_BACKEND_UNAVAILABLE;
        return -1;
    }
    if (write(socket, "u", 1) != 1 || read(socket, &byte, 1) != 1)
        return box_fail(err, BOX_INTERNAL, "the warden ended");
    box_template *t; /* closing it would take its mounts away */
    if (box_template_open(template_dir, &t, err) < 0)
        return -1;
    return send_namespaces(socket, err) < 0 ? -1 : box_template_send(t, socket, err);
}

BOX_NORETURN static void maker_main(int socket, const char *template_dir)
{
    box_error err = {0};
    box_error unsent;
    if (make(socket, template_dir, &err) < 0)
        (void)!box_fd_send(socket, &err, sizeof err, NULL, 0, &unsent);
    _exit(0);
}

/* --- maps ------------------------------------------------------------------------------------- */

static int write_map(pid_t pid, const char *file, const char *text, box_error *err)
{
    char path[48];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    return box_fd_write_file(AT_FDCWD, path, text, err);
}

/* All that the kernel lets an ordinary user do: its own id, and no change of groups. */
static int map_one(pid_t pid, box_error *err)
{
    char uids[32];
    char gids[32];
    (void)snprintf(uids, sizeof uids, "0 %u 1", (unsigned)geteuid());
    (void)snprintf(gids, sizeof gids, "0 %u 1", (unsigned)getegid());
    if (write_map(pid, "setgroups", "deny", err) < 0 || write_map(pid, "uid_map", uids, err) < 0 ||
        write_map(pid, "gid_map", gids, err) < 0)
        return box_wrap(err, "id maps");
    return 0;
}

/* newuidmap PID 0 OWN 1 1 FIRST COUNT */
static bool run_map(const char *program, pid_t pid, unsigned own, box_subid_range r)
{
    char text[4][16];
    const unsigned numbers[] = {(unsigned)pid, own, r.first, r.count};
    for (size_t i = 0; i < BOX_COUNT(numbers); i++)
        (void)snprintf(text[i], sizeof text[i], "%u", numbers[i]);
    char *argv[] = {(char *)(uintptr_t)program,
                    text[0],
                    (char[]){"0"},
                    text[1],
                    (char[]){"1"},
                    (char[]){"1"},
                    text[2],
                    text[3],
                    NULL};
    char *env[] = {NULL};
    pid_t child;
    int status;
    posix_spawn_file_actions_t quiet;
    if (posix_spawn_file_actions_init(&quiet) != 0)
        return false;
    bool ok =
        posix_spawn_file_actions_addopen(&quiet, STDERR_FILENO, "/dev/null", O_WRONLY, 0) == 0 &&
        posix_spawn(&child, program, &quiet, NULL, argv, env) == 0 &&
        waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    (void)posix_spawn_file_actions_destroy(&quiet);
    return ok;
}

static bool find_ranges(ranges *r)
{
    if (!box_subid_find("/etc/subuid", &r->uids) || !box_subid_find("/etc/subgid", &r->gids))
        return false;
    uint32_t count = r->uids.count < r->gids.count ? r->uids.count : r->gids.count;
    r->uids.count = r->gids.count = count < MAX_IDS ? count : MAX_IDS;
    return count >= IDS_EACH;
}

static bool map_many(pid_t pid, const ranges *r)
{
    return run_map("/usr/bin/newuidmap", pid, (unsigned)geteuid(), r->uids) &&
           run_map("/usr/bin/newgidmap", pid, (unsigned)getegid(), r->gids);
}

/* --- the warden ------------------------------------------------------------------------------- */

/* What the maker sends next: a descriptor, or why there is none. */
static int receive_fd(int socket, int *out, box_error *err)
{
    box_error said;
    size_t n_fds = 1;
    if (!box_proc_wait(socket, MAKER_SECONDS * 1000))
        return box_fail(err, BOX_DEADLINE, "the user namespace is not ready");
    ssize_t n = box_fd_receive(socket, &said, sizeof said, out, &n_fds, err);
    if (n < 0)
        return -1;
    if (n == (ssize_t)sizeof said) {
        box_error_sanitize(&said);
        *err = said;
        return -1;
    }
    return n == 1 && n_fds == 1 ? 0 : box_fail(err, BOX_INTERNAL, "the maker says something odd");
}

static int await_user(int socket, box_error *err)
{
    box_error said;
    size_t n_fds = 0;
    if (!box_proc_wait(socket, MAKER_SECONDS * 1000))
        return box_fail(err, BOX_DEADLINE, "the user namespace is not ready");
    ssize_t n = box_fd_receive(socket, &said, sizeof said, NULL, &n_fds, err);
    if (n == 1)
        return 0;
    if (n == (ssize_t)sizeof said) {
        box_error_sanitize(&said);
        *err = said;
        return -1;
    }
    return n < 0 ? -1 : box_fail(err, BOX_INTERNAL, "the maker ended");
}

/* many NULL: one id. -1 with `many`: it is to be tried with one. */
static int finish(box_outer *o, pid_t maker, int socket, const ranges *many,
                  box_template **template, box_error *err)
{
    if (await_user(socket, err) < 0)
        return -1;
    if (many != NULL && !map_many(maker, many))
        return box_fail(err, BOX_PERMISSION, "newuidmap or newgidmap did not work");
    if (many == NULL && map_one(maker, err) < 0)
        return -1;
    o->count = many != NULL ? many->uids.count : 0;
    if (write(socket, "g", 1) != 1)
        return box_fail_errno(err, "go on with the user namespace");
    if (receive_fd(socket, &o->user_ns, err) < 0 || receive_fd(socket, &o->mount_ns, err) < 0)
        return -1;
    return box_template_receive(socket, receive_fd, template, err);
}

static int open_with(box_outer *o, const ranges *many, const char *template_dir,
                     box_template **template, box_error *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return box_fail_errno(err, "make a socket pair");
    BOX_AUTO(box_closep) int ours = pair[0];
    BOX_AUTO(box_closep) int theirs = pair[1];
    pid_t maker = fork();
    if (maker == 0) {
        (void)close(ours);
        maker_main(theirs, template_dir);
    }
    if (maker < 0)
        return box_fail_errno(err, "start a process");
    box_closep(&theirs);
    int rc = finish(o, maker, ours, many, template, err);
    if (rc < 0)
        (void)kill(maker, SIGKILL); /* ours and not reaped */
    (void)waitpid(maker, NULL, 0);
    return rc;
}

static void closep(box_outer **o)
{
    box_outer_close(*o);
}

int box_outer_open(const char *template_dir, box_outer **out, box_template **template,
                   box_error *err)
{
    BOX_AUTO(closep) box_outer *o = box_alloc(sizeof *o);
    *o = (box_outer){.user_ns = -1, .mount_ns = -1};
    ranges many;
    box_error not_many;
    bool done = find_ranges(&many) && open_with(o, &many, template_dir, template, &not_many) == 0;
    if (!done) {
        box_closep(&o->user_ns);
        box_closep(&o->mount_ns);
        if (open_with(o, NULL, template_dir, template, err) < 0)
            return -1;
    }
    *out = box_take(o);
    return 0;
}

void box_outer_close(box_outer *o)
{
    if (o == NULL)
        return;
    box_closep(&o->user_ns);
    box_closep(&o->mount_ns);
    free(o);
}

box_ids box_outer_ids(const box_outer *o)
{
    return o->count >= IDS_EACH ? BOX_IDS_THREE : BOX_IDS_ONE;
}

uint32_t box_outer_base(const box_outer *o, uint32_t uid_base)
{
    uint32_t rooms = o->count / IDS_EACH;
    return rooms == 0 ? 0 : 1 + (uid_base - BOX_UIDS_FIRST) / BOX_UIDS_BLOCK % rooms * IDS_EACH;
}

int box_outer_enter(const box_outer *o, box_error *err)
{
    /* Entering forgets the signal that the warden's death is to bring (prctl(2)). */
    int signo = 0;
    pid_t parent = getppid();
    if (prctl(PR_GET_PDEATHSIG, &signo) < 0 || setns(o->user_ns, CLONE_NEWUSER) < 0 ||
        setns(o->mount_ns, CLONE_NEWNS) < 0)
        return box_fail_errno(err, "enter the warden's user namespace");
    if (prctl(PR_SET_PDEATHSIG, signo) < 0)
        return box_fail_errno(err, "die with the warden");
    if (signo != 0 && getppid() != parent)
        return box_fail(err, BOX_SHUTTING_DOWN, "the warden ended");
    return 0;
}
