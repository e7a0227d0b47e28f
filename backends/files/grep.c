/* GREP: lines that match a regular expression (PCRE2), sorted by path and line. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pcre2.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "files/lines.h"
#include "files/look.h"
#include "files/pattern.h"
#include "files/place.h"
#include "files/text.h"

/* One attempt to match one line: some 10 ms at most; the time of the call bounds them all. */
enum {
    MATCH_LIMIT = 200000,
    DEPTH_LIMIT = 20000,
    HEAP_KIB = 8 * 1024,
};

/* A line that may be needed as context of a match to come. */
typedef struct remembered {
    char *text;
    size_t len;
    bool cut;
    int64_t number;
} remembered;

typedef struct grep {
    box_files_worker *w;
    box_files_answer *a;
    pcre2_code *code;
    pcre2_match_data *match;
    pcre2_match_context *limits;
    box_pattern include[BOX_FILES_MAX_LIST];
    box_pattern exclude[BOX_FILES_MAX_LIST];
    uint8_t *room; /* of lines */
    char *text;    /* a line made clean */
    remembered before[BOX_FILES_MAX_CONTEXT];
    size_t n_before;
    uint32_t after;  /* lines still to be given */
    int64_t matches; /* given */
    bool full;       /* no more are given, only counted */
    bool line_cut;
    bool gave_up; /* a line was too hard to match */
} grep;

static void forget(grep *g)
{
    for (size_t i = 0; i < g->n_before; i++)
        free(g->before[i].text);
    g->n_before = 0;
    g->after = 0;
}

static void grep_done(grep **at)
{
    grep *g = *at;
    const box_files_ask_head *h = &g->w->ask->head;
    forget(g);
    for (uint32_t i = 0; i < h->n_include; i++)
        box_pattern_done(&g->include[i]);
    for (uint32_t i = 0; i < h->n_exclude; i++)
        box_pattern_done(&g->exclude[i]);
    pcre2_match_context_free(g->limits);
    pcre2_match_data_free(g->match);
    pcre2_code_free(g->code);
    free(g->room);
    free(g->text);
    free(g);
}

/* --- getting ready ---------------------------------------------------------------------------- */

static int compile(grep *g, box_error *err)
{
    const box_files_ask *ask = g->w->ask;
    int code = 0;
    PCRE2_SIZE at = 0;
    uint32_t options = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C;
    options |= (ask->head.flags & BOX_FILES_IGNORE_CASE) != 0 ? PCRE2_CASELESS : 0;
    if ((ask->head.flags & BOX_FILES_LITERAL) != 0)
        options = (options & ~(uint32_t)PCRE2_NEVER_BACKSLASH_C) | PCRE2_LITERAL;
    g->code = pcre2_compile(ask->pattern.data, ask->pattern.len, options, &code, &at, NULL);
    if (g->code == NULL) {
        char text[128];
        (void)pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text); /* cut is fine */
        return box_violation(err, "pattern", "at byte %zu: %s", (size_t)at, text);
    }
    g->match = pcre2_match_data_create(1, NULL);
    g->limits = pcre2_match_context_create(NULL);
    if (g->match == NULL || g->limits == NULL)
        return box_fail(err, BOX_MEMORY_BUDGET, "no memory for the pattern");
    (void)pcre2_set_match_limit(g->limits, MATCH_LIMIT); /* always 0; so for all */
    (void)pcre2_set_depth_limit(g->limits, DEPTH_LIMIT);
    (void)pcre2_set_heap_limit(g->limits, HEAP_KIB);
    return 0;
}

static int read_patterns(const box_bytes *from, uint32_t count, box_pattern *to, const char *field,
                         box_error *err)
{
    for (uint32_t i = 0; i < count; i++) {
        box_error e = {0};
        if (box_pattern_init(&to[i], from[i], &e) < 0)
            return box_violation(err, field, "entry %u: %s", i, e.msg);
    }
    return 0;
}

static int prepare(grep *g, box_error *err)
{
    const box_files_ask *ask = g->w->ask;
    size_t line = (size_t)ask->head.max_bytes;
    if (ask->pattern.len == 0 || line == 0 || line > BOX_FILES_MAX_LINE_BYTES)
        return box_violation(err, "pattern", "must not be empty");
    g->room = malloc(BOX_LINES_BYTES);
    g->text = malloc(line + 1);
    if (g->room == NULL || g->text == NULL)
        return box_fail(err, BOX_MEMORY_BUDGET, "no memory for lines");
    if (read_patterns(ask->include, ask->head.n_include, g->include, "include", err) < 0 ||
        read_patterns(ask->exclude, ask->head.n_exclude, g->exclude, "exclude", err) < 0)
        return -1;
    return compile(g, err);
}

