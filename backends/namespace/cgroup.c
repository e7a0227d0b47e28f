#include "namespace/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "namespace/cgroup_tree.h"
#include "namespace/proc.h"

enum { CPU_PERIOD_US = 100000 };

/* box-OWNER may be removed by the helper of its last sandbox between our two calls. */
static int make_session(const box_cgroup_tree *t, box_error *err)
{
    char owner[BOX_CG_PATH];
    (void)snprintf(owner, sizeof owner, "%s", t->base);
    *strrchr(owner, '/') = '\0';
    for (int tries = 0; tries < 100; tries++) {
        if (mkdir(t->base, 0755) == 0)
            return 0;
        if (errno != ENOENT)
            return box_fail_errno(err, "make the sandbox's control group");
        if (mkdir(owner, 0755) < 0 && errno != EEXIST)
            return box_fail_errno(err, "make a control group");
    }
    return box_fail(err, BOX_INTERNAL, "the warden's control group keeps vanishing");
}

/* "+memory +pids" in the group's subtree_control. Only when they are not there: the write waits for
 * groups on their way out. */
static int enable(int dir, uint32_t wanted, box_error *err)
{
    char text[256];
    if (box_proc_read(dir, "cgroup.subtree_control", text, sizeof text) >= 0 &&
        (wanted & ~box_cgroup_bits(text)) == 0)
        return 0;
    (void)snprintf(text, sizeof text, "%s%s%s", (wanted & BOX_CG_MEMORY) != 0 ? "+memory " : "",
                   (wanted & BOX_CG_PIDS) != 0 ? "+pids " : "",
                   (wanted & BOX_CG_CPU) != 0 ? "+cpu" : "");
    return box_fd_write_file(dir, "cgroup.subtree_control", text, err);
}

