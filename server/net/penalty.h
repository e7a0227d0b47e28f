/* Addresses whose connections end badly too often: their new connections are held back for a while,
 * because a TLS handshake costs the server more than the client. Times are passed in. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"

typedef struct box_penalty box_penalty;

/* per_minute: how many may end badly, at once and then spread over each minute; 0 = any number:
 * nothing is ever held back. */
box_penalty *box_penalty_new(uint32_t per_minute);
void box_penalty_free(box_penalty *p);

/* A connection of that address (at most BOX_PEER_KEY_BYTES) ended badly. Returns for how long it
 * is held back from now on; 0: it is not, or was already. Each time is twice the last, from
 * BOX_HOLD_SECONDS to BOX_MAX_HOLD_SECONDS, until it behaved for a minute. */
uint64_t box_penalty_add(box_penalty *p, const void *key, size_t len, box_time now);
/* Is it now? */
bool box_penalty_holds(box_penalty *p, const void *key, size_t len, box_time now);
