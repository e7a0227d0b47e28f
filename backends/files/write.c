/* PUT. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "files/put.h"

static const uint8_t *digest_of(const box_files_ask_head *h)
{
    return h->has_digest != 0 ? h->digest : NULL;
}

static int put_whole(box_files_worker *w, box_put *put, box_files_answer *a, box_error *err)
{
    const box_files_ask_head *h = &w->ask->head;
    unsigned flags = ((h->flags & BOX_FILES_PARENTS) != 0 ? BOX_PUT_PARENTS : 0) |
                     ((h->flags & BOX_FILES_REPLACE) != 0 ? BOX_PUT_REPLACE : 0);
    if (box_put_begin(w, w->path, flags, h->permissions, digest_of(h), put, err) < 0)
        return -1;
    ssize_t n;
    while ((n = box_files_content(w, err)) > 0) {
        if (box_put_write(w, put, w->room, (size_t)n, err) < 0)
            return -1;
        a->bytes += n;
    }
    if (n < 0 || box_put_commit(w, put, err) < 0)
        return -1;
    a->flags |= put->exists ? 0 : BOX_FILES_CREATED;
    return box_place_send_info(w, &put->place, w->path, err);
}

/* --- behind what is there --------------------------------------------------------------------- */

/* Control files of the kernel are written in place; an answer that fails would have taken effect.
 */
static int refuse_kernel(int fd, const char *path, box_error *err)
{
    struct statfs fs;
    if (fstatfs(fd, &fs) < 0)
        return box_place_fail(err, "look at", path);
    if (fs.f_type != PROC_SUPER_MAGIC && fs.f_type != SYSFS_MAGIC)
        return 0;
    errno = EPERM;
    return box_place_fail(err, "write", path);
}

typedef struct tail {
    box_place place;
    int fd;
    bool created;
    int64_t before; /* bytes that were there */
} tail;

static void tail_done(tail *t)
{
    box_closep(&t->fd);
    box_closep(&t->place.dir);
}

static int open_tail(box_files_worker *w, tail *t, box_error *err)
{
    const box_files_ask_head *h = &w->ask->head;
    struct stat st;
    mode_t mode = h->permissions >= 0 ? (mode_t)h->permissions : 0644;
    unsigned find =
        BOX_PLACE_FOLLOW | ((h->flags & BOX_FILES_PARENTS) != 0 ? BOX_PLACE_PARENTS : 0);
    if (box_place_find(w, w->path, find, &t->place, err) < 0)
        return -1;
    int flags = O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    t->fd = openat(t->place.dir, t->place.name, flags | O_CREAT | O_EXCL, mode);
    t->created = t->fd >= 0;
    if (t->fd < 0 && errno == EEXIST)
        t->fd = openat(t->place.dir, t->place.name,
                       digest_of(h) != NULL ? flags : (flags & ~O_RDWR) | O_WRONLY);
    if (t->fd < 0 || fstat(t->fd, &st) < 0)
        return box_place_fail(err, "write", w->path);
    if (!S_ISREG(st.st_mode))
        return box_fail(err, BOX_FILE_CONFLICT, "%s is no regular file", w->path);
    t->before = st.st_size;
    return refuse_kernel(t->fd, w->path, err);
}

static int check_tail(box_files_worker *w, const tail *t, box_error *err)
{
    uint8_t is[BOX_FILES_SHA256];
    const uint8_t *wanted = digest_of(&w->ask->head);
    if (wanted == NULL)
        return 0;
    if (t->created)
        return box_fail(err, BOX_DIGEST_MISMATCH, "%s does not exist", w->path);
    if (box_put_digest(w, t->fd, is, err) < 0)
        return -1;
    if (memcmp(is, wanted, sizeof is) == 0)
        return 0;
    return box_fail(err, BOX_DIGEST_MISMATCH, "%s has other content than expected_sha256", w->path);
}

/* What was appended goes again, unless another has appended too. */
static void take_back(const tail *t, int64_t appended)
{
    struct stat st;
    if (t->created && appended == 0) {
        (void)unlinkat(t->place.dir, t->place.name, 0); /* best effort; so for the rest */
        return;
    }
    if (fstat(t->fd, &st) == 0 && st.st_size == t->before + appended &&
        ftruncate(t->fd, t->before) == 0 && t->created)
        (void)unlinkat(t->place.dir, t->place.name, 0);
}

static int append_all(box_files_worker *w, tail *t, box_files_answer *a, box_error *err)
{
    ssize_t n;
    if (check_tail(w, t, err) < 0)
        return -1;
    while ((n = box_files_content(w, err)) > 0) {
        struct stat st;
        if (box_put_all(w, t->fd, w->room, (size_t)n, err) < 0) {
            /* How much of it was written is what the file has more now. */
            if (fstat(t->fd, &st) == 0 && st.st_size > t->before + a->bytes &&
                st.st_size < t->before + a->bytes + n)
                a->bytes = st.st_size - t->before;
            return -1;
        }
        a->bytes += n;
    }
    return (int)n;
}

static int append(box_files_worker *w, box_files_answer *a, box_error *err)
{
    BOX_AUTO(tail_done) tail t = {.fd = -1, .place = {.dir = -1}};
    if (open_tail(w, &t, err) < 0)
        return -1;
    if (append_all(w, &t, a, err) < 0) {
        take_back(&t, a->bytes);
        return -1;
    }
    a->flags |= t.created ? BOX_FILES_CREATED : 0;
    return box_place_send_info(w, &t.place, w->path, err);
}

int box_files_do_put(box_files_worker *w, box_files_answer *answer, box_error *err)
{
    if ((w->ask->head.flags & BOX_FILES_APPEND) != 0)
        return append(w, answer, err);
    BOX_AUTO(box_put_done) box_put put = {.fd = -1, .place = {.dir = -1}};
    return put_whole(w, &put, answer, err);
}
