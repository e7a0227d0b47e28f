#include "internal.h"

#include <errno.h>
#include <unistd.h>

/* A thread that sleeps because another one drives. */
typedef struct waiter {
    box_list link; /* channel->waiters */
    const box_client_call *call;
    pthread_cond_t told;
    bool is_told;
} waiter;

static void wake_waiter(waiter *w)
{
    w->is_told = true;
    (void)pthread_cond_signal(&w->told);
}

/* Writing 1 to an eventfd that nobody reads fails only after 2^64 times: then it is readable. */
static void ring(int eventfd)
{
    uint64_t one = 1;
    ssize_t n = write(eventfd, &one, sizeof one);
    (void)n;
}

void box_channel_notify(const box_client_call *call)
{
    box_channel *c = call->channel;
    if (c->polling && c->driven_for == call)
        ring(c->wake);
    for (box_list *at = c->waiters.next; at != &c->waiters; at = at->next) {
        waiter *w = BOX_CONTAINER(at, waiter, link);
        if (w->call == call)
            wake_waiter(w);
    }
}

/* The driver leaves: one of those who still wait goes on. Being told for nothing is harmless. */
static void pass_on(box_channel *c)
{
    if (!c->driving && !box_list_empty(&c->waiters))
        wake_waiter(BOX_CONTAINER(c->waiters.next, waiter, link));
}

static void sleep_until_told(box_channel *c, const box_client_call *call)
{
    waiter w = {.call = call};
    (void)pthread_cond_init(&w.told, NULL);
    box_list_append(&c->waiters, &w.link);
    while (!w.is_told)
        (void)pthread_cond_wait(&w.told, &c->lock);
    box_list_remove(&w.link);
    (void)pthread_cond_destroy(&w.told);
}

static void drive(box_channel *c, box_client_call *call, bool (*ready)(const box_client_call *call))
{
    bool before = c->driving; /* inproc: a handler may call, and wait, itself */
    c->driving = true;
    while (!ready(call)) {
        c->driven_for = call;
        c->carrier->round(c, call, BOX_TIME_NEVER);
    }
    c->driving = before;
    c->driven_for = NULL;
}

void box_channel_await(box_client_call *call, bool (*ready)(const box_client_call *call))
{
    box_channel *c = call->channel;
    if (ready(call))
        return;
    do {
        if (c->driving && c->services == NULL)
            sleep_until_told(c, call);
        else
            drive(c, call, ready);
    } while (!ready(call));
    pass_on(c);
}

void box_channel_round(box_channel *c)
{
    if (c->driving)
        return; /* that thread does it, and tells us */
    c->driving = true;
    c->carrier->round(c, NULL, box_now());
    c->driving = false;
    pass_on(c);
}

void box_channel_note_expiry(box_channel *c, box_time at)
{
    if (at < c->soonest)
        c->soonest = at;
    if (c->polling && at < c->polling_until)
        ring(c->wake);
    if (at < c->loop_until && !c->dispatching)
        box_channel_loop_wake(c);
}

/* Nothing to wake before the program polled for the first time. */
void box_channel_loop_wake(box_channel *c)
{
    if (c->loop_until == 0 || c->loop_woken)
        return;
    c->loop_woken = true;
    ring(c->loop_wake);
}

void box_channel_loop_quiet(box_channel *c)
{
    uint64_t count;
    if (!c->loop_woken)
        return;
    c->loop_woken = false;
    ssize_t n = read(c->loop_wake, &count, sizeof count);
    (void)n; /* it was rung exactly once */
}