/* BASE too: at the top, systemd takes back what none of its units needs while no sandbox lives. */
static int enable_above(int session, uint32_t controllers, box_error *err)
{
    BOX_AUTO(box_closep) int base = openat(session, "../..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    BOX_AUTO(box_closep) int owner = openat(session, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (base < 0 || owner < 0)
        return box_fail_errno(err, "open the warden's control group");
    return enable(base, controllers, err) < 0 ? -1 : enable(owner, controllers, err);
}

/* CLONE_INTO_CGROUP asks for write access to cgroup.procs of the common ancestor as well: of S/box
 * and S/box/x/N that is S/box itself, of S/agent and S/box (the zygote) S. The agent is kept from
 * nesting deeper than one group a command. */
static int delegate(int session, uid_t owner, box_error *err)
{
    if (mkdirat(session, "box/x", 0755) < 0)
        return box_fail_errno(err, "make the commands' control group");
    static const char *const files[] = {"cgroup.procs",
                                        "box",
                                        "box/cgroup.procs",
                                        "box/cgroup.subtree_control",
                                        "box/x",
                                        "box/x/cgroup.procs",
                                        "box/x/cgroup.subtree_control"};
    for (size_t i = 0; i < BOX_COUNT(files); i++) {
        if (fchownat(session, files[i], owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
            return box_fail_errno(err, "delegate a control group");
    }
    return box_cgroup_set(session, "box/x/cgroup.max.depth", 1, err);
}

/* All sandboxes of a warden together leave half of the process numbers to the host: each of
 * their processes has one there too. */
static int leave_pids(int session, box_error *err)
{
    static const char *const files[] = {"/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"};
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < BOX_COUNT(files); i++) {
        int64_t value;
        if (box_proc_number(AT_FDCWD, files[i], NULL, &value) && value < least)
            least = value;
    }
    return least == INT64_MAX ? 0 : box_cgroup_set(session, "../pids.max", least / 2, err);
}

/* One thread that moves itself by v1's `tasks` takes no lock that all forks wait for (kernel 5.16,
 * cgroup_procs_write_start). */
static const char *own_entry(const box_cgroup_tree *t)
{
    return t->version == 1 ? "tasks" : "cgroup.procs";
}

static int make_one(const box_cgroup_tree *t, uid_t owner, box_error *err)
{
    if (make_session(t, err) < 0)
        return -1;
    BOX_AUTO(box_closep) int session = box_cgroup_open(t, "");
    if (session < 0)
        return box_fail_errno(err, "open the sandbox's control group");
    if (t->version == 2 && enable_above(session, t->controllers, err) < 0)
        return -1;
    if ((t->controllers & BOX_CG_PIDS) != 0 && leave_pids(session, err) < 0)
        return box_wrap(err, "limit of all processes");
    if ((t->version == 2 && mkdirat(session, "agent", 0755) < 0) ||
        mkdirat(session, "box", 0755) < 0)
        return box_fail_errno(err, "make the sandbox's control groups");
    if (t->version == 2)
        return delegate(session, owner, err);
    /* The agent makes groups of processes in it; its own limits stay the warden's. */
    if ((t->controllers & BOX_CG_PROCESS) != 0 &&
        fchownat(session, "box", owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
        return box_fail_errno(err, "delegate a control group");
    return 0;
}

int box_cgroups_make(const box_sandbox_record *r, uid_t owner, box_error *err)
{
    box_cgroup_trees trees;
    box_cgroup_trees_parse(r->place, &trees);
    for (size_t i = 0; i < trees.count; i++) {
        if (make_one(&trees.all[i], owner, err) < 0)
            return -1;
    }
    return 0;
}

/* v1 keeps memory <= memory+swap at every moment, so the order depends on the direction. */
static int limit_memory_v1(int dir, int64_t bytes, box_error *err)
{
    bool swap = faccessat(dir, "memory.memsw.limit_in_bytes", W_OK, 0) == 0;
    if (box_cgroup_set(dir, "memory.limit_in_bytes", bytes, err) == 0)
        return swap ? box_cgroup_set(dir, "memory.memsw.limit_in_bytes", bytes, err) : 0;
    if (!swap || box_cgroup_set(dir, "memory.memsw.limit_in_bytes", bytes, err) < 0)
        return -1;
    return box_cgroup_set(dir, "memory.limit_in_bytes", bytes, err);
}

/* What TCP and UDP hold counts on v2 only. Without a limit of its own one sandbox took all that the
 * machine has (net.ipv4.tcp_mem), far above its memory limit. Kernels that lost the file count it.
 */
static int limit_sockets_v1(int dir, int64_t bytes, box_error *err)
{
    enum { PART = 4 /* of the memory limit */ };
    if (faccessat(dir, "memory.kmem.tcp.limit_in_bytes", W_OK, 0) < 0)
        return 0;
    return box_cgroup_set(dir, "memory.kmem.tcp.limit_in_bytes", bytes / PART, err);
}

static int limit_memory(int dir, uint32_t version, int64_t bytes, box_error *err)
{
    if (version == 1)
        return limit_sockets_v1(dir, bytes, err) < 0 ? -1 : limit_memory_v1(dir, bytes, err);
    if (faccessat(dir, "memory.swap.max", W_OK, 0) == 0 &&
        box_cgroup_set(dir, "memory.swap.max", 0, err) < 0)
        return -1;
    return box_cgroup_set(dir, "memory.max", bytes, err);
}

static int limit_cpu(int dir, uint32_t version, int32_t millis, box_error *err)
{
    int64_t quota_us = (int64_t)millis * CPU_PERIOD_US / 1000;
    if (version == 1) {
        if (box_cgroup_set(dir, "cpu.cfs_period_us", CPU_PERIOD_US, err) < 0)
            return -1;
        return box_cgroup_set(dir, "cpu.cfs_quota_us", quota_us, err);
    }
    char text[48];
    (void)snprintf(text, sizeof text, "%lld %d", (long long)quota_us, CPU_PERIOD_US);
    return box_fd_write_file(dir, "cpu.max", text, err);
}

/* Of v1's S: what S/box may have, and the agent beside it. */
static int limit_whole(const box_cgroup_tree *t, int64_t memory_bytes, int64_t pids, box_error *err)
{
    BOX_AUTO(box_closep) int dir = box_cgroup_open(t, "");
    if (dir < 0)
        return box_fail_errno(err, "open the sandbox's control group");
    if ((t->controllers & BOX_CG_MEMORY) != 0 && memory_bytes != 0 &&
        limit_memory(dir, t->version, memory_bytes + BOX_AGENT_MEMORY_BYTES, err) < 0)
        return box_wrap(err, "memory limit");
    if ((t->controllers & BOX_CG_PIDS) != 0 && pids != 0 &&
        box_cgroup_set(dir, "pids.max", pids + BOX_AGENT_PIDS, err) < 0)
        return box_wrap(err, "pids limit");
    return 0;
}

static int limit_one(const box_cgroup_tree *t, const box_sandbox_record *r,
                     const box_warden_limits *limits, box_error *err)
{
    int64_t memory_bytes = limits->memory_bytes != 0 ? limits->memory_bytes + r->tmpfs_bytes : 0;
    int64_t pids = limits->pids != 0 ? limits->pids + BOX_SANDBOX_OWN_PIDS : 0;
    BOX_AUTO(box_closep) int dir = box_cgroup_open(t, "/box");
    if (dir < 0)
        return box_fail_errno(err, "open the sandbox's control group");
    if ((t->controllers & BOX_CG_MEMORY) != 0 && memory_bytes != 0 &&
        limit_memory(dir, t->version, memory_bytes, err) < 0)
        return box_wrap(err, "memory limit");
    if ((t->controllers & BOX_CG_PIDS) != 0 && pids != 0 &&
        box_cgroup_set(dir, "pids.max", pids, err) < 0)
        return box_wrap(err, "pids limit");
    if ((t->controllers & BOX_CG_CPU) != 0 && limits->cpu_millis != 0 &&
        limit_cpu(dir, t->version, limits->cpu_millis, err) < 0)
        return box_wrap(err, "cpu limit");
    return t->version == 1 ? limit_whole(t, memory_bytes, pids, err) : 0;
}

int box_cgroups_limit(const box_sandbox_record *r, const box_warden_limits *limits, box_error *err)
{
    box_cgroup_trees trees;
    box_cgroup_trees_parse(r->place, &trees);
    for (size_t i = 0; i < trees.count; i++) {
        if (limit_one(&trees.all[i], r, limits, err) < 0)
            return -1;
    }
    return 0;
}

static int limit_agent(const box_cgroup_tree *t, int dir, box_error *err)
{
    if ((t->controllers & BOX_CG_MEMORY) != 0 &&
        limit_memory(dir, t->version, BOX_AGENT_MEMORY_BYTES, err) < 0)
        return -1;
    if ((t->controllers & BOX_CG_PIDS) != 0 &&
        box_cgroup_set(dir, "pids.max", BOX_AGENT_PIDS, err) < 0)
        return -1;
    return 0;
}

int box_cgroups_birthplace(const box_sandbox_record *r, const char *below)
{
    box_cgroup_trees trees;
    box_cgroup_trees_parse(r->place, &trees);
    const box_cgroup_tree *t = box_cgroup_v2(&trees);
    return t != NULL ? box_cgroup_open(t, below) : -1;
}

bool box_cgroups_limit_on_v2(const box_sandbox_record *r)
{
    box_cgroup_trees trees;
    box_cgroup_trees_parse(r->place, &trees);
    const box_cgroup_tree *t = box_cgroup_v2(&trees);
    return t != NULL && t->controllers != 0;
}

static int join_one(const box_cgroup_tree *t, const char *below, box_error *err)
{
    BOX_AUTO(box_closep) int dir = box_cgroup_open(t, below);
    if (dir < 0)
        return box_fail_errno(err, "open the sandbox's control group");
    return box_fd_write_file(dir, own_entry(t), "0", err);
}

int box_cgroups_join(const box_sandbox_record *r, const char *below, bool everywhere,
                     box_error *err)
{
    box_cgroup_trees trees;
    box_cgroup_trees_parse(r->place, &trees);
    for (size_t i = 0; i < trees.count; i++) {
        const box_cgroup_tree *t = &trees.all[i];
        if (t->version == 1 && below[0] != '\0')
            continue; /* there S/agent is S, where it was first */
        if ((everywhere || t->version == 1) && join_one(t, below, err) < 0)
            return box_wrap(err, "control groups");
    }
    return 0;
}

static int settle_one(const box_cgroup_tree *t, box_error *err)
{
    BOX_AUTO(box_closep) int session = box_cgroup_open(t, "");
    BOX_AUTO(box_closep) int agent = box_cgroup_open(t, "/agent");
    if (session < 0 || agent < 0)
        return box_fail_errno(err, "open the sandbox's control group");
    if (t->version == 2 && t->controllers != 0 && enable(session, t->controllers, err) < 0)
        return -1;
    return limit_agent(t, agent, err);
}

int box_cgroups_settle(const box_sandbox_record *r, box_error *err)
{
    box_cgroup_trees trees;
    box_cgroup_trees_parse(r->place, &trees);
    for (size_t i = 0; i < trees.count; i++) {
        if (settle_one(&trees.all[i], err) < 0)
            return box_wrap(err, "control groups");
    }
    return 0;
}

static int open_entry(const box_cgroup_tree *t, int *out, box_error *err)
{
    BOX_AUTO(box_closep) int dir = box_cgroup_open(t, "/box");
    *out = dir < 0 ? -1 : openat(dir, own_entry(t), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    return *out < 0 ? box_fail_errno(err, "open the sandbox's control group") : 0;
}

int box_cgroups_entries(const box_sandbox_record *r, int *fds, size_t room, box_error *err)
{
    box_cgroup_trees trees;
    box_cgroup_trees_parse(r->place, &trees);
    size_t count = 0;
    for (uint32_t version = 2; version >= 1; version--) {
        for (size_t i = 0; i < trees.count && count < room; i++) {
            if (trees.all[i].version != version)
                continue;
            if (open_entry(&trees.all[i], &fds[count], err) < 0)
                return -1;
            count++;
        }
    }
    return (int)count;
}

int box_cgroups_command_dir(const box_sandbox_record *r)
{
    box_cgroup_trees trees;
    box_cgroup_trees_parse(r->place, &trees);
    const box_cgroup_tree *t = box_cgroup_v2(&trees);
    return t != NULL ? box_cgroup_open(t, "/box/x") : -1;
}

static int controller_dir(const box_sandbox_record *r, uint32_t controller)
{
    box_cgroup_trees trees;
    box_cgroup_trees_parse(r->place, &trees);
    const box_cgroup_tree *t = box_cgroup_find(&trees, controller);
    return t != NULL ? box_cgroup_open(t, "/box") : -1;
}

int box_cgroups_process_dirs(const box_sandbox_record *r, int fds[3], box_error *err)
{
    static const uint32_t controllers[] = {BOX_CG_MEMORY, BOX_CG_PIDS, BOX_CG_CPU};
    box_cgroup_trees trees;
    box_cgroup_trees_parse(r->place, &trees);
    uint32_t version = box_cgroup_process_version(&trees);
    for (size_t i = 0; i < BOX_COUNT(controllers); i++) {
        fds[i] = version == 1 ? controller_dir(r, controllers[i]) : -1;
        if (version == 1 && fds[i] < 0)
            return box_fail_errno(err, "open the sandbox's control group");
    }
    return (int)version;
}

int box_cgroups_memory_dir(const box_sandbox_record *r)
{
    return controller_dir(r, BOX_CG_MEMORY);
}

int box_cgroups_pids_dir(const box_sandbox_record *r)
{
    return controller_dir(r, BOX_CG_PIDS);
}

static void number_or_unknown(int dir, const char *file, const char *key, int64_t *out)
{
    if (!box_proc_number(dir, file, key, out))
        *out = -1;
}

static void usage_memory(const box_cgroup_tree *t, int dir, box_warden_answer *out)
{
    bool v2 = t->version == 2;
    number_or_unknown(dir, v2 ? "memory.current" : "memory.usage_in_bytes", NULL,
                      &out->memory_bytes);
    number_or_unknown(dir, v2 ? "memory.peak" : "memory.max_usage_in_bytes", NULL,
                      &out->memory_peak_bytes);
    number_or_unknown(dir, v2 ? "memory.events" : "memory.oom_control", "oom_kill",
                      &out->oom_kills);
}

void box_cgroups_usage(const box_sandbox_record *r, box_warden_answer *out)
{
    out->memory_bytes = out->memory_peak_bytes = out->pids = out->cpu_ns = out->oom_kills = -1;
    box_cgroup_trees trees;
    box_cgroup_trees_parse(r->place, &trees);
    for (size_t i = 0; i < trees.count; i++) {
        const box_cgroup_tree *t = &trees.all[i];
        BOX_AUTO(box_closep) int dir = box_cgroup_open(t, "/box");
        int64_t usec;
        if (dir < 0)
            continue;
        if ((t->controllers & BOX_CG_MEMORY) != 0)
            usage_memory(t, dir, out);
        if ((t->controllers & BOX_CG_PIDS) != 0)
            number_or_unknown(dir, "pids.current", NULL, &out->pids);
        if ((t->controllers & BOX_CG_CPUACCT) != 0)
            number_or_unknown(dir, "cpuacct.usage", NULL, &out->cpu_ns);
        if (t->version == 2 && box_proc_number(dir, "cpu.stat", "usage_usec", &usec))
            out->cpu_ns = usec * 1000;
    }
}

bool box_cgroups_agent_oom(const box_sandbox_record *r)
{
    box_cgroup_trees trees;
    box_cgroup_trees_parse(r->place, &trees);
    const box_cgroup_tree *t = box_cgroup_find(&trees, BOX_CG_MEMORY);
    BOX_AUTO(box_closep) int dir = t != NULL ? box_cgroup_open(t, "/agent") : -1;
    int64_t kills = 0;
    return dir >= 0 &&
           box_proc_number(dir, t->version == 2 ? "memory.events" : "memory.oom_control",
                           "oom_kill", &kills) &&
           kills > 0;
}
