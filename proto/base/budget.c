#include "base/budget.h"

enum { RETRY_MS = 1000 };

static size_t above(size_t bytes, size_t free_bytes)
{
    return bytes > free_bytes ? bytes - free_bytes : 0;
}

/* What of the budget the share holds changes from one value to the other. */
static void charge(box_share *share, size_t before, size_t after)
{
    /* Wraps when it falls, which is what atomic addition of a negative number does. */
    atomic_fetch_add(&share->budget->used,
                     above(after, share->free_bytes) - above(before, share->free_bytes));
}

int box_share_take(box_share *share, size_t bytes, box_error *err)
{
    if (share == NULL || share->budget == NULL)
        return 0;
    size_t before = atomic_fetch_add(&share->used, bytes);
    size_t mine = above(before + bytes, share->free_bytes);
    size_t all = atomic_load(&share->budget->used);
    size_t left = all < share->budget->max_bytes ? share->budget->max_bytes - all : 0;
    /* What it had already is not left: compared are its whole share and the rest. */
    if (mine > 0 && mine > left) {
        atomic_fetch_sub(&share->used, bytes);
        (void)box_fail(
            err, BOX_MEMORY_BUDGET,
            "the server has no memory left for this: retry later, or ask for less at once");
        err->retry_ms = RETRY_MS;
        return -1;
    }
    charge(share, before, before + bytes);
    return 0;
}

void box_share_give(box_share *share, size_t bytes)
{
    if (share == NULL || share->budget == NULL)
        return;
    size_t before = atomic_fetch_sub(&share->used, bytes);
    charge(share, before, before - bytes);
}
