/* box_forward as its two sides see it. Internal to server/session. */
#pragma once

#include "base/buf.h"
#include "session/forward.h"
#include "session/table.h"

typedef enum box_forward_phase {
    BOX_FORWARD_WAITING, /* for the session, then the connection */
    BOX_FORWARD_OPEN,
    BOX_FORWARD_OVER,
} box_forward_phase;

struct box_forward {
    atomic_uint refs;

    /* fixed */
    box_session *session; /* a reference, and a use of it until it is over */
    box_loop *loop;
    uint16_t port;
    uint64_t wait_ns;

    /* of the home loop */
    box_list link;     /* session->forwards, which holds a reference: it counts */
    uint64_t asked_id; /* of the CONNECT that is not answered; 0 = none is */
    box_timer *retry;  /* until the next one */
    box_time until;    /* when that ends */
    bool gone;         /* nobody waits for it any more */

    /* of the home loop until it has posted box_forward_opened, or box_forward_failed */
    int fd;
    box_error error;

    /* of the call's loop */
    box_forward_phase phase;
    bool detached; /* nobody is told any more */
    box_forward_events events;
    void *arg;
    box_watch *watch;
    int watched;
    box_buf out;
    bool told_full;
    bool ending;      /* the caller's direction ends behind `out`; */
    bool ended;       /* that was told */
    bool broken;      /* the program's side takes no more: what it sent is still read */
    bool peer_closed; /* the program's direction ended */
};

box_forward *box_forward_ref(box_forward *f);
void box_forward_unref(box_forward *f);

/* Posted to the call's loop, each with a reference. */
void box_forward_opened(void *forward);
void box_forward_failed(void *forward);
/* Posted to the home loop, each with a reference. */
void box_forward_arrives(void *forward);
void box_forward_leaves(void *forward);
