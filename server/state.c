#include "state.h"

#include <errno.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

static char *join(const char *directory, const char *name)
{
    size_t size = strlen(directory) + strlen(name) + 2;
    char *path = box_alloc(size);
    (void)snprintf(path, size, "%s/%s", directory, name);
    return path;
}

static int make(const char *path, const char *what, box_error *err)
{
    if (mkdir(path, 0700) == 0 || errno == EEXIST)
        return 0;
    return box_fail_errno(err, "make the %s", what);
}

static int make_temporary(box_state_dir *d, box_error *err)
{
    const char *parent = getenv("TMPDIR");
    d->path = join(parent != NULL && *parent == '/' ? parent : "/tmp", "boxd-XXXXXX");
    if (mkdtemp(d->path) == NULL)
        return box_fail_errno(err, "make a temporary state directory");
    d->temporary = true;
    return 0;
}

int box_state_dir_open(box_state_dir *d, const char *path, bool temporary, box_error *err)
{
    *d = (box_state_dir){0};
    if (temporary) {
        if (make_temporary(d, err) < 0)
            return -1;
    } else {
        d->path = box_strdup(path);
        if (make(d->path, "state directory", err) < 0)
            return -1;
    }
    d->run_path = join(d->path, "run");
    return make(d->run_path, "directory of sockets", err);
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *where)
{
    (void)s;
    (void)kind;
    (void)where;
    return remove(path);
}

void box_state_dir_close(box_state_dir *d)
{
    if (d->temporary)
        (void)nftw(d->path, remove_one, 16,
                   FTW_DEPTH | FTW_PHYS | FTW_MOUNT); /* what cannot go stays in TMPDIR */
    free(d->path);
    free(d->run_path);
    *d = (box_state_dir){0};
}

char *box_state_dir_file(const box_state_dir *d, const char *name)
{
    return join(d->path, name);
}
