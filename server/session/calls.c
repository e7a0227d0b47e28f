/* What callers ask of a session there is: look, change, end. */
#include "base/alloc.h"
#include "base/limits.h"
#include "session/execution.h"
#include "session/watch.h"

/* --- look ------------------------------------------------------------------------------------- */

static int find(box_sessions *all, const char *tenant, const char *id, box_session **out,
                box_error *err)
{
    if (id[0] == '\0') {
        (void)box_violation(err, "session_id", "must not be empty"); /* always -1 */
        return -1;
    }
    if (box_session_id_check(id, "session_id", err) < 0)
        return -1;
    return box_sessions_find(all, tenant, id, out, err);
}

int box_session_get(box_sessions *all, const char *tenant, const char *id, box_session_info *out,
                    box_error *err)
{
    box_session *s = NULL;
    if (find(all, tenant, id, &s, err) < 0)
        return -1;
    box_session_snapshot(s, out);
    box_session_unref(s);
    return 0;
}

typedef struct usage_call {
    box_session *session;
    void (*done)(void *arg, const box_session_info *info, const box_session_usage *usage,
                 const box_error *err);
    void *arg;
    box_error err;
} usage_call;

static void usage_answer(usage_call *c, const box_session_usage *usage)
{
    box_session_info info;
    box_session_snapshot(c->session, &info);
    c->done(c->arg, &info, usage, NULL);
    box_session_info_done(&info);
    box_session_unref(c->session);
    free(c);
}

static void usage_came(void *arg, box_warden_reply *reply)
{
    const box_warden_answer *a = &reply->answer;
    box_session_usage usage = {.measured = reply->error.reason == BOX_NONE,
                               .memory_bytes = a->memory_bytes,
                               .memory_peak_bytes = a->memory_peak_bytes,
                               .pids = a->pids,
                               .cpu_ns = a->cpu_ns,
                               .workspace_bytes = a->workspace_bytes,
                               .workspace_limit_bytes = a->workspace_limit_bytes,
                               .workspace_inodes = a->workspace_inodes,
                               .workspace_inode_limit = a->workspace_inode_limit,
                               .oom_kills = a->oom_kills};
    box_warden_reply_done(reply);
    usage_answer(arg, &usage);
}

static void usage_not_there(void *arg)
{
    usage_call *c = arg;
    const box_session_usage none = {0};
    if (c->session != NULL) {
        usage_answer(c, &none);
        return;
    }
    c->done(c->arg, NULL, NULL, &c->err);
    free(c);
}

void box_session_get_usage(box_sessions *all, const char *tenant, const char *id,
                           void (*done)(void *arg, const box_session_info *info,
                                        const box_session_usage *usage, const box_error *err),
                           void *arg)
{
    usage_call *c = box_alloc(sizeof *c);
    c->done = done;
    c->arg = arg;
    if (find(all, tenant, id, &c->session, &c->err) < 0 ||
        box_session_state_now(c->session, NULL) != BOX_SESSION_RUNNING) {
        box_loop_post(box_loop_current(), usage_not_there, c);
        return;
    }
    box_warden_target target = {.uid = c->session->uid};
    box_warden_ask(c->session->warden, c->session->tenant_name, BOX_WARDEN_USAGE, &target, -1,
                   box_loop_current(), usage_came, c);
}

/* --- change ----------------------------------------------------------------------------------- */

enum { LIMITS = BOX_SPEC_CPU | BOX_SPEC_MEMORY | BOX_SPEC_PIDS };

typedef struct update_call {
    box_session *session;
    box_spec changes; /* complete for `fields` */
    uint32_t fields;
    box_session_done done;
    void *arg;
    box_error err;
} update_call;

static void run_queue(void *session)
{
    BOX_AUTO(box_session_unrefp) box_session *s = session;
    box_slots_run(s);
}

/* It holds, and is on the disk where it has to be; or err says why not. */
static void update_answer(void *arg, const box_error *err)
{
    update_call *c = arg;
    box_session_info info = {0};
    if (err == NULL)
        box_session_snapshot(c->session, &info);
    c->done(c->arg, err == NULL ? &info : NULL, err);
    box_session_info_done(&info);
    box_session_unref(c->session);
    box_spec_done(&c->changes);
    free(c);
}

static void update_end(void *arg)
{
    update_call *c = arg;
    if (c->err.reason != BOX_NONE) {
        update_answer(c, &c->err);
        return;
    }
    box_session_apply(c->session, &c->changes, c->fields);
    if (c->fields & BOX_SPEC_MAX_PARALLEL_EXECS)
        box_session_post(c->session, run_queue);
    box_session_write(c->session, BOX_SESSION_PUT, update_answer, c);
}

static void limits_changed(void *arg, box_warden_reply *reply)
{
    update_call *c = arg;
    c->err = reply->error;
    box_warden_reply_done(reply);
    update_end(c);
}

static int update_check(const box_spec *changes, uint32_t fields, box_error *err)
{
    int bad = 0;
    uint32_t fixed = fields & ~(uint32_t)BOX_SPEC_LIVE;
    for (uint32_t bit = 1; bit != 0 && bit <= fixed; bit <<= 1) {
        if (fixed & bit)
            bad |= box_violation(err, "update_mask", "%s cannot change in a live session",
                                 box_spec_field_name(bit));
    }
    if (fields == 0)
        bad |= box_violation(err, "update_mask", "names nothing to change");
    bad |= box_spec_check(changes, "spec.", err);
    return bad;
}

