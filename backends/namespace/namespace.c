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
#include "namespace/child.h"
#include "namespace/image_template.h"
#include "namespace/internal.h"
#include "namespace/proc.h"
#include "namespace/program.h"
#include "namespace/seccomp.h"

enum { TEMPLATE_BYTES = 1024 };

int box_namespace_open_inside(pid_t pid, const char *path, int flags)
{
    char root[32];
    (void)snprintf(root, sizeof root, "/proc/%d/root", (int)pid);
    BOX_AUTO(box_closep) int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct open_how how = {.flags = (uint64_t)(flags | O_DIRECTORY | O_CLOEXEC),
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS};
    int fd = dir < 0 ? -1 : box_fd_open_how(dir, path, &how);
    if (fd < 0 && dir >= 0 && errno == ENOSYS) /* kernels before 5.6: root and /dev are ours */
        fd = openat(dir, path + 1, flags | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd;
}

int box_namespace_open_mounts(pid_t pid)
{
    char path[32];
    (void)snprintf(path, sizeof path, "/proc/%d/ns/mnt", (int)pid);
    return open(path, O_RDONLY | O_CLOEXEC);
}

void box_namespace_open_groups(const box_sandbox_record *record, box_sandbox_fds *fds)
{
    fds->cgroup = box_cgroups_command_dir(record);
    fds->memory = box_cgroups_memory_dir(record);
    fds->pids = box_cgroups_pids_dir(record);
}

static int namespace_adopt(box_backend *b, const box_sandbox_record *record, box_sandbox_fds *fds,
                           box_error *err)
{
    (void)b;
    if (box_proc_open(record->pid, record->start_time, &fds->pidfd, err) < 0)
        return -1;
    if (fds->pidfd < 0)
        return box_child_ended(err);
    fds->devpts = box_namespace_open_inside(record->pid, "/dev/pts", O_RDONLY);
    if (fds->devpts < 0) {
        (void)box_fail_errno(err, "open the sandbox's terminals");
        return box_proc_wait(fds->pidfd, BOX_CHILD_ENDING_MS) ? box_child_ended(err) : -1;
    }
    box_namespace_open_groups(record, fds);
    if (record->disk_bytes > 0)
        fds->image = box_namespace_open_inside(record->pid, record->mount_path, O_PATH);
    fds->mounts = box_namespace_open_mounts(record->pid);
    return 0;
}

/* A file that could not be read says nothing of groups: they are where they are made today. */
static int find_place(const box_backend *b, box_sandbox_record *record, box_error *err)
{
    return record->place[0] != '\0'
               ? 0
               : box_cgroups_place(b->cgroups, b->owner, &record->uid, record->place, err);
}

static int namespace_destroy(box_backend *b, box_sandbox_record *record, int image, int mounts,
                             uint32_t *oom, box_error *err)
{
    BOX_AUTO(box_closep) int held = image;
    BOX_AUTO(box_closep) int tree = mounts;
    BOX_AUTO(box_closep) int pidfd = -1;
    if (find_place(b, record, err) < 0)
        return -1;
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
    box_closep(&tree);
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
    BOX_AUTO(box_closep) int dir =
        box_namespace_open_inside(record->pid, record->mount_path, O_PATH);
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
        box_cgroups_open(config->cgroup, &b->cgroups, err) < 0 || box_namespace_probe(b, err) < 0)
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
    .prepare = box_namespace_prepare,
    .create = box_namespace_create,
    .adopt = namespace_adopt,
    .destroy = namespace_destroy,
    .alive = namespace_alive,
    .set_limits = namespace_set_limits,
    .usage = namespace_usage,
};
