/* A full limit: the least recently used idle session makes room, where the configuration says so.
 */
#include "base/limits.h"
#include "session/table.h"

static bool is_idle(const box_session *s)
{
    return s->state == BOX_SESSION_RUNNING && s->active == 0 && s->in_table && !s->one_off &&
           !s->spec.persistent;
}

static uint32_t size_of(const box_tenancy *t)
{
    return t->live - t->leaving;
}

static unsigned place_of(uint32_t size)
{
    unsigned place = 0;
    for (; size > 1 && place + 1 < BOX_TENANCY_SIZES; size >>= 1)
        place++;
    return place;
}

void box_tenancy_note_size_locked(box_sessions *all, box_tenancy *t)
{
    box_list_remove(&t->of_size);
    if (!box_list_empty(&t->idle))
        box_list_append(&all->by_size[place_of(size_of(t))], &t->of_size);
}

void box_session_note_idle_locked(box_session *s)
{
    box_list_remove(&s->of_idle);
    if (is_idle(s))
        box_list_append(&s->tenant->idle, &s->of_idle);
    if (s->in_table)
        box_tenancy_note_size_locked(s->all, s->tenant);
}

/* ExtendSession promised time even when idle: such a session is passed over. *looks: how many may
 * still be looked at. */
static box_session *least_used(const box_tenancy *t, box_time now, uint32_t *looks)
{
    for (box_list *at = t->idle.next; at != &t->idle && *looks > 0; at = at->next) {
        box_session *s = BOX_CONTAINER(at, box_session, of_idle);
        --*looks;
        if (s->extended_until <= now)
            return s;
    }
    return NULL;
}

/* Among tenants that still have as many as t when it has one more: nobody can push out others to
 * have more than they. The largest come first, so that a few looks are enough. */
static box_session *of_larger_tenants(box_sessions *all, const box_tenancy *t, box_time now)
{
    uint32_t looks = BOX_EVICT_LOOKS;
    uint32_t least = size_of(t) + 2;
    box_session *found = NULL;
    for (unsigned place = BOX_TENANCY_SIZES; place-- > place_of(least) && found == NULL;) {
        const box_list *same = &all->by_size[place];
        for (box_list *at = same->next; at != same && looks > 0; at = at->next) {
            const box_tenancy *other = BOX_CONTAINER(at, box_tenancy, of_size);
            box_session *s = NULL;
            if (size_of(other) < least)
                looks--;
            else
                s = least_used(other, now, &looks);
            if (s != NULL && (found == NULL || s->last_used < found->last_used))
                found = s;
        }
    }
    return found;
}

bool box_session_evict_locked(box_session *s, box_tenancy *t, bool tenant_full)
{
    box_sessions *all = s->all;
    box_time now = box_loop_now(box_loop_current());
    uint32_t own = UINT32_MAX; /* as many as a tenant may have */
    box_session *victim = least_used(t, now, &own);
    if (victim == NULL && !tenant_full)
        victim = of_larger_tenants(all, t, now);
    if (victim == NULL)
        return false;
    victim->successor = box_session_ref(s);
    all->leaving++;
    victim->tenant->leaving++;
    box_tenancy_note_size_locked(all, victim->tenant);
    return box_session_stop_locked(victim, BOX_STOP_EVICTED, now);
}
