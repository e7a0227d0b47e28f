/* ControlService: Initialize. */
#include "service/control_impl.h"

#include "base/limits.h"
#include "box/v1/types.fields.h"
#include "session/profile.h"
#include "warden/protocol.h"

/* A field that was set and cannot be. */
static int not_built(const char *field, box_error *err)
{
    (void)box_fail(err, BOX_GUARANTEE_UNSUPPORTED,
                   "%s cannot be changed by Initialize yet: leave it out", field);
    box_error_add(err, "guarantees", field);
    return -1;
}

static int refuse_unbuilt_limits(const Box__V1__Limits *l, box_error *err)
{
    const struct {
        const char *field;
        bool is_set;
    } rows[] = {
        {"config.limits.max_managed_processes", box__v1__limits__has_max_managed_processes(l)},
        {"config.limits.max_completed_processes", box__v1__limits__has_max_completed_processes(l)},
        {"config.limits.completed_process_retention", l->completed_process_retention != NULL},
        {"config.limits.max_upload_bytes", box__v1__limits__has_max_upload_bytes(l)},
        {"config.limits.max_execs", box__v1__limits__has_max_execs(l)},
        {"config.limits.max_calls_per_second", box__v1__limits__has_max_calls_per_second(l)},
        {"config.limits.max_tokens", box__v1__limits__has_max_tokens(l)},
        {"config.limits.max_memory_bytes", box__v1__limits__has_max_memory_bytes(l)},
        {"config.limits.max_skill_bytes", box__v1__limits__has_max_skill_bytes(l)},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        if (rows[i].is_set)
            return not_built(rows[i].field, err);
    }
    return 0;
}

static int refuse_unbuilt(const Box__V1__BoxConfig *b, box_error *err)
{
    if (box__v1__box_config__has_image(b) && b->image[0] != '\0')
        return not_built("config.image", err);
    if (box__v1__box_config__has_skills_root(b))
        return not_built("config.skills_root", err);
    if (b->allowed_mount_roots != NULL)
        return not_built("config.allowed_mount_roots", err);
    if (b->docker != NULL)
        return not_built("config.docker", err);
    if (b->e2b != NULL)
        return not_built("config.e2b", err);
    return b->limits != NULL ? refuse_unbuilt_limits(b->limits, err) : 0;
}

static int take_text(const char *field, const char *value, char *out, size_t size, box_error *err)
{
    size_t len = strlen(value);
    if (len >= size)
        return box_violation(err, field, "is longer than %zu bytes", size - 1);
    memcpy(out, value, len + 1);
    return 0;
}

static bool is_configured(box_control *c, const char *backend)
{
    box_backend_report reports[BOX_CONTROL_MAX_BACKENDS];
    size_t n = c->config.facts.backends(c->config.facts.arg, reports, BOX_CONTROL_MAX_BACKENDS);
    bool found = strcmp(backend, "auto") == 0 || strcmp(backend, "local") == 0;
    for (size_t i = 0; i < n && !found; i++)
        found = strcmp(reports[i].name, backend) == 0;
    return found;
}

static int take_backend(box_control *c, const char *value, box_control_settings *s, box_error *err)
{
    if (!is_configured(c, value))
        return box_violation(err, "config.backend", "no backend %.63s is configured", value);
    return take_text("config.backend", value, s->backend, sizeof s->backend, err);
}

static int take_profile(const char *value, box_control_settings *s, box_error *err)
{
    char names[160] = "";
    const box_profile *p;
    if (box_profile_find(value) != NULL)
        return take_text("config.default_profile", value, s->default_profile,
                         sizeof s->default_profile, err);
    for (size_t i = 0, used = 0; (p = box_profile_at(i)) != NULL && used < sizeof names; i++) {
        int n = snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", p->name);
        used += n > 0 ? (size_t)n : 0;
    }
    return box_violation(err, "config.default_profile", "is none of %s", names);
}

