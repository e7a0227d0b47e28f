#include "internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"

enum {
    STOCK_MESSAGE_BYTES = 4 * 1024 * 1024,
    MAX_TOKEN_FILE_BYTES = 4096,
    EVENTS_PER_ROUND = 16,
};

box_channel *box_channel_alloc(const box_carrier *carrier, bool recursive)
{
    box_channel *c = box_alloc(sizeof *c);
    c->carrier = carrier;
    c->epoll = c->wake = c->spawned = -1;
    box_list_init(&c->calls);
    box_list_init(&c->ready);
    box_list_init(&c->conns);
    pthread_mutexattr_t mutex;
    pthread_condattr_t cond;
    (void)pthread_mutexattr_init(&mutex);
    (void)pthread_mutexattr_settype(&mutex,
                                    recursive ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_NORMAL);
    (void)pthread_mutex_init(&c->lock, &mutex);
    (void)pthread_mutexattr_destroy(&mutex);
    (void)pthread_condattr_init(&cond);
    (void)pthread_condattr_setclock(&cond, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&c->news, &cond);
    (void)pthread_condattr_destroy(&cond);
    return c;
}

/* --- where options come from
 * ---------------------------------------------------------------------- */

static bool is_loopback(const char *host)
{
    struct in_addr v4;
    if (strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0)
        return true;
    return inet_pton(AF_INET, host, &v4) == 1 && (ntohl(v4.s_addr) >> 24) == 127;
}

static int read_token_file(const char *path, char **out, box_error *err)
{
    BOX_AUTO(box_closep)
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return box_fail(err, BOX_UNAUTHENTICATED, "cannot read the token file %s: %s", path,
                        strerror(errno));
    BOX_AUTO(box_buf_done)
    box_buf text = {.max_bytes = MAX_TOKEN_FILE_BYTES + 64 * 1024};
    const char *token;
    if (box_buf_read_fd(&text, fd, err) < 0 || box_buf_text(&text, &token, err) < 0)
        return box_wrap(err, "token file %s", path);
    size_t len = strcspn(token, " \t\r\n");
    if (len == 0 || len > MAX_TOKEN_FILE_BYTES)
        return box_fail(err, BOX_UNAUTHENTICATED, "the token file %s holds no token", path);
    *out = box_alloc(len + 1);
    memcpy(*out, token, len);
    return 0;
}

/* Environment values stand in only where the target came from the environment too: a token never
 * goes to a server it was not meant for. */
static int take_options(box_channel *c, const box_channel_options *o, bool from_environment,
                        box_error *err)
{
    const char *ca = o->ca_file;
    const char *token_file = NULL;
    if (from_environment) {
        ca = ca != NULL ? ca : getenv("BOX_CA");
        token_file = o->token == NULL ? getenv("BOX_TOKEN_FILE") : NULL;
    }
    c->token = box_strdup_null(o->token);
    c->server_name = box_strdup_null(o->server_name);
    c->max_message_bytes = o->max_message_bytes != 0 ? o->max_message_bytes : STOCK_MESSAGE_BYTES;
    c->connect_timeout_ms = o->connect_timeout_ms;
    if (token_file != NULL && *token_file != '\0' &&
        read_token_file(token_file, &c->token, err) < 0)
        return -1;
    if (c->target.kind != BOX_TARGET_DNS)
        return 0;
    if (!o->plaintext)
        return box_tls_context_client(ca, o->cert_file, o->key_file, &c->tls, err);
    if (c->token != NULL && !is_loopback(c->target.host))
        return box_fail(err, BOX_VALIDATION, "a token is not sent to %s without TLS",
                        c->target.host);
    return 0;
}

static int open_poller(box_channel *c, box_error *err)
{
    c->epoll = epoll_create1(EPOLL_CLOEXEC);
    c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
    if (c->epoll < 0 || c->wake < 0 || epoll_ctl(c->epoll, EPOLL_CTL_ADD, c->wake, &e) < 0)
        return box_fail_errno(err, "make a poller");
    return 0;
}

int box_channel_new(const char *target, const box_channel_options *options, box_channel **out,
                    box_error *err)
{
    static const box_channel_options none = {0};
    bool from_environment = target == NULL;
    if (from_environment)
        target = getenv("BOX_ENDPOINT");
    if (target == NULL || *target == '\0')
        return box_fail(err, BOX_VALIDATION, "no server named: set BOX_ENDPOINT");
    box_channel *c = box_channel_alloc(&box_carrier_connections, false);
    if (box_target_parse(target, &c->target, err) < 0 ||
        take_options(c, options != NULL ? options : &none, from_environment, err) < 0 ||
        open_poller(c, err) < 0 ||
        (c->target.kind == BOX_TARGET_SPAWN && box_spawn_boxd(c, c->target.path, err) < 0)) {
        box_channel_free(c);
        return -1;
    }
    *out = c;
    return 0;
}

void box_channel_free(box_channel *c)
{
    if (c == NULL)
        return;
    (void)pthread_mutex_lock(&c->lock);
    c->carrier->close(c);
    (void)pthread_mutex_unlock(&c->lock);
    box_spawn_stop(c);
    box_tls_context_free(c->tls);
    box_closep(&c->epoll);
    box_closep(&c->wake);
    box_closep(&c->spawned);
    box_target_done(&c->target);
    free(c->server_name);
    free(c->token);
    (void)pthread_cond_destroy(&c->news);
    (void)pthread_mutex_destroy(&c->lock);
    free(c);
}

