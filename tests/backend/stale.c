#include "stale.h"

#include <errno.h>
#include <ftw.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEEP = 8, TRIES = 200, PAUSE_MS = 10 };

static void kill_listed(const char *group)
{
    char path[4096];
    long pid;
    (void)snprintf(path, sizeof path, "%s/cgroup.procs", group);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return;
    while (fscanf(f, "%ld", &pid) == 1) {
        if (pid > 0)
            (void)kill((pid_t)pid, SIGKILL);
    }
    (void)fclose(f);
}

static int end_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)at;
    if (type != FTW_DP) {
        (void)unlink(path); /* a group's own files refuse, and go with it */
        return 0;
    }
    kill_listed(path);
    (void)rmdir(path); /* or in the next round */
    return 0;
}

static bool maker_is_gone(const char *path, const char *prefix)
{
    const char *name = strrchr(path, '/') + 1;
    char *end;
    long pid = strtol(name + strlen(prefix) + 1, &end, 10);
    return *end == '.' && pid > 0 && kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

static void sweep_in(const char *folder, const char *prefix)
{
    char pattern[4096];
    glob_t found;
    (void)snprintf(pattern, sizeof pattern, "%s/%s.*.*", folder, prefix);
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *path = found.gl_pathv[i];
        if (!maker_is_gone(path, prefix))
            continue;
        for (int tries = 0; tries < TRIES && access(path, F_OK) == 0; tries++) {
            (void)nftw(path, end_one, DEEP, FTW_DEPTH | FTW_PHYS);
            (void)poll(NULL, 0, tries > 0 ? PAUSE_MS : 0); /* who was killed needs a moment */
        }
    }
    globfree(&found);
}

void test_stale_sweep(const char *folder, const char *prefix)
{
    char line[8192];
    char point[4096];
    char kind[64];
    sweep_in(folder, prefix);
    FILE *mounts = fopen("/proc/mounts", "re");
    while (mounts != NULL && fgets(line, sizeof line, mounts) != NULL) {
        if (sscanf(line, "%*s %4095s %63s", point, kind) == 2 && strncmp(kind, "cgroup", 6) == 0)
            sweep_in(point, prefix);
    }
    if (mounts != NULL)
        (void)fclose(mounts);
}
