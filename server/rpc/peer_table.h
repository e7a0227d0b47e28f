/* What is remembered of each of many peers, by a key that they choose: a table of fixed size, in
 * which a new key takes the place of the one that was looked for least recently. Not for several
 * threads at once. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"

typedef struct box_peer_table box_peer_table;

enum { BOX_PEER_KEY_BYTES = 16 };

/* n_keys: a multiple of 8. A value is value_bytes, zero at first, aligned for 64-bit numbers. */
box_peer_table *box_peer_table_new(size_t n_keys, size_t value_bytes);
void box_peer_table_free(box_peer_table *r);

/* The value of that key, a fresh one where there is none; valid until the next call. Keys are up to
 * BOX_PEER_KEY_BYTES long, and equal when they are with zeros behind them. */
void *box_peer_table_get(box_peer_table *r, const void *key, size_t len, box_time now);
/* Or NULL where there is none; this does not count as looking. */
void *box_peer_table_peek(const box_peer_table *r, const void *key, size_t len);
