/* Finding the session a creating call names, or making a new incarnation of it. */
#include <assert.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "session/table.h"
#include "warden/protocol.h"

int box_session_id_check(const char *id, const char *field, box_error *err)
{
    size_t len = strlen(id);
    if (len > BOX_MAX_ID_BYTES)
        return box_violation(err, field, "longer than %d bytes", BOX_MAX_ID_BYTES);
    if (!box_utf8_valid(id, len))
        return box_violation(err, field, "is not UTF-8");
    for (const char *p = id; *p != '\0'; p++) {
        if (box_utf8_control(p) > 0)
            return box_violation(err, field, "holds a control character");
    }
    return 0;
}

int box_session_check(const char *id, const box_spec *spec, box_error *err)
{
    int bad = box_session_id_check(id, "session_id", err);
    if (spec != NULL)
        bad |= box_spec_check(spec, "spec.", err);
    return bad;
}

/* Both names were checked: by box_spec_check, and when they became defaults. */
static const box_profile *profile_of(const char *standard, const box_spec *asked)
{
    bool named = (asked->set & BOX_SPEC_PROFILE) != 0 && asked->profile[0] != '\0';
    const box_profile *p = box_profile_find(named ? asked->profile : standard);
    assert(p != NULL);
    return p;
}

/* What asked means beside an existing spec: words that name no value of their own are no demand. */
static void normalise(box_spec *asked)
{
    if ((asked->set & BOX_SPEC_BACKEND) &&
        (strcmp(asked->backend, "auto") == 0 || strcmp(asked->backend, "local") == 0))
        asked->set &= ~(uint32_t)BOX_SPEC_BACKEND;
    if ((asked->set & BOX_SPEC_IMAGE) && strcmp(asked->image, "host") == 0)
        asked->image[0] = '\0';
    if (asked->set & BOX_SPEC_HOST_PATH_MODE && asked->host_path_mode == BOX_HOST_PATH_NONE &&
        (asked->set & BOX_SPEC_HOST_PATH))
        asked->host_path[0] = '\0';
}

static int conflict(const box_session *s, uint32_t fields, box_error *err)
{
    char names[256] = "";
    size_t len = 0;
    for (uint32_t bit = 1; bit <= BOX_SPEC_BACKEND; bit <<= 1) {
        if (fields & bit)
            len += (size_t)snprintf(names + len, sizeof names - len, "%s%s", len > 0 ? "," : "",
                                    box_spec_field_name(bit));
    }
    (void)box_fail(err, BOX_SESSION_CONFLICT,
                   "session %s exists with another %s: leave these fields unset, or delete it",
                   s->id, names);
    box_error_add(err, "session", s->id);
    box_error_add(err, "fields", names);
    return -1;
}

static int compare(const box_session *s, const box_spec *asked, box_error *err)
{
    if ((asked->set & BOX_SPEC_COMPARED) == 0)
        return 0;
    box_spec mine; /* shallow, but for the texts that normalise may cut */
    box_spec_copy_but_env(&mine, asked);
    normalise(&mine);
    (void)box_profile_lock(s->profile, &mine, NULL); /* how many does not matter */
    uint32_t fields = box_spec_differences(&mine, &s->spec) & BOX_SPEC_COMPARED;
    box_spec_done(&mine);
    return fields != 0 ? conflict(s, fields, err) : 0;
}

static bool usable(const box_session *s)
{
    return s != NULL && box_session_is_live(s->state) && s->state != BOX_SESSION_STOPPING;
}

/* An ERROR session whose sandbox vanished is made anew as it was. */
static bool to_rebuild(const box_session *s)
{
    return s != NULL && s->state == BOX_SESSION_ERROR &&
           (s->stop_reason == BOX_STOP_LOST || s->stop_reason == BOX_STOP_BROKEN);
}

static int admit_locked(const box_sessions *all, box_error *err)
{
    if (all->defaults.disabled)
        return box_fail(err, BOX_BOX_DISABLED, "Box is disabled by configuration (box.enabled)");
    if (all->draining) {
        (void)box_fail(err, BOX_SHUTTING_DOWN, "the server is shutting down");
        err->retry_ms = 1000;
        return -1;
    }
    return 0;
}

