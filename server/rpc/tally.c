#include "rpc/tally.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/map.h"
#include "loop/lock.h"

typedef struct entry {
    uint32_t count;
} entry;

struct box_tally {
    uint32_t limit;
    box_lock lock; /* guards counts */
    box_map *counts;
};

box_tally *box_tally_new(uint32_t limit)
{
    box_tally *t = box_alloc(sizeof *t);
    t->limit = limit;
    t->counts = box_map_new();
    box_lock_init(&t->lock);
    return t;
}

void box_tally_free(box_tally *t)
{
    if (t == NULL)
        return;
    size_t at = 0;
    void *value;
    while (box_map_next(t->counts, &at, &value))
        free(value);
    box_map_free(t->counts);
    box_lock_done(&t->lock);
    free(t);
}

uint32_t box_tally_limit(const box_tally *t)
{
    return t->limit;
}

bool box_tally_add(box_tally *t, const void *key, size_t len)
{
    if (t->limit == 0)
        return true;
    box_lock_take(&t->lock);
    entry *e = box_map_get_bytes(t->counts, key, len);
    bool within = e == NULL || e->count < t->limit;
    if (e == NULL) {
        e = box_alloc(sizeof *e);
        (void)box_map_put_bytes(t->counts, key, len, e);
    }
    if (within)
        e->count++;
    box_lock_release(&t->lock);
    return within;
}

void box_tally_remove(box_tally *t, const void *key, size_t len)
{
    if (t->limit == 0)
        return;
    box_lock_take(&t->lock);
    entry *e = box_map_get_bytes(t->counts, key, len);
    assert(e != NULL && e->count > 0);
    if (--e->count == 0) {
        (void)box_map_remove_bytes(t->counts, key, len);
        free(e);
    }
    box_lock_release(&t->lock);
}
