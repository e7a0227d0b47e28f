/* How many things there are of each key, with a limit for each: connections by peer address, by
 * tenant. Any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct box_tally box_tally;

/* limit 0 = none: then nothing is counted. */
box_tally *box_tally_new(uint32_t limit);
void box_tally_free(box_tally *t);
uint32_t box_tally_limit(const box_tally *t);

/* One more of that key; false (and not counted) when there are as many as the limit. Keys that
 * count nothing take no memory. */
bool box_tally_add(box_tally *t, const void *key, size_t len);
/* One less; only after a box_tally_add that was true. */
void box_tally_remove(box_tally *t, const void *key, size_t len);
