/* Making sandboxes: what no request decides, then what one does. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/limits.h"
#include "namespace/child.h"
#include "namespace/hostpath.h"
#include "namespace/internal.h"
#include "namespace/proc.h"
#include "warden/request.h"
#include "warden/uids.h"

/* What lies between the two, in a helper that ends after the second. */
typedef struct made {
    box_child child;
    box_sandbox_fds fds;
    size_t n_box_procs;
    uint32_t limits_version;
} made;

/* In the user namespace that the helper is root of. */
static uint32_t base_of(const box_backend *b, const box_sandbox_record *record)
{
    return b->outer != NULL ? box_outer_base(b->outer, record->uid_base) : record->uid_base;
}

/* --- before the request ----------------------------------------------------------------------- */

static void plan_init(box_first_plan *plan)
{
    *plan = (box_first_plan){.limits = {-1, -1, -1}, .cgroup = -1, .helper = -1};
}

/* Closes what plan_fill opened; agent, files and filter are borrowed. */
static void plan_done(box_first_plan *plan)
{
    for (size_t i = 0; i < plan->n_trees; i++)
        box_closep(&plan->trees[i]);
    for (size_t i = 0; i < plan->n_box_procs; i++)
        box_closep(&plan->box_procs[i]);
    for (size_t i = 0; i < BOX_COUNT(plan->limits); i++)
        box_closep(&plan->limits[i]);
    box_closep(&plan->cgroup);
}

static int plan_fill(const box_backend *b, const box_sandbox_record *record, box_first_plan *plan,
                     box_error *err)
{
    plan->n_links = box_template_links(b->template, &plan->links);
    plan->agent = b->agent;
    plan->files = b->files;
    plan->filter = b->filter;
    plan->ids = b->ids;
    int n = box_template_clone(b->template, plan->trees, plan->names, err);
    if (n < 0)
        return -1;
    plan->n_trees = (size_t)n;
    n = box_cgroups_entries(record, plan->box_procs, BOX_AGENT_MAX_BOX_PROCS, err);
    if (n < 0)
        return -1;
    plan->n_box_procs = (size_t)n;
    plan->cgroup = box_cgroups_command_dir(record);
    n = (b->guarantees & BOX_G_PROCESS_LIMITS) != 0
            ? box_cgroups_process_dirs(record, plan->limits, err)
            : 0;
    if (n < 0)
        return -1;
    plan->limits_version = (uint32_t)n;
    return 0;
}

/* Its start is written down before it goes on. */
static int start_child(const box_backend *b, box_first_plan *plan, const box_journal *journal,
                       box_sandbox_record *record, box_child *child, box_error *err)
{
    uint32_t base = base_of(b, record);
    if (box_child_start(plan, record, base, child, err) < 0)
        return -1;
    record->pid = child->pid;
    if (box_sandbox_map_ids(child->pid, base, b->ids, err) < 0 ||
        box_proc_start_time(child->pid, &record->start_time, err) < 0 ||
        (journal != NULL && journal->save(journal->owner, record, err) < 0) ||
        box_child_go(child, err) < 0)
        return -1;
    return box_child_await_built(child, err);
}

/* All that boxd gets but the image. */
static int open_made(const box_sandbox_record *record, made *m, box_error *err)
{
    m->fds.devpts = box_namespace_open_inside(record->pid, "/dev/pts", O_RDONLY);
    if (m->fds.devpts < 0)
        return box_fail_errno(err, "open the sandbox's terminals");
    m->fds.mounts = box_namespace_open_mounts(record->pid);
    box_namespace_open_groups(record, &m->fds);
    return 0;
}

static int prepare_groups(box_backend *b, const box_journal *journal, box_sandbox_record *record,
                          box_error *err)
{
    record->memory_version = box_cgroups_memory_version(b->cgroups);
    if (box_cgroups_place(b->cgroups, b->owner, &record->uid, record->place, err) < 0 ||
        journal->save(journal->owner, record, err) < 0 ||
        (b->outer != NULL && box_outer_enter(b->outer, err) < 0) ||
        box_cgroups_make(record, (uid_t)base_of(b, record), err) < 0)
        return -1;
    return box_sandbox_unshare(base_of(b, record), b->ids, err);
}

static made *new_made(void)
{
    made *m = box_alloc(sizeof *m);
    *m = (made){.child = {.pidfd = -1, .socket = -1}, .fds = {-1, -1, -1, -1, -1, -1, -1}};
    return m;
}

int box_namespace_prepare(box_backend *b, const box_journal *journal, box_sandbox_record *record,
                          box_prepared *out, box_error *err)
{
    BOX_AUTO(plan_done) box_first_plan plan;
    plan_init(&plan);
    made *m = out->own = new_made();
    if (prepare_groups(b, journal, record, err) < 0 || plan_fill(b, record, &plan, err) < 0)
        return -1;
    if (start_child(b, &plan, journal, record, &m->child, err) < 0 || open_made(record, m, err) < 0)
        return box_child_why(&m->child, err);
    m->n_box_procs = plan.n_box_procs;
    m->limits_version = plan.limits_version;
    out->watch = m->child.socket;
    return 0;
}

