/* REMOVE and MOVE. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "files/across.h"
#include "files/place.h"

/* --- removing --------------------------------------------------------------------------------- */

enum { MAX_LEVELS = 65536, DIRENTS_BYTES = 8 * 1024 };

/* How a directory was left, so that ".." is known to lead back to it. */
typedef struct level {
    dev_t dev;
    ino_t ino;
} level;

typedef struct removal {
    box_files_worker *w;
    int dir; /* being emptied */
    level *levels;
    size_t depth, capacity;
    int64_t removed;
    uint8_t entries[DIRENTS_BYTES];
} removal;

static void removal_done(removal *r)
{
    box_closep(&r->dir);
    free(r->levels);
}

static int remember(removal *r, box_error *err)
{
    struct stat st;
    if (r->depth == MAX_LEVELS)
        return box_fail(err, BOX_QUOTA, "%s is nested too deep to be removed", r->w->path);
    if (fstat(r->dir, &st) < 0)
        return box_place_fail(err, "look at", r->w->path);
    if (r->depth == r->capacity) {
        size_t capacity = r->capacity != 0 ? 2 * r->capacity : 64;
        level *levels = box_alloc_array(capacity, sizeof *levels);
        if (r->depth > 0)
            memcpy(levels, r->levels, r->depth * sizeof *levels);
        free(r->levels);
        r->levels = levels;
        r->capacity = capacity;
    }
    r->levels[r->depth++] = (level){.dev = st.st_dev, .ino = st.st_ino};
    return 0;
}

static int go_down(removal *r, const char *name, box_error *err)
{
    int fd = box_place_open_below(r->dir, name, O_RDONLY | O_DIRECTORY);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EXDEV))
        return 0; /* swapped meanwhile: looked at again */
    if (fd < 0)
        return box_place_fail(err, "remove", name);
    if (remember(r, err) < 0) {
        (void)close(fd);
        return -1;
    }
    box_closep(&r->dir);
    r->dir = fd;
    return 0;
}

static int go_up(removal *r, box_error *err)
{
    struct stat st;
    const level *l = &r->levels[r->depth - 1];
    int fd = openat(r->dir, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return box_place_fail(err, "remove", r->w->path);
    box_closep(&r->dir);
    r->dir = fd;
    if (fstat(fd, &st) < 0 || st.st_dev != l->dev || st.st_ino != l->ino)
        return box_fail(err, BOX_FILE_CONFLICT, "%s was moved while it was being removed",
                        r->w->path);
    r->depth--;
    return 0;
}

/* 1: removed; 0: it is a directory that has something in it, or it changes under us; -1. */
static int remove_one(removal *r, int dir, const char *name, box_error *err)
{
    if (unlinkat(dir, name, 0) == 0) {
        r->removed++;
        return 1;
    }
    if (errno == ENOENT)
        return 1;
    if (errno != EISDIR && errno != EPERM)
        return box_place_fail(err, "remove", name);
    int first = errno;
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0) {
        r->removed++;
        return 1;
    }
    if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOENT)
        return 0;
    if (errno == ENOTDIR)
        errno = first; /* a file that must not be removed */
    return box_place_fail(err, "remove", name);
}

/* linux_dirent64 of getdents64(2). */
typedef struct dirent_head {
    uint64_t ino;
    int64_t off;
    uint16_t reclen;
    uint8_t type;
} __attribute__((packed)) dirent_head;

/* The names that were read; stops at a directory, having gone down into it (1). */
static int remove_read(removal *r, size_t len, box_error *err)
{
    for (size_t at = 0; at + sizeof(dirent_head) < len;) {
        dirent_head head;
        memcpy(&head, r->entries + at, sizeof head);
        const char *name = (const char *)r->entries + at + sizeof head;
        at += head.reclen;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            continue;
        if (box_files_step(r->w, err) < 0)
            return -1;
        int rc = remove_one(r, r->dir, name, err);
        if (rc < 0)
            return -1;
        if (rc == 0)
            return go_down(r, name, err) < 0 ? -1 : 1;
    }
    return 0;
}

/* Empties r->dir and all it went down to. A directory that was left is read from its beginning
 * again, and is empty then: no names have to be kept, however deep it goes. */
