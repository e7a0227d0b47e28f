#include "agent/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What the child is given; on the parent's stack, which waits. */
typedef struct child_args {
    const box_spawn *spawn;
    box_slot *slot;
    int cgroup; /* >= 0: not cloned into it, moves itself */
} child_args;

static const char default_path[] = "/usr/local/bin:/usr/bin:/bin";

/* --- in the child: system calls only, nothing that locks or allocates ------------------------- */

static _Noreturn void give_up(const child_args *a, box_start_step step, const char *name)
{
    box_slot_fail(a->slot, step, errno, name);
    _exit(127);
}

static void enter_cgroup(const child_args *a)
{
    int fd = openat(a->cgroup, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "0", 1) != 1)
        give_up(a, BOX_STEP_CGROUP, NULL);
    (void)close(fd); /* close_range takes it otherwise */
}

/* Identity by raw system calls: the library's setresuid talks to all threads of the process, and
 * in a raw clone child that can hang (sandbox-facts.md, section 1). */
static void become_user(const child_args *a)
{
    const box_spawn *s = a->spawn;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    if (syscall(SYS_setresgid, s->gid, s->gid, s->gid) < 0 ||
        syscall(SYS_setresuid, s->uid, s->uid, s->uid) < 0 ||
        syscall(SYS_capset, &header, none) < 0)
        give_up(a, BOX_STEP_SETUP, NULL);
}

static const char *find_path(char **env)
{
    for (; *env != NULL; env++) {
        if (strncmp(*env, "PATH=", 5) == 0)
            return *env + 5;
    }
    return default_path;
}

/* execvpe(3) with the command's own PATH, and without its fallback to a shell on ENOEXEC. Returns
 * only on failure, with errno. */
static void exec_by_path(const box_spawn *s)
{
    char file[PATH_MAX];
    const char *name = s->argv[0];
    size_t name_size = strlen(name) + 1;
    bool denied = false;
    const char *at = find_path(s->env);
    for (;;) {
        size_t len = strcspn(at, ":");
        if (len + 1 + name_size <= sizeof file) {
            memcpy(file, at, len);
            file[len] = '/';
            /* An empty entry is the current directory (execvp(3)). */
            memcpy(file + len + (len > 0 ? 1 : 0), name, name_size);
            (void)execve(file, s->argv, s->env);
            denied |= errno == EACCES;
            if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
                return;
        }
        if (at[len] == '\0')
            break;
        at += len + 1;
    }
    errno = denied ? EACCES : ENOENT;
}

static int child_main(void *arg)
{
    const child_args *a = arg;
    const box_spawn *s = a->spawn;
    if (a->cgroup >= 0)
        enter_cgroup(a);
    if (setsid() < 0)
        give_up(a, BOX_STEP_SETUP, NULL);
    for (int i = 0; i < 3; i++) {
        if (dup2(s->fds[i], i) < 0)
            give_up(a, BOX_STEP_SETUP, NULL);
    }
    if (s->terminal && ioctl(0, TIOCSCTTY, 0) < 0)
        give_up(a, BOX_STEP_SETUP, NULL);
    /* Everything is close-on-exec from birth; this is the second lock, where it exists (5.9). */
    (void)syscall(SYS_close_range, 3u, ~0u, 0u);
    become_user(a);
    if (chdir(s->workdir) < 0)
        give_up(a, BOX_STEP_WORKDIR, s->workdir);
    if (strchr(s->argv[0], '/') != NULL)
        (void)execve(s->argv[0], s->argv, s->env);
    else
        exec_by_path(s);
    give_up(a, BOX_STEP_EXEC, s->argv[0]);
}

/* --- in the parent ---------------------------------------------------------------------------- */

/* clone3 has no wrapper, and a child on a stack of its own cannot return from syscall(): it has to
 * call its function right where the kernel leaves it. Returns the pid or -errno. */
#if defined(__x86_64__)
static long clone3_call(struct clone_args *args, int (*child)(void *), void *arg)
{
    long result;
    register int (*r8)(void *) __asm__("r8") = child;
    register void *r9 __asm__("r9") = arg;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "mov %%r9, %%rdi\n\t"
                     "call *%%r8\n\t"
                     "ud2\n"
                     "1:"
                     : "=a"(result), "+r"(r8), "+r"(r9)
                     : "0"((long)SYS_clone3), "D"(args), "S"(sizeof *args)
                     : "rcx", "r11", "memory");
    return result;
}
#else
static long clone3_call(struct clone_args *args, int (*child)(void *), void *arg)
{
    (void)args;
    (void)child;
    (void)arg;
    return -ENOSYS; /* this processor: clone, and the child moves itself */
}
#endif

static uint64_t address(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

static long clone_new(child_args *a)
{
    const box_spawn *s = a->spawn;
    struct clone_args args = {
        .flags = CLONE_VM | CLONE_VFORK | CLONE_PARENT_SETTID,
        .parent_tid = address(&a->slot->pid),
        .stack = address(s->stack),
        .stack_size = BOX_SPAWN_STACK_BYTES,
    };
    if (s->sibling)
        args.flags |= CLONE_PARENT; /* the exit signal is then ours, SIGCHLD (clone(2)) */
    else
        args.exit_signal = SIGCHLD;
    if (s->cgroup >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)s->cgroup;
    }
    a->cgroup = -1;
    return clone3_call(&args, child_main, a);
}

/* Where clone3 does not exist (ENOSYS: a seccomp profile of the engine, another processor). */
static long clone_old(child_args *a)
{
    const box_spawn *s = a->spawn;
    int flags = CLONE_VM | CLONE_VFORK | CLONE_PARENT_SETTID | SIGCHLD;
    if (s->sibling)
        flags |= CLONE_PARENT;
    a->cgroup = s->cgroup;
    long pid = clone(child_main, (char *)s->stack + BOX_SPAWN_STACK_BYTES, flags, a, &a->slot->pid);
    return pid < 0 ? -errno : pid;
}

void box_spawn_run(const box_spawn *s, box_slot *slot)
{
    child_args args = {.spawn = s, .slot = slot};
    long pid = clone_new(&args);
    if (pid == -ENOSYS)
        pid = clone_old(&args);
    if (pid < 0)
        box_slot_fail(slot, BOX_STEP_CLONE, (int)-pid, NULL);
}
