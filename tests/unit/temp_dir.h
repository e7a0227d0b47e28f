/* A directory of its own for a test, removed with what is in it (one level). */
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct temp_dir {
    char path[32];
} temp_dir;

static inline void temp_dir_new(temp_dir *t)
{
    (void)snprintf(t->path, sizeof t->path, "/tmp/box-test-XXXXXX");
    if (mkdtemp(t->path) == NULL)
        abort();
}

static inline void temp_dir_remove_path(const char *path)
{
    DIR *dir = opendir(path);
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            (void)unlinkat(dirfd(dir), e->d_name, 0);
    }
    if (dir != NULL)
        (void)closedir(dir);
    (void)rmdir(path);
}

static inline void temp_dir_remove(temp_dir *t)
{
    temp_dir_remove_path(t->path);
}