static box_session *take_locked(box_session *s, const box_acquire *a)
{
    if (a->for_exec)
        s->active++;
    s->last_used = box_loop_now(box_loop_current());
    s->last_used_wall_ns = s->all->wall_ns();
    s->touched = true;
    box_session_note_idle_locked(s);
    return box_session_ref(s);
}

int box_sessions_use(box_sessions *all, const char *tenant, const char *id, box_session **out,
                     box_error *err)
{
    const box_acquire a = {.tenant = tenant, .id = id, .for_exec = true};
    if (box_session_id_check(id, "session_id", err) < 0)
        return -1;
    if (id[0] == '\0')
        return box_violation(err, "session_id", "must not be empty");
    box_lock_take(&all->lock);
    int rc = 0;
    box_session *s = box_sessions_find_locked(all, tenant, id);
    if (all->draining)
        rc = admit_locked(all, err);
    else if (s == NULL || s->one_off)
        rc = box_session_not_found(id, err);
    else if (!usable(s))
        rc = box_session_not_running_locked(s, err);
    else
        *out = take_locked(s, &a);
    box_lock_release(&all->lock);
    return rc;
}

/* 1: taken; 0: there is none (*old: one to rebuild, a reference); -1. */
static int look_locked(box_sessions *all, const box_acquire *a, const box_spec *asked,
                       box_session **out, box_session **old, box_error *err)
{
    if (admit_locked(all, err) < 0)
        return -1;
    box_session *s = a->id[0] != '\0' ? box_sessions_find_locked(all, a->tenant, a->id) : NULL;
    if (usable(s)) {
        if (compare(s, asked, err) < 0)
            return -1;
        *out = take_locked(s, a);
        return 1;
    }
    if (old != NULL && to_rebuild(s)) {
        if (compare(s, asked, err) < 0)
            return -1;
        *old = box_session_ref(s);
    }
    return 0;
}

box_spec_defaults box_sessions_spec_defaults(const box_sessions *all,
                                             const box_session_defaults *standard,
                                             const char *tenant, bool persistent)
{
    bool shares = strcmp(tenant, BOX_TENANT_DEFAULT) == 0;
    return (box_spec_defaults){.host_path = shares ? standard->workspace : "",
                               .workspace_limit_bytes = standard->workspace_limit_bytes,
                               .image = standard->image,
                               .memory_bytes = standard->memory_bytes,
                               .idle_ttl_ns = persistent ? 0 : all->idle_ttl_ns,
                               .max_lifetime_ns = all->lifetime_ns};
}

int box_sessions_allow(const box_sessions *all, const box_spec *asked, bool persistent,
                       box_error *err)
{
    bool endless = (asked->set & BOX_SPEC_IDLE_TTL) != 0 && asked->idle_ttl_ns == 0;
    if (!endless || persistent || all->allow_no_idle_ttl)
        return 0;
    (void)box_fail(err, BOX_PERMISSION,
                   "spec.idle_ttl: a session without idle end needs limits.allow_no_idle_ttl in "
                   "boxd's configuration, or has to be persistent");
    box_error_add(err, "rule", "limits.allow_no_idle_ttl");
    return -1;
}

static int fill_spec(box_sessions *all, box_session *s, const box_spec *asked, box_error *err)
{
    const box_session_defaults standard = box_sessions_defaults(all);
    const box_spec_defaults defaults =
        box_sessions_spec_defaults(all, &standard, s->tenant_name, asked->persistent);
    s->profile = profile_of(standard.profile, asked);
    box_spec mine;
    box_spec_copy(&mine, asked);
    bool named = (mine.set & BOX_SPEC_BACKEND) && mine.backend[0] != '\0';
    int rc = box_backends_choose(all, named ? mine.backend : standard.backend, &s->warden, err);
    normalise(&mine);
    if (rc == 0) {
        s->n_adjustments =
            box_profile_merge(s->profile, &mine, &defaults, &s->spec, s->adjustments);
        free(s->spec.backend);
        s->spec.backend = box_strdup(box_warden_name(s->warden));
        rc = box_backends_check(s->warden, &mine, &s->spec, standard.required_guarantees,
                                &s->required, &s->best_effort, err);
    }
    box_spec_done(&mine);
    return rc;
}

