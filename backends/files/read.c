/* READ: a window of a file, or the names in a directory. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "files/names.h"
#include "files/source.h"
#include "files/text.h"

enum { LONGEST = 4 /* bytes of a character */ };

/* --- bytes of a file -------------------------------------------------------------------------- */

/* Fills out as far as the file goes. */
static ssize_t read_full(box_files_worker *w, const box_source *s, uint8_t *out, size_t len,
                         int64_t offset, box_error *err)
{
    size_t have = 0;
    while (have < len) {
        size_t part = len - have < BOX_FILES_ROOM_BYTES ? len - have : BOX_FILES_ROOM_BYTES;
        ssize_t n = box_source_read(s, out + have, part, offset + (int64_t)have, err);
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        have += (size_t)n;
        if (have < len && box_files_step(w, err) < 0)
            return -1;
    }
    return (ssize_t)have;
}

/* --- lines ------------------------------------------------------------------------------------ */

typedef struct window {
    int64_t offset; /* of its first byte */
    uint8_t *data;
    size_t len;
    bool more; /* the file goes on behind it */
} window;

/* The offset at which line number `line` begins; *lines: how many there are before it. At the end
 * of the file *past is set. */
static int find_line(box_files_worker *w, const box_source *s, int64_t line, int64_t *offset,
                     int64_t *lines, bool *past, box_error *err)
{
    int64_t at = 0;
    bool open = false; /* bytes since the last newline */
    *lines = 0;
    while (*lines < line - 1) {
        ssize_t n = box_source_read(s, w->room, BOX_FILES_ROOM_BYTES, at, err);
        if (n < 0 || (n > 0 && box_files_step(w, err) < 0))
            return -1;
        if (n == 0) {
            *lines += open;
            *past = *lines < line;
            break;
        }
        const uint8_t *from = w->room;
        const uint8_t *end = w->room + n;
        while (from < end && *lines < line - 1) {
            const uint8_t *nl = memchr(from, '\n', (size_t)(end - from));
            *lines += nl != NULL;
            from = nl != NULL ? nl + 1 : end;
        }
        open = from == end && end[-1] != '\n';
        at += from - w->room;
    }
    *offset = at;
    return 0;
}

/* Lines from offset to the end, when that is not far. -1 is an answer too: not known. */
static int count_rest(box_files_worker *w, const box_source *s, int64_t offset, int64_t *lines,
                      box_error *err)
{
    int64_t at = offset;
    bool open = false;
    *lines = 0;
    for (;;) {
        ssize_t n = box_source_read(s, w->room, BOX_FILES_ROOM_BYTES, at, err);
        if (n < 0 || (n > 0 && box_files_step(w, err) < 0))
            return -1;
        if (n == 0)
            break;
        const uint8_t *from = w->room;
        const uint8_t *end = w->room + n;
        for (const uint8_t *nl; (nl = memchr(from, '\n', (size_t)(end - from))) != NULL;) {
            (*lines)++;
            from = nl + 1;
        }
        open = end[-1] != '\n';
        at += n;
        if (at - offset > BOX_FILES_COUNT_BYTES) {
            *lines = -1;
            return 0;
        }
    }
    *lines += open;
    return 0;
}

/* What of the window goes into the answer. */
typedef struct taken {
    size_t used; /* of the window */
    size_t text_len;
    int64_t lines;     /* whole ones, or the one that is cut */
    bool cut;          /* ends inside a line */
    box_files_cut why; /* not all of the window */
} taken;

/* One line at a time, until lines or bytes are over. A first line that is too long is cut between
 * two characters; it moves on by one at least. */
static void take_lines(const box_files_ask_head *h, const window *win, char *text, size_t room,
                       taken *t, bool *replaced)
{
    while (t->used < win->len) {
        if (t->lines == h->max_items) {
            t->why = BOX_FILES_CUT_LINES;
            return;
        }
        const uint8_t *from = win->data + t->used;
        size_t left = win->len - t->used;
        const uint8_t *nl = memchr(from, '\n', left);
        size_t len = nl != NULL ? (size_t)(nl - from) + 1 : left;
        bool whole = nl != NULL || !win->more;
        size_t used = 0;
        bool bad = false;
        size_t n =
            box_text_clean(from, len, !whole, text + t->text_len, room - t->text_len, &used, &bad);
        if ((used < len || !whole) && t->lines > 0) {
            t->why = BOX_FILES_CUT_BYTES;
            return;
        }
        if (used == 0)
            n = box_text_clean(from, len, false, text + t->text_len, LONGEST, &used, &bad);
        t->used += used;
        t->text_len += n;
        t->lines++;
        *replaced |= bad;
        if (used < len || !whole) {
            t->cut = true;
            t->why = BOX_FILES_CUT_BYTES;
            return;
        }
    }
}

static int read_window(box_files_worker *w, const box_source *s, window *win, box_error *err)
{
    uint8_t one;
    ssize_t n = read_full(w, s, win->data, win->len, win->offset, err);
    if (n < 0)
        return -1;
    ssize_t more = 0;
    if ((size_t)n == win->len) {
        more = box_source_read(s, &one, 1, win->offset + n, err);
        if (more < 0)
            return -1;
    }
    win->len = (size_t)n;
    win->more = more > 0;
    return 0;
}

