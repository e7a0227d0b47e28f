/* One warden: the connection to it, kept up by one loop; requests from any loop. */
#pragma once

#include "session/session.h"
#include "warden/protocol.h"

typedef struct box_warden box_warden;

/* Owned by the receiver of the reply (box_warden_reply_done). Descriptors are -1 when absent. */
typedef struct box_warden_reply {
    box_error error; /* reason NONE = done */
    box_warden_answer answer;
    int cgroup;
    int devpts;
    int pidfd;
    int memory;
    int pids;
} box_warden_reply;

void box_warden_reply_done(box_warden_reply *r);

typedef struct box_warden_hooks {
    void *arg;
    /* On the warden's loop, by itself: PID 1 of a sandbox ended, or the warden does not know it. */
    void (*exited)(void *arg, const box_uid *uid, bool oom);
    /* On the warden's loop, at each connect: the sandboxes to keep; everything else of this
     * instance is swept. Calls add for each. */
    void (*live)(void *arg, box_warden *w, void (*add)(void *to, const box_uid *uid), void *to);
} box_warden_hooks;

/* config's strings are copied, its fd is taken. Connects once the loop runs. */
box_warden *box_warden_new(box_loop *loop, const box_backend_config *config,
                           const box_uid *instance, const box_warden_hooks *hooks);
/* After the loops have stopped. Requests still waiting are dropped without a reply. */
void box_warden_free(box_warden *w);

const char *box_warden_name(const box_warden *w);
/* What its last HELLO said. Any thread. */
void box_warden_report(box_warden *w, box_backend_report *out);

/* A uid for a sandbox to be made: one that the warden has prepared, or a random one. Any thread. */
box_uid box_warden_new_uid(box_warden *w);

/* Any thread. From now on it counts as gone for good: what waits for it, and what is asked later,
 * ends with BACKEND_UNAVAILABLE. */
void box_warden_give_up(box_warden *w);

/* Sends one request (any thread). body is the struct of the type (copied), fd (-1: none) is taken.
 * done runs on `reply_to`, exactly once, and owns *reply. Errors besides the warden's own:
 * BACKEND_UNAVAILABLE {backend} when it is not there, goes away or does not answer in time: what
 * became of the request is then unknown. done NULL: nobody cares. */
void box_warden_ask(box_warden *w, const char *tenant, box_warden_type type, const void *body,
                    int fd, box_loop *reply_to, void (*done)(void *arg, box_warden_reply *reply),
                    void *arg);
