/* box_budget: how much memory the peers of a server may make it hold, all together. box_share: what
 * one holder (a connection, a session) has of it. A few bytes are free for everyone; beyond them a
 * holder may have at most as much as is left for all others, so that one alone gets half, and those
 * who ask for little always get it. Any thread. */
#pragma once

#include <stdatomic.h>

#include "base/error.h"

typedef struct box_budget {
    size_t max_bytes;
    atomic_size_t used;
} box_budget;

/* Zero: no bound. Must outlive what it is charged for. */
typedef struct box_share {
    box_budget *budget; /* NULL = no bound */
    size_t free_bytes;
    atomic_size_t used;
} box_share;

/* MEMORY_BUDGET with a retry, and nothing taken. share NULL = no bound. */
int box_share_take(box_share *share, size_t bytes, box_error *err) BOX_MUST_USE;
void box_share_give(box_share *share, size_t bytes);
