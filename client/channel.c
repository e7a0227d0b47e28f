#include "internal.h"

#include <assert.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "lane.h"

box_channel *box_channel_alloc(const box_carrier *carrier, bool is_recursive)
{
    box_channel *c = box_alloc(sizeof *c);
    c->carrier = carrier;
    c->refs = 1;
    c->soonest = BOX_TIME_NEVER;
    c->may_send_tokens = c->is_private = true;
    c->max_send_bytes = SIZE_MAX;
    c->last_conn_id = BOX_EVENT_FIRST_CONN;
    c->epoll = c->wake = c->loop_epoll = c->loop_wake = c->resolved = c->spawned = -1;
    if (getrandom(&c->random, sizeof c->random, GRND_NONBLOCK) < 0 || c->random == 0)
        c->random = box_now() | 1; /* xorshift must not begin with 0 */
    box_list_init(&c->calls);
    box_list_init(&c->ready);
    box_list_init(&c->waiters);
    box_list_init(&c->waiting);
    box_list_init(&c->delayed);
    box_list_init(&c->conns);
    box_list_init(&c->served);
    pthread_mutexattr_t mutex;
    (void)pthread_mutexattr_init(&mutex);
    (void)pthread_mutexattr_settype(&mutex,
                                    is_recursive ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_NORMAL);
    (void)pthread_mutex_init(&c->lock, &mutex);
    (void)pthread_mutexattr_destroy(&mutex);
    (void)pthread_cond_init(&c->told, NULL);
    return c;
}

static void channel_destroy(box_channel *c)
{
    assert(box_list_empty(&c->calls) && box_list_empty(&c->waiters));
    box_tls_context_free(c->tls);
    box_closep(&c->epoll);
    box_closep(&c->wake);
    box_closep(&c->loop_epoll);
    box_closep(&c->loop_wake);
    box_closep(&c->resolved);
    box_target_done(&c->target);
    free(c->server_name);
    free(c->user_agent);
    free(c->input);
    free(c->token);
    (void)pthread_mutex_destroy(&c->lock);
    (void)pthread_cond_destroy(&c->told);
    free(c);
}

void box_channel_unref_unlock(box_channel *c)
{
    bool last = --c->refs == 0;
    (void)pthread_mutex_unlock(&c->lock);
    if (last)
        channel_destroy(c);
}

void box_channel_free(box_channel *channel)
{
    box_channel *c = channel;
    if (c == NULL)
        return;
    (void)pthread_mutex_lock(&c->lock);
    assert(!c->dispatching);
    c->closed = true;
    c->carrier->close(c);
    box_channel_unlock(c);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the caller's own reference goes last */
    box_spawn_stop(c);
    (void)pthread_mutex_lock(&c->lock);
    while (c->is_telling) /* another thread, whose last word is CLOSED */
        (void)pthread_cond_wait(&c->told, &c->lock);
    box_channel_unref_unlock(c);
}

/* --- availability ------------------------------------------------------------------------------
 */

const char *box_channel_state_name(box_channel_state state)
{
    static const char *const names[] = {"IDLE", "CONNECTING", "READY", "FAILED", "CLOSED"};
    return (unsigned)state < BOX_COUNT(names) ? names[state] : "UNKNOWN";
}

static box_channel_state state_of(const box_channel *c)
{
    if (c->closed)
        return BOX_CHANNEL_CLOSED;
    return c->services != NULL ? BOX_CHANNEL_READY : box_lanes_state(c);
}

box_channel_state box_channel_get_state(box_channel *channel)
{
    (void)pthread_mutex_lock(&channel->lock);
    box_channel_state state = state_of(channel);
    (void)pthread_mutex_unlock(&channel->lock);
    return state;
}

/* One thread tells at a time, so that changes are told in order; what the others see meanwhile it
 * tells as well. The reference: a callback may free the channel's last call. */
void box_channel_unlock(box_channel *c)
{
    if (c->on_state == NULL || c->is_telling || state_of(c) == c->told_state) {
        (void)pthread_mutex_unlock(&c->lock);
        return;
    }
    c->is_telling = true;
    c->refs++;
    for (box_channel_state now; (now = state_of(c)) != c->told_state;) {
        c->told_state = now;
        (void)pthread_mutex_unlock(&c->lock);
        c->on_state(c->on_state_arg, now);
        (void)pthread_mutex_lock(&c->lock);
    }
    c->is_telling = false;
    (void)pthread_cond_broadcast(&c->told);
    box_channel_unref_unlock(c);
}

const char *box_version(void)
{
    return BOX_VERSION;
}

/* Two sets: the thread that drives waits for the connections; a loop of the program for those and
 * for what other threads have to say to it. */
static int open_pollers(box_channel *c, box_error *err)
{
    c->epoll = epoll_create1(EPOLL_CLOEXEC);
    c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    c->resolved = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    c->loop_epoll = epoll_create1(EPOLL_CLOEXEC);
    c->loop_wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = BOX_EVENT_WAKE};
    struct epoll_event resolved = {.events = EPOLLIN, .data.u64 = BOX_EVENT_RESOLVED};
    if (c->epoll < 0 || c->wake < 0 || c->resolved < 0 || c->loop_epoll < 0 || c->loop_wake < 0 ||
        epoll_ctl(c->epoll, EPOLL_CTL_ADD, c->wake, &e) < 0 ||
        epoll_ctl(c->epoll, EPOLL_CTL_ADD, c->resolved, &resolved) < 0 ||
        epoll_ctl(c->loop_epoll, EPOLL_CTL_ADD, c->epoll, &e) < 0 ||
        epoll_ctl(c->loop_epoll, EPOLL_CTL_ADD, c->loop_wake, &e) < 0)
        return box_fail_errno(err, "make a poller");
    return 0;
}

int box_channel_new(const char *target, const box_channel_options *options, box_channel **out,
                    box_error *err)
{
    static const box_channel_options none = {0};
    bool environment = target == NULL;
    if (environment)
        target = box_channel_environment("BOX_ENDPOINT");
    if (target == NULL || *target == '\0')
        return box_fail(err, BOX_VALIDATION, "no server named: set BOX_ENDPOINT");
    box_channel *c = box_channel_alloc(&box_carrier_connections, false);
    c->input = box_alloc(BOX_CLIENT_INPUT_BYTES);
    if (box_target_parse(target, &c->target, err) < 0 ||
        box_channel_take_options(c, options != NULL ? options : &none, environment, err) < 0 ||
        open_pollers(c, err) < 0 ||
        (c->target.kind == BOX_TARGET_SPAWN && box_spawn_boxd(c, c->target.path, err) < 0)) {
        c->on_state = NULL; /* of a channel that never was */
        box_channel_free(c);
        return -1;
    }
    box_lanes_init(c);
    *out = c;
    return 0;
}