/* --- giving lines ----------------------------------------------------------------------------- */

static int send_text(grep *g, box_files_line *line, bool cut, box_error *err)
{
    if (!box_files_has_room(g->w, sizeof(box_files_frame) + sizeof line->head +
                                      2 * sizeof(uint32_t) + line->path.len + line->text.len)) {
        g->full = true;
        g->a->cut = BOX_FILES_CUT_BYTES;
        return 0;
    }
    line->head.cut = cut;
    g->line_cut |= cut;
    return box_files_send_line(g->w, line, err);
}

static int send_line(grep *g, uint32_t place, const box_lines_line *l, int64_t hit,
                     const char *path, box_error *err)
{
    size_t used;
    bool replaced = false;
    size_t n = box_text_clean(l->data, l->len, false, g->text, (size_t)g->w->ask->head.max_bytes,
                              &used, &replaced);
    box_files_line line = {
        .head = {.place = place, .number = l->number, .offset = hit},
        .path = {.data = (const uint8_t *)path, .len = path != NULL ? strlen(path) : 0},
        .text = {.data = (const uint8_t *)g->text, .len = n}};
    return send_text(g, &line, used < l->len || l->cut, err);
}

static int send_before(grep *g, box_error *err)
{
    for (size_t i = 0; i < g->n_before && !g->full; i++) {
        const remembered *r = &g->before[i];
        box_files_line line = {.head = {.place = BOX_FILES_BEFORE, .number = r->number},
                               .text = {.data = (const uint8_t *)r->text, .len = r->len}};
        if (send_text(g, &line, r->cut, err) < 0)
            return -1;
    }
    return 0;
}

static void remember(grep *g, const box_lines_line *l)
{
    const box_files_ask_head *h = &g->w->ask->head;
    if (h->before == 0)
        return;
    if (g->n_before == h->before) {
        free(g->before[0].text);
        memmove(g->before, g->before + 1, (g->n_before - 1) * sizeof g->before[0]);
        g->n_before--;
    }
    size_t used;
    bool replaced = false;
    size_t n =
        box_text_clean(l->data, l->len, false, g->text, (size_t)h->max_bytes, &used, &replaced);
    remembered *r = &g->before[g->n_before++];
    *r = (remembered){
        .text = box_alloc(n + 1), .len = n, .cut = used < l->len || l->cut, .number = l->number};
    memcpy(r->text, g->text, n);
}

static int on_match(grep *g, const box_lines_line *l, const char *path, box_error *err)
{
    g->a->total++;
    if (g->matches == g->w->ask->head.max_items && !g->full) {
        g->full = true;
        g->a->cut = BOX_FILES_CUT_MATCHES;
    }
    if (!g->full && send_before(g, err) < 0)
        return -1;
    if (g->full)
        return 0;
    const PCRE2_SIZE *hit = pcre2_get_ovector_pointer(g->match);
    if (send_line(g, BOX_FILES_MATCH, l, l->offset + (int64_t)hit[0], path, err) < 0)
        return -1;
    g->matches += !g->full;
    g->after = g->w->ask->head.after;
    return 0;
}

/* --- one file --------------------------------------------------------------------------------- */

static int look_at_line(grep *g, const box_lines_line *l, const char *path, box_error *err)
{
    int rc = pcre2_match(g->code, l->data, l->len, 0, 0, g->match, g->limits);
    g->gave_up |= rc < 0 && rc != PCRE2_ERROR_NOMATCH;
    if (rc >= 0) {
        int sent = on_match(g, l, path, err);
        size_t n = g->n_before;
        for (size_t i = 0; i < n; i++)
            free(g->before[i].text);
        g->n_before = 0; /* a line is given once */
        return sent;
    }
    if (g->after > 0 && !g->full) {
        g->after--;
        return send_line(g, BOX_FILES_AFTER, l, 0, NULL, err);
    }
    remember(g, l);
    return 0;
}

