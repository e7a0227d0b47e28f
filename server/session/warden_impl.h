/* What the files of the warden's client share; nobody else includes it. */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "loop/lock.h"
#include "session/warden.h"

typedef enum box_warden_phase {
    BOX_WARDEN_DOWN,     /* no connection; the retry timer runs unless it was given a descriptor */
    BOX_WARDEN_GREETING, /* connected, our HELLO is sent or about to be */
    BOX_WARDEN_READY,
} box_warden_phase;

struct box_warden {
    box_loop *loop;
    char *name;
    char *socket_path; /* NULL: given_fd was all there is */
    int given_fd;
    box_uid instance;
    box_warden_hooks hooks;
    box_lock lock; /* guards report and ready */
    box_backend_report report;
    uint32_t n_ready;
    box_uid ready[BOX_WARDEN_MAX_STANDBYS]; /* that a CREATE may use, each once */
    /* The loop's: */
    box_warden_phase phase;
    int fd;
    bool hello_sent;
    bool stalled; /* it does not read; the retry timer says how long it may go on */
    bool ended;   /* a given descriptor closed and there is no other, or box_warden_give_up */
    box_watch *watch;
    box_timer *retry;
    box_timer *again; /* too many descriptors are in flight to send now */
    uint64_t retry_ms;
    box_time last_try;
    box_map *requests; /* by id: sent or waiting */
    box_list waiting;  /* not sent yet, in order */
    box_list front;    /* KEEP and SWEEP of this connection: before what waits */
    box_map *groups;   /* of box_warden_group, by tenant */
    uint64_t next_id;
};

/* The requests of one tenant. Exists while it has any. */
typedef struct box_warden_group {
    char *tenant;
    uint32_t open;    /* in box_warden.waiting or sent */
    box_list waiting; /* have to wait until those are answered */
    uint32_t n_waiting;
} box_warden_group;

typedef struct box_warden_request {
    box_list link;
    box_warden *warden;
    box_warden_group *group; /* NULL: the warden's own, or not with it yet */
    bool open;               /* counted in group->open */
    char *tenant;
    uint64_t id;
    box_warden_type type;
    size_t size;
    int fd;
    uint64_t timeout_ns;
    box_timer *timer;
    box_uid uid; /* KEEP */
    box_loop *reply_to;
    void (*done)(void *arg, box_warden_reply *reply);
    void *arg;
    box_warden_reply reply;
    union {
        box_warden_create create;
        box_warden_target target;
        box_warden_limits limits;
    } body;
} box_warden_request;

/* warden_request.c: with the warden; its requests are gone. */
void box_warden_groups_free(box_warden *w);
/* warden.c: sends what can be sent; waits for room when the warden does not read. Not while it is
 * down. */
void box_warden_flush(box_warden *w);
/* Tries to; a failure is what the report says then, and waiting requests end with it. */
void box_warden_connect(box_warden *w);

/* warden_request.c: body is the struct of the type (copied). */
box_warden_request *box_warden_request_new(box_warden *w, box_warden_type type, const void *body);
void box_warden_request_free(box_warden_request *r);
/* It leaves the warden's tables; its reply, filled in, goes to whoever asked. */
void box_warden_request_end(box_warden_request *r);
/* From now on it is answered within timeout_ns; once. */
void box_warden_request_start_timer(box_warden_request *r);
/* Ends all that were sent or wait with BACKEND_UNAVAILABLE. */
void box_warden_fail_all(box_warden *w, const char *what);
