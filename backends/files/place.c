#include "files/place.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <unistd.h>

#include "base/fd.h"

enum {
    LINKS = 40, /* MAXSYMLINKS of the kernel */
    ALWAYS = O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
};

/* --- errors ----------------------------------------------------------------------------------- */

int box_place_fail(box_error *err, const char *what, const char *path)
{
    switch (errno) {
    case ELOOP:
    case EXDEV:
        (void)box_fail(err, BOX_PERMISSION, "%s %s: a link that is not followed, or too many", what,
                       path);
        box_error_add(err, "rule", "links");
        return -1;
    case ENXIO:
    case ENODEV:
    case EISDIR:
    case ETXTBSY:
    case EBUSY:
    case EAGAIN:
    case EOPNOTSUPP:
    case ENOTEMPTY:
        (void)box_fail_errno(err, "%s %s", what, path); /* always -1 */
        err->reason = BOX_FILE_CONFLICT;
        return -1;
    case ENOENT:
    case ENOTDIR:
        (void)box_fail_errno(err, "%s %s", what, path); /* always -1 */
        box_error_add(err, "kind", "file");
        box_error_add(err, "id", path);
        return -1;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        (void)box_fail_errno(err, "%s %s", what, path); /* always -1 */
        box_error_add(err, "limit", "file_system");
        return -1;
    default:
        return box_fail_errno(err, "%s %s", what, path);
    }
}

/* --- opening ---------------------------------------------------------------------------------- */

static int open_how(int dir, const char *path, int flags, mode_t mode, uint64_t resolve)
{
    struct open_how how = {
        .flags = (uint64_t)(uint32_t)(flags | ALWAYS), .mode = mode, .resolve = resolve};
    if ((flags & O_PATH) != 0)
        how.flags = (uint64_t)(uint32_t)(flags | O_CLOEXEC); /* openat2 refuses the others */
    return box_fd_open_how(dir, path, &how);
}

