/* Pipes of background processes: kept open, unread, so that their writers do not die of SIGPIPE. */
#include <poll.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/limits.h"
#include "session/execution.h"

typedef struct held {
    box_list link;
    box_session *session;
    int fd;
} held;

enum { HELD_CHECK_SECONDS = 5 };

static void drop(box_session *s, held *h)
{
    box_list_remove(&h->link);
    s->n_held--;
    box_closep(&h->fd);
    free(h);
}

/* A pipe whose writers are all gone reports POLLHUP. */
static void check_held(void *arg)
{
    box_session *s = arg;
    for (box_list *at = s->held.next, *next; at != &s->held; at = next) {
        next = at->next;
        held *h = BOX_CONTAINER(at, held, link);
        struct pollfd p = {.fd = h->fd};
        if (poll(&p, 1, 0) != 0)
            drop(s, h);
    }
    if (s->n_held > 0)
        box_timer_set(s->held_timer,
                      box_time_add(box_loop_now(s->home), HELD_CHECK_SECONDS * BOX_SECOND));
}

static void hold_arrives(void *arg)
{
    held *h = arg;
    box_session *s = h->session;
    if (s->ending) {
        box_closep(&h->fd);
        free(h);
        box_session_unref(s);
        return;
    }
    s->n_held++;
    box_list_append(&s->held, &h->link);
    if (s->n_held > BOX_MAX_HELD_PIPES)
        drop(s, BOX_CONTAINER(s->held.next, held, link));
    if (s->held_timer == NULL)
        s->held_timer = box_timer_new(s->home, check_held, s);
    box_timer_set(s->held_timer,
                  box_time_add(box_loop_now(s->home), HELD_CHECK_SECONDS * BOX_SECOND));
    box_session_unref(s);
}

void box_slots_hold(box_session *s, int fds[2])
{
    for (int i = 0; i < 2; i++) {
        if (fds[i] < 0)
            continue;
        held *h = box_alloc(sizeof *h);
        h->session = box_session_ref(s);
        h->fd = box_take_fd(&fds[i]);
        box_loop_post(s->home, hold_arrives, h);
    }
}

void box_slots_drop_held(box_session *s)
{
    for (box_list *at = s->held.next, *next; at != &s->held; at = next) {
        next = at->next;
        drop(s, BOX_CONTAINER(at, held, link));
    }
    box_timer_free(s->held_timer);
    s->held_timer = NULL;
}
