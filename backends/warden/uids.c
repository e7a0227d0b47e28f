#include "warden/uids.h"

#include <assert.h>

#include "base/alloc.h"

struct box_uids {
    uint32_t next;
    uint32_t used;
    uint8_t taken[(BOX_UIDS_COUNT + 7) / 8];
};

box_uids *box_uids_new(uint32_t start)
{
    box_uids *u = box_alloc(sizeof *u);
    u->next = start % BOX_UIDS_COUNT;
    return u;
}

void box_uids_free(box_uids *u)
{
    free(u);
}

static bool is_taken(const box_uids *u, uint32_t block)
{
    return (u->taken[block / 8] >> (block % 8) & 1) != 0;
}

static void mark(box_uids *u, uint32_t block)
{
    u->taken[block / 8] = (uint8_t)(u->taken[block / 8] | 1U << (block % 8));
    u->used++;
}

int box_uids_take(box_uids *u, uint32_t *out, box_error *err)
{
    if (u->used == BOX_UIDS_COUNT) {
        (void)box_fail(err, BOX_QUOTA, "all %d uid ranges are in use", BOX_UIDS_COUNT);
        return box_error_limit(err, "uid_ranges", BOX_UIDS_COUNT, BOX_UIDS_COUNT);
    }
    while (is_taken(u, u->next))
        u->next = (u->next + 1) % BOX_UIDS_COUNT;
    mark(u, u->next);
    *out = BOX_UIDS_FIRST + u->next * BOX_UIDS_BLOCK;
    u->next = (u->next + 1) % BOX_UIDS_COUNT;
    return 0;
}

static bool block_of(uint32_t base, uint32_t *block)
{
    if (base < BOX_UIDS_FIRST || (base - BOX_UIDS_FIRST) % BOX_UIDS_BLOCK != 0)
        return false;
    *block = (base - BOX_UIDS_FIRST) / BOX_UIDS_BLOCK;
    return *block < BOX_UIDS_COUNT;
}

bool box_uids_claim(box_uids *u, uint32_t base)
{
    uint32_t block;
    if (!block_of(base, &block) || is_taken(u, block))
        return false;
    mark(u, block);
    return true;
}

void box_uids_give(box_uids *u, uint32_t base)
{
    uint32_t block;
    bool ours = block_of(base, &block) && is_taken(u, block);
    assert(ours);
    u->taken[block / 8] = (uint8_t)(u->taken[block / 8] & ~(1U << (block % 8)));
    u->used--;
}
