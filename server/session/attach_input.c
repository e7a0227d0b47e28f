/* Attachments on the loop of their call: what the caller sends, stdin, signals and sizes. */
#include "base/alloc.h"
#include "base/tty.h"
#include "session/attach_impl.h"

/* --- stdin ------------------------------------------------------------------------------------ */

static void check_closed(box_attach *a)
{
    if (!a->close_wanted || a->close_told || !a->has_stdin || box_buf_len(&a->input.queue) > 0)
        return;
    a->close_told = true;
    box_loop_post(a->session->home, box_attach_closes_stdin, box_attach_ref(a));
}

static void on_input(void *arg, bool room)
{
    box_attach *a = arg;
    if (room && !a->over)
        a->events.stdin_room(a->arg);
    check_closed(a);
}

void box_attach_input_begin(box_attach *a)
{
    box_input_init(&a->input, on_input, a);
    if (a->session != NULL)
        a->input.queue.share = &a->session->memory;
}

/* In its place among what is typed. The agent is told too, for later runs: what it does comes at
 * another time. */
static void resize_terminal(box_attach *a)
{
    if (!a->resize_due || !a->may_write || !a->input.open)
        return;
    a->resize_due = false;
    box_tty_resize(a->input.fd, a->rows, a->columns); /* no terminal: nothing happens */
}

void box_attach_take_stdin(box_attach *a, int *fd)
{
    box_error err;
    bool full = a->input.full;
    if (a->has_stdin || *fd < 0) {
        box_input_done(&a->input);
        box_attach_input_begin(a);
    }
    a->has_stdin = *fd >= 0;
    if (*fd >= 0 && a->close_wanted && !a->close_told)
        a->input.closing = true;
    if (*fd >= 0)
        BOX_IGNORE(box_input_open(&a->input, a->loop, box_take_fd(fd), &err)); /* as if closed */
    resize_terminal(a);
    if (full && !a->input.full && !a->over)
        a->events.stdin_room(a->arg);
    check_closed(a);
}

void box_attach_lose_stdin(box_attach *a)
{
    bool full = a->input.full;
    a->may_write = false;
    a->has_stdin = false;
    box_input_done(&a->input);
    box_attach_input_begin(a);
    if (a->over)
        return;
    if (full)
        a->events.stdin_room(a->arg);
    a->events.writer_lost(a->arg);
}

int box_attach_feed(box_attach *a, const void *data, size_t len, bool *room, box_error *err)
{
    *room = true;
    if (!a->write)
        return box_violation(err, "stdin_data", "start.write was not set");
    if (a->close_wanted)
        return box_violation(err, "stdin_data", "stdin was closed");
    return a->may_write ? box_input_add(&a->input, data, len, room, err) : 0;
}

int box_attach_close_stdin(box_attach *a, box_error *err)
{
    if (!a->write)
        return box_violation(err, "close_stdin", "start.write was not set");
    if (!a->may_write || a->close_wanted)
        return 0;
    a->close_wanted = true;
    if (a->has_stdin)
        box_input_end(&a->input);
    check_closed(a);
    return 0;
}

/* --- wishes ----------------------------------------------------------------------------------- */

typedef struct wish {
    box_attach *attach;
    box_agent_type type;
    box_agent_signal signal;
    box_agent_resize size;
} wish;

static void wish_arrives(void *arg)
{
    wish *w = arg;
    box_attach *a = w->attach;
    box_process *p = a->process;
    if (!a->gone && p != NULL && p->session->agent != NULL && box_process_is_live(p)) {
        if (w->type == BOX_AGENT_SIGNAL)
            box_agent_signal_command(p->session->agent, p->agent_id, &w->signal);
        else
            box_agent_order(p->session->agent, BOX_AGENT_RESIZE, p->agent_id, &w->size,
                            sizeof w->size);
    }
    box_attach_unref(a);
    free(w);
}

static void send_wish(box_attach *a, wish what)
{
    if (a->session == NULL)
        return;
    wish *w = box_alloc(sizeof *w);
    *w = what;
    w->attach = box_attach_ref(a);
    box_loop_post(a->session->home, wish_arrives, w);
}

int box_attach_signal(box_attach *a, int signo, bool tree, box_error *err)
{
    if (!a->write)
        return box_violation(err, "signal", "start.write was not set");
    if (signo < 1 || signo > 64)
        return box_violation(err, "signal.number", "must be 1 to 64");
    if (tree && signo != 9)
        return box_violation(err, "signal.scope", "TREE takes only signal 9 (KILL)");
    send_wish(a, (wish){.type = BOX_AGENT_SIGNAL,
                        .signal = {.signo = (uint32_t)signo,
                                   .scope = tree ? BOX_SCOPE_TREE : BOX_SCOPE_MAIN}});
    return 0;
}

int box_attach_resize(box_attach *a, uint16_t rows, uint16_t columns, box_error *err)
{
    if (!a->write)
        return box_violation(err, "resize", "start.write was not set");
    a->resize_due = true;
    a->rows = rows;
    a->columns = columns;
    resize_terminal(a);
    send_wish(a, (wish){.type = BOX_AGENT_RESIZE, .size = {.rows = rows, .columns = columns}});
    return 0;
}