/* --- with it ---------------------------------------------------------------------------------- */

/* What a request has of its own. */
typedef struct parts {
    box_first_order order;
    int workspace; /* detached mount */
    int setup;
} parts;

static void parts_done(parts *p)
{
    box_closep(&p->workspace);
    box_closep(&p->setup);
}

/* Where no control group counts them the kernel bounds the processes of a user in a user namespace
 * (getrlimit(2)); with one id the agent's own and the subreapers are among them. */
static uint32_t process_limit(const box_backend *b, const box_warden_create *request)
{
    if ((b->guarantees & BOX_G_PIDS) != 0 || b->ids == BOX_IDS_BLOCK)
        return 0;
    int64_t own = b->ids == BOX_IDS_ONE ? BOX_SANDBOX_OWN_PIDS + BOX_MAX_PARALLEL_EXECS : 0;
    return (uint32_t)(request->pids + own);
}

static int make_setup(const box_backend *b, const made *m, const box_warden_create *request,
                      int *out, box_error *err)
{
    bool persistent = (request->flags & BOX_CREATE_PERSISTENT) != 0;
    box_agent_setup setup = {
        .version = BOX_AGENT_VERSION,
        .command_uid = 1000,
        .command_gid = 1000,
        .has_cgroup2 = m->fds.cgroup >= 0,
        .n_box_procs = (uint32_t)m->n_box_procs,
        .has_files = 1,
        .orphan_seconds = persistent ? BOX_AGENT_PERSISTENT_SECONDS : BOX_AGENT_ORPHAN_SECONDS,
        .flags = b->ids == BOX_IDS_ONE ? BOX_AGENT_SETUP_ONE_USER : 0,
        .max_processes = process_limit(b, request),
        .limits_version = m->limits_version,
    };
    if (request->host_path[0] == '\0')
        memcpy(setup.workspace, request->mount_path, sizeof setup.workspace);
    return box_fd_memfd("box-setup", &setup, sizeof setup, out, err);
}

/* Kernels before 6.15 clone nothing of a mount that is nowhere: there the child takes its part of
 * it, which costs an unmount. */