static int look_at_lines(grep *g, int fd, const char *path, box_error *err)
{
    box_lines lines = {.fd = fd, .room = g->room};
    box_lines_line line;
    int rc;
    forget(g);
    while ((rc = box_lines_next(&lines, &line)) > 0) {
        if (look_at_line(g, &line, path, err) < 0 || box_files_step(g->w, err) < 0)
            return -1;
    }
    g->a->searched += rc == 0;
    g->a->skipped += rc < 0; /* it cannot be read to its end */
    return 0;
}

static bool is_worth_it(grep *g, int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > BOX_FILES_GREP_FILE_BYTES)
        return false;
    if ((g->w->ask->head.flags & BOX_FILES_BINARY) != 0)
        return true;
    ssize_t n = pread(fd, g->room, 8192, 0);
    return n >= 0 && !box_text_is_binary(g->room, (size_t)n);
}

/* fd is taken; -1: it cannot be opened. */
static int look_at_file(grep *g, int fd, const char *path, box_error *err)
{
    BOX_AUTO(box_closep) int owned = fd;
    if (owned < 0 || !is_worth_it(g, owned)) {
        g->a->skipped++;
        return 0;
    }
    return look_at_lines(g, owned, path, err);
}

/* --- all of them ------------------------------------------------------------------------------ */

static bool any_matches(const box_pattern *list, uint32_t count, const char *path)
{
    for (uint32_t i = 0; i < count; i++) {
        if (box_pattern_matches(&list[i], path))
            return true;
    }
    return false;
}

static int look_below(grep *g, box_walk *walk, box_error *err)
{
    const box_files_ask_head *h = &g->w->ask->head;
    box_walk_entry e;
    int rc;
    while ((rc = box_walk_next(g->w, walk, &e, err)) > 0) {
        char path[BOX_FILES_MAX_PATH + 1];
        if (e.type != DT_REG ||
            (h->n_include > 0 && !any_matches(g->include, h->n_include, e.path)) ||
            any_matches(g->exclude, h->n_exclude, e.path))
            continue;
        if (!box_look_join(g->w, e.path, path)) {
            walk->cut = true;
            continue;
        }
        if (look_at_file(g, box_place_open_below(e.dir, e.name, O_RDONLY), path, err) < 0)
            return -1;
    }
    return rc;
}

static int look(grep *g, bool *cut, box_error *err)
{
    const box_files_ask *ask = g->w->ask;
    struct stat st;
    int fd = box_look_open(g->w, &st, err);
    if (fd < 0)
        return -1;
    if (S_ISREG(st.st_mode))
        return look_at_file(g, fd, g->w->path, err);
    if (!S_ISDIR(st.st_mode)) {
        (void)close(fd);
        return box_fail(err, BOX_FILE_CONFLICT, "%s is neither a regular file nor a directory",
                        g->w->path);
    }
    box_walk_options options = {.depth = BOX_FILES_MAX_DEPTH,
                                .no_hidden = (ask->head.flags & BOX_FILES_NO_HIDDEN) != 0,
                                .skip = ask->skip,
                                .n_skip = ask->head.n_skip};
    BOX_AUTO(box_freep) box_walk *walk = box_alloc(sizeof *walk);
    box_walk_begin(walk, fd, &options);
    int rc = look_below(g, walk, err);
    *cut = walk->cut;
    box_walk_done(walk);
    return rc;
}

static void say_what_is_missing(const grep *g, bool late, bool cut)
{
    box_files_answer *a = g->a;
    if (late)
        a->cut = BOX_FILES_CUT_TIME;
    else if (a->cut == BOX_FILES_CUT_NONE && (cut || g->gave_up))
        a->cut = BOX_FILES_CUT_SCAN;
    else if (a->cut == BOX_FILES_CUT_NONE && g->line_cut)
        a->cut = BOX_FILES_CUT_LINE_LENGTH;
    if (a->cut != BOX_FILES_CUT_NONE)
        a->flags |= BOX_FILES_TRUNCATED;
}

int box_files_do_grep(box_files_worker *w, box_files_answer *answer, box_error *err)
{
    BOX_AUTO(grep_done) grep *g = box_alloc(sizeof *g);
    bool cut = false;
    g->w = w;
    g->a = answer;
    if (prepare(g, err) < 0)
        return -1;
    int rc = look(g, &cut, err);
    bool late = rc < 0 && err->reason == BOX_DEADLINE;
    say_what_is_missing(g, late, cut);
    return rc < 0 && !late ? -1 : 0;
}
