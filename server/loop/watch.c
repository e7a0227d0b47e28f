#include "base/alloc.h"
#include "loop/internal.h"

struct box_watch {
    uv_poll_t uv;
    int events; /* asked for */
    void (*fn)(void *arg, int events);
    void *arg;
};

int box_watch_new(box_loop *l, int fd, void (*fn)(void *arg, int events), void *arg,
                  box_watch **out, box_error *err)
{
    box_watch *w = box_alloc(sizeof *w);
    int rc = uv_poll_init(&l->uv, &w->uv, fd);
    if (rc != 0) {
        free(w);
        return box_fail(err, BOX_INTERNAL, "cannot watch a descriptor: %s", uv_strerror(rc));
    }
    w->fn = fn;
    w->arg = arg;
    *out = w;
    return 0;
}

static void on_poll(uv_poll_t *handle, int status, int uv_events)
{
    box_watch *w = BOX_CONTAINER(handle, box_watch, uv);
    int events =
        (uv_events & UV_READABLE ? BOX_READABLE : 0) | (uv_events & UV_WRITABLE ? BOX_WRITABLE : 0);
    if (status < 0) {
        /* POLLERR: libuv stopped watching. Whoever reads or writes learns what is wrong. */
        events = w->events;
        box_watch_set(w, w->events);
    }
    w->fn(w->arg, events);
}

void box_watch_set(box_watch *w, int events)
{
    w->events = events;
    int uv_events =
        (events & BOX_READABLE ? UV_READABLE : 0) | (events & BOX_WRITABLE ? UV_WRITABLE : 0);
    if (uv_events == 0)
        uv_poll_stop(&w->uv);
    else
        uv_poll_start(&w->uv, uv_events, on_poll);
}

static void on_close(uv_handle_t *handle)
{
    free(BOX_CONTAINER(handle, box_watch, uv));
}

void box_watch_free(box_watch *w)
{
    if (w != NULL)
        uv_close((uv_handle_t *)&w->uv, on_close);
}
