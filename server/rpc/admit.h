/* The hook through which rpc/ asks who calls, before the body is read. main.c gives policy's. */
#pragma once

#include "base/error.h"
#include "wire/metadata.h"

/* What the transport knows of the peer. */
typedef struct box_peer {
    bool is_unix; /* Unix socket or spawn: channel: uid is valid */
    uint32_t uid;
    const char *address;     /* "127.0.0.1:40000", "unix"; for logs and rate limits */
    const char *certificate; /* name of the verified client certificate, or NULL */
} box_peer;

typedef struct box_admit {
    void *arg;
    /* Allows the call and makes its identity (freed by the call's end with release), or refuses:
     * UNAUTHENTICATED, PERMISSION, RATE_LIMIT, SHUTTING_DOWN, INIT_REQUIRED. Any loop thread. */
    int (*admit)(void *arg, const box_peer *peer, const char *path, const box_metadata *metadata,
                 const void **identity, box_error *err);
    void (*release)(void *arg, const void *identity);
    /* Whose connections an identity's count as: text that lives as long as it. May be NULL. */
    const char *(*tenant)(const void *identity);
    /* A call of that identity ended with an error; session_id: the one its request named, "" =
     * none. May be NULL. */
    void (*failed)(void *arg, const void *identity, const char *path, const char *session_id,
                   const box_metadata *metadata, const box_error *why);
    /* May a call that was admitted go on? Asked again when something was revoked. May be NULL. */
    int (*check)(void *arg, const void *identity, box_error *err);
} box_admit;