static int may_update(const update_call *c, const box_spec *changes, box_error *err)
{
    box_session *s = c->session;
    box_session_state state = box_session_state_now(s, NULL);
    bool needs_sandbox = (c->fields & LIMITS) != 0;
    if ((c->fields & BOX_SPEC_IDLE_TTL) &&
        box_sessions_allow(s->all, changes, s->spec.persistent, err) < 0)
        return -1;
    if (state >= BOX_SESSION_STOPPING || (needs_sandbox && state != BOX_SESSION_RUNNING))
        return box_session_not_running(s, err);
    return needs_sandbox ? box_backends_check_live(s, err) : 0;
}

/* A field that is named but not set goes back to the profile's default. */
static void complete(update_call *c, const box_spec *changes)
{
    const box_session *s = c->session;
    const box_session_defaults standard = box_sessions_defaults(s->all);
    const box_spec_defaults defaults =
        box_sessions_spec_defaults(s->all, &standard, s->tenant_name, s->spec.persistent);
    box_adjustment ignored[BOX_MAX_ADJUSTMENTS]; /* only of fields that cannot change live */
    (void)box_profile_merge(s->profile, changes, &defaults, &c->changes, ignored);
}

static void ask_limits(update_call *c)
{
    box_warden_limits limits = {.uid = c->session->uid};
    if (c->fields & BOX_SPEC_MEMORY)
        limits.memory_bytes = c->changes.memory_bytes;
    if (c->fields & BOX_SPEC_PIDS)
        limits.pids = c->changes.pids;
    if (c->fields & BOX_SPEC_CPU)
        limits.cpu_millis = c->changes.cpu_millis;
    box_warden_ask(c->session->warden, c->session->tenant_name, BOX_WARDEN_LIMITS, &limits, -1,
                   box_loop_current(), limits_changed, c);
}

void box_session_update(box_sessions *all, const char *tenant, const char *id,
                        const box_spec *changes, uint32_t fields, box_session_done done, void *arg)
{
    box_session *s = NULL;
    box_error err = {0};
    if (update_check(changes, fields, &err) < 0 || find(all, tenant, id, &s, &err) < 0) {
        box_session_answer_error(done, arg, &err);
        return;
    }
    update_call *c = box_alloc(sizeof *c);
    *c = (update_call){.session = s, .fields = fields, .done = done, .arg = arg};
    complete(c, changes);
    if (may_update(c, changes, &c->err) == 0 && (fields & LIMITS))
        ask_limits(c);
    else
        box_loop_post(box_loop_current(), update_end, c);
}

static int extend(box_session *s, uint64_t for_ns, box_error *err)
{
    box_sessions *all = s->all;
    box_time now = box_loop_now(box_loop_current());
    int rc = 0;
    box_lock_take(&all->lock);
    if (!box_session_is_live(s->state) || s->state == BOX_SESSION_STOPPING) {
        rc = box_session_not_running_locked(s, err);
    } else {
        box_time until = box_time_add(now, for_ns > 0 ? for_ns : s->spec.idle_ttl_ns);
        if (until > s->extended_until)
            s->extended_until = until;
        s->updated_wall_ns = all->wall_ns();
        box_watches_tell(s, BOX_WATCH_UPDATED);
    }
    box_lock_release(&all->lock);
    return rc;
}

void box_session_extend(box_sessions *all, const char *tenant, const char *id, uint64_t for_ns,
                        box_session_done done, void *arg)
{
    box_session *s = NULL;
    box_error err = {0};
    if (find(all, tenant, id, &s, &err) < 0 || extend(s, for_ns, &err) < 0) {
        box_session_unref(s);
        box_session_answer_error(done, arg, &err);
        return;
    }
    update_call *c = box_alloc(sizeof *c);
    *c = (update_call){.session = s, .done = done, .arg = arg};
    box_session_write(s, BOX_SESSION_TOUCH, update_answer, c);
}

/* --- end -------------------------------------------------------------------------------------- */

void box_session_stop(box_sessions *all, const char *tenant, const char *id, box_session_done done,
                      void *arg)
{
    box_session *s = NULL;
    box_error err = {0};
    if (find(all, tenant, id, &s, &err) < 0) {
        box_session_answer_error(done, arg, &err);
        return;
    }
    (void)box_session_ask_stop(s, BOX_STOP_REQUESTED); /* idempotent */
    box_session_want_end(s, box_waiter_new(done, arg));
    box_session_unref(s);
}

void box_session_delete(box_sessions *all, const char *tenant, const char *id, bool allow_missing,
                        box_session_done done, void *arg)
{
    box_session *s = NULL;
    box_error err = {0};
    if (find(all, tenant, id, &s, &err) < 0) {
        bool fine = allow_missing && err.reason == BOX_SESSION_NOT_FOUND;
        box_session_answer_error(done, arg, fine ? NULL : &err);
        return;
    }
    box_session_want_end(s, box_waiter_new(done, arg));
    (void)box_session_ask_stop(s, BOX_STOP_DELETED); /* it may be stopping already */
    box_session_unref(s);
}
