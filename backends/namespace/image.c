#include "namespace/image.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/limits.h"
#include "namespace/image_template.h"
#include "namespace/loop.h"
#include "warden/protocol.h"

struct box_images {
    int dir;
    size_t n_templates;
    int64_t sizes[BOX_DISK_MAX_CLASSES]; /* of workspaces */
    int templates[BOX_DISK_MAX_CLASSES];
};

/* Its parent is there, or is made too. */
static int make_directory(const char *path, box_error *err)
{
    char parent[BOX_WARDEN_MAX_PATH];
    (void)snprintf(parent, sizeof parent, "%s", path);
    char *slash = strrchr(parent, '/');
    if (strlen(path) >= sizeof parent)
        return box_fail(err, BOX_VALIDATION, "disk.directory is too long");
    if (slash != NULL && slash != parent) {
        *slash = '\0';
        if (mkdir(parent, 0755) < 0 && errno != EEXIST)
            return box_fail_errno(err, "make the parent of disk.directory");
    }
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return box_fail_errno(err, "make disk.directory");
    return 0;
}

static int open_directory(const char *path, int *out, box_error *err)
{
    struct stat st;
    if (make_directory(path, err) < 0)
        return -1;
    BOX_AUTO(box_closep) int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (dir < 0 || fstat(dir, &st) < 0)
        return box_fail_errno(err, "open disk.directory");
    if (st.st_uid != geteuid())
        return box_fail(err, BOX_PERMISSION, "disk.directory is not the warden's own");
    if ((st.st_mode & 077) != 0 && fchmod(dir, 0700) < 0)
        return box_fail_errno(err, "set the mode of disk.directory");
    *out = box_take_fd(&dir);
    return 0;
}

static int add_templates(box_images *images, const box_disk_config *disk, box_error *err)
{
    const box_disk_class *classes = disk->pool.items;
    for (size_t i = 0; i < disk->pool.count; i++) {
        int64_t file_bytes = box_image_file_bytes(classes[i].bytes);
        if (box_image_template(file_bytes, &images->templates[i], err) < 0)
            return -1;
        images->sizes[i] = classes[i].bytes;
        images->n_templates++;
    }
    return 0;
}

static int open_all(box_images *images, const box_disk_config *disk, box_error *err)
{
    if (open_directory(disk->directory, &images->dir, err) < 0 ||
        add_templates(images, disk, err) < 0)
        return -1;
    BOX_AUTO(box_closep) int image = -1;
    return box_images_make(images, images->sizes[0], &image, err);
}

int box_images_open(const box_disk_config *disk, box_images **out, box_error *err)
{
    box_images *images = box_alloc(sizeof *images);
    images->dir = -1;
    if (open_all(images, disk, err) < 0) {
        box_images_close(images);
        return -1;
    }
    *out = images;
    return 0;
}

void box_images_close(box_images *images)
{
    if (images == NULL)
        return;
    for (size_t i = 0; i < images->n_templates; i++)
        box_closep(&images->templates[i]);
    box_closep(&images->dir);
    free(images);
}

/* --- making ----------------------------------------------------------------------------------- */

/* A name would have to be removed, by whoever comes after a crash: it gets none. */
static int make_file(const box_images *images, int64_t bytes, int *out, box_error *err)
{
    BOX_AUTO(box_closep) int own = -1;
    int template = -1;
    for (size_t i = 0; i < images->n_templates; i++) {
        if (images->sizes[i] == bytes)
            template = images->templates[i];
    }
    if (template <0 && box_image_template(box_image_file_bytes(bytes), &own, err) < 0)
        return -1;
    BOX_AUTO(box_closep) int file = openat(images->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file < 0)
        return box_fail_errno(err, "make a file in disk.directory");
    if (box_image_copy(template <0 ? own : template, file, err) < 0)
        return -1;
    *out = box_take_fd(&file);
    return 0;
}

