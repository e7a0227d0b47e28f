#include "files/wire.h"

#include "base/utf8.h"

static int misfit(box_error *err, const char *what)
{
    return box_fail(err, BOX_PROTOCOL, "files channel: %s", what);
}

/* --- frames ----------------------------------------------------------------------------------- */

/* What every type looks like: the one place that knows sizes and directions. */
typedef struct type_row {
    bool from_boxd;
    bool from_worker;
    uint32_t least;
    uint32_t most_boxd;
    uint32_t most_worker;
} type_row;

static const type_row types[] = {
    [BOX_FILES_ASK] = {true, false, sizeof(box_files_ask_head), BOX_FILES_ASK_BYTES, 0},
    [BOX_FILES_DATA] = {true, true, 1, BOX_FILES_ASK_BYTES, BOX_FILES_CHUNK_BYTES},
    [BOX_FILES_END] = {true, false, 0, 0, 0},
    [BOX_FILES_HELLO] = {false, true, sizeof(uint32_t), 0, sizeof(uint32_t)},
    [BOX_FILES_INFO] = {false, true, sizeof(box_files_info_head), 0,
                        sizeof(box_files_info_head) + 2 * (sizeof(uint32_t) + BOX_FILES_MAX_PATH)},
    [BOX_FILES_LINE] = {false, true, sizeof(box_files_line_head), 0,
                        BOX_FILES_WORKER_BYTES - sizeof(box_files_frame)},
    [BOX_FILES_ANSWER] = {false, true, sizeof(box_files_answer), 0, sizeof(box_files_answer)},
};

int box_files_frame_look(const uint8_t *data, size_t len, box_files_sender from,
                         box_files_frame *out, box_error *err)
{
    box_files_frame f;
    if (len < sizeof f)
        return 0;
    memcpy(&f, data, sizeof f);
    if (f.type >= BOX_COUNT(types))
        return misfit(err, "unknown type");
    const type_row *row = &types[f.type];
    bool boxd = from == BOX_FILES_FROM_BOXD;
    if (boxd ? !row->from_boxd : !row->from_worker)
        return misfit(err, "a type the other side sends, or nobody");
    if (f.size < row->least || f.size > (boxd ? row->most_boxd : row->most_worker))
        return misfit(err, "a frame of impossible size");
    *out = f;
    return 1;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Once bad, stays bad and gives nothing. */
typedef struct reader {
    const uint8_t *at;
    size_t left;
    bool bad;
} reader;

static void take(reader *r, void *out, size_t size)
{
    if (r->bad || r->left < size) {
        r->bad = true;
        return;
    }
    memcpy(out, r->at, size);
    r->at += size;
    r->left -= size;
}

static box_bytes take_bytes(reader *r, size_t most)
{
    uint32_t len = 0;
    take(r, &len, sizeof len);
    if (r->bad || len > most || len > r->left) {
        r->bad = true;
        return (box_bytes){0};
    }
    box_bytes b = {.data = r->at, .len = len};
    r->at += len;
    r->left -= len;
    return b;
}

static bool has_nul(box_bytes b)
{
    return b.len > 0 && memchr(b.data, '\0', b.len) != NULL;
}

/* A path: absolute; may be empty where `optional`. */
static box_bytes take_path(reader *r, bool optional)
{
    box_bytes b = take_bytes(r, BOX_FILES_MAX_PATH);
    bool fits = b.len == 0 ? optional : b.data[0] == '/' && !has_nul(b);
    r->bad |= !fits;
    return b;
}

static void take_list(reader *r, box_bytes *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        list[i] = take_bytes(r, BOX_FILES_MAX_PATTERN);
        r->bad |= has_nul(list[i]);
    }
}

static int finish(const reader *r, const char *what, box_error *err)
{
    return r->bad || r->left > 0 ? misfit(err, what) : 0;
}

int box_files_hello_parse(box_bytes body, box_error *err)
{
    uint32_t version = 0;
    reader r = {.at = body.data, .left = body.len};
    take(&r, &version, sizeof version);
    if (finish(&r, "HELLO of another size", err) < 0)
        return -1;
    if (version == BOX_FILES_VERSION)
        return 0;
    return box_fail(err, BOX_VERSION_MISMATCH, "files channel: version %u here, %u there",
                    (unsigned)BOX_FILES_VERSION, version);
}

