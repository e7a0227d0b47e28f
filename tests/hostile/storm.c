/* Runs inside a sandbox: sends a signal to everybody for ten seconds, itself excepted (kill(2),
 * -1). */
#include <signal.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv)
{
    int signo = argc > 1 ? atoi(argv[1]) : 0;
    time_t end = time(NULL) + 10;
    while (time(NULL) < end)
        kill(-1, signo);
    return 0;
}
