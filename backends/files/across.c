#include "files/across.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "files/put.h"

static int copy_content(box_files_worker *w, int from, box_put *put, box_error *err)
{
    for (;;) {
        ssize_t n = read(from, w->room, BOX_FILES_ROOM_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return box_place_fail(err, "read", w->path);
        if (n == 0)
            return 0;
        if (box_put_write(w, put, w->room, (size_t)n, err) < 0)
            return -1;
    }
}

/* What was written to it while it was copied would be lost with it. */
static int is_unchanged(const box_files_worker *w, int fd, const struct stat *was, box_error *err)
{
    struct stat now;
    if (fstat(fd, &now) < 0)
        return box_place_fail(err, "look at", w->path);
    if (now.st_size == was->st_size && now.st_mtim.tv_sec == was->st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == was->st_mtim.tv_nsec)
        return 0;
    return box_fail(err, BOX_FILE_CONFLICT, "%s was changed by another meanwhile", w->path);
}

static int copy_file(box_files_worker *w, const box_place *from, const struct stat *st,
                     box_error *err)
{
    unsigned flags = BOX_PUT_HERE;
    flags |= (w->ask->head.flags & BOX_FILES_REPLACE) != 0 ? BOX_PUT_REPLACE : 0;
    BOX_AUTO(box_put_done) box_put put = {.fd = -1, .place = {.dir = -1}};
    BOX_AUTO(box_closep) int fd = box_place_open_below(from->dir, from->name, O_RDONLY);
    struct stat now;
    if (fd < 0 || fstat(fd, &now) < 0)
        return box_place_fail(err, "read", w->path);
    if (now.st_ino != st->st_ino || now.st_dev != st->st_dev)
        return box_fail(err, BOX_FILE_CONFLICT, "%s was changed by another meanwhile", w->path);
    if (box_put_begin(w, w->target, flags, (int32_t)(st->st_mode & 0777), NULL, &put, err) < 0 ||
        copy_content(w, fd, &put, err) < 0 || is_unchanged(w, fd, &now, err) < 0)
        return -1;
    const struct timespec times[2] = {now.st_atim, now.st_mtim};
    if (futimens(put.fd, times) < 0)
        return box_place_fail(err, "set the times of", w->target);
    return box_put_commit(w, &put, err);
}

/* Beside what is to be replaced, which must stay when the link cannot be made. */
static int link_over(const box_place *to, const char *target)
{
    char name[BOX_PUT_NAME];
    int rc = -1;
    for (int i = 0; rc < 0 && (i == 0 || errno == EEXIST) && i < BOX_PUT_NAMES; i++) {
        box_put_name(name);
        rc = symlinkat(target, to->dir, name);
    }
    if (rc < 0 || renameat(to->dir, name, to->dir, to->name) == 0)
        return rc;
    int saved = errno;
    (void)unlinkat(to->dir, name, 0); /* nothing more can be done about it */
    errno = saved;
    return -1;
}

static int copy_link(box_files_worker *w, const box_place *from, const box_place *to,
                     box_error *err)
{
    char target[BOX_FILES_MAX_PATH + 1];
    ssize_t n = readlinkat(from->dir, from->name, target, BOX_FILES_MAX_PATH);
    if (n < 0)
        return box_place_fail(err, "read", w->path);
    target[n] = '\0';
    bool replace = (w->ask->head.flags & BOX_FILES_REPLACE) != 0;
    if ((replace ? link_over(to, target) : symlinkat(target, to->dir, to->name)) < 0)
        return box_place_fail(err, "make", w->target);
    return 0;
}

int box_files_move_across(box_files_worker *w, const box_place *from, const struct stat *st,
                          const box_place *to, box_error *err)
{
    int rc;
    if (S_ISREG(st->st_mode))
        rc = copy_file(w, from, st, err);
    else if (S_ISLNK(st->st_mode))
        rc = copy_link(w, from, to, err);
    else
        return box_fail(err, BOX_FILE_CONFLICT,
                        "%s is on another file system than %s, and only files and links move there",
                        w->path, w->target);
    if (rc < 0)
        return -1;
    if (unlinkat(from->dir, from->name, 0) < 0)
        return box_place_fail(err, "remove", w->path);
    return box_place_send_info(w, to, w->target, err);
}