static int take_memory(int64_t value, box_control_settings *s, box_error *err)
{
    if (value != 0 && value < BOX_MIN_MEMORY_BYTES)
        return box_violation(err, "config.default_memory_bytes", "must be 0 or at least 32 MiB");
    s->default_memory_bytes = value;
    return 0;
}

static int take_workspace(const char *value, box_control_settings *s, box_error *err)
{
    const char *why = value[0] != '\0' ? box_spec_path_problem(value) : NULL;
    if (why != NULL)
        return box_violation(err, "config.default_workspace", "%s", why);
    return take_text("config.default_workspace", value, s->default_workspace,
                     sizeof s->default_workspace, err);
}

static int take_workspace_limit(int64_t value, box_control_settings *s, box_error *err)
{
    if (value < 0 || value > INT64_C(1) << 46)
        return box_violation(err, "config.default_workspace_limit_bytes",
                             "must be 0 (64 MiB) to 64 TiB");
    s->default_workspace_limit_bytes = value;
    return 0;
}

static int take_max_sessions(const box_control_settings *file, int32_t value,
                             box_control_settings *s, box_error *err)
{
    if (value < 1 || value > file->max_sessions)
        return box_violation(err, "config.limits.max_sessions",
                             "must be 1 to %d, as boxd's configuration says", file->max_sessions);
    s->max_sessions = value;
    return 0;
}

static int take_guarantees(const box_control_settings *file, const Box__V1__GuaranteeList *list,
                           box_control_settings *s, box_error *err)
{
    static const char field[] = "config.admission.guarantees";
    enum { MAX_NAMES = 64 };
    uint32_t bits = 0;
    if (list->n_names > MAX_NAMES)
        return box_violation(err, field, "more than %d names", MAX_NAMES);
    for (size_t i = 0; i < list->n_names; i++) {
        uint32_t bit = box_guarantee_from_name(list->names[i]);
        if (bit == 0)
            return box_violation(err, field, "there is no guarantee called %.63s", list->names[i]);
        bits |= bit;
    }
    uint32_t missing = file->guarantees & ~bits;
    if (missing != 0)
        return box_violation(err, field, "must keep %s, which boxd's configuration asks for",
                             box_guarantee_name(missing & ~(missing - 1)));
    s->guarantees = bits;
    return 0;
}

static int take_admission(const box_control_settings *file, const Box__V1__AdmissionConfig *a,
                          box_control_settings *s, box_error *err)
{
    int bad = 0;
    bool sets = box__v1__admission_config__has_required(a);
    if (sets && !a->required && file->admission_required)
        bad |= box_violation(err, "config.admission.required",
                             "boxd's configuration asks for it: it stays");
    else if (sets)
        s->admission_required = a->required;
    if (a->guarantees != NULL)
        bad |= take_guarantees(file, a->guarantees, s, err);
    return bad;
}

static int refuse_host(const char *why, box_error *err)
{
    (void)box_fail(err, BOX_PERMISSION, "backend host is refused here: %s", why);
    box_error_add(err, "rule", "backend.host");
    return -1;
}

/* All of it is checked before any of it holds. */
static int merge(box_control *c, const Box__V1__BoxConfig *b, box_control_settings *s,
                 box_error *err)
{
    int bad = 0;
    if (refuse_unbuilt(b, err) < 0)
        return -1;
    if (box__v1__box_config__has_enabled(b))
        s->enabled = b->enabled;
    if (box__v1__box_config__has_default_profile(b))
        bad |= take_profile(b->default_profile, s, err);
    if (box__v1__box_config__has_image(b))
        bad |= take_text("config.image", b->image, s->image, sizeof s->image, err);
    if (box__v1__box_config__has_default_memory_bytes(b))
        bad |= take_memory(b->default_memory_bytes, s, err);
    if (box__v1__box_config__has_default_workspace(b))
        bad |= take_workspace(b->default_workspace, s, err);
    if (box__v1__box_config__has_default_workspace_limit_bytes(b))
        bad |= take_workspace_limit(b->default_workspace_limit_bytes, s, err);
    if (b->limits != NULL && box__v1__limits__has_max_sessions(b->limits))
        bad |= take_max_sessions(&c->config.settings, b->limits->max_sessions, s, err);
    if (b->admission != NULL)
        bad |= take_admission(&c->config.settings, b->admission, s, err);
    if (bad != 0)
        return -1;
    const char *backend = box__v1__box_config__has_backend(b) ? b->backend : s->backend;
    const char *why = s->admission_required ? "admission.required is set" : c->config.host_refused;
    if (strcmp(backend, "host") == 0 && why != NULL)
        return refuse_host(why, err);
    return backend != s->backend ? take_backend(c, backend, s, err) : 0;
}

