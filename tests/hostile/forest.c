/* Runs inside a sandbox: forest COUNT grows about that many processes that do all they can not to
 * be found or ended - every signal ignored, orphans, sessions of their own, stopped, blocked in a
 * read, a name that lies - then prints "ready" and waits. With "grow" behind it, they go on
 * forking. Processes of one branch share its memory: ten thousand copies would test the kernel's.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BRANCHES = 50, STACK = 4096, KINDS = 5 };

static _Atomic int *grown;
static int grow;

/* System calls only: the memory, the library's locks included, is everybody's. */
static int live(void *arg)
{
    long kind = (long)arg % KINDS;
    char byte;
    int ends[2];
    ++*grown;
    if (kind == 1)
        syscall(SYS_setsid);
    if (kind == 2)
        syscall(SYS_kill, syscall(SYS_getpid), SIGSTOP);
    if (kind == 3 && syscall(SYS_pipe2, ends, 0) == 0)
        syscall(SYS_read, ends[0], &byte, 1);
    if (kind == 4)
        syscall(SYS_prctl, PR_SET_NAME, "x) R 1 (", 0, 0, 0);
    while (grow)
        syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    for (;;)
        syscall(SYS_pause);
}

/* Half of the branches end once they have grown, so that theirs are orphans. */
static void branch(int number, int count)
{
    char *stacks = mmap(NULL, (size_t)count * STACK, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stacks == MAP_FAILED)
        _exit(1);
    for (long i = 0; i < count; i++)
        clone(live, stacks + (i + 1) * STACK, CLONE_VM | SIGCHLD, (void *)i);
    if (number % 2 == 0)
        _exit(0);
    live(NULL);
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) / BRANCHES : 0;
    grow = argc > 2 && strcmp(argv[2], "grow") == 0;
    grown = mmap(NULL, sizeof *grown, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (grown == MAP_FAILED)
        return 1;
    for (int i = 1; i < NSIG; i++)
        signal(i, SIG_IGN);
    for (int i = 0; i < BRANCHES; i++) {
        if (fork() == 0)
            branch(i, count);
    }
    while (*grown < count * BRANCHES && !grow)
        usleep(1000);
    printf("ready\n");
    fflush(stdout);
    for (;;)
        pause();
}