/* Each byte that is no text becomes a character of three. */
static size_t most_text(const box_files_ask_head *h, const window *win)
{
    size_t most = (size_t)h->max_bytes;
    return win->len < most / 3 ? 3 * win->len : most;
}

static int count_total(box_files_worker *w, const box_source *s, const window *win, const taken *t,
                       int64_t before, box_files_answer *a, box_error *err)
{
    int64_t rest = 0;
    if ((w->ask->head.flags & BOX_FILES_BY_OFFSET) != 0)
        return 0;
    if (count_rest(w, s, win->offset + (int64_t)t->used, &rest, err) < 0)
        return -1;
    if (rest >= 0)
        a->total_lines = before + t->lines + rest - (t->cut && rest > 0 ? 1 : 0);
    return 0;
}

static int send_lines(box_files_worker *w, const box_source *s, window *win, int64_t before,
                      box_files_answer *a, box_error *err)
{
    const box_files_ask_head *h = &w->ask->head;
    taken t = {0};
    bool replaced = false;
    size_t room = most_text(h, win);
    BOX_AUTO(box_freep) char *text = malloc(room + LONGEST);
    if (text == NULL)
        return box_fail(err, BOX_MEMORY_BUDGET, "no memory for the answer");
    take_lines(h, win, text, room, &t, &replaced);
    bool all = t.used == win->len && !win->more;
    a->offset = win->offset;
    a->next_offset = all ? 0 : win->offset + (int64_t)t.used;
    if ((h->flags & BOX_FILES_BY_OFFSET) == 0) {
        a->start_line = before + 1;
        a->end_line = before + t.lines;
        a->next_line = all || t.cut ? 0 : before + t.lines + 1;
    }
    a->flags |= (replaced ? BOX_FILES_REPLACED : 0) | (all ? 0 : BOX_FILES_TRUNCATED);
    a->cut = all ? BOX_FILES_CUT_NONE : t.why != BOX_FILES_CUT_NONE ? t.why : BOX_FILES_CUT_BYTES;
    /* The last line's end is not part of the answer. */
    if (t.text_len > 0 && text[t.text_len - 1] == '\n' && !t.cut)
        t.text_len--;
    if (box_files_send_data(w, text, t.text_len, err) < 0)
        return -1;
    return count_total(w, s, win, &t, before, a, err);
}

static int read_text(box_files_worker *w, const box_source *s, box_files_answer *a, box_error *err)
{
    const box_files_ask_head *h = &w->ask->head;
    window win = {.offset = h->offset};
    int64_t before = 0;
    bool past = false;
    bool by_offset = (h->flags & BOX_FILES_BY_OFFSET) != 0;
    if (!by_offset && find_line(w, s, h->start_line, &win.offset, &before, &past, err) < 0)
        return -1;
    win.len = box_source_left(s, win.offset, (size_t)h->max_bytes + LONGEST);
    BOX_AUTO(box_freep) uint8_t *data = malloc(win.len + 1);
    if (data == NULL)
        return box_fail(err, BOX_MEMORY_BUDGET, "no memory for the answer");
    win.data = data;
    if (read_window(w, s, &win, err) < 0)
        return -1;
    if (past || (win.len == 0 && (by_offset ? h->offset > 0 : h->start_line > 1))) {
        a->flags |= BOX_FILES_PAST_END;
        a->offset = win.offset;
        a->total_lines = by_offset ? -1 : before;
        return 0;
    }
    return send_lines(w, s, &win, before, a, err);
}

/* --- bytes ------------------------------------------------------------------------------------ */

static int read_bytes(box_files_worker *w, const box_source *s, box_files_answer *a, box_error *err)
{
    const box_files_ask_head *h = &w->ask->head;
    int64_t sent = 0;
    a->offset = h->offset;
    while (sent <= h->max_bytes) {
        /* One byte beyond says whether there is more. */
        int64_t want = h->max_bytes - sent + 1;
        want = want < BOX_FILES_ROOM_BYTES ? want : BOX_FILES_ROOM_BYTES;
        ssize_t n = box_source_read(s, w->room, (size_t)want, h->offset + sent, err);
        if (n < 0 || (n > 0 && box_files_step(w, err) < 0))
            return -1;
        if (n == 0)
            break;
        bool more = sent + n > h->max_bytes;
        if (box_files_send_data(w, w->room, (size_t)(more ? h->max_bytes - sent : n), err) < 0)
            return -1;
        sent += more ? h->max_bytes - sent : n;
        if (more) {
            a->flags |= BOX_FILES_TRUNCATED;
            a->cut = BOX_FILES_CUT_BYTES;
            a->next_offset = h->offset + sent;
            return 0;
        }
    }
    if (sent == 0 && h->offset > 0)
        a->flags |= BOX_FILES_PAST_END;
    return 0;
}

/* --- directories ------------------------------------------------------------------------------ */

