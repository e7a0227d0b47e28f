#include "agent/forward.h"

#include <errno.h>

#include "agent/connect.h"
#include "base/fd.h"

static void unavailable(box_agent_forward *f, const char *cause, const char *what)
{
    box_closep(&f->fd);
    (void)box_fail(&f->error, BOX_RUNTIME_UNAVAILABLE, "port %u inside %s", f->port, what); /* -1 */
    box_error_add(&f->error, "cause", cause);
    box_error_add_int(&f->error, "port", f->port);
    f->due = true;
}

static void fails(box_agent_forward *f, int why)
{
    box_closep(&f->fd);
    if (why == ECONNREFUSED) {
        unavailable(f, "refused", "refuses connections: nothing listens there");
        return;
    }
    if (why == ETIMEDOUT) {
        unavailable(f, "timeout", "takes no connection");
        return;
    }
    errno = why;
    if (why == EMFILE || why == ENFILE) {
        (void)box_fail(&f->error, BOX_QUOTA, "the sandbox has no descriptors left"); /* always -1 */
        box_error_add(&f->error, "limit", "descriptors");
    } else {
        (void)box_fail_errno(&f->error, "connect to port %u inside", f->port); /* always -1 */
    }
    f->due = true;
}

/* 1, 0, or -1 and errno, as box_connect_look. */
static int attempt(box_agent_forward *f)
{
    if (f->fd < 0)
        f->fd = box_connect_begin(f->port, f->v6);
    int is = f->fd < 0 ? -1 : box_connect_look(f->fd, f->port);
    int why = errno;
    if (is < 0)
        box_closep(&f->fd);
    errno = why;
    return is;
}

/* On loopback nearly always the answer is there at once. Whatever is wrong with IPv6, what IPv4
 * said is the answer then. */
static void go_on(box_agent_forward *f)
{
    int is = attempt(f);
    if (is < 0 && !f->v6 && errno == ECONNREFUSED) {
        f->v6 = true;
        is = attempt(f);
    }
    if (is > 0)
        f->due = true;
    else if (is < 0)
        fails(f, f->v6 ? ECONNREFUSED : errno);
}

int box_agent_forward_begin(box_agent_forwards *all, uint64_t id, const box_agent_connect *c,
                            box_time now)
{
    if (all->count >= BOX_MAX_FORWARDS)
        return -1;
    for (size_t i = 0; i < all->count; i++) {
        if (all->list[i].id == id)
            return -1;
    }
    box_agent_forward *f = &all->list[all->count++];
    *f = (box_agent_forward){.id = id,
                             .fd = -1,
                             .port = (uint16_t)c->port,
                             .give_up_at =
                                 box_time_add(now, BOX_FORWARD_CONNECT_SECONDS * BOX_SECOND)};
    go_on(f);
    return 0;
}

void box_agent_forwards_drop(box_agent_forwards *all)
{
    for (size_t i = 0; i < all->count; i++)
        box_closep(&all->list[i].fd);
    all->count = 0;
}

nfds_t box_agent_forward_polls(const box_agent_forwards *all, struct pollfd *polls)
{
    nfds_t n = 0;
    for (size_t i = 0; i < all->count; i++) {
        if (!all->list[i].due)
            polls[n++] = (struct pollfd){.fd = all->list[i].fd, .events = POLLOUT};
    }
    return n;
}

void box_agent_forward_tick(box_agent_forwards *all, box_time now)
{
    for (size_t i = 0; i < all->count; i++) {
        box_agent_forward *f = &all->list[i];
        if (!f->due)
            go_on(f);
        if (!f->due && now >= f->give_up_at)
            fails(f, ETIMEDOUT);
    }
}

box_time box_agent_forward_next(const box_agent_forwards *all)
{
    box_time next = BOX_TIME_NEVER;
    for (size_t i = 0; i < all->count; i++) {
        if (!all->list[i].due && all->list[i].give_up_at < next)
            next = all->list[i].give_up_at;
    }
    return next;
}

box_agent_forward *box_agent_forward_due(box_agent_forwards *all)
{
    for (size_t i = 0; i < all->count; i++) {
        if (all->list[i].due)
            return &all->list[i];
    }
    return NULL;
}

void box_agent_forward_told(box_agent_forwards *all, box_agent_forward *f)
{
    box_closep(&f->fd);
    *f = all->list[--all->count]; /* order does not matter */
}
