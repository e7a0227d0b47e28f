#include "files/walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "files/place.h"

enum { LEAST_NAMES = 16 * 1024 /* bytes of names of one level, however deep */ };

/* The upper levels may hold most: a level gets half of what is left. */
static size_t share_of(size_t depth)
{
    size_t bytes = depth < 16 ? (size_t)BOX_FILES_NAMES_BYTES >> (depth + 1) : 0;
    return bytes > LEAST_NAMES ? bytes : LEAST_NAMES;
}

/* Where the names of the directory walk->path begin, when `after` is in it; else NULL. */
static box_name *first_of(const box_walk *walk, size_t path_len)
{
    const char *after = walk->options->after;
    if (after == NULL || strncmp(after, walk->path, path_len) != 0 ||
        (path_len > 0 && after[path_len] != '/'))
        return NULL;
    after += path_len > 0 ? path_len + 1 : 0;
    return box_name_new(after, strcspn(after, "/"), DT_UNKNOWN, false);
}

static void push(box_walk *walk, int fd, size_t path_len)
{
    BOX_AUTO(box_freep) box_name *first = first_of(walk, path_len);
    bool tree = walk->depth < walk->options->depth;
    box_walk_level *l = &walk->levels[walk->depth];
    l->fd = fd;
    l->path_len = path_len;
    box_names_init(&l->names, fd, tree, share_of(walk->depth), first);
    walk->depth++;
}

void box_walk_begin(box_walk *walk, int dir, const box_walk_options *options)
{
    walk->options = options;
    walk->depth = 0;
    walk->cut = false;
    walk->path[0] = '\0';
    push(walk, dir, 0);
}

static void pop(box_walk *walk)
{
    box_walk_level *l = &walk->levels[--walk->depth];
    box_names_done(&l->names);
    box_closep(&l->fd);
}

void box_walk_done(box_walk *walk)
{
    while (walk->depth > 0)
        pop(walk);
}

static bool is_skipped(const box_walk *walk, const box_name *name)
{
    const box_walk_options *o = walk->options;
    if (o->no_hidden && name->text[0] == '.')
        return true;
    for (size_t i = 0; i < o->n_skip && name->type == DT_DIR; i++) {
        if (o->skip[i].len == name->len && memcmp(o->skip[i].data, name->text, name->len) == 0)
            return true;
    }
    return false;
}

/* Goes into the directory that was given last. */
static void enter(box_walk *walk)
{
    const box_walk_level *l = &walk->levels[walk->depth - 1];
    const char *name = walk->path + l->path_len + (l->path_len > 0 ? 1 : 0);
    if (walk->depth == BOX_FILES_MAX_DEPTH) {
        walk->cut = true;
        return;
    }
    int fd = box_place_open_below(l->fd, name, O_RDONLY | O_DIRECTORY);
    if (fd >= 0)
        push(walk, fd, strlen(walk->path));
}

/* Puts name behind the directory's path; false when that gets too long. */
static bool set_path(box_walk *walk, const box_walk_level *l, const box_name *name)
{
    size_t at = l->path_len;
    if (at + 1 + name->len > BOX_FILES_MAX_PATH) {
        walk->cut = true;
        return false;
    }
    if (at > 0)
        walk->path[at++] = '/';
    memcpy(walk->path + at, name->text, (size_t)name->len + 1);
    return true;
}

/* Can the path, or anything in that directory, come behind `after`? */
static bool is_behind(const box_walk *walk, bool whole)
{
    const char *after = walk->options->after;
    size_t len = strlen(walk->path);
    if (after == NULL)
        return true;
    if (!whole)
        return strcmp(walk->path, after) > 0;
    int rc = strncmp(walk->path, after, len);
    return rc > 0 || (rc == 0 && (unsigned char)after[len] <= '/');
}

/* One name of the uppermost level: 1 when it is to be given, 0 when the walk goes on. */
static int take(box_walk *walk, const box_name *name, box_walk_entry *out)
{
    const box_walk_level *l = &walk->levels[walk->depth - 1];
    if (is_skipped(walk, name) || !set_path(walk, l, name) || !is_behind(walk, name->slash != 0))
        return 0;
    if (name->slash != 0) {
        enter(walk);
        return 0;
    }
    *out = (box_walk_entry){.dir = l->fd,
                            .name = walk->path + l->path_len + (l->path_len > 0 ? 1 : 0),
                            .path = walk->path,
                            .type = name->type};
    return 1;
}

int box_walk_next(box_files_worker *w, box_walk *walk, box_walk_entry *out, box_error *err)
{
    while (walk->depth > 0) {
        const box_name *name;
        int rc = box_names_next(w, &walk->levels[walk->depth - 1].names, &name, err);
        if (rc < 0 && (err->reason == BOX_CANCELLED || err->reason == BOX_DEADLINE))
            return -1;
        if (rc <= 0) { /* its end; or it cannot be read, and is left out */
            pop(walk);
            continue;
        }
        if (box_files_step(w, err) < 0)
            return -1;
        if (take(walk, name, out) > 0)
            return 1;
    }
    return 0;
}
