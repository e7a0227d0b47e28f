/* Connections to ports inside sandboxes: made by the agent in the sandbox's network, read and
 * written here. A box_forward lives on the loop of the call that made it; everything here is called
 * on that loop. It is a use of its session, and ends with it. */
#pragma once

#include "session/session.h"

typedef struct box_forward box_forward;

typedef struct box_forward_events {
    /* First: it stands. */
    void (*started)(void *arg, const char *session_uid);
    /* At most BOX_FORWARD_CHUNK_BYTES, borrowed. */
    void (*data)(void *arg, const uint8_t *data, size_t len);
    /* The program closed its direction: no data follows. */
    void (*closed)(void *arg);
    /* False: nothing is read until box_forward_resume. */
    bool (*writable)(void *arg);
    /* box_forward_feed may go on. */
    void (*room)(void *arg);
    /* Last, once, never from inside box_forward_new: both directions are closed (NULL), or why it
     * ended. Not after box_forward_free. */
    void (*done)(void *arg, const box_error *err);
} box_forward_events;

/* Borrowed for box_forward_new. */
typedef struct box_forward_request {
    const char *tenant;
    const char *session_id;
    uint16_t port;
    uint64_t wait_ns; /* for something to listen there */
} box_forward_request;

/* -1: nothing was made and no event follows. Errors of both: VALIDATION, SESSION_NOT_FOUND,
 * SESSION_NOT_RUNNING, SESSION_BROKEN, QUOTA {limit, max, used}, RUNTIME_UNAVAILABLE {cause, port}:
 * "refused", "timeout", "reset". */
int box_forward_new(box_sessions *all, const box_forward_request *r,
                    const box_forward_events *events, void *arg, box_forward **out, box_error *err)
    BOX_MUST_USE;
/* The caller may take more. */
void box_forward_resume(box_forward *f);
/* Bytes for the program (copied); also before it stands. *room false: enough is waiting, feed no
 * more until `room`. -1 (MEMORY_BUDGET): free it. */
int box_forward_feed(box_forward *f, const void *data, size_t len, bool *room, box_error *err)
    BOX_MUST_USE;
/* No more comes: the program sees the end behind what was fed. */
void box_forward_end(box_forward *f);
/* Also after done. Before it, the program's connection is reset: it must not take what came so far
 * for all there is. */
void box_forward_free(box_forward *f);
