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

/* What a vfork child is given; on the parent's stack, which waits. */
typedef struct child_args {
    const box_spawn *spawn;
    box_slot *slot;
} child_args;

static const char default_path[] = "/usr/local/bin:/usr/bin:/bin";

/* --- in the child: system calls only, nothing that locks or allocates ------------------------- */

static _Noreturn void give_up(box_slot *slot, box_start_step step, const char *name)
{
    box_slot_fail(slot, step, errno, name);
    _exit(127);
}

/* Identity by raw system calls: the library's setresuid talks to all threads of the process, and
 * in a raw clone child that can hang (sandbox-facts.md, section 1). */
static void become_user(const box_spawn *s, box_slot *slot)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    if (syscall(SYS_setresgid, s->gid, s->gid, s->gid) < 0 ||
        syscall(SYS_setresuid, s->uid, s->uid, s->uid) < 0 ||
        syscall(SYS_capset, &header, none) < 0)
        give_up(slot, BOX_STEP_SETUP, NULL);
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

_Noreturn void box_spawn_become(const box_spawn *s, box_slot *slot)
{
    for (size_t i = 0; i < s->n_entries; i++) {
        if (write(s->entries[i], "0", 1) != 1)
            give_up(slot, BOX_STEP_CGROUP, NULL);
    }
    for (int i = 0; i < 3; i++) {
        if (dup2(s->fds[i], i) < 0)
            give_up(slot, BOX_STEP_SETUP, NULL);
    }
    if (s->terminal && ioctl(0, TIOCSCTTY, 0) < 0)
        give_up(slot, BOX_STEP_SETUP, NULL);
    /* Everything is close-on-exec from birth; this is the second lock, where it exists (5.9). */
    (void)syscall(SYS_close_range, 3u, ~0u, 0u);
    become_user(s, slot);
    if (chdir(s->workdir) < 0)
        give_up(slot, BOX_STEP_WORKDIR, s->workdir);
    if (strchr(s->argv[0], '/') != NULL)
        (void)execve(s->argv[0], s->argv, s->env);
    else
        exec_by_path(s);
    give_up(slot, BOX_STEP_EXEC, s->argv[0]);
}

static int child_main(void *arg)
{
    const child_args *a = arg;
    if (setsid() < 0)
        give_up(a->slot, BOX_STEP_SETUP, NULL);
    box_spawn_become(a->spawn, a->slot);
}

/* Ends before anything was asked of it: the agent sees that. */
static int waiter_main(void *arg)
{
    const box_spawn_waiter *w = arg;
    if (setsid() >= 0)
        w->run(w->arg);
    _exit(127);
}

/* Where it could not be cloned into its cgroup. */
static int mover_main(void *arg)
{
    const box_spawn_waiter *w = arg;
    int fd = openat(w->cgroup, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "0", 1) != 1)
        _exit(127);
    (void)close(fd); /* close_range takes it otherwise */
    return waiter_main(arg);
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

/* Where clone3 does not exist (ENOSYS: a seccomp profile of the engine, another processor). */
static long clone_old(const struct clone_args *args, int (*child)(void *), void *arg)
{
    char *stack = (char *)(uintptr_t)args->stack + args->stack_size;
    long pid = clone(child, stack, (int)(args->flags | SIGCHLD), arg,
                     (void *)(uintptr_t)args->parent_tid, NULL, (void *)(uintptr_t)args->child_tid);
    return pid < 0 ? -errno : pid;
}

void box_spawn_run(const box_spawn *s, void *stack, box_slot *slot)
{
    child_args child = {.spawn = s, .slot = slot};
    struct clone_args args = {
        .flags = CLONE_VM | CLONE_VFORK | CLONE_PARENT_SETTID,
        .exit_signal = SIGCHLD,
        .parent_tid = address(&slot->pid),
        .stack = address(stack),
        .stack_size = BOX_SPAWN_STACK_BYTES,
    };
    long pid = clone3_call(&args, child_main, &child);
    if (pid == -ENOSYS)
        pid = clone_old(&args, child_main, &child);
    if (pid < 0)
        box_slot_fail(slot, BOX_STEP_CLONE, (int)-pid, NULL);
}

int box_spawn_wait(const box_spawn_waiter *w)
{
    void *arg = (void *)(uintptr_t)w; /* only read */
    struct clone_args args = {
        /* With CLONE_PARENT the exit signal is ours, SIGCHLD (clone(2)). */
        .flags = CLONE_VM | CLONE_PARENT | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID,
        .parent_tid = address(w->pid),
        .child_tid = address(w->waits),
        .stack = address(w->stack),
        .stack_size = BOX_SPAWN_STACK_BYTES,
    };
    struct clone_args into = args;
    into.flags |= CLONE_INTO_CGROUP;
    into.cgroup = (uint64_t)w->cgroup;
    long pid = clone3_call(&into, waiter_main, arg);
    if (pid == -ENOSYS)
        pid = clone_old(&args, mover_main, arg);
    return pid < 0 ? (int)-pid : 0;
}
