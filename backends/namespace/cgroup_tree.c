#include "namespace/cgroup_tree.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"

const box_cgroup_controller box_cgroup_controllers[BOX_CG_CONTROLLERS] = {
    {BOX_CG_MEMORY, "memory", "memory.limit_in_bytes", "memory.max"},
    {BOX_CG_PIDS, "pids", "pids.max", "pids.max"},
    {BOX_CG_CPU, "cpu", "cpu.cfs_quota_us", "cpu.max"},
    {BOX_CG_CPUACCT, "cpuacct", NULL, NULL},
};

uint32_t box_cgroup_bits(const char *list)
{
    uint32_t bits = 0;
    for (const char *at = list; *at != '\0';) {
        size_t len = strcspn(at, ", \n");
        for (size_t i = 0; i < BOX_CG_CONTROLLERS; i++) {
            const char *name = box_cgroup_controllers[i].name;
            if (strlen(name) == len && strncmp(at, name, len) == 0)
                bits |= box_cgroup_controllers[i].bit;
        }
        at += len;
        at += *at != '\0' ? 1 : 0;
    }
    return bits;
}

int box_cgroup_trees_print(const box_cgroup_trees *trees, const char *below,
                           char out[BOX_SANDBOX_PLACE_BYTES], box_error *err)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < trees->count; i++) {
        const box_cgroup_tree *t = &trees->all[i];
        int n = snprintf(out + used, BOX_SANDBOX_PLACE_BYTES - used, "%u %u %s%s\n", t->version,
                         t->controllers, t->base, below);
        if (n < 0 || (size_t)n >= BOX_SANDBOX_PLACE_BYTES - used)
            return box_fail(err, BOX_VALIDATION, "the warden's control group path is too long");
        used += (size_t)n;
    }
    return 0;
}

static const char *parse_line(const char *line, box_cgroup_tree *out)
{
    char *at;
    out->version = (uint32_t)strtoul(line, &at, 10);
    if (*at != ' ')
        return NULL;
    out->controllers = (uint32_t)strtoul(at, &at, 10);
    if (at[0] != ' ' || at[1] != '/')
        return NULL;
    size_t len = strcspn(at + 1, "\n");
    if (at[1 + len] != '\n' || len >= sizeof out->base)
        return NULL;
    memcpy(out->base, at + 1, len);
    out->base[len] = '\0';
    return at + 1 + len + 1;
}

void box_cgroup_trees_parse(const char *place, box_cgroup_trees *out)
{
    out->count = 0;
    while (*place != '\0' && out->count < BOX_CG_MAX_TREES) {
        place = parse_line(place, &out->all[out->count]);
        if (place == NULL) {
            out->count = 0;
            return;
        }
        out->count++;
    }
}

int box_cgroup_open(const box_cgroup_tree *s, const char *below)
{
    char path[BOX_CG_PATH];
    if (s->version == 1 && strcmp(below, "/agent") == 0)
        below = "";
    int n = snprintf(path, sizeof path, "%s%s", s->base, below);
    if (n < 0 || (size_t)n >= sizeof path)
        return -1;
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

const box_cgroup_tree *box_cgroup_find(const box_cgroup_trees *trees, uint32_t controller)
{
    for (size_t i = 0; i < trees->count; i++) {
        if ((trees->all[i].controllers & controller) != 0)
            return &trees->all[i];
    }
    return NULL;
}

const box_cgroup_tree *box_cgroup_v2(const box_cgroup_trees *trees)
{
    for (size_t i = 0; i < trees->count; i++) {
        if (trees->all[i].version == 2)
            return &trees->all[i];
    }
    return NULL;
}

int box_cgroup_set(int dir, const char *file, int64_t value, box_error *err)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%lld", (long long)value);
    return box_fd_write_file(dir, file, text, err);
}

uint32_t box_cgroup_process_version(const box_cgroup_trees *trees)
{
    uint32_t seen = 0;
    uint32_t versions = 0; /* 3: both */
    for (size_t i = 0; i < trees->count; i++) {
        uint32_t has = trees->all[i].controllers & BOX_CG_PROCESS;
        seen |= has;
        versions |= has != 0 ? trees->all[i].version : 0;
    }
    return seen == BOX_CG_PROCESS && versions != 3 ? versions : 0;
}
