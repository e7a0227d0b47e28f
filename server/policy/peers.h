/* How often each peer address failed to authenticate: a table of fixed size. Not for several
 * threads at once. */
#pragma once

#include "base/clock.h"
#include "rpc/admit.h"

typedef struct box_peers box_peers;

/* max_failures a minute and address. */
box_peers *box_peers_new(uint32_t max_failures);
void box_peers_free(box_peers *p);

/* Records a failure. True while the address is within its limit; else *retry_ms says when its
 * minute is over. IPv6 addresses count by their /64, which one customer has whole; Unix peers by
 * uid. When the table is full, the address that failed least recently is forgotten. */
bool box_peers_failed(box_peers *p, const box_peer *peer, box_time now, uint32_t *retry_ms);
