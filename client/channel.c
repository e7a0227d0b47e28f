#include "internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"

enum { STOCK_MESSAGE_BYTES = 4 * 1024 * 1024, MAX_TOKEN_FILE_BYTES = 4096 };

box_channel *box_channel_alloc(const box_carrier *carrier, bool is_recursive)
{
    box_channel *c = box_alloc(sizeof *c);
    c->carrier = carrier;
    c->refs = 1;
    c->soonest = BOX_TIME_NEVER;
    c->may_send_tokens = true;
    c->epoll = c->wake = c->loop_epoll = c->loop_wake = c->spawned = -1;
    box_list_init(&c->calls);
    box_list_init(&c->ready);
    box_list_init(&c->waiters);
    box_list_init(&c->conns);
    box_list_init(&c->served);
    pthread_mutexattr_t mutex;
    (void)pthread_mutexattr_init(&mutex);
    (void)pthread_mutexattr_settype(&mutex,
                                    is_recursive ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_NORMAL);
    (void)pthread_mutex_init(&c->lock, &mutex);
    (void)pthread_mutexattr_destroy(&mutex);
    (void)pthread_cond_init(&c->resolved, NULL);
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
    box_target_done(&c->target);
    free(c->server_name);
    free(c->input);
    free(c->token);
    (void)pthread_cond_destroy(&c->resolved);
    (void)pthread_mutex_destroy(&c->lock);
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
    (void)pthread_mutex_unlock(&c->lock);
    box_spawn_stop(c);
    (void)pthread_mutex_lock(&c->lock);
    box_channel_unref_unlock(c);
}

const char *box_version(void)
{
    return BOX_VERSION;
}

/* --- where options come from -------------------------------------------------------------------
 */

static int read_token_file(const char *path, char **out, box_error *err)
{
    BOX_AUTO(box_closep)
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return box_fail(err, BOX_UNAUTHENTICATED, "cannot read the token file %s: %s", path,
                        strerror(errno));
    char text[MAX_TOKEN_FILE_BYTES + 1] = "";
    size_t len = 0;
    for (ssize_t n; len < MAX_TOKEN_FILE_BYTES; len += (size_t)n) {
        n = read(fd, text + len, MAX_TOKEN_FILE_BYTES - len);
        if (n < 0)
            return box_fail_errno(err, "read the token file %s", path);
        if (n == 0)
            break;
    }
    text[strcspn(text, " \t\r\n")] = '\0';
    if (*text == '\0' || len == MAX_TOKEN_FILE_BYTES)
        return box_fail(err, BOX_UNAUTHENTICATED, "the token file %s holds no token", path);
    *out = box_strdup(text);
    return 0;
}

static const char *from_environment(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? value : NULL;
}

/* Values of the environment stand in only where the target came from there too: a token never goes
 * to a server it was not meant for. */
static int take_options(box_channel *c, const box_channel_options *o, bool environment,
                        box_error *err)
{
    const char *ca = o->ca_file;
    const char *cert = o->cert_file;
    const char *key = o->key_file;
    const char *token_file = NULL;
    /* A boxd of our own knows no token that was made elsewhere, and needs none. */
    if (environment && c->target.kind != BOX_TARGET_SPAWN) {
        ca = ca != NULL ? ca : from_environment("BOX_CA");
        if (cert == NULL && key == NULL) { /* they belong together */
            cert = from_environment("BOX_CERT");
            key = from_environment("BOX_KEY");
        }
        token_file = o->token == NULL ? from_environment("BOX_TOKEN_FILE") : NULL;
    }
    c->token = box_strdup_null(o->token);
    c->server_name = box_strdup_null(o->server_name);
    c->max_message_bytes = o->max_message_bytes != 0 ? o->max_message_bytes : STOCK_MESSAGE_BYTES;
    c->connect_timeout_ms = o->connect_timeout_ms;
    if (token_file != NULL && read_token_file(token_file, &c->token, err) < 0)
        return -1;
    if (c->target.kind != BOX_TARGET_DNS)
        return 0;
    if (cert == NULL && key != NULL && !o->plaintext)
        return box_fail(err, BOX_VALIDATION, "key file %s belongs to no certificate file", key);
    if (!o->plaintext)
        return box_tls_context_client(ca, cert, key, &c->tls, err);
    c->may_send_tokens = box_target_is_loopback(c->target.host);
    if (c->token != NULL && !c->may_send_tokens)
        return box_fail(err, BOX_VALIDATION, "a token is not sent to %s without TLS",
                        c->target.host);
    return 0;
}

/* Two sets: the thread that drives waits for the connections; a loop of the program for those and
 * for what other threads have to say to it. */
static int open_pollers(box_channel *c, box_error *err)
{
    c->epoll = epoll_create1(EPOLL_CLOEXEC);
    c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    c->loop_epoll = epoll_create1(EPOLL_CLOEXEC);
    c->loop_wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = 0};
    if (c->epoll < 0 || c->wake < 0 || c->loop_epoll < 0 || c->loop_wake < 0 ||
        epoll_ctl(c->epoll, EPOLL_CTL_ADD, c->wake, &e) < 0 ||
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
        target = from_environment("BOX_ENDPOINT");
    if (target == NULL || *target == '\0')
        return box_fail(err, BOX_VALIDATION, "no server named: set BOX_ENDPOINT");
    box_channel *c = box_channel_alloc(&box_carrier_connections, false);
    c->input = box_alloc(BOX_CLIENT_INPUT_BYTES);
    if (box_target_parse(target, &c->target, err) < 0 ||
        take_options(c, options != NULL ? options : &none, environment, err) < 0 ||
        open_pollers(c, err) < 0 ||
        (c->target.kind == BOX_TARGET_SPAWN && box_spawn_boxd(c, c->target.path, err) < 0)) {
        box_channel_free(c);
        return -1;
    }
    *out = c;
    return 0;
}
