/* The worker's end of the channel: frames in and out, one call after another. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "files/worker.h"

enum {
    STEPS_A_LOOK = 64,      /* between two looks at the clock and the socket */
    OUT_BYTES = 256 * 1024, /* frames are sent when there are so many */
    READ_BYTES = 64 * 1024, /* read from boxd at once */
};

static int boxd_is_gone(box_files_worker *w, box_error *err)
{
    w->gone = true;
    return box_fail(err, BOX_CANCELLED, "nobody waits for this any more");
}

/* --- out -------------------------------------------------------------------------------------- */

static int flush(box_files_worker *w, box_error *err)
{
    while (box_buf_len(&w->out) > 0) {
        ssize_t n = send(w->socket, box_buf_data(&w->out), box_buf_len(&w->out), MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return boxd_is_gone(w, err);
        box_buf_consume(&w->out, (size_t)n);
    }
    return 0;
}

static int flush_much(box_files_worker *w, box_error *err)
{
    return box_buf_len(&w->out) < OUT_BYTES ? 0 : flush(w, err);
}

bool box_files_has_room(const box_files_worker *w, size_t bytes)
{
    return w->item_bytes + BOX_FILES_ITEM_COST + bytes <= BOX_FILES_ANSWER_BYTES;
}

/* A frame of `size` bytes or more was added. */
static int count_item(box_files_worker *w, size_t size, box_error *err)
{
    w->item_bytes += BOX_FILES_ITEM_COST + size;
    return flush_much(w, err);
}

int box_files_send_info(box_files_worker *w, const box_files_info *info, box_error *err)
{
    size_t before = box_buf_len(&w->out);
    if (box_files_put_info(&w->out, info, err) < 0)
        return -1;
    return count_item(w, box_buf_len(&w->out) - before, err);
}

int box_files_send_line(box_files_worker *w, const box_files_line *line, box_error *err)
{
    size_t before = box_buf_len(&w->out);
    if (box_files_put_line(&w->out, line, err) < 0)
        return -1;
    return count_item(w, box_buf_len(&w->out) - before, err);
}

int box_files_send_data(box_files_worker *w, const void *data, size_t len, box_error *err)
{
    const uint8_t *at = data;
    while (len > 0) {
        size_t n = len < BOX_FILES_CHUNK_BYTES ? len : BOX_FILES_CHUNK_BYTES;
        if (box_files_put_frame(&w->out, BOX_FILES_DATA, at, n, err) < 0 || flush_much(w, err) < 0)
            return -1;
        at += n;
        len -= n;
    }
    return 0;
}

/* --- looking up ------------------------------------------------------------------------------- */

static bool hung_up(const box_files_worker *w)
{
    struct pollfd p = {.fd = w->socket, .events = POLLRDHUP};
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

int box_files_step(box_files_worker *w, box_error *err)
{
    if (w->steps++ % STEPS_A_LOOK != 0)
        return 0;
    if (w->gone || hung_up(w))
        return boxd_is_gone(w, err);
    if (box_files_is_late(w))
        return box_fail(err, BOX_DEADLINE, "the time for this call is over");
    return 0;
}

bool box_files_is_late(box_files_worker *w)
{
    return w->end != BOX_TIME_NEVER && box_now() >= w->end;
}

/* --- in --------------------------------------------------------------------------------------- */

/* Some bytes more; 0 at boxd's end. */
static ssize_t receive(box_files_worker *w, box_error *err)
{
    uint8_t *room;
    ssize_t n;
    if (box_buf_reserve(&w->in, READ_BYTES, &room, err) < 0)
        return -1;
    do {
        n = recv(w->socket, room, READ_BYTES, 0);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno != ECONNRESET)
        return box_fail_errno(err, "receive");
    n = n < 0 ? 0 : n;
    box_buf_commit(&w->in, (size_t)n);
    return n;
}

/* The head of the next frame, which stays in w->in. 0 at boxd's end. */
static int next_head(box_files_worker *w, box_files_frame *out, box_error *err)
{
    for (;;) {
        int rc = box_files_frame_look(box_buf_data(&w->in), box_buf_len(&w->in),
                                      BOX_FILES_FROM_BOXD, out, err);
        if (rc != 0)
            return rc;
        ssize_t n = receive(w, err);
        if (n <= 0)
            return (int)n;
    }
}

/* Waits for the body too: of ASK and END. */
static int next_frame(box_files_worker *w, box_files_frame *out, box_bytes *body, box_error *err)
{
    int rc = next_head(w, out, err);
    if (rc <= 0 || out->type == BOX_FILES_DATA)
        return rc;
    while (box_buf_len(&w->in) < sizeof *out + out->size) {
        ssize_t n = receive(w, err);
        if (n <= 0)
            return (int)n;
    }
    *body = (box_bytes){.data = box_buf_data(&w->in) + sizeof *out, .len = out->size};
    return 1;
}

/* --- the content of PUT ----------------------------------------------------------------------- */

ssize_t box_files_content(box_files_worker *w, box_error *err)
{
    box_files_frame f;
    while (w->content_left == 0) {
        if (w->content_ended)
            return 0;
        int rc = next_head(w, &f, err);
        if (rc < 0)
            return -1;
        if (rc == 0 || f.type == BOX_FILES_ASK)
            return boxd_is_gone(w, err);
        box_buf_consume(&w->in, sizeof f);
        w->content_left = f.size;
        w->content_ended = f.type == BOX_FILES_END;
    }
    size_t n = w->content_left < BOX_FILES_ROOM_BYTES ? w->content_left : BOX_FILES_ROOM_BYTES;
    size_t have = box_buf_len(&w->in) < n ? box_buf_len(&w->in) : n;
    if (have > 0) {
        memcpy(w->room, box_buf_data(&w->in), have);
        box_buf_consume(&w->in, have);
    }
    while (have == 0) {
        ssize_t got = recv(w->socket, w->room, n, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return boxd_is_gone(w, err);
        have = (size_t)got;
    }
    w->content_left -= have;
    return (ssize_t)have;
}

/* What comes after an early error. */
static int drop_content(box_files_worker *w, box_error *err)
{
    ssize_t n;
    do {
        n = box_files_content(w, err);
    } while (n > 0);
    return (int)n;
}

/* --- calls ------------------------------------------------------------------------------------ */

static box_files_doer *const doers[BOX_FILES_OP_END] = {
    [BOX_FILES_STAT] = box_files_do_stat,     [BOX_FILES_READ] = box_files_do_read,
    [BOX_FILES_PUT] = box_files_do_put,       [BOX_FILES_EDIT] = box_files_do_edit,
    [BOX_FILES_GLOB] = box_files_do_glob,     [BOX_FILES_GREP] = box_files_do_grep,
    [BOX_FILES_LIST] = box_files_do_list,     [BOX_FILES_MKDIR] = box_files_do_mkdir,
    [BOX_FILES_REMOVE] = box_files_do_remove, [BOX_FILES_MOVE] = box_files_do_move,
    [BOX_FILES_GET] = box_files_do_get,
};

static void as_text(char out[BOX_FILES_MAX_PATH + 1], box_bytes b)
{
    if (b.len > 0)
        memcpy(out, b.data, b.len);
    out[b.len] = '\0';
}

/* -1: boxd is gone. */
static int do_call(box_files_worker *w, const box_files_ask *ask, box_error *err)
{
    box_files_answer answer = {.total_lines = -1};
    box_time now = box_now();
    w->ask = ask;
    w->steps = 0;
    w->item_bytes = 0;
    w->end = ask->head.time_ns == 0 ? BOX_TIME_NEVER : box_time_add(now, ask->head.time_ns);
    w->content_left = 0;
    w->content_ended = ask->head.op != BOX_FILES_PUT;
    as_text(w->path, ask->path);
    as_text(w->target, ask->target);
    int rc = doers[ask->head.op](w, &answer, err);
    if (rc < 0 && w->gone)
        return -1;
    if (rc < 0)
        answer.error = *err;
    w->ask = NULL;
    if (box_files_put_answer(&w->out, &answer, err) < 0 || flush(w, err) < 0)
        return -1;
    return drop_content(w, err);
}

/* 1: goes on; 0: boxd's end. */
static int serve_one(box_files_worker *w, box_error *err)
{
    box_files_frame f;
    box_bytes body = {0};
    int rc = next_frame(w, &f, &body, err);
    if (rc <= 0)
        return rc;
    if (f.type != BOX_FILES_ASK)
        return box_fail(err, BOX_PROTOCOL, "files channel: content without a call");
    /* The ask borrows from its frame, which the content that follows would push away. */
    uint8_t *mine = malloc(body.len);
    BOX_AUTO(box_freep) uint8_t *owned = mine;
    BOX_AUTO(box_freep) box_files_ask *ask = box_alloc(sizeof *ask);
    if (owned == NULL)
        return box_fail(err, BOX_MEMORY_BUDGET, "no memory for the call");
    memcpy(owned, body.data, body.len);
    box_buf_consume(&w->in, sizeof f + f.size);
    if (box_buf_len(&w->in) == 0 && w->in.capacity > READ_BYTES)
        box_buf_done(&w->in); /* an edit of 16 MiB is not kept */
    if (box_files_ask_parse((box_bytes){.data = owned, .len = f.size}, ask, err) < 0)
        return -1;
    if (do_call(w, ask, err) == 0)
        return 1;
    return w->gone ? 0 : -1;
}

int box_files_serve(int socket, int root, box_error *err)
{
    uint32_t version = BOX_FILES_VERSION;
    BOX_AUTO(box_freep) box_files_worker *w = box_alloc(sizeof *w);
    BOX_AUTO(box_freep) uint8_t *room = box_alloc(BOX_FILES_ROOM_BYTES);
    w->socket = socket;
    w->root = root;
    w->room = room;
    box_buf_init(&w->in, sizeof(box_files_frame) + BOX_FILES_ASK_BYTES + READ_BYTES);
    box_buf_init(&w->out, 2 * OUT_BYTES);
    int rc = box_files_put_frame(&w->out, BOX_FILES_HELLO, &version, sizeof version, err);
    if (rc == 0)
        rc = flush(w, err) == 0 ? 1 : 0;
    while (rc > 0)
        rc = serve_one(w, err);
    box_buf_done(&w->in);
    box_buf_done(&w->out);
    return rc;
}
