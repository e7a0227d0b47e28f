#include "session/profile.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/limits.h"

#define MIB     (INT64_C(1024) * 1024)
#define TIMEOUT (BOX_DEFAULT_TIMEOUT_SECONDS * BOX_SECOND)

static const box_profile profiles[] = {
    {"default", false, BOX_HOST_PATH_RW, 1000, 512 * MIB, 128, true, TIMEOUT, 120 * BOX_SECOND, 0},
    {"offline_readonly", false, BOX_HOST_PATH_RO, 500, 256 * MIB, 64, true, TIMEOUT,
     60 * BOX_SECOND, BOX_SPEC_NETWORK | BOX_SPEC_HOST_PATH_MODE | BOX_SPEC_READ_ONLY_ROOTFS},
    {"network_basic", true, BOX_HOST_PATH_RW, 1000, 512 * MIB, 128, true, TIMEOUT, 120 * BOX_SECOND,
     0},
    {"network_extended", true, BOX_HOST_PATH_RW, 2000, 1024 * MIB, 256, false, TIMEOUT,
     300 * BOX_SECOND, 0},
};

const box_profile *box_profile_at(size_t i)
{
    return i < BOX_COUNT(profiles) ? &profiles[i] : NULL;
}

const box_profile *box_profile_find(const char *name)
{
    for (size_t i = 0; i < BOX_COUNT(profiles); i++) {
        if (strcmp(profiles[i].name, name) == 0)
            return &profiles[i];
    }
    return NULL;
}

static const char *const mode_names[] = {
    [BOX_HOST_PATH_RW] = "READ_WRITE",
    [BOX_HOST_PATH_RO] = "READ_ONLY",
    [BOX_HOST_PATH_NONE] = "NONE",
};

static box_adjustment locked(const char *field, const char *requested, const char *effective)
{
    box_adjustment a = {.rule = "profile.locked"};
    (void)snprintf(a.field, sizeof a.field, "%s", field);
    (void)snprintf(a.requested, sizeof a.requested, "%s", requested);
    (void)snprintf(a.effective, sizeof a.effective, "%s", effective);
    return a;
}

size_t box_profile_lock(const box_profile *p, box_spec *asked, box_adjustment *adjustments)
{
    box_adjustment out[BOX_MAX_ADJUSTMENTS];
    size_t n = 0;
    uint32_t here = p->locked & asked->set;
    if ((here & BOX_SPEC_NETWORK) && asked->network_on != p->network_on)
        out[n++] =
            locked("network", asked->network_on ? "ON" : "OFF", p->network_on ? "ON" : "OFF");
    if ((here & BOX_SPEC_HOST_PATH_MODE) && asked->host_path_mode != p->host_path_mode)
        out[n++] = locked("host_path_mode", mode_names[asked->host_path_mode],
                          mode_names[p->host_path_mode]);
    if ((here & BOX_SPEC_READ_ONLY_ROOTFS) && asked->read_only_rootfs != p->read_only_rootfs)
        out[n++] = locked("read_only_rootfs", asked->read_only_rootfs ? "true" : "false",
                          p->read_only_rootfs ? "true" : "false");
    if (here & BOX_SPEC_NETWORK)
        asked->network_on = p->network_on;
    if (here & BOX_SPEC_HOST_PATH_MODE)
        asked->host_path_mode = p->host_path_mode;
    if (here & BOX_SPEC_READ_ONLY_ROOTFS)
        asked->read_only_rootfs = p->read_only_rootfs;
    if (adjustments != NULL)
        memcpy(adjustments, out, n * sizeof *out);
    return n;
}

uint64_t box_profile_timeout(const box_profile *p, uint64_t asked_ns, uint64_t session_ns,
                             bool *clamped)
{
    uint64_t want = asked_ns > 0 ? asked_ns : session_ns;
    *clamped = want > p->max_timeout_ns;
    return *clamped ? p->max_timeout_ns : want;
}

static void fill_text(box_spec *out, uint32_t bit, char **field, const char *value)
{
    if (out->set & bit)
        return;
    free(*field);
    *field = box_strdup(value != NULL ? value : "");
}

static void fill_numbers(const box_profile *p, const box_spec_defaults *d, box_spec *out)
{
    uint32_t unset = ~out->set;
    if (unset & BOX_SPEC_NETWORK)
        out->network_on = p->network_on;
    if (unset & BOX_SPEC_HOST_PATH_MODE)
        out->host_path_mode = p->host_path_mode;
    if (unset & BOX_SPEC_PERSISTENT)
        out->persistent = false;
    if (unset & BOX_SPEC_CPU)
        out->cpu_millis = p->cpu_millis;
    if (unset & BOX_SPEC_MEMORY)
        out->memory_bytes = d->memory_bytes > 0 ? d->memory_bytes : p->memory_bytes;
    if (unset & BOX_SPEC_PIDS)
        out->pids = p->pids;
    if (unset & BOX_SPEC_READ_ONLY_ROOTFS)
        out->read_only_rootfs = p->read_only_rootfs;
    if (unset & BOX_SPEC_IDLE_TTL)
        out->idle_ttl_ns = d->idle_ttl_ns;
    if (unset & BOX_SPEC_MAX_PARALLEL_EXECS)
        out->max_parallel_execs = 1;
    if (unset & BOX_SPEC_COMMAND_TIMEOUT)
        out->command_timeout_ns = p->timeout_ns;
    if ((unset & BOX_SPEC_MAX_LIFETIME) || out->max_lifetime_ns > d->max_lifetime_ns)
        out->max_lifetime_ns = d->max_lifetime_ns;
    if (unset & BOX_SPEC_DESTROY_ON_TIMEOUT)
        out->destroy_on_timeout = false;
    if (unset & BOX_SPEC_TOOLS)
        out->tools.all = true;
}

size_t box_profile_merge(const box_profile *p, const box_spec *asked,
                         const box_spec_defaults *defaults, box_spec *out,
                         box_adjustment *adjustments)
{
    box_spec_copy(out, asked);
    size_t n = box_profile_lock(p, out, adjustments);
    fill_numbers(p, defaults, out);
    fill_text(out, BOX_SPEC_IMAGE, &out->image, defaults->image);
    bool mounts = out->host_path_mode != BOX_HOST_PATH_NONE;
    fill_text(out, BOX_SPEC_HOST_PATH, &out->host_path, mounts ? defaults->host_path : "");
    if ((out->set & BOX_SPEC_WORKSPACE_LIMIT) == 0) /* on a host directory there is none */
        out->workspace_limit_bytes =
            mounts && out->host_path[0] != '\0' ? 0 : defaults->workspace_limit_bytes;
    fill_text(out, BOX_SPEC_MOUNT_PATH, &out->mount_path, "/workspace");
    fill_text(out, BOX_SPEC_WORKDIR, &out->workdir, out->mount_path);
    free(out->profile);
    out->profile = box_strdup(p->name);
    out->set = BOX_SPEC_ALL;
    return n;
}
