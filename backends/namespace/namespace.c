#include "namespace/namespace.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/limits.h"
#include "namespace/cgroup.h"
#include "namespace/child.h"
#include "namespace/hostpath.h"
#include "namespace/image.h"
#include "namespace/image_template.h"
#include "namespace/outer.h"
#include "namespace/proc.h"
#include "namespace/program.h"
#include "namespace/rootfs.h"
#include "namespace/sandbox.h"
#include "namespace/seccomp.h"
#include "warden/config.h"
#include "warden/request.h"
#include "warden/uids.h"

enum { TEMPLATE_BYTES = 1024 };

struct box_backend {
    const box_warden_config *config;
    box_cgroups *cgroups;
    box_template *template;
    box_images *images; /* NULL = none */
    box_outer *outer;   /* NULL: the warden is root */
    box_ids ids;
    char owner[48]; /* of its control groups: names instance_dir */
    int agent;
    int files;
    int filter;
    uint32_t guarantees;
};

/* --- create ----------------------------------------------------------------------------------- */

static void plan_init(box_sandbox_plan *plan)
{
    *plan = (box_sandbox_plan){.workspace = -1,
                               .limits = {-1, -1, -1},
                               .image = -1,
                               .setup = -1,
                               .cgroup = -1,
                               .report = -1,
                               .go = -1};
}

