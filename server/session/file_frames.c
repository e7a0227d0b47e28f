/* What a file worker says, held against what it was asked. It lives in the hostile sandbox: nothing
 * here takes it for true, and no answer is larger than its request allows. */
#include <assert.h>

#include "session/file_call.h"

static_assert(BOX_FILES_DIFF_BYTES <= BOX_FILE_DATA_BYTES, "EDIT answers a diff");

/* Exactly one INFO, before any content. */
static bool has_one_info(uint32_t op)
{
    return op != BOX_FILES_GLOB && op != BOX_FILES_GREP && op != BOX_FILES_LIST &&
           op != BOX_FILES_REMOVE;
}

static uint64_t most_infos(const box_files_ask_head *h)
{
    if (has_one_info(h->op))
        return 1;
    return h->op == BOX_FILES_GLOB || h->op == BOX_FILES_LIST ? (uint64_t)h->max_items : 0;
}

static uint64_t most_data(const box_files_ask_head *h)
{
    switch (h->op) {
    case BOX_FILES_READ:
        return (h->max_bytes < BOX_FILES_MAX_READ_BYTES ? (uint64_t)h->max_bytes
                                                        : BOX_FILES_MAX_READ_BYTES) +
               BOX_FILE_CHARACTER_BYTES;
    case BOX_FILES_EDIT:
        return BOX_FILES_DIFF_BYTES;
    case BOX_FILES_GET:
        return h->max_bytes > 0 ? (uint64_t)h->max_bytes : UINT64_MAX;
    default:
        return 0;
    }
}

void box_file_bound(box_file_call *c, const box_files_ask_head *h)
{
    c->op = h->op;
    c->may = (box_file_bounds){.infos = most_infos(h),
                               .matches = h->op == BOX_FILES_GREP ? (uint64_t)h->max_items : 0,
                               .data_bytes = most_data(h)};
}

static int too_much(box_error *err)
{
    return box_fail(err, BOX_PROTOCOL, "more than was asked for");
}

/* An item costs what it is and some, so that many small ones are bounded too. */
static int count_item(box_file_call *c, box_bytes body, box_error *err)
{
    c->item_bytes += BOX_FILES_ITEM_COST + body.len;
    return c->item_bytes <= BOX_FILE_ITEM_BYTES ? 0 : too_much(err);
}

static int on_info(box_file_call *c, box_bytes body, box_error *err)
{
    box_files_info info;
    if (++c->n_infos > c->may.infos)
        return too_much(err);
    if (count_item(c, body, err) < 0 || box_files_info_parse(body, &info, err) < 0)
        return -1;
    if (!c->detached)
        c->events.info(c->arg, &info);
    return 0;
}

static int on_line(box_file_call *c, box_bytes body, box_error *err)
{
    box_files_line line;
    if (c->op != BOX_FILES_GREP || c->events.line == NULL)
        return box_fail(err, BOX_PROTOCOL, "a line nobody asked for");
    if (count_item(c, body, err) < 0 || box_files_line_parse(body, &line, err) < 0)
        return -1;
    c->n_matches += line.head.place == BOX_FILES_MATCH;
    if (c->n_matches > c->may.matches)
        return too_much(err);
    if (!c->detached)
        c->events.line(c->arg, &line);
    return 0;
}

static int on_data(box_file_call *c, box_bytes body, box_error *err)
{
    if (c->may.data_bytes == 0 || c->events.data == NULL)
        return box_fail(err, BOX_PROTOCOL, "content nobody asked for");
    if (c->n_infos == 0 || body.len == 0)
        return box_fail(err, BOX_PROTOCOL, "content at the wrong time");
    if (body.len > c->may.data_bytes - c->data_bytes)
        return too_much(err);
    c->data_bytes += body.len;
    if (!c->detached)
        c->events.data(c->arg, body.data, body.len);
    return 0;
}

static int on_answer(box_file_call *c, box_bytes body, box_error *err)
{
    if (box_files_answer_parse(body, &c->answer, err) < 0)
        return -1;
    if (c->answer.error.reason == BOX_NONE && has_one_info(c->op) && c->n_infos == 0)
        return box_fail(err, BOX_PROTOCOL, "an answer without its file");
    c->answered = true;
    return 0;
}

static int on_frame(box_file_call *c, uint32_t type, box_bytes body, box_error *err)
{
    if ((type == BOX_FILES_HELLO) == c->worker->greeted || c->answered)
        return box_fail(err, BOX_PROTOCOL, "a frame at the wrong time");
    c->got_something |= type != BOX_FILES_HELLO;
    switch (type) {
    case BOX_FILES_HELLO:
        c->worker->greeted = true;
        return box_files_hello_parse(body, err);
    case BOX_FILES_INFO:
        return on_info(c, body, err);
    case BOX_FILES_LINE:
        return on_line(c, body, err);
    case BOX_FILES_DATA:
        return on_data(c, body, err);
    default:
        return on_answer(c, body, err);
    }
}

int box_file_take_frames(box_file_call *c, box_error *err)
{
    for (;;) {
        box_files_frame f;
        size_t have = box_buf_len(&c->in);
        int rc = box_files_frame_look(box_buf_data(&c->in), have, BOX_FILES_FROM_WORKER, &f, err);
        if (rc < 0)
            return -1;
        if (rc == 0 || have < sizeof f + f.size)
            return 0;
        box_bytes body = {.data = box_buf_data(&c->in) + sizeof f, .len = f.size};
        if (on_frame(c, f.type, body, err) < 0)
            return -1;
        box_buf_consume(&c->in, sizeof f + f.size);
    }
}
