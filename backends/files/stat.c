/* STAT and MKDIR. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "files/place.h"

/* "/", "." and ".." at the end are directories, which have no place of their own. */
static int stat_by_path(box_files_worker *w, box_error *err)
{
    struct stat st;
    box_files_info info;
    BOX_AUTO(box_closep) int fd = box_place_open(w, w->path, O_PATH);
    if (fd < 0 || fstat(fd, &st) < 0)
        return box_place_fail(err, "look at", w->path);
    box_place_info(&st, w->path, &info);
    return box_files_send_info(w, &info, err);
}

int box_files_do_stat(box_files_worker *w, box_files_answer *answer, box_error *err)
{
    (void)answer;
    box_place place;
    if ((w->ask->head.flags & BOX_FILES_FOLLOW) != 0)
        return stat_by_path(w, err);
    if (box_place_find(w, w->path, 0, &place, err) < 0)
        return err->reason == BOX_VALIDATION ? stat_by_path(w, err) : -1;
    BOX_AUTO(box_closep) int dir = place.dir;
    place.dir = dir;
    return box_place_send_info(w, &place, w->path, err);
}

/* A directory that is there already is fine with PARENTS; anything else is not. */
static int is_there(const box_place *place, const char *path, bool fine, box_error *err)
{
    struct stat st;
    if (fstatat(place->dir, place->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return box_place_fail(err, "look at", path);
    if (fine && S_ISDIR(st.st_mode))
        return 0;
    errno = EEXIST;
    return box_place_fail(err, "make", path);
}

int box_files_do_mkdir(box_files_worker *w, box_files_answer *answer, box_error *err)
{
    const box_files_ask_head *h = &w->ask->head;
    bool parents = (h->flags & BOX_FILES_PARENTS) != 0;
    box_place place;
    if (box_place_find(w, w->path, parents ? BOX_PLACE_PARENTS | BOX_PLACE_FOLLOW : 0, &place,
                       err) < 0)
        return -1;
    BOX_AUTO(box_closep) int dir = place.dir;
    place.dir = dir;
    mode_t mode = h->permissions >= 0 ? (mode_t)h->permissions : 0755;
    if (mkdirat(dir, place.name, mode) == 0) {
        answer->flags |= BOX_FILES_CREATED;
    } else if (errno != EEXIST) {
        return box_place_fail(err, "make", w->path);
    } else if (is_there(&place, w->path, parents, err) < 0) {
        return -1;
    }
    return box_place_send_info(w, &place, w->path, err);
}
