/* box_keeper: what Exec keeps of one output stream: the first 60 % and the last 40 % of a limit,
 * with exact counts. Memory is taken as bytes come, never more than the limit or than its share
 * has. */
#pragma once

#include "base/buf.h"

typedef struct box_keeper {
    size_t head_max;
    size_t tail_max;
    box_buf head;
    uint8_t *ring; /* tail_max bytes, once the head is full */
    size_t ring_len;
    size_t ring_at; /* where the next byte goes */
    uint64_t total_bytes;
    box_share *share; /* charged for what is kept */
} box_keeper;

/* limit_bytes 0: only counts. share may be NULL; when it has no more, less is kept. */
void box_keeper_init(box_keeper *k, size_t limit_bytes, box_share *share);
void box_keeper_done(box_keeper *k);
void box_keeper_add(box_keeper *k, const uint8_t *data, size_t len);
/* What was kept, in order; borrowed until the next add. Returns the bytes missing between. */
uint64_t box_keeper_get(box_keeper *k, box_bytes *head, box_bytes *tail);
