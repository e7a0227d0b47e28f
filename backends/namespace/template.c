#include "namespace/template.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/limits.h"
#include "namespace/etc.h"
#include "namespace/proc.h"

#define ETC_OPTIONS "mode=755,size=40m,nr_inodes=10k"
#define DEV_OPTIONS "mode=755,size=64k,nr_inodes=64"

typedef struct tree {
    char name[16];
    int fd; /* O_PATH on the mount, in the warden's namespace */
} tree;

struct box_template {
    int root; /* O_PATH: where the trees are mounted */
    size_t n_trees;
    tree trees[BOX_TEMPLATE_MAX_TREES];
    size_t n_links;
    box_template_link links[BOX_TEMPLATE_MAX_TREES];
};

/* The path by which mount(2) reaches a name below the template's root. */
enum { FD_PATH = 64 };

static const char *fd_path(const box_template *t, const char *name, char out[FD_PATH])
{
    (void)snprintf(out, FD_PATH, "/proc/self/fd/%d/%s", t->root, name);
    return out;
}

/* For kernels without mount_setattr (before 5.12): each mount at or below `target` is remounted. */
static int remount_all(const char *target, unsigned long flags, box_error *err)
{
    char real[PATH_MAX];
    if (realpath(target, real) == NULL)
        return box_fail_errno(err, "find a mount");
    FILE *f = fopen("/proc/self/mountinfo", "re");
    if (f == NULL)
        return box_fail_errno(err, "list the mounts");
    char *line = NULL;
    size_t size = 0;
    size_t len = strlen(real);
    int rc = 0;
    while (rc == 0 && getline(&line, &size, f) > 0) {
        char point[PATH_MAX];
        if (sscanf(line, "%*d %*d %*s %*s %4095s", point) != 1 || strncmp(point, real, len) != 0 ||
            (point[len] != '\0' && point[len] != '/'))
            continue;
        if (mount(NULL, point, NULL, MS_REMOUNT | MS_BIND | flags, NULL) < 0)
            rc = box_fail_errno(err, "make a mount read-only");
    }
    free(line);
    (void)fclose(f); /* only read */
    return rc;
}

