#include "files/diff.h"

#include "base/alloc.h"
#include "base/utf8.h"

enum {
    CONTEXT = 3,
    MAX_EDITS =
        400, /* lines that differ, beyond which they are one piece: memory goes by its square */
};

typedef struct line {
    const uint8_t *data;
    size_t len; /* with its end */
} line;

typedef struct text {
    line *lines;
    size_t count;
} text;

/* A stretch of both texts that differs; zero lines on one side: added or removed. */
typedef struct hunk {
    size_t from, from_count;
    size_t to, to_count;
} hunk;

typedef struct hunks {
    hunk list[MAX_EDITS + 1];
    size_t count;
} hunks;

static text split(box_bytes b)
{
    text t = {0};
    size_t count = 0;
    for (size_t at = 0; at < b.len; count++) {
        const uint8_t *nl = memchr(b.data + at, '\n', b.len - at);
        at = nl != NULL ? (size_t)(nl - b.data) + 1 : b.len;
    }
    t.lines = box_alloc_array(count + 1, sizeof *t.lines);
    for (size_t at = 0; at < b.len; t.count++) {
        const uint8_t *nl = memchr(b.data + at, '\n', b.len - at);
        size_t end = nl != NULL ? (size_t)(nl - b.data) + 1 : b.len;
        t.lines[t.count] = (line){.data = b.data + at, .len = end - at};
        at = end;
    }
    return t;
}

static void text_done(text *t)
{
    free(t->lines);
}

