/* What a managed process uses now, as the kernel counts it: read on the home loop, which has the
 * descriptors. */
#include <inttypes.h>

#include "session/cgroup.h"
#include "session/process_impl.h"

static int64_t number(int dir, const char *group, const char *file)
{
    char path[96];
    uint64_t n;
    (void)snprintf(path, sizeof path, "%s/%s", group, file); /* 25 and 24 at most */
    return box_cgroup_number(dir, path, &n) && n <= INT64_MAX ? (int64_t)n : -1;
}

/* v1 counts the memory of those that have limits of their own, in a group of the process's. */
static void measure_memory(const box_session *s, const box_process *p, box_process_usage *out)
{
    char group[32];
    bool v1 = s->memory_dir >= 0;
    (void)snprintf(group, sizeof group, v1 ? "p%" PRIu64 : "%" PRIu64,
                   v1 ? p->agent_id : p->facts.now.group);
    int dir = v1 ? s->memory_dir : s->cgroup_fd;
    out->memory_bytes = number(dir, group, v1 ? "memory.usage_in_bytes" : "memory.current");
    out->memory_peak_bytes = number(dir, group, v1 ? "memory.max_usage_in_bytes" : "memory.peak");
}

bool box_process_measure(box_session *s, const box_process *p, box_process_usage *out)
{
    const box_agent_managed *now = &p->facts.now;
    uint64_t n;
    *out = (box_process_usage){.threads = -1, .cpu_ns = -1};
    if (p->facts.lost || now->pid == 0)
        return false;
    measure_memory(s, p, out);
    if (box_cgroup_threads(s->cgroup_fd, now->group, &n))
        out->threads = (int64_t)n;
    if (box_cgroup_cpu_total_ns(s->cgroup_fd, now->group, &n))
        out->cpu_ns = (int64_t)(n > now->group_cpu_ns ? n - now->group_cpu_ns : 0);
    out->measured_wall_ns = s->all->wall_ns();
    return true;
}