static int restrict_mount(const char *path, bool nodev, box_error *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
                                          (nodev ? MOUNT_ATTR_NODEV : MOUNT_ATTR_NOEXEC),
                              .propagation = MS_PRIVATE};
    if (mount_setattr(AT_FDCWD, path, AT_RECURSIVE, &attr, sizeof attr) == 0)
        return 0;
    if (errno != ENOSYS)
        return box_fail_errno(err, "make a mount read-only");
    if (mount(NULL, path, NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return box_fail_errno(err, "make a mount private");
    return remount_all(path, MS_RDONLY | MS_NOSUID | (nodev ? MS_NODEV : MS_NOEXEC), err);
}

/* Keeps a descriptor of what is mounted at `name` now. */
static int add_tree(box_template *t, const char *name, box_error *err)
{
    if (t->n_trees == BOX_TEMPLATE_MAX_TREES)
        return box_fail(err, BOX_INTERNAL, "too many trees");
    tree *new = &t->trees[t->n_trees];
    (void)snprintf(new->name, sizeof new->name, "%s", name);
    new->fd = openat(t->root, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (new->fd < 0)
        return box_fail_errno(err, "open the tree %s", name);
    t->n_trees++;
    return 0;
}

static int make_dir(const box_template *t, const char *name, box_error *err)
{
    if (mkdirat(t->root, name, 0755) < 0 && errno != EEXIST)
        return box_fail_errno(err, "make %s", name);
    return 0;
}

static int add_bind(box_template *t, const char *name, box_error *err)
{
    char from[32];
    char path[FD_PATH];
    (void)snprintf(from, sizeof from, "/%s", name);
    if (make_dir(t, name, err) < 0)
        return -1;
    if (mount(from, fd_path(t, name, path), NULL, MS_BIND | MS_REC, NULL) < 0)
        return box_fail_errno(err, "bind /%s", name);
    if (restrict_mount(fd_path(t, name, path), true, err) < 0)
        return box_wrap(err, "/%s", name);
    return add_tree(t, name, err);
}

static int add_etc(box_template *t, box_error *err)
{
    char path[FD_PATH];
    if (make_dir(t, "etc", err) < 0)
        return -1;
    if (mount("box", fd_path(t, "etc", path), "tmpfs", MS_NOSUID | MS_NODEV, ETC_OPTIONS) < 0)
        return box_fail_errno(err, "mount a tmpfs for /etc");
    BOX_AUTO(box_closep) int to = openat(t->root, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    BOX_AUTO(box_closep) int from = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (to < 0 || from < 0)
        return box_fail_errno(err, "open /etc");
    if (box_etc_fill(to, from, err) < 0)
        return box_wrap(err, "/etc");
    if (restrict_mount(fd_path(t, "etc", path), true, err) < 0)
        return box_wrap(err, "/etc");
    return add_tree(t, "etc", err);
}

static int bind_device(const box_template *t, int dev, const char *name, box_error *err)
{
    char from[32];
    char below[32];
    char path[FD_PATH];
    (void)snprintf(from, sizeof from, "/dev/%s", name);
    (void)snprintf(below, sizeof below, "dev/%s", name);
    struct stat st;
    if (stat(from, &st) < 0 || !S_ISCHR(st.st_mode))
        return box_fail(err, BOX_BACKEND_UNAVAILABLE, "the host has no device %s", name);
    BOX_AUTO(box_closep)
    int file = openat(dev, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0)
        return box_fail_errno(err, "create %s", name);
    if (mount(from, fd_path(t, below, path), NULL, MS_BIND, NULL) < 0)
        return box_fail_errno(err, "bind the device %s", name);
    return 0;
}

static int fill_dev(const box_template *t, int dev, box_error *err)
{
    static const char *const devices[] = {"null", "zero", "full", "random", "urandom", "tty"};
    static const char *const links[][2] = {{"/proc/self/fd", "fd"},
                                           {"/proc/self/fd/0", "stdin"},
                                           {"/proc/self/fd/1", "stdout"},
                                           {"/proc/self/fd/2", "stderr"},
                                           {"pts/ptmx", "ptmx"}};
    for (size_t i = 0; i < BOX_COUNT(devices); i++) {
        if (bind_device(t, dev, devices[i], err) < 0)
            return -1;
    }
    for (size_t i = 0; i < BOX_COUNT(links); i++) {
        if (symlinkat(links[i][0], dev, links[i][1]) < 0)
            return box_fail_errno(err, "make a link");
    }
    if (mkdirat(dev, "pts", 0755) < 0 || mkdirat(dev, "shm", 0755) < 0)
        return box_fail_errno(err, "make a directory");
    return 0;
}

static int add_dev(box_template *t, box_error *err)
{
    char path[FD_PATH];
    if (make_dir(t, "dev", err) < 0)
        return -1;
    if (mount("box", fd_path(t, "dev", path), "tmpfs", MS_NOSUID | MS_NOEXEC, DEV_OPTIONS) < 0)
        return box_fail_errno(err, "mount a tmpfs for /dev");
    BOX_AUTO(box_closep) int dev = openat(t->root, "dev", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dev < 0)
        return box_fail_errno(err, "open /dev");
    /* Without nodev: these bind mounts are the only devices a sandbox can open. */
    if (fill_dev(t, dev, err) < 0 || restrict_mount(fd_path(t, "dev", path), false, err) < 0)
        return box_wrap(err, "/dev");
    return add_tree(t, "dev", err);
}

/* /bin and its kin as on the host: a link into /usr, or a directory of its own. */
static int add_system(box_template *t, const char *name, box_error *err)
{
    char path[32];
    struct stat st;
    (void)snprintf(path, sizeof path, "/%s", name);
    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : box_fail_errno(err, "look at /%s", name);
    if (S_ISDIR(st.st_mode))
        return add_bind(t, name, err);
    box_template_link *link = &t->links[t->n_links];
    ssize_t n = readlink(path, link->target, sizeof link->target - 1);
    if (n < 0)
        return box_fail_errno(err, "read the link /%s", name);
    link->target[n] = '\0';
    if (strncmp(link->target, "usr/", 4) != 0 && strncmp(link->target, "/usr/", 5) != 0)
        return 0;
    (void)snprintf(link->name, sizeof link->name, "%s", name);
    t->n_links++;
    return 0;
}

static int build(box_template *t, const char *dir, box_error *err)
{
    static const char *const system_dirs[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};
    /* Slave, not private: an allowed root that is mounted later must be seen here. */
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
        return box_fail_errno(err, "make a mount namespace");
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return box_fail_errno(err, "make the template directory");
    if (mount("box", dir, "tmpfs", MS_NOSUID | MS_NODEV, "mode=700,size=64k,nr_inodes=64") < 0 ||
        mount(NULL, dir, NULL, MS_PRIVATE, NULL) < 0)
        return box_fail_errno(err, "mount the template directory");
    t->root = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (t->root < 0)
        return box_fail_errno(err, "open the template directory");
    if (add_bind(t, "usr", err) < 0)
        return -1;
    for (size_t i = 0; i < BOX_COUNT(system_dirs); i++) {
        if (add_system(t, system_dirs[i], err) < 0)
            return -1;
    }
    return add_etc(t, err) < 0 ? -1 : add_dev(t, err);
}

int box_template_open(const char *dir, box_template **out, box_error *err)
{
    box_template *t = box_alloc(sizeof *t);
    t->root = -1;
    if (build(t, dir, err) < 0) {
        box_template_close(t);
        return -1;
    }
    *out = t;
    return 0;
}

void box_template_close(box_template *t)
{
    if (t == NULL)
        return;
    for (size_t i = 0; i < t->n_trees; i++)
        (void)close(t->trees[i].fd); /* O_PATH: nothing can fail */
    if (t->root >= 0) {
        char path[FD_PATH];
        (void)umount2(fd_path(t, "", path), MNT_DETACH); /* so that its directory can go; from
                                                            outside its namespace it goes with it */
        (void)close(t->root);
    }
    free(t);
}

static void closep(box_template **t)
{
    box_template_close(*t);
}

int box_template_send(const box_template *t, int socket, box_error *err)
{
    if (box_fd_send(socket, t, sizeof *t, &t->root, 1, err) < 0)
        return -1;
    for (size_t i = 0; i < t->n_trees; i++) {
        if (box_fd_send(socket, "f", 1, &t->trees[i].fd, 1, err) < 0)
            return -1;
    }
    return 0;
}

int box_template_receive(int socket, int (*receive_fd)(int socket, int *out, box_error *err),
                         box_template **out, box_error *err)
{
    box_template sent;
    int root = -1;
    size_t n_fds = 1;
    if (!box_proc_wait(socket, BOX_SANDBOX_SETUP_SECONDS * 1000))
        return box_fail(err, BOX_DEADLINE, "the template is not ready");
    ssize_t n = box_fd_receive(socket, &sent, sizeof sent, &root, &n_fds, err);
    if (n < 0)
        return -1;
    BOX_AUTO(closep) box_template *t = box_alloc(sizeof *t);
    t->root = n_fds == 1 ? root : -1;
    if (n != (ssize_t)sizeof sent || n_fds != 1 || sent.n_trees > BOX_TEMPLATE_MAX_TREES ||
        sent.n_links > BOX_TEMPLATE_MAX_TREES)
        return box_fail(err, BOX_INTERNAL, "the template's maker says something odd");
    memcpy(t->links, sent.links, sizeof t->links);
    t->n_links = sent.n_links;
    for (size_t i = 0; i < sent.n_trees; i++) {
        memcpy(t->trees[i].name, sent.trees[i].name, sizeof t->trees[i].name);
        if (receive_fd(socket, &t->trees[i].fd, err) < 0)
            return -1;
        t->n_trees++;
    }
    *out = box_take(t);
    return 0;
}

int box_template_clone(const box_template *t, int fds[BOX_TEMPLATE_MAX_TREES],
                       const char *names[BOX_TEMPLATE_MAX_TREES], box_error *err)
{
    for (size_t i = 0; i < t->n_trees; i++) {
        fds[i] = open_tree(t->trees[i].fd, "",
                           AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        if (fds[i] < 0) {
            int saved = errno;
            while (i-- > 0)
                (void)close(fds[i]);
            errno = saved;
            return box_fail_errno(err, "clone a tree");
        }
        names[i] = t->trees[i].name;
    }
    return (int)t->n_trees;
}

size_t box_template_links(const box_template *t, const box_template_link **out)
{
    *out = t->links;
    return t->n_links;
}
