/* The end: what runs is waited for, and given up on when that takes too long. */
#include "base/limits.h"
#include "session/execution.h"
#include "session/pool.h"
#include "session/watch.h"

static void fill_why(box_error *why)
{
    (void)box_fail(why, BOX_SHUTTING_DOWN, "the server is shutting down"); /* always -1 */
}

/* --- giving up -------------------------------------------------------------------------------- */

/* Its agent may hang. The sandbox of a persistent one stays as it is. */
static void abandon(void *session)
{
    BOX_AUTO(box_session_unrefp) box_session *s = session;
    box_error why = {0};
    fill_why(&why);
    box_slots_fail_waiting(s, &why);
    box_slots_lose(s, &why);
    box_files_close(s, &why);
}

/* Everybody who still waits is told. What that posts runs before the loops are gone, also after
 * they have stopped. */
static void abandon_all(box_sessions *all)
{
    box_lock_take(&all->lock);
    size_t at = 0;
    void *value;
    while (box_map_next(all->by_uid, &at, &value))
        box_session_post(value, abandon);
    box_lock_release(&all->lock);
    for (size_t i = 0; i < all->n_wardens; i++)
        box_warden_give_up(all->wardens[i]);
}

static void takes_too_long(void *arg)
{
    box_sessions *all = arg;
    box_lock_take(&all->lock);
    void (*done)(void *) = all->drained;
    all->drained = NULL;
    box_lock_release(&all->lock);
    if (done == NULL)
        return;
    abandon_all(all);
    done(all->drained_arg);
}

/* --- draining --------------------------------------------------------------------------------- */

static void drain(void *arg)
{
    box_sessions *all = arg;
    box_loop *loop = box_loops_get(all->loops, 0);
    box_error why;
    fill_why(&why);
    box_watches_end(all, &why);
    if (all->drain_limit == NULL)
        all->drain_limit = box_timer_new(loop, takes_too_long, all);
    box_timer_set(all->drain_limit,
                  box_time_add(box_loop_now(loop), BOX_SESSIONS_DRAIN_SECONDS * BOX_SECOND));
    box_sessions_stop_all(all);
    box_pool_look(all->pool);
}

void box_sessions_drain(box_sessions *all, void (*done)(void *arg), void *arg)
{
    box_lock_take(&all->lock);
    all->draining = true;
    all->drained = done;
    all->drained_arg = arg;
    box_lock_release(&all->lock);
    box_loop_post(box_loops_get(all->loops, 0), drain, all);
}
