#include "files/put.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "files/sha256.h"

int box_put_all(const box_files_worker *w, int fd, const void *data, size_t len, box_error *err)
{
    const uint8_t *at = data;
    while (len > 0) {
        ssize_t n = write(fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return box_place_fail(err, "write", w->path);
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

int box_put_digest(box_files_worker *w, int fd, uint8_t out[BOX_FILES_SHA256], box_error *err)
{
    box_sha256 sha;
    box_sha256_init(&sha);
    for (int64_t at = 0;;) {
        ssize_t n = pread(fd, w->room, BOX_FILES_ROOM_BYTES, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return box_place_fail(err, "read", w->path);
        if (n == 0)
            break;
        box_sha256_add(&sha, w->room, (size_t)n);
        at += n;
        if (box_files_step(w, err) < 0)
            return -1;
    }
    box_sha256_end(&sha, out);
    return 0;
}

/* --- what is there already -------------------------------------------------------------------- */

static int check_digest(box_files_worker *w, int fd, const uint8_t *wanted, box_error *err)
{
    uint8_t is[BOX_FILES_SHA256];
    if (wanted == NULL)
        return 0;
    if (fd < 0)
        return box_fail(err, BOX_DIGEST_MISMATCH, "%s does not exist", w->path);
    if (box_put_digest(w, fd, is, err) < 0)
        return -1;
    if (memcmp(is, wanted, sizeof is) != 0)
        return box_fail(err, BOX_DIGEST_MISMATCH, "%s has other content than expected_sha256",
                        w->path);
    return 0;
}

/* The user must be allowed to write the file itself, as if it were written in place. */
static int look_at_old(box_files_worker *w, box_put *put, unsigned flags, const uint8_t *digest,
                       box_error *err)
{
    if (fstatat(put->place.dir, put->place.name, &put->old, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? check_digest(w, -1, digest, err)
                               : box_place_fail(err, "look at", w->path);
    put->exists = true;
    if ((flags & BOX_PUT_REPLACE) == 0) {
        errno = EEXIST;
        return box_place_fail(err, "write", w->path);
    }
    if (!S_ISREG(put->old.st_mode))
        return box_fail(err, BOX_FILE_CONFLICT, "%s is no regular file", w->path);
    BOX_AUTO(box_closep) int fd =
        box_place_open_below(put->place.dir, put->place.name, digest != NULL ? O_RDWR : O_WRONLY);
    if (fd < 0 && errno == ETXTBSY && digest == NULL)
        return 0; /* a program that runs keeps its file, and this one takes its name */
    if (fd < 0)
        return box_place_fail(err, "write", w->path);
    return check_digest(w, fd, digest, err);
}

/* --- writing beside --------------------------------------------------------------------------- */

void box_put_name(char out[BOX_PUT_NAME])
{
    uint8_t bytes[8];
    char hex[17];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        memset(bytes, 0, sizeof bytes); /* a name that is taken is tried again */
    box_hex(bytes, sizeof bytes, hex);
    (void)snprintf(out, BOX_PUT_NAME, ".box-%s", hex);
}

/* A file without a name where the file system can (O_TMPFILE of open(2)), else with one of its
 * own. */
static int open_beside(const box_files_worker *w, box_put *put, box_error *err)
{
    int dir = put->place.dir;
    put->fd = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    for (int i = 0; put->fd < 0 && i < BOX_PUT_NAMES; i++) {
        if (errno != EOPNOTSUPP && errno != EISDIR && errno != EEXIST)
            return box_place_fail(err, "write", w->path);
        box_put_name(put->temporary);
        put->fd =
            openat(dir, put->temporary, O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR | O_CLOEXEC, 0600);
    }
    if (put->fd < 0) {
        put->temporary[0] = '\0';
        return box_place_fail(err, "write", w->path);
    }
    return 0;
}

int box_put_begin(box_files_worker *w, const char *path, unsigned flags, int32_t permissions,
                  const uint8_t *digest, box_put *put, box_error *err)
{
    unsigned find = ((flags & BOX_PUT_HERE) != 0 ? 0 : BOX_PLACE_FOLLOW) |
                    ((flags & BOX_PUT_PARENTS) != 0 ? BOX_PLACE_PARENTS : 0);
    *put = (box_put){.fd = -1, .place = {.dir = -1}};
    if (box_place_find(w, path, find, &put->place, err) < 0 ||
        look_at_old(w, put, flags, digest, err) < 0)
        return -1;
    put->mode = permissions >= 0 ? (mode_t)permissions
                : put->exists    ? put->old.st_mode & 0777
                                 : 0644;
    return open_beside(w, put, err);
}

int box_put_write(box_files_worker *w, box_put *put, const void *data, size_t len, box_error *err)
{
    if (box_put_all(w, put->fd, data, len, err) < 0)
        return -1;
    return box_files_step(w, err);
}

/* --- taking its place ------------------------------------------------------------------------- */

static int link_as(const box_put *put, const char *name)
{
    char self[40];
    (void)snprintf(self, sizeof self, "/proc/self/fd/%d", put->fd);
    return linkat(AT_FDCWD, self, put->place.dir, name, AT_SYMLINK_FOLLOW);
}

/* Gives the file a name of its own, so that it can be renamed. */
static int name_it(const box_files_worker *w, box_put *put, box_error *err)
{
    for (int i = 0; put->temporary[0] == '\0' && i < BOX_PUT_NAMES; i++) {
        char name[BOX_PUT_NAME];
        box_put_name(name);
        if (link_as(put, name) == 0)
            memcpy(put->temporary, name, sizeof name);
        else if (errno != EEXIST)
            return box_place_fail(err, "write", w->path);
    }
    if (put->temporary[0] != '\0')
        return 0;
    return box_place_fail(err, "write", w->path);
}

static int is_unchanged(const box_files_worker *w, const box_put *put, box_error *err)
{
    struct stat now;
    bool same = fstatat(put->place.dir, put->place.name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
                now.st_ino == put->old.st_ino && now.st_dev == put->old.st_dev &&
                now.st_size == put->old.st_size && now.st_mtim.tv_sec == put->old.st_mtim.tv_sec &&
                now.st_mtim.tv_nsec == put->old.st_mtim.tv_nsec;
    if (same)
        return 0;
    return box_fail(err, BOX_FILE_CONFLICT, "%s was changed by another meanwhile", w->path);
}

static int rename_over(const box_files_worker *w, box_put *put, box_error *err)
{
    if (name_it(w, put, err) < 0)
        return -1;
    if (renameat(put->place.dir, put->temporary, put->place.dir, put->place.name) < 0)
        return box_place_fail(err, "write", w->path);
    put->temporary[0] = '\0';
    return 0;
}

/* Nothing was there: what came meanwhile is not written over. */
static int appear(const box_files_worker *w, box_put *put, box_error *err)
{
    if (put->temporary[0] == '\0')
        return link_as(put, put->place.name) < 0 ? box_place_fail(err, "write", w->path) : 0;
    if (linkat(put->place.dir, put->temporary, put->place.dir, put->place.name, 0) < 0)
        return box_place_fail(err, "write", w->path);
    return 0; /* box_put_done takes the other name away */
}

int box_put_commit(box_files_worker *w, box_put *put, box_error *err)
{
    if (fchmod(put->fd, put->mode) < 0)
        return box_place_fail(err, "set the permissions of", w->path);
    if (!put->exists)
        return appear(w, put, err);
    if (is_unchanged(w, put, err) < 0)
        return -1;
    return rename_over(w, put, err);
}

void box_put_done(box_put *put)
{
    if (put->temporary[0] != '\0')
        (void)unlinkat(put->place.dir, put->temporary, 0); /* nothing more can be done about it */
    put->temporary[0] = '\0';
    box_closep(&put->fd);
    box_closep(&put->place.dir);
}
