/* Which loop looks at a worker's socket. The watch stays when a call ends, for the next one on that
 * loop: making and removing it costs as much as the call's own system calls. */
#include "base/fd.h"
#include "session/file_call.h"

static void on_ready(void *arg, int events)
{
    box_file_worker *w = arg;
    if (w->call != NULL)
        box_file_ready(w->call, events);
    else
        box_files_disturbed(w);
}

int box_file_watch_begin(box_file_call *c, box_error *err)
{
    box_file_worker *w = c->worker;
    if (w->watch == NULL && box_watch_new(c->loop, w->fd, on_ready, w, &w->watch, err) < 0)
        return -1;
    w->loop = c->loop;
    w->call = c;
    return 0;
}

void box_file_watch_set(box_file_worker *w, int events)
{
    if (w->watched != events)
        box_watch_set(w->watch, events);
    w->watched = events;
}

void box_file_watch_rest(box_file_worker *w)
{
    w->call = NULL;
    box_file_watch_set(w, BOX_READABLE);
}

void box_file_watch_end(box_file_worker *w)
{
    box_watch_free(w->watch);
    w->watch = NULL;
    w->watched = 0;
    w->loop = NULL;
    w->call = NULL;
}

static void close_here(void *worker)
{
    box_file_worker *w = worker;
    box_file_watch_end(w);
    box_closep(&w->fd);
    box_file_worker_unref(w);
}

bool box_file_is_elsewhere(const box_file_worker *w)
{
    const box_loop *here = box_loop_current(); /* NULL: the loops have ended */
    return w->loop != NULL && here != NULL && w->loop != here;
}

void box_file_worker_close(box_file_worker *w)
{
    if (box_file_is_elsewhere(w))
        box_loop_post(w->loop, close_here, w);
    else
        close_here(w);
}
