#include "floor_root.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"

#define SCAFFOLD "/mnt"

static const char *const tree_names[FLOOR_TREES] = {"usr", "etc", "dev"};
static const char *const devices[] = {"null", "zero", "full", "random", "urandom", "tty"};
static const char *const links[][2] = {{"usr/bin", "bin"},  {"usr/sbin", "sbin"},
                                       {"usr/lib", "lib"},  {"usr/lib64", "lib64"},
                                       {"/tmp", "var/tmp"}, {"/run", "var/run"}};

/* --- the template ----------------------------------------------------------------------------- */

static int restrict_tree(const char *path, uint64_t flag, box_error *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | flag};
    return mount_setattr(AT_FDCWD, path, AT_RECURSIVE, &attr, sizeof attr) < 0
               ? box_fail_errno(err, "make a mount read-only")
               : 0;
}

static int bind_device(const char *name, box_error *err)
{
    char from[32];
    char to[32];
    (void)snprintf(from, sizeof from, "/dev/%s", name);
    (void)snprintf(to, sizeof to, "dev/%s", name);
    BOX_AUTO(box_closep) int file = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0 || mount(from, to, NULL, MS_BIND, NULL) < 0)
        return box_fail_errno(err, "bind the device %s", name);
    return 0;
}

static int fill_template(box_error *err)
{
    for (size_t i = 0; i < FLOOR_TREES; i++) {
        if (mkdir(tree_names[i], 0755) < 0)
            return box_fail_errno(err, "make a directory");
    }
    if (mount("/usr", "usr", NULL, MS_BIND | MS_REC, NULL) < 0 ||
        mount("box", "etc", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m") < 0 ||
        mount("box", "dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "size=64k") < 0 ||
        mkdir("dev/pts", 0755) < 0 || mkdir("dev/shm", 0755) < 0)
        return box_fail_errno(err, "mount the template");
    for (size_t i = 0; i < BOX_COUNT(devices); i++) {
        if (bind_device(devices[i], err) < 0)
            return -1;
    }
    return restrict_tree("usr", MOUNT_ATTR_NODEV, err) < 0 ||
                   restrict_tree("etc", MOUNT_ATTR_NODEV, err) < 0
               ? -1
               : restrict_tree("dev", MOUNT_ATTR_NOEXEC, err);
}

int floor_template_open(floor_template *out, box_error *err)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("box", SCAFFOLD, "tmpfs", MS_NOSUID | MS_NODEV, "size=64k") < 0 ||
        chdir(SCAFFOLD) < 0)
        return box_fail_errno(err, "make a mount namespace");
    if (fill_template(err) < 0)
        return -1;
    for (size_t i = 0; i < FLOOR_TREES; i++) {
        out->trees[i] = open(tree_names[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (out->trees[i] < 0)
            return box_fail_errno(err, "open the template");
    }
    return 0;
}

int floor_template_clone(const floor_template *t, int trees[FLOOR_TREES], box_error *err)
{
    for (size_t i = 0; i < FLOOR_TREES; i++) {
        trees[i] = open_tree(t->trees[i], "",
                             AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        if (trees[i] < 0)
            return box_fail_errno(err, "clone the template");
    }
    return 0;
}

/* --- a root ----------------------------------------------------------------------------------- */

static bool is_mounted(const char *type, const char *path, unsigned long flags, const char *options)
{
    return mount("box", path, type, MS_NOSUID | flags, options) == 0;
}

static bool has_trees(const int trees[FLOOR_TREES])
{
    for (size_t i = 0; i < FLOOR_TREES; i++) {
        if (mkdir(tree_names[i], 0755) < 0 ||
            move_mount(trees[i], "", AT_FDCWD, tree_names[i], MOVE_MOUNT_F_EMPTY_PATH) < 0)
            return false;
    }
    if (mkdir("run", 0755) < 0 || mkdir("var", 0755) < 0)
        return false;
    for (size_t i = 0; i < BOX_COUNT(links); i++) {
        if (symlink(links[i][0], links[i][1]) < 0)
            return false;
    }
    return true;
}

/* One that this kernel does not have needs no cover. */
static bool is_covered(const char *from, const char *to, unsigned long flags)
{
    if (mount(from, to, NULL, MS_BIND, NULL) < 0)
        return errno == ENOENT || errno == ENOTDIR;
    return mount(NULL, to, NULL, MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NOEXEC | MS_RDONLY | flags,
                 NULL) == 0;
}

static bool is_proc_restricted(void)
{
    static const struct {
        const char *from; /* NULL = itself, read-only */
        const char *to;
    } covers[] = {
        {"dev/null", "proc/kcore"},
        {"dev/null", "proc/keys"},
        {"dev/null", "proc/key-users"},
        {"dev/null", "proc/timer_list"},
        {"dev/null", "proc/sched_debug"},
        {"dev/null", "proc/sysrq-trigger"},
        {"dev/null", "proc/latency_stats"},
        {"dev/null", "proc/cmdline"},
        {"dev/pts", "proc/acpi"},
        {"dev/pts", "proc/scsi"},
        {"dev/pts", "proc/asound"},
        {"dev/pts", "proc/driver"},
        {NULL, "proc/sys"},
        {NULL, "proc/bus"},
        {NULL, "proc/fs"},
        {NULL, "proc/irq"},
    };
    for (size_t i = 0; i < BOX_COUNT(covers); i++) {
        bool device = covers[i].from != NULL && strcmp(covers[i].from, "dev/null") == 0;
        const char *from = covers[i].from != NULL ? covers[i].from : covers[i].to;
        if (!is_covered(from, covers[i].to, device ? 0 : MS_NODEV))
            return false;
    }
    return true;
}

static bool has_volumes(void)
{
    return mkdir("tmp", 0755) == 0 && mkdir("home", 0755) == 0 && mkdir("workspace", 0755) == 0 &&
           is_mounted("tmpfs", "tmp", MS_NODEV, "mode=1777,size=64m,nr_inodes=16384") &&
           chown("home", 1000, 1000) == 0 && mount("home", "home", NULL, MS_BIND, NULL) == 0 &&
           is_mounted("tmpfs", "dev/shm", MS_NODEV, "mode=1777,size=16m,nr_inodes=4096") &&
           is_mounted("tmpfs", "workspace", MS_NODEV, "size=64m,nr_inodes=16384,uid=1000,gid=1000");
}

static bool has_proc(void)
{
    box_error err;
    return mkdir("proc", 0555) == 0 && is_mounted("proc", "proc", MS_NODEV | MS_NOEXEC, NULL) &&
           box_fd_write_file(AT_FDCWD, "proc/sys/user/max_user_namespaces", "0", &err) == 0 &&
           is_proc_restricted();
}

static bool is_changed(void)
{
    return syscall(SYS_pivot_root, ".", ".") == 0 && umount2(".", MNT_DETACH) == 0 &&
           chdir("/") == 0 &&
           mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) ==
               0;
}

int floor_root_build(const int trees[FLOOR_TREES])
{
    static const char devpts[] = "newinstance,max=16,ptmxmode=0666,mode=0620,uid=1000,gid=1000";
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        !is_mounted("tmpfs", SCAFFOLD, MS_NODEV, "mode=755,size=16m,nr_inodes=4352") ||
        chdir(SCAFFOLD) < 0)
        return 1;
    if (!has_trees(trees))
        return 2;
    if (!has_volumes())
        return 3;
    if (!has_proc())
        return 4;
    if (!is_mounted("devpts", "dev/pts", MS_NOEXEC, devpts))
        return 5;
    return is_changed() ? 0 : 6;
}
