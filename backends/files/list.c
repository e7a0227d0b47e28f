/* LIST: entries of a directory, and of those below it, by path. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "files/look.h"
#include "files/place.h"

int box_look_open(box_files_worker *w, struct stat *st, box_error *err)
{
    int fd = box_place_open(w, w->path, O_RDONLY);
    if (fd < 0)
        return box_place_fail(err, "open", w->path);
    if (fstat(fd, st) == 0)
        return fd;
    (void)box_place_fail(err, "look at", w->path); /* always -1 */
    (void)close(fd);
    return -1;
}

int box_look_open_directory(box_files_worker *w, box_error *err)
{
    struct stat st;
    int fd = box_look_open(w, &st, err);
    if (fd < 0 || S_ISDIR(st.st_mode))
        return fd;
    (void)close(fd);
    return box_fail(err, BOX_FILE_CONFLICT, "%s is no directory", w->path);
}

bool box_look_join(const box_files_worker *w, const char *relative,
                   char out[BOX_FILES_MAX_PATH + 1])
{
    size_t len = strlen(w->path);
    while (len > 0 && w->path[len - 1] == '/')
        len--;
    int n = snprintf(out, BOX_FILES_MAX_PATH + 1, "%.*s/%s", (int)len, w->path, relative);
    return n > 0 && n <= BOX_FILES_MAX_PATH;
}

static int walk_all(box_files_worker *w, box_walk *walk, box_files_answer *a, box_error *err)
{
    const box_files_ask_head *h = &w->ask->head;
    box_walk_entry e;
    int rc;
    static const size_t largest = sizeof(box_files_frame) + sizeof(box_files_info_head) +
                                  2 * (sizeof(uint32_t) + BOX_FILES_MAX_PATH);
    while ((rc = box_walk_next(w, walk, &e, err)) > 0) {
        char path[BOX_FILES_MAX_PATH + 1];
        if (a->total == h->max_items || !box_files_has_room(w, largest)) {
            a->flags |= BOX_FILES_TRUNCATED;
            a->cut = a->total == h->max_items ? BOX_FILES_CUT_ENTRIES : BOX_FILES_CUT_BYTES;
            return 0;
        }
        box_place place = {.dir = e.dir};
        (void)snprintf(place.name, sizeof place.name, "%s", e.name);
        box_error gone;
        if (!box_look_join(w, e.path, path) || box_place_send_info(w, &place, path, &gone) < 0) {
            if (w->gone)
                return box_fail(err, BOX_CANCELLED, "nobody waits for this any more");
            continue; /* removed meanwhile */
        }
        a->total++;
    }
    return rc;
}

int box_files_do_list(box_files_worker *w, box_files_answer *answer, box_error *err)
{
    const box_files_ask *ask = w->ask;
    box_walk_options options = {.depth = ask->head.depth,
                                .no_hidden = (ask->head.flags & BOX_FILES_NO_HIDDEN) != 0};
    if (ask->target.len > 0)
        options.after = w->target + 1; /* a path from the directory on, as if it were the root */
    int fd = box_look_open_directory(w, err);
    if (fd < 0)
        return -1;
    BOX_AUTO(box_freep) box_walk *walk = box_alloc(sizeof *walk);
    box_walk_begin(walk, fd, &options);
    int rc = walk_all(w, walk, answer, err);
    box_walk_done(walk);
    return rc;
}
