#include "base/alloc.h"
#include "loop/internal.h"

struct box_timer {
    uv_timer_t uv; /* libuv keeps all timers of a loop in one heap */
    void (*fn)(void *arg);
    void *arg;
};

box_timer *box_timer_new(box_loop *l, void (*fn)(void *arg), void *arg)
{
    box_timer *t = box_alloc(sizeof *t);
    uv_timer_init(&l->uv, &t->uv);
    t->fn = fn;
    t->arg = arg;
    return t;
}

static void on_timer(uv_timer_t *handle)
{
    box_timer *t = BOX_CONTAINER(handle, box_timer, uv);
    t->fn(t->arg);
}

void box_timer_set(box_timer *t, box_time at)
{
    if (at == BOX_TIME_NEVER) {
        uv_timer_stop(&t->uv);
        return;
    }
    /* libuv counts in whole milliseconds of its cached time: round up, so as never to be early. */
    box_time now = uv_now(t->uv.loop) * BOX_MS;
    uint64_t left = box_time_left(at, now);
    uv_timer_start(&t->uv, on_timer, left / BOX_MS + (left % BOX_MS != 0), 0);
}

static void on_close(uv_handle_t *handle)
{
    free(BOX_CONTAINER(handle, box_timer, uv));
}

void box_timer_free(box_timer *t)
{
    if (t != NULL)
        uv_close((uv_handle_t *)&t->uv, on_close);
}