static int empty(removal *r, box_error *err)
{
    for (;;) {
        long n = syscall(SYS_getdents64, r->dir, r->entries, sizeof r->entries);
        if (n < 0 && errno != ENOENT)
            return box_place_fail(err, "remove", r->w->path);
        if (n > 0) {
            int rc = remove_read(r, (size_t)n, err);
            if (rc < 0)
                return -1;
            if (rc == 0)
                continue;
        } else if (r->depth == 0) {
            return 0;
        } else if (go_up(r, err) < 0) {
            return -1;
        }
        if (lseek(r->dir, 0, SEEK_SET) < 0)
            return box_place_fail(err, "remove", r->w->path);
    }
}

static int remove_tree(removal *r, const box_place *place, box_error *err)
{
    for (;;) {
        int rc = remove_one(r, place->dir, place->name, err);
        if (rc != 0)
            return rc < 0 ? -1 : 0;
        r->dir = box_place_open_below(place->dir, place->name, O_RDONLY | O_DIRECTORY);
        if (r->dir < 0 && errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
            return box_place_fail(err, "remove", r->w->path);
        if (r->dir >= 0 && empty(r, err) < 0)
            return -1;
        box_closep(&r->dir);
        r->w->steps = 0;
        if (box_files_step(r->w, err) < 0)
            return -1;
    }
}

static int is_missing(const box_error *err)
{
    return err->reason == BOX_FILE_NOT_FOUND;
}

static int remove_at(box_files_worker *w, const box_place *place, removal *r, box_error *err)
{
    const box_files_ask_head *h = &w->ask->head;
    struct stat st;
    if (fstatat(place->dir, place->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return box_place_fail(err, "remove", w->path);
    if (S_ISDIR(st.st_mode) && (h->flags & BOX_FILES_RECURSIVE) != 0)
        return remove_tree(r, place, err);
    if (unlinkat(place->dir, place->name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) < 0)
        return box_place_fail(err, "remove", w->path);
    r->removed++;
    return 0;
}

int box_files_do_remove(box_files_worker *w, box_files_answer *answer, box_error *err)
{
    box_place place;
    BOX_AUTO(removal_done) removal r = {.w = w, .dir = -1};
    bool missing_ok = (w->ask->head.flags & BOX_FILES_ALLOW_MISSING) != 0;
    if (box_place_find(w, w->path, 0, &place, err) < 0)
        return missing_ok && is_missing(err) ? 0 : -1;
    BOX_AUTO(box_closep) int dir = place.dir;
    place.dir = dir;
    int rc = remove_at(w, &place, &r, err);
    answer->total = r.removed;
    if (rc < 0 && err->reason == BOX_DEADLINE)
        return box_fail(err, BOX_DEADLINE,
                        "%s has too much in it to be removed in one call: %lld "
                        "names are gone, call again for the rest",
                        w->path, (long long)r.removed);
    return rc < 0 && missing_ok && is_missing(err) ? 0 : rc;
}

/* --- moving ----------------------------------------------------------------------------------- */

static int rename_to(const box_place *from, const box_place *to, bool replace)
{
    return renameat2(from->dir, from->name, to->dir, to->name, replace ? 0 : RENAME_NOREPLACE);
}

int box_files_do_move(box_files_worker *w, box_files_answer *answer, box_error *err)
{
    const box_files_ask_head *h = &w->ask->head;
    unsigned find = (h->flags & BOX_FILES_PARENTS) != 0 ? BOX_PLACE_PARENTS : 0;
    box_place from;
    box_place to;
    (void)answer;
    if (box_place_find(w, w->path, 0, &from, err) < 0)
        return -1;
    BOX_AUTO(box_closep) int from_dir = from.dir;
    from.dir = from_dir;
    struct stat st;
    if (fstatat(from.dir, from.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return box_place_fail(err, "move", w->path);
    if (box_place_find(w, w->target, find, &to, err) < 0)
        return -1;
    BOX_AUTO(box_closep) int to_dir = to.dir;
    to.dir = to_dir;
    if (rename_to(&from, &to, (h->flags & BOX_FILES_REPLACE) != 0) < 0) {
        if (errno == EXDEV)
            return box_files_move_across(w, &from, &st, &to, err);
        if (errno == EINVAL || errno == ENOTDIR)
            return box_fail(err, BOX_FILE_CONFLICT, "%s cannot take the place of %s", w->path,
                            w->target);
        return box_place_fail(err, "move", errno == EEXIST ? w->target : w->path);
    }
    return box_place_send_info(w, &to, w->target, err);
}