/* --- carrying calls over connections
 * ---------------------------------------------------------------- */

/* The thread that polls must look again: output to send, a deadline that is sooner. */
static void wake_driver(box_channel *c)
{
    uint64_t one = 1;
    ssize_t n = write(c->wake, &one, sizeof one);
    (void)n; /* full means it is awake already */
}

static void flush_call(box_client_call *call)
{
    if (call->conn != NULL)
        box_conn_flush(call->conn);
}

static int carry_start(box_client_call *call, box_metadata *metadata, uint64_t timeout_ns,
                       box_error *err)
{
    box_channel *c = call->channel;
    for (int attempt = 0;; attempt++) {
        if (c->current == NULL && box_conn_new(c, &c->current, err) < 0)
            return -1;
        if (box_h2_request_start(box_conn_h2(c->current), call->method->path, metadata, timeout_ns,
                                 call, &call->stream, err) == 0)
            break;
        if (attempt > 0)
            return -1;
        c->current = NULL; /* it is going away: what runs there goes on */
    }
    call->conn = c->current;
    flush_call(call);
    wake_driver(c);
    return 0;
}

static void carry_send(box_client_call *call, const uint8_t *data, size_t len)
{
    if (call->stream == NULL)
        return;
    box_h2_message(call->stream, data, len);
    flush_call(call);
}

static void carry_half_close(box_client_call *call)
{
    if (call->stream == NULL)
        return;
    box_h2_half_close(call->stream);
    flush_call(call);
}

static void carry_cancel(box_client_call *call, const box_error *why)
{
    box_conn *conn = call->conn;
    if (call->stream != NULL)
        box_h2_cancel(call->stream, why);
    if (conn != NULL)
        box_conn_flush(conn);
    wake_driver(call->channel);
}

static void carry_pause(box_client_call *call, bool paused)
{
    if (call->stream == NULL)
        return;
    box_h2_pause(call->stream, paused);
    flush_call(call);
}

static bool carry_is_writable(const box_client_call *call)
{
    return call->stream == NULL || box_h2_is_writable(call->stream);
}

/* For poll and epoll_wait: rounded up, an hour at most. */
static int timeout_ms(box_time until, box_time now)
{
    uint64_t left = box_time_left(until, now);
    if (until == BOX_TIME_NEVER)
        return -1;
    return left > 3600 * BOX_SECOND ? 3600000 : (int)((left + BOX_MS - 1) / BOX_MS);
}

/* The next time something must happen by itself. */
static box_time next_expiry(box_channel *c, box_time now)
{
    box_time calls = box_client_expire(c, now);
    box_time connects = box_conn_expire(c, now);
    return connects < calls ? connects : calls;
}

/* Waits for I/O without the lock, then does it with the lock. */
static void drive(box_channel *c, box_time until)
{
    box_time now = box_now();
    box_time first = next_expiry(c, now);
    int timeout = timeout_ms(first < until ? first : until, now);
    struct epoll_event events[EVENTS_PER_ROUND];
    (void)pthread_mutex_unlock(&c->lock);
    int n = epoll_wait(c->epoll, events, EVENTS_PER_ROUND, timeout);
    (void)pthread_mutex_lock(&c->lock);
    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr != NULL) {
            box_conn_ready(events[i].data.ptr, events[i].events);
            break; /* another connection may be gone now; level-triggered, so nothing is missed */
        }
        uint64_t count;
        ssize_t got = read(c->wake, &count, sizeof count);
        (void)got;
    }
    (void)box_client_expire(c, box_now());
}

/* One thread drives, the others wait for its news; when it leaves, one of them goes on. */
static void carry_wait(box_channel *c, box_time until)
{
    if (!c->driving) {
        c->driving = true;
        drive(c, until);
        c->driving = false;
        (void)pthread_cond_broadcast(&c->news);
        return;
    }
    struct timespec t = {.tv_sec = (time_t)(until / BOX_SECOND),
                         .tv_nsec = (long)(until % BOX_SECOND)};
    if (until == BOX_TIME_NEVER)
        (void)pthread_cond_wait(&c->news, &c->lock);
    else
        (void)pthread_cond_timedwait(&c->news, &c->lock, &t);
}

static void carry_close(box_channel *c)
{
    box_error gone;
    (void)box_fail(&gone, BOX_CANCELLED, "the channel was closed");
    box_conn_free_all(c, &gone);
}

const box_carrier box_carrier_connections = {
    .start = carry_start,
    .send = carry_send,
    .half_close = carry_half_close,
    .cancel = carry_cancel,
    .pause = carry_pause,
    .is_writable = carry_is_writable,
    .wait = carry_wait,
    .close = carry_close,
};

/* --- for event loops
 * --------------------------------------------------------------------------------- */

void box_channel_poll(box_channel *c, int *fd, short *events, int *timeout)
{
    (void)pthread_mutex_lock(&c->lock);
    box_time now = box_now();
    box_time until = next_expiry(c, now);
    *fd = c->epoll;
    *events = POLLIN;
    *timeout = box_list_empty(&c->ready) ? timeout_ms(until, now) : 0;
    (void)pthread_mutex_unlock(&c->lock);
}