int box_place_open(const box_files_worker *w, const char *path, int flags)
{
    return open_how(w->root, path, flags, 0, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

int box_place_open_below(int dir, const char *name, int flags)
{
    return open_how(dir, name, flags, 0,
                    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

/* --- directories that are missing ------------------------------------------------------------- */

/* The directory of path[0..len), made when it is not there. */
static int make_one(const box_files_worker *w, char *path, box_error *err)
{
    int fd = box_place_open(w, path, O_PATH | O_DIRECTORY);
    if (fd >= 0 || errno != ENOENT)
        return fd < 0 ? box_place_fail(err, "open", path) : fd;
    char *slash = strrchr(path, '/');
    *slash = '\0';
    BOX_AUTO(box_closep)
    int dir = box_place_open(w, path[0] != '\0' ? path : "/", O_PATH | O_DIRECTORY);
    *slash = '/';
    if (dir < 0)
        return box_place_fail(err, "open", path);
    if (mkdirat(dir, slash + 1, 0755) < 0 && errno != EEXIST)
        return box_place_fail(err, "make", path);
    fd = box_place_open_below(dir, slash + 1, O_PATH | O_DIRECTORY);
    return fd < 0 ? box_place_fail(err, "open", path) : fd;
}

/* Each prefix in turn, so that links on the way mean what they mean to everybody. */
static int make_all(const box_files_worker *w, const char *path, box_error *err)
{
    char part[BOX_FILES_MAX_PATH + 1];
    size_t len = strlen(path);
    int fd = -1;
    memcpy(part, path, len + 1);
    for (size_t i = 1; i <= len; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        if (path[i - 1] == '/')
            continue;
        part[i] = '\0';
        box_closep(&fd);
        fd = make_one(w, part, err);
        part[i] = path[i];
        if (fd < 0)
            return -1;
    }
    return fd;
}

/* --- places ----------------------------------------------------------------------------------- */

static int refuse_name(box_error *err, const char *path)
{
    return box_fail(err, BOX_VALIDATION, "%s does not end in a file's name", path);
}

/* Takes path apart: dir (path up to the last slash, "/" at least) and name. */
static int split(const char *path, char *dir, char name[256], box_error *err)
{
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    size_t at = len;
    while (at > 0 && path[at - 1] != '/')
        at--;
    size_t name_len = len - at;
    if (name_len == 0)
        return refuse_name(err, path);
    if (name_len > 255) {
        errno = ENAMETOOLONG;
        return box_place_fail(err, "open", path);
    }
    memcpy(name, path + at, name_len);
    name[name_len] = '\0';
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return refuse_name(err, path);
    while (at > 1 && path[at - 1] == '/')
        at--;
    memcpy(dir, path, at);
    dir[at] = '\0';
    return 0;
}

static int open_dir(const box_files_worker *w, const char *dir, unsigned flags, box_error *err)
{
    int fd = box_place_open(w, dir, O_PATH | O_DIRECTORY);
    if (fd < 0 && errno == ENOENT && (flags & BOX_PLACE_PARENTS) != 0)
        return make_all(w, dir, err);
    return fd < 0 ? box_place_fail(err, "open", dir) : fd;
}

/* Where the link at place leads, as a path from the root: 1; 0 when it is no link. */
static int follow(const box_place *place, const char *dir, char *path, box_error *err)
{
    char target[BOX_FILES_MAX_PATH + 1];
    ssize_t n = readlinkat(place->dir, place->name, target, sizeof target);
    if (n < 0)
        return 0; /* EINVAL: something else; ENOENT: nothing */
    if ((size_t)n >= sizeof target || n == 0) {
        errno = n == 0 ? ENOENT : ENAMETOOLONG;
        return box_place_fail(err, "follow", place->name);
    }
    target[n] = '\0';
    int len = target[0] == '/' ? snprintf(path, BOX_FILES_MAX_PATH + 1, "%s", target)
                               : snprintf(path, BOX_FILES_MAX_PATH + 1, "%s/%s", dir, target);
    if (len < 0 || len > BOX_FILES_MAX_PATH) {
        errno = ENAMETOOLONG;
        return box_place_fail(err, "follow", place->name);
    }
    return 1;
}

int box_place_find(const box_files_worker *w, const char *path, unsigned flags, box_place *place,
                   box_error *err)
{
    char now[BOX_FILES_MAX_PATH + 1];
    char dir[BOX_FILES_MAX_PATH + 1];
    memcpy(now, path, strlen(path) + 1);
    for (int i = 0; i < LINKS; i++) {
        box_place p = {.dir = -1};
        if (split(now, dir, p.name, err) < 0)
            return -1;
        BOX_AUTO(box_closep) int fd = open_dir(w, dir, flags, err);
        if (fd < 0)
            return -1;
        p.dir = fd;
        int rc = (flags & BOX_PLACE_FOLLOW) != 0 ? follow(&p, dir, now, err) : 0;
        if (rc < 0)
            return -1;
        if (rc == 0) {
            *place = p;
            (void)box_take_fd(&fd);
            return 0;
        }
    }
    errno = ELOOP;
    return box_place_fail(err, "follow", path);
}

/* --- what is there ---------------------------------------------------------------------------- */

static uint32_t kind_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG:
        return BOX_FILES_REGULAR;
    case S_IFDIR:
        return BOX_FILES_DIRECTORY;
    case S_IFLNK:
        return BOX_FILES_SYMLINK;
    case S_IFIFO:
        return BOX_FILES_FIFO;
    case S_IFSOCK:
        return BOX_FILES_SOCKET;
    default:
        return BOX_FILES_DEVICE;
    }
}

static int64_t ns_of(struct timespec t)
{
    /* A file may claim any time; what does not fit is the nearest that does. */
    if (t.tv_sec > INT64_MAX / 1000000000 - 1)
        return INT64_MAX;
    if (t.tv_sec < INT64_MIN / 1000000000 + 1)
        return INT64_MIN;
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void box_place_info(const struct stat *st, const char *path, box_files_info *out)
{
    *out = (box_files_info){
        .head = {.kind = kind_of(st->st_mode),
                 .permissions = st->st_mode & 07777,
                 .uid = st->st_uid <= INT32_MAX ? st->st_uid : INT32_MAX,
                 .gid = st->st_gid <= INT32_MAX ? st->st_gid : INT32_MAX,
                 .size_bytes = st->st_size > 0 ? st->st_size : 0,
                 .allocated_bytes = st->st_blocks > 0 ? (int64_t)st->st_blocks * 512 : 0,
                 .links = (int64_t)st->st_nlink,
                 .modified_ns = ns_of(st->st_mtim),
                 .changed_ns = ns_of(st->st_ctim)},
        .path = {.data = (const uint8_t *)path, .len = strlen(path)}};
}

int box_place_send_info(box_files_worker *w, const box_place *place, const char *path,
                        box_error *err)
{
    struct stat st;
    char target[BOX_FILES_MAX_PATH + 1];
    box_files_info info;
    if (fstatat(place->dir, place->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return box_place_fail(err, "look at", path);
    box_place_info(&st, path, &info);
    if (S_ISLNK(st.st_mode)) {
        ssize_t n = readlinkat(place->dir, place->name, target, BOX_FILES_MAX_PATH);
        info.target = (box_bytes){.data = (const uint8_t *)target, .len = n > 0 ? (size_t)n : 0};
    }
    return box_files_send_info(w, &info, err);
}