/* With the lock held, so that two calls do not mix. */
static int change(box_control *c, const Box__V1__BoxConfig *b, bool *reselected, box_error *err)
    BOX_REQUIRES(&c->lock)
{
    box_control_settings next = c->settings;
    if (b != NULL && merge(c, b, &next, err) < 0)
        return -1;
    if (c->config.hooks.apply(c->config.hooks.arg, &next, reselected, err) < 0)
        return -1;
    c->settings = next;
    box_policy_set_box_disabled(c->config.policy, !next.enabled);
    return 0;
}

/* The configuration in force as a message, with what it points to. */
typedef struct config_view {
    Box__V1__BoxConfig message;
    Box__V1__Limits limits;
    Box__V1__AdmissionConfig admission;
    Box__V1__GuaranteeList guarantees;
    char *names[32]; /* one a bit */
} config_view;

static void view_admission(config_view *v, const box_control_settings *s)
{
    box__v1__admission_config__init(&v->admission);
    box__v1__guarantee_list__init(&v->guarantees);
    box__v1__admission_config__set_required(&v->admission, s->admission_required);
    v->guarantees.names = v->names;
    for (unsigned i = 0; i < BOX_COUNT(v->names); i++) {
        if (s->guarantees >> i & 1)
            v->names[v->guarantees.n_names++] =
                (char *)(uintptr_t)box_guarantee_name(UINT32_C(1) << i); /* only packed */
    }
    v->admission.guarantees = &v->guarantees;
    v->message.admission = &v->admission;
}

/* Every key that is built is set. */
static void view_config(config_view *v, const box_control_settings *s)
{
    Box__V1__BoxConfig *m = &v->message;
    box__v1__box_config__init(m);
    box__v1__limits__init(&v->limits);
    box__v1__box_config__set_enabled(m, s->enabled);
    box__v1__box_config__set_default_memory_bytes(m, s->default_memory_bytes);
    box__v1__box_config__set_default_workspace_limit_bytes(m, s->default_workspace_limit_bytes);
    box__v1__box_config__set_backend(m, s->backend);
    box__v1__box_config__set_default_profile(m, s->default_profile);
    box__v1__box_config__set_image(m, s->image);
    box__v1__box_config__set_default_workspace(m, s->default_workspace);
    box__v1__limits__set_max_sessions(&v->limits, s->max_sessions);
    m->limits = &v->limits;
    view_admission(v, s);
}

/* The setters copied. */
static void view_done(config_view *v)
{
    free(v->message.backend);
    free(v->message.default_profile);
    free(v->message.image);
    free(v->message.default_workspace);
}

int box_control_initialize(box_call *call, const Box__V1__InitializeRequest *r, box_error *err)
{
    box_control *c = box_call_context(call);
    Box__V1__InitializeResponse response;
    BOX_AUTO(view_done) config_view view = {0};
    box_backend_report backend;
    bool reselected = false;
    box_lock_take(&c->lock);
    int rc = change(c, r->config, &reselected, err);
    box_control_settings s = c->settings;
    box_lock_release(&c->lock);
    if (rc < 0)
        return -1;
    box_policy_set_initialized(c->config.policy);
    box__v1__initialize_response__init(&response);
    view_config(&view, &s);
    response.initialized = true;
    response.backend_reselected = reselected;
    response.config = &view.message;
    if (box_control_selected(c, &backend))
        response.backend = backend.name;
    box_v1_control_service_initialize_answer(call, &response);
    return 0;
}
