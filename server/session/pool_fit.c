#include "session/pool_fit.h"

static bool same_text(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

bool box_pool_same_make(const box_warden_create *a, const box_warden_create *b)
{
    return a->flags == b->flags && a->workspace_bytes == b->workspace_bytes &&
           a->tmp_bytes == b->tmp_bytes && a->home_bytes == b->home_bytes &&
           a->shm_bytes == b->shm_bytes && same_text(a->image, b->image) &&
           same_text(a->mount_path, b->mount_path) && same_text(a->host_path, b->host_path);
}

bool box_pool_same_limits(const box_warden_create *a, const box_warden_create *b)
{
    return a->memory_bytes == b->memory_bytes && a->pids == b->pids &&
           a->cpu_millis == b->cpu_millis;
}

bool box_pool_relimit(const box_warden_create *made, uint32_t guarantees,
                      const box_warden_create *asked, box_warden_limits *out)
{
    *out = (box_warden_limits){.uid = made->uid};
    if (asked->memory_bytes != made->memory_bytes && (guarantees & BOX_G_MEMORY) != 0)
        out->memory_bytes = asked->memory_bytes;
    if (asked->pids != made->pids && (guarantees & BOX_G_PIDS) != 0)
        out->pids = asked->pids;
    if (asked->cpu_millis != made->cpu_millis && (guarantees & BOX_G_CPU) != 0)
        out->cpu_millis = asked->cpu_millis;
    bool all_named = asked->memory_bytes != 0 && asked->pids != 0 && asked->cpu_millis != 0;
    return box_pool_same_limits(asked, made) ||
           (all_named && (guarantees & BOX_G_LIVE_LIMITS) != 0);
}

bool box_pool_standard(box_sessions *all, box_warden **warden, box_warden_create *out)
{
    static const box_spec nothing;
    const box_session_defaults standard = box_sessions_defaults(all);
    /* No tenant has this name: a directory that sessions share is not for those of nobody. */
    const box_spec_defaults defaults = box_sessions_spec_defaults(all, &standard, "", false);
    box_adjustment adjustments[BOX_MAX_ADJUSTMENTS];
    box_backend_report report = {0};
    box_spec spec = {0};
    uint32_t required;
    uint32_t best_effort;
    box_error err;
    if (box_backends_choose(all, standard.backend, warden, &err) < 0)
        return false;
    box_warden_report(*warden, &report);
    (void)box_profile_merge(box_profile_find(standard.profile), &nothing, &defaults, &spec,
                            adjustments); /* nothing was asked that could be adjusted */
    bool can = report.available &&
               box_backends_check(*warden, &nothing, &spec, standard.required_guarantees, &required,
                                  &best_effort, &err) == 0;
    if (can)
        box_sandbox_request(&spec, required, out);
    box_spec_done(&spec);
    return can;
}
