/* One session in the table: looking at it and changing it. */
#include <assert.h>

#include "base/alloc.h"
#include "session/table.h"
#include "session/watch.h"

static box_time now_here(void)
{
    return box_loop_now(box_loop_current());
}

/* --- looking ---------------------------------------------------------------------------------- */

void box_session_info_done(box_session_info *info)
{
    free(info->id);
    free(info->tenant);
    free(info->backend);
    box_spec_done(&info->spec);
    *info = (box_session_info){0};
}

static void snapshot_but_env(const box_session *s, box_session_info *out)
{
    *out = (box_session_info){
        .id = box_strdup(s->id),
        .tenant = box_strdup(s->tenant_name),
        .uid = s->uid,
        .state = s->state,
        .stop_reason = s->stop_reason,
        .error = s->error,
        .backend = box_strdup(box_warden_name(s->warden)),
        .guarantees = s->guarantees,
        .best_effort = s->best_effort,
        .required = s->required,
        .n_adjustments = s->n_adjustments,
        .rebuilds = s->rebuilds,
        .total_execs = s->total_execs,
        .running_execs = s->running_execs,
        .queued_execs = s->queued_execs,
        .running_processes = s->kept_alive,
        .created_wall_ns = s->created_wall_ns,
        .updated_wall_ns = s->updated_wall_ns,
        .last_used_wall_ns = s->active > 0 ? s->all->wall_ns() : s->last_used_wall_ns,
        .stopped_wall_ns = s->stopped_wall_ns,
        .one_off = s->one_off,
    };
    memcpy(out->adjustments, s->adjustments, sizeof out->adjustments);
    box_spec_copy_but_env(&out->spec, &s->spec);
    if (s->state == BOX_SESSION_RUNNING) {
        box_time now = now_here();
        box_time idle = box_session_idle_at(s);
        if (s->active > 0 && s->spec.idle_ttl_ns > 0)
            idle = box_time_add(now, s->spec.idle_ttl_ns);
        box_time end = idle < s->dies_at ? idle : s->dies_at;
        out->expires_wall_ns = s->all->wall_ns() + (int64_t)box_time_left(end, now);
    }
}

void box_session_snapshot_locked(const box_session *s, box_session_info *out)
{
    snapshot_but_env(s, out);
    box_spec_set_env_names(&out->spec, s->spec.env, s->spec.n_env);
}

void box_session_snapshot_but_env(box_session *s, box_session_info *out)
{
    box_lock_take(&s->all->lock);
    snapshot_but_env(s, out);
    box_lock_release(&s->all->lock);
}

void box_session_snapshot(box_session *s, box_session_info *out)
{
    box_lock_take(&s->all->lock);
    box_session_snapshot_locked(s, out);
    box_lock_release(&s->all->lock);
}

box_session_state box_session_state_now(box_session *s, box_stop_reason *reason)
{
    box_lock_take(&s->all->lock);
    box_session_state state = s->state;
    if (reason != NULL)
        *reason = s->stop_reason;
    box_lock_release(&s->all->lock);
    return state;
}

uint32_t box_session_parallel(box_session *s)
{
    box_lock_take(&s->all->lock);
    uint32_t n = s->spec.max_parallel_execs;
    box_lock_release(&s->all->lock);
    return n;
}

/* --- changing --------------------------------------------------------------------------------- */

void box_session_want_run(box_session *s, box_waiter *w)
{
    box_lock_take(&s->all->lock);
    if (s->state == BOX_SESSION_CREATED || s->state == BOX_SESSION_STARTING) {
        box_list_append(&s->want_run, &w->link);
    } else if (s->state == BOX_SESSION_RUNNING) {
        box_waiter_answer(w, s, NULL);
    } else {
        box_error err = {0};
        (void)box_session_not_running_locked(s, &err); /* always -1 */
        box_waiter_answer(w, s, &err);
    }
    box_lock_release(&s->all->lock);
}