static int set_option(int context, unsigned command, const char *key, const char *value,
                      box_error *err)
{
    if (fsconfig(context, command, key, value, 0) < 0)
        return box_fail_errno(err, "mount an image (%s)", key != NULL ? key : "last step");
    return 0;
}

/* Flushes for a host that may lose power are of no use to what does not survive that. The source
 * shows inside: its name says nothing of the host. */
static int mount_detached(int device, int *out, box_error *err)
{
    char source[32];
    (void)snprintf(source, sizeof source, "/proc/self/fd/%d", device);
    BOX_AUTO(box_closep) int context = fsopen("ext4", FSOPEN_CLOEXEC);
    if (context < 0)
        return box_fail_errno(err, "open ext4");
    if (set_option(context, FSCONFIG_SET_STRING, "source", source, err) < 0 ||
        set_option(context, FSCONFIG_SET_FLAG, "nobarrier", NULL, err) < 0 ||
        set_option(context, FSCONFIG_SET_FLAG, "noinit_itable", NULL, err) < 0 ||
        set_option(context, FSCONFIG_SET_STRING, "errors", "remount-ro", err) < 0 ||
        set_option(context, FSCONFIG_CMD_CREATE, NULL, NULL, err) < 0)
        return -1;
    int mount = fsmount(context, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (mount < 0)
        return box_fail_errno(err, "mount an image");
    *out = mount;
    return 0;
}

/* Only search of the top: the sandbox's user is none of its owners. */
static int lay_out(int image, box_error *err)
{
    if (unlinkat(image, "lost+found", AT_REMOVEDIR) < 0 || fchmodat(image, ".", 0711, 0) < 0 ||
        mkdirat(image, BOX_IMAGE_FILES, 0755) < 0 ||
        fchmodat(image, BOX_IMAGE_FILES, 0755, 0) < 0) /* whatever the umask */
        return box_fail_errno(err, "lay out an image");
    return 0;
}

int box_images_make(const box_images *images, int64_t bytes, int *out, box_error *err)
{
    BOX_AUTO(box_closep) int file = -1;
    BOX_AUTO(box_closep) int device = -1;
    BOX_AUTO(box_closep) int image = -1;
    box_image_room room = {0};
    if (make_file(images, bytes, &file, err) < 0 || box_loop_attach(file, &device, err) < 0 ||
        mount_detached(device, &image, err) < 0 || lay_out(image, err) < 0 ||
        box_image_free(image, &room, err) < 0)
        return -1;
    if (room.bytes < bytes)
        return box_fail(err, BOX_INTERNAL, "an image for %lld bytes has room for %lld",
                        (long long)bytes, (long long)room.bytes);
    *out = box_take_fd(&image);
    return 0;
}

/* --- use -------------------------------------------------------------------------------------- */

int box_image_free(int image, box_image_room *out, box_error *err)
{
    struct statfs fs;
    if (fstatfs(image, &fs) < 0)
        return box_fail_errno(err, "look at an image");
    *out =
        (box_image_room){.bytes = (int64_t)fs.f_bavail * fs.f_bsize, .inodes = (int64_t)fs.f_ffree};
    return 0;
}

static int reserve(int image, int64_t bytes, box_error *err)
{
    BOX_AUTO(box_closep)
    int fd = openat(image, "reserve", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || fallocate(fd, 0, 0, bytes) < 0)
        return box_fail_errno(err, "set the limit of an image");
    return 0;
}

int box_image_assign(int image, int64_t bytes, uint32_t owner, box_image_room *out, box_error *err)
{
    enum { EXTRA_SHARE = 1024, EXTRA_BYTES = 256 * 1024 };
    box_image_room room = {0};
    if (fchownat(image, BOX_IMAGE_FILES, owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
        return box_fail_errno(err, "give an image to its owner");
    if (box_image_free(image, &room, err) < 0)
        return -1;
    int64_t surplus = room.bytes - (bytes + bytes / EXTRA_SHARE + EXTRA_BYTES);
    if (surplus > 0 && reserve(image, surplus, err) < 0)
        return -1;
    return box_image_free(image, out, err);
}