/* Closes what plan_fill opened; agent, files, filter, image and listen are borrowed. */
static void plan_done(box_sandbox_plan *plan)
{
    for (size_t i = 0; i < plan->n_trees; i++)
        box_closep(&plan->trees[i]);
    for (size_t i = 0; i < plan->n_box_procs; i++)
        box_closep(&plan->box_procs[i]);
    for (size_t i = 0; i < BOX_COUNT(plan->limits); i++)
        box_closep(&plan->limits[i]);
    box_closep(&plan->workspace);
    box_closep(&plan->setup);
    box_closep(&plan->cgroup);
    box_closep(&plan->report);
    box_closep(&plan->go);
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

static int plan_setup(const box_backend *b, box_sandbox_plan *plan, box_error *err)
{
    bool persistent = (plan->request->flags & BOX_CREATE_PERSISTENT) != 0;
    box_agent_setup setup = {
        .version = BOX_AGENT_VERSION,
        .command_uid = 1000,
        .command_gid = 1000,
        .has_cgroup2 = plan->cgroup >= 0,
        .n_box_procs = (uint32_t)plan->n_box_procs,
        .has_files = 1,
        .orphan_seconds = persistent ? BOX_AGENT_PERSISTENT_SECONDS : BOX_AGENT_ORPHAN_SECONDS,
        .flags = b->ids == BOX_IDS_ONE ? BOX_AGENT_SETUP_ONE_USER : 0,
        .max_processes = process_limit(b, plan->request),
        .limits_version = plan->limits_version,
    };
    if (plan->request->host_path[0] == '\0')
        memcpy(setup.workspace, plan->request->mount_path, sizeof setup.workspace);
    return box_fd_memfd("box-setup", &setup, sizeof setup, &plan->setup, err);
}

static int plan_fill(const box_backend *b, const box_warden_create *request,
                     const box_sandbox_record *record, int listen_fd, box_sandbox_plan *plan,
                     box_error *err)
{
    plan->request = request;
    plan->n_links = box_template_links(b->template, &plan->links);
    plan->agent = b->agent;
    plan->files = b->files;
    plan->filter = b->filter;
    plan->listen = listen_fd;
    plan->ids = b->ids;
    int n = box_template_clone(b->template, plan->trees, plan->names, err);
    if (n < 0)
        return -1;
    plan->n_trees = (size_t)n;
    bool read_only = (request->flags & BOX_CREATE_HOST_READ_ONLY) != 0;
    if (request->host_path[0] != '\0' &&
        box_hostpath_open(b->config, request->host_path, read_only, record->uid_base,
                          &plan->workspace, err) < 0)
        return -1;
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
    return plan_setup(b, plan, err);
}

static int64_t tmpfs_sum(const box_warden_create *r, bool on_disk)
{
    int64_t sum = r->tmp_bytes + r->home_bytes + r->shm_bytes;
    sum += r->host_path[0] == '\0' && !on_disk ? r->workspace_bytes : 0;
    return sum + ((r->flags & BOX_CREATE_WRITABLE_ROOT) != 0 ? BOX_ROOT_BYTES : 0);
}

/* How long a process that was killed may still be about to end: its files and root are gone before
 * its pidfd tells. */
enum { ENDING_MS = 1000 };

static int has_ended(box_error *err)
{
    (void)box_fail(err, BOX_SESSION_BROKEN, "the sandbox's first process has ended");
    box_error_add(err, "cause", "killed");
    return -1;
}

/* In the user namespace that the helper is root of. */
static uint32_t base_of(const box_backend *b, const box_sandbox_record *record)
{
    return b->outer != NULL ? box_outer_base(b->outer, record->uid_base) : record->uid_base;
}

/* What only the parent can do for the child; meanwhile the child builds its root. */
static int prepare_child(const box_warden_create *request, const box_journal *journal,
                         box_sandbox_record *record, uint32_t base, box_ids ids, box_child *child,
                         box_error *err)
{
    const box_warden_limits limits = {.memory_bytes = request->memory_bytes,
                                      .pids = request->pids,
                                      .cpu_millis = request->cpu_millis};
    if (box_sandbox_map_ids(child->pid, base, ids, err) < 0 || box_child_go(child, err) < 0 ||
        box_proc_start_time(child->pid, &record->start_time, err) < 0 ||
        journal->save(journal->owner, record, err) < 0 ||
        box_cgroups_limit(record, &limits, err) < 0)
        return -1;
    box_sandbox_limit_ipc(request->shm_bytes);
    return box_child_go(child, err);
}

static int run_child(const box_backend *b, const box_warden_create *request,
                     const box_journal *journal, box_sandbox_plan *plan, box_sandbox_record *record,
                     box_error *err)
{
    BOX_AUTO(box_child_done) box_child child = {.pidfd = -1, .report = -1, .go = -1};
    uint32_t base = base_of(b, record);
    if (box_child_start(plan, base, &child, err) < 0)
        return -1;
    record->pid = child.pid;
    if (prepare_child(request, journal, record, base, b->ids, &child, err) == 0)
        return box_child_await(&child, err);
    /* Of a child that has ended its end is why: it said so, or it was killed. */
    if (!box_proc_wait(child.pidfd, ENDING_MS))
        return -1;
    return box_child_await(&child, err) < 0 ? -1 : has_ended(err);
}

static int namespace_adopt(box_backend *b, const box_sandbox_record *record, box_sandbox_fds *fds,
                           box_error *err);

/* Kernels before 6.15 clone nothing of a mount that is nowhere: there the child takes its part of
 * it, which costs an unmount. */
static void plan_image(box_sandbox_plan *plan, int image)
{
    plan->workspace = open_tree(image, BOX_IMAGE_FILES, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    plan->image = plan->workspace < 0 ? image : -1;
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

static int namespace_prepare(box_backend *b, const box_journal *journal, box_sandbox_record *record,
                             box_error *err)
{
    record->memory_version = box_cgroups_memory_version(b->cgroups);
    if (box_cgroups_place(b->cgroups, b->owner, &record->uid, record->place, err) < 0 ||
        journal->save(journal->owner, record, err) < 0 ||
        (b->outer != NULL && box_outer_enter(b->outer, err) < 0) ||
        box_cgroups_make(record, (uid_t)base_of(b, record), err) < 0 ||
        box_sandbox_unshare(base_of(b, record), b->ids, err) < 0)
        return -1;
    return box_cgroups_enter(record, err);
}

static int namespace_create(box_backend *b, const box_warden_create *request, int listen_fd,
                            int image, const box_journal *journal, box_sandbox_record *record,
                            box_sandbox_fds *fds, box_warden_answer *answer, box_error *err)
{
    record->tmpfs_bytes = tmpfs_sum(request, image >= 0);
    memcpy(record->mount_path, request->mount_path, sizeof record->mount_path);
    if (set_workspace(request, image, record, err) < 0)
        return -1;
    BOX_AUTO(plan_done) box_sandbox_plan plan;
    plan_init(&plan);
    if (image >= 0)
        plan_image(&plan, image);
    if (plan_fill(b, request, record, listen_fd, &plan, err) < 0 ||
        run_child(b, request, journal, &plan, record, err) < 0 ||
        namespace_adopt(b, record, fds, err) < 0)
        return -1;
    answer->guarantees = b->guarantees;
    if (image < 0)
        answer->guarantees &= ~(uint32_t)BOX_G_DISK_WORKSPACE;
    answer->memory_version = record->memory_version;
    return 0;
}

/* --- the other operations --------------------------------------------------------------------- */

/* A directory of the sandbox's own view. Links could only be the sandbox's work: none is
 * followed. */
static int open_inside(pid_t pid, const char *path, int flags)
{
    char root[32];
    (void)snprintf(root, sizeof root, "/proc/%d/root", (int)pid);
    BOX_AUTO(box_closep) int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct open_how how = {.flags = (uint64_t)(flags | O_DIRECTORY | O_CLOEXEC),
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS};
    int fd = dir < 0 ? -1 : (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
    if (fd < 0 && dir >= 0 && errno == ENOSYS) /* kernels before 5.6: root and /dev are ours */
        fd = openat(dir, path + 1, flags | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd;
}

static int namespace_adopt(box_backend *b, const box_sandbox_record *record, box_sandbox_fds *fds,
                           box_error *err)
{
    (void)b;
    if (box_proc_open(record->pid, record->start_time, &fds->pidfd, err) < 0)
        return -1;
    if (fds->pidfd < 0)
        return has_ended(err);
    fds->devpts = open_inside(record->pid, "/dev/pts", O_RDONLY);
    if (fds->devpts < 0) {
        (void)box_fail_errno(err, "open the sandbox's terminals");
        return box_proc_wait(fds->pidfd, ENDING_MS) ? has_ended(err) : -1;
    }
    fds->cgroup = box_cgroups_command_dir(record);
    fds->memory = box_cgroups_memory_dir(record);
    fds->pids = box_cgroups_pids_dir(record);
    if (record->disk_bytes > 0)
        fds->image = open_inside(record->pid, record->mount_path, O_PATH);
    return 0;
}

static int namespace_destroy(box_backend *b, const box_sandbox_record *record, int image,
                             uint32_t *oom, box_error *err)
{
    BOX_AUTO(box_closep) int held = image;
    BOX_AUTO(box_closep) int pidfd = -1;
    if (box_proc_open(record->pid, record->start_time, &pidfd, err) < 0)
        return -1;
    *oom = box_cgroups_agent_oom(record);
    box_cgroups_lift_cpu(record);
    if (pidfd >= 0) {
        if (pidfd_send_signal(pidfd, SIGKILL, NULL, 0) < 0 && errno != ESRCH)
            return box_fail_errno(err, "kill the sandbox");
        if (!box_proc_wait(pidfd, BOX_SANDBOX_KILL_SECONDS * 1000))
            return box_fail(err, BOX_DEADLINE, "the sandbox does not die");
    }
    box_closep(&held); /* unmounted, detached, removed: some ms, more when it was written a lot */
    /* What the agent made belongs to an id of the sandbox, which is another user's out here. */
    if (b->outer != NULL && box_outer_enter(b->outer, err) < 0)
        return -1;
    return box_cgroups_remove(record, err);
}

static int namespace_alive(box_backend *b, const box_sandbox_record *record, box_alive *out,
                           box_error *err)
{
    (void)b;
    BOX_AUTO(box_closep) int pidfd = -1;
    if (box_proc_open(record->pid, record->start_time, &pidfd, err) < 0)
        return -1;
    *out = pidfd >= 0 && !box_proc_wait(pidfd, 0) ? BOX_ALIVE : BOX_DEAD;
    return 0;
}

static int namespace_set_limits(box_backend *b, const box_sandbox_record *record,
                                const box_warden_limits *limits, box_error *err)
{
    (void)b;
    return box_cgroups_limit(record, limits, err);
}

/* Inside, only the view of a file system tells: what the sandbox may have put in the way is none
 * of that kind and size. */
static void usage_of_tmpfs(const box_sandbox_record *record, box_warden_answer *out)
{
    BOX_AUTO(box_closep) int dir = open_inside(record->pid, record->mount_path, O_PATH);
    struct statfs fs;
    if (dir < 0 || fstatfs(dir, &fs) < 0 || fs.f_type != 0x01021994 /* TMPFS_MAGIC */ ||
        (int64_t)fs.f_blocks != record->workspace_bytes / fs.f_bsize)
        return;
    out->workspace_bytes = (int64_t)(fs.f_blocks - fs.f_bfree) * fs.f_bsize;
    out->workspace_limit_bytes = (int64_t)fs.f_blocks * fs.f_bsize;
    out->workspace_inodes = (int64_t)(fs.f_files - fs.f_ffree);
    out->workspace_inode_limit = (int64_t)fs.f_files;
}

static int64_t difference(int64_t before, int64_t now)
{
    return before > now ? before - now : 0;
}

static void usage_of_image(const box_sandbox_record *record, int image, box_warden_answer *out)
{
    box_image_room room;
    box_error ignored; /* a number that is not known is absent */
    if (image < 0 || box_image_free(image, &room, &ignored) < 0)
        return;
    out->workspace_bytes = difference(record->workspace_free_bytes, room.bytes);
    out->workspace_limit_bytes = record->workspace_bytes;
    out->workspace_inodes = difference(record->workspace_free_inodes, room.inodes);
    out->workspace_inode_limit = record->workspace_free_inodes;
}

static int namespace_usage(box_backend *b, const box_sandbox_record *record, int image,
                           box_warden_answer *out, box_error *err)
{
    (void)b;
    (void)err;
    box_cgroups_usage(record, out);
    out->workspace_bytes = -1;
    if (record->disk_bytes > 0)
        usage_of_image(record, image, out);
    else if (record->workspace_bytes > 0)
        usage_of_tmpfs(record, out);
    return 0;
}

static int namespace_make_image(box_backend *b, int64_t bytes, int *out, box_error *err)
{
    return b->images != NULL ? box_images_make(b->images, bytes, out, err)
                             : box_fail(err, BOX_INTERNAL, "there are no workspaces on disk");
}

/* --- open ------------------------------------------------------------------------------------- */

static uint32_t kernel_guarantees(const box_backend *b)
{
    uint32_t bits = BOX_G_FILESYSTEM | BOX_G_PROCESS | BOX_G_NETWORK_OFF | BOX_G_USER |
                    BOX_G_SECCOMP | BOX_G_WORKSPACE_LIMIT | BOX_G_READ_ONLY_ROOT |
                    BOX_G_WRITABLE_ROOT | BOX_G_AGENT_SEPARATED | BOX_G_PERSISTENT;
    if (b->ids == BOX_IDS_ONE)
        bits &= ~(uint32_t)(BOX_G_USER | BOX_G_AGENT_SEPARATED);
    if (b->outer != NULL)
        return bits; /* only root makes idmapped mounts */
    struct open_how how = {0};
    struct mount_attr attr = {0};
    bool resolves = syscall(SYS_openat2, -1, "x", &how, sizeof how) == 0 || errno != ENOSYS;
    bool idmaps = mount_setattr(-1, "x", 0, &attr, sizeof attr) == 0 || errno != ENOSYS;
    return resolves && idmaps ? bits | BOX_G_HOST_MOUNT : bits;
}

static int probe_inside(const box_backend *b, pid_t *pid, box_error *err)
{
    const box_warden_create request = {.workspace_bytes = 1 << 20,
                                       .tmp_bytes = 1 << 20,
                                       .home_bytes = 1 << 20,
                                       .shm_bytes = 1 << 20,
                                       .mount_path = "/workspace"};
    const box_sandbox_record record = {.uid_base = BOX_UIDS_FIRST};
    BOX_AUTO(plan_done) box_sandbox_plan plan;
    plan_init(&plan);
    if ((b->outer != NULL && box_outer_enter(b->outer, err) < 0) ||
        box_sandbox_unshare(base_of(b, &record), b->ids, err) < 0 ||
        plan_fill(b, &request, &record, b->filter, &plan, err) < 0)
        return -1;
    plan.probe = true;
    BOX_AUTO(box_child_done) box_child child = {.pidfd = -1, .report = -1, .go = -1};
    if (box_child_start(&plan, base_of(b, &record), &child, err) < 0)
        return -1;
    *pid = child.pid;
    int rc = box_sandbox_map_ids(child.pid, base_of(b, &record), b->ids, err);
    rc = rc < 0 ? rc : box_child_go(&child, err);
    rc = rc < 0 ? rc : box_child_go(&child, err);
    rc = rc < 0 ? rc : box_child_await(&child, err);
    (void)pidfd_send_signal(child.pidfd, SIGKILL, NULL, 0); /* it has ended, or is stuck */
    return rc;
}

typedef struct probe_result {
    pid_t pid; /* of the sandbox's first process, our child too; 0 = there is none */
    box_error error;
} probe_result;

/* Everything up to the agent's start is done for real once, in a process as a helper's, so that a
 * host that cannot do it says so now. */
static int probe(const box_backend *b, box_error *err)
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

static void namespace_close(box_backend *b)
{
    if (b == NULL)
        return;
    box_template_close(b->template);
    box_images_close(b->images);
    box_outer_close(b->outer);
    box_cgroups_close(b->cgroups);
    box_closep(&b->agent);
    box_closep(&b->files);
    box_closep(&b->filter);
    free(b);
}

static void closep(box_backend **b)
{
    namespace_close(*b);
}

static int open_template(box_backend *b, const char *dir, box_error *err)
{
    b->ids = BOX_IDS_BLOCK;
    if (geteuid() == 0)
        return box_template_open(dir, &b->template, err);
    if (box_outer_open(dir, &b->outer, &b->template, err) < 0)
        return -1;
    b->ids = box_outer_ids(b->outer);
    return 0;
}

static const char *privilege(const box_backend *b)
{
    if (b->outer == NULL)
        return "";
    return b->ids == BOX_IDS_ONE ? ", no root, one user id" : ", no root";
}

/* A directory's device and inode are no other's on this host while it is there. */
static int name_owner(const char *instance_dir, char *out, size_t size, box_error *err)
{
    struct stat st;
    if (stat(instance_dir, &st) < 0)
        return box_fail_errno(err, "look at instance_dir");
    (void)snprintf(out, size, "%llx-%llx", (unsigned long long)st.st_dev,
                   (unsigned long long)st.st_ino);
    return 0;
}

static int open_filter(bool one_user, int *out, box_error *err)
{
    BOX_AUTO(box_buf_done) box_buf program = {0};
    if (box_seccomp_compile(one_user, &program, err) < 0)
        return -1;
    return box_fd_memfd("box-filter", box_buf_data(&program), box_buf_len(&program), out, err);
}

/* Where they are configured and the host can have them; else `why` is what the report says. */
static bool open_images(box_backend *b, char *why, size_t size)
{
    box_error err = {0};
    const box_disk_config *disk = &b->config->disk;
    if (disk->directory == NULL)
        (void)snprintf(why, size, "no disk.directory");
    else if (b->outer != NULL)
        (void)snprintf(why, size, "no workspaces on disk: loop devices need root");
    else if (box_images_open(disk, &b->images, &err) < 0)
        (void)snprintf(why, size, "no workspaces on disk: %.120s", err.msg);
    else
        (void)snprintf(why, size, "workspaces on disk");
    return b->images != NULL;
}

static int namespace_open(const struct box_warden_config *config, box_backend **out,
                          uint32_t *guarantees, char detail[BOX_WARDEN_MAX_NAME], box_error *err)
{
    BOX_AUTO(closep) box_backend *b = box_alloc(sizeof *b);
    *b = (box_backend){.config = config, .agent = -1, .files = -1, .filter = -1};
    char dir[TEMPLATE_BYTES + 8];
    (void)snprintf(dir, sizeof dir, "%s/root", config->instance_dir);
    if (name_owner(config->instance_dir, b->owner, sizeof b->owner, err) < 0 ||
        box_program_open(config->agent, "box-agent", &b->agent, err) < 0 ||
        box_program_open_files(config->agent, &b->files, err) < 0 ||
        open_template(b, dir, err) < 0 || open_filter(b->ids == BOX_IDS_ONE, &b->filter, err) < 0 ||
        box_cgroups_open(config->cgroup, &b->cgroups, err) < 0 || probe(b, err) < 0)
        return -1;
    b->guarantees = kernel_guarantees(b) | box_cgroups_guarantees(b->cgroups);
    if (b->ids == BOX_IDS_ONE) /* commands could raise what is the agent's to set */
        b->guarantees &= ~(uint32_t)BOX_G_PROCESS_LIMITS;
    struct utsname host;
    char disk[160];
    (void)uname(&host); /* fails only for a bad pointer */
    if (open_images(b, disk, sizeof disk))
        b->guarantees |= BOX_G_DISK_WORKSPACE;
    (void)snprintf(detail, BOX_WARDEN_MAX_NAME, "cgroup %s, kernel %.32s%s, %s",
                   box_cgroups_kind(b->cgroups), host.release, privilege(b), disk);
    *guarantees = b->guarantees;
    *out = box_take(b);
    return 0;
}

const box_backend_ops box_namespace_ops = {
    .name = "namespace",
    .isolation = 1, /* process */
    .pid1_is_all = true,
    .open = namespace_open,
    .close = namespace_close,
    .image_file_bytes = box_image_file_bytes,
    .make_image = namespace_make_image,
    .prepare = namespace_prepare,
    .create = namespace_create,
    .adopt = namespace_adopt,
    .destroy = namespace_destroy,
    .alive = namespace_alive,
    .set_limits = namespace_set_limits,
    .usage = namespace_usage,
};
