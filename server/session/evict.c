/* A full limit: the least recently used idle session makes room, where the configuration says so.
 */
#include "session/table.h"

static bool is_idle(const box_session *s)
{
    return s->state == BOX_SESSION_RUNNING && s->active == 0 && s->in_table && !s->one_off &&
           !s->spec.persistent;
}

void box_session_note_idle_locked(box_session *s)
{
    box_list_remove(&s->of_idle);
    if (is_idle(s))
        box_list_append(&s->tenant->idle, &s->of_idle);
}

/* ExtendSession promised time even when idle: such a session is passed over. */
static box_session *least_used(const box_tenancy *t, box_time now)
{
    for (box_list *at = t->idle.next; at != &t->idle; at = at->next) {
        box_session *s = BOX_CONTAINER(at, box_session, of_idle);
        if (s->extended_until <= now)
            return s;
    }
    return NULL;
}

/* Among tenants that still have as many as t when it has one more: nobody can push out others to
 * have more than they. */
static box_session *of_larger_tenants(box_sessions *all, const box_tenancy *t, box_time now)
{
    box_session *found = NULL;
    size_t at = 0;
    void *value;
    while (box_map_next(all->tenants, &at, &value)) {
        const box_tenancy *other = value;
        if (other->live - other->leaving < t->live - t->leaving + 2)
            continue;
        box_session *s = least_used(other, now);
        if (s != NULL && (found == NULL || s->last_used < found->last_used))
            found = s;
    }
    return found;
}

bool box_session_evict_locked(box_session *s, box_tenancy *t, bool tenant_full)
{
    box_sessions *all = s->all;
    box_time now = box_loop_now(box_loop_current());
    box_session *victim = least_used(t, now);
    if (victim == NULL && !tenant_full)
        victim = of_larger_tenants(all, t, now);
    if (victim == NULL)
        return false;
    victim->successor = box_session_ref(s);
    all->leaving++;
    victim->tenant->leaving++;
    return box_session_stop_locked(victim, BOX_STOP_EVICTED, now);
}
