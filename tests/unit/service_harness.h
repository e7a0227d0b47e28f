/* Calls a service as a transport would, on a real loop thread with a real worker; waits for the
 * answer. One call at a time. */
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "loop/loop.h"
#include "policy/policy.h"
#include "store/store.h"
#include "temp_dir.h"
#include "wire/service.h"

typedef struct harness {
    box_loops *loops;
    pthread_t thread;
    sem_t over;
    /* of the call that runs */
    const box_service *service;
    const char *path;
    const ProtobufCMessage *request;
    const box_identity *who;
    bool cancel; /* the caller goes away before the answer */
    ProtobufCMessage *response;
    box_error status;
} harness;

typedef struct harness_call {
    box_call base; /* first */
    harness *h;
} harness_call;

static inline void harness_send(box_call *call, const uint8_t *message, size_t len)
{
    harness *h = ((harness_call *)call)->h;
    assert_null(h->response);
    h->response = protobuf_c_message_unpack(call->method->response, NULL, len, message);
    assert_non_null(h->response);
}

static inline void harness_finish(box_call *call, const box_error *err)
{
    static const box_error ok = {0};
    harness *h = ((harness_call *)call)->h;
    h->status = err != NULL ? *err : ok;
    box_call_deliver_end(call, &ok);
}

static inline bool harness_writable(const box_call *call)
{
    (void)call;
    return true;
}

static inline void harness_pause(box_call *call, bool paused)
{
    (void)call;
    (void)paused;
}

static inline void harness_destroy(box_call *call)
{
    harness *h = ((harness_call *)call)->h;
    free(call);
    (void)sem_post(&h->over);
}

static inline void harness_begin(void *arg)
{
    static const box_call_ops ops = {harness_send,  harness_finish, harness_writable,
                                     harness_pause, NULL,           harness_destroy};
    harness *h = arg;
    const box_service *service;
    const box_method *method;
    box_metadata none = {0};
    assert_true(box_service_find(h->service, 1, h->path, &service, &method));
    harness_call *c = calloc(1, sizeof *c);
    size_t len = protobuf_c_message_get_packed_size(h->request);
    uint8_t *packed = malloc(len + 1);
    assert_true(c != NULL && packed != NULL);
    (void)protobuf_c_message_pack(h->request, packed);
    c->h = h;
    box_call_init(&c->base, &ops, service, method, h->who, &none, 0);
    box_call_ref(&c->base);
    box_call_deliver_start(&c->base);
    box_call_deliver_message(&c->base, packed, len);
    box_call_deliver_half_close(&c->base);
    if (h->cancel && box_call_is_open(&c->base)) {
        box_error gone = {0};
        (void)box_fail(&gone, BOX_CANCELLED, "gone");
        h->status = gone;
        box_call_deliver_end(&c->base, &gone);
    }
    box_call_unref(&c->base);
    free(packed);
}

/* The reason; *response (may be NULL) is the caller's when it is NONE. */
static inline box_reason harness_ask(harness *h, const box_service *service, const char *path,
                                     const ProtobufCMessage *request, const box_identity *who,
                                     ProtobufCMessage **response)
{
    h->service = service;
    h->path = path;
    h->request = request;
    h->who = who;
    h->response = NULL;
    h->status = (box_error){0};
    box_loop_post(box_loops_get(h->loops, 0), harness_begin, h);
    while (sem_wait(&h->over) != 0)
        continue;
    if (response != NULL)
        *response = h->response;
    else if (h->response != NULL)
        protobuf_c_message_free_unpacked(h->response, NULL);
    return h->status.reason;
}

static inline void *harness_main(void *arg)
{
    harness *h = arg;
    box_error err;
    return box_loops_run(h->loops, &err) == 0 ? NULL : h;
}

static inline void harness_start(harness *h)
{
    box_error err = {0};
    *h = (harness){0};
    assert_int_equal(box_loops_new(1, 1, &h->loops, &err), 0);
    assert_int_equal(sem_init(&h->over, 0, 0), 0);
    assert_int_equal(pthread_create(&h->thread, NULL, harness_main, h), 0);
}

static inline void harness_stop(harness *h)
{
    void *failed = NULL;
    box_loops_stop(h->loops);
    assert_int_equal(pthread_join(h->thread, &failed), 0);
    assert_null(failed);
    box_loops_free(h->loops);
    (void)sem_destroy(&h->over);
}

/* A store in a directory of its own, as a first start leaves it. */
typedef struct harness_store {
    temp_dir dir;
    char path[48];
    box_store *store;
} harness_store;

static inline void harness_store_open(harness_store *s, int64_t now_ns)
{
    box_error err = {0};
    bool made = false;
    temp_dir_new(&s->dir);
    (void)snprintf(s->path, sizeof s->path, "%s/state", s->dir.path);
    assert_int_equal(box_store_open(s->path, &s->store, &err), 0);
    assert_int_equal(box_policy_first_start(s->store, now_ns, &made, &err), 0);
}

static inline void harness_store_close(harness_store *s)
{
    box_store_close(s->store);
    temp_dir_remove_path(s->path);
    temp_dir_remove(&s->dir);
}

static const box_identity harness_root = {
    .tenant = "default", .scopes = BOX_ALL_SCOPES, .by_peer = true};

static inline void harness_drop(void *message)
{
    protobuf_c_message_free_unpacked(message, NULL);
}

/* Messages have no const texts; requests are only read. */
static inline char *harness_text(const char *s)
{
    return (char *)(uintptr_t)s;
}
