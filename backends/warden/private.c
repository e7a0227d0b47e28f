#include "warden/private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/limits.h"
#include "warden/state.h"

static void default_base(char out[64])
{
    if (geteuid() == 0)
        (void)snprintf(out, 64, "/run/box/private");
    else
        (void)snprintf(out, 64, "/tmp/box-private-%u", (unsigned)geteuid());
}

static int open_dir(int parent, const char *name)
{
    return openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* What is in `from` goes to `to`: names are random, so none is there twice. */
static int take_over(int from, int to, box_error *err)
{
    int copy = open_dir(from, ".");
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    if (d == NULL)
        return box_fail_errno(err, "list a state directory");
    int rc = 0;
    for (const struct dirent *e; rc == 0 && (e = readdir(d)) != NULL;) {
        if (e->d_type == DT_REG && renameat(from, e->d_name, to, e->d_name) < 0)
            rc = box_fail_errno(err, "take over a state file");
        else if (e->d_type == DT_DIR && e->d_name[0] != '.')
            (void)unlinkat(from, e->d_name, AT_REMOVEDIR); /* an empty mount point */
    }
    (void)closedir(d); /* only read */
    return rc;
}

/* One directory of the base: left alone while its warden lives. */
static int take_over_one(int base, const char *name, int to, box_error *err)
{
    BOX_AUTO(box_closep) int dir = open_dir(base, name);
    box_error taken;
    if (dir < 0 || box_state_lock(dir, 0, &taken) < 0)
        return 0;
    if (take_over(dir, to, err) < 0)
        return -1;
    (void)unlinkat(base, name, AT_REMOVEDIR); /* what else lies in it is not ours to remove */
    return 0;
}

static int take_over_dead(int base, const char *own, int to, box_error *err)
{
    int copy = open_dir(base, ".");
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    if (d == NULL)
        return box_fail_errno(err, "list the state directories");
    int rc = 0;
    for (const struct dirent *e; rc == 0 && (e = readdir(d)) != NULL;) {
        if (e->d_name[0] != '.' && strcmp(e->d_name, own) != 0)
            rc = take_over_one(base, e->d_name, to, err);
    }
    (void)closedir(d); /* only read */
    return rc;
}

/* The base locked. A warden that ended meanwhile may have removed it: then it is made anew. */
static int open_base(const char *base, int *out, box_error *err)
{
    for (;;) {
        BOX_AUTO(box_closep) int dir = -1;
        struct stat st;
        if (box_state_dir(base, &dir, err) < 0 ||
            box_state_lock(dir, BOX_WARDEN_HELPER_SECONDS * BOX_SECOND, err) < 0)
            return -1;
        if (fstat(dir, &st) < 0)
            return box_fail_errno(err, "look at the state directories");
        if (st.st_nlink > 0) {
            *out = box_take_fd(&dir);
            return 0;
        }
    }
}

int box_private_open(const char *base, box_private_dir *out, box_error *err)
{
    char normal[64];
    char own[BOX_UID_TEXT];
    box_uid random = box_uid_new();
    default_base(normal);
    box_uid_text(&random, own);
    BOX_AUTO(box_closep) int dir = -1;
    if (open_base(base != NULL ? base : normal, &dir, err) < 0)
        return -1;
    int n = snprintf(out->path, sizeof out->path, "%s/%s", base != NULL ? base : normal, own);
    if (n < 0 || (size_t)n >= sizeof out->path)
        return box_fail(err, BOX_VALIDATION, "the directory of private wardens has a long name");
    BOX_AUTO(box_closep) int mine = -1;
    if (box_state_dir(out->path, &mine, err) < 0 || take_over_dead(dir, own, mine, err) < 0)
        return -1;
    out->lock = box_take_fd(&dir);
    return 0;
}

/* The last one leaves nothing behind; under the lock, so that nobody is about to make a directory
 * in it. One that starts just now will see to it when it ends. */
static void remove_base(const char *path)
{
    char base[sizeof((box_private_dir *)0)->path];
    (void)snprintf(base, sizeof base, "%s", path);
    *strrchr(base, '/') = '\0'; /* box_private_open put it there */
    BOX_AUTO(box_closep) int dir = open_dir(AT_FDCWD, base);
    if (dir >= 0 && flock(dir, LOCK_EX | LOCK_NB) == 0)
        (void)rmdir(base); /* fails while there are others */
}

void box_private_remove(const box_private_dir *p)
{
    BOX_AUTO(box_closep) int dir = open_dir(AT_FDCWD, p->path);
    if (dir >= 0)
        (void)unlinkat(dir, "root", AT_REMOVEDIR); /* the template's mount point */
    (void)rmdir(p->path); /* fails while state files are in it, as it should */
    remove_base(p->path);
}
