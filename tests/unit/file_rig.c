#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "file_rig.h"

/* --- a call and what became of it ------------------------------------------------------------- */

static void on_info(void *arg, const box_files_info *info)
{
    (void)info;
    ((file_call *)arg)->infos++;
}

static void on_line(void *arg, const box_files_line *line)
{
    (void)line;
    ((file_call *)arg)->lines++;
}

static void on_data(void *arg, const uint8_t *data, size_t len)
{
    (void)data;
    ((file_call *)arg)->data += len;
}

static bool on_writable(void *arg)
{
    return !((file_call *)arg)->closed;
}

static void on_room(void *arg)
{
    ((file_call *)arg)->rooms++;
}

static void on_done(void *arg, const box_files_answer *told, const box_error *err)
{
    file_call *c = arg;
    c->done++;
    if (err != NULL)
        c->error = *err;
    else
        c->answer = *told;
    box_file_free(c->file);
    c->file = NULL;
}

box_files_ask file_rig_ask(uint32_t op)
{
    return (box_files_ask){.head = {.op = op, .permissions = -1, .max_items = 3, .max_bytes = 10},
                           .path = {(const uint8_t *)"a", 1},
                           .target = {(const uint8_t *)"b", op == BOX_FILES_MOVE ? 1 : 0},
                           .pattern = {(const uint8_t *)"x", 1}};
}

int file_rig_try(rig *r, file_call *c, const box_files_ask *ask, box_error *err)
{
    static const box_file_events events = {.info = on_info,
                                           .line = on_line,
                                           .data = on_data,
                                           .writable = on_writable,
                                           .room = on_room,
                                           .done = on_done};
    *c = (file_call){0};
    box_file_request request = {.tenant = "t",
                                .session_id = "s",
                                .ask = ask,
                                .content_open = ask->head.op == BOX_FILES_PUT};
    return box_file_start(r->all, &request, &events, c, &c->file, err);
}

void file_rig_start(rig *r, file_call *c, uint32_t op)
{
    box_files_ask ask = file_rig_ask(op);
    box_error err = {0};
    assert_int_equal(file_rig_try(r, c, &ask, &err), 0);
    rig_settle(r);
}

void file_rig_cancel(rig *r, file_call *c)
{
    box_file_cancel(c->file);
    c->file = NULL;
    rig_settle(r);
}

void file_rig_answered(const file_call *c)
{
    assert_int_equal(c->done, 1);
    assert_int_equal(c->error.reason, BOX_NONE);
}

void file_rig_failed(const file_call *c, box_reason reason)
{
    assert_int_equal(c->done, 1);
    assert_int_equal(c->error.reason, reason);
}

/* --- a worker --------------------------------------------------------------------------------- */

fake_sandbox *file_rig_sandbox(rig *r)
{
    fake_sandbox *s = fake_warden_only(&r->warden);
    assert_non_null(s);
    return s;
}

fake_worker *file_rig_newest(rig *r)
{
    fake_sandbox *s = file_rig_sandbox(r);
    fake_worker *last = NULL;
    for (int i = 0; i < FAKE_MAX_WORKERS; i++) {
        if (s->workers[i].used && (last == NULL || s->workers[i].id > last->id))
            last = &s->workers[i];
    }
    assert_non_null(last);
    return last;
}

void file_rig_frame(file_speech *s, box_files_type type, const void *body, size_t len)
{
    box_error err;
    assert_int_equal(box_files_put_frame(&s->out, type, body, len, &err), 0);
}

void file_rig_hello(file_speech *s)
{
    uint32_t version = BOX_FILES_VERSION;
    file_rig_frame(s, BOX_FILES_HELLO, &version, sizeof version);
}

void file_rig_info(file_speech *s)
{
    box_error err;
    box_files_info i = {.head = {.kind = BOX_FILES_REGULAR}, .path = {(const uint8_t *)"/a", 2}};
    assert_int_equal(box_files_put_info(&s->out, &i, &err), 0);
}

void file_rig_line(file_speech *s)
{
    box_error err;
    box_files_line l = {.head = {.place = BOX_FILES_MATCH, .number = 1},
                        .path = {(const uint8_t *)"/a", 2},
                        .text = {(const uint8_t *)"x", 1}};
    assert_int_equal(box_files_put_line(&s->out, &l, &err), 0);
}

void file_rig_data(file_speech *s, size_t len)
{
    static const uint8_t zeros[BOX_FILES_CHUNK_BYTES];
    file_rig_frame(s, BOX_FILES_DATA, zeros, len);
}

void file_rig_ends(file_speech *s, box_reason reason)
{
    box_error err;
    box_files_answer a = {.total_lines = -1};
    if (reason != BOX_NONE)
        (void)box_fail(&a.error, reason, "no");
    assert_int_equal(box_files_put_answer(&s->out, &a, &err), 0);
}

void file_rig_say(rig *r, fake_worker *w, file_speech *s, size_t piece)
{
    while (box_buf_len(&s->out) > 0) {
        size_t left = box_buf_len(&s->out);
        size_t n = piece > 0 && piece < left ? piece : left;
        if (!w->used || box_fd_write_all(w->fd, box_buf_data(&s->out), n, &(box_error){0}) < 0)
            break;
        box_buf_consume(&s->out, n);
        rig_settle(r);
    }
    box_buf_done(&s->out);
}

size_t file_rig_listen(const fake_worker *w)
{
    uint8_t room[4096];
    size_t total = 0;
    ssize_t n;
    while ((n = recv(w->fd, room, sizeof room, MSG_DONTWAIT)) > 0)
        total += (size_t)n;
    return total;
}

void file_rig_answer_stat(rig *r, fake_worker *w, bool greet)
{
    file_speech s = {0};
    if (greet)
        file_rig_hello(&s);
    (void)file_rig_listen(w);
    file_rig_info(&s);
    file_rig_ends(&s, BOX_NONE);
    file_rig_say(r, w, &s, 0);
}

int file_rig_set_up(void **state)
{
    rig *r = calloc(1, sizeof *r);
    answer a;
    rig_init(r, NULL);
    rig_create(r, &a, "s", NULL);
    assert_int_equal(a.error.reason, BOX_NONE);
    answer_free(&a);
    *state = r;
    return 0;
}

void file_rig_tell(rig *r, fake_worker *w, const char *says)
{
    static const uint32_t rubbish[2] = {77, 8};
    file_speech s = {0};
    for (const char *at = says; *at != '\0'; at++) {
        switch (*at) {
        case 'h':
            file_rig_hello(&s);
            break;
        case 'i':
            file_rig_info(&s);
            break;
        case 'l':
            file_rig_line(&s);
            break;
        case 'a':
            file_rig_ends(&s, BOX_NONE);
            break;
        case 'n':
            file_rig_ends(&s, BOX_FILE_NOT_FOUND);
            break;
        case 'x':
            assert_int_equal(box_buf_add(&s.out, rubbish, sizeof rubbish, &(box_error){0}), 0);
            break;
        default:
            file_rig_data(&s, *at == 'd' ? 10 : *at == 'o' ? 1 : 0);
        }
    }
    file_rig_say(r, w, &s, 0);
}

void file_rig_start_all(rig *r, file_call calls[BOX_FILES_MAX_WORKERS + 1])
{
    for (int i = 0; i <= BOX_FILES_MAX_WORKERS; i++)
        file_rig_start(r, &calls[i], BOX_FILES_MKDIR);
    assert_int_equal(file_rig_sandbox(r)->files, BOX_FILES_MAX_WORKERS);
}