void box_session_want_end(box_session *s, box_waiter *w)
{
    box_lock_take(&s->all->lock);
    if (box_session_is_live(s->state))
        box_list_append(&s->want_end, &w->link);
    else
        box_waiter_answer(w, s, NULL);
    box_lock_release(&s->all->lock);
}

void box_session_count_execs(box_session *s, uint32_t queued, uint32_t running, bool started)
{
    box_lock_take(&s->all->lock);
    s->all->queued_execs += (uint64_t)queued - s->queued_execs; /* wraps back when it falls */
    s->all->running_execs += (uint64_t)running - s->running_execs;
    s->queued_execs = queued;
    s->running_execs = running;
    if (started) {
        s->total_execs++;
        s->all->execs_total++;
    }
    box_lock_release(&s->all->lock);
}

void box_session_made(box_session *s, uint32_t guarantees)
{
    box_lock_take(&s->all->lock);
    s->guarantees = guarantees;
    s->at_warden = true;
    box_lock_release(&s->all->lock);
}

void box_session_apply(box_session *s, const box_spec *changes, uint32_t fields)
{
    box_lock_take(&s->all->lock);
    if (fields & BOX_SPEC_LABELS)
        box_spec_set_labels(&s->spec, changes->labels, changes->n_labels);
    if (fields & BOX_SPEC_TOOLS)
        box_tool_choice_set(&s->spec.tools, &changes->tools);
    if (fields & BOX_SPEC_IDLE_TTL)
        s->spec.idle_ttl_ns = changes->idle_ttl_ns;
    if (fields & BOX_SPEC_MAX_PARALLEL_EXECS)
        s->spec.max_parallel_execs = changes->max_parallel_execs;
    if (fields & BOX_SPEC_CPU)
        s->spec.cpu_millis = changes->cpu_millis;
    if (fields & BOX_SPEC_MEMORY)
        s->spec.memory_bytes = changes->memory_bytes;
    if (fields & BOX_SPEC_PIDS)
        s->spec.pids = changes->pids;
    s->updated_wall_ns = s->all->wall_ns();
    box_watches_tell(s, BOX_WATCH_UPDATED);
    box_lock_release(&s->all->lock);
}

void box_session_drop_env_locked(box_session *s)
{
    if (s->state != BOX_SESSION_STOPPED || s->active > 0 || s->spec.n_env == 0)
        return;
    box_spec_set_env(&s->spec, NULL, 0);
    box_share_give(&s->memory, s->charged_bytes);
    s->charged_bytes = 0;
}

void box_session_use(box_session *s)
{
    box_lock_take(&s->all->lock);
    s->active++;
    box_session_note_idle_locked(s);
    box_lock_release(&s->all->lock);
}

void box_session_keep_alive(box_session *s, bool begins)
{
    box_lock_take(&s->all->lock);
    assert(begins || s->kept_alive > 0);
    s->kept_alive += begins ? 1 : UINT32_MAX;
    box_lock_release(&s->all->lock);
    if (begins)
        box_session_use(s);
    else
        box_session_release(s);
}

void box_session_release(box_session *s)
{
    box_time now = now_here();
    box_lock_take(&s->all->lock);
    assert(s->active > 0);
    s->active--;
    s->touched = true;
    s->last_used = now;
    s->last_used_wall_ns = s->all->wall_ns();
    box_session_drop_env_locked(s);
    box_session_note_idle_locked(s);
    if (s->all->draining)
        box_sessions_check_drained_locked(s->all);
    box_lock_release(&s->all->lock);
}

void box_session_forget_uid(box_session *s)
{
    box_lock_take(&s->all->lock);
    s->at_warden = false;
    bool there = box_map_get_bytes(s->all->by_uid, &s->uid, sizeof s->uid) == s;
    if (there)
        (void)box_map_remove_bytes(s->all->by_uid, &s->uid, sizeof s->uid); /* it is s */
    box_lock_release(&s->all->lock);
    if (there)
        box_session_unref(s);
}
