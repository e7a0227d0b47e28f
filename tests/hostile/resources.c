/* Compiled and run inside a sandbox, and on the host beside it: takes as much as it gets of
 * something that a kernel counts for a whole user or machine, prints "COUNT ERRNO" and holds it
 * until stdin ends. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 200000 };

static int take_inotify(int i)
{
    (void)i;
    return inotify_init1(IN_CLOEXEC);
}

static int take_timer(int i)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    (void)i;
    return timer_create(CLOCK_MONOTONIC, &event, &timer);
}

static int take_queue(int i)
{
    char name[32];
    struct mq_attr attr = {.mq_maxmsg = 10, .mq_msgsize = 8192};
    snprintf(name, sizeof name, "/hostile-%d-%d", (int)getpid(), i);
    mqd_t queue = mq_open(name, O_CREAT | O_RDWR, 0600, &attr);
    int saved = errno;
    mq_unlink(name); /* it counts as long as it is open */
    errno = saved;
    return queue == (mqd_t)-1 ? -1 : 0;
}

static int take_aio(int i)
{
    unsigned long context = 0;
    (void)i;
    return (int)syscall(SYS_io_setup, 1024, &context);
}

static int take_terminal(int i)
{
    (void)i;
    return open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*take)(int i);
    } kinds[] = {{"inotify", take_inotify},
                 {"timer", take_timer},
                 {"queue", take_queue},
                 {"aio", take_aio},
                 {"terminal", take_terminal}};
    for (size_t k = 0; argc > 1 && k < sizeof kinds / sizeof *kinds; k++) {
        if (strcmp(argv[1], kinds[k].name) != 0)
            continue;
        int count = 0;
        while (count < MOST && kinds[k].take(count) >= 0)
            count++;
        printf("%d %d\n", count, errno);
        fflush(stdout);
        char byte;
        (void)!read(0, &byte, 1);
        return 0;
    }
    return 2;
}
