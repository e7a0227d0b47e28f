#include "net/penalty.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "loop/lock.h"
#include "rpc/peer_table.h"

enum { MINUTE_SECONDS = 60 };

typedef struct address {
    box_time full_at;    /* when its allowance is whole again */
    box_time held_until; /* 0 = never was */
    uint64_t hold_ns;    /* the last one */
} address;

struct box_penalty {
    uint64_t each_ns; /* in which one more may end badly; 0 = any number */
    uint64_t minute_ns;
    box_lock lock; /* guards table */
    box_peer_table *table;
};

box_penalty *box_penalty_new(uint32_t per_minute)
{
    box_penalty *p = box_alloc(sizeof *p);
    p->each_ns = per_minute > 0 ? MINUTE_SECONDS * BOX_SECOND / per_minute : 0;
    p->minute_ns = p->each_ns * per_minute;
    p->table = box_peer_table_new(BOX_PENALTY_PEERS, sizeof(address));
    box_lock_init(&p->lock);
    return p;
}

void box_penalty_free(box_penalty *p)
{
    if (p == NULL)
        return;
    box_peer_table_free(p->table);
    box_lock_done(&p->lock);
    free(p);
}

static uint64_t longer(uint64_t hold_ns)
{
    const uint64_t most = BOX_MAX_HOLD_SECONDS * BOX_SECOND;
    uint64_t next = hold_ns == 0 ? BOX_HOLD_SECONDS * BOX_SECOND : 2 * hold_ns;
    return next < most ? next : most;
}

static uint64_t add(address *a, const box_penalty *p, box_time now)
{
    if (now < a->held_until)
        return 0; /* a connection from before */
    if (now >= box_time_add(a->held_until, MINUTE_SECONDS * BOX_SECOND))
        a->hold_ns = 0; /* it behaved */
    a->full_at = (a->full_at > now ? a->full_at : now) + p->each_ns;
    if (a->full_at - now <= p->minute_ns)
        return 0;
    a->full_at = now + p->minute_ns;
    a->hold_ns = longer(a->hold_ns);
    a->held_until = now + a->hold_ns;
    return a->hold_ns;
}

uint64_t box_penalty_add(box_penalty *p, const void *key, size_t len, box_time now)
{
    if (p->each_ns == 0)
        return 0;
    box_lock_take(&p->lock);
    uint64_t hold_ns = add(box_peer_table_get(p->table, key, len, now), p, now);
    box_lock_release(&p->lock);
    return hold_ns;
}

bool box_penalty_holds(box_penalty *p, const void *key, size_t len, box_time now)
{
    if (p->each_ns == 0)
        return false;
    box_lock_take(&p->lock);
    const address *a = box_peer_table_peek(p->table, key, len);
    bool holds = a != NULL && now < a->held_until;
    box_lock_release(&p->lock);
    return holds;
}
