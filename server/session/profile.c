#include "session/profile.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/limits.h"

#define MIB (INT64_C(1024) * 1024)

static const box_profile profiles[] = {
    {"default", false, BOX_HOST_PATH_RW, 1000, 512 * MIB, 128, true, 30 * BOX_SECOND,
     120 * BOX_SECOND, 0},
    {"offline_readonly", false, BOX_HOST_PATH_RO, 500, 256 * MIB, 64, true, 30 * BOX_SECOND,
     60 * BOX_SECOND, BOX_SPEC_NETWORK | BOX_SPEC_HOST_PATH_MODE | BOX_SPEC_READ_ONLY_ROOTFS},
    {"network_basic", true, BOX_HOST_PATH_RW, 1000, 512 * MIB, 128, true, 30 * BOX_SECOND,
     120 * BOX_SECOND, 0},
    {"network_extended", true, BOX_HOST_PATH_RW, 2000, 1024 * MIB, 256, false, 30 * BOX_SECOND,
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

uint32_t box_profile_lock(const box_profile *p, box_spec *asked)
{
    uint32_t forced = 0;
    uint32_t locked = p->locked & asked->set;
    if ((locked & BOX_SPEC_NETWORK) && asked->network_on != p->network_on)
        forced |= BOX_SPEC_NETWORK;
    if ((locked & BOX_SPEC_HOST_PATH_MODE) && asked->host_path_mode != p->host_path_mode)
        forced |= BOX_SPEC_HOST_PATH_MODE;
    if ((locked & BOX_SPEC_READ_ONLY_ROOTFS) && asked->read_only_rootfs != p->read_only_rootfs)
        forced |= BOX_SPEC_READ_ONLY_ROOTFS;
    if (forced & BOX_SPEC_NETWORK)
        asked->network_on = p->network_on;
    if (forced & BOX_SPEC_HOST_PATH_MODE)
        asked->host_path_mode = p->host_path_mode;
    if (forced & BOX_SPEC_READ_ONLY_ROOTFS)
        asked->read_only_rootfs = p->read_only_rootfs;
    return forced;
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
    if (unset & BOX_SPEC_WORKSPACE_LIMIT)
        out->workspace_limit_bytes = 0;
    if (unset & BOX_SPEC_IDLE_TTL)
        out->idle_ttl_ns = d->idle_ttl_ns;
    if (unset & BOX_SPEC_MAX_PARALLEL_EXECS)
        out->max_parallel_execs = 1;
}

uint32_t box_profile_merge(const box_profile *p, const box_spec *asked,
                           const box_spec_defaults *defaults, box_spec *out)
{
    box_spec_copy(out, asked);
    uint32_t forced = box_profile_lock(p, out);
    fill_numbers(p, defaults, out);
    fill_text(out, BOX_SPEC_IMAGE, &out->image, defaults->image);
    fill_text(out, BOX_SPEC_HOST_PATH, &out->host_path, "");
    fill_text(out, BOX_SPEC_MOUNT_PATH, &out->mount_path, "/workspace");
    free(out->profile);
    out->profile = box_strdup(p->name);
    out->set = (BOX_SPEC_LABELS << 1) - 1;
    return forced;
}