static int image_part(int image, parts *p, box_error *err)
{
    p->order.workspace = BOX_FIRST_MOUNT;
    p->workspace = open_tree(image, BOX_IMAGE_FILES, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (p->workspace >= 0)
        return 0;
    p->order.workspace = BOX_FIRST_IMAGE;
    p->workspace = fcntl(image, F_DUPFD_CLOEXEC, 0);
    return p->workspace < 0 ? box_fail_errno(err, "keep an image") : 0;
}

static int open_workspace(const box_backend *b, const box_warden_create *request,
                          const box_sandbox_record *record, int image, parts *p, box_error *err)
{
    if (request->host_path[0] == '\0')
        return image >= 0 ? image_part(image, p, err) : 0;
    bool read_only = (request->flags & BOX_CREATE_HOST_READ_ONLY) != 0;
    p->order.workspace = BOX_FIRST_MOUNT;
    return box_hostpath_open(b->config, request->host_path, read_only, record->uid_base,
                             &p->workspace, err);
}

static int parts_fill(const box_backend *b, const made *m, const box_warden_create *request,
                      const box_sandbox_record *record, int image, parts *p, box_error *err)
{
    p->order = (box_first_order){.flags = request->flags,
                                 .workspace = BOX_FIRST_TMPFS,
                                 .workspace_bytes = request->workspace_bytes,
                                 .tmp_bytes = request->tmp_bytes,
                                 .home_bytes = request->home_bytes,
                                 .shm_bytes = request->shm_bytes};
    memcpy(p->order.mount_path, request->mount_path, sizeof p->order.mount_path);
    return open_workspace(b, request, record, image, p, err) < 0
               ? -1
               : make_setup(b, m, request, &p->setup, err);
}

static int64_t tmpfs_sum(const box_warden_create *r, bool on_disk)
{
    int64_t sum = r->tmp_bytes + r->home_bytes + r->shm_bytes;
    sum += r->host_path[0] == '\0' && !on_disk ? r->workspace_bytes : 0;
    return sum + ((r->flags & BOX_CREATE_WRITABLE_ROOT) != 0 ? BOX_ROOT_BYTES : 0);
}

/* Limits of the private workspace, as usage is told against them. */
static int set_workspace(const box_warden_create *request, int image, box_sandbox_record *record,
                         box_error *err)
{
    box_image_room room = {0};
    if (request->host_path[0] == '\0')
        record->workspace_bytes = request->workspace_bytes;
    if (image >= 0 && box_image_assign(image, request->workspace_bytes,
                                       record->uid_base + BOX_INSIDE_UID, &room, err) < 0)
        return -1;
    record->workspace_free_bytes = room.bytes;
    record->workspace_free_inodes = room.inodes;
    return 0;
}

/* The child finishes its root while its parent does what only that can. */
static int finish(const box_warden_create *request, const parts *p, int listen_fd,
                  const box_journal *journal, box_sandbox_record *record, box_child *child,
                  box_error *err)
{
    const box_warden_limits limits = {.memory_bytes = request->memory_bytes,
                                      .pids = request->pids,
                                      .cpu_millis = request->cpu_millis};
    if (box_child_order(child, &p->order, listen_fd, p->setup, p->workspace, err) < 0 ||
        journal->save(journal->owner, record, err) < 0 ||
        box_cgroups_limit(record, &limits, err) < 0)
        return -1;
    box_sandbox_limit_ipc(request->shm_bytes);
    return box_child_go(child, err);
}

static int run_child(const box_warden_create *request, const parts *p, int listen_fd,
                     const box_journal *journal, box_sandbox_record *record, made *m,
                     box_error *err)
{
    return finish(request, p, listen_fd, journal, record, &m->child, err) < 0
               ? box_child_why(&m->child, err)
               : box_child_await_exec(&m->child, err);
}

int box_namespace_create(box_backend *b, box_prepared *prepared, const box_warden_create *request,
                         int listen_fd, int image, const box_journal *journal,
                         box_sandbox_record *record, box_sandbox_fds *fds,
                         box_warden_answer *answer, box_error *err)
{
    made *m = prepared->own;
    record->tmpfs_bytes = tmpfs_sum(request, image >= 0);
    memcpy(record->mount_path, request->mount_path, sizeof record->mount_path);
    BOX_AUTO(parts_done) parts p = {.workspace = -1, .setup = -1};
    if (set_workspace(request, image, record, err) < 0 ||
        parts_fill(b, m, request, record, image, &p, err) < 0 ||
        run_child(request, &p, listen_fd, journal, record, m, err) < 0)
        return -1;
    if (record->disk_bytes > 0)
        m->fds.image = box_namespace_open_inside(record->pid, record->mount_path, O_PATH);
    if (!box_child_runs(&m->child))
        return box_child_ended(err);
    *fds = m->fds;
    fds->pidfd = box_take_fd(&m->child.pidfd);
    answer->guarantees = b->guarantees;
    if (image < 0)
        answer->guarantees &= ~(uint32_t)BOX_G_DISK_WORKSPACE;
    answer->memory_version = record->memory_version;
    return 0;
}

/* --- the probe -------------------------------------------------------------------------------- */

static int probe_inside(const box_backend *b, pid_t *pid, box_error *err)
{
    const box_warden_create request = {.workspace_bytes = 1 << 20,
                                       .tmp_bytes = 1 << 20,
                                       .home_bytes = 1 << 20,
                                       .shm_bytes = 1 << 20,
                                       .mount_path = "/workspace"};
    box_sandbox_record record = {.uid_base = BOX_UIDS_FIRST};
    BOX_AUTO(plan_done) box_first_plan plan;
    plan_init(&plan);
    plan.probe = true;
    made m = {.child = {.pidfd = -1, .socket = -1}, .fds = {-1, -1, -1, -1, -1, -1, -1}};
    BOX_AUTO(parts_done) parts p = {.workspace = -1, .setup = -1};
    if ((b->outer != NULL && box_outer_enter(b->outer, err) < 0) ||
        box_sandbox_unshare(base_of(b, &record), b->ids, err) < 0 ||
        plan_fill(b, &record, &plan, err) < 0)
        return -1;
    int rc = start_child(b, &plan, NULL, &record, &m.child, err);
    *pid = record.pid;
    if (rc == 0 && (rc = open_made(&record, &m, err)) == 0 &&
        (rc = parts_fill(b, &m, &request, &record, -1, &p, err)) == 0 &&
        (rc = box_child_order(&m.child, &p.order, b->filter, p.setup, -1, err)) == 0 &&
        (rc = box_child_go(&m.child, err)) == 0)
        rc = box_child_await_exec(&m.child, err);
    if (record.pid > 0)
        (void)kill(record.pid, SIGKILL); /* it has ended, or is stuck; the parent reaps it */
    return rc;
}

typedef struct probe_result {
    pid_t pid; /* of the sandbox's first process, our child too; 0 = there is none */
    box_error error;
} probe_result;

int box_namespace_probe(const box_backend *b, box_error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return box_fail_errno(err, "make a pipe");
    BOX_AUTO(box_closep) int from = ends[0];
    BOX_AUTO(box_closep) int to = ends[1];
    pid_t pid = fork();
    if (pid < 0)
        return box_fail_errno(err, "start a helper");
    probe_result result = {0};
    if (pid == 0) {
        if (probe_inside(b, &result.pid, &result.error) == 0)
            result.error = (box_error){0};
        _exit(write(to, &result, sizeof result) != (ssize_t)sizeof result);
    }
    box_closep(&to);
    ssize_t n = read(from, &result, sizeof result);
    (void)waitpid(pid, NULL, 0);
    if (n != (ssize_t)sizeof result)
        return box_fail(err, BOX_INTERNAL, "the probe ended without a word");
    if (result.pid > 0)
        (void)waitpid(result.pid, NULL, 0);
    if (result.error.reason == BOX_NONE)
        return 0;
    *err = result.error;
    return -1;
}
