/* ControlService: Initialize. */
#include "service/control_impl.h"

#include "base/limits.h"
#include "session/profile.h"

/* A field that was set and cannot be. */
static int not_built(const char *field, box_error *err)
{
    (void)box_fail(err, BOX_GUARANTEE_UNSUPPORTED,
                   "%s cannot be changed by Initialize yet: leave it out", field);
    box_error_add(err, "guarantees", field);
    return -1;
}

static int refuse_unbuilt(const Box__V1__BoxConfig *b, box_error *err)
{
    if (box__v1__box_config__has_image(b) && b->image[0] != '\0')
        return not_built("config.image", err);
    if (box__v1__box_config__has_skills_root(b))
        return not_built("config.skills_root", err);
    if (box__v1__box_config__has_default_workspace(b))
        return not_built("config.default_workspace", err);
    if (box__v1__box_config__has_default_workspace_limit_bytes(b))
        return not_built("config.default_workspace_limit_bytes", err);
    if (b->allowed_mount_roots != NULL)
        return not_built("config.allowed_mount_roots", err);
    if (b->docker != NULL)
        return not_built("config.docker", err);
    if (b->e2b != NULL)
        return not_built("config.e2b", err);
    if (b->limits != NULL)
        return not_built("config.limits", err);
    if (b->admission != NULL)
        return not_built("config.admission", err);
    return 0;
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
    if (strcmp(value, "host") == 0 && c->config.host_refused != NULL) {
        (void)box_fail(err, BOX_PERMISSION, "backend host is refused here: %s",
                       c->config.host_refused);
        box_error_add(err, "rule", "backend.host");
        return -1;
    }
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
    if (bad == 0 && box__v1__box_config__has_backend(b))
        bad |= take_backend(c, b->backend, s, err);
    return bad != 0 ? -1 : 0;
}

/* The first setting besides `enabled` that differs, or NULL. */
static const char *difference(const box_control_settings *a, const box_control_settings *b)
{
    if (strcmp(a->backend, b->backend) != 0)
        return "config.backend";
    if (strcmp(a->default_profile, b->default_profile) != 0)
        return "config.default_profile";
    if (strcmp(a->image, b->image) != 0)
        return "config.image";
    return a->default_memory_bytes != b->default_memory_bytes ? "config.default_memory_bytes"
                                                              : NULL;
}

/* With the lock held, so that two calls do not mix. */
static int change(box_control *c, const Box__V1__BoxConfig *b, bool *reselected, box_error *err)
    BOX_REQUIRES(&c->lock)
{
    box_control_settings next = c->settings;
    if (b != NULL && merge(c, b, &next, err) < 0)
        return -1;
    const box_control_hooks *h = &c->config.hooks;
    const char *differs = difference(&c->settings, &next);
    if (h->apply == NULL && differs != NULL)
        return not_built(differs, err);
    if (h->apply != NULL && h->apply(h->arg, &next, reselected, err) < 0)
        return -1;
    c->settings = next;
    box_policy_set_box_disabled(c->config.policy, !next.enabled);
    return 0;
}

int box_control_initialize(box_call *call, const Box__V1__InitializeRequest *r, box_error *err)
{
    box_control *c = box_call_context(call);
    Box__V1__InitializeResponse response;
    Box__V1__BoxConfig config;
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
    box__v1__box_config__init(&config);
    box__v1__box_config__set_enabled(&config, s.enabled);
    box__v1__box_config__set_default_memory_bytes(&config, s.default_memory_bytes);
    box__v1__box_config__set_backend(&config, s.backend);
    box__v1__box_config__set_default_profile(&config, s.default_profile);
    box__v1__box_config__set_image(&config, s.image);
    response.initialized = true;
    response.backend_reselected = reselected;
    response.config = &config;
    if (box_control_selected(c, &backend))
        response.backend = backend.name;
    box_v1_control_service_initialize_answer(call, &response);
    free(config.backend); /* the setters copied */
    free(config.default_profile);
    free(config.image);
    return 0;
}
