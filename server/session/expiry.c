/* Sessions that end together: by time, with their tenant, with the server. */
#include "base/limits.h"
#include "session/table.h"
#include "session/watch.h"

static box_time now_here(void)
{
    return box_loop_now(box_loop_current());
}

/* One that no caller has been told of yet does not stay. */
static void stop_or_leave(box_session *s, box_time now)
{
    bool had = s->state == BOX_SESSION_RUNNING || (s->state == BOX_SESSION_STARTING && s->adopted);
    if (!s->spec.persistent || !had) {
        (void)box_session_stop_locked(s, BOX_STOP_SHUTDOWN, now); /* not all of them live */
        return;
    }
    s->all->staying += !s->stays;
    s->stays = true;
    box_session_touch_locked(s, now, 0);
}

void box_sessions_stop_all(box_sessions *all)
{
    box_time now = now_here();
    box_lock_take(&all->lock);
    all->draining = true;
    size_t at = 0;
    void *value;
    while (box_map_next(all->by_uid, &at, &value))
        stop_or_leave(value, now);
    box_sessions_check_drained_locked(all);
    box_lock_release(&all->lock);
}

void box_sessions_revoke(box_sessions *all, const char *tenant)
{
    box_time now = now_here();
    box_lock_take(&all->lock);
    box_tenancy *t = box_map_get(all->tenants, tenant);
    for (box_list *at = t != NULL ? t->sessions.next : NULL; t != NULL && at != &t->sessions;
         at = at->next)
        (void)box_session_stop_locked(BOX_CONTAINER(at, box_session, of_tenant), BOX_STOP_REVOKED,
                                      now);
    box_lock_release(&all->lock);
}

/* --- expiry ----------------------------------------------------------------------------------- */

box_time box_session_idle_at(const box_session *s)
{
    if (s->spec.idle_ttl_ns == 0)
        return BOX_TIME_NEVER;
    box_time idle = box_time_add(s->last_used, s->spec.idle_ttl_ns);
    return idle > s->extended_until ? idle : s->extended_until;
}

static void expire_live(box_session *s, box_time now)
{
    if (now >= s->dies_at)
        (void)box_session_stop_locked(s, BOX_STOP_LIFETIME, now); /* it may be stopping already */
    else if (s->state == BOX_SESSION_RUNNING && s->active == 0 && now >= box_session_idle_at(s))
        (void)box_session_stop_locked(s, BOX_STOP_IDLE, now);
    else
        box_session_touch_locked(s, now, BOX_SESSION_TOUCH_SECONDS * BOX_SECOND);
}

static void expire_tenant(box_tenancy *t, box_time now)
{
    for (box_list *at = t->sessions.next; at != &t->sessions; at = at->next)
        expire_live(BOX_CONTAINER(at, box_session, of_tenant), now);
}

static bool drop_old_record(box_tenancy *t, box_time now)
{
    if (box_list_empty(&t->ended))
        return false;
    box_session *s = BOX_CONTAINER(t->ended.next, box_session, of_ended);
    if (box_time_add(s->ended_at, BOX_SESSION_RECORD_SECONDS * BOX_SECOND) > now)
        return false;
    box_watches_tell(s, BOX_WATCH_DELETED);
    box_session_remove_locked(s);
    return true;
}

void box_sessions_expire(box_sessions *all, box_time now)
{
    box_lock_take(&all->lock);
    size_t at = 0;
    void *value;
    while (box_map_next(all->tenants, &at, &value)) {
        box_tenancy *t = value;
        expire_tenant(t, now);
        t->live++; /* so that it stays while its records go */
        bool dropped = false;
        while (drop_old_record(t, now))
            dropped = true;
        t->live--;
        if (dropped && t->live == 0 && box_list_empty(&t->sessions)) {
            box_tenancy_drop_if_unused(all, t);
            at = 0; /* the map changed */
        }
    }
    box_lock_release(&all->lock);
}
