/* GLOB: paths that match a pattern, newest first. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "files/look.h"
#include "files/pattern.h"
#include "files/place.h"

typedef struct match {
    struct stat st;
    char *path; /* relative */
    size_t cost;
} match;

/* The newest ones that fit: a heap whose first is the oldest. */
typedef struct matches {
    match *list;
    size_t count, capacity, bytes;
    bool cut_bytes;
} matches;

/* >0: a comes before b in the answer. */
static int newer(const match *a, const match *b)
{
    if (a->st.st_mtim.tv_sec != b->st.st_mtim.tv_sec)
        return a->st.st_mtim.tv_sec > b->st.st_mtim.tv_sec ? 1 : -1;
    if (a->st.st_mtim.tv_nsec != b->st.st_mtim.tv_nsec)
        return a->st.st_mtim.tv_nsec > b->st.st_mtim.tv_nsec ? 1 : -1;
    return -strcmp(a->path, b->path);
}

static void swap(matches *m, size_t a, size_t b)
{
    match keep = m->list[a];
    m->list[a] = m->list[b];
    m->list[b] = keep;
}

static void sift_down(matches *m, size_t i, size_t count)
{
    for (;;) {
        size_t oldest = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < count; child++) {
            if (newer(&m->list[child], &m->list[oldest]) < 0)
                oldest = child;
        }
        if (oldest == i)
            return;
        swap(m, i, oldest);
        i = oldest;
    }
}

static void push(matches *m, const match *new)
{
    if (m->count == m->capacity) {
        size_t capacity = m->capacity != 0 ? 2 * m->capacity : 64;
        match *list = box_alloc_array(capacity, sizeof *list);
        if (m->count > 0)
            memcpy(list, m->list, m->count * sizeof *list);
        free(m->list);
        m->list = list;
        m->capacity = capacity;
    }
    size_t i = m->count++;
    m->list[i] = *new;
    m->bytes += new->cost;
    while (i > 0 && newer(&m->list[(i - 1) / 2], &m->list[i]) > 0) {
        swap(m, i, (i - 1) / 2);
        i = (i - 1) / 2;
    }
}

static void pop_oldest(matches *m)
{
    m->bytes -= m->list[0].cost;
    free(m->list[0].path);
    m->list[0] = m->list[--m->count];
    sift_down(m, 0, m->count);
}

static void matches_done(matches *m)
{
    for (size_t i = 0; i < m->count; i++)
        free(m->list[i].path);
    free(m->list);
}

static void keep(const box_files_worker *w, matches *m, const struct stat *st, const char *path)
{
    match new = {.st = *st, .path = box_strdup(path)};
    new.cost =
        BOX_FILES_ITEM_COST + sizeof(box_files_info_head) + strlen(path) + strlen(w->path) + 16;
    push(m, &new);
    while (m->count > (size_t)w->ask->head.max_items)
        pop_oldest(m);
    while (m->bytes > BOX_FILES_ANSWER_BYTES) {
        pop_oldest(m);
        m->cut_bytes = true;
    }
}

static int look(box_files_worker *w, box_walk *walk, const box_pattern *pattern, matches *m,
                box_files_answer *a, box_error *err)
{
    box_walk_entry e;
    int rc;
    while ((rc = box_walk_next(w, walk, &e, err)) > 0) {
        struct stat st;
        box_files_info info;
        if (!box_pattern_matches(pattern, e.path) ||
            fstatat(e.dir, e.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        box_place_info(&st, "/", &info);
        if (w->ask->head.kind != BOX_FILES_ANY && info.head.kind != w->ask->head.kind)
            continue;
        a->total++;
        keep(w, m, &st, e.path);
    }
    return rc;
}

static int send_one(box_files_worker *w, const match *m, box_error *err)
{
    char path[BOX_FILES_MAX_PATH + 1];
    box_files_info info;
    if (!box_look_join(w, m->path, path))
        return 0; /* its path cannot be said */
    box_place_info(&m->st, path, &info);
    return box_files_send_info(w, &info, err);
}

/* The oldest sinks to the end again and again: what remains is in order. */
static int send_all(box_files_worker *w, matches *m, box_error *err)
{
    for (size_t left = m->count; left > 1; left--) {
        swap(m, 0, left - 1);
        sift_down(m, 0, left - 1);
    }
    for (size_t i = 0; i < m->count; i++) {
        if (send_one(w, &m->list[i], err) < 0)
            return -1;
    }
    return 0;
}

static void say_what_is_missing(const box_walk *walk, const matches *m, bool late,
                                box_files_answer *a)
{
    if (late)
        a->cut = BOX_FILES_CUT_TIME;
    else if (walk->cut)
        a->cut = BOX_FILES_CUT_SCAN;
    else if (m->cut_bytes)
        a->cut = BOX_FILES_CUT_BYTES;
    else if ((uint64_t)a->total > m->count)
        a->cut = BOX_FILES_CUT_MATCHES;
    if (a->cut != BOX_FILES_CUT_NONE)
        a->flags |= BOX_FILES_TRUNCATED;
}

int box_files_do_glob(box_files_worker *w, box_files_answer *answer, box_error *err)
{
    const box_files_ask *ask = w->ask;
    box_walk_options options = {.depth = BOX_FILES_MAX_DEPTH,
                                .no_hidden = (ask->head.flags & BOX_FILES_NO_HIDDEN) != 0,
                                .skip = ask->skip,
                                .n_skip = ask->head.n_skip};
    BOX_AUTO(box_pattern_done) box_pattern pattern;
    BOX_AUTO(matches_done) matches m = {0};
    BOX_AUTO(box_freep) box_walk *walk = NULL;
    if (box_pattern_init(&pattern, ask->pattern, err) < 0)
        return -1;
    int fd = box_look_open_directory(w, err);
    if (fd < 0)
        return -1;
    walk = box_alloc(sizeof *walk);
    box_walk_begin(walk, fd, &options);
    int rc = look(w, walk, &pattern, &m, answer, err);
    bool late = rc < 0 && err->reason == BOX_DEADLINE;
    say_what_is_missing(walk, &m, late, answer);
    box_walk_done(walk);
    if (rc < 0 && !late)
        return -1;
    return send_all(w, &m, err);
}