static void fill_rebuild(box_session *s, box_session *old)
{
    s->profile = old->profile;
    s->warden = old->warden;
    s->required = old->required;
    s->best_effort = old->best_effort;
    s->n_adjustments = old->n_adjustments;
    memcpy(s->adjustments, old->adjustments, sizeof s->adjustments);
    s->rebuilds = old->rebuilds + 1;
    box_spec_copy(&s->spec, &old->spec); /* nothing changes it in state ERROR */
}

static box_session *fresh(box_sessions *all, const box_acquire *a)
{
    box_uid uid = box_uid_new();
    char uid_text[BOX_UID_TEXT];
    box_uid_text(&uid, uid_text);
    box_session *s = box_session_new(all, box_loop_current(), &uid, a->tenant,
                                     a->id[0] != '\0' ? a->id : uid_text);
    s->one_off = a->one_off;
    return s;
}

static int make(box_sessions *all, const box_acquire *a, const box_spec *asked, box_session *old,
                box_session **out, bool *created, box_error *err)
{
    BOX_AUTO(box_session_unrefp) box_session *s = fresh(all, a);
    if (old != NULL)
        fill_rebuild(s, old);
    else if (fill_spec(all, s, asked, err) < 0)
        return -1;
    s->dies_at = box_time_add(box_loop_now(s->home), s->spec.max_lifetime_ns);
    size_t bytes = box_spec_bytes(&s->spec);
    if (box_share_take(&s->memory, bytes, err) < 0)
        return -1;
    s->charged_bytes = bytes;
    bool waits = false;
    box_lock_take(&all->lock);
    int rc = look_locked(all, a, asked, out, NULL, err); /* another call may have been faster */
    if (rc == 0) {
        rc = box_sessions_enter_locked(s, &waits, err);
        if (rc == 0) {
            *created = true;
            *out = take_locked(s, a);
        }
    } else if (rc == 1) {
        *created = false;
        rc = 0;
    }
    box_lock_release(&all->lock);
    if (rc == 0 && *created && !waits)
        box_session_post(s, box_sandbox_start);
    return rc;
}

static int check_persistent(const box_sessions *all, const box_acquire *a, box_error *err)
{
    if (a->one_off)
        return box_violation(err, "spec.persistent", "a sandbox that goes with its command is not");
    if (all->store != NULL)
        return 0;
    (void)box_fail(err, BOX_GUARANTEE_UNSUPPORTED,
                   "this boxd ends with its client: nothing of it is persistent");
    box_error_add(err, "guarantees", "persistent");
    box_error_add(err, "backend", "");
    return -1;
}

int box_sessions_acquire(box_sessions *all, const box_acquire *a, box_session **out, bool *created,
                         box_error *err)
{
    static const box_spec nothing;
    const box_spec *asked = a->spec != NULL ? a->spec : &nothing;
    if (box_session_check(a->id, asked, err) < 0 ||
        box_sessions_allow(all, asked, asked->persistent, err) < 0)
        return -1;
    if (asked->unsupported != NULL) {
        (void)box_fail(err, BOX_GUARANTEE_UNSUPPORTED, "not built yet: %s", asked->unsupported);
        box_error_add(err, "guarantees", asked->unsupported);
        box_error_add(err, "backend", "");
        return -1;
    }
    if (asked->persistent && check_persistent(all, a, err) < 0)
        return -1;
    BOX_AUTO(box_session_unrefp) box_session *old = NULL;
    box_lock_take(&all->lock);
    int rc = look_locked(all, a, asked, out, &old, err);
    box_lock_release(&all->lock);
    if (rc != 0) {
        *created = false;
        return rc < 0 ? -1 : 0;
    }
    return make(all, a, asked, old, out, created, err);
}