static bool head_fits(const box_files_ask_head *h)
{
    bool counts = h->n_include <= BOX_FILES_MAX_LIST && h->n_exclude <= BOX_FILES_MAX_LIST &&
                  h->n_skip <= BOX_FILES_MAX_LIST && h->n_edits <= BOX_FILES_MAX_LIST;
    bool numbers = h->offset >= 0 && h->start_line >= 0 && h->max_items >= 0 && h->max_bytes >= 0 &&
                   h->before <= BOX_FILES_MAX_CONTEXT && h->after <= BOX_FILES_MAX_CONTEXT;
    return h->op >= BOX_FILES_STAT && h->op < BOX_FILES_OP_END &&
           (h->flags & ~(uint32_t)BOX_FILES_ALL_FLAGS) == 0 && h->permissions >= -1 &&
           h->permissions <= 0777 && h->kind < BOX_FILES_KIND_END && h->has_digest <= 1 && counts &&
           numbers;
}

int box_files_ask_parse(box_bytes body, box_files_ask *out, box_error *err)
{
    reader r = {.at = body.data, .left = body.len};
    box_files_ask_head *h = &out->head;
    take(&r, h, sizeof *h);
    if (r.bad || !head_fits(h))
        return misfit(err, "an ASK that makes no sense");
    out->path = take_path(&r, false);
    out->target = take_path(&r, h->op != BOX_FILES_MOVE);
    out->pattern = take_bytes(&r, BOX_FILES_MAX_PATTERN);
    r.bad |= h->op == BOX_FILES_GLOB && has_nul(out->pattern);
    take_list(&r, out->include, h->n_include);
    take_list(&r, out->exclude, h->n_exclude);
    take_list(&r, out->skip, h->n_skip);
    for (uint32_t i = 0; i < h->n_edits; i++) {
        uint32_t all = 0;
        take(&r, &all, sizeof all);
        out->edits[i].old_data = take_bytes(&r, BOX_FILES_ASK_BYTES);
        out->edits[i].new_data = take_bytes(&r, BOX_FILES_ASK_BYTES);
        out->edits[i].all = all == 1;
        r.bad |= all > 1 || out->edits[i].old_data.len == 0;
    }
    return finish(&r, "an ASK that does not fit its frame", err);
}

int box_files_info_parse(box_bytes body, box_files_info *out, box_error *err)
{
    reader r = {.at = body.data, .left = body.len};
    const box_files_info_head *h = &out->head;
    take(&r, &out->head, sizeof out->head);
    out->path = take_path(&r, false);
    out->target = take_bytes(&r, BOX_FILES_MAX_PATH);
    bool fits = !r.bad && h->kind >= BOX_FILES_REGULAR && h->kind < BOX_FILES_KIND_END &&
                h->permissions <= 07777 && h->uid <= INT32_MAX && h->gid <= INT32_MAX &&
                h->size_bytes >= 0 && h->allocated_bytes >= 0 && h->links >= 0;
    r.bad |= !fits || has_nul(out->target);
    return finish(&r, "an INFO that makes no sense", err);
}

int box_files_line_parse(box_bytes body, box_files_line *out, box_error *err)
{
    reader r = {.at = body.data, .left = body.len};
    const box_files_line_head *h = &out->head;
    take(&r, &out->head, sizeof out->head);
    out->path = take_path(&r, h->place != BOX_FILES_MATCH);
    out->text = take_bytes(&r, BOX_FILES_MAX_LINE_BYTES);
    bool fits = !r.bad && h->place >= BOX_FILES_BEFORE && h->place <= BOX_FILES_AFTER &&
                h->cut <= 1 && h->number >= 1 && h->offset >= 0;
    r.bad |=
        !fits || has_nul(out->text) || !box_utf8_valid((const char *)out->text.data, out->text.len);
    return finish(&r, "a LINE that makes no sense", err);
}

int box_files_answer_parse(box_bytes body, box_files_answer *out, box_error *err)
{
    reader r = {.at = body.data, .left = body.len};
    take(&r, out, sizeof *out);
    if (finish(&r, "an ANSWER of another size", err) < 0)
        return -1;
    box_error_sanitize(&out->error);
    bool numbers = out->total >= 0 && out->searched >= 0 && out->skipped >= 0 && out->bytes >= 0 &&
                   out->offset >= 0 && out->next_offset >= 0 && out->start_line >= 0 &&
                   out->end_line >= 0 && out->next_line >= 0 && out->total_lines >= -1;
    if (!numbers || out->cut >= BOX_FILES_CUT_END ||
        (out->flags & ~(uint32_t)BOX_FILES_ANSWER_FLAGS) != 0)
        return misfit(err, "an ANSWER that makes no sense");
    return 0;
}

