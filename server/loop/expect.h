/* Whether a loop, before it sleeps, looks for a moment whether more comes: waking up takes a
 * processor several times as long as a small call does, most of all in a virtual machine. It pays
 * where somebody makes one call after another, and only costs where nobody does, so it depends on
 * how long the last waits were. Plain state, times are passed in. */
#pragma once

#include <stdbool.h>

#include "base/clock.h"

typedef struct box_expect {
    bool wanted;          /* something was sent in this turn that may be answered at once */
    unsigned short_waits; /* in a row */
    box_time began_at;    /* of the wait; 0: it does not count */
} box_expect;

/* The loop is about to wait: look for up to BOX_POLL_US first? */
bool box_expect_begin(box_expect *e, box_time now);
/* It did, and something came, or not; then it sleeps. */
void box_expect_polled(box_expect *e, bool came);
/* The wait is over. */
void box_expect_end(box_expect *e, box_time now);