static bool same(const line *a, const line *b)
{
    return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

/* --- what differs (Myers, An O(ND) difference algorithm, 1986) -------------------------------- */

/* The furthest points of each number of edits, kept to walk back. */
typedef struct trace {
    const text *a, *b;
    size_t a0, a1, b0, b1; /* without what both begin and end with */
    int *rows;             /* row d: 2 * d + 1 furthest x, by diagonal */
    int edits;
} trace;

static int *row(const trace *t, int d)
{
    return t->rows + (size_t)d * (size_t)d; /* rows before have 1 + 3 + ... = d * d */
}

static int furthest(const trace *t, int d, int k)
{
    if (d == 0)
        return 0;
    const int *before = row(t, d - 1);
    bool down = k == -d || (k != d && before[k - 1 + d - 1] < before[k + 1 + d - 1]);
    return down ? before[k + 1 + d - 1] : before[k - 1 + d - 1] + 1;
}

static int slide(const trace *t, int x, int k)
{
    int n = (int)(t->a1 - t->a0);
    int m = (int)(t->b1 - t->b0);
    while (x < n && x - k < m && x - k >= 0 &&
           same(&t->a->lines[t->a0 + (size_t)x], &t->b->lines[t->b0 + (size_t)(x - k)]))
        x++;
    return x;
}

/* False: more than MAX_EDITS. */
static bool search(trace *t)
{
    int n = (int)(t->a1 - t->a0);
    int m = (int)(t->b1 - t->b0);
    for (int d = 0; d <= MAX_EDITS; d++) {
        int *now = row(t, d);
        for (int k = -d; k <= d; k++) {
            now[k + d] = 0;
            if ((k + d) % 2 != 0)
                continue;
            int x = slide(t, furthest(t, d, k), k);
            now[k + d] = x;
            if (x == n && x - k == m) {
                t->edits = d;
                return true;
            }
        }
    }
    return false;
}

/* Lines that are removed or added, from the last to the first; neighbours become one hunk. */
static void note_edit(hunks *all, size_t from, size_t to, bool removed)
{
    hunk *h = all->count > 0 ? &all->list[all->count - 1] : NULL;
    size_t from_end = from + (removed ? 1 : 0);
    size_t to_end = to + (removed ? 0 : 1);
    if (h == NULL || h->from != from_end || h->to != to_end) {
        h = &all->list[all->count++];
        *h = (hunk){.from = from_end, .to = to_end};
    }
    h->from_count += removed ? 1 : 0;
    h->to_count += removed ? 0 : 1;
    h->from = from;
    h->to = to;
}

static void walk_back(const trace *t, hunks *all)
{
    int x = (int)(t->a1 - t->a0);
    int y = (int)(t->b1 - t->b0);
    for (int d = t->edits; d > 0; d--) {
        const int *before = row(t, d - 1);
        int k = x - y;
        bool down = k == -d || (k != d && before[k - 1 + d - 1] < before[k + 1 + d - 1]);
        int k_before = down ? k + 1 : k - 1;
        x = before[k_before + d - 1];
        y = x - k_before;
        note_edit(all, t->a0 + (size_t)x, t->b0 + (size_t)y, !down);
    }
}

static void reverse(hunks *all)
{
    for (size_t i = 0; i < all->count / 2; i++) {
        hunk keep = all->list[i];
        all->list[i] = all->list[all->count - 1 - i];
        all->list[all->count - 1 - i] = keep;
    }
}

static void compare(const text *a, const text *b, hunks *all)
{
    trace t = {.a = a, .b = b, .a1 = a->count, .b1 = b->count};
    while (t.a0 < t.a1 && t.b0 < t.b1 && same(&a->lines[t.a0], &b->lines[t.b0])) {
        t.a0++;
        t.b0++;
    }
    while (t.a1 > t.a0 && t.b1 > t.b0 && same(&a->lines[t.a1 - 1], &b->lines[t.b1 - 1])) {
        t.a1--;
        t.b1--;
    }
    if (t.a0 == t.a1 && t.b0 == t.b1)
        return;
    BOX_AUTO(box_freep)
    int *rows = box_alloc_array((size_t)(MAX_EDITS + 1) * (MAX_EDITS + 1), sizeof *rows);
    t.rows = rows;
    if (t.a0 < t.a1 && t.b0 < t.b1 && search(&t)) {
        walk_back(&t, all);
        reverse(all);
        return;
    }
    all->list[all->count++] =
        (hunk){.from = t.a0, .from_count = t.a1 - t.a0, .to = t.b0, .to_count = t.b1 - t.b0};
}

/* --- writing it ------------------------------------------------------------------------------- */

typedef struct writer {
    box_buf *out;
    size_t left;
    bool cut;
    box_error *err;
    bool failed;
} writer;

static void add(writer *w, const void *data, size_t len)
{
    if (w->cut || w->failed)
        return;
    if (len > w->left) {
        w->cut = true;
        return;
    }
    w->failed = box_buf_add(w->out, data, len, w->err) < 0;
    w->left -= len;
}

static void add_line(writer *w, char mark, const line *l)
{
    static const char no_end[] = "\n\\ No newline at end of file\n";
    bool ended = l->len > 0 && l->data[l->len - 1] == '\n';
    size_t need = 1 + l->len + (ended ? 0 : sizeof no_end - 1);
    if (need > w->left) {
        w->cut = true;
        return;
    }
    add(w, &mark, 1);
    add(w, l->data, l->len);
    if (!ended)
        add(w, no_end, sizeof no_end - 1);
}

static void add_head(writer *w, const char *name)
{
    char clean[256];
    char head[600];
    (void)snprintf(clean, sizeof clean, "%s", name);
    box_utf8_hide_controls(clean, "");
    int n = snprintf(head, sizeof head, "--- a%s\n+++ b%s\n", clean, clean);
    add(w, head, (size_t)n);
}

/* Line numbers count from 1; those of an empty stretch name the line before it. */
static void add_range(writer *w, size_t from, size_t from_count, size_t to, size_t to_count)
{
    char head[128];
    int n = snprintf(head, sizeof head, "@@ -%zu,%zu +%zu,%zu @@\n", from + (from_count > 0),
                     from_count, to + (to_count > 0), to_count);
    add(w, head, (size_t)n);
}

static size_t less(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Hunks i to j (not included), which are so near that they share their context. */
static void add_group(writer *w, const text *a, const text *b, const hunk *list, size_t i, size_t j)
{
    const hunk *first = &list[i];
    const hunk *last = &list[j - 1];
    size_t before = less(CONTEXT, first->from);
    size_t after = less(CONTEXT, a->count - (last->from + last->from_count));
    size_t from = first->from - before;
    size_t end = last->from + last->from_count + after;
    size_t to = first->to - before;
    add_range(w, from, end - from, to, last->to + last->to_count + after - to);
    for (size_t at = from; i < j; i++) {
        for (; at < list[i].from; at++)
            add_line(w, ' ', &a->lines[at]);
        for (size_t n = 0; n < list[i].from_count; n++)
            add_line(w, '-', &a->lines[at++]);
        for (size_t n = 0; n < list[i].to_count; n++)
            add_line(w, '+', &b->lines[list[i].to + n]);
        for (; i + 1 == j && at < end; at++)
            add_line(w, ' ', &a->lines[at]);
    }
}

int box_diff(box_bytes from, box_bytes to, const char *name, size_t max_bytes, box_buf *out,
             bool *cut, box_error *err)
{
    BOX_AUTO(text_done) text a = split(from);
    BOX_AUTO(text_done) text b = split(to);
    BOX_AUTO(box_freep) hunks *all = box_alloc(sizeof *all);
    writer w = {.out = out, .left = max_bytes, .err = err};
    compare(&a, &b, all);
    if (all->count > 0)
        add_head(&w, name);
    for (size_t i = 0, j; i < all->count; i = j) {
        for (j = i + 1; j < all->count; j++) {
            const hunk *h = &all->list[j - 1];
            if (all->list[j].from - (h->from + h->from_count) > (size_t)2 * CONTEXT)
                break;
        }
        add_group(&w, &a, &b, all->list, i, j);
    }
    *cut = w.cut;
    return w.failed ? -1 : 0;
}