/* --- building --------------------------------------------------------------------------------- */

/* A frame under construction; the first failure stays. */
typedef struct writer {
    uint8_t *at;
} writer;

static void put(writer *w, const void *data, size_t len)
{
    if (len > 0)
        memcpy(w->at, data, len);
    w->at += len;
}

static void put_bytes(writer *w, box_bytes b)
{
    uint32_t len = (uint32_t)b.len;
    put(w, &len, sizeof len);
    put(w, b.data, b.len);
}

static int begin(box_buf *out, box_files_type type, size_t size, writer *w, box_error *err)
{
    box_files_frame f = {.type = type, .size = (uint32_t)size};
    if (size > BOX_FILES_ASK_BYTES) {
        (void)box_fail(err, BOX_MESSAGE_SIZE, "the request is too large");
        return -1; /* what box_fail returns too; clang's analyzer does not see that */
    }
    if (box_buf_reserve(out, sizeof f + size, &w->at, err) < 0)
        return -1;
    put(w, &f, sizeof f);
    return 0;
}

static void commit(box_buf *out, size_t size)
{
    box_buf_commit(out, sizeof(box_files_frame) + size);
}

int box_files_put_frame(box_buf *out, box_files_type type, const void *body, size_t size,
                        box_error *err)
{
    writer w;
    if (begin(out, type, size, &w, err) < 0)
        return -1;
    put(&w, body, size);
    commit(out, size);
    return 0;
}

static size_t list_size(const box_bytes *list, uint32_t count)
{
    size_t size = 0;
    for (uint32_t i = 0; i < count; i++)
        size += sizeof(uint32_t) + list[i].len;
    return size;
}

static void put_list(writer *w, const box_bytes *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        put_bytes(w, list[i]);
}

static size_t ask_size(const box_files_ask *a)
{
    const box_files_ask_head *h = &a->head;
    size_t size = sizeof *h + 3 * sizeof(uint32_t) + a->path.len + a->target.len + a->pattern.len;
    size += list_size(a->include, h->n_include) + list_size(a->exclude, h->n_exclude) +
            list_size(a->skip, h->n_skip);
    for (uint32_t i = 0; i < h->n_edits; i++)
        size += 3 * sizeof(uint32_t) + a->edits[i].old_data.len + a->edits[i].new_data.len;
    return size;
}

int box_files_put_ask(box_buf *out, const box_files_ask *a, box_error *err)
{
    writer w;
    const box_files_ask_head *h = &a->head;
    size_t size = ask_size(a);
    if (begin(out, BOX_FILES_ASK, size, &w, err) < 0)
        return -1;
    put(&w, h, sizeof *h);
    put_bytes(&w, a->path);
    put_bytes(&w, a->target);
    put_bytes(&w, a->pattern);
    put_list(&w, a->include, h->n_include);
    put_list(&w, a->exclude, h->n_exclude);
    put_list(&w, a->skip, h->n_skip);
    for (uint32_t i = 0; i < h->n_edits; i++) {
        uint32_t all = a->edits[i].all;
        put(&w, &all, sizeof all);
        put_bytes(&w, a->edits[i].old_data);
        put_bytes(&w, a->edits[i].new_data);
    }
    commit(out, size);
    return 0;
}

/* A head and two texts. */
static int put_texts(box_buf *out, box_files_type type, box_bytes head, box_bytes first,
                     box_bytes second, box_error *err)
{
    writer w;
    size_t size = head.len + 2 * sizeof(uint32_t) + first.len + second.len;
    if (begin(out, type, size, &w, err) < 0)
        return -1;
    put(&w, head.data, head.len);
    put_bytes(&w, first);
    put_bytes(&w, second);
    commit(out, size);
    return 0;
}

int box_files_put_info(box_buf *out, const box_files_info *info, box_error *err)
{
    box_bytes head = {(const uint8_t *)&info->head, sizeof info->head};
    return put_texts(out, BOX_FILES_INFO, head, info->path, info->target, err);
}

int box_files_put_line(box_buf *out, const box_files_line *line, box_error *err)
{
    box_bytes head = {(const uint8_t *)&line->head, sizeof line->head};
    return put_texts(out, BOX_FILES_LINE, head, line->path, line->text, err);
}

int box_files_put_answer(box_buf *out, const box_files_answer *answer, box_error *err)
{
    return box_files_put_frame(out, BOX_FILES_ANSWER, answer, sizeof *answer, err);
}
