#include "session/pump.h"

#include <errno.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/tty.h"

/* --- output ----------------------------------------------------------------------------------- */

enum { CHUNK_BYTES = 64 * 1024, FIRST_BYTES = 4096, READS_A_TURN = 4 };

static bool has_more(const box_pump *p)
{
    return p->open && (!p->draining || p->left > 0);
}

static void watch_pipe(box_pump *p)
{
    if (p->watch != NULL)
        box_watch_set(p->watch, has_more(p) && p->events->may_read(p->arg) ? BOX_READABLE : 0);
}

/* The pipe is at its end, or broken: as good as at its end. */
static void at_end(box_pump *p)
{
    p->left = 0;
    box_watch_free(p->watch);
    p->watch = NULL;
    box_closep(&p->fd);
    p->open = false;
}

/* One read of at most `size` bytes; false when there is nothing (more) to read now. */
static bool read_into(box_pump *p, uint8_t *data, size_t size)
{
    size_t want = p->draining && p->left < size ? p->left : size;
    ssize_t n;
    do {
        n = read(p->fd, data, want);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN) {
        p->left = 0; /* somebody inside took them: nothing is left to drain */
        return false;
    }
    if (n <= 0) {
        at_end(p);
        return false;
    }
    if (p->draining)
        p->left -= (size_t)n;
    p->events->data(p->arg, p->stream, data, (size_t)n);
    return has_more(p);
}

static bool read_some(box_pump *p)
{
    uint8_t data[CHUNK_BYTES];
    return read_into(p, data, sizeof data);
}

static void on_readable(void *arg, int events)
{
    box_pump *p = arg;
    (void)events; /* only one was asked for */
    for (int i = 0; i < READS_A_TURN && p->events->may_read(p->arg); i++) {
        if (!read_some(p))
            break;
    }
    if (p->draining && p->left == 0) {
        watch_pipe(p);
        p->events->drained(p->arg);
        return;
    }
    watch_pipe(p);
}

void box_pump_open(box_pump *p, box_loop *loop, int fd, int stream, const box_pump_events *events,
                   void *arg)
{
    *p = (box_pump){
        .loop = loop, .fd = fd, .open = true, .events = events, .arg = arg, .stream = stream};
}

/* Most commands are over before anything has to be waited for: a watch costs several system calls,
 * so it is made when it is first needed. */
int box_pump_begin(box_pump *p, box_error *err)
{
    if (p->watch == NULL && has_more(p) &&
        box_watch_new(p->loop, p->fd, on_readable, p, &p->watch, err) < 0) {
        at_end(p);
        return -1;
    }
    watch_pipe(p);
    return 0;
}

void box_pump_close(box_pump *p)
{
    if (p->open)
        at_end(p);
}

int box_pump_release(box_pump *p)
{
    if (!p->open)
        return -1;
    struct pollfd ask = {.fd = p->fd};
    int fd = -1;
    if (poll(&ask, 1, 0) == 0) /* POLLHUP: the last writer is gone */
        fd = box_take_fd(&p->fd);
    at_end(p);
    return fd;
}

/* What a terminal holds cannot be asked for (FIONREAD knows of 4 KiB), but a read that finds
 * nothing has waited for what was on its way (n_tty_read, Linux 4.5). */
static void drain_terminal(box_pump *p)
{
    while (p->left > 0 && p->events->may_read(p->arg) && read_some(p))
        ;
    watch_pipe(p);
}

static bool is_draining_terminal(const box_pump *p)
{
    return p->open && p->is_terminal && p->draining && p->left > 0;
}

void box_pump_resume(box_pump *p)
{
    if (!is_draining_terminal(p)) {
        watch_pipe(p);
        return;
    }
    drain_terminal(p); /* perhaps nothing is there any more that could wake us */
    if (p->left == 0)
        p->events->drained(p->arg);
}