/* Names as text, a line each. */
typedef struct listing {
    char *text;
    size_t len;
    int64_t sent;
    bool full;
} listing;

static void list_one(const box_files_ask_head *h, const box_name *name, listing *l,
                     box_files_answer *a)
{
    size_t used;
    bool replaced = false;
    if (l->full || a->total < h->start_line)
        return;
    size_t room = (size_t)h->max_bytes - l->len;
    size_t n = box_text_clean((const uint8_t *)name->text, name->len, false, l->text + l->len, room,
                              &used, &replaced);
    bool fits = used == name->len && n < room;
    if (l->sent == h->max_items || !fits) {
        l->full = true;
        a->cut = fits ? BOX_FILES_CUT_ENTRIES : BOX_FILES_CUT_BYTES;
        a->flags |= BOX_FILES_TRUNCATED;
        a->next_line = a->total;
        return;
    }
    l->len += n;
    l->text[l->len++] = '\n';
    l->sent++;
    a->flags |= replaced ? BOX_FILES_REPLACED : 0;
}

static int read_directory(box_files_worker *w, int fd, box_files_answer *a, box_error *err)
{
    const box_files_ask_head *h = &w->ask->head;
    box_names names;
    const box_name *name;
    listing l = {0};
    BOX_AUTO(box_freep) char *text = malloc((size_t)h->max_bytes + 1);
    if (text == NULL)
        return box_fail(err, BOX_MEMORY_BUDGET, "no memory for the answer");
    l.text = text;
    box_names_init(&names, fd, false, BOX_FILES_NAMES_BYTES, NULL);
    int rc;
    while ((rc = box_names_next(w, &names, &name, err)) > 0) {
        a->total++;
        list_one(h, name, &l, a);
    }
    box_names_done(&names);
    if (rc < 0)
        return -1;
    a->start_line = h->start_line;
    a->end_line = h->start_line + l.sent - 1;
    if (l.sent == 0 && h->start_line > 1)
        a->flags |= BOX_FILES_PAST_END;
    return box_files_send_data(w, l.text, l.len > 0 ? l.len - 1 : 0, err);
}

/* --- READ ------------------------------------------------------------------------------------- */

static int read_regular(box_files_worker *w, int fd, const struct stat *st, box_files_answer *a,
                        box_error *err)
{
    box_source s;
    if (box_source_init(&s, fd, st, w->path, err) < 0)
        return -1;
    a->flags |= box_text_is_binary(s.head, s.head_len) ? BOX_FILES_IS_BINARY : 0;
    if ((w->ask->head.flags & BOX_FILES_TEXT) != 0)
        return read_text(w, &s, a, err);
    return read_bytes(w, &s, a, err);
}

static int refuse_kind(box_error *err, const char *path)
{
    return box_fail(err, BOX_FILE_CONFLICT, "%s is neither a regular file nor a directory", path);
}

int box_files_do_read(box_files_worker *w, box_files_answer *answer, box_error *err)
{
    struct stat st;
    box_files_info info;
    BOX_AUTO(box_closep) int fd = box_place_open(w, w->path, O_RDONLY);
    if (fd < 0 && errno == ENXIO) /* a socket, or a device without a driver */
        return refuse_kind(err, w->path);
    if (fd < 0 || fstat(fd, &st) < 0)
        return box_place_fail(err, "open", w->path);
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return refuse_kind(err, w->path);
    box_place_info(&st, w->path, &info);
    if (box_files_send_info(w, &info, err) < 0)
        return -1;
    if (S_ISDIR(st.st_mode))
        return read_directory(w, fd, answer, err);
    return read_regular(w, fd, &st, answer, err);
}

/* --- GET -------------------------------------------------------------------------------------- */

int box_files_do_get(box_files_worker *w, box_files_answer *answer, box_error *err)
{
    const box_files_ask_head *h = &w->ask->head;
    struct stat st;
    box_files_info info;
    BOX_AUTO(box_closep) int fd = box_place_open(w, w->path, O_RDONLY);
    if (fd < 0 && errno == ENXIO)
        return refuse_kind(err, w->path);
    if (fd < 0 || fstat(fd, &st) < 0)
        return box_place_fail(err, "open", w->path);
    if (!S_ISREG(st.st_mode))
        return box_fail(err, BOX_FILE_CONFLICT, "%s is no regular file", w->path);
    box_place_info(&st, w->path, &info);
    if (box_files_send_info(w, &info, err) < 0)
        return -1;
    const box_source s = {.fd = fd, .path = w->path, .end = INT64_MAX}; /* also what it grows by */
    int64_t left = h->max_bytes > 0 ? h->max_bytes : INT64_MAX;
    while (left > 0) {
        size_t want = left < BOX_FILES_ROOM_BYTES ? (size_t)left : BOX_FILES_ROOM_BYTES;
        ssize_t n = box_source_read(&s, w->room, want, h->offset + answer->bytes, err);
        if (n < 0 || (n > 0 && box_files_send_data(w, w->room, (size_t)n, err) < 0))
            return -1;
        if (n == 0)
            break;
        answer->bytes += n;
        left -= n;
    }
    return 0;
}
