#include "resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"

/* Belongs to the one who asks and to the thread; the last one frees it. */
struct box_resolution {
    pthread_mutex_t lock;
    unsigned refs;
    bool is_done;
    int rc; /* of getaddrinfo */
    struct addrinfo *found;
    int wake;
    char *port;
    char host[];
};

static void unref(box_resolution *r)
{
    (void)pthread_mutex_lock(&r->lock);
    bool is_last = --r->refs == 0;
    (void)pthread_mutex_unlock(&r->lock);
    if (!is_last)
        return;
    if (r->found != NULL)
        freeaddrinfo(r->found);
    box_closep(&r->wake);
    (void)pthread_mutex_destroy(&r->lock);
    free(r->port);
    free(r);
}

static void *ask(void *arg)
{
    box_resolution *r = arg;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    const uint64_t one = 1;
    struct addrinfo *found = NULL;
    int rc = getaddrinfo(r->host, r->port, &hints, &found);
    (void)pthread_mutex_lock(&r->lock);
    r->is_done = true;
    r->rc = rc;
    r->found = rc == 0 ? found : NULL;
    (void)pthread_mutex_unlock(&r->lock);
    ssize_t n = write(r->wake, &one, sizeof one);
    (void)n; /* fails only where it is readable already */
    unref(r);
    return NULL;
}

/* The program's signals are for its own threads. */
static int start_thread(box_resolution *r)
{
    pthread_t id;
    pthread_attr_t attributes;
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    int rc = pthread_attr_init(&attributes);
    if (rc != 0)
        return rc;
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&id, &attributes, ask, r);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return rc;
}

int box_resolve(const char *host, const char *port, int wake, box_resolution **out, box_error *err)
{
    size_t len = strlen(host) + 1;
    box_resolution *r = box_alloc(sizeof *r + len);
    memcpy(r->host, host, len);
    r->port = box_strdup(port);
    r->wake = fcntl(wake, F_DUPFD_CLOEXEC, 0);
    r->refs = 2;
    (void)pthread_mutex_init(&r->lock, NULL);
    int rc = r->wake < 0 ? EMFILE : start_thread(r);
    if (rc == 0) {
        *out = r;
        return 0;
    }
    r->refs = 1; /* there is no thread */
    unref(r);
    return box_fail(err, BOX_RUNTIME_UNAVAILABLE, "cannot ask for %s: %s", host, strerror(rc));
}

bool box_resolution_take(box_resolution *r, box_addresses *out, int *rc, box_error *err)
{
    (void)pthread_mutex_lock(&r->lock);
    bool is_done = r->is_done;
    (void)pthread_mutex_unlock(&r->lock);
    if (!is_done)
        return false;
    *rc = 0;
    if (r->rc != 0)
        *rc = box_fail(err, BOX_RUNTIME_UNAVAILABLE, "cannot resolve %s: %s", r->host,
                       gai_strerror(r->rc));
    else
        box_addresses_add_all(out, r->found);
    return true;
}

void box_resolution_free(box_resolution *r)
{
    if (r != NULL)
        unref(r);
}