bool box_pump_drain(box_pump *p)
{
    uint8_t first[FIRST_BYTES];
    box_error err;
    int bytes = 0;
    if (!p->open)
        return true;
    p->draining = true;
    if (p->is_terminal) {
        p->left = BOX_TERMINAL_HELD_BYTES;
        drain_terminal(p);
        return p->left == 0;
    }
    p->left = SIZE_MAX; /* not known yet */
    /* Usually that is all, and the end of the pipe is seen with it. */
    if (!p->events->may_read(p->arg) || read_into(p, first, sizeof first)) {
        if (ioctl(p->fd, FIONREAD, &bytes) < 0)
            bytes = 0; /* a pipe always knows */
        p->left = (size_t)bytes;
    }
    while (p->left > 0 && p->events->may_read(p->arg) && read_some(p))
        ;
    BOX_IGNORE(
        box_pump_begin(p, &err)); /* a pipe that cannot be watched is as good as at its end */
    return p->left == 0;
}

/* --- input ------------------------------------------------------------------------------------ */

void box_input_init(box_input *in, void (*progress)(void *arg, bool room), void *arg)
{
    *in = (box_input){.progress = progress, .arg = arg};
    box_buf_init(&in->queue, BOX_STDIN_MAX_BYTES);
}

static void input_close(box_input *in)
{
    box_watch_free(in->watch);
    in->watch = NULL;
    if (in->open)
        box_closep(&in->fd);
    in->open = false;
    box_buf_clear(&in->queue);
    in->closing = true;
}

static bool room_again(box_input *in)
{
    bool room = in->full && box_buf_len(&in->queue) <= BOX_STDIN_HIGH_WATER_BYTES / 2;
    if (room)
        in->full = false;
    return room;
}

/* A terminal's input has no end of its own. */
static void end(box_input *in)
{
    if (!in->is_terminal)
        input_close(in);
    else if (!in->end_typed)
        in->end_typed = box_tty_end_input(in->fd);
}

static bool wants_room(const box_input *in)
{
    return box_buf_len(&in->queue) > 0 || (in->is_terminal && in->closing && !in->end_typed);
}

/* Writes what the pipe takes. A reader that is gone (EPIPE) is no error: the bytes are dropped. */
static void write_some(box_input *in)
{
    uint64_t before = in->written_bytes;
    while (in->open && box_buf_len(&in->queue) > 0) {
        ssize_t n = write(in->fd, box_buf_data(&in->queue), box_buf_len(&in->queue));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) {
            input_close(in);
            break;
        }
        in->written_bytes += (uint64_t)n;
        box_buf_consume(&in->queue, (size_t)n);
    }
    if (in->open && in->closing && box_buf_len(&in->queue) == 0)
        end(in);
    if (in->watch != NULL)
        box_watch_set(in->watch, wants_room(in) ? BOX_WRITABLE : 0);
    bool room = room_again(in);
    if (room || in->written_bytes != before)
        in->progress(in->arg, room);
}

static void on_writable(void *arg, int events)
{
    (void)events; /* only one was asked for */
    write_some(arg);
}

int box_input_open(box_input *in, box_loop *loop, int fd, box_error *err)
{
    in->fd = fd;
    in->open = true;
    if (in->closing && !in->is_terminal && box_buf_len(&in->queue) == 0) {
        input_close(in); /* no stdin: end of file at once, and no watch for it */
        return 0;
    }
    if (box_watch_new(loop, fd, on_writable, in, &in->watch, err) < 0) {
        input_close(in);
        return -1;
    }
    write_some(in);
    return 0;
}

int box_input_add(box_input *in, const void *data, size_t len, bool *room, box_error *err)
{
    *room = true;
    if (in->closing)
        return 0; /* nobody reads it any more */
    if (box_buf_add(&in->queue, data, len, err) < 0) {
        input_close(in);
        return box_wrap(err, "stdin");
    }
    if (in->open)
        write_some(in);
    in->full = box_buf_len(&in->queue) > BOX_STDIN_HIGH_WATER_BYTES;
    *room = !in->full;
    return 0;
}

void box_input_end(box_input *in)
{
    in->closing = true;
    if (in->open)
        write_some(in);
}

void box_input_done(box_input *in)
{
    input_close(in);
    box_buf_done(&in->queue);
}
