/* When tokens were last used: noted in memory by each call, written to the database once a minute.
 */
#include "base/log.h"
#include "loop/loop.h"
#include "policy/policy_impl.h"

enum { BATCH = 64 };

typedef struct use {
    uint64_t id;
    int64_t used_ns;
} use;

/* Takes up to BATCH uses that were not written yet. */
static size_t collect(box_policy *p, use batch[BATCH])
{
    size_t at = 0;
    size_t n = 0;
    void *value;
    box_lock_take(&p->lock);
    while (n < BATCH && box_map_next(p->by_id, &at, &value)) {
        token_entry *e = value;
        if (!e->used)
            continue;
        e->used = false;
        batch[n++] = (use){e->token.id, e->token.used_ns};
    }
    box_lock_release(&p->lock);
    return n;
}

int box_policy_flush(box_policy *p, box_error *err)
{
    use batch[BATCH];
    size_t n;
    while ((n = collect(p, batch)) > 0) {
        for (size_t i = 0; i < n; i++) {
            if (box_store_token_used(p->config.store, batch[i].id, batch[i].used_ns, err) < 0)
                return -1;
        }
    }
    return 0;
}

BOX_WORKER static void flush_run(void *arg)
{
    box_policy *p = arg;
    box_error err;
    if (box_policy_flush(p, &err) < 0)
        box_log(BOX_WARN, "policy.flush", BOX_ERR(&err));
}

BOX_LOOP static void flush_done(void *arg)
{
    box_policy *p = arg;
    atomic_store(&p->flushing, false);
}

void box_policy_flush_when_due(box_policy *p, int64_t now_ns)
{
    box_loop *loop = box_loop_current();
    box_error err;
    if (loop == NULL || now_ns - atomic_load(&p->flushed_ns) < 60 * (int64_t)BOX_SECOND ||
        atomic_exchange(&p->flushing, true))
        return;
    atomic_store(&p->flushed_ns, now_ns);
    if (box_loop_offload(loop, flush_run, flush_done, p, &err) < 0)
        atomic_store(&p->flushing,
                     false); /* workers are busy: the next minute's call tries again */
}
