#include "session/output.h"

#include "base/alloc.h"
#include "base/limits.h"

void box_keeper_init(box_keeper *k, size_t limit_bytes, box_share *share)
{
    size_t head = limit_bytes / 100 * BOX_OUTPUT_HEAD_PERCENT +
                  limit_bytes % 100 * BOX_OUTPUT_HEAD_PERCENT / 100;
    *k = (box_keeper){.head_max = head, .tail_max = limit_bytes - head, .share = share};
    box_buf_init(&k->head, head > 0 ? head : 1);
    k->head.share = share;
}

void box_keeper_done(box_keeper *k)
{
    box_buf_done(&k->head);
    if (k->ring != NULL)
        box_share_give(k->share, k->tail_max);
    free(k->ring);
    k->ring = NULL;
}

static void ring_put(box_keeper *k, const uint8_t *data, size_t len)
{
    while (len > 0) {
        size_t room = k->tail_max - k->ring_at;
        size_t n = len < room ? len : room;
        memcpy(k->ring + k->ring_at, data, n);
        k->ring_at = (k->ring_at + n) % k->tail_max;
        k->ring_len = k->ring_len + n < k->tail_max ? k->ring_len + n : k->tail_max;
        data += n;
        len -= n;
    }
}

static void ring_add(box_keeper *k, const uint8_t *data, size_t len)
{
    box_error no_more;
    if (k->tail_max == 0 || len == 0)
        return;
    if (k->ring == NULL && box_share_take(k->share, k->tail_max, &no_more) < 0) {
        k->tail_max = 0; /* what is not kept is counted */
        return;
    }
    if (k->ring == NULL)
        k->ring = box_alloc(k->tail_max);
    size_t skip = len > k->tail_max ? len - k->tail_max : 0; /* would be overwritten at once */
    ring_put(k, data + skip, len - skip);
}

void box_keeper_add(box_keeper *k, const uint8_t *data, size_t len)
{
    k->total_bytes += len;
    size_t room = k->head_max - box_buf_len(&k->head);
    size_t n = len < room ? len : room;
    box_error err;
    if (n > 0 && box_buf_add(&k->head, data, n, &err) < 0) {
        n = 0; /* the share has no more: the head ends here, without a gap */
        k->head_max = box_buf_len(&k->head);
    }
    ring_add(k, data + n, len - n);
}

static void reverse(uint8_t *data, size_t len)
{
    for (size_t i = 0, j = len; i + 1 < j; i++) {
        uint8_t keep = data[i];
        data[i] = data[--j];
        data[j] = keep;
    }
}

uint64_t box_keeper_get(box_keeper *k, box_bytes *head, box_bytes *tail)
{
    if (k->ring_len == k->tail_max && k->ring_at > 0) {
        /* Rotate in place, so that the oldest byte comes first. */
        reverse(k->ring, k->ring_at);
        reverse(k->ring + k->ring_at, k->tail_max - k->ring_at);
        reverse(k->ring, k->tail_max);
        k->ring_at = 0;
    }
    *head = (box_bytes){.data = box_buf_data(&k->head), .len = box_buf_len(&k->head)};
    *tail = (box_bytes){.data = k->ring, .len = k->ring_len};
    return k->total_bytes - head->len - tail->len;
}
