#include "namespace/hostpath.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "warden/request.h"

enum { INSIDE_ID = 1000 };

/* Never mounted, not even below an allowed root: these, what is beneath them and what is above. */
static const char *const system_trees[] = {
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/sys",
    "/usr",
    "/var/run",
    "/var/lib/box",
    "/var/lib/docker",
    "/var/lib/containerd",
    "/var/lib/containers",
    NULL,
};

static int refuse(box_error *err, const char *text)
{
    (void)box_fail(err, BOX_PERMISSION, "host_path: %s", text);
    box_error_add(err, "rule", "mount"); /* box/v1/types.proto, Mount.host_path */
    return -1;
}

static bool overlaps(const char *path, const char *dir)
{
    return box_path_within(path, dir) || box_path_within(dir, path);
}

static int check_system(const box_warden_config *config, const char *path, box_error *err)
{
    for (size_t i = 0; system_trees[i] != NULL; i++) {
        if (overlaps(path, system_trees[i]))
            return refuse(err, "directories of the host's system are never mounted");
    }
    const char *disk = config->disk.directory;
    if (overlaps(path, config->instance_dir) || (disk != NULL && overlaps(path, disk)))
        return refuse(err, "Box's own state is never mounted");
    return 0;
}

int box_hostpath_rule(const box_warden_config *config, const char *path,
                      const box_allowed_root **out, box_error *err)
{
    if (check_system(config, path, err) < 0)
        return -1;
    const box_allowed_root *roots = config->allowed_roots.items;
    const box_allowed_root *best = NULL;
    for (size_t i = 0; i < config->allowed_roots.count; i++) {
        if (box_path_within(path, roots[i].path) &&
            (best == NULL || strlen(roots[i].path) > strlen(best->path)))
            best = &roots[i];
    }
    if (best == NULL)
        return refuse(err, "lies beneath no allowed root");
    *out = best;
    return 0;
}

static int open_beneath(int dir, const char *path, uint64_t resolve)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = resolve};
    return box_fd_open_how(dir, path, &how);
}

/* Links beneath the root may lead elsewhere beneath it: what was reached is checked again. */
static int check_reached(const box_warden_config *config, int dir, box_error *err)
{
    char link[48];
    char path[BOX_WARDEN_MAX_PATH * 4];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0 || (size_t)n >= sizeof path - 1)
        return box_fail_errno(err, "host_path");
    path[n] = '\0';
    return check_system(config, path, err);
}

static int open_source(const box_warden_config *config, const box_allowed_root *root,
                       const char *path, int *out, box_error *err)
{
    BOX_AUTO(box_closep)
    int top = open_beneath(AT_FDCWD, root->path, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
    if (top < 0 && errno == ELOOP)
        return refuse(err, "the allowed root is a link");
    if (top < 0)
        return box_fail_errno(err, "host_path: open the allowed root");
    const char *rest = path + strlen(root->path);
    rest += strspn(rest, "/");
    BOX_AUTO(box_closep) int dir =
        open_beneath(top, rest[0] != '\0' ? rest : ".", RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
    if (dir < 0 && (errno == EXDEV || errno == ELOOP))
        return refuse(err, "leads out of the allowed root");
    if (dir < 0)
        return box_fail_errno(err, "host_path");
    if (check_reached(config, dir, err) < 0)
        return -1;
    *out = box_take_fd(&dir);
    return 0;
}

static int write_map(pid_t pid, const char *file, const char *text, box_error *err)
{
    char path[48];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    return box_fd_write_file(AT_FDCWD, path, text, err);
}

/* A user namespace that says: `owner` on disk is `shown` here. It lives as long as its descriptor;
 * the child that makes it is gone at once. */
static int idmap_namespace(uint32_t owner, uint32_t shown, int *out, box_error *err)
{
    int sync[2];
    if (pipe2(sync, O_CLOEXEC) < 0)
        return box_fail_errno(err, "make a pipe");
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, NULL, NULL, 0);
    if (pid == 0) {
        char byte;
        (void)close(sync[1]);
        (void)!read(sync[0], &byte, 1); /* ends when the parent closes */
        _exit(0);
    }
    (void)close(sync[0]);
    BOX_AUTO(box_closep) int hold = sync[1];
    if (pid < 0)
        return box_fail_errno(err, "make a user namespace");
    char map[48];
    char path[48];
    (void)snprintf(map, sizeof map, "%u %u 1", owner, shown);
    (void)snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
    int rc = write_map(pid, "uid_map", map, err);
    rc = rc < 0 ? rc : write_map(pid, "gid_map", map, err);
    int fd = rc < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (rc == 0 && fd < 0)
        rc = box_fail_errno(err, "open a user namespace");
    box_closep(&hold);
    (void)waitpid(pid, NULL, 0); /* it ends when the pipe does */
    if (rc == 0)
        *out = fd;
    return rc;
}

int box_hostpath_open(const box_warden_config *config, const char *path, bool read_only,
                      uint32_t uid_base, int *out, box_error *err)
{
    const box_allowed_root *root;
    BOX_AUTO(box_closep) int source = -1;
    BOX_AUTO(box_closep) int names = -1;
    if (box_hostpath_rule(config, path, &root, err) < 0 ||
        open_source(config, root, path, &source, err) < 0 ||
        idmap_namespace((uint32_t)root->owner_uid, uid_base + INSIDE_ID, &names, err) < 0)
        return -1;
    BOX_AUTO(box_closep)
    int tree = open_tree(source, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0)
        return box_fail_errno(err, "host_path: clone the mount");
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_IDMAP |
                                          (read_only ? MOUNT_ATTR_RDONLY : 0),
                              .propagation = MS_PRIVATE,
                              .userns_fd = (uint64_t)names};
    if (mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0) {
        if (errno == EINVAL || errno == ENOSYS)
            return box_guarantee_fail(err, "namespace", BOX_G_HOST_MOUNT, "host_path");
        return box_fail_errno(err, "host_path: restrict the mount");
    }
    *out = box_take_fd(&tree);
    return 0;
}
