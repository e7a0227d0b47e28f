#include "namespace/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "namespace/image.h"

enum {
    BLOCK = 4096,           /* one inode for each, and no size smaller: tmpfs(5) counts pages */
    ROOT_BYTES = 64 * 4096, /* directories and links alone */
    ROOT_INODES = 256,
};

/* A mount point that every host has; what it covers is only out of the child's own sight. */
#define SCAFFOLD "/usr"

static int make_dir(const char *path, mode_t mode, box_error *err)
{
    if (mkdir(path, mode) < 0 && errno != EEXIST)
        return box_fail_errno(err, "make /%s", path);
    return 0;
}

static int make_path(const char *path, box_error *err)
{
    char part[BOX_WARDEN_MAX_PATH];
    (void)snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (make_dir(part, 0755, err) < 0)
            return -1;
        *slash = '/';
    }
    return make_dir(part, 0755, err);
}

static int mount_tmpfs(const char *path, int64_t bytes, mode_t mode, uid_t owner, box_error *err)
{
    char options[160];
    long long blocks = bytes / BLOCK;
    (void)snprintf(options, sizeof options, "size=%lld,nr_inodes=%lld,mode=%o,uid=%u,gid=%u",
                   blocks * BLOCK, blocks, (unsigned)mode, (unsigned)owner, (unsigned)owner);
    if (mount("box", path, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0)
        return box_fail_errno(err, "mount /%s", path);
    return 0;
}

/* One that was mounted small; what was made in it since must fit. */
static int resize_tmpfs(const char *path, int64_t bytes, int64_t more_inodes, box_error *err)
{
    char options[96];
    long long blocks = bytes / BLOCK;
    (void)snprintf(options, sizeof options, "size=%lld,nr_inodes=%lld", blocks * BLOCK,
                   blocks + (long long)more_inodes);
    if (mount(NULL, path, NULL, MS_REMOUNT | MS_NOSUID | MS_NODEV, options) < 0)
        return box_fail_errno(err, "resize /%s", path);
    return 0;
}

static int move_tree(int tree, const char *path, box_error *err)
{
    if (move_mount(tree, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return box_fail_errno(err, "mount /%s", path);
    return 0;
}

/* Whose the sandbox's own directories are: nobody else is there with one id. */
static uid_t system_uid(box_ids ids)
{
    return ids == BOX_IDS_ONE ? BOX_INSIDE_UID : 0;
}

static int add_trees(const box_first_plan *plan, box_error *err)
{
    for (size_t i = 0; i < plan->n_trees; i++) {
        if (make_dir(plan->names[i], 0755, err) < 0 ||
            move_tree(plan->trees[i], plan->names[i], err) < 0)
            return -1;
    }
    for (size_t i = 0; i < plan->n_links; i++) {
        if (symlink(plan->links[i].target, plan->links[i].name) < 0)
            return box_fail_errno(err, "make the link /%s", plan->links[i].name);
    }
    if (make_dir("run", 0755, err) < 0 || make_dir("var", 0755, err) < 0)
        return -1;
    if (symlink("/tmp", "var/tmp") < 0 || symlink("/run", "var/run") < 0)
        return box_fail_errno(err, "make a link in /var");
    return 0;
}

/* Only what is its own of the image: the top goes again when that is cloned. */
static int mount_image(int image, const char *path, box_error *err)
{
    char files[BOX_WARDEN_MAX_PATH + sizeof BOX_IMAGE_FILES];
    (void)snprintf(files, sizeof files, "%s/" BOX_IMAGE_FILES, path);
    if (move_tree(image, path, err) < 0)
        return -1;
    BOX_AUTO(box_closep)
    int tree = open_tree(AT_FDCWD, files, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0 || umount2(path, MNT_DETACH) < 0)
        return box_fail_errno(err, "take the files of an image");
    return move_tree(tree, path, err);
}

/* A directory of the root's own file system: that is read-only by its mount, this is another. A
 * file system less, and those cost more than their mounts: see restrict_proc. */
static int add_home(box_error *err)
{
    if (make_dir("home", 0755, err) < 0)
        return -1;
    if (chown("home", BOX_INSIDE_UID, BOX_INSIDE_GID) < 0)
        return box_fail_errno(err, "give /home away");
    if (mount("home", "home", NULL, MS_BIND, NULL) < 0)
        return box_fail_errno(err, "mount /home");
    return 0;
}

/* Of the least size: an order has theirs. */
static int add_volumes(box_ids ids, box_error *err)
{
    uid_t owner = system_uid(ids);
    if (make_dir("tmp", 0755, err) < 0 || mount_tmpfs("tmp", BLOCK, 01777, owner, err) < 0 ||
        add_home(err) < 0)
        return -1;
    return mount_tmpfs("dev/shm", BLOCK, 01777, owner, err);
}

static int add_workspace(const box_first_order *order, int mounted, box_error *err)
{
    const char *path = order->mount_path + 1;
    if (make_path(path, err) < 0)
        return -1;
    switch (order->workspace) {
    case BOX_FIRST_MOUNT:
        return move_tree(mounted, path, err);
    case BOX_FIRST_IMAGE:
        return mount_image(mounted, path, err);
    case BOX_FIRST_TMPFS:
        return mount_tmpfs(path, order->workspace_bytes, 0755, BOX_INSIDE_UID, err);
    }
    return box_fail(err, BOX_INTERNAL, "no such workspace");
}

static int add_devpts(box_error *err)
{
    char options[96];
    (void)snprintf(options, sizeof options,
                   "newinstance,max=%d,ptmxmode=0666,mode=0620,uid=1000,gid=1000",
                   BOX_SANDBOX_TERMINALS);
    if (mount("devpts", "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, options) < 0)
        return box_fail_errno(err, "mount /dev/pts");
    return 0;
}

/* A mask or a restriction whose file this kernel does not have is not needed. */
static int bind_over(const char *from, const char *to, unsigned long flags, box_error *err)
{
    if (mount(from, to, NULL, MS_BIND, NULL) < 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            return 0;
        return box_fail_errno(err, "cover /%s", to);
    }
    if (mount(NULL, to, NULL, MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NOEXEC | flags, NULL) < 0)
        return box_fail_errno(err, "restrict /%s", to);
    return 0;
}

/* Directories are covered by one of the template that is empty until devpts is mounted on it. File
 * systems of their own would cost more than their mounts: the kernel keeps 16 bytes for each pair
 * of a file system and a memory control group (mm/shrinker.c), which thousands of sandboxes have.
 */
static int restrict_proc(box_error *err)
{
    static const char *const hidden[] = {
        "proc/kcore",       "proc/keys",          "proc/key-users",     "proc/timer_list",
        "proc/sched_debug", "proc/sysrq-trigger", "proc/latency_stats", "proc/cmdline"};
    static const char *const hidden_dirs[] = {"proc/acpi", "proc/scsi", "proc/asound",
                                              "proc/driver"};
    static const char *const read_only[] = {"proc/sys", "proc/bus", "proc/fs", "proc/irq"};
    for (size_t i = 0; i < BOX_COUNT(hidden); i++) {
        if (bind_over("dev/null", hidden[i], MS_RDONLY, err) < 0)
            return -1;
    }
    for (size_t i = 0; i < BOX_COUNT(hidden_dirs); i++) {
        if (bind_over("dev/pts", hidden_dirs[i], MS_RDONLY | MS_NODEV, err) < 0)
            return -1;
    }
    for (size_t i = 0; i < BOX_COUNT(read_only); i++) {
        if (bind_over(read_only[i], read_only[i], MS_RDONLY | MS_NODEV, err) < 0)
            return -1;
    }
    return 0;
}

static int add_proc(box_error *err)
{
    if (make_dir("proc", 0555, err) < 0)
        return -1;
    if (mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0) {
        int saved = errno;
        (void)box_fail_errno(err, "mount /proc");
        if (saved == EPERM) /* mount_too_revealing of the kernel's fs/namespace.c */
            (void)box_wrap(err, "parts of the host's /proc are hidden, as containers do, and so a "
                                "whole one is not to be had"); /* always -1 */
        return -1;
    }
    /* No namespaces of their own for commands; it cannot be raised again without a capability
     * (sandbox-facts.md, section 1). */
    if (box_fd_write_file(AT_FDCWD, "proc/sys/user/max_user_namespaces", "0", err) < 0)
        return box_wrap(err, "forbid user namespaces");
    return restrict_proc(err);
}

/* pivot_root(".", ".") puts the old root on top of the new one, where it is dropped. */
static int change_root(box_error *err)
{
    if (syscall(SYS_pivot_root, ".", ".") < 0)
        return box_fail_errno(err, "change the root");
    if (umount2(".", MNT_DETACH) < 0)
        return box_fail_errno(err, "drop the host's root");
    if (chdir("/") < 0)
        return box_fail_errno(err, "enter the new root");
    return 0;
}

int box_rootfs_begin(const box_first_plan *plan, box_error *err)
{
    char options[96];
    (void)snprintf(options, sizeof options, "mode=755,size=%d,nr_inodes=%d,uid=%d,gid=%d",
                   ROOT_BYTES, ROOT_INODES, (int)system_uid(plan->ids), (int)system_uid(plan->ids));
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return box_fail_errno(err, "make mounts private");
    if (mount("box", SCAFFOLD, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0 || chdir(SCAFFOLD) < 0)
        return box_fail_errno(err, "mount the new root");
    if (add_trees(plan, err) < 0 || add_volumes(plan->ids, err) < 0 || add_proc(err) < 0 ||
        add_devpts(err) < 0)
        return -1;
    return change_root(err);
}

/* Directories and links take inodes only: with those besides, all of /home's limits are its own. */
static int limit_home(int64_t bytes, box_error *err)
{
    struct statfs used;
    if (statfs("/", &used) < 0)
        return box_fail_errno(err, "look at the root");
    return resize_tmpfs("/", bytes, (int64_t)(used.f_files - used.f_ffree) - 1, err);
}

/* Then /home is one of its own: neither is to take the other's room. */
static int open_root(int64_t home_bytes, box_ids ids, box_error *err)
{
    if (resize_tmpfs("/", BOX_ROOT_BYTES, 0, err) < 0)
        return -1;
    if (umount2("home", MNT_DETACH) < 0)
        return box_fail_errno(err, "take /home off the root");
    if (mount_tmpfs("home", home_bytes, 0755, BOX_INSIDE_UID, err) < 0)
        return -1;
    if (ids != BOX_IDS_ONE && chown("/", BOX_INSIDE_UID, BOX_INSIDE_GID) < 0)
        return box_fail_errno(err, "give the root away");
    return 0;
}

static int close_root(int64_t home_bytes, box_error *err)
{
    if (limit_home(home_bytes, err) < 0)
        return -1;
    if (mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) < 0)
        return box_fail_errno(err, "make the root read-only");
    return 0;
}

int box_rootfs_finish(const box_first_order *order, box_ids ids, int workspace, box_error *err)
{
    bool writable = (order->flags & BOX_CREATE_WRITABLE_ROOT) != 0;
    if (resize_tmpfs("tmp", order->tmp_bytes, 0, err) < 0 ||
        resize_tmpfs("dev/shm", order->shm_bytes, 0, err) < 0)
        return -1;
    if (writable && open_root(order->home_bytes, ids, err) < 0) /* the workspace may be in /home */
        return -1;
    if (add_workspace(order, workspace, err) < 0)
        return -1;
    return writable ? 0 : close_root(order->home_bytes, err);
}
